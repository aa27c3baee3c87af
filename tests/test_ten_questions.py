"""The questions of a new user: each is answered by the one command that stands beside it."""

import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from specroof.cli import app

PAGE = (Path(__file__).parents[1] / "notebooks" / "README.md").read_text(encoding="utf-8")
QUESTIONS = re.findall(r"^\d+\. \*\*(.+?\?)\*\*\n +`specroof (.+)`$", PAGE, re.MULTILINE)


def test_there_are_ten() -> None:
    assert len(QUESTIONS) == 10


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize(("question", "command"), QUESTIONS)
def test_one_command_answers(question: str, command: str) -> None:
    done = CliRunner().invoke(app, shlex.split(command))
    assert (done.exit_code, done.stderr) == (0, ""), question
    assert len(done.stdout.splitlines()) >= 3
