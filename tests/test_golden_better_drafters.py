"""What a longer acceptance was said to gain."""

from typing import Any, Final

import pytest

import specroof
from published_models import calculator_v4_pro, published, published_options
from specroof import acceptance_from_length, load_model

pytestmark = pytest.mark.golden

PUBLISHED: Final = published("modal-2026-better-drafters.yaml")
ASKED: Final = PUBLISHED["options"]


LOAD: Final[dict[str, Any]] = {
    "batch_size": ASKED["batch_size"],
    "context_len": ASKED["context_len"],
    "engine": "ideal",
    "options": published_options(PUBLISHED),
}


@pytest.mark.parametrize(
    "vector", [one for one in PUBLISHED["vectors"] if one["drafts"] != "endless"], ids=str
)
def test_a_length_gains_what_was_published(vector: dict[str, Any]) -> None:
    length, drafts = vector["accept_length"], vector["drafts"]
    curve = specroof.speedup_curve(
        calculator_v4_pro(),
        "b200",
        drafter=ASKED["drafter"],
        acceptance=acceptance_from_length(length, drafts, law="constant"),
        max_draft_len=ASKED["draft_len"],
        **LOAD,
    )
    tolerance = PUBLISHED["tolerance"]["speedup"]
    assert float(curve.best_speedup.item()) == pytest.approx(vector["speedup"], abs=tolerance)


@pytest.mark.parametrize("bundled", [False, True], ids=["reconstructed", "bundled"])
@pytest.mark.parametrize("vector", PUBLISHED["vectors"], ids=str)
def test_what_was_published_takes_the_published_length(
    vector: dict[str, Any], *, bundled: bool
) -> None:
    model = load_model("deepseek-ai/DeepSeek-V4-Pro") if bundled else calculator_v4_pro()
    found = specroof.breakeven(
        model, "b200", drafter=ASKED["drafter"], solve="accept", speedup=vector["speedup"], **LOAD
    )
    (row,) = found.rows
    rate, drafts = row.value, vector["drafts"]
    assert rate is not None
    survived = 0.0 if drafts == "endless" else rate ** (drafts + 1)
    # Tokens of a round with so many drafts, the bonus token included.
    length = (1.0 - survived) / (1.0 - rate)
    tolerance = PUBLISHED["tolerance"]["length"]
    assert length == pytest.approx(vector["accept_length"], rel=0, abs=tolerance)
