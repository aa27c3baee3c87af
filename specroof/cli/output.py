"""The output of commands: lines on standard output, and files that appear whole."""

import os
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import typer

from specroof.cli.streams import STANDARD_OUTPUT, give_data, say_aside
from specroof.errors import OutputError, printable
from specroof.report.fitting import fitted
from specroof.report.layout import json_line

Figures: TypeAlias = Callable[[], Mapping[str, Any]]


def say(text: str, *, to_paste: bool = False) -> None:
    """Print to standard output, as wide as the terminal is; lines to paste stay whole."""
    shown = printable(text) if to_paste else fitted(printable(text))
    if sys.stdout.isatty() and not os.environ.get("NO_COLOR"):
        from specroof.cli import colors  # noqa: PLC0415 - rich is slow to import

        colors.show(shown)
    else:
        _print(shown)


def say_json(value: object) -> None:
    """Print JSON on one line."""
    _print(printable(json_line(value)))


def _print(text: str) -> None:
    # Named, since Typer sends UTF-8 to a standard output that says it takes ASCII.
    typer.echo(text, file=sys.stdout)


def give(
    value: Callable[[], object],
    text: Callable[[], str],
    *files: Mapping[Path, bytes],
    as_json: bool,
    to_paste: bool = False,
) -> None:
    """Write the files of an answer, then print it as JSON on one line, or as text.

    Parameters
    ----------
    value, text
        Make the JSON and the text; one of them is printed.
    files
        Groups of files, see `write`.
    as_json
        Whether --json was given.
    to_paste
        Whether the lines of the text stay whole.

    Raises
    ------
    OutputError
        As `write` does.
    """
    write(*files, as_json=as_json)
    if as_json:
        say_json(value())
    else:
        say(text(), to_paste=to_paste)


def text_file(path: Path | None, text: Callable[[], str]) -> dict[Path, bytes]:
    """Return a text as the file `path`; None writes nothing."""
    return {} if path is None else {path: text().encode()}


def figure_files(path: Path | None, draw: Figures) -> dict[Path, bytes]:
    """Return figures as files: the first as `path`, others beside it under longer names.

    Parameters
    ----------
    path
        Where the first goes; None draws nothing.
    draw
        Returns figures by what their names end in.

    Raises
    ------
    OutputError
        For a path without a name, and several charts on standard output.
    """
    if path is None:
        return {}
    if not path.name:
        message = f"--plot is {str(path)!r}; allowed: the name of a file"
        raise OutputError(message)
    from specroof import plot  # noqa: PLC0415 - matplotlib is slow to import

    figures = draw()
    if path == STANDARD_OUTPUT:
        if len(figures) > 1:
            message = f"-: {len(figures)} charts, and standard output takes one; allowed: a file"
            raise OutputError(message)
        (figure,) = figures.values()
        return {path: plot.figure_bytes(figure, "-.png")}
    names = {path.with_stem(path.stem + ending): one for ending, one in figures.items()}
    return {name: plot.figure_bytes(figure, name) for name, figure in names.items()}


def write(*groups: Mapping[Path, bytes], as_json: bool) -> None:
    """Write the files of all groups, or none of them, and name them; `-` is standard output.

    Raises
    ------
    OutputError
        For `-` together with --json, and a file that cannot be written.
    """
    if not any(groups):
        return
    from specroof.report import writing  # noqa: PLC0415 - most answers are only printed

    files = writing.joined_files(*groups)
    data = files.pop(STANDARD_OUTPUT, None)
    if as_json and data is not None:
        message = "-: --json goes to standard output too; allowed: a file for one of them"
        raise OutputError(message)
    writing.write_files(files)
    _say_written(files)
    if data is not None:
        give_data(data)


def write_folder(folder: Path, *groups: Mapping[Path, bytes]) -> None:
    """Write the files of one run into a folder, and say so on standard error."""
    from specroof.report import writing  # noqa: PLC0415 - as above

    files = writing.joined_files(*groups)
    writing.write_folder(folder, {path.name: data for path, data in files.items()})
    say_aside(f"wrote {len(files)} files: {folder}")


def _say_written(paths: Iterable[Path]) -> None:
    for path in paths:
        say_aside(f"wrote {path}")


def check_folder(folder: Path) -> None:
    """Refuse a folder that cannot be made, before minutes are spent on its files.

    Raises
    ------
    OutputError
        For standard output, a place below a file, or a name that is too long.
    """
    if folder == STANDARD_OUTPUT:
        message = "-: standard output is not a folder; allowed: a folder, or a place for a new one"
        raise OutputError(message)
    try:
        there = next(path for path in (folder, *folder.absolute().parents) if path.exists())
        if not there.is_dir():
            message = f"{folder}: {there} is a file; allowed: a folder, or a place for a new one"
            raise OutputError(message)
    except OSError as failure:
        message = f"{folder}: {failure.strerror}; allowed: a folder that can be written to"
        raise OutputError(message) from None
