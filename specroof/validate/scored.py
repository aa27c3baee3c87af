"""One prediction beside what was measured: how far off, whether in its band, and its verdict."""

import math
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from specroof.evidence import Measurement, kind_of, measured_of, shape_group
from specroof.speedup.bands import LOSES, PAYS, UNCLEAR, verdict

#: A speedup within this of 1 hardly matters either way.
_UNDECIDED: Final = 0.1

#: Sources of a trust order beyond this are predicted and shown, and neither fitted nor totalled.
TRUSTED: Final = 3
#: Those up to here count in bands nevertheless, which are to show what is not known.
_BANDED: Final = 4


@dataclass(frozen=True, slots=True)
class Scored:
    """One prediction beside what was measured.

    Parameters
    ----------
    point
        The measurement.
    kind
        ``"plain"`` throughput; a ``"speedup"`` whose acceptance length is known; a ``"shape"``,
        right but for one factor over all points of its group; ``"drafting"`` alone; a ``"rate"``,
        throughput with drafts that were never measured without.
    predicted, measured
        Tokens per second, or the ratio; of drafting its seconds, or its share.
    options_of
        What draft lengths share that are options of one choice; the point's if None.
    band
        Half-width of the band around the prediction, in natural logarithms, set without its source;
        None where there is none, as of the ideal engine.
    """

    point: Measurement
    kind: str
    predicted: float
    measured: float
    options_of: object = None
    band: float | None = None

    @property
    def source(self) -> str:
        """Who measured."""
        return self.point.source

    @property
    def is_trusted(self) -> bool:
        """Whether its source counts: those that somebody measured on their own always do."""
        return (self.point.trust or 0) <= TRUSTED

    @property
    def widens_bands(self) -> bool:
        """Whether it counts in bands: single measurements on strange chips do, and in no total."""
        return (self.point.trust or 0) <= _BANDED

    @property
    def error(self) -> float:
        """How far off, as a share of what was measured."""
        return abs(self.predicted / self.measured - 1)

    @property
    def off(self) -> float:
        """How far off, as a natural logarithm without its sign."""
        return abs(math.log(self.predicted / self.measured))

    @property
    def in_band(self) -> bool | None:
        """Whether what was measured lies in the band; None without one."""
        return None if self.band is None else self.off <= self.band

    @property
    def ends(self) -> tuple[float, float]:
        """The ends of the band: the prediction itself without one."""
        away = math.exp(self.band or 0.0)
        return self.predicted / away, self.predicted * away

    @property
    def said(self) -> str:
        """What a prediction says of a speedup: that it pays, loses, or that it is unclear."""
        return str(verdict(*self.ends))

    @property
    def verdict(self) -> bool | None:
        """Whether the verdict on a speedup is right; None for what is no speedup.

        A measurement near 1 is met by a prediction near 1, or by none; any other only by the side
        of 1 that it lies on.
        """
        if self.kind != "speedup":
            return None
        if abs(self.measured - 1) <= _UNDECIDED:
            return abs(self.predicted - 1) <= _UNDECIDED or self.said == UNCLEAR
        return self.said == (PAYS if self.measured > 1 else LOSES)

    @property
    def is_tree(self) -> bool:
        """Whether its drafts branch."""
        return self.point.branches


def scored(point: Measurement, predicted: float) -> Scored:
    """Return a prediction beside its measurement; of a shape the factor is still in it."""
    return Scored(point, kind_of(point)[0], predicted, measured_of(point)[1])


def levelled(points: Iterable[Scored]) -> list[Scored]:
    """Return the points with the factor of every group of shapes divided out.

    A group of one says nothing and is left out. The factor is the geometric mean of what is off.
    """
    groups = defaultdict(list)
    kept = []
    for one in points:
        if one.kind == "shape":
            groups[shape_group(one.point)].append(one)
        else:
            kept.append(one)
    for shapes in groups.values():
        if len(shapes) > 1:
            off = np.exp(np.mean([np.log(one.predicted / one.measured) for one in shapes]))
            kept += [replace(one, predicted=one.predicted / float(off)) for one in shapes]
    return kept
