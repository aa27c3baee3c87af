"""The bands that engine profiles are written with, of what `specroof.scoring.bands` tells."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from operator import attrgetter

import numpy as np

from specroof.arrays import grouped
from specroof.engines.calibration import BAND_SHARE
from specroof.hardware.engine import (
    CONCURRENCY_RANGES,
    OTHER_DRAFTERS,
    Band,
    ServedBands,
    served_cells,
)
from specroof.scoring.bands import LEAST_SOURCES, Miss, band_of, unseen_shares
from specroof.scoring.served import ServedScore


def bands_of(misses: Sequence[Miss], engine: str, *, scale: float = 1.0) -> dict[str, Band]:
    """Return what a profile holds: a band for each kind of drafter that differs from the rest.

    Parameters
    ----------
    misses, engine, scale
        As for `specroof.scoring.bands.band_of`.
    """
    kinds = sorted(grouped(misses, lambda miss: miss.drafter).items())
    named = [name for name, own in kinds if len({miss.source for miss in own}) >= LEAST_SOURCES]
    bands = {name: band_of(misses, engine, name, scale=scale) for name in (*named, OTHER_DRAFTERS)}
    return {name: band for name, band in bands.items() if band is not None}


def served_scales(scores: Sequence[ServedScore]) -> dict[str, float]:
    """Return what widths of served bands are multiplied by, so that they hold unseen models.

    Parameters
    ----------
    scores
        As of `specroof.scoring.bands.served_bands_of`.

    Source
        As `specroof.scoring.bands.width_scale`, with a model for a fold.
    """
    return {
        figure: float(np.quantile([share for *_, share in misses], BAND_SHARE))
        for figure, misses in grouped(unseen_shares(scores), lambda miss: miss[1]).items()
    }


def no_narrower(own: Band, others: Iterable[Band]) -> Band:
    """Return a band as wide as the widest of some, and known as far as the nearest of them."""
    beside = [own, *others]
    batch_size, context_len = (
        min(filter(None, map(attrgetter(name), beside)), default=None)
        for name in ("batch_size", "context_len")
    )
    width = max(band.width for band in beside)
    return replace(own, width=width, batch_size=batch_size, context_len=context_len)


def wider_bands(bands: ServedBands, nearer: Iterable[ServedBands]) -> dict[str, dict[str, Band]]:
    """Return bands of served loads that are nowhere narrower than those of places nearer by.

    Parameters
    ----------
    bands
        Of a place farther from the measurements.
    nearer
        Of the others. A figure that only they have is not added.
    """
    others = [*nearer]
    wider: dict[str, dict[str, Band]] = {}
    for figure in bands:
        beside = [served_cells(near, figure) for near in others]
        cells = zip(CONCURRENCY_RANGES, served_cells(bands, figure), *beside, strict=True)
        wider[figure] = {
            name: no_narrower(own, filter(None, rest))
            for name, own, *rest in cells
            if own is not None
        }
    return wider
