"""Which chips are known, and what can they do?"""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Annotated, Any, Final

from specroof.catalog import hardware_names, load_hardware, taken_aliases
from specroof.errors import expect, refuse
from specroof.hardware import HardwareProfile
from specroof.questions.answer import Noted
from specroof.questions.request import (
    Command,
    HardwareLike,
    Output,
    Parameter,
    hardware_of,
    question,
)
from specroof.report.layout import format_table, note_lines
from specroof.units import format_binary_bytes, format_si


@dataclass(frozen=True)
class ChipsRequest:
    """Ask which chips are known."""


@dataclass(frozen=True)
class HardwareRequest:
    """Ask what a chip can do."""

    hardware: Annotated[
        HardwareLike,
        Parameter(
            "A YAML file, a name or an alias.",
            "NAME",
            in_python="Or a `HardwareProfile`.",
            names=hardware_names,
        ),
    ]


@dataclass(frozen=True)
class CheckRequest:
    """Ask whether a hardware file is sound."""

    file: Annotated[str | os.PathLike[str], Parameter("Your own YAML file.", "FILE")]


@dataclass(frozen=True)
class NewRequest:
    """Ask for a hardware file to fill in."""

    name: Annotated[str, Parameter("What the chip is called.", "NAME")]


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

    @property
    def title(self) -> str:
        """What was asked, in one line."""
        return self.name

    def text(self) -> str:
        """Return the file."""
        return self.yaml.rstrip("\n")

    def to_dict(self) -> dict[str, Any]:
        """Return the answer as the object that ``--json`` prints."""
        return {"name": self.name, "yaml": self.yaml}


@dataclass(frozen=True, repr=False)
class HardwareFacts(Noted):
    """What a chip can do.

    Attributes
    ----------
    name
        What it was asked for as.
    profile
        Peaks, memory, interconnect, engines, and the source of each figure.
    notes, warnings
        Sentences for the reader.
    """

    name: str
    profile: HardwareProfile

    @property
    def title(self) -> str:
        """What was asked, in one line."""
        return self.profile.name

    def text(self) -> str:
        """Return the figures and their sources, line by line."""
        return hardware_text(self)

    def to_dict(self) -> dict[str, Any]:
        """Return the answer as the object that ``--json`` prints."""
        generic = self.profile.generic
        stand_ins = generic and {  # worked out from what it holds
            "engines": {name: asdict(engine) for name, engine in generic.engines.items()},
            "family": generic.family,
        }
        host = self.profile.host
        return asdict(replace(self.profile, generic=None, host=None)) | {
            "generic": stand_ins,
            "host": host and host.name,
            "name": self.name,
            "title": self.profile.name,
        }


@question(ChipsRequest)
def list_hardware(_request: ChipsRequest) -> list[HardwareFacts]:
    """List the hardware profiles: peaks, memory, engines.

    Those of your own folder come first.
    """
    return [show_hardware(name) for name in hardware_names()]


@question(HardwareRequest)
def show_hardware(request: HardwareRequest) -> HardwareFacts:
    """Show one profile with the source of each figure."""
    profile = hardware_of(request.hardware)
    given = request.hardware
    return HardwareFacts(
        profile.name if isinstance(given, HardwareProfile) else os.fspath(given), profile
    )


@question(CheckRequest)
def check_hardware(request: CheckRequest) -> HardwareFacts:
    """Check a hardware file: every key, every figure, every source."""
    file = request.file
    profile = load_hardware(file, check=True)
    taken = (
        f"alias {alias} is one of {name}, which -H {alias} finds"
        for alias, name in taken_aliases(file).items()
    )
    return HardwareFacts(os.fspath(file), profile, warnings=tuple(taken))


#: A hardware file without figures. What stands in comments may be left out.
_TEMPLATE: Final = """\
# Base SI units: FLOP/s, bytes per second, bytes. Fill in what is empty, each figure with its source;
# lines that begin with a number sign may be left out. Then: specroof hardware check FILE
format_version: 1
name: {name}
aliases: []  # short names for -H, such as [h100, h100-sxm]
sources:  # of each figure: a title and an address
  peak.flops_per_s:
  peak.memory_bytes_per_s:
  peak.memory_bytes:
  # peak.multiprocessors:
  # usable_memory_bytes:
  # interconnect.link_bytes_per_s:
  # interconnect.scale_out_bytes_per_s:
peak:
  flops_per_s:  # dense; data sheets often print sparse figures, which are twice as high
    bf16:  # such as 989.4e+12
    # fp8:
    # fp4:
    # int8:
  memory_bytes_per_s:  # such as 3.35e+12
  memory_bytes:  # such as 85.9e+9
  # multiprocessors:
# What a server's log says of the memory that it sees.
# usable_memory_bytes:
# Each way and device; how many devices one link joins; between nodes.
# interconnect:
#   link_bytes_per_s:
#   max_devices:
#   scale_out_bytes_per_s:
# power:
#   board_watts:
# price:
#   usd_per_hour:
#   date:  # such as 2026-11-01
#   source:
"""


@question(NewRequest)
def new_hardware(request: NewRequest) -> HardwareTemplate:
    """Write a hardware file to fill in, which `hardware check` then holds against every rule."""
    expect("name", request.name, str, "the name of a chip")
    if not request.name.strip() or not request.name.isprintable():
        refuse("name", request.name, "the name of a chip, in one line")
    # JSON's strings are YAML's.
    name = json.dumps(request.name, ensure_ascii=False)
    return HardwareTemplate(request.name, _TEMPLATE.format(name=name))


# --- Hardware profiles as text -------------------------------------------------------------------


def hardware_table(chips: Sequence[HardwareFacts]) -> str:
    """Return the list of hardware profiles."""
    rows = [facts.to_dict() for facts in chips]
    header = ["name", "bf16", "fp8", "fp4", "memory", "bandwidth", "engines", "title"]
    cells = [
        [
            row["name"],
            *(_peak(row, dtype) for dtype in ("bf16", "fp8", "fp4")),
            format_binary_bytes(row["peak"]["memory_bytes"]),
            format_si(row["peak"]["memory_bytes_per_s"], "B/s"),
            ", ".join([*row["engines"], "generic", "ideal"]),
            row["title"],
        ]
        for row in rows
    ]
    return format_table(header, cells, left=(0, 6, 7))


def _peak(row: Mapping[str, Any], dtype: str) -> str:
    peaks = row["peak"]["flops_per_s"]
    if dtype in peaks:
        return format_si(peaks[dtype], "")
    # Old chips have the one 16-bit format without the other.
    return f"{format_si(peaks['fp16'], '')} fp16" if dtype == "bf16" and "fp16" in peaks else "-"


def _usable(chip: HardwareFacts) -> str:
    """Return the memory that servers see, and whether a log says so."""
    profile = chip.profile
    seen = format_binary_bytes(profile.server_memory_bytes)
    if profile.usable_memory_bytes is not None:
        return f"{seen}, as servers see it"
    share = profile.server_memory_bytes / profile.peak.memory_bytes
    return f"{seen}: no log is known, {share:.0%} of the memory"


def hardware_text(chip: HardwareFacts) -> str:
    """Return one profile's figures and their sources, line by line."""
    row = chip.to_dict()
    peak, link = row["peak"], row["interconnect"]
    lines = {
        **{
            f"peak {dtype}": format_si(value, "FLOP/s")
            for dtype, value in peak["flops_per_s"].items()
        },
        "memory": format_binary_bytes(peak["memory_bytes"]),
        "usable memory": _usable(chip),
        "bandwidth": format_si(peak["memory_bytes_per_s"], "B/s"),
        "aliases": ", ".join(row["aliases"]),
        "engines": ", ".join([*row["engines"], "generic", "ideal"]),
    }
    if row["host"] is not None:
        lines["host"] = row["host"]
    if peak["multiprocessors"] is not None:
        lines["processors"] = f"{peak['multiprocessors']} multiprocessors"
    if link is not None:
        rate = format_si(link["link_bytes_per_s"], "B/s")
        lines["link"] = f"{rate} each way, up to {link['max_devices']} devices"
        if link["scale_out_bytes_per_s"] is not None:
            lines["link"] += f"; {format_si(link['scale_out_bytes_per_s'], 'B/s')} to other nodes"
    if row["power"] is not None:
        lines["power"] = f"{row['power']['board_watts']:g} W a board"
    if row["price"] is not None:
        price = row["price"]
        lines["price"] = f"${price['usd_per_hour']:.2f} an hour ({price['date']})"
        row["sources"]["price"] = price["source"]
    width = max(map(len, lines)) + 2
    facts = [f"{name:{width}}{value}" for name, value in lines.items()]
    sources = [f"source of {key}: {text}" for key, text in row["sources"].items()]
    return "\n".join([row["title"], *facts, *sources])


def check_text(chip: HardwareFacts) -> str:
    """Return that a file is sound, and names in it that others have."""
    sound = f"{chip.name}: {chip.profile.name}, every figure is valid and names a source"
    return "\n".join(filter(None, [sound, note_lines(chip.warnings)]))


COMMAND: Final = Command(
    question=list_hardware,
    text=hardware_table,
    json=lambda chips: [chip.to_dict() for chip in chips],
    csv=False,
    commands={
        "show": Command(question=show_hardware, csv=False),
        "new": Command(
            question=new_hardware,
            csv=False,
            to_paste=True,
            output=Output(
                about="Write the file here.",
                metavar="FILE",
                content=lambda answer: str(answer.yaml),
            ),
            example="specroof hardware new 'My chip' -o my-chip.yaml",
        ),
        "check": Command(question=check_hardware, text=check_text, csv=False),
    },
)
