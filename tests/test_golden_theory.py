"""Published numbers of the theory: tokens per round, and what follows from them alone."""

import pytest

from published_models import published
from specroof.acceptance import constant_acceptance

pytestmark = pytest.mark.golden


Vector = dict[str, float]


LEVIATHAN = published("arxiv-2211.17192-table-1.yaml")
WIDGET = published("survey-widget.yaml")


def tokens_per_round(vector: Vector) -> float:
    return float(constant_acceptance(vector["rate"]).tokens_per_round(vector["draft_len"]))


def walltime_improvement(vector: Vector, draft_cost: float) -> float:
    """Return N / (γc + 1): theorem 3.8, where a verification takes one target step."""
    return tokens_per_round(vector) / (vector["draft_len"] * draft_cost + 1)


def operations_factor(vector: Vector, draft_operations: float) -> float:
    """Return (γĉ + γ + 1) / N: theorem 3.11, with N for its (1 − α^(γ+1)) / (1 − α)."""
    drafts = vector["draft_len"]
    return (drafts * draft_operations + drafts + 1) / tokens_per_round(vector)


@pytest.mark.parametrize("vector", LEVIATHAN["vectors"], ids=str)
def test_leviathan_table_1(vector: Vector) -> None:
    options, tolerance = LEVIATHAN["options"], LEVIATHAN["tolerance"]
    speed = walltime_improvement(vector, options["draft_cost"])
    operations = operations_factor(vector, options["draft_operations"])
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
