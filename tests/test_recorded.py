"""Answers to drawn questions stay as they were recorded: no figure moves unsaid.

`SPECROOF_STORE=1 pytest tests/test_recorded.py` records them anew, one process at a time: the
changelog says which classes of numbers moved, and why.
"""

import json
import os
import re
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any, Final

import pytest

from commands import answered

FILE: Final = Path(__file__).parent / "data" / "recorded.json"
RECORDED: Final[dict[str, dict[str, Any]]] = json.loads(FILE.read_text())
#: Sentences, and what a new measurement nearby changes.
UNTOLD: Final = re.compile("notes|warnings|reach|sources?|title|.*_from|commands|engine_.*")


def figures(answer: dict[str, Any]) -> dict[str, Any]:
    """Return how many numbers each key has and their sum, and how often each of its words stands.

    Sums of as many numbers see one that moved, and need a hundredth of the space.
    """
    numbers: defaultdict[str, list[float]] = defaultdict(list)
    words: defaultdict[str, Counter[str]] = defaultdict(Counter)

    def read(value: Any, key: str) -> None:
        if isinstance(value, dict):
            for name, one in value.items():
                if not UNTOLD.fullmatch(name):
                    read(one, name)
        elif isinstance(value, list):
            for one in value:
                read(one, key)
        elif isinstance(value, int | float) and not isinstance(value, bool):
            numbers[key].append(float(value))
        else:
            words[key][str(value)] += 1

    read({key: answer[key] for key in ("choice", "rows")}, "")
    sums = {key: [len(each), float(f"{sum(each):.9g}")] for key, each in numbers.items()}
    return sums | {f"{key}:": dict(sorted(each.items())) for key, each in words.items()}


@pytest.mark.parametrize("question", RECORDED)
def test_no_figure_moves_unsaid(question: str) -> None:
    now = figures(answered(question))
    if os.environ.get("SPECROOF_STORE"):
        RECORDED[question] = now
        lines = [f"{json.dumps(asked)}: {json.dumps(one)}" for asked, one in RECORDED.items()]
        FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n")
    assert now == {
        key: one if key.endswith(":") else pytest.approx(one, rel=1e-6)
        for key, one in RECORDED[question].items()
    }
