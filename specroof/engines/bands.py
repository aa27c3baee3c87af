"""Bands of speedups: how far off left-out predictions were, by engine and kind of drafter."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from specroof.hardware import OTHER_DRAFTERS, Band

#: The share of measurements that a band is to hold.
BAND_SHARE: Final = 0.8
#: A cell speaks for itself once so many sources have measured it; below, its neighbours join in.
_LEAST_SOURCES: Final = 3
#: Points of a source that count in full; a longer table weighs as much as so many. Of families of
#: chips each weighs the same, as a strange chip is one more family: see `FAMILY_POINTS`.
FULL_POINTS: Final = 25.0
FAMILY_POINTS: Final = 1.0


@dataclass(frozen=True, slots=True)
class Miss:
    """How far a prediction was off.

    Parameters
    ----------
    source
        What the fit had not seen: who measured, or of a generic engine the family of chips.
    engine, drafter
        The serving software, and the kind of drafter.
    off
        Of the speedup, as a natural logarithm, without its sign.
    full_points
        Points of the source that count in full.
    """

    source: str
    engine: str
    drafter: str
    off: float
    full_points: float = FULL_POINTS


def calibration(misses: Sequence[Miss]) -> float:
    """Return what widths are multiplied by so that bands hold `BAND_SHARE` of unseen measurements.

    A source whose own misses differ from the others' is held too often or too rarely by a band
    that these set. How often tells the sources themselves: each point is compared with the band
    that is set without its source.

    Parameters
    ----------
    misses
        As of `band_of`; 1 where they are all of one source.

    Source
        Vovk 2015, "Cross-conformal predictors" (Annals of Mathematics and Artificial Intelligence
        74), with a source for a fold.

    Examples
    --------
    >>> seen = [Miss(name, "vllm", "mtp", off) for name, off in zip("abcd", (1, 1, 1, 2))]
    >>> round(calibration(seen), 2)  # 1 is 0.53 of a band of 1.9, and 2 is 2 of a band of 1
    1.12
    """
    sources = dict.fromkeys(one.source for one in misses)
    shares = [share for source in sources for share in _shares_of_bands(misses, source)]
    return float(np.quantile(shares, BAND_SHARE)) if shares else 1.0


def _shares_of_bands(misses: Sequence[Miss], source: str) -> list[float]:
    """Return how much of the bands that the other sources set the misses of a source take."""
    others = [one for one in misses if one.source != source]
    own = [one for one in misses if one.source == source]
    cells = dict.fromkeys((one.engine, one.drafter) for one in own)
    bands = {cell: band_of(others, *cell) for cell in cells}
    pairs = [(one.off, bands[one.engine, one.drafter]) for one in own]
    return [off / band.width for off, band in pairs if band is not None and band.width > 0]


def band_of(
    misses: Sequence[Miss], engine: str, drafter: str, *, scale: float = 1.0
) -> Band | None:
    """Return the band that holds `BAND_SHARE` of speedups; None where there are no measurements.

    Parameters
    ----------
    misses
        Of profiles of one kind of chip. To score a source, leave its own out.
    engine, drafter
        The cell that is asked for: the narrowest that enough sources have measured, of engine and
        drafter, of the drafter, of all.
    scale
        What the width is multiplied by: see `calibration`.

    Source
        Vovk et al. 2005, "Algorithmic Learning in a Random World" (conformal prediction), with
        sources in the place of exchangeable points: those of a source go together.

    Examples
    --------
    >>> seen = [Miss(name, "vllm", "mtp", 0.01 * n) for n in range(1, 6) for name in "abc"]
    >>> round(band_of(seen, "vllm", "mtp").width, 2)  # between the 12th and the 13th of 15
    0.04
    """
    if not misses:
        return None
    return _band(next(filter(_enough, _cells(misses, engine, drafter)), misses), scale)


def bands_of(misses: Sequence[Miss], engine: str, *, scale: float = 1.0) -> dict[str, Band]:
    """Return what a profile holds: a band for each kind of drafter that differs from the rest.

    Parameters
    ----------
    misses, engine, scale
        As for `band_of`.

    Examples
    --------
    >>> seen = [Miss(name, "vllm", "mtp", 0.04) for name in "abc"]
    >>> sorted(bands_of(seen, "vllm"))
    ['mtp', 'other']
    """
    bands = {}
    for drafter in sorted({one.drafter for one in misses}):
        *own, _ = _cells(misses, engine, drafter)
        enough = next(filter(_enough, own), None)
        if enough is not None:
            bands[drafter] = _band(enough, scale)
    return {**bands, OTHER_DRAFTERS: _band(misses, scale)} if misses else {}


def _cells(misses: Sequence[Miss], engine: str, drafter: str) -> list[Sequence[Miss]]:
    alike = [one for one in misses if one.drafter == drafter]
    return [[one for one in alike if one.engine == engine], alike, misses]


def _enough(cell: Sequence[Miss]) -> bool:
    return len({one.source for one in cell}) >= _LEAST_SOURCES


def _band(cell: Sequence[Miss], scale: float) -> Band:
    """Return the band of a cell, and its mean error as a share."""
    shares = [np.expm1(one.off) for one in cell]
    return Band(width=scale * _width(cell), mean_error=float(np.mean(shares)), points=len(cell))


def _width(misses: Sequence[Miss]) -> float:
    """Return the weighted quantile: a source of many points weighs as much as some."""
    sizes = Counter(one.source for one in misses)
    pairs = sorted((one.off, min(1.0, one.full_points / sizes[one.source])) for one in misses)
    off, weight = np.array(pairs).T
    middle = (np.cumsum(weight) - weight / 2) / weight.sum()
    return float(np.interp(BAND_SHARE, middle, off))
