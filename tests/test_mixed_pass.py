"""Passes of prompts beside decoding, and of one sequence for its batch: the same work."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from published_drafters import Ledger, a_round, target_of
from specroof import load_hardware, load_model
from specroof.architecture.base import Linear
from specroof.architecture.experts import distinct_experts
from specroof.architecture.model import Architecture, Block, Layer
from specroof.cost import ForwardPass, Options, forward_cost
from specroof.cost.forward import joined_costs
from specroof.hardware.engine import CapturedGraphs, Collective, EngineProfile
from specroof.hardware.profile import Placement
from specroof.latency.model import Work, model_latency, model_work
from specroof.latency.pass_seconds import PassWork, pass_time, total, weighted_total
from specroof.latency.setup import Setup, engine_setup
from specroof.serving.workload import prefill_pass
from strategies import Grid, amounts, architectures, device, grids, options, placements, real_engine
from tables import present

CONFIGS = sorted((Path(__file__).parents[1] / "model_configs").glob("*.json"))
MODEL = load_model("Qwen/Qwen3-8B")
DECODING = ForwardPass(16, 4, 4096)
CHUNK = prefill_pass(2048, batch_size=1.5, context_len=1024)
PROMPTS = [Work(MODEL, CHUNK, kind="prompts")]


def setup_of(chip: str, engine: str) -> Setup:
    return engine_setup(load_hardware(chip), engine, None, None)


@pytest.mark.parametrize("config", CONFIGS, ids=lambda path: path.stem)
def test_a_mixed_pass_does_the_work_of_both_and_reads_each_matrix_once(config: Path) -> None:
    model = load_model(config)
    first, second = forward_cost(model, DECODING), forward_cost(model, CHUNK)
    both, alone, beside = joined_costs(first, second)
    for name in ("flops", "cache_bytes", "activation_bytes"):
        together = sum(op.count * getattr(op, name) for op in (*both, *alone, *beside))
        apart = sum(op.count * getattr(op, name) for op in (*first, *second))
        assert together == pytest.approx(apart, rel=1e-12)
    dense = [op for op in both if op.rows is None]
    whole = {id(op): op for op in first if op.rows is None}.values()
    assert sum(op.count * op.weight_bytes for op in dense) == pytest.approx(
        sum(op.count * op.weight_bytes for op in whole)
    )
    assert not any(np.any(op.weight_bytes) for op in (*alone, *beside))
    sent = [
        sum(op.count * op.collective.message_bytes for op in ops if op.collective)
        for ops in ((*both, *alone, *beside), first, second)
    ]
    assert sent[0] == pytest.approx(sent[1] + sent[2])


def test_those_that_decode_read_the_head_that_a_chunk_does_not() -> None:
    headless = ForwardPass(1, 2048, 0, head_len=0)
    parts = [forward_cost(MODEL, one) for one in (DECODING, headless)]
    decoded, chunk, both = (
        next(op for op in ops if op.kind == "head") for ops in (*parts, joined_costs(*parts)[0])
    )
    assert (float(chunk.weight_bytes), float(decoded.weight_bytes)) == (0, 2 * 4096 * 151_936)
    assert float(both.weight_bytes) == float(decoded.weight_bytes)


def test_a_drafter_of_the_same_shape_is_no_second_batch() -> None:
    setup = setup_of("b200", "ideal")
    drafting = model_latency(MODEL, setup, DECODING, beside=[Work(MODEL, DECODING)]).total_s
    alone = model_latency(MODEL, setup, DECODING).total_s
    # Every operation twice, its matrix read both times: a model that drafts for itself.
    assert drafting == pytest.approx(2 * alone)
    mixed = model_latency(MODEL, setup, DECODING, beside=[Work(MODEL, DECODING, kind="prompts")])
    assert alone < mixed.total_s < drafting


def test_what_prompts_have_a_part_in_runs_as_their_kernels_do() -> None:
    work = model_work(MODEL, setup_of("b200", "vllm"), DECODING, beside=PROMPTS)
    # Both batches go through one matrix; their sequences attend each in kernels of their own.
    kernels = {(one.op.kind, one.settled) for one in work.ops}
    both, attention = [("dense", True), ("head", True)], [("attention", True), ("attention", False)]
    assert kernels == {*both, *attention}


def test_experts_of_a_mixed_pass_are_those_of_all_its_tokens() -> None:
    model = load_model("Qwen/Qwen3-30B-A3B")
    chunk = prefill_pass(7)
    both, *_ = joined_costs(forward_cost(model, DECODING), forward_cost(model, chunk))
    (experts,) = (op for op in both if op.kind == "experts")
    expected = distinct_experts(np.array(16 * 4 + 7.0), 128, 8)
    assert experts.routing is not None
    assert experts.routing.hit == pytest.approx(float(expected))
    assert experts.rows == pytest.approx((16 * 4 + 7) * 8 / float(expected))
    # Bytes of an expert times those that are visited.
    (alone,) = (op for op in forward_cost(model, DECODING) if op.kind == "experts")
    read = experts.weight_bytes / experts.routing.hit
    assert read == pytest.approx(alone.weight_bytes / present(alone.routing).hit)
    # As many independent tokens as both have.
    assert experts.routing.tokens == pytest.approx(16 * 4 + 7)


def test_what_an_engine_loses_is_lost_once_in_a_mixed_pass() -> None:
    slow = EngineProfile(
        name="slow", pass_overhead_s=1.0, layer_overhead_s=0.5, sequence_overhead_s=0.25,
        layer_token_overhead_s=0.125, collective=Collective(latency_s=1e-5),
    )  # fmt: skip
    setup = Setup(load_hardware("b200"), slow, Placement(2), Options())
    found = model_latency(MODEL, setup, DECODING, beside=PROMPTS)
    # 36 layers, 17.5 sequences, 16 * 4 + 1.5 * 2048 tokens.
    assert found.overhead_s == pytest.approx(1 + 18 + 17.5 / 4 + 36 * 0.125 * (64 + 3072))
    halves = replace(setup, placement=Placement(2, attention_data_parallel=2))
    each = model_latency(MODEL, halves, DECODING, beside=PROMPTS)  # of two schedulers
    assert found.overhead_s - each.overhead_s == pytest.approx(17.5 / 4 / 2)
    apart = [model_latency(MODEL, setup, one).communication_s for one in (DECODING, CHUNK)]
    assert max(apart) < found.communication_s < sum(apart)


@pytest.mark.parametrize(
    ("graphs", "padded", "eager"),
    [
        (CapturedGraphs(sizes=(64, 4096), counts="tokens"), 4096 - 3136, False),
        (CapturedGraphs(sizes=(64, 2048), counts="tokens"), 0, True),
        (CapturedGraphs(sizes=(16, 512), counts="sequences"), 0, False),  # has graphs of its own
    ],
)
def test_a_mixed_pass_is_padded_by_all_its_tokens(
    graphs: CapturedGraphs, padded: float, eager: bool
) -> None:
    ideal = setup_of("b200", "ideal")
    bare = model_work(MODEL, ideal, DECODING, beside=PROMPTS)
    padding = replace(ideal, engine=EngineProfile(name="padding", graphs=graphs))
    found = model_work(MODEL, padding, DECODING, beside=PROMPTS)
    assert bool(found.shape.eager) == eager

    def dense_flops(work: PassWork) -> float:
        return sum(float(one.op.count * one.flops) for one in work.ops if one.op.kind == "dense")

    assert dense_flops(found) / dense_flops(bare) == pytest.approx((3136 + padded) / 3136)


# --- what each sequence of a batch does alone is counted for one ----------------------------------

ENGINES = st.sampled_from(
    [real_engine(), real_engine(overlap_norm=2), real_engine(overlap_norm=1.5)]
)


@given(architectures(), options, grids)
def test_one_sequence_times_the_batch_is_the_whole_batch(
    model: Architecture, choices: Options, grid: Grid
) -> None:
    whole = forward_cost(model, grid.forward, choices)
    alone = forward_cost(model, grid.forward, choices, by_sequence=True)
    for all_of_it, one in zip(whole, alone, strict=True):
        assert (one.name, one.kind, one.count) == (all_of_it.name, all_of_it.kind, all_of_it.count)
        assert all_of_it.sequences is None
        times = 1.0 if one.sequences is None else one.sequences
        for name, amount in amounts(one).items():
            factor = 1.0 if name == "message_bytes" else times
            expected = np.broadcast_to(amounts(all_of_it)[name], grid.shape)
            np.testing.assert_allclose(
                np.broadcast_to(amount * factor, grid.shape), expected, rtol=1e-12
            )


@given(architectures(), placements(), grids, ENGINES, st.sampled_from(["op", "dtype", "pass"]))
def test_a_pass_takes_the_same_either_way(
    model: Architecture, placement: Placement, grid: Grid, engine: EngineProfile, granularity: str
) -> None:
    # Data-parallel attention with fewer sequences than groups among them: its busiest group counts.
    setup = Setup(device(engine=engine), engine, placement, Options())
    works = [
        model_work(model, setup, grid.forward, by_sequence=by_sequence)
        for by_sequence in (False, True)
    ]
    both = [pass_time(work, engine, granularity).total_s for work in works]
    both += [total(op.compute_s for op in work.ops) for work in works]
    both += [total(op.memory_s for op in work.ops) for work in works]
    for whole, alone in zip(both[::2], both[1::2], strict=True):
        np.testing.assert_allclose(
            np.broadcast_to(alone, grid.shape), np.broadcast_to(whole, grid.shape), rtol=1e-12
        )


def test_weights_of_one_shape_and_value_are_one() -> None:
    row, column = np.array([[2.0, 3.0]]), np.array([[2.0], [3.0]])
    # By hand: [[2, 3], [2, 3]] + [[2, 2], [3, 3]] + 1. The two have the same bytes.
    found = weighted_total([(row, np.array(1.0)), (column, np.array(1.0)), (None, np.array(1.0))])
    assert found.tolist() == [[5.0, 6.0], [6.0, 7.0]]
    assert weighted_total([]).tolist() == 0


def test_what_is_read_again_has_an_axis_of_contexts_only_where_they_matter() -> None:
    # Drafts of 1, 2 and 3 at 0.5: 1.5, 1.75 and 1.875 tokens; 1.5 fit into a context of 0.5.
    committed = [1.5, 1.75, 1.875]
    for first, read_len in ((1, committed), (0.5, [[[1.5, 1.5, 1.5]], [committed]])):
        asked = a_round(
            target_of(), Ledger(), draft_len=[1, 2, 3], batch_size=[[1], [8]],
            context_len=[[[first]], [[100]]], tokens_per_round=committed,
        )  # fmt: skip
        assert asked.read_len.tolist() == read_len


def test_a_pass_of_one_sequence_keeps_what_else_it_is() -> None:
    # Padded rows of matrices and the head are of the whole batch, whatever is counted alone.
    layer = Layer((Block("attention", (Linear("q_proj", 4, 4),)),))
    model = Architecture("toy", "llama", 4, 9, (layer,), Linear("lm_head", 4, 9, kind="head"))
    padded = replace(ForwardPass([2.0, 3.0], 1, 5), matmul_len=np.array([2.0, 4.0]))
    for by_sequence in (False, True):
        projection, head = forward_cost(model, padded, by_sequence=by_sequence)
        # 2 FLOP * 16 weights * (4, 12) rows, and 36 weights.
        assert projection.flops.tolist() == [128.0, 384.0]
        assert head.flops.tolist() == [288.0, 864.0]
