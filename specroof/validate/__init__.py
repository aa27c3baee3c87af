"""Predictions against published measurements: how far to trust them, source by source.

Each source is predicted by profiles that were fitted without it. The fits are stored, so that
validating needs no SciPy; `benchmarks/fit_engines.py` makes them.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib import resources
from typing import Final

from specroof.architecture import Architecture
from specroof.cost import ForwardPass
from specroof.engines.kernels import KERNEL_ENGINE, kernel_engine
from specroof.engines.shared_parameters import chip_family, fitted_engine
from specroof.engines.timing import Array, Throughput, round_seconds, throughput
from specroof.evidence.bundled import Measurement, load_measurements
from specroof.evidence.places import chip_of, model_of
from specroof.hardware import IDEAL_ENGINE, EngineProfile, Placement
from specroof.latency import Setup
from specroof.latency.model import engine_setup, model_latency
from specroof.speedup.round import draft_price
from specroof.validate.scores import Errors, Scored, errors_of, kind_of, levelled, scored

__all__ = [
    "TRUSTED",
    "Errors",
    "Scored",
    "Validation",
    "errors_of",
    "fitted_parameters",
    "left_out_engine",
    "measured_throughput",
    "validation",
]

#: Sources of a trust order beyond this are predicted and shown, and neither fitted nor totalled.
TRUSTED: Final = 3

_FITS: Final = "fits.json"
#: The fit to all sources, which the hardware files hold.
_ALL: Final = "all"


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
        return errors_of([one for one in self.points if one.point.trust <= TRUSTED])

    @property
    def ideal_total(self) -> Errors:
        """The errors of the ideal roofline over the same points."""
        return errors_of([one for one in self.ideal if one.point.trust <= TRUSTED])


@cache
def _fits() -> dict[str, dict[str, float]]:
    text = resources.files("specroof.engines").joinpath(_FITS).read_text(encoding="utf-8")
    fits: dict[str, dict[str, float]] = json.loads(text)["fits"]
    return fits


def fitted_parameters(without: str | None = None) -> Mapping[str, float]:
    """Return the parameters that were fitted to all measurements, or to all but one source.

    Parameters
    ----------
    without
        The source that was left out. One that no fit ever saw needs none left out.

    Examples
    --------
    >>> 0 < fitted_parameters()["memory_frac"] <= 1
    True
    """
    fits = _fits()
    return fits.get(without or _ALL, fits[_ALL])


def left_out_engine(point: Measurement) -> EngineProfile:
    """Return the profile of a measurement's engine and chip that was fitted without its source."""
    hardware = chip_of(point.hardware)
    parameters = fitted_parameters(without=point.source)
    if point.engine == KERNEL_ENGINE:
        return kernel_engine(hardware, parameters)
    family = chip_family(hardware)
    return fitted_engine(point.engine, family, parameters, eager=point.method == "step")


def measured_throughput(point: Measurement, engine: EngineProfile) -> Throughput:
    """Return what a profile predicts for a measured point.

    Parameters
    ----------
    point
        Model, chip, engine, load and workload.
    engine
        The profile.

    Raises
    ------
    CatalogError
        If the model or the chip is not known.
    """
    hardware = replace(chip_of(point.hardware), engines={engine.name: engine})
    placement = Placement(point.tensor_parallel or 1)
    setup = engine_setup(hardware, engine.name, placement, None)
    model = model_of(point.model)
    seconds = round_seconds(point, model, _target(point, model, setup), draft_price(setup, {}))
    return throughput(point, seconds, engine)


def _target(
    point: Measurement, model: Architecture, setup: Setup
) -> Callable[[ForwardPass], Array]:
    if point.method == "step":
        # The time of a bare pass: nobody schedules sequences around it.
        setup = replace(setup, engine=replace(setup.engine, sequence_overhead_s=0.0))
    return lambda forward: model_latency(model, setup, forward).total_s


def validation(measurements: Iterable[Measurement] | None = None) -> Validation:
    """Return predictions beside measurements, each source predicted by a fit without it.

    Parameters
    ----------
    measurements
        What was measured; all that come with the package if None.
    """
    points, ideal, lacking = [], [], []
    for point in load_measurements() if measurements is None else measurements:
        kind, missing = kind_of(point)
        if not kind:
            lacking.append((point, missing))
            continue
        engine = left_out_engine(point)
        points.append(scored(point, kind, measured_throughput(point, engine)))
        ideal.append(scored(point, kind, measured_throughput(point, IDEAL_ENGINE)))
    return Validation(tuple(levelled(points)), tuple(levelled(ideal)), tuple(lacking))
