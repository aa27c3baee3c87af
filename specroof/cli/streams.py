"""Standard output and error as they are: closed, full, a terminal, in any encoding."""

import codecs
import contextlib
import io
import os
import shutil
import sys
import unicodedata
from pathlib import Path
from typing import Any, Final

import typer

from specroof.errors import OutputError, printable

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
        message = "standard output is closed; allowed: a terminal, a file or a pipe"
        raise OutputError(message)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=_NAME)


def screen_width() -> int | None:
    """Return the columns of the terminal that standard output is, None if it is none."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def say_aside(text: str) -> None:
    """Print to standard error; a closed standard error is ignored."""
    try:
        typer.echo(printable(text), file=sys.stderr, err=True)
    except OSError:
        drop(sys.stderr)


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
