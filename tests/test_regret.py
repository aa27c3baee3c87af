"""What following `advise` would have lost: by hand, by brute force, and over what was measured."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specroof.evidence import kind_of, load_measurements
from specroof.questions.validate import regret_json, regret_lines
from specroof.scoring import Validation
from specroof.scoring.scores import Scored, regrets, worst_regrets
from tables import rows

pytestmark = pytest.mark.slow

SPEEDUP = next(one for one in load_measurements() if kind_of(one)[0] == "speedup")


def option(measured: float, predicted: float, drafts: int = 3, **changes: Any) -> Scored:
    changes = {"draft_len": drafts, "verify_len": drafts + 1, **changes}
    return Scored(replace(SPEEDUP, **changes), "speedup", predicted, measured)


def test_drafters_of_one_set_up_are_options_of_one_choice() -> None:
    eagle = option(1.5, 1.9, method="eagle3")
    block = option(2.0, 1.8, 15, method="dflash")
    (one,) = regrets([eagle, block])
    assert (one.taken, one.best, one.is_choice) == (eagle, block, True)
    assert one.lost == pytest.approx(1 - 1.5 / 2.0)


@pytest.mark.parametrize("elsewhere", rows("values", "other_set_ups"))
def test_another_set_up_is_another_choice(elsewhere: dict[str, Any]) -> None:
    here, there = option(1.5, 1.9), option(2.0, 1.8, 5, **elsewhere)
    assert [one.lost for one in regrets([here, there])] == [0.0, 0.0]


def test_ties_go_to_the_shorter_draft() -> None:
    (one,) = regrets([option(1.7, 1.5, 7), option(1.6, 1.5, 3)])
    assert one.taken is not None
    assert one.taken.point.draft_len == 3
    tree, chain = option(1.7, 1.5, verify_len=9), option(1.6, 1.5, verify_len=4)
    (one,) = regrets([tree, chain])
    assert one.taken == chain


@given(st.lists(st.tuples(st.floats(0.3, 5), st.floats(0.3, 5)), min_size=1, max_size=8))
def test_regret_is_that_of_brute_force(pairs: list[tuple[float, float]]) -> None:
    options = [option(measured, told, k) for k, (measured, told) in enumerate(pairs, 1)]
    (one,) = regrets(options)
    best = max([1.0, *(measured for measured, _ in pairs)])
    most = max(told for _, told in pairs)
    # `advise` takes two predictions for the same that differ by rounding alone.
    near = [m for m, told in pairs if told >= most * (1 - 1e-12)] if most > 1 else [1.0]
    assert one.lost in [pytest.approx(1 - measured / best) for measured in near]
    assert one.lost >= 0


def test_the_worst_are_those_that_lose_most() -> None:
    losing = [option(m, 0.9, batch_size=10.0 * m) for m in (1.1, 1.4, 1.2, 1.3)]
    found = regrets([*losing, option(1.5, 1.5, batch_size=1.0)])
    assert [one.lost for one in worst_regrets(found, 3)] == pytest.approx(
        [1 - 1 / 1.4, 1 - 1 / 1.3, 1 - 1 / 1.2]
    )
    assert len(worst_regrets(found, 9)) == 4  # what loses nothing is none of them


def made(*points: Scored) -> Validation:
    return Validation(points, (), ())


def test_the_cause_is_the_round_that_is_further_off() -> None:
    # 3 tokens a round: 1.5x is 2 plain steps, 2.4x is 1.25; 2.0x is 1.5, and 1.25x is 2.4.
    taken = option(1.5, 2.4, 3, tokens_per_round=3.0, method="eagle3")
    best = option(2.0, 1.9, 5, tokens_per_round=3.0, method="eagle3")
    for points, said in (
        ((taken, best), "a round of eagle3 K=3 took 2.00 plain steps, 1.25 predicted"),
        (
            (replace(taken, predicted=1.6), replace(best, predicted=1.25)),
            "a round of eagle3 K=5 took 1.50 plain steps, 2.40 predicted",
        ),
        ((replace(taken, measured=0.9),), "best is no drafts; a round of eagle3 K=3 took 3.33"),
        ((replace(taken, predicted=0.9),), "takes no drafts, best is eagle3 K=3"),
    ):
        _, line = regret_lines(made(*points))
        assert said in line


def test_sources_that_are_not_trusted_are_in_no_mean_and_among_the_worst() -> None:
    trusted = [option(1.5, 1.9), option(1.5, 1.8, 5)]
    loose: dict[str, Any] = {"source": "loose", "trust": 5, "note": "loose"}
    doubted = [option(0.5, 1.5, **loose), option(0.4, 1.2, 5, **loose)]
    found = made(*trusted, *doubted)
    _, line = regret_lines(found)
    assert "(not in total: loose), " in line
    told = regret_json(found)
    assert (told["setups"], told["setups_not_in_total"], told["mean"]) == (1, 1, 0.0)
    assert (told["above_10_percent"], told["above_10_percent_not_in_total"]) == (0, 1)
    (worst,) = told["worst"]
    assert (worst["lost"], worst["in_total"], worst["options"]) == (0.5, False, 2)
    assert (worst["best"], worst["note"]) == (None, "loose")
    assert worst["taken"]["draft_len"] == 3


def test_set_ups_of_one_engine_version_are_told_apart() -> None:
    same = option(1.25, 0.9, engine_version="SGLang 0.5.9")
    other: dict[str, Any] = {"source": "loose", "trust": 5, "engine_version": "one job"}
    found = made(same, option(2.0, 0.5, task="silent"), option(0.5, 1.5, **other))
    told = regret_json(found)
    # 1 - 1 / 1.25 is lost by no drafts, 1 - 1 / 2.0 where the source is silent.
    assert told["one_version"] == {"setups": 1, "most": pytest.approx(0.2)}
    assert told["one_version_not_in_total"] == {"setups": 1, "most": pytest.approx(0.5)}
    versions = {one["source"]: one["engine_version"] for one in told["worst"]}
    assert versions["loose"] == "one job"
    _, trusted, loose, *_ = regret_lines(found)
    assert "20.0%" in trusted
    assert "50.0%" in loose
    assert regret_json(made(option(2.0, 1.5, engine_version="")))["one_version"]["most"] is None


def test_the_target_is_reached_on_what_was_measured(validated: Validation) -> None:
    told = regret_json(validated)
    assert told["mean"] <= 0.01
    assert told["mean_with_a_choice"] <= 0.01
    assert told["above_10_percent"] == 0
    assert told["one_version"]["setups"] == 3  # of a pull request, at three loads
    assert told["one_version"]["most"] <= 0.1
    assert told["mean"] == validated.total.regret_mean
    # The two that lose more than 10 % are of a source whose rounds nothing explains.
    large = [one for one in told["worst"] if one["lost"] > 0.1]
    assert len(large) == told["above_10_percent_not_in_total"] == 2
