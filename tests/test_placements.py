"""Stages and nodes: seconds by hand and by playing the stages, memory, flags, refusals."""

import shlex
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from specroof import (
    ForwardPass,
    Options,
    Placement,
    load_drafter,
    load_hardware,
    load_model,
    speedup_curve,
)
from specroof.architecture.attention import GroupedQueryAttention
from specroof.architecture.base import TENSOR, Linear
from specroof.architecture.model import Architecture, Block, Layer
from specroof.cost import storage
from specroof.errors import OptionError
from specroof.frameworks import release
from specroof.hardware.engine import Collective, EngineProfile
from specroof.hardware.profile import Interconnect
from specroof.latency.model import Work, micro_batches, model_latency, model_work, setup_notes
from specroof.latency.pass_seconds import PassLatency, Pipeline, pass_time, staged
from specroof.latency.setup import (
    Deployment,
    Setup,
    check_placement,
    device_bytes,
    draft_placement,
    engine_setup,
)
from specroof.questions.advise import hosts_of
from specroof.serving.capacity import expect_spreads
from specroof.serving.launch import Speculation, launch, server_command
from specroof.serving.prefills import piece_pass, request_s
from specroof.serving.workload import prefill_pass
from strategies import device
from tables import present, rows

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
    return model_latency(TOY, setup_of(placement, engine), forward)


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


@pytest.mark.parametrize(("chip", "placement", "nodes", "hosts"), rows("values", "nodes_and_hosts"))
def test_a_setup_knows_its_nodes_and_hosts(
    chip: str, placement: dict[str, int], nodes: int, hosts: int
) -> None:
    setup = engine_setup(load_hardware(chip), None, Placement(**placement), None)
    assert (setup.placement.nodes, hosts_of(setup)) == (nodes, hosts)


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
    latency = PassLatency((), work, np.zeros(()), {"each pass": np.array(head)})
    engine = EngineProfile(name="e", pass_overhead_s=head)
    found = staged(latency, Pipeline(1 / stages, micro, fills=False), engine).total_s
    expected = played([one + hop for one in seconds], micro, 0.0)
    assert float(found) == pytest.approx(expected, rel=1e-6)


def test_prompts_fill_the_pipeline_and_leave_it() -> None:
    # Four chunks through three stages of 2, the last of which has 1 more: 7, then 3 for each.
    latency = PassLatency((), np.array(6.0), np.zeros(()), {"each pass": np.array(1.0)})
    engine = EngineProfile(name="e", pass_overhead_s=1.0)
    found = staged(latency, Pipeline(1 / 3, 4, fills=True), engine)
    assert float(found.total_s) == 7 + 3 * 3
    assert float(found.filling_s) == 7 - 3  # others kept it full
    # A pass of prompts goes through all stages whole (vllm v1/core/sched/scheduler.py: it has the
    # budget's tokens, whatever the stages), and the next one enters when the first stage is free.
    prompt = ForwardPass(1, 1200, 0, head_len=1, settled=True)
    staged_pass = pass_of(Placement(1, pipeline_parallel=3), prompt)
    assert float(staged_pass.work_s) == pytest.approx(float(pass_of(Placement(1), prompt).work_s))
    stage_s = float(staged_pass.total_s - staged_pass.filling_s)
    assert stage_s == pytest.approx(float(staged_pass.stage_s))
    assert pass_of(Placement(1), prompt).filling_s == 0
    # Of four chunks of a prompt the last enters when three have left the first stage.
    served = Deployment(TOY, setup_of(Placement(1, pipeline_parallel=3)))
    alone = prefill_pass(4800)
    piece = pass_of(Placement(1, pipeline_parallel=3), piece_pass(4800, 0, 4, 1))
    first_s, last_s = float(piece.stage_s), float(piece.total_s)
    assert float(request_s(served, alone, 1200)) == pytest.approx(last_s + 3 * first_s)


@pytest.mark.parametrize(("model", "hidden"), rows("values", "stage_bytes"))
def test_bytes_between_stages_by_hand(model: str, hidden: int) -> None:
    # 32 sequences of 4 positions in 4 micro-batches: hidden states and residual, two bytes each.
    forward = ForwardPass(batch_size=32, query_len=4, context_len=1000)
    work = model_work(load_model(model), setup_of(Placement(2, pipeline_parallel=4)), forward)
    (hops,) = (one for one in work.exchanges if one.collective.block == "stage")
    assert float(hops.collective.message_bytes) == 32 / 4 * 4 * hidden * 2 * 2
    # Prompts fill all stages: two sequences beside them are half a sequence in each, and a chunk of
    # 2048 tokens is a fourth of it.
    chunk, pair = prefill_pass(2048), ForwardPass(batch_size=2, query_len=4, context_len=1000)
    beside = [Work(load_model(model), chunk, kind="prompts")]
    setup = setup_of(Placement(2, pipeline_parallel=4))
    mixed = model_work(load_model(model), setup, pair, beside=beside)
    (hops,) = (one for one in mixed.exchanges if one.collective.block == "stage")
    assert float(hops.collective.message_bytes) == (2 / 4 * 4 + 2048 / 4) * hidden * 2 * 2
    piece = replace(chunk, query_len=chunk.query_len / 4, matmul_len=chunk.query_len / 4)
    piece = replace(piece, context_len=chunk.context_len + 768)
    parts, half = (
        [replace(beside[0], forward_pass=piece)],
        replace(pair, batch_size=pair.batch_size / 4),
    )
    alone = model_work(load_model(model), setup_of(Placement(2)), half, beside=parts)
    done, expected = (sum(np.sum(op.flops) for op in work.ops) for work in (mixed, alone))
    assert done == pytest.approx(expected)


def test_a_stage_has_its_share_of_the_steps_beside_a_pass_and_whole_layers() -> None:
    all_of_it, fourth = (ForwardPass(batch, 1, 100) for batch in (8, 2))
    staged_work, alone = (
        model_work(TOY, setup_of(where), one, beside=[Work(TOY, one, kind="steps")])
        for where, one in ((Placement(2, pipeline_parallel=4), all_of_it), (Placement(2), fourth))
    )
    done, expected = (sum(np.sum(op.flops) for op in work.ops) for work in (staged_work, alone))
    assert done == pytest.approx(expected)
    assert present(staged_work.pipeline).stage_frac == 2 / 6


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
    # Stages of four devices over two nodes: all-reduces as of nodes, and half is gathered there.
    wide_s = SHORTEST + FURTHER + 64 * 2 / 2 / LINK
    between_s = LATE + 64 * 2 / 2 / FAR
    gather_s = SHORTEST + 3 * FURTHER + message / 2 / FAR
    wide = pass_of(Placement(4, pipeline_parallel=2, nodes=4), forward)
    expected_s = 12 * (2 * wide_s + between_s) + LATE + message / 4 / FAR + LATE + gather_s
    assert float(wide.communication_s) == pytest.approx(expected_s, rel=1e-9)
    # Devices that are stages of their own gather nothing; an ideal engine sends for free.
    alone = pass_of(Placement(1, pipeline_parallel=2), forward)
    expected_s = SHORTEST + FURTHER + message / LINK + SHORTEST + FURTHER
    assert float(alone.communication_s) == pytest.approx(expected_s, rel=1e-9)
    ideal = pass_of(Placement(2, pipeline_parallel=2), forward, EngineProfile(name="ideal"))
    assert float(ideal.communication_s) == 0


def test_sequences_come_in_as_many_micro_batches_as_there_are_stages() -> None:
    stages = setup_of(Placement(pipeline_parallel=3))
    assert micro_batches([1, 2, 3, 100], stages).tolist() == [1, 2, 3, 3]
    grouped = setup_of(Placement(4, 1, 4, pipeline_parallel=3))
    assert micro_batches([4, 8, 12], grouped).tolist() == [1, 2, 3]
    # 12 sequences in 3: each as a pass of 4.
    many = pass_of(Placement(1, pipeline_parallel=3), ForwardPass(12, 1, 1000))
    assert float(many.work_s) == float(pass_of(Placement(1), ForwardPass(4, 1, 1000)).work_s)


TURNS = replace(ENGINE, framework="llama.cpp")


@given(batch=st.integers(1, 600), positions=st.integers(1, 9), stages=st.sampled_from([2, 3, 6]))
def test_stages_that_take_turns_take_what_one_device_takes_and_their_borders(
    batch: int, positions: int, stages: int
) -> None:
    # Each border: 64 elements of four bytes for each token; and a token back.
    forward = ForwardPass(batch, positions, 100)
    message_s = SHORTEST + FURTHER + batch * positions * 64 * 4 / LINK
    alone = float(pass_of(Placement(1), forward, TURNS).total_s)
    found = float(pass_of(Placement(1, pipeline_parallel=stages), forward, TURNS).total_s)
    expected = alone + (stages - 1) * message_s + SHORTEST + FURTHER
    assert found == pytest.approx(expected, rel=1e-9)


def test_a_pipeline_says_whether_its_stages_run_at_a_time() -> None:
    for engine, said in ((ENGINE, "2 micro-batches in flight"), (TURNS, "more than 512 tokens")):
        notes = setup_notes(TOY, setup_of(Placement(1, pipeline_parallel=2), engine))
        assert any(said in note for note in notes)


def test_prompts_overlap_in_stages_that_take_turns_by_micro_batches() -> None:
    # n_ubatch is 512.
    setup = setup_of(Placement(1, pipeline_parallel=3), TURNS)
    beside = ForwardPass(batch_size=2, query_len=4, context_len=100)
    for tokens, count in ((400, 1), (1024, 2), (4096, 8)):
        prompt = ForwardPass(1, tokens, 0, head_len=1, settled=True)
        mixed = model_work(TOY, setup, beside, beside=[Work(TOY, prompt, kind="prompts")])
        for work in (model_work(TOY, setup, prompt), mixed):
            assert work.pipeline is not None
            assert float(np.asarray(work.pipeline.micro_batches)) == count
            latency = pass_time(work, TURNS)
            through_s = float(latency.total_s - latency.waiting_s)
            waited_s = (count - 1) * float(np.asarray(latency.stage_s))
            assert float(latency.total_s) == pytest.approx(through_s + waited_s)


def test_one_device_computes_prompts_in_parts_that_follow_one_another() -> None:
    # Four parts of 512, each with the experts that it hits: 32 visits of a tile's 128 tokens.
    model = load_model("Qwen/Qwen3-30B-A3B")
    for engine, tokens in (("llama.cpp", 512), ("mlx", 2048)):
        setup = engine_setup(load_hardware("m4-max"), engine, None, None)

        def latency(length: float, before: float = 0.0, setup: Setup = setup) -> PassLatency:
            forward = ForwardPass(1, length, before, head_len=1, settled=True)
            return model_latency(model, setup, forward)

        whole = latency(4 * tokens)
        parts = [latency(tokens, tokens * place) for place in range(4)]
        assert float(whole.total_s) == pytest.approx(sum(float(part.total_s) for part in parts))
        for name in ("flops", "weight_bytes"):
            sums = (
                sum(float(np.sum(getattr(op.op, name))) for op in one.ops)
                for one in (whole, *parts)
            )
            first, *others = sums
            assert first == pytest.approx(sum(others), rel=1e-3)
        # Prompts that share a pass are one row of tokens; what decodes beside them is, too.
        many = ForwardPass(4, tokens / 2, 0, head_len=1, settled=True)
        halves = ForwardPass(4, tokens / 4, tokens / 8, head_len=1, settled=True)
        assert float(model_latency(model, setup, many).total_s) == pytest.approx(
            2 * float(model_latency(model, setup, halves).total_s)
        )
        beside = [
            Work(model, ForwardPass(1, 2 * tokens, 0, head_len=1, settled=True), kind="prompts")
        ]
        mixed = model_latency(model, setup, ForwardPass(2, 1, 100), beside=beside)
        assert float(mixed.total_s) > float(latency(2 * tokens).total_s)


@pytest.mark.parametrize("spec", ["eagle3,accept=0.8", "ngram,accept=0.8,round-s=0"])
def test_rounds_of_any_batch_gain_nothing_from_stages_that_take_turns(spec: str) -> None:
    one, two, four = (
        speedup_curve(
            "Qwen/Qwen3-8B", load_hardware("rtx-4090"), drafter=load_drafter(spec),
            batch_size=[1, 8, 64, 512], context_len=1000, max_draft_len=3, engine="llama.cpp",
            placement=Placement(pipeline_parallel=stages),
        )
        for stages in (1, 2, 4)
    )  # fmt: skip
    assert np.all((one.round_s < two.round_s) & (two.round_s < four.round_s))


@pytest.mark.parametrize("spec", ["eagle3,accept=0.8", "ngram,accept=0.8,round-s=0"])
def test_a_round_of_a_pipeline_drafts_in_its_last_stage(spec: str) -> None:
    # Playing it: a micro-batch passes 4 stages, then drafts where the last one is.
    model, chip = load_model("Qwen/Qwen3-8B"), load_hardware("h100")
    setup = engine_setup(chip, "ideal", Placement(1, pipeline_parallel=4), None)
    assert draft_placement(model, setup) == Placement(1)
    curve = speedup_curve(
        model, chip, drafter=load_drafter(spec), batch_size=[1, 2, 64],
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


def test_memory_of_the_last_stage_by_hand() -> None:
    # 6 layers in 4 stages: 2 of them, and the head; of 10 tokens 2 layers of 8 * 2 * 64 elements.
    layer, head, cache = 64 * 256 * 2, 64 * 1000 * 2, 10 * 8 * 2 * 64 * 2
    place = Placement(2, pipeline_parallel=4)
    found = float(device_bytes(storage(TOY, 10), place, 3))
    assert found == pytest.approx((2 * layer + head + 3 * 2 * cache) / 2)
    # A table that is the head is at both ends.
    tied = replace(TOY, tied_embeddings=True)
    assert float(device_bytes(storage(tied, 0), place, 0)) == pytest.approx((2 * layer + head) / 2)


@pytest.mark.parametrize(("devices", "each"), [(8, 32), (64, 4), (72, 4), (48, 6), (255, 2)])
def test_experts_that_do_not_divide_take_the_memory_of_the_fullest_device(
    devices: int, each: int
) -> None:
    # Of 256 experts in 58 layers: three projections of 7168 by 2048 in fp8, with a scale of four
    # bytes for each block of 128 by 128.
    one_expert = 58 * 3 * 7168 * 2048 * (1 + 4 / 128**2)
    parts = storage(load_model(V3), 0)
    place = Placement(devices, devices, devices)
    dealt, divided = (
        float(device_bytes(parts, where, 0)) for where in (place, replace(place, expert_parallel=1))
    )
    assert dealt - divided == pytest.approx(one_expert * (each - 256 / devices), abs=1e-3)


@pytest.mark.parametrize(("framework", "flags"), rows("launch", "pipelines"))
def test_servers_of_stages_and_hosts_are_told_in_their_own_words(
    framework: str, flags: str
) -> None:
    place = Placement(8, pipeline_parallel=2, nodes=2)
    told = " ".join(shlex.split(server_command(framework, "me/model", place, hosts=2)))
    assert f" {flags} " in f"{told} "


def test_a_placement_that_no_framework_has_is_refused() -> None:
    check_placement(load_model(V3), Placement(8, pipeline_parallel=2))  # 31 and 30 layers
    with pytest.raises(OptionError, match=r"pipeline_parallel is 7, and toy has 6 layers"):
        check_placement(TOY, Placement(1, pipeline_parallel=7))
    told = (
        r"^tensor_parallel is 16 with attention_data_parallel 2: groups of 8 devices do not divide "
        r"the 28 query heads and 4 KV heads of Qwen2.5-7B; allowed: groups of 1, 2, 4, 28$"
    )
    with pytest.raises(OptionError, match=told):
        check_placement(load_model("Qwen/Qwen2.5-7B"), Placement(16, attention_data_parallel=2))
    with pytest.raises(OptionError, match=r"^expert_parallel is 2, and toy is dense; allowed: 1$"):
        check_placement(TOY, Placement(2, 2))
    check_placement(load_model(V3), Placement(2, 2))
    told = "^decode_context_parallel is 16: 16 devices for the 8 KV heads of toy, each with 2 query"
    with pytest.raises(OptionError, match=f"{told} heads; allowed: 1, 2$"):
        check_placement(TOY, Placement(16, decode_context_parallel=16))
    with pytest.raises(OptionError, match=r"^decode_context_parallel is 2: 8 devices .*: 1$"):
        check_placement(TOY, Placement(8, decode_context_parallel=2))
    expect_spreads(release("lmstudio"), Placement(pipeline_parallel=2))  # as it runs without a flag


@pytest.mark.parametrize(
    ("is_latent", "server", "target", "expected"), rows("launch", "drafter_placements")
)
def test_a_drafter_is_spread_as_far_as_its_server_lets_it(
    is_latent: bool, server: str, target: dict[str, int], expected: dict[str, int]
) -> None:
    setup = setup_of(Placement(**target), EngineProfile(name=server))
    model = load_model(V3) if is_latent else TOY
    assert draft_placement(model, setup) == Placement(**expected)


@pytest.mark.parametrize(("kind", "shape", "server", "says"), rows("launch", "drafts_in_stages"))
def test_drafts_run_in_a_pipeline_as_its_server_lets_them(
    kind: str, shape: dict[str, Any], server: str, says: str
) -> None:
    usual: dict[str, Any] = {"schedule": ((1, 64, 3),), "pipeline_parallel": 2}
    plan = Speculation(kind=kind, **usual | {"draft_model": "me/head"} | shape)
    found = launch(plan, server)
    notes = " ".join(found.notes)
    assert says in f"{found.text} {found.environment} {notes}"
    assert found.environment in notes
    is_asked_for = server == "sglang" and plan.pipeline_parallel > 1
    assert found.environment == "SGLANG_ENABLE_PP_SPEC=1" * is_asked_for
    assert "adaptive" not in found.text
