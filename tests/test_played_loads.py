"""Loads that are played through: the figures of their requests, beside the steady state."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specroof import load_drafter, load_hardware, load_model, predict
from specroof.hardware.engine import ServerSettings
from specroof.latency.setup import Deployment, engine_setup
from specroof.serving import played
from specroof.serving.capacity import in_server, served_room
from specroof.serving.played import PlayedServer, play, played_server
from specroof.serving.workload import Load, Workload, open_loop
from tables import present

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
    # Beyond what it answers at most the server is full, and says so once.
    (warning,) = [text for text in found.warnings if "answers at most" in text]
    assert f"{one.stable_rate[0]:.3g} requests/s without drafts" in warning
    calm = predict(MODEL, CHIP, **ASKED, **REQUESTS, rate=1, requests=50)
    assert calm.played[0].stable_rate.tolist() == one.stable_rate.tolist()
    assert not [text for text in calm.warnings if "answers at most" in text]


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_a_full_server_answers_what_the_steady_state_says(engine: str) -> None:
    asked = ASKED | REQUESTS | {"engine": engine, "draft_len": [3]}
    (one,) = predict(MODEL, CHIP, **asked, rate=100, requests=2000).played
    served = one.figures["requests_per_s"][0, [0, 3]]
    assert served == pytest.approx(one.stable_rate[[0, 3]], rel=0.07)


def test_goodput_is_the_rate_of_requests_in_time() -> None:
    found = predict(
        MODEL, CHIP, **ASKED, **REQUESTS, rate=10, requests=200, ttft_s=0.1, tpot_s=0.012
    )
    (one,) = found.played
    good = one.figures["good_requests_per_s"][0]
    assert one.best_draft_len[0] == np.argmax(good)
    assert 0 < good[0] < one.figures["requests_per_s"][0, 0]


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
    assert predict(MODEL, CHIP, **ASKED, trace=fast).warnings


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
    assert "-" in str(none)
    assert [*none.figures()] == ["", "-requests", "-running"]
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
