"""Which chips are known, and what can they do?"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from specroof.catalog import hardware_names, load_hardware, taken_aliases
from specroof.hardware import HardwareProfile
from specroof.questions.answer import Noted
from specroof.questions.request import HardwareLike, hardware_of, question
from specroof.report.layout import format_table
from specroof.units import format_binary_bytes, format_si


@dataclass(frozen=True)
class HardwareRequest:
    """Ask what a chip can do.

    Parameters
    ----------
    hardware
        A path, a name, an alias, or a `HardwareProfile`.
    """

    hardware: HardwareLike


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

    def to_dict(self) -> dict[str, Any]:
        """Return the answer as the object that ``--json`` prints."""
        return asdict(self.profile) | {"name": self.name, "title": self.profile.name}


def list_hardware() -> list[HardwareFacts]:
    """Return all chips: from your own folder, and the bundled ones."""
    return [show_hardware(name) for name in hardware_names()]


@question(HardwareRequest)
def show_hardware(request: HardwareRequest) -> HardwareFacts:
    """Return the figures of one chip, with the source of each."""
    profile = hardware_of(request.hardware)
    asked = request.hardware
    return HardwareFacts(
        profile.name if isinstance(asked, HardwareProfile) else os.fspath(asked), profile
    )


def check_hardware(file: str | os.PathLike[str]) -> HardwareFacts:
    """Check a hardware file: every key, every figure, every source."""
    profile = load_hardware(file, check=True)
    taken = (
        f"alias {alias} is one of {name}, which -H {alias} finds"
        for alias, name in taken_aliases(file).items()
    )
    return HardwareFacts(os.fspath(file), profile, warnings=tuple(taken))


# --- Hardware profiles as text -------------------------------------------------------------------


def hardware_table(found: Sequence[HardwareFacts]) -> str:
    """Return the list of hardware profiles."""
    rows = [one.to_dict() for one in found]
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


def _usable(found: HardwareFacts) -> str:
    """Return the memory that servers see, and whether a log says so."""
    profile = found.profile
    seen = format_binary_bytes(profile.server_memory_bytes)
    if profile.usable_memory_bytes is not None:
        return f"{seen}, as servers see it"
    share = profile.server_memory_bytes / profile.peak.memory_bytes
    return f"{seen}: no log is known, {share:.0%} of the memory"


def hardware_text(found: HardwareFacts) -> str:
    """Return one profile's figures and their sources, line by line."""
    row = found.to_dict()
    peak, link = row["peak"], row["interconnect"]
    lines = {
        **{
            f"peak {dtype}": format_si(value, "FLOP/s")
            for dtype, value in peak["flops_per_s"].items()
        },
        "memory": format_binary_bytes(peak["memory_bytes"]),
        "usable memory": _usable(found),
        "bandwidth": format_si(peak["memory_bytes_per_s"], "B/s"),
        "aliases": ", ".join(row["aliases"]),
        "engines": ", ".join([*row["engines"], "generic", "ideal"]),
    }
    if link is not None:
        rate = format_si(link["link_bytes_per_s"], "B/s")
        lines["link"] = f"{rate} each way, up to {link['max_devices']} devices"
    if row["power"] is not None:
        lines["power"] = f"{row['power']['board_watts']:g} W a board"
    if row["price"] is not None:
        price = row["price"]
        lines["price"] = f"${price['usd_per_hour']:.2f} an hour ({price['date']})"
        row["sources"]["price"] = price["source"]
    width = max(map(len, lines)) + 2
    facts = [f"{name:{width}}{told}" for name, told in lines.items()]
    sources = [f"source of {key}: {text}" for key, text in row["sources"].items()]
    return "\n".join([row["title"], *facts, *sources])
