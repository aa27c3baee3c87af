"""Text of any result: a table in columns, JSON on one line, rows as CSV."""

import csv
import io
import json
import math
import re
import shlex
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from html import escape
from typing import Final, TypeAlias

from specroof.errors import Assumed, Note, Urgent, one_line, printable

# --- Text that fits a screen: folded lines and tables, sources in brief --------------------------
# A table that is too wide first breaks its titles into words, then its last column where that is
# text. A last column that is the only text names rows: it stands above them. What is still too wide
# goes on below itself, its first columns repeated, in parts of about the same width.

Lines: TypeAlias = Sequence[Sequence[str]]


#: Columns of the screen; None where lines may be of any length, as in a file.
_WIDTH: ContextVar[int | None] = ContextVar("width", default=None)
#: Whether all sources are shown.
_SOURCES: ContextVar[bool] = ContextVar("sources", default=False)
#: Whether notes and further tables are shown.
_NOTES: ContextVar[bool] = ContextVar("notes", default=False)
#: What a column of text keeps at least, before a table goes on below itself.
_LEAST_TEXT: Final = 20
_GAP: Final = 2


@contextmanager
def on_screen(width: int | None) -> Iterator[None]:
    """Fit text that is written inside to `width` columns, without notes and sources."""
    tokens = _WIDTH.set(width), _SOURCES.set(False), _NOTES.set(False)
    try:
        yield
    finally:
        _WIDTH.reset(tokens[0])
        _SOURCES.reset(tokens[1])
        _NOTES.reset(tokens[2])


def show_notes() -> None:
    """Show notes and further tables, as long as the screen lasts."""
    _NOTES.set(True)


def name_sources() -> None:
    """Show notes, and all sources in full, as long as the screen lasts."""
    show_notes()
    _SOURCES.set(True)


def shows_notes() -> bool:
    """Tell whether notes and further tables are shown."""
    return _NOTES.get()


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


def _parts(widths: Sequence[int], keys: int, limit: int) -> list[list[int]]:
    """Return the columns of each part of a table that goes on below itself."""
    names = list(range(keys))
    parts = [[*names]]
    for column in range(keys, len(widths)):
        if parts[-1] != names and _total([widths[i] for i in (*parts[-1], column)]) > limit:
            parts.append([*names])
        parts[-1].append(column)
    return parts


def _widths(lines: Lines) -> list[int]:
    return [max(map(len, column)) for column in zip(*lines, strict=True)]


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + _GAP * (len(widths) - 1)


def _broken_titles(lines: Lines) -> Lines:
    """Return the titles in several lines, as narrow as their words and the cells allow."""
    broken = [
        _wrapped(title, max([*map(len, title.split()), *map(len, cells), 1]))
        for title, *cells in zip(*lines, strict=True)
    ]
    high = max(map(len, broken))
    return list(zip(*([""] * (high - len(title)) + title for title in broken), strict=True))


def _wrapped(text: str, width: int) -> list[str]:
    return textwrap.wrap(text, width, break_long_words=False, break_on_hyphens=False)


def _aligned(titles: Lines, body: Lines, left: Sequence[int], names: Sequence[str] = ()) -> str:
    """Return rows of cells in columns; each name stands above the first of its rows."""
    titles = [*filter(any, titles)]
    lines = [*titles, *body]
    widths = _widths(lines)
    shown = [
        (" " * _GAP)
        .join(
            cell.ljust(widths[i]) if i in left else cell.rjust(widths[i])
            for i, cell in enumerate(line)
        )
        .rstrip()
        for line in lines
    ]
    for row in reversed(range(len(names))):
        if row == 0 or names[row] != names[row - 1]:
            shown.insert(len(titles) + row, names[row])
    return "\n".join(shown)


#: What stands in a table where there is no figure.
ABSENT: Final = "-"

#: What no reader of CSV gives back: a line end of old in a cell, and what is no UTF-8.
_NO_CSV: Final = re.compile("[\r\ud800-\udfff]")

#: Text that a spreadsheet takes for a formula, with apostrophes before it or not.
_FORMULA: Final = re.compile("'*[=+@\t-]")


def in_line(name: str) -> str:
    r"""Return a name as it stands in a line that people read: printable, without line breaks.

    Examples
    --------
    >>> print(in_line("my chip\nnote: all is well"))
    my chip\nnote: all is well
    """
    return printable(name).replace("\n", r"\n")


def format_table(
    header: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    left: Sequence[int] = (0,),
    keys: int = 1,
) -> str:
    """Return a table in columns, numbers to the right, folded where a screen is too narrow.

    Parameters
    ----------
    header
        One title per column.
    rows
        Cells as text.
    left
        Columns of text, aligned to the left; all others are numbers, aligned to the right.
    keys
        How many of the first columns name a row: they are repeated where a table goes on below
        itself.

    Examples
    --------
    >>> print(format_table(["γ", "speedup", "drafter"], [["16", "2.98x", "block"]], left=[2]))
     γ  speedup  drafter
    16    2.98x  block
    """
    lines = [[in_line(text) for text in line] for line in (header, *rows)]
    width, body = _WIDTH.get(), lines[1:]
    if width is None or _total(_widths(lines)) <= width:
        return _aligned([lines[0]], body, left)
    titles = _broken_titles(lines)
    widths = _widths([*titles, *body])
    if _total(widths) <= width:
        return _aligned(titles, body, left)
    last_column = len(widths) - 1
    room = width - _total(widths[:-1]) - _GAP
    longest = max(len(word) for line in body for word in ["", *line[-1].split()])
    if last_column in left and room >= max(_LEAST_TEXT, longest):
        rows = []
        for *cells, last in body:
            first, *others = _wrapped(last, room) or [""]
            rows += [[*cells, first], *([*[""] * len(cells), other] for other in others)]
        return _aligned(titles, rows, left)
    names: Sequence[str] = []
    if set(left) == {last_column}:
        names, widths = [line[-1] for line in body], widths[:-1]
    most = len(_parts(widths, keys, width))
    limits = range(width + 1)
    parts = next(parts for limit in limits if len(parts := _parts(widths, keys, limit)) == most)
    return "\n\n".join(
        _aligned(
            [[line[column] for column in part] for line in titles],
            [[line[column] for column in part] for line in body],
            [place for place, column in enumerate(part) if column in left],
            names,
        )
        for part in parts
    )


def figure(value: float | None, spelt: Callable[[float], str]) -> str:
    """Return a figure as the cell of a table, "-" where there is none.

    Examples
    --------
    >>> figure(2.5, "{:.2f}x".format), figure(None, str), figure(float("nan"), str)
    ('2.50x', '-', '-')
    """
    return ABSENT if value is None or math.isnan(value) else spelt(value)


def note_lines(notes: Iterable[str]) -> str:
    """Return a line for each note."""
    told = ((brief(note), " (--sources says more)" * (brief(note) != note)) for note in notes)
    return "\n".join(fitted(f"note: {one_line(short + hint)}") for short, hint in told)


#: How a sentence of how sure an answer is begins, where its acceptance was measured elsewhere.
ASSUMED: Final = "the acceptance is assumed; of times: "


def closing(
    notes: Sequence[str], warnings: Sequence[str], *, sureness: str = "", is_more: bool = False
) -> str:
    """Return warnings, how sure an answer is, and its notes or how to see them.

    Notes that change the decision stand with the warnings.

    Parameters
    ----------
    notes, warnings, sureness
        As of an answer.
    is_more
        Whether tables are shown together with the notes.
    """
    urgent = [note for note in notes if isinstance(note, Urgent)]
    notes = [note for note in notes if not isinstance(note, Urgent)]
    lines = [note_lines([*warnings, *urgent])]
    if sureness:
        assumed = any(isinstance(note, Assumed) for note in urgent)
        lines.append(wrapped(f"how sure: {ASSUMED * assumed}{sureness}"))
    if shows_notes():
        lines.append(note_lines(notes))
    elif notes or is_more:
        count = f"{len(notes)} note{'s' * (len(notes) != 1)}" if notes else ""
        lines.append(f"more: {' and '.join(filter(None, [count, 'tables' * is_more]))} (--notes)")
    return "\n".join(filter(None, lines))


def folded(command: str) -> str:
    """Return a command in lines of the screen: broken between words, and within JSON at commas."""
    width = _WIDTH.get() or sys.maxsize
    lines, line = [], ""
    for word in shlex.split(command):
        quoted = shlex.quote(word)
        if line and len(line) + len(" \\ ") + len(quoted) > width:
            lines.append(f"{line} \\")
            line = "  "
        line += f"{' ' * bool(line.strip())}{quoted}"
        # Between its commas, line breaks mean nothing to JSON, and to a shell in quotes.
        while len(line) > width and (cut := line.rfind(", ", 0, width)) > 0:
            lines.append(line[: cut + 1])
            line = f"    {line[cut + 2 :]}"
    return "\n".join([*lines, line])


def wrapped(text: str) -> str:
    """Return a text in lines of the screen, its later lines indented."""
    return fitted(in_line(text))


def json_line(value: object) -> str:
    r"""Return `value` as JSON on one line; infinities are a programming error, never printed.

    All but ASCII is escaped, so that every terminal and locale takes it.

    Examples
    --------
    >>> print(json_line({"γ": "\ud800"}))
    {"\u03b3": "\ud800"}
    """
    return json.dumps(value, allow_nan=False)


def rows_csv(rows: Sequence[Mapping[str, object]], names: Sequence[str]) -> str:
    """Return rows as CSV with a header, which no rows have too; None is empty, and True is 1.

    Examples
    --------
    >>> print(rows_csv([{"devices": 8, "fits": True}], ["devices", "fits"]))
    devices,fits
    8,1
    <BLANKLINE>
    """
    return columns_csv([{name: [_number(row[name]) for row in rows] for name in names}])


def _number(value: object) -> object:
    return int(value) if isinstance(value, bool) else value


def columns_csv(parts: Iterable[Mapping[str, Sequence[object]]], *, header: bool = True) -> str:
    """Return columns as CSV with a header; None is an empty cell.

    Text stays as it is, with two exceptions. What no reader gives back, carriage returns and halves
    of characters, is spelt out. Text that spreadsheets run as a formula, since it begins with = + -
    @ or a tab, has an apostrophe in front; so has such text behind apostrophes, so that `unescaped`
    gives back all texts.

    Parameters
    ----------
    parts
        Columns by name, all of the same names: the rows of each part follow those before it.
    header
        Whether the first line names the columns.

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
        if header and number == 0:
            writer.writerow(columns)
        writer.writerows(zip(*map(_cells, columns.values()), strict=True))
    return text.getvalue()


def _cells(column: Sequence[object]) -> Sequence[object]:
    """Return a column with text that readers of CSV give back, and spreadsheets do not run."""
    texts = {value for value in column if isinstance(value, str)}
    clean = {text: _cell(text) for text in texts if _NO_CSV.search(text) or _FORMULA.match(text)}
    if not clean:
        return column
    return [clean.get(value, value) if isinstance(value, str) else value for value in column]


def _cell(text: str) -> str:
    spelt = _NO_CSV.sub(lambda match: printable(match[0]), text)
    return f"'{spelt}" if _FORMULA.match(text) else spelt


def unescaped(text: str) -> str:
    """Return the text of a cell without the apostrophe that `columns_csv` puts before a formula.

    Examples
    --------
    >>> unescaped("'=1+1"), unescaped("''-x"), unescaped("'quoted'"), unescaped("-1")
    ('=1+1', "'-x", "'quoted'", '-1')
    """
    return text[1:] if text.startswith("'") and _FORMULA.match(text[1:]) else text


# --- Answers as notebooks show them: a small table, and sentences below it -----------------------


def facts_html(title: str, facts: Mapping[str, object], sentences: Iterable[str]) -> str:
    """Return a table of facts, by name, and sentences below it.

    Parameters
    ----------
    title, facts, sentences
        What is shown, as text.

    Examples
    --------
    >>> facts_html("x < y", {"batch": 3}, ["a note"])
    '<table><caption>x &lt; y</caption><tr><th>batch</th><td>3</td></tr></table><p>a note</p>'
    """
    rows = "".join(
        f"<tr><th>{escape(name)}</th><td>{escape(str(value))}</td></tr>"
        for name, value in facts.items()
    )
    notes = "".join(f"<p>{escape(sentence)}</p>" for sentence in sentences)
    return f"<table><caption>{escape(title)}</caption>{rows}</table>{notes}"
