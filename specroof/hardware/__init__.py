"""What a device can do at best, what an engine reaches of it, and how a model is spread.

A hardware file keeps two kinds of figures apart: `peak` and `interconnect` are datasheet figures,
`engines` holds measured shares of them and fixed costs. Each figure names its source.
"""

from collections.abc import Callable
from typing import Any, Final

from specroof.errors import ProfileError
from specroof.hardware.engine import (
    ANY_CONCURRENCY,
    BATCH_WIDENING,
    CONCURRENCY_ENDS,
    CONCURRENCY_RANGES,
    CONTEXT_WIDENING,
    FRAMEWORKS,
    IDEAL_ENGINE,
    LOCAL_FRAMEWORKS,
    OP_KINDS,
    OTHER_DRAFTERS,
    SERVED_FIGURES,
    SERVER_KEYS,
    STATE_TOKENS,
    UNMEASURED_ATTENTION_BATCH,
    AllToAll,
    Band,
    CapturedGraphs,
    Collective,
    EngineProfile,
    ExpectedError,
    ExpertKernel,
    ExpertLocality,
    ExpertTile,
    Reach,
    RowKernel,
    ServedBands,
    Server,
    ServerSettings,
    served_cells,
    served_width,
)
from specroof.hardware.profile import (
    ALL_SOURCES,
    GENERIC,
    USABLE_MEMORY_FRAC,
    ChipFamily,
    DevicePower,
    DevicePrice,
    Generic,
    GenericEngines,
    HardwareProfile,
    Interconnect,
    LeftOutFits,
    LocalEngines,
    Peak,
    Placement,
)
from specroof.reading.yaml_text import parse_yaml

__all__ = [
    "ALL_SOURCES",
    "ANY_CONCURRENCY",
    "BATCH_WIDENING",
    "CONCURRENCY_ENDS",
    "CONCURRENCY_RANGES",
    "CONTEXT_WIDENING",
    "FRAMEWORKS",
    "GENERIC",
    "IDEAL_ENGINE",
    "LOCAL_FRAMEWORKS",
    "OP_KINDS",
    "OTHER_DRAFTERS",
    "SERVED_FIGURES",
    "SERVER_KEYS",
    "STATE_TOKENS",
    "UNMEASURED_ATTENTION_BATCH",
    "USABLE_MEMORY_FRAC",
    "AllToAll",
    "Band",
    "CapturedGraphs",
    "ChipFamily",
    "Collective",
    "DevicePower",
    "DevicePrice",
    "EngineProfile",
    "ExpectedError",
    "ExpertKernel",
    "ExpertLocality",
    "ExpertTile",
    "Generic",
    "GenericEngines",
    "HardwareProfile",
    "Interconnect",
    "LeftOutFits",
    "LocalEngines",
    "Peak",
    "Placement",
    "Reach",
    "RowKernel",
    "ServedBands",
    "Server",
    "ServerSettings",
    "parse_generic",
    "parse_hardware",
    "parse_left_out_fits",
    "parse_local_engines",
    "served_cells",
    "served_width",
]


def parse_hardware(text: str, *, source: str, trusted: bool = False) -> HardwareProfile:
    """Return the profile that the YAML of a hardware file describes.

    Parameters
    ----------
    text
        The whole file.
    source
        How messages name it: a path, usually.
    trusted
        Take the figures as they stand: only for the bundled files, which the tests check.

    Raises
    ------
    ProfileError
        If the text is not a safe YAML mapping, a key is unknown or missing, or a value is not
        allowed: one line with `source`, the key, the value and what is allowed.

    Examples
    --------
    >>> parse_hardware(_EXAMPLE, source="example.yaml").peak.memory_bytes_per_s
    3000000000000.0
    >>> parse_hardware(_EXAMPLE.replace("3.0e+12", "3.0e12"), source="example.yaml")
    Traceback (most recent call last):
    specroof.errors.ProfileError: example.yaml: peak.memory_bytes_per_s is '3.0e12', which YAML
    reads as text; write 3.0e+12
    """
    if trusted:
        content = parse_yaml(text, source=source, error=ProfileError)
    else:
        # Imported here: pydantic costs a cold start more than all that a prediction computes.
        from specroof.hardware.schema import checked_mapping  # noqa: PLC0415

        content = checked_mapping(text, source=source)
    link, price, power = (content.get(key) for key in ("interconnect", "price", "power"))
    engines = content.get("engines", {})
    shared = {name: block["same_as"] for name, block in engines.items() if "same_as" in block}
    return HardwareProfile(
        format_version=content["format_version"],
        name=content["name"],
        aliases=tuple(content.get("aliases", ())),
        vendor=content.get("vendor"),
        architecture=content.get("architecture"),
        compute_capability=content.get("compute_capability"),
        sources=content["sources"],
        peak=Peak(**content["peak"]),
        usable_memory_bytes=content.get("usable_memory_bytes"),
        interconnect=None if link is None else Interconnect(**link),
        # YAML reads a date as a date.
        price=None if price is None else DevicePrice(**{**price, "date": str(price["date"])}),
        power=None if power is None else DevicePower(**power),
        default_engine=content.get("default_engine"),
        engines={
            name: _engine(name, block) for name, block in engines.items() if name not in shared
        },
        same_engines=shared,
    )


def _bands(**cells: dict[str, Any]) -> dict[str, Band]:
    return {name: Band(**cell) for name, cell in cells.items()}


def _reach(**block: Any) -> Reach:
    # YAML reads a whole number as one.
    parts = {
        key: tuple(part) if isinstance(part, list) else float(part)
        for key, part in block.items()
        if part is not None and not isinstance(part, str)
    }
    return Reach(**{**block, **parts})


#: Blocks of an engine that are values themselves.
_PARTS: Final[dict[str, Callable[..., Any]]] = {
    "collective": Collective,
    "expert_tile": ExpertTile,
    "expert_kernels": lambda **kernels: {
        dtype: ExpertKernel(**kernel) for dtype, kernel in kernels.items()
    },
    "expert_locality": ExpertLocality,
    "graphs": lambda sizes, **rest: CapturedGraphs(sizes=tuple(sizes), **rest),
    "expected_error": ExpectedError,
    "bands": _bands,
    "row_kernels": lambda **kernels: {
        name: RowKernel(**kernel) for name, kernel in kernels.items()
    },
    "served_bands": lambda **figures: {name: _bands(**cells) for name, cells in figures.items()},
    "reach": _reach,
}


def parse_generic(content: dict[str, Any]) -> Generic:
    """Return what the bundled file of generic engines says; its figures are taken as they stand.

    Parameters
    ----------
    content
        The file's mapping, as `written_generic` of `specroof.hardware.written` makes it.
    """
    return Generic(
        engines={name: _engine(GENERIC, block) for name, block in content["engines"].items()},
        families={
            name: ChipFamily(**{**family, "architectures": tuple(family.get("architectures", ()))})
            for name, family in content["families"].items()
        },
        cards=Collective(**content["cards"]),
        card_bytes_per_s=content["card_bytes_per_s"],
        memory_bytes_per_s=content["memory_bytes_per_s"],
    )


def parse_local_engines(content: dict[str, Any]) -> LocalEngines:
    """Return what the bundled file of engines for one user says; figures are taken as they stand.

    Parameters
    ----------
    content
        The file's mapping, which ``benchmarks/fit_local.py`` writes.
    """
    return LocalEngines(
        engines={name: _engine(name, block) for name, block in content["engines"].items()},
        back_ends={name: tuple(chips) for name, chips in content["back_ends"].items()},
        left_out={
            name: {without: _engine(name, block) for without, block in fits.items()}
            for name, fits in content["left_out"].items()
        },
    )


def parse_left_out_fits(content: dict[str, Any]) -> LeftOutFits:
    """Return the engine profiles of left-out fits; their figures are taken as they stand.

    Parameters
    ----------
    content
        The mapping of the bundled file, which ``benchmarks/fit_engines.py`` writes.
    """
    return LeftOutFits(
        engines={
            name: {
                place: {without: _engine(name, block) for without, block in fits.items()}
                for place, fits in places.items()
            }
            for name, places in content["engines"].items()
        },
        generic={without: parse_generic(one) for without, one in content["generic"].items()},
    )


def _engine(name: str, block: dict[str, Any]) -> EngineProfile:
    """Return one engine; what its block leaves out costs nothing."""
    parts = {
        key: build(**block[key]) for key, build in _PARTS.items() if block.get(key) is not None
    }
    return EngineProfile(**{**block, **parts, "name": name})


_EXAMPLE: Final = """
format_version: 1
name: Example GPU
sources: {peak.flops_per_s: made up, peak.memory_bytes_per_s: made up, peak.memory_bytes: made up,
  engines.sglang: made up}
peak:
  flops_per_s: {bf16: 1000.0e+12, fp8: 2000.0e+12}
  memory_bytes_per_s: 3.0e+12
  memory_bytes: 80.0e+9
default_engine: sglang
engines: {sglang: {memory_frac: 0.85, pass_overhead_s: 30.0e-6}}
"""
