"""Schedules of draft lengths: optimal against brute force, and steady while loads move."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from specroof import OptionError
from specroof.policies.schedule import Schedule, best_schedule, held_drafts

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


def test_a_range_that_gains_too_little_is_left_out() -> None:
    rates = [[1.0, 2.0], [1.0, 1.01], [1.01, 1.0]]
    assert len(best_schedule([1, 2, 3], rates).ranges) == 2
    assert best_schedule([1, 2, 3], rates, least_gain=0.01).ranges == ((1, 3, 1),)


def test_every_further_range_gains_what_it_takes() -> None:
    # One range loses 0.56 / 3, two 0.06 / 3, three nothing: the third gains less than 0.03.
    rates = [[0.5, 0.5, 1.0], [0.94, 1.0, 0.5], [1.0, 0.94, 0.5]]
    assert len(best_schedule([1, 2, 3], rates).ranges) == 3
    assert best_schedule([1, 2, 3], rates, least_gain=0.03).ranges == ((1, 1, 2), (2, 3, 0))


def test_two_ranges_may_gain_only_together() -> None:
    # A detour in the middle: two ranges lose as much as one.
    rates = [[2.0, 1.0], [1.0, 2.0], [2.0, 1.0]]
    assert best_schedule([1, 2, 3], rates, most_ranges=2).lost == pytest.approx(1 / 6)
    assert best_schedule([1, 2, 3], rates, most_ranges=3).ranges == (
        (1, 1, 0),
        (2, 2, 1),
        (3, 3, 0),
    )


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


@given(st.lists(st.integers(1, 300), min_size=1, max_size=30))
def test_without_a_margin_the_schedule_is_followed(running: list[int]) -> None:
    assert held_drafts(SCHEDULE, running, margin=0.0) == [SCHEDULE.drafts(one) for one in running]


@given(st.lists(st.integers(1, 300), min_size=1, max_size=30), st.floats(0.0, 0.4))
def test_drafts_that_are_held_are_those_of_a_load_within_the_margin(
    running: list[int], margin: float
) -> None:
    for load, drafts in zip(running, held_drafts(SCHEDULE, running, margin=margin), strict=True):
        least, most = round(load * (1 - margin)), round(load * (1 + margin))
        assert drafts in {SCHEDULE.drafts(one) for one in (least, load, most)}
