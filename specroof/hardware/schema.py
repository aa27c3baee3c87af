"""The gate that a hardware file from outside passes: which keys, which figures, which sources."""

import re
from collections.abc import Iterator
from typing import Annotated, Any, Final, Self

from pydantic import BaseModel, ConfigDict, field_validator, model_validator

from specroof.errors import ProfileError
from specroof.hardware.engine import IDEAL_ENGINE, LAYER_KINDS, OP_KINDS
from specroof.reading.bounds import (
    BytesPerS,
    CapturedSize,
    Devices,
    ExpectedError,
    ExpertRows,
    FlopsPerS,
    LatencyS,
    MemoryBytes,
    ReachedShare,
    Seconds,
    within,
)
from specroof.reading.checked import FirstVersion, Text, accept, parse_model
from specroof.units import DTYPE_BYTES

__all__ = ["RECURRENT_STATES", "checked_mapping"]

_IDEAL: Final = IDEAL_ENGINE.name
_NAME: Final = re.compile(r"[a-z0-9][a-z0-9._-]*")

#: For a key that may be left out: what it means then, the classes of the profile say.
_LEFT_OUT: Final[Any] = None

# One spelling only, and one that a command line takes without quotes.
_ShortName = Annotated[
    str, accept("lower-case text of a-z, 0-9, '.', '_' and '-'", _NAME.fullmatch, str)
]
_Dtype = Annotated[str, accept(f"one of {', '.join(DTYPE_BYTES)}", DTYPE_BYTES.__contains__, str)]
_Exponent = Annotated[
    float, accept("a number above 0 and at most 1", lambda power: 0 < power <= 1, int, float)
]
_Norm = Annotated[float, within("overlap_norm")]
_OpKind = Annotated[str, accept(f"one of {', '.join(OP_KINDS)}", OP_KINDS.__contains__, str)]
_LayerKind = Annotated[
    str, accept(f"one of {', '.join(LAYER_KINDS)}", LAYER_KINDS.__contains__, str)
]
_Counted = Annotated[
    str, accept("one of tokens, sequences", ("tokens", "sequences").__contains__, str)
]
# The choices of specroof.cost.Options, which this room may not see; a test holds them equal.
RECURRENT_STATES: Final = ("snapshot", "snapshot-copy", "read-write", "read", "replay")
_RecurrentState = Annotated[
    str,
    accept(f"one of {', '.join(RECURRENT_STATES)}", RECURRENT_STATES.__contains__, str),
]


class _Block(BaseModel):
    """A mapping of a hardware file: known keys only, no conversion but of whole numbers."""

    model_config = ConfigDict(extra="forbid", strict=True)


class _Peak(_Block):
    flops_per_s: dict[_Dtype, FlopsPerS]
    memory_bytes_per_s: BytesPerS
    memory_bytes: MemoryBytes

    @field_validator("flops_per_s")
    @classmethod
    def _something_computes_every_pass(cls, flops_per_s: dict[str, float]) -> dict[str, float]:
        if flops_per_s.keys().isdisjoint(("bf16", "fp16", "fp32")):
            has = ", ".join(flops_per_s) or "nothing"
            message = f"has {has}; must have at least one of bf16, fp16, fp32"
            raise ValueError(message)
        return flops_per_s


class _Interconnect(_Block):
    link_bytes_per_s: BytesPerS
    max_devices: Devices
    scale_out_bytes_per_s: BytesPerS | None = _LEFT_OUT


class _Collective(_Block):
    latency_s: LatencyS
    device_latency_s: Seconds = _LEFT_OUT
    link_frac: ReachedShare = _LEFT_OUT
    in_switch_reduce: bool = _LEFT_OUT
    scale_out_latency_s: LatencyS | None = _LEFT_OUT


class _ExpertTile(_Block):
    rows: ExpertRows
    compute_frac: ReachedShare


class _ExpertLocality(_Block):
    run: _Exponent
    batch: _Exponent


class _CapturedGraphs(_Block):
    sizes: list[CapturedSize]
    counts: _Counted = _LEFT_OUT
    eager_layer_s: Seconds = _LEFT_OUT

    @field_validator("sizes")
    @classmethod
    def _sizes_ascend(cls, sizes: list[int]) -> list[int]:
        if not sizes or sorted(set(sizes)) != sizes:
            message = f"is {sizes}; must be ascending whole numbers, at least one"
            raise ValueError(message)
        return sizes


class _ExpectedError(_Block):
    speedup_mean: ExpectedError
    speedup_median: ExpectedError
    plain_median: ExpectedError


class _EngineProfile(_Block):
    name: _ShortName
    compute_frac: dict[_Dtype, ReachedShare] = _LEFT_OUT
    kind_compute_frac: dict[_OpKind, ReachedShare] = _LEFT_OUT
    prefill_compute_frac: dict[_OpKind, ReachedShare] = _LEFT_OUT
    memory_frac: ReachedShare = _LEFT_OUT
    kind_memory_frac: dict[_OpKind, ReachedShare] = _LEFT_OUT
    overlap_norm: _Norm | None = _LEFT_OUT
    pass_overhead_s: Seconds = _LEFT_OUT
    layer_overhead_s: Seconds = _LEFT_OUT
    layer_kind_overhead_s: dict[_LayerKind, Seconds] = _LEFT_OUT
    sequence_overhead_s: Seconds = _LEFT_OUT
    layer_token_overhead_s: Seconds = _LEFT_OUT
    state_token_overhead_s: Seconds = _LEFT_OUT
    draft_pass_overhead_s: Seconds = _LEFT_OUT
    round_overhead_s: Seconds = _LEFT_OUT
    round_sequence_overhead_s: Seconds = _LEFT_OUT
    request_overhead_s: Seconds = _LEFT_OUT
    request_latency_s: Seconds = _LEFT_OUT
    collective: _Collective | None = _LEFT_OUT
    expert_tile: _ExpertTile | None = _LEFT_OUT
    expert_locality: _ExpertLocality | None = _LEFT_OUT
    graphs: _CapturedGraphs | None = _LEFT_OUT
    recurrent_state: _RecurrentState | None = _LEFT_OUT
    expected_error: _ExpectedError | None = _LEFT_OUT


class _HardwareProfile(_Block):
    format_version: FirstVersion
    name: Text
    aliases: list[_ShortName] = _LEFT_OUT
    sources: dict[str, Text]
    peak: _Peak
    interconnect: _Interconnect | None = _LEFT_OUT
    default_engine: _ShortName | None = _LEFT_OUT
    engines: dict[_ShortName, _EngineProfile] = {}

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
            if name == _IDEAL:
                message = f"engines.{_IDEAL} is built in; choose another name"
                raise ValueError(message)
            if engine.name != name:
                message = f"engines.{name}.name is {engine.name!r}; must be {name!r} or left out"
                raise ValueError(message)
        if self.default_engine not in {None, _IDEAL, *self.engines}:
            known = ", ".join((_IDEAL, *self.engines))
            message = f"default_engine is {self.default_engine!r}; must be one of {known}"
            raise ValueError(message)
        return self

    @model_validator(mode="after")
    def _figures_and_sources_match(self) -> Self:
        needed = ["peak.flops_per_s", "peak.memory_bytes_per_s", "peak.memory_bytes"]
        if self.interconnect is not None:
            needed.append("interconnect.link_bytes_per_s")
            if self.interconnect.scale_out_bytes_per_s is not None:
                needed.append("interconnect.scale_out_bytes_per_s")
        needed += [f"engines.{name}" for name in self.engines]
        present = set(_dotted_keys(self.model_dump(exclude_unset=True)))
        for key in needed:
            if key not in self.sources:
                message = f"sources.{key} is missing; must say where the figure comes from"
                raise ValueError(message)
        for key in self.sources:
            if key not in present:
                message = f"sources.{key} names nothing in the file; needed are {', '.join(needed)}"
                raise ValueError(message)
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
