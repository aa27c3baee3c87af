"""Predictions against measurements: how far to trust them, source by source.

Each source is predicted by profiles that were fitted without it; see `specroof.scoring.left_out`.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from specroof.arrays import grouped
from specroof.evidence import Measurement, kind_of, load_measurements
from specroof.evidence.measurement import chip_of
from specroof.hardware.engine import IDEAL_ENGINE
from specroof.scoring.bands import banded
from specroof.scoring.left_out import (
    generic_family,
    generic_rates,
    is_fitted,
    left_out_rates,
    published_rates,
)
from specroof.scoring.scores import (
    Errors,
    Regret,
    Scored,
    capacity_bound,
    errors_of,
    levelled,
    regrets,
    scored,
)

#: Predicted figures, point by point, by the fields of `Validation` that they are for.
Predicted: TypeAlias = Mapping[str, Sequence[float]]


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
    generic, generic_engines
        The same beside the generic engine, fitted without the family of their chip, and without
        their engine; the bands of both are those of the other families.
    """

    points: tuple[Scored, ...]
    ideal: tuple[Scored, ...]
    lacking: tuple[tuple[Measurement, str], ...]
    generic: tuple[Scored, ...] = ()
    generic_engines: tuple[Scored, ...] = ()

    @property
    def sources(self) -> dict[str, Errors]:
        """The errors of each source."""
        groups = grouped(self.points, lambda score: score.source)
        return {name: errors_of(own, name, own[0].point.trust) for name, own in groups.items()}

    @property
    def total(self) -> Errors:
        """The errors over all sources that are trusted."""
        return errors_of(trusted(self.points), "total")

    @property
    def ideal_total(self) -> Errors:
        """The errors of the ideal roofline over the same points."""
        return errors_of(trusted(self.ideal), "ideal roofline")

    @property
    def regrets(self) -> list[Regret]:
        """What `advise` would have lost in each set-up of all sources, those not trusted too."""
        return regrets([score for score in self.points if score.kind == "speedup"])

    @property
    def families(self) -> dict[str, Errors]:
        """The errors of the generic engine on each family of chips, which its fit had not seen."""
        return _by(trusted(self.generic), _family)

    @property
    def strange_chips(self) -> dict[str, Errors]:
        """The same on chips of no fitted family: single measurements, in no total."""
        seen = [score for score in self.generic if not is_fitted(score.point.hardware or "")]
        return _by(seen, lambda score: chip_of(score.point.hardware or "").name)

    @property
    def engines(self) -> dict[str, Errors]:
        """The errors of the generic engine on each engine, which its fit had not seen."""
        return _by(trusted(self.generic_engines), _engine)

    @property
    def generic_total(self) -> Errors:
        """The errors of the generic engine over all trusted points, chip families left out."""
        return errors_of(trusted(self.generic), "all families")

    @property
    def generic_engines_total(self) -> Errors:
        """The same, engines left out."""
        return errors_of(trusted(self.generic_engines), "all engines")

    @property
    def cells(self) -> dict[str, dict[str, Errors]]:
        """The errors by family of chips, engine, kind of drafter, batch size and room; trusted."""
        labels: dict[str, Callable[[Scored], str]] = {
            "chip": _family,
            "engine": _engine,
            "drafter": lambda score: score.point.method or "",
            "batch": lambda score: f"{score.point.batch_size:g}",
            "capacity": lambda score: capacity_bound(score.point),
        }
        return {name: _by(trusted(self.points), label) for name, label in labels.items()}


def trusted(points: Iterable[Scored]) -> list[Scored]:
    """Return the points of sources that count."""
    return [score for score in points if score.is_trusted]


def _family(score: Scored) -> str:
    return generic_family(score.point.hardware or "")


def _engine(score: Scored) -> str:
    return score.point.engine or ""


def _by(points: Iterable[Scored], label: Callable[[Scored], str]) -> dict[str, Errors]:
    """Return the errors of points by what they have in common, sorted by that."""
    groups = sorted(grouped(points, label).items())
    return {name: errors_of(scores, name) for name, scores in groups}


def validation(
    measurements: Iterable[Measurement] | None = None, predicted: Predicted | None = None
) -> Validation:
    """Return predictions beside measurements, each source predicted by a fit without it.

    Parameters
    ----------
    measurements
        What was measured; all that come with the package if None.
    predicted
        What `predictions` gives for these; asked for if None.
    """
    points, strange, lacking = _by_what_they_say(measurements)
    every = [*points, *strange]
    found = predictions(measurements) if predicted is None else predicted
    generic = _beside(every, found["generic"])
    unknown = _beside(points, found["generic_engines"])
    return Validation(
        points=banded(_beside(points, found["points"]), calibrated=True),
        ideal=_beside(points, found["ideal"]),
        lacking=tuple(lacking),
        generic=banded(generic, by_family=True),
        generic_engines=banded(unknown, seen=generic, by_family=True),
    )


def predictions(measurements: Iterable[Measurement] | None = None) -> Predicted:
    """Return what is predicted of measurements, by the fields of `Validation`.

    Parameters
    ----------
    measurements
        What was measured; all that come with the package if None.
    """
    points, strange, _ = _by_what_they_say(measurements)
    every = [*points, *strange]
    return {
        "points": left_out_rates(points).as_measured(points).tolist(),
        "ideal": published_rates(points, IDEAL_ENGINE).as_measured(points).tolist(),
        "generic": generic_rates(every).as_measured(every).tolist(),
        "generic_engines": generic_rates(points, by_engine=True).as_measured(points).tolist(),
    }


def _by_what_they_say(
    measurements: Iterable[Measurement] | None,
) -> tuple[list[Measurement], list[Measurement], list[tuple[Measurement, str]]]:
    """Return measurements of fitted chips, of strange ones, and those that cannot be scored."""
    points, strange, lacking = [], [], []
    for point in load_measurements() if measurements is None else measurements:
        kind, missing = kind_of(point)
        if not kind:
            lacking.append((point, missing))
        elif is_fitted(point.hardware or ""):
            points.append(point)
        else:
            strange.append(point)
    return points, strange, lacking


def _beside(points: Sequence[Measurement], predicted: Iterable[float]) -> tuple[Scored, ...]:
    """Pair each measurement with its prediction; relative curves are scaled to the same mean."""
    return tuple(levelled(map(scored, points, predicted)))
