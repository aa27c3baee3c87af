"""What each user and each device can get: points by hand, room, money, and the cheapest."""

import tracemalloc
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.text import Text

import specroof
from commands import answered, run
from specroof import frontier, predict
from specroof.outcomes.choose import pareto
from specroof.questions.frontier import FrontierPoint
from specroof.report.layout import on_screen, show_notes
from specroof.speedup import curve as axes
from tables import present

MODEL, CHIP, SPEC = "Qwen/Qwen3-8B", "h100", "eagle3,accept=0.7"
ASKED: dict[str, Any] = {"drafters": SPEC, "batch_size": [1, 4, 16, 32], "max_draft_len": 4}


def found_points(**more: Any) -> dict[str, list[FrontierPoint]]:
    answer = frontier(MODEL, CHIP, **ASKED | more)
    return {one.name: list(one.points) for one in answer.series}


def test_points_are_those_of_predictions_that_no_other_beats() -> None:
    found = found_points(devices=[1, 2])
    every: dict[str, list[tuple[float, float]]] = {"plain": [], SPEC: []}
    for devices in (1, 2):
        curve = specroof.predict(MODEL, CHIP, tensor_parallel=devices, **ASKED).curves[0]
        for b, batch in enumerate(curve.batch_size):
            for draft_len in range(5):
                user = float(
                    curve.tokens_per_round[0, b, draft_len] / curve.round_s[0, b, draft_len]
                )
                name = SPEC if draft_len else "plain"
                every[name].append((user, user * batch / devices))
    for name, points in found.items():
        kept = [(one.tokens_per_s_per_user, one.tokens_per_s_per_device) for one in points]
        user, each = np.array(every[name]).T
        unbeaten = pareto({"speedup": user, "tokens_per_s": each}, "speedup", "tokens_per_s")
        np.testing.assert_allclose(sorted(kept), np.array(every[name])[unbeaten], rtol=1e-12)
    assert {one.devices for one in found[SPEC]} == {1, 2}


def test_a_batch_without_room_is_on_no_frontier() -> None:
    asked: dict[str, Any] = {"context_len": 32768, "batch_size": [1, 8, 512]}
    assert max(one.load for one in found_points(**asked)[SPEC]) == 8
    assert max(one.load for one in found_points(**asked, capacity=False)[SPEC]) == 512
    nothing = frontier("Qwen/Qwen3-32B", CHIP, drafters=SPEC, batch_size=1, context_len=400_000)
    assert [one.points for one in nothing.series] == [(), ()]
    assert nothing.cheapest is None
    assert "no batch has room" in nothing.text()
    assert nothing.plot() is not None


def test_money_and_energy_of_a_point_by_hand() -> None:
    answer = frontier(MODEL, CHIP, **ASKED, price_per_hour=3.6, tensor_parallel=2)
    for point in answer.series[1].points:
        # 3.6 $ an hour are 0.001 $ a second: a million tokens take 1e6 / rate seconds.
        assert point.usd_per_million_tokens == pytest.approx(1e3 / point.tokens_per_s_per_device)
        assert point.joules_per_million_tokens == pytest.approx(7e8 / point.tokens_per_s_per_device)


def test_the_cheapest_point_is_fast_enough_and_none_that_is_costs_less() -> None:
    answer = frontier(MODEL, CHIP, drafters=[SPEC, "ngram,accept=.3"], tpot_s=0.005, devices=[1, 2])
    assert answer.cheapest is not None
    best = answer.cheapest
    assert best.drafter == SPEC
    assert best.tokens_per_s_per_user >= 200
    fast = [row for row in answer.records if row["tokens_per_s_per_user"] >= 200]
    assert best.tokens_per_s_per_device == max(row["tokens_per_s_per_device"] for row in fast)
    assert best.usd_per_million_tokens == min(row["usd_per_million_tokens"] for row in fast)
    loads: Any = {"batch_size": [1, 128], "context_len": 512}  # at 128 plain decoding is best
    drafted = frontier(MODEL, CHIP, drafters="eagle3,accept=0.3", **loads).series[1]
    assert all(point.draft_len for point in drafted.points)
    slow = frontier(MODEL, CHIP, **ASKED)
    assert slow.series[0].cheapest == slow.series[0].points[0]
    known = ASKED | {"drafters": "eagle3,accept-length=3.6@3", "max_draft_len": 6}
    assert max(point.draft_len for point in frontier(MODEL, CHIP, **known).rows) == 3  # measured
    never = frontier(MODEL, CHIP, **ASKED, tpot_s=1e-5)
    assert never.cheapest is None
    assert ": none" in never.text()


def test_devices_that_do_not_divide_the_heads_are_left_out() -> None:
    answer = frontier(MODEL, CHIP, **ASKED, devices=[1, 3])
    assert {row["devices"] for row in answer.records} == {1}
    (warning,) = answer.warnings
    assert "tensor_parallel is 3" in warning


def test_a_frontier_without_points_is_a_table_without_rows(tmp_path: Path) -> None:
    # `--csv` ended in an IndexError: at this context not one sequence has room.
    path = tmp_path / "f.csv"
    run(f"frontier {MODEL} -H {CHIP} --drafter {SPEC} --context 1e8 --csv", path)
    (titles,) = path.read_text().splitlines()
    assert {*frontier(MODEL, CHIP, **ASKED).records[0]} <= {*titles.split(",")}


@pytest.mark.slow
@pytest.mark.long
def test_more_devices_hold_no_more_grids_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    # 64 numbers of devices held 64 grids: 2.4 GB, of which the frontiers are some hundred points.
    monkeypatch.setattr(axes, "_CHUNK_POINTS", 1 << 12)  # what is held outweighs what is computed
    asked = ASKED | {"batch_size": range(1, 1500), "max_draft_len": 32, "capacity": False}

    def most_bytes(devices: list[int]) -> int:
        tracemalloc.start()
        try:
            frontier(MODEL, CHIP, **asked, devices=devices)
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    most_bytes([1])  # imports
    assert most_bytes([1, 2, 4]) < 1.3 * most_bytes([1])


def test_the_chart_is_of_the_points() -> None:
    answer = frontier(MODEL, CHIP, **ASKED, tpot_s=0.008)
    lines = answer.plot().axes[0].lines
    for one, line in zip(answer.series, (lines[0], lines[2]), strict=True):
        users = [point.tokens_per_s_per_user for point in one.points]
        np.testing.assert_allclose(np.asarray(line.get_xdata()), users)


# --- requests ------------------------------------------------------------------------------------

REQUESTS: dict[str, Any] = {"input_len": 2000, "output_len": 400, "prefix_hit_rate": 0.25}


def test_requests_alone_are_of_the_usual_clients_that_may_be_best() -> None:
    asked: dict[str, Any] = {"drafters": SPEC, "engine": "sglang", "max_draft_len": 3, **REQUESTS}
    found = frontier(MODEL, CHIP, **asked)
    clients = sorted({point.load for point in found.rows})
    assert {1, 8, 64} <= {*clients}
    assert found.rows == frontier(MODEL, CHIP, **asked, concurrency=clients).rows
    # More than memory holds wait: they would bring a device little.
    most = frontier(MODEL, CHIP, **asked, concurrency=4 * clients[-1]).rows
    rates = [max(point.tokens_per_s_per_device for point in rows) for rows in (found.rows, most)]
    assert rates[1] == pytest.approx(rates[0], rel=0.02)
    assert "not usefully predicted" not in str(found).partition("\n\n")[0]  # as in closed form
    long: dict[str, Any] = {"drafters": SPEC, "input_len": 400_000, "output_len": 10}
    assert frontier("Qwen/Qwen3-32B", CHIP, **long).rows == ()


def test_points_whose_first_token_comes_too_late_do_not_count() -> None:
    every = frontier(MODEL, CHIP, **ASKED, **REQUESTS)
    waits = sorted(row["ttft_s"] for row in every.records)
    some = frontier(MODEL, CHIP, **ASKED, **REQUESTS, ttft_s=waits[len(waits) // 2])
    left = [row["ttft_s"] for row in some.records]
    assert left
    assert max(left) <= waits[len(waits) // 2] < waits[-1]
    none = frontier(MODEL, CHIP, **ASKED, **REQUESTS, ttft_s=1e-5)
    assert none.records == []
    assert none.cheapest is None


@pytest.mark.parametrize("name", ["ttft_s", "tpot_s"])
def test_targets_of_played_requests_are_of_the_99th_percentile(name: str) -> None:
    asked: dict[str, Any] = {"drafters": SPEC, "max_draft_len": 1, "rate": [1, 8], "requests": 60}
    seen = predict(MODEL, CHIP, **asked, **REQUESTS).played[0].figures
    mean_s, most_s = (seen[f"{of}_{name}"][:, 0] for of in ("mean", "p99"))
    target: Any = {name: (mean_s[1] + most_s[1]) / 2}
    assert most_s[0] < target[name]
    plain = frontier(MODEL, CHIP, **asked, **REQUESTS, **target).series[0]
    assert present(plain.cheapest).rate == 1  # 8 a second bring more, and meet it on average


def test_a_default_that_binds_is_raised_and_both_are_priced() -> None:
    # SGLang runs 48 requests with drafts unless it is told: plain decoding looked cheaper.
    asked: dict[str, Any] = {"drafters": "eagle3,accept-length=2.4@3", "batch_size": [48, 96, 192]}
    asked |= {"tpot_s": 0.02, "input_len": 1024, "output_len": 512, "max_draft_len": 5}
    found = frontier("openai/gpt-oss-120b", "b200", **asked)
    (chip,) = found.chips
    assert chip.cheapest is not None
    assert chip.by_default is not None
    point = chip.cheapest
    assert (point.drafter, point.running_limit) == (asked["drafters"], point.concurrency)
    assert point.at_once > 48
    # Others wait then with drafts, and none without.
    load: Any = {"concurrency": point.concurrency, "input_len": 1024, "output_len": 512}
    load |= {"drafters": asked["drafters"], "max_draft_len": 5}
    told, free = (
        predict("openai/gpt-oss-120b", "b200", **load, server=server).rows[0]
        for server in ("running=48", None)
    )
    assert chip.by_default.running_limit is None
    most = max(told.tokens_per_s, free.plain_tokens_per_s)
    assert chip.by_default.tokens_per_s_per_device == pytest.approx(most)
    # What the server gives that is told so, and what it gives by default.
    stated: Any = frontier(
        "openai/gpt-oss-120b", "b200", **asked, server=f"running={point.running_limit}"
    )
    rate = stated.cheapest.tokens_per_s_per_device
    assert rate == pytest.approx(point.tokens_per_s_per_device, rel=1e-9)
    assert stated.cheapest.running_limit is None
    (shown,) = found.to_dict()["choice"]["chips"]
    assert shown["by_default"]["tokens_per_s_per_device"] == chip.by_default.tokens_per_s_per_device
    assert shown["cheapest"]["running_limit"] == point.running_limit


def test_chips_stand_in_one_table_with_price_band_and_reach() -> None:
    chips = ["h100", "b200", "mi300x", "rtx-4090"]
    answer = frontier(MODEL, chips, drafters=SPEC, batch_size=[1, 8], tpot_s=0.05)
    assert len(engines := {chip.engine for chip in answer.chips}) > 1
    assert sorted(answer.engine.split(", ")) == sorted(engines)  # each is named once
    assert answer.cheapest == answer.chips[0].cheapest
    prices = [chip.cheapest.usd_per_million_tokens for chip in answer.chips if chip.cheapest]
    assert prices == sorted(prices, key=lambda usd: usd or 0)
    # The band of a price is that of the tokens, upside down: by hand, from the price of an hour.
    best, usd = present(answer.chips[0].cheapest), present(answer.chips[0].usd_per_hour)
    tokens = (best.tokens_per_s_per_device_high, best.tokens_per_s_per_device_low)
    ends = (best.usd_per_million_tokens_low, best.usd_per_million_tokens_high)
    assert ends == pytest.approx([usd / (rate * 3600 / 1e6) for rate in tokens])
    lines = answer.plot().axes[0].lines
    colors = {line.get_color() for line in lines if len(line.get_xdata()) == 2}
    assert len(colors) >= len(answer.chips)


def test_figures_whose_bands_say_too_little_stand_beside_notes_only() -> None:
    answer = frontier(MODEL, ["rx-7900-xtx", "arc-pro-b60"], drafters=SPEC, batch_size=[1])
    best: Any = answer.cheapest
    assert best.tokens_per_s_per_device_high > 3 * best.tokens_per_s_per_device_low
    figure = f"{best.tokens_per_s_per_device:.0f} "
    with on_screen(None):
        brief = str(answer)
        show_notes()
        assert (f": {figure}" in brief, f": {figure}" in str(answer)) == (False, True)
    assert "  ?" in brief
    assert not any(figure in one.get_text() for one in answer.plot().findobj(Text))


def test_what_a_user_gets_has_the_band_of_the_time_between_tokens() -> None:
    load: dict[str, Any] = {"drafters": SPEC, "batch_size": [8], "max_draft_len": 3}
    (row,) = predict(MODEL, CHIP, **load).rows
    answer = frontier(MODEL, [CHIP, "arc-pro-b60"], **load)
    (point,) = (
        point
        for point in answer.rows
        if (point.hardware, point.draft_len) == (row.hardware, row.draft_len)
    )
    low, high = map(present, (point.tokens_per_s_per_user_low, point.tokens_per_s_per_user_high))
    assert (1 / high, 1 / low) == pytest.approx((row.tpot_s_low, row.tpot_s_high))


def test_a_chip_that_is_not_fast_enough_stands_last() -> None:
    answer = frontier(MODEL, ["rtx-4090", "h100"], drafters=SPEC, batch_size=[1], tpot_s=0.006)
    assert [chip.cheapest is None for chip in answer.chips] == [False, True]
    assert answer.chips[1].reach is None
    with on_screen(None):
        show_notes()
        assert "engines differ: " in str(answer)
    none = frontier(MODEL, ["h100", "b200"], drafters=SPEC, batch_size=[8], tpot_s=1e-4)
    assert none.cheapest is None


def test_each_chip_may_have_a_price_of_its_own() -> None:
    asked: dict[str, Any] = {"drafters": SPEC, "batch_size": [8], "max_draft_len": 3}
    prices = {"h100": 2.0, "mi300x": 1.6}
    both = frontier(MODEL, [*prices], **asked, price_per_hour=prices)
    for chip, price in prices.items():
        alone = frontier(MODEL, chip, **asked, price_per_hour=price)
        told = [row for row in both.records if row["hardware"] == alone.hardware]
        assert told == alone.records
    words = f"predict {MODEL} --drafter {SPEC} --batch 8 --max-draft-len 3"
    h100, b200 = answered(words, "-H h100,b200 --price-per-hour h100=2")["rows"]
    plain = [one["plain_tokens_per_s"] for one in (h100, b200)]
    paid = [one["plain_usd_per_million_tokens"] for one in (h100, b200)]
    own: Any = frontier(MODEL, "b200", **asked).chips[0].usd_per_hour
    expected = [1e6 / rate * usd / 3600 for rate, usd in zip(plain, (2.0, own), strict=True)]
    assert paid == pytest.approx(expected)


def test_chips_without_a_price_are_ranked_by_tokens() -> None:
    chips = [replace(specroof.load_hardware(name), price=None) for name in ("h100", "b200")]
    answer = frontier(MODEL, chips, drafters=SPEC, batch_size=[8])
    rates = [chip.cheapest.tokens_per_s_per_device for chip in answer.chips if chip.cheapest]
    assert rates == sorted(rates, reverse=True)


# --- the points that no other beats ---------------------------------------------------------------


@pytest.mark.parametrize("y", ["tokens_per_s_per_device", "usd_per_million_tokens"])
@given(drawn=st.lists(st.tuples(st.integers(1, 9), st.integers(1, 9)), min_size=1, max_size=12))
def test_nothing_beats_a_point_of_the_frontier_and_something_beats_the_rest(
    y: str, drawn: list[tuple[int, int]]
) -> None:
    # A price is better the less it is.
    sign = -1 if y.startswith("usd") else 1
    across, up = np.array(drawn, dtype=float).T
    found = pareto({"speedup": across, y: sign * up}, "speedup", y)
    kept = {(across[i], up[i]) for i in found}
    for a, b in drawn:
        beaten = any((c >= a and d >= b) and (c, d) != (a, b) for c, d in drawn)
        assert ((a, b) in kept) is not beaten
    assert np.all(np.diff(across[found]) > 0)
    assert np.all(np.diff(up[found]) < 0)


def test_points_that_cannot_be_are_left_out_and_of_equal_ones_the_first_stays() -> None:
    names = "speedup", "tokens_per_s"
    alike = [np.array([1.0, 1.0, np.nan, 2.0]), np.array([4.0, 4.0, 5.0, np.nan])]
    assert pareto(dict(zip(names, alike, strict=True)), *names).tolist() == [0]
    assert pareto({name: [np.nan] for name in names}, *names).size == 0
