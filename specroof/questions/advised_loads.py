"""The loads of advice: traffic, targets, and the best drafts at each load of a chip."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Annotated, Any, Final, Literal, TypeAlias, cast

import numpy as np
import numpy.typing as npt

from specroof import quantities as q
from specroof.acceptance import constant_acceptance
from specroof.arrays import Array, BoolArray, number_within
from specroof.drafters import Drafter
from specroof.outcomes.outcomes import Outcomes, outcomes
from specroof.outcomes.rows import LoadRow, load_fields
from specroof.outcomes.solve import Wish, solve
from specroof.policies.decision import RoundBreakdown, bottlenecks, decide, is_late
from specroof.policies.schedule import (
    REFUSED,
    Day,
    Traffic,
    advised_day,
    best_schedule,
    drafts_at,
)
from specroof.questions.predict import Prediction
from specroof.questions.speculation import can_follow_load
from specroof.serving.end_to_end import EndToEnd
from specroof.serving.played import PlayedLoads
from specroof.serving.workload import Load, Workload
from specroof.speedup.price import Money
from specroof.speedup.result import TIE, UNCLEAR, best_index, within_measured
from specroof.units import MILLISECOND, plain_number, three_digits

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

    def outcomes(self, one: Outcomes) -> npt.NDArray[np.str_]:
        """Return whether requests meet them, as far as bands say; axes (load, draft_len).

        Of p99 where it is known, which has the band of the mean.
        """
        ends: list[list[Array]] = [[], []]
        requests = one.end_to_end
        for name in (q.TTFT.name, q.TPOT.name):
            mean_s, band = getattr(requests, name)[0], one.figure_ends[name]
            seen = getattr(requests, f"p99_{name}", None)  # of those that are played through
            waits_s = mean_s if seen is None else seen[0]
            for end, known in enumerate(ends):
                known.append(waits_s if band is None else waits_s * (band[end][0] / mean_s))
        least, most = (self.met(*known) for known in ends)
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
        lengths = [(size.input_len, size.output_len) for size in self.sizes]
        return Workload(*np.average(lengths, axis=0, weights=self.weights).tolist())

    @property
    def mean_context_len(self) -> float:
        """Cached tokens of a sequence that is being decoded, on average: long answers stay longer.

        Examples
        --------
        >>> Mix((Workload(1000, 100), Workload(3000, 500)), (5.0, 1.0)).mean_context_len
        2150.0
        """
        contexts = [size.mean_context_len for size in self.sizes]
        decoded = np.array(self.weights) * [size.output_len for size in self.sizes]
        return float(np.average(contexts, weights=decoded))


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
    keeps_up
        Whether the server answers as many requests as arrive with these drafts.
    """

    engine: str
    devices: int
    plain_tokens_per_s: Annotated[float, _with_band(q.PLAIN_TOKENS_PER_S)]
    plain_tpot_s: Annotated[float, _with_band(q.PLAIN_TPOT)]
    plain_ttft_s: Annotated[float, _with_band(q.PLAIN_TTFT)]
    plain_usd_per_million_tokens: Annotated[float | None, _with_band(q.PLAIN_PRICE)]
    plain_running: float
    meets_targets: Outcome
    plain_meets_targets: Outcome
    limited_by: str | None
    speedup_without_memory: float | None = None
    speedup_without_verification: float | None = None
    speedup_without_drafting: float | None = None
    speedup_without_acceptance: float | None = None
    speedup_without_prefill: float | None = None
    worth_measuring: int | None = None
    worth_measuring_speedup: float | None = None
    point: Annotated[RoundBreakdown | None, q.NO_COLUMN] = None
    default: Annotated[LoadRow | None, q.NO_COLUMN] = None
    own: Annotated[dict[int, float], q.NO_COLUMN] = field(default_factory=dict)
    place: Annotated[int, q.NO_COLUMN] = 0
    is_open: Annotated[bool, q.NO_COLUMN] = False
    keeps_up: Annotated[bool, q.NO_COLUMN] = True

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
    def waits(self) -> bool:
        """Whether drafts gain throughput, and the first token comes ten times later."""
        return bool(self.draft_len) and is_late(self.ttft_s or 0.0, self.plain_ttft_s)


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
    course
        The schedule of this drafter.
    nodes
        The drafts of its tree, or of its chain.
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
    course: Course
    nodes: int
    capacity: dict[str, Any] | None
    targets: Targets
    warnings: tuple[str, ...]

    @property
    def schedule(self) -> tuple[tuple[int, int, int], ...]:
        """Ranges of loads from 1 on: first, last and drafts per round."""
        return self.course.schedule

    @property
    def drafts(self) -> bool:
        """Whether any load of the question has drafts."""
        return any(row.draft_len for row in self.rows)

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


#: A further range of a schedule must gain this share of throughput.
_LEAST_GAIN: Final = 0.002
#: The weight of a load between those of the question, beside 1: it moves the edges of ranges alone.
_BETWEEN: Final = 1e-4
#: Rooms that differ by less count as the same.
_SAME_ROOM: Final = 0.95


@dataclass(frozen=True, slots=True, eq=False)
class Wanted:
    """What is asked about on any chip, all names resolved.

    Parameters
    ----------
    drafters
        What is compared.
    load
        Loads of the question, and others between them, which move the edges of a schedule alone: of
        clients that are played through, these are in closed form.
    asked
        Requests in flight that are asked about; of requests that come by themselves all loads are.
    targets
        Promises to users.
    draft_lens
        Drafts per round to choose from; any if empty.
    traffic
        The day that schedules are made for; without it, every load of the question counts the same.
    frameworks
        Servers whose flags are written, and the releases of them.
    refused
        Drafters that the requested server does not run, and why.
    """

    drafters: tuple[Drafter, ...]
    load: Load
    asked: Sequence[float]
    targets: Targets
    _: KW_ONLY
    frameworks: Mapping[str, str]
    draft_lens: Sequence[int] = ()
    traffic: Traffic | None = None
    refused: Mapping[str, str] = field(default_factory=dict)

    @property
    def workload(self) -> Workload:
        """The mean request."""
        return cast("Workload", self.load.steady.workload)  # advice is of requests


#: What a load is without drafts.
Plain: TypeAlias = dict[str, Any]


def plain_figures(one: Outcomes, wanted: Wanted, money: Money) -> list[Plain]:
    """Return the figures of each load without drafts, by the names of rows.

    Parameters
    ----------
    one, wanted
        What a drafter gains, and what is asked of each load.
    money
        What the devices cost and draw.
    """
    none = np.zeros((1, len(one.curve.batch_size)), dtype=int)
    found = decide(one.deciding, one.unsustained, scheduled=none)
    rows, met = load_fields(one, wanted.load, money, found), wanted.targets.outcomes(one)[:, 0]
    return [row | {q.MEETS_TARGETS.name: met[i].item()} for i, row in enumerate(rows)]


@dataclass(frozen=True, eq=False)
class LoadGrid:
    """The arrays of one drafter, axes (load, draft_len).

    Parameters
    ----------
    prediction, drafter, wanted
        What it gains, its place among the drafters, and what is asked of each load.
    outcome, requests
        What the drafter gains with the drafts of a schedule, and what requests see of it.
    plain
        The figures of each load without drafts.
    allowed
        The lengths that there are to choose from: none beyond what was measured.
    tokens_per_s, ttft_s, tpot_s
        Output tokens of all requests in a second, and seconds to the first token and of each later
        one; without drafts those of `plain`.
    ends
        What lengths are chosen by, and the ends of its band, on a first axis.
    in_time
        Which of these lengths have expected waits that are short enough.
    """

    prediction: Prediction
    drafter: int
    wanted: Wanted
    outcome: Outcomes
    requests: EndToEnd
    plain: Sequence[Plain]
    allowed: BoolArray
    tokens_per_s: Array
    ttft_s: Array
    tpot_s: Array
    ends: Array
    in_time: BoolArray

    @property
    def worth(self) -> Array:
        """What lengths are scheduled by."""
        # Of requests that come whatever the server does, as many tokens are made with any drafts.
        played = self.outcome.played
        return self.tokens_per_s if played is None or played.sums_work else self.ends[0]


def grid_of(
    prediction: Prediction,
    drafter: int,
    wanted: Wanted,
    plain: Sequence[Plain],
    scheduled: Sequence[int] = (),
) -> LoadGrid:
    """Return the arrays of one drafter.

    Parameters
    ----------
    prediction, drafter, wanted, plain
        As of `LoadGrid`; speedups are over the figures without drafts.
    scheduled
        The drafts of a schedule at each load, once there is one.
    """
    one, requests = prediction.outcomes[drafter], prediction.end_to_end[drafter]
    one, curve, lengths = one.with_schedule(scheduled), requests.curve, wanted.draft_lens

    def seen(name: str) -> Array:
        values = np.array(getattr(requests, name)[0])
        values[:, 0] = [each[name] for each in plain]
        return values

    tokens_per_s, ttft_s, tpot_s = map(seen, (q.TOKENS_PER_S.name, q.TTFT.name, q.TPOT.name))
    ends = np.array([values[0] for values in one.deciding])
    ends[..., 1:] *= requests.tokens_per_s[0, :, :1] / tokens_per_s[:, :1]
    known = within_measured(curve.tokens_per_round[0, 0], curve.measured_draft_len)
    there = np.isin(curve.draft_len, [0, *lengths]) if lengths else True
    allowed = np.asarray(np.isfinite(known) & there)
    in_time = np.asarray(wanted.targets.met(ttft_s, tpot_s) & allowed)
    of_plain = (plain, allowed, tokens_per_s, ttft_s, tpot_s, ends, in_time)
    return LoadGrid(prediction, drafter, wanted, one, requests, *of_plain)


def load_plan(
    prediction: Prediction,
    wanted: Wanted,
    *,
    baseline: Sequence[Plain] | None,
    by_default: Prediction | None = None,
) -> LoadPlan:
    """Return the decision for each load: one drafter, and one schedule of its draft lengths.

    Parameters
    ----------
    prediction
        Curves with prefills counted, at these loads and others.
    wanted
        What is asked of each load.
    baseline
        Figures of servers without drafts at all loads, over which speedups are; those of the
        prediction if None.
    by_default
        The same prediction under the default limits of the server, where it is of others.
    """
    targets = wanted.targets
    plain = baseline or plain_figures(prediction.outcomes[0], wanted, prediction.money)
    grids = [grid_of(prediction, d, wanted, plain) for d in range(len(prediction.drafters))]
    batches, loads = list(prediction.load.batch_size), wanted.asked
    if wanted.load.kind != "concurrency":
        batches = loads = _decoded_together(grids[0])
    asked = [batches.index(load) for load in loads]
    courses = [_course(grid, batches, asked) for grid in grids]
    worth = [_worth(*pair, batches, asked) for pair in zip(grids, courses, strict=True)]
    chosen = worth.index(max(worth))
    rows = [
        [*_rows(grid, course, batches, by_default if d == chosen else None)]
        for d, (grid, course) in enumerate(zip(grids, courses, strict=True))
    ]
    met = [
        one for one in rows[chosen][asked[0] : asked[-1] + 1] if targets.met(one.ttft_s, one.tpot_s)
    ]
    soon = [one for one in met if not one.waits]
    longest = max(k for _, _, k in courses[chosen].schedule)
    nodes = int(grids[chosen].requests.curve.verify_len[longest]) - 1
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
        course=courses[chosen],
        nodes=nodes,
        capacity=capacity,
        targets=targets,
        warnings=tuple(_warnings(each[chosen], targets)),
    )


#: Figures that a row has without drafts, too, and those that are of a server that drafts or not.
_BESIDE: Final = tuple(one.name for one in (q.TOKENS_PER_S, q.TPOT, q.TTFT, q.PRICE, q.RUNNING))
_SERVED: Final = (*_BESIDE, q.ENERGY.name)


def _rows(
    grid: LoadGrid, course: Course, batches: Sequence[float], by_default: Prediction | None
) -> Iterator[AdvisedRow]:
    """Yield the decision for a drafter at every load of a prediction, by its schedule.

    Where it is off, the lengths to try meet the targets, if any do: which lengths other loads have
    says nothing of this one.
    """
    drafts, prediction = [drafts_at(course.schedule, one) for one in batches], grid.prediction
    grid = grid_of(prediction, grid.drafter, grid.wanted, grid.plain, drafts)
    wanted, one, scheduled = grid.wanted, grid.outcome, np.array([drafts])
    in_time = grid.in_time[:, 1:].any(axis=1, keepdims=True)
    middle, low, high = grid.ends[:, None]
    found = decide(
        (middle, low, high),
        one.unsustained,
        grid.ttft_s[None],
        allowed=np.where(in_time, grid.in_time, grid.allowed)[None],
        least=wanted.targets.least_speedup,
        scheduled=scheduled,
    )
    meets = wanted.targets.outcomes(one)
    setup, told = prediction.setup, prediction.told[grid.drafter]
    where: dict[str, Any] = {"model": prediction.model.name, "hardware": setup.hardware.name}
    played = one.played
    arriving = None if played is None or not played.load.arrival_rates else played.keeps_up
    defaults = dict[int, LoadRow]()
    if by_default is not None and told:
        under, seen = by_default.outcomes[grid.drafter], by_default.end_to_end[grid.drafter]
        runs = decide(under.deciding, under.unsustained, seen.ttft_s, scheduled=scheduled)
        kept = load_fields(under, wanted.load, by_default.money, runs)
        defaults = {
            i: LoadRow(**where, **at)
            for i, at in enumerate(kept)
            if told[i][drafts[i] > 0] is not None
        }
    acceptance = prediction.drafters[grid.drafter].acceptance
    # To choose from, or else to measure acceptance with.
    own = wanted.draft_lens or [getattr(acceptance, "measured_depth", None) or 0]
    own = [length for length in own if 0 < length < len(grid.allowed)]
    fields = load_fields(one, wanted.load, prediction.money, found)
    for i, (k, of_load) in enumerate(zip(drafts, fields, strict=True)):
        tried, plain, reason = of_load["tried_draft_len"], grid.plain[i], of_load["reason"]
        point = _point(grid, i, tried) if tried and not reason else None
        without = {} if point is None else bottlenecks(point)
        longer = int(grid.requests.curve.worth_measuring[0, i])
        own_bands = {name: plain["bands"][name] for name in _SERVED if name in plain["bands"]}
        bands = of_load["bands"] | {f"plain_{name}": ends for name, ends in own_bands.items()}
        if not k:
            of_load |= {name: plain[name] for name in _SERVED}
            bands |= own_bands
        if longer:
            bands[q.WORTH_MEASURING_SPEEDUP.name] = tuple(grid.ends[1:, i, longer])
        yield AdvisedRow(
            **where,
            **of_load
            | {f"plain_{name}": plain[name] for name in _BESIDE}
            | {f"speedup_without_{name}": gain for name, gain in without.items()}
            | {"bands": bands},
            engine=setup.engine.full_name,
            devices=prediction.devices,
            meets_targets=meets[i, k].item() if k else plain[q.MEETS_TARGETS.name],
            plain_meets_targets=plain[q.MEETS_TARGETS.name],
            limited_by=("" if k else _missed(grid, i)) or next(iter(without), None),
            worth_measuring=longer or None,
            worth_measuring_speedup=float(grid.ends[0, i, longer]) if longer else None,
            point=point,
            default=defaults.get(i),
            own={length: math.nan if reason else float(grid.ends[0, i, length]) for length in own},
            place=i,
            is_open=bool(found.verdict[0, i] == UNCLEAR),
            keeps_up=arriving is None or bool(arriving[i, k]),
        )


def _decoded_together(grid: LoadGrid) -> list[float]:
    """Return the requests that run of each load at its best drafts: by rates, and rising."""
    played = cast("PlayedLoads", grid.outcome.played)  # as such loads are
    best = best_index(np.where(grid.allowed[None, :], grid.worth, np.nan))
    running = played.figures["mean_running"][np.arange(len(best)), best]
    rising = list[float]()
    for number in np.ceil(np.nan_to_num(running)).tolist():
        rising.append(max(number, 1.0 + max(rising, default=0.0)))
    return rising


def _course(grid: LoadGrid, batches: Sequence[float], asked: Sequence[int]) -> Course:
    """Return the draft lengths of one drafter by load: requests that are decoded together.

    One length, or none, where a server that flags are written for cannot follow the load, and where
    its longest draft leaves room for fewer requests than a shorter one would: that room is what all
    lengths have.
    """
    traffic = grid.wanted.traffic
    weights = np.full(len(batches), _BETWEEN)
    weights[list(asked)] = 1.0
    rates, refused = np.where(grid.allowed[None, :], grid.worth, np.nan), refused_lengths(grid)
    values = np.where(refused, REFUSED * rates, rates)
    top = np.fmax.reduce(values, axis=1)[:, None]
    values = np.where(values >= top * (1 - TIE), top, values)

    def course(lengths: npt.NDArray[np.bool_]) -> Course:
        taken = np.where(lengths[None, :], values, np.nan)
        if traffic is not None:
            output_len = grid.requests.workload.output_len
            day = advised_day(
                *(traffic, batches, np.where(refused & lengths, rates, taken)),
                output_len=output_len,
                refused=refused,
            )
            return Course(day.schedule, None, day)
        ranges = best_schedule(batches, taken, weights=weights, least_gain=_LEAST_GAIN)
        drafts = [drafts_at(ranges, batches[i]) for i in asked]
        if not any(drafts):
            ranges = ((1, round(batches[-1]), 0),)
        best = np.nanmax(values[list(asked)], axis=1)
        return Course(ranges, float(np.mean(1.0 - values[list(asked), drafts] / best)))

    found = course(np.ones(values.shape[1], dtype=bool))
    lengths = {k for _, _, k in found.schedule if k}
    served, drafter = grid.prediction.deployment, grid.prediction.drafters[grid.drafter]
    releases = grid.wanted.frameworks.values()
    is_fixed = not all(can_follow_load(served, drafter, name) for name in releases)
    if lengths and not is_fixed and grid.prediction.limits:
        largest = grid.prediction.limits[grid.drafter].largest[0] * grid.prediction.servers
        most = largest[max(lengths)]
        room = min(_SAME_ROOM * largest[min(lengths)], batches[asked[-1]])
        is_fixed = bool(most < room) or any(k and first > most for first, _, k in found.schedule)
    if is_fixed and len(lengths) > 1:
        shares = values / np.nanmax(values, axis=1, keepdims=True)
        kept = weights @ np.maximum(np.nan_to_num(shares), shares[:, :1])
        found = course(np.isin(np.arange(len(kept)), [0, int(np.argmax(kept))]))
    return found


def refused_lengths(grid: LoadGrid) -> BoolArray:
    """Return which lengths must not be taken, axes (load, draft_len).

    Those that miss targets which another length meets, and those by which a load would be decided
    otherwise than alone: that gain nothing, or not for certain where the best one does. A day
    weighs what some hours lose against what others gain, unless a gain is asked of each, and may
    always go without drafts.
    """
    refused = ~grid.in_time & grid.in_time.any(axis=1, keepdims=True)
    least_speedup = grid.wanted.targets.least_speedup
    if grid.wanted.traffic is not None:
        refused[:, 0] = False
        if least_speedup == 1:
            return refused
    late = np.broadcast_to(grid.outcome.unsustained, (1, len(refused)))[0]
    least = np.where(late, 1.0, least_speedup)[:, None]
    middle, low, _ = grid.ends
    refused[:, 1:] |= ~(middle > least * (1 + TIE))[:, 1:]
    best = best_index(np.where(refused | ~grid.allowed, np.nan, middle))[:, None]
    gain, surely = (np.take_along_axis(ends, best, axis=1) for ends in (middle, low))
    # A length that is scheduled has the band of the best one, around itself.
    refused[:, 1:] |= ((surely > least) & ~(surely * middle > least * gain))[:, 1:]
    return refused


def _worth(
    grid: LoadGrid, course: Course, batches: Sequence[float], asked: Sequence[int]
) -> tuple[float, float, int]:
    """Return the key of the best drafter: loads that meet the targets, mean speedup, few drafts.

    Over a day what its choice went by.
    """
    if course.day is not None:
        return *course.day.worth, 0
    drafts = [drafts_at(course.schedule, batches[i]) for i in asked]
    at = list(asked), drafts
    gain = float(np.mean(grid.ends[0][at]))
    return float(grid.in_time[at].sum()), round(gain / TIE), -sum(drafts)


#: What stands for a target that every draft misses.
MISSED: Final = ("TTFT target", "TPOT target")


def _missed(grid: LoadGrid, i: int) -> str:
    """Return the target that every draft misses at a load, and no drafts meet."""
    waits_s = grid.ttft_s[i], grid.tpot_s[i]
    for name, seconds, most_s in zip(MISSED, waits_s, grid.wanted.targets.seconds, strict=True):
        met = (seconds <= most_s) & grid.allowed
        if met[0] and not met[1:].any() and grid.allowed[1:].any():
            return name
    return ""


def _point(grid: LoadGrid, i: int, k: int) -> RoundBreakdown:
    """Return a round of `k` drafts beside the plain step, without the times of requests."""
    requests, curve = grid.requests, grid.requests.curve
    running = np.broadcast_to(curve.running_batch[0], grid.ends[0].shape)[i]
    delay_s, round_s = requests.delay_s[0, i], requests.decoding_round_s[0, i]
    names = ("tokens_per_round", "draft_s", "verify_s")
    return RoundBreakdown(
        draft_len=k,
        **{name: float(getattr(curve, name)[0, i, k]) for name in names},
        round_s=float(round_s[k]),
        decode_s=float(round_s[0]),
        running=float(running[k]),
        plain_running=float(running[0]),
        wait_s=float(delay_s[k]),
        plain_wait_s=float(delay_s[0]),
        latency_s=requests.latency_s,
        output_len=requests.workload.output_len,
    )


def break_even_of(prediction: Prediction, plan: LoadPlan, place: int) -> BreakEven:
    """Return the least acceptance that pays at a load, as `breakeven` does, and its tokens.

    Parameters
    ----------
    prediction, plan
        What the drafters gain, and the decision.
    place
        Which of the rows of the plan.
    """
    row, drafter = plan.rows[place], prediction.drafters[plan.chosen]
    if row.point is None:
        return BreakEven(None, None)
    drafts, played = row.point.draft_len, prediction.outcomes[plan.chosen].played
    load = prediction.load.part(row.place) if played is None else played.load.part(place)
    case = prediction.about.at(load=load, targets=(np.inf, np.inf))
    wish = Wish(max_draft_len=drafts, draft_len=drafts, speedup=plan.targets.least_speedup)
    rate = solve(case, drafter, "accept", wish).value
    if rate is None:
        return BreakEven(None, None)
    accepting = replace(drafter, acceptance=constant_acceptance(rate))
    there = outcomes(case.at(load=load.steady), accepting, max_draft_len=drafts)
    return BreakEven(rate, float(there.curve.tokens_per_round[0, 0, drafts]))


def _warnings(rows: Sequence[AdvisedRow], targets: Targets) -> list[str]:
    """Return the targets that no load meets, each with the best that a load reaches."""
    warnings = []
    for name, what in (("ttft", "TTFT"), ("tpot", "TPOT")):
        target_ms = getattr(targets, f"{name}_ms")
        waits = {row.load: getattr(row, f"{name}_s") / MILLISECOND for row in rows}
        load = min(waits, key=lambda load: np.nan_to_num(waits[load], nan=np.inf))
        if target_ms is not None and not waits[load] <= target_ms:
            warnings.append(
                f"a {what} of {float(target_ms):g} ms is out of reach: the least is "
                f"{three_digits(waits[load])} ms, "
                f"at {plain_number(load, digits=4)} {rows[0].unit}"
            )
    most = max(rows, key=lambda row: np.nan_to_num(row.tried_speedup))
    if targets.min_speedup is not None and most.tried_speedup < targets.min_speedup:
        warnings.append(
            f"a speedup of {targets.min_speedup:g} is out of reach: the most is "
            f"{most.tried_speedup:.2f}x, at {plain_number(most.load, digits=4)} {most.unit}"
        )
    return warnings
