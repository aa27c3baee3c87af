"""The loads of advice: traffic, targets, and the best drafts at each load of a chip."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Annotated, Any, Final, Literal

import numpy as np
import numpy.typing as npt

from specroof import quantities as q
from specroof.acceptance import Acceptance, constant_acceptance
from specroof.arrays import Array, BoolArray, number_within
from specroof.outcomes.outcomes import Outcomes, PlayedRequests
from specroof.outcomes.rows import LoadRow, load_fields
from specroof.policies.decision import (
    Decisions,
    RoundBreakdown,
    bottlenecks,
    decide,
    is_late,
)
from specroof.policies.schedule import Day, Traffic, advised_day, best_schedule, drafts_at
from specroof.questions.predict import Prediction
from specroof.serving.end_to_end import EndToEnd
from specroof.serving.played import PlayedLoads
from specroof.serving.served import served_curve
from specroof.serving.workload import Load, Workload
from specroof.speedup.inverses import least_rate
from specroof.speedup.price import Money
from specroof.speedup.result import UNCLEAR, SpeedupCurve, best_index, within_measured
from specroof.units import MILLISECOND

# --- The advice at each load: values -------------------------------------------------------------


#: Whether targets are met, as far as bands say.
Outcome = Literal["yes", "no", "unclear"]


@dataclass(frozen=True, slots=True)
class Targets:
    """Promises to users; None for no promise.

    Parameters
    ----------
    ttft_ms, tpot_ms
        Milliseconds until the first token, and of each token after it.
    min_speedup
        The least speedup that is worth it.
    """

    ttft_ms: float | None = None
    tpot_ms: float | None = None
    min_speedup: float | None = None

    def __post_init__(self) -> None:
        for name in ("ttft_ms", "tpot_ms", "min_speedup"):
            if getattr(self, name) is not None:
                number_within(name, getattr(self, name), "target")

    @property
    def least_speedup(self) -> float:
        """The speedup from which drafting pays."""
        return max(1.0, self.min_speedup or 1.0)

    @property
    def seconds(self) -> tuple[float, float]:
        """Seconds until the first token, and of each token after it; infinite for no promise."""
        first_ms, later_ms = (np.inf if ms is None else ms for ms in (self.ttft_ms, self.tpot_ms))
        return first_ms * MILLISECOND, later_ms * MILLISECOND

    def met(self, ttft_s: Any, tpot_s: Any) -> Any:
        """Return whether expected waits are short enough: what draft lengths are chosen by."""
        most_ttft_s, most_tpot_s = self.seconds
        return (np.asarray(ttft_s) <= most_ttft_s) & (np.asarray(tpot_s) <= most_tpot_s)

    def outcomes(
        self, waits_s: Sequence[Array], bands: Sequence[tuple[Array, Array] | None]
    ) -> npt.NDArray[np.str_]:
        """Return whether they are met, as far as bands say: `Outcome` at each point.

        Parameters
        ----------
        waits_s
            Seconds until the first token, and of each token after it: of p99 where it is known.
        bands
            Ends of the bands of these two, over their middles; None where there is no band.
        """
        least, most = (
            self.met(
                *(
                    waits if band is None else waits * band[end]
                    for waits, band in zip(waits_s, bands, strict=True)
                )
            )
            for end in (0, 1)
        )
        return np.where(most, "yes", np.where(least, "unclear", "no"))


@dataclass(frozen=True, slots=True)
class Mix:
    """Requests of several sizes.

    Parameters
    ----------
    sizes
        Input and output lengths.
    weights
        How many requests are of each size, in any unit.
    """

    sizes: tuple[Workload, ...]
    weights: tuple[float, ...]

    @property
    def workload(self) -> Workload:
        """The mean request.

        Ignores
            that the pass of a long prompt takes more than its share: attention, some percent.

        Examples
        --------
        >>> Mix((Workload(1000, 100), Workload(3000, 500)), (3.0, 1.0)).workload
        Workload(input_len=1500.0, output_len=200.0, prefix_hit_rate=0.0)
        """
        total = sum(self.weights)
        means = (
            sum(w * getattr(size, name) for w, size in zip(self.weights, self.sizes, strict=True))
            for name in ("input_len", "output_len")
        )
        return Workload(*(mean / total for mean in means))

    @property
    def mean_context_len(self) -> float:
        """Cached tokens of a sequence that is being decoded, on average: long answers stay longer.

        Examples
        --------
        >>> Mix((Workload(1000, 100), Workload(3000, 500)), (5.0, 1.0)).mean_context_len
        2150.0
        """
        decoded = [w * size.output_len for w, size in zip(self.weights, self.sizes, strict=True)]
        contexts = (size.mean_context_len for size in self.sizes)
        return sum(d * c for d, c in zip(decoded, contexts, strict=True)) / sum(decoded)


@dataclass(frozen=True, slots=True)
class TrafficFile:
    """What a traffic file says.

    Parameters
    ----------
    traffic
        The load of each hour.
    mix
        The sizes of requests; None where it says none.
    """

    traffic: Traffic
    mix: Mix | None = None


@dataclass(frozen=True, slots=True)
class BreakEven:
    """The least acceptance that pays; None where none is enough.

    Parameters
    ----------
    rate
        Of each draft, all alike.
    tokens_per_round
        Tokens that a round commits at that rate, bonus token included.
    """

    rate: float | None
    tokens_per_round: float | None


def _with_band(one: q.Quantity) -> q.Quantity:
    return replace(one, has_band=True)


@dataclass(frozen=True, kw_only=True)
class AdvisedRow(LoadRow):
    """The decision for one drafter at one load.

    Parameters
    ----------
    point
        The round of the drafts that are tried, in seconds; None where there is none.
    default
        The load under the default limits of the server; None where these do not bind.
    own
        Speedups of the lengths that the user named.
    place
        The place of the load among those of the prediction.
    is_open
        Whether the band of the drafts that are tried holds both a gain and a loss.
    """

    engine: Annotated[str, q.ENGINE]
    devices: Annotated[int, q.DEVICES]
    plain_tokens_per_s: Annotated[float, _with_band(q.PLAIN_TOKENS_PER_S)]
    plain_tpot_s: Annotated[float, _with_band(q.PLAIN_TPOT)]
    plain_ttft_s: Annotated[float, _with_band(q.PLAIN_TTFT)]
    plain_usd_per_million_tokens: Annotated[float | None, _with_band(q.PLAIN_PRICE)]
    plain_running: Annotated[float, q.PLAIN_RUNNING]
    meets_targets: Annotated[Outcome, q.MEETS_TARGETS]
    plain_meets_targets: Annotated[Outcome, q.PLAIN_MEETS_TARGETS]
    limited_by: Annotated[str | None, q.LIMITED_BY]
    speedup_without_memory: Annotated[float | None, q.SPEEDUP_WITHOUT["memory"]] = None
    speedup_without_verification: Annotated[float | None, q.SPEEDUP_WITHOUT["verification"]] = None
    speedup_without_drafting: Annotated[float | None, q.SPEEDUP_WITHOUT["drafting"]] = None
    speedup_without_acceptance: Annotated[float | None, q.SPEEDUP_WITHOUT["acceptance"]] = None
    speedup_without_prefill: Annotated[float | None, q.SPEEDUP_WITHOUT["prefill"]] = None
    typical_speedup: Annotated[float | None, q.TYPICAL_SPEEDUP] = None
    worth_measuring: Annotated[int | None, q.WORTH_MEASURING] = None
    worth_measuring_speedup: Annotated[float | None, q.WORTH_MEASURING_SPEEDUP] = None
    point: RoundBreakdown | None = None
    default: LoadRow | None = None
    own: dict[int, float] = field(default_factory=dict)
    place: int = 0
    is_open: bool = False

    @property
    def at_once(self) -> float:
        """The clients; of requests that come by themselves, how many run without drafts."""
        return max(self.plain_running, 1.0) if self.concurrency is None else self.concurrency

    @property
    def load(self) -> float:
        """Requests that arrive in a second, or those in flight."""
        return self.at_once if self.rate is None else self.rate

    @property
    def unit(self) -> str:
        """What `load` counts."""
        return "in flight" if self.rate is None else "requests/s"

    @property
    def keeps_up(self) -> bool:
        """Whether the server answers as many requests as arrive with these drafts."""
        return self.largest_stable_rate is None or self.load <= self.largest_stable_rate

    @property
    def waits(self) -> bool:
        """Whether drafts gain throughput, and the first token comes ten times later."""
        return bool(self.draft_len) and is_late(self.ttft_s or 0.0, self.plain_ttft_s)

    @property
    def missed(self) -> str:
        """The target that drafts miss and no drafts meet, which turns them off; else empty."""
        limit = self.limited_by or ""
        return limit if limit in _TARGETS else ""


@dataclass(frozen=True, slots=True)
class Course:
    """The draft lengths of one drafter by load.

    Parameters
    ----------
    schedule
        Ranges of loads from 1 on: first, last and drafts per round.
    lost
        Mean share of throughput that the few ranges lose against the best length of each load of
        the question; None of a day.
    day
        The gain over a day of traffic; None without traffic.
    """

    schedule: tuple[tuple[int, int, int], ...]
    lost: float | None
    day: Day | None = None


@dataclass(frozen=True, slots=True)
class LoadPlan:
    """The decision for a chip: one drafter, and its draft length at every load.

    Parameters
    ----------
    rows
        The decision at the loads of the question, each with the drafts of the schedule.
    others
        The same of each other drafter, on a server that is started with it.
    best
        That at the load with most throughput that meets the targets, from the least to the largest
        of these and between them, where nobody waits for it if there is one; None where none does.
    chosen
        The index of the drafter to start the server with.
    courses
        The schedule of each drafter.
    is_tree, nodes
        Whether the drafter branches, and the drafts of its tree.
    capacity
        The most requests without drafts and with, and their limits; None for endless memory.
    targets
        Promises to users.
    warnings
        Sentences for the reader.
    """

    rows: tuple[AdvisedRow, ...]
    others: tuple[tuple[AdvisedRow, ...], ...]
    best: AdvisedRow | None
    chosen: int
    courses: tuple[Course, ...]
    is_tree: bool
    nodes: int
    capacity: dict[str, Any] | None
    targets: Targets
    warnings: tuple[str, ...]

    @property
    def schedule(self) -> tuple[tuple[int, int, int], ...]:
        """Ranges of loads from 1 on: first, last and drafts per round."""
        return self.courses[self.chosen].schedule

    @property
    def reached(self) -> tuple[tuple[int, int, int], ...]:
        """The ranges that a speculating server reaches: its memory limits the load."""
        if self.capacity is None:
            return self.schedule
        most = max(self.capacity["speculative"]["largest_batch"], 1)
        return tuple(entry for entry in self.schedule if entry[0] <= most)


# --- The best drafts at each load ----------------------------------------------------------------

#: Requests in flight up to which arrivals are answered.
_MOST_IN_FLIGHT: Final = 1024


def schedule_loads(loads: Sequence[float], traffic: Traffic | None) -> list[float]:
    """Return these loads, and two in each doubling between: a schedule needs its edges.

    Parameters
    ----------
    loads
        Requests in flight that are asked about.
    traffic
        The loads of a day, which begin at 1; None for `loads` alone.

    Examples
    --------
    >>> schedule_loads([8, 32], None), schedule_loads([64], None)
    ([8.0, 12.0, 16.0, 24.0, 32.0], [64.0])
    """
    loads = [*map(float, loads)]
    if traffic is not None:
        arrive = traffic.unit != "concurrency"
        loads += [1.0, _MOST_IN_FLIGHT if arrive else max(1.0, *traffic.loads)]
    least, most = min(loads), max(loads)
    between = {step * 2.0**power for power in range(int(math.log2(most)) + 1) for step in (2, 3)}
    return sorted({*loads, *(load for load in between if least < load < most)})


#: Ranges of a schedule, at most; a further one must gain this share of throughput.
_MOST_RANGES: Final = 4
_LEAST_GAIN: Final = 0.002
#: The weight of a load between those of the question, beside 1: it moves the edges of ranges alone.
_BETWEEN: Final = 1e-4
#: Rooms that differ by less count as the same.
_SAME_ROOM: Final = 0.95
#: What drafts that must not be taken are worth: less than any others.
_REFUSED: Final = 1e-9


@dataclass(frozen=True, slots=True, eq=False)
class _Grid:
    """The arrays of one drafter, axes (load, draft_len); `largest` of draft lengths.

    `worth` is what lengths are scheduled by, `speedup` what they are chosen by, with its band;
    `plain` the figures of each load without drafts.
    """

    prediction: Prediction
    drafter: int
    largest: Array
    worth: Array
    allowed: BoolArray
    ttft_s: Array
    tpot_s: Array
    tokens_per_s: Array
    speedup: Array
    low: Array
    high: Array
    meets: npt.NDArray[np.str_]
    plain: Sequence[dict[str, Any]]

    @property
    def outcome(self) -> Outcomes:
        """What the drafter gains."""
        return self.prediction.outcomes[self.drafter]

    @property
    def requests(self) -> EndToEnd:
        """What requests see of it."""
        return self.prediction.end_to_end[self.drafter]

    def decide(self, scheduled: Sequence[int], **how: Any) -> Decisions:
        """Return what to do at each load with the lengths that a schedule has there."""
        ends = self.speedup[None], self.low[None], self.high[None]
        lengths = np.array([scheduled])
        return decide(ends, self.outcome.unsustained, self.ttft_s[None], scheduled=lengths, **how)


@dataclass(frozen=True, slots=True, eq=False)
class Wanted:
    """What is asked of each load.

    Parameters
    ----------
    load
        Those of the prediction: of the question, and others between them.
    asked
        Requests in flight that are asked about; of requests that come by themselves all loads are.
    targets
        Promises to users.
    draft_lens
        Drafts per round to choose from; any if None.
    traffic
        The day that schedules are made for; without it, every load of the question counts the same.
    fixed
        For each drafter, whether a server cannot change its length with the load; none is if empty.
    baseline
        Figures of servers without drafts at all loads, over which speedups are; those of the
        prediction if None.
    """

    load: Load
    asked: Sequence[float]
    targets: Targets
    _: KW_ONLY
    draft_lens: Sequence[int] | None = None
    traffic: Traffic | None = None
    fixed: Sequence[bool] = ()
    baseline: Sequence[dict[str, Any]] | None = None


def load_plan(
    prediction: Prediction,
    wanted: Wanted,
    *,
    by_default: Prediction | None = None,
    typical: LoadPlan | None = None,
) -> LoadPlan:
    """Return the decision for each load: one drafter, and one schedule of its draft lengths.

    Parameters
    ----------
    prediction
        Curves with prefills counted, at these loads and others.
    wanted
        What is asked of each load.
    by_default
        The same under the default limits of the server, where the prediction is of others.
    typical
        The decision with the typical shape of acceptance, whose drafter and lengths are taken.
    """
    targets, traffic = wanted.targets, wanted.traffic
    grids = [_grid_of(prediction, d, wanted) for d in range(len(prediction.drafters))]
    batches, loads = list(prediction.load.batch_size), wanted.asked
    if prediction.played and prediction.played[0].load.kind != "concurrency":
        batches = loads = _decoded_together(grids[0], prediction.played[0])
    asked = [batches.index(load) for load in loads]
    if typical is None:
        courses = [
            _course(
                grid,
                batches,
                asked,
                targets,
                traffic,
                is_fixed=bool(wanted.fixed) and wanted.fixed[d],
            )
            for d, grid in enumerate(grids)
        ]
        worth = [
            _worth(*pair, batches, asked, targets) for pair in zip(grids, courses, strict=True)
        ]
        chosen = worth.index(max(worth))
    else:
        courses, chosen = [*typical.courses], typical.chosen
    rows = [
        [*_rows(grid, course, batches, wanted, by_default if d == chosen else None)]
        for d, (grid, course) in enumerate(zip(grids, courses, strict=True))
    ]
    if typical is not None:
        for i, shaped in zip(asked, typical.rows, strict=True):
            rows[chosen][i] = replace(rows[chosen][i], typical_speedup=shaped.speedup)
    grid, ranges = grids[chosen], courses[chosen].schedule
    within = rows[chosen][asked[0] : asked[-1] + 1]
    met = [one for one in within if targets.met(one.ttft_s, one.tpot_s)]
    soon = [one for one in met if not is_late(one.ttft_s or 0.0, one.plain_ttft_s)]
    longest = max(k for _, _, k in ranges)
    verified = grid.requests.curve.verify_len
    capacity = None
    if prediction.limits:
        limits = prediction.limits[chosen]
        capacity = {
            name: {
                "largest_batch": int(limits.largest[0, k]) * prediction.servers,
                "bound_by": str(limits.bound_by[0, k]),
            }
            for name, k in {"plain": 0, "speculative": longest}.items()
        }
    each = [tuple(of_drafter[i] for i in asked) for of_drafter in rows]
    return LoadPlan(
        rows=each[chosen],
        others=tuple(each[d] for d in range(len(each)) if d != chosen),
        best=max(soon or met, key=lambda one: one.tokens_per_s, default=None),
        chosen=chosen,
        courses=tuple(courses),
        is_tree=bool(verified[longest] > longest + 1),
        nodes=int(verified[longest]) - 1,
        capacity=capacity,
        targets=targets,
        warnings=tuple(_warnings(each[chosen], targets)),
    )


def _rows(
    grid: _Grid,
    course: Course,
    batches: Sequence[float],
    wanted: Wanted,
    by_default: Prediction | None,
) -> Iterator[AdvisedRow]:
    """Yield the decision for a drafter at every load of a prediction, by its schedule."""
    prediction, d, one = grid.prediction, grid.drafter, grid.outcome
    drafts = [drafts_at(course.schedule, batch) for batch in batches]
    found = grid.decide(
        drafts,
        allowed=_choices(grid, wanted.targets, [k for _, _, k in course.schedule if k]),
        least=wanted.targets.least_speedup,
    )
    setup, told = prediction.setup, prediction.told[d]
    where: dict[str, Any] = {"model": prediction.model.name, "hardware": setup.hardware.name}
    fields = load_fields(one, wanted.load, prediction.money, found)
    defaults = None
    if by_default is not None:
        under = _grid_of(by_default, d, replace(wanted, baseline=None))
        defaults = [
            LoadRow(**where, **at)
            for at in load_fields(
                under.outcome, wanted.load, by_default.money, under.decide(drafts)
            )
        ]
    for i, (k, of_load) in enumerate(zip(drafts, fields, strict=True)):
        tried, plain = of_load["tried_draft_len"], grid.plain[i]
        point = _point(grid, i, tried) if tried and not of_load["reason"] else None
        without = {} if point is None else bottlenecks(point)
        bands = dict(of_load["bands"])
        if not k:
            of_load |= {name: plain[name] for name in _PLAIN}
            bands |= plain["bands"]
        bands |= {f"plain_{name}": band for name, band in plain["bands"].items()}
        longer = int(grid.requests.curve.worth_measuring[0, i])
        if longer:
            bands["worth_measuring_speedup"] = grid.low[i, longer], grid.high[i, longer]
        limit = "" if k else _missed(grid, i, wanted.targets)
        binds = defaults is not None and told and told[i][k > 0] is not None
        yield AdvisedRow(
            **where,
            **of_load
            | {f"plain_{name}": plain[name] for name in _PLAIN if name in _BESIDE}
            | {f"speedup_without_{name}": gain for name, gain in without.items()}
            | {"bands": bands},
            engine=setup.engine.name,
            devices=prediction.devices,
            meets_targets=grid.meets[i, k].item() if k else plain["meets_targets"],
            plain_meets_targets=plain["meets_targets"],
            limited_by=limit or next(iter(without), None),
            worth_measuring=longer or None,
            worth_measuring_speedup=float(grid.speedup[i, longer]) if longer else None,
            point=point,
            default=defaults[i] if defaults is not None and binds else None,
            own={
                length: math.nan if of_load["reason"] else float(grid.speedup[i, length])
                for length in _own_lengths(prediction, d, wanted.draft_lens)
            },
            place=i,
            is_open=bool(found.verdict[0, i] == UNCLEAR),
        )


def _decoded_together(grid: _Grid, played: PlayedLoads) -> list[float]:
    """Return the requests that run of each load at its best drafts: by rates, and rising."""
    best = best_index(np.where(grid.allowed[None, :], grid.worth, np.nan))
    running = played.figures["mean_running"][np.arange(len(best)), best]
    rising = list[float]()
    for number in np.ceil(np.nan_to_num(running)).tolist():
        rising.append(max(number, 1.0 + max(rising, default=0.0)))
    return rising


#: Figures of a server without drafts; those that advice has beside the figures with them.
_PLAIN: Final = (
    *("tokens_per_s", "tpot_s", "ttft_s", "usd_per_million_tokens", "running"),
    "joules_per_million_tokens",
)
_BESIDE: Final = _PLAIN[:5]


def plain_figures(
    prediction: Prediction, d: int, load: Load, money: Money, targets: Targets, working: Array
) -> list[dict[str, Any]]:
    """Return the figures of servers without drafts that share loads alike, load by load.

    Parameters
    ----------
    prediction, d, load
        Of one of them, or of the workers of a split, with the drafter at this place.
    money
        What all devices cost and draw, those of servers without requests too.
    targets
        Promises to users.
    working
        How many of the servers work at each load.
    """
    one = prediction.outcomes[d]
    meets = _meets(prediction.end_to_end[d], targets)[:, 0]
    none = np.zeros(one.curve.round_s.shape[:2], dtype=int)
    found = decide(one.deciding, one.unsustained, scheduled=none)
    shares = {"tokens_per_s": working, "running": working}
    shares |= dict.fromkeys(("usd_per_million_tokens", "joules_per_million_tokens"), 1 / working)
    every = []
    for i, fields in enumerate(load_fields(one, load, money, found)):
        share = {name: float(shares[name][i]) if name in shares else 1.0 for name in _PLAIN}
        figures = {
            name: None if fields[name] is None else fields[name] * share[name] for name in _PLAIN
        }
        bands = {
            name: (low * share[name], high * share[name])
            for name, (low, high) in fields["bands"].items()
            if name in share
        }
        every.append(figures | {"bands": bands, "meets_targets": str(meets[i])})
    return every


def _meets(requests: EndToEnd, targets: Targets) -> npt.NDArray[np.str_]:
    """Return whether targets are met at each load and draft length: p99 where it is known."""
    waits_s, bands = list[Array](), list[tuple[Array, Array] | None]()
    for name in ("ttft", "tpot"):
        mean_s = getattr(requests, f"{name}_s")[0]
        known = requests.figures if isinstance(requests, PlayedRequests) else None
        waits_s.append(mean_s if known is None else known[f"p99_{name}_s"][0])
        ends = requests.figure_ends[name]  # p99 has the band of the mean
        bands.append(None if ends is None else (ends[0][0] / mean_s, ends[1][0] / mean_s))
    return targets.outcomes(waits_s, bands)


def _grid_of(prediction: Prediction, d: int, wanted: Wanted) -> _Grid:
    requests, baseline = prediction.end_to_end[d], wanted.baseline
    outcome, curve = prediction.outcomes[d], requests.curve
    largest = np.full(len(curve.draft_len), np.inf)
    if prediction.limits:
        largest = prediction.limits[d].largest[0] * prediction.servers
    allowed = np.isfinite(within_measured(curve.tokens_per_round[0, 0], curve.measured_draft_len))
    if wanted.draft_lens is not None:
        allowed &= np.isin(curve.draft_len, [0, *wanted.draft_lens])
    plain = baseline
    if plain is None:
        alone = np.ones(len(curve.batch_size))
        plain = plain_figures(prediction, d, wanted.load, prediction.money, wanted.targets, alone)
    times = {
        name: np.array(getattr(requests, name)[0]) for name in ("ttft_s", "tpot_s", "tokens_per_s")
    }
    speedups = np.array([values[0] for values in outcome.deciding])
    if baseline is not None:
        off = np.array([each["tokens_per_s"] for each in baseline])
        speedups[..., 1:] *= (times["tokens_per_s"][:, 0] / off)[:, None]
        for name, values in times.items():
            values[:, 0] = [each[name] for each in baseline]
    # Of requests that come whatever the server does, as many tokens are made with any drafts.
    comes = outcome.played is not None and not outcome.played.sums_work
    return _Grid(
        prediction,
        d,
        largest,
        worth=speedups[0] if comes else times["tokens_per_s"],
        allowed=allowed,
        speedup=speedups[0],
        low=speedups[1],
        high=speedups[2],
        meets=_meets(requests, wanted.targets),
        plain=plain,
        **times,
    )


def _course(
    grid: _Grid,
    batches: Sequence[float],
    asked: Sequence[int],
    targets: Targets,
    traffic: Traffic | None,
    *,
    is_fixed: bool,
) -> Course:
    """Return the draft lengths of one drafter by load: requests that are decoded together.

    One length, or none, where a server cannot follow the load, and where its longest draft leaves
    room for fewer requests than a shorter one would: that room is what all lengths have.
    """
    weights = np.full(len(batches), _BETWEEN)
    weights[list(asked)] = 1.0
    rates = np.where(grid.allowed[None, :], grid.worth, np.nan)
    values = rates if traffic is not None else rates * _worthwhile(grid, targets)

    def course(lengths: npt.NDArray[np.bool_]) -> Course:
        taken = np.where(lengths[None, :], values, np.nan)
        if traffic is not None:
            day = advised_day(
                traffic,
                batches,
                taken,
                output_len=grid.requests.workload.output_len,
                most_ranges=_MOST_RANGES,
            )
            return Course(day.schedule, None, day)
        whole = [round(batch) for batch in batches]
        ranges = best_schedule(
            whole, taken, most_ranges=_MOST_RANGES, weights=weights, least_gain=_LEAST_GAIN
        ).ranges
        drafts = [drafts_at(ranges, whole[i]) for i in asked]
        if not any(drafts):
            ranges = ((1, whole[-1], 0),)
        best = np.nanmax(values[list(asked)], axis=1)
        return Course(ranges, float(np.mean(1.0 - values[list(asked), drafts] / best)))

    found = course(np.ones(values.shape[1], dtype=bool))
    lengths = {k for _, _, k in found.schedule if k}
    if lengths and not is_fixed:
        most = grid.largest[max(lengths)]
        room = min(_SAME_ROOM * grid.largest[min(lengths)], batches[asked[-1]])
        is_fixed = bool(most < room) or any(k and first > most for first, _, k in found.schedule)
    if is_fixed and len(lengths) > 1:
        shares = values / np.nanmax(values, axis=1, keepdims=True)
        kept = weights @ np.maximum(np.nan_to_num(shares), shares[:, :1])
        found = course(np.isin(np.arange(len(kept)), [0, int(np.argmax(kept))]))
    return found


def _worthwhile(grid: _Grid, targets: Targets) -> Array:
    """Return 1 for lengths that may be taken, and next to nothing for others.

    Those that miss targets which another length meets, and those that lose for certain.
    """
    meets = targets.met(grid.ttft_s, grid.tpot_s) & grid.allowed
    refused = ~meets & meets.any(axis=1, keepdims=True)
    least = targets.least_speedup
    loses = grid.high < least
    if least > 1.0:
        loses |= grid.speedup <= least
    loses[:, 0] = False
    return np.where(refused | loses, _REFUSED, 1.0)


def _worth(
    grid: _Grid, course: Course, batches: Sequence[float], asked: Sequence[int], targets: Targets
) -> tuple[float, float]:
    """Return the key of the best drafter: loads that meet the targets, then its mean speedup."""
    if course.day is not None:
        return 0.0, course.day.gain
    at = list(asked), [drafts_at(course.schedule, batches[i]) for i in asked]
    met = targets.met(grid.ttft_s[at], grid.tpot_s[at])
    return float(met.sum()), float(np.mean(grid.speedup[at]))


def _choices(grid: _Grid, targets: Targets, lengths: Sequence[int]) -> BoolArray:
    """Return the lengths to try at each load where the decision is off, axes (1, load, draft_len).

    Those that are drafted at other loads, if any, and of them those that meet the targets, if any.
    """
    allowed = grid.allowed
    if lengths:
        allowed = allowed & np.isin(np.arange(len(allowed)), (0, *lengths))
    meets = targets.met(grid.ttft_s, grid.tpot_s) & allowed
    some = meets[:, 1:].any(axis=1, keepdims=True)
    return np.asarray(np.where(some, meets, allowed))[None]


#: What stands for a target that every draft misses.
_TARGETS: Final = ("TTFT target", "TPOT target")


def _missed(grid: _Grid, i: int, targets: Targets) -> str:
    """Return the target that every draft misses at a load, and no drafts meet."""
    first, later = _TARGETS
    for name, only, waits in (
        (first, replace(targets, tpot_ms=None), (grid.ttft_s[i], 0.0)),
        (later, replace(targets, ttft_ms=None), (0.0, grid.tpot_s[i])),
    ):
        met = only.met(*waits) & grid.allowed
        if met[0] and not met[1:].any() and grid.allowed[1:].any():
            return name
    return ""


def _own_lengths(prediction: Prediction, d: int, draft_lens: Sequence[int] | None) -> list[int]:
    """Return the lengths that the user named: to choose from, or to measure acceptance with."""
    depth = getattr(prediction.drafters[d].acceptance, "measured_depth", None)
    own = draft_lens if draft_lens is not None else ([] if depth is None else [depth])
    return [k for k in own if 0 < k < len(prediction.curves[d].draft_len)]


def _point(grid: _Grid, i: int, k: int) -> RoundBreakdown:
    """Return a round of `k` drafts beside the plain step, without the times of requests."""
    requests, curve = grid.requests, grid.requests.curve
    running = np.broadcast_to(curve.running_batch[0], grid.speedup.shape)[i]
    tokens = curve.tokens_per_round[0, i]
    output_len = requests.workload.output_len
    delay_s, round_s = requests.delay_s[0, i], requests.decoding_round_s[0, i]
    return RoundBreakdown(
        draft_len=k,
        tokens_per_round=float(tokens[k]),
        draft_s=float(curve.draft_s[0, i, k]),
        verify_s=float(curve.verify_s[0, i, k]),
        round_s=float(round_s[k]),
        decode_s=float(round_s[0]),
        running=float(running[k]),
        plain_running=float(running[0]),
        wait_s=float(delay_s[k]),
        plain_wait_s=float(delay_s[0]),
        latency_s=requests.latency_s,
        output_len=output_len,
    )


def break_even_of(prediction: Prediction, plan: LoadPlan, row: AdvisedRow) -> BreakEven:
    """Return the least acceptance that pays, with what drafting takes at that acceptance."""
    if row.point is None:
        return BreakEven(None, None)
    drafter, drafts = prediction.drafters[plan.chosen], row.point.draft_len
    load = replace(prediction.load, batch_size=[row.at_once])

    def curve(acceptance: Acceptance) -> SpeedupCurve:
        return served_curve(
            prediction.deployment,
            drafter,
            load,
            prediction.room,
            max_draft_len=drafts,
            acceptance=acceptance,
            split=prediction.split,
        ).curve

    rate = least_rate(
        lambda acceptance: (float(curve(acceptance).speedup[0, 0, drafts]), drafts),
        plan.targets.least_speedup,
    ).value
    if rate is None:
        return BreakEven(None, None)
    tokens = curve(constant_acceptance(rate)).tokens_per_round[0, 0, drafts]
    return BreakEven(rate, float(tokens))


def _warnings(rows: Sequence[AdvisedRow], targets: Targets) -> list[str]:
    """Return the targets that no load meets, each with the best that a load reaches."""
    warnings = []
    for name, what in (("ttft", "TTFT"), ("tpot", "TPOT")):
        target_ms = getattr(targets, f"{name}_ms")
        waits = {row.load: getattr(row, f"{name}_s") / MILLISECOND for row in rows}
        load = min(waits, key=lambda load: np.nan_to_num(waits[load], nan=np.inf))
        if target_ms is not None and not waits[load] <= target_ms:
            warnings.append(
                f"a {what} of {float(target_ms):g} ms is out of reach: the least is {waits[load]:.3g} ms, "
                f"at {load:.4g} {rows[0].unit}"
            )
    most = max(rows, key=lambda row: np.nan_to_num(row.tried_speedup))
    if targets.min_speedup is not None and most.tried_speedup < targets.min_speedup:
        warnings.append(
            f"a speedup of {targets.min_speedup:g} is out of reach: the most is "
            f"{most.tried_speedup:.2f}x, at {most.load:.4g} {most.unit}"
        )
    return warnings
