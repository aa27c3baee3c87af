"""The output of commands: lines on standard output, and files that appear whole."""

import codecs
import contextlib
import io
import os
import shutil
import sys
import unicodedata
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import typer

from specroof.errors import OutputError, printable, reject
from specroof.report import writing
from specroof.report.layout import fitted, json_line

# --- Standard output and error as they are: closed, full, a terminal, in any encoding ------------

#: What stands for standard output where a file is asked for.
STANDARD_OUTPUT: Final = Path("-")

#: What stands for our own signs where an encoding lacks them: one letter keeps a table straight.
_SPELT: Final = str.maketrans(
    {
        **dict(zip("γαπσρχµμ×→−·–—’Σ", "gapsrxuux>-*--'S", strict=True)),
        "…": "...",
        "≥": ">=",
        "≤": "<=",
        "∞": "inf",
    }
)
_NAME: Final = "specroof.spelt"


def _spelt(error: Any) -> tuple[str, int]:
    """Return a spelling for letters that an encoding lacks, as codecs ask for it."""
    text = error.object[error.start : error.end].translate(_SPELT)
    bare = (unicodedata.normalize("NFKD", letter)[0] for letter in text)
    return "".join(letter if letter.isascii() else "?" for letter in bare), error.end


codecs.register_error(_NAME, _spelt)


def ready_streams() -> None:
    """Let standard output and error take any text, whatever the locale.

    Raises
    ------
    OutputError
        If standard output is closed: Python would write nothing, and not say so.
    """
    if sys.stdout is None:
        reject("standard output is closed", "a terminal, a file or a pipe", OutputError)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=_NAME)


def screen_width() -> int | None:
    """Return the columns that lines fit: COLUMNS, else the terminal's, None for a pipe or file."""
    is_known = os.environ.get("COLUMNS") or sys.stdout.isatty()
    return shutil.get_terminal_size().columns if is_known else None


def say_aside(text: str) -> None:
    """Print to standard error; a closed standard error is ignored."""
    try:
        typer.echo(printable(text), file=sys.stderr, err=True)
    except OSError:
        drop(sys.stderr)


@contextlib.contextmanager
def progress(steps: int, label: str, *, hidden: bool = False) -> Iterator[Callable[[int], None]]:
    """Yield a function that counts steps that are done; at a terminal, a bar shows them."""
    if hidden or sys.stderr is None or not sys.stderr.isatty():
        yield lambda _: None
        return
    how: dict[str, Any] = {"show_pos": True, "show_percent": True, "file": sys.stderr}
    with typer.progressbar(length=steps, label=label, **how) as bar:
        yield bar.update


def drop(stream: Any) -> None:
    """Let go of what a stream could not write: Python would try, and fail, once more at its end."""
    with contextlib.suppress(OSError):  # a stream without a file
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def give_data(data: bytes) -> None:
    """Write the content of a file to standard output; what people read goes to standard error then.

    Raises
    ------
    OutputError
        For a chart where standard output is a terminal.
    """
    if sys.stdout.isatty():
        try:
            data = printable(data.decode()).encode()
        except UnicodeDecodeError:
            message = "-: standard output is a terminal; allowed for a chart: a file or a pipe"
            raise OutputError(message) from None
    sys.stdout.flush()
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()
    sys.stdout = sys.stderr  # until the command ends: see `OneLineGroup.main`


def say(text: str, *, to_paste: bool = False) -> None:
    """Print to standard output, as wide as the screen is; lines to paste stay whole."""
    shown = printable(text) if to_paste else fitted(printable(text))
    if sys.stdout.isatty() and not os.environ.get("NO_COLOR"):
        from specroof.cli.colors import show  # noqa: PLC0415 - rich is slow to import

        show(shown)
    else:
        _print(shown)


def say_json(value: object) -> None:
    """Print JSON on one line."""
    _print(printable(json_line(value)))


def _print(text: str) -> None:
    # Named, since Typer sends UTF-8 to a standard output that says it takes ASCII.
    typer.echo(text, file=sys.stdout)


def text_file(path: Path | None, text: Callable[[], str]) -> dict[Path, bytes]:
    """Return a text as the file `path`; None writes nothing."""
    return {} if path is None else {path: text().encode()}


def figure_files(path: Path, figures: Mapping[str, Any]) -> dict[Path, bytes]:
    """Return figures as files: the first as `path`, others beside it under longer names.

    Parameters
    ----------
    path
        Where the first goes.
    figures
        By what their names end in.

    Raises
    ------
    OutputError
        For several charts on standard output.
    """
    from specroof import plot  # noqa: PLC0415 - matplotlib is slow to import

    if path == STANDARD_OUTPUT:
        if len(figures) > 1:
            reject(
                f"-: {len(figures)} charts, and standard output takes one", "a file", OutputError
            )
        (figure,) = figures.values()
        return {path: plot.figure_bytes(figure, "-.png")}
    names = {path.with_stem(path.stem + ending): figure for ending, figure in figures.items()}
    return {name: plot.figure_bytes(figure, name) for name, figure in names.items()}


def write(*groups: Mapping[Path, bytes], as_json: bool) -> None:
    """Write the files of all groups, or none of them, and name them; `-` is standard output.

    Raises
    ------
    OutputError
        For `-` together with --json, two outputs of one place, and a file that cannot be written.
    """
    if not any(groups):
        return
    files: dict[Path, bytes] = {}
    for path, content in (entry for group in groups for entry in group.items()):
        if path in files:  # one would replace the other without a word
            reject(f"{path}: two outputs go there", "a file for each", OutputError)
        files[path] = content
    data = files.pop(STANDARD_OUTPUT, None)
    if as_json and data is not None:
        reject("-: --json goes to standard output too", "a file for one of them", OutputError)
    writing.write_files(files)
    for path in files:
        say_aside(f"wrote {path}")
    if data is not None:
        give_data(data)


def write_folder(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write the files of one run into a folder, and say so on standard error."""
    writing.write_folder(folder, files)
    say_aside(f"wrote {len(files)} files: {folder}")


def check_file(path: Path) -> None:
    """Refuse a file that cannot be written, before minutes are spent on its content."""
    if path != STANDARD_OUTPUT:
        writing.check_file(path)


def check_files(*tables: Path | None, chart: Path | None) -> None:
    """Refuse tables and a chart that cannot be written, before minutes are spent on the answer.

    Raises
    ------
    OutputError
        For a folder that is not there, and a chart without a name or of an unknown format.
    """
    if chart is not None and not chart.name:
        reject(f"--plot is {str(chart)!r}", "the name of a file", OutputError)
    if chart not in {None, STANDARD_OUTPUT}:
        from specroof import plot  # noqa: PLC0415 - matplotlib is slow to import

        plot.chart_format(str(chart))
    for path in (*tables, chart):
        if path is not None:
            check_file(path)


def check_folder(folder: Path) -> None:
    """Refuse a folder that cannot be made, before minutes are spent on its files.

    Raises
    ------
    OutputError
        For standard output, a place below a file, or a name that is too long.
    """
    if folder == STANDARD_OUTPUT:
        reject(
            "-: standard output is not a folder", "a folder, or a place for a new one", OutputError
        )
    try:
        there = next(path for path in (folder, *folder.absolute().parents) if path.exists())
        if not there.is_dir():
            reject(
                f"{folder}: {there} is a file", "a folder, or a place for a new one", OutputError
            )
    except OSError as failure:
        reject(f"{folder}: {failure.strerror}", "a folder that can be written to", OutputError)
