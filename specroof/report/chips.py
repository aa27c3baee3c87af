"""Hardware profiles as text."""

from collections.abc import Mapping, Sequence
from typing import Any

from specroof.questions.hardware import HardwareFacts
from specroof.report.layout import format_table
from specroof.units import format_binary_bytes, format_si


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
