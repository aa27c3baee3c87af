"""Text of any result: a table in columns, JSON on one line, rows as CSV."""

import csv
import io
import json
from collections.abc import Iterable, Mapping, Sequence

__all__ = ["format_table", "json_line", "note_lines", "rows_csv"]


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


def note_lines(notes: Iterable[str]) -> str:
    """Return a line for each note."""
    return "\n".join(f"note: {note}" for note in notes)


def json_line(value: object) -> str:
    """Return `value` as JSON on one line; infinities are a programming error, never printed."""
    return json.dumps(value, allow_nan=False, ensure_ascii=False)


def rows_csv(rows: Sequence[Mapping[str, object]]) -> str:
    """Return rows of equal keys as CSV with a header; None is an empty cell."""
    text = io.StringIO()
    writer = csv.DictWriter(text, fieldnames=list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()
