"""The README shows what the commands print."""

import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from specroof.cli import app

README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")

#: A command after ``$``, and what it prints up to the next command or the end of the block.
SESSIONS = re.findall(
    r"^\$ (specroof (?:[^\n]*\\\n)*[^\n]*)\n((?:(?!\$ |```)[^\n]*\n)+)", README, re.MULTILINE
)


def test_the_readme_shows_commands_with_their_output() -> None:
    assert len(SESSIONS) >= 2


@pytest.mark.parametrize(("command", "shown"), SESSIONS)
def test_what_the_readme_shows_is_what_the_command_prints(
    command: str, shown: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "demo").mkdir()
    words = shlex.split(command.replace("\\\n", " "))[1:]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    printed = "".join(f"{line.rstrip()}\n" for line in done.stdout.splitlines())
    assert printed.strip("\n") == shown.strip("\n")
