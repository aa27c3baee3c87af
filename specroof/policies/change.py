"""The gain of another draft length at the present load, and at others."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from specroof.arrays import Array
from specroof.policies.schedule import Schedule, best_schedule

#: A further range of a schedule must gain this share of throughput, over all loads.
LEAST_GAIN = 0.005


@dataclass(frozen=True, slots=True)
class Gain:
    """What a draft length gains over the one that runs.

    Parameters
    ----------
    draft_len
        Drafts per round; 0 is off.
    gain, low, high
        Of throughput, as a share, and the band around it; NaN where what runs has no figure.
    """

    draft_len: int
    gain: float
    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """From the draft length that runs to the one that should.

    Parameters
    ----------
    running
        Requests that run.
    now, best
        Drafts per round; 0 is off.
    gain, low, high
        Of throughput, as a share, and the band around it; NaN where what runs has no figure.
    schedule
        The best draft length by load.
    measured
        The longest draft whose acceptance was measured; None where acceptance is given at any.
    longer
        A length beyond that, where one is expected to gain more and is not sure to; None if not.
    """

    running: int
    now: int
    best: int
    gain: float
    low: float
    high: float
    schedule: Schedule
    measured: int | None = None
    longer: Gain | None = None

    @property
    def is_unclear(self) -> bool:
        """Whether the band holds no gain: measure before changing anything."""
        return self.low <= 0.0 < self.gain

    @property
    def is_beyond(self) -> bool:
        """Whether the best length lies beyond what was measured."""
        return self.measured is not None and self.best > self.measured


def best_change(  # noqa: PLR0913 - a load, its draft length, and its figures
    loads: Sequence[int],
    tokens_per_s: npt.ArrayLike,
    *,
    running: int,
    now: int,
    speedup: npt.ArrayLike,
    ends: tuple[npt.ArrayLike, npt.ArrayLike] | None = None,
    measured: int | None = None,
) -> Change:
    r"""Return the draft length that gains most over the one that runs.

    .. math:: g = \frac{r_{best}}{r_{now}} - 1

    Parameters
    ----------
    loads
        Numbers of running requests, ascending, from 1 or more.
    tokens_per_s
        Throughput, shape (loads, draft lengths from 0); NaN where a length cannot be.
    running
        The present load, one of `loads`.
    now
        The draft length that runs.
    speedup, ends
        Over plain decoding at that load, by draft length, and the ends of its band; no band if
        None.
    measured
        The longest draft whose acceptance was measured. A longer one, whose acceptance a law gives,
        is best only where its whole band gains more than any up to there. None where acceptance is
        given at any length.

    Counts
        the band of one speedup: of the new length, or, where drafting should be turned off, of the
        length that runs, since it is compared with plain decoding.
    Source
        Counting; the schedule is `best_schedule`, up to the longest draft that was measured or is
        taken.

    Examples
    --------
    >>> rates = [[1.0, 2.0, 3.0], [10.0, 14.0, 12.0]]
    >>> found = best_change([1, 8], rates, running=8, now=2, speedup=[1.0, 1.4, 1.2])
    >>> found.best, round(found.gain, 3)  # 14 / 12
    (1, 0.167)
    >>> told = {"speedup": [1.0, 1.4, 1.5], "ends": ([1.0, 1.3, 1.4], [1.0, 1.5, 1.6])}
    >>> far = best_change([8], [[10.0, 14.0, 15.0]], running=8, now=1, measured=1, **told)
    >>> far.best, far.longer.draft_len, round(far.longer.gain, 3)  # 15 / 14, but 14 / 14 at worst
    (1, 2, 0.071)
    """
    rates = np.asarray(tokens_per_s, dtype=np.float64)
    known = rates if measured is None else _up_to(rates, measured)
    at = list(loads).index(running)
    best, longest = (
        _gain(rates[at], int(np.nanargmax(told[at])), now, (speedup, ends))  # ties: the shorter
        for told in (known, rates)
    )
    longer = longest if longest.draft_len > best.draft_len else None
    if longer is not None and ends is not None and longer.low > best.gain:
        known, best, longer = _up_to(rates, longer.draft_len), longer, None
    return Change(
        running=running,
        now=now,
        best=best.draft_len,
        gain=best.gain,
        low=best.low,
        high=best.high,
        schedule=best_schedule(loads, known, least_gain=LEAST_GAIN),
        measured=measured,
        longer=longer,
    )


def _up_to(rates: Array, longest: int) -> Array:
    """Return throughput by draft length; longer drafts are unknown."""
    return np.where(np.arange(rates.shape[1]) <= longest, rates, np.nan)


def _gain(
    row: Array,
    best: int,
    now: int,
    speedups: tuple[npt.ArrayLike, tuple[npt.ArrayLike, npt.ArrayLike] | None],
) -> Gain:
    """Return the gain of a draft length, with the band of its speedup or of the running one's."""
    speedup, ends = speedups
    known = now < len(row) and bool(np.isfinite(row[now]))
    gained = row[best] / row[now] if known else np.nan
    low, high = gained, gained
    if ends is not None and known and best != now:
        middle, least, most = (np.asarray(one, dtype=np.float64) for one in (speedup, *ends))
        side = best or now
        shares = (least[side] / middle[side], most[side] / middle[side])
        low, high = sorted(gained * share if best else gained / share for share in shares)
    return Gain(best, float(gained - 1.0), float(low - 1.0), float(high - 1.0))
