"""Loads that are played through: their figures beside the steady state, and in each question."""

import csv
import io
import math
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import numpy as np
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from commands import Terminal, answered, invoked, run
from gridded import gridded
from specroof import (
    advise,
    breakeven,
    constant_acceptance,
    context_acceptance,
    frontier,
    load_drafter,
    load_hardware,
    load_model,
    predict,
    read_results,
    sweep,
    worth,
)
from specroof.hardware.engine import ServerSettings
from specroof.latency.setup import Deployment, engine_setup
from specroof.outcomes.outcomes import Outcomes, _told_at_peaks
from specroof.outcomes.rows import point_arrays
from specroof.questions.study import load_study
from specroof.questions.sweep import study_of, study_slices
from specroof.serving import played
from specroof.serving.capacity import in_server, served_room
from specroof.serving.played import PlayedServer, play, played_server
from specroof.serving.workload import Load, Workload, open_loop
from tables import present, rows

MODEL, CHIP, SPEC = "Qwen/Qwen3-8B", "h100", "eagle3,accept=0.7"
ASKED: dict[str, Any] = {"drafters": SPEC, "max_draft_len": 3, "engine": "vllm"}
REQUESTS: dict[str, Any] = {"input_len": 1000, "output_len": 200}
TRACE = "arrival_s,input_len,output_len\n0,1000,100\n1,2000,300\n1.5,300,50\n4,1000,1\n"


@pytest.fixture
def trace_file(tmp_path: Path) -> Path:
    path = tmp_path / "trace.csv"
    path.write_text(TRACE)
    return path


def test_figures_are_those_of_the_requests_that_are_played() -> None:
    drawn: dict[str, Any] = {"seed": 3, "length_range": (0.5, 1.5)}
    found = predict(MODEL, CHIP, **ASKED, **REQUESTS, rate=[2, 6], requests=120, **drawn)
    (one,) = found.played
    assert one.load.kind == "rate"
    assert one.draft_len.tolist() == [0, 1, 2, 3]
    server = played.played_server(found.deployment, found.drafters[0], one.load, found.room, 3)
    for place, rate in enumerate((2, 6)):
        requests = open_loop(Workload(1000, 200), rate, 120, **drawn)
        for drafts in (0, 3):
            seen = server.play(requests, drafts)
            for name, times in (("ttft_s", seen.ttft_s), ("latency_s", seen.latency_s)):
                for cut in (50, 90, 99):
                    value = one.figures[f"p{cut}_{name}"][place, drafts]
                    assert value == pytest.approx(np.percentile(times, cut))
            assert one.figures["mean_queue_s"][place, drafts] == pytest.approx(seen.queue_s.mean())
            # Little 1961, over the whole run.
            in_service = np.sum(seen.end_s - seen.started_s) / seen.duration_s
            assert one.figures["mean_running"][place, drafts] == pytest.approx(in_service)
    assert one.speedup[:, 0].tolist() == [1.0, 1.0]
    latency_s = one.figures["mean_latency_s"]
    assert one.best_draft_len.tolist() == np.argmin(latency_s, axis=1).tolist()
    # The curves are of the batch that runs on average without drafts.
    running = one.figures["mean_running"][:, 0]
    assert found.curves[0].batch_size == pytest.approx(np.maximum(running, 1))


@settings(max_examples=8, deadline=None)
@given(
    slots=st.integers(2, 16),
    waiting=st.integers(2, 6),
    prompt=st.integers(64, 4000),
    answer=st.integers(64, 400),
    engine=st.sampled_from(["vllm", "sglang"]),
)
def test_who_waits_for_room_waits_as_long_as_the_steady_state_says(
    slots: int, waiting: int, prompt: int, answer: int, engine: str
) -> None:
    found = predict(
        MODEL, CHIP, drafters=SPEC, engine=engine, concurrency=slots * waiting, input_len=prompt,
        output_len=answer, max_draft_len=2, length_range="0.5..1.5", requests="40x", draft_len=2,
        server=f"running={slots}",
    )  # fmt: skip
    (one,), (steady,) = found.played, found.end_to_end
    for drafts in (0, 2):
        for name, expected in (
            ("tokens_per_s", steady.tokens_per_s),
            ("mean_latency_s", steady.answer_s),
            ("mean_ttft_s", steady.ttft_s),
        ):
            seen = one.figures[name][0, drafts]
            assert seen == pytest.approx(expected[0, 0, drafts], rel=0.1), (name, drafts)


def test_more_requests_a_second_are_served_no_sooner() -> None:
    rates = [1, 2, 4, 8, 16, 32, 64]
    found = predict(MODEL, CHIP, **ASKED, **REQUESTS, rate=rates, requests=600, ttft_s=0.5)
    (one,) = found.played
    for drafts in range(4):
        for name in ("p99_ttft_s", "mean_latency_s", "p99_queue_s"):
            values = one.figures[name][:, drafts]
            assert np.all(np.diff(values) > -0.02 * values[:-1]), name
        good = one.figures["good_requests_per_s"][:, drafts]
        served = one.figures["requests_per_s"][:, drafts]
        assert np.all(good <= served)
        assert np.all(served < one.stable_rate[drafts] * 1.1)
    good = one.figures["good_requests_per_s"]
    assert (good.max(axis=1) == good[np.arange(len(rates)), one.best_draft_len]).all()
    # Beyond what it answers at most the server is full, and says so once.
    (warning,) = [text for text in found.warnings if "answers at most" in text]
    assert f"{one.stable_rate[0]:.3g} requests/s without drafts" in warning
    calm = predict(MODEL, CHIP, **ASKED, **REQUESTS, rate=1, requests=50)
    assert calm.played[0].stable_rate.tolist() == one.stable_rate.tolist()
    assert not [text for text in calm.warnings if "answers at most" in text]


@pytest.mark.parametrize(
    ("engine", "output_len"), [("vllm", 200), ("sglang", 200), ("sglang", 3000)]
)
def test_a_full_server_answers_what_the_steady_state_says(engine: str, output_len: int) -> None:
    # Answers are long beside what memory holds: SGLang keeps room for their ends.
    asked = ASKED | REQUESTS | {"engine": engine, "draft_len": [3], "output_len": output_len}
    (one,) = predict(MODEL, CHIP, **asked, rate=100, requests=2000).played
    served = one.figures["requests_per_s"][0, [0, 3]]
    assert served == pytest.approx(one.stable_rate[[0, 3]], rel=0.07)


def test_prompts_fill_a_pipeline_that_decodes_no_second_time() -> None:
    # vllm v1/engine/core.py, step_with_batch_queue: the next pass is begun before one is through.
    asked: dict[str, Any] = ASKED | {"draft_len": [3], "pp": 4, "concurrency": 8}
    asked |= {"input_len": 4000, "output_len": 200}
    (seen,), (steady,) = (
        predict(MODEL, CHIP, **asked, **more).rows for more in ({"requests": 480}, {"steady": True})
    )
    assert seen.plain_tokens_per_s == pytest.approx(steady.plain_tokens_per_s, rel=0.03)
    assert seen.tokens_per_s == pytest.approx(steady.tokens_per_s, rel=0.03)


@pytest.mark.parametrize(
    ("engine", "chip", "stages"), [("vllm", CHIP, 4), ("llama.cpp", "l40s", 2)]
)
def test_clients_of_a_pipeline_are_back_when_they_are_answered(
    engine: str, chip: str, stages: int
) -> None:
    # Little 1961: requests/s times the seconds of each are the clients, but that in the end each
    # idles for half a request of its 40, on average.
    asked: dict[str, Any] = {"input_len": 2000, "output_len": 100, "requests": 640}
    asked |= {"engine": engine, "pp": stages, "concurrency": 16, "drafters": "ngram,accept=0.5"}
    (row,) = predict("Qwen/Qwen3-8B", chip, **asked).rows
    request_s = (row.plain_ttft_s or math.nan) + 99 * row.plain_tpot_s
    assert row.plain_tokens_per_s / 100 * request_s == pytest.approx(16, rel=1 / 80)


def test_releases_that_guess_lengths_run_more_at_once() -> None:
    # sglang 0.5.14, schedule_policy.py:509: a share of what is still to come, of any request.
    load: dict[str, Any] = {"input_len": 100, "output_len": 3000, "concurrency": 200}
    now, before = (
        predict(MODEL, CHIP, drafters=LONG, framework=f"sglang@0.5.{x}", **load, requests=400)
        for x in (23, 14)
    )
    names = ("mean_running", "mean_tpot_s")
    more = [before.played[0].figures[x][0, 0] / now.played[0].figures[x][0, 0] for x in names]
    assert min(more) > 1.1


@pytest.mark.parametrize(("target", "most_s"), [("ttft_s", 0.5), ("tpot_s", 0.01)])
def test_every_length_is_played_where_goodput_is_asked_for(target: str, most_s: float) -> None:
    asked: dict[str, Any] = {"concurrency": 4, "input_len": 300, "output_len": 60, target: most_s}
    found = predict(MODEL, CHIP, drafters=LONG, max_draft_len=5, **asked)
    assert np.isfinite(found.played[0].figures["mean_ttft_s"]).all()


def test_lengths_that_are_drawn_have_their_mean_in_the_steady_state() -> None:
    found = predict(MODEL, CHIP, **ASKED, **REQUESTS, concurrency=[4, 8], length_range=(0.8, 1.0))
    (one,), (whole,) = found.played, found.end_to_end
    assert one.load.requests == [40, 80]
    assert (whole.workload.input_len, whole.workload.output_len) == (900, 180)
    assert found.curves[0].batch_size.tolist() == [4, 8]
    assert Load([4], [9]).steady == Load([4], [9])
    assert not list(Load([4], [9]).played())


def test_a_trace_has_its_own_times(trace_file: Path) -> None:
    found = predict(MODEL, CHIP, **ASKED, trace=trace_file)
    columns = {"arrival_s": [0, 1, 1.5, 4], "input_len": [1000, 2000, 300, 1000]}
    same = predict(MODEL, CHIP, **ASKED, trace=columns | {"output_len": [100, 300, 50, 1]})
    for name, values in found.played[0].figures.items():
        assert np.array_equal(values, same.played[0].figures[name]), name
    assert found.played[0].load.kind == "trace"
    assert 4 < found.played[0].figures["duration_s"][0, 0] < 5
    fast = {**columns, "arrival_s": [0, 1e-3, 2e-3, 3e-3], "output_len": 2000}
    quick = predict(MODEL, CHIP, **ASKED, trace=fast | {"concurrency": 2}, capacity=False)
    assert not quick.warnings  # clients that wait do not overrun a server
    # In a burst that is shorter than its answers none pile up.
    assert not predict(MODEL, CHIP, **ASKED, trace=fast).played[0].unsustained.any()


def test_a_server_without_a_prefix_cache_computes_what_a_trace_has_as_cached() -> None:
    columns: Any = {"arrival_s": [0, 1], "input_len": [512, 900], "output_len": [50, 60]}
    cached = columns | {"cached_len": [0, 500]}
    off: dict[str, Any] = ASKED | {"server": "prefix-cache=off"}
    found, whole, kept = (
        predict(MODEL, CHIP, **asked, trace=one)
        for asked, one in ((off, cached), (off, columns), (ASKED, cached))
    )
    assert found.rows == whole.rows
    assert present(found.rows[0].ttft_s) > present(kept.rows[0].ttft_s)
    assert any("all prompts are computed whole" in note for note in found.notes)


def test_a_job_comes_at_once(tmp_path: Path) -> None:
    path = tmp_path / "lengths.txt"
    path.write_text("100\n300\n50\n")
    found = predict(MODEL, CHIP, **ASKED, lengths=path, input_len=512, prefix_hit_rate=0.5)
    (one,) = found.played
    assert one.load.kind == "job"
    assert present(one.load.trace).cached_len.tolist() == [256, 256, 256]
    columns = predict(MODEL, CHIP, **ASKED, lengths={"output_len": [100, 300, 50]}, input_len=512)
    assert columns.played[0].figures["duration_s"][0, 0] == pytest.approx(
        one.figures["duration_s"][0, 0], rel=0.05
    )
    assert any("3 requests" in note for note in found.notes)


def test_who_has_no_room_waits_or_has_no_figures() -> None:
    few = predict(MODEL, CHIP, **ASKED, **REQUESTS, rate=20, requests=50, server="running=2")
    assert few.played[0].figures["mean_running"].max() <= 2
    assert few.played[0].figures["p99_queue_s"][0, 0] > 1
    whole = present(few.outcomes[0].end_to_end)
    waited_s = (whole.answer_s - whole.service_s)[0, 0, 0]
    assert waited_s == pytest.approx(few.played[0].figures["mean_queue_s"][0, 0])
    none = predict("meta-llama/Llama-3.1-70B", CHIP, **ASKED, **REQUESTS, rate=1, requests=5)
    assert np.isnan(none.played[0].figures["p99_ttft_s"]).all()
    assert none.curves[0].batch_size.tolist() == [1.0]
    assert "memory does not hold this load" in " ".join(str(none).split())
    several = predict("meta-llama/Llama-3.1-70B", CHIP, **ASKED, **REQUESTS, rate=[1, 2])
    assert several.plot() is not None
    ideal = {**ASKED, "engine": "ideal"}
    assert predict(MODEL, CHIP, **ideal, **REQUESTS, rate=1, requests=5).played[0].speedup[0, 3] > 1


def test_a_drafter_that_ends_sooner_is_played_as_far_as_it_goes() -> None:
    drafters = [SPEC, "medusa,rates=.5/.4"]
    asked = ASKED | {"drafters": drafters, "draft_len": [1, 2, 3]}
    long, short = predict(MODEL, CHIP, **asked, **REQUESTS, concurrency=2, requests=4).played
    assert np.isfinite(long.speedup).all()
    assert np.isfinite(short.speedup).tolist() == [[True, True, True, False]]


def test_a_schedule_is_played_by_the_requests_that_are_decoded() -> None:
    found = predict(MODEL, CHIP, **ASKED, **REQUESTS, rate=20, requests=150)
    load, drafts = found.played[0].load, {1: 3, 9: 1, 17: 0}
    server = played_server(found.deployment, found.drafters[0], load, "queue", 3)
    (requests,) = load.played()
    prices = {least: server.prices[length] for least, length in drafts.items()}
    room, overlap = float(server.capacity[3]), server.overlaps[1]
    expected = play(prices, requests, server.rules[1], room, overlap=overlap, seed=0)
    seen = server.play(requests, drafts)
    np.testing.assert_array_equal(seen.end_s, expected.end_s)
    assert not np.array_equal(seen.end_s, server.play(requests, 3).end_s)
    figures = server.figures(load, drafts, (0.1, 0.01))
    assert figures["p99_latency_s"][0] == pytest.approx(np.percentile(seen.latency_s, 99))
    in_time = (seen.ttft_s <= 0.1) & (seen.tpot_s <= 0.01)
    assert figures["good_requests_per_s"][0] == pytest.approx(in_time.sum() / seen.duration_s)
    assert server.answers(drafts) == pytest.approx(np.max(server.stable_rate[[0, 1, 3]]))
    assert server.runs(drafts)
    assert not server.runs({1: 4})
    kept = replace(server, measured_draft_len=2)  # none is chosen beyond what was measured
    assert ([*server.choices], [*kept.choices]) == ([1, 2, 3], [1, 2])
    tight = replace(server, capacity=np.array([9.0, 9.0, 9.0, 2.0]))  # room is for the longest
    assert tight.play(requests, drafts).figures()["mean_running"] <= 2


def test_a_drafter_that_shares_no_pass_is_played_so() -> None:
    found = predict(
        MODEL, CHIP, drafters="ngram,accept=0.5", engine="sglang", server="mixed=on", rate=8,
        requests=40, max_draft_len=2, **REQUESTS,
    )  # fmt: skip
    load = found.played[0].load
    server = played_server(found.deployment, found.drafters[0], load, "queue", 2)
    assert [rules.shares_passes for rules in server.rules] == [True, False]
    (requests,) = load.played()
    for drafts, length in ((2, 2), ({1: 2}, 2), (0, 0)):
        rules, room = server.rules[length > 0], float(server.capacity[length])
        prices, overlap = server.prices[length], server.overlaps[length > 0]
        seed = 0 if length else None
        expected = play(prices, requests, rules, room, overlap=overlap, seed=seed)
        np.testing.assert_array_equal(server.play(requests, drafts).end_s, expected.end_s)


@pytest.mark.parametrize(
    ("engine", "reserves"),
    [("vllm", False), ("sglang", True), ("tensorrt-llm", True), ("ideal", None)],
)
def test_a_request_holds_what_its_server_has_room_for(engine: str, reserves: bool | None) -> None:
    setup = engine_setup(load_hardware(CHIP), engine, None, None)
    deployment, drafter = Deployment(load_model(MODEL), setup), load_drafter(SPEC)
    work = Workload(5000, 1000)

    def server(
        clients: float, requests: int, at: Deployment = deployment, **changes: Any
    ) -> PlayedServer:
        load = Load([clients], [5500], work, requests=[requests], **changes)
        return played_server(at, drafter, load, "queue", 2, raises=False)

    # One at a time is room as well.
    alone = replace(deployment, setup=in_server(deployment.model, setup, ServerSettings(running=1)))
    assert server(3, 400, alone).capacity.tolist() == [1, 1, 1]
    assert server(3, 400, alone).runs(2)

    # Prices reach to as many as run at once: clients, requests, and what there is room for.
    for few in (server(3, 400), server(1, 3, rate=[1.0])):
        assert few.prices[0].round_s.x[-1] == 3
    drawn = server(300, 400, length_range=(0.5, 1.0))
    contexts = [2500, 4125, 6000]
    for drafts, memory in enumerate(drawn.memory):
        what: dict[str, Any] = {"drafter": drafter, "verify_len": drafts + 1.0} if drafts else {}
        room = served_room(deployment, context_len=contexts, **what)
        assert (memory is None) == (reserves is None)
        if memory is None:
            assert drawn.capacity[drafts] == room.largest_batch[1]
            continue
        assert memory.reserves is reserves
        # CLIP_MAX_NEW_TOKENS of SGLang 0.5.23, managers/schedule_policy.py.
        assert memory.most_len == (4096 if engine == "sglang" else math.inf)
        shares = memory.request + memory.token * np.array(contexts)
        assert 1 / shares == pytest.approx(room.room.limits["cache"], rel=0.01)
        assert drawn.capacity[drafts] == np.floor(room.room.limits["running"][0])
    # As many as have room while all are short, where answers are no part of what must fit.
    least = drawn.capacity.max() if reserves is None else room.room.limits["cache"][0]
    assert drawn.prices[0].round_s.x[-1] == pytest.approx(min(least, 300), rel=0.06)


def test_the_longest_request_of_all_loads_bounds_prices_and_memory() -> None:
    # Windows of 1024 tokens, so that memory is no line: the first load has one short request.
    setup = engine_setup(load_hardware(CHIP), "vllm", None, None)
    deployment = Deployment(load_model("google/gemma-3-27b-it"), setup)
    work, drafter = Workload(4000, 1000), load_drafter(SPEC)
    both, alone = (
        played_server(deployment, drafter, replace(load, length_range=(0.1, 1.0)), "queue", 1)
        for load in (
            Load([8, 8], [4500], work, requests=[1, 40]),
            Load([8], [4500], work, requests=[40]),
        )
    )
    assert both.memory == alone.memory
    assert both.prices[0].round_s.y == alone.prices[0].round_s.y


# --- what each question says of them --------------------------------------------------------------

WORDS = f"{MODEL} -H {CHIP} --engine vllm --drafter {SPEC} --max-draft-len 3"
LOAD = f"{WORDS} --isl 1000 --osl 200"


def test_the_case_says_which_requests_come(tmp_path: Path) -> None:
    words = f"predict {LOAD} --rate 60..240/min --requests 60 --length-range 0.8..1.0 --ttft 200"
    found = answered(f"{words} --grid")
    lengths = {"input_len", "output_len", "prefix_hit_rate", "context_len"}
    load = {name: one for name, one in found["case"]["load"].items() if name not in lengths}
    assert [load.pop(name) for name in ("kind", "arrivals", "seed")] == ["rate", "poisson", 0]
    assert (load.pop("rate"), load.pop("requests")) == ([1, 2, 4], [60, 60, 60])
    assert (load.pop("length_range"), load.pop("steady")) == ([0.8, 1.0], False)
    assert {*load} == {"wait_s", "request_latency_s"}
    table = tmp_path / "a.csv"
    run(f"{words} --points {table}")
    rows = list(csv.DictReader(io.StringIO(table.read_text())))
    p99 = gridded(found, "p99_ttft_s")
    assert [float(row["p99_ttft_s"]) for row in rows] == p99.ravel().tolist()
    assert [row["rate"] for row in rows] == [f"{r}.0" for r in (1, 2, 4) for _ in "0123"]


def test_lengths_that_are_shown_are_those_that_are_played() -> None:
    found = predict(MODEL, CHIP, **ASKED, **REQUESTS, concurrency=3, requests="2x", draft_len=[2])
    (one,) = found.played
    assert one.load.requests == [6]
    assert np.isfinite(one.figures["tokens_per_s"][0, [0, 2]]).all()
    assert found.to_csv("points").count("\n") == 5
    assert repr(one) == f"<PlayedLoads: {SPEC}; 1 loads, 4 draft lengths>"
    charts = found.figures()
    # Over time the requests that run are, on average, those of the whole run.
    plain, drafted = charts["-running"].axes[0].lines
    for steps, drafts in ((plain, 0), (drafted, int(one.best_draft_len[0]))):
        edges, running = steps.get_xdata(), steps.get_ydata()[:-1]
        assert edges[-1] == one.figures["duration_s"][0, drafts]
        assert running.mean() == pytest.approx(one.figures["mean_running"][0, drafts])
        assert 0 <= running.min() <= running.max() <= 3 + 1e-9


def test_the_chart_is_over_the_loads_in_whatever_order_they_are_given() -> None:
    loads = predict(MODEL, CHIP, **ASKED, **REQUESTS, concurrency=[4, 1, 2], requests=8)
    plain, drafted = loads.figures()["-requests"].axes[3].lines
    figures = loads.played[0].figures["tokens_per_s"][[1, 2, 0]]
    assert plain.get_ydata().tolist() == figures[:, 0].tolist()
    assert drafted.get_ydata().tolist() == np.nanmax(figures, axis=1).tolist()
    (speedups,) = loads.figures()[""].axes
    assert [*speedups.lines[1].get_ydata()] == [loads.rows[load].speedup for load in (1, 2, 0)]
    for line in (plain, drafted, speedups.lines[1]):
        assert line.get_xdata().tolist() == [1, 2, 4]
    bad = ASKED | REQUESTS | {"drafters": "eagle3,accept=0.01"}
    never = predict(MODEL, CHIP, **bad, rate=[1, 2], requests=8, tpot_s=0.02)
    assert [text.get_text() for text in never.figures()["-requests"].axes[3].texts] == ["γ 0"]


@pytest.mark.parametrize(("name", "most_s"), [("ttft_s", 0.3), ("tpot_s", 0.012)])
def test_the_largest_rate_within_a_target_is_the_edge(name: str, most_s: float) -> None:
    asked: dict[str, Any] = {"drafters": SPEC, "engine": "vllm", **REQUESTS, "requests": 200}
    target: dict[str, Any] = {name: most_s}
    found = frontier(MODEL, CHIP, **asked, max_draft_len=3, rate=[1, 256], **target)
    plain, drafted = (one.largest_rates[0] for one in found.series)
    assert (plain.devices, plain.draft_len) == (1, 0)
    assert drafted.draft_len > 0
    for one in (plain, drafted):
        rates = [one.rate * 0.98, one.rate, one.rate * 1.03]
        seen = predict(MODEL, CHIP, **asked, max_draft_len=3, rate=rates).played[0]
        below, at, above = seen.figures[f"p99_{name}"][:, one.draft_len]
        assert below <= most_s
        assert at <= most_s
        # Beyond the edge either the target is missed, or the rate is more than the server answers.
        assert above > most_s or rates[2] > seen.stable_rate[one.draft_len]
    assert found.to_dict()["choice"]["chips"][0]["largest_rates"][1]["rate"] == drafted.rate
    assert {point.rate for one in found.series for point in one.points} <= {1, 256}
    target_ms: Any = {f"{name[:4]}_ms": 1e3 * most_s}
    advised: Any = advise(MODEL, CHIP, **asked, rate=[1, 256], **target_ms)
    off, on = advised.chips[0].played.largest_rates
    for answer, rate in ((found, drafted.rate), (advised, on)):
        assert f"{plain.rate:.3g} requests/s without drafts; {rate:.3g} with" in str(answer)
    assert off == pytest.approx(plain.rate, rel=1e-9)
    if name == "tpot_s":  # first tokens come no sooner with a drafter that reads prompts, too
        assert on > off


def test_advice_plays_its_own_schedule() -> None:
    asked: dict[str, Any] = {"drafters": SPEC, "engine": "vllm", **REQUESTS} | {
        "rate": [4, 20],
        "requests": 80,
        "length_range": (0.5, 1.5),
    }
    found = advise(MODEL, CHIP, **asked)
    (chip,), plan = found.chips, present(found.chips[0].played)
    drafts = {first: length for first, _, length in chip.plan.schedule}
    assert max(drafts.values()) > 0
    server = played_server(
        Deployment(found.model, chip.setup), chip.drafter, plan.load, "queue", max(drafts.values())
    )
    for place, requests in enumerate(plan.load.played()):
        for figures, length in ((plan.plain, 0), (plan.drafting, drafts)):
            seen = server.play(requests, length).figures()
            for name, value in seen.items():
                assert figures[name][place] == pytest.approx(value, rel=1e-9), name
    assert plan.speedup.tolist() == pytest.approx(
        (plan.plain["mean_latency_s"] / plan.drafting["mean_latency_s"]).tolist()
    )


def test_advice_says_where_its_drafts_are_slower() -> None:
    # Prompts without an end to them: the schedule is of steady loads, and never drafts to lose.
    spec = "autoregressive,cost=0.3,accept=0.55"
    asked: dict[str, Any] = {"drafters": spec, "engine": "vllm", "draft_len": 1}
    found = advise(MODEL, CHIP, **asked, **REQUESTS, rate=[1, 40], requests=200)
    plan = present(found.chips[0].played)
    slow = [name for name, gain in zip(("1", "40"), plan.speedup, strict=True) if gain < 1]
    said = [text for text in found.warnings if "take longer with these drafts" in text]
    assert [text.partition(" at ")[2] for text in said] == [
        f"{name} (req/s in)" for name in slow[:1]
    ]
    assert np.isnan(plan.speedup).tolist() == [False, True]
    # A rate that the server does not answer is said, with the largest that it does.
    off, on = plan.stable_rates
    (full,) = [text for text in found.warnings if "answers at most" in text]
    assert f"{off:.3g} requests/s without drafts" in full
    row, told = found.to_dict()["rows"][1], found.to_dict()["choice"]["played"]
    assert told["largest_stable_rates"] == {"plain": off, "drafting": on}
    assert (row["rate"], row["reason"], row["speedup"]) == (40, "unsustained", None)
    assert row["plain_largest_stable_rate"] == off == on  # which is the better of both
    assert row["largest_stable_rate"] < off
    for told_so in (
        worth(MODEL, CHIP, drafter="eagle3", draft_len=2, rate=[1, 90], requests=9, **REQUESTS),
        breakeven(MODEL, CHIP, drafter="eagle3", draft_len=2, rate=90, requests=9, **REQUESTS),
    ):
        assert len([text for text in told_so.warnings if "answers at most" in text]) == 1


def test_a_better_drafter_is_worth_what_its_requests_gain() -> None:
    asked: dict[str, Any] = {"engine": "vllm", "draft_len": 3, **REQUESTS, "requests": 80}
    found = worth(MODEL, CHIP, drafter="eagle3", accept_length=[2, 3], rate=[4, 16], **asked)
    assert list(found.by_load) == [4, 16]
    for row in found.rows:
        spec = f"eagle3,accept-length={row.accept_length}@3"
        load: dict[str, Any] = {"rate": [row.rate], "requests": 80, **REQUESTS, "engine": "vllm"}
        (one,) = predict(MODEL, CHIP, drafters=spec, max_draft_len=3, **load).played
        assert row.tpot_limit_s == pytest.approx(one.figures["p99_tpot_s"][0, 0])
        # The largest rate that is in time, to 1%.
        edge = [present(row.largest_rate)]
        (there,) = predict(
            MODEL, CHIP, drafters=spec, max_draft_len=3, **load | {"rate": edge}
        ).played
        slow_s = np.nanmin(there.figures["p99_tpot_s"][:, 1:])
        assert edge[0] > present(row.rate)
        assert slow_s <= row.tpot_limit_s * (1 + 1e-9)
        assert slow_s > 0.9 * row.tpot_limit_s or edge[0] > 0.98 * one.stable_rate.max()
    assert "most req/s" in found.text()
    first, second = found.rows[:2]
    assert second.gain_per_token == pytest.approx(present(second.speedup) - present(first.speedup))


def test_better_drafters_for_traces(trace_file: Path) -> None:
    asked: dict[str, Any] = {"drafter": "eagle3", "engine": "vllm", "draft_len": 2}
    traced: Any = worth(MODEL, CHIP, **asked, trace=trace_file)
    assert traced.rows[0].largest_rate is None
    assert traced.workload.output_len == pytest.approx((100 + 300 + 50 + 1) / 4)
    late = worth(MODEL, CHIP, **asked, **REQUESTS, rate=4, requests=30, tpot_s=1e-4)
    assert {row.largest_rate for row in late.rows} == {None}


@pytest.mark.parametrize("speedup", [1.5, 0.001])
def test_the_best_of_all_lengths_is_sought_without_playing_all_of_them(
    speedup: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    plays = list[float]()

    def counted(*parts: Any, **settings: Any) -> Any:
        plays.append(1)
        return play(*parts, **settings)

    asked: dict[str, Any] = {"engine": "vllm", **REQUESTS, "requests": 3, "rate": 3}
    asked |= {"drafter": "medusa,accept=0.6", "speedup": speedup}
    monkeypatch.setattr("specroof.serving.played.play", counted)
    alone = [breakeven(MODEL, CHIP, **asked, draft_len=n).rows[0] for n in range(1, 6)]
    each = len(plays)
    (row,) = breakeven(MODEL, CHIP, **asked).rows
    assert row.ceiling == max(one.ceiling for one in alone)
    least = min(one.value for one in alone if one.value is not None)
    assert row.value == pytest.approx(least, rel=4e-3)
    assert len(plays) - each < 0.7 * each


def test_break_even_of_rates_and_traces(trace_file: Path) -> None:
    asked: dict[str, Any] = {"engine": "vllm", "draft_len": 1, "drafter": "eagle3,accept=0.7"}
    (row,) = breakeven(MODEL, CHIP, **asked, trace=trace_file).rows
    assert (row.batch_size, row.concurrency) == (None, None)
    # Where no request has room, nothing is enough.
    for solve in ("accept", "cost"):
        tight: dict[str, Any] = {**asked, **REQUESTS, "rate": 1, "requests": 5, "solve": solve}
        (none,) = breakeven("Qwen/Qwen3-32B", "l40s", **tight).rows
        assert none.answer == "no room"
        assert none.record["ceiling"] is None


def test_no_rate_is_largest_where_none_is_in_time() -> None:
    asked = ASKED | REQUESTS | {"requests": 20}
    late = frontier(MODEL, CHIP, **asked, rate=[1, 4], tpot_s=1e-4)
    assert late.to_dict()["choice"]["chips"][0]["largest_rates"] == []
    (plain, drafted) = frontier(MODEL, CHIP, **asked, rate=[1, 2], tpot_s=1.0).series
    assert plain.largest_rates[0].rate == drafted.largest_rates[0].rate == 2
    both = frontier(MODEL, [CHIP, "l40s"], **asked, rate=[1, 2], tpot_s=1.0)
    assert "on 1 device of NVIDIA L40S" in " ".join(str(both).split())
    # Without targets there is nothing to be within.
    assert not frontier(MODEL, CHIP, **asked, rate=1).series[0].largest_rates


def test_as_many_requests_run_as_come_while_one_is_answered() -> None:
    # Little 1961: requests in a second times the seconds of one, with drafts as without.
    asked = ASKED | REQUESTS | {"rate": [2, 8], "requests": 200}
    for point in frontier(MODEL, CHIP, **asked).records:
        answer = REQUESTS["output_len"]
        one_s = point["ttft_s"] + (answer - 1) / point["tokens_per_s_per_user"]
        per_s = point["tokens_per_s_per_device"] * point["devices"] / answer
        assert point["running"] == pytest.approx(per_s * one_s, rel=0.05)
    (one,) = predict(MODEL, CHIP, **asked).outcomes
    grid = point_arrays(one)
    expected = grid["requests_per_s"] * grid["latency_s"]
    assert grid["running"] == pytest.approx(expected, rel=0.05)


@pytest.mark.parametrize("most", [9, 10**9])
def test_a_bar_shows_on_a_terminal_what_takes_long(
    monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    shown: list[int] = []

    class Bar:
        pos = 0

        def update(self, steps: int) -> None:
            self.pos += steps
            shown.append(self.pos)

    commands = import_module("specroof.cli.commands")
    monkeypatch.setattr(commands, "_LONG", most)
    monkeypatch.setattr(commands.typer, "progressbar", lambda **_: nullcontext(Bar()))
    monkeypatch.setattr(commands, "sys", SimpleNamespace(stderr=Terminal()))
    run(f"predict {LOAD} --concurrency 2 --requests 5")
    assert shown == (list(range(0, 5 * len(shown), 5)) if most == 9 else [])
    assert len(shown) > 2 or most != 9
    run(f"capacity {MODEL} -H {CHIP} --context 512")


def test_an_interrupted_play_writes_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    plays: Iterator[int] = iter(range(3))

    def interrupted(*args: Any, **settings: Any) -> Any:
        if next(plays, None) is None:
            raise KeyboardInterrupt
        return play(*args, **settings)

    monkeypatch.setattr(played, "play", interrupted)
    words = f"predict {LOAD} --concurrency 1,2 --requests 5 --csv {tmp_path}/a.csv"
    assert invoked(words, "--plot", tmp_path / "a.png").exit_code not in {0, 2}
    assert not list(tmp_path.iterdir())


STUDY: dict[str, Any] = {
    "format_version": 1,
    "targets": [{"model": MODEL, "hardware": CHIP}],
    "drafters": [SPEC],
    "engine": "vllm",
    "max_draft_len": 2,
}


def test_a_study_plays_rates_and_traces(trace_file: Path, tmp_path: Path) -> None:
    evenly: dict[str, Any] = {"arrivals": "even", "length_range": "0.8..1.0", "seed": 2}
    loads: list[dict[str, Any]] = [
        {"input_len": 1000, "output_len": 100, "rate": [2, 8, 60], "requests": 40, **evenly},
        {"trace": str(trace_file)},
        {"lengths": str(trace_file), "prefix_hit_rate": 0.5},
    ]
    path = tmp_path / "study.yaml"
    path.write_text(yaml.safe_dump(STUDY | {"workload": loads}))
    found = sweep(path)
    alone = [predict(MODEL, CHIP, **ASKED | {"max_draft_len": 2}, **load) for load in loads]
    for outcome, one in zip(found.outcomes, alone, strict=True):
        assert outcome.prediction.records == one.records
        assert outcome.prediction.grid == one.grid
    columns = ["context_len", "batch_size", "rate", "p99_ttft_s"]
    expected = np.concatenate([one.to_frame("points")[columns].to_numpy(float) for one in alone])
    run(f"sweep {path} -o {tmp_path}/results --format csv --quiet")
    read = read_results(tmp_path / "results").to_frame()[columns].to_numpy(float)
    np.testing.assert_array_equal(read, expected)
    # A load that comes by itself is never cut, and rates are its axis.
    parts = list(study_slices(load_study(path), 1, 1, most=3))
    assert [len(part.prediction.played[0].load.requests) for part in parts] == [3, 1, 1]
    # A slice of a load has the requests of its clients.
    clients = STUDY | {"batch_size": [1, 4], "workload": REQUESTS | {"requests": "3x"}}
    part = next(study_slices(study_of(clients), 1, 1, most=3))
    assert part.prediction.played[0].load.requests == [3]
    first, *_ = found.overviews()
    assert first.batch_size.tolist() == [2, 8, 60]
    assert np.isfinite(first.best_speedup).tolist() == [[True, True, False]]  # unsustained
    assert "nan" not in str(found)
    said = run(f"sweep {path} --dry-run").splitlines()[0].split()
    assert said[:2] == ["played", str((3 * 40 + 4 + 4) // 5)]


def test_fewer_requests_than_clients_are_told_in_every_question_about_clients() -> None:
    # Of 16 clients 4 send one request each, and no more come: 16 are never in flight.
    asked: dict[str, Any] = {"input_len": 300, "output_len": 40, "concurrency": 16, "requests": 4}
    told = "a run of 4 keeps at most 4 of 16 clients busy"
    for question in (predict, advise, frontier):
        assert told in str(question(MODEL, CHIP, drafters=SPEC, **asked))
    assert told in str(worth(MODEL, CHIP, drafter="eagle3", accept_length=2, **asked))
    alone = predict(MODEL, CHIP, drafters=SPEC, **{**asked, "concurrency": 4})
    assert "clients busy" not in str(alone)


@pytest.mark.parametrize(
    ("server", "clients", "lengths", "is_told"),
    [
        ("sglang", 16, "1.0..1.0", True),  # 16 prompts stop the batch once, not one by one
        ("sglang", 16, "0.5..1.0", False),
        ("sglang", 1, "1.0..1.0", False),
        ("vllm", 16, "1.0..1.0", False),  # its prompts stop nobody
    ],
)
def test_requests_of_one_length_that_gain_by_being_in_step_are_told(
    server: str, clients: int, lengths: str, is_told: bool
) -> None:
    asked: dict[str, Any] = {"input_len": 200, "output_len": 40, "framework": server}
    found = predict(MODEL, CHIP, drafters=SPEC, concurrency=clients, length_range=lengths, **asked)
    assert ("requests of one length" in str(found)) == is_told


@pytest.mark.parametrize(("words", "tokens"), rows("values", "longest_requests"))
def test_the_longest_request_is_held_against_the_positions_of_a_model(
    words: str, tokens: int | None, tmp_path: Path
) -> None:
    trace = tmp_path / "trace.csv"
    trace.write_text("arrival_s,input_len,output_len\n0,1000,200\n1,45000,300\n")
    command, _, load = words.replace("TRACE", str(trace)).partition(" ")
    found = answered(f"{command} Qwen/Qwen3-8B -H h100 --drafter eagle3,accept=0.7 {load}")
    notes = [note for note in found["notes"] if "has positions for 40960" in note]
    assert [f"{tokens} are asked about" in note for note in notes] == [True] * (tokens is not None)


# --- requests that arrive faster than a server without drafts answers them ------------------------

LONG = "eagle3,accept-length=2.8@3"
KEPT: Final[dict[str, Any]] = {"engine": "vllm", "input_len": 1000, "output_len": 200}
#: Without drafts the server answers 22.2 requests/s, with three of these 25.5.
KEPT_UP, BETWEEN, BEYOND = 12, 24, 60


def asked(rate: float, requests: int = 60) -> dict[str, Any]:
    return {**KEPT, "rate": rate, "requests": requests}


@pytest.mark.parametrize(
    ("rate", "decision", "reason"),
    [(KEPT_UP, "on", None), (BETWEEN, "on", "unsustained"), (BEYOND, "unclear", "unsustained")],
)
def test_every_question_says_so(rate: float, decision: str, reason: str | None) -> None:
    better: dict[str, Any] = {"drafter": "eagle3", "accept_length": 2.8, "draft_len": 3}
    load = asked(rate)
    answers: list[Any] = [
        question(MODEL, CHIP, drafters=LONG, **load) for question in (predict, advise)
    ]
    answers += [breakeven(MODEL, CHIP, drafter=LONG, **load), worth(MODEL, CHIP, **better, **load)]
    for found in answers:
        told = found.records[0]
        assert (told["decision"], told.get("reason") or None) == (decision, reason)
        assert (told.get("speedup") is None) == (reason is not None)
        assert told["plain_largest_stable_rate"] == pytest.approx(22.2, abs=0.05)
        assert told["largest_stable_rate"] == pytest.approx(25.5, abs=0.05)


def test_nobody_says_a_number_that_grows_with_the_load() -> None:
    for requests in (100, 1000):
        found = predict(MODEL, CHIP, drafters=LONG, **asked(BEYOND, requests))
        assert np.isnan(found.played[0].speedup[0, 1:]).all()
        assert np.isnan(found.end_to_end[0].speedup[0, 0, 1:]).all()
        assert found.played[0].speedup[0, 0] == 1
        assert found.end_to_end[0].figure_ends["tokens_per_s"] is None
    plan: Any = advise(MODEL, CHIP, drafters=LONG, **asked(BETWEEN)).chips[0]
    assert np.isnan(plan.played.speedup).all()
    assert plan.break_even[0].rate is None


def test_a_length_that_keeps_up_comes_first() -> None:
    # Only three drafts keep up with 25 of these requests a second: fewer have less to wait for.
    words: dict[str, Any] = {"drafters": LONG, "max_draft_len": 3}
    found: Any = predict(MODEL, CHIP, **words, **asked(25.5, 100)).outcomes[0]
    assert found.played.keeps_up.tolist() == [[False, False, False, True]]
    middle, low, high = (ends[0, 0] for ends in found.deciding)
    assert middle.argmax() == 3
    assert low[3] == high[3] == middle[3]
    assert (low[1:3] < middle[1:3]).all()
    # But not where so many were never measured, whatever meets targets then.
    shorter = replace(found.played, measured_draft_len=2, has_targets=True)
    assert shorter.best_draft_len[0] <= 2


def test_a_trace_and_several_rates_stand_under_their_own_rate() -> None:
    every = {"arrival_s": np.arange(800) / 40, "input_len": 1000, "output_len": 200}
    trace = advise(MODEL, CHIP, drafters=LONG, engine="vllm", trace=every)
    (row,) = trace.chips[0].rows
    assert row.rate == pytest.approx(40)
    assert row.reason == "unsustained"
    assert trace.to_frame()["rate"].tolist() == [row.rate]
    several = advise(MODEL, CHIP, drafters=LONG, **KEPT, rate=[BETWEEN, 3, 3], requests=60)
    assert [each.rate for each in several.chips[0].rows] == [3, BETWEEN]
    told = "only a server that drafts keeps up with 24 requests/s"
    assert told in " ".join(str(several).split())
    job: Any = advise(MODEL, CHIP, drafters=LONG, engine="vllm", lengths=every | {"arrival_s": 0.0})
    (row,) = job.chips[0].rows
    assert (row.rate, row.unit, row.reason) == (None, "in flight", None)
    assert row.tried_speedup == pytest.approx(job.chips[0].played.speedup[0], rel=1e-9)


def test_points_of_a_server_that_does_not_keep_up_are_told_apart() -> None:
    points = frontier(MODEL, CHIP, drafters=LONG, **KEPT, rate=[3, BETWEEN], requests=60).records
    late = {(one["drafter"] == "plain", one["rate"]): one["reason"] for one in points}
    assert set(late.values()) == {None, "unsustained"}
    for one in points:
        late_here = one["rate"] > one["largest_stable_rate"]
        assert one["reason"] == ("unsustained" if late_here else None)
    brought = worth(
        MODEL, CHIP, drafter="eagle3", draft_len=3, accept_length=[2, 2.8], **asked(BETWEEN)
    )
    assert [row["gain_per_token"] for row in brought.records] == [None, None]
    assert brought.plot() is not None


def test_a_largest_rate_is_looked_for_where_a_plain_server_keeps_up() -> None:
    wanted: dict[str, Any] = {"drafter": LONG, "solve": "rate", "draft_len": 3, "speedup": 1.5}
    found, none = (
        breakeven(MODEL, CHIP, **wanted, **KEPT, rate=rates, requests=60)
        for rates in ([1, BEYOND], [30, BEYOND])
    )
    assert found.rows[0].value == pytest.approx(22.2, abs=0.05)
    assert (none.rows[0].value, none.rows[0].reason) == (None, "unsustained")


def test_a_default_limit_is_raised_to_the_most_that_ever_run() -> None:
    # SGLang runs 48 with drafts by default.
    words: dict[str, Any] = {"framework": "sglang", "drafters": LONG}
    words |= {"input_len": 1000, "output_len": 200}
    found = advise(MODEL, CHIP, **words, rate=30, requests=200)
    (chip,) = found.chips
    most = chip.prediction.played[0].most_running[0, chip.rows[0].draft_len]
    assert most > 48
    assert chip.raised == {"running": (48, most)}
    assert any(f"={most:.0f} at 30 requests/s," in note for note in chip.prediction.notes)
    assert f"--max-running-requests {most:.0f}" in (chip.engine_config["sglang"] or "")
    calm = advise(MODEL, CHIP, **words, rate=2, requests=60).chips[0]
    assert calm.raised == {}
    # Of batches, which have no figures where memory ends, to the next power of two.
    asked: Any = {"framework": "sglang", "drafters": LONG}
    grid = predict(MODEL, CHIP, **asked, batch_size=[50, 100], context_len=512)
    assert [*grid.outcomes[0].told] == [(None, 64), (None, 128)]
    assert any("running=128 at a load of 100" in note for note in grid.notes)
    for clients, told in ((48, []), (50, [(None, 50)])):
        (one,) = predict(MODEL, CHIP, **words, concurrency=clients).outcomes
        assert [pair for pair in one.told if any(pair)] == told
    # 100 come at once, and then one every 2 seconds: few run on average.
    times = [*[0.0] * 100, *range(20, 220, 2)]
    burst = {"arrival_s": times, "input_len": [500] * 200, "output_len": [600] * 200}
    (one,) = predict(MODEL, CHIP, framework="sglang", drafters=LONG, trace=burst).outcomes
    assert (one.running[0, 0, 0] < 48, [*one.told]) == (True, [(None, 100)])
    # At the larger rates more than 48 run plain, which has no such limit, and fewer with drafts.
    words = {"engine": "sglang", "drafters": LONG, "input_len": 2000, "output_len": 300}
    (one,) = predict(MODEL, CHIP, **words, rate=[2, 6.5, 8]).outcomes
    assert one.played is not None
    plain, drafted = one.played.most_running[-1, [0, 3]]
    assert plain > 48 > drafted
    assert [*one.told] == [(None, None)] * 3
    # Plain limits are those of what runs plain, the others of the best length's.
    batches: list[Any] = []

    def closed_form(load: Load, _room: str) -> Outcomes:
        batches.append(load.batch_size)
        return one

    _told_at_peaks(closed_form, one.played, "queue")
    most = one.played.most_running
    assert batches == [[*most[:, 0]], [*most[[0, 1, 2], one.played.best_draft_len]]]
    assert not np.array_equal(most[:, 0], most[:, 1])


def test_the_largest_rate_of_drafts_that_are_off_is_theirs() -> None:
    found = predict(MODEL, CHIP, drafters="eagle3,accept=0.01", **asked(5))
    (row,), (played,) = found.rows, found.played
    late = predict(MODEL, CHIP, drafters=LONG, **KEPT, rate=[40, BEYOND], requests=60)
    assert str(late).count("no speedup (") == 2
    assert (row.draft_len, row.tried_draft_len) == (0, 1)
    assert row.largest_stable_rate == played.stable_rate[1] < played.stable_rate[0]
    assert row.plain_largest_stable_rate == played.stable_rate[0]


def test_of_acceptance_by_context_that_of_the_mean_token_holds() -> None:
    # 1000 tokens in and 2000 out: a token sees 2000 on average.
    rates = {1500.0: constant_acceptance(0.6), 2500.0: constant_acceptance(0.4)}
    drafter = replace(load_drafter("eagle3"), acceptance=context_acceptance(rates))
    found = predict(
        "Qwen/Qwen3-8B", "h100", drafters=drafter, input_len=1000, output_len=2000, concurrency=2,
        requests=4, max_draft_len=2,
    )  # fmt: skip
    replays = present(found.outcomes[0].replays)
    mean = context_acceptance(rates).at_context(2000.0)
    assert replays.servers[0].prices[2].survival == pytest.approx([*mean.survival([1, 2])])
