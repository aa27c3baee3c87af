"""Sizes of models as text: a list, a page, and what two models differ in."""

from collections.abc import Mapping, Sequence
from typing import Any

from specroof.questions.models import Fact, ModelDiff, ModelFacts
from specroof.report.layout import format_table
from specroof.units import format_binary_bytes, format_count


def models_table(found: Sequence[ModelFacts]) -> str:
    """Return the list of models."""
    rows = [one.to_dict() for one in found]
    header = ["model", "params", "active", "weights", "KV/token", "layers"]
    cells = [
        [
            row["name"],
            format_count(row["params"]),
            format_count(row["active_params"]),
            format_binary_bytes(row["weight_bytes"]),
            format_binary_bytes(row["kv_bytes_per_token"]),
            _kinds(row["layer_kinds"]),
        ]
        for row in rows
    ]
    return format_table(header, cells, left=(0, 5))


def _kinds(kinds: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {name}" for name, count in kinds.items())


def model_text(found: ModelFacts) -> str:
    """Return one model's sizes, line by line."""
    row = found.to_dict()
    lines = {
        "family": row["family"],
        "parameters": f"{row['params']:,} ({format_count(row['params'])})",
        "active": f"{row['active_params']:,} ({format_count(row['active_params'])})",
        "weights": f"{format_binary_bytes(row['weight_bytes'])}: {_formats(row)}",
        "KV per token": _bytes_in(row, "kv_bytes_per_token", "kv_dtype"),
        "fixed state": f"{_bytes_in(row, 'state_bytes', 'state_dtype')} per sequence",
        "layers": f"{row['layers']}: {_kinds(row['layer_kinds'])}",
    }
    facts = format_table([row["name"], ""], lines.items(), left=(0, 1))
    return "\n".join([facts, *(f"note: {note}" for note in found.notes)])


def _formats(row: Mapping[str, Any]) -> str:
    """Return the formats of the matrices, the one of the most elements first, and what is none.

    A head that is the embedding, too, is among the matrices.
    """
    counts = sorted(row["weight_formats"].items(), key=lambda item: -item[1])
    others = row["params"] - sum(row["weight_formats"].values())
    return ", ".join(
        [
            *(f"{format_count(count)} in {name}" for name, count in counts),
            f"{format_count(others)} of tables, norms and biases",
        ]
    )


def _bytes_in(row: Mapping[str, Any], amount: str, dtype: str) -> str:
    held = format_binary_bytes(row[amount])
    return f"{held} in {row[dtype]}" if row[amount] else held


def diff_text(found: ModelDiff) -> str:
    """Return the differences of two models, and the notes on each."""
    names = [model.name for model in found.models]
    table = diff_table(names, found.differences)
    return "\n".join([table, *(f"note {note}" for note in found.notes)])


def diff_table(names: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> str:
    """Return the result of `model_diff` as a table for people.

    Parameters
    ----------
    names
        What to call the two models.
    rows
        From `model_diff`.

    Examples
    --------
    >>> row = {"group": "formats", "name": "weight_bytes", "values": [2048.0, 1024.0]}
    >>> print(diff_table(["Model", "Model-FP8"], [row]))
    a: Model
    b: Model-FP8
    <BLANKLINE>
                           a         b         b / a
    formats  weight_bytes  2.00 KiB  1.00 KiB  0.500
    """
    title = "\n".join(f"{letter}: {name}" for letter, name in zip("ab", names, strict=True))
    if not rows:
        return f"{title}\n\nno difference in what determines cost"
    cells = [[row["group"], row["name"], *_value_cells(row["name"], row["values"])] for row in rows]
    table = format_table(["", "", "a", "b", "b / a"], cells, left=(0, 1, 2, 3))
    return f"{title}\n\n{table}"


def _value_cells(name: str, values: Sequence[Fact]) -> list[str]:
    """Return both values as text, and their ratio where they are numbers."""
    texts = [_text(name, value) for value in values]
    first, second = values
    if not (_is_number(first) and _is_number(second)) or not first:
        return [*texts, ""]
    return [*texts, f"{float(second or 0) / float(first):.3f}"]


def _is_number(value: Fact) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _text(name: str, value: Fact) -> str:
    if value is None:
        return "-"
    if not _is_number(value):
        return str(value)
    return format_binary_bytes(float(value)) if "bytes" in name else f"{value:,}"
