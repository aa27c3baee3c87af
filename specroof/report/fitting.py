"""Text that fits a screen: folded lines and tables, sources in brief.

A table that is too wide first breaks its titles into words, then its last column where that is
text, and then goes on below itself, its first columns repeated.
"""

import textwrap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final, TypeAlias

from specroof.errors import Note

Lines: TypeAlias = Sequence[Sequence[str]]


#: Columns of the screen; None where lines may be of any length, as in a file.
_WIDTH: ContextVar[int | None] = ContextVar("width", default=None)
#: Whether all sources are shown.
_SOURCES: ContextVar[bool] = ContextVar("sources", default=False)
#: What a column of text keeps at least, before a table goes on below itself.
_LEAST_TEXT: Final = 20
_GAP: Final = 2


@contextmanager
def on_screen(width: int | None) -> Iterator[None]:
    """Fit text that is written inside to `width` columns, with sources in brief."""
    tokens = _WIDTH.set(width), _SOURCES.set(False)
    try:
        yield
    finally:
        _WIDTH.reset(tokens[0])
        _SOURCES.reset(tokens[1])


def name_sources() -> None:
    """Show all sources in full, as long as the screen lasts."""
    _SOURCES.set(True)


def brief(text: str) -> str:
    """Return a sentence as short as it can be, unless all sources are asked for.

    Examples
    --------
    >>> brief(Note("engine mine: a fit, https://example.com", short="engine mine"))
    'engine mine'
    """
    return text.short if isinstance(text, Note) and not _SOURCES.get() else text


def fitted(text: str) -> str:
    """Return text whose lines are broken between words where they are wider than the screen.

    Examples
    --------
    >>> with on_screen(20):
    ...     print(fitted("note: no word is ever broken"))
    note: no word is
      ever broken
    """
    width = _WIDTH.get()
    if width is None:
        return text
    return "\n".join(
        textwrap.fill(
            line,
            width,
            subsequent_indent="  ",
            replace_whitespace=False,
            break_long_words=False,
            break_on_hyphens=False,
        )
        for line in text.split("\n")
    )


def folded_table(lines: Lines, left: Sequence[int], keys: int) -> str:
    """Return rows of cells, titles first, as columns that fit the screen.

    Parameters
    ----------
    lines
        The titles, then the rows.
    left
        Columns of text; all others are numbers, aligned to the right.
    keys
        How many of the first columns are repeated where a table goes on below itself.
    """
    width = _WIDTH.get()
    columns = range(len(lines[0]))
    if width is None or _total(_widths(lines)) <= width:
        return _aligned([lines[0]], lines[1:], left)
    body = lines[1:]
    titles = _broken_titles(lines)
    widths = _widths([*titles, *body])
    if _total(widths) <= width:
        return _aligned(titles, body, left)
    room = width - _total(widths[:-1]) - _GAP
    if columns[-1] in left and room >= _LEAST_TEXT:
        return _aligned(titles, _broken_last(body, room), left)
    return "\n\n".join(
        _aligned(
            _picked(titles, part),
            _picked(body, part),
            [place for place, column in enumerate(part) if column in left],
        )
        for part in _parts(widths, width, keys)
    )


def _picked(lines: Lines, columns: Sequence[int]) -> Lines:
    return [[line[column] for column in columns] for line in lines]


def _widths(lines: Lines) -> list[int]:
    return [max(map(len, column)) for column in zip(*lines, strict=True)]


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + _GAP * (len(widths) - 1)


def _broken_titles(lines: Lines) -> Lines:
    """Return the titles in several lines, as narrow as their words and the cells allow."""
    narrow = [
        max([*map(len, title.split()), *map(len, cells), 1])
        for title, *cells in zip(*lines, strict=True)
    ]
    broken = [
        textwrap.wrap(title, room, break_long_words=False, break_on_hyphens=False)
        for title, room in zip(lines[0], narrow, strict=True)
    ]
    high = max(map(len, broken))
    return list(zip(*([""] * (high - len(one)) + one for one in broken), strict=True))


def _broken_last(body: Lines, room: int) -> list[list[str]]:
    """Return rows whose last cell goes on in further rows."""
    rows = []
    for *cells, last in body:
        parts = textwrap.wrap(last, room, break_long_words=False, break_on_hyphens=False) or [""]
        rows += [[*cells, parts[0]], *([*[""] * len(cells), part] for part in parts[1:])]
    return rows


def _parts(widths: Sequence[int], width: int, keys: int) -> Iterator[list[int]]:
    """Yield columns that fit beside each other, the first `keys` of them in every part."""
    first = list(range(keys))
    part = list(first)
    for column in range(keys, len(widths)):
        if part != first and _total([widths[i] for i in (*part, column)]) > width:
            yield part
            part = list(first)
        part.append(column)
    yield part


def _aligned(titles: Lines, body: Lines, left: Sequence[int]) -> str:
    lines = [*filter(any, titles), *body]
    widths = _widths(lines)
    return "\n".join(
        (" " * _GAP)
        .join(
            cell.ljust(widths[i]) if i in left else cell.rjust(widths[i])
            for i, cell in enumerate(line)
        )
        .rstrip()
        for line in lines
    )
