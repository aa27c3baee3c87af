"""Every point of a curve as rows: the right ones, and derived once for a whole grid."""

import csv
import io
import random
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

import numpy as np
import pytest

from specroof import SpeedupCurve, load_drafter, load_hardware, load_model, speedup_curve
from specroof.outcomes.outcomes import Outcomes
from specroof.outcomes.rows import point_columns
from specroof.report.columns import listed_columns
from specroof.report.layout import columns_csv, json_line
from specroof.speedup.price import Money

MODEL, CHIP = load_model("Qwen/Qwen3-8B"), load_hardware("b200")


def grid(contexts: int, batches: int, spec: str = "autoregressive,accept=0.75,cost=0.10") -> Any:
    """Return a curve over that many context lengths and batch sizes."""
    return speedup_curve(
        MODEL,
        CHIP,
        drafter=load_drafter(spec),
        context_len=1000 + np.arange(contexts),
        batch_size=1 + np.arange(batches),
    )


def columns(curve: SpeedupCurve) -> Iterator[dict[str, Any]]:
    return point_columns(Outcomes(curve, None, None), Money(1, None, None))


def calls(work: Callable[[], object]) -> Counter[str]:
    """Return how often each Python function is called by `work`."""
    found: Counter[str] = Counter()

    def count(frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            found[frame.f_code.co_qualname] += 1

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(before)
    return found


@pytest.mark.parametrize(
    "write",
    [
        lambda curve: columns_csv(map(listed_columns, columns(curve))),
        lambda curve: json_line([*map(listed_columns, columns(curve))]),
    ],
)
def test_a_grid_of_any_size_is_derived_once(write: Callable[[SpeedupCurve], str]) -> None:
    small, large = grid(2, 10), grid(2, 500)
    assert calls(lambda: write(large)).total() < 2 * calls(lambda: write(small)).total()


def test_what_is_derived_is_kept_and_nobody_can_change_it() -> None:
    curve = grid(1, 2)
    for name in ("speedup", "best_draft_len", "best_speedup"):
        assert getattr(curve, name) is getattr(curve, name)
        with pytest.raises(ValueError, match="read-only"):
            getattr(curve, name)[...] = 0


def test_rows_of_a_large_grid_are_those_of_its_arrays() -> None:
    # 5 x 1000 x 17 points are more than are turned into text at once; past 3 drafts are gaps.
    curve = grid(5, 1000, "autoregressive,rates=0.9/0.8/0.7,cost=0.10")
    rows = list(csv.DictReader(io.StringIO(columns_csv(map(listed_columns, columns(curve))))))
    assert len(rows) == curve.speedup.size
    dice = random.Random(5)
    for _ in range(300):
        i, j, k = (dice.randrange(length) for length in curve.speedup.shape)
        row = rows[(i * 1000 + j) * 17 + k]
        assert (row["context_len"], row["batch_size"]) == (str(1000 + i), str(1 + j))
        assert (row["draft_len"], row["verify_len"]) == (str(k), str(k + 1))
        for name in ("draft_s", "round_s", "speedup", "tokens_per_s_per_user"):
            value = getattr(curve, name)[i, j, k]
            assert row[name] == ("" if np.isnan(value) else repr(float(value)))
        assert row["is_best"] == str(int(k == np.nanargmax(curve.speedup[i, j])))
