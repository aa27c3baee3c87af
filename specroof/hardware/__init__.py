"""What a device can do at best, what an engine reaches of it, and how a model is spread.

A hardware file keeps two kinds of figures apart: `peak` and `interconnect` are datasheet figures,
`engines` holds measured shares of them and fixed costs. Each figure names its source.
"""

from typing import Any, Final, TypeVar

from specroof.errors import ProfileError
from specroof.hardware.engine import (
    ANY_CONCURRENCY,
    BATCH_WIDENING,
    CONCURRENCY_ENDS,
    CONCURRENCY_RANGES,
    CONTEXT_WIDENING,
    IDEAL_ENGINE,
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
    ExpertLocality,
    ExpertTile,
    Reach,
    RowKernel,
    ServedBands,
    Server,
    ServerSettings,
    played_figure,
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
from specroof.reading.plain import read_plain
from specroof.reading.yaml_text import parse_yaml

__all__ = [
    "ALL_SOURCES",
    "ANY_CONCURRENCY",
    "BATCH_WIDENING",
    "CONCURRENCY_ENDS",
    "CONCURRENCY_RANGES",
    "CONTEXT_WIDENING",
    "GENERIC",
    "IDEAL_ENGINE",
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
    "played_figure",
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
    engines = content.get("engines", {})
    shared = {name: block["same_as"] for name, block in engines.items() if "same_as" in block}
    own = {name: block for name, block in engines.items() if name not in shared}
    content = {**content, "engines": _named(own), "same_engines": shared}
    return _built(content, HardwareProfile, source)


_T = TypeVar("_T")


def _built(content: dict[str, Any], kind: type[_T], source: str) -> _T:
    return read_plain(content, kind, source=source, error=ProfileError, trusted=True)


def _named(engines: dict[str, Any], name: str | None = None) -> dict[str, Any]:
    """Return engines that carry their names: their keys, or one for all."""
    return {key: {**block, "name": name or key} for key, block in engines.items()}


def parse_generic(content: dict[str, Any]) -> Generic:
    """Return what the bundled file of generic engines says; its figures are taken as they stand.

    Parameters
    ----------
    content
        The file's mapping, as `written_generic` of `specroof.hardware.written` makes it.
    """
    named = {**content, "engines": _named(content["engines"], GENERIC)}
    return _built(named, Generic, "generic engines")


def parse_local_engines(content: dict[str, Any]) -> LocalEngines:
    """Return what the bundled file of engines for one user says; figures are taken as they stand.

    Parameters
    ----------
    content
        The file's mapping, which ``benchmarks/fit_local.py`` writes.
    """
    left_out = {name: _named(fits, name) for name, fits in content["left_out"].items()}
    named = {**content, "engines": _named(content["engines"]), "left_out": left_out}
    return _built(named, LocalEngines, "local engines")


def parse_left_out_fits(content: dict[str, Any]) -> LeftOutFits:
    """Return the engine profiles of left-out fits; their figures are taken as they stand.

    Parameters
    ----------
    content
        The mapping of the bundled file, which ``benchmarks/fit_engines.py`` writes.
    """
    engines = {
        name: {place: _named(fits, name) for place, fits in places.items()}
        for name, places in content["engines"].items()
    }
    generic = {
        without: {**one, "engines": _named(one["engines"], GENERIC)}
        for without, one in content["generic"].items()
    }
    return _built({"engines": engines, "generic": generic}, LeftOutFits, "left-out fits")


_EXAMPLE: Final = """
format_version: 1
name: Example GPU
sources: {peak.flops_per_s: made up, peak.memory_bytes_per_s: made up, peak.memory_bytes: made up,
  engines.mine: made up}
peak:
  flops_per_s: {bf16: 1000.0e+12, fp8: 2000.0e+12}
  memory_bytes_per_s: 3.0e+12
  memory_bytes: 80.0e+9
default_engine: mine
engines: {mine: {memory_frac: 0.85, pass_overhead_s: 30.0e-6}}
"""
