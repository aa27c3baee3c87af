"""Published numbers of the theory, and speedups that follow from a length or a draft length."""

from functools import cache
from typing import Any, Final

import pytest

import specroof
from published_models import (
    calculator_v4,
    chart_v4_flash,
    published,
    published_hardware,
    published_options,
)
from specroof.acceptance import acceptance_from_length, constant_acceptance
from specroof.drafters.kinds import autoregressive_drafter
from specroof.speedup.result import SpeedupCurve

pytestmark = pytest.mark.golden

Vector = dict[str, Any]

LEVIATHAN: Final = published("arxiv-2211.17192-table-1.yaml")
WIDGET: Final = published("survey-widget.yaml")
CHART: Final = published("finn-2026-economics-chart.yaml")
BETTER: Final = published("modal-2026-better-drafters.yaml")


def tokens_per_round(vector: Vector) -> float:
    return float(constant_acceptance(vector["rate"]).tokens_per_round(vector["draft_len"]))


def walltime_improvement(vector: Vector, draft_cost: float) -> float:
    """Return N / (γc + 1): theorem 3.8, where a verification takes one target step."""
    return tokens_per_round(vector) / float(vector["draft_len"] * draft_cost + 1)


@pytest.mark.parametrize("vector", LEVIATHAN["vectors"], ids=str)
def test_leviathan_table_1(vector: Vector) -> None:
    options, tolerance = LEVIATHAN["options"], LEVIATHAN["tolerance"]
    speed = walltime_improvement(vector, options["draft_cost"])
    # (γĉ + γ + 1) / N: theorem 3.11, with N for its (1 − α^(γ+1)) / (1 − α)
    drafts = float(vector["draft_len"])
    operations = (drafts * options["draft_operations"] + drafts + 1) / tokens_per_round(vector)
    assert speed == pytest.approx(vector["speed"], rel=0, abs=tolerance)
    assert operations == pytest.approx(vector["operations"], rel=0, abs=tolerance)


@pytest.mark.parametrize("vector", WIDGET["vectors"], ids=str)
def test_survey_widget(vector: Vector) -> None:
    tolerance = WIDGET["tolerance"]
    expected = vector["tokens_per_round"]
    assert tokens_per_round(vector) == pytest.approx(expected, rel=0, abs=tolerance)
    if "speedup" in vector:
        speedup = walltime_improvement(vector, vector["draft_cost"])
        assert speedup == pytest.approx(vector["speedup"], rel=0, abs=tolerance)


# --- the best draft length against batch size, DeepSeek-V4-Flash on B200 -------------------------

CONTEXTS: Final = sorted({vector["context_len"] for vector in CHART["vectors"]})
BATCHES: Final = sorted({vector["batch_size"] for vector in CHART["vectors"]})


@cache
def chart() -> SpeedupCurve:
    options, bytes_per_s = CHART["options"], published_hardware().peak.memory_bytes_per_s
    # The device as the chart has it: whole FLOP per byte.
    ridges = {dtype: ridge * bytes_per_s for dtype, ridge in options["ridges"].items()}
    return specroof.speedup_curve(
        chart_v4_flash(),
        published_hardware(**ridges),
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


# --- what a longer acceptance was said to gain ---------------------------------------------------

V4_PRO: Final = "deepseek-ai/DeepSeek-V4-Pro"
ASKED: Final = BETTER["options"]
LOAD: Final[dict[str, Any]] = {
    "batch_size": ASKED["batch_size"],
    "context_len": ASKED["context_len"],
    "engine": "ideal",
    "options": published_options(BETTER),
}


@pytest.mark.parametrize(
    "vector", [one for one in BETTER["vectors"] if one["drafts"] != "endless"], ids=str
)
def test_a_length_gains_what_was_published(vector: Vector) -> None:
    length, drafts = vector["accept_length"], vector["drafts"]
    curve = specroof.speedup_curve(
        calculator_v4(V4_PRO),
        "b200",
        drafter=ASKED["drafter"],
        acceptance=acceptance_from_length(length, drafts, law="constant"),
        max_draft_len=ASKED["draft_len"],
        **LOAD,
    )
    tolerance = BETTER["tolerance"]["speedup"]
    assert float(curve.best_speedup.item()) == pytest.approx(vector["speedup"], abs=tolerance)


@pytest.mark.parametrize("bundled", [False, True], ids=["reconstructed", "bundled"])
@pytest.mark.parametrize("vector", BETTER["vectors"], ids=str)
def test_what_was_published_takes_the_published_length(vector: Vector, *, bundled: bool) -> None:
    model = specroof.load_model(V4_PRO) if bundled else calculator_v4(V4_PRO)
    (row,) = specroof.breakeven(
        model, "b200", drafter=ASKED["drafter"], solve="accept", speedup=vector["speedup"], **LOAD
    ).rows
    rate, drafts = row.value, vector["drafts"]
    assert rate is not None
    survived = 0.0 if drafts == "endless" else rate ** (drafts + 1)
    # Tokens of a round with so many drafts, the bonus token included.
    length, tolerance = (1.0 - survived) / (1.0 - rate), BETTER["tolerance"]["length"]
    assert length == pytest.approx(vector["accept_length"], rel=0, abs=tolerance)
