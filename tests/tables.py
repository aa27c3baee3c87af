"""Rows of tests that are data: what is given, and what becomes of it."""

from functools import cache
from pathlib import Path
from typing import Any

import yaml


@cache
def _tables(file: str) -> dict[str, Any]:
    text = (Path(__file__).parent / "data" / f"{file}.yaml").read_text(encoding="utf-8")
    found: dict[str, Any] = yaml.safe_load(text)
    return found


def rows(file: str, part: str) -> Any:
    """Return one part of a file of rows."""
    return _tables(file)[part]
