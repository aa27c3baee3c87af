"""What a device can do at best, what an engine reaches of it, and how a model is spread.

A hardware file keeps two kinds of figures apart: `peak` and `interconnect` are datasheet figures,
`engines` holds measured shares of them and fixed costs. Each figure names its source.
"""

import numbers
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Annotated, Any, Final, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    field_validator,
    model_validator,
)

from specroof.errors import OptionError, ProfileError
from specroof.units import DTYPE_BYTES, WIDER_DTYPES
from specroof.yaml_reader import accept, parse_model, shown

__all__ = [
    "IDEAL_ENGINE",
    "Collective",
    "EngineProfile",
    "HardwareProfile",
    "Interconnect",
    "Peak",
    "Placement",
    "parse_hardware",
]

_IDEAL: Final = "ideal"
_LARGEST: Final = sys.float_info.max
_NAME: Final = re.compile(r"[a-z0-9][a-z0-9._-]*")


# NaN fails every comparison, and infinity the upper bound.
_Positive = Annotated[
    float, accept("a number above 0", lambda figure: 0 < figure <= _LARGEST, int, float)
]
_NonNegative = Annotated[
    float, accept("a number of at least 0", lambda figure: 0 <= figure <= _LARGEST, int, float)
]
# Shares somewhat over 1 are real: consumer cards run above the boost clock that their peak is
# computed at, and an all-reduce that the switch adds up beats the link.
_Share = Annotated[
    float, accept("a number above 0 and at most 1.2", lambda share: 0 < share <= 1.2, int, float)
]
_Count = Annotated[int, accept("a whole number of at least 1", lambda count: count >= 1, int)]
_Text = Annotated[str, accept("text, and not empty", lambda text: text.strip() != "", str)]
# One spelling only, and one that a command line takes without quotes.
_ShortName = Annotated[
    str, accept("lower-case text of a-z, 0-9, '.', '_' and '-'", _NAME.fullmatch, str)
]
_Dtype = Annotated[str, accept(f"one of {', '.join(DTYPE_BYTES)}", DTYPE_BYTES.__contains__, str)]
_Version = Annotated[int, accept("1, the only version so far", lambda version: version == 1, int)]


class _Block(BaseModel):
    """A mapping of a hardware file: known keys only, no conversion, never changed."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class Peak(_Block):
    """What one device does at best, from its datasheet.

    Attributes
    ----------
    flops_per_s
        Dense FLOP/s by dtype (integer operations/s for int8 and int4); a multiply-add is two. A
        dtype that the device has no units for is left out.
    memory_bytes_per_s
        Bytes/s between the device and its memory.
    memory_bytes
        Bytes of that memory which software can see.
    """

    flops_per_s: dict[_Dtype, _Positive]
    memory_bytes_per_s: _Positive
    memory_bytes: _Positive

    @field_validator("flops_per_s")
    @classmethod
    def _something_computes_every_pass(cls, flops_per_s: dict[str, float]) -> dict[str, float]:
        if flops_per_s.keys().isdisjoint(("bf16", "fp16", "fp32")):
            has = ", ".join(flops_per_s) or "nothing"
            message = f"has {has}; must have at least one of bf16, fp16, fp32"
            raise ValueError(message)
        return flops_per_s


class Interconnect(_Block):
    """The link that devices of one group share their work over.

    Attributes
    ----------
    link_bytes_per_s
        Bytes/s that one device sends, one direction, all its links together.
    max_devices
        Devices that reach one another at this rate.
    """

    link_bytes_per_s: _Positive
    max_devices: _Count


class Collective(_Block):
    """What an all-reduce costs in an engine.

    Attributes
    ----------
    latency_s
        Seconds of the shortest one.
    link_frac
        Share of the link's bytes/s that a long one reaches.
    in_switch_reduce
        Whether the switch adds the parts up, so that each device sends its part only once.
    """

    latency_s: _Positive
    link_frac: _Share = 1.0
    in_switch_reduce: bool = False


class EngineProfile(_Block):
    """What kernels, collectives and the loop around them reach in one engine.

    The defaults are those of the ideal engine: all of the peak, no time lost.

    Attributes
    ----------
    name
        The key under `engines`, which fills it in.
    compute_frac
        Share of the dense peak that matmuls reach, by dtype; 1 for a dtype that is left out.
    memory_frac
        Share of the memory's bytes/s that is reached.
    pass_overhead_s, layer_overhead_s, sequence_overhead_s
        Seconds on top of each forward pass, of each layer in it, of each sequence in it.
    round_overhead_s
        Seconds on top of each speculative round.
    collective
        What collectives cost; None where only the link's bytes/s counts.

    Examples
    --------
    >>> EngineProfile(name="half", compute_frac={"bf16": 0.5}).memory_frac
    1.0
    """

    name: _ShortName
    compute_frac: dict[_Dtype, _Share] = {}
    memory_frac: _Share = 1.0
    pass_overhead_s: _NonNegative = 0.0
    layer_overhead_s: _NonNegative = 0.0
    sequence_overhead_s: _NonNegative = 0.0
    round_overhead_s: _NonNegative = 0.0
    collective: Collective | None = None


#: All of the peak and no overhead; every profile has it under the name `ideal`.
IDEAL_ENGINE: Final = EngineProfile(name=_IDEAL)


class HardwareProfile(_Block):
    """One kind of device, as a hardware file describes it.

    Attributes
    ----------
    format_version
        Layout of the file: 1.
    name
        What its vendor calls it.
    aliases
        Short names to find it by.
    sources
        Where each figure comes from, by its dotted key; an engine has one for all its figures.
    peak
        Datasheet figures of one device.
    interconnect
        The link between devices; None for a device that works alone.
    default_engine
        The engine meant when none is named; None for the ideal one.
    engines
        Measured engines by name.
    """

    format_version: _Version
    name: _Text
    # Not strict, since YAML has lists and a model that never changes holds none.
    aliases: Annotated[tuple[_ShortName, ...], Field(strict=False)] = ()
    sources: dict[str, _Text]
    peak: Peak
    interconnect: Interconnect | None = None
    default_engine: _ShortName | None = None
    engines: dict[_ShortName, EngineProfile] = {}

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

    def engine(self, name: str | None = None) -> EngineProfile:
        """Return the engine of this name; None means the profile's default, else the ideal one.

        Raises
        ------
        OptionError
            If the profile has no such engine.

        Examples
        --------
        >>> gpu = parse_hardware(_EXAMPLE, source="example.yaml")
        >>> gpu.engine(None).name, gpu.engine("ideal").name
        ('sglang', 'ideal')
        """
        wanted = (self.default_engine or _IDEAL) if name is None else name
        if wanted == _IDEAL:
            return IDEAL_ENGINE
        if wanted not in self.engines:
            known = ", ".join((_IDEAL, *self.engines))
            message = f"engine is {shown(wanted)}; {self.name} has {known}"
            raise OptionError(message)
        return self.engines[wanted]

    def arithmetic(self, dtype: str, *, strict: bool = False) -> tuple[str, float]:
        """Return the dtype that work in `dtype` really runs in, and its dense peak in FLOP/s.

        A device without units for a dtype widens the operands, so the next wider dtype that it
        has takes the place: fp4 → fp6 → fp8 → bf16 → fp16 → fp32, int4 → int8 → bf16. With
        `strict` it does not.

        Raises
        ------
        OptionError
            If there is no such dtype.
        ProfileError
            If the device has neither the dtype nor one to fall back on.

        Examples
        --------
        >>> gpu = parse_hardware(_EXAMPLE, source="example.yaml")
        >>> gpu.arithmetic("fp8"), gpu.arithmetic("fp4")
        (('fp8', 2e+15), ('fp8', 2e+15))
        >>> gpu.arithmetic("fp4", strict=True)
        Traceback (most recent call last):
        specroof.errors.ProfileError: Example GPU has no flops_per_s for 'fp4'; it has bf16, fp8
        """
        if dtype not in DTYPE_BYTES:
            message = f"dtype is {shown(dtype)}; must be one of {', '.join(DTYPE_BYTES)}"
            raise OptionError(message)
        flops_per_s = self.peak.flops_per_s
        for candidate in (dtype,) if strict else (dtype, *WIDER_DTYPES[dtype]):
            if candidate in flops_per_s:
                return candidate, flops_per_s[candidate]
        wider = "" if strict else " or a wider dtype"
        has = ", ".join(flops_per_s)
        message = f"{self.name} has no flops_per_s for {dtype!r}{wider}; it has {has}"
        raise ProfileError(message)


def parse_hardware(text: str, *, source: str) -> HardwareProfile:
    """Return the profile that the YAML of a hardware file describes.

    Raises
    ------
    ProfileError
        If the text is no safe YAML mapping, a key is unknown or missing, or a value is not
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
    return parse_model(text, HardwareProfile, source=source, error=ProfileError)


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


def _dotted_keys(block: dict[str, Any]) -> Iterator[str]:
    """Yield every key of a nested mapping, the way `sources` names them."""
    for key, value in block.items():
        yield key
        if isinstance(value, dict):
            yield from (f"{key}.{inner}" for inner in _dotted_keys(value))


@dataclass(frozen=True)
class Placement:
    """How a model is spread over `tensor_parallel` devices.

    Attributes
    ----------
    tensor_parallel
        Devices that every layer is split over.
    expert_parallel
        Devices among them that whole experts are dealt out to; 1 splits each expert instead.
    attention_data_parallel
        Groups of devices that attend to sequences of their own, each with all attention weights.

    Raises
    ------
    OptionError
        Unless all are whole numbers of at least 1, and the last two divide the first.

    Examples
    --------
    >>> Placement(tensor_parallel=8, expert_parallel=4).devices
    8
    """

    tensor_parallel: int = 1
    expert_parallel: int = 1
    attention_data_parallel: int = 1

    def __post_init__(self) -> None:
        for field in fields(self):
            value: object = getattr(self, field.name)
            # numpy's whole numbers are Integral and its bools are not, but Python's bools are.
            if isinstance(value, bool) or not isinstance(value, numbers.Integral) or value < 1:
                message = f"{field.name} is {shown(value)}; must be a whole number of at least 1"
                raise OptionError(message)
            object.__setattr__(self, field.name, int(value))
        for name in ("expert_parallel", "attention_data_parallel"):
            if self.tensor_parallel % getattr(self, name) != 0:
                message = (
                    f"{name} is {getattr(self, name)}; must divide tensor_parallel, "
                    f"which is {self.tensor_parallel}"
                )
                raise OptionError(message)

    @property
    def devices(self) -> int:
        """Devices that the model runs on."""
        return self.tensor_parallel
