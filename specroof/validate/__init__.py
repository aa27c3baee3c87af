"""Predictions against measurements: how far to trust them, source by source.

Each source is predicted by profiles that were fitted without it; see `specroof.engines.published`.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from specroof.engines.published import ideal_published_rates, left_out_rates
from specroof.engines.record import Rates
from specroof.evidence import Measurement, kind_of, load_measurements
from specroof.validate.banded import banded, misses_of
from specroof.validate.scores import TRUSTED, Errors, Scored, errors_of, levelled, scored

__all__ = [
    "TRUSTED",
    "Errors",
    "Scored",
    "Validation",
    "banded",
    "errors_of",
    "misses_of",
    "validation",
]


@dataclass(frozen=True, slots=True)
class Validation:
    """What predictions are worth.

    Parameters
    ----------
    points
        Every measurement that could be scored, beside its prediction.
    ideal
        The same measurements beside what the ideal roofline says.
    lacking
        Measurements that could not, and what they lack.
    """

    points: tuple[Scored, ...]
    ideal: tuple[Scored, ...]
    lacking: tuple[tuple[Measurement, str], ...]

    @property
    def sources(self) -> dict[str, Errors]:
        """The errors of each source."""
        names = dict.fromkeys(one.point.source for one in self.points)
        return {
            name: errors_of([one for one in self.points if one.point.source == name])
            for name in names
        }

    @property
    def total(self) -> Errors:
        """The errors over all sources that are trusted."""
        return errors_of([one for one in self.points if one.is_trusted])

    @property
    def ideal_total(self) -> Errors:
        """The errors of the ideal roofline over the same points."""
        return errors_of([one for one in self.ideal if one.is_trusted])


def validation(measurements: Iterable[Measurement] | None = None) -> Validation:
    """Return predictions beside measurements, each source predicted by a fit without it.

    Parameters
    ----------
    measurements
        What was measured; all that come with the package if None.
    """
    points, kinds, lacking = [], [], []
    for point in load_measurements() if measurements is None else measurements:
        kind, missing = kind_of(point)
        if kind:
            points.append(point)
            kinds.append(kind)
        else:
            lacking.append((point, missing))

    def beside(rates: Rates) -> tuple[Scored, ...]:
        pairs = zip(rates.plain.tolist(), rates.measured.tolist(), strict=True)
        return tuple(levelled(map(scored, points, kinds, pairs)))

    return Validation(
        banded(beside(left_out_rates(points))),
        beside(ideal_published_rates(points)),
        tuple(lacking),
    )
