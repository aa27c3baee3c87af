"""Draft lengths by load, merged into few ranges that a server can be told."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np
import numpy.typing as npt

from specroof.arrays import Array
from specroof.errors import reject

#: Equal but for rounding: fewer ranges win.
_TIE: Final = 1e-13


@dataclass(frozen=True, slots=True)
class Schedule:
    """A draft length for each range of running requests.

    Parameters
    ----------
    ranges
        First and last number of running requests, and drafts per round; from 1 on, without gaps.
    lost
        Mean share of throughput that merging loses, over the loads that were weighed.
    """

    ranges: tuple[tuple[int, int, int], ...]
    lost: float

    def drafts(self, running: int) -> int:
        """Return the drafts at a number of running requests; beyond the last range, its own.

        Examples
        --------
        >>> Schedule(((1, 16, 5), (17, 64, 2)), 0.0).drafts(100)
        2
        """
        return drafts_at(self.ranges, running)


def drafts_at(ranges: Sequence[tuple[int, int, int]], load: float) -> int:
    """Return the drafts of ranges at a load; beyond the last range, its own.

    Examples
    --------
    >>> drafts_at([(1, 16, 5), (17, 64, 2)], 16)
    5
    """
    return next((k for _, last, k in ranges if load <= last), ranges[-1][2])


def best_schedule(
    loads: Sequence[int],
    tokens_per_s: npt.ArrayLike,
    *,
    most_ranges: int = 4,
    weights: npt.ArrayLike | None = None,
    least_gain: float = 0.0,
) -> Schedule:
    r"""Return the schedule of few ranges that loses least throughput.

    .. math:: \min \sum_b w_b \left(1 - \frac{r_b(K(b))}{\max_K r_b(K)}\right)

    over schedules K with at most `most_ranges` ranges.

    Parameters
    ----------
    loads
        Numbers of running requests, ascending, from 1 or more; a range runs up to the next load.
    tokens_per_s
        Throughput, shape (loads, draft lengths from 0); NaN where a length cannot be.
    most_ranges
        How many ranges at most.
    weights
        How much each load counts, shape (loads,); all the same if None.
    least_gain
        A further range must lower what is lost by more than this share.

    Raises
    ------
    OptionError
        For loads that do not rise from 1 on, or a load at which no length has a throughput.

    Source
        Bellman 1961, Communications of the ACM 4, 284: segments by dynamic programming, exact.

    Examples
    --------
    >>> rates = [[1.0, 2.0, 3.0], [10.0, 14.0, 13.0], [90.0, 80.0, 70.0]]
    >>> best_schedule([1, 8, 64], rates).ranges
    ((1, 7, 2), (8, 63, 1), (64, 64, 0))
    >>> best_schedule([1, 8, 64], rates, most_ranges=2).ranges  # 1 - 13/14 is lost at 8
    ((1, 63, 2), (64, 64, 0))
    """
    rates = np.asarray(tokens_per_s, dtype=np.float64)
    _refuse_loads(loads, rates)
    shares = np.ones(len(loads)) if weights is None else np.asarray(weights, dtype=np.float64)
    shares = shares / shares.sum()
    lost = np.nan_to_num(1.0 - rates / np.nanmax(rates, axis=1, keepdims=True), nan=np.inf)
    cuts = _cuts(shares[:, None] * lost, most_ranges, least_gain)
    weighed = shares[:, None] * lost
    ranges, chosen = [], np.empty(len(loads), dtype=int)
    for start, stop in zip(cuts, [*cuts[1:], len(loads)], strict=True):
        drafts = int(np.argmin(weighed[start:stop].sum(axis=0)))  # ties go to the shorter draft
        chosen[start:stop] = drafts
        first = 1 if start == 0 else loads[start]
        last = loads[-1] if stop == len(loads) else loads[stop] - 1
        ranges.append((first, last, drafts))
    at = lost[np.arange(len(loads)), chosen]
    return Schedule(tuple(ranges), float(shares @ at))


def _cuts(weighed: Array, most_ranges: int, least_gain: float) -> list[int]:
    """Return the beginnings of ranges: as few as gain enough."""
    n = len(weighed)
    sums = np.concatenate([np.zeros((1, weighed.shape[1])), np.cumsum(weighed, axis=0)])
    with np.errstate(invalid="ignore"):  # infinite less infinite: a length that cannot be
        spans = sums[None, :, :] - sums[:, None, :]
    cost = np.min(np.nan_to_num(spans, nan=np.inf), axis=2)  # of loads start … stop - 1
    best, before = cost[0], [np.zeros(n + 1, dtype=int)]
    lost = [float(best[n])]
    for used in range(2, min(most_ranges, n) + 1):
        totals = best[:, None] + np.where(np.tri(n + 1, dtype=bool), np.inf, cost)
        totals[: used - 1] = np.inf  # each range before holds a load
        before.append(np.argmin(totals, axis=0))
        best = np.min(totals, axis=0)
        # A range may gain only together with the one after it.
        lost.append(float(best[n]) + least_gain * (used - 1))
    fewest = next(used for used, one in enumerate(lost) if one <= min(lost) + _TIE)
    return _traced(before[: fewest + 1], n)


def _traced(before: Sequence[npt.NDArray[np.int_]], n: int) -> list[int]:
    cuts, stop = [], n
    for row in before[::-1]:
        stop = int(row[stop])
        cuts.append(stop)
    return cuts[::-1]


def _refuse_loads(loads: Sequence[int], rates: Array) -> None:
    rising = all(low < high for low, high in pairwise(loads))
    if not loads or loads[0] < 1 or not rising:
        reject(f"loads is {list(loads)}", "whole numbers from 1 on that rise")
    if rates.ndim != 2 or len(rates) != len(loads) or not np.isfinite(rates).any(axis=1).all():
        reject(
            f"tokens_per_s has shape {rates.shape}",
            f"({len(loads)}, draft lengths), with a number for each load",
        )


def held_drafts(schedule: Schedule, running: Sequence[float], *, margin: float) -> list[int]:
    """Return the drafts of each step while the load moves, changing only past a margin.

    Parameters
    ----------
    schedule
        Drafts by load.
    running
        Running requests, step by step.
    margin
        Share by which a load must be beyond the edge of a range before its drafts change: 0
        follows the schedule as it is.

    Source
        Hysteresis, as SGLang's adaptive drafts have it for acceptance (``up_hysteresis`` and
        ``down_hysteresis``).

    Examples
    --------
    >>> schedule = Schedule(((1, 16, 5), (17, 64, 2)), 0.0)
    >>> held_drafts(schedule, [15, 17, 18, 20, 16, 14], margin=0.1)  # 0.9 * 18 is still 16
    [5, 5, 5, 2, 2, 5]
    """
    held: list[int] = []
    for load in running:
        likely = schedule.drafts(round(load))
        # Both ends of what the load may be: within the margin of an edge, what is stays.
        around = {schedule.drafts(round(load * (1 + side))) for side in (-margin, margin)}
        stays = bool(held) and held[-1] in {likely, *around}
        held.append(held[-1] if stays else likely)
    return held
