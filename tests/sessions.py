"""Sessions in README and in the pages of docs/: commands after ``$``, and what they print.

They are those of a terminal of 110 columns.
"""

import contextlib
import re
import shlex
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final
from unittest.mock import patch

from typer.testing import CliRunner

from specroof.cli import app

#: A command after ``$``, and what it prints up to the next command or the end of the block.
_SESSION: Final = re.compile(
    r"^\$ (specroof (?:[^\n]*\\\n)*[^\n]*)\n((?:(?!\$ |```)[^\n]*\n)+)", re.MULTILINE
)
#: A file that a page shows whole, under its name.
_FILE: Final = re.compile(r'^```\w+ title="([\w.-]+)"\n(.*?)^```', re.MULTILINE | re.DOTALL)


def sessions(text: str) -> list[tuple[str, str]]:
    """Return each command of a page whose output is shown, and that output."""
    return [(command, shown.strip("\n")) for command, shown in _SESSION.findall(text)]


def files_of(text: str) -> list[tuple[str, str]]:
    """Return the name and the content of each file that a page shows whole."""
    return _FILE.findall(text)


def replayed(text: str, more: Sequence[str] = ()) -> list[tuple[str, str]]:
    """Return each command of a page, and what it prints now.

    They run in the order of the page, in one folder that holds the files that the page shows; the
    first of them with more words.
    """
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        for name, content in files_of(text):
            Path(name).write_text(content, encoding="utf-8")
        return [
            (command, _printed(command, () if number else more))
            for number, (command, _) in enumerate(sessions(text))
        ]


def _printed(command: str, more: Sequence[str]) -> str:
    called, _, lines = command.replace("\\\n", " ").partition(" | head -")
    with patch("specroof.cli.screen_width", lambda: 110):
        done = CliRunner().invoke(app, [*shlex.split(called)[1:], *more])
    if done.exit_code:
        message = f"{command}: exit code {done.exit_code}\n{done.output}"
        raise AssertionError(message)
    shown = done.stdout.splitlines()[: int(lines) if lines else None]
    return "\n".join(line.rstrip() for line in shown).strip("\n")


def refreshed(text: str) -> str:
    """Return a page with what its commands print now."""
    printed: Iterator[tuple[str, str]] = iter(replayed(text))

    def session(found: re.Match[str]) -> str:
        command, output = next(printed)
        blank = "\n" if found[2].endswith("\n\n") else ""
        return f"$ {command}\n{output}\n{blank}"

    return _SESSION.sub(session, text)
