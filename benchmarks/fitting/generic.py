"""The generic engine: kernels of a chip's family, and what all fits share.

Shares of the peaks are medians over kernels that aiconfigurator-core 0.12.0 has timed in SGLang,
vLLM and TensorRT-LLM (`benchmarks/kernel_shares.py` prints them).
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

from fitting.bands import no_narrower
from fitting.parameters import (
    ALL,
    ENGINES,
    EVERYONE,
    FACTORS_BESIDE_ROUNDS,
    FAMILIES,
    OWN,
    SCALE_OUT_LATENCY_S,
    fitted_parameters,
    own,
    own_engine,
    prompt_tiles,
    shared_engine,
    timed_layers,
)
from specroof.frameworks import FRAMEWORKS
from specroof.hardware.engine import OTHER_DRAFTERS, Band, Collective, EngineProfile
from specroof.hardware.profile import GENERIC, ChipFamily, Generic, scaled
from specroof.scoring.left_out import left_out_name

#: Chips by their matrix units, and what kernels reach there: share of the bf16 peak in matmuls of
#: at least 4096 in each direction, share of the memory's bytes/s with at most 16 rows.
CHIP_FAMILIES: Final = {
    "ampere": ChipFamily(architectures=("ampere",), compute_frac=0.84, memory_frac=0.76),
    # Timed on L40S, which 350 W keep from more than 206 TFLOP/s. Matrix units of a GeForce of this
    # generation do half as much where they add in float32, and no limit of power keeps them from
    # it: attention of an RTX 4090 (vllm-project/flash-attention PR 176), which 0.57 makes 1.6 times
    # too slow, is 1.18 times with what most families reach.
    "ada": ChipFamily(architectures=("ada",), compute_frac=0.57, memory_frac=0.83),
    "ada geforce": ChipFamily(architectures=("ada-geforce",), compute_frac=0.81, memory_frac=0.83),
    "hopper": ChipFamily(architectures=("hopper",), compute_frac=0.78, memory_frac=0.83),
    "blackwell": ChipFamily(architectures=("blackwell",), compute_frac=0.66, memory_frac=0.79),
    "blackwell cards": ChipFamily(
        architectures=("blackwell-rtx", "thor"), compute_frac=0.85, memory_frac=0.83
    ),
    "battlemage": ChipFamily(architectures=("battlemage",), compute_frac=0.96, memory_frac=0.98),
    # Medians of the six that were timed.
    "any": ChipFamily(compute_frac=0.81, memory_frac=0.83),
}

#: All-reduces of cards on PCIe: medians over three engines on L40S and RTX PRO 6000.
_CARDS: Final = Collective(
    latency_s=1.8e-6,
    device_latency_s=4.2e-6,
    link_frac=0.22,
    scale_out_latency_s=SCALE_OUT_LATENCY_S,
)
#: PCIe 5.0 x16 is 64 GB/s in one direction; the slowest link that is no bus has 103.
_CARD_BYTES_PER_S: Final = 64e9
#: H100 and H200, geometric mean: the cost of a token in a layer is a figure of Hopper.
_HOPPER_BYTES_PER_S: Final = 4.0e12


def generic(parameters: Mapping[str, float], bands: Mapping[str, Any] | None = None) -> Generic:
    """Return what fitted parameters and timed kernels say of chips in general.

    Parameters
    ----------
    parameters
        See `fitting.parameters.PARAMETERS`.
    bands
        Of speedups, by the name of an engine.

    Examples
    --------
    >>> from fitting.parameters import fitted_parameters
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


def no_surer(stand_in: EngineProfile, measured: Iterable[EngineProfile]) -> dict[str, Band]:
    """Return the bands of a stand-in, at no load narrower than those of measured engines.

    Parameters
    ----------
    stand_in
        With bands of its own errors.
    measured
        Engines of chips, with theirs.
    """
    known = [*measured]
    bands = {}
    for kind in {kind: None for engine in (stand_in, *known) for kind in engine.bands}:
        own = stand_in.bands.get(kind, stand_in.bands[OTHER_DRAFTERS])
        bands[kind] = no_narrower(own, filter(None, (engine.band(kind) for engine in known)))
    return bands


def _relative(name: str, parameters: Mapping[str, float]) -> EngineProfile:
    """Return an engine whose shares are relative to those of a family's kernels."""
    whose = name if name in ENGINES else "vllm"
    # The family of a fit whose chips are as all others: no slower layers, no slower kernels.
    even = {**parameters, "compute_frac.hopper": 1.0}
    engine = own_engine(
        shared_engine(whose, "hopper", even), (EVERYONE,), parameters, FACTORS_BESIDE_ROUNDS
    )
    # What kernels reach of a memory, the fits call so; caches and experts keep their distance.
    weights = parameters["memory_frac"]
    tiles = prompt_tiles(timed_layers()["servers"][whose]["hopper"])
    return replace(
        engine,
        prefill_expert_tiles={
            key: scaled(tile, compute=1 / CHIP_FAMILIES["hopper"].compute_frac)
            for key, tile in tiles.items()
        },
        name=GENERIC,
        framework=None if name == GENERIC else name,
        memory_frac=1.0,
        kind_memory_frac={kind: share / weights for kind, share in engine.kind_memory_frac.items()},
        round_overhead_s=own("round_s", name, parameters),
        lookup_round_frac=engine.lookup_round_frac if name in ENGINES else 1.0,
        draft_pass_overhead_s=own("draft_pass_s", name, parameters),
        graphs=None if name == "tensorrt-llm" else engine.graphs,
    )


def left_out_generics() -> dict[str, Generic]:
    """Return what is said of chips in general by the fit to all and by each without a group.

    A fit without an engine takes the rounds of that engine to last as long as the other's.

    Returns
    -------
    dict
        By the name that a fit is stored under: see `left_out_name`.

    Examples
    --------
    >>> sorted(left_out_generics())[:3]
    ['all', 'engine sglang', 'engine vllm']
    """
    made = {ALL: generic(fitted_parameters())}
    for family in FAMILIES:
        name = left_out_name(family=family)
        made[name] = generic(fitted_parameters(without=name))
    for engine in ENGINES:
        (other,) = set(ENGINES) - {engine}
        name = left_out_name(engine=engine)
        parameters = dict(fitted_parameters(without=name))
        for parameter in OWN:
            parameters[f"{parameter}.{engine}"] = parameters[f"{parameter}.{other}"]
        made[name] = generic(parameters)
    return made
