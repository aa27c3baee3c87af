"""Bands around predictions, each set without the source that it is scored on."""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace

from specroof.engines.bands import Miss, band_of
from specroof.evidence import drafter_of, shape_group
from specroof.validate.scores import Scored

__all__ = ["banded", "misses_of"]


def banded(points: Sequence[Scored]) -> tuple[Scored, ...]:
    """Return the points with the bands that the other sources set.

    Parameters
    ----------
    points
        Beside predictions of one kind of profile, each made without its source; shapes levelled.
    """
    misses = misses_of(points)
    return tuple(
        replace(one, band=_band(one, [miss for miss in misses if miss.source != one.source]))
        if one.kind != "plain"
        else one
        for one in points
    )


def misses_of(points: Iterable[Scored]) -> list[Miss]:
    r"""Return how far off trusted predictions with drafts are.

    The factor that is free in a group of n shapes makes their misses smaller; as of any n with
    their mean taken out, they count :math:`\sqrt{n / (n - 1)}` times.

    Parameters
    ----------
    points
        As of `banded`.
    """
    trusted = [one for one in points if one.kind in {"speedup", "shape"} and one.is_trusted]
    sizes = Counter(shape_group(one.point) for one in trusted if one.kind == "shape")
    return [
        Miss(
            one.source,
            one.point.engine or "",
            _drafter(one),
            one.off * _correction(sizes[shape_group(one.point)] if one.kind == "shape" else 0),
        )
        for one in trusted
    ]


def _correction(n: int) -> float:
    """Return what the misses of n points count, whose mean was taken out; 1 where none was."""
    return math.sqrt(n / (n - 1)) if n > 1 else 1.0


def _band(one: Scored, others: Sequence[Miss]) -> float | None:
    band = band_of(others, one.point.engine or "", _drafter(one))
    return None if band is None else band.width


def _drafter(one: Scored) -> str:
    """Return the kind of drafter that a method stands for."""
    return drafter_of(one.point).name.partition(",")[0]
