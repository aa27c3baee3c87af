"""Rows of tests that are data: what is given, what becomes of it, and how it is refused."""

import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import pytest
import yaml

from specroof.errors import SpecroofError

Value = TypeVar("Value")


@cache
def table(file: str) -> Any:
    """Return a file of rows."""
    text = (Path(__file__).parent / "data" / f"{file}.yaml").read_text(encoding="utf-8")
    # libyaml reads six times as fast, and refuses half a pair of UTF-16.
    loader = yaml.SafeLoader if r"\ud8" in text else getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return yaml.load(text, Loader=loader)  # noqa: S506 - both are safe


def rows(file: str, part: str) -> Any:
    """Return one part of a file of rows."""
    return table(file)[part]


def present(value: Value | None) -> Value:
    """Return what must be there."""
    assert value is not None
    return value


def reads(line: str, says: str) -> bool:
    """Return whether a line reads like that, where … leaves words out."""
    return re.fullmatch(".*".join(map(re.escape, says.split("…"))), line) is not None


def refusal(
    error: type[SpecroofError], call: Callable[..., object], /, *given: Any, **named: Any
) -> str:
    """Return the one printable line with which a call is refused."""
    with pytest.raises(error) as caught:
        call(*given, **named)
    line, hidden = str(caught.value), caught.value.__suppress_context__
    assert caught.value.__context__ is None or hidden
    assert line.isprintable()
    assert len(line) < 1700
    return line


def missed(reached: str, *case: Any) -> Any:
    """Return a row of a target that is not reached yet: it fails once it is."""
    return pytest.param(*case, marks=pytest.mark.xfail(strict=True, reason=f"{reached} is reached"))
