"""Prefill and decoding on their own workers: identities, queues against dice, bytes by hand."""

import heapq
import json
import math
import shlex
from collections import deque
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import yaml

from specroof import load_drafter, load_hardware, load_model
from specroof.drafters import Drafter
from specroof.errors import OptionError
from specroof.hardware.engine import ServerSettings
from specroof.hardware.profile import Placement
from specroof.latency.setup import Deployment, Setup, engine_setup
from specroof.serving import split as split_room
from specroof.serving.capacity import in_server
from specroof.serving.end_to_end import EndToEnd, WorkerLoads
from specroof.serving.launch import Speculation, launch, worker_launches
from specroof.serving.prefills import request_s
from specroof.serving.served import ServedCurve, served_curve
from specroof.serving.split import PromptTimes, Split, prompt_times, worker_batch
from specroof.serving.workload import Load, Workload
from specroof.speedup.curve import acceptance_of, decoding_curve
from tables import present

REQUESTS = Workload(3000, 500)
EAGLE, PLAIN = load_drafter("eagle3,accept=0.7"), load_drafter("ideal")
#: Bytes that a token of Qwen3-8B caches.
TOKEN_BYTES = 36 * 2 * 8 * 128 * 2


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


def requests_of(
    deployment: Deployment, split: Split, loads: list[float], **more: Any
) -> tuple[EndToEnd, WorkerLoads]:
    served = whole_of(deployment, split, loads, **more)
    assert served.end_to_end is not None
    return served.end_to_end, present(served.end_to_end.workers)


def test_with_idle_prefill_and_an_endless_link_it_is_decoding_to_the_digit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(split_room, "prompt_times", lambda *_: PromptTimes(1, 0.0, 0.0, 1))
    served = deployment_of()
    engine = replace(served.setup.engine, request_latency_s=0.0, tokenize_s=0.0)
    served = replace(served, setup=replace(served.setup, engine=engine))
    loads, split = [1.0, 7.0, 64.0], Split(setup_of(), 1, 1, math.inf)
    whole, workers = requests_of(served, split, loads)
    shape: dict[str, Any] = {"context_len": [REQUESTS.mean_context_len], "max_draft_len": 3}
    decoding = decoding_curve(served, EAGLE, acceptance_of(EAGLE), loads, **shape)
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


def test_little_counts_every_request() -> None:
    whole, workers = requests_of(deployment_of(), Split(setup_of(), 2, 3), [4.0, 96.0])
    engine = setup_of().engine
    lost_s = engine.request_latency_s + engine.tokenize_s * REQUESTS.input_len
    decode_s = whole.tpot_s * (REQUESTS.output_len - 1)
    between_s = workers.prefill_s + workers.transfer_s + lost_s
    in_flight = whole.requests_per_s * (decode_s + between_s)
    np.testing.assert_allclose(in_flight, np.array([4.0, 96.0])[None, :, None] + 0 * in_flight)
    np.testing.assert_allclose(3 * workers.decode_batch, whole.requests_per_s * decode_s)
    np.testing.assert_allclose(whole.ttft_s, between_s)
    assert whole.curve.speedup[..., 0].tolist() == [[1.0, 1.0]]


def test_a_request_alone_waits_for_its_own_prompt_and_transfer() -> None:
    served = deployment_of()
    one, eight = (
        requests_of(served, Split(served.setup, 1, workers), [1.0, 64.0]) for workers in (1, 8)
    )
    np.testing.assert_allclose(one[1].prefill_s[:, 0], request_s(served, REQUESTS), rtol=1e-6)
    # It is alone on one of many workers, too.
    np.testing.assert_allclose(eight[0].tpot_s[:, 0], one[0].tpot_s[:, 0])
    np.testing.assert_allclose(8 * eight[1].decode_batch[:, 0], one[1].decode_batch[:, 0])


def test_what_the_prefill_workers_compute_is_the_most_that_is_served() -> None:
    served = deployment_of(devices=4)
    split = Split(setup_of(), 1, 8)
    whole, workers = requests_of(served, split, [1024.0])
    most = prompt_times(Deployment(served.model, split.prefill), REQUESTS, 1).requests_per_s
    np.testing.assert_allclose(whole.requests_per_s, most, rtol=0.02)
    assert workers.prefill_busy.min() > 0.98
    assert (whole.curve.speedup < 1.02).all()  # drafts gain nothing
    # So does a slow link: one device that takes in a prompt at 1 GB/s.
    slow, loads = requests_of(served, replace(split, link_bytes_per_s=1e9), [1024.0])
    assert loads.link_busy.min() > 0.98
    assert slow.requests_per_s.max() < most / 2


def test_decode_workers_without_room_let_requests_wait() -> None:
    served = deployment_of()
    setup = in_server(served.model, served.setup, ServerSettings(running=8))
    tight = replace(served, setup=setup)
    slow = replace(setup, engine=replace(setup.engine, request_latency_s=0.5, tokenize_s=0.0))
    whole, workers = requests_of(replace(served, setup=slow), Split(setup_of(), 4, 2), [64.0])
    # Those that started decode, or are on their way through prefill and transfer.
    before_s = workers.prefill_s + workers.transfer_s + 0.5
    started = 2 * 8 + whole.requests_per_s * before_s
    np.testing.assert_allclose(whole.curve.running_batch, started)
    whole, workers = requests_of(tight, Split(setup_of(), 4, 2), [64.0])
    assert (workers.decode_batch == 8).all()
    assert (whole.curve.running_batch < 64).all()
    # They wait before they start: 64 in flight, by Little's law.
    np.testing.assert_allclose(whole.requests_per_s * whole.answer_s, 64)
    _, endless = requests_of(tight, Split(setup_of(), 4, 2), [64.0], room="ignore")
    assert (endless.decode_batch > 8).all()
    assert whole_of(tight, Split(setup_of(), 4, 2), [64.0], room="ignore").room is None
    none = replace(tight, setup=in_server(served.model, setup_of("t4"), ServerSettings()))
    one_each = Split(setup_of(), 1, 1, 1e9)
    assert np.isnan(requests_of(none, one_each, [2.0])[0].tpot_s).all()
    # 16 of 80 GB hold Qwen3-8B and some short requests, but no drafter beside it.
    little = in_server(served.model, setup_of(), ServerSettings(memory_frac=0.2))
    plain, short = replace(served, setup=little), Workload(200, 100)
    whole, _ = requests_of(plain, one_each, [8.0], workload=short)
    assert np.isnan(whole.tpot_s).tolist() == [[[False, True, True, True]]]


def test_a_figure_of_workers_is_the_mean_over_their_devices() -> None:
    split, decode = Split(setup_of("h200", 2), 3, 2), setup_of("h100", 4)
    # 6 devices of 5 and 8 of 2.
    mean = split.mean(decode, lambda chip: 5.0 if "H200" in chip.name else 2.0)
    assert mean == pytest.approx((6 * 5 + 8 * 2) / 14)
    assert split.mean(decode, lambda chip: 2.0 if "H100" in chip.name else None) is None


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


@pytest.mark.parametrize("most", [0.5, 1.0, 5.7, 100.0])
def test_small_batches_are_priced_themselves_and_large_ones_four_to_a_doubling(most: float) -> None:
    priced = split_room._priced_batches(most)
    assert {*range(1, 1 + min(8, int(max(most, 1.0))))} <= {*priced.tolist()}
    assert priced[0] == 1
    assert priced[-1] >= most
    # What else is asked changes nothing.
    assert priced.tolist() == split_room._priced_batches(1000.0)[: len(priced)].tolist()
    assert np.all(priced[1:] / priced[:-1] <= 2**0.25 + 1e-9)


def test_a_full_queue_has_no_end_and_an_idle_one_no_wait() -> None:
    one = PromptTimes(2, 0.5, 0.5, 1)
    assert one.requests_per_s == 4
    for others in (1.0, 0.5):  # however few a prompt finds
        assert one.station_s([4.0, 5.0], others).tolist() == [np.inf, np.inf]
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


@pytest.mark.parametrize(
    ("model", "token_bytes", "sequence_bytes"),
    [
        ("Qwen/Qwen3-8B", TOKEN_BYTES, 0),
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
    _, workers = requests_of(served, split, [1.0], drafter=PLAIN, room="ignore")
    moved = token_bytes * REQUESTS.input_len + sequence_bytes
    seconds = 0.5e-3 + moved / (0.75 * 10e9)
    np.testing.assert_allclose(workers.transfer_s, seconds, rtol=1e-3)


def test_the_cache_of_a_drafter_is_moved_besides() -> None:
    _, workers = requests_of(deployment_of(), Split(setup_of(), 1, 1, 10e9), [1.0])
    # One layer of EAGLE-3, with the heads of the target.
    more_s = 2 * 8 * 128 * 2 * REQUESTS.input_len / (0.75 * 10e9)
    plain, *drafted = workers.transfer_s[0, 0]
    assert drafted == pytest.approx([plain + more_s] * 3)


@pytest.mark.parametrize(
    ("prefill", "decode", "links"),
    [((8, 1), (1, 8), 8), ((1, 8), (8, 1), 8), ((2, 4), (1, 2), 2), ((3, 2), (3, 2), 6)],
)
def test_every_link_of_the_narrower_side_carries_caches(
    prefill: tuple[int, int], decode: tuple[int, int], links: int
) -> None:
    """Workers x devices of each: a device of Qwen3-8B has one of its eight KV heads, or all."""
    split = Split(setup_of(devices=prefill[1]), prefill[0], decode[0], 1e9)
    served = deployment_of(devices=decode[1])
    whole, workers = requests_of(served, split, [64.0], drafter=PLAIN)
    most = links * 0.75 * 1e9 / (TOKEN_BYTES * REQUESTS.input_len)
    np.testing.assert_allclose(whole.requests_per_s / workers.link_busy, most, rtol=1e-9)


def test_transfers_are_those_of_mooncake() -> None:
    # Qwen3-8B between two nodes with eight cards of 25 GB/s: tokens and milliseconds.
    measured = {128: 0.54, 1024: 1.50, 4096: 4.75, 16384: 16.4, 32768: 31.65}
    served = deployment_of(devices=8)
    for tokens, milliseconds in measured.items():
        split = Split(setup_of(devices=8), 1, 1, 25e9)
        _, workers = requests_of(
            served, split, [1.0], workload=Workload(tokens, 100), drafter=PLAIN
        )
        seconds = float(workers.transfer_s[0, 0, 0])
        assert seconds * 1e3 == pytest.approx(milliseconds, rel=0.05 if tokens > 128 else 0.2)


PLAN = Speculation(kind="eagle3", schedule=((1, 64, 3),), draft_model="me/head")


def test_both_workers_of_vllm_draft_alike_and_say_what_they_do() -> None:
    flags = launch(PLAN, "vllm")
    workers = worker_launches("vllm", flags, Placement(8), input_len=100)
    for role, kind in {"prefill": "kv_producer", "decode": "kv_consumer"}.items():
        words = shlex.split(workers[role].text)
        assert workers[role].text.endswith(flags.text)
        assert json.loads(words[words.index("--kv-transfer-config") + 1])["kv_role"] == kind


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
