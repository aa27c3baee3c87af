"""The published chart of the best draft length against batch size, DeepSeek-V4-Flash on B200."""

from functools import cache
from typing import Any, Final

import pytest

from published_models import chart_v4_flash, published, published_hardware, published_options
from specroof import speedup_curve
from specroof.acceptance import constant_acceptance
from specroof.drafters.kinds import autoregressive_drafter
from specroof.hardware.profile import HardwareProfile
from specroof.speedup.result import SpeedupCurve

pytestmark = pytest.mark.golden

Vector = dict[str, Any]

CHART: Final = published("finn-2026-economics-chart.yaml")
CONTEXTS: Final = sorted({vector["context_len"] for vector in CHART["vectors"]})
BATCHES: Final = sorted({vector["batch_size"] for vector in CHART["vectors"]})


def rounded_ridges() -> HardwareProfile:
    """Return the device as the chart has it: whole FLOP per byte."""
    ridges = CHART["options"]["ridges"]
    bytes_per_s = published_hardware().peak.memory_bytes_per_s
    return published_hardware(**{dtype: ridge * bytes_per_s for dtype, ridge in ridges.items()})


@cache
def chart() -> SpeedupCurve:
    options = CHART["options"]
    return speedup_curve(
        chart_v4_flash(),
        rounded_ridges(),
        drafter=autoregressive_drafter(options["draft_cost"]),
        acceptance=constant_acceptance(options["acceptance_rate"]),
        batch_size=BATCHES,
        context_len=CONTEXTS,
        max_draft_len=options["max_draft_len"],
        options=published_options(CHART),
    )


@pytest.mark.parametrize("vector", CHART["vectors"], ids=str)
def test_chart_has_the_published_optimum(vector: Vector) -> None:
    curve = chart()
    point = CONTEXTS.index(vector["context_len"]), BATCHES.index(vector["batch_size"])
    assert curve.best_draft_len[point] == vector["draft_len"]
    speedup, tolerance = vector["speedup"], CHART["tolerance"]["speedup"]
    assert curve.best_speedup[point] == pytest.approx(speedup, rel=0, abs=tolerance)
