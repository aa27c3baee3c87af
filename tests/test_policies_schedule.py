"""Schedules of draft lengths: optimal against brute force, of a job, and over a day."""

from itertools import pairwise, product
from typing import Any, Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from specroof.errors import MeasurementError, OptionError
from specroof.policies.schedule import (
    Schedule,
    Traffic,
    advised_day,
    best_schedule,
    fitting_schedule,
    held_drafts,
)
from specroof.questions.advised_loads import Mix, TrafficFile
from specroof.questions.traffic import parse_traffic, traffic_of
from specroof.serving.capacity import PrefillRules
from specroof.serving.pass_prices import Grid, PassPrices
from specroof.serving.played import PlayedServer
from specroof.serving.workload import Workload, trace
from tables import rows

rates_of = st.integers(1, 7).flatmap(
    lambda n: st.lists(
        st.lists(st.floats(0.1, 10.0), min_size=3, max_size=3), min_size=n, max_size=n
    )
)


def least_lost(rates: list[list[float]], most_ranges: int) -> float:
    """Return what the best of all schedules loses, trying each."""
    lost = [[1 - rate / max(row) for rate in row] for row in rates]
    return min(
        sum(row[k] for row, k in zip(lost, chosen, strict=True)) / len(rates)
        for chosen in product(range(3), repeat=len(rates))
        if sum(a != b for a, b in pairwise(chosen)) < most_ranges
    )


@given(rates_of, st.integers(1, 4))
def test_no_schedule_of_as_many_ranges_loses_less(
    rates: list[list[float]], most_ranges: int
) -> None:
    loads = [3 * index + 2 for index in range(len(rates))]
    found = best_schedule(loads, rates, most_ranges=most_ranges)
    assert found.lost == pytest.approx(least_lost(rates, most_ranges), abs=1e-12)
    assert len(found.ranges) <= most_ranges
    # Every batch is covered once.
    covered = [batch for first, last, _ in found.ranges for batch in range(first, last + 1)]
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
        for first, last in product(range(3), repeat=2)
        for edge in range(2, 9)
    ]
    played_s = seconds({first: drafts for first, _, drafts in found.ranges})
    assert played_s <= 1.01 * min(map(seconds, every))
    assert found.ranges[0][0] == 1
    assert all(after[0] == before[1] + 1 for before, after in pairwise(found.ranges))
    assert found.ranges[-1][1] == 8


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
    [((1, 1, 1, 4, 8), [2, 0], 3 * 30 + 40 + 80), ((1, 8, 8), [2, 1], 30 + 100 + 100)],
)
def test_a_schedule_of_few_ranges_goes_by_the_hours_of_each_load(
    hours: tuple[float, ...], drafts: list[int], tokens_per_s: float
) -> None:
    # 1 request gains threefold with 2 drafts, 4 lose with any, and 8 gain a quarter with 1. Two
    # ranges leave one of them out: of 4 and 8 the one that loses less over the hours.
    rates = [[10.0, 10.0, 30.0], [40.0, 4.0, 4.0], [80.0, 100.0, 8.0]]
    traffic = Traffic(hours, "concurrency")
    day = advised_day(traffic, [1, 4, 8], rates, output_len=10, most_ranges=2)
    assert [k for _, _, k in day.schedule] == drafts
    assert day.gain == pytest.approx(tokens_per_s / (10 * sum(hours)) - 1)


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
    traffic = Traffic((0.5, 2.0, 3.5, 3.0), "requests_per_s")
    day = advised_day(traffic, [1, 4], rates, output_len=10)
    assert (day.fixed, day.schedule) == (1, ((1, 4, 1),))
    # Half a request counts as one, 3.5 are too many, and 3 are just what 4 give.
    assert day.running == (1.0, 1.0, 4.0, 4.0)
    assert day.saturated == (2,)
    # A token takes 1/10, 4/20, 4/20 s plain; 1/20, 1/20, 4/30 with the draft.
    plain = 0.5 / 10 + 2.0 * 4 / 20 + 6.5 * 4 / 20
    drafting = 0.5 / 20 + 2.0 / 20 + 6.5 * 4 / 30
    assert day.gain == pytest.approx(plain / drafting - 1)


def test_a_schedule_that_is_not_worth_it_is_not_followed() -> None:
    # At 4 requests no draft is faster by a hair, but so many run only where none is made.
    rates = [[10.0, 20.0], [30.05, 30.0]]
    traffic = Traffic((0.5, 2.9), "requests_per_s")
    day = advised_day(traffic, [1, 4], rates, output_len=10)
    assert (day.fixed, day.schedule) == (1, ((1, 4, 1),))
    # With the draft 1 request gives 2 answers a second, 4 give 3.
    assert day.running == pytest.approx((1.0, 1 + 3 * 0.9))


def test_a_schedule_that_agrees_with_no_load_is_followed_from_the_best() -> None:
    # With a draft two requests run, and the schedule says none; without four run, and it says one.
    rates = [[10.0, 40.0], [15.0, 40.0], [40.0, 41.0]]
    day = advised_day(Traffic((4.0,), "requests_per_s"), [1, 2, 4], rates, output_len=10)
    assert day.oracle_gain >= day.gain >= day.fixed_gain


def test_lengths_that_cannot_be_are_never_advised() -> None:
    rates = [[1.0, np.nan, 2.0], [2.0, np.nan, 3.0]]
    units: tuple[Literal["concurrency", "requests_per_s"], ...] = ("concurrency", "requests_per_s")
    for unit in units:
        day = advised_day(Traffic((1.0, 0.0), unit), [1, 2], rates, output_len=1)
        assert day.fixed == 2
        assert {k for _, _, k in day.schedule} == {2}


@pytest.mark.parametrize("loads", [(), (1.0, -1.0), (0.0, 0.0), (np.inf,)])
def test_a_day_without_a_load_is_refused(loads: tuple[float, ...]) -> None:
    with pytest.raises(OptionError, match="allowed"):
        Traffic(loads, "concurrency")


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
    assert plain == TrafficFile(Traffic((0.0, 10.0), "requests_per_s"))


@pytest.mark.parametrize(("text", "message"), rows("refusals", "days"))
def test_tables_with_holes_are_refused(text: str, message: str) -> None:
    with pytest.raises(MeasurementError, match=message):
        parse_traffic(text, source="day.csv", is_yaml=False)


@pytest.mark.parametrize(("old", "new", "message"), rows("refusals", "day_files"))
def test_yaml_that_is_no_day_is_refused(old: str, new: str, message: str) -> None:
    text: Any = YAML.replace(old, new)
    with pytest.raises(MeasurementError, match=message):
        parse_traffic(text, source="day.yaml", is_yaml=True)
