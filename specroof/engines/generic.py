"""The generic engine: kernels of a chip's family, and what all fits share.

Shares of the peaks are medians over kernels that aiconfigurator-core 0.12.0 has timed in SGLang,
vLLM and TensorRT-LLM (`benchmarks/kernel_shares.py` prints them).
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cache
from typing import Any, Final

from specroof.engines.published import (
    fitted_parameters,
    left_out_name,
    published_cases,
)
from specroof.engines.record import Rates, Record, of_bare_passes
from specroof.engines.shared_parameters import ENGINES, FAMILIES, OWN, fitted_engine, own
from specroof.evidence import STEP, Measurement
from specroof.evidence.measurement import chip_of
from specroof.hardware import FRAMEWORKS, GENERIC, ChipFamily, Collective, EngineProfile, Generic

#: Chips by their matrix units, and what kernels reach there: share of the bf16 peak in matmuls of
#: at least 4096 in each direction, share of the memory's bytes/s with at most 16 rows.
CHIP_FAMILIES: Final = {
    "ampere": ChipFamily(
        chips=(*FAMILIES["ampere"], "A10", "A10G", "A30", "3090"),
        compute_frac=0.84,
        memory_frac=0.76,
    ),
    "ada": ChipFamily(chips=("L4", "L40S", "4090"), compute_frac=0.57, memory_frac=0.83),
    "hopper": ChipFamily(chips=(*FAMILIES["hopper"], "H20"), compute_frac=0.78, memory_frac=0.83),
    "blackwell": ChipFamily(chips=FAMILIES["blackwell"], compute_frac=0.66, memory_frac=0.79),
    "blackwell cards": ChipFamily(
        chips=("6000", "5090", "GB10", "Thor"), compute_frac=0.85, memory_frac=0.83
    ),
    "battlemage": ChipFamily(chips=("B60",), compute_frac=0.96, memory_frac=0.98),
    # Medians of the six above.
    "any": ChipFamily(compute_frac=0.81, memory_frac=0.83),
}

#: All-reduces of cards on PCIe: medians over three engines on L40S and RTX PRO 6000.
_CARDS: Final = Collective(latency_s=1.8e-6, device_latency_s=4.2e-6, link_frac=0.22)
#: PCIe 5.0 x16 is 64 GB/s in one direction; the slowest link that is no bus has 103.
_CARD_BYTES_PER_S: Final = 64e9
#: H100 and H200, geometric mean: the cost of a token in a layer is a figure of Hopper.
_HOPPER_BYTES_PER_S: Final = 4.0e12


def generic(parameters: Mapping[str, float], bands: Mapping[str, Any] | None = None) -> Generic:
    """Return what fitted parameters and timed kernels say of chips in general.

    Parameters
    ----------
    parameters
        See `specroof.engines.shared_parameters.PARAMETERS`.
    bands
        Of speedups, by the name of an engine.

    Examples
    --------
    >>> from specroof.engines.published import fitted_parameters
    >>> sorted(generic(fitted_parameters()).engines)
    ['generic', 'sglang', 'tensorrt-llm', 'vllm']
    """
    held = bands or {}
    return Generic(
        engines={
            name: replace(_relative(name, parameters), bands=held.get(name, {}))
            for name in (GENERIC, *FRAMEWORKS)
        },
        families=CHIP_FAMILIES,
        cards=_CARDS,
        card_bytes_per_s=_CARD_BYTES_PER_S,
        memory_bytes_per_s=_HOPPER_BYTES_PER_S,
    )


def _relative(name: str, parameters: Mapping[str, float]) -> EngineProfile:
    """Return an engine whose shares are relative to those of a family's kernels."""
    whose = name if name in ENGINES else "vllm"
    # The family of a fit whose chips are as all others: no slower layers, no slower kernels.
    even = {**parameters, "compute_frac.hopper": 1.0}
    engine = fitted_engine(whose, "hopper", even)
    # What kernels reach of a memory, the fits call so; caches and experts keep their distance.
    weights = parameters["memory_frac"]
    return replace(
        engine,
        name=GENERIC,
        framework=None if name == GENERIC else name,
        memory_frac=1.0,
        kind_memory_frac={kind: share / weights for kind, share in engine.kind_memory_frac.items()},
        round_overhead_s=own("round_s", name, parameters),
        lookup_round_frac=engine.lookup_round_frac if name in ENGINES else 1.0,
        draft_pass_overhead_s=own("draft_pass_s", name, parameters),
        graphs=None if name == "tensorrt-llm" else engine.graphs,
    )


@cache
def generic_family(hardware: str) -> str:
    """Return the family of `CHIP_FAMILIES` that a chip of a measurement is of.

    Examples
    --------
    >>> generic_family("l40s"), generic_family("mi300x")
    ('ada', 'any')
    """
    return generic(fitted_parameters()).family_of(chip_of(hardware).name)


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
    chip, engine = chip_of(point.hardware or ""), point.engine or ""
    family = generic_family(point.hardware or "")
    left_out = left_out_name(engine=engine) if by_engine else left_out_name(family=family)
    parameters = dict(fitted_parameters(without=left_out))
    if by_engine and engine in ENGINES:
        (other,) = set(ENGINES) - {engine}
        for name in OWN:
            parameters[f"{name}.{engine}"] = parameters[f"{name}.{other}"]
    link = chip.interconnect
    known = generic(parameters)
    found = known.on_chip(
        chip.name,
        memory_bytes_per_s=chip.peak.memory_bytes_per_s,
        link_bytes_per_s=None if link is None else link.link_bytes_per_s,
    ).engines
    profile = found.get(engine, found[GENERIC])
    return of_bare_passes(profile) if point.method == STEP else profile


def generic_rates(points: Iterable[Measurement], *, by_engine: bool = False) -> Rates:
    """Return what generic engines predict for measurements, each fitted without their like.

    Parameters
    ----------
    points, by_engine
        As for `left_out_generic`.
    """
    points = list(points)
    keys = [(one.engine, one.hardware, one.method == STEP) for one in points]
    engines = {
        key: left_out_generic(one, by_engine=by_engine)
        for key, one in dict(zip(keys, points, strict=True)).items()
    }
    return Record(published_cases(points, [(key, engines[key]) for key in keys])).rates()
