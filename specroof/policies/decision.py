"""On or off, and how many drafts: the decision, as a pure function of speedups."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal, cast

import numpy as np
import numpy.typing as npt

from specroof.errors import reject
from specroof.speedup.bands import verdict

Verdict = Literal["pays", "loses", "unclear"]
Decision = Literal["on", "off", "depends", "unclear"]

#: Equal but for rounding: the shorter draft wins.
_TIE: Final = 1e-12


@dataclass(frozen=True, slots=True)
class Choice:
    """How many drafts at one load.

    Parameters
    ----------
    draft_len
        Drafts per round; 0 is off.
    tried
        The best length above 0, which is `draft_len` unless that is 0; 0 where none can be.
    speedup, low, high
        At `tried`: the expected speedup, and the band around it.
    verdict
        Of `tried`.
    """

    draft_len: int
    tried: int
    speedup: float
    low: float
    high: float
    verdict: Verdict


def best_choice(
    speedup: npt.ArrayLike,
    *,
    low: npt.ArrayLike | None = None,
    high: npt.ArrayLike | None = None,
    allowed: npt.ArrayLike | None = None,
    least: float = 1.0,
) -> Choice:
    """Return the draft length to run at one load, off being an option.

    Parameters
    ----------
    speedup
        Over plain decoding by draft length, from 0 drafts on; NaN where a length cannot be.
    low, high
        The band in the same shape; without width if None.
    allowed
        Which lengths there are to choose from, as booleans in the same shape; 0 always is.
    least
        The speedup from which drafting pays.

    Source
        The largest expected speedup; ties go to the shorter draft.

    Examples
    --------
    >>> best_choice([1.0, 1.4, 1.6, 1.5]).draft_len
    2
    >>> best_choice([1.0, 0.9, 0.8])  # one draft loses least, and is off
    Choice(draft_len=0, tried=1, speedup=0.9, low=0.9, high=0.9, verdict='loses')
    """
    values = np.asarray(speedup, dtype=np.float64)
    drafts = values[1:].copy()
    if allowed is not None:
        drafts[~np.asarray(allowed, dtype=bool)[1:]] = np.nan
    if not np.isfinite(drafts).any():
        return Choice(0, 0, 1.0, 1.0, 1.0, "loses")
    most = np.nanmax(drafts)
    tried = 1 + int(np.argmax(np.nan_to_num(drafts, nan=-np.inf) >= most * (1 - _TIE)))
    ends = [values if end is None else np.asarray(end, dtype=np.float64) for end in (low, high)]
    lowest, highest = (float(end[tried]) for end in ends)
    return Choice(
        draft_len=tried if values[tried] > least else 0,
        tried=tried,
        speedup=float(values[tried]),
        low=lowest,
        high=highest,
        verdict=cast("Verdict", verdict(lowest, highest, least=least).item()),
    )


def decided(verdicts: Sequence[Verdict]) -> Decision:
    """Return the decision over several loads.

    Parameters
    ----------
    verdicts
        Of the best draft length at each load.

    Raises
    ------
    OptionError
        If there is no load.

    Source
        Counting: on or off where all loads agree, `unclear` where drafting is known to pay
        nowhere but may, else `depends`.

    Examples
    --------
    >>> decided(["pays", "pays"]), decided(["pays", "unclear"]), decided(["loses", "unclear"])
    ('on', 'depends', 'unclear')
    """
    if not verdicts:
        reject("verdicts is empty", "at least one load")
    found = {*verdicts}
    if found == {"pays"}:
        return "on"
    if found == {"loses"}:
        return "off"
    return "depends" if "pays" in found else "unclear"


def paying_up_to(loads: Sequence[float], verdicts: Sequence[Verdict]) -> float | None:
    """Return the largest load up to which drafting pays at every one; None if not at the first.

    Examples
    --------
    >>> paying_up_to([1, 8, 32], ["pays", "pays", "loses"])
    8
    """
    paying = math.inf
    last: float | None = None
    for load, told in sorted(zip(loads, verdicts, strict=True)):
        if told != "pays":
            paying = min(paying, load)
        if load < paying:
            last = load
    return last
