"""Stages and nodes: seconds by hand and by playing the stages, memory, flags, refusals."""

import json
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from specroof import (
    ForwardPass,
    Options,
    Placement,
    advise,
    capacity,
    explain,
    frontier,
    load_drafter,
    load_hardware,
    load_model,
    predict,
    speedup_curve,
)
from specroof.architecture import Architecture, Block, GroupedQueryAttention, Layer, Linear
from specroof.architecture.base import TENSOR
from specroof.cli import app
from specroof.cost import storage
from specroof.errors import OptionError
from specroof.hardware import Band, Collective, EngineProfile, Interconnect, Reach
from specroof.latency import (
    Deployment,
    Setup,
    Work,
    check_placement,
    device_bytes,
    draft_placement,
    engine_setup,
    micro_batches,
    model_latency,
    model_work,
    pass_time,
    setup_notes,
)
from specroof.latency.pass_seconds import PassLatency, Pipeline, staged
from specroof.questions.advise import hosts_of
from specroof.serving.launch import (
    FIRST_HOST,
    Speculation,
    follows_load,
    launch,
    server_command,
)
from specroof.speedup.reach import evidence_engine
from strategies import device

#: Bytes/s inside a node and between nodes; seconds of the shortest message in and out of one.
LINK, FAR, SHORTEST, FURTHER, LATE = 1e9, 1e8, 2e-6, 1e-6, 2e-5
LINKS = Interconnect(link_bytes_per_s=LINK, max_devices=8, scale_out_bytes_per_s=FAR)
USED = Collective(latency_s=SHORTEST, device_latency_s=FURTHER, scale_out_latency_s=LATE)
ENGINE = EngineProfile(name="e", framework="vllm", collective=USED)

V3 = "deepseek-ai/DeepSeek-V3"
HEADS = GroupedQueryAttention(16, n_kv_heads=8, head_dim=64, value_dim=64)
UP = Linear("up_proj", 64, 256, shard=TENSOR)
TOY = Architecture(
    "toy",
    "llama",
    64,
    1000,
    (Layer((Block("attention", (), HEADS), Block("feed_forward", (UP,))), 6),),
    Linear("lm_head", 64, 1000, kind="head", shard=TENSOR),
)


def setup_of(placement: Placement, engine: EngineProfile = ENGINE) -> Setup:
    """Return a chip of which a byte takes a microsecond, and arithmetic no time."""
    return Setup(device({"bf16": 1e21}, 1e6, interconnect=LINKS), engine, placement, Options())


def pass_of(placement: Placement, forward: ForwardPass, engine: EngineProfile = ENGINE) -> Any:
    """Return the seconds of a pass of the toy model."""
    return model_latency(TOY, setup_of(placement, engine), forward)


# --- Nodes ---------------------------------------------------------------------------------------


@given(
    tensor=st.integers(1, 40),
    stages=st.integers(1, 6),
    most=st.integers(1, 72),
    nodes=st.none() | st.integers(1, 60),
)
def test_nodes_hold_whole_stages_or_are_filled_by_one(
    tensor: int, stages: int, most: int, nodes: int | None
) -> None:
    # Dealt out in order, each stage meets as many devices in every node that it touches.
    def holds(count: int) -> bool:
        if (tensor * stages) % count:
            return False
        each = tensor * stages // count
        node_of = [device // each for device in range(tensor * stages)]
        by_stage = [node_of[first : first + tensor] for first in range(0, len(node_of), tensor)]
        even = all(
            len({stage.count(node) for node in stage}) == 1
            and len(set(stage)) == -(-tensor // each)
            for stage in by_stage
        )
        return each <= most and even and (each % tensor == 0 or tensor % each == 0)

    allowed = [count for count in range(1, tensor * stages + 1) if holds(count)]
    if nodes is not None and nodes not in allowed:
        with pytest.raises(OptionError, match=rf"nodes is {nodes}; "):
            Placement(tensor, 1, 1, 1, stages, nodes).in_nodes(most)
    else:
        found = Placement(tensor, 1, 1, 1, stages, nodes).in_nodes(most)
        assert found.nodes == (nodes or allowed[0])


@pytest.mark.parametrize(
    ("chip", "placement", "nodes"),
    [
        ("h200", Placement(8), 1),
        ("h200", Placement(16), 2),
        ("h200", Placement(8, pipeline_parallel=4), 4),
        ("h200", Placement(4, nodes=2), 2),
        ("gb200", Placement(72), 1),
        ("gb200", Placement(72, pipeline_parallel=2), 2),
        ("gh200", Placement(2), 1),  # no link is known: one machine
    ],
)
def test_a_setup_knows_its_nodes(chip: str, placement: Placement, nodes: int) -> None:
    assert engine_setup(load_hardware(chip), None, placement, None).placement.nodes == nodes


def test_too_many_devices_are_refused() -> None:
    with pytest.raises(OptionError, match=r"pipeline_parallel is 3: .* allowed: 65536 devices$"):
        Placement(65536, pipeline_parallel=3)


@pytest.mark.parametrize("engine", ["vllm", "sglang", "ideal"])
@pytest.mark.parametrize("model", ["Qwen/Qwen3-32B-FP8", "deepseek-ai/DeepSeek-V3"])
def test_one_stage_in_one_node_is_what_it_was(engine: str, model: str) -> None:
    def curve(placement: Placement) -> Any:
        return speedup_curve(
            load_model(model), load_hardware("h200"), drafter=load_drafter("mtp,accept=0.8"),
            batch_size=[1, 7, 64], context_len=[0, 5000], max_draft_len=4, engine=engine,
            placement=placement,
        )  # fmt: skip

    plain, told = curve(Placement(8)), curve(Placement(8, pipeline_parallel=1, nodes=1))
    assert (plain.round_s == told.round_s).all()
    assert (plain.draft_s == told.draft_s).all()
    assert plain.band == told.band
    assert plain.notes == told.notes


def test_an_all_reduce_over_nodes_by_hand() -> None:
    # 3 tokens of 64 elements of two bytes, over two nodes of four: twice 3/4 inside, then a fourth
    # of it between two devices of different nodes; two blocks in each of six layers.
    forward = ForwardPass(batch_size=3, query_len=1, context_len=10)
    message = 3 * 64 * 2
    inside_s = SHORTEST + 3 * FURTHER + 3 / 4 * message / LINK
    between_s = LATE + message / 4 / FAR
    for placement in (Placement(8, nodes=2), Placement(8, nodes=2).in_nodes(8)):
        found = pass_of(placement, forward).communication_s
        assert float(found) == pytest.approx(12 * (2 * inside_s + between_s), rel=1e-9)


# --- Stages: seconds -----------------------------------------------------------------------------


def played(stage_s: list[float], micro_batches: int, hop_s: float, rounds: int = 60) -> float:
    """Return the time between rounds of one micro-batch, once stages take whoever comes first."""
    free = [0.0] * len(stage_s)
    ready = [0.0] * micro_batches
    ends: list[list[float]] = [[] for _ in range(micro_batches)]
    for _ in range(rounds * micro_batches):
        job = int(np.argmin(ready))
        now = ready[job]
        for stage, seconds in enumerate(stage_s):
            now = max(now, free[stage]) + seconds
            free[stage] = now
            now += hop_s
        ready[job] = now
        ends[job].append(now)
    last = ends[0]
    return (last[-1] - last[len(last) // 2]) / (len(last) - 1 - len(last) // 2)


@given(
    layer=st.floats(0.01, 1.0),
    head=st.floats(0.0, 1.0),
    stages=st.integers(2, 5),
    hop=st.floats(0.0, 0.5),
    data=st.data(),
)
def test_a_step_takes_what_playing_the_stages_takes(
    layer: float, head: float, stages: int, hop: float, data: st.DataObject
) -> None:
    micro = data.draw(st.integers(1, stages))
    seconds = [layer] * (stages - 1) + [layer + head]
    # What moves between stages is part of theirs.
    work = np.array(stages * (layer + hop))
    latency = PassLatency((), work, np.zeros(()), np.array(head))
    engine = EngineProfile(name="e", pass_overhead_s=head)
    found = staged(latency, Pipeline(1 / stages, micro, fills=False), engine).total_s
    expected = played([one + hop for one in seconds], micro, 0.0)
    assert float(found) == pytest.approx(expected, rel=1e-6)


def test_prompts_fill_the_pipeline_and_leave_it() -> None:
    # Four chunks through three stages of 2, the last of which has 1 more: 7, then 3 for each.
    latency = PassLatency((), np.array(6.0), np.zeros(()), np.array(1.0))
    engine = EngineProfile(name="e", pass_overhead_s=1.0)
    found = staged(latency, Pipeline(1 / 3, 4, fills=True), engine)
    assert float(found.total_s) == 7 + 3 * 3
    # 1200 tokens in three chunks, each of which has 400 before it on average; 2 tokens in two.
    setup = setup_of(Placement(1, pipeline_parallel=3))
    for tokens, chunks in ((1200, 3), (2, 2), (1, 1)):
        prompt = ForwardPass(1, tokens, 0, head_len=1, settled=True)
        work = model_work(TOY, setup, prompt)
        assert work.pipeline is not None
        assert float(np.asarray(work.pipeline.micro_batches)) == chunks
        assert work.pipeline.fills
        piece = ForwardPass(1, tokens / chunks, (tokens - tokens / chunks) / 2, 1, settled=True)
        alone = pass_of(Placement(1), piece)
        staged_pass = pass_of(Placement(1, pipeline_parallel=3), prompt)
        assert float(staged_pass.work_s) == pytest.approx(float(alone.work_s), rel=1e-12)


@pytest.mark.parametrize(
    ("model", "hidden"),
    [
        ("meta-llama/Llama-3.1-70B", 8192),
        ("Qwen/Qwen3-8B", 4096),
        ("deepseek-ai/DeepSeek-V3", 7168),
    ],
)
def test_bytes_between_stages_by_hand(model: str, hidden: int) -> None:
    # 32 sequences of 4 positions in 4 micro-batches: hidden states and residual, two bytes each.
    forward = ForwardPass(batch_size=32, query_len=4, context_len=1000)
    work = model_work(load_model(model), setup_of(Placement(2, pipeline_parallel=4)), forward)
    (hops,) = (one for one in work.exchanges if one.collective.block == "stage")
    assert float(hops.collective.message_bytes) == 32 / 4 * 4 * hidden * 2 * 2


def test_hops_inside_a_node_and_out_of_it_by_hand() -> None:
    # One sequence of one position: 64 elements, two tensors of two bytes, in halves to each device,
    # which then gather; and a token back.
    forward = ForwardPass(batch_size=1, query_len=1, context_len=10)
    message = 64 * 2 * 2
    gather_s = SHORTEST + FURTHER + message / 2 / LINK
    near_s = SHORTEST + FURTHER + message / 2 / LINK
    far_s = LATE + message / 2 / FAR
    layers_s = 12 * (SHORTEST + FURTHER + 64 * 2 / LINK)
    for nodes, hops_s in (
        (1, 3 * near_s + (SHORTEST + FURTHER)),
        (2, 2 * near_s + far_s + LATE),
        (4, 3 * far_s + LATE),
    ):
        place = Placement(2, pipeline_parallel=4, nodes=nodes)
        found = float(pass_of(place, forward).communication_s)
        assert found == pytest.approx(layers_s + hops_s + 3 * gather_s, rel=1e-9)
    # Devices that are stages of their own gather nothing; an ideal engine sends for free.
    alone = pass_of(Placement(1, pipeline_parallel=2), forward)
    expected_s = SHORTEST + FURTHER + message / LINK + SHORTEST + FURTHER
    assert float(alone.communication_s) == pytest.approx(expected_s, rel=1e-9)
    ideal = pass_of(Placement(2, pipeline_parallel=2), forward, EngineProfile(name="ideal"))
    assert float(ideal.communication_s) == 0


def test_a_sequence_alone_takes_all_stages_one_after_another() -> None:
    forward = ForwardPass(batch_size=1, query_len=1, context_len=1000)
    whole, parts = (pass_of(Placement(1, pipeline_parallel=n), forward) for n in (1, 3))
    assert float(parts.work_s) == float(whole.work_s)
    assert float(parts.waiting_s) == 0
    assert float(parts.total_s) > float(whole.total_s)  # what moves between stages
    # The sum of stages: two of a third of the layers, and the last with the head.
    last = float(parts.stage_s)
    head = float(sum(op.seconds for op in parts.ops if op.op.kind == "head"))
    assert 2 * (last - head) + last == pytest.approx(float(parts.total_s), rel=1e-12)


def test_sequences_come_in_as_many_micro_batches_as_there_are_stages() -> None:
    assert micro_batches([1, 2, 3, 100], Placement(pipeline_parallel=3)).tolist() == [1, 2, 3, 3]
    grouped = Placement(4, 1, 4, pipeline_parallel=3)
    assert micro_batches([4, 8, 12], grouped).tolist() == [1, 2, 3]
    # 12 sequences in 3: each as a pass of 4, and the last stage is what all wait for.
    three, one = Placement(1, pipeline_parallel=3), Placement(1)
    many = pass_of(three, ForwardPass(12, 1, 1000))
    alone = pass_of(one, ForwardPass(4, 1, 1000))
    assert float(many.work_s) == float(alone.work_s)
    assert float(many.total_s) == pytest.approx(3 * float(many.stage_s))


@pytest.mark.parametrize("stages", [2, 4, 8])
@pytest.mark.parametrize("requests", [1, 2, 8, 64])
@pytest.mark.parametrize("more", [0.02, 0.2])
def test_sequences_that_stay_where_their_prompts_ended_take_about_as_long(
    stages: int, requests: int, more: float
) -> None:
    # A stage takes 1 and `more` for each sequence, the last one the head besides.
    rng, head, trials = np.random.default_rng(28), 0.3, 30
    steps = []
    for _ in range(trials):
        sizes = np.bincount(rng.integers(0, stages, requests), minlength=stages)
        sizes = sizes[sizes > 0]
        free, ready, ends = [0.0] * stages, [0.0] * len(sizes), np.zeros((len(sizes), 60))
        for turn in range(60 * len(sizes)):
            job = turn % len(sizes)
            for stage in range(stages):
                seconds = 1 + more * sizes[job] + head * (stage == stages - 1)
                free[stage] = ready[job] = max(ready[job], free[stage]) + seconds
            ends[job, turn // len(sizes)] = ready[job]
        steps.append(requests / (sizes * 29 / (ends[:, -1] - ends[:, 30])).sum())
    count = float(micro_batches(requests, Placement(pipeline_parallel=stages)))
    each_s = 1 + more * requests / count
    step_s = max(stages * each_s + head, count * (each_s + head))
    assert step_s == pytest.approx(np.mean(steps), rel=0.25)


def test_a_mixed_pass_is_cut_by_sequences_and_by_tokens() -> None:
    model, chip = load_model("Qwen/Qwen3-8B"), load_hardware("h100")
    prices = []
    for place in (Placement(1), Placement(1, pipeline_parallel=2)):
        served = Deployment(model, engine_setup(chip, "vllm", place, None))
        decode = ForwardPass(16, 1, 1000)
        prompt = Work(model, ForwardPass(1, 2048, 0, head_len=1, settled=True), kind="prompts")
        work = model_work(model, served.setup, decode, beside=[prompt])
        prices.append(pass_time(work, served.setup.engine))
    whole, staged_pass = prices
    # Half of the sequences and half of the tokens at a time: less than all of both.
    assert 0.4 < float(staged_pass.work_s / whole.work_s) < 0.8
    assert not float(staged_pass.total_s) > 2.1 * float(whole.total_s)


def test_a_round_of_a_pipeline_drafts_in_its_last_stage() -> None:
    # Playing it: a micro-batch passes 4 stages, then drafts where the last one is.
    model, chip = load_model("Qwen/Qwen3-8B"), load_hardware("h100")
    setup = engine_setup(chip, "ideal", Placement(1, pipeline_parallel=4), None)
    curve = speedup_curve(
        model, chip, drafter=load_drafter("eagle3,accept=0.8"), batch_size=[1, 2, 64],
        context_len=1000, max_draft_len=3, engine="ideal", placement=setup.placement,
    )  # fmt: skip
    for column, (batch, micro) in enumerate(((1, 1), (2, 2), (64, 4))):
        latency = model_latency(model, setup, ForwardPass(batch, 4, 1000))
        layers_s = float(latency.stage_s)
        head_s = float(sum(op.seconds for op in latency.ops if op.op.kind == "head"))
        draft_s = float(curve.draft_s[0, column, 3])
        stages = [layers_s - head_s] * 3 + [layers_s + draft_s]
        expected = played(stages, micro, 0.0)
        assert float(curve.round_s[0, column, 3]) == pytest.approx(expected, rel=1e-3)
    # Many requests keep the last stage busy with drafts, so that they gain less than on one device.
    one = speedup_curve(
        model, chip, drafter=load_drafter("eagle3,accept=0.8"), batch_size=16, context_len=1000,
        max_draft_len=3, engine="ideal",
    )  # fmt: skip
    assert curve.speedup[0, 2, 3] < one.speedup[0, 0, 3]


def test_a_drafter_has_one_stage() -> None:
    setup = setup_of(Placement(2, pipeline_parallel=4, nodes=2))
    assert draft_placement(TOY, setup) == Placement(2)


# --- Stages: memory ------------------------------------------------------------------------------


def test_memory_of_the_last_stage_by_hand() -> None:
    # 6 layers in 4 stages: 2 of them, and the head; of 10 tokens 2 layers of 8 * 2 * 64 elements.
    layer, head, cache = 64 * 256 * 2, 64 * 1000 * 2, 10 * 8 * 2 * 64 * 2
    place = Placement(2, pipeline_parallel=4)
    found = float(device_bytes(storage(TOY, 10), place, 3))
    assert found == pytest.approx((2 * layer + head + 3 * 2 * cache) / 2)
    # A table that is the head is at both ends.
    tied = replace(TOY, tied_embeddings=True)
    assert float(device_bytes(storage(tied, 0), place, 0)) == pytest.approx((2 * layer + head) / 2)


def test_stages_hold_more_requests_and_less_of_each() -> None:
    def largest(**place: Any) -> float:
        found = capacity(
            "deepseek-ai/DeepSeek-V3", "h200", context_len=8192, engine="vllm",
            drafters=["mtp"], **place,
        )  # fmt: skip
        return float(found.sides[0].largest_batch)

    one, two = largest(tensor_parallel=8), largest(tensor_parallel=8, pipeline_parallel=2)
    assert two > 2 * one  # weights leave more room, and each device has 31 of 61 layers


@pytest.mark.parametrize(("devices", "each"), [(8, 32), (64, 4), (72, 4), (48, 6), (255, 2)])
def test_experts_that_do_not_divide_take_the_memory_of_the_fullest_device(
    devices: int, each: int
) -> None:
    # Of 256 experts in 58 layers: three projections of 7168 by 2048 in fp8, with a scale of four
    # bytes for each block of 128 by 128.
    one_expert = 58 * 3 * 7168 * 2048 * (1 + 4 / 128**2)
    parts = storage(load_model("deepseek-ai/DeepSeek-V3"), 0)
    place = Placement(devices, devices, devices)
    dealt, divided = (
        float(device_bytes(parts, where, 0)) for where in (place, replace(place, expert_parallel=1))
    )
    assert dealt - divided == pytest.approx(one_expert * (each - 256 / devices), abs=1e-3)
    assert any(f"each holds {each}" in note for note in notes_of(V3, "gb200", place)) == bool(
        256 % devices
    )


def test_servers_of_sglang_overlap_nothing_in_a_pipeline() -> None:
    words: dict[str, Any] = {"drafters": "ideal", "batch_size": 8, "engine": "sglang"}
    one = predict("Qwen/Qwen3-8B", "h100", **words)
    two = predict("Qwen/Qwen3-8B", "h100", **words, pipeline_parallel=2)
    assert one.setup.server is not None
    assert two.setup.server is not None
    assert (one.setup.server.overlap, two.setup.server.overlap) == (True, False)
    assert (one.setup.engine.overlap, two.setup.engine.overlap) == (True, False)


@pytest.mark.parametrize("stages", [4, 36])
def test_a_client_alone_gains_nothing_from_stages(stages: int) -> None:
    """A token passes one stage after another, and the links between them besides."""
    words: dict[str, Any] = {"input_len": 1000, "output_len": 200, "concurrency": 1}
    one, staged = (
        predict(
            "Qwen/Qwen3-8B", "h100", drafters="ideal", engine="vllm", pipeline_parallel=n, **words
        )
        for n in (1, stages)
    )
    waits = [
        answer.to_dict()["drafters"][0]["end_to_end"]["tpot_s"][0][0] for answer in (one, staged)
    ]
    assert all(1 <= more / plain < 1.3 for plain, more in zip(*waits, strict=True))


# --- What is said, and how sure ------------------------------------------------------------------


def test_bands_are_wider_where_nothing_was_measured() -> None:
    chip, model = load_hardware("l40s"), load_model("Qwen/Qwen3-8B")
    near, far, staged_setup, both = (
        evidence_engine(Deployment(model, engine_setup(chip, "vllm", place, None)))
        for place in (
            Placement(8),
            Placement(16),
            Placement(4, pipeline_parallel=2),
            Placement(8, pipeline_parallel=2),
        )
    )
    widths = [engine.band("eagle3").width for engine in (near, far, staged_setup, both)]  # type: ignore[union-attr]
    assert widths == sorted(set(widths))
    assert widths[2] == pytest.approx(np.hypot(widths[0], 0.5))
    times = [engine.served_bands["tpot_s"] for engine in (near, far)]
    assert all(
        far.width > near.width for near, far in zip(*(b.values() for b in times), strict=True)
    )
    # A profile that was fitted to such placements knows how sure it is.
    band = Band(width=0.1, mean_error=0.1, points=9)
    measured = EngineProfile(name="e", bands={"other": band}, reach=Reach(placements=("pp",)))
    assert measured.spread_as(("tp", "pp")).bands["other"].width == pytest.approx(0.1)


def test_reach_names_stages_and_nodes() -> None:
    found = predict(
        "Qwen/Qwen3-8B", "h200", drafters="eagle3,accept=0.7", engine="vllm",
        tensor_parallel=8, pipeline_parallel=2,
    ).to_dict()  # fmt: skip
    assert found["reach"]["placement"] == "none"
    assert "none with pp, nodes" in found["reach"]["text"]
    assert found["placement"] == {
        "tensor_parallel": 8,
        "expert_parallel": 1,
        "attention_data_parallel": 1,
        "decode_context_parallel": 1,
        "pipeline_parallel": 2,
        "nodes": 2,
    }


def notes_of(model: str, chip: str, placement: Placement, engine: str = "vllm") -> list[str]:
    """Return what is said of a placement."""
    setup = engine_setup(load_hardware(chip), engine, placement, None)
    return [*setup_notes(load_model(model), setup)]


def test_notes_name_nodes_stages_and_redundant_experts() -> None:
    assert notes_of(V3, "h200", Placement(8)) == []
    nodes, wider = notes_of(V3, "h200", Placement(16))
    assert nodes.startswith("16 devices are 2 nodes of 8, each device with 50.0 GB/s")
    assert "bands are wider" in wider
    stages, wider = notes_of(V3, "gb200", Placement(8, pipeline_parallel=2))
    assert "bands are wider" in wider
    assert "2 stages of at most 31 of 61 layers" in stages
    (spare,) = notes_of(V3, "gb200", Placement(72, 72, 72))
    assert "32 redundant" in spare
    unknown, _ = notes_of("meta-llama/Llama-3.1-70B", "l40s", Placement(16), "generic")
    assert "not known" in unknown
    (ideal,) = notes_of("meta-llama/Llama-3.1-70B", "l40s", Placement(16), "ideal")
    assert ideal == "16 devices are 2 nodes of 8"


# --- Flags ---------------------------------------------------------------------------------------


def test_servers_of_stages_and_hosts_are_told_in_their_own_words() -> None:
    place = Placement(8, pipeline_parallel=2, nodes=2)
    told = {
        name: shlex.split(server_command(name, "me/model", place, hosts=2))
        for name in ("vllm", "sglang", "tensorrt-llm")
    }

    def value(framework: str, flag: str) -> str:
        return told[framework][told[framework].index(flag) + 1]

    # vllm 0.33.0 engine/arg_utils.py; sglang 0.5.23 arg_groups/fields/parallel.py
    assert value("vllm", "--tensor-parallel-size") == "8"
    assert value("vllm", "--pipeline-parallel-size") == "2"
    assert (value("vllm", "--nnodes"), value("vllm", "--node-rank")) == ("2", "0")
    assert value("vllm", "--master-addr") == FIRST_HOST
    assert (value("sglang", "--tp-size"), value("sglang", "--pp-size")) == ("8", "2")
    assert (value("sglang", "--nnodes"), value("sglang", "--node-rank")) == ("2", "0")
    assert value("sglang", "--dist-init-addr") == f"{FIRST_HOST}:5000"
    assert value("tensorrt-llm", "--pp_size") == "2"
    assert value("tensorrt-llm", "--gpus_per_node") == "8"
    grouped = server_command("vllm", "me/model", Placement(8, 1, 4, pipeline_parallel=2))
    assert "--tensor-parallel-size 2 --pipeline-parallel-size 2" in grouped


@pytest.mark.parametrize(
    ("chip", "placement", "hosts"),
    [
        ("h200", Placement(16), 2),
        ("h200", Placement(4), 1),
        ("gb200", Placement(8), 2),  # four devices in each tray of the domain
        ("gb200", Placement(72, pipeline_parallel=2), 36),
        ("gh200", Placement(2), 1),
    ],
)
def test_hosts_of_a_placement(chip: str, placement: Placement, hosts: int) -> None:
    assert hosts_of(engine_setup(load_hardware(chip), None, placement, None)) == hosts


def plan(kind: str, family: str = "llama", **more: Any) -> Speculation:
    """Return a plan of three drafts for a server of two stages."""
    words = {"schedule": ((1, 64, 3),), "pipeline_parallel": 2, "draft_model": "me/head"}
    return Speculation(kind=kind, family=family, **{**words, **more})


def test_drafters_that_read_features_need_stages_that_pass_them_on() -> None:
    for family in ("llama", "qwen3", "kimi_linear", "minimax_m3_vl_text", ""):
        assert "eagle3" in launch(plan("eagle3", family), "vllm").text
    for kind in ("eagle3", "p_eagle", "dflash", "dspark"):
        with pytest.raises(OptionError, match=r"no .* for qwen3_5 in a pipeline.*; allowed: "):
            launch(plan(kind, "qwen3_5"), "vllm")
    assert "mtp" in launch(plan("mtp", "qwen3_5", draft_model=None), "vllm").text
    assert "eagle3" in launch(plan("eagle3", "qwen3_5", pipeline_parallel=1), "vllm").text


def test_sglang_drafts_in_a_pipeline_with_few_algorithms_and_a_variable() -> None:
    for kind in ("mtp", "eagle"):
        flags = launch(plan(kind), "sglang")
        assert flags.environment == "SGLANG_ENABLE_PP_SPEC=1"
        assert any(flags.environment in note for note in flags.notes)
    for kind in ("eagle3", "dflash", "dspark", "ngram", "model"):
        with pytest.raises(OptionError, match=r"in a pipeline; allowed: mtp and eagle"):
            launch(plan(kind), "sglang")
    with pytest.raises(OptionError, match="with data-parallel attention; allowed: one of the two"):
        launch(plan("mtp", data_parallel=2), "sglang")
    assert launch(plan("eagle", pipeline_parallel=1), "sglang").environment == ""


def test_sglang_changes_no_length_in_a_pipeline() -> None:
    assert follows_load("eagle", "sglang")
    assert not follows_load("eagle", "sglang", pipeline_parallel=2)
    assert follows_load("eagle", "vllm", pipeline_parallel=2)
    flags = launch(plan("eagle", schedule=((1, 8, 3), (9, 64, 1))), "sglang")
    assert "adaptive" not in flags.text
    assert any("in a pipeline with the load" in note for note in flags.notes)
    assert any("was not read" in note for note in launch(plan("eagle3"), "tensorrt-llm").notes)


def test_advice_in_stages_over_nodes_is_a_command_to_paste() -> None:
    words: dict[str, Any] = {
        "drafters": "mtp,accept=0.8", "input_len": 1000, "output_len": 500, "concurrency": [4, 16],
        "tensor_parallel": 8, "pipeline_parallel": 2,
    }  # fmt: skip
    found = advise("deepseek-ai/DeepSeek-V3", "h200", framework="sglang", **words)
    text = str(found)
    assert "SGLANG_ENABLE_PP_SPEC=1 python -m sglang.launch_server" in text
    assert "--pp-size 2 --nnodes 2" in " ".join(text.replace("\\\n", " ").split())
    assert any("--node-rank, from 1" in warning for warning in found.warnings)
    assert found.chips[0].to_measure is None or found.chips[0].to_measure.command is None


# --- Every question ------------------------------------------------------------------------------

PLACE = "--tp 2 --pp 2 --nodes 2"
SPREAD = "deepseek-ai/DeepSeek-V3 -H h200 --tp 16 --dcp 4 --ep 16"
MODEL = "Qwen/Qwen3-32B-FP8 -H h100"
DRAFTER = "--drafter eagle3,accept-length=2.8@3"


@pytest.mark.parametrize(
    "words",
    [
        f"predict {MODEL} {PLACE} {DRAFTER} --batch 1,8 --max-draft-len 3",
        f"predict {MODEL} {PLACE} {DRAFTER} --input-len 500 --output-len 100 --concurrency 8",
        f"explain {MODEL} {PLACE} --batch 8",
        f"capacity {MODEL} {PLACE} --context 4096",
        f"frontier {MODEL} {PLACE} {DRAFTER} --context 2000 --max-draft-len 3",
        f"breakeven {MODEL} {PLACE} --drafter eagle3 --solve accept --draft-len 3",
        f"advise {MODEL} {PLACE} {DRAFTER} --input-len 500 --output-len 100 --concurrency 8",
    ],
)
def test_every_question_takes_a_placement(words: str) -> None:
    run = CliRunner().invoke(app, [*words.split(), "--json"])
    assert run.exit_code == 0, run.stderr
    answer = json.loads(run.stdout.splitlines()[-1])
    placement = answer.get("placement")
    if placement is not None:
        assert (placement["pipeline_parallel"], placement["nodes"]) == (2, 2)
    assert any("2 stages of at most 32 of 64 layers" in note for note in answer["notes"])


@pytest.mark.parametrize(
    "words",
    [
        f"predict {SPREAD} --drafter mtp,accept=0.8 --batch 1,8 --max-draft-len 3",
        f"explain {SPREAD} --drafter mtp,accept=0.8 --batch 8",
        f"capacity {SPREAD} --drafter mtp",
        f"frontier {SPREAD} --drafter mtp,accept=0.8 --batch 1,8 --max-draft-len 3",
        f"advise {SPREAD} --drafter mtp,accept=0.8 --isl 500 --osl 100 --concurrency 8",
    ],
)
def test_every_question_spreads_context_and_experts(words: str) -> None:
    run = CliRunner().invoke(app, [*words.split(), "--json"])
    assert run.exit_code == 0, run.stderr
    answer = json.loads(run.stdout.splitlines()[-1])
    placement = answer.get("placement", {"decode_context_parallel": 4, "expert_parallel": 16})
    assert (placement["decode_context_parallel"], placement["expert_parallel"]) == (4, 16)
    assert any("2 nodes of 8" in note for note in answer["notes"])


def test_devices_of_a_frontier_are_those_of_all_stages() -> None:
    words: dict[str, Any] = {"drafters": "ideal", "batch_size": [1, 8], "max_draft_len": 1}
    found = frontier("Qwen/Qwen3-8B", "h100", **words, pipeline_parallel=2, devices=[2, 4])
    assert {point.devices for series in found.series for point in series.points} <= {2, 4}
    assert any("2 stages" in note for note in found.notes)
    with pytest.raises(OptionError, match=r"devices is 3; allowed: multiples of pipeline_parallel"):
        frontier("Qwen/Qwen3-8B", "h100", **words, pipeline_parallel=2, devices=[3])


def test_a_round_in_stages_is_explained_to_the_last_second() -> None:
    found = explain(
        "Qwen/Qwen3-32B-FP8", "h100", drafter="eagle3,accept-length=2.8@3", draft_len=3,
        batch_size=32, tensor_parallel=2, pipeline_parallel=4,
    )  # fmt: skip
    assert found.round is not None
    parts = found.round
    assert sum(parts.decode_parts_s.values()) == pytest.approx(parts.decode_s)
    assert parts.decode_s + sum(parts.added_s.values()) == pytest.approx(parts.round_s)
    assert parts.decode_parts_s["other micro-batches"] > 0
    rows = explain(
        "Qwen/Qwen3-32B-FP8", "h100", batch_size=32, tensor_parallel=2, pipeline_parallel=4
    ).records
    assert rows[-1]["op"] == "pipeline"
    assert sum(row["share"] for row in rows) == pytest.approx(1)


def test_studies_take_a_placement(tmp_path: Path) -> None:
    study = tmp_path / "study.yaml"
    study.write_text(
        "format_version: 1\n"
        "targets: [{model: Qwen/Qwen3-32B-FP8, hardware: h100, tensor_parallel: 2,"
        " pipeline_parallel: 2, nodes: 2}]\n"
        "drafters: ['eagle3,accept-length=2.8@3']\nbatch_size: [1, 8]\nmax_draft_len: 3\n"
    )
    run = CliRunner().invoke(
        app, ["sweep", str(study), "-o", str(tmp_path / "out"), "--format", "jsonl", "--quiet"]
    )
    assert run.exit_code == 0, run.stderr
    rows = next(iter(sorted((tmp_path / "out").glob("**/*.jsonl"))))
    first = json.loads(rows.read_text().splitlines()[0])
    assert (first["pipeline_parallel"], first["nodes"]) == (2, 2)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (f"predict {MODEL} --pp 65 --drafter ideal", "--pp is 65, and"),
        (f"predict {MODEL} --tp 8 --nodes 3 --drafter ideal", "--nodes is 3; must divide the 8"),
        (f"capacity {MODEL} --tp 16 --nodes 1", "16 in stages of 16 divide over 2, 4, 8, 16 nodes"),
        (
            "predict meta-llama/Llama-3.1-70B -H l40s --tp 16 --drafter ideal",
            "interconnect.scale_out_bytes_per_s, between nodes, is not given",
        ),
        (
            f"predict {MODEL} --tp 2 --pp 2 --drafter eagle3,accept=0.7,tp=4",
            "tp= of the drafter is 4, and it runs on the last stage; allowed: up to the 2 devices",
        ),
        (
            f"adaptive {MODEL} --pp 2 --drafter eagle3,accept=0.7 --context 1000 --batch 4",
            "allowed: 1: rounds in stages are no sum",
        ),
    ],
)
def test_the_shell_refuses_in_one_line(words: str, said: str) -> None:
    run = CliRunner().invoke(app, words.split())
    assert run.exit_code == 2
    assert len(run.stderr.splitlines()) == 1
    assert said in run.stderr


def test_layers_that_stages_do_not_divide_are_dealt_out_as_engines_do() -> None:
    check_placement(load_model("deepseek-ai/DeepSeek-V3"), Placement(8, pipeline_parallel=2))
    with pytest.raises(OptionError, match=r"pipeline_parallel is 7, and toy has 6 layers"):
        check_placement(TOY, Placement(1, pipeline_parallel=7))


def test_experts_reach_farther_over_two_nodes() -> None:
    # Behind data-parallel attention tokens go to experts of all devices: half of them are in
    # another node then, whose links are slower.
    spread: dict[str, Any] = dict.fromkeys(
        ("tensor_parallel", "expert_parallel", "attention_data_parallel"), 8
    )
    near, far = (
        predict(
            "deepseek-ai/DeepSeek-V3", "h200", drafters="ideal", engine="sglang", batch_size=[64],
            nodes=nodes, **spread,
        ).curves[0].decode_s[0, 0]
        for nodes in (1, 2)
    )  # fmt: skip
    assert near < far < 1.5 * near
