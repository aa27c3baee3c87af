"""What it takes to pay, by the forward model; and what better drafters would bring."""

import math
import shlex
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import specroof
from commands import run
from specroof import (
    OptionError,
    breakeven,
    load_drafter,
    load_hardware,
    load_model,
    plot,
    predict,
    worth,
)
from specroof.acceptance import acceptance_from_length, constant_acceptance
from specroof.drafters import Drafter, DraftTime
from specroof.latency.setup import Deployment, engine_setup
from specroof.outcomes.case import Case
from specroof.outcomes.outcomes import outcomes
from specroof.outcomes.solve import (
    AXES,
    Solution,
    Wish,
    _in_play,
    _nearest,
    _places,
    _power,
    crossing,
    largest_load,
    runs_of,
    slowed,
    solve,
)
from specroof.serving.played import played_server
from specroof.serving.served import served_curve
from specroof.serving.workload import REQUESTS_PER_CLIENT, Load, Workload
from specroof.speedup import curve as axes
from specroof.speedup.curve import drafting_gain
from tables import present, rows

DENSE, EXPERTS, CHIP = "Qwen/Qwen3-8B", "Qwen/Qwen3-30B-A3B", "h100"


def test_each_load_has_the_acceptance_that_gives_the_speedup_there() -> None:
    loads: dict[str, Any] = {"batch_size": [1, 16], "context_len": [512, 8192], "capacity": False}
    found = breakeven(EXPERTS, CHIP, drafter="eagle3", speedup=1.3, **loads)
    places = [(row.context_len, row.batch_size) for row in found.rows]
    assert places == [*product(loads["context_len"], loads["batch_size"])]
    for row in found.rows:
        load: Any = {"batch_size": row.batch_size, "context_len": row.context_len}
        load["drafter"] = f"eagle3,accept={row.value!r}"
        curve = specroof.speedup_curve(EXPERTS, CHIP, **load)
        assert curve.best_speedup.item() == pytest.approx(1.3, rel=1e-9)
        assert curve.best_draft_len.item() == row.draft_len
    # What a cost is of: a drafter that is timed, and one of which a share is stated.
    for spec, unit in (("mtp", "factor on its time"), ("block,cost=0,drafts=3", "share of a")):
        share = breakeven(DENSE, CHIP, drafter=f"{spec},accept=0.8", solve="cost", batch_size=1)
        assert share.sought.startswith(f"largest cost of drafting ({unit}")


def test_a_played_break_even_is_the_nearest_of_its_plays() -> None:
    # Played speedups jump by half a percent where answers end in other rounds.
    job = {"input_len": [300.0] * 40, "output_len": [900.0] * 30 + [2700.0] * 10}
    asked: dict[str, Any] = {
        "model": "Qwen/Qwen3.5-35B-A3B", "hardware": "b200", "tensor_parallel": 2, "lengths": job,
        "options": {"kv_dtype": "fp8"}, "server": {"memory": 0.5},
    }  # fmt: skip
    (row,) = breakeven(**asked, drafter="eagle3,accept-length=2.07@2").rows
    (there,) = predict(**asked, drafters=f"eagle3,accept={row.value!r}").rows
    assert f"{there.tried_speedup:.2f}" == "1.00"


@pytest.mark.parametrize(
    ("rate", "speedup"),  # the server answers 22.3 without drafts
    [(14, 1), (14, 2), (18, 1.5), (20, 1), (22, 1.5), (22, 2)],
)
def test_a_played_break_even_is_met_where_it_is_asked_back(rate: float, speedup: float) -> None:
    load: dict[str, Any] = {"input_len": 1000, "output_len": 200, "rate": rate, "requests": 200}
    asked: dict[str, Any] = {"model": DENSE, "hardware": "h100", "engine": "vllm", **load}
    asked |= {"drafter": "eagle3,accept-length=2.8@3", "draft_len": 3}
    (row,) = breakeven(**asked, speedup=speedup).rows
    assert breakeven(**asked, speedup=0.05).rows[0].answer == "always"
    asked |= {"drafter": f"eagle3,accept={row.value!r}", "draft_len": None}
    (there,) = predict(**asked, max_draft_len=3).played
    assert there.speedup[0, 3] == pytest.approx(speedup, rel=2e-3)


def test_the_end_of_a_search_is_no_answer() -> None:
    free = "autoregressive,cost=0,accept=0.9"
    asked: dict[str, Any] = {"drafter": free, "solve": "batch", "engine": "ideal"}
    further = breakeven(DENSE, CHIP, **asked, most=64)
    assert further.rows[0].runs == ((1, 64),)  # more than is tried below still pay
    found = breakeven(DENSE, CHIP, **asked, most=16)
    (row,) = found.rows
    assert (row.answer, row.value, row.unknown_from) == ("beyond", None, 17)
    assert row.draft_len
    assert found.records[0]["unknown_from"] == 17
    assert "> 16" in found.text()
    assert any("from 17 on" in note for note in found.notes)


def test_a_batch_needs_room() -> None:
    asked: dict[str, Any] = {"drafter": "eagle3,accept=0.8", "solve": "batch", "context_len": 8192}
    limited = breakeven(DENSE, CHIP, **asked)
    endless = breakeven(DENSE, CHIP, **asked, capacity=False)
    room = specroof.capacity(DENSE, CHIP, context_len=8192, drafters="eagle3", draft_len=1)
    assert limited.rows[0].value == room.rows[1].largest_batch
    assert endless.rows[0].runs[-1][1] > room.rows[1].largest_batch
    nowhere = breakeven(
        DENSE, CHIP, drafter="eagle3,accept=0.8", solve="context", batch_size=200_000, most=64
    )
    assert (nowhere.rows[0].record["ceiling"], nowhere.rows[0].answer) == (None, "no room")


def test_the_largest_context_is_the_last_that_is_predicted() -> None:
    # SGLang keeps fewer states while it drafts: drafts have room where a plain step has none.
    spec, hybrid = "block,cost=0.1,block=16,accept=0.8", "Qwen/Qwen3.5-27B"
    found = breakeven(hybrid, "h200", drafter=spec, solve="context", batch_size=1)
    last = found.rows[0].runs[-1][1]
    assert any(f"262144 tokens, and {last} are" in note for note in found.notes)
    curve = specroof.predict(hybrid, "h200", drafters=spec, context_len=[last, last + 1]).curves[0]
    assert np.isfinite(curve.best_speedup).ravel().tolist() == [True, False]


@pytest.mark.parametrize("question", [breakeven, specroof.worth])
@pytest.mark.parametrize(
    ("model", "kind"),
    [(DENSE, "eagle3"), ("deepseek-ai/DeepSeek-V3", "mtp"), ("google/gemma-7b", "eagle3")],
)
def test_a_drafter_is_the_one_that_predict_begins_with(
    question: Any, model: str, kind: str
) -> None:
    (first, *_) = specroof.predict(model, CHIP, tensor_parallel=8, capacity=False).drafters
    found = question(model, CHIP, tensor_parallel=8, batch_size=1, capacity=False)
    assert found.rows[0].drafter.partition(",")[0] == first.kind == kind


def test_memory_is_spoken_of_by_one_rule() -> None:
    asked: dict[str, Any] = {"batch_size": [1, 2, 64], "context_len": 8192}
    spec = "eagle3,accept-length=2.8@3"
    found = breakeven("Qwen/Qwen3-32B", CHIP, drafter=spec, **asked)
    said = specroof.predict("Qwen/Qwen3-32B", CHIP, drafters=spec, **asked).warnings
    assert (found.warnings, len(said)) == (said, 1)


def test_drafts_without_room_are_not_the_answer() -> None:
    # Each draft more holds another copy of recurrent state: the batch of the most that one draft
    # has room for has none for longer ones.
    model, chip, spec = "Qwen/Qwen3.5-27B", "b200", "mtp,accept=0.7"
    one = specroof.capacity(model, chip, drafters=spec, draft_len=1).rows[1].largest_batch
    two = specroof.capacity(model, chip, drafters=spec, draft_len=2).rows[1].largest_batch
    assert two < one
    (row,) = breakeven(model, chip, drafter=spec, speedup=1.2, batch_size=one).rows
    assert row.draft_len == 1
    (free,) = breakeven(model, chip, drafter=spec, speedup=1.2, batch_size=one, capacity=False).rows
    assert present(free.draft_len) > 1


@pytest.mark.parametrize("words", rows("values", "break_evens"))
def test_every_answer_is_drawn(words: tuple[str, ...], tmp_path: Path) -> None:
    picture = tmp_path / "chart.png"
    run(f"breakeven {DENSE} -H {CHIP} --plot", picture, *map(shlex.quote, words))
    assert picture.read_bytes()[1:4] == b"PNG"


def test_a_chart_shows_the_values_it_is_of() -> None:
    found = breakeven(DENSE, CHIP, drafter="block,cost=2.75,drafts=3", batch_size=[1, 8, 2048])
    axes = found.plot().axes[0]
    drawn = axes.lines[0].get_ydata()
    values = [row.value for row in found.rows]
    assert values[-1] is None
    np.testing.assert_allclose(drawn, [np.nan if v is None else v for v in values])
    never = plot.plot_breakeven(found).axes[0].lines[1].get_xdata()
    assert np.asarray(never).tolist() == [2048]


# --- what better drafters would bring -------------------------------------------------------------

SPEC = "block,cost=0.1,drafts=15"


def test_enough_drafts_are_within_a_percent_of_the_best_and_gains_are_by_token() -> None:
    lengths = [2.5, 4, 7]
    found = worth(DENSE, CHIP, drafter=SPEC, accept_length=lengths, draft_len=15, batch_size=16)
    for row, length in zip(found.rows, lengths, strict=True):
        spec = f"{SPEC},accept-length={length}@15"
        curve = specroof.predict(
            DENSE, CHIP, drafters=spec, batch_size=16, max_draft_len=15
        ).curves[0]
        near = curve.speedup[0, 0] >= 0.99 * row.speedup
        assert row.enough_drafts == int(np.flatnonzero(near)[0])
    first, second, third = found.rows
    assert first.gain_per_token is None
    gains = np.diff([row.speedup or np.nan for row in found.rows])
    assert second.gain_per_token == pytest.approx(gains[0] / 1.5)
    assert third.gain_per_token == pytest.approx(gains[1] / 3)


def test_users_are_the_most_that_wait_no_longer() -> None:
    asked: dict[str, Any] = {"draft_len": 15, "accept_length": 4, "capacity": False}
    found = worth(DENSE, CHIP, drafter=SPEC, tpot_s=0.01, **asked)
    (row,) = found.rows
    (around,) = specroof.predict(
        DENSE, CHIP, drafters=f"{SPEC},accept-length=4@15", batch_size=[row.users, row.users + 1],
        max_draft_len=15, capacity=False,
    ).curves  # fmt: skip
    fastest = np.nanmax(around.tokens_per_s_per_user[0], axis=-1)
    assert fastest[0] >= 100 > fastest[1]
    limited = worth(DENSE, CHIP, drafter=SPEC, tpot_s=1.0, draft_len=15, accept_length=4)
    room = specroof.capacity(DENSE, CHIP, server="running=128").rows[0].largest_batch
    assert limited.rows[0].users == room
    none = worth(DENSE, CHIP, drafter=SPEC, tpot_s=1e-6, **asked)
    assert none.rows[0].users == 0
    plain = worth(DENSE, CHIP, drafter=SPEC, batch_size=8, **asked)
    step_s = specroof.predict(DENSE, CHIP, drafters="ideal", batch_size=8).curves[0].decode_s
    assert plain.rows[0].tpot_limit_s == pytest.approx(step_s.item())
    assert plain.rows[0].users > 8


def test_users_are_sought_in_parts_of_a_grid(monkeypatch: pytest.MonkeyPatch) -> None:
    # All of 4096 x 1025 points were held at once: over 1 GB.
    held: list[int] = []

    def counted(*words: Any, **more: Any) -> Any:
        served = served_curve(*words, **more)
        held.append(served.curve.round_s.size)
        return served

    def users(tpot_s: float, limited: bool) -> int:
        asked: dict[str, Any] = {"drafter": SPEC, "draft_len": 15, "accept_length": 4}
        return worth(DENSE, CHIP, **asked, tpot_s=tpot_s, capacity=limited).rows[0].users

    cases = [(1e-6, True), (6e-3, False), (1.0, True), (1.0, False)]
    whole = [users(*case) for case in cases]
    monkeypatch.setattr("specroof.outcomes.outcomes.served_curve", counted)
    monkeypatch.setattr(axes, "_CHUNK_POINTS", 1 << 12)
    assert [users(*case) for case in cases] == whole
    assert len({*whole}) == len(cases)
    assert max(held) == 1 << 12


def test_lengths_that_drafts_cannot_give_are_left_out() -> None:
    found = worth(DENSE, CHIP, drafter=SPEC, draft_len=4)
    assert [row.accept_length for row in found.rows] == [3, 4, 5]
    assert worth(DENSE, CHIP, drafter="eagle3").draft_len == 16
    twice = worth(DENSE, CHIP, drafter=SPEC, accept_length=[4, 3, 3])
    assert [row.accept_length for row in twice.rows] == [3, 4]


def test_lengths_take_the_place_of_the_acceptance_of_a_spec() -> None:
    # They are measured with as many drafts as the SPEC says, as those of predict are.
    found = worth(DENSE, CHIP, drafter="eagle3,accept-length=2.8@3,weights=fp8", accept_length=2)
    assert (found.draft_len, found.drafter) == (3, "eagle3,weights=fp8")
    same = specroof.predict(DENSE, CHIP, drafters="eagle3,accept-length=2@3,weights=fp8")
    assert found.rows[0].speedup == pytest.approx(same.rows[0].speedup)
    assert found.rows[0].drafter == found.drafter


def test_a_chip_without_a_price_says_which_flag() -> None:
    found = worth(DENSE, "b300", drafter=SPEC, accept_length=3)
    assert found.rows[0].usd_per_million_tokens is None
    assert "--price-per-hour USD" in found.notes[0]
    given = worth(DENSE, "b300", drafter=SPEC, accept_length=3, price_per_hour=3.6)
    assert given.rows[0].usd_per_million_tokens == pytest.approx(1e3 / given.rows[0].tokens_per_s)


def test_a_speedup_that_only_large_rates_have_is_found_there() -> None:
    asked: dict[str, Any] = {"input_len": 1000, "output_len": 300, "rate": [1, 16]}
    (row,) = breakeven(
        DENSE, CHIP, drafter="eagle3,accept-length=3@3", solve="rate", speedup=3, **asked
    ).rows
    gains = [
        one.speedup
        for one in specroof.predict(DENSE, CHIP, drafters="eagle3,accept-length=3@3", **asked).rows
    ]
    assert gains[0] < 3 < gains[1]
    assert (row.answer, row.value) == ("at", 16)
    assert row.ceiling == pytest.approx(gains[1])


def test_p99_of_users_is_in_time_and_that_of_more_is_not() -> None:
    sizes: dict[str, Any] = {"input_len": 1000, "output_len": 300}
    asked: dict[str, Any] = {"drafter": "eagle3", "draft_len": 3, "accept_length": 3, **sizes}
    rows = worth(DENSE, CHIP, **asked, concurrency=[1, 64], tpot_s=0.0177).rows
    assert len({row.users for row in rows}) == 1  # whatever load is asked about
    clients = [rows[0].users, round(1.05 * rows[0].users)]
    (found,) = specroof.predict(
        DENSE, CHIP, drafters="eagle3,accept-length=3@3", **sizes, concurrency=clients
    ).played
    fits = np.nanmin(found.figures["p99_tpot_s"], axis=1) <= 0.0177
    assert fits.tolist() == [True, False]


def test_a_job_is_one_load_whatever_its_lengths() -> None:
    job = {"input_len": [300, 900, 500], "output_len": [40, 80, 200]}
    found = worth(DENSE, CHIP, drafter="ngram", accept_length=[2, 3], lengths=job)
    (same,) = specroof.predict(DENSE, CHIP, drafters="ngram,accept-length=3@16", lengths=job).rows
    assert found.rows[1].speedup == pytest.approx(same.speedup)
    assert "3 requests at once" in found.title


# --- the one inverse ------------------------------------------------------------------------------

MODEL = load_model("Qwen/Qwen3-8B")
WORK = Workload(2000, 200)
BATCH = Load([8], [4096])
DRAWN: dict[str, Any] = {"requests": [80], "length_range": (0.5, 1.5)}
CLIENTS = Load([8], [WORK.mean_context_len], WORK, **DRAWN)
ARRIVALS = Load([1], [WORK.mean_context_len], WORK, rate=[4], **DRAWN)


def case_of(load: Load, engine: str = "vllm") -> Case:
    setup = engine_setup(load_hardware("h100"), engine, None, None)
    return Case(Deployment(MODEL, setup), load, "queue" if load.requests else "drop")


#: What brings the most gain; of an acceptance length that is every draft and one.
EASIEST = {"accept": 1.0, "cost": 0.0}


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
)
@example("eagle3,accept=0.7", "accept-length", 3, 1.2)
@example("block,cost=0.2,drafts=7,accept=0.7", "cost", 3, 1.2)
@settings(max_examples=12, deadline=None)
def test_what_is_found_gives_the_wish_and_more_takes_more(
    spec: str, parameter: str, drafts: int | None, speedup: float
) -> None:
    case, drafter = case_of(BATCH), load_drafter(spec)
    wish = Wish(max_draft_len=3, draft_len=drafts, speedup=speedup)
    found, harder = (
        solve(case, drafter, parameter, replace(wish, speedup=wanted))
        for wanted in (speedup, 1.1 * speedup)
    )

    def gained(value: float) -> tuple[float, int]:
        takes = given_value(drafter, parameter, value, drafts or 1)
        there = outcomes(case, takes, max_draft_len=3, draft_lens=[drafts] if drafts else [])
        gains, made = drafting_gain(there.curve, drafts)
        return float(gains[0, 0]), int(made[0, 0])

    assert found.ceiling == harder.ceiling
    assert found.ceiling == pytest.approx(gained(EASIEST.get(parameter, (drafts or 1) + 1.0))[0])
    if found.value is None or harder.value is None:
        assert harder.answer == "never"
        assert harder.ceiling < 1.1 * speedup
        return
    if found.answer == "at":
        gain, made = gained(found.value)
        assert gain == pytest.approx(speedup, rel=1e-9)
        assert made == found.draft_len
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


def test_a_server_without_room_for_drafts_solves_nothing() -> None:
    case, drafter = case_of(replace(BATCH, batch_size=[1000])), load_drafter("eagle3,accept=0.7")
    found = solve(case, drafter, "accept", Wish(max_draft_len=3))
    assert found == Solution("no room", None, 1, -np.inf, room_ends=True)


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
    assert fast == Solution("unsustained", None, 1, -np.inf)
    late, two = case_of(replace(few, rate=[1e4])), Wish(max_draft_len=3, draft_len=2)
    assert solve(late, drafter, "accept", two) == replace(fast, draft_len=2)


def test_the_largest_rate_meets_its_targets_and_no_higher_one_does() -> None:
    case, rates = case_of(ARRIVALS), [0.5, 4e4]
    load = replace(ARRIVALS, rate=rates, requests=[40, 40])
    server = played_server(
        case.deployment, load_drafter("eagle3,accept=0.7"), load.part(0), "queue", 2
    )
    targets = 0.5, 0.012

    def meets(rate: float, drafts: int) -> bool:
        (requests,) = replace(load, rate=[rate], requests=[40]).played()
        seen = server.play(requests, drafts).figures()
        return seen["p99_ttft_s"] <= targets[0] and seen["p99_tpot_s"] <= targets[1]

    found = present(largest_load(server, load, [2, 1, 0], targets))
    assert meets(*found)
    assert not any(meets(1.03 * found[0], drafts) for drafts in range(3))
    worst_first = present(largest_load(server, load, [0, 1, 2], targets))
    assert worst_first[0] == pytest.approx(found[0], rel=0.011)
    # A hundredth of the least rate is the least that is looked at.
    assert largest_load(server, replace(load, rate=[4e4, 5e4]), [0, 1, 2], targets) is None
    # What was looked at is no better the second time.
    alone = present(largest_load(server, load, [found[1]], targets))
    assert largest_load(server, load, [found[1]] * 2, targets) == alone
    # A range that ends before the next rate that is looked at ends no search early.
    just = replace(load, rate=[0.37, 1.0099 * alone[0]])
    assert largest_load(server, just, [found[1]], targets) == alone
    # Of one rate it is that one, or none.
    assert largest_load(server, replace(load, rate=[found[0]]), [found[1]], targets) == found
    assert largest_load(server, load, [0, 1, 2], (1e-6, 1.0)) is None
    # Whatever the least is, the same is found; where that is too much, below it.
    for least in (0.37, 3 * found[0]):
        asked = replace(load, rate=[least, 4e4])
        assert largest_load(server, asked, [found[1]], targets) == alone
    # None is larger than what the server answers, however many are asked about.
    for asked in (load, replace(load, rate=[2 * server.answers(0), 40.0])):
        answered = present(largest_load(server, asked, [0], (np.inf, np.inf)))
        assert answered[0] == pytest.approx(server.answers(0))
    # An answer of one token has no second one that would be late.
    one = replace(load, workload=Workload(2000, 1), length_range=(1, 1))
    first = played_server(case.deployment, load_drafter("ideal"), one.part(0), "queue", 1)
    assert present(largest_load(first, one, [0], targets))[0] > found[0]


def test_clients_within_targets_are_as_many_as_counting_finds() -> None:
    server = played_server(case_of(CLIENTS).deployment, load_drafter("ideal"), CLIENTS, "queue", 1)

    def p99_s(clients: int) -> float:
        crowd = replace(CLIENTS, batch_size=[clients], requests=[REQUESTS_PER_CLIENT * clients])
        (requests,) = crowd.played()
        return server.play(requests, 0).figures()["p99_tpot_s"]

    most_s = (p99_s(5) + p99_s(6)) / 2
    found = present(largest_load(server, CLIENTS, [0], (np.inf, most_s), np.full(2, 64.0)))
    assert p99_s(5) < most_s < p99_s(6)
    assert int(found[0]) == 5


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


def test_seconds_that_are_a_straight_line_are_met_at_the_first_interpolation() -> None:
    tried: list[float] = []

    def gain(x: float) -> tuple[float, int]:
        tried.append(x)
        return 1 / (1.5 - x), 1

    assert crossing(gain, 1.25, (0.0, 1.0)).value == pytest.approx(0.7, rel=1e-12)
    assert len(tried) == 4  # the ends, half, and what the straight line says


def test_the_nearest_plays_are_those_that_miss_least_on_both_sides() -> None:
    tried = {0.1: (1.0, 1), 0.4: (1.3, 1), 0.6: (1.5, 2), 0.9: (2.0, 3)}
    assert _nearest(tried, 1.4, (0.0, 1.0)) == (0.4, 0.6)
    assert _nearest(tried, 3.0, (0.0, 1.0)) == (0.9, 1.0)
    assert _nearest(tried, 1.0, (0.0, 1.0)) == (0.0, 0.1)
    # Powers of plays: 4 is 2 squared; what does not rise, or as steeply as 2 is 4, tells nothing.
    plays = [([2, 1], [4, 1]), ([3], [2]), ([4, 1], [2, 1]), ([1, 1], [2, 1]), ([1, 2], [2, 1])]
    assert [_power(*play) for play in plays] == [0.5, 1, 1, 1, 1]
    assert _power([2, 1], [3, 3]) == 1


def rising(x: float) -> tuple[float, int]:
    """Return a closed form that is steady, with ends 0 and 1."""
    return 1 + x, 3


def in_play(play: Callable[[float], tuple[float, int]], wanted: float = 1.5) -> Solution:
    wish, ends = Wish(max_draft_len=2, speedup=wanted), (0.0, 1.0)
    return _in_play(play, rising, crossing(rising, wanted, ends), {}, wish, ends)


@pytest.mark.parametrize(("square", "plays"), [(0.0, 3), (1.0, 5)])
def test_plays_are_those_of_powers_between_the_two_nearest(square: float, plays: int) -> None:
    tried: dict[float, float] = {}

    def play(x: float) -> tuple[float, int]:
        tried[x] = (0.9 + square * x**2) * (1 + x) ** 1.25
        return tried[x], 1 + (x < 0.6)

    found, points = in_play(play), [*tried]
    # The easy end, where the closed form says, and where lines between logarithms say.
    assert points[:2] == pytest.approx([1.0, 0.5])
    for n in range(2, plays):
        near = sorted(points[:n], key=lambda x: abs(tried[x] - 1.5))[:2]
        (a, b), (p, q) = (np.log([tried[x] for x in near]), np.log1p(near))
        assert points[n] == pytest.approx(math.expm1(p + (math.log(1.5) - a) * (q - p) / (b - a)))
    assert found == Solution("at", points[-1], 2, tried[1.0])
    assert len(points) == plays
    assert tried[points[-1]] == pytest.approx(1.5, rel=1e-3)


def test_plays_at_the_ends_are_answers() -> None:
    assert in_play(lambda x: (1.6 + x, 2)) == Solution("always", 0.0, 2, 2.6)
    assert in_play(lambda x: (0.75 + 0.75 * x, 2)) == Solution("at", 1.0, 2, 1.5)
    assert in_play(lambda x: (0.7 + 0.7 * x, 2)) == Solution("never", None, 2, 1.4)
    assert in_play(lambda x: (1 + x, 2), wanted=1.0) == Solution("at", 0.0, 2, 2.0)


@pytest.mark.parametrize("jump", [0.3, 0.7])
@pytest.mark.parametrize("top", [1.55, 1.8])
def test_plays_that_jump_are_looked_at_between_the_nearest(jump: float, top: float) -> None:
    tried: list[float] = []

    def play(x: float) -> tuple[float, int]:
        tried.append(x)
        return (1.2 + x / 10 if x < jump else top + x / 10), 1

    found, before, made = in_play(play), [0.0, 1.0], tried[1:]
    for x in made:
        low, high = max(x for x in before if x < jump), min(x for x in before if x >= jump)
        assert low < x < high
        before.append(x)
    assert found.value == min([*tried], key=lambda x: abs(play(x)[0] - 1.5))
    assert (found.answer, found.ceiling, len(made)) == ("at", top + 0.1, 6)


def test_all_of_few_numbers_are_looked_at_and_sixteen_of_each_doubling() -> None:
    assert _places(4096).tolist() == [*range(1, 4097)]
    steps = {round(2 ** (step / 16)) for step in range(14 * 16 + 1)}
    assert _places(1 << 14).tolist() == sorted(steps)
    assert _places(5000)[-1] == 5000


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
