"""Commands in this process: what they print, what they answer, and how they refuse."""

import io
import json
import shlex
from itertools import chain
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from specroof.cli import app


class Terminal(io.StringIO):
    """Standard error that a person looks at."""

    def isatty(self) -> bool:
        return True


def invoked(*words: object, **environment: str) -> Result:
    """Return a command that has run: text is split as by a shell, all else is one word."""
    each = (shlex.split(one) if isinstance(one, str) else [str(one)] for one in words)
    return CliRunner().invoke(app, [*chain.from_iterable(each)], env=environment)


def run(*words: object, **environment: str) -> str:
    """Return what a command prints to standard output; it must succeed."""
    done = invoked(*words, **environment)
    assert done.exit_code == 0, done.output
    return done.stdout


def answered(*words: object) -> dict[str, Any]:
    """Return the JSON object that a command prints on one line."""
    (line,) = run(*words, "--json").splitlines()
    value = json.loads(line, parse_constant=pytest.fail)
    assert isinstance(value, dict)
    return value


def refused(*words: object) -> str:
    """Return the one line that a refused command leaves on standard error."""
    done = invoked(*words)
    assert (done.exit_code, done.stdout) == (2, ""), done.output
    (line,) = done.stderr.splitlines()
    assert line.startswith("specroof: ")
    return line.removeprefix("specroof: ")
