"""One load has one answer, whichever question is asked.

`SPECROOF_DRAWS=60` asks about as many drawn set-ups, as `make agreement` does.
"""

import os
import random
from collections.abc import Sequence
from itertools import product
from typing import Any, Final, NamedTuple

import numpy as np
import pytest

from specroof import (
    OptionError,
    adaptive,
    advise,
    breakeven,
    explore,
    frontier,
    predict,
    rollout,
    sweep,
    worth,
)
from specroof.arrays import Array
from specroof.outcomes.choose import decided
from specroof.outcomes.outcomes import STEADY_NOTE
from specroof.outcomes.rows import LoadRow
from specroof.questions.page_loads import BANDS, DECISIONS, FIGURES, PRESETS, QUANTUM
from specroof.questions.predict import Prediction
from tables import table

#: What is asked is drawn from.
DRAWN: Final = table("drawn_set_ups")
DRAWS: Final = int(os.environ.get("SPECROOF_DRAWS", "8"))


class Draw(NamedTuple):
    """A deployment, a load, and the drafter with its acceptance; None for the published ones."""

    asked: dict[str, Any]
    load: dict[str, Any]
    drafter: str | None
    better: dict[str, Any]  # the drafter as `worth` is asked of it


#: What every question says of a load, besides its speedup and its decision.
FIGURES_OF_ALL: Final = ("tokens_per_s", "ttft_s", "tpot_s", "usd_per_million_tokens")


def drawn(seed: int) -> Draw:
    draw = random.Random(seed)
    model, devices = draw.choice(DRAWN["models"])
    spec, drafts = draw.choice(DRAWN["drafters"]), draw.choice([1, 2, 3, 5])
    if spec and "config" in spec and "Qwen" not in model:
        spec = "eagle3"
    length = round(1 + draw.uniform(0.3, 0.8) * drafts, 2)
    asked: dict[str, Any] = {
        "model": model,
        "hardware": draw.choice(DRAWN["chips"]),
        "framework": draw.choice(DRAWN["servers"]),
        "tensor_parallel": devices,
        "server": draw.choice(DRAWN["memory"]),
    }
    if asked["hardware"] == "mi300x" and "tensorrt" in asked["framework"]:  # which it has not
        asked["hardware"] = "h100"
    load, (prompt, answer) = dict(draw.choice(DRAWN["loads"])), draw.choice(DRAWN["sizes"])
    if "context_len" not in load:
        load |= {"input_len": prompt, "output_len": answer}
    if "rate" in load:
        load["requests"] = 60
    for side in {"prefill", "decode"} & {*load}:
        load[side] = load[side].format(asked.pop("tensor_parallel", devices))
    known = random.Random(-seed).choice([f"accept-length={length}@{drafts}"] * 2 + ["accept=0.72"])
    drafter = spec and f"{spec},{known}"
    better = {"drafter": spec, "accept_length": length, "draft_len": drafts}
    return Draw(asked, load, drafter, better)


def on_one_server(seed: int) -> Draw:
    """Return a draw whose workers are one server; what is asked of it has its own load."""
    draw = drawn(seed)
    split = {"prefill", "decode"} & {*draw.load}
    devices = dict(DRAWN["models"])[draw.asked["model"]]
    load = {name: one for name, one in draw.load.items() if name not in split}
    return draw._replace(asked={"tensor_parallel": devices} | draw.asked, load=load)


def figures_of(found: Prediction) -> dict[str, Any]:
    """Return what a prediction says of its load, at the drafter and length that it chooses."""
    (best,) = found.choice["loads"]
    place = [one.name for one in found.drafters].index(best["drafter"])
    outcome, ((choice, decision),) = found.outcomes[place], found.decisions[place]
    at = (0, 0, choice.draft_len)
    return {
        "drafter": best["drafter"],
        "draft_len": choice.draft_len,
        "decision": decision,
        "tried": choice.tried,
        "speedup": None if choice.reason else choice.speedup,
        "reason": choice.reason,
        "tokens_per_s": float(outcome.tokens_per_s[at]),
        "tpot_s": float(outcome.tpot_s[at]),
        "ttft_s": None if outcome.end_to_end is None else float(outcome.end_to_end.ttft_s[at]),
        "usd_per_million_tokens": found.money.of(outcome.tokens_per_s[at])[
            "usd_per_million_tokens"
        ],
        "devices": found.devices,
    }


def same_advice(told: dict[str, Any], draw: Draw, load: dict[str, Any]) -> None:
    """Hold `advise` and the break-even that it names against a prediction's figures."""
    try:
        (chip,) = advise(**draw.asked, **load, drafters=draw.drafter).chips
    except OptionError as refusal:  # no flags of a server for such drafts, or no room
        if told["tried"] and "no flags" not in str(refusal):
            raise
        return
    (row,), (least,) = chip.rows, chip.break_even
    if row.tried_draft_len and draw.drafter:
        tried: dict[str, Any] = {"drafter": draw.drafter, "draft_len": row.tried_draft_len}
        assert least.rate == breakeven(**draw.asked, **load, **tried).rows[0].value
    assert (row.drafter, row.tried_draft_len) == (told["drafter"], told["tried"])
    assert (row.decision, row.reason or "") == (told["decision"], told["reason"])
    assert told["reason"] or row.tried_speedup == pytest.approx(told["speedup"], rel=1e-9)
    for name in FIGURES_OF_ALL:
        assert getattr(row, name) == pytest.approx(told[name], rel=1e-9), name


def same_frontier(told: dict[str, Any], draw: Draw, load: dict[str, Any]) -> None:
    """Hold the points of `frontier` against a prediction's figures."""
    answer = frontier(**draw.asked, **load, drafters=draw.drafter)
    name = told["drafter"] if told["draft_len"] else "plain"
    (series,) = (one for one in answer.series if one.name == name)
    alike = [point for point in series.points if point.draft_len == told["draft_len"]]
    # Another length may be better for a user, and as good for a device: of requests that come by
    # themselves, and where prompts are all that workers have time for.
    is_sole = {"concurrency", "batch_size"} & {*load} and "prefill" not in load
    assert alike or not told["tried"] or not is_sole
    for point in alike:
        made = {"tokens_per_s": point.tokens_per_s_per_device * told["devices"]}
        made |= {"tpot_s": 1 / point.tokens_per_s_per_user, "ttft_s": point.ttft_s}
        made |= {"usd_per_million_tokens": point.usd_per_million_tokens}
        for name in FIGURES_OF_ALL:
            assert made[name] == (told[name] and pytest.approx(told[name], rel=1e-9)), name


@pytest.mark.parametrize("seed", range(DRAWS))
def test_every_question_gives_the_same_figures(seed: int) -> None:
    draw = drawn(seed)
    told = figures_of(predict(**draw.asked, **draw.load, drafters=draw.drafter))
    same_frontier(told, draw, draw.load)
    if "batch_size" not in draw.load:
        same_advice(told, draw, draw.load)
    if draw.drafter is None:
        return
    now = breakeven(**draw.asked, **draw.load, drafter=draw.drafter).rows[0]
    if not told["tried"]:  # no room with drafts: each says so
        assert (now.speedup, now.answer) == (None, "no room")
        return
    assert now.record["speedup"] == (told["speedup"] and pytest.approx(told["speedup"], rel=1e-9))
    assert (now.reason or "", now.decision) == (told["reason"], told["decision"])
    if "accept=" in draw.drafter:  # and drafters are compared by a length
        return
    (row,) = worth(**draw.asked, **draw.load, **draw.better, tpot_s=1.0).rows
    assert (row.draft_len, row.decision) == (told["draft_len"], told["decision"])
    if told["reason"]:
        assert (row.record["speedup"], row.reason) == (None, told["reason"])
    else:
        assert row.speedup == pytest.approx(max(told["speedup"], 1.0), rel=1e-9)
    for name in ("tpot_s", "tokens_per_s", "usd_per_million_tokens"):
        assert getattr(row, name) == pytest.approx(told[name], rel=1e-9), name


def test_no_question_has_drafts_that_the_named_server_refuses_of_the_model() -> None:
    # vllm 0.33.0, config/speculative.py: no EAGLE-3 head of GLM-4.5; the n-gram look-up is its own.
    asked: dict[str, Any] = {
        "model": "zai-org/GLM-4.5-Air", "hardware": "mi300x", "tensor_parallel": 4,
        "framework": "vllm@0.33",
    }  # fmt: skip
    load: dict[str, Any] = {"concurrency": 8, "input_len": 500, "output_len": 100}
    head, lookup = "eagle3,accept=0.8", "ngram,accept=0.4"
    every: list[Any] = [predict, advise, frontier, breakeven]
    for question in every:
        with pytest.raises(OptionError, match="no eagle3 for models of the family glm4_moe"):
            question(**asked, **load, drafter=head)
    found = predict(**asked, **load, drafters=[head, lookup])
    told = figures_of(found)
    assert told["drafter"] == lookup
    assert f"{head} is left out: vLLM 0.33.0 has no eagle3" in " ".join(found.warnings)
    (row,) = advise(**asked, **load, drafters=[head, lookup]).chips[0].rows
    assert (row.drafter, row.decision) == (told["drafter"], told["decision"])
    # An engine profile is asked for its times alone.
    del asked["framework"]
    assert figures_of(predict(**asked, **load, engine="vllm", drafters=head))["tried"]


#: A batch job: requests that all come at once, a few long ones among them.
JOB: Final = {"input_len": [600.0] * 40, "output_len": [100.0] * 30 + [900.0] * 10}


@pytest.mark.parametrize("seed", range(0, DRAWS, 2))
def test_a_job_and_a_trace_have_the_same_figures(seed: int) -> None:
    draw = on_one_server(seed)
    arrivals = {"arrival_s": (np.arange(40) / random.Random(seed).choice([2, 20])).tolist()}
    for load in ({"lengths": JOB}, {"trace": JOB | arrivals}):
        told = figures_of(predict(**draw.asked, **load, drafters=draw.drafter))
        same_advice(told, draw, load)
        same_frontier(told, draw, load)


def same_outcomes(studied: Prediction, alone: Prediction, place: int = 0) -> None:
    """Hold one load of a study, at a place of its own, against the same alone, to the digit."""
    (mine,), (other,) = studied.outcomes, alone.outcomes
    for name in ("tokens_per_s", "tpot_s"):
        at, there = getattr(mine, name)[:, place], getattr(other, name)[:, 0]
        np.testing.assert_array_equal(at, there)
    np.testing.assert_array_equal(mine.curve.speedup[:, place], other.curve.speedup[:, 0])
    for name in ("draft_len", "decision", "reason"):
        at, there = (getattr(decided(one), name) for one in (mine, other))
        np.testing.assert_array_equal(at[:, place], there[:, 0])


@pytest.mark.parametrize("seed", range(DRAWS))
def test_a_study_says_the_same(seed: int) -> None:
    asked, load, drafter, _ = drawn(seed)
    drafters = drafter or "eagle3,accept=0.7"  # which a study names
    target = {name: one for name, one in asked.items() if name != "server"}
    target |= {side: load[side] for side in ("prefill", "decode") if side in load}
    study = {"format_version": 1, "targets": [target], "drafters": [drafters]}
    study["server"] = asked["server"]
    if "context_len" in load:
        grid = {"context_len": 4096, "batch_size": [4, 16, 300]}
        one = sweep(study | grid).outcomes[0].prediction
        same_outcomes(one, predict(**asked, **load, drafters=drafters), 1)
        return
    requests = {name: load[name] for name in ("input_len", "output_len")}
    if "rate" in load:
        come = {"rate": load["rate"], "requests": load["requests"]}
        one = sweep(study | {"workload": requests | come}).outcomes[0].prediction
        same_outcomes(one, predict(**asked, **load, drafters=drafters))
        return
    clients = [3, load["concurrency"], 300]
    steady = sweep(study | {"workload": requests, "batch_size": clients})
    alone = predict(**asked, **load, drafters=drafters, steady=True)
    one = steady.outcomes[0].prediction
    same_outcomes(one, alone, 1)
    assert one.played == alone.played == ()
    # They say that they are steady, in every form.
    assert one.case["load"]["steady"]
    assert one.to_frame("points")["steady"].all()
    assert any(note.startswith(STEADY_NOTE) for note in steady.notes)
    assert STEADY_NOTE in " ".join(str(steady).split())
    if "prefill" in load:
        return
    played = sweep(study | {"workload": requests | {"requests": "10x"}, "batch_size": clients[:2]})
    one, alone = (
        played.outcomes[0].prediction,
        predict(**asked, **load, drafters=drafters, requests="10x"),
    )
    same_outcomes(one, alone, 1)
    assert not one.case["load"]["steady"]
    points = one.to_frame("points")  # other lengths than may win have the closed form
    assert (
        points.speedup.isna().all()
        or not points[points.is_best | (points.draft_len == 0)]["steady"].any()
    )


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
@pytest.mark.parametrize("model", ["Qwen/Qwen3-8B", "Qwen/Qwen3.5-27B"])
def test_the_page_has_the_room_of_a_prediction(model: str, engine: str) -> None:
    # SGLang runs 48 with drafts by default, and keeps states of as many as may run.
    batches, contexts = [16, 64, 100, 256], [1024, 8192]
    axes: dict[str, Any] = {"batch_size": batches, "context_len": contexts}
    page = explore(model, "h200", engines=engine, tensor_parallel=1, **axes)
    room = (
        page.section(*(next(iter(one)) for one in (page.models, page.hardware)))
        .cells[engine, 1]
        .drafting["mtp"]
        .room
    )
    for place, batch in enumerate(batches):
        (outcome,) = predict(
            model, "h200", engine=engine, drafters="mtp,accept=0.7", concurrency=batch,
            context_len=contexts,
        ).outcomes  # fmt: skip
        assert outcome.largest is not None
        memory, setting = room.ends
        if room.raised is not None:
            memory, setting = room.raised[0][:, place], room.raised[1][place]
        held = np.minimum(np.minimum(memory, setting), batch)
        running = outcome.decoding.running_batch[:, 0]
        np.testing.assert_array_equal(held, np.broadcast_to(running, held.shape))


# A page plays all presets on an engine: dear, so only every other draw.
@pytest.mark.parametrize("seed", range(0, DRAWS, 2))
def test_the_page_plays_presets_as_predict_does(seed: int) -> None:
    asked = {
        name: on_one_server(seed).asked[name] for name in ("model", "hardware", "tensor_parallel")
    }
    model, chip, devices = asked.values()
    clients: Final = [1, 8, 64]
    axes: dict[str, Any] = {"tensor_parallel": devices, "context_len": [1024, 16384]}
    steady = explore(model, chip, batch_size=1, **axes, steady=True).section(model, chip)
    assert not any(cell.played for cell in steady.cells.values())
    servers = [engine for engine, _ in steady.cells if engine != "ideal"]
    chosen = servers[seed % len(servers)]
    page = explore(model, chip, batch_size=[*clients, 256], engines=[chosen, "ideal"], **axes)
    cells = page.section(model, chip).cells
    ((engine, cell),) = ((engine, cell) for (engine, _), cell in cells.items() if cell.played)
    assert engine == chosen
    assert cell.played is not None
    places = product(enumerate(PRESETS), enumerate(cell.played.drafters))
    for (at, preset), (order, drafter) in places:
        found = predict(
            **asked, engine=engine, drafters=drafter, concurrency=clients,
            input_len=preset.workload.input_len, output_len=preset.output_len,
            prefix_hit_rate=preset.prefix_hit_rate,
        )  # fmt: skip
        same_rows(
            found.rows, *(one[:, at, order] for one in (cell.played.choices, cell.played.figures))
        )


def same_rows(rows: Sequence[LoadRow], choices: Array, figures: Array) -> None:
    """Hold rows against what a page has of them, to the digits that are printed."""
    # As they are packed.
    figures = np.exp(np.rint(np.log(figures) / QUANTUM) * QUANTUM)
    for row, chosen, values in zip(rows, choices.T, figures.T, strict=True):
        if not row.tried_draft_len or row.near_best is None:
            assert not chosen.any()
            continue
        told = [row.draft_len, row.tried_draft_len, *row.near_best]
        assert chosen[:4].tolist() == told
        assert DECISIONS[int(chosen[4])] == row.decision
        named = [*((name, getattr(row, name)) for name in FIGURES)]
        named += [(name, end) for name in BANDS for end in row.bands[name]]
        for (name, theirs), ours in zip(named, values, strict=True):
            spelt = row.quantities()[name].spelt
            assert spelt(ours) == spelt(theirs), name


@pytest.mark.parametrize("seed", range(DRAWS))
def test_a_rollout_is_the_job_of_predict(seed: int) -> None:
    asked, load, drafter, _ = on_one_server(seed)
    prompt = load.get("input_len", 500)
    rng = np.random.default_rng(seed)
    answers = np.rint(1 + rng.lognormal(5.0, 1.2, rng.choice([4, 60, 300])))
    job = {"input_len": float(prompt), "output_len": answers}
    one = predict(**asked, drafters=drafter, lengths=job)
    told = figures_of(one)
    place = [each.name for each in one.drafters].index(told["drafter"])
    played = one.played[place]
    if not np.isfinite(played.figures["duration_s"][0, 0]):
        with pytest.raises(OptionError, match="no room for a request"):
            rollout(**asked, drafters=drafter, lengths=answers, input_len=prompt)
        return
    off, *rows = rollout(**asked, drafters=drafter, lengths=answers, input_len=prompt).rows
    fixed, schedule = rows[2 * place : 2 * place + 2]
    assert (fixed.draft_len, fixed.decision) == (told["draft_len"], told["decision"])
    for row in (off, fixed):
        assert row.makespan_s == played.figures["duration_s"][0, row.draft_len]
        assert row.tokens_per_s == played.figures["tokens_per_s"][0, row.draft_len]
    assert fixed.tokens_per_s == pytest.approx(told["tokens_per_s"], rel=1e-9)
    assert fixed.speedup == pytest.approx(max(told["speedup"], 1.0), rel=1e-9)
    assert schedule.makespan_s <= fixed.makespan_s


@pytest.mark.parametrize("seed", range(DRAWS))
def test_policies_are_beside_the_figures_of_predict(seed: int) -> None:
    asked, load, drafter, _ = on_one_server(seed)
    if drafter is None or drafter.startswith("ngram"):  # which proposes no chain
        drafter = "eagle3,accept=0.7"
    if "rate" in load:
        load = {"concurrency": [8], "input_len": 1000, "output_len": 300}
    told = predict(**asked, **load, drafters=drafter)
    figures, (plain, *_) = figures_of(told), told.outcomes[0].tokens_per_s[0, 0]
    if not figures["tried"]:
        with pytest.raises(OptionError, match=r"memory for|no room for"):
            adaptive(**asked, **load, drafter=drafter)
        return
    found = adaptive(**asked, **load, drafter=drafter, n_rounds=50)
    assert found.draft_len == figures["draft_len"]
    for policy in ("fixed", "by load"):
        (row,) = found.policies[policy]
        assert row.plain_tokens_per_s == pytest.approx(plain, rel=1e-9)
        assert row.tokens_per_s == pytest.approx(figures["tokens_per_s"], rel=1e-9)
        assert row.speedup == pytest.approx(max(figures["speedup"], 1.0), rel=1e-9)


@pytest.mark.parametrize("seed", range(DRAWS))
def test_lengths_that_are_not_played_would_not_have_won(seed: int) -> None:
    asked, load, drafter, better = on_one_server(seed)
    drafter, drafts = drafter or "eagle3,accept=0.7", better["draft_len"]
    if "concurrency" not in load:
        load = {"concurrency": 8, "input_len": 2000, "output_len": 200}
    some, every = (
        predict(**asked, **load, drafters=drafter, max_draft_len=drafts, draft_len=shown)
        for shown in (None, [*range(1, drafts + 1)])
    )
    best, chosen = np.fmax.reduce(every.played[0].speedup[0]), figures_of(some)
    assert chosen["tried"] or np.isnan(best)  # no room
    assert not chosen["tried"] or max(chosen["speedup"], 1.0) == pytest.approx(
        max(best, 1.0), rel=2e-3
    )
