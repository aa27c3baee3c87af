"""Results to tables, CSV and JSON. No physics: everything printed is read off a result."""

import csv
import io
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from specroof.solver import PassLatency, SpeedupCurve
from specroof.units import format_binary_bytes, format_seconds, format_si
from specroof.workload import EndToEnd, Workload

__all__ = [
    "counted_table",
    "curve_rows",
    "curves_csv",
    "curves_json",
    "curves_table",
    "explain_rows",
    "explain_table",
    "format_table",
    "hardware_table",
    "hardware_text",
    "json_line",
    "pays_lines",
    "rows_csv",
    "source_lines",
]

_CURVE_ARRAYS = (
    "tokens_per_round",
    "draft_s",
    "verify_s",
    "round_s",
    "speedup",
    "tokens_per_s",
    "tokens_per_s_per_user",
)
_COUNTED_ARRAYS = ("tokens_per_s", "speedup", "prefill_frac", "effective_batch")


# --- plain text --------------------------------------------------------------------------------


def format_table(
    header: Sequence[str], rows: Iterable[Sequence[str]], *, left: Sequence[int] = (0,)
) -> str:
    """Return a table in columns, numbers to the right.

    Parameters
    ----------
    header
        One title per column.
    rows
        Cells as text.
    left
        Columns of text, aligned to the left; all others are numbers, aligned to the right.

    Examples
    --------
    >>> print(format_table(["γ", "speedup", "drafter"], [["16", "2.98x", "block"]], left=[2]))
     γ  speedup  drafter
    16    2.98x  block
    """
    lines = [list(header), *(list(row) for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(header))]

    def cell(text: str, column: int) -> str:
        return text.ljust(widths[column]) if column in left else text.rjust(widths[column])

    return "\n".join(
        "  ".join(cell(text, column) for column, text in enumerate(line)).rstrip() for line in lines
    )


def _span(low: float, high: float) -> str:
    return f"{low:g}" if low == high else f"{low:g}-{high:g}"


def curves_table(curves: Sequence[SpeedupCurve]) -> str:
    """Return what people read of several drafters on one grid.

    Per drafter and operating point: the best draft length, its speedup, the drafts within 1% of
    it, tokens per round and throughput there.
    """
    first = curves[0]
    title = f"{first.model} on {first.placement.devices} x {first.hardware}, engine {first.engine}"
    if first.speedup.shape[:2] == (1, 1):
        return "\n\n".join([title, _one_point(curves)])
    return "\n\n".join([title, *(_one_drafter(curve) for curve in curves)])


def _one_point(curves: Sequence[SpeedupCurve]) -> str:
    first = curves[0]
    batch, step_s = first.batch_size[0], float(first.decode_s[0, 0])
    plain = (
        f"context {first.context_len[0]:g}, batch {batch:g}: a plain step takes "
        f"{format_seconds(step_s)}, {batch / step_s:.0f} tok/s, {1 / step_s:.1f} per user"
    )
    header = ["best γ", "speedup", "within 1%", "tokens", "tok/s", "drafter"]
    rows = [[*_best_cells(curve, 0, 0)[:5], curve.drafter] for curve in curves]
    return f"{plain}\n\n{format_table(header, rows, left=[5])}"


def _one_drafter(curve: SpeedupCurve) -> str:
    header = ["context", "batch", "step", "best γ", "speedup", "within 1%", "tok/round"]
    rows = [
        [
            f"{context:g}",
            f"{batch:g}",
            format_seconds(float(curve.decode_s[i, j])),
            *_best_cells(curve, i, j),
        ]
        for i, context in enumerate(curve.context_len)
        for j, batch in enumerate(curve.batch_size)
    ]
    table = format_table([*header, "tok/s", "per user"], rows, left=[])
    return f"{curve.drafter}\n{table}"


def _best_cells(curve: SpeedupCurve, i: int, j: int) -> list[str]:
    best = int(curve.best_draft_len[i, j])
    shortest, longest = curve.near_best(0.01)
    return [
        str(best),
        f"{curve.best_speedup[i, j]:.2f}x",
        _span(shortest[i, j], longest[i, j]),
        f"{curve.tokens_per_round[i, j, best]:.2f}",
        f"{curve.tokens_per_s[i, j, best]:.0f}",
        f"{curve.tokens_per_s_per_user[i, j, best]:.1f}",
    ]


def pays_lines(curves: Sequence[SpeedupCurve]) -> str:
    """Return, per drafter, the batch sizes of its grid at which speculation does not pay."""
    batches = curves[0].batch_size
    title = f"does not pay at batch ({min(batches):g}-{max(batches):g})"
    rows = [
        [_loses(curve, i), f"{context:g}", curve.drafter]
        for curve in curves
        for i, context in enumerate(curve.context_len)
    ]
    return format_table([title, "context", "drafter"], rows, left=(0, 2))


def _loses(curve: SpeedupCurve, i: int) -> str:
    """Return the runs of batch sizes whose best draft length is 0."""
    order = np.argsort(curve.batch_size)
    runs: list[tuple[float, float]] = []
    lost_before = False
    for batch, best in zip(curve.batch_size[order], curve.best_draft_len[i, order], strict=True):
        if best == 0:
            start = runs.pop()[0] if lost_before else batch
            runs.append((start, batch))
        lost_before = bool(best == 0)
    return ", ".join(_span(*run) for run in runs) or "none"


def counted_table(curves: Sequence[SpeedupCurve], counted: Sequence[EndToEnd]) -> str:
    """Return what is left of each best speedup with prefills counted.

    Parameters
    ----------
    curves
        Of decoding alone, as `curves_table` has them.
    counted
        The same with prefills.
    """
    header = ["batch", "decoding", "prefill", "best γ", "speedup", "tok/s", "drafter"]
    rows = []
    for curve, whole in zip(curves, counted, strict=True):
        for j, batch in enumerate(curve.batch_size):
            best = int(whole.curve.best_draft_len[0, j])
            rows.append(
                [
                    f"{batch:g}",
                    f"{whole.effective_batch[0, j, best]:.1f}",
                    f"{whole.prefill_frac[0, j, best]:.1%}",
                    str(best),
                    f"{whole.speedup[0, j, best]:.2f}x",
                    f"{whole.tokens_per_s[0, j, best]:.0f}",
                    curve.drafter,
                ]
            )
    first = counted[0]
    title = f"prefills counted, {first.workload.requests}: each stops the batch for "
    title += f"{format_seconds(first.wait_s)}"
    if first.latency_s:
        title += f", and loses {format_seconds(first.latency_s)} alone"
    return f"{title}\n{format_table(header, rows, left=[6])}"


def source_lines(curves: Sequence[SpeedupCurve]) -> str:
    """Return, per drafter, where its cost and its acceptance come from."""
    return "\n".join(
        f"{curve.drafter}: cost from {curve.cost_from or 'the drafter'}; "
        f"acceptance: {curve.acceptance_from or 'as given'}"
        for curve in curves
    )


# --- JSON and CSV ------------------------------------------------------------------------------


def json_line(value: object) -> str:
    """Return `value` as JSON on one line; infinities are a programming error, never printed."""
    return json.dumps(value, allow_nan=False, ensure_ascii=False)


def _nested(array: Any) -> Any:
    """Return an array as nested lists, NaN as None."""
    values = np.asarray(array)
    if values.ndim:
        return [_nested(part) for part in values]
    value = values.item()
    return None if isinstance(value, float) and math.isnan(value) else value


def _plain(values: Any) -> list[int | float]:
    """Return an axis as a list, whole numbers without a point."""
    return [int(value) if float(value).is_integer() else float(value) for value in values]


def _lengths(workload: Workload) -> dict[str, int | float]:
    """Return the lengths of a request, whole numbers without a point."""
    names = ("input_len", "output_len")
    return dict(zip(names, _plain([workload.input_len, workload.output_len]), strict=True))


def curves_json(curves: Sequence[SpeedupCurve], counted: Sequence[EndToEnd] = ()) -> dict[str, Any]:
    """Return several drafters on one grid as the object that ``--json`` prints.

    Parameters
    ----------
    curves
        Of decoding alone.
    counted
        The same with prefills, under ``end_to_end`` of each drafter; none for a plain context.
    """
    first = curves[0]
    found: dict[str, Any] = {
        "model": first.model,
        "hardware": first.hardware,
        "engine": first.engine,
        "placement": {
            "tensor_parallel": first.placement.tensor_parallel,
            "expert_parallel": first.placement.expert_parallel,
            "attention_data_parallel": first.placement.attention_data_parallel,
        },
        "context_len": _plain(first.context_len),
        "batch_size": _plain(first.batch_size),
        "draft_len": _plain(first.draft_len),
        "notes": list(dict.fromkeys(note for curve in curves for note in curve.notes)),
        "baseline": {
            "step_s": _nested(first.decode_s),
            "tokens_per_s": _nested(first.batch_size / first.decode_s),
        },
        "drafters": [_drafter_json(curve) for curve in curves],
    }
    if counted:
        found["workload"] = _lengths(counted[0].workload)
        for drafter, whole in zip(found["drafters"], counted, strict=True):
            arrays = {name: _nested(getattr(whole, name)) for name in _COUNTED_ARRAYS}
            times = {"wait_s": whole.wait_s, "latency_s": whole.latency_s}
            drafter["end_to_end"] = {
                **times,
                **arrays,
                "best_draft_len": _nested(whole.curve.best_draft_len),
                "best_speedup": _nested(whole.curve.best_speedup),
            }
    return found


def _drafter_json(curve: SpeedupCurve) -> dict[str, Any]:
    shortest, longest = curve.near_best(0.01)
    return {
        "name": curve.drafter,
        "cost_from": curve.cost_from,
        "acceptance_from": curve.acceptance_from,
        "verify_len": _plain(curve.verify_len),
        **{name: _nested(getattr(curve, name)) for name in _CURVE_ARRAYS},
        "best_draft_len": _nested(curve.best_draft_len),
        "best_speedup": _nested(curve.best_speedup),
        "near_best": _nested(np.stack([shortest, longest], axis=-1)),
    }


def rows_csv(rows: Sequence[Mapping[str, object]]) -> str:
    """Return rows of equal keys as CSV with a header; None is an empty cell."""
    text = io.StringIO()
    writer = csv.DictWriter(text, fieldnames=list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def curves_csv(curves: Sequence[SpeedupCurve], counted: Sequence[EndToEnd] = ()) -> str:
    """Return every point of several curves as CSV, one row each: see `curve_rows`."""
    return rows_csv(curve_rows(curves, counted))


def curve_rows(
    curves: Sequence[SpeedupCurve], counted: Sequence[EndToEnd] = ()
) -> list[dict[str, object]]:
    """Return every point of several curves as a row of a CSV file.

    Parameters
    ----------
    curves
        Of decoding alone.
    counted
        The same with prefills, in columns called as in `curves_json` with ``end_to_end_`` before
        the name; none for a plain context.
    """
    wholes: Sequence[EndToEnd | None] = counted or [None] * len(curves)
    return [
        row
        for curve, whole in zip(curves, wholes, strict=True)
        for row in _curve_rows(curve, whole)
    ]


def _curve_rows(curve: SpeedupCurve, whole: EndToEnd | None) -> Iterable[dict[str, object]]:
    arrays = {name: getattr(curve, name) for name in _CURVE_ARRAYS}
    placement = curve.placement
    for index in np.ndindex(*curve.speedup.shape):
        i, j, k = index
        yield {
            "model": curve.model,
            "hardware": curve.hardware,
            "engine": curve.engine,
            "tensor_parallel": placement.tensor_parallel,
            "expert_parallel": placement.expert_parallel,
            "attention_data_parallel": placement.attention_data_parallel,
            "drafter": curve.drafter,
            "context_len": _plain(curve.context_len)[i],
            "batch_size": _plain(curve.batch_size)[j],
            "draft_len": int(curve.draft_len[k]),
            "verify_len": _plain(curve.verify_len)[k],
            **{name: _nested(array[index]) for name, array in arrays.items()},
            "is_best": int(curve.draft_len[k] == curve.best_draft_len[i, j]),
            **({} if whole is None else _counted_cells(whole, index)),
        }


def _counted_cells(whole: EndToEnd, index: tuple[int, ...]) -> dict[str, object]:
    """Return what the row of a point says of its requests."""
    best = whole.curve.best_draft_len[index[0], index[1]]
    return {
        **_lengths(whole.workload),
        "end_to_end_wait_s": whole.wait_s,
        "end_to_end_latency_s": whole.latency_s,
        **{f"end_to_end_{name}": _nested(getattr(whole, name)[index]) for name in _COUNTED_ARRAYS},
        "end_to_end_is_best": int(whole.curve.draft_len[index[2]] == best),
    }


# --- one pass ----------------------------------------------------------------------------------


def explain_rows(latency: PassLatency) -> list[dict[str, Any]]:
    """Return one row per operation of a pass at one operating point, longest first.

    Layers of several kinds share a row where they hold the same operation at the same cost. FLOP and bytes are totals over identical layers and all devices; seconds are per device. What
    is not an operation (collectives, overheads) follows, where the engine has any.
    """
    total_s = float(latency.total_s)
    rows: list[dict[str, Any]] = [
        {
            "op": op.op.name,
            "kind": op.op.kind,
            "count": op.op.count,
            "flops": float(op.op.count * op.op.flops),
            "weight_bytes": float(op.op.count * op.op.weight_bytes),
            "cache_bytes": float(op.op.count * op.op.cache_bytes),
            "activation_bytes": float(op.op.count * op.op.activation_bytes),
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


#: What rows of the same operation add up; in all else they are alike.
_ADDED: Final = (
    *("count", "flops", "weight_bytes", "cache_bytes", "activation_bytes"),
    *("compute_s", "memory_s", "seconds", "share"),
)


def _merged(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows with those of one operation, at one cost each, added up."""
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


def explain_table(latency: PassLatency, title: str) -> str:
    """Return the operations of one pass as a table, longest first."""
    rows = explain_rows(latency)
    header = ["operation", "x", "FLOP", "bytes", "FLOP/B", "in", "bound", "time", "share"]
    table = format_table(header, [_explain_cells(row) for row in rows])
    total = f"the pass takes {format_seconds(float(latency.total_s))}"
    return f"{title}: {total}\n\n{table}"


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


# --- what is bundled ---------------------------------------------------------------------------


def hardware_table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return the list of hardware profiles."""
    header = ["name", "bf16", "fp8", "fp4", "memory", "bandwidth", "engines", "title"]
    cells = [
        [
            row["name"],
            *(_peak(row, dtype) for dtype in ("bf16", "fp8", "fp4")),
            format_binary_bytes(row["peak"]["memory_bytes"]),
            format_si(row["peak"]["memory_bytes_per_s"], "B/s"),
            ", ".join(["ideal", *row["engines"]]),
            row["title"],
        ]
        for row in rows
    ]
    return format_table(header, cells, left=(0, 6, 7))


def _peak(row: Mapping[str, Any], dtype: str) -> str:
    flops_per_s = row["peak"]["flops_per_s"].get(dtype)
    return "-" if flops_per_s is None else format_si(flops_per_s, "")


def hardware_text(row: Mapping[str, Any]) -> str:
    """Return one profile's figures and their sources, line by line."""
    peak, link = row["peak"], row["interconnect"]
    lines = {
        **{
            f"peak {dtype}": format_si(value, "FLOP/s")
            for dtype, value in peak["flops_per_s"].items()
        },
        "memory": format_binary_bytes(peak["memory_bytes"]),
        "bandwidth": format_si(peak["memory_bytes_per_s"], "B/s"),
        "aliases": ", ".join(row["aliases"]),
        "engines": ", ".join(["ideal", *row["engines"]]),
    }
    if link is not None:
        rate = format_si(link["link_bytes_per_s"], "B/s")
        lines["link"] = f"{rate} each way, up to {link['max_devices']} devices"
    facts = format_table([row["title"], ""], lines.items(), left=(0, 1))
    sources = [f"source of {key}: {text}" for key, text in row["sources"].items()]
    return "\n".join([facts, *sources])
