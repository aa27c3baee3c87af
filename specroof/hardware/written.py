"""Fitted engines as files: a whole hardware file, and what all chips share."""

from collections.abc import Mapping
from dataclasses import MISSING, asdict, fields, replace
from typing import Any, Final

from specroof.errors import reject
from specroof.frameworks import FRAMEWORKS
from specroof.hardware.engine import EngineProfile
from specroof.hardware.profile import Generic, HardwareProfile
from specroof.hardware.schema import check_engine_name, parse_hardware
from specroof.reading.yaml_text import dump_yaml

#: Keys of a chip that are plain values, written where they are known.
_CHIP: Final = ("vendor", "architecture", "compute_capability", "usable_memory_bytes")


def calibrated_yaml(
    hardware: HardwareProfile, engine: EngineProfile, *, name: str, source: str
) -> str:
    """Return the text of a hardware file: the chip as it was, and the fitted engine as default.

    Parameters
    ----------
    hardware
        The profile whose peaks were used; its engines and sources stay in the file, its aliases,
        which find the profile that it was, do not.
    engine
        The fitted engine.
    name
        What to call it: lower-case letters, digits, ``.``, ``_`` and ``-``.
    source
        What its figures come from.

    Raises
    ------
    OptionError
        If the engine cannot have this name.
    ProfileError
        If the file would not be one that specroof reads.
    """
    if name == "ideal":
        reject("--engine-name is 'ideal', which is built in", "another name")
    check_engine_name(name)
    content: dict[str, Any] = {
        "format_version": hardware.format_version,
        "name": hardware.name,
        **{key: getattr(hardware, key) for key in _CHIP if getattr(hardware, key) is not None},
        "sources": {**hardware.sources, f"engines.{name}": source},
        "peak": _given(hardware.peak),
    }
    for key in ("interconnect", "price", "power"):
        if getattr(hardware, key) is not None:
            content[key] = _given(getattr(hardware, key))
    content["default_engine"] = name
    if engine.framework is None and engine.name in FRAMEWORKS:  # it keeps the rules of its server
        engine = replace(engine, framework=engine.name)
    content["engines"] = written_engines({**hardware.engines, name: engine})
    text = dump_yaml(content)
    parse_hardware(text, source="the calibrated file")  # nothing is written that cannot be read
    return text


def written_generic(generic: Generic) -> dict[str, Any]:
    """Return the mapping that `specroof.hardware.profile.parse_generic` reads.

    Parameters
    ----------
    generic
        What is to be written.
    """
    return _given(generic) | {
        "engines": written_engines(generic.engines),
        "families": {name: _given(family) for name, family in generic.families.items()},
        "cards": _given(generic.cards),
    }


def written_engines(engines: Mapping[str, EngineProfile]) -> dict[str, dict[str, Any]]:
    """Return engines as YAML has them: their names are the keys."""
    return {
        name: {key: value for key, value in _given(engine).items() if key != "name"}
        for name, engine in engines.items()
    }


def _given(part: Any) -> dict[str, Any]:
    """Return the fields of a dataclass that are not at their default, as YAML has them."""
    values = asdict(part)
    return {
        field.name: _plain(values[field.name])
        for field in fields(part)
        if getattr(part, field.name) != _default(field)
    }


def _default(field: Any) -> Any:
    return field.default if field.default_factory is MISSING else field.default_factory()


def _plain(value: Any) -> Any:
    """Return nested values without tuples, keys that are None or an empty text left out."""
    if isinstance(value, dict):
        return {key: _plain(entry) for key, entry in value.items() if entry not in (None, "")}
    return list(value) if isinstance(value, tuple) else value
