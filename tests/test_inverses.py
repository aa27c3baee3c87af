"""Where speculation starts and stops paying, against closed forms and the forward model."""

from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from specroof import load_drafter, speedup_curve
from specroof.acceptance import Acceptance, constant_acceptance
from specroof.drafters import Drafter, DraftTime
from specroof.errors import OptionError
from specroof.speedup.curve import drafting_gain
from specroof.speedup.inverses import (
    crossing,
    largest_cost,
    least_length,
    least_rate,
    paying_runs,
    slowed,
)


@given(st.floats(0, 0.5), st.integers(1, 12), st.floats(0.05, 0.95))
def test_acceptance_that_reaches_a_speedup_solves_the_published_theorem(
    cost: float, draft_len: int, share: float
) -> None:
    # Leviathan et al. 2022, theorem 3.8: tokens per round over γ c + 1 plain steps.
    tokens, steps = 1 + share * draft_len, draft_len * cost + 1

    def gain(acceptance: Acceptance) -> tuple[float, int]:
        return float(acceptance.tokens_per_round(draft_len)) / steps, draft_len

    rate = least_rate(gain, tokens / steps)
    assert (rate.answer, rate.draft_len) == ("at", draft_len)
    assert rate.value is not None
    assert sum(rate.value**n for n in range(draft_len + 1)) == pytest.approx(tokens, rel=1e-9)
    assert rate.ceiling == pytest.approx((draft_len + 1) / steps)
    length = least_length(gain, tokens / steps, draft_len=draft_len, kind="mtp")
    assert length.value == pytest.approx(tokens, rel=1e-9)


@pytest.mark.parametrize("spec", ["autoregressive,cost=0.1", "block,cost=0.2,drafts=7", "eagle3"])
def test_the_largest_cost_gives_the_speedup(spec: str) -> None:
    def curve_of(drafter: Drafter) -> Any:
        accepted = constant_acceptance(0.7)
        return speedup_curve("Qwen/Qwen3-8B", "h100", drafter=drafter, acceptance=accepted)

    def gain(drafter: Drafter) -> tuple[float, int]:
        return float(curve_of(drafter).speedup[0, 0, 3]), 3

    drafter = load_drafter(spec)
    found = largest_cost(gain, 1.1, drafter=drafter)
    assert found.value is not None
    if drafter.with_cost is not None:
        assert gain(drafter.with_cost(found.value))[0] == pytest.approx(1.1, rel=1e-9)
        return
    # The round with its drafting stretched, by hand.
    curve, at = curve_of(drafter), (0, 0, 3)
    longer_s = curve.round_s[at] + (found.value - 1) * curve.draft_s[at]
    gained = curve.tokens_per_round[at] * curve.decode_s[0, 0] / longer_s
    assert gained == pytest.approx(1.1, rel=1e-9)


def test_a_slowed_drafter_takes_the_factor() -> None:
    drafter = Drafter("mine", lambda _: DraftTime(np.array([1.0, 2.0])))
    nothing: Any = None
    assert slowed(drafter, 3.0).draft(nothing).serial_s.tolist() == [3.0, 6.0]
    hidden = replace(drafter, draft=lambda _: DraftTime(np.array(1.0), np.array(1.0)))
    with pytest.raises(OptionError, match=r"^drafter 'mine' "):
        slowed(hidden, 3.0).draft(nothing)


@given(st.floats(1, 20), st.floats(0.01, 0.99), st.booleans())
def test_a_crossing_is_as_exact_as_numbers_are(power: float, at: float, falls: bool) -> None:
    # 1 + x^p, whose slope is at most p: two neighbouring numbers x differ by 1e-16.
    ends = (1.0, 0.0) if falls else (0.0, 1.0)
    evaluated: list[float] = []

    def gain(x: float) -> tuple[float, int]:
        evaluated.append(x)
        return 1 + (1 - x if falls else x) ** power, 1

    value = crossing(gain, 1 + at, ends).value
    assert value is not None
    assert gain(value)[0] == pytest.approx(1 + at, rel=1e-15 * power + 1e-15)
    assert len(evaluated) < 200


def test_a_tie_at_the_wanted_speedup_is_an_answer() -> None:
    assert crossing(lambda x: (1 + x, 1), 2.0, (0.0, 1.0)).value == 1.0
    assert crossing(lambda x: (1 + x, 1), 1.0, (0.0, 1.0)).answer == "always"


@given(st.lists(st.booleans(), min_size=1, max_size=40), st.integers(1, 7), st.data())
def test_runs_are_those_of_counting(pays: list[bool], step: int, data: Any) -> None:
    # Runs are wide enough that two neighbours of the places never hide one.
    wide = np.repeat(pays, step + 1)
    every = np.arange(1, len(wide) + 1)
    inner = sorted({1, len(wide), *data.draw(st.sets(st.sampled_from(every.tolist())))})
    places = np.array([n for n in every if n in inner or n % step == 0])
    runs = paying_runs(lambda n: np.where(wide[n - 1], 2.0, 0.5), places, 1.0)
    told = [n for first, last in runs for n in range(first, last + 1)]
    assert told == every[wide].tolist()
    assert all(a[1] + 1 < b[0] for a, b in pairwise(runs))


def test_lengths_without_room_or_depth_gain_nothing() -> None:
    curve = speedup_curve("Qwen/Qwen3-8B", "b200", drafter="block,rates=.9/.9,cost=.1,drafts=4")
    assert drafting_gain(curve, None)[0] == float(curve.speedup[0, 0, 2])
    running = np.full(curve.round_s.shape, np.nan)
    running[..., 0] = 1
    assert drafting_gain(replace(curve, running=running), None)[0] == -np.inf
    running[..., 1] = 1
    gains, drafts = drafting_gain(replace(curve, running=running), None)
    assert (gains.item(), drafts.item()) == (curve.speedup[0, 0, 1], 1)
