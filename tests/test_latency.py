"""Seconds of a pass: rooflines, placements, engines, collectives: by hand, dice, dealing out."""

from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from known_passes import on_links_s, pass_latency
from specroof import (
    forward_cost,
    forward_latency,
    load_drafter,
    load_hardware,
    load_model,
    speedup_curve,
)
from specroof.architecture.attention import GroupedQueryAttention
from specroof.architecture.base import (
    ATTENTION_REPLICATED,
    FEED_FORWARD_REPLICATED,
    HEADS,
    TENSOR,
    Core,
    Linear,
    Routing,
    Shard,
    by_kv_heads,
    cache_only,
)
from specroof.architecture.experts import Experts, distinct_experts, fullest_device
from specroof.architecture.model import Architecture, Block, Layer
from specroof.cost import BlockExchange, ForwardPass, OpCost, Options, storage
from specroof.errors import ProfileError
from specroof.hardware.engine import IDEAL_ENGINE, Collective, EngineProfile
from specroof.hardware.profile import HardwareProfile, Interconnect, Placement
from specroof.latency.model import Work, _visits_and_tokens, model_latency, setup_notes
from specroof.latency.pass_seconds import PassLatency, PassShape
from specroof.latency.setup import Deployment, Setup, device_bytes, engine_setup
from specroof.serving.workload import prefill_pass
from specroof.speedup.curve import engine_pass_s
from strategies import (
    Grid,
    architectures,
    device,
    devices,
    forward_pass,
    grids,
    of_model,
    options,
    passes,
    placements,
    real_engine,
)
from tables import present, rows

ONE = Placement()
#: One FLOP and one byte per second: times are amounts.
UNIT = device({"bf16": 1.0, "fp16": 1.0}, 1.0)


def operation(
    flops: float = 0, weight_bytes: float = 0, dtype: str = "bf16", count: int = 1, **more: Any
) -> OpCost:
    work, weights, nothing = np.array(float(flops)), np.array(float(weight_bytes)), np.zeros(())
    shard = more.pop("shard", TENSOR)
    return OpCost("op", "dense", count, work, weights, nothing, nothing, dtype, shard, **more)


def timed(
    *ops: OpCost,
    hardware: HardwareProfile = UNIT,
    engine: str = "ideal",
    placement: Placement = ONE,
    choices: Options | None = None,
) -> PassLatency:
    setup = Setup(hardware, hardware.engine(engine), placement, choices or Options())
    return pass_latency(ops, setup, PassShape(1, 1))


Case = tuple[Architecture, ForwardPass, HardwareProfile, Placement, Options]
cases = st.tuples(architectures(), passes, devices(), placements(), options).map(
    lambda case: (*case[:3], of_model(case[0], case[3]), case[4])
)


def model(*blocks: Block) -> Architecture:
    head = Linear("lm_head", 16, 96, shard=TENSOR, kind="head")
    return Architecture("toy", "llama", 16, 96, (Layer(blocks),), head)


def attending(core: Core) -> Architecture:
    return model(Block("attention", (), core))


# --- the roofline --------------------------------------------------------------------------------


def test_granularities_by_hand() -> None:
    # Seconds of arithmetic and memory: bf16 (3, 1) and (1, 4), fp8 (2, 0.5). Without fp8 units all
    # of it is bf16 work in one bucket.
    both, bf16 = device({"bf16": 1.0, "fp8": 1.0}, 1.0), UNIT
    ops = (operation(3, 1), operation(1, 4), operation(2, 0.5, dtype="fp8"))
    for hardware, granularity, seconds in (
        (both, "op", 3 + 4 + 2),
        (both, "dtype", max(3 + 1, 1 + 4) + max(2, 0.5)),
        (both, "pass", max(3 + 1 + 2, 1 + 4 + 0.5)),
        (bf16, "dtype", max(3 + 1 + 2, 1 + 4 + 0.5)),
    ):
        choices = Options(granularity=granularity)
        assert timed(*ops, hardware=hardware, choices=choices).total_s == seconds


@pytest.mark.long
@given(cases, grids)
def test_array_input_equals_the_loop_over_scalars(case: Case, grid: Grid) -> None:
    toy, _, hardware, placement, choices = case
    whole = forward_latency(toy, hardware, grid.forward, placement=placement, options=choices)
    # Linear attention looks at no context, and its pass has that axis all the same.
    assert whole.total_s.shape == grid.shape
    for row, column, position in np.ndindex(grid.shape):
        single = forward_pass(grid.batches[column], grid.queries[position], grid.contexts[row])
        alone = forward_latency(toy, hardware, single, placement=placement, options=choices)
        found = pytest.approx(float(alone.total_s), rel=1e-12)
        assert whole.total_s[row, column, position] == found


# --- dtypes --------------------------------------------------------------------------------------


def test_a_missing_dtype_falls_back_with_one_note_and_is_an_error_where_asked_for() -> None:
    hardware = device({"bf16": 1.0, "fp8": 2.0}, 1.0)
    ops = (operation(8, dtype="fp4"), operation(8, dtype="fp4"), operation(8, dtype="bf16"))
    latency = timed(*ops, hardware=hardware)
    assert [op.compute_dtype for op in latency.ops] == ["fp8", "fp8", "bf16"]
    assert [float(op.compute_s) for op in latency.ops] == [4, 4, 8]
    assert latency.notes == ("toy device has no fp4 arithmetic: fp8 stands in",)
    strict = Options(strict_dtype=True)
    assert timed(operation(8), choices=strict).notes == ()
    with pytest.raises(ProfileError, match=r"toy device .*flops_per_s .*'fp4'; it has bf16"):
        timed(operation(8, dtype="fp4"), choices=strict)
    with pytest.raises(ProfileError, match=r"flops_per_s .*'fp32'"):  # nothing is wider
        timed(operation(8, dtype="fp32"))


# --- placements ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tensor_parallel", "groups"),
    [(1, 1), (2, 1), (2, 2), (4, 1), (4, 2), (8, 1), (8, 2), (8, 4), (8, 8)],
)
@pytest.mark.parametrize("n_kv_heads", [1, 2, 8])
def test_grouped_query_attention_is_dealt_out_head_by_head(
    tensor_parallel: int, groups: int, n_kv_heads: int
) -> None:
    core = GroupedQueryAttention(16, n_kv_heads, 8, 8)
    batch, queries, context = 16, 3, 10
    # Deal sequences to the groups, query heads to the devices of each; a device reads the KV
    # heads that its query heads look at. All devices turn out alike: look at the busiest.
    group_size = tensor_parallel // groups
    heads_of = [range(d * 16 // group_size, (d + 1) * 16 // group_size) for d in range(group_size)]
    sequences = batch // groups
    pairs = sum(context + query + 1 for query in range(queries))
    flops = max(sequences * len(heads) * pairs * 2 * 16 for heads in heads_of)
    kv_heads = max(len({head * n_kv_heads // 16 for head in heads}) for heads in heads_of)
    cache_bytes = sequences * kv_heads * 16 * 2 * (context + queries)

    latency = forward_latency(
        attending(core),
        UNIT,
        forward_pass(batch, queries, context),
        placement=Placement(tensor_parallel, attention_data_parallel=groups),
    )
    attention = latency.ops[0]
    assert attention.compute_s == flops
    assert attention.memory_s == cache_bytes


SHARDS: dict[str, Shard] = {
    "tensor": TENSOR, "feed-forward replicated": FEED_FORWARD_REPLICATED, "heads": HEADS,
    "attention replicated": ATTENTION_REPLICATED, "two KV heads": by_kv_heads(2),
    "cache of two KV heads": cache_only(2),
}  # fmt: skip


@pytest.mark.parametrize(("shard", "groups", "ways"), rows("values", "what_divides"))
def test_the_table_of_what_divides(shard: str, groups: int, ways: list[int]) -> None:
    compute_ways, weight_ways, cache_ways = ways
    placement = Placement(8, attention_data_parallel=groups)

    def of(**amount: float) -> tuple[float, float]:
        amounts: dict[str, Any] = {name: np.array(size) for name, size in amount.items()}
        op = replace(operation(shard=SHARDS[shard]), **amounts)
        setup = Setup(UNIT, IDEAL_ENGINE, placement, Options())
        (timed_op,) = pass_latency([op], setup, PassShape(1, 64)).ops
        return float(timed_op.compute_s), float(timed_op.memory_s)

    assert of(flops=64) == (64 / compute_ways, 0)
    assert of(weight_bytes=64) == (0, 64 / weight_ways)
    assert of(cache_bytes=64) == (0, 64 / cache_ways)
    # Outputs lie where they are computed.
    assert of(activation_bytes=64) == (0, 64 / compute_ways)


# --- engines -------------------------------------------------------------------------------------

HALF = real_engine(compute_frac={"bf16": 0.5}, memory_frac=0.25)


def test_an_engine_reaches_a_share_of_each_peak() -> None:
    hardware = device({"bf16": 8.0, "fp8": 16.0}, 4.0, engine=HALF)
    latency = timed(operation(8, 4), operation(16, dtype="fp8"), hardware=hardware, engine="real")
    # Half of 8 FLOP/s, a quarter of 4 bytes/s; all of the fp8 peak, which is not listed.
    assert [float(op.compute_s) for op in latency.ops] == [2, 1]
    assert [float(op.memory_s) for op in latency.ops] == [4, 0]
    # The share is that of the dtype that stands in.
    bf16 = device({"bf16": 8.0}, 4.0, engine=HALF)
    assert timed(operation(8, dtype="fp8"), hardware=bf16, engine="real").ops[0].compute_s == 2


def test_groups_of_attention_schedule_sequences_of_their_own() -> None:
    engine = real_engine(
        sequence_overhead_s=0.25, host_s=2.0, host_sequence_s=0.5, overlap=False,
        round_sequence_overhead_s=3.0,
    )  # fmt: skip
    hardware = device({"bf16": 1.0}, 1.0, engine=engine)
    # 4 sequences each: 4 * 0.25, 2 + 4 * 0.5 of a host that is waited for
    toy, place = model(), Placement(8, attention_data_parallel=8)
    found = forward_latency(toy, hardware, forward_pass(32), placement=place, engine="real")
    assert found.overhead_s == 1 + 4
    curve = speedup_curve(
        toy, hardware, drafter=load_drafter("ngram,accept=0.5"), batch_size=32, context_len=0,
        max_draft_len=1, engine="real", placement=place,
    )  # fmt: skip
    # Beside its verification a round takes 3 of each of 4, and those that wait for the host.
    added_s = curve.round_s[0, 0, 1] - curve.verify_s[0, 0, 1] - curve.draft_s[0, 0, 1]
    assert added_s == pytest.approx(4 * 3)


# --- collectives ---------------------------------------------------------------------------------


def linked(*, switch_reduces: bool = False) -> HardwareProfile:
    """Return a device on a link of 100 bytes/s, half of which is reached, in messages of 2 s."""
    return device(
        {"bf16": 1.0},
        1.0,
        interconnect=Interconnect(
            link_bytes_per_s=100.0, max_devices=8, switch_reduces=switch_reduces
        ),
        engine=real_engine(collective=Collective(latency_s=2.0, link_frac=0.5)),
    )


LINKED = linked()


def nodes_of(devices: int, *, scale_out_bytes_per_s: float, **engine: Any) -> HardwareProfile:
    use = Collective(latency_s=2.0, link_frac=0.5, scale_out_latency_s=0.5)
    links = Interconnect(
        link_bytes_per_s=100.0, max_devices=devices, scale_out_bytes_per_s=scale_out_bytes_per_s
    )
    profile = real_engine(collective=use, **engine)
    return device({"bf16": 1.0}, 1.0, interconnect=links, engine=profile)


#: Links of devices, and nodes of four whose links between them are faster, or slower, than inside.
LINKS = {
    "linked": LINKED,
    "switched": linked(switch_reduces=True),
    "free": device({"bf16": 1.0}, 1.0, engine=real_engine(memory_frac=0.5)),
    "nodes": nodes_of(4, scale_out_bytes_per_s=1e6),
    "slow nodes": nodes_of(4, scale_out_bytes_per_s=30.0),
    "large nodes": nodes_of(72, scale_out_bytes_per_s=1e6),
    "rack of TensorRT-LLM": nodes_of(72, scale_out_bytes_per_s=1.0, framework="tensorrt-llm"),
    "node of TensorRT-LLM": nodes_of(8, scale_out_bytes_per_s=1.0, framework="tensorrt-llm"),
    "rack": nodes_of(72, scale_out_bytes_per_s=1.0),
}


def exchange_s(
    block: str, placement: Placement, hardware: HardwareProfile = LINKED, **asked: Any
) -> float:
    """Return the seconds after two blocks with an output of 800 bytes."""
    batch, settled = asked.pop("batch", 8), asked.pop("settled", False)
    exchange = BlockExchange(block, np.array(800.0), **{"copies": 6, "dispatch_frac": 1.0} | asked)
    ops = [operation(count=2, collective=exchange), operation()]
    setup = Setup(hardware, hardware.engine("real"), placement, Options())
    latency = pass_latency(ops, setup, PassShape(1, batch), settled=settled)
    return float(latency.communication_s)


@pytest.mark.parametrize(
    ("blocks", "places", "hardware", "asked", "each_s"), rows("values", "exchanges")
)
def test_exchanges_by_hand(
    blocks: list[str], places: list[list[int]], hardware: str, asked: Any, each_s: float
) -> None:
    for block, place in product(blocks, places):
        found = exchange_s(block, Placement(*place), LINKS[hardware], **asked)
        assert found == pytest.approx(2 * each_s, rel=1e-12), (block, place)


def test_an_engines_time_goes_by_steps_of_eight_sequences_and_the_ideal_one_shares_them_out() -> (
    None
):
    def attention_s(batch: int, engine: str) -> float:
        core = attending(GroupedQueryAttention(16, 16, 8, 8))
        forward = forward_pass(batch, 1, 99)
        latency = forward_latency(
            core, LINKED, forward, placement=Placement(8, 1, 8), engine=engine
        )
        return float(latency.ops[0].memory_s)

    steps = [attention_s(batch, "real") / attention_s(8, "real") for batch in (1, 8, 9, 16, 17)]
    assert steps == pytest.approx([1, 1, 2, 2, 3])
    assert attention_s(9, "ideal") == pytest.approx(9 / 8 * attention_s(8, "ideal"))
    assert attention_s(1, "ideal") == pytest.approx(attention_s(8, "ideal"))  # seven do nothing
    # Nine have two in one group, which reads its weights as the others do.
    op = replace(operation(9, 9, shard=HEADS), activation_bytes=np.array(9.0))
    setup = Setup(LINKED, LINKED.engine("real"), Placement(8, 1, 8), Options())
    (busiest,) = pass_latency([op], setup, PassShape(1, 9)).ops
    assert (float(busiest.compute_s), float(busiest.memory_s)) == pytest.approx((2, 9 + 2))


def test_devices_that_no_link_reaches_are_an_error() -> None:
    alone = replace(LINKED, interconnect=None)
    assert LINKED.interconnect is not None
    near = replace(LINKED, interconnect=replace(LINKED.interconnect, scale_out_bytes_per_s=1.0))
    for hardware, placement, said in (
        (alone, Placement(8), "interconnect.link_bytes_per_s .* 8 devices"),
        (LINKED, Placement(16), "max_devices is 8, .*scale_out_bytes_per_s.* 16 devices"),
        # Nor half of them in two nodes, though the links of one reach all.
        (LINKED, Placement(8, nodes=2), "scale_out_bytes_per_s"),
        # Links between nodes whose latency the engine does not say.
        (near, Placement(16), "interconnect.max_devices is 8; engine real "),
    ):
        with pytest.raises(ProfileError, match=said):
            exchange_s("attention", placement, hardware)
    # The ideal engine has no communication, so that it needs no link.
    followed = operation(collective=BlockExchange("attention", np.array(800.0)))
    assert timed(followed, hardware=alone, placement=Placement(16)).communication_s == 0


# --- memory --------------------------------------------------------------------------------------


def test_a_device_holds_its_share_by_hand() -> None:
    # Attention of 16 * 64 weights by heads, 4 KV heads; a feed-forward of 16 * 16; embedding and
    # head of 16 * 96: all bf16. A sequence of 10 caches 4 * 16 * 2 * 10 = 1280 bytes.
    blocks = (
        Block(
            "attention",
            (Linear("q_proj", 16, 64, shard=HEADS), Linear("k_proj", 16, 32, shard=by_kv_heads(4))),
            GroupedQueryAttention(8, 4, 8, 8),
        ),
        Block("feed_forward", (Linear("up_proj", 16, 16, shard=TENSOR),)),
    )
    parts = storage(model(*blocks), 10)
    q_proj, k_proj, up_proj, vocabulary, cache = 2048, 1024, 512, 6144, 1280
    for placement, held in (
        (ONE, q_proj + k_proj + up_proj + vocabulary + 6 * cache),
        (Placement(2), (q_proj + k_proj + up_proj + vocabulary + 6 * cache) / 2),
        # Four KV heads over eight devices: keys and their projections lie there twice.
        (Placement(8), q_proj / 8 + k_proj / 4 + (up_proj + vocabulary) / 8 + 6 * cache / 4),
        # Two groups of four: attention weights and the embedding lie there twice, sequences once.
        (
            Placement(8, attention_data_parallel=2),
            (q_proj + k_proj + vocabulary / 2) / 4 + (up_proj + vocabulary / 2) / 8 + 6 * cache / 8,
        ),
    ):
        assert device_bytes(parts, placement, 6) == held
    assert device_bytes(parts, ONE, [0, 6]).tolist() == [9728, 9728 + 7680]


# --- experts spread over devices: the fullest one by dice ----------------------------------------


def fullest(n_experts: int, top_k: int, tokens: float, devices: int) -> tuple[float, float]:
    """Return experts hit and visits of the fullest device, in means of all."""
    count = np.array(float(tokens))
    routing = Routing(n_experts, top_k, 0, count, distinct_experts(count, n_experts, top_k))
    experts, visits = fullest_device(routing, devices)
    return float(experts), float(visits)


def thrown(
    n_experts: int, top_k: int, tokens: int, devices: int, rounds: int
) -> tuple[float, float]:
    """Return the same by dice, with the mean of all devices as counted."""
    dice = np.random.default_rng(20_261)
    device_of = np.arange(n_experts) * devices // n_experts
    hit, visits = np.zeros((2, rounds, devices))
    for row in range(rounds):
        scores = dice.random((tokens, n_experts))
        chosen = np.argpartition(scores, top_k - 1, axis=-1)[:, :top_k]
        visits[row] = np.bincount(device_of[chosen.ravel()], minlength=devices)
        hit[row] = np.bincount(device_of[np.unique(chosen)], minlength=devices)
    return tuple(counts.max(axis=1).mean() / counts.mean() for counts in (hit, visits))


@pytest.mark.parametrize(
    ("n_experts", "top_k", "tokens", "devices", "off"), rows("values", "fullest_devices")
)
def test_the_fullest_device_is_that_of_dice(
    n_experts: int, top_k: int, tokens: int, devices: int, off: float
) -> None:
    expected = thrown(n_experts, top_k, tokens, devices, rounds=1500 if tokens < 100 else 200)
    assert fullest(n_experts, top_k, tokens, devices) == pytest.approx(expected, rel=off)


@given(st.integers(1, 512), st.data(), st.integers(2, 256), st.floats(1, 4096), st.floats(1, 100))
def test_more_tokens_never_make_the_fullest_device_relatively_fuller(
    n_experts: int, data: st.DataObject, devices: int, tokens: float, factor: float
) -> None:
    top_k = data.draw(st.integers(1, n_experts))
    few = fullest(n_experts, top_k, tokens, devices)
    many = fullest(n_experts, top_k, tokens * factor, devices)
    for less, more in zip(many, few, strict=True):
        assert less * (1 + 1e-12) >= 1
        assert less <= more * (1 + 1e-9)
        # One device has all that there is, at most.
        assert more <= devices * (1 + 1e-9)


def test_one_token_and_a_device_for_each_expert() -> None:
    # k of E devices have one visit each; of twice as many devices half have nothing to do.
    assert fullest(64, 8, 1, 64) == pytest.approx((8, 8))
    assert fullest(64, 8, 1, 128) == pytest.approx((16, 16))
    # All experts are visited by every token: nothing is left to chance.
    assert fullest(8, 8, 3, 4) == pytest.approx((1, 1))
    assert fullest(1, 1, 3, 1) == pytest.approx((1, 1))


QWEN = "Qwen/Qwen3-30B-A3B"  # 128 experts, 8 of them for a token


def experts_of(engine: str, placement: Placement, tokens: int) -> tuple[float, float, float]:
    """Return seconds of the experts' arithmetic and memory, and the rows of one that is hit."""
    chip = load_hardware("h100")
    setup = Setup(chip, chip.engine(engine), placement, Options(experts="exact"))
    ops = model_latency(load_model(QWEN), setup, forward_pass(tokens, 1, 100)).ops
    (experts,) = (op for op in ops if op.op.kind == "experts")
    return float(experts.compute_s), float(experts.memory_s), float(present(experts.op.rows))


def test_the_fullest_device_decides_what_spread_experts_take() -> None:
    _, sliced_s, rows = experts_of("vllm", Placement(8), 16)
    _, spread_s, spread_rows = experts_of("vllm", Placement(8, expert_parallel=8), 16)
    experts, visits = thrown(128, 8, 16, 8, rounds=1500)
    assert spread_s / sliced_s == pytest.approx(experts, rel=0.02)
    assert spread_rows / rows == pytest.approx(visits / experts, rel=0.02)
    # In many tokens chance evens out, and on the ideal engine it always has.
    for engine, tokens, off in (("vllm", 65536, 0.02), ("ideal", 16, 1e-12)):
        alike = [experts_of(engine, Placement(8, spread), tokens) for spread in (1, 8)]
        assert alike[0] == pytest.approx(alike[1], rel=off)


def test_shared_experts_in_the_same_matmul_are_divided_evenly() -> None:
    # Half of the visits are of the shared expert, so that half of the unevenness counts.
    core = Experts(n_experts=16, top_k=1, in_features=8, hidden_features=4, n_shared=1)
    layer = Layer((Block("feed_forward", (), core),))
    toy = Architecture("toy", "llama", 8, 9, (layer,), Linear("lm_head", 8, 9))
    chip = load_hardware("h100")
    setups = [
        Setup(chip, EngineProfile(name="vllm"), Placement(8, spread), Options())
        for spread in (1, 8)
    ]
    even, uneven = (model_latency(toy, setup, forward_pass(8, 1, 0)).ops[0] for setup in setups)
    experts, visits = fullest(16, 1, 8, 8)
    hit = float(distinct_experts(np.array(8.0), 16, 1))
    assert uneven.compute_s / even.compute_s == pytest.approx((visits + 1) / 2)
    assert uneven.memory_s / even.memory_s == pytest.approx((hit * experts + 1) / (hit + 1))
    # Each of 8 tokens visits one of its own, and the shared one: which kernel runs is of tokens.
    assert [*map(float, _visits_and_tokens(even.op))] == pytest.approx([16, 8])


@pytest.mark.golden
@pytest.mark.parametrize(
    ("devices", "dispatch_us", "combine_us"),
    [(16, 118, 195), (32, 155, 273), (64, 173, 314), (128, 192, 369), (256, 194, 360)],
)
def test_tokens_are_sent_in_the_published_time(
    devices: int, dispatch_us: int, combine_us: int
) -> None:
    # DeepEP, docs/legacy.md, low-latency kernels: 128 tokens a device, 8 of 7168 elements in fp8
    # there and bf16 back, H800 with 160 GB/s in a node and 400 Gb/s each between them. The floors
    # come from 8 devices; its own share of the link falls from 64 devices on, by up to 17 %.
    kernels = present(EngineProfile(name="sglang").all_to_all(devices, 8))
    # Seconds there and back, and of no byte there.
    both_s, back_s = (
        on_links_s(
            Interconnect(link_bytes_per_s=160e9, max_devices=8, scale_out_bytes_per_s=50e9),
            Collective(latency_s=1.0, scale_out_latency_s=1.0),
            Placement(devices, expert_parallel=devices, attention_data_parallel=devices),
            128.0 * devices * 14336,
            block="experts",
            copies=8,
            dispatch_frac=dispatched,
        )
        for dispatched in (7392 / 14336, 0.0)
    )
    combine_s = back_s - kernels.dispatch_latency_s
    for seconds, printed in ((both_s - combine_s, dispatch_us), (combine_s, combine_us)):
        assert 0.83 * printed <= seconds * 1e6 <= printed


def test_messages_up_to_the_largest_of_one_shot_are_read_from_all_others() -> None:
    # 1 GB/s: 7 messages of a MB in 7 ms; a ring of a tenth of that takes 17.5 ms for each MB, of
    # half of it 3.5 ms, so that 1.5 MB take as long as one.
    links = Interconnect(link_bytes_per_s=1e9, max_devices=8)
    for frac, expected in ((0.1, [7e-3, 26.25e-3, 70e-3]), (0.5, [7e-3, 7e-3, 14e-3])):
        reached = Collective(link_frac=frac, latency_s=0.0, one_shot_frac=1.0, one_shot_bytes=1e6)
        found = [on_links_s(links, reached, Placement(8), size) for size in (1e6, 1.5e6, 4e6)]
        assert found == pytest.approx(expected)


def test_a_node_that_is_not_full_is_a_node() -> None:
    links = Interconnect(link_bytes_per_s=160e9, max_devices=8, scale_out_bytes_per_s=50e9)
    reached = Collective(latency_s=1e-6, scale_out_latency_s=1e-5)
    one, some, two = (on_links_s(links, reached, Placement(n), 1e6) for n in (8, 12, 16))
    assert one < some == two


@pytest.mark.parametrize(
    ("name", "copies", "element_bytes"),
    [
        # Experts in fp8 blocks, in bf16 and in 4-bit floats of 16 to a scale.
        ("deepseek-ai/DeepSeek-R1", 8, 1 + 4 / 128),
        ("Qwen/Qwen3-30B-A3B", 8, 2),
        ("nvidia/DeepSeek-V3.1-NVFP4", 8, 0.5 + 1 / 16),
    ],
)
def test_bytes_of_dispatch_and_combine_by_hand(
    name: str, copies: int, element_bytes: float
) -> None:
    # 4 sequences with 2 tokens: on the way back each has `hidden_size` elements of two bytes.
    served = load_model(name)
    ops = forward_cost(served, forward_pass(4, 2, 100))
    exchanges = [op.collective for op in ops if op.collective is not None]
    (exchange,) = (exchange for exchange in exchanges if exchange.block == "experts")
    assert exchange.copies == copies
    assert float(exchange.message_bytes) == 4 * 2 * served.hidden_size * 2
    dispatched = exchange.message_bytes * exchange.dispatch_frac
    assert float(dispatched) == 4 * 2 * served.hidden_size * element_bytes


@pytest.mark.parametrize(
    ("place", "wider"),
    [
        (Placement(8), False),
        (Placement(16, nodes=2), True),
        (Placement(4, pipeline_parallel=2, nodes=1), True),
    ],
)
def test_bands_that_nobody_measured_are_said_to_be_wider(place: Placement, wider: bool) -> None:
    setup = engine_setup(load_hardware("h100"), "vllm", place, None)
    notes = setup_notes(load_model("Qwen/Qwen3-32B"), setup)
    assert any("bands are wider" in note for note in notes) is wider


@pytest.mark.parametrize(
    ("place", "model", "said"),
    # vLLM config/parallel.py: all2all_backend gathers all tokens by default.
    [
        (Placement(16, 16, 16, nodes=2), "deepseek-ai/DeepSeek-V3", True),
        (Placement(8, 8, 8), "deepseek-ai/DeepSeek-V3", False),
        (
            Placement(16, 16, nodes=2),
            "deepseek-ai/DeepSeek-V3",
            False,
        ),  # every device has all tokens
        (Placement(16, nodes=2), "Qwen/Qwen3-32B", False),
    ],
)
def test_kernels_that_a_server_has_to_be_told_of_are_said(
    place: Placement, model: str, *, said: bool
) -> None:
    setup = engine_setup(load_hardware("h200"), "vllm", place, None)
    notes = [*setup_notes(load_model(model), setup)]
    assert any("--all2all-backend" in note and "which is 256" in note for note in notes) is said


@pytest.mark.parametrize(("dtype", "said"), [("fp16", True), ("bf16", False)])
def test_a_cache_that_a_server_refuses_beside_activations_is_said(dtype: str, said: bool) -> None:
    # vLLM config/vllm.py:1492: 16 bits of the activations, bf16, alone.
    setup = engine_setup(load_hardware("h100"), "vllm", None, Options(kv_dtype=dtype))
    notes = [*setup_notes(load_model("Qwen/Qwen3-8B"), setup)]
    assert any("--kv-cache fp16 is refused" in note for note in notes) is said


@pytest.mark.parametrize("tokens", [512, 8192])  # in a graph, and in none
def test_decoding_beside_a_prompt_of_one_group_waits_for_all_of_it(tokens: int) -> None:
    # Eight groups: seven have nothing of the prompt, so that a pass is no sooner than it is alone.
    placement = Placement(8, attention_data_parallel=8)
    setup = engine_setup(load_hardware("h200"), "vllm", placement, None)
    served = Deployment(load_model("deepseek-ai/DeepSeek-V3"), setup)
    prompt, decoding = prefill_pass(tokens), ForwardPass(8, 1, 0)
    alone_s, decode_s = (float(engine_pass_s(served, one)) for one in (prompt, decoding))
    both_s = float(engine_pass_s(served, decoding, Work(served.model, prompt, kind="prompts")))
    assert alone_s < both_s < alone_s + decode_s
