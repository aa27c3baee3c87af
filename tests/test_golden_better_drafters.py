"""What a longer acceptance was said to gain."""

import pytest

import specroof
from published_models import calculator_v4_pro, published, published_options
from specroof import acceptance_from_length

PUBLISHED = published("modal-2026-better-drafters.yaml")


@pytest.mark.golden
@pytest.mark.parametrize("vector", PUBLISHED["vectors"], ids=str)
def test_a_length_gains_what_was_published(vector: dict[str, float]) -> None:
    asked = PUBLISHED["options"]
    curve = specroof.speedup_curve(
        calculator_v4_pro(),
        "b200",
        drafter=asked["drafter"],
        acceptance=acceptance_from_length(vector["accept_length"], 16, law="constant"),
        batch_size=asked["batch_size"],
        context_len=asked["context_len"],
        max_draft_len=asked["draft_len"],
        engine="ideal",
        options=published_options(PUBLISHED),
    )
    assert curve.best_speedup.item() == pytest.approx(vector["speedup"], abs=PUBLISHED["tolerance"])
