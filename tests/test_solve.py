"""The one inverse: what just meets a wish, against closed forms and the forward model."""

from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from specroof import load_drafter, load_hardware, load_model
from specroof.acceptance import acceptance_from_length, constant_acceptance
from specroof.drafters import Drafter, DraftTime
from specroof.errors import OptionError
from specroof.latency.setup import Deployment, engine_setup
from specroof.outcomes.case import Case
from specroof.outcomes.outcomes import outcomes
from specroof.outcomes.solve import AXES, Wish, crossing, largest_rate, runs_of, slowed, solve
from specroof.serving.played import played_server
from specroof.serving.workload import Load, Workload
from specroof.speedup.curve import drafting_gain
from tables import present, rows

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
@example("eagle3,accept=0.7", "cost", None, 1.125, (ARRIVALS, 1e-2))  # best of 1, of 2 when steady
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
    assert sum(present(rate.value) ** n for n in range(draft_len + 1)) == pytest.approx(
        tokens, rel=1e-9
    )
    assert rate.ceiling == pytest.approx((draft_len + 1) / steps)


def test_the_largest_batch_within_a_time_per_token() -> None:
    case, drafter = case_of(BATCH), load_drafter("eagle3,accept=0.7")
    every = outcomes(
        case.at(load=replace(BATCH, batch_size=[*range(1, 101)])), drafter, max_draft_len=3
    )
    fastest_s = every.tpot_s[0].min(axis=-1)
    found = solve(
        case, drafter, "batch", Wish(max_draft_len=3, tpot_s=(1 - 1e-13) * fastest_s[39], most=100)
    )
    fast = 1 + np.flatnonzero(fastest_s <= fastest_s[39])
    assert fast.tolist() == [n for first, last in found.runs for n in range(first, last + 1)]


@pytest.mark.parametrize(("parameter", "most", "speedup"), rows("values", "runs_over_an_axis"))
def test_runs_over_an_axis_are_those_of_trying_each_number(
    parameter: str, most: int, speedup: float
) -> None:
    # 80 GB hold some 100 requests of 4096 tokens: 16 GB of weights, 0.6 GB each.
    case, drafter = case_of(BATCH), load_drafter("eagle3,accept=0.7")
    numbers: Any = {AXES[parameter]: [*range(1, most + 2)]}
    load = replace(BATCH, **numbers)
    curve = outcomes(case.at(load=load), drafter, max_draft_len=3).curve
    all_gains, lengths = drafting_gain(curve, None)
    *gains, beyond = all_gains.ravel().tolist()
    wish = Wish(max_draft_len=3, speedup=speedup, most=most)
    found = solve(case.at(room="queue"), drafter, parameter, wish)
    pays = [number for number, gain in enumerate(gains, 1) if gain >= speedup]
    assert pays == [n for first, last in found.runs for n in range(first, last + 1)]
    assert found.ceiling == pytest.approx(max(gains), rel=1e-12)
    assert not pays or found.draft_len == lengths.ravel()[pays[-1] - 1]
    ends = beyond == -np.inf
    assert (found.unknown_from, found.room_ends) == (None if ends else most + 1, bool(pays) & ends)
    have_room = [number for number, gain in enumerate(gains, 1) if gain > -np.inf]
    told = (
        "always" if ends and pays == have_room else "at" if ends or most not in pays else "beyond"
    )
    assert found.answer == (told if pays else "never")


@pytest.mark.parametrize(
    ("parameter", "easy"), [("accept", 1.0), ("accept-length", 4.0), ("cost", 0.0)]
)
def test_the_ceiling_is_what_the_easier_end_gains(parameter: str, easy: float) -> None:
    case, drafter = case_of(BATCH), load_drafter("eagle3,accept=0.7")
    found = solve(case, drafter, parameter, Wish(max_draft_len=3, draft_len=3, speedup=1.2))
    best = outcomes(case, given_value(drafter, parameter, easy, 3), max_draft_len=3)
    assert found.ceiling == pytest.approx(best.curve.speedup[0, 0, 3])


def test_a_server_without_room_for_drafts_solves_nothing() -> None:
    case, drafter = case_of(replace(BATCH, batch_size=[1000])), load_drafter("eagle3,accept=0.7")
    found = solve(case, drafter, "accept", Wish(max_draft_len=3))
    assert (found.answer, found.value, found.room_ends) == ("no room", None, True)


def test_rates_beyond_a_plain_server_are_not_looked_at() -> None:
    drafter, wish = load_drafter("eagle3,accept=0.7"), Wish(max_draft_len=1)
    few = replace(ARRIVALS, requests=[40])
    rates = present(outcomes(case_of(few), drafter, max_draft_len=1).stable_rates(1))
    plain, drafted = rates
    assert plain < drafted
    slow, fast = (
        solve(case_of(replace(few, rate=[least, 1e4])), drafter, "rate", wish)
        for least in (plain / 4, (plain + drafted) / 2)
    )
    assert present(slow.value) <= plain
    assert fast.answer == "unsustained"


def test_the_largest_rate_meets_its_targets_and_no_higher_one_does() -> None:
    case, rates = case_of(ARRIVALS), [0.5, 40.0]
    load = replace(ARRIVALS, rate=rates, requests=[40, 40])
    server = played_server(
        case.deployment, load_drafter("eagle3,accept=0.7"), load.part(0), "queue", 2
    )
    targets = 0.5, 0.012

    def meets(rate: float, drafts: int) -> bool:
        (requests,) = replace(load, rate=[rate], requests=[40]).played()
        seen = server.play(requests, drafts).figures()
        return seen["p99_ttft_s"] <= targets[0] and seen["p99_tpot_s"] <= targets[1]

    found = present(largest_rate(server, load, [2, 1, 0], targets))
    assert meets(*found)
    assert not any(meets(1.03 * found[0], drafts) for drafts in range(3))
    # Of one rate it is that one, or none.
    assert largest_rate(server, replace(load, rate=[found[0]]), [found[1]], targets) == found
    assert largest_rate(server, load, [0, 1, 2], (1e-6, 1.0)) is None
    answered = present(largest_rate(server, load, [0], (np.inf, np.inf)))
    assert answered[0] == pytest.approx(server.answers(0))


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

    value = present(crossing(gain, 1 + at, ends).value)
    assert gain(value)[0] == pytest.approx(1 + at, rel=1e-15 * power + 1e-15)
    assert len(evaluated) < 200


def test_a_coarse_crossing_takes_the_ends_and_no_more_than_halving_does() -> None:
    tried: list[float] = []

    def gain(x: float) -> tuple[float, int]:
        tried.append(x)
        return 1 + x**20, 1

    assert crossing(gain, 1.5, (0.0, 1.0), within=0.1).value == pytest.approx(0.966, rel=0.1)
    assert len(tried) <= 2 + 4  # a tenth is four halves
    tried.clear()
    assert crossing(gain, 1.5, (0.0, 1.0)).value == pytest.approx(0.5**0.05, rel=1e-14)
    assert len(tried) <= 16  # halving alone takes more than 40


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
