"""The loads of advice: traffic, targets, and the best drafts at each load of a chip."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from specroof.acceptance import Acceptance, constant_acceptance
from specroof.arrays import Array, number_within
from specroof.policies.decision import Choice, RoundBreakdown, Verdict, best_choice, bottlenecks
from specroof.policies.schedule import Day, Traffic, advised_day, best_schedule, drafts_at
from specroof.questions.predict import Prediction
from specroof.serving.end_to_end import EndToEnd
from specroof.serving.served import served_curve
from specroof.serving.workload import Workload
from specroof.speedup.inverses import least_rate
from specroof.speedup.price import usd_per_million_tokens
from specroof.speedup.result import SpeedupCurve
from specroof.units import MILLISECOND

# --- The advice at each load: values -------------------------------------------------------------


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

    def met(self, ttft_s: Any, tpot_s: Any) -> Any:
        """Return whether waits are short enough."""
        ttft_ms = np.inf if self.ttft_ms is None else self.ttft_ms
        tpot_ms = np.inf if self.tpot_ms is None else self.tpot_ms
        in_time = np.asarray(ttft_s) <= ttft_ms * MILLISECOND
        return in_time & (np.asarray(tpot_s) <= tpot_ms * MILLISECOND)


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
        Workload(input_len=1500.0, output_len=200.0, prefix_hit_rate=0.0, waves=False)
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
    usd_per_million_tokens
        None where no price is known.
    running
        Requests that are decoded at a time.
    tokens_per_s_low, tokens_per_s_high, ttft_low, ttft_high, tpot_low, tpot_high
        Ends of the bands that hold 80 % of measurements; None where there is no band.
    usd_per_million_tokens_low, usd_per_million_tokens_high
        The same; None where no price is known, too.
    """

    tokens_per_s: float
    ttft_s: float
    tpot_s: float
    usd_per_million_tokens: float | None
    running: float
    tokens_per_s_low: float | None = None
    tokens_per_s_high: float | None = None
    ttft_low: float | None = None
    ttft_high: float | None = None
    tpot_low: float | None = None
    tpot_high: float | None = None
    usd_per_million_tokens_low: float | None = None
    usd_per_million_tokens_high: float | None = None


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
    """The advice at one load.

    Parameters
    ----------
    concurrency
        Requests in flight.
    drafter
        The index of the best drafter; None where drafting is off.
    tried
        The index of the drafter that comes nearest.
    draft_len
        Drafts per round; 0 is off.
    choice
        The best drafts, and their speedup with its band.
    times, plain
        Throughput, waits and price with these drafts, and without drafts.
    point
        The round of the best drafts, in seconds; None where there is none.
    meets
        Whether the targets are met.
    least_speedup
        The speedup from which drafting pays.
    own
        Speedups of the lengths that the user named, by drafter and length.
    break_even
        The least acceptance at which the best drafts pay.
    """

    concurrency: float
    drafter: int | None
    draft_len: int
    choice: Choice
    times: Times
    plain: Times
    point: RoundBreakdown | None
    meets: bool
    least_speedup: float = 1.0
    tried: int = 0
    own: dict[tuple[int, int], float] = field(default_factory=dict)
    break_even: BreakEven = field(default_factory=lambda: BreakEven(None, None))

    @property
    def verdict(self) -> Verdict:
        """Whether drafting pays here."""
        return self.choice.verdict

    @property
    def speedup(self) -> tuple[float, float, float]:
        """The speedup of the advised drafts, with its band; 1 where drafting is off."""
        if self.draft_len == 0:
            return 1.0, 1.0, 1.0
        return self.choice.speedup, self.choice.low, self.choice.high

    @property
    def bottlenecks(self) -> dict[str, float]:
        """Speedup without each thing that holds it back, the largest first."""
        return {} if self.point is None else bottlenecks(self.point)

    @property
    def bottleneck(self) -> str:
        """What holds the speedup back most; empty where nothing does."""
        return next(iter(self.bottlenecks), "")


@dataclass(frozen=True, slots=True)
class LoadPlan:
    """The advice at all loads of a chip.

    Parameters
    ----------
    rows
        The advice at the loads of the question.
    chosen
        The index of the drafter to start the server with.
    schedule
        Ranges of loads from 1 on: first, last and drafts per round.
    lost
        Mean share of throughput that the few ranges lose, every load alike; None of a day.
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
    chosen: int
    schedule: tuple[tuple[int, int, int], ...]
    lost: float | None
    is_tree: bool
    nodes: int
    capacity: dict[str, Any] | None
    warnings: tuple[str, ...]
    day: Day | None = None

    def drafts(self, load: float) -> int:
        """Return the drafts of the schedule at a load; beyond the last range, its own."""
        return drafts_at(self.schedule, load)

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
    """Return these loads, and two in each doubling up to the largest: a schedule needs its edges.

    Parameters
    ----------
    loads
        Requests in flight that are asked about.
    traffic
        The loads of a day; None for `loads` alone.
    """
    loads = [1.0, *loads]
    if traffic is not None:
        arrive = traffic.unit != "concurrency"
        loads.append(_MOST_IN_FLIGHT if arrive else max(1.0, *traffic.loads))
    doublings = int(math.log2(max(loads))) + 1
    between = {float(step * 2**power) for power in range(doublings) for step in (2, 3)}
    return sorted({*map(float, loads), *(load for load in between if load < max(loads))})


#: Ranges of a schedule, at most; a further one must gain this share of throughput.
_MOST_RANGES: Final = 4
_LEAST_GAIN: Final = 0.002


@dataclass(frozen=True, slots=True, eq=False)
class _Grid:
    """The arrays of one drafter, axes (load, draft_len)."""

    requests: EndToEnd
    allowed: npt.NDArray[np.bool_]
    ttft_s: Array
    tpot_s: Array
    low: Array
    high: Array
    ends: dict[str, tuple[Array, Array] | None]

    @property
    def speedup(self) -> Array:
        return np.asarray(self.requests.speedup[0])

    @property
    def tokens_per_s(self) -> Array:
        return np.asarray(self.requests.tokens_per_s[0])


def load_plan(
    prediction: Prediction,
    loads: Sequence[float],
    *,
    draft_lens: Sequence[int] | None,
    targets: Targets,
    traffic: Traffic | None,
    usd_per_hour: float | None,
) -> LoadPlan:
    """Return the advice for each load.

    Parameters
    ----------
    prediction
        Curves with prefills counted, at these loads and others.
    loads
        Requests in flight that are asked about.
    draft_lens
        Drafts per round to choose from; any if None.
    targets
        Promises to users.
    traffic
        The day that schedules are made for; without it, every load counts the same.
    usd_per_hour
        Price of one device; None if not known.
    """
    grids = [_grid_of(requests, draft_lens) for requests in prediction.counted]
    batches = list(prediction.load.batch_size)
    choices = [
        [
            best_choice(
                grid.speedup[i],
                low=grid.low[i],
                high=grid.high[i],
                allowed=_allowed(grid, i, targets),
                least=targets.least_speedup,
            )
            for i in range(len(batches))
        ]
        for grid in grids
    ]
    days = [] if traffic is None else [_day(grid, batches, traffic) for grid in grids]
    # The largest gain over the day, or the largest mean speedup over the loads, off where it loses.
    means = [float(np.mean([max(1.0, best.speedup) for best in row])) for row in choices]
    chosen = _largest([day.gain for day in days] or means)
    own = _own_lengths(prediction, draft_lens)
    hourly = None if usd_per_hour is None else usd_per_hour * prediction.setup.placement.devices
    rows = []
    for load in loads:
        i = batches.index(load)
        best = _largest([of_drafter[i].speedup for of_drafter in choices])
        grid, choice = grids[best], choices[best][i]
        times = _times(grid, i, choice.draft_len, hourly)
        row = AdvisedLoad(
            concurrency=float(grid.requests.curve.batch_size[i]),
            drafter=best if choice.draft_len else None,
            tried=best,
            draft_len=choice.draft_len,
            choice=choice,
            times=times,
            plain=_times(grid, i, 0, hourly),
            point=_point(grid, i, choice.tried) if choice.tried else None,
            meets=bool(targets.met(times.ttft_s, times.tpot_s)),
            least_speedup=targets.least_speedup,
            own={(d, k): float(grids[d].speedup[i, k]) for d, k in own},
        )
        rows.append(replace(row, break_even=_break_even(prediction, row)))
    grid = grids[chosen]
    day = days[chosen] if days else None
    ranges, lost = _ranges(grid, batches, targets) if day is None else (day.schedule, None)
    drafts = max(k for _, _, k in ranges)
    verified = grid.requests.curve.verify_len
    capacity = None
    if prediction.limits:
        limits = prediction.limits[chosen]
        capacity = {
            name: {
                "largest_batch": int(limits.largest[0, k]),
                "bound_by": str(limits.bound_by[0, k]),
            }
            for name, k in {"plain": 0, "speculative": drafts}.items()
        }
    return LoadPlan(
        rows=tuple(rows),
        chosen=chosen,
        schedule=ranges,
        lost=lost,
        day=day,
        is_tree=bool(verified[drafts] != drafts + 1),
        nodes=int(verified[drafts]) - 1,
        capacity=capacity,
        warnings=tuple(_warnings(rows, targets)),
    )


def _grid_of(requests: EndToEnd, draft_lens: Sequence[int] | None) -> _Grid:
    curve = requests.curve
    # Without a band, both ends are the speedups themselves.
    low, high = (
        curve.speedup if end is None else end for end in (curve.speedup_low, curve.speedup_high)
    )
    allowed = np.isfinite(curve.tokens_per_round[0, 0])
    if draft_lens is not None:
        allowed &= np.isin(curve.draft_len, [0, *draft_lens])
    times = requests.ttft_s[0], requests.tpot_s[0]
    return _Grid(requests, allowed, *times, low[0], high[0], requests.figure_ends)


def _allowed(grid: _Grid, i: int, targets: Targets) -> npt.NDArray[np.bool_]:
    """Return the lengths to choose from at a load: those that meet the targets, if any does."""
    meets = targets.met(grid.ttft_s[i], grid.tpot_s[i]) & grid.allowed
    return np.asarray(meets if meets.any() else grid.allowed)


def _largest(values: Sequence[float]) -> int:
    return values.index(max(values))


def _day(grid: _Grid, batches: Sequence[float], traffic: Traffic) -> Day:
    return advised_day(
        traffic,
        batches,
        _rates(grid),
        output_len=grid.requests.workload.output_len,
        most_ranges=_MOST_RANGES,
    )


def _rates(grid: _Grid) -> Array:
    """Return the throughput of the allowed lengths; NaN for all others."""
    return np.where(grid.allowed[None, :], grid.tokens_per_s, np.nan)


def _ranges(
    grid: _Grid, batches: Sequence[float], targets: Targets
) -> tuple[tuple[tuple[int, int, int], ...], float]:
    """Return the schedule of lengths that may be taken at each load, and what merging loses."""
    taken = np.stack([_allowed(grid, i, targets) for i in range(len(batches))])
    if targets.least_speedup > 1.0:
        taken &= grid.speedup > targets.least_speedup
    taken[:, 0] = True
    schedule = best_schedule(
        [round(batch) for batch in batches],
        np.where(taken, _rates(grid), np.nan),
        most_ranges=_MOST_RANGES,
        least_gain=_LEAST_GAIN,
    )
    return schedule.ranges, schedule.lost


def _own_lengths(prediction: Prediction, draft_lens: Sequence[int] | None) -> list[tuple[int, int]]:
    """Return the lengths that the user named: to choose from, or to measure acceptance with."""
    pairs = []
    for d, (drafter, curve) in enumerate(zip(prediction.drafters, prediction.curves, strict=True)):
        depth = getattr(drafter.acceptance, "measured_depth", None)
        own = draft_lens if draft_lens is not None else ([] if depth is None else [depth])
        pairs += [(d, k) for k in own if 0 < k < len(curve.draft_len)]
    return pairs


def _times(grid: _Grid, i: int, k: int, usd_per_hour: float | None) -> Times:
    def usd(rate: float | None) -> float | None:
        if usd_per_hour is None or rate is None or not np.isfinite(rate):
            return None
        return float(usd_per_million_tokens(rate, devices=1, usd_per_hour=usd_per_hour))

    rate = float(grid.tokens_per_s[i, k])
    ends = {
        f"{name}_{side}": None if pair is None else float(pair[n][0, i, k])
        for name, pair in grid.ends.items()
        for n, side in enumerate(("low", "high"))
    }
    running = np.broadcast_to(grid.requests.curve.running_batch[0], grid.speedup.shape)
    return Times(
        rate,
        float(grid.ttft_s[i, k]),
        float(grid.tpot_s[i, k]),
        usd(rate),
        float(running[i, k]),
        usd_per_million_tokens_low=usd(ends["tokens_per_s_high"]),
        usd_per_million_tokens_high=usd(ends["tokens_per_s_low"]),
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


def _break_even(prediction: Prediction, row: AdvisedLoad) -> BreakEven:
    """Return the least acceptance that pays, with what drafting takes at that acceptance."""
    if row.point is None:
        return BreakEven(None, None)
    drafter, drafts = prediction.drafters[row.tried], row.point.draft_len
    load = replace(prediction.load, batch_size=[row.concurrency])

    def curve(acceptance: Acceptance) -> SpeedupCurve:
        return served_curve(
            prediction.deployment,
            drafter,
            load,
            prediction.room,
            max_draft_len=drafts,
            acceptance=acceptance,
        ).curve

    rate = least_rate(
        lambda acceptance: (float(curve(acceptance).speedup[0, 0, drafts]), drafts),
        row.least_speedup,
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
        waits = {row.concurrency: getattr(row.times, f"{name}_s") / MILLISECOND for row in rows}
        load = min(waits, key=lambda load: np.nan_to_num(waits[load], nan=np.inf))
        if target_ms is not None and not waits[load] <= target_ms:
            warnings.append(
                f"a {what} of {target_ms:g} ms is out of reach: the least is {waits[load]:.3g} ms, "
                f"at {load:g} in flight"
            )
    most = max(rows, key=lambda row: row.choice.speedup)
    if targets.min_speedup is not None and most.choice.speedup < targets.min_speedup:
        warnings.append(
            f"a speedup of {targets.min_speedup:g} is out of reach: the most is "
            f"{most.choice.speedup:.2f}x, at {most.concurrency:g} in flight"
        )
    return warnings
