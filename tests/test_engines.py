"""What engine profiles add to the roofline: every parameter by hand, and what they must not do."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import specroof
from fitting.parameters import ENGINES, FITTED_WITH_DRAFTS, chip_family, fitted_parameters
from known_passes import pass_latency
from specroof import forward_latency, hardware_names, load_hardware, load_model
from specroof.architecture.attention import GroupedQueryAttention, Indexer
from specroof.architecture.base import ATTENTION_REPLICATED, WEIGHT_FORMATS, Core, Linear
from specroof.architecture.compressed import CompressedAttention
from specroof.architecture.experts import Experts, distinct_experts, independent_tokens
from specroof.architecture.latent import LatentAttention
from specroof.architecture.model import Architecture, Block, Layer
from specroof.architecture.recurrent import GatedDeltaNet
from specroof.cost import ForwardPass, OpCost, Options, forward_cost
from specroof.errors import OptionError
from specroof.hardware.engine import (
    CapturedGraphs,
    EngineProfile,
    ExpectedError,
    ExpertKernel,
    ExpertLocality,
    ExpertTile,
    Reach,
    SparseKernel,
)
from specroof.hardware.profile import HardwareProfile, Placement
from specroof.latency.model import (
    Work,
    activation_bytes,
    engine_notes,
    launched_kernels,
    layer_kinds,
    memory_notes,
    model_latency,
    model_work,
    padded_pass,
    pass_work,
    served_calls,
    setup_notes,
    stacked,
)
from specroof.latency.pass_seconds import OpLatency, PassShape, PassWork, overlapped_s, pass_time
from specroof.latency.setup import Setup, drafting_engine, engine_setup, reading_notes
from specroof.serving.workload import prefill_pass
from strategies import device, real_engine
from tables import rows


def chip(engine: EngineProfile | None = None, peak: float = 1.0) -> HardwareProfile:
    return device({"bf16": peak}, memory_bytes_per_s=peak, memory_bytes=1e18, engine=engine)


def operation(kind: str, flops: float, moved: float) -> OpCost:
    nothing = np.zeros(())
    return OpCost("op", kind, 1, np.array(flops), nothing, np.array(moved), nothing, "bf16")


def setup_of(hardware: HardwareProfile | None = None, /, **figures: Any) -> Setup:
    engine = real_engine(**figures)
    chips = replace(hardware, engines={"real": engine}) if hardware else chip(engine)
    return engine_setup(chips, "real", None, None)


def seconds(op: OpCost, **figures: Any) -> float:
    return float(pass_latency([op], setup_of(**figures), PassShape(0, 1)).total_s)


def toy(core: Core | None = None, *linears: Linear, count: int = 1) -> Architecture:
    layer = Layer((Block("attention", linears, core),), count)
    return Architecture("toy", "llama", 4, 8, (layer,), Linear("lm_head", 4, 0, kind="head"))


ATTENTION = GroupedQueryAttention(2, n_kv_heads=1, head_dim=4, value_dim=4)
DELTA = GatedDeltaNet(2, 4, key_dim=8, value_dim=8, conv_kernel=4, conv_columns=3)
DECODE = ForwardPass(1, 1, 0)


# --- shares of the peak --------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["experts", "attention", "latent_attention", "state"])
def test_a_kind_has_a_share_of_its_own(kind: str) -> None:
    compute = {"compute_frac": {"bf16": 0.5}, "kind_compute_frac": {kind: 0.25}}
    assert seconds(operation(kind, 12, 0), **compute) == 48
    assert seconds(operation("dense", 12, 0), **compute) == 24
    memory = {"memory_frac": 0.5, "kind_memory_frac": {kind: 0.25}}
    assert seconds(operation(kind, 0, 12), **memory) == 48
    assert seconds(operation("dense", 0, 12), **memory) == 24


def test_arithmetic_and_memory_overlap_by_a_norm() -> None:
    op = operation("dense", 3, 4)
    assert [seconds(op, overlap_norm=norm) for norm in (None, 2, 1)] == [4, 5, 7]
    assert seconds(op, overlap_norm=4) == pytest.approx((3**4 + 4**4) ** 0.25)
    assert seconds(operation("dense", 0, 0), overlap_norm=2) == 0
    # Coarser granularities add up arithmetic and memory first.
    ops = [operation("dense", 3, 0), operation("dense", 0, 4)]
    for granularity, work, by_hand in (("op", ops, 7), ("dtype", ops, 5), ("pass", [], 0)):
        setup = replace(setup_of(overlap_norm=2), options=Options(granularity=granularity))
        assert float(pass_latency(work, setup, PassShape(0, 1)).total_s) == by_hand


#: Nothing, or what the bounds of peaks leave: a FLOP at the fastest takes 1e-21 s.
seconds_taken = st.one_of(st.just(0.0), st.floats(1e-30, 1e9))


@given(seconds_taken, seconds_taken, st.one_of(st.just(2.0), st.floats(1, 100)))
def test_a_norm_lies_between_the_longer_and_the_sum(c: float, m: float, norm: float) -> None:
    both = float(overlapped_s(np.array(c), np.array(m), norm))
    assert max(c, m) <= both * (1 + 1e-12)
    assert both <= (c + m) * (1 + 1e-12)


# --- overheads -----------------------------------------------------------------------------------


#: 6 layers, 3 of them with a recurrence and 2 of experts; 32 sequences of 4 tokens in 8 groups.
SHAPE = PassShape(
    *(6, 32, {"linear_attention": 3, "experts": 2}, 4),
    serial_steps=5, kernels=41, launches=7, takes_prompts=True, groups=8, eager=True, token_s=3.0,
)  # fmt: skip


@pytest.mark.parametrize(("name", "figures", "how_many"), rows("values", "overheads"))
def test_what_an_engine_adds_has_a_name(
    name: str, figures: dict[str, Any], how_many: float
) -> None:
    if "graphs" in figures:
        figures = {"graphs": CapturedGraphs(**figures["graphs"])}
    found = pass_time(PassWork([], [], SHAPE), real_engine(**figures))
    assert {one: float(each) for one, each in found.overheads_s.items()} == {name: 2 * how_many}
    assert found.beside_ops_s == [(name, "overhead", 2.0 * how_many)]
    assert float(found.total_s) == float(found.overhead_s) == 2 * how_many
    decoding = PassWork([], [], replace(SHAPE, takes_prompts=False))
    added_s = float(pass_time(decoding, real_engine(**figures)).overhead_s)
    assert added_s == (0 if "of prompts" in name else 2 * how_many)


@pytest.mark.parametrize(("name", "chip_name", "weights", "kinds"), rows("values", "layer_kinds"))
def test_kinds_of_layers_of_published_models(
    name: str, chip_name: str, weights: str | None, kinds: dict[str, int | None]
) -> None:
    setup = engine_setup(load_hardware(chip_name), "ideal", None, Options(weight_dtype=weights))
    found = layer_kinds(load_model(name), setup)
    assert {kind: found.get(kind) for kind in kinds} == kinds


def test_a_pass_over_prompts_lasts_no_less_than_its_launches() -> None:
    model = load_model("deepseek-ai/DeepSeek-R1")
    h200 = load_hardware("h200")

    def seconds(launch_s: float, new_tokens: int) -> float:
        engine = real_engine(pass_overhead_s=1e-3, prefill_launch_s=launch_s)
        setup = engine_setup(replace(h200, engines={"real": engine}), "real", Placement(8), None)
        both = prefill_pass(new_tokens), ForwardPass(1, 1, 1024)
        prompt, step = (float(model_latency(model, setup, one).total_s) for one in both)
        assert step < 0.03  # graphs hold decoding
        return prompt

    # 1270 calls of 0.1 ms are longer than a short prompt, and shorter than a long one.
    assert seconds(1e-4, 64) == pytest.approx(0.127)
    assert seconds(1e-4, 65536) == seconds(0.0, 65536) > 0.127


def test_calls_of_a_server_over_prompts() -> None:
    # five matrices and two of a dense block or the shared expert, seven around the core
    deepseek = 61 * (5 + 2 + 7 + 3) + 58 * (2 + 2) + 1
    for name, calls in (("Qwen/Qwen3-8B", 0), ("deepseek-ai/DeepSeek-R1", deepseek)):
        model = load_model(name)
        assert served_calls(forward_cost(model, prefill_pass(64)), model.n_layers) == calls


@pytest.mark.parametrize("name", ["sglang", "tensorrt-llm"])
def test_passes_in_one_array_take_what_each_takes_alone(name: str) -> None:
    # Prompts wait for launches, steps do not; rows of an expert differ from pass to pass, and a
    # dense model has no layers of them.
    model, dense = load_model("deepseek-ai/DeepSeek-R1"), load_model("Qwen/Qwen3-8B")
    setup = engine_setup(load_hardware("b200"), name, Placement(8), None)
    passes = prefill_pass(64), ForwardPass(64, 4, 1024), prefill_pass(65536)
    works = [model_work(model, setup, one) for one in passes]
    works.append(model_work(dense, setup, passes[1]))
    alone = [float(pass_time(work, setup.engine).total_s) for work in works]
    together = pass_time(stacked(works, [1] * len(works)), setup.engine).total_s
    assert together.tolist() == pytest.approx(alone, rel=1e-12)


def test_prompts_reach_a_share_of_what_decoding_does() -> None:
    own = {"compute_frac": {"bf16": 0.5}, "prefill_compute_frac": {"attention": 0.25}}
    setup = setup_of(prefill_frac=0.5, **own)

    def taken(kind: str, setup: Setup, *, settled: bool) -> float:
        work = pass_work([operation(kind, 12, 0)], setup, PassShape(0, 1), settled=settled)
        return float(pass_time(work, setup.engine).total_s)

    assert [taken("dense", setup, settled=settled) for settled in (False, True)] == [24, 48]
    assert taken("attention", setup, settled=True) == 48  # its share is stated
    assert taken("attention", setup, settled=False) == 24
    # What a drafter reads again is no prompt.
    again = replace(setup, engine=drafting_engine(setup_of(**own).engine))
    assert taken("attention", again, settled=True) == 24
    # Nor is it captured with the target's graphs, or waits for the host.
    target = EngineProfile(name="e", pass_overhead_s=2.0, sequence_overhead_s=0.1, host_s=1.0)
    assert drafting_engine(target) == replace(target, overlap=True)
    target = replace(target, draft_pass_overhead_s=0.5)
    drafts = replace(target, overlap=True, pass_overhead_s=0.5, sequence_overhead_s=0.0)
    assert drafting_engine(target) == drafts


def test_a_recurrence_takes_one_token_after_the_other() -> None:
    setup = setup_of(state_token_overhead_s=2.0)
    passes = ForwardPass(1, np.array([1.0, 2.0, 8.0, 32.0, 4096.0]), 0)
    found = model_latency(toy(DELTA, count=5), setup, passes).overhead_s
    # 5 layers of 2 s for each further token, and no more than 31 of them: then come chunks.
    assert found.tolist() == [0, 10, 70, 310, 310]
    assert float(model_latency(toy(ATTENTION), setup, passes).overhead_s.max()) == 0


@pytest.mark.parametrize(
    ("name", "placement", "elements"),
    [
        # Of each layer the stream around two norms; queries, two keys and values of 8 heads, what
        # heads give; gate, up, down.
        ("Qwen/Qwen3-8B", Placement(4), 36 * (8 * 4096 + (2 * 4096 + 2 * 1024 + 3 * 12288) / 4)),
        # Queries of 64 heads of 64; a router; four experts, their ends on the devices that hold
        # them. Two groups of attention have half of the tokens each.
        (
            "openai/gpt-oss-120b",
            Placement(8, expert_parallel=4, attention_data_parallel=2),
            36 * (8 * 2880 / 2 + (2 * 4096 + 2 * 512) / 8 + 128)
            + 36 * 4 * (2 * 2880 / 4 + 3 * 2880 / 8),
        ),
    ],
)
def test_activations_of_a_token_are_what_lies_between_matrices(
    name: str, placement: Placement, elements: float
) -> None:
    assert activation_bytes(load_model(name), placement) == pytest.approx(2 * elements)
    # A shared expert in the same matmul has rows of its own: in and out, and three times between.
    alike = Experts(n_experts=4, top_k=1, in_features=4, hidden_features=8, n_shared=1)
    assert activation_bytes(toy(alike), Placement()) == 2 * (4 * 4 + 2 * (2 * 4 + 3 * 8))


def test_prompts_move_activations_where_others_take_time_by_tokens() -> None:
    model, b200 = load_model("Qwen/Qwen3-8B"), load_hardware("b200")
    setup = setup_of(b200, layer_token_overhead_s=2.0, activation_frac=0.5)
    step, chunk = ForwardPass(3, 4, 100), prefill_pass(64)
    assert float(model_latency(model, setup, step).overhead_s) == 36 * 12 * 2
    moved_s = activation_bytes(model, Placement()) / b200.peak.memory_bytes_per_s / 0.5
    assert float(model_latency(model, setup, chunk).overhead_s) == pytest.approx(64 * moved_s)
    beside = model_latency(model, setup, step, beside=[Work(model, chunk, kind="prompts")])
    assert float(beside.overhead_s) == pytest.approx((12 + 64) * moved_s)


# --- captured graphs -----------------------------------------------------------------------------


def test_a_pass_is_padded_to_the_next_captured_size() -> None:
    tokens = CapturedGraphs(sizes=(8, 16))
    sequences = CapturedGraphs(sizes=(4, 8), counts="sequences")
    asked = ForwardPass(np.array([2.0, 3.0, 4.0, 5.0]), 4, 100)
    prompts = replace(ForwardPass(3, 4, 0), settled=True)
    for forward, graphs, groups, matmul_tokens, eager in (
        (asked, tokens, 1, [8, 16, 16, 20], [False, False, False, True]),  # 20 is beyond
        (asked, sequences, 1, [16, 16, 16, 32], [False] * 4),
        # Two groups run the graph of the fuller one: of 1, 2, 2 and 3 sequences.
        (asked, tokens, 2, [16, 16, 16, 32], [False] * 4),
        (asked, sequences, 2, [32] * 4, [False] * 4),
        (ForwardPass(5, 2, 0), CapturedGraphs(sizes=(5, 6)), 2, 12, False),  # of 3 sequences
        # Graphs of sequences are not those of prompts; graphs of tokens hold any pass of so many.
        (prompts, sequences, 1, 12, False),
        (prompts, tokens, 1, 16, False),
        # 25 sequences, whose 56 tokens come out a hair above that
        (ForwardPass(25, 56 / 25, 0), CapturedGraphs(sizes=(56,)), 1, 56, False),
    ):
        place = Placement(groups, attention_data_parallel=groups)
        padded, alone = padded_pass(forward, replace(setup_of(graphs=graphs), placement=place))
        assert padded.matmul_tokens.tolist() == pytest.approx(matmul_tokens)
        assert np.asarray(alone).tolist() == eager
        assert padded.tokens.tolist() == forward.tokens.tolist()


def test_padding_changes_matmuls_and_collectives_but_not_attention() -> None:
    model = toy(ATTENTION, Linear("q_proj", 4, 8))
    asked = ForwardPass(3, 4, 100)
    padded, _ = padded_pass(asked, setup_of(graphs=CapturedGraphs(sizes=(16,))))
    (proj, core, head), (padded_proj, padded_core, padded_head) = (
        forward_cost(model, forward) for forward in (asked, padded)
    )
    assert float(padded_proj.flops) == float(proj.flops) * 16 / 12
    assert float(padded_core.flops) == float(core.flops)
    assert float(padded_core.cache_bytes) == float(core.cache_bytes)
    assert padded_head.flops == head.flops == 0
    # A captured graph holds its collectives at its own size: rows of 4 elements in bf16.
    sent = [op.collective.message_bytes for op in (core, padded_core) if op.collective]
    assert sent == [12 * 4 * 2, 16 * 4 * 2]
    # Padded tokens go through experts without reaching more of them.
    experts = toy(Experts(n_experts=64, top_k=2, in_features=4, hidden_features=4))
    (plain, *_), (wide, *_) = forward_cost(experts, asked), forward_cost(experts, padded)
    assert float(wide.weight_bytes) == float(plain.weight_bytes)
    assert float(wide.flops) == float(plain.flops) * 16 / 12


def test_the_fuller_of_two_groups_counts_once() -> None:
    model = toy(ATTENTION, Linear("q_proj", 4, 8, shard=ATTENTION_REPLICATED))
    # Of 5 sequences of 4 tokens it has 12 tokens, which no graph of 8 holds, or those of a graph.
    for size, tokens in ((8, 12), (16, 16)):
        setup = setup_of(graphs=CapturedGraphs(sizes=(size,)))
        setup = replace(setup, placement=Placement(2, attention_data_parallel=2))
        work = model_work(model, setup, ForwardPass(5, 4, 100))
        assert float(work.ops[0].compute_s) == 2 * 4 * 8 * tokens
        assert float(work.exchanges[0].collective.message_bytes) == 2 * tokens * 4 * 2


def test_beyond_the_largest_graph_launching_is_a_floor() -> None:
    batch = ForwardPass(np.array([1.0, 2.0]), 1, 0)
    fast = chip(peak=64.0)
    model = toy(None, Linear("q_proj", 4, 8), count=3)  # 64 FLOP and 64 bytes a layer and token
    # Three layers of a matmul with 20 around it, and the head.
    graphs = CapturedGraphs(sizes=(1,), eager_kernel_s=300 / (3 * 21 + 1))
    # One token: 3 layers of 64 s. Two: 384 s of work hide the 300 s of launching; with a faster
    # chip the launching is what is left.
    for hardware, by_hand in ((chip(), [192, 384]), (fast, [3, 300])):
        found = model_latency(model, setup_of(hardware, graphs=graphs), batch).total_s
        assert found.tolist() == pytest.approx(by_hand)
    # Three layers of a matmul, a core of 15 and 20 around them, and the head; the work hides in it.
    kernels = CapturedGraphs(sizes=(1,), eager_kernel_s=1000.0)
    model = toy(ATTENTION, Linear("q_proj", 4, 8), count=3)
    found = model_latency(model, setup_of(fast, graphs=kernels), batch).total_s
    assert found[0] < 1000
    assert found[1] == 1000 * (3 * 36 + 1)


def kernels(model: Architecture) -> float:
    """Return how many kernels a decode step launches where nothing fuses them."""
    return launched_kernels(forward_cost(model, DECODE), model.n_layers)


def test_kernels_are_counted_as_modelling_code_launches_them() -> None:
    # modeling_llama.py: two norms of 8 (16), q, k, v, o (4), rotations (10), cache (2), layout (1),
    # attention (2), gate and up as one, SiLU, product and down (4), two sums (2); and the head.
    assert kernels(load_model("meta-llama/Llama-3.1-8B")) == 32 * 41 + 1
    # CAST, one H100 and host, kernel by kernel: 16.7 ms for Llama-3.1-8B, 23.6 ms for Qwen3-8B,
    # whose norms of queries and keys are not counted; 55.3 ms for 48 layers of experts.
    per_kernel_s = [
        measured_s / kernels(load_model(name))
        for name, measured_s in (
            ("meta-llama/Llama-3.1-8B", 16.7e-3),
            ("Qwen/Qwen3-8B", 23.6e-3),
            ("Qwen/Qwen3-Coder-30B-A3B-Instruct", 55.3e-3),
        )
    ]
    fitted_s = fitted_parameters()["eager_kernel_s"]
    for one_s in per_kernel_s:
        assert 0.4 < fitted_s / one_s < 1.2  # two hosts differ 1.7 times


@pytest.mark.parametrize(
    ("framework", "batch", "notes"), [("sglang", 512, 0), ("sglang", 513, 1), ("vllm", 1025, 0)]
)
def test_launches_that_nobody_timed_are_said(framework: str, batch: int, notes: int) -> None:
    model = load_model("deepseek-ai/DeepSeek-V4-Flash")
    setup = engine_setup(load_hardware("b200"), framework, Placement(8), None)
    found = model_latency(model, setup, ForwardPass(batch, 1, 2048))
    assert len(found.notes) == notes
    # vLLM blog, DSpark, figure 2: 104 ms outside of graphs, 1536 tokens on 4 B300.
    assert notes == 0 or float(found.total_s) == pytest.approx(0.104, rel=0.2)


def test_a_serial_head_pays_for_its_steps_and_their_sequences() -> None:
    model = toy(None, Linear("q_proj", 4, 8), count=3)
    head = toy(None, Linear("lm_head", 4, 8), count=1)
    costs = {"serial_step_overhead_s": 100.0, "serial_sequence_overhead_s": 10.0}
    batch = ForwardPass(np.array([1.0, 2.0]), 1, 0)
    times = {}
    for steps, figures in ((True, costs), (True, {}), (False, costs)):
        setup = setup_of(**figures)
        beside = (Work(head, batch, times=5.0, kind="steps" if steps else "layers"),)
        times[steps, bool(figures)] = model_latency(model, setup, batch, beside=beside).total_s
    assert (times[True, True] - times[True, False]).tolist() == [5 * 110, 5 * 120]
    assert times[False, True].tolist() == times[True, False].tolist()


# --- experts -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("batch", "run", "distinct", "off"), rows("values", "distinct_experts"))
def test_locality_reproduces_the_published_runs_and_batches(
    batch: float, run: float, distinct: float, off: float
) -> None:
    visits = independent_tokens(np.array(batch), np.array(run), (0.737, 0.909))
    assert float(distinct_experts(visits, 256, 8)) == pytest.approx(distinct, rel=off)


def test_an_engine_brings_its_locality_unless_a_way_to_count_is_asked_for() -> None:
    experts = Experts(n_experts=64, top_k=2, in_features=4, hidden_features=4)
    hardware = chip(real_engine(expert_locality=ExpertLocality(run=0.5, batch=0.75)))
    forward = ForwardPass(16, 4, 0)

    def hit(engine: str, way: str | None = None) -> float:
        choices = Options(experts=way)
        latency = forward_latency(toy(experts), hardware, forward, engine=engine, options=choices)
        routing = latency.ops[0].op.routing
        assert routing is not None
        return float(routing.hit)

    moved = {way: hit("real", way) for way in (None, "exact", "replacement")}
    assert moved[None] == pytest.approx(64 * (1 - (1 - 2 / 64) ** 16))
    assert moved["exact"] == pytest.approx(64 * (1 - (1 - 2 / 64) ** 64))
    assert moved["replacement"] == pytest.approx(64 * (1 - (1 - 1 / 64) ** 128))
    assert hit("ideal") == moved["exact"]


def test_experts_speed_up_with_their_rows() -> None:
    tile = ExpertTile(rows=16, compute_frac=0.5)
    figures: dict[str, Any] = {"kind_compute_frac": {"experts": 0.1}, "compute_frac": {"bf16": 1.0}}
    taken = {
        rows: seconds(
            replace(operation("experts", 12, 0), rows=np.array(rows)), **figures, expert_tile=tile
        )
        for rows in (0.0, 16.0, 48.0, 1e12)
    }
    # 12 FLOP at a tenth of the peak, and at half of it: 120 and 24 s; 48 rows waste a quarter.
    expected = {0.0: 120, 16.0: (120 + 24) / 2, 48.0: 120 / 4 + 24 * 3 / 4, 1e12: 24}
    assert taken == pytest.approx(expected)
    # Without one, and for whatever has no rows of its own, the share is the same for all.
    assert seconds(replace(operation("experts", 12, 0), rows=np.array(48.0)), **figures) == 120
    assert seconds(operation("dense", 12, 0), **figures, expert_tile=tile) == 12


@pytest.mark.parametrize("granularity", ["op", "dtype", "pass"])
@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        # Three layers: floors, 8 experts in each, and 6 tokens of 2 of them, 384 FLOP a visit.
        ({}, 3 * (5 + 8 * 0.25 + 6 * 2 * 384 / 0.5)),
        ({"settled": True}, 3 * 6 * 2 * 384 / 0.1),
    ],
)
def test_timed_experts_have_a_floor(
    granularity: str, changes: dict[str, Any], expected: float
) -> None:
    experts = Experts(n_experts=8, top_k=2, in_features=8, hidden_features=8)
    model = toy(experts, count=3)
    kernel = ExpertKernel(floor_s=5.0, expert_s=0.25, memory_frac=0.5, compute_frac=0.5, tokens=6)
    figures = {"kind_compute_frac": {"experts": 0.1}, "expert_kernels": {"bf16": kernel}}
    options = Options(granularity=granularity)
    hardware = device({"bf16": 1.0}, memory_bytes_per_s=1e9, engine=real_engine(**figures))
    setup = engine_setup(hardware, "real", None, options)
    forward = ForwardPass(6, 1, 0, **changes)
    taken = model_latency(model, setup, forward)
    assert float(taken.total_s) == pytest.approx(expected, rel=1e-3)
    more = model_latency(model, setup, replace(forward, batch_size=np.array([6.0, 7.0])))
    assert (taken.notes, bool(more.notes)) == ((), not forward.settled)
    # Spread over devices, each holds fewer; of many passes each has its own.
    spread = replace(setup, placement=Placement(2, expert_parallel=2))
    held = [
        model_work(model, replace(setup, placement=placement), forward).ops[0].held_experts
        for placement in (setup.placement, spread.placement)
    ]
    assert held == [24, 12]
    both = stacked([model_work(model, one, forward) for one in (setup, spread)], [1, 1])
    alone = [float(model_latency(model, one, forward).work_s) for one in (setup, spread)]
    assert pass_time(both, setup.engine).work_s.tolist() == pytest.approx(alone)


@pytest.mark.parametrize(("tokens", "share"), [(4, 0.5), (64, 0.5), (128, 1 / 1.5)])
def test_timed_experts_speed_up_beyond_a_tile(tokens: int, share: float) -> None:
    # Each of 8 experts has a quarter of the tokens; of 32 rows half of 16 more are as few ones.
    model = toy(Experts(n_experts=8, top_k=2, in_features=8, hidden_features=8))
    flat = ExpertKernel(floor_s=0.0, expert_s=0.0, memory_frac=1.0, compute_frac=0.5, tokens=512)
    steep = replace(flat, rows=16.0, many_frac=1.0)
    found = [
        model_latency(
            model,
            engine_setup(chip(real_engine(expert_kernels={"bf16": kernel})), "real", None, None),
            ForwardPass(tokens, 1, 0),
        )
        for kernel in (flat, steep)
    ]
    (flat_s, steep_s) = (float(one.ops[0].compute_s) for one in found)
    assert steep_s == pytest.approx(flat_s * 0.5 / share, rel=1e-6)


@pytest.mark.parametrize(
    ("chip", "former", "ratio"), [("b300", "b200", 0.96), ("gb300", "gb200", 0.98)]
)
def test_experts_in_nvfp4_take_as_long_as_on_the_former_chip(
    chip: str, former: str, ratio: float
) -> None:
    # aiconfigurator-core 0.12.0, SGLang's tables: medians of TRTLLM-Gen's kernel, 1 to 128 tokens.
    model, where = load_model("nvidia/DeepSeek-V3.1-NVFP4"), ("tensorrt-llm", Placement(4), None)
    setups = [engine_setup(load_hardware(name), *where) for name in (chip, former)]
    newer_s, former_s = (
        next(float(op.seconds) for op in found.ops if op.op.kind == "experts")
        for found in (model_latency(model, setup, ForwardPass(8, 1, 1024)) for setup in setups)
    )
    assert newer_s / former_s == pytest.approx(ratio, rel=0.1)


def test_weights_and_caches_of_each_format_have_a_kernel_of_their_own() -> None:
    kernel = ExpertKernel(floor_s=5.0, expert_s=0.25, memory_frac=1.0, compute_frac=1.0, tokens=6)
    tile = SparseKernel(head_tile=128, compute_frac=0.5)
    engine = real_engine(
        expert_kernels={"bf16": kernel, "int4": replace(kernel, floor_s=7.0)},
        sparse_kernels={"bf16": tile, "fp8": replace(tile, head_tile=64, compute_frac=0.125)},
    )
    setups = [
        engine_setup(chip(engine), "real", None, Options(kv_dtype=dtype))
        for dtype in ("bf16", "fp8")
    ]
    plain = Experts(n_experts=8, top_k=2, in_features=8, hidden_features=8)
    narrow = replace(plain, weight=WEIGHT_FORMATS["int4"])
    models = toy(plain), toy(narrow), toy(plain, count=3)
    experts = [model_work(model, setups[0], DECODE) for model in models]
    floors = [pass_time(work, engine).ops[0].floor_s for work in experts]
    assert floors == [5 + 2, 7 + 2, 3 * (5 + 2)]
    prompts = replace(ForwardPass(1, 4096, 0), settled=True)
    caches = [model_work(toy(SPARSE), setup, prompts) for setup in setups]
    computed = [
        float(op.compute_s)
        for work in caches
        for op in pass_time(work, engine).ops
        if op.op.kind == "latent_attention"
    ]
    assert computed[1] == 2 * computed[0]  # of 64 heads
    # Passes of both are timed together as each alone.
    for works in (experts, caches):
        alone = [float(pass_time(work, engine).work_s) for work in works]
        assert pass_time(stacked(works, [1] * len(works)), engine).work_s.tolist() == pytest.approx(
            alone
        )


SPARSE = LatentAttention(64, 512, 64, Indexer(n_heads=32, head_dim=128, top_k=2048))
ENTRIES = CompressedAttention(64, entry_dim=512, rope_dim=64, window=128, ratio=128)


@pytest.mark.parametrize(
    ("forward", "placement", "kernel", "server", "times"), rows("values", "tiles_of_heads")
)
def test_kernels_of_picked_tokens_compute_whole_tiles_of_heads(
    forward: dict[str, Any], placement: dict[str, int], kernel: dict[str, bool],
    server: str, times: float,
) -> None:  # fmt: skip
    sparse = SparseKernel(head_tile=64, compute_frac=0.25, **kernel)
    where, asked = Placement(**placement), ForwardPass(**forward)

    def attended(core: Core, **kernels: Any) -> OpLatency:
        kind = "attention" if core is ENTRIES else "latent_attention"
        shares = {"kind_compute_frac": {kind: 0.5}, "kind_memory_frac": {kind: 0.5}}
        setup = replace(setup_of(framework=server, **shares, **kernels), placement=where)
        ops = model_latency(toy(core), setup, asked).ops
        return next(op for op in ops if op.op.kind == kind)

    plain, timed = attended(SPARSE), attended(SPARSE, sparse_kernels={"bf16": sparse})
    assert float(timed.compute_s / plain.compute_s) == pytest.approx(times * 0.5 / 0.25)
    assert float(timed.memory_s) == float(plain.memory_s)
    other = attended(SPARSE, sparse_kernels={"fp8": sparse})
    assert float(other.compute_s) == float(plain.compute_s)
    # Compressed entries have a kernel of their own, and no prompt that is attended densely.
    entries = attended(ENTRIES, sparse_kernels={"compressed": sparse})
    if asked.settled:
        tiles = 8 if placement == {"tensor_parallel": 8} else 1
        found = float(entries.compute_s / attended(ENTRIES).compute_s)
        assert found == pytest.approx(tiles * 0.5 / 0.25)


@pytest.mark.parametrize(("chip", "kv_dtype", "tp", "taken_ms"), rows("values", "picked_tokens"))
def test_attention_to_picked_tokens_takes_what_is_timed(
    chip: str, kv_dtype: str, tp: int, taken_ms: float
) -> None:
    options = Options(kv_dtype=kv_dtype)
    setup = engine_setup(load_hardware(chip), "sglang", Placement(tp), options)
    # The heads that FlashMLA pads to (SGLang 0.5.23 dsa_backend.py, _forward_flashmla_sparse).
    assert setup.engine.sparse_kernels[kv_dtype].head_tile == {"h200": 64, "b200": 128}[chip]
    forward = ForwardPass(1, 8192, 0, settled=True)
    ops = model_latency(load_model("zai-org/GLM-5-FP8"), setup, forward).ops
    found_s = sum(float(op.seconds) for op in ops if op.op.name.startswith("sparse_attention."))
    assert found_s / 78 * 1e3 == pytest.approx(taken_ms, rel=0.15)


@pytest.mark.parametrize(
    ("weight", "settled", "share"),
    [
        # 256 rows as above: a tile of 16 wastes 16 in 272, one of 64 in 320.
        ("bf16", False, 1 / (16 / 272 / 0.1 + 256 / 272 / 0.5)),
        ("bf16", True, 1 / (16 / 272 / 0.2 + 256 / 272 / 0.25)),
        ("int4", True, 1 / (64 / 320 / 0.1 + 256 / 320 / 0.4)),
        # Not timed: half of what decoding reaches.
        ("fp8", True, 0.5 / (16 / 272 / 0.1 + 256 / 272 / 0.5)),
    ],
)
def test_experts_over_prompts_have_the_share_that_was_timed(
    weight: str, settled: bool, share: float
) -> None:
    experts = Experts(n_experts=8, top_k=2, in_features=4, hidden_features=4)
    timed = {
        "bf16": ExpertTile(rows=16, compute_frac=0.25, few_frac=0.2),
        "int4": ExpertTile(rows=64, compute_frac=0.4),
    }
    engine = real_engine(
        kind_compute_frac={"experts": 0.1},
        expert_tile=ExpertTile(rows=16, compute_frac=0.5),
        prefill_expert_tiles=timed,
        prefill_frac=0.5,  # of what was not timed
    )
    setup = Setup(chip(engine), engine, Placement(), Options())
    model = toy(replace(experts, weight=WEIGHT_FORMATS[weight]))
    taken = model_latency(model, setup, ForwardPass(64, 16, 0, settled=settled)).ops[0]
    assert float(taken.compute_s) == pytest.approx(float(taken.op.flops) / share)


# --- recurrent state -----------------------------------------------------------------------------


def test_an_engine_keeps_state_its_own_way_unless_asked() -> None:
    hardware = chip(real_engine(recurrent_state="snapshot-copy"))
    model, verify = toy(DELTA), ForwardPass(1, 4, 0)

    def moved(mode: str | None, engine: str) -> float:
        options = Options(recurrent_state=mode)
        latency = forward_latency(model, hardware, verify, engine=engine, options=options)
        return float(latency.ops[-2].op.cache_bytes)

    # 1 read and 4 writes; SGLang copies the chosen one: 2 more; asked for: 1 read and 1 write.
    one = moved("read", "ideal")
    assert [moved(None, "ideal") / one, moved(None, "real") / one] == [5, 7]
    assert moved("read-write", "real") / one == 2


# --- what a profile says of itself ---------------------------------------------------------------


FITTED = [
    (chip_name, engine)
    for chip_name in hardware_names()
    for engine in load_hardware(chip_name).engines
]


@pytest.mark.parametrize(("chip_name", "engine"), FITTED)
def test_a_bundled_engine_is_slower_than_the_ideal_and_says_how_sure_it_is(
    chip_name: str, engine: str
) -> None:
    hardware = load_hardware(chip_name)
    # Those that drafts were measured with, on chips of a family that they were measured on.
    drafted = engine in ENGINES and chip_family(hardware) in FITTED_WITH_DRAFTS
    assert (hardware.engine(engine).expected_error is not None) == drafted
    model = load_model("Qwen/Qwen3-8B")
    passes = ForwardPass(np.array([1.0, 8.0, 64.0]), np.array([[1.0], [4.0], [16.0]]), 4096)
    slow = forward_latency(model, hardware, passes, engine=engine).total_s
    assert np.all(slow > forward_latency(model, hardware, passes, engine="ideal").total_s)
    # More positions take longer, and so do more sequences.
    assert np.all(np.diff(slow, axis=0) > 0)
    assert np.all(np.diff(slow, axis=1) > 0)


# --- releases of a server ------------------------------------------------------------------------


def test_a_release_of_vllm_that_waits_for_its_host_has_longer_steps() -> None:
    chip = load_hardware("h100")
    engine = replace(chip.engines["vllm"], reach=Reach(versions=("v0.10", "v0.19")))
    chip = replace(chip, engines={"vllm": engine})
    asked: dict[str, Any] = {"drafters": "ngram,accept=0.5,match=0.3", "batch_size": 4}
    without, with_host, latest = (
        specroof.predict("Qwen/Qwen3-8B", chip, engine=name, **asked).curves[0].round_s[0, 0]
        for name in ("vllm", "vllm@0.10", "vllm@0.19")
    )
    waited_s = engine.host_s + 4 * engine.host_sequence_s
    assert with_host[0] - without[0] == pytest.approx(waited_s)
    assert latest[0] == without[0]
    # Rounds that look drafts up wait as plain steps do, and for the host's own part of a round.
    assert with_host[3] - without[3] == pytest.approx(waited_s, rel=0.01)
    with pytest.raises(OptionError, match=r"'vllm@0\.5'; allowed: .*vllm@0\.10, vllm@0\.19"):
        chip.engine("vllm@0.5")


def place(chip: str, engine: str, *sizes: int, **more: Any) -> Setup:
    spread = {key: more.pop(key) for key in [*more] if key.endswith("parallel")}
    placement = Placement(*sizes, **spread)
    return engine_setup(load_hardware(chip), engine, placement, Options(**more))


@pytest.mark.parametrize(("model", "where", "more", "key"), rows("values", "priced_otherwise"))
def test_what_is_priced_otherwise_is_said(
    model: str, where: list[Any], more: dict[str, Any], key: str
) -> None:
    def notes(setup: Setup) -> list[str]:
        what, one = load_model(model), np.ones(1)
        said = [*setup_notes(what, setup), *reading_notes(what, setup), *engine_notes(setup)]
        return [*said, *memory_notes(what, setup, one, one)]

    assert any(key in note for note in notes(place(*where, **more)))
    quiet = (
        place("h200", "ideal", 8),
        place("b200", "vllm", 8, decode_context_parallel=8),
        place("rtx-4090+cpu-2ch-ddr5", "llama.cpp", 1, n_cpu_moe=1, weight_dtype="q8_0"),
    )
    assert not any(key in note for other in quiet for note in notes(other))
    error = ExpectedError(speedup_mean=0.061, speedup_median=0.05, plain_median=0.07)
    fitted = replace(chip(real_engine(expected_error=error)), sources={"engines.real": "a fit"})
    (note,) = engine_notes(engine_setup(fitted, "real", None, None))
    assert all(figure in note for figure in ("a fit", "6.1%", "5.0%", "7.0%"))
