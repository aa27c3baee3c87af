"""The gate that a hardware file from outside passes: which keys, which figures, which sources.

Keys and quantities are those of the classes in `specroof.hardware.engine` and `profile`: their
fields are spelled there, and nowhere else.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, fields, is_dataclass
from datetime import date
from functools import cache
from types import NoneType
from typing import Annotated, Any, Final, Self, get_args, get_origin, get_type_hints

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    create_model,
    field_validator,
    model_validator,
)

from specroof.errors import ProfileError
from specroof.frameworks import FRAMEWORKS, LOCAL_FRAMEWORKS
from specroof.hardware.engine import (
    ANY_CONCURRENCY,
    CONCURRENCY_RANGES,
    IDEAL_ENGINE,
    LAYER_KINDS,
    OP_KINDS,
    SERVED_FIGURES,
    EngineProfile,
)
from specroof.hardware.profile import GENERIC, DevicePower, DevicePrice, Interconnect, Peak
from specroof.reading.checked import (
    CapturedSize,
    FileBlock,
    FirstVersion,
    FlopsPerS,
    Text,
    accept,
    parse_model,
    within,
)
from specroof.reading.yaml_text import shown
from specroof.units import BOUNDS, DTYPE_BYTES

_IDEAL: Final = IDEAL_ENGINE.name
_NAME: Final = re.compile(r"[a-z0-9][a-z0-9._-]*")

#: For a key that may be left out: what it means then, the classes of the profile say.
_LEFT_OUT: Final[Any] = None

# The choices of specroof.cost.Options, which this room may not see; a test holds them equal.
RECURRENT_STATES: Final = ("snapshot", "snapshot-copy", "read-write", "read", "replay")


def _one_of(words: Mapping[str, Any] | tuple[str, ...]) -> Any:
    return Annotated[str, accept(f"{', '.join(words)}", words.__contains__, str)]


def _iso_date(value: object) -> str:
    """Return a date as text; YAML reads one that is spelled without quotes."""
    try:
        return date.fromisoformat(str(value)).isoformat()
    except ValueError:
        message = f"is {shown(str(value))}; allowed: a date such as 2026-11-01"
        raise ValueError(message) from None


def _something_computes_every_pass(flops_per_s: dict[str, float]) -> dict[str, float]:
    if flops_per_s.keys().isdisjoint(("bf16", "fp16", "fp32")):
        has = ", ".join(flops_per_s) or "nothing"
        message = f"has {has}; must have at least one of bf16, fp16, fp32"
        raise ValueError(message)
    return flops_per_s


def _sizes_ascend(sizes: list[int]) -> list[int]:
    if not sizes or sorted(set(sizes)) != sizes:
        message = f"is {sizes}; allowed: ascending whole numbers, at least one"
        raise ValueError(message)
    return sizes


def _overlap(value: object) -> object:
    if isinstance(value, bool) or value == "plain":
        return value
    message = f"is {shown(value)}; allowed: true, false, plain"
    raise ValueError(message)


# One spelling only, and one that a command line takes without quotes.
_ShortName = Annotated[
    str, accept("lower-case text of a-z, 0-9, '.', '_' and '-'", _NAME.fullmatch, str)
]
#: What the fields of the profile's classes are called after, quantities of `BOUNDS` apart.
_KINDS: Final[dict[str, Any]] = {
    "dtype": _one_of(DTYPE_BYTES),
    "op_kind": _one_of(OP_KINDS),
    "layer_kind": _one_of(LAYER_KINDS),
    "counted": _one_of(("tokens", "sequences")),
    "recurrent_state": _one_of(RECURRENT_STATES),
    "short_name": _ShortName,
    "framework": _one_of((*FRAMEWORKS, *LOCAL_FRAMEWORKS)),
    "served_figure": _one_of(SERVED_FIGURES),
    "concurrency_range": _one_of((*CONCURRENCY_RANGES, ANY_CONCURRENCY)),
    "words": list[Text],
    "text": Text,
    "date": Annotated[str, BeforeValidator(_iso_date)],
    "kernel_work": _one_of(("dense", "experts")),
    "overlap": Annotated[bool | str, BeforeValidator(_overlap)],
    "exponent": Annotated[
        float, accept("a number above 0 and at most 1", lambda power: 0 < power <= 1, int, float)
    ],
    "captured_sizes": Annotated[list[CapturedSize], AfterValidator(_sizes_ascend)],
    "peaks": Annotated[
        dict[_one_of(DTYPE_BYTES), FlopsPerS],  # type: ignore[misc]  # made at run time
        AfterValidator(_something_computes_every_pass),
    ],
}


#: Keys of an engine that may stand beside `same_as`.
_ALONE: Final = frozenset({"name", "same_as"})
#: Keys whose source a file must name, if it has them.
_SOURCED: Final = ("architecture", "compute_capability", "usable_memory_bytes")


class _HardwareBlock(FileBlock):
    """A mapping of a hardware file, known by its classes to the tests."""


@cache
def _block(part: type) -> Any:
    """Return the checks of a block whose keys are the fields of a class of the profile."""
    hints = get_type_hints(part, include_extras=True)
    checks: dict[str, Any] = {
        field.name: (
            _field_type(hints[field.name]),
            ... if field.default is MISSING and field.default_factory is MISSING else _LEFT_OUT,
        )
        for field in fields(part)
    }
    return create_model(part.__name__, __base__=_HardwareBlock, **checks)


def _field_type(hint: Any) -> Any:
    """Return the type that pydantic is to check, for the type of a field."""
    if get_origin(hint) is Annotated:
        plain, word = get_args(hint)
        return Annotated[plain, within(word)] if word in BOUNDS else _KINDS[word]
    if NoneType in get_args(hint):
        return _field_type(get_args(hint)[0]) | None
    if get_origin(hint) is Mapping:
        key, value = get_args(hint)
        return dict[_field_type(key), _field_type(value)]  # type: ignore[misc]  # made at run time
    return _block(hint) if is_dataclass(hint) and isinstance(hint, type) else hint


def _engine_block() -> Any:
    """Return the checks of an engine: its figures, or the file whose figures they are."""
    same_as: Any = (_ShortName | None, _LEFT_OUT)
    return create_model("Engine", __base__=_block(EngineProfile), same_as=same_as)


class _HardwareProfile(_HardwareBlock):
    format_version: FirstVersion
    name: Text
    aliases: list[_ShortName] = _LEFT_OUT
    vendor: _ShortName | None = _LEFT_OUT
    architecture: _ShortName | None = _LEFT_OUT
    compute_capability: Annotated[float, within("compute_capability")] | None = _LEFT_OUT
    sources: dict[str, Text]
    peak: _block(Peak)  # type: ignore[valid-type]  # made at run time, here and below
    usable_memory_bytes: Annotated[float, within("memory_bytes")] | None = _LEFT_OUT
    interconnect: _block(Interconnect) | None = _LEFT_OUT  # type: ignore[valid-type]
    price: _block(DevicePrice) | None = _LEFT_OUT  # type: ignore[valid-type]
    power: _block(DevicePower) | None = _LEFT_OUT  # type: ignore[valid-type]
    default_engine: _ShortName | None = _LEFT_OUT
    engines: dict[_ShortName, _engine_block()] = Field(default={})  # type: ignore[valid-type]

    @field_validator("engines", mode="before")
    @classmethod
    def _engines_carry_their_keys(cls, engines: object) -> object:
        if not isinstance(engines, dict):
            return engines  # the field's own type says what is wrong with it
        return {
            name: {"name": name, **block} if isinstance(block, dict) else block
            for name, block in engines.items()
        }

    @model_validator(mode="after")
    def _engine_names_are_clear(self) -> Self:
        for name, engine in self.engines.items():
            if name in {_IDEAL, GENERIC}:
                message = f"engines.{name} is built in; choose another name"
                raise ValueError(message)
            if engine.name != name:
                message = f"engines.{name}.name is {engine.name!r}; allowed: {name!r} or left out"
                raise ValueError(message)
            if engine.same_as is not None and (others := engine.model_fields_set - _ALONE):
                has = ", ".join(sorted(others))
                message = f"engines.{name} has same_as with {has}; allowed: same_as alone"
                raise ValueError(message)
        if self.default_engine not in {None, _IDEAL, GENERIC, *self.engines}:
            known = ", ".join((_IDEAL, GENERIC, *self.engines))
            message = f"default_engine is {self.default_engine!r}; allowed: {known}"
            raise ValueError(message)
        return self

    @model_validator(mode="after")
    def _no_more_is_usable_than_there_is(self) -> Self:
        usable, has = self.usable_memory_bytes, self.peak.memory_bytes
        if usable is not None and usable > has:
            message = (
                f"usable_memory_bytes is {usable:g}; allowed: up to peak.memory_bytes, {has:g}"
            )
            raise ValueError(message)
        return self

    @model_validator(mode="after")
    def _figures_and_sources_match(self) -> Self:
        needed = ["peak.flops_per_s", "peak.memory_bytes_per_s", "peak.memory_bytes"]
        if self.interconnect is not None:
            needed.append("interconnect.link_bytes_per_s")
            if self.interconnect.scale_out_bytes_per_s is not None:
                needed.append("interconnect.scale_out_bytes_per_s")
            if self.interconnect.host_devices is not None:
                needed.append("interconnect.host_devices")
            if self.interconnect.switch_reduces:
                needed.append("interconnect.switch_reduces")
        needed += [key for key in _SOURCED if getattr(self, key) is not None]
        if self.peak.multiprocessors is not None:
            needed.append("peak.multiprocessors")
        needed += [f"engines.{name}" for name in self.engines]
        present = set(_dotted_keys(self.model_dump(exclude_unset=True)))
        mistakes = [
            f"sources.{key} is missing; must say where the figure comes from"
            for key in needed
            if key not in self.sources
        ]
        mistakes += [
            f"sources.{key} names nothing in the file; needed are {', '.join(needed)}"
            for key in self.sources
            if key not in present
        ]
        if mistakes:
            raise ValueError("; ".join(mistakes))
        return self


def checked_mapping(text: str, *, source: str) -> dict[str, Any]:
    """Return the mapping that the YAML of a hardware file holds, once every rule has passed.

    Figures that the file spells as whole numbers are floats in it.

    Raises
    ------
    ProfileError
        One line with `source`, the key, the value and what is allowed.
    """
    file = parse_model(text, _HardwareProfile, source=source, error=ProfileError)
    return file.model_dump(exclude_unset=True)


def _dotted_keys(block: dict[str, Any]) -> Iterator[str]:
    """Yield every key of a nested mapping, the way `sources` names them."""
    for key, value in block.items():
        yield key
        if isinstance(value, dict):
            yield from (f"{key}.{inner}" for inner in _dotted_keys(value))
