"""The advice for one chip, load by load: drafter, drafts, speed, price and limits."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from specroof.acceptance import constant_acceptance
from specroof.arrays import Array
from specroof.policies.decision import Choice, best_choice
from specroof.policies.limiting import Point, least_rate, least_tokens_per_round
from specroof.policies.schedule import Day, Traffic, advised_day, best_schedule
from specroof.questions.advise_request import Asked
from specroof.questions.advised import Advised, BreakEven, Row, Targets, Times
from specroof.questions.prediction import Prediction, predicted
from specroof.serving.end_to_end import EndToEnd
from specroof.speedup.price import usd_per_million_tokens
from specroof.units import MILLISECOND

#: Ranges of a schedule, at most; a further one must gain this share of throughput.
_MOST_RANGES: Final = 4
_LEAST_GAIN: Final = 0.002
#: Rounds in which a break-even settles: a drafter that reads more when more is accepted shifts it
#: by some 1e-4, and each round leaves as small a share of what is off.
_ROUNDS: Final = 4


@dataclass(frozen=True, slots=True, eq=False)
class _Grid:
    """The arrays of one drafter, axes (load, draft_len)."""

    whole: EndToEnd
    allowed: npt.NDArray[np.bool_]
    ttft_s: Array
    tpot_s: Array
    low: Array
    high: Array

    @property
    def speedup(self) -> Array:
        return np.asarray(self.whole.speedup[0])

    @property
    def tokens_per_s(self) -> Array:
        return np.asarray(self.whole.tokens_per_s[0])


def advised_rows(asked: Asked, prediction: Prediction, usd_per_hour: float | None) -> Advised:
    """Return the advice for each load.

    Parameters
    ----------
    asked
        The question: loads, drafts to choose from, targets, and traffic that schedules are made
        for; without any, every load counts the same.
    prediction
        Curves with prefills counted, at these loads and others.
    usd_per_hour
        Price of one device; None if not known.
    """
    lengths, targets, traffic = asked.lengths, asked.targets, asked.traffic
    grids = [_grid_of(whole, lengths) for whole in prediction.counted]
    batches = list(prediction.load.batch_size)
    choices = [[_choice(grid, i, targets) for i in range(len(batches))] for grid in grids]
    days = [] if traffic is None else [_day(grid, batches, traffic) for grid in grids]
    chosen = _best_drafter(choices) if not days else _largest([day.gain for day in days])
    own = _own_lengths(prediction, lengths)
    hourly = None if usd_per_hour is None else usd_per_hour * prediction.setup.placement.devices
    rows = []
    for load in asked.loads:
        i = batches.index(load)
        best = _largest([of_drafter[i].speedup for of_drafter in choices])
        row = _row(grids[best], i, choices[best][i], hourly, targets)
        named = {(d, k): float(grids[d].speedup[i, k]) for d, k in own}
        row = replace(row, drafter=best if row.draft_len else None, tried=best, own=named)
        rows.append(replace(row, break_even=_break_even(prediction, row)))
    grid = grids[chosen]
    day = days[chosen] if days else None
    ranges, lost = _ranges(grid, batches, targets) if day is None else (day.schedule, None)
    drafts = max(k for _, _, k in ranges)
    verified = grid.whole.curve.verify_len
    return Advised(
        rows=tuple(rows),
        chosen=chosen,
        schedule=ranges,
        lost=lost,
        day=day,
        is_tree=bool(verified[drafts] != drafts + 1),
        nodes=int(verified[drafts]) - 1,
        capacity=_capacity(prediction, chosen, drafts),
        warnings=tuple(_warnings(rows, targets)),
    )


def _grid_of(whole: EndToEnd, lengths: Sequence[int] | None) -> _Grid:
    curve = whole.curve
    # Without a band, both ends are the speedups themselves.
    low, high = (
        curve.speedup if end is None else end for end in (curve.speedup_low, curve.speedup_high)
    )
    allowed = np.isfinite(curve.tokens_per_round[0, 0])
    if lengths is not None:
        allowed &= np.isin(curve.draft_len, [0, *lengths])
    return _Grid(whole, allowed, whole.ttft_s[0], whole.tpot_s[0], low[0], high[0])


def _choice(grid: _Grid, i: int, targets: Targets) -> Choice:
    return best_choice(
        grid.speedup[i],
        low=grid.low[i],
        high=grid.high[i],
        allowed=_allowed(grid, i, targets),
        least=targets.least_speedup,
    )


def _allowed(grid: _Grid, i: int, targets: Targets) -> npt.NDArray[np.bool_]:
    """Return the lengths to choose from at a load: those that meet the targets, if any does."""
    meets = targets.met(grid.ttft_s[i], grid.tpot_s[i]) & grid.allowed
    return np.asarray(meets if meets.any() else grid.allowed)


def _best_drafter(choices: Sequence[Sequence[Choice]]) -> int:
    """Return the drafter with the largest mean speedup over the loads, off where it loses."""
    means = [float(np.mean([max(1.0, one.speedup) for one in row])) for row in choices]
    return _largest(means)


def _largest(values: Sequence[float]) -> int:
    return values.index(max(values))


def _day(grid: _Grid, batches: Sequence[float], traffic: Traffic) -> Day:
    return advised_day(
        traffic,
        batches,
        _rates(grid),
        output_len=grid.whole.workload.output_len,
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


def _own_lengths(prediction: Prediction, lengths: Sequence[int] | None) -> list[tuple[int, int]]:
    """Return the lengths that the user named: to choose from, or to measure acceptance with."""
    found = []
    for d, (drafter, curve) in enumerate(zip(prediction.drafters, prediction.curves, strict=True)):
        depth = getattr(drafter.acceptance, "measured_depth", None)
        own = lengths if lengths is not None else ([] if depth is None else [depth])
        found += [(d, k) for k in own if 0 < k < len(curve.draft_len)]
    return found


def _row(grid: _Grid, i: int, choice: Choice, usd_per_hour: float | None, targets: Targets) -> Row:
    times = _times(grid, i, choice.draft_len, usd_per_hour)
    return Row(
        concurrency=float(grid.whole.curve.batch_size[i]),
        drafter=None,
        draft_len=choice.draft_len,
        choice=choice,
        times=times,
        plain=_times(grid, i, 0, usd_per_hour),
        point=_point(grid, i, choice.tried) if choice.tried else None,
        meets=bool(targets.met(times.ttft_s, times.tpot_s)),
        least=targets.least_speedup,
    )


def _times(grid: _Grid, i: int, k: int, usd_per_hour: float | None) -> Times:
    rate = float(grid.tokens_per_s[i, k])
    usd = None
    if usd_per_hour is not None and np.isfinite(rate):
        usd = float(usd_per_million_tokens(rate, devices=1, usd_per_hour=usd_per_hour))
    running = np.broadcast_to(grid.whole.curve.running_batch[0], grid.speedup.shape)
    return Times(
        rate, float(grid.ttft_s[i, k]), float(grid.tpot_s[i, k]), usd, float(running[i, k])
    )


def _point(grid: _Grid, i: int, k: int) -> Point:
    """Return a round of some drafts beside the plain step."""
    whole, curve = grid.whole, grid.whole.curve
    running = np.broadcast_to(curve.running_batch[0], grid.speedup.shape)[i]
    tokens = curve.tokens_per_round[0, i]
    output_len = whole.workload.output_len
    # The curve has requests in its rounds; here they are apart.
    delay_s = whole.delay_s[0, i]
    requests_s = (running * delay_s + whole.latency_s) / output_len
    round_s = curve.round_s[0, i] - tokens * requests_s
    return Point(
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
        latency_s=whole.latency_s,
        output_len=output_len,
    )


def _break_even(prediction: Prediction, row: Row) -> BreakEven:
    """Return the least acceptance that pays, with what drafting takes at that acceptance."""
    point, drafter = row.point, prediction.drafters[row.tried]
    if point is None:
        return BreakEven(None, None)
    for _ in range(_ROUNDS):
        rate = least_rate(point, row.least)
        if rate is None:
            return BreakEven(None, None)
        again = predicted(
            prediction.model,
            prediction.setup,
            [replace(drafter, acceptance=constant_acceptance(rate))],
            replace(prediction.load, batch_size=[row.concurrency]),
            max_draft_len=point.draft_len,
            limited=prediction.limited,
        )
        point = _point(_grid_of(again.counted[0], None), 0, point.draft_len)
    return BreakEven(least_rate(point, row.least), least_tokens_per_round(point, row.least))


def _capacity(prediction: Prediction, chosen: int, drafts: int) -> dict[str, Any] | None:
    """Return the most requests without drafts and with; None where memory has no end."""
    if not prediction.limits:
        return None
    limits = prediction.limits[chosen]
    sides = {"plain": 0, "speculative": drafts}
    return {
        name: {
            "largest_batch": int(limits.largest[0, k]),
            "bound_by": str(limits.bound_by[0, k]),
        }
        for name, k in sides.items()
    }


def _warnings(rows: Sequence[Row], targets: Targets) -> list[str]:
    """Return the targets that no load meets, each with the best that a load reaches."""
    found = []
    for name, what in (("ttft", "TTFT"), ("tpot", "TPOT")):
        target_ms = getattr(targets, f"{name}_ms")
        waits = {row.concurrency: getattr(row.times, f"{name}_s") / MILLISECOND for row in rows}
        load = min(waits, key=lambda one: np.nan_to_num(waits[one], nan=np.inf))
        if target_ms is not None and not waits[load] <= target_ms:
            found.append(
                f"a {what} of {target_ms:g} ms is out of reach: the least is {waits[load]:.3g} ms, "
                f"at {load:g} in flight"
            )
    most = max(rows, key=lambda row: row.choice.speedup)
    if targets.min_speedup is not None and most.choice.speedup < targets.min_speedup:
        found.append(
            f"a speedup of {targets.min_speedup:g} is out of reach: the most is "
            f"{most.choice.speedup:.2f}x, at {most.concurrency:g} in flight"
        )
    return found
