"""Every point of a curve as rows, derived once for a whole grid."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from effort import cpu_seconds
from specroof import SpeedupCurve, speedup_curve
from specroof.outcomes.outcomes import Outcomes
from specroof.outcomes.rows import point_columns
from specroof.report.columns import listed_columns
from specroof.report.layout import columns_csv, json_line
from specroof.speedup.price import Money


def grid(batches: int) -> SpeedupCurve:
    return speedup_curve(
        *("Qwen/Qwen3-8B", "b200"),
        drafter="autoregressive,accept=0.75,cost=0.10",
        context_len=[1000, 1001],
        batch_size=1 + np.arange(batches),
    )


def columns(curve: SpeedupCurve) -> Iterator[dict[str, Any]]:
    return point_columns(Outcomes(curve, None, None), Money(1, None, None))


@pytest.mark.parametrize(
    "write",
    [
        lambda curve: columns_csv(map(listed_columns, columns(curve))),
        lambda curve: json_line([*map(listed_columns, columns(curve))]),
    ],
)
def test_a_grid_of_any_size_is_derived_once(write: Callable[[SpeedupCurve], str]) -> None:
    def seconds(batches: int) -> float:
        curve = grid(batches)
        return cpu_seconds(lambda: write(curve))

    # Derived for each row again: 16 times as long.
    assert seconds(500) < 10 * seconds(125)


def test_what_is_derived_is_kept_and_nobody_can_change_it() -> None:
    curve = grid(2)
    for name in ("speedup", "best_draft_len", "best_speedup"):
        assert getattr(curve, name) is getattr(curve, name)
        with pytest.raises(ValueError, match="read-only"):
            getattr(curve, name)[...] = 0
