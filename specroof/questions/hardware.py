"""Which chips are known, and what can they do?"""

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated, Any, ClassVar, Final

from specroof import quantities as q
from specroof.arrays import fields_of
from specroof.catalog import hardware_names, hardware_words, load_hardware, taken_aliases
from specroof.catalog.files import suggestion
from specroof.errors import expect, refuse
from specroof.frameworks import LOCAL_FRAMEWORKS
from specroof.hardware.profile import HardwareProfile
from specroof.questions import parameters as p
from specroof.questions.answer import Noted, rows_table
from specroof.questions.objects import HardwareLike, hardware_of, name_of
from specroof.questions.request import Command, Output, question
from specroof.report.layout import note_lines
from specroof.units import DTYPE_BYTES, format_binary_bytes, format_si


@dataclass(frozen=True)
class ChipListRequest:
    """Ask which chips are known."""


@dataclass(frozen=True)
class HardwareRequest:
    """Ask what a chip can do."""

    hardware: Annotated[
        HardwareLike, p.like(p.Hardware, about="A YAML file, a name or an alias.", flag="NAME")
    ]


@dataclass(frozen=True)
class CheckRequest:
    """Ask whether a hardware file is sound."""

    file: Annotated[str | os.PathLike[str], p.Parameter("Your own YAML file.", "FILE")]


@dataclass(frozen=True)
class NewRequest:
    """Ask for a hardware file to fill in."""

    name: Annotated[str, p.Parameter("What the chip is called.", "NAME")]


@dataclass(frozen=True, repr=False)
class HardwareTemplate(Noted):
    """A hardware file to fill in.

    Attributes
    ----------
    name
        What the chip is called.
    yaml
        The file.
    notes, warnings
        Sentences for the reader.
    """

    name: str
    yaml: str

    rows: ClassVar = ()  # there is no chip yet

    @property
    def title(self) -> str:
        """What was asked, in one line."""
        return self.name

    def text(self) -> str:
        """Return the file."""
        return self.yaml.rstrip("\n")

    def to_dict(self) -> dict[str, Any]:
        """Return the answer as the object that ``--json`` prints."""
        return self.envelope(fields_of(self, "name", "yaml"))


@dataclass(frozen=True, kw_only=True)
class ChipRow(q.Row):
    """What a chip can do; `name` is what it was asked for as, and `title` that of its file."""

    name: str
    title: str
    bf16_flops_per_s: float | None
    fp16_flops_per_s: float | None
    fp32_flops_per_s: float | None
    fp8_flops_per_s: float | None
    fp6_flops_per_s: float | None
    fp4_flops_per_s: float | None
    int8_flops_per_s: float | None
    int4_flops_per_s: float | None
    memory_bytes: float
    usable_memory_bytes: float | None
    memory_bytes_per_s: float
    multiprocessors: int | None
    link_bytes_per_s: float | None
    scale_out_bytes_per_s: float | None
    max_devices: int | None
    board_watts: float | None
    usd_per_hour: float | None
    price_date: str | None
    aliases: tuple[str, ...]
    engines: tuple[str, ...]
    host: str | None


@dataclass(frozen=True, repr=False)
class Chips(Noted):
    """What chips can do.

    Attributes
    ----------
    profiles
        Peaks, memory, interconnect, engines, and the source of each figure, by what they were asked
        for as.
    notes, warnings
        Sentences for the reader.
    """

    profiles: Mapping[str, HardwareProfile]

    @property
    def rows(self) -> tuple[ChipRow, ...]:
        """A chip each."""
        return tuple(_row(name, profile) for name, profile in self.profiles.items())

    @property
    def title(self) -> str:
        """The chip, or how many there are."""
        profiles = [*self.profiles.values()]
        return profiles[0].name if len(profiles) == 1 else f"{len(profiles)} chips"

    def text(self) -> str:
        """Return the chips as a table; the figures of one and their sources line by line."""
        if len(self.profiles) > 1:
            return rows_table(self.rows, _LISTED, memory_bytes="memory")
        (profile,) = self.profiles.values()
        peak, link, sources = profile.peak, profile.interconnect, {**profile.sources}
        share = profile.server_memory_bytes / peak.memory_bytes
        seen = f": no log is known, {share:.0%} of the memory"
        if profile.usable_memory_bytes is not None:
            seen = ", as servers see it"
        capability = profile.compute_capability
        words = [profile.architecture, profile.vendor]
        words.append(None if capability is None else f"compute capability {capability:g}")
        named = (
            ", ".join(filter(None, words)) if profile.architecture else "not named: an unknown chip"
        )
        lines = {
            **{
                f"peak {dtype}": format_si(value, "FLOP/s")
                for dtype, value in peak.flops_per_s.items()
            },
            "architecture": named,
            "memory": format_binary_bytes(peak.memory_bytes),
            "usable memory": format_binary_bytes(profile.server_memory_bytes) + seen,
            "bandwidth": format_si(peak.memory_bytes_per_s, "B/s"),
            "aliases": ", ".join(profile.aliases) or "none",
            "engines": ", ".join(_engines_of(profile)),
        }
        if profile.host is not None:
            lines["host"] = profile.host.name
        if peak.multiprocessors is not None:
            lines["processors"] = f"{peak.multiprocessors} multiprocessors"
        if link is not None:
            rate = format_si(link.link_bytes_per_s, "B/s")
            lines["link"] = f"{rate} each way, up to {link.max_devices} devices"
            if link.scale_out_bytes_per_s is not None:
                lines["link"] += f"; {format_si(link.scale_out_bytes_per_s, 'B/s')} to other nodes"
        if profile.power is not None:
            lines["power"] = f"{profile.power.board_watts:g} W a board"
        if profile.price is not None:
            price = profile.price
            lines["price"] = f"${price.usd_per_hour:.2f} an hour ({price.date})"
            sources["price"] = price.source
        width = max(map(len, lines)) + 2
        facts = [f"{name:{width}}{value}" for name, value in lines.items()]
        origins = [f"source of {key}: {text}" for key, text in sources.items()]
        return "\n".join([profile.name, *facts, *origins])

    def to_dict(self) -> dict[str, Any]:
        """Return the answer as the object that ``--json`` prints; of one chip with all its file."""
        if len(self.profiles) > 1:
            return self.envelope({})
        return self.envelope({"profile": _file_of(*self.profiles.values())})


_LISTED: Final = (
    *("name", "bf16_flops_per_s", "fp16_flops_per_s", "fp8_flops_per_s", "fp4_flops_per_s"),
    *("memory_bytes", "memory_bytes_per_s", "engines", "title"),
)


def _row(name: str, profile: HardwareProfile) -> ChipRow:
    figures: dict[str, Any] = {
        f"{dtype}_flops_per_s": profile.peak.flops_per_s.get(dtype) for dtype in DTYPE_BYTES
    }
    parts = (profile, profile.peak, profile.interconnect, profile.power, profile.price)
    for one in ChipRow.quantities().keys() - figures.keys():
        figures[one] = next((getattr(part, one) for part in parts if hasattr(part, one)), None)
    figures |= {
        "name": name,
        "title": profile.name,
        "price_date": None if profile.price is None else profile.price.date,
        "engines": _engines_of(profile),
        "host": None if profile.host is None else profile.host.name,
    }
    return ChipRow(**figures)


def _engines_of(profile: HardwareProfile) -> tuple[str, ...]:
    """Return the engines of a chip: fitted ones, those of software for one user, and stand-ins."""
    local = profile.generic.local_engines if profile.generic is not None else {}
    return (*profile.engines, *(n for n in LOCAL_FRAMEWORKS if n in local), "generic", "ideal")


def _file_of(profile: HardwareProfile) -> dict[str, Any]:
    """Return all that a hardware file says, with the engines that stand in for fitted ones."""
    generic, host = profile.generic, profile.host
    stand_ins = generic and {  # worked out from what it holds
        "engines": {name: asdict(engine) for name, engine in generic.engines.items()},
        "family": generic.family,
    }
    own = asdict(replace(profile, generic=None, host=None))
    return own | {"generic": stand_ins, "host": host and host.name}


@question(ChipListRequest, "hardware")
def list_hardware(_request: ChipListRequest) -> Chips:
    """List the hardware profiles: peaks, memory, engines.

    Those of your own folder come first.
    """
    return Chips({name: load_hardware(name) for name in hardware_names()})


@question(HardwareRequest, "hardware-show")
def show_hardware(request: HardwareRequest) -> Chips:
    """Show one profile with the source of each figure."""
    return Chips({name_of(request.hardware): hardware_of(request.hardware)})


@question(CheckRequest, "hardware-check")
def check_hardware(request: CheckRequest) -> Chips:
    """Check a hardware file: every key, every figure, every source."""
    file = request.file
    profile = load_hardware(file, check=True)
    warnings = [
        f"alias {alias} is one of {name}, which -H {alias} finds"
        for alias, name in taken_aliases(file).items()
    ]
    # What no rule knows a chip by: keys that are left out, and words of no bundled file.
    no_rules = "is not named: rules of servers"
    if profile.architecture is None:
        warnings.append("architecture is not named: kernels and bands are those of an unknown chip")
    if profile.vendor is None:
        warnings.append(f"vendor {no_rules} for chips of one vendor are not applied")
    if profile.vendor == "nvidia" and profile.compute_capability is None:
        warnings.append(f"compute_capability {no_rules} that ask for it are not applied")
    if "fp32" not in profile.peak.flops_per_s:
        warnings.append(
            "peak.flops_per_s has no fp32, in which software for one user unpacks weights: its "
            "verifications may take several times as long as predicted"
        )
    for key, known in hardware_words().items():
        named = getattr(profile, key)
        word = str(named)
        if named is not None and word not in known:
            meant = suggestion(word, known) or f"; those have {', '.join(known)}"
            warnings.append(f"{key} {word} is that of no bundled chip{meant}")
    return Chips({os.fspath(file): profile}, warnings=tuple(warnings))


@question(NewRequest, "hardware-new")
def new_hardware(request: NewRequest) -> HardwareTemplate:
    """Write a hardware file to fill in, which `hardware check` then holds against every rule."""
    expect("name", request.name, str, "the name of a chip")
    if not request.name.strip() or not request.name.isprintable():
        refuse("name", request.name, "the name of a chip, in one line")
    # A file without figures, in which what stands in comments may be left out.
    template = Path(__file__).with_name("hardware_template.yaml").read_text(encoding="utf-8")
    # JSON's strings are YAML's.
    name = json.dumps(request.name, ensure_ascii=False)
    return HardwareTemplate(request.name, template.format(name=name))


def check_text(chips: Chips) -> str:
    """Return that a file is sound, and names in it that others have."""
    ((file, profile),) = chips.profiles.items()
    sound = f"{file}: {profile.name}, every figure is valid and names a source"
    return "\n".join(filter(None, [sound, note_lines(chips.warnings)]))


COMMAND: Final = Command(
    question=list_hardware,
    commands={
        "show": Command(question=show_hardware),
        "new": Command(
            question=new_hardware,
            csv=False,
            to_paste=True,
            output=Output(
                about="Write the file here.",
                metavar="FILE",
                is_edited=True,
                content=lambda answer: str(answer.yaml),
            ),
            example="specroof hardware new 'My chip' -o my-chip.yaml",
        ),
        "check": Command(question=check_hardware, text=check_text, csv=False),
    },
)
