"""What another draft length would gain at the load that there is, and at others."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from specroof.policies.schedule import Schedule, best_schedule

__all__ = ["Change", "best_change"]

#: A further range of a schedule must gain this share of throughput, over all loads.
LEAST_GAIN = 0.005


@dataclass(frozen=True, slots=True)
class Change:
    """From the draft length that runs to the one that should.

    Parameters
    ----------
    running
        At so many requests.
    now, best
        Drafts per round; 0 is off.
    gain, low, high
        Of throughput, as a share, and the band around it; NaN where what runs has no figure.
    schedule
        The best draft length by load.
    """

    running: int
    now: int
    best: int
    gain: float
    low: float
    high: float
    schedule: Schedule

    @property
    def is_unclear(self) -> bool:
        """Whether the band holds no gain: measure before changing anything."""
        return self.low <= 0.0 < self.gain


def best_change(
    loads: Sequence[int],
    tokens_per_s: npt.ArrayLike,
    *,
    running: int,
    now: int,
    speedup: npt.ArrayLike,
    ends: tuple[npt.ArrayLike, npt.ArrayLike] | None = None,
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
        One of the loads: that which there is.
    now
        The draft length that runs.
    speedup, ends
        Over plain decoding at that load, by draft length, and the ends of its band; no band if
        None.

    Counts
        the band of one speedup: that of the length that would be new, or, where drafting should
        be turned off, that of what runs, since plain decoding is what it is compared with.
    Source
        Counting; the schedule is `best_schedule`.

    Examples
    --------
    >>> rates = [[1.0, 2.0, 3.0], [10.0, 14.0, 12.0]]
    >>> found = best_change([1, 8], rates, running=8, now=2, speedup=[1.0, 1.4, 1.2])
    >>> found.best, round(found.gain, 3)  # 14 / 12
    (1, 0.167)
    """
    rates = np.asarray(tokens_per_s, dtype=np.float64)
    row = rates[list(loads).index(running)]
    best = int(np.nanargmax(row))  # ties go to the shorter draft
    known = now < len(row) and bool(np.isfinite(row[now]))
    gained = row[best] / row[now] if known else np.nan
    low, high = gained, gained
    if ends is not None and known and best != now:
        middle, least, most = (np.asarray(one, dtype=np.float64) for one in (speedup, *ends))
        side = best or now
        sides = (least[side] / middle[side], most[side] / middle[side])
        low, high = sorted(gained * share if best else gained / share for share in sides)
    return Change(
        running=running,
        now=now,
        best=best,
        gain=float(gained - 1.0),
        low=float(low - 1.0),
        high=float(high - 1.0),
        schedule=best_schedule(loads, rates, least_gain=LEAST_GAIN),
    )
