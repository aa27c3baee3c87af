"""Predictions of published measurements, by profiles that were fitted without their source.

The profiles ship with the package (`specroof.catalog.left_out_fits`), so that nothing here fits.
"""

from collections.abc import Callable, Hashable, Iterable
from dataclasses import replace
from functools import partial
from typing import Any, Final, Literal, TypeAlias

from specroof.catalog import left_out_fits
from specroof.cost import Options
from specroof.drafters import Drafter, TokensPerRound
from specroof.engines.record import MeasuredCase, Rates, Record, case_of, of_bare_passes
from specroof.evidence import STEP, Measurement, acceptance_of, base_model, drafter_of
from specroof.evidence.measurement import chip_of, model_of
from specroof.frameworks import FRAMEWORKS
from specroof.hardware.engine import EngineProfile
from specroof.hardware.profile import GENERIC, Placement
from specroof.latency.setup import Deployment, engine_setup


def left_out_name(*, family: str = "", engine: str = "") -> str:
    """Return what the fit without a family of chips, or without an engine, is stored under.

    Examples
    --------
    >>> left_out_name(family="hopper")
    'family hopper'
    """
    return f"family {family}" if family else f"engine {engine}"


def is_fitted(hardware: str) -> bool:
    """Tell whether measurements speak for a chip, by the name that they have for it.

    Examples
    --------
    >>> is_fitted("gb200"), is_fitted("l40s")
    (True, False)
    """
    return chip_of(hardware).fitted_family is not None


def generic_family(hardware: str) -> str:
    """Return the family of chips whose kernels the generic engine of a measured chip has.

    Examples
    --------
    >>> generic_family("l40s"), generic_family("mi300x")
    ('ada', 'any')
    """
    stand_ins = chip_of(hardware).generic
    return (stand_ins and stand_ins.family) or "any"


def left_out_engine(point: Measurement) -> EngineProfile:
    """Return the profile of a measurement's engine and chip that was fitted without its source."""
    chip = chip_of(point.hardware or "")
    profile = left_out_fits().engine(point.engine or "", chip, without=point.source)
    return of_bare_passes(profile) if point.method == STEP else profile


def left_out_generic(point: Measurement, *, by_engine: bool = False) -> EngineProfile:
    """Return the generic engine of a measured chip, by a fit that had not seen its like.

    Parameters
    ----------
    point
        What was measured.
    by_engine
        Whether the fit had not seen the engine, whose rounds then last as long as another's; else
        it had not seen the family of the chip. What no fit saw needs none left out.
    """
    family = "" if by_engine else generic_family(point.hardware or "")
    return _generic_without(point, left_out_name(family=family, engine=point.engine or ""))


def _generic_without(point: Measurement, without: str) -> EngineProfile:
    """Return the generic engine of a measured chip by the fit without a group."""
    stand_ins: Any = chip_of(point.hardware or "").generic  # which chips of files have
    engines = replace(stand_ins, known=lambda: left_out_fits().generic_without(without)).engines
    profile = engines.get(point.engine or "", engines[GENERIC])
    return of_bare_passes(profile) if point.method == STEP else profile


#: What the fit without the served loads of a model, a chip or an engine is stored under begins so.
SERVED: Final = "served "

#: What groups of served loads are left out by: a whole model, chip or engine, one model on one chip
#: in one engine; or all that a family of chips has measured, drafts too.
ServedGroup: TypeAlias = Literal["model", "chip", "engine", "setup", "family"]
#: Those of served loads alone, each of which has a stored fit.
SERVED_GROUPS: Final[tuple[ServedGroup, ...]] = ("model", "chip", "engine", "setup")


def served_group(point: Measurement, by: ServedGroup) -> str:
    """Return what the fit without the group of a served load is stored under.

    Examples
    --------
    >>> from specroof.evidence import load_served
    >>> load = next(load for load in load_served() if load.model == "nvidia/DeepSeek-V3.1-NVFP4")
    >>> [served_group(load, by) for by in ("model", "chip", "family")]
    ['served model deepseek-ai/DeepSeek-R1', 'served chip b200', 'family blackwell']
    """
    if by == "family":
        chip = point.hardware or ""
        return left_out_name(family=chip_of(chip).fitted_family or generic_family(chip))
    names = {"model": base_model(point), "chip": point.hardware, "engine": point.engine}
    return f"{SERVED}{by} {' '.join(map(str, names.values())) if by == 'setup' else names[by]}"


def left_out_served(point: Measurement, by: ServedGroup | None) -> tuple[EngineProfile, bool]:
    """Return the profile of a served load that has not seen its group, and whether there is one.

    Where no fit without the group is stored, it is the profile that ships, which has not seen the
    group unless the served loads of other groups were left out of it in turn.

    Parameters
    ----------
    point
        A load.
    by
        What loads are left out by. Without its family the chip has the generic engine; None for
        the profile that ships, which has seen the load.
    """
    fits, chip = left_out_fits(), chip_of(point.hardware or "")
    tool = point.engine or ""
    shipped = chip.engine(tool if tool in {*chip.engines, *FRAMEWORKS} else None)
    if by is None:
        return shipped, False
    without = served_group(point, by)
    if by == "family":
        return _generic_without(point, without), True
    if tool in chip.engines:
        own = fits.fits_on(tool, chip)
        return own.get(without, shipped), without in own or not _saw_served(own)
    if without in fits.generic:
        return _generic_without(point, without), True
    return shipped, not _saw_served(fits.generic)


def _saw_served(fits: Iterable[str]) -> bool:
    """Tell whether fits were made from served loads: then some are left out in turn."""
    return any(name.startswith(SERVED) for name in fits)


def served_of(point: Measurement, engine: EngineProfile) -> Deployment:
    """Return the deployment of a measurement, in an engine, by the release that served it."""
    engine = engine.served_by(point.engine_version, point.date)
    hardware = replace(chip_of(point.hardware or ""), engines={engine.name: engine})
    placement = Placement(
        point.tensor_parallel or 1, point.expert_parallel or 1, point.attention_data_parallel or 1
    )
    options = Options(weight_dtype=point.quantization, kv_dtype=point.kv_cache)
    setup = engine_setup(hardware, engine.name, placement, options)
    return Deployment(model_of(point.model or ""), setup)


def of_former_release(point: Measurement) -> bool:
    """Tell whether a release served a measurement that its engine's profile tells from newer ones.

    Examples
    --------
    >>> from specroof.evidence import load_served
    >>> loads = [load for load in load_served() if load.engine_version == "1.1.0rc2.post2"]
    >>> {load.hardware: of_former_release(load) for load in loads}
    {'b200': True, 'h200': False}
    """
    engine = chip_of(point.hardware or "").engines.get(point.engine or "")
    former = None if engine is None else engine.former
    return former is not None and former.has(point.engine_version, point.date)


def published_cases(
    points: Iterable[Measurement], engines: Iterable[tuple[Hashable, EngineProfile]]
) -> list[MeasuredCase]:
    """Return published measurements as they are to be predicted; what they leave open is presumed.

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
        drafting: tuple[Drafter, TokensPerRound] | None = None
        if point.drafts:
            drafter = drafter_of(point)
            drafting = drafter, acceptance_of(point, drafter, presumed=True)
        cases.append(case_of(point, served[where], drafting, name))
    return cases


def published_rates(points: Iterable[Measurement], engine: EngineProfile) -> Rates:
    """Return what one engine predicts for published measurements."""
    return _rates(points, lambda _: engine, lambda _: engine.name)


def left_out_rates(points: Iterable[Measurement]) -> Rates:
    """Return what engines predict for measurements, each fitted without their source."""
    return _rates(points, left_out_engine, lambda p: (p.source, *_place(p)))


def generic_rates(points: Iterable[Measurement], *, by_engine: bool = False) -> Rates:
    """Return what generic engines predict for measurements, each fitted without their like.

    Parameters
    ----------
    points, by_engine
        As for `left_out_generic`.
    """
    return _rates(points, partial(left_out_generic, by_engine=by_engine), _place)


def _place(point: Measurement) -> tuple[Hashable, ...]:
    return point.engine, point.hardware, point.method == STEP


def _rates(
    points: Iterable[Measurement],
    engine_of: Callable[[Measurement], EngineProfile],
    name: Callable[[Measurement], Hashable],
) -> Rates:
    """Return what is predicted of points, which have the same engine where its name is the same."""
    points = list(points)
    engines = {name(p): engine_of(p) for p in {name(p): p for p in points}.values()}
    return Record(published_cases(points, [(name(p), engines[name(p)]) for p in points])).rates()
