"""The values that seconds follow from: a device, an engine, and how a model is spread."""

import collections.abc
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property, partial
from types import NoneType
from typing import Annotated, Any, Final, TypeAlias, TypeVar, get_args, get_origin

import numpy as np

from specroof.arrays import Array, number_within, whole_within
from specroof.errors import OptionError, ProfileError, expect, expect_word, reject
from specroof.frameworks import FRAMEWORKS, LOCAL_FRAMEWORKS, NO_PLATFORM, STAND_IN
from specroof.hardware.engine import (
    IDEAL_ENGINE,
    Collective,
    Dtype,
    EngineProfile,
    ExpertKernel,
    ExpertTile,
    ServedBands,
    ShortName,
    SparseKernel,
)
from specroof.reading.yaml_text import field_kinds, read_plain, shown
from specroof.units import BOUNDS, DTYPE_BYTES, WIDER_DTYPES

# --- The engine of a chip without measurements: its family's kernels, overheads of fits ----------

#: The name of the engine of chips without a fitted one.
GENERIC: Final = "generic"


@dataclass(frozen=True, kw_only=True)
class ChipFamily:
    """What kernels reach on chips of one kind of matrix unit.

    Attributes
    ----------
    architectures
        Of its chips; none for chips of any kind.
    compute_frac
        Share of the bf16 peak in large matmuls.
    memory_frac
        Share of the memory's bytes/s, weights of few rows.
    """

    architectures: tuple[str, ...] = ()
    compute_frac: float
    memory_frac: float


@dataclass(frozen=True, kw_only=True)
class Generic:
    """What is known of chips in general.

    Attributes
    ----------
    engines
        By name: `GENERIC`, and the frameworks. Shares of arithmetic are relative to large bf16
        matmuls, shares of memory to the weights of few rows.
    families
        By name; the last is for chips of any kind.
    cards
        What an all-reduce costs between cards on a bus.
    card_bytes_per_s
        A link of at most so many bytes/s is a bus.
    memory_bytes_per_s
        Of the chips that `layer_token_overhead_s` of the engines was fitted on.
    vendor_bands
        Bands of served loads by vendor, then by engine, of its families that were left out: for
        its chips whose kernels were timed, in the place of those that hold for any chip.
    """

    engines: Mapping[str, EngineProfile]
    families: Mapping[str, ChipFamily]
    cards: Collective
    card_bytes_per_s: float
    memory_bytes_per_s: float
    vendor_bands: Mapping[str, Mapping[str, ServedBands]] = field(default_factory=dict)

    def family_of(self, architecture: str | None) -> str:
        """Return the family of a chip's architecture; the last family takes all others."""
        of = (name for name, one in self.families.items() if architecture in one.architectures)
        return next(of, [*self.families][-1])


@dataclass(frozen=True, kw_only=True)
class LocalEngines:
    """Engines for one user: llama.cpp with its back ends, and MLX.

    Attributes
    ----------
    engines
        By name, such as ``"llama.cpp-cuda"``; shares are of the peaks of any chip.
    back_ends
        Vendors and architectures of the chips that each of them runs on. ``"llama.cpp"`` and
        ``"mlx"`` stand for the first that a chip has.
    collective
        What an all-reduce costs between chips of one machine.
    left_out
        Fits without one model, by engine, then by the model's name.
    """

    engines: Mapping[str, EngineProfile]
    back_ends: Mapping[str, tuple[str, ...]]
    collective: Collective
    left_out: Mapping[str, Mapping[str, EngineProfile]] = field(default_factory=dict)

    def of_chip(self, vendor: str | None, architecture: str | None) -> dict[str, EngineProfile]:
        """Return the engines that run on a chip.

        Examples
        --------
        >>> metal = {"llama.cpp-metal": EngineProfile(name="llama.cpp-metal")}
        >>> link = Collective(latency_s=50e-6)
        >>> back_ends = {"llama.cpp-metal": ("maker",)}
        >>> known = LocalEngines(engines=metal, back_ends=back_ends, collective=link)
        >>> list(known.of_chip("maker", None)), known.of_chip("other", "maker-2")
        (['llama.cpp', 'llama.cpp-metal'], {})
        """
        names = [name for name, has in self.back_ends.items() if {vendor, architecture} & {*has}]
        found = {name: replace(self.engines[name], collective=self.collective) for name in names}
        usual = {
            framework: found[name]
            for framework in LOCAL_FRAMEWORKS
            for name in [name for name in names if name.startswith(f"{framework}-")][:1]
        }
        return usual | found


@dataclass(frozen=True, kw_only=True)
class GenericEngines:
    """The generic engines of one chip, worked out when the first of them is asked for.

    Attributes
    ----------
    known
        Returns what is known of chips in general.
    vendor, architecture
        Of the chip; None where its file does not say.
    memory_bytes_per_s
        Of its memory.
    link_bytes_per_s
        Between its devices; None where that is not known.
    local
        Returns engines for one user.
    """

    known: Callable[[], Generic] = field(repr=False)  # a function shows its address
    vendor: str | None
    architecture: str | None
    memory_bytes_per_s: float
    link_bytes_per_s: float | None
    local: Callable[[], LocalEngines] | None = field(default=None, repr=False)

    @cached_property
    def local_engines(self) -> Mapping[str, EngineProfile]:
        """Engines for one user that run on the chip, by name."""
        return {} if self.local is None else self.local().of_chip(self.vendor, self.architecture)

    @cached_property
    def engines(self) -> Mapping[str, EngineProfile]:
        r"""The engines by name: `GENERIC`, and the frameworks; their shares are of the peaks.

        .. math:: t_{token} \propto \max(1, W / W_{fitted})^{-1/2}

        with W the bytes/s of the memory.

        Counts
            what a token adds to each layer (norms, activations) as shorter on a faster memory: the
            fits of Ampere, Hopper and Blackwell lie on powers of 0.53 and 0.61. A slower one makes
            it no longer: cards with less have larger caches.
        Source
            ``layer_token_share`` of the fits of this library, `benchmarks/fitting/fits.json`.
        """
        known = self.known()
        family = known.families[known.family_of(self.architecture)]
        faster = max(self.memory_bytes_per_s / known.memory_bytes_per_s, 1.0)
        link_bytes_per_s = self.link_bytes_per_s
        on_bus = link_bytes_per_s is not None and link_bytes_per_s <= known.card_bytes_per_s
        bands = known.vendor_bands.get(self.vendor or "", {}) if family.architectures else {}
        engines = {}
        for name, fitted in known.engines.items():
            engine = scaled_engine(fitted, compute=family.compute_frac, memory=family.memory_frac)
            engines[name] = replace(
                engine,
                layer_token_overhead_s=engine.layer_token_overhead_s / faster**0.5,
                collective=known.cards if on_bus else engine.collective,
                served_bands=bands.get(name, engine.served_bands),
            )
        return engines

    @property
    def family(self) -> str | None:
        """Whose kernels their shares are; None for medians of all families."""
        known = self.known()
        name = known.family_of(self.architecture)
        return name if known.families[name].architectures else None

    def about(self, chip: str, engine: EngineProfile) -> str:
        """Return where the figures of one of them come from, in a sentence."""
        if engine.reach is not None and engine.rules in LOCAL_FRAMEWORKS:
            measured = ", ".join(engine.reach.chips)
            return (
                f"engine {engine.name} of {chip}: cost of rows and rounds as measured on {measured}"
            )
        whose = "other chips" if self.family is None else self.family
        return (
            f"engine {engine.name} of {chip}: no engine was fitted to this server here; kernels are "
            f"those of {whose}, overheads those of other chips, memory rules those of "
            f"{engine.framework or STAND_IN}"
        )


_Part = TypeVar("_Part", EngineProfile, ExpertTile, ExpertKernel, SparseKernel)


def scaled(
    part: _Part, *, compute: float = 1.0, memory: float = 1.0, most: float = math.inf
) -> _Part:
    """Return an engine, a tile or a kernel with its own shares of a peak times these factors.

    Parameters
    ----------
    part
        Of which an engine's tiles and kernels stay as they are: see `scaled_engine`.
    compute, memory
        Factors of its shares of arithmetic, and of its shares of the memory's bytes/s.
    most
        No share is more.

    Examples
    --------
    >>> scaled(ExpertTile(rows=25, compute_frac=0.5), compute=0.8).compute_frac
    0.4
    """
    of_engines = ("compute_frac", "kind_compute_frac", "prefill_compute_frac")
    factors = dict.fromkeys(of_engines, compute)
    factors |= dict.fromkeys(("few_frac", "many_frac"), compute)
    factors |= dict.fromkeys(("memory_frac", "kind_memory_frac"), memory)

    def times(share: Any, factor: float) -> Any:
        if isinstance(share, Mapping):
            return {key: min(one * factor, most) for key, one in share.items()}
        return share and min(share * factor, most)

    shares: dict[str, Any] = {
        name: times(getattr(part, name), factor)
        for name, factor in factors.items()
        if hasattr(part, name)
    }
    return replace(part, **shares)


def scaled_engine(
    engine: EngineProfile, *, compute: float = 1.0, memory: float = 1.0, most: float = math.inf
) -> EngineProfile:
    """Return an engine whose kernels reach so many times the share of a peak.

    Parameters
    ----------
    engine
        Any.
    compute, memory
        Factors of its shares of arithmetic, and of its shares of the memory's bytes/s.
    most
        No share is more.

    Examples
    --------
    >>> whole = EngineProfile(name="generic", compute_frac={"bf16": 1.0, "fp8": 0.8})
    >>> scaled_engine(whole, compute=0.5, memory=0.9).compute_frac["fp8"]
    0.4
    """
    by = {"compute": compute, "memory": memory, "most": most}
    tiles_and_kernels: dict[str, Any] = {
        name: {key: scaled(part, **by) for key, part in getattr(engine, name).items()}
        for name in ("prefill_expert_tiles", "expert_kernels", "sparse_kernels")
    }
    tile = engine.expert_tile and scaled(engine.expert_tile, **by)
    return replace(scaled(engine, **by), expert_tile=tile, **tiles_and_kernels)


_IDEAL: Final = IDEAL_ENGINE.name

#: Share of `Peak.memory_bytes` that servers see of a device of which no log is known: that of H100
#: (79.19 of 80 GiB), H200 (139.7 of 141) and B200 (178.0 of 180).
USABLE_MEMORY_FRAC: Final = 0.99
BytesPerS: TypeAlias = Annotated[float, "bytes_per_s"]


class CheckedPart:
    """A part of a profile, whose figures keep to the bounds of their quantities."""

    def __post_init__(self) -> None:
        """Refuse, by its name, a figure that is out of bounds and a part of another class."""
        own: Any = type(self)
        for name, kind in field_kinds(own)[0].items():
            _check(name, getattr(self, name), kind)


def _check(name: str, value: Any, kind: Any) -> None:
    """Refuse a value that does not fit the annotation of its field."""
    origin, parts = get_origin(kind), get_args(kind)
    if NoneType in parts:
        if value is not None:
            _check(name, value, parts[0])
    elif origin is Annotated and parts[1] in BOUNDS:
        (whole_within if parts[0] is int else number_within)(name, value, parts[1])
    elif origin is Annotated:
        _check(name, value, parts[0])
    elif origin is collections.abc.Mapping:
        expect(name, value, Mapping, "a mapping of names to what they are")
        for key, one in value.items():
            _check(f"{name}[{key!r}]", one, parts[1])
    elif origin is None:
        expect(name, value, kind, {str: "text", bool: "True or False"}.get(kind, kind.__name__))


@dataclass(frozen=True, kw_only=True)
class Peak(CheckedPart):
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
    multiprocessors
        Units that thread blocks are dealt out to: NVIDIA's streaming multiprocessors, AMD's
        compute units. None where not known: no kernel has too few blocks then.
    one_memory
        Whether `memory_bytes` is all that there is, the memory of the CPU, too. False also for
        chips that may take no more than a part of a memory that they share, as Apple's.
    """

    flops_per_s: Mapping[Dtype, Annotated[float, "flops_per_s"]]
    memory_bytes_per_s: BytesPerS
    memory_bytes: Annotated[float, "memory_bytes"]
    multiprocessors: Annotated[int, "devices"] | None = None
    one_memory: bool = False


@dataclass(frozen=True, kw_only=True)
class Interconnect(CheckedPart):
    """The link that devices of one group share their work over.

    Attributes
    ----------
    link_bytes_per_s
        Bytes/s that one device sends, one direction, all its links together.
    max_devices
        Devices that reach one another at this rate: a node, or a domain of several hosts.
    scale_out_bytes_per_s
        Bytes/s that one device sends to another node, one direction; None where not known.
    host_devices
        Devices of one host, where `max_devices` are in several; None where they are in one.
    switch_reduces
        Whether all-reduces are added up in the switch, so that each device sends its part only
        once. Shares of the bundled engines were fitted to rings, and their files leave it out.
    """

    link_bytes_per_s: BytesPerS
    max_devices: Annotated[int, "devices"]
    scale_out_bytes_per_s: BytesPerS | None = None
    host_devices: Annotated[int, "devices"] | None = None
    switch_reduces: bool = False


@dataclass(frozen=True, kw_only=True)
class DevicePrice(CheckedPart):
    """Price of one device for an hour: one public offer, with its date.

    Attributes
    ----------
    usd_per_hour
        US dollars.
    source
        Who asks for it.
    date
        When, as in 2026-11-01.
    """

    usd_per_hour: Annotated[float, "usd_per_hour"]
    source: Annotated[str, "text"]
    date: Annotated[str, "date"]


@dataclass(frozen=True, kw_only=True)
class DevicePower(CheckedPart):
    """What one device draws.

    Attributes
    ----------
    board_watts
        The power that its board is built for.
    loaded_frac
        Measured share of it under load; None without a measurement.
    fixed_watts, core_watts
        What it draws under load whatever its clock, and what its cores draw beside that at their
        highest one. None where nobody measured them.
    cap_watts
        What it is capped to; None for no cap.
    """

    board_watts: Annotated[float, "watts"]
    loaded_frac: Annotated[float, "share"] | None = None
    fixed_watts: Annotated[float, "watts"] | None = None
    core_watts: Annotated[float, "watts"] | None = None
    cap_watts: Annotated[float, "watts"] | None = None

    @property
    def uncapped_watts(self) -> float:
        """Power under load without a cap: as measured, else all that the board is built for."""
        return self.board_watts * (1.0 if self.loaded_frac is None else self.loaded_frac)

    @property
    def watts(self) -> float:
        """Power under load."""
        return min(self.uncapped_watts, self.cap_watts or math.inf)

    def lost_s(self, core_s: Array, total_s: Array) -> Array:
        r"""Return what a cap adds to a pass of so many seconds without it.

        .. math:: P = P_0 + P_c \phi^2 \frac{c / \phi}{m + c / \phi}

        with c the time that the cores take at their highest clock, of which :math:`\phi` is what P
        leaves, and m that of the memory, which has a clock of its own.

        Parameters
        ----------
        core_s, total_s
            All of the pass but its bytes at the peak of the memory, and all of it.

        Counts
            what the board is built for as a cap already. Joules of an operation fall with the
            clock: as squared voltage, which falls as the square root of it.
        Source
            The law of dynamic power of CMOS; :math:`P_0` and :math:`P_c` of a chip from its
            hardware file. Under caps of 400 and 500 W rounds of 0 to 6 drafts lose on an RTX 5090
            what they are predicted to within 4 % of their time (tests/test_power_cap.py).

        Examples
        --------
        >>> watts = {"board_watts": 600.0, "fixed_watts": 200.0, "core_watts": 400.0}
        >>> power = DevicePower(**watts, cap_watts=300.0)  # a quarter of 400 W for cores
        >>> float(power.lost_s(np.array(1.0), np.array(1.0)))
        1.0
        """
        fixed, drawn = self.fixed_watts or 0.0, self.core_watts or 1e-9
        before, left = (watts - fixed for watts in (self.uncapped_watts, self.watts))
        core_s = np.maximum(core_s, 1e-12)
        usual = np.minimum(np.sqrt(before / drawn * total_s / core_s), 1.0)
        least_s, memory_s = usual * core_s, left * (total_s - core_s)
        square = np.square(memory_s) + 4 * drawn * left * np.square(least_s)
        clock = np.minimum((memory_s + np.sqrt(square)) / (2 * drawn * least_s), usual)
        return np.asarray(core_s * (usual / clock - 1))


@dataclass(frozen=True, kw_only=True)
class HardwareProfile(CheckedPart):
    """One kind of device, as a hardware file describes it.

    Files are checked by `parse_hardware`; a profile that is built in Python takes its figures as
    they are.

    Attributes
    ----------
    format_version
        Layout of the file: 1.
    name
        What its vendor calls it.
    aliases
        Short names to find it by.
    vendor, architecture
        In small letters, as in other files: what decides which kernels and engines run on it. None
        where the file does not say; without an architecture nobody knows the chip.
    compute_capability
        Of CUDA, such as 9.0; None for a chip without one.
    sources
        Where each figure comes from, by its dotted key; an engine has one for all its figures.
    peak
        Datasheet figures of one device.
    usable_memory_bytes
        Bytes of its memory as a server logs them: the total of ``cudaMemGetInfo``. None where no
        log is known; see `server_memory_bytes`.
    interconnect
        The link between devices; None for a device that works alone.
    price, power
        What a device costs and draws; None where no public figure is known.
    default_engine
        The engine meant when none is named; None for the generic one.
    engines
        Measured engines by name.
    same_engines
        Those of `engines` that are another chip's, by name: the bundled file that has them.
    generic
        Stands in for engines without a fit: files are loaded with it. None in a
        profile that is built in Python, whose default is the ideal engine.
    host
        The CPU of the machine that it sits in, and its memory: a profile of its own. None where
        nothing is computed there.
    """

    format_version: Annotated[int, "format_version"]
    name: Annotated[str, "text"]
    aliases: tuple[ShortName, ...] = ()
    vendor: ShortName | None = None
    architecture: ShortName | None = None
    compute_capability: Annotated[float, "compute_capability"] | None = None
    sources: Mapping[str, Annotated[str, "text"]]
    peak: Peak
    usable_memory_bytes: Annotated[float, "memory_bytes"] | None = None
    interconnect: Interconnect | None = None
    price: DevicePrice | None = None
    power: DevicePower | None = None
    default_engine: ShortName | None = None
    engines: Mapping[ShortName, EngineProfile] = field(default_factory=dict)
    same_engines: Mapping[str, str] = field(default_factory=dict)
    generic: GenericEngines | None = None
    host: "HardwareProfile | None" = None

    def __hash__(self) -> int:
        """Return the hash of its name: the mappings that it holds have none."""
        return hash(self.name)

    @property
    def server_memory_bytes(self) -> float:
        """Memory that a server sees: as logged, else `USABLE_MEMORY_FRAC` of the datasheet's.

        Examples
        --------
        >>> from specroof import load_hardware
        >>> load_hardware("h100").server_memory_bytes / 1e9
        85.03
        """
        if self.usable_memory_bytes is not None:
            return self.usable_memory_bytes
        return USABLE_MEMORY_FRAC * self.peak.memory_bytes

    @property
    def is_cpu(self) -> bool:
        """Whether it is a CPU, with its memory: its file says so by its architecture."""
        return self.architecture == "cpu"

    @property
    def compute_major(self) -> int | None:
        """First number of the compute capability, which kernels are built for.

        Examples
        --------
        >>> from specroof import load_hardware
        >>> load_hardware("h100").compute_major
        9
        """
        return None if self.compute_capability is None else int(self.compute_capability)

    @cached_property
    def fitted_family(self) -> str | None:
        """The family of chips that its engines were fitted to; None for one without measurements.

        Examples
        --------
        >>> from specroof import load_hardware
        >>> load_hardware("h100").fitted_family
        'hopper'
        """
        reaches = (engine.reach for engine in self.engines.values())
        return next((reach.family for reach in reaches if reach and reach.family), None)

    def capped(self, watts: object) -> "HardwareProfile":
        """Return the chip with its power capped.

        Raises
        ------
        OptionError
            For a chip of which nobody measured what a cap does, or for none so low.

        Examples
        --------
        >>> from specroof import load_hardware
        >>> load_hardware("rtx-5090").capped(450.0).power.watts
        450.0
        """
        power = self.power
        if power is None or power.fixed_watts is None or power.core_watts is None:
            reject(
                f"power_cap is {shown(watts)}, and nobody measured what a cap does to {self.name}",
                "chips with power.fixed_watts and core_watts in their file",
            )
        cap = number_within("power_cap", watts, "watts")
        if cap < (least := (power.fixed_watts + power.uncapped_watts) / 2):
            reject(
                f"power_cap is {cap:g}, lower than any cap whose effect was measured",
                f"from {least:g}",
            )
        return replace(self, power=replace(power, cap_watts=cap))

    def engine(self, name: str | None = None) -> EngineProfile:
        """Return the engine of this name; None means the profile's default.

        That is `default_engine`, else the generic engine, else the ideal one. Where the server
        whose rules the generic engine has does not run, as on Macs, it is that of software for one
        user, if there is any. A framework whose engine was not fitted to this chip is the generic
        engine with its rules. ``vllm@0.19`` is a measured release: see `EngineProfile.of_release`.

        Raises
        ------
        OptionError
            If the profile has no such engine.

        Examples
        --------
        >>> from specroof import load_hardware
        >>> h100 = load_hardware("h100")
        >>> h100.engine(None).name, h100.engine("ideal").name
        ('sglang', 'ideal')
        >>> load_hardware("l40s").engine(None).name, load_hardware("m4-max").engine(None).framework
        ('generic', 'llama.cpp')
        """
        expect("engine", name, str | None, "the name of an engine, or None")
        usual = self.default_engine or (_IDEAL if self.generic is None else GENERIC)
        if usual == GENERIC and self.generic is not None and self.vendor in NO_PLATFORM[STAND_IN]:
            usual = next(iter(self.generic.local_engines), usual)
        wanted = usual if name is None else name
        if "@" in wanted:
            server, _, release = wanted.partition("@")
            return self.engine(server).of_release(release)
        found = {**self.engines, _IDEAL: IDEAL_ENGINE}.get(wanted)
        if found is None and self.generic is not None:
            found = self.generic.engines.get(wanted) or self.generic.local_engines.get(wanted)
        if found is not None:
            return found
        message = f"engine is {shown(wanted)}; {self.name} has {', '.join(self.engine_names)}"
        raise OptionError(message + self.more_engines(wanted))

    @property
    def engine_names(self) -> list[str]:
        """What `engine` takes, but for releases."""
        own = [_IDEAL, *self.engines]
        if self.generic is not None:
            own += [*self.generic.engines, *self.generic.local_engines]
        return list(dict.fromkeys(own))

    def more_engines(self, wanted: str) -> str:
        """Return how an engine of software for one user comes here; nothing of other software."""
        if wanted.partition("-")[0] not in LOCAL_FRAMEWORKS:
            return ""
        if self.vendor is None and self.architecture is None:
            return "; its file names no vendor, whose chips have others"
        return "; specroof measure makes an engine of passes that you time"

    def engine_of(self, tool: str | None) -> str | None:
        """Return the engine that stands for a serving tool; None where the default does.

        A default that is the owner's choice stays: see `owns`. None stands for an unknown `tool`.

        Examples
        --------
        >>> from specroof import load_hardware
        >>> h100 = load_hardware("h100")
        >>> h100.engine_of("vllm"), h100.engine_of("mlx")
        ('vllm', None)
        """
        expect("tool", tool, str | None, "the name of a serving tool, or None")
        stands_in = self.default_engine is None and self.generic is not None
        known = {*self.engines, *(FRAMEWORKS if stands_in else ())}
        if tool in LOCAL_FRAMEWORKS and stands_in and self.generic is not None:
            known |= self.generic.local_engines.keys()
        return tool if tool in known and not self.owns(tool) else None

    def owns(self, tool: str | None) -> bool:
        """Return whether the default engine was calibrated to one machine that runs a tool.

        Such a default is named after no tool. It stands for the tool that it was calibrated with,
        or for every tool if it does not say.

        Examples
        --------
        >>> from specroof import load_hardware
        >>> h100 = load_hardware("h100")
        >>> own = replace(h100, default_engine="mine", engines={"mine": h100.engine("vllm")})
        >>> h100.owns("vllm"), own.owns("vllm")
        (False, True)
        """
        if self.default_engine in {None, _IDEAL, *FRAMEWORKS}:
            return False
        return tool is None or self.engine().framework in {None, tool}

    def arithmetic(self, dtype: str, *, strict: bool = False) -> tuple[str, float]:
        """Return the dtype that work in `dtype` really runs in, and its dense peak in FLOP/s.

        A device without units for a dtype widens the operands, so the next wider dtype that it
        has takes the place: fp4 → fp6 → fp8 → bf16 → fp16 → fp32, int4 → int8 → bf16. With
        `strict` it does not.

        Raises
        ------
        OptionError
            If the dtype is unknown.
        ProfileError
            If the device has neither the dtype nor one to fall back on.

        Examples
        --------
        >>> from specroof import load_hardware
        >>> h100 = load_hardware("h100")
        >>> h100.arithmetic("fp8"), h100.arithmetic("fp4")
        (('fp8', 1979000000000000.0), ('fp8', 1979000000000000.0))
        >>> h100.arithmetic("fp4", strict=True)
        Traceback (most recent call last):
        specroof.errors.ProfileError: NVIDIA H100 SXM 80GB has no flops_per_s for 'fp4'; it has
        fp32, bf16, fp16, fp8, int8
        """
        expect_word("dtype", dtype, DTYPE_BYTES)
        flops_per_s = self.peak.flops_per_s
        for candidate in (dtype,) if strict else (dtype, *WIDER_DTYPES[dtype]):
            if candidate in flops_per_s:
                return candidate, flops_per_s[candidate]
        wider = "" if strict else " or a wider dtype"
        has = ", ".join(flops_per_s)
        message = f"{self.name} has no flops_per_s for {dtype!r}{wider}; it has {has}"
        raise ProfileError(message)


@dataclass(frozen=True)
class Placement:
    """How a model is spread over `tensor_parallel` x `pipeline_parallel` devices.

    Attributes
    ----------
    tensor_parallel
        Devices that every layer is split over.
    expert_parallel
        Devices among them that whole experts are dealt out to; 1 splits each expert instead.
    attention_data_parallel
        Groups of devices that attend to separate sequences, each with all attention weights.
    decode_context_parallel
        Devices of a group that each cache a part of every sequence's context and attend to it;
        1 where devices without KV heads of their own repeat the cache.
    pipeline_parallel
        Stages of layers, each on `tensor_parallel` devices of its own.
    nodes
        Nodes that the devices are spread over, as many on each; None for as few as the chip's
        links allow, which `specroof.latency.setup.engine_setup` fills in.

    Raises
    ------
    OptionError
        Unless all are whole numbers from 1 to 65 536, the second and third divide the first, the
        fourth divides a group, and the last divides the devices, 65 536 of them at most.

    Examples
    --------
    >>> Placement(tensor_parallel=8, expert_parallel=4).devices
    8
    >>> Placement(tensor_parallel=8, pipeline_parallel=2).devices
    16
    """

    tensor_parallel: int = 1
    expert_parallel: int = 1
    attention_data_parallel: int = 1
    decode_context_parallel: int = 1
    pipeline_parallel: int = 1
    nodes: int | None = None

    def __post_init__(self) -> None:
        for key in fields(self):
            if key.name == "nodes" and self.nodes is None:
                continue
            count = whole_within(key.name, getattr(self, key.name), "devices")
            object.__setattr__(self, key.name, count)
        tensor, devices, most = self.tensor_parallel, self.devices, int(BOUNDS["devices"].most)
        if self.pipeline_parallel > 1 and devices > most:
            reject(
                f"pipeline_parallel is {self.pipeline_parallel}: with tensor_parallel {tensor} "
                f"{devices} devices",
                f"{most} devices",
            )
        group = f"the {self.group_size} devices of tensor_parallel / attention_data_parallel"
        for name, whole, whose in (
            ("expert_parallel", tensor, f"tensor_parallel, which is {tensor}"),
            ("attention_data_parallel", tensor, f"tensor_parallel, which is {tensor}"),
            ("decode_context_parallel", self.group_size, group),
            ("nodes", devices, f"the {devices} devices"),
        ):
            if whole % (getattr(self, name) or 1):
                message = f"{name} is {getattr(self, name)}; must divide {whose}"
                raise OptionError(message)

    @property
    def devices(self) -> int:
        """Devices that the model runs on."""
        return self.tensor_parallel * self.pipeline_parallel

    @property
    def group_size(self) -> int:
        """Devices that attend to the same sequences."""
        return self.tensor_parallel // self.attention_data_parallel

    @property
    def words(self) -> tuple[str, ...]:
        """Ways in which the model is spread, as flags call them."""
        counts = {
            "tp": self.tensor_parallel,
            "ep": self.expert_parallel,
            "dp-attention": self.attention_data_parallel,
            "dcp": self.decode_context_parallel,
            "pp": self.pipeline_parallel,
            "nodes": self.nodes or 1,
        }
        return tuple(name for name, count in counts.items() if count > 1) or ("one device",)

    def in_nodes(self, most: int) -> "Placement":
        """Return the placement in nodes of at most so many devices: the given ones, or the fewest.

        A stage of a pipeline lies inside a node or fills several.

        Raises
        ------
        OptionError
            For `nodes` of more devices, or that split a stage unevenly.

        Examples
        --------
        >>> Placement(tensor_parallel=16).in_nodes(8).nodes
        2
        >>> Placement(tensor_parallel=8, pipeline_parallel=2, nodes=1).in_nodes(8)
        Traceback (most recent call last):
        specroof.errors.OptionError: nodes is 1; a node joins 8 devices: 16 in stages of 8 divide \
over 2, 4, 8, 16 nodes
        """
        devices, stage = self.devices, self.tensor_parallel
        allowed = [
            nodes
            for nodes in range(-(-devices // most), devices + 1)
            for each in (devices // nodes,)
            if devices % nodes == 0 and (stage % each == 0 or each % stage == 0)
        ]
        if self.nodes is None:
            return replace(self, nodes=allowed[0])
        if self.nodes not in allowed:
            message = (
                f"nodes is {self.nodes}; a node joins {most} devices: {devices} in stages of "
                f"{stage} divide over {', '.join(map(str, allowed))} nodes"
            )
            raise OptionError(message)
        return self


#: What profiles that were fitted to all measurements are stored under.
ALL_SOURCES: Final = "all"


@dataclass(frozen=True, kw_only=True)
class LeftOutFits:
    """Engine profiles that were fitted without a source of measurements, or without a group.

    Attributes
    ----------
    engines
        By the name of an engine, then by a family or the file of a chip, then by the source that
        the fit has not seen; under `ALL_SOURCES` the fit to all.
    generic
        By ``family NAME`` or ``engine NAME`` that the fit has not seen; under `ALL_SOURCES` the fit
        to all.
    """

    engines: Mapping[str, Mapping[str, Mapping[str, EngineProfile]]]
    generic: Mapping[str, Generic]

    def engine(self, name: str, chip: HardwareProfile, *, without: str) -> EngineProfile:
        """Return an engine's profile for a chip, by the fit without a source.

        Parameters
        ----------
        name
            Of the engine.
        chip
            One of a fitted family.
        without
            The source; the fit to all for one that has not measured this engine on this family.
        """
        fits = self.fits_on(name, chip)
        return fits.get(without, fits[ALL_SOURCES])

    def fits_on(self, name: str, chip: HardwareProfile) -> Mapping[str, EngineProfile]:
        """Return the profiles of an engine on a chip by what they were fitted without, if any."""
        places = self.engines.get(name, {})
        place = next((file for file in chip.aliases if file in places), chip.fitted_family)
        return places.get(place or "", {})

    def generic_without(self, group: str) -> Generic:
        """Return what the fit without a group says of all chips: see `generic`."""
        return self.generic.get(group, self.generic[ALL_SOURCES])


# --- Files that describe them, whose figures are taken as they stand -----------------------------

_built = partial(read_plain, error=ProfileError, trusted=True)


def _named(engines: dict[str, Any], name: str | None = None) -> dict[str, Any]:
    """Return engines that carry their names: their keys, or one for all."""
    return {key: {**block, "name": name or key} for key, block in engines.items()}


def parse_trusted(content: dict[str, Any], *, source: str) -> HardwareProfile:
    """Return the profile that a hardware file describes.

    Parameters
    ----------
    content
        The mapping of a file that is bundled, or that `specroof.hardware.schema` has checked.
    source
        How messages name the file.
    """
    engines = content.get("engines", {})
    shared = {name: block["same_as"] for name, block in engines.items() if "same_as" in block}
    own = {name: block for name, block in engines.items() if name not in shared}
    content = {**content, "engines": _named(own), "same_engines": shared}
    return _built(content, HardwareProfile, source=source)


def parse_generic(content: dict[str, Any]) -> Generic:
    """Return what the bundled file of generic engines says; its figures are taken as they stand.

    Parameters
    ----------
    content
        The file's mapping, as `written_generic` of `specroof.hardware.written` makes it.
    """
    named = {**content, "engines": _named(content["engines"], GENERIC)}
    return _built(named, Generic, source="generic engines")


def parse_local_engines(content: dict[str, Any]) -> LocalEngines:
    """Return what the bundled file of engines for one user says; figures are taken as they stand.

    Parameters
    ----------
    content
        The file's mapping, which ``benchmarks/fit_local.py`` writes.
    """
    left_out = {name: _named(fits, name) for name, fits in content["left_out"].items()}
    named = {**content, "engines": _named(content["engines"]), "left_out": left_out}
    return _built(named, LocalEngines, source="local engines")


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
    return _built({"engines": engines, "generic": generic}, LeftOutFits, source="left-out fits")
