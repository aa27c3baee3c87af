"""Text of any result: a table in columns, JSON on one line, rows as CSV."""

import csv
import io
import json
from collections.abc import Iterable, Mapping, Sequence

__all__ = ["columns_csv", "format_table", "json_line", "rows_csv"]


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


def json_line(value: object) -> str:
    """Return `value` as JSON on one line; infinities are a programming error, never printed."""
    return json.dumps(value, allow_nan=False, ensure_ascii=False)


def rows_csv(rows: Sequence[Mapping[str, object]]) -> str:
    """Return rows of equal keys as CSV with a header; None is an empty cell."""
    return columns_csv([{name: [row[name] for row in rows] for name in rows[0]}])


def columns_csv(parts: Iterable[Mapping[str, Sequence[object]]]) -> str:
    """Return columns as CSV with a header; None is an empty cell.

    Parameters
    ----------
    parts
        Columns by name, all of the same names: the rows of each part follow those before it.

    Examples
    --------
    >>> print(columns_csv([{"γ": [1, 2], "speedup": [1.5, None]}, {"γ": [3], "speedup": [2.0]}]))
    γ,speedup
    1,1.5
    2,
    3,2.0
    <BLANKLINE>
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    for number, columns in enumerate(parts):
        if number == 0:
            writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))
    return text.getvalue()
