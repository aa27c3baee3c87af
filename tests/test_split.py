"""Prefill and decoding on their own workers: identities, dice, bytes by hand, and questions."""

import heapq
import itertools
import json
import math
import shlex
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from commands import refused, run
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
from specroof.drafters import Drafter
from specroof.errors import OptionError, reject
from specroof.hardware.engine import UNMEASURED, ServerSettings
from specroof.hardware.profile import HardwareProfile, Placement
from specroof.latency.setup import Deployment, Setup, engine_setup
from specroof.questions.request import WorkerRequest, workers_of
from specroof.questions.splits import candidate_splits, split_text, worker_schedule
from specroof.serving import split as split_room
from specroof.serving.capacity import in_server, prefill_rules
from specroof.serving.end_to_end import EndToEnd, WorkerLoads
from specroof.serving.launch import Launch, Speculation, launch, worker_launches
from specroof.serving.prefills import request_s
from specroof.serving.served import ServedCurve, served_curve
from specroof.serving.split import PromptTimes, Split, prompt_times, wire_s, worker_batch
from specroof.serving.workload import Load, Workload, prefill_pass
from specroof.speedup.curve import acceptance_of, decoding_curve, prompt_read_s
from specroof.units import format_seconds
from tables import present, reads, refusal, rows

REQUESTS = Workload(3000, 500)
EAGLE, PLAIN = load_drafter("eagle3,accept=0.7"), load_drafter("ideal")
#: Bytes that a token of Qwen3-8B caches.
TOKEN_BYTES = 36 * 2 * 8 * 128 * 2


def setup_of(
    chip: str = "h100", devices: int = 1, engine: str = "sglang", *, groups: int = 1,
    stages: int = 1,
) -> Setup:  # fmt: skip
    place = Placement(devices, attention_data_parallel=groups, pipeline_parallel=stages)
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
    hits, split = replace(REQUESTS, prefix_hit_rate=0.5), Split(setup_of(), 2, 3)
    whole, workers = requests_of(deployment_of(), split, [4.0, 96.0], workload=hits)
    engine = setup_of().engine
    lost_s = engine.request_latency_s + engine.tokenize_s * REQUESTS.input_len
    decode_s = whole.tpot_s * (REQUESTS.output_len - 1)
    between_s = workers.prefill_s + workers.transfer_s + lost_s
    in_flight = whole.requests_per_s * (decode_s + between_s)
    np.testing.assert_allclose(in_flight, np.array([4.0, 96.0])[None, :, None] + 0 * in_flight)
    np.testing.assert_allclose(3 * workers.decode_batch, whole.requests_per_s * decode_s)
    np.testing.assert_allclose(whole.ttft_s, between_s)
    # What all that run are delayed by is what neither rounds nor the request's own latency take.
    rounds_s = whole.decoding_round_s / whole.curve.tokens_per_round * REQUESTS.output_len
    parts_s = rounds_s + lost_s + whole.curve.running_batch * whole.delay_s
    np.testing.assert_allclose(parts_s, decode_s + between_s)
    assert whole.curve.speedup[..., 0].tolist() == [[1.0, 1.0]]


def test_a_request_alone_waits_for_its_own_prompt_and_transfer() -> None:
    served = deployment_of()
    one, eight = (
        requests_of(served, Split(served.setup, 1, workers), [1.0, 64.0]) for workers in (1, 8)
    )
    alone_s = request_s(served, prefill_pass(3000), prefill_rules(served).chunk)
    # The drafter reads it, too, but where nothing drafts.
    read_s = float(prompt_read_s(served, EAGLE, prefill_pass(3000)))
    prompt_s = [alone_s, *[alone_s + read_s] * 3]
    np.testing.assert_allclose(one[1].prefill_s[0, 0], prompt_s, rtol=1e-6)
    # It is alone on one of many workers, too.
    np.testing.assert_allclose(eight[0].tpot_s[:, 0], one[0].tpot_s[:, 0])
    np.testing.assert_allclose(8 * eight[1].decode_batch[:, 0], one[1].decode_batch[:, 0])


def test_what_the_prefill_workers_compute_is_the_most_that_is_served() -> None:
    served = deployment_of(devices=4)
    split = Split(setup_of(), 1, 8)
    whole, workers = requests_of(served, split, [1024.0])
    most = prompt_times(
        *(Deployment(served.model, split.prefill), REQUESTS, 1), drafter=EAGLE, lengths=4
    ).requests_per_s
    np.testing.assert_allclose(whole.requests_per_s[0, 0], most, rtol=0.02)
    assert workers.prefill_busy.min() > 0.98
    assert workers.link_busy.max() < 0.5
    assert (whole.curve.speedup < 1.02).all()  # drafts gain nothing
    # So does a slow link: one device that takes in a prompt at 1 GB/s.
    slow, loads = requests_of(served, replace(split, link_bytes_per_s=1e9), [1024.0])
    assert loads.link_busy.min() > 0.98
    np.testing.assert_allclose(loads.prefill_busy[0, 0], slow.requests_per_s[0, 0] / most)
    assert slow.requests_per_s.max() < most.min() / 2


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
    # Of each plain token: its share of what comes before the first.
    before = whole.first_s[..., 0] / REQUESTS.output_len
    np.testing.assert_allclose(whole.curve.request_token_s, before)
    # A client finds the prompts of the 63 others (Reiser and Lavenberg 1980).
    prompts = prompt_times(Deployment(served.model, setup_of()), REQUESTS, 4, EAGLE, 4)
    others_s = prompts.station_s(whole.requests_per_s, 63 / 64)
    np.testing.assert_allclose(workers.prefill_s, others_s, rtol=1e-9)
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


@pytest.mark.parametrize(
    ("clients", "workers", "answer_s"), [(4, 1, 2.0), (16, 2, 5.0), (40, 4, 3.0)]
)
def test_queues_of_prompts_are_those_of_dice(clients: int, workers: int, answer_s: float) -> None:
    # A closed loop by play: one queue of prompts of half a second, and answers of any length.
    rng, answers = np.random.default_rng(7), 40_000
    now, done, busy, waiting = 0.0, 0, 0, clients
    events: list[tuple[float, int]] = []  # (time, 1 where a prompt ends and 0 where an answer does)
    while done < answers:
        while waiting and busy < workers:
            waiting, busy = waiting - 1, busy + 1
            heapq.heappush(events, (now + 0.5, 1))
        now, is_prompt = heapq.heappop(events)
        if is_prompt:
            busy -= 1
            heapq.heappush(events, (now + rng.exponential(answer_s), 0))
        else:
            done, waiting = done + 1, waiting + 1
    prompts = PromptTimes(workers, 0.5, 0.5, 1)
    batch = worker_batch(
        *(np.array([float(clients)]), np.array([np.inf])),
        lambda batch: np.full_like(batch, answer_s),
        prompts=prompts,
        decode_workers=1,
        most_per_s=prompts.requests_per_s,
        between_s=np.array(0.0),
    )
    assert batch[0] / answer_s == pytest.approx(answers / now, rel=0.05)


@pytest.mark.parametrize("most", [0.5, 1.0, 5.7, 100.0])
def test_small_batches_are_priced_themselves_and_large_ones_four_to_a_doubling(most: float) -> None:
    priced = split_room._priced_batches(most)
    assert {*range(1, 1 + min(8, int(max(most, 1.0))))} <= {*priced.tolist()}
    assert priced[0] == 1
    assert priced[-1] >= most
    # What else is asked changes nothing.
    assert priced.tolist() == split_room._priced_batches(1000.0)[: len(priced)].tolist()
    assert np.all(priced[1:] / priced[:-1] <= 2**0.25 + 1e-9)


def test_times_run_straight_between_the_batches_that_are_priced() -> None:
    seconds, at = np.array([1.0, 3.0, 4.0])[None, :, None], np.array([1.5, 3.0, 4.0])[None, :, None]
    found = split_room._between(np.array([1.0, 2.0, 4.0]), seconds, at)
    assert found[0, :, 0].tolist() == [2.0, 3.5, 4.0]


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
    # Three workers have 8 a second each, and are busy 0.9 of the time; half counts.
    queue = 0.45 ** (math.sqrt(2 * (3 + 1)) - 1) / (1 - 0.45)
    found_s = float(replace(shared, workers=3).station_s(24.0, others=0.5))
    assert found_s == pytest.approx(0.5 + 0.5 / (2 * 3) * queue)


def test_prompts_of_several_chunks_and_what_each_keeps_others_waiting() -> None:
    served = deployment_of()
    alone_s = float(request_s(served, prefill_pass(20000), prefill_rules(served).chunk))
    assert prompt_times(served, Workload(20000, 9), 1, PLAIN, 1).alone_s == pytest.approx(
        [alone_s], rel=0.01
    )
    # A drafter reads each of three chunks: on average as long, and behind half of the prompt.
    off, on = np.asarray(prompt_times(served, Workload(20000, 9), 1, EAGLE, 2).alone_s)
    chunk = prefill_pass(20000 / 3, context_len=20000 / 3)
    assert on - off == pytest.approx(3 * float(prompt_read_s(served, EAGLE, chunk)))
    more_s = served.setup.engine.request_overhead_s + 1
    slow = replace(served.setup, engine=replace(served.setup.engine, request_overhead_s=more_s))
    before, after = (
        prompt_times(each, REQUESTS, 1, PLAIN, 1) for each in (served, replace(served, setup=slow))
    )
    assert after.full_s - before.full_s == pytest.approx([before.most])
    assert after.alone_s - before.alone_s == pytest.approx([1])


def test_groups_of_prefill_workers_have_prompts_of_their_own() -> None:
    model, prompt = load_model("deepseek-ai/DeepSeek-R1"), Workload(3900, 500)

    def times(engine: str, groups: int) -> PromptTimes:
        return prompt_times(
            Deployment(model, setup_of("h200", 8, engine, groups=groups)), *(prompt, 1, PLAIN, 1)
        )

    # SGLang's chunk of 8192 is that of all groups, TensorRT-LLM's that of each.
    assert [times("sglang", groups).most for groups in (1, 8)] == [2, 8]
    assert [times("tensorrt-llm", groups).most for groups in (1, 8)] == [2, 16]
    whole = in_server(model, setup_of("h200", 8), ServerSettings(chunk=0))
    assert prompt_times(Deployment(model, whole), prompt, 1, PLAIN, 1).most == 1


@pytest.mark.parametrize(("model", "token_bytes", "sequence_bytes"), rows("values", "moved_caches"))
def test_caches_are_moved_whole(model: str, token_bytes: int, sequence_bytes: int) -> None:
    served = deployment_of(model, chip="b300", devices=1)
    split = Split(setup_of("b300"), 1, 1, 10e9)
    hits = replace(REQUESTS, prefix_hit_rate=0.5)  # which save no transfer
    _, workers = requests_of(served, split, [1.0], workload=hits, drafter=PLAIN, room="ignore")
    moved = token_bytes * REQUESTS.input_len + sequence_bytes
    seconds = 0.5e-3 + moved / (0.75 * 10e9)
    np.testing.assert_allclose(workers.transfer_s, seconds, rtol=1e-3)


def test_the_cache_of_a_drafter_is_moved_besides() -> None:
    _, workers = requests_of(deployment_of(), Split(setup_of(), 1, 1, 10e9), [1.0])
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
    ("prefill", "decode", "links", "alone"),
    [
        ((8, 1), (1, 8, 1), 8, 1), ((1, 8), (8, 1, 1), 8, 1), ((2, 4), (1, 2, 1), 2, 2),
        ((3, 2), (3, 2, 1), 6, 2), ((1, 4), (1, 4, 2), 4, 4), ((1, 8), (1, 2, 2), 4, 4),
    ],
)  # fmt: skip
def test_every_link_of_the_narrower_side_carries_caches(
    prefill: tuple[int, int], decode: tuple[int, int, int], links: int, alone: int
) -> None:
    """Workers, devices, stages: a device of Qwen3-8B has one of eight KV heads, or all."""
    split = Split(setup_of(devices=prefill[1]), prefill[0], decode[0], 1e9)
    served = deployment_of(devices=decode[1], stages=decode[2])
    whole, workers = requests_of(served, split, [64.0], drafter=PLAIN)
    most = 0.75 * 1e9 / (TOKEN_BYTES * REQUESTS.input_len)
    np.testing.assert_allclose(whole.requests_per_s / workers.link_busy, links * most, rtol=1e-9)
    np.testing.assert_allclose(workers.transfer_s, 0.5e-3 + 1 / (alone * most), rtol=1e-9)


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


def test_workers_of_vllm_agree_on_layouts_of_states_and_on_backends() -> None:
    # nixl/base_worker.py: "Set VLLM_SSM_CONV_STATE_LAYOUT=DS"; nixl/metadata.py: attn_backend_name
    def told(server: str, **shape: Any) -> Launch:
        return worker_launches(server, None, Placement(8), input_len=100, **shape)["prefill"]

    assert told("vllm", is_recurrent=True).environment == "VLLM_SSM_CONV_STATE_LAYOUT=DS"
    assert told("vllm").environment == told("sglang", is_recurrent=True).environment == ""
    assert told("vllm", compute_majors=[9, 9]).notes == ()
    (note,) = told("vllm", compute_majors=[9, 10]).notes
    assert "--attention-backend names one for both" in note
    advice = advise("Qwen/Qwen3.5-4B", CHIP, prefill="1x1@b200", decode="1x1", **ASKED)
    assert " ".join(str(advice).split()).count("VLLM_SSM_CONV_STATE_LAYOUT=DS vllm serve") == 2
    assert note in advice.chips[0].warnings


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


def test_workers_without_drafts_are_told_the_settings_too() -> None:
    settings = ServerSettings(memory_frac=0.8, overlap=False)
    named: dict[str, Any] = {"input_len": 100, "settings": settings, "kv_cache": "fp8"}
    for server, words in {
        "vllm": "--gpu-memory-utilization 0.8 --no-async-scheduling",
        "sglang": "--mem-fraction-static 0.8 --disable-overlap-schedule",
    }.items():
        for own in worker_launches(server, None, Placement(8), **named).values():
            assert own.text.endswith(f" {words}")
    groups = Placement(8, attention_data_parallel=8)
    for role, own in worker_launches("tensorrt-llm", None, groups, **named).items():
        keys = yaml.safe_load(own.files[f"{role}.yaml"])
        assert keys["kv_cache_config"] == {"free_gpu_memory_fraction": 0.8, "dtype": "fp8"}
        assert keys["disable_overlap_scheduler"] is True
        assert ("enable_attention_dp" in keys) == (role == "decode")  # prompts take all devices


@pytest.mark.parametrize(("server", "kind", "place", "family", "says"), rows("launch", "workers"))
def test_workers_start_or_are_refused_as_their_server_does(
    server: str, kind: str | None, place: dict[str, int], family: str, says: str | None
) -> None:
    flags = launch(replace(PLAN, kind=kind), server) if kind else None
    given = server, flags, Placement(8, **place)
    named: dict[str, Any] = {"input_len": 100.0, "kind": kind or "", "family": family}
    if says is None:
        assert worker_launches(*given, **named)
    else:
        assert reads(refusal(OptionError, worker_launches, *given, **named), f"…{says}…")


# --- advise ---------------------------------------------------------------------------------------

ASKED: dict[str, Any] = {
    "drafters": "eagle3,accept=0.7", "input_len": 3000, "output_len": 300, "concurrency": [1, 32]
}  # fmt: skip
MODEL, CHIP = "Qwen/Qwen3-8B", "h100"


def of_workers(question: Callable[..., Any], **changes: Any) -> Any:
    return question(MODEL, CHIP, **ASKED | changes)


def test_a_split_whose_drafts_gain_too_little_meets_no_target_with_them() -> None:
    # Of one prefill worker and two for decoding drafts are soon enough, and gain 1.05x.
    asked: Any = {"concurrency": [48], "framework": "vllm", "tpot_ms": 6.0, "min_speedup": 1.3}
    (row,) = of_workers(advise, devices=3, **asked).chips[0].rows
    (most,) = of_workers(advise, prefill="2x1", decode="1x1", **asked).chips[0].rows
    assert (row.draft_len, row.tokens_per_s) == (most.draft_len, most.tokens_per_s)
    assert row.speedup > 1.3


@pytest.mark.parametrize("targets", [{}, {"tpot_ms": 4.0, "draft_len": [2, 3]}])
def test_the_best_split_is_the_best_of_all(targets: dict[str, Any]) -> None:
    asked = {"concurrency": [48], "framework": "vllm"} | targets
    best = of_workers(advise, devices=3, **asked).chips[0]

    def worth(chip: Any) -> tuple[bool, float]:
        row = chip.rows[0]
        in_time = bool(chip.plan.targets.met(row.ttft_s, row.tpot_s))
        return in_time, row.tokens_per_s

    others = [
        of_workers(advise, prefill=f"{p}x{a}", decode=f"{d}x{b}", **asked).chips[0]
        for p, a, d, b in itertools.product((1, 2), repeat=4)
        if p * a + d * b <= 3
    ]
    assert worth(best) == max(map(worth, others))
    # Speedups are over the best of all without drafts, three servers of one device among them.
    unsplit = [
        of_workers(advise, tensor_parallel=each, **asked | {"concurrency": 48 / n})
        for each, n in ((1, 3), (2, 1))
    ]
    plain = [chip.rows[0].plain_tokens_per_s for chip in others]
    plain += [
        n * one.chips[0].rows[0].plain_tokens_per_s for n, one in zip((3, 1), unsplit, strict=True)
    ]
    (row,) = best.rows
    if not targets:
        assert row.plain_tokens_per_s == pytest.approx(max(plain))
    assert row.speedup == pytest.approx(row.tokens_per_s / row.plain_tokens_per_s)


@pytest.mark.parametrize(
    ("model", "chip", "each"),
    # 8 devices do not divide 28 heads; one with 40 GB does not hold 32 billion weights.
    [("Qwen/Qwen2.5-7B", "h100", 4), ("Qwen/Qwen3-32B", "a100-40gb", 4)],
)
def test_nothing_without_drafts_is_better_than_the_baseline(
    model: str, chip: str, each: int
) -> None:
    asked = ASKED | {"concurrency": 16, "framework": "vllm"}
    (row,) = advise(model, chip, devices=8, link=25e9, **asked).chips[0].rows
    half = advise(model, chip, tensor_parallel=each, **asked | {"concurrency": 16 * each / 8})
    assert row.plain_tokens_per_s >= 8 / each * half.chips[0].rows[0].plain_tokens_per_s


def test_servers_without_a_split_are_candidates_too() -> None:
    asked = {"input_len": 10, "output_len": 1000, "concurrency": 64}
    chip = of_workers(advise, devices=4, **asked).chips[0]
    whole = of_workers(advise, tensor_parallel=1, **asked | {"concurrency": 16})
    (each,), (row,) = whole.chips[0].rows, chip.rows
    assert row.plain_tokens_per_s >= 4 * each.plain_tokens_per_s
    # Prompts of ten tokens keep no prefill worker busy.
    assert 4 * each.tokens_per_s > row.tokens_per_s
    assert "no split is the best use" in " ".join(chip.notes)


def test_workers_are_read_from_text_alone() -> None:
    assert workers_of("prefill", "12x8@my.yaml") == (12, 8, "my.yaml")
    for text in (2, "9" * 5000 + "x1", "1x" + "9" * 5000):
        with pytest.raises(OptionError, match=r"prefill is '?[129]"):
            workers_of("prefill", text)


def test_workers_have_the_devices_that_are_told_in_all_stages_together() -> None:
    told: Any = {"prefill": "2x4", "decode": "1x8", "pipeline_parallel": 2}
    deployment, split = WorkerRequest("Qwen/Qwen3-32B", "h100", **told).resolved_workers()
    assert split is not None
    assert split.devices(deployment.setup) == 2 * 4 + 1 * 8
    assert deployment.setup.placement.tensor_parallel == 4


def test_chips_without_a_link_split_into_single_devices() -> None:
    advice = advise("Qwen/Qwen3-8B", "gh200", devices=3, link=3e9, **ASKED)
    split: Any = advice.chips[0].split
    assert split.prefill.placement.devices == advice.chips[0].setup.placement.devices == 1
    assert split.prefill_workers + split.decode_workers == 3


def test_workers_of_a_budget_hold_the_model_and_divide_it() -> None:
    def splits(devices: int, stages: int = 1) -> list[tuple[int, int, int, int]]:
        def divides(_profile: HardwareProfile, devices: int, is_prefill: bool) -> Setup:
            if devices == 2:
                reject("tensor_parallel is 2", "another")
            place = Placement(devices, pipeline_parallel=1 if is_prefill else stages)
            return engine_setup(load_hardware(CHIP), "sglang", place, None)

        found = [
            *candidate_splits(
                *(devices, None, load_hardware("h100"), divides),
                lambda setup, is_prefill: is_prefill or setup.placement.devices > 1,
            )
        ]
        assert all(each.decodes_only > one.prefill.decodes_only for each, one in found)
        return [
            (
                one.prefill_workers,
                one.prefill.placement.devices,
                one.decode_workers,
                each.placement.devices,
            )
            for each, one in found
        ]

    assert splits(4) == []
    assert splits(6) == [(1, 1, 1, 4), (2, 1, 1, 4)]
    assert (1, 4, 1, 4) in splits(8)
    # Two stages of one device; of four there are too few.
    ones = [(1, 1, 2, 2), (2, 1, 2, 2), (3, 1, 1, 2), (4, 1, 1, 2)]
    assert splits(6, stages=2) == [*ones, (1, 4, 1, 2)]
    # Single devices for prefill: every number up to 16, then steps of an eighth.
    many = [count for count, size, _, each in splits(32) if (size, each) == (1, 4)]
    assert many == [*range(1, 17), 18, 20, 22, 24, 27]


def test_a_schedule_of_flags_counts_requests_of_one_worker() -> None:
    advice = of_workers(advise, prefill="2x1", decode="2x1")
    prediction = advice.chips[0].prediction
    workers: Any = prediction.end_to_end[0].workers
    loads = list(prediction.load.batch_size)
    most = workers.decode_batch[0, loads.index(32.0), 2]
    middle = workers.decode_batch[0, loads.index(8.0), 4]
    ranges = worker_schedule([(1, 8, 4), (9, 32, 2)], prediction, 0)
    assert ranges == ((1, round(middle), 4), (round(middle) + 1, round(most), 2))
    # Loads that leave a worker with the same batch: the first, unless it has no drafts.
    assert worker_schedule([(1, 1, 4), (2, 2, 3)], prediction, 0) == ((1, 1, 4),)
    assert worker_schedule([(1, 1, 0), (2, 2, 3)], prediction, 0) == ((1, 1, 3),)


def test_flags_and_limits_are_those_of_one_worker() -> None:
    asked = ASKED | {"drafters": "eagle3,accept-length=3.2@6", "output_len": 500}
    asked |= {"concurrency": [1, 8, 32, 64, 128]}
    chip = advise("Qwen/Qwen3-32B", "h100", prefill="2x2", decode="1x4", **asked).chips[0]
    words = shlex.split(chip.worker_launches["vllm"]["decode"].text)
    config = json.loads(words[words.index("--speculative-config") + 1])
    drafts, prediction = chip.plan.schedule[-1][2], chip.prediction
    workers: Any = prediction.end_to_end[0].workers
    ranges = config["num_speculative_tokens_per_batch_size"]
    assert ranges[-1] == [ranges[-2][1] + 1, round(workers.decode_batch[0, -1, drafts]), drafts]
    assert ranges[-1][1] < chip.plan.schedule[-1][1] == 128
    # SGLang runs 48 requests with drafts by default: 40 on each of two workers need no more.
    two: Any = of_workers(advise, prefill="8x1", decode="2x1", **asked | {"concurrency": 80})
    assert two.chips[0].raised == {}
    assert not any("at most" in warning for warning in two.warnings)
    largest = two.chips[0].prediction.limits[0].largest[0, 0]
    assert two.chips[0].plan.capacity["plain"]["largest_batch"] == 2 * largest
    one = of_workers(advise, prefill="8x1", decode="1x1", **asked | {"concurrency": 80})
    assert one.chips[0].raised == {"running": (48, 80)}


# --- Other questions ------------------------------------------------------------------------------

WORKERS: dict[str, Any] = {"prefill": "2x1", "decode": "2x2"}


def test_prefill_on_another_chip_is_paid_and_fed_there() -> None:
    asked: dict[str, Any] = {"max_draft_len": 3, "decode": "1x1", **ASKED}
    mixed = of_workers(predict, prefill="1x1@h200", **asked)
    prices = [present(load_hardware(chip).price).usd_per_hour for chip in ("h100", "h200")]
    usd = sum(prices) / 3600 * 1e6
    assert mixed.money.of(1.0)["usd_per_million_tokens"] == pytest.approx(usd)
    assert sum(note.startswith("price:") for note in mixed.messages["notes"]) == 2
    unknown = of_workers(predict, prefill="1x1@a100-40gb", link=25e9, **asked)
    assert unknown.money.of(1.0)["usd_per_million_tokens"] is None


def test_the_page_has_workers_without_drafts_and_with() -> None:
    found = of_workers(predict, max_draft_len=3, **WORKERS)
    whole, (off, on) = found.end_to_end[0], ((0, 1, 0), (0, 1, 3))
    workers = present(whole.workers)
    *_, table = split_text(found, found.split, [(0, 1, 3)])
    shown = [f"{workers.decode_batch[end]:.1f}" for end in (off, on)]
    shown += [f"{workers.prefill_busy[end]:.0%}" for end in (off, on)]
    shown += [format_seconds(each[on]) for each in (workers.prefill_s, workers.transfer_s)]
    shown += [f"{whole.tokens_per_s[end] / 6:.0f}" for end in (off, on)]
    assert table.splitlines()[1].split() == ["32", "3", *" ".join(shown).split()]


def test_bands_of_workers_are_wider_and_reach_says_so() -> None:
    asked: dict[str, Any] = {"max_draft_len": 3, "engine": "vllm", **ASKED}
    one = of_workers(predict, tensor_parallel=2, **asked)
    many = of_workers(predict, **WORKERS, **asked)
    near, far = (present(found.curves[0].band) for found in (one, many))
    assert far.width == pytest.approx(math.hypot(near.width, UNMEASURED["split"][0]))
    assert many.curves[0].served_bands == one.curves[0].served_bands
    ideal = of_workers(predict, **WORKERS, **asked | {"engine": "ideal"})
    assert not any("bands" in note for note in ideal.notes)


def test_a_frontier_of_workers_ends_where_requests_wait_for_memory() -> None:
    asked: dict[str, Any] = {"drafters": "eagle3,accept=0.7", "input_len": 500, "output_len": 500}
    asked |= {"engine": "sglang", "max_draft_len": 3, "prefill": "8x1", "decode": "2x1"}
    asked["batch_size"] = [1, 32, 160]
    few = frontier("Qwen/Qwen3-8B", "h100", server="running=8", **asked)
    assert {one.concurrency for series in few.series for one in series.points} == {1, 32}
    # SGLang runs 48 with drafts by default: more take a limit of a worker's share of them.
    told = {
        one.concurrency: one.running_limit
        for one in frontier("Qwen/Qwen3-8B", "h100", **asked).series[1].points
    }
    assert told == {1: None, 32: None, 160: 80}


def test_memory_of_workers_is_that_of_servers_of_their_size() -> None:
    asked: dict[str, Any] = {"context_len": 8192, "engine": "vllm"}
    found = capacity("Qwen/Qwen3-8B", "h100", drafters="eagle3", **WORKERS, **asked)
    alone = capacity("Qwen/Qwen3-8B", "h100", drafters="eagle3", tensor_parallel=2, **asked)
    prefill = capacity("Qwen/Qwen3-8B", "h100", **asked)
    kept = [{**row, "worker": None, "workers": None} for row in found.records]
    absent = {"draft_weight_bytes": None, "worker": None, "workers": None}
    assert kept == [absent | row for row in (*alone.records, *prefill.records)]
    assert [row.worker for row in found.rows] == ["decode", "decode", "prefill"]
    assert found.to_dict()["case"]["split"]["decode"]["workers"] == 2
    (line,) = (line for line in str(found).splitlines() if line.startswith("- over all workers"))
    counts = [2 * row.largest_batch for row in (*alone.rows, *prefill.rows)]
    assert [int(word) for word in line.split()[-3:]] == counts
    assert "split" not in alone.to_dict()["case"]


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
    own = of_workers(predict, max_draft_len=3, engine="vllm", **WORKERS)
    assert (split.case, split.records) == (own.case, own.records)
    assert one.split is None
    (tmp_path / "study.yaml").write_text(yaml.safe_dump({**STUDY, "targets": TARGETS}))
    run(f"sweep {tmp_path}/study.yaml -o {tmp_path}/results --format parquet")
    # A sweep of other workers is another one.
    again = yaml.safe_dump({**STUDY, "targets": [TARGETS[0] | {"link": 1e9}, TARGETS[1]]})
    (tmp_path / "study.yaml").write_text(again)
    assert "split_sha256" in refused(f"sweep {tmp_path}/study.yaml -o {tmp_path}/results")
    first, second = found.overviews()
    assert (first.devices, second.devices) == (6, 2)
    # Prices are of all devices.
    usd = split.rows[1].usd_per_million_tokens
    assert first.usd_per_million_tokens[0, 1] == pytest.approx(usd)
    rows = list(found.frames())
    assert rows[0]["devices"].unique().tolist() == [6]
    assert "devices" not in rows[1]


def test_the_ideal_engine_counts_no_memory_of_prefill_workers() -> None:
    asked = {"engine": "ideal", "max_draft_len": 1, "link": 1e9}
    found = of_workers(predict, prefill="1x1@t4", decode="1x1", **asked)
    assert found.end_to_end[0].workers is not None
    endless = of_workers(predict, **WORKERS, **asked | {"link": math.inf})
    assert endless.case["split"]["link_bytes_per_s"] is None


def test_advice_names_what_a_server_refuses() -> None:
    spread: dict[str, Any] = {"prefill": "1x8", "decode": "1x8", "decode_context_parallel": 2}
    advice = advise("deepseek-ai/DeepSeek-R1", "h200", framework="vllm", **spread, **ASKED)
    assert advice.to_dict()["choice"]["workers"]["flags"] == {}
    assert any("NixlConnector" in warning for warning in advice.warnings)


def test_workers_of_a_framework_that_refuses_the_drafter_have_no_flags() -> None:
    asked = {"drafters": "medusa,accept-length=2.5@3", "concurrency": 8}
    (chip,) = of_workers(advise, prefill="1x1", decode="1x1", **asked).chips
    assert chip.rows[0].draft_len
    assert set(chip.engine_config.values()) == {None}
    assert chip.worker_launches == {}


def test_a_band_is_as_wide_as_errors_of_decoding_and_of_prompts_make_it() -> None:
    def of_three_drafts(tokens: float, **more: Any) -> Any:
        asked: dict[str, Any] = {
            "prefill": "1x2", "decode": "1x2", "engine": "vllm", "input_len": 8000,
            "output_len": 200, "concurrency": [1, 4, 8, 32, 128], "max_draft_len": 3,
        }  # fmt: skip
        drafter = f"eagle3,accept-length={tokens}@3"
        return predict("Qwen/Qwen3-32B", "h100", drafters=drafter, **asked | more).outcomes[0]

    found = of_three_drafts(2.8)
    low, high = (end[0, :, 3] for end in found.speedup_ends)
    decoding = found.decoding.speedup_low[0, :, 3] / found.decoding.speedup[0, :, 3]
    # Fewer tokens a round are a slower round by so much, and more of them a faster one.
    slower, faster = (
        of_three_drafts(min(2.8 * decoding[0] ** way, 4)).curve.speedup[0, :, 3] for way in (1, -1)
    )
    assert decoding == pytest.approx(decoding[0])
    assert np.all(low <= slower)
    assert np.all(faster <= high)
    # With next to no prompts it is the band of decoding; where they alone limit, nearly a point.
    short = of_three_drafts(2.8, input_len=8, output_len=4000, concurrency=[1])
    assert short.speedup_ends[0] == pytest.approx(short.decoding.speedup_low, rel=0.01, nan_ok=True)
    assert high[-1] / low[-1] < 1.05
    # A token after the first is as sure as decoding is, whatever the prompts take.
    tpot = found.figure_ends["tpot_s"]
    assert np.all(tpot[1][0, :, 3] / tpot[0][0, :, 3] > decoding**-2)
