"""The loads of advice: traffic, targets, and the best drafts at each load of a chip."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from specroof.acceptance import Acceptance, constant_acceptance
from specroof.arrays import Array, number_within
from specroof.outcomes.choose import UNSUSTAINED, decision_of, is_late
from specroof.outcomes.outcomes import Outcomes
from specroof.policies.decision import (
    Choice,
    LoadDecision,
    RoundBreakdown,
    Verdict,
    best_choice,
    bottlenecks,
)
from specroof.policies.schedule import Day, Traffic, advised_day, best_schedule, drafts_at
from specroof.questions.predict import Prediction
from specroof.serving.end_to_end import EndToEnd
from specroof.serving.played import PlayedLoads
from specroof.serving.served import served_curve
from specroof.serving.workload import Workload
from specroof.speedup.inverses import least_rate
from specroof.speedup.price import usd_per_million_tokens
from specroof.speedup.result import SpeedupCurve, best_index, within_measured
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
class Times:
    """Throughput, waits and price at one load.

    Parameters
    ----------
    tokens_per_s
        Output tokens of all requests, prefills counted.
    ttft_s, tpot_s
        Seconds until the first token, waiting included, and of each token after it.
    running
        Requests that are decoded at a time.
    usd_per_hour
        Price of all devices; None if not known.
    tokens_per_s_low, tokens_per_s_high, ttft_low, ttft_high, tpot_low, tpot_high
        Ends of the bands that hold 80 % of measurements; None where there is no band.
    p99_s
        Both waits of p99, where the requests are played through.
    """

    tokens_per_s: float
    ttft_s: float
    tpot_s: float
    running: float
    usd_per_hour: float | None = None
    tokens_per_s_low: float | None = None
    tokens_per_s_high: float | None = None
    ttft_low: float | None = None
    ttft_high: float | None = None
    tpot_low: float | None = None
    tpot_high: float | None = None
    p99_s: tuple[float, float] | None = None

    def meets(self, targets: Targets) -> Outcome:
        """Return whether waits are short enough: ``unclear`` where a band holds its target."""
        waits = (
            (self.ttft_s, self.ttft_low, self.ttft_high),
            (self.tpot_s, self.tpot_low, self.tpot_high),
        )
        played = self.p99_s or (self.ttft_s, self.tpot_s)
        # p99 has the band of the mean.
        ends = np.array(
            [
                [at * (1.0 if end is None else end / mean) for end in (low, high)]
                for at, (mean, low, high) in zip(played, waits, strict=True)
            ]
        )
        least, most = (bool(targets.met(*side)) for side in ends.T)
        return "yes" if most else "unclear" if least else "no"

    def _usd(self, tokens_per_s: float | None) -> float | None:
        if self.usd_per_hour is None or tokens_per_s is None or not np.isfinite(tokens_per_s):
            return None
        return float(
            usd_per_million_tokens(tokens_per_s, devices=1, usd_per_hour=self.usd_per_hour)
        )

    @property
    def usd_per_million_tokens(self) -> float | None:
        """Price of a million output tokens; None where that of the devices is not known."""
        return self._usd(self.tokens_per_s)

    @property
    def usd_per_million_tokens_low(self) -> float | None:
        """The low end of its band: at the most tokens."""
        return self._usd(self.tokens_per_s_high)

    @property
    def usd_per_million_tokens_high(self) -> float | None:
        """The high end of its band: at the fewest tokens."""
        return self._usd(self.tokens_per_s_low)


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


@dataclass(frozen=True, slots=True)
class AdvisedLoad:
    """The decision at one load.

    Parameters
    ----------
    concurrency
        Requests in flight; of those that come by themselves, how many run on average without
        drafts.
    drafter
        The index of the drafter that the server is started with.
    choice
        The drafts that its schedule makes here, and their speedup with its band; of the best drafts
        where it makes none.
    times, plain
        Throughput, waits and price with these drafts, and without drafts.
    point
        The round of these drafts, in seconds; None where there is none.
    targets
        Promises to users.
    missed
        The target that drafts miss and no drafts meet; empty where that is not why they are off.
    others
        The best drafts of each other drafter, by index.
    own
        Speedups of the lengths that the user named, by drafter and length.
    default
        As `times`, under the server's default limits; None where these do not bind.
    typical
        The speedup with the typical shape of acceptance; None where a length or positions were
        given.
    worth_measuring
        Longer drafts than acceptance was measured with, which may gain more; None where none may.
    place
        The place of the load among those of the prediction.
    rate
        Requests that arrive in a second; None of clients and of a job.
    stable_rates
        Requests per second that a server answers at most, without drafts and with these; None where
        none arrive.
    """

    concurrency: float
    drafter: int
    choice: Choice
    times: Times
    plain: Times
    point: RoundBreakdown | None
    targets: Targets
    missed: str = ""
    others: dict[int, Choice] = field(default_factory=dict)
    own: dict[tuple[int, int], float] = field(default_factory=dict)
    default: Times | None = None
    typical: float | None = None
    worth_measuring: Choice | None = None
    place: int = 0
    rate: float | None = None
    stable_rates: tuple[float, float] | None = None

    @property
    def load(self) -> float:
        """What the row is told by: requests that arrive in a second, or those in flight."""
        return self.concurrency if self.rate is None else self.rate

    @property
    def keeps_up(self) -> bool:
        """Whether the server answers as many requests as arrive with these drafts."""
        return self.stable_rates is None or self.load <= self.stable_rates[1]

    @property
    def unit(self) -> str:
        """What `load` counts."""
        return "in flight" if self.rate is None else "requests/s"

    @property
    def draft_len(self) -> int:
        """Drafts per round; 0 is off."""
        return self.choice.draft_len

    @property
    def meets(self) -> Outcome:
        """Whether the targets are met."""
        return self.times.meets(self.targets)

    @property
    def verdict(self) -> Verdict:
        """Whether drafting pays here."""
        return self.choice.verdict

    @property
    def waits(self) -> bool:
        """Whether drafts gain throughput, and the first token comes ten times later."""
        return bool(self.draft_len) and is_late(self.times.ttft_s, self.plain.ttft_s)

    @property
    def decision(self) -> LoadDecision:
        """What to do here."""
        return decision_of(self.choice, late=self.waits)

    @property
    def speedup(self) -> tuple[float, float, float]:
        """The speedup of the advised drafts, with its band; 1 if off, NaN if `unsustained`."""
        if self.draft_len == 0 and not self.choice.reason:
            return 1.0, 1.0, 1.0
        return self.choice.speedup, self.choice.low, self.choice.high

    @property
    def bottlenecks(self) -> dict[str, float]:
        """Speedup without each thing that holds it back, the largest first."""
        return {} if self.point is None else bottlenecks(self.point)

    @property
    def bottleneck(self) -> str:
        """What holds the speedup back most, a missed target first; empty where nothing does."""
        return self.missed or next(iter(self.bottlenecks), "")


@dataclass(frozen=True, slots=True)
class LoadPlan:
    """The decision for a chip: one drafter, and its draft length at every load.

    Parameters
    ----------
    rows
        The decision at the loads of the question, each with the drafts of the schedule.
    best
        That at the load with most throughput that meets the targets, from the least to the largest
        of these and between them, where nobody waits for it if there is one; None where none does.
    chosen
        The index of the drafter to start the server with.
    schedule
        Ranges of loads from 1 on: first, last and drafts per round.
    lost
        Mean share of throughput that the few ranges lose against the best length of each load of
        the question; None of a day.
    is_tree, nodes
        Whether the drafter branches, and the drafts of its tree.
    capacity
        The most requests without drafts and with, and their limits; None for endless memory.
    warnings
        Sentences for the reader.
    day
        The gain over a day of traffic; None without traffic.
    """

    rows: tuple[AdvisedLoad, ...]
    best: AdvisedLoad | None
    chosen: int
    schedule: tuple[tuple[int, int, int], ...]
    lost: float | None
    is_tree: bool
    nodes: int
    capacity: dict[str, Any] | None
    warnings: tuple[str, ...]
    day: Day | None = None

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

    `worth` is what lengths are scheduled by, `speedup` what they are chosen by, with its band.
    """

    outcome: Outcomes
    requests: EndToEnd
    largest: Array
    worth: Array
    allowed: npt.NDArray[np.bool_]
    ttft_s: Array
    tpot_s: Array
    tokens_per_s: Array
    speedup: Array
    low: Array
    high: Array
    ends: dict[str, tuple[Array, Array] | None]


def load_plan(  # noqa: PLR0913 - a prediction, its loads, and what is wanted of them
    prediction: Prediction,
    loads: Sequence[float],
    *,
    draft_lens: Sequence[int] | None,
    targets: Targets,
    traffic: Traffic | None,
    usd_per_hour: float | None,
    fixed: Sequence[bool] = (),
    by_default: Prediction | None = None,
    typical: LoadPlan | None = None,
    baseline: Sequence[Times] | None = None,
) -> LoadPlan:
    """Return the decision for each load: one drafter, and one schedule of its draft lengths.

    Parameters
    ----------
    prediction
        Curves with prefills counted, at these loads and others.
    loads
        Requests in flight that are asked about; of requests that come by themselves all loads are.
    draft_lens
        Drafts per round to choose from; any if None.
    targets
        Promises to users.
    traffic
        The day that schedules are made for; without it, every load of the question counts the same.
    usd_per_hour
        Price of one device; None if not known.
    fixed
        For each drafter, whether a server cannot change its length with the load; none is if empty.
    by_default
        The same under the default limits of the server, where the prediction is of others.
    typical
        The decision with the typical shape of acceptance, whose drafter and lengths are taken.
    baseline
        Servers without drafts at all loads of the prediction, over which speedups are; those of
        the prediction if None.
    """
    grids = [_grid_of(prediction, d, draft_lens, baseline) for d in range(len(prediction.drafters))]
    batches, rates = list(prediction.load.batch_size), list[float]()
    if prediction.played and prediction.played[0].load.kind != "concurrency":
        rates = [*prediction.played[0].load.arrival_rates]
        batches = _decoded_together(grids[0], prediction.played[0])
        loads = batches
    asked = [batches.index(load) for load in loads]
    if typical is None:
        courses = [
            _course(grid, batches, asked, targets, traffic, is_fixed=bool(fixed) and fixed[d])
            for d, grid in enumerate(grids)
        ]
        worth = [
            _worth(*pair, batches, asked, targets) for pair in zip(grids, courses, strict=True)
        ]
        chosen = worth.index(max(worth))
        ranges, lost, day = courses[chosen]
    else:
        chosen, ranges, lost, day = typical.chosen, typical.schedule, typical.lost, typical.day
    grid = grids[chosen]
    own, told = _own_lengths(prediction, draft_lens), prediction.told[chosen]
    hourly = None if usd_per_hour is None else usd_per_hour * prediction.devices
    lengths: list[int] = [k for _, _, k in ranges if k]
    default_grid = None if by_default is None else _grid_of(by_default, chosen, draft_lens)

    def row(i: int, typical: float | None = None) -> AdvisedLoad:
        drafts = drafts_at(ranges, batches[i])
        choice = _choice(grid, i, targets, drafts, lengths)
        plain = _times(grid, i, 0, hourly) if baseline is None else baseline[i]
        times = _times(grid, i, drafts, hourly) if drafts else plain
        default = None if default_grid is None else _times(default_grid, i, drafts, hourly)
        return AdvisedLoad(
            concurrency=float(grid.requests.curve.batch_size[i]),
            drafter=chosen,
            choice=choice,
            times=times,
            plain=plain,
            point=_point(grid, i, choice.tried) if choice.tried and not choice.reason else None,
            targets=targets,
            missed="" if drafts else _missed(grid, i, targets),
            others={d: _choice(grids[d], i, targets) for d in range(len(grids)) if d != chosen},
            own={
                (d, k): np.nan if choice.reason else float(grids[d].speedup[i, k]) for d, k in own
            },
            default=default if told and told[i][drafts > 0] is not None else None,
            typical=typical,
            worth_measuring=_longer(grid, i),
            place=i,
            rate=rates[i] if rates else None,
            stable_rates=grid.outcome.stable_rates(choice.tried),
        )

    shapes = [None] * len(asked) if typical is None else [r.speedup[0] for r in typical.rows]
    rows = [row(i, shape) for i, shape in zip(asked, shapes, strict=True)]
    within = [i for i in range(len(batches)) if asked[0] <= i <= asked[-1]]
    drafted = [drafts_at(ranges, batches[i]) for i in within]
    met = targets.met(grid.ttft_s[within, drafted], grid.tpot_s[within, drafted])
    waits_s = zip(
        grid.ttft_s[within, drafted].tolist(), grid.ttft_s[within, 0].tolist(), strict=True
    )
    soon = np.array([not is_late(*pair) for pair in waits_s])
    met = met & soon if (met & soon).any() else met
    made = np.where(met, grid.tokens_per_s[within, drafted], -np.inf)
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
    return LoadPlan(
        rows=tuple(rows),
        best=row(within[int(np.argmax(made))]) if met.any() else None,
        chosen=chosen,
        schedule=ranges,
        lost=lost,
        day=day,
        is_tree=bool(verified[longest] > longest + 1),
        nodes=int(verified[longest]) - 1,
        capacity=capacity,
        warnings=tuple(_warnings(rows, targets)),
    )


def _decoded_together(grid: _Grid, played: PlayedLoads) -> list[float]:
    """Return the requests that run of each load at its best drafts: by rates, and rising."""
    best = best_index(np.where(grid.allowed[None, :], grid.worth, np.nan))
    running = played.figures["mean_running"][np.arange(len(best)), best]
    rising = list[float]()
    for number in np.ceil(np.nan_to_num(running)).tolist():
        rising.append(max(number, 1.0 + max(rising, default=0.0)))
    return rising


def plain_times(prediction: Prediction, working: Array, usd_per_hour: float | None) -> list[Times]:
    """Return the figures of servers without drafts that share loads alike.

    Parameters
    ----------
    prediction
        Of one of them, or of the workers of a split.
    working
        How many of them work, load by load.
    usd_per_hour
        Price of all devices, those of servers without requests too; None if not known.
    """
    grid = _grid_of(prediction, 0, None)

    def shared(times: Times, share: float) -> Times:
        names = ("tokens_per_s", "tokens_per_s_low", "tokens_per_s_high", "running")
        rates = {name: getattr(times, name) for name in names}
        more: dict[str, Any] = {name: rate and rate * share for name, rate in rates.items()}
        return replace(times, **more)

    return [
        shared(_times(grid, i, 0, usd_per_hour), share) for i, share in enumerate(working.tolist())
    ]


def _grid_of(
    prediction: Prediction,
    d: int,
    draft_lens: Sequence[int] | None,
    baseline: Sequence[Times] | None = None,
) -> _Grid:
    requests = prediction.end_to_end[d]
    outcome, curve = prediction.outcomes[d], requests.curve
    largest = np.full(len(curve.draft_len), np.inf)
    if prediction.limits:
        largest = prediction.limits[d].largest[0] * prediction.servers
    allowed = np.isfinite(within_measured(curve.tokens_per_round[0, 0], curve.measured_draft_len))
    if draft_lens is not None:
        allowed &= np.isin(curve.draft_len, [0, *draft_lens])
    times = {
        name: np.array(getattr(requests, name)[0]) for name in ("ttft_s", "tpot_s", "tokens_per_s")
    }
    speedups = np.array([values[0] for values in outcome.deciding])
    if baseline is not None:
        plain = np.array([each.tokens_per_s for each in baseline])
        speedups[..., 1:] *= (times["tokens_per_s"][:, 0] / plain)[:, None]
        for name, values in times.items():
            values[:, 0] = [getattr(each, name) for each in baseline]
    # Of requests that come whatever the server does, as many tokens are made with any drafts.
    comes = outcome.played is not None and not outcome.played.sums_work
    figures: dict[str, Any] = {"ends": requests.figure_ends, **times}
    return _Grid(
        outcome,
        requests,
        largest,
        worth=speedups[0] if comes else times["tokens_per_s"],
        allowed=allowed,
        speedup=speedups[0],
        low=speedups[1],
        high=speedups[2],
        **figures,
    )


#: A schedule, the share of throughput that it loses, and the gain of a day.
_Course: TypeAlias = tuple[tuple[tuple[int, int, int], ...], float | None, Day | None]


def _course(
    grid: _Grid,
    batches: Sequence[float],
    asked: Sequence[int],
    targets: Targets,
    traffic: Traffic | None,
    *,
    is_fixed: bool,
) -> _Course:
    """Return the draft lengths of one drafter by load: requests that are decoded together.

    One length, or none, where a server cannot follow the load, and where its longest draft leaves
    room for fewer requests than a shorter one would: that room is what all lengths have.
    """
    weights = np.full(len(batches), _BETWEEN)
    weights[list(asked)] = 1.0
    rates = np.where(grid.allowed[None, :], grid.worth, np.nan)
    values = rates if traffic is not None else rates * _worthwhile(grid, targets)

    def course(lengths: npt.NDArray[np.bool_]) -> _Course:
        taken = np.where(lengths[None, :], values, np.nan)
        if traffic is not None:
            day = advised_day(
                traffic,
                batches,
                taken,
                output_len=grid.requests.workload.output_len,
                most_ranges=_MOST_RANGES,
            )
            return day.schedule, None, day
        whole = [round(batch) for batch in batches]
        ranges = best_schedule(
            whole, taken, most_ranges=_MOST_RANGES, weights=weights, least_gain=_LEAST_GAIN
        ).ranges
        drafts = [drafts_at(ranges, whole[i]) for i in asked]
        if not any(drafts):
            ranges = ((1, whole[-1], 0),)
        best = np.nanmax(values[list(asked)], axis=1)
        return ranges, float(np.mean(1.0 - values[list(asked), drafts] / best)), None

    found = course(np.ones(values.shape[1], dtype=bool))
    lengths = {k for _, _, k in found[0] if k}
    if lengths and not is_fixed:
        most = grid.largest[max(lengths)]
        room = min(_SAME_ROOM * grid.largest[min(lengths)], batches[asked[-1]])
        is_fixed = bool(most < room) or any(k and first > most for first, _, k in found[0])
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
    grid: _Grid, course: _Course, batches: Sequence[float], asked: Sequence[int], targets: Targets
) -> tuple[float, float]:
    """Return the key of the best drafter: loads that meet the targets, then its mean speedup."""
    ranges, _, day = course
    if day is not None:
        return 0.0, day.gain
    at = list(asked), [drafts_at(ranges, batches[i]) for i in asked]
    met = targets.met(grid.ttft_s[at], grid.tpot_s[at])
    return float(met.sum()), float(np.mean(grid.speedup[at]))


def _choice(
    grid: _Grid,
    i: int,
    targets: Targets,
    draft_len: int | None = None,
    lengths: Sequence[int] = (),
) -> Choice:
    """Return the drafts at a load: as decided, or the best that meet the targets, if any do.

    Where the decision is off, the best of the lengths that are drafted at other loads, if any.
    """
    allowed = grid.allowed
    if lengths:
        allowed = allowed & np.isin(np.arange(len(allowed)), (0, *lengths))
    meets = targets.met(grid.ttft_s[i], grid.tpot_s[i]) & allowed
    choice = best_choice(
        grid.speedup[i],
        low=grid.low[i],
        high=grid.high[i],
        allowed=meets if meets[1:].any() else allowed,
        least=targets.least_speedup,
        draft_len=draft_len,
    )
    return replace(choice, **UNSUSTAINED) if grid.outcome.unsustained[i] else choice


def _longer(grid: _Grid, i: int) -> Choice | None:
    """Return the longer drafts than measured that may gain most at a load; None where none may."""
    drafts = int(grid.requests.curve.worth_measuring[0, i])
    if not drafts:
        return None
    return best_choice(grid.speedup[i], low=grid.low[i], high=grid.high[i], draft_len=drafts)


def _missed(grid: _Grid, i: int, targets: Targets) -> str:
    """Return the target that every draft misses at a load, and no drafts meet."""
    for name, only, waits in (
        ("TTFT", replace(targets, tpot_ms=None), (grid.ttft_s[i], 0.0)),
        ("TPOT", replace(targets, ttft_ms=None), (0.0, grid.tpot_s[i])),
    ):
        met = only.met(*waits) & grid.allowed
        if met[0] and not met[1:].any() and grid.allowed[1:].any():
            return f"{name} target"
    return ""


def _own_lengths(prediction: Prediction, draft_lens: Sequence[int] | None) -> list[tuple[int, int]]:
    """Return the lengths that the user named: to choose from, or to measure acceptance with."""
    pairs = []
    for d, (drafter, curve) in enumerate(zip(prediction.drafters, prediction.curves, strict=True)):
        depth = getattr(drafter.acceptance, "measured_depth", None)
        own = draft_lens if draft_lens is not None else ([] if depth is None else [depth])
        pairs += [(d, k) for k in own if 0 < k < len(curve.draft_len)]
    return pairs


def _times(grid: _Grid, i: int, k: int, usd_per_hour: float | None) -> Times:
    ends: dict[str, Any] = {
        f"{name}_{side}": None if pair is None else float(pair[n][0, i, k])
        for name, pair in grid.ends.items()
        for n, side in enumerate(("low", "high"))
    }
    running = np.broadcast_to(grid.requests.curve.running_batch[0], grid.speedup.shape)
    figures, played = getattr(grid.requests, "figures", None), grid.outcome.played
    if played is not None and not played.sums_work:  # whose curve runs as many with any drafts
        running = played.figures["mean_running"]
    return Times(
        tokens_per_s=float(grid.tokens_per_s[i, k]),
        ttft_s=float(grid.ttft_s[i, k]),
        tpot_s=float(grid.tpot_s[i, k]),
        running=float(running[i, k]),
        usd_per_hour=usd_per_hour,
        p99_s=None
        if figures is None
        else (float(figures["p99_ttft_s"][0, i, k]), float(figures["p99_tpot_s"][0, i, k])),
        **ends,
    )


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


def break_even_of(prediction: Prediction, row: AdvisedLoad) -> BreakEven:
    """Return the least acceptance that pays, with what drafting takes at that acceptance."""
    if row.point is None:
        return BreakEven(None, None)
    drafter, drafts = prediction.drafters[row.drafter], row.point.draft_len
    load = replace(prediction.load, batch_size=[row.concurrency])

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
        row.targets.least_speedup,
    ).value
    if rate is None:
        return BreakEven(None, None)
    tokens = curve(constant_acceptance(rate)).tokens_per_round[0, 0, drafts]
    return BreakEven(rate, float(tokens))


def _warnings(rows: Sequence[AdvisedLoad], targets: Targets) -> list[str]:
    """Return the targets that no load meets, each with the best that a load reaches."""
    warnings = []
    for name, what in (("ttft", "TTFT"), ("tpot", "TPOT")):
        target_ms = getattr(targets, f"{name}_ms")
        waits = {row.load: getattr(row.times, f"{name}_s") / MILLISECOND for row in rows}
        load = min(waits, key=lambda load: np.nan_to_num(waits[load], nan=np.inf))
        if target_ms is not None and not waits[load] <= target_ms:
            warnings.append(
                f"a {what} of {float(target_ms):g} ms is out of reach: the least is {waits[load]:.3g} ms, "
                f"at {load:.4g} {rows[0].unit}"
            )
    most = max(rows, key=lambda row: np.nan_to_num(row.choice.speedup))
    if targets.min_speedup is not None and most.choice.speedup < targets.min_speedup:
        warnings.append(
            f"a speedup of {targets.min_speedup:g} is out of reach: the most is "
            f"{most.choice.speedup:.2f}x, at {most.load:.4g} {most.unit}"
        )
    return warnings
