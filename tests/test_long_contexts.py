"""Published costs of long contexts beside predictions: none is in a fit."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from specroof.evidence import LongContext, load_long_contexts
from specroof.questions.validate import long_context_json, long_context_tables
from specroof.scoring.long_contexts import LongContextScore, long_context_scores, mean_off

SCORES = long_context_scores()


@pytest.mark.parametrize(("context_len", "target"), [(2048, 0.10), (32768, 0.20)])
def test_the_targets_of_kimi_k3_are_reached(context_len: int, target: float) -> None:
    scores = [one for one in SCORES if one.row.source == "vllm issue 54691"]
    assert mean_off(one for one in scores if one.row.context_len == context_len) <= target


def test_rounds_of_kimi_k3_are_those_of_the_published_comment() -> None:
    measured = {2048: [1.47, 1.42, 1.55, 1.63, 1.74], 32768: [1.91, 2.09, 2.82, 3.77, 4.94]}
    rows = [row for row in load_long_contexts() if row.source == "vllm issue 54691"]
    assert {row.decode_context_parallel for row in rows} == {8}
    for context_len, rounds in measured.items():
        found = [row for row in rows if row.context_len == context_len]
        assert [row.batch_size for row in found] == [1, 2, 4, 8, 16]
        assert [row.measured for row in found] == rounds


def test_reading_as_kernels_do_is_nearer_than_reading_once() -> None:
    by_rules = np.mean([abs(np.log(score.predicted / score.row.measured)) for score in SCORES])
    once = np.mean([abs(np.log(score.once / score.row.measured)) for score in SCORES])
    assert by_rules < once / 2


def test_kernels_that_split_no_cache_are_predicted_within_a_fourth() -> None:
    splitless = [score for score in SCORES if score.row.source.endswith("PR 193")]
    drafted = [score for score in splitless if score.row.draft_len]
    assert len(drafted) == 4
    assert max(abs(score.off) for score in drafted) <= 0.25


def test_a_round_is_compared_with_a_step_a_short_round_or_a_split_one() -> None:
    row = next(row for row in load_long_contexts() if row.quantity == "unsplit_over_split")

    def predicted(**other: Any) -> LongContextScore:
        return long_context_scores([replace(row, **other)])[0]

    assert predicted(verify_attention="once").predicted == 1
    assert predicted().predicted > 1
    # A round over 500 tokens is the short one.
    short = predicted(quantity="over_short_round", context_len=500)
    assert short.predicted == short.once == pytest.approx(1)
    step = predicted(quantity="round_over_step")
    assert step.predicted > step.once > 1


def test_tables_have_every_row_and_the_mean_of_each_set_up() -> None:
    tables = list(long_context_tables(SCORES))
    assert sum(len(table.splitlines()) - 2 for table in tables) == len(SCORES)
    mean = np.mean([abs(score.off) for score in SCORES if score.row.source == "vllm issue 54691"])
    assert f"{mean:.1%} off on average" in tables[0]


def test_json_has_what_was_measured_and_both_predictions() -> None:
    row: LongContext = SCORES[0].row
    told = long_context_json(replace(SCORES[0], predicted=2 * row.measured, once=1.0))
    assert told["off"] == pytest.approx(1.0)
    assert (told["source"], told["measured"], told["predicted_once"]) == (
        "vllm issue 54691", 1.47, 1.0,
    )  # fmt: skip


def test_attention_on_a_geforce_takes_what_was_measured() -> None:
    (score,) = (score for score in SCORES if score.row.hardware == "rtx-4090")
    assert score.predicted == pytest.approx(score.row.measured, rel=0.25)
