"""The one inverse: what just meets a wish, against closed forms and the forward model."""

from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specroof import load_drafter, load_hardware, load_model, speedup_curve
from specroof.acceptance import acceptance_from_length, constant_acceptance
from specroof.drafters import Drafter, DraftTime
from specroof.errors import OptionError
from specroof.latency import Deployment, engine_setup
from specroof.outcomes.case import Case
from specroof.outcomes.outcomes import outcomes
from specroof.outcomes.solve import Wish, crossing, runs_of, slowed, solve
from specroof.serving.workload import Load, Workload
from specroof.speedup.curve import drafting_gain

MODEL = load_model("Qwen/Qwen3-8B")
WORK = Workload(2000, 200)
BATCH = Load([8], [4096])
DRAWN: dict[str, Any] = {"requests": [80], "length_range": (0.5, 1.5)}
CLIENTS = Load([8], [WORK.mean_context_len], WORK, **DRAWN)
ARRIVALS = Load([1], [WORK.mean_context_len], WORK, rate=[4], **DRAWN)


def case_of(load: Load, engine: str = "vllm") -> Case:
    setup = engine_setup(load_hardware("h100"), engine, None, None)
    return Case(Deployment(MODEL, setup), load, "queue" if load.requests else "drop")


def given_value(drafter: Drafter, parameter: str, value: float, drafts: int) -> Drafter:
    """Return the drafter with what was found, made by hand."""
    if parameter == "accept":
        return replace(drafter, acceptance=constant_acceptance(value))
    if parameter == "accept-length":
        accepted = acceptance_from_length(value, drafts, kind=drafter.kind)
        return replace(drafter, acceptance=accepted)
    if drafter.with_cost is None:
        return slowed(drafter, value)
    return replace(drafter.with_cost(value), acceptance=drafter.acceptance)


@given(
    st.sampled_from(["eagle3,accept=0.7", "block,cost=0.2,drafts=7,accept=0.7"]),
    st.sampled_from(["accept", "accept-length", "cost"]),
    st.sampled_from([None, 1, 3]),
    st.floats(1.0, 1.6),
    st.sampled_from([(BATCH, 1e-9), (CLIENTS, 2e-3), (ARRIVALS, 1e-2)]),
)
@settings(max_examples=12, deadline=None)
def test_what_is_found_gives_the_wish_and_more_takes_more(
    spec: str, parameter: str, drafts: int | None, speedup: float, load: tuple[Load, float]
) -> None:
    case, drafter = case_of(load[0]), load_drafter(spec)
    wish = Wish(max_draft_len=3, draft_len=drafts, speedup=speedup)
    found, harder = (
        solve(case, drafter, parameter, replace(wish, speedup=wanted))
        for wanted in (speedup, 1.1 * speedup)
    )
    assert found.ceiling == harder.ceiling
    if found.value is None or harder.value is None:
        assert harder.answer == "never"
        assert harder.ceiling < 1.1 * speedup
        return
    takes = given_value(drafter, parameter, found.value, drafts or 1)
    lengths = [drafts] if drafts else []
    there = outcomes(case, takes, max_draft_len=3, draft_lens=lengths)
    gains, made = drafting_gain(there.curve, drafts)
    if found.answer == "at":  # whose played gain jumps, as rounds end together
        assert gains[0, 0] == pytest.approx(speedup, rel=load[1])
        assert made[0, 0] == found.draft_len
    assert (found.value >= harder.value) if parameter == "cost" else (found.value <= harder.value)


@given(st.floats(0, 0.5), st.integers(1, 12), st.floats(0.05, 0.95))
def test_acceptance_that_reaches_a_speedup_solves_the_published_theorem(
    cost: float, draft_len: int, share: float
) -> None:
    # Leviathan et al. 2022, theorem 3.8: tokens per round over γ c + 1 plain steps.
    tokens, steps = 1 + share * draft_len, draft_len * cost + 1

    def gain(rate: float) -> tuple[float, int]:
        return float(constant_acceptance(rate).tokens_per_round(draft_len)) / steps, draft_len

    rate = crossing(gain, tokens / steps, (0.0, 1.0))
    assert (rate.answer, rate.draft_len) == ("at", draft_len)
    assert rate.value is not None
    assert sum(rate.value**n for n in range(draft_len + 1)) == pytest.approx(tokens, rel=1e-9)
    assert rate.ceiling == pytest.approx((draft_len + 1) / steps)


def test_the_largest_batch_within_a_time_per_token() -> None:
    case, drafter = case_of(BATCH), load_drafter("eagle3,accept=0.7")
    every = outcomes(
        case.at(load=replace(BATCH, batch_size=[*range(1, 101)])), drafter, max_draft_len=3
    )
    fastest_s = every.tpot_s[0].min(axis=-1)
    found = solve(case, drafter, "batch", Wish(max_draft_len=3, tpot_s=fastest_s[39], most=100))
    fast = 1 + np.flatnonzero(fastest_s <= fastest_s[39])
    assert fast.tolist() == [n for first, last in found.runs for n in range(first, last + 1)]


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
    runs = runs_of(lambda n: bool(wide[n - 1]), places, wide[places - 1])
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
