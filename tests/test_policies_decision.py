"""The decision: a pure function of speedups and their bands."""

import math
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from specroof.errors import OptionError
from specroof.policies.decision import (
    INPUTS,
    Change,
    Gain,
    LoadDecision,
    RoundBreakdown,
    best_change,
    best_choice,
    bottlenecks,
    decide,
    decided,
    least_settled,
    paying_up_to,
    swings,
)
from specroof.policies.schedule import Schedule


def apart(low: float, high: float) -> st.SearchStrategy[float]:
    """Return numbers that are equal, or apart by more than what counts as a tie."""
    return st.floats(low, high).map(lambda number: round(number, 6))


rates = st.lists(apart(0.1, 5), min_size=1, max_size=8)


@given(rates, apart(1, 2))
def test_the_choice_is_the_best_of_all_lengths_and_off(drafts: list[float], least: float) -> None:
    found = best_choice([1.0, *drafts], least=least)
    assert found.speedup == pytest.approx(max(drafts), rel=1e-9)
    assert found.tried == 1 + next(
        k for k, one in enumerate(drafts) if one >= max(drafts) * (1 - 1e-12)
    )
    assert found.draft_len == (found.tried if found.speedup > least else 0)
    side = {True: "pays", False: "loses"}[found.speedup > least]
    assert found.verdict == ("unclear" if found.speedup == least else side)


def test_only_lengths_that_can_be_are_chosen() -> None:
    speedups = [1.0, 1.2, 1.6, np.nan]
    assert best_choice(speedups).draft_len == 2
    assert best_choice([1.0, 1.2, np.nan, np.nan]).draft_len == 1
    nothing = best_choice([1.0, np.nan, np.nan])
    assert (nothing.draft_len, nothing.tried, nothing.verdict) == (0, 0, "loses")


def test_the_verdict_is_that_of_the_band_around_the_best() -> None:
    found = best_choice([1.0, 1.1, 1.2], low=[1.0, 1.0, 0.9], high=[1.0, 1.2, 1.5])
    assert (found.draft_len, found.low, found.high, found.verdict) == (2, 0.9, 1.5, "unclear")
    assert best_choice([1.0, 0.9], low=[1, 0.8], high=[1, 1.1]).verdict == "unclear"
    assert best_choice([1.0, 0.9], low=[1, 0.8], high=[1, 1.1]).draft_len == 0


@given(st.floats(0.1, 3), st.floats(0, 2))
def test_a_band_pays_loses_or_holds_the_least(low: float, width: float) -> None:
    high = low + width
    words = {"pays": low > 1, "loses": high < 1, "unclear": low <= 1 <= high}
    found = best_choice([1.0, low], low=[1.0, low], high=[1.0, high]).verdict
    assert [word for word, holds in words.items() if holds] == [found]


def test_loads_decide_together() -> None:
    words: tuple[LoadDecision, ...] = ("on", "off", "unclear")
    for decisions in product(words, repeat=3):
        expected = "depends" if "on" in decisions else "unclear"
        if len({*decisions}) == 1:
            expected = decisions[0]
        assert decided(decisions) == expected
    with pytest.raises(OptionError, match="at least one load"):
        decided([])


def test_it_pays_up_to_the_load_before_the_first_that_does_not() -> None:
    assert paying_up_to([32, 1, 8], ["off", "on", "on"]) == 8
    assert paying_up_to([1, 8, 32], ["off", "on", "on"]) is None
    assert paying_up_to([1, 8, 32], ["on", "unclear", "on"]) == 1
    assert paying_up_to([1, 8], ["on", "on"]) == 8


def test_a_length_that_was_decided_is_the_one_that_is_told() -> None:
    loads = np.array([[1.0, 1.2, 1.6, 1.5], [1.0, 1.2, 1.6, 1.5], [1.0, 0.9, 0.8, 0.7]])
    found = decide((loads,) * 3, np.zeros(3, dtype=bool), scheduled=np.array([1, 0, 1]))
    assert found.draft_len.tolist() == [1, 0, 1]
    assert found.tried.tolist() == [1, 2, 1]
    assert found.speedup.tolist() == [1.2, 1.6, 0.9]
    assert found.decision.tolist() == ["on", "off", "unclear"]


#: By hand: a round of 2 + 4 + 1 s commits 2 tokens; 4 of 8 requests run; prompts take 1 s each,
#: 0.5 s are lost, answers have 10 tokens.
HELD_BACK = RoundBreakdown(
    draft_len=3, tokens_per_round=2.0, draft_s=2.0, verify_s=4.0, round_s=7.0, decode_s=3.0,
    running=4, plain_running=8, wait_s=1.0, plain_wait_s=1.0, latency_s=0.5, output_len=10,
)  # fmt: skip


def test_what_holds_a_speedup_back_is_taken_away_one_at_a_time() -> None:
    plain = 8 / (3 + 8.5 / 10)
    assert HELD_BACK.speedup == pytest.approx(4 / (3.5 + 4.5 / 10) / plain)
    found = bottlenecks(HELD_BACK)
    assert found == pytest.approx(
        {
            "memory": 8 / (3.5 + 8.5 / 10) / plain,
            "verification": 4 / (6 / 2 + 4.5 / 10) / plain,
            "drafting": 4 / (5 / 2 + 4.5 / 10) / plain,
            "acceptance": 4 / (7 / 4 + 4.5 / 10) / plain,
            "prefill": 4 / (3.5 + 0.5 / 10) / (8 / (3 + 0.5 / 10)),
        }
    )
    assert list(found.values()) == sorted(found.values(), reverse=True)
    # A cheaper verification and more requests than without drafts hold nothing back.
    free = replace(HELD_BACK, verify_s=2.0, running=9)
    assert bottlenecks(free)["verification"] == bottlenecks(free)["memory"] == free.speedup


def test_inputs_are_moved_one_at_a_time() -> None:
    found = swings(HELD_BACK)
    assert list(found.values()) == sorted(found.values(), reverse=True)
    assert {*found} == {*INPUTS}

    def log_ratio(**moved: Any) -> float:
        more, less = ({name: pair[i] for name, pair in moved.items()} for i in (0, 1))
        ratio = replace(HELD_BACK, **more).speedup / replace(HELD_BACK, **less).speedup
        return abs(math.log(ratio))

    assert found == pytest.approx(
        {
            "acceptance": log_ratio(tokens_per_round=(2.1, 1.9)),  # 1 of 2 tokens is a draft
            "verification": log_ratio(round_s=(7.4, 6.6)),
            "drafting": log_ratio(round_s=(7.2, 6.8)),
            "step": log_ratio(decode_s=(3.3, 2.7)),
            "prompts": log_ratio(wait_s=(1.1, 0.9), plain_wait_s=(1.1, 0.9)),
        }
    )


def test_no_more_is_accepted_than_drafted() -> None:
    full = replace(HELD_BACK, tokens_per_round=4.0)
    less = replace(full, tokens_per_round=3.7).speedup
    assert swings(full)["acceptance"] == pytest.approx(np.log(full.speedup / less))


def test_the_least_settled_point_is_the_one_whose_band_reaches_past_one() -> None:
    assert least_settled([(1.0, 1.0, 1.0), (0.9, 1.1, 1.3)]) == 1
    assert least_settled([(1.0, 1.0, 1.0), (1.5, 1.5, 1.5)]) == 0
    assert least_settled([(0.5, 1.5, 4.0), (1.4, 1.5, 1.6)]) == 0


@given(
    st.lists(st.lists(st.floats(0.1, 5), min_size=4, max_size=4), min_size=3, max_size=3),
    st.sampled_from([1, 8, 64]),
    st.sampled_from([None, 0, 1, 3]),
    st.booleans(),
)
def test_a_schedule_has_the_recommended_length_at_the_present_load(
    rates: list[list[float]], running: int, now: int | None, is_fixed: bool
) -> None:
    loads = [1, 8, 64]
    row = rates[loads.index(running)]
    speedup = [rate / row[0] for rate in row]
    change = best_change(loads, rates, running=running, now=now, speedup=speedup, is_fixed=is_fixed)
    drafts = change.recommended.draft_len
    assert change.schedule.drafts(running) == drafts
    assert not is_fixed or change.schedule == Schedule(((1, 64, drafts),), 0.0)
    gain = max(speedup) / speedup[drafts] - 1
    assert gain < 0.01 if drafts == now else gain <= 1e-9


# --- what a server would gain by another length -------------------------------------------------


def test_the_gain_is_over_plain_decoding() -> None:
    rates = [[1.0, 1.5, 2.0], [4.0, 4.4, 4.2], [9.0, 8.0, 7.0]]
    loads = [1, 8, 64]
    ends = ([1.0, 1.0, 0.9], [1.0, 1.21, 1.2])
    told: dict[str, Any] = {"speedup": [1.0, 1.1, 1.05], "ends": ends}
    found = best_change(loads, rates, running=8, now=2, **told)
    assert found.schedule.ranges == ((1, 7, 2), (8, 63, 1), (64, 64, 0))
    assert (found.best, found.now) == (Gain(1, 1.1, 1.0, 1.21), Gain(2, 1.05, 0.9, 1.2))
    assert found.share_over_now(found.best) == pytest.approx(4.4 / 4.2 - 1)
    told = {"speedup": [1.0, 8 / 9, 7 / 9], "ends": ([1.0, 0.8, 0.7], [1.0, 1.0, 14 / 9])}
    off = best_change(loads, rates, running=64, now=2, **told)
    assert (off.best, off.now) == (Gain(0, 1.0, 1.0, 1.0), Gain(2, 7 / 9, 0.7, 14 / 9))
    # One draft may give 1.0, which is less than what runs; what runs may give more than 1.
    assert found.is_unclear
    assert off.is_unclear
    lost = {"speedup": [1.0, 8 / 9, 7 / 9], "ends": ([1.0, 0.8, 0.7], [1.0, 1.0, 0.9])}
    assert not best_change(loads, rates, running=64, now=2, **lost).is_unclear  # type: ignore[arg-type]
    certain = {"speedup": [1.0, 1.1, 1.05], "ends": ([1.0, 1.09, 1.0], [1.0, 1.11, 1.1])}
    assert not best_change(loads, rates, running=8, now=2, **certain).is_unclear  # type: ignore[arg-type]
    same = best_change(loads, rates, running=8, now=1, speedup=[1.0, 1.1, 1.05])
    assert not same.is_unclear
    assert same.best == same.now
    for unknown in (3, 7, None):  # beyond the grid, or not shown
        none = best_change(loads, rates, running=8, now=unknown, speedup=[1.0, 1.1, 1.05])
        assert (none.now, none.is_unclear) == (None, False)
        assert none.share_over_now(none.best) != none.share_over_now(none.best)  # no figure


#: A draft length and its throughput, speedup, and the low and the high end of its band.
GAINS = [1.0, 1.4, 1.7, 1.9]


def change_from(now: int, measured: int | None, *, ends: Any = None, at: int = 8) -> Change:
    rates = [[10 * gain for gain in GAINS], [100 * gain for gain in (1.0, 0.9, 0.8, 0.7)]]
    told: dict[str, Any] = {"speedup": GAINS, "ends": ends, "measured": measured}
    return best_change([8, 64], rates, running=at, now=now, **told)


def test_a_longer_draft_than_was_measured_is_never_the_best() -> None:
    # Its whole band may gain more (1.75 at least, for 1.7), or some of it, or it may have none.
    ends = ([1.0, 1.3, 1.6, 1.75], [1.0, 1.5, 1.8, 2.0])
    far = change_from(1, 2, ends=ends)
    assert (far.best, far.longer) == (Gain(2, 1.7, 1.6, 1.8), Gain(3, 1.9, 1.75, 2.0))
    assert far.schedule.ranges == ((1, 63, 2), (64, 64, 0))
    bare = change_from(1, 2)
    assert (bare.best.draft_len, bare.longer) == (2, Gain(3, 1.9, 1.9, 1.9))
    # An acceptance that is given at any length has no end.
    for measured in (None, 3):
        free = change_from(1, measured, ends=ends)
        assert (free.best.draft_len, free.longer) == (3, None)
    assert change_from(1, 2, ends=ends, at=64).longer is None  # and none pays there
    # What runs already stays where it gains more, at every load: no schedule knows its rates.
    assert change_from(3, 2).schedule.ranges == ((1, 64, 3),)
