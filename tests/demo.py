"""What `make demo` runs, and the charts that it draws: those that the README and docs/ print.

`make outputs` draws them in notebooks/charts anew.
"""

import contextlib
import re
import shlex
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from typer.testing import CliRunner

from specroof.cli import app

MAKEFILE: Final = Path(__file__).parents[1] / "Makefile"
_RECIPE: Final = re.compile(r"^demo:.*\n((?:\t.*\n| +.*\n)+)", re.MULTILINE)
_COMMAND: Final = re.compile(r"^\t\$\(DEMO\) ((?:.*\\\n)*.*)", re.MULTILINE)


@dataclass(frozen=True)
class Demo:
    """The words of each command and what it printed, and the charts by the names of their files."""

    printed: list[tuple[list[str], str]]
    charts: dict[str, bytes]


def commands() -> list[list[str]]:
    """Return the words of each specroof command of `make demo`, without the program's name."""
    (recipe,) = _RECIPE.findall(MAKEFILE.read_text(encoding="utf-8"))
    return [shlex.split(text.replace("\\\n", " ")) for text in _COMMAND.findall(recipe)]


def demo() -> Demo:
    """Run the commands of `make demo` in a folder of their own."""
    printed = []
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        Path("demo").mkdir()
        for words in commands():
            done = CliRunner().invoke(app, words)
            assert done.exit_code == 0, done.output
            printed.append((words, done.stdout))
        drawn = sorted(Path("demo").rglob("*.png"))
        return Demo(printed, {path.name: path.read_bytes() for path in drawn})
