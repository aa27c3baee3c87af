"""Prefill and decoding on their own workers: identities, queues against dice, bytes by hand."""

import heapq
import itertools
import json
import math
import shlex
from collections import Counter, deque
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from typer.testing import CliRunner

from specroof import (
    advise,
    capacity,
    frontier,
    load_drafter,
    load_hardware,
    load_model,
    predict,
    sweep,
)
from specroof.cli import app
from specroof.drafters import Drafter
from specroof.errors import OptionError, reject
from specroof.evidence import load_splits
from specroof.hardware import HardwareProfile, Placement, ServerSettings
from specroof.hardware.engine import UNMEASURED
from specroof.latency import Deployment, Setup, engine_setup
from specroof.questions.request import workers_of
from specroof.questions.splits import candidate_splits, worker_schedule
from specroof.questions.validate import split_json, split_text
from specroof.scoring.splits import ACCEPTANCE, SplitScore, split_score
from specroof.serving import split as split_room
from specroof.serving.capacity import in_server
from specroof.serving.end_to_end import EndToEnd, WorkerLoads
from specroof.serving.launch import Speculation, launch, worker_launches
from specroof.serving.prefills import request_s
from specroof.serving.served import ServedCurve, served_curve
from specroof.serving.split import PromptTimes, Split, prompt_times, wire_s, worker_batch
from specroof.serving.workload import Load, Workload
from specroof.speedup.curve import acceptance_of, decoding_curve

REQUESTS = Workload(3000, 500)
EAGLE = load_drafter("eagle3,accept=0.7")


def setup_of(
    chip: str = "h100", devices: int = 1, engine: str = "sglang", *, groups: int = 1
) -> Setup:
    place = Placement(devices, attention_data_parallel=groups)
    return engine_setup(load_hardware(chip), engine, place, None)


def deployment_of(model: str = "Qwen/Qwen3-8B", **place: Any) -> Deployment:
    loaded = load_model(model)
    return Deployment(loaded, in_server(loaded, setup_of(**place), ServerSettings(running=4096)))


def whole_of(
    deployment: Deployment,
    split: Split,
    loads: list[float],
    *,
    workload: Workload = REQUESTS,
    drafter: Drafter = EAGLE,
    room: Any = "queue",
) -> ServedCurve:
    load = Load(loads, [workload.mean_context_len], workload)
    return served_curve(deployment, drafter, load, room, max_draft_len=3, split=split)


def requests_of(served: ServedCurve) -> tuple[EndToEnd, WorkerLoads]:
    assert served.end_to_end is not None
    assert served.end_to_end.workers is not None
    return served.end_to_end, served.end_to_end.workers


# --- Identities ----------------------------------------------------------------------------------


def test_with_idle_prefill_and_an_endless_link_it_is_decoding_to_the_digit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(split_room, "prompt_times", lambda *_: PromptTimes(1, 0.0, 0.0, 1))
    served = deployment_of()
    engine = replace(served.setup.engine, request_latency_s=0.0)
    served = replace(served, setup=replace(served.setup, engine=engine))
    loads = [1.0, 7.0, 64.0]
    split = Split(setup_of(), 1, 1, math.inf)
    whole, workers = requests_of(whole_of(served, split, loads))
    decoding = decoding_curve(
        *(served, EAGLE, acceptance_of(EAGLE), loads),
        context_len=[REQUESTS.mean_context_len],
        max_draft_len=3,
    )
    assert np.array_equal(workers.decode_batch[0], np.repeat(loads, 4).reshape(3, 4))
    for name in ("round_s", "draft_s", "verify_s", "tokens_per_round"):
        own = getattr(whole_of(served, split, loads).decoding, name)
        assert np.array_equal(own, getattr(decoding, name))
    # An answer takes (L - 1) / N rounds and half of the last one's rest, its first token is free.
    tokens = decoding.tokens_per_round
    rounds = (499 + (tokens - 1) / 2) / tokens
    np.testing.assert_allclose(whole.tpot_s, rounds * decoding.round_s / 499, rtol=1e-12)
    np.testing.assert_allclose(
        whole.tokens_per_s,
        np.array(loads)[None, :, None] * 500 / (rounds * decoding.round_s),
        rtol=1e-12,
    )
    assert whole.ttft_s.max() < 1e-12
    assert (workers.prefill_busy == 0).all()
    assert (workers.link_busy == 0).all()


def test_twice_the_workers_serve_twice_the_load() -> None:
    served = deployment_of()
    one = requests_of(whole_of(served, Split(setup_of(), 1, 1), [1e4]))[0]
    two = requests_of(whole_of(served, Split(setup_of(), 2, 2), [2e4]))[0]
    # Queues of two workers are a little shorter.
    np.testing.assert_allclose(two.tokens_per_s, 2 * one.tokens_per_s, rtol=0.02)


def test_little_counts_every_request() -> None:
    whole, workers = requests_of(whole_of(deployment_of(), Split(setup_of(), 2, 3), [4.0, 96.0]))
    lost_s = setup_of().engine.request_latency_s
    decode_s = whole.tpot_s * (REQUESTS.output_len - 1)
    between_s = workers.prefill_s + workers.transfer_s + lost_s
    in_flight = whole.requests_per_s * (decode_s + between_s)
    np.testing.assert_allclose(in_flight, np.array([4.0, 96.0])[None, :, None] + 0 * in_flight)
    np.testing.assert_allclose(3 * workers.decode_batch, whole.requests_per_s * decode_s)
    np.testing.assert_allclose(whole.ttft_s, between_s)
    assert whole.curve.speedup[..., 0].tolist() == [[1.0, 1.0]]


def test_a_request_alone_waits_for_its_own_prompt_and_transfer() -> None:
    served = deployment_of()
    whole, workers = requests_of(whole_of(served, Split(served.setup, 1, 1), [1.0]))
    alone_s = request_s(served, REQUESTS)
    np.testing.assert_allclose(workers.prefill_s, alone_s, rtol=0.01)
    lost_s = served.setup.engine.request_latency_s
    np.testing.assert_allclose(whole.ttft_s, alone_s + workers.transfer_s + lost_s, rtol=0.01)


def test_a_request_alone_is_alone_on_one_of_many_workers() -> None:
    served = deployment_of()
    one, eight = (
        requests_of(whole_of(served, Split(served.setup, 1, workers), [1.0, 64.0]))
        for workers in (1, 8)
    )
    np.testing.assert_allclose(eight[0].tpot_s[:, 0], one[0].tpot_s[:, 0])
    np.testing.assert_allclose(8 * eight[1].decode_batch[:, 0], one[1].decode_batch[:, 0])


def test_what_the_prefill_workers_compute_is_the_most_that_is_served() -> None:
    served = deployment_of(devices=4)
    split = Split(setup_of(), 1, 8)
    whole, workers = requests_of(whole_of(served, split, [1024.0]))
    most = prompt_times(Deployment(served.model, split.prefill), REQUESTS, 1).requests_per_s
    np.testing.assert_allclose(whole.requests_per_s, most, rtol=0.02)
    assert workers.prefill_busy.min() > 0.98
    assert (whole.curve.speedup < 1.02).all()  # drafts gain nothing
    # So does a slow link: one device that takes in a prompt at 1 GB/s.
    slow, loads = requests_of(whole_of(served, replace(split, link_bytes_per_s=1e9), [1024.0]))
    assert loads.link_busy.min() > 0.98
    assert slow.requests_per_s.max() < most / 2


def test_decode_workers_without_room_let_requests_wait() -> None:
    served = deployment_of()
    tight = replace(served, setup=in_server(served.model, served.setup, ServerSettings(running=8)))
    whole, workers = requests_of(whole_of(tight, Split(setup_of(), 4, 2), [64.0]))
    assert (workers.decode_batch == 8).all()
    assert (whole.curve.running_batch < 64).all()
    # They wait before they start: 64 in flight, by Little's law.
    np.testing.assert_allclose(whole.requests_per_s * whole.answer_s, 64)
    endless = requests_of(whole_of(tight, Split(setup_of(), 4, 2), [64.0], room="ignore"))
    assert (endless[1].decode_batch > 8).all()
    assert whole_of(tight, Split(setup_of(), 4, 2), [64.0], room="ignore").room is None
    none = replace(tight, setup=in_server(served.model, setup_of("t4"), ServerSettings()))
    assert np.isnan(
        requests_of(whole_of(none, Split(setup_of(), 1, 1, 1e9), [2.0]))[0].tpot_s
    ).all()


def test_requests_have_lengths() -> None:
    served, split = deployment_of(), Split(setup_of(), 1, 1)
    with pytest.raises(OptionError, match="input_len and output_len"):
        served_curve(served, EAGLE, Load([1.0], [1000.0]), "queue", max_draft_len=3, split=split)


@pytest.mark.parametrize("field", ["prefill_workers", "decode_workers", "link_bytes_per_s"])
def test_a_split_has_workers_and_a_link(field: str) -> None:
    none: dict[str, Any] = {field: 0}
    with pytest.raises(OptionError, match=field.partition("_bytes")[0]):
        replace(Split(setup_of(), 1, 1), **none)


def test_the_link_is_the_slower_one_of_both_chips_or_told() -> None:
    b300, h100 = setup_of("b300"), setup_of("h100")
    assert Split(b300, 1, 1).bytes_per_s(b300) == 100e9
    assert Split(b300, 1, 1).bytes_per_s(h100) == Split(h100, 1, 1).bytes_per_s(b300) == 50e9
    assert Split(b300, 1, 1, 7e9).bytes_per_s(b300) == 7e9
    with pytest.raises(OptionError, match="scale_out_bytes_per_s"):
        Split(setup_of("rtx-4090"), 1, 1).bytes_per_s(b300)


# --- Queues, against dice and a textbook ----------------------------------------------------------


def simulated_rate(clients: int, workers: int, prompt_s: float, answer_s: float) -> float:
    """Return answers a second of a closed loop: one queue of prompts, and answers of any length."""
    rng = np.random.default_rng(7)
    now, done, busy = 0.0, 0, 0
    waiting: deque[int] = deque(range(clients))
    events: list[tuple[float, int]] = []  # (time, 1 where a prompt ends and 0 where an answer does)
    answers = 40_000
    while done < answers:
        while waiting and busy < workers:
            waiting.popleft()
            busy += 1
            heapq.heappush(events, (now + prompt_s, 1))
        now, is_prompt = heapq.heappop(events)
        if is_prompt:
            busy -= 1
            heapq.heappush(events, (now + rng.exponential(answer_s), 0))
        else:
            done += 1
            waiting.append(1)
    return answers / now


@pytest.mark.parametrize(
    ("clients", "workers", "answer_s"), [(4, 1, 2.0), (16, 2, 5.0), (40, 4, 3.0)]
)
def test_queues_of_prompts_are_those_of_dice(clients: int, workers: int, answer_s: float) -> None:
    prompts = PromptTimes(workers, 0.5, 0.5, 1)
    batch = worker_batch(
        *(np.array([float(clients)]), np.array([np.inf])),
        lambda batch: np.full_like(batch, answer_s),
        prompts=prompts,
        decode_workers=1,
        most_per_s=prompts.requests_per_s,
        between_s=np.array(0.0),
    )
    assert batch[0] / answer_s == pytest.approx(
        simulated_rate(clients, workers, 0.5, answer_s), rel=0.05
    )


def test_two_workers_wait_as_dice_do() -> None:
    rng, free, waits = np.random.default_rng(3), [0.0, 0.0], []
    for arrival in np.cumsum(rng.exponential(1 / 1.6, 200_000)).tolist():
        start = max(arrival, free[0])
        waits.append(start - arrival)
        heapq.heapreplace(free, start + 1.0)
    two = PromptTimes(2, 1.0, 1.0, 1)
    assert float(two.station_s(1.6)) - 1 == pytest.approx(np.mean(waits), rel=0.05)


def test_a_full_queue_has_no_end_and_an_idle_one_no_wait() -> None:
    one = PromptTimes(2, 0.5, 0.5, 1)
    assert one.requests_per_s == 4
    assert one.station_s([4.0, 5.0]).tolist() == [np.inf, np.inf]
    assert float(one.station_s(1e-9)) == pytest.approx(0.5)
    assert PromptTimes(1, 0.0, 0.0, 1).requests_per_s == math.inf


def test_prompts_that_came_during_a_pass_share_the_next() -> None:
    # A pass of n prompts takes 0.1 + 0.1 n; at 4 a second n = 4 (0.1 + 0.1 n) is 2/3, so 1; at 8
    # it is 4.
    shared = PromptTimes(1, 0.2, 0.9, 8)
    alone, four = shared.station_s([4.0, 8.0], others=0.0).tolist()
    assert alone == pytest.approx(0.2)
    assert four == pytest.approx(0.5)


def test_groups_of_prefill_workers_have_prompts_of_their_own() -> None:
    model, prompt = load_model("deepseek-ai/DeepSeek-R1"), Workload(4096, 500)

    def times(engine: str, groups: int) -> PromptTimes:
        return prompt_times(
            Deployment(model, setup_of("h200", 8, engine, groups=groups)), prompt, 1
        )

    # SGLang's chunk of 8192 is that of all groups, TensorRT-LLM's that of each.
    assert [times("sglang", groups).most for groups in (1, 8)] == [2, 8]
    assert [times("tensorrt-llm", groups).most for groups in (1, 8)] == [2, 16]
    whole = in_server(model, setup_of("h200", 8), ServerSettings(chunk=0))
    assert prompt_times(Deployment(model, whole), prompt, 1).most == 1


# --- Bytes over links -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "token_bytes", "sequence_bytes"),
    [
        ("Qwen/Qwen3-8B", 36 * 2 * 8 * 128 * 2, 0),
        ("deepseek-ai/DeepSeek-R1", 61 * (512 + 64) * 2, 0),
        # 16 layers with 4 heads of 256; 48 of linear attention: 48 heads of 128 by 128 in float32,
        # and three columns of a convolution over keys, queries and values.
        (
            "Qwen/Qwen3.5-27B",
            16 * 2 * 4 * 256 * 2,
            48 * (48 * 128 * 128 * 4 + 3 * (2 * 16 * 128 + 48 * 128) * 2),
        ),
    ],
)
def test_caches_are_moved_whole(model: str, token_bytes: int, sequence_bytes: int) -> None:
    served = deployment_of(model, chip="b300", devices=1)
    split = Split(setup_of("b300"), 1, 1, 10e9)
    plain = load_drafter("ideal")
    _, workers = requests_of(whole_of(served, split, [1.0], drafter=plain, room="ignore"))
    moved = token_bytes * REQUESTS.input_len + sequence_bytes
    seconds = 0.5e-3 + moved / (0.75 * 10e9)
    np.testing.assert_allclose(workers.transfer_s, seconds, rtol=1e-3)


def test_the_cache_of_a_drafter_is_moved_besides() -> None:
    _, workers = requests_of(whole_of(deployment_of(), Split(setup_of(), 1, 1, 10e9), [1.0]))
    # One layer of EAGLE-3, with the heads of the target.
    more_s = 2 * 8 * 128 * 2 * REQUESTS.input_len / (0.75 * 10e9)
    plain, *drafted = workers.transfer_s[0, 0]
    assert drafted == pytest.approx([plain + more_s] * 3)


def test_fewer_senders_send_more_each() -> None:
    link = {"link_bytes_per_s": 1e9}
    one = float(wire_s(3e9, receivers=1, senders=1, **link))
    assert one == 4.0
    assert float(wire_s(3e9, receivers=8, senders=2, **link)) == 4 * one
    assert float(wire_s(3e9, receivers=2, senders=8, **link)) == one


@pytest.mark.parametrize(
    ("prefill", "decode", "links"),
    [((8, 1), (1, 8), 8), ((1, 8), (8, 1), 8), ((2, 4), (1, 2), 2), ((3, 2), (3, 2), 6)],
)
def test_every_link_of_the_narrower_side_carries_caches(
    prefill: tuple[int, int], decode: tuple[int, int], links: int
) -> None:
    """Workers x devices of each: a device of Qwen3-8B has one of its eight KV heads, or all."""
    split = Split(setup_of(devices=prefill[1]), prefill[0], decode[0], 1e9)
    ideal = load_drafter("ideal")
    whole, workers = requests_of(
        whole_of(deployment_of(devices=decode[1]), split, [64.0], drafter=ideal)
    )
    cache_bytes = 36 * 2 * 8 * 128 * 2 * REQUESTS.input_len
    most = links * 0.75 * 1e9 / cache_bytes
    np.testing.assert_allclose(whole.requests_per_s / workers.link_busy, most, rtol=1e-9)


def test_transfers_are_those_of_mooncake() -> None:
    # Qwen3-8B between two nodes with eight cards of 25 GB/s: tokens and milliseconds.
    measured = {128: 0.54, 1024: 1.50, 4096: 4.75, 16384: 16.4, 32768: 31.65}
    served = deployment_of(devices=8)
    for tokens, milliseconds in measured.items():
        split = Split(setup_of(devices=8), 1, 1, 25e9)
        _, workers = requests_of(
            whole_of(
                served, split, [1.0], workload=Workload(tokens, 100), drafter=load_drafter("ideal")
            )
        )
        seconds = float(workers.transfer_s[0, 0, 0])
        assert seconds * 1e3 == pytest.approx(milliseconds, rel=0.05 if tokens > 128 else 0.2)


# --- advise ---------------------------------------------------------------------------------------

CALL = (
    "advise Qwen/Qwen3-8B -H h100 --input-len 3000 --output-len 300 --concurrency 1,32 "
    "--drafter eagle3,accept=0.7"
)


def shell(words: str) -> Any:
    return CliRunner().invoke(app, shlex.split(f"{CALL} {words}"))


def answer(words: str) -> dict[str, Any]:
    run = shell(f"{words} --json")
    assert (run.exit_code, run.stderr) == (0, "")
    found: dict[str, Any] = json.loads(run.stdout.splitlines()[-1])
    return found


ASKED: dict[str, Any] = {
    "drafters": "eagle3,accept=0.7",
    "input_len": 3000,
    "output_len": 300,
    "concurrency": [1, 32],
}


def test_advice_on_workers_is_that_of_their_curves() -> None:
    advice = advise("Qwen/Qwen3-8B", "h100", prefill="2x1", decode="1x2", **ASKED)
    chip = advice.chips[0]
    assert chip.split is not None
    model = load_model("Qwen/Qwen3-8B")
    workload = Workload(3000, 300)
    served = served_curve(
        Deployment(model, chip.setup),
        load_drafter("eagle3,accept=0.7"),
        Load([1.0, 32.0], [workload.mean_context_len], workload),
        "queue",
        max_draft_len=16,
        split=Split(chip.split.prefill, 2, 1),
    )
    whole, workers = requests_of(served)
    told = advice.to_dict()["split"]
    for i, (row, load) in enumerate(zip(chip.rows, told["loads"], strict=True)):
        k = row.draft_len
        assert row.times.tokens_per_s == pytest.approx(whole.tokens_per_s[0, i, k])
        assert row.plain.ttft_s == pytest.approx(whole.ttft_s[0, i, 0])
        assert load["advised"]["decode_batch"] == pytest.approx(workers.decode_batch[0, i, k])
        assert load["plain"]["tokens_per_s_per_device"] == row.plain.tokens_per_s / 4
    assert told["devices"] == 4
    assert told["prefill"]["workers"] == 2
    assert told["decode"]["placement"]["tensor_parallel"] == 2
    assert set(told["flags"]) == {"vllm", "sglang"}
    # Four devices are paid.
    price = load_hardware("h100").price
    assert price is not None
    assert chip.rows[0].times.usd_per_hour == pytest.approx(4 * price.usd_per_hour)
    assert chip.to_measure is None


def test_the_page_shows_workers_and_how_each_is_started() -> None:
    run = shell("--prefill 2x1 --decode 1x2 --framework sglang")
    assert run.exit_code == 0
    page = run.stdout
    assert "2 x 1 NVIDIA H100" in page
    assert page.count("--disaggregation-mode") == 2
    assert "prefill worker, 2 of them" in page


def test_prefill_on_another_chip_has_its_own_price() -> None:
    advice = advise("Qwen/Qwen3-8B", "h100", prefill="1x1@h200", decode="1x1", **ASKED)
    prices = [load_hardware(name).price for name in ("h100", "h200")]
    mean = sum(price.usd_per_hour for price in prices if price) / 2
    assert advice.chips[0].usd_per_hour == pytest.approx(mean)
    assert advice.chips[0].split is not None
    assert advice.chips[0].split.prefill.hardware.name == load_hardware("h200").name
    unknown = advise(
        "Qwen/Qwen3-8B", "h100", prefill="1x1@a100-40gb", decode="1x1", link=25e9, **ASKED
    )
    assert unknown.chips[0].usd_per_hour is None


@pytest.mark.parametrize("targets", [{}, {"tpot_ms": 4.0, "draft_len": [2, 3]}])
def test_the_best_split_is_the_best_of_all(targets: dict[str, Any]) -> None:
    asked = {**ASKED, "concurrency": [48], "framework": "vllm"} | targets
    best = advise("Qwen/Qwen3-8B", "h100", devices=3, **asked).chips[0]

    def worth(chip: Any) -> tuple[bool, float]:
        row = chip.rows[0]
        in_time = bool(row.targets.met(row.times.ttft_s, row.times.tpot_s))
        return in_time, row.times.tokens_per_s

    others = [
        advise("Qwen/Qwen3-8B", "h100", prefill=f"{p}x{a}", decode=f"{d}x{b}", **asked).chips[0]
        for p, a, d, b in itertools.product((1, 2), repeat=4)
        if p * a + d * b <= 3
    ]
    assert worth(best) == max(map(worth, others))
    # Speedups are over the best of all without drafts, three servers of one device among them.
    unsplit = [
        advise("Qwen/Qwen3-8B", "h100", tensor_parallel=each, **asked | {"concurrency": 48 / n})
        for each, n in ((1, 3), (2, 1))
    ]
    plain = [chip.rows[0].plain.tokens_per_s for chip in others]
    plain += [
        n * one.chips[0].rows[0].plain.tokens_per_s for n, one in zip((3, 1), unsplit, strict=True)
    ]
    (row,) = best.rows
    if not targets:
        assert row.plain.tokens_per_s == pytest.approx(max(plain))
    assert row.speedup[0] == pytest.approx(row.times.tokens_per_s / row.plain.tokens_per_s)
    assert row.plain.usd_per_million_tokens == pytest.approx(
        3 * 2.95 / 3600 / row.plain.tokens_per_s * 1e6
    )


@pytest.mark.parametrize(
    ("model", "chip", "each"),
    # 8 devices do not divide 28 heads; one with 40 GB does not hold 32 billion weights.
    [("Qwen/Qwen2.5-7B", "h100", 4), ("Qwen/Qwen3-32B", "a100-40gb", 4)],
)
def test_nothing_without_drafts_is_better_than_the_baseline(
    model: str, chip: str, each: int
) -> None:
    asked = {**ASKED, "concurrency": 16, "framework": "vllm"}
    (row,) = advise(model, chip, devices=8, link=25e9, **asked).chips[0].rows
    half = advise(model, chip, tensor_parallel=each, **asked | {"concurrency": 16 * each / 8})
    assert row.plain.tokens_per_s >= 8 / each * half.chips[0].rows[0].plain.tokens_per_s


def test_no_split_is_better_without_drafts_than_the_baseline() -> None:
    asked = {**ASKED, "input_len": 4000, "output_len": 500, "concurrency": 64}
    (row,) = advise("Qwen/Qwen3-32B", "h100", devices=16, **asked).chips[0].rows
    for prefill, decode in (("2x4", "1x8"), ("8x1", "1x8"), ("4x1", "3x4"), ("8x1", "2x4")):
        split = advise("Qwen/Qwen3-32B", "h100", prefill=prefill, decode=decode, **asked)
        assert row.plain.tokens_per_s >= split.chips[0].rows[0].plain.tokens_per_s * (1 - 1e-9)


def test_servers_without_a_split_are_candidates_too() -> None:
    asked = {**ASKED, "input_len": 10, "output_len": 1000, "concurrency": 64}
    chip = advise("Qwen/Qwen3-8B", "h100", devices=4, **asked).chips[0]
    (said,) = [note for note in chip.notes if "unsplit" in note]
    whole = advise("Qwen/Qwen3-8B", "h100", tensor_parallel=1, **asked | {"concurrency": 16})
    (each,), (row,) = whole.chips[0].rows, chip.rows
    assert row.plain.tokens_per_s >= 4 * each.plain.tokens_per_s
    # Prompts of ten tokens keep no prefill worker busy.
    assert 4 * each.times.tokens_per_s > row.times.tokens_per_s
    assert "no split is as good" in said


def test_prefill_limits_what_drafts_gain() -> None:
    """Speculation multiplies what decode workers do, and leaves prefill workers as they are."""
    asked = {**ASKED, "concurrency": [256], "framework": "vllm"}
    few, many = (
        advise("Qwen/Qwen3-8B", "h100", prefill=f"{n}x1", decode="1x1", **asked).chips[0].rows[0]
        for n in (1, 6)
    )
    assert few.choice.speedup < many.choice.speedup
    assert few.bottleneck == "prefill"


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("--prefill 2x1", "--decode is missing"),
        ("--decode 2x1", "--prefill is missing"),
        ("--prefill 2y1 --decode 1x1", "--prefill is '2y1'"),
        ("--prefill 0x1 --decode 1x1", "--prefill is 0"),
        ("--prefill 1x1 --decode 1x1@h200", "--decode is '1x1@h200'"),
        ("--prefill 1x3 --decode 1x1", "--prefill is '1x3'"),
        ("--prefill 1x1 --decode 1x1 --tp 2", "--tp is 2"),
        ("--prefill 1x1 --decode 1x1 --devices 2", "--devices is given with"),
        ("--devices 0", "--devices is 0"),
        ("--devices 1025", "--devices is 1025"),
        ("--devices 1", "does not fit on workers of 1 x"),
        ("--prefill 1x1@t4 --decode 1x1", "does not fit on workers of 1x1@t4 and 1x1"),
        ("--link 5e10", "--link is 50000000000.0"),
        ("--prefill 1x1 --decode 1x1 --link 0", "--link is 0"),
        ("--prefill 1x1@l40s --decode 1x1", "(--link)"),
        ("--prefill 1x1@nothing --decode 1x1", "nothing"),
    ],
)
def test_workers_that_cannot_be_are_refused(words: str, expected: str) -> None:
    run = shell(words)
    assert (run.exit_code, run.stdout) == (2, "")
    (line,) = run.stderr.splitlines()
    assert expected in line


def test_workers_are_read_from_text_alone() -> None:
    assert workers_of("prefill", "12x8@my.yaml") == (12, 8, "my.yaml")
    for text in (2, "9" * 5000 + "x1", "1x" + "9" * 5000):
        with pytest.raises(OptionError, match=r"prefill is '?[129]"):
            workers_of("prefill", text)


def test_chips_without_a_link_split_into_single_devices() -> None:
    advice = advise("Qwen/Qwen3-8B", "gh200", devices=3, link=3e9, **ASKED)
    split = advice.chips[0].split
    assert split is not None
    assert split.prefill.placement.devices == advice.chips[0].setup.placement.devices == 1
    assert split.prefill_workers + split.decode_workers == 3


def test_workers_of_a_budget_hold_the_model_and_divide_it() -> None:
    def divides(_profile: HardwareProfile, devices: int, _is_prefill: bool) -> Setup:
        if devices == 2:
            reject("tensor_parallel is 2", "another")
        return setup_of(devices=devices)

    def splits(devices: int) -> list[tuple[int, int, int, int]]:
        found = candidate_splits(
            *(devices, None, load_hardware("h100"), divides),
            lambda setup, is_prefill: is_prefill or setup.placement.devices > 1,
        )
        return [
            (
                *(one.prefill_workers, one.prefill.placement.devices),
                *(one.decode_workers, setup.placement.devices),
            )
            for setup, one in found
        ]

    assert splits(4) == []
    assert splits(6) == [(1, 1, 1, 4), (2, 1, 1, 4)]
    assert (1, 4, 1, 4) in splits(8)
    # Single devices for prefill: every number up to 16, then steps of an eighth.
    many = [count for count, size, _, each in splits(32) if (size, each) == (1, 4)]
    assert many == [*range(1, 17), 18, 20, 22, 24, 27]


def test_a_schedule_of_flags_counts_requests_of_one_worker() -> None:
    advice = advise("Qwen/Qwen3-8B", "h100", prefill="2x1", decode="2x1", **ASKED)
    prediction = advice.chips[0].prediction
    workers = prediction.end_to_end[0].workers
    assert workers is not None
    loads = list(prediction.load.batch_size)
    most = workers.decode_batch[0, loads.index(32.0), 2]
    middle = workers.decode_batch[0, loads.index(8.0), 4]
    ranges = worker_schedule([(1, 8, 4), (9, 32, 2)], prediction, 0)
    assert ranges == ((1, round(middle), 4), (round(middle) + 1, round(most), 2))
    # Loads that leave a worker with the same batch: the first, unless it has no drafts.
    assert worker_schedule([(1, 1, 4), (2, 2, 3)], prediction, 0) == ((1, 1, 4),)
    assert worker_schedule([(1, 1, 0), (2, 2, 3)], prediction, 0) == ((1, 1, 3),)


def test_flags_and_limits_are_those_of_one_worker() -> None:
    asked = {**ASKED, "drafters": "eagle3,accept-length=3.2@6", "output_len": 500}
    asked |= {"concurrency": [1, 8, 32, 64, 128]}
    chip = advise("Qwen/Qwen3-32B-FP8", "h100", prefill="2x2", decode="1x4", **asked).chips[0]
    words = shlex.split(chip.worker_launches["vllm"]["decode"].text)
    config = json.loads(words[words.index("--speculative-config") + 1])
    drafts, prediction = chip.plan.schedule[-1][2], chip.prediction
    workers = prediction.end_to_end[0].workers
    assert workers is not None
    ranges = config["num_speculative_tokens_per_batch_size"]
    assert ranges[-1] == [ranges[-2][1] + 1, round(workers.decode_batch[0, -1, drafts]), drafts]
    assert ranges[-1][1] < chip.plan.schedule[-1][1] == 128
    # SGLang runs 48 requests with drafts by default: 40 on each of two workers need no more.
    two = advise(
        "Qwen/Qwen3-8B", "h100", prefill="8x1", decode="2x1", **asked | {"concurrency": 80}
    )
    assert two.chips[0].raised == {}
    assert not any("at most" in warning for warning in two.warnings)
    assert two.chips[0].plan.capacity is not None
    largest = two.chips[0].prediction.limits[0].largest[0, 0]
    assert two.chips[0].plan.capacity["plain"]["largest_batch"] == 2 * largest
    one = advise(
        "Qwen/Qwen3-8B", "h100", prefill="8x1", decode="1x1", **asked | {"concurrency": 80}
    )
    assert one.chips[0].raised == {"running": (48, 80)}


def test_at_the_break_even_drafts_gain_nothing() -> None:
    workers: dict[str, Any] = {"prefill": "2x1", "decode": "1x1"}
    asked = {**ASKED, "concurrency": 32, "draft_len": 3, "framework": "vllm"}
    chip = advise("Qwen/Qwen3-8B", "h100", **workers, **asked).chips[0]
    rate = chip.break_even[0].rate
    again = advise(
        "Qwen/Qwen3-8B", "h100", **workers, **asked | {"drafters": f"eagle3,accept={rate}"}
    )
    assert again.chips[0].rows[0].choice.speedup == pytest.approx(1.0, abs=0.005)


# --- Other questions ------------------------------------------------------------------------------

WORKERS: dict[str, Any] = {"prefill": "2x1", "decode": "2x2"}


def test_a_prediction_on_workers_is_that_of_their_curves() -> None:
    found = predict("Qwen/Qwen3-8B", "h100", max_draft_len=3, engine="vllm", **WORKERS, **ASKED)
    assert found.split is not None
    workload = Workload(3000, 300)
    whole, workers = requests_of(
        served_curve(
            found.deployment,
            load_drafter("eagle3,accept=0.7"),
            Load([1.0, 32.0], [workload.mean_context_len], workload),
            "queue",
            max_draft_len=3,
            split=Split(found.split.prefill, 2, 2),
        )
    )
    told = found.to_dict()
    assert told["split"]["devices"] == found.devices == 2 * 1 + 2 * 2
    assert told["split"]["prefill"]["placement"]["tensor_parallel"] == 1
    (drafter,) = told["drafters"]
    assert drafter["end_to_end"]["tokens_per_s"] == whole.tokens_per_s.tolist()
    assert drafter["end_to_end"]["workers"]["decode_batch"] == workers.decode_batch.tolist()
    # Six devices are paid.
    price = load_hardware("h100").price
    assert price is not None
    usd = drafter["end_to_end"]["usd_per_million_tokens"][0][1][3]
    assert usd == pytest.approx(
        6 * price.usd_per_hour / 3600 / whole.tokens_per_s[0, 1, 3] * 1e6, rel=1e-12
    )
    frame = found.to_frame()
    assert frame["devices"].unique().tolist() == [6]
    assert frame["decode_batch"].tolist() == workers.decode_batch.ravel().tolist()
    page = str(found)
    assert "2 x 1 NVIDIA H100" in page
    assert "on workers of their own" in page


def test_several_drafters_are_named_beside_their_workers() -> None:
    asked = {**ASKED, "drafters": ["eagle3,accept=0.7", "ngram,accept=0.5,match=0.4"]}
    page = str(predict("Qwen/Qwen3-8B", "h100", max_draft_len=3, **WORKERS, **asked))
    table = page[page.index("prefill busy") :]
    assert "ngram" in table[: table.index("waiting included")]


def test_prefill_on_another_chip_is_paid_and_fed_there() -> None:
    asked: dict[str, Any] = {"max_draft_len": 3, "decode": "1x1", **ASKED}
    mixed = predict("Qwen/Qwen3-8B", "h100", prefill="1x1@h200", **asked)
    prices = [load_hardware(name).price for name in ("h100", "h200")]
    usd = sum(price.usd_per_hour for price in prices if price)
    assert mixed.prices(1.0)["usd_per_million_tokens"] == pytest.approx(usd / 3600 * 1e6)
    assert sum(note.startswith("price:") for note in mixed.messages["notes"]) == 2
    unknown = predict("Qwen/Qwen3-8B", "h100", prefill="1x1@a100-40gb", link=25e9, **asked)
    assert unknown.prices(1.0)["usd_per_million_tokens"] is None


def test_bands_of_workers_are_wider_and_reach_says_so() -> None:
    asked: dict[str, Any] = {"max_draft_len": 3, "engine": "vllm", **ASKED}
    one = predict("Qwen/Qwen3-8B", "h100", tensor_parallel=2, **asked)
    many = predict("Qwen/Qwen3-8B", "h100", **WORKERS, **asked)
    near, far = (found.curves[0].band for found in (one, many))
    assert near is not None
    assert far is not None
    assert far.width == pytest.approx(math.hypot(near.width, UNMEASURED["split"][0]))
    assert many.curves[0].served_bands == one.curves[0].served_bands
    reach = many.to_dict()["reach"]
    assert (reach["placement"], reach["text"].endswith("none with split")) == ("none", True)
    ideal = predict("Qwen/Qwen3-8B", "h100", **WORKERS, **asked | {"engine": "ideal"})
    assert not any("bands" in note for note in ideal.notes)


def test_a_frontier_of_workers_counts_all_devices() -> None:
    asked: dict[str, Any] = {"drafters": "eagle3,accept=0.7", "input_len": 3000, "output_len": 300}
    asked |= {"engine": "sglang", "max_draft_len": 3, **WORKERS}
    loads = [1, 32, 256, 4096]
    found = frontier("Qwen/Qwen3-8B", "h100", batch_size=loads, tpot_s=0.03, **asked)
    whole = predict("Qwen/Qwen3-8B", "h100", concurrency=loads, **asked).end_to_end[0]
    plain = found.series[0]
    (point,) = (point for point in plain.points if point.batch_size == 32)
    assert point.devices == 6
    assert point.tokens_per_s_per_device == pytest.approx(whole.tokens_per_s[0, 1, 0] / 6)
    assert point.tokens_per_s_per_user == pytest.approx(1 / whole.tpot_s[0, 1, 0])
    price = load_hardware("h100").price
    assert price is not None
    usd = price.usd_per_hour / 3600 / point.tokens_per_s_per_device * 1e6
    assert point.usd_per_million_tokens == pytest.approx(usd)
    assert found.chips[0].reach is not None


def test_a_frontier_of_workers_ends_where_requests_wait_for_memory() -> None:
    asked: dict[str, Any] = {"drafters": "eagle3,accept=0.7", "input_len": 500, "output_len": 500}
    asked |= {"engine": "sglang", "max_draft_len": 3, "prefill": "8x1", "decode": "2x1"}
    asked["batch_size"] = [1, 32, 160]
    few = frontier("Qwen/Qwen3-8B", "h100", server="running=8", **asked)
    assert {one.batch_size for series in few.series for one in series.points} == {1}
    # SGLang runs 48 with drafts by default: more take a limit of a worker's share of them.
    told = {
        one.batch_size: one.running
        for one in frontier("Qwen/Qwen3-8B", "h100", **asked).series[1].points
    }
    assert told == {1: None, 32: None, 160: 80}


def test_memory_of_workers_is_that_of_servers_of_their_size() -> None:
    asked: dict[str, Any] = {"context_len": 8192, "engine": "vllm"}
    found = capacity("Qwen/Qwen3-8B", "h100", drafters="eagle3", **WORKERS, **asked)
    alone = capacity("Qwen/Qwen3-8B", "h100", drafters="eagle3", tensor_parallel=2, **asked)
    prefill = capacity("Qwen/Qwen3-8B", "h100", **asked)
    assert [side.to_dict() for side in found.sides] == [side.to_dict() for side in alone.sides]
    told = found.to_dict()["split"]
    assert told["prefill"]["capacity"] == prefill.to_dict()["plain"]
    assert told["decode"]["workers"] == 2
    (line,) = (line for line in str(found).splitlines() if line.startswith("- over all workers"))
    counts = [2 * side.largest_batch for side in (*alone.sides, prefill.sides[0])]
    assert [int(word) for word in line.split()[-3:]] == counts
    assert "over all workers" not in str(alone)
    assert "split" not in alone.to_dict()


TARGETS: list[dict[str, Any]] = [
    {"model": "Qwen/Qwen3-8B", "hardware": "h100", "engine": "vllm", **WORKERS},
    {"model": "Qwen/Qwen3-8B", "hardware": "h100", "engine": "vllm", "tensor_parallel": 2},
]
STUDY: dict[str, Any] = {
    "format_version": 1,
    "drafters": ["eagle3,accept=0.7"],
    "batch_size": [1, 32],
    "workload": {"input_len": 3000, "output_len": 300},
    "max_draft_len": 3,
}


def test_studies_take_workers(tmp_path: Path) -> None:
    found = sweep({**STUDY, "targets": TARGETS})
    split, one = (outcome.prediction for outcome in found.outcomes)
    own = predict("Qwen/Qwen3-8B", "h100", max_draft_len=3, engine="vllm", **WORKERS, **ASKED)
    assert split.to_dict() == own.to_dict()
    assert one.split is None
    (tmp_path / "study.yaml").write_text(yaml.safe_dump({**STUDY, "targets": TARGETS}))
    for form in ("parquet", "csv"):
        run = CliRunner().invoke(
            app,
            ["sweep", f"{tmp_path}/study.yaml", "-o", f"{tmp_path}/{form}", "--format", form],
        )
        assert run.exit_code == 0, run.stderr
    # A sweep of other workers is another one.
    again = yaml.safe_dump({**STUDY, "targets": [TARGETS[0] | {"link": 1e9}, TARGETS[1]]})
    (tmp_path / "study.yaml").write_text(again)
    run = CliRunner().invoke(app, ["sweep", f"{tmp_path}/study.yaml", "-o", f"{tmp_path}/csv"])
    assert (run.exit_code, "split_sha256" in run.stderr) == (2, True)
    overviews = {overview.target: overview for overview in found.overviews()}
    assert [overview.devices for overview in overviews.values()] == [6, 2]
    # Prices are of all devices.
    usd, best = overviews[1].usd_per_million_tokens[0, 1], split.end_to_end[0].curve
    draft_len = best.best_draft_len[0, 1]
    assert usd == pytest.approx(
        split.prices(best.tokens_per_s)["usd_per_million_tokens"][0, 1, draft_len]  # type: ignore[index]  # known
    )
    rows = list(found.frames())
    assert rows[0]["devices"].unique().tolist() == [6]
    assert "devices" not in rows[1]


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ({"prefill": "2x1"}, "decode is missing"),
        ({**WORKERS, "tensor_parallel": 2}, "tensor_parallel is given"),
        ({"link": 1e9}, "none where one server does both"),
        ({"prefill": "1x1@t4", "decode": "1x1"}, "workers that hold Qwen3-8B"),
        ({"prefill": "1x3", "decode": "1x1"}, "groups of 3 devices"),
        ({"prefill": "1x1", "decode": "1x1@h200"}, "no chip"),
    ],
)
def test_workers_of_studies_that_cannot_be_are_refused(target: dict[str, Any], said: str) -> None:
    target = {"model": "Qwen/Qwen3-8B", "hardware": "h100", **target}
    with pytest.raises(OptionError, match=said):
        sweep({**STUDY, "targets": [target]})


def test_workers_are_given_once_to_a_study() -> None:
    with pytest.raises(OptionError, match=r"2x1 and 2x2 x NVIDIA H100.* is given twice"):
        sweep({**STUDY, "targets": [TARGETS[0], dict(TARGETS[0])]})
    load = {"input_len": 30, "output_len": 30, "requests": 3}
    with pytest.raises(OptionError, match=r"prefill is '2x1'; allowed: one server"):
        sweep({**STUDY, "targets": TARGETS[:1], "workload": load})
    without = {key: value for key, value in STUDY.items() if key != "workload"}
    with pytest.raises(OptionError, match=r"prefill is '2x1'; allowed: with a workload"):
        sweep({**without, "targets": TARGETS[:1]})


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("predict --prefill 2x1 --drafter ideal", "--decode is missing"),
        ("predict --prefill 2x1 --decode 1x1 --drafter ideal", "--input-len and --output-len"),
        ("predict --link 1e9 --drafter ideal", "--link is 1000000000.0"),
        ("predict --prefill 1x1@t4 --decode 1x1 --drafter ideal", "workers that hold Qwen3-8B"),
        ("predict --prefill 1x1 --decode 1x2 --tp 2 --drafter ideal", "--tp is 2"),
        (
            "predict --prefill 1x1 --decode 1x2 --drafter ideal --isl 9 --osl 9 --rate 4/s",
            "one server, or a steady state",
        ),
        (
            "advise --prefill 1x1 --decode 1x2 --drafter ideal --isl 9 --osl 9 --rate 4/s",
            "one server, or a steady state",
        ),
        ("frontier --prefill 1x1 --decode 1x2 --drafter ideal --devices 2,4", "--devices is "),
        ("capacity --prefill 1x1 --decode 1x2 --link 5e9", "--link is 5000000000.0"),
        ("explain --decode 1x2", "--decode"),
    ],
)
def test_every_question_refuses_workers_in_one_line(words: str, said: str) -> None:
    command, *rest = words.split()
    run = CliRunner().invoke(app, [command, "Qwen/Qwen3-8B", "-H", "h100", *rest])
    assert (run.exit_code, run.stdout) == (2, "")
    (line,) = run.stderr.splitlines()
    assert said in line


def test_the_ideal_engine_counts_no_memory_of_prefill_workers() -> None:
    asked = {**ASKED, "engine": "ideal", "max_draft_len": 1, "link": 1e9}
    found = predict("Qwen/Qwen3-8B", "h100", prefill="1x1@t4", decode="1x1", **asked)
    assert found.end_to_end[0].workers is not None
    endless = predict("Qwen/Qwen3-8B", "h100", **WORKERS, **asked | {"link": math.inf})
    assert endless.to_dict()["split"]["link_bytes_per_s"] is None


# --- Flags ----------------------------------------------------------------------------------------

PLAN = Speculation(kind="eagle3", schedule=((1, 64, 3),), draft_model="me/head")


def test_both_workers_of_vllm_draft_alike_and_say_what_they_do() -> None:
    flags = launch(PLAN, "vllm")
    workers = worker_launches("vllm", flags, Placement(8), input_len=100)
    roles = {}
    for role, found in workers.items():
        words = shlex.split(found.text)
        assert found.text.endswith(flags.text)
        roles[role] = json.loads(words[words.index("--kv-transfer-config") + 1])["kv_role"]
    assert roles == {"prefill": "kv_producer", "decode": "kv_consumer"}


def test_tensorrt_llm_drafts_where_it_decodes() -> None:
    flags = launch(PLAN, "tensorrt-llm")
    workers = worker_launches("tensorrt-llm", flags, Placement(8), input_len=99.5)
    keys = {role: yaml.safe_load(own.files[f"{role}.yaml"]) for role, own in workers.items()}
    moved = {"backend": "NIXL", "max_tokens_in_buffer": 100}
    assert keys["prefill"] == {"cache_transceiver_config": moved}
    assert keys["decode"]["cache_transceiver_config"] == moved
    assert keys["decode"]["speculative_config"]["max_draft_len"] == 3
    plain = worker_launches("tensorrt-llm", None, Placement(8), input_len=99.5)
    assert plain["decode"].files["decode.yaml"] == plain["prefill"].files["prefill.yaml"]


def test_servers_refuse_what_they_do_not_start_with() -> None:
    spread: dict[str, Any] = {"input_len": 100.0}
    with pytest.raises(OptionError, match="decode_context_parallel 2"):
        worker_launches("vllm", None, Placement(8, decode_context_parallel=2), **spread)
    assert worker_launches("vllm", None, Placement(8, decode_context_parallel=8), **spread)
    assert worker_launches("sglang", None, Placement(8, decode_context_parallel=2), **spread)
    with pytest.raises(OptionError, match="no workers for prefill"):
        worker_launches("llama.cpp", None, Placement(), **spread)
    blocks = launch(replace(PLAN, kind="dflash"), "sglang")
    of_m3: dict[str, Any] = {"kind": "dflash", "family": "minimax_m3_vl"}
    with pytest.raises(OptionError, match="where one server does both"):
        worker_launches("sglang", blocks, Placement(8), **spread, **of_m3)


def test_advice_names_what_a_server_refuses() -> None:
    spread: dict[str, Any] = {"prefill": "1x8", "decode": "1x8", "decode_context_parallel": 2}
    advice = advise("deepseek-ai/DeepSeek-R1", "h200", framework="vllm", **spread, **ASKED)
    assert advice.to_dict()["split"]["flags"] == {}
    assert any("NixlConnector" in warning for warning in advice.warnings)
    tree = {**ASKED, "drafters": "eagle3,accept=0.7,tree=eagle2,nodes=8,top-k=2,siblings=.3"}
    with pytest.raises(OptionError, match="trees of eagle3; allowed"):
        advise("Qwen/Qwen3-8B", "h100", prefill="1x1", decode="1x1", framework="vllm", **tree)


def test_advice_on_the_ideal_engine_has_endless_memory() -> None:
    advice = advise("Qwen/Qwen3-8B", "h100", prefill="1x1", decode="1x1", engine="ideal", **ASKED)
    assert advice.chips[0].plan.capacity is None


# --- Published loads ------------------------------------------------------------------------------


def errors(scores: list[SplitScore]) -> Any:
    return np.abs(np.expm1([score.off for score in scores]))


def test_every_load_is_read_and_scored(split_validated: tuple[SplitScore, ...]) -> None:
    rows = [point.source for point in load_splits()]
    assert {name: rows.count(name) for name in set(rows)} == {
        "inferencex-deepseek-r1": 67,
        "inferencex-pr2607": 7,
    }
    assert len(split_validated) == 74
    first = load_splits()[0]
    assert (first.decode_workers, first.prefill_workers, first.concurrency) == (6, 1, 256)
    assert first.tpot_s == pytest.approx(8.91807e-3)


def of_r1(scores: tuple[SplitScore, ...], *, drafts: bool) -> list[SplitScore]:
    return [
        score
        for score in scores
        if score.point.source == "inferencex-deepseek-r1" and score.point.drafts is drafts
    ]


def test_tpot_of_decode_workers_is_predicted(split_validated: tuple[SplitScore, ...]) -> None:
    plain = of_r1(split_validated, drafts=False)
    assert len(plain) == 33
    assert np.median(errors(plain)) <= 0.12


def test_drafted_tpot_of_decode_workers_is_predicted_in_shape(
    split_validated: tuple[SplitScore, ...],
) -> None:
    drafted = of_r1(split_validated, drafts=True)
    assert np.median(errors(drafted)) <= 0.08
    # A load that tells its acceptance alone is met by it: without those.
    groups = Counter(ACCEPTANCE(score.point) for score in drafted)
    others = [score for score in drafted if groups[ACCEPTANCE(score.point)] > 1]
    assert len(others) == 30
    assert np.median(errors(others)) <= 0.08


def test_one_acceptance_of_a_group_takes_out_its_mean_error(
    split_validated: tuple[SplitScore, ...],
) -> None:
    groups: dict[tuple[object, ...], list[float]] = {}
    for score in split_validated:
        point = score.point
        if point.drafts:
            key = (point.model, point.hardware, point.engine, point.draft_len, point.input_len)
            groups.setdefault(key, []).append(score.off)
    assert np.median([abs(np.mean(off)) for off in groups.values()]) < 0.02


def test_drafted_over_plain_tpot_of_pull_request_2607_is_predicted_in_shape(
    split_validated: tuple[SplitScore, ...],
) -> None:
    ratios: dict[int, dict[bool, float]] = {}
    for score in split_validated:
        if score.point.source == "inferencex-pr2607":
            ratios.setdefault(int(score.point.concurrency or 0), {})[score.point.drafts] = score.off
    off = np.array([pair[True] - pair[False] for pair in ratios.values() if len(pair) == 2])
    assert len(off) == 3
    assert np.abs(np.expm1(off - off.mean())).max() <= 0.08


def test_fewer_devices_decode_more_each_where_prefill_is_short() -> None:
    """Pull request 2607: at 128 in flight, 4 devices for decoding serve 1.83 times as much each."""
    drafted = next(p for p in load_splits() if p.source == "inferencex-pr2607" and p.drafts)

    def per_device(devices: int) -> float:
        load = replace(drafted, concurrency=128, tensor_parallel=devices)
        score = split_score(load, 2.2)
        answer_s = score.ttft_s + score.tpot_s * 1023
        return 128 * 1024 / answer_s / (4 + devices)

    assert 1.2 <= per_device(4) / per_device(8) <= 1.83


def test_a_table_and_json_have_the_errors_of_each_group(
    split_validated: tuple[SplitScore, ...],
) -> None:
    groups = split_json(split_validated)
    assert sum(group["n"] for group in groups) == 74
    h200 = [
        score for score in of_r1(split_validated, drafts=False) if score.point.hardware == "h200"
    ]
    of_sglang = errors([score for score in h200 if score.point.engine == "sglang"])
    (group,) = [
        group
        for group in groups
        if (group["hardware"], group["engine"], group["drafted"]) == ("h200", "sglang", False)
    ]
    assert group["median"] == pytest.approx(np.median(of_sglang))
    table = split_text(split_validated).splitlines()
    assert len(table) >= len(groups) + 2


def test_a_study_plays_no_loads_on_other_workers() -> None:
    study = {
        "format_version": 1,
        "targets": [
            {"model": "Qwen/Qwen3-8B", "hardware": "h200", "prefill": "1x1", "decode": "1x1"}
        ],
        "drafters": ["eagle3,accept=0.7"],
        "workload": [{"input_len": 1000, "output_len": 200, "rate": [1]}],
    }
    with pytest.raises(OptionError, match=r"targets\.0\.prefill is '1x1'"):
        sweep(study)


def test_workers_of_a_framework_that_refuses_the_drafter_have_no_flags() -> None:
    found = advise(
        "Qwen/Qwen3-8B",
        "h100",
        drafters="medusa,accept-length=2.5@3",
        prefill="1x1",
        decode="1x1",
        input_len=1000,
        output_len=300,
        concurrency=8,
    )
    (chip,) = found.chips
    assert chip.rows[0].draft_len
    assert set(chip.engine_config.values()) == {None}
    assert chip.worker_launches == {}
