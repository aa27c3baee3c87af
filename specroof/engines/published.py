"""Engines of published measurements: the stored fits, each without one source, and who uses which.

`benchmarks/fit_engines.py` makes the fits, so that nothing here needs SciPy.
"""

import json
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import replace
from functools import cache
from importlib import resources
from typing import Final

from specroof.drafters import Drafter, TokensPerRound
from specroof.engines.kernels import KERNEL_ENGINE, kernel_engine
from specroof.engines.record import Case, Rates, Record, case_of, of_bare_passes
from specroof.engines.shared_parameters import chip_family, fitted_engine
from specroof.evidence import STEP, Measurement, acceptance_of, drafter_of
from specroof.evidence.measurement import chip_of, model_of
from specroof.hardware import IDEAL_ENGINE, EngineProfile, Placement
from specroof.latency import Deployment, engine_setup

_FITS: Final = "fits.json"
#: The fit to all sources, which the hardware files hold.
_ALL: Final = "all"


@cache
def _fits() -> dict[str, dict[str, float]]:
    text = resources.files("specroof.engines").joinpath(_FITS).read_text(encoding="utf-8")
    fits: dict[str, dict[str, float]] = json.loads(text)["fits"]
    return fits


def fitted_parameters(without: str = "") -> Mapping[str, float]:
    """Return the parameters that were fitted to all measurements, or to all but one source.

    Parameters
    ----------
    without
        The source that was left out; empty for none. One that no fit ever saw needs none.

    Examples
    --------
    >>> 0 < fitted_parameters()["memory_frac"] <= 1
    True
    """
    fits = _fits()
    return fits.get(without, fits[_ALL])


def left_out_name(*, family: str = "", engine: str = "") -> str:
    """Return what the fit without a family of chips, or without an engine, is stored under.

    Examples
    --------
    >>> left_out_name(family="hopper")
    'family hopper'
    """
    return f"family {family}" if family else f"engine {engine}"


def engine_key(point: Measurement) -> tuple[str, str, bool]:
    """Return what engines of measurements are told apart by: name, family of chips, bare passes.

    Kernels are known chip by chip: there it is the chip in the place of its family.
    """
    engine, chip = point.engine or "", point.hardware or ""
    family = chip if engine == KERNEL_ENGINE else chip_family(chip_of(chip))
    return engine, family, point.method == STEP


def engine_of(key: tuple[str, str, bool], parameters: Mapping[str, float]) -> EngineProfile:
    """Return the engine profile that parameters make for some measurements.

    Parameters
    ----------
    key
        See `engine_key`.
    parameters
        Fitted ones.
    """
    name, family, is_step = key
    if name == KERNEL_ENGINE:
        return kernel_engine(chip_of(family), parameters)
    engine = fitted_engine(name, family, parameters)
    return of_bare_passes(engine) if is_step else engine


def left_out_engine(point: Measurement) -> EngineProfile:
    """Return the profile of a measurement's engine and chip that was fitted without its source."""
    return engine_of(engine_key(point), fitted_parameters(without=point.source))


def published_cases(
    points: Iterable[Measurement], engines: Iterable[tuple[Hashable, EngineProfile]]
) -> list[Case]:
    """Return published measurements as they are to be predicted; open ends are presumed.

    Parameters
    ----------
    points
        Those that `specroof.evidence.kind_of` gives a kind.
    engines
        The engine of each, and a name for it: where the names are the same, the profiles are.

    Raises
    ------
    CatalogError
        If a model or a chip is not known.
    """
    served: dict[Hashable, Deployment] = {}
    cases = []
    for point, (name, engine) in zip(points, engines, strict=True):
        where = (point.model, point.hardware, point.tensor_parallel, name)
        if where not in served:
            served[where] = served_of(point, engine)
        cases.append(case_of(point, served[where], _drafting(point), name))
    return cases


def served_of(point: Measurement, engine: EngineProfile) -> Deployment:
    """Return what was measured where, in an engine."""
    hardware = replace(chip_of(point.hardware or ""), engines={engine.name: engine})
    placement = Placement(point.tensor_parallel or 1)
    setup = engine_setup(hardware, engine.name, placement, None)
    return Deployment(model_of(point.model or ""), setup)


def _drafting(point: Measurement) -> tuple[Drafter, TokensPerRound] | None:
    if not point.drafts:
        return None
    drafter = drafter_of(point)
    return drafter, acceptance_of(point, drafter, presumed=True)


def published_rates(points: Iterable[Measurement], engine: EngineProfile) -> Rates:
    """Return what one engine predicts for published measurements."""
    points = list(points)
    return Record(published_cases(points, [(engine.name, engine)] * len(points))).rates()


def left_out_rates(points: Iterable[Measurement]) -> Rates:
    """Return what engines predict for measurements, each fitted without their source."""
    points = list(points)
    engines = [((point.source, *engine_key(point)), left_out_engine(point)) for point in points]
    return Record(published_cases(points, engines)).rates()


def ideal_published_rates(points: Iterable[Measurement]) -> Rates:
    """Return what the ideal roofline says of measurements."""
    return published_rates(points, IDEAL_ENGINE)
