"""What a longer acceptance was said to gain."""

from typing import Any, Final

import pytest

import specroof
from published_models import calculator_v4_pro, published, published_options
from specroof import acceptance_from_length, load_model
from specroof.acceptance import Acceptance
from specroof.architecture import Architecture

PUBLISHED: Final = published("modal-2026-better-drafters.yaml")
ASKED: Final = PUBLISHED["options"]


def gained(acceptance: Acceptance) -> float:
    """Return the speedup at the best draft length."""
    curve = specroof.speedup_curve(
        calculator_v4_pro(),
        "b200",
        drafter=ASKED["drafter"],
        acceptance=acceptance,
        batch_size=ASKED["batch_size"],
        context_len=ASKED["context_len"],
        max_draft_len=ASKED["draft_len"],
        engine="ideal",
        options=published_options(PUBLISHED),
    )
    return float(curve.best_speedup.item())


def least_rate(model: Architecture, speedup: float) -> float:
    """Return the least acceptance rate that gains so much."""
    found = specroof.breakeven(
        model,
        "b200",
        drafter=ASKED["drafter"],
        solve="accept",
        speedup=speedup,
        batch_size=ASKED["batch_size"],
        context_len=ASKED["context_len"],
        engine="ideal",
        options=published_options(PUBLISHED),
    )
    (row,) = found.rows
    assert row.value is not None
    return row.value


def tokens_per_round(rate: float, drafts: Any) -> float:
    """Return the tokens of a round with so many drafts, the bonus token included."""
    survived = 0.0 if drafts == "endless" else rate ** (drafts + 1)
    return (1.0 - survived) / (1.0 - rate)


@pytest.mark.golden
@pytest.mark.parametrize(
    "vector", [one for one in PUBLISHED["vectors"] if one["drafts"] != "endless"], ids=str
)
def test_a_length_gains_what_was_published(vector: dict[str, Any]) -> None:
    length, drafts = vector["accept_length"], vector["drafts"]
    speedup = gained(acceptance_from_length(length, drafts, law="constant"))
    assert speedup == pytest.approx(vector["speedup"], abs=PUBLISHED["tolerance"]["speedup"])


@pytest.mark.golden
@pytest.mark.parametrize("bundled", [False, True], ids=["reconstructed", "bundled"])
@pytest.mark.parametrize("vector", PUBLISHED["vectors"], ids=str)
def test_what_was_published_takes_the_published_length(
    vector: dict[str, Any], *, bundled: bool
) -> None:
    model = load_model("deepseek-ai/DeepSeek-V4-Pro") if bundled else calculator_v4_pro()
    rate = least_rate(model, vector["speedup"])
    length = tokens_per_round(rate, vector["drafts"])
    tolerance = PUBLISHED["tolerance"]["length"]
    assert length == pytest.approx(vector["accept_length"], rel=0, abs=tolerance)
