"""Schedules of draft lengths: optimal against brute force, and steady while loads move."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from specroof import OptionError
from specroof.policies.schedule import (
    Schedule,
    best_schedule,
    fitting_schedule,
    held_drafts,
)
from specroof.serving.capacity import PrefillRules
from specroof.serving.pass_prices import Grid, PassPrices
from specroof.serving.played import PlayedServer
from specroof.serving.workload import trace

rates_of = st.integers(1, 7).flatmap(
    lambda n: st.lists(
        st.lists(st.floats(0.1, 10.0), min_size=3, max_size=3), min_size=n, max_size=n
    )
)


def least_lost(rates: list[list[float]], most_ranges: int) -> float:
    """Return what the best of all schedules loses, trying each."""
    lost = [[1 - rate / max(row) for rate in row] for row in rates]
    found = []
    for chosen in itertools.product(range(3), repeat=len(rates)):
        changes = sum(a != b for a, b in itertools.pairwise(chosen))
        if changes < most_ranges:
            found.append(sum(row[k] for row, k in zip(lost, chosen, strict=True)) / len(rates))
    return min(found)


@given(rates_of, st.integers(1, 4))
def test_no_schedule_of_as_many_ranges_loses_less(
    rates: list[list[float]], most_ranges: int
) -> None:
    loads = [3 * index + 1 for index in range(len(rates))]
    found = best_schedule(loads, rates, most_ranges=most_ranges)
    assert found.lost == pytest.approx(least_lost(rates, most_ranges), abs=1e-12)
    assert len(found.ranges) <= most_ranges


@given(rates_of, st.integers(1, 4))
def test_every_batch_is_covered_once(rates: list[list[float]], most_ranges: int) -> None:
    loads = [2 * index + 2 for index in range(len(rates))]
    ranges = best_schedule(loads, rates, most_ranges=most_ranges).ranges
    covered = [batch for first, last, _ in ranges for batch in range(first, last + 1)]
    assert covered == list(range(1, loads[-1] + 1))


def test_every_further_range_gains_what_it_takes() -> None:
    # One range loses 0.56 / 3, two 0.06 / 3, three nothing: the third gains less than 0.03.
    rates = [[0.5, 0.5, 1.0], [0.94, 1.0, 0.5], [1.0, 0.94, 0.5]]
    assert len(best_schedule([1, 2, 3], rates).ranges) == 3
    assert best_schedule([1, 2, 3], rates, least_gain=0.03).ranges == ((1, 1, 2), (2, 3, 0))
    assert best_schedule([1, 2, 3], rates, least_gain=0.2).ranges == ((1, 3, 0),)


def test_a_length_that_cannot_be_is_never_chosen() -> None:
    rates = [[1.0, 5.0], [1.0, np.nan]]
    assert best_schedule([1, 2], rates).ranges == ((1, 1, 1), (2, 2, 0))
    assert best_schedule([1, 2], rates, most_ranges=1).ranges == ((1, 2, 0),)


@pytest.mark.parametrize(
    ("loads", "rates", "message"),
    [
        ([], np.empty((0, 2)), "loads is"),
        ([0, 1], [[1.0], [1.0]], "loads is"),
        ([2, 2], [[1.0], [1.0]], "loads is"),
        ([1, 2], [[1.0]], "tokens_per_s has shape"),
        ([1], [1.0], "tokens_per_s has shape"),
        ([1, 2], [[1.0], [np.nan]], "tokens_per_s has shape"),
    ],
)
def test_what_is_no_grid_is_refused(loads: list[int], rates: object, message: str) -> None:
    with pytest.raises(OptionError, match=f"{message} .*; allowed: "):
        best_schedule(loads, rates)  # type: ignore[arg-type]


# --- loads that move ------------------------------------------------------------------------------

SCHEDULE = Schedule(((1, 16, 5), (17, 64, 2), (65, 256, 0)), 0.0)


@given(st.lists(st.integers(1, 300), min_size=1, max_size=30), st.floats(0.0, 0.4))
def test_drafts_that_are_held_are_those_of_a_load_within_the_margin(
    running: list[int], margin: float
) -> None:
    for load, drafts in zip(running, held_drafts(SCHEDULE, running, margin=margin), strict=True):
        least, most = round(load * (1 - margin)), round(load * (1 + margin))
        assert drafts in {SCHEDULE.drafts(one) for one in (least, load, most)}


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
    requests = trace(0.0, 10.0, rng.integers(5, 200, 8).astype(np.float64))
    found = fitting_schedule(server, requests, server.play(requests, 0))

    def seconds(drafts: dict[int, int]) -> float:
        return server.play(requests, drafts).duration_s

    every = [
        {1: first, **({edge: last} if first != last else {})}
        for first, last in itertools.product(range(3), repeat=2)
        for edge in range(2, 9)
    ]
    played_s = seconds({first: drafts for first, _, drafts in found.ranges})
    assert played_s <= 1.01 * min(map(seconds, every))
    assert found.ranges[0][0] == 1
    assert all(after[0] == before[1] + 1 for before, after in itertools.pairwise(found.ranges))
    assert found.ranges[-1][1] == 8
