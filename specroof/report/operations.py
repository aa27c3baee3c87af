"""The operations of one pass, as rows and as a table."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from specroof.latency.pass_seconds import PassLatency
from specroof.questions.explain import Explanation
from specroof.report.layout import format_table, in_line, note_lines, page
from specroof.speedup.waterfall import RoundParts
from specroof.units import format_drafts, format_seconds, format_si

#: What an operation takes, and what rows of the same one add up; in all else they are alike.
_AMOUNTS: Final = ("flops", "weight_bytes", "cache_bytes", "activation_bytes")
_ADDED: Final = ("count", *_AMOUNTS, "compute_s", "memory_s", "seconds", "share")


def explain_rows(latency: PassLatency) -> list[dict[str, Any]]:
    """Return one row per operation of a pass at one operating point, longest first.

    Layers of several kinds share a row where they hold the same operation at the same cost. FLOP
    and bytes are totals over identical layers and all devices; seconds are per device. What is not
    an operation (collectives, overheads) follows, where the engine has any.
    """
    total_s = float(latency.total_s)
    rows: list[dict[str, Any]] = [
        {
            "op": op.op.name,
            "kind": op.op.kind,
            "count": op.op.count,
            **{name: float(op.op.count * getattr(op.op, name)) for name in _AMOUNTS},
            "intensity": _intensity(float(op.op.flops), float(op.op.memory_bytes)),
            "compute_dtype": op.compute_dtype,
            "compute_s": float(op.compute_s),
            "memory_s": float(op.memory_s),
            "bound": "compute" if op.compute_s > op.memory_s else "memory",
            "seconds": float(op.seconds),
            "share": float(op.seconds) / total_s,
        }
        for op in latency.ops
    ]
    rows = sorted(_merged(rows), key=lambda row: -row["seconds"])
    for name, seconds in (
        ("communication", latency.communication_s),
        ("overhead", latency.overhead_s),
    ):
        if seconds > 0:
            spent = {"op": name, "kind": name, "count": 1, "bound": name, "seconds": float(seconds)}
            rows.append(dict.fromkeys(rows[0]) | spent | {"share": float(seconds) / total_s})
    return rows


def _merged(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows, with equal operations of equal cost added up."""
    merged: dict[tuple[object, ...], dict[str, Any]] = {}
    for row in rows:
        each_s = f"{row['seconds'] / row['count']:.9g}"
        same = merged.setdefault((row["op"], row["kind"], row["compute_dtype"], each_s), row)
        if same is not row:
            for name in _ADDED:
                same[name] += row[name]
    return list(merged.values())


def _intensity(flops: float, memory_bytes: float) -> float | None:
    return flops / memory_bytes if memory_bytes else None


def explanation_text(found: Explanation) -> str:
    """Return the operations of a pass as a table, longest first, and what it adds up to."""
    if found.round is not None:
        return _round_text(found, found.round)
    rows = explain_rows(found.latency)
    header = ["operation", "x", "FLOP", "bytes", "FLOP/B", "in", "bound", "time", "share"]
    table = format_table(header, [_explain_cells(row) for row in rows])
    total = f"the pass takes {format_seconds(float(found.latency.total_s))}"
    parts = [f"{in_line(found.title)}: {total}", table]
    if found.first_token_s is not None:
        parts.append(f"time to first token: {format_seconds(found.first_token_s)}")
    return "\n\n".join(filter(None, [*parts, note_lines(found.notes)]))


def _explain_cells(row: Mapping[str, Any]) -> list[str]:
    time = [row["bound"], format_seconds(row["seconds"]), f"{row['share']:.1%}"]
    if row["flops"] is None:
        return [row["op"], "", "", "", "", "", *time]
    moved = row["weight_bytes"] + row["cache_bytes"] + row["activation_bytes"]
    return [
        row["op"],
        str(row["count"]),
        format_si(row["flops"], ""),
        format_si(moved, "B"),
        "" if row["intensity"] is None else f"{row['intensity']:.3g}",
        row["compute_dtype"],
        *time,
    ]


def _round_text(found: Explanation, parts: RoundParts) -> str:
    """Return a round against a plain step: what is added, part by part, and what it brings."""
    rows = [_part("plain step", parts.decode_s, parts)]
    added = sorted(parts.added_s.items(), key=lambda one: -one[1])
    rows += [
        _part(f"{'+' if seconds > 0 else '-'} {name}", abs(seconds), parts)
        for name, seconds in added
    ]
    rows.append(_part("= round", parts.round_s, parts))
    rows.append(["tokens of the round", "", f"{parts.tokens_per_round:.2f}"])
    rows.append(["speedup", "", f"{parts.speedup:.2f}x"])
    least = found.break_even
    if least is not None:
        value = f"never ({least.ceiling:.2f}x)" if least.value is None else f"{least.value:.3f}"
        rows.append(["acceptance that breaks even", "", value])
    table = format_table(["", "time", "plain steps"], rows)
    drafts = f"{in_line(parts.drafter)}, {format_drafts(parts.draft_len)}"
    return page(found, table, found.why, below_title=drafts)


def _part(name: str, seconds: float, parts: RoundParts) -> list[str]:
    return [name, format_seconds(seconds), f"{seconds / parts.decode_s:.2f}"]
