"""Machines of one user: how near predictions come to what was measured on them."""

from collections.abc import Sequence
from operator import attrgetter

import numpy as np
import pytest

from specroof.catalog import local_engines
from specroof.scoring.local import (
    REPORTS,
    draft_len_regrets,
    errors_of,
    left_out_engine,
    local_scores,
)
from specroof.scoring.scores import Scored

Scores = tuple[Scored, ...]


@pytest.fixture(scope="module")
def scores() -> Scores:
    return local_scores()


def test_left_out_fits_have_not_seen_the_model(scores: Scores) -> None:
    known = local_engines()
    for score in scores:
        name = score.point.engine or ""
        if score.point.source != REPORTS and score.point.model in known.left_out[name]:
            assert left_out_engine(score.point) != known.engines[name]


def chosen(scores: Sequence[Scored], kind: str, *sources: str) -> list[Scored]:
    return [one for one in scores if one.kind == kind and one.point.source in sources]


def of(point: Scored, **wanted: str) -> bool:
    return all(str(getattr(point.point, name)) == value for name, value in wanted.items())


@pytest.mark.parametrize(
    ("kind", "sources", "wanted", "most"),
    [
        ("depth", ["strix-halo-depth"], {"model": "Qwen/Qwen3.6-27B"}, 0.02),
        ("pass", ["strix-halo-passes"], {}, 0.12),
        ("speedup", ["strix-halo-mtp", "qwen38-27b-mtp", "mlx-mtp"], {}, 0.10),
        # Mixtures of experts, every one of which gains.
        ("speedup", ["strix-halo-mtp"], {"model": "Qwen/Qwen3.6-35B-A3B"}, 0.05),
        ("speedup", ["apple-experts"], {}, 0.05),
        # No fit counts these.
        ("speedup", [REPORTS], {"hardware": "rtx-3090"}, 0.10),
        ("speedup", [REPORTS], {"hardware": "arc-pro-b70", "engine": "vllm"}, 0.10),
        ("step", [REPORTS], {}, 0.10),
    ],
)
def test_measurements_on_local_machines_are_predicted_so_well(
    scores: Scores, kind: str, sources: list[str], wanted: dict[str, str], most: float
) -> None:
    mine = [one for one in chosen(scores, kind, *sources) if of(one, **wanted)]
    assert mine
    found = errors_of(mine)
    assert found.mean <= most
    assert found.verdicts is None or found.verdicts >= 0.95


def test_a_3090_is_predicted_with_its_jump_at_9_rows(scores: Scores) -> None:
    """Of its drafts of 1 to 7 two are best, and 8 are better than 7 (github.com/thc1006)."""
    mine = [one for one in chosen(scores, "speedup", REPORTS) if of(one, hardware="rtx-3090")]
    assert mine[7].predicted > mine[6].predicted
    assert max(mine[:7], key=attrgetter("predicted")).point.draft_len == 2


def test_the_draft_length_predicted_best_loses_little(scores: Scores) -> None:
    regrets = draft_len_regrets(scores)
    assert len(regrets) > 18
    assert np.mean(regrets) <= 0.03


def test_signs_of_apple_machines_that_no_fit_counts(scores: Scores) -> None:
    for chip, gains in {"m1-ultra": 0, "m1-max": 0, "m3-ultra": 1, "m5-max": 1}.items():
        mine = [one for one in chosen(scores, "speedup", REPORTS) if of(one, hardware=chip)]
        assert mine
        assert all((one.predicted > 1) == (one.measured > 1) == gains for one in mine)
