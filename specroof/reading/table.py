"""A table of a user's own: the cells of each row as plain values, every refusal with its line."""

import csv
import math
import re
from collections.abc import Collection, Iterator
from typing import Final

from specroof.errors import MeasurementError, reject
from specroof.reading.yaml_text import shown

_NUMERAL: Final = re.compile(r"[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")


def parse_table(
    text: str, *, source: str, columns: Collection[str], needed: Collection[str]
) -> Iterator[tuple[str, dict[str, float | str]]]:
    r"""Yield the place and the cells of each row of a CSV; an empty cell is left out.

    Parameters
    ----------
    text
        A line of column names and at least one of values; lines that begin with ``#`` are left
        out.
    source
        How messages name it.
    columns
        The columns that may be there.
    needed
        Columns whose cells must not be empty.

    Raises
    ------
    MeasurementError
        For an empty table, an unknown, missing or repeated column, a row that is too short or
        too long, a repeated row, or a cell that is empty and needed.

    Examples
    --------
    >>> good = "# made up\nbatch,note\n8,\n1e3,fast\n"
    >>> for place, row in parse_table(good, source="a.csv", columns=("batch", "note"), needed=()):
    ...     print(place, row)
    a.csv, line 3 {'batch': 8}
    a.csv, line 4 {'batch': 1000.0, 'note': 'fast'}
    """
    lines = [
        (number, line)
        for number, line in enumerate(text.splitlines(), start=1)
        if line.strip() and not line.startswith("#")
    ]
    names = _column_names(lines, source, columns, needed)
    seen: dict[str, int] = {}
    for number, line in lines[1:]:
        place = f"{source}, line {number}"
        cells = csv_cells(line, place)
        if len(cells) != len(names):
            message = f"{place}: has {len(cells)} values; must have {len(names)}, one a column"
            raise MeasurementError(message)
        if line in seen:
            message = f"{place}: repeats line {seen[line]}; each point may be there once"
            raise MeasurementError(message)
        seen[line] = number
        row = {
            name: plain_value(cell)
            for name, cell in zip(names, map(str.strip, cells), strict=True)
            if cell
        }
        for name in needed:
            if name not in row:
                message = f"{place}: {name} is empty; it is needed"
                raise MeasurementError(message)
        yield place, row


def plain_value(text: str) -> float | str:
    """Return the number that a cell spells, or its text where it spells none.

    Examples
    --------
    >>> plain_value("1.5e3"), plain_value("-16"), plain_value("fast"), plain_value("1_000")
    (1500.0, -16, 'fast', '1_000')
    >>> plain_value("1e999")  # is no number
    '1e999'
    """
    # Python itself reads 1_000, too, and the digits of any script.
    number = float(text) if _NUMERAL.fullmatch(text) else math.nan
    if not math.isfinite(number):
        return text
    return int(text) if text.lstrip("+-").isdigit() else number


def _column_names(
    lines: list[tuple[int, str]], source: str, columns: Collection[str], needed: Collection[str]
) -> list[str]:
    """Return the names of the columns, once they are known to be good ones."""
    if not lines:
        reject(f"{source}: is empty", "a line of column names and one a point", MeasurementError)
    place = f"{source}, line {lines[0][0]}"
    names = [name.strip() for name in csv_cells(lines[0][1], place)]
    for name in names:
        if name not in columns:
            reject(
                f"{place}: column {shown(name)} is unknown", ", ".join(columns), MeasurementError
            )
        if names.count(name) > 1:
            message = f"{place}: column {name!r} appears twice"
            raise MeasurementError(message)
    for name in needed:
        if name not in names:
            message = f"{place}: column {name!r} is missing; needed are {', '.join(needed)}"
            raise MeasurementError(message)
    if len(lines) == 1:
        reject(f"{place}: holds column names alone", "a line a point below it", MeasurementError)
    return names


def csv_cells(line: str, place: str) -> list[str]:
    """Return the cells of a line.

    Raises
    ------
    MeasurementError
        If the line cannot be CSV.

    Examples
    --------
    >>> csv_cells('batch,"a, b"', "x.csv, line 1")
    ['batch', 'a, b']
    """
    try:
        (cells,) = csv.reader([line])
    except csv.Error as problem:  # a cell of more than 131 072 characters
        reject(f"{place}: {problem}", "plain CSV", MeasurementError)
    return cells
