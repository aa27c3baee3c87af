"""Decisions by speedups and their bands; schedules of lengths, of a job, and over a day."""

import math
from collections.abc import Sequence
from dataclasses import fields, replace
from functools import partial
from itertools import pairwise, product
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from specroof.errors import MeasurementError, OptionError
from specroof.policies.decision import (
    INPUTS,
    Change,
    Choice,
    Gain,
    LoadDecision,
    RoundBreakdown,
    best_change,
    bottlenecks,
    decide,
    decided,
    least_settled,
    paying_up_to,
    swings,
)
from specroof.policies.schedule import (
    Traffic,
    advised_day,
    best_schedule,
    drafts_at,
    fitting_schedule,
)
from specroof.questions.advised_loads import Mix, TrafficFile
from specroof.questions.traffic import parse_traffic, traffic_of
from specroof.serving.capacity import PrefillRules
from specroof.serving.pass_prices import Grid, PassPrices
from specroof.serving.played import PlayedServer
from specroof.serving.workload import Workload, trace
from specroof.speedup.result import TIE
from tables import refusal, rows


def apart(low: float, high: float) -> st.SearchStrategy[float]:
    """Return numbers that are equal, or apart by more than what counts as a tie."""
    return st.floats(low, high).map(lambda number: round(number, 6))


def best_choice(speedup: Sequence[float], *ends: Sequence[float], least: float = 1.0) -> Choice:
    """Return what `decide` takes at one load, with a band of its ends or none."""
    middle, low, high = (np.array(one, dtype=float) for one in (speedup, *(ends or [speedup] * 2)))
    found = decide((middle, low, high), np.zeros((), dtype=bool), least=least)
    return Choice(*(getattr(found, one.name).item() for one in fields(Choice)))


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
    assert best_choice([1.0, 1.0 + TIE]).draft_len == 0  # a tie with no drafts
    nothing = best_choice([np.nan] * 3)  # no room, not even without drafts
    assert (nothing.draft_len, nothing.tried, nothing.verdict) == (0, 0, "loses")
    assert (nothing.speedup, nothing.low, nothing.high) == (1.0, 1.0, 1.0)


def test_the_verdict_is_that_of_the_band_around_the_best() -> None:
    found = best_choice([1.0, 1.1, 1.2], [1.0, 1.0, 0.9], [1.0, 1.2, 1.5])
    assert (found.draft_len, found.low, found.high, found.verdict) == (2, 0.9, 1.5, "unclear")
    assert best_choice([1.0, 0.9], [1, 0.8], [1, 1.1]).verdict == "unclear"
    assert best_choice([1.0, 0.9], [1, 0.8], [1, 1.1]).draft_len == 0


def test_loads_decide_together() -> None:
    words: tuple[LoadDecision, ...] = ("on", "off", "unclear")
    for decisions in product(words, repeat=3):
        expected = "depends" if "on" in decisions else "unclear"
        if len({*decisions}) == 1:
            expected = decisions[0]
        assert decided(decisions) == expected


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
    # Where the server does not keep up without drafts, a larger capacity is worth it at any gain.
    falls_behind = np.array([False, True])
    loads = np.array([[1.0, 1.6], [1.0, 1.2]])
    wanted = decide((loads,) * 3, falls_behind, least=1.7)
    assert wanted.decision.tolist() == ["off", "on"]
    for values in (wanted.speedup, wanted.low, wanted.high):
        assert np.isnan(values).tolist() == [False, True]


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
    # No more is accepted than drafted.
    full = replace(HELD_BACK, tokens_per_round=4.0)
    less = replace(full, tokens_per_round=3.7).speedup
    assert swings(full)["acceptance"] == pytest.approx(np.log(full.speedup / less))


def test_the_least_settled_point_is_the_one_whose_band_reaches_past_one() -> None:
    assert least_settled([(1.0, 1.0, 1.0), (0.9, 1.1, 1.3)]) == 1
    assert least_settled([(1.0, 1.0, 1.0), (1.5, 1.5, 1.5)]) == 0
    assert least_settled([(0.5, 1.5, 4.0), (1.4, 1.5, 1.6)]) == 0
    # Next to what is wanted, not next to 1.
    assert least_settled([(1.0, 1.5, 2.25), (1.6, 1.9, 2.5)], 2.0) == 1


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
    assert drafts_at(change.schedule, running) == drafts
    assert not is_fixed or change.schedule == ((1, 64, drafts),)
    gain = max(speedup) / speedup[drafts] - 1
    assert gain < 0.01 if drafts == now else gain <= 1e-9


# --- what a server would gain by another length -------------------------------------------------


def test_the_gain_is_over_plain_decoding() -> None:
    rates = [[1.0, 1.5, 2.0], [4.0, 4.4, 4.2], [9.0, 8.0, 7.0]]
    loads = [1, 8, 64]
    ends = ([1.0, 1.05, 0.9], [1.0, 1.21, 1.2])
    told: dict[str, Any] = {"speedup": [1.0, 1.1, 1.05], "ends": ends}
    found = best_change(loads, rates, running=8, now=2, **told)
    assert found.schedule == ((1, 7, 2), (8, 63, 1), (64, 64, 0))
    assert (found.best, found.now) == (Gain(1, 1.1, 1.05, 1.21), Gain(2, 1.05, 0.9, 1.2))
    assert found.share_over_now(found.best) == pytest.approx(4.4 / 4.2 - 1)
    told = {"speedup": [1.0, 8 / 9, 7 / 9], "ends": ([1.0, 0.8, 0.7], [1.0, 1.0, 1.0])}
    off = best_change(loads, rates, running=64, now=2, **told)
    assert (off.best, off.now) == (Gain(0, 1.0, 1.0, 1.0), Gain(2, 7 / 9, 0.7, 1.0))
    # One draft may give no more than what runs, and what runs as much as none.
    assert found.is_unclear
    assert off.is_unclear
    lost = {"speedup": [1.0, 8 / 9, 7 / 9], "ends": ([1.0, 0.8, 0.7], [1.0, 1.0, 0.9])}
    assert not best_change(loads, rates, running=64, now=2, **lost).is_unclear  # type: ignore[arg-type]
    certain = {"speedup": [1.0, 1.1, 1.05], "ends": ([1.0, 1.09, 1.0], [1.0, 1.11, 1.1])}
    assert not best_change(loads, rates, running=8, now=2, **certain).is_unclear  # type: ignore[arg-type]
    same = best_change(loads, rates, running=8, now=1, speedup=[1.0, 1.1, 1.05])
    assert not same.is_unclear
    assert same.best == same.now
    rates[1].append(np.nan)
    for row in (rates[0], rates[2]):
        row.append(0.5)
    for unknown in (3, 7, None):  # without room, beyond the grid, or not shown
        none = best_change(loads, rates, running=8, now=unknown, speedup=[1.0, 1.1, 1.05, np.nan])
        assert (none.now, none.is_unclear) == (None, False)
        assert none.share_over_now(none.best) != none.share_over_now(none.best)  # no figure


def test_a_range_that_gains_too_little_is_no_range() -> None:
    # At 1 request one draft would gain a thousandth.
    near = best_change([1, 8], [[1.0, 1.001], [2.0, 1.9]], running=8, now=0, speedup=[1.0, 0.95])
    assert near.schedule == ((1, 8, 0),)
    # Loads that round to one number share their drafts: 1.4 loses more with one than 1 without.
    rates = [[1.0, 1.1], [2.0, 1.0], [1.0, 2.0]]
    assert best_schedule([1.0, 1.4, 8.0], rates) == ((1, 7, 0), (8, 8, 1))


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
    assert far.schedule == ((1, 63, 2), (64, 64, 0))
    bare = change_from(1, 2)
    assert (bare.best.draft_len, bare.longer) == (2, Gain(3, 1.9, 1.9, 1.9))
    # An acceptance that is given at any length has no end.
    for measured in (None, 3):
        free = change_from(1, measured, ends=ends)
        assert (free.best.draft_len, free.longer) == (3, None)
    assert change_from(1, 2, ends=ends, at=64).longer is None  # and none pays there
    # What runs already stays where it gains more, at every load: no schedule knows its rates.
    assert change_from(3, 2).schedule == ((1, 64, 3),)


# --- schedules ------------------------------------------------------------------------------------

rates_of = st.integers(1, 7).flatmap(
    lambda n: st.lists(
        st.lists(st.floats(0.1, 10.0), min_size=3, max_size=3), min_size=n, max_size=n
    )
)


def lost(rates: list[list[float]], chosen: Sequence[int]) -> float:
    """Return the mean share of throughput that lengths lose."""
    shares = [row[k] / max(row) for row, k in zip(rates, chosen, strict=True)]
    return 1 - sum(shares) / len(rates)


@given(rates_of, st.integers(1, 4))
def test_no_schedule_of_as_many_ranges_loses_less(
    rates: list[list[float]], most_ranges: int
) -> None:
    loads = [3 * index + 2 for index in range(len(rates))]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("specroof.policies.schedule._MOST_RANGES", most_ranges)
        found = best_schedule(loads, rates)
    every = product(range(3), repeat=len(rates))
    few = [one for one in every if sum(a != b for a, b in pairwise(one)) < most_ranges]
    least = min(lost(rates, one) for one in few)
    chosen = [drafts_at(found, load) for load in loads]
    assert lost(rates, chosen) == pytest.approx(least, abs=1e-12)
    assert len(found) <= most_ranges
    # Every batch is covered once.
    covered = [batch for first, last, _ in found for batch in range(first, last + 1)]
    assert covered == list(range(1, loads[-1] + 1))


def test_a_length_that_cannot_be_is_never_chosen() -> None:
    rates = [[1.0, 5.0], [1.0, np.nan]]
    assert best_schedule([1, 2], rates) == ((1, 1, 1), (2, 2, 0))
    assert best_schedule([1, 2], rates, least_gain=0.9) == ((1, 2, 0),)


def test_loads_rise_from_one_and_each_has_a_rate() -> None:
    for loads in ([], [0.4], [2, 2], [2, 1]):
        line = refusal(OptionError, best_schedule, loads, [[1.0, 2.0]] * len(loads))
        assert line.startswith("loads is ")
    for rates in ([[1.0, 2.0]], [1.0, 2.0], [[1.0, 2.0], [np.nan, np.nan]]):
        line = refusal(OptionError, best_schedule, [1, 2], rates)
        assert line.startswith("tokens_per_s has shape ")


# --- of a job -------------------------------------------------------------------------------------


def by_batch(seconds: tuple[float, float], tokens_per_round: float) -> PassPrices:
    """Return prices of rounds of 1 to 8 requests, in a line, and of prompts that take nothing."""
    line = Grid([1.0, 8.0], [1.0, 1e4], np.array([seconds, seconds]).T)
    nothing = Grid([1.0, 2.0], [1.0, 2.0], np.zeros((2, 2)))
    survival = (tokens_per_round - 1,) if tokens_per_round > 1 else ()
    return PassPrices(line, nothing, nothing, nothing, survival=survival)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.usefixtures("expected_rounds")
def test_a_schedule_is_nearly_the_best_of_all_that_can_be_played(seed: int) -> None:
    rng = np.random.default_rng(seed)
    slope = (0.02, 0.3, 0.8)[seed % 3]  # of one range, and of two or three
    # A plain step of 1 s; two drafts gain, and cost the more the more requests there are.
    prices = [
        by_batch((1.0, 1.0), 1.0),
        by_batch((1.1, 1.1 + slope), 1.5),
        by_batch((1.2, 1.2 + 4 * slope), 1.9),
    ]
    rules = PrefillRules(chunk=0, shares_passes=False, drafts_beside=False)
    limits = (np.full(3, 8.0), [None] * 3, np.ones(3), np.ones((3, 3)), None)
    server = PlayedServer("d", prices, (rules, rules), (False, False), *limits)
    requests = trace(0.0, 10.0, rng.integers(5, 200, 7).astype(np.float64))
    found = fitting_schedule(server, requests, server.play(requests, 0))

    def seconds(drafts: dict[int, int]) -> float:
        return server.play(requests, drafts).duration_s

    every = [
        {1: first, **({edge: last} if first != last else {})}
        for first, last in product(range(3), repeat=2)
        for edge in range(2, 9)
    ]
    played_s = seconds({first: drafts for first, _, drafts in found})
    assert played_s <= 1.01 * min(map(seconds, every))
    assert found[0][0] == 1
    assert all(after[0] == before[1] + 1 for before, after in pairwise(found))
    assert found[-1][1] == 7


def test_a_job_is_priced_part_by_part(monkeypatch: pytest.MonkeyPatch) -> None:
    # Parts of a second: of up to 4 requests, one of which begins in the middle of a part and one
    # ends there, and of none for a while.
    first, end = np.array([0.0, 10.5, 20.0, 40.0, 150.0]), np.array([90.5, 60.0, 80.5, 70.0, 200.0])
    prompt, answer = (
        np.array([100.0, 20.0, 50.0, 70.0, 10.0]),
        np.array([30.0, 9.0, 80.0, 5.0, 60.0]),
    )
    requests: Any = SimpleNamespace(input_len=prompt, output_len=answer)
    plain: Any = SimpleNamespace(
        duration_s=200.0, running=np.array([1, 4, 2]), first_s=first, end_s=end
    )

    def round_s(drafts: int, batch: int, held: float) -> float:
        return 2 + drafts * batch / 3 + held / 100

    prices = {
        k: SimpleNamespace(
            round_s=SimpleNamespace(at=partial(round_s, k)), tokens_per_round=1 + k / 2
        )
        for k in (0, 1, 3)
    }
    server: Any = SimpleNamespace(prices=prices, choices=(1, 2, 3), runs=lambda k: k != 2)
    asked: dict[str, Any] = {}
    expected = np.zeros((4, 4))
    expected[:, 2] = np.inf  # which does not run
    for clock in np.arange(200) + 0.5:
        on = (first <= clock) & (clock < end)
        if batch := int(on.sum()):
            held = np.mean((prompt + (clock - first) / (end - first) * answer)[on])
            token_s = [round_s(k, batch, held) / (1 + k / 2) for k in (0, 1, 3)]
            expected[batch - 1, [0, 1, 3]] += np.array(token_s) / token_s[0]

    def recorded(loads: Any, cost: Any, *, least_gain: float) -> Any:
        asked.update(loads=loads, cost=cost, least_gain=least_gain)
        return ((1, 2, 3), (3, 9, 0))

    monkeypatch.setattr("specroof.policies.schedule.cheapest_schedule", recorded)
    assert fitting_schedule(server, requests, plain) == ((1, 2, 3), (3, 4, 0))
    assert asked["loads"] == [1, 2, 3, 4]
    assert asked["cost"] == pytest.approx(expected)
    assert asked["least_gain"] == pytest.approx(0.002 * expected.min(axis=1).sum())


# --- of a day -------------------------------------------------------------------------------------

LOADS = (1.0, 4.0, 16.0)


@given(
    st.lists(st.lists(st.floats(1, 100), min_size=3, max_size=3), min_size=3, max_size=3),
    st.lists(st.sampled_from(LOADS), min_size=1, max_size=4),
)
def test_a_day_of_requests_in_flight_is_that_of_brute_force(
    rates: list[list[float]], hours: list[float]
) -> None:
    day = advised_day(Traffic(tuple(hours), "concurrency"), LOADS, rates, output_len=10)
    table = dict(zip(LOADS, rates, strict=True))

    def gain(drafts: tuple[int, ...]) -> float:
        plain = sum(table[load][0] for load in hours)
        return sum(table[load][k] for load, k in zip(hours, drafts, strict=True)) / plain - 1

    every = [gain(drafts) for drafts in product(range(3), repeat=len(hours))]
    fixed = [gain((k,) * len(hours)) for k in range(3)]
    assert day.oracle_gain == pytest.approx(max(every))
    assert day.fixed_gain == pytest.approx(max(fixed))
    assert fixed[day.fixed] == pytest.approx(max(fixed))
    # Three loads, and up to four ranges: a schedule can be the oracle.
    assert day.scheduled_gain == pytest.approx(max(every))
    assert day.gain >= day.fixed_gain
    assert day.running == tuple(hours)
    assert day.saturated == ()
    if len(day.schedule) > 1:
        assert day.gain > day.fixed_gain + 0.004


@pytest.mark.parametrize(
    ("hours", "drafts", "tokens_per_s"),
    [
        ((1, 1, 1, 4, 8), [2, 0], 3 * 30 + 40 + 80),
        ((1, 8, 8), [2, 1], 30 + 100 + 100),
        ((0, 0, 0, 4, 8), [0, 1], 40 + 100),
    ],
)
def test_a_schedule_of_few_ranges_goes_by_the_hours_of_each_load(
    monkeypatch: pytest.MonkeyPatch, hours: Any, drafts: list[int], tokens_per_s: float
) -> None:
    monkeypatch.setattr("specroof.policies.schedule._MOST_RANGES", 2)
    # 1 request gains threefold with 2 drafts, 4 lose with any, and 8 gain a quarter with 1. Two
    # ranges leave one of them out: of 4 and 8 the one that loses less over the hours.
    rates = [[10.0, 10.0, 30.0], [40.0, 4.0, 4.0], [80.0, 100.0, 8.0]]
    traffic = Traffic(hours, "concurrency")
    day = advised_day(traffic, [1, 4, 8], rates, output_len=10)
    assert [k for _, _, k in day.schedule] == drafts
    assert day.gain == pytest.approx(tokens_per_s / (10 * sum(hours)) - 1)


def test_the_best_length_of_all_loads_holds_up_to_the_largest() -> None:
    rates = [[10.0, 12.0], [40.0, 48.0], [80.0, 96.0]]
    day = advised_day(Traffic((1, 4, 8), "concurrency"), [1, 4, 8], rates, output_len=10)
    assert (day.schedule, day.fixed) == (((1, 8, 1),), 1)

    little = [[10.0, 10.06], [100.0, 99.0]]  # a schedule would gain 0.05 %
    day = advised_day(Traffic((1, 8), "concurrency"), [1, 8], little, output_len=10)
    assert day.schedule == ((1, 8, 0),)


def test_a_day_has_loads_from_0_on_and_one_above() -> None:
    for hours in ((), (1.0, -1.0), (1.0, math.nan), (1.0, math.inf), (0.0, 0.0)):
        assert refusal(OptionError, Traffic, hours, "concurrency").startswith("traffic ")


def test_a_length_of_which_a_load_is_unknown_is_never_the_best() -> None:
    rates = [[10.0, 12.0, np.nan], [40.0, 44.0, 50.0]]
    day = advised_day(Traffic((1, 4), "concurrency"), [1, 4], rates, output_len=10)
    assert day.schedule == ((1, 4, 1),)
    assert day.oracle_gain == pytest.approx((12 + 44) / (10 + 40) - 1)


def test_drafts_that_are_held_change_less_often() -> None:
    # Up to 16 requests 2 drafts gain half, from 17 on 1 gains a quarter; 2 gain a tenth there.
    rates = [
        [10.0, 11.0, 15.0],
        [160.0, 170.0, 240.0],
        [170.0, 212.5, 187.0],
        [320.0, 400.0, 352.0],
    ]
    hours = (15.0, 17.0, 16.0, 17.0, 32.0)
    day = advised_day(Traffic(hours, "concurrency"), [1, 16, 17, 32], rates, output_len=10)
    assert day.schedule == ((1, 16, 2), (17, 32, 1))
    assert (day.changes, day.held_changes) == (3, 1)
    # By hand: 17 is within a tenth of 16, where 2 drafts stay; of 32 it is not.
    plain = 150 + 170 + 160 + 170 + 320
    assert day.gain == pytest.approx((225 + 212.5 + 240 + 212.5 + 400) / plain - 1)
    assert day.held_gain == pytest.approx((225 + 187 + 240 + 187 + 400) / plain - 1)


def test_arrivals_run_as_many_requests_as_answer_them() -> None:
    # By hand: answers of 10 tokens; plain, 1 request gives 10 tokens/s, 1 answer a second, and 4
    # give 20, 2 a second; with a draft 20 and 30.
    rates = [[10.0, 20.0], [20.0, 30.0]]
    traffic = Traffic((0.5, 2.0, 3.5, 3.0), "requests_per_s", first_hour=8)
    day = advised_day(traffic, [1, 4], rates, output_len=10)
    assert (day.fixed, day.schedule) == (1, ((1, 4, 1),))
    # Half a request counts as one, 3.5 are too many, and 3 are just what 4 give.
    assert day.running == (1.0, 1.0, 4.0, 4.0)
    assert (day.saturated, day.unsustained) == ((10,), (10, 11))
    # A token takes 1/10 and 4/20 s plain, 1/20 and 1/20 with the draft; of more than 2 requests
    # a second, without drafts, nothing can be said.
    gain = (0.5 / 10 + 2.0 * 4 / 20) / (0.5 / 20 + 2.0 / 20) - 1
    assert (day.gain, day.fixed_gain, day.oracle_gain) == pytest.approx((gain,) * 3)
    # 2 requests give most, 3 answers a second: more of them answer no more.
    falling = [[10.0], [30.0], [20.0], [25.0]]
    most = advised_day(Traffic((2.2, 2.7), "requests_per_s"), [1, 2, 4, 8], falling, output_len=10)
    assert most.running == pytest.approx((1.6, 1.85))
    assert most.saturated == ()
    busy = advised_day(Traffic((0.0, 2.5), "requests_per_s"), [1, 4], rates, output_len=10)
    assert np.isnan([busy.gain, busy.held_gain, busy.oracle_gain]).all()
    assert (busy.fixed, busy.unsustained) == (1, (1,))


def test_hours_that_no_gain_counts_decide_between_equals_alone() -> None:
    # Of 10 tokens each, 1 request gives 1 answer a second, or 2 with a draft; 4 give 2, or 1.9.
    rates = [[10.0, 20.0], [20.0, 19.0]]
    day = advised_day(Traffic((0.5, 200.0), "requests_per_s"), [1, 4], rates, output_len=10)
    assert (day.fixed, day.unsustained) == (1, (1,))
    assert day.gain == pytest.approx(1.0)
    # Two drafts give 3: a schedule is as good in the first hour, and better in the other.
    rates = [[10.0, 20.0, 19.95], [20.0, 19.0, 30.0]]
    day = advised_day(Traffic((0.5, 3.0), "requests_per_s"), [1, 4], rates, output_len=10)
    assert (day.fixed, day.schedule) == (1, ((1, 3, 1), (4, 4, 2)))
    # An idle server gains nothing; only with the draft do 4 give the 2.5 of the other hour.
    rates = [[10.0, 10.0], [20.0, 30.0]]
    day = advised_day(Traffic((0.5, 2.5), "requests_per_s"), [1, 4], rates, output_len=10)
    assert (day.fixed, day.gain, day.saturated) == (1, 0.0, ())


def test_lengths_that_are_refused_at_a_load_are_taken_up_to_it() -> None:
    # A draft gives 2 times the 10 tokens/s of 1 request and 25 for the 20 of 4, where it must not
    # be taken; 3 requests run with it, each at the 5 + 5/3 and 6.25 + 13.75/3 tokens/s between.
    rates, refused = [[10.0, 20.0], [20.0, 25.0]], [[False, False], [False, True]]
    gains = {(1.0, 4.0): (20 + 20) / (10 + 20), (3.0,): (6.25 + 13.75 / 3) / (5 + 5 / 3)}
    for hours, gain in gains.items():
        traffic = Traffic(hours, "concurrency")
        day = advised_day(traffic, [1, 4], rates, output_len=10, refused=refused)
        assert (day.fixed, day.schedule) == (0, ((1, 3, 1), (4, 4, 0)))
        assert (day.gain, day.oracle_gain) == pytest.approx((gain - 1,) * 2)


def test_a_schedule_that_agrees_with_no_load_is_followed_from_the_best() -> None:
    # With a draft two requests run, and the schedule says none; without four run, and it says one.
    rates = [[10.0, 40.0], [15.0, 40.0], [40.0, 41.0]]
    day = advised_day(Traffic((4.0,), "requests_per_s"), [1, 2, 4], rates, output_len=10)
    assert day.oracle_gain >= day.gain >= day.fixed_gain


YAML = """
hours:
- {hour: 0, requests_per_s: 0.5}
- {hour: 1, requests/s: 2}
mix:
- {input_len: 1000, output_len: 100, weight: 3}
- {input_len: 3000, output_len: 500}
"""


def test_files_say_hours_and_sizes() -> None:
    found = parse_traffic(YAML, source="day.yaml", is_yaml=True)
    assert found.traffic == Traffic((0.5, 2.0), "requests_per_s")
    assert found.mix == Mix((Workload(1000, 100), Workload(3000, 500)), (3.0, 1.0))
    assert traffic_of(found) is found
    alone = parse_traffic(YAML.partition("mix:")[0], source="day.yaml", is_yaml=True)
    assert alone == TrafficFile(found.traffic)
    plain = parse_traffic("hour,requests/s\n6,0\n7,1e1\n", source="a.csv", is_yaml=False)
    assert plain == TrafficFile(Traffic((0.0, 10.0), "requests_per_s", first_hour=6))


@pytest.mark.parametrize(("old", "new", "message"), rows("refusals", "day_files"))
def test_yaml_that_is_no_day_is_refused(old: str, new: str, message: str) -> None:
    text: Any = YAML.replace(old, new)
    with pytest.raises(MeasurementError, match=message):
        parse_traffic(text, source="day.yaml", is_yaml=True)
