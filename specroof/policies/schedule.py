"""Draft lengths by load, merged into few ranges that a server can be told."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from specroof.arrays import Array, BoolArray, IntArray
from specroof.errors import reject
from specroof.speedup.result import best_index

if TYPE_CHECKING:
    from specroof.serving.played import Played, PlayedServer
    from specroof.serving.workload import Requests

#: A draft length for each range of running requests: first and last number, and drafts per round;
#: from 1 on, without gaps.
Ranges: TypeAlias = tuple[tuple[int, int, int], ...]

#: Ranges of a schedule, at most.
_MOST_RANGES: Final = 4
#: Equal but for rounding: fewer ranges win.
_TIE: Final = 1e-13
#: Equal parts of a makespan in which the batch and its contexts are taken to be the same.
_SPANS: Final = 200
#: A further range of the schedule of a job must save this share of its time.
_LEAST_SAVED: Final = 0.002


def drafts_at(ranges: Sequence[tuple[int, int, int]], load: float) -> int:
    """Return the drafts of ranges at a load, rounded; beyond the last range, its own.

    Examples
    --------
    >>> drafts_at([(1, 16, 5), (17, 64, 2)], 16.4), drafts_at([(1, 16, 5), (17, 64, 2)], 100)
    (5, 2)
    """
    return next((k for _, last, k in ranges if round(load) <= last), ranges[-1][2])


def best_schedule(
    loads: Sequence[float],
    tokens_per_s: npt.ArrayLike,
    *,
    weights: npt.ArrayLike | None = None,
    least_gain: float = 0.0,
) -> Ranges:
    r"""Return the schedule of few ranges that loses least throughput.

    .. math:: \min \sum_b w_b \left(1 - \frac{r_b(K(b))}{\max_K r_b(K)}\right)

    over schedules K with at most four ranges.

    Parameters
    ----------
    loads
        Numbers of running requests, ascending, from 1 or more; a range runs up to the next load.
        Those that round to the same whole number share its drafts.
    tokens_per_s
        Throughput, shape (loads, draft lengths from 0); NaN where a length cannot be.
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
    >>> best_schedule([1, 8, 64], rates)
    ((1, 7, 2), (8, 63, 1), (64, 64, 0))
    >>> best_schedule([1, 8, 64], rates, least_gain=0.05)  # a third of 1 - 13/14 is lost at 8
    ((1, 63, 2), (64, 64, 0))
    """
    rates = np.asarray(tokens_per_s, dtype=np.float64)
    rising = all(low < high for low, high in pairwise(loads))
    if not loads or round(loads[0]) < 1 or not rising:
        reject(f"loads is {list(loads)}", "numbers from 1 on that rise")
    if rates.ndim != 2 or len(rates) != len(loads) or not np.isfinite(rates).any(axis=1).all():
        reject(
            f"tokens_per_s has shape {rates.shape}",
            f"({len(loads)}, draft lengths), with a number for each load",
        )
    whole, starts = np.unique(np.round(loads).astype(int), return_index=True)
    shares = np.ones(len(loads)) if weights is None else np.asarray(weights, dtype=np.float64)
    lost = np.nan_to_num(1.0 - rates / np.nanmax(rates, axis=1, keepdims=True), nan=np.inf)
    weighed = (shares / shares.sum())[:, None] * lost
    cost = np.add.reduceat(weighed, starts)
    return cheapest_schedule(whole.tolist(), cost, least_gain=least_gain)


def cheapest_schedule(loads: Sequence[int], cost: Array, *, least_gain: float = 0.0) -> Ranges:
    """Return the schedule of few ranges whose costs add up to least.

    Parameters
    ----------
    loads
        Numbers of running requests, ascending, from 1 or more; a range runs up to the next load.
    cost
        Of each draft length at each load, shape (loads, draft lengths from 0), at least 0; inf
        where a length cannot be.
    least_gain
        As for `best_schedule`, in the unit of the costs.

    Source
        As `best_schedule`.

    Examples
    --------
    >>> cheapest_schedule([1, 8, 64], np.array([[9.0, 2.0], [5.0, 4.0], [1.0, 3.0]]))
    ((1, 63, 1), (64, 64, 0))
    """
    ranges: Ranges = ()
    cuts = _cuts(cost, least_gain)
    for start, stop in zip(cuts, [*cuts[1:], len(loads)], strict=True):
        drafts = int(np.argmin(cost[start:stop].sum(axis=0)))  # ties go to the shorter draft
        first = 1 if start == 0 else loads[start]
        last = loads[-1] if stop == len(loads) else loads[stop] - 1
        ranges += ((first, last, drafts),)
    return ranges


def fitting_schedule(server: "PlayedServer", requests: "Requests", plain: "Played") -> Ranges:
    r"""Return the schedule of few ranges with which a job decodes in the least time.

    .. math:: \min \sum_i n_i \frac{t_{K(B_i)}(B_i, S_i)}{N_{K(B_i)}}

    Parameters
    ----------
    server
        The prices of rounds, t, and the tokens that they commit, N.
    requests, plain
        The job, and what becomes of it without drafts: in the part i of the run, B_i requests
        decode n_i tokens each at a mean context S_i.

    Ignores
        prompts, and that with other drafts other requests may run beside each other.
    Source
        `cheapest_schedule`.
    """
    edges_s = np.linspace(0.0, plain.duration_s, _SPANS + 1)
    lengths = [k for k in (0, *server.choices) if server.runs(k)]
    powers = [1 << power for power in range(int(plain.running.max()).bit_length())]
    edges = sorted({edge for power in powers for edge in (power, 3 * power)})
    loads = [edge for edge in edges if edge <= plain.running.max()]
    cost = np.zeros((len(loads), lengths[-1] + 1))
    cost[:, [k for k in range(lengths[-1]) if k not in lengths]] = np.inf
    decode_s = np.maximum(plain.end_s - plain.first_s, 1e-9)
    for clock_s in (edges_s[1:] + edges_s[:-1]) / 2:
        done = (clock_s - plain.first_s) / decode_s
        going = (done >= 0) & (done < 1)
        batch = int(going.sum())
        if batch:
            held = requests.input_len[going] + done[going] * requests.output_len[going]
            token_s = [
                prices.round_s.at(batch, float(held.mean())) / prices.tokens_per_round
                for prices in map(server.prices.__getitem__, lengths)
            ]
            place = np.searchsorted(loads, batch, side="right") - 1
            cost[place, lengths] += np.array(token_s) / token_s[0]
    least_gain = _LEAST_SAVED * float(cost.min(axis=1).sum())
    *ranges, (first, _, drafts) = cheapest_schedule(loads, cost, least_gain=least_gain)
    return (*ranges, (first, int(plain.running.max()), drafts))


def _cuts(weighed: Array, least_gain: float) -> list[int]:
    """Return the beginnings of ranges: as few as gain enough."""
    n = len(weighed)
    sums = np.concatenate([np.zeros((1, weighed.shape[1])), np.cumsum(weighed, axis=0)])
    with np.errstate(invalid="ignore"):  # infinite less infinite: a length that cannot be
        spans = sums[None, :, :] - sums[:, None, :]
    cost = np.min(np.nan_to_num(spans, nan=np.inf), axis=2)  # of loads start … stop - 1
    best, before = cost[0], [np.zeros(n + 1, dtype=int)]
    lost = [float(best[n])]
    for used in range(2, min(_MOST_RANGES, n) + 1):
        # A range without a load is never the choice: fewer ranges do as well.
        totals = best[:, None] + np.where(np.tri(n + 1, dtype=bool), np.inf, cost)
        before.append(np.argmin(totals, axis=0))
        best = np.min(totals, axis=0)
        # A range may gain only together with the one after it.
        lost.append(float(best[n]) + least_gain * (used - 1))
    fewest = next(used for used, one in enumerate(lost) if one <= min(lost) + _TIE)
    cuts, stop = [], n
    for row in before[fewest::-1]:
        stop = int(row[stop])
        cuts.append(stop)
    return cuts[::-1]


def held_drafts(ranges: Ranges, running: Sequence[float], *, margin: float) -> list[int]:
    """Return the drafts of each step while the load moves, changing only past a margin.

    Parameters
    ----------
    ranges
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
    >>> held_drafts(
    ...     ((1, 16, 5), (17, 64, 2)), [15, 17, 18, 20, 16, 14], margin=0.1
    ... )  # 0.9 * 18 is still 16
    [5, 5, 5, 2, 2, 5]
    """
    held: list[int] = []
    for load in running:
        likely = drafts_at(ranges, load)
        # Both ends of what the load may be: within the margin of an edge, what is stays.
        around = {drafts_at(ranges, load * (1 + side)) for side in (-margin, margin)}
        stays = bool(held) and held[-1] in {likely, *around}
        held.append(held[-1] if stays else likely)
    return held


# --- A load that moves over the day: one draft length or a schedule, against off, fixed and
#     oracle

#: A schedule must beat the best fixed length by this share of plain throughput: it is more to run.
_WORTH: Final = 0.005
#: How far past the edge of a range a load must be before drafts that are held change.
_HELD_MARGIN: Final = 0.1
#: What drafts that must not be taken are worth: less than any others.
REFUSED: Final = 1e-9
#: The weight of a load that no hour has, beside 1 for each hour.
_RARE: Final = 1e-3


@dataclass(frozen=True, slots=True)
class Traffic:
    """The load of each hour.

    Parameters
    ----------
    loads
        Hour after hour.
    unit
        What they are: requests in flight, or requests that arrive in a second.
    first_hour
        The number of the first hour; the others follow one by one.

    Raises
    ------
    OptionError
        For no hours, a load below 0, or no load at all.
    """

    loads: tuple[float, ...]
    unit: Literal["concurrency", "requests_per_s"]
    first_hour: float = 0.0

    def __post_init__(self) -> None:
        if not self.loads or not all(np.isfinite(one) and one >= 0 for one in self.loads):
            reject(f"traffic is {list(self.loads)}", "a load of at least 0 for each hour")
        if not any(self.loads):
            reject("traffic has no load in any hour", "one above 0")


@dataclass(frozen=True, slots=True)
class Day:
    """What a day gains.

    Parameters
    ----------
    schedule
        What to run: first and last load, and drafts; one range is a fixed length.
    gain
        Its gain over no drafts: of output tokens where requests in flight are given, of speed,
        1 / (time of a token), where arrivals are; NaN where every hour with a load is unsustained.
    scheduled_gain, fixed_gain, oracle_gain
        Of the best schedule of few ranges, the best fixed length, and the best length each hour.
    fixed
        The best fixed length.
    running
        Requests in flight each hour, as it is advised.
    saturated, unsustained
        Hours whose arrivals are more than the server can answer, as advised and without drafts. No
        gain counts the latter: without drafts their requests wait ever longer.
    worth
        What the choice went by: the gain over the hours that it counts, or over all where it counts
        none; then, between equals, over all, with a plain server at its largest load in the
        unsustained ones.
    gain_of
        What gains are of: ``"tokens"`` or ``"speed"``.
    changes
        How often the drafts change from one hour to the next.
    held_margin
        Share by which a load must be past the edge of a range before drafts that are held change.
    held_changes, held_gain
        How often these change, and what they gain.
    """

    schedule: Ranges
    gain: float
    scheduled_gain: float
    fixed_gain: float
    oracle_gain: float
    fixed: int
    running: tuple[float, ...]
    saturated: tuple[float, ...]
    unsustained: tuple[float, ...]
    worth: tuple[float, float]
    gain_of: str
    changes: int
    held_margin: float
    held_changes: int
    held_gain: float


def advised_day(
    traffic: Traffic,
    batches: Sequence[float],
    tokens_per_s: npt.ArrayLike,
    *,
    output_len: float,
    refused: npt.ArrayLike = False,
) -> Day:
    r"""Return the drafts to run over a day, and their gain.

    With arrivals, an hour runs as many requests as answer them:
    :math:`R` with :math:`x_K(R) / L = \lambda`, at least one.

    Parameters
    ----------
    traffic
        The load of each hour.
    batches
        Requests in flight, ascending from 1.
    tokens_per_s
        Throughput there, shape (loads, draft lengths from 0); NaN where a length cannot be.
    output_len
        Tokens of an answer, L.
    refused
        Lengths that must not be taken from a load up to the next, shape of `tokens_per_s`; length 0
        may be taken at every load.

    Source
        Little 1961, Oper. Res. 9(3), for the requests in flight; the oracle is the best by hour.

    Examples
    --------
    >>> rates = [[10.0, 20.0], [80.0, 60.0]]  # one draft doubles 1 request, and slows 8
    >>> day = advised_day(Traffic((1, 8), "concurrency"), [1, 8], rates, output_len=100)
    >>> day.schedule, round(day.gain, 3), day.fixed, day.fixed_gain  # 100 / 90 - 1
    (((1, 7, 1), (8, 8, 0)), 0.111, 0, 0.0)
    """
    loads = np.asarray(batches, dtype=np.float64)
    rates = np.asarray(tokens_per_s, dtype=np.float64)
    hours = np.asarray(traffic.loads, dtype=np.float64)
    running = np.stack(
        [_running(traffic, hours, loads, rates[:, k], output_len) for k in range(rates.shape[1])],
        axis=-1,
    )
    never = np.broadcast_to(np.asarray(refused, dtype=np.bool_), rates.shape)
    place = np.searchsorted(np.round(loads), np.round(running), side="right") - 1
    of_each = zip(running.T, (rates / loads[:, None]).T, strict=True)
    speed = np.stack([np.interp(at, loads, one) for at, one in of_each], axis=-1)
    speed[:, ~np.isfinite(rates).all(axis=0)] = -np.inf  # tokens per second of each user
    best = best_index(np.where(np.take_along_axis(never, place, axis=0), np.nan, speed))
    busy = hours > 0

    def falls_behind(drafts: IntArray) -> BoolArray:
        """Return whether more requests arrive in an hour than drafts answer."""
        if traffic.unit == "concurrency":
            return np.zeros(len(hours), dtype=bool)
        return np.asarray(hours > np.nanmax(rates[:, drafts], axis=0) / output_len)

    def numbers(those: BoolArray) -> tuple[float, ...]:
        return tuple((traffic.first_hour + np.flatnonzero(those)).tolist())

    unsustained = falls_behind(np.zeros_like(best))
    compared = np.where(unsustained, 0.0, hours)

    def gain(drafts: IntArray) -> float:
        return _gain(traffic, compared, speed, drafts) if compared.any() else np.nan

    def worth(drafts: IntArray) -> tuple[float, float]:
        whole = _gain(traffic, hours, speed, drafts)
        return gain(drafts) if compared.any() else whole, whole

    lengths = [np.full_like(best, k) for k in range(len(rates.T))]
    fixed = max(np.flatnonzero(~never.any(axis=0)).tolist(), key=lambda k: worth(lengths[k]))
    nearest = np.abs(loads - running[busy, best[busy], None]).argmin(axis=1)
    run = best_schedule(
        loads.tolist(),
        np.where(never, REFUSED * rates, rates),
        weights=np.bincount(nearest, minlength=len(loads)) + _RARE,
    )
    drafts = followed = _followed(run, running, best)
    more, whole = np.subtract(worth(followed), worth(lengths[fixed]))
    if not (more > _WORTH or (more >= -_WORTH and whole > _WORTH)):
        drafts = lengths[fixed]
        run = ((1, round(loads[-1]), fixed),)
    at = running[np.arange(len(hours)), drafts].tolist()
    held = np.asarray(held_drafts(run, at, margin=_HELD_MARGIN), dtype=np.intp)
    return Day(
        schedule=run,
        gain=gain(drafts),
        scheduled_gain=gain(followed),
        fixed_gain=gain(lengths[fixed]),
        oracle_gain=gain(best),
        fixed=fixed,
        running=tuple(at),
        saturated=numbers(falls_behind(drafts)),
        unsustained=numbers(unsustained),
        worth=worth(drafts),
        gain_of="tokens" if traffic.unit == "concurrency" else "speed",
        changes=int(np.count_nonzero(np.diff(drafts))),
        held_margin=_HELD_MARGIN,
        held_changes=int(np.count_nonzero(np.diff(held))),
        held_gain=gain(held),
    )


def _running(
    traffic: Traffic, hours: Array, loads: Array, rates: Array, output_len: float
) -> Array:
    """Return the requests in flight each hour with one draft length."""
    if traffic.unit == "concurrency":
        return np.maximum(hours, 1.0)
    answered = np.maximum.accumulate(np.nan_to_num(rates)) / output_len  # each second
    return np.interp(hours, answered, loads)  # at least one, at most the largest load


def _gain(traffic: Traffic, hours: Array, speed: Array, drafts: IntArray) -> float:
    """Return the gain of draft lengths by hour over no drafts."""
    place = np.arange(len(hours))
    with_drafts, plain = speed[place, drafts], speed[:, 0]
    if not np.isfinite(with_drafts[hours > 0]).all():
        return -np.inf
    if traffic.unit == "concurrency":
        return float(hours @ with_drafts / (hours @ plain) - 1.0)
    return float(hours @ (1 / plain) / (hours @ (1 / with_drafts)) - 1.0)


def _followed(ranges: Ranges, running: Array, best: IntArray) -> IntArray:
    """Return the drafts of each hour under a schedule: the load depends on the drafts, and back."""
    followed = []
    for loads, choice in zip(running, best, strict=True):
        settled = [k for k, load in enumerate(loads) if drafts_at(ranges, load) == k]
        # Where none agrees with itself, the server moves between two: take what it begins with.
        followed.append(settled[0] if settled else drafts_at(ranges, loads[choice]))
    return np.asarray(followed, dtype=np.intp)
