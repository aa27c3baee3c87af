"""A table of a user's own: text to checked cells, every refusal with its line."""

import csv
import math
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from specroof.errors import MeasurementError, reject
from specroof.reading.yaml_text import shown

_NUMERAL: Final = re.compile(r"\+?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")


def amount(text: str) -> float:
    """Return a number above 0.

    Raises
    ------
    ValueError
        With what is allowed.

    Examples
    --------
    >>> amount("1.5e3"), count("16")
    (1500.0, 16)
    """
    # Python itself reads 1_000, too, and the digits of any script.
    value = float(text) if _NUMERAL.fullmatch(text) else math.nan
    if not (value > 0 and math.isfinite(value)):
        message = "a finite number above 0"
        raise ValueError(message)
    return value


def count(text: str) -> int:
    """Return a whole number of at least 1.

    Raises
    ------
    ValueError
        With what is allowed.
    """
    # Python reads no whole number of more than 4300 digits.
    if not (text.isdecimal() and text.isascii() and len(text) < 300 and int(text) >= 1):
        message = "a whole number of at least 1"
        raise ValueError(message)
    return int(text)


def parse_table(
    text: str,
    *,
    source: str,
    readers: Mapping[str, Callable[[str], Any]],
    needed: tuple[str, ...],
) -> Iterator[tuple[int, dict[str, Any]]]:
    r"""Yield the line number and the cells of each row of a CSV, None for an empty cell.

    Parameters
    ----------
    text
        A line of column names and at least one of values; lines that begin with ``#`` are left
        out.
    source
        How messages name it.
    readers
        What reads the cells of each column that may be there; raises ValueError with what is
        allowed.
    needed
        Columns whose cells must not be empty.

    Raises
    ------
    MeasurementError
        For an empty table, an unknown, missing or repeated column, a row that is too short or
        too long, a repeated row, or a cell that its reader refuses.

    Examples
    --------
    >>> good = "# made up\nbatch,note\n8,\n"
    >>> list(parse_table(good, source="a.csv", readers={"batch": count, "note": str}, needed=()))
    [(3, {'batch': 8, 'note': None})]
    """
    lines = [
        (number, line)
        for number, line in enumerate(text.splitlines(), start=1)
        if line.strip() and not line.startswith("#")
    ]
    names = _columns(lines, source, readers, needed)
    seen: dict[str, int] = {}
    for number, line in lines[1:]:
        place = f"{source}, line {number}"
        cells = _cells(line, place)
        if len(cells) != len(names):
            message = f"{place}: has {len(cells)} values; must have {len(names)}, one a column"
            raise MeasurementError(message)
        if line in seen:
            message = f"{place}: repeats line {seen[line]}; each point may be there once"
            raise MeasurementError(message)
        seen[line] = number
        row = dict(zip(names, cells, strict=True))
        yield number, {name: _cell(row[name], name, place, readers, needed) for name in names}


def _columns(
    lines: list[tuple[int, str]],
    source: str,
    readers: Mapping[str, Callable[[str], Any]],
    needed: tuple[str, ...],
) -> list[str]:
    """Return the names of the columns, once they are known to be good ones."""
    if len(lines) < 2:  # a line of names, and a line of values
        reject(f"{source}: is empty", "a line of column names and one a point", MeasurementError)
    place = f"{source}, line {lines[0][0]}"
    names = [name.strip() for name in _cells(lines[0][1], place)]
    for name in names:
        if name not in readers:
            reject(
                f"{place}: column {shown(name)} is unknown", ", ".join(readers), MeasurementError
            )
        if names.count(name) > 1:
            message = f"{place}: column {name!r} appears twice"
            raise MeasurementError(message)
    for name in needed:
        if name not in names:
            message = f"{place}: column {name!r} is missing; needed are {', '.join(needed)}"
            raise MeasurementError(message)
    return names


def _cells(line: str, place: str) -> list[str]:
    """Return the cells of a line."""
    try:
        (cells,) = csv.reader([line])
    except csv.Error as problem:  # a cell of more than 131 072 characters
        reject(f"{place}: {problem}", "plain CSV", MeasurementError)
    return cells


def _cell(
    text: str,
    name: str,
    place: str,
    readers: Mapping[str, Callable[[str], Any]],
    needed: tuple[str, ...],
) -> Any:
    text = text.strip()
    if not text:
        if name in needed:
            message = f"{place}: {name} is empty; it is needed"
            raise MeasurementError(message)
        return None
    try:
        return readers[name](text)
    except ValueError as allowed:
        reject(f"{place}: {name} is {shown(text)}", str(allowed), MeasurementError)
