"""Bands around predictions, each set without the source that it is scored on."""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

from specroof.engines.bands import FAMILY_POINTS, Miss, band_of, calibration
from specroof.engines.generic import generic_family
from specroof.evidence import drafter_of, shape_group
from specroof.scoring.scores import Scored

#: What has a band: ratios, not seconds or rates.
_BANDED: Final = ("speedup", "shape")


def banded(
    points: Sequence[Scored],
    *,
    seen: Sequence[Scored] | None = None,
    by_family: bool = False,
    calibrated: bool = False,
) -> tuple[Scored, ...]:
    """Return the points with the bands that the other sources set.

    Parameters
    ----------
    points
        Beside predictions of one kind of profile, each made without its source; shapes levelled.
    seen
        The predictions that set the bands, where those are another kind's: `points` if None.
    by_family
        Whether predictions were made without the family of the chip, as of the generic engine.
        Then the other families set the band, each as much as any other.
    calibrated
        Whether bands are as wide as the other sources say that they have to be: see
        `specroof.engines.bands.calibration`.
    """
    misses = misses_of(points if seen is None else seen, by_family=by_family)
    units = dict.fromkeys(_unit(one, by_family) for one in points)
    others = {unit: [miss for miss in misses if miss.source != unit] for unit in units}
    scales = {unit: calibration(rest) if calibrated else 1.0 for unit, rest in others.items()}

    def band(one: Scored) -> float | None:
        unit = _unit(one, by_family)
        cell = one.point.engine or "", _drafter(one)
        found = band_of(others[unit], *cell, scale=scales[unit])
        return None if found is None else found.width

    return tuple(replace(one, band=band(one)) if one.kind in _BANDED else one for one in points)


def misses_of(points: Iterable[Scored], *, by_family: bool = False) -> list[Miss]:
    r"""Return how far off predictions with drafts are, of sources that count in bands.

    The factor that is free in a group of n shapes makes their misses smaller; as of any n with
    their mean taken out, they count :math:`\sqrt{n / (n - 1)}` times.

    Parameters
    ----------
    points, by_family
        As of `banded`.
    """
    counted = [one for one in points if one.kind in _BANDED and one.widens_bands]
    sizes = Counter(shape_group(one.point) for one in counted if one.kind == "shape")
    return [
        Miss(
            _unit(one, by_family),
            one.point.engine or "",
            _drafter(one),
            one.off * _correction(sizes[shape_group(one.point)] if one.kind == "shape" else 0),
            **({"full_points": FAMILY_POINTS} if by_family else {}),
        )
        for one in counted
    ]


def _correction(n: int) -> float:
    """Return what the misses of n points count, whose mean was taken out; 1 where none was."""
    return math.sqrt(n / (n - 1)) if n > 1 else 1.0


def _unit(one: Scored, by_family: bool) -> str:
    """Return what bands are set without."""
    return generic_family(one.point.hardware or "") if by_family else one.source


def _drafter(one: Scored) -> str:
    """Return the kind of drafter that a method stands for."""
    return drafter_of(one.point).kind
