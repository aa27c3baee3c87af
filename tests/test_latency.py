"""Seconds of a pass: rooflines, placements, engines and collectives, by hand and by dealing out."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from known_passes import pass_latency
from specroof import forward_latency, load_drafter, speedup_curve
from specroof.architecture import (
    ATTENTION_REPLICATED,
    FEED_FORWARD_REPLICATED,
    HEADS,
    TENSOR,
    Architecture,
    Block,
    CompressedAttention,
    Core,
    Experts,
    GatedDeltaNet,
    GroupedQueryAttention,
    LatentAttention,
    Layer,
    Linear,
    Shard,
    by_kv_heads,
    cache_only,
)
from specroof.cost import BlockExchange, ForwardPass, OpCost, Options, forward_cost, storage
from specroof.errors import OptionError, ProfileError
from specroof.hardware import IDEAL_ENGINE, Collective, HardwareProfile, Interconnect, Placement
from specroof.latency import PassLatency, Setup
from specroof.latency.pass_seconds import (
    PassShape,
    all_reduce_s,
    all_to_all_s,
    hierarchical_all_reduce_s,
)
from specroof.latency.setup import device_bytes
from strategies import (
    Grid,
    architectures,
    batches,
    contexts,
    device,
    devices,
    forward_pass,
    grids,
    options,
    passes,
    placements,
    real_engine,
    small,
)

ONE = Placement()
#: One FLOP and one byte per second: times are amounts.
UNIT = device({"bf16": 1.0, "fp16": 1.0}, 1.0)


def operation(
    flops: float = 0,
    weight_bytes: float = 0,
    cache_bytes: float = 0,
    activation_bytes: float = 0,
    dtype: str = "bf16",
    shard: Shard = TENSOR,
    count: int = 1,
    collective: BlockExchange | None = None,
) -> OpCost:
    return OpCost(
        name="op",
        kind="dense",
        count=count,
        flops=np.array(float(flops)),
        weight_bytes=np.array(float(weight_bytes)),
        cache_bytes=np.array(float(cache_bytes)),
        activation_bytes=np.array(float(activation_bytes)),
        compute_dtype=dtype,
        shard=shard,
        collective=collective,
    )


def timed(
    *ops: OpCost,
    hardware: HardwareProfile = UNIT,
    engine: str = "ideal",
    placement: Placement = ONE,
    choices: Options | None = None,
) -> PassLatency:
    setup = Setup(hardware, hardware.engine(engine), placement, choices or Options())
    return pass_latency(ops, setup, PassShape(1, 1))


def model(*blocks: Block) -> Architecture:
    head = Linear("lm_head", 16, 96, shard=TENSOR, kind="head")
    return Architecture("toy", "llama", 16, 96, (Layer(blocks),), head)


def attending(core: Core) -> Architecture:
    return model(Block("attention", (), core))


# --- the roofline --------------------------------------------------------------------------------


def test_an_operation_takes_the_longer_of_arithmetic_and_memory() -> None:
    # 100 FLOP at 10 per second; 1 + 2 + 3 bytes at 2 per second; three times.
    hardware = device({"bf16": 10.0}, 2.0)
    latency = timed(operation(100, 1, 2, 3, count=3), hardware=hardware)
    (op,) = latency.ops
    assert [float(op.compute_s), float(op.memory_s), float(op.seconds)] == [30, 9, 30]
    assert latency.total_s == latency.work_s == 30
    (op,) = timed(operation(10, 10, 20, 30), hardware=hardware).ops
    assert [float(op.compute_s), float(op.memory_s), float(op.seconds)] == [1, 30, 30]


def test_granularities_by_hand() -> None:
    # Seconds of arithmetic and memory: bf16 (3, 1) and (1, 4), fp8 (2, 0.5).
    hardware = device({"bf16": 1.0, "fp8": 1.0}, 1.0)
    ops = (operation(3, 1), operation(1, 4), operation(2, 0.5, dtype="fp8"))
    by_hand = {
        "op": 3 + 4 + 2,
        "dtype": max(3 + 1, 1 + 4) + max(2, 0.5),
        "pass": max(3 + 1 + 2, 1 + 4 + 0.5),
    }
    for granularity, seconds in by_hand.items():
        choices = Options(granularity=granularity)
        assert timed(*ops, hardware=hardware, choices=choices).total_s == seconds


def test_a_dtype_that_falls_back_shares_the_bucket_of_its_stand_in() -> None:
    # Without fp8 units all of it is bf16 work: max(6, 5.5) in one bucket.
    ops = (operation(3, 1), operation(1, 4), operation(2, 0.5, dtype="fp8"))
    assert timed(*ops, choices=Options(granularity="dtype")).total_s == 6


@given(architectures(), passes, devices(), placements(), options)
def test_coarser_granularity_is_never_slower(
    toy: Architecture,
    forward: ForwardPass,
    hardware: HardwareProfile,
    placement: Placement,
    choices: Options,
) -> None:
    seconds = [
        float(
            forward_latency(
                toy,
                hardware,
                forward,
                placement=placement,
                options=replace(choices, granularity=granularity),
            ).total_s
        )
        for granularity in ("pass", "dtype", "op")
    ]
    assert seconds[0] <= seconds[1] * (1 + 1e-12)
    assert seconds[1] <= seconds[2] * (1 + 1e-12)


def faster(hardware: HardwareProfile, factor: float) -> HardwareProfile:
    """Return a device with `factor` times the arithmetic and the memory rate."""
    peak = hardware.peak
    return device(
        {dtype: factor * figure for dtype, figure in peak.flops_per_s.items()},
        factor * peak.memory_bytes_per_s,
        peak.memory_bytes,
        hardware.interconnect,
    )


@given(architectures(), passes, devices(), placements(), options)
def test_doubling_every_peak_halves_every_time(
    toy: Architecture,
    forward: ForwardPass,
    hardware: HardwareProfile,
    placement: Placement,
    choices: Options,
) -> None:
    slow, fast = (
        forward_latency(toy, chip, forward, placement=placement, options=choices)
        for chip in (hardware, faster(hardware, 2))
    )
    # A power of two changes no digit: this is exact.
    assert slow.total_s == 2 * fast.total_s
    for before, after in zip(slow.ops, fast.ops, strict=True):
        assert before.compute_s == 2 * after.compute_s
        assert before.memory_s == 2 * after.memory_s


@given(architectures(), devices(), placements(), options, batches, small, contexts)
def test_a_larger_batch_never_shortens_a_pass(
    toy: Architecture,
    hardware: HardwareProfile,
    placement: Placement,
    choices: Options,
    batch: int,
    queries: int,
    context: int,
) -> None:
    both = ForwardPass(batch_size=[batch, batch + 1], query_len=queries, context_len=context)
    seconds = forward_latency(toy, hardware, both, placement=placement, options=choices).total_s
    assert seconds[1] >= seconds[0] * (1 - 1e-12)


@pytest.mark.slow
@pytest.mark.long
@given(architectures(), devices(), placements(), options, grids)
def test_array_input_equals_the_loop_over_scalars(
    toy: Architecture,
    hardware: HardwareProfile,
    placement: Placement,
    choices: Options,
    grid: Grid,
) -> None:
    whole = forward_latency(toy, hardware, grid.forward, placement=placement, options=choices)
    for row, column, position in np.ndindex(grid.shape):
        single = forward_pass(grid.batches[column], grid.queries[position], grid.contexts[row])
        alone = forward_latency(toy, hardware, single, placement=placement, options=choices)
        assert np.broadcast_to(whole.total_s, grid.shape)[row, column, position] == (
            pytest.approx(float(alone.total_s), rel=1e-12)
        )


@pytest.mark.parametrize(
    "core",
    [
        GroupedQueryAttention(16, 2, 8, 8),
        GatedDeltaNet(16, 16, 4, 4, conv_kernel=4, conv_columns=3),
        Experts(8, 2, 16, 8),
    ],
)
def test_seconds_have_the_shape_that_the_pass_broadcasts_to(core: Core) -> None:
    # Linear attention looks at no context, and its pass has that axis all the same.
    grid = Grid(contexts=(5, 50, 500), batches=(1, 2), queries=(1, 2, 3, 4))
    assert forward_latency(attending(core), UNIT, grid.forward).total_s.shape == (3, 2, 4)


# --- dtypes --------------------------------------------------------------------------------------


def test_a_missing_dtype_falls_back_with_one_note() -> None:
    hardware = device({"bf16": 1.0, "fp8": 2.0}, 1.0)
    ops = (operation(8, dtype="fp4"), operation(8, dtype="fp4"), operation(8, dtype="bf16"))
    latency = timed(*ops, hardware=hardware)
    assert [op.compute_dtype for op in latency.ops] == ["fp8", "fp8", "bf16"]
    assert [float(op.compute_s) for op in latency.ops] == [4, 4, 8]
    assert latency.notes == ("toy device has no fp4 arithmetic: fp8 stands in",)


def test_a_dtype_that_is_there_needs_no_note() -> None:
    assert timed(operation(8)).notes == ()


def test_a_missing_dtype_is_an_error_where_asked_for() -> None:
    with pytest.raises(ProfileError, match="toy device has no flops_per_s for 'fp4'; it has bf16"):
        timed(operation(8, dtype="fp4"), choices=Options(strict_dtype=True))
    strict = timed(operation(8), choices=Options(strict_dtype=True))
    assert strict.total_s == 8


def test_nothing_wider_to_fall_back_on_is_an_error() -> None:
    with pytest.raises(ProfileError, match="no flops_per_s for 'fp32' or a wider dtype"):
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


@pytest.mark.parametrize(
    "core",
    [
        LatentAttention(16, 32, 8),
        CompressedAttention(16, 32, 8, window=8, ratio=4),
    ],
)
def test_a_latent_cache_is_read_whole_by_every_device_of_a_group(core: Core) -> None:
    def attention(placement: Placement) -> tuple[float, float]:
        op = forward_latency(
            attending(core), UNIT, forward_pass(16, 2, 40), placement=placement
        ).ops[0]
        return float(op.compute_s), float(op.memory_s)

    flops, cache_bytes = attention(ONE)
    # Query heads divide the arithmetic over all devices; the latent has no heads to divide by.
    assert attention(Placement(8)) == (flops / 8, cache_bytes)
    # Groups of two attend to a quarter of the sequences each.
    assert attention(Placement(8, attention_data_parallel=4)) == (flops / 8, cache_bytes / 4)
    assert attention(Placement(8, attention_data_parallel=8)) == (flops / 8, cache_bytes / 8)


def test_a_recurrent_state_divides_by_heads_and_sequences() -> None:
    core = GatedDeltaNet(16, 16, 4, 4, conv_kernel=4, conv_columns=3)

    def state(placement: Placement) -> tuple[float, float]:
        _, op, _ = forward_latency(
            attending(core), UNIT, forward_pass(8, 2, 9), placement=placement
        ).ops
        return float(op.compute_s), float(op.memory_s)

    flops, moved = state(ONE)
    for placement in (Placement(8), Placement(8, attention_data_parallel=2)):
        assert state(placement) == (flops / 8, moved / 8)


@pytest.mark.parametrize(
    ("shard", "groups", "compute_ways", "weight_ways", "cache_ways"),
    [
        # Devices 8. Feed-forward work divides over all, whatever the groups of attention.
        (TENSOR, 1, 8, 8, 8),
        (TENSOR, 4, 8, 8, 8),
        (FEED_FORWARD_REPLICATED, 1, 1, 1, 1),
        (FEED_FORWARD_REPLICATED, 4, 1, 1, 1),
        # Groups divide sequences, with them arithmetic and cache; weights repeat in each.
        (HEADS, 1, 8, 8, 8),
        (HEADS, 4, 8, 2, 8),
        (HEADS, 8, 8, 1, 8),
        (ATTENTION_REPLICATED, 1, 1, 1, 1),
        (ATTENTION_REPLICATED, 4, 4, 1, 4),
        # Two KV heads: beyond two devices of a group they repeat.
        (by_kv_heads(2), 1, 2, 2, 2),
        (by_kv_heads(2), 2, 4, 2, 4),
        (by_kv_heads(2), 8, 8, 1, 8),
        (cache_only(2), 1, 8, 8, 2),
        (cache_only(2), 2, 8, 4, 4),
    ],
)
def test_the_table_of_what_divides(
    shard: Shard, groups: int, compute_ways: int, weight_ways: int, cache_ways: int
) -> None:
    placement = Placement(8, attention_data_parallel=groups)

    def of(**amount: float) -> tuple[float, float]:
        amounts: dict[str, Any] = {name: np.array(size) for name, size in amount.items()}
        op = replace(operation(shard=shard), **amounts)
        setup = Setup(UNIT, IDEAL_ENGINE, placement, Options())
        (timed_op,) = pass_latency([op], setup, PassShape(1, 64)).ops
        return float(timed_op.compute_s), float(timed_op.memory_s)

    assert of(flops=64) == (64 / compute_ways, 0)
    assert of(weight_bytes=64) == (0, 64 / weight_ways)
    assert of(cache_bytes=64) == (0, 64 / cache_ways)
    # Outputs lie where they are computed.
    assert of(activation_bytes=64) == (0, 64 / compute_ways)


def test_experts_divide_over_all_devices_however_they_are_dealt() -> None:
    moe = model(Block("feed_forward", (), Experts(16, 2, 16, 8)))
    alone = forward_latency(moe, UNIT, forward_pass(4)).ops[0]
    for expert_parallel in (1, 2, 8):
        placement = Placement(8, expert_parallel)
        spread = forward_latency(moe, UNIT, forward_pass(4), placement=placement).ops[0]
        assert spread.compute_s == alone.compute_s / 8
        assert spread.memory_s == alone.memory_s / 8


def test_one_sequence_keeps_one_group_busy_however_many_there_are() -> None:
    # Groups attend to whole sequences: seven of eight have nothing to do.
    core = attending(GroupedQueryAttention(16, 2, 8, 8))
    groups = Placement(8, attention_data_parallel=8)
    alone = forward_latency(core, UNIT, forward_pass(1, 1, 99)).ops[0]
    spread = forward_latency(core, UNIT, forward_pass(1, 1, 99), placement=groups).ops[0]
    assert spread.compute_s == alone.compute_s
    assert spread.memory_s == alone.memory_s


@given(architectures(), devices(), options, passes, placements())
def test_more_devices_never_lengthen_a_pass_on_the_ideal_engine(
    toy: Architecture,
    hardware: HardwareProfile,
    choices: Options,
    forward: ForwardPass,
    placement: Placement,
) -> None:
    alone = forward_latency(toy, hardware, forward, options=choices).total_s
    spread = forward_latency(toy, hardware, forward, options=choices, placement=placement).total_s
    assert spread <= alone * (1 + 1e-12)
    assert spread >= alone / placement.devices * (1 - 1e-12)


def test_query_heads_that_do_not_divide_are_refused() -> None:
    twelve = attending(GroupedQueryAttention(12, 4, 8, 8))
    with pytest.raises(OptionError, match="do not divide the 12 query heads of toy"):
        forward_latency(twelve, UNIT, forward_pass(), placement=Placement(8))
    # Four groups of two devices do.
    groups = Placement(8, attention_data_parallel=4)
    assert forward_latency(twelve, UNIT, forward_pass(), placement=groups).total_s > 0


# --- engines -------------------------------------------------------------------------------------

HALF = real_engine(compute_frac={"bf16": 0.5}, memory_frac=0.25)
SLOW = real_engine(
    pass_overhead_s=3.0,
    layer_overhead_s=0.5,
    sequence_overhead_s=0.25,
    round_overhead_s=100.0,  # of a round, not of a pass
)


def test_an_engine_reaches_a_share_of_each_peak() -> None:
    hardware = device({"bf16": 8.0, "fp8": 16.0}, 4.0, engine=HALF)
    latency = timed(operation(8, 4), operation(16, dtype="fp8"), hardware=hardware, engine="real")
    # Half of 8 FLOP/s, a quarter of 4 bytes/s; all of the fp8 peak, which is not listed.
    assert [float(op.compute_s) for op in latency.ops] == [2, 1]
    assert [float(op.memory_s) for op in latency.ops] == [4, 0]


def test_the_share_is_that_of_the_dtype_that_stands_in() -> None:
    hardware = device({"bf16": 8.0}, 4.0, engine=HALF)
    (op,) = timed(operation(8, dtype="fp8"), hardware=hardware, engine="real").ops
    assert op.compute_s == 2


def test_an_engine_adds_to_every_pass_layer_and_sequence() -> None:
    hardware = device({"bf16": 1.0}, 1.0, engine=SLOW)
    setup = Setup(hardware, hardware.engine("real"), ONE, Options())
    latency = pass_latency([operation(7)], setup, PassShape(6, np.array([4.0, 8.0])))
    assert latency.work_s == 7
    assert latency.communication_s == 0
    # 3 + 6 * 0.5 + 4 or 8 times 0.25
    assert latency.overhead_s.tolist() == [7, 8]
    assert latency.total_s.tolist() == [14, 15]


def test_groups_of_attention_schedule_sequences_of_their_own() -> None:
    engine = real_engine(
        sequence_overhead_s=0.25, host_s=2.0, host_sequence_s=0.5, overlap=False,
        serial_step_overhead_s=1.0, serial_sequence_overhead_s=0.125,
        round_sequence_overhead_s=3.0,
    )  # fmt: skip
    hardware = device({"bf16": 1.0}, 1.0, engine=engine)
    setup = Setup(hardware, hardware.engine("real"), ONE, Options())
    shape = PassShape(6, 32, serial_steps=2, groups=8)
    # 4 sequences each: 4 * 0.25, 2 + 4 * 0.5 of a host that is waited for, 2 * (1 + 4 * 0.125)
    assert pass_latency([operation(7)], setup, shape).overhead_s == 1 + 4 + 3
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


def test_layers_of_a_model_are_counted_for_their_overhead() -> None:
    layer = Layer((Block("feed_forward", (Linear("up_proj", 16, 16),)),), count=6)
    deep = replace(model(), layers=(layer, layer))
    hardware = device(engine=real_engine(layer_overhead_s=0.5))
    latency = forward_latency(deep, hardware, forward_pass(3, 2), engine="real")
    assert latency.overhead_s == 6.0  # 12 layers of half a second


@given(architectures(), passes, devices(), placements(), options)
def test_the_ideal_engine_loses_nothing(
    toy: Architecture,
    forward: ForwardPass,
    hardware: HardwareProfile,
    placement: Placement,
    choices: Options,
) -> None:
    latency = forward_latency(toy, hardware, forward, placement=placement, options=choices)
    assert np.all(latency.communication_s == 0)
    assert np.all(latency.overhead_s == 0)
    assert np.all(latency.total_s == latency.work_s)


# --- collectives ---------------------------------------------------------------------------------


def test_published_collectives_by_hand() -> None:
    # 8 devices, 8 MB, 1 TB/s, 1 µs. Ring: 1 + 2 * 7/8 * 8 µs; in the switch: 1 + 8;
    # all-to-all: 1 + 7/8 * 8.
    link: dict[str, Any] = {"devices": 8, "link_bytes_per_s": 1e12, "latency_s": 1e-6}
    assert float(all_reduce_s(8e6, **link)) == pytest.approx(15e-6)
    assert float(all_reduce_s(8e6, **link, in_switch_reduce=True)) == pytest.approx(9e-6)
    assert float(all_to_all_s(8e6, **link)) == pytest.approx(8e-6)
    # Two nodes of 8, 100 GB/s and 10 µs between: twice 1 + 7 inside; of the 1 MB that a device
    # then holds 2 * 1/2 goes across, 10 + 10.
    hierarchical = hierarchical_all_reduce_s(
        8e6,
        nodes=2,
        node_devices=8,
        link_bytes_per_s=(1e12, 100e9),
        latency_s=(1e-6, 10e-6),
    )
    assert float(hierarchical) == pytest.approx(36e-6)


@given(st.integers(2, 8), st.integers(1, 100))
def test_a_ring_all_reduce_matches_a_simulation(devices: int, chunk: int) -> None:
    # Every device holds a vector of g chunks. In each of g - 1 steps it passes one chunk on, which
    # the next adds to its own; in g - 1 more the sums go round.
    held = [[rank + 1] * devices for rank in range(devices)]
    sent = 0
    for step in range(2 * (devices - 1)):
        passed = [held[rank][(rank - step) % devices] for rank in range(devices)]
        for rank in range(devices):
            index, value = (rank - 1 - step) % devices, passed[rank - 1]
            held[rank][index] = value + (held[rank][index] if step < devices - 1 else 0)
        sent += chunk
    assert held == [[devices * (devices + 1) // 2] * devices] * devices
    message = devices * chunk
    seconds = all_reduce_s(message, devices=devices, link_bytes_per_s=1.0, latency_s=0.5)
    assert float(seconds) == pytest.approx(0.5 + sent)


def test_collectives_take_arrays() -> None:
    link: dict[str, Any] = {"devices": 2, "link_bytes_per_s": 1.0, "latency_s": 1.0}
    assert all_reduce_s(np.array([1, 3]), **link).tolist() == [2, 4]
    assert all_to_all_s(np.array([2, 4]), **link).tolist() == [2, 3]


def linked(*, in_switch_reduce: bool = False) -> HardwareProfile:
    """Return a device on a link of 100 bytes/s, half of which is reached, in messages of 2 s."""
    return device(
        {"bf16": 1.0},
        1.0,
        interconnect=Interconnect(link_bytes_per_s=100.0, max_devices=8),
        engine=real_engine(
            collective=Collective(latency_s=2.0, link_frac=0.5, in_switch_reduce=in_switch_reduce)
        ),
    )


LINKED = linked()


def exchange_s(
    block: str,
    placement: Placement,
    *,
    copies: int = 1,
    dispatch_frac: float = 1.0,
    batch: int = 8,
    settled: bool = False,
    hardware: HardwareProfile = LINKED,
) -> float:
    """Return the seconds after two blocks with an output of 800 bytes."""
    exchange = BlockExchange(block, np.array(800.0), copies, dispatch_frac)
    ops = [operation(count=2, collective=exchange), operation()]
    setup = Setup(hardware, hardware.engine("real"), placement, Options())
    shape = PassShape(1, batch)
    return float(pass_latency(ops, setup, shape, settled=settled).communication_s)


@pytest.mark.parametrize("block", ["attention", "feed_forward", "experts"])
@pytest.mark.parametrize("expert_parallel", [1, 2, 8])
def test_tensor_parallel_blocks_end_in_an_all_reduce(block: str, expert_parallel: int) -> None:
    # Whatever the expert parallelism: 2 + 2 * 7/8 * 800 / 50 = 30, twice.
    assert exchange_s(block, Placement(8, expert_parallel), copies=6) == 60


def test_two_devices_exchange_as_much_as_they_hold() -> None:
    # 2 + 2 * 1/2 * 800 / 50 = 18, twice.
    assert exchange_s("attention", Placement(2)) == 36


def test_data_parallel_attention_reduces_within_its_groups() -> None:
    # Four groups of two: a group's output is 200 bytes: 2 + 2 * 1/2 * 200 / 50 = 6, twice.
    assert exchange_s("attention", Placement(8, attention_data_parallel=4)) == 12
    # A group of one device has nobody to ask.
    assert exchange_s("attention", Placement(8, attention_data_parallel=8)) == 0


def nodes_of(devices: int, *, scale_out_bytes_per_s: float, **engine: Any) -> HardwareProfile:
    """Return a device whose nodes are joined by links of their own."""
    use = Collective(latency_s=2.0, link_frac=0.5, scale_out_latency_s=0.5)
    links = Interconnect(
        link_bytes_per_s=100.0,
        max_devices=devices,
        scale_out_bytes_per_s=scale_out_bytes_per_s,
    )
    profile = real_engine(collective=use, **engine)
    return device({"bf16": 1.0}, 1.0, interconnect=links, engine=profile)


#: Microseconds of kernels that send tokens, of DeepEP and, one-sided, of TensorRT-LLM.
DEEP_EP, ONE_SIDED = 36e-6 + 34e-6, 18.9e-6 + 31e-6


def test_experts_of_two_nodes_send_and_receive_tokens() -> None:
    # Each of 8 devices sends 800 * 6 / 8 bytes, 300 of them within its node of 4: there and back
    # 3/4 * 300 / 50 = 4.5, twice. What leaves the node is faster.
    nodes = nodes_of(4, scale_out_bytes_per_s=1e6)
    placement = Placement(8, 8, attention_data_parallel=8)
    sent = exchange_s("experts", placement, copies=6, hardware=nodes)
    assert sent == pytest.approx(2 * (2 * 4.5 + DEEP_EP), rel=1e-12)
    # In a third of the bytes there, and in all of them back.
    less = exchange_s("experts", placement, copies=6, dispatch_frac=1 / 3, hardware=nodes)
    assert less == pytest.approx(2 * (4.5 + 1.5 + DEEP_EP), rel=1e-12)
    # Slow links between nodes: half of 600 bytes at 0.5 * 30 bytes/s.
    slow = exchange_s(
        "experts", placement, copies=6, hardware=nodes_of(4, scale_out_bytes_per_s=30.0)
    )
    assert slow == pytest.approx(2 * (2 * 20 + DEEP_EP), rel=1e-12)
    # A token has eight experts, of which a device may have several: it is sent there once.
    many = exchange_s("experts", placement, copies=12, hardware=nodes)
    assert many == exchange_s("experts", placement, copies=8, hardware=nodes)


def test_tensorrt_llm_sends_tokens_where_links_join_many_nodes() -> None:
    # 7/8 of 600 bytes at 50 bytes/s: 10.5, there and back, twice.
    rack = nodes_of(72, scale_out_bytes_per_s=1.0, framework="tensorrt-llm")
    placement = Placement(8, 8, attention_data_parallel=8)
    sent = exchange_s("experts", placement, copies=6, hardware=rack)
    assert sent == pytest.approx(2 * (2 * 10.5 + ONE_SIDED), rel=1e-12)
    # Within a usual node it gathers them, as vLLM does in a rack too: 2 + 7/8 * 800 / 50 = 16.
    node = nodes_of(8, scale_out_bytes_per_s=1.0, framework="tensorrt-llm")
    assert exchange_s("experts", placement, copies=6, hardware=node) == 64
    vllm = nodes_of(72, scale_out_bytes_per_s=1.0)
    assert exchange_s("experts", placement, copies=6, hardware=vllm) == 64


@pytest.mark.parametrize("groups", [2, 8])
def test_behind_data_parallel_attention_a_feed_forward_gathers_and_scatters(groups: int) -> None:
    # An all-gather and a reduce-scatter, each 2 + 7/8 * 800 / 50 = 16; twice.
    placement = Placement(8, attention_data_parallel=groups)
    assert exchange_s("feed_forward", placement) == 64
    # Where experts are spread over devices, a layer without experts does so too.
    assert exchange_s("feed_forward", replace(placement, expert_parallel=8)) == 64
    # Experts that every device holds a slice of do the same.
    assert exchange_s("experts", placement, copies=6) == 64


def test_within_a_node_spread_experts_gather_and_scatter_too() -> None:
    # The default of vLLM and SGLang: as above.
    for spread in (2, 8):
        placement = Placement(8, spread, attention_data_parallel=8)
        assert exchange_s("experts", placement, copies=6) == 64


def test_groups_of_attention_are_padded_to_the_fullest() -> None:
    # 9 sequences in 8 groups: one has two, and all exchange as much, 800 / 9 * 16 bytes:
    # 2 + 7/8 * 1422 / 50 = 26.9, twice two.
    placement = Placement(8, attention_data_parallel=8)
    padded = 2 + 7 / 8 * (800 / 9 * 16) / 50
    assert exchange_s("feed_forward", placement, batch=9) == pytest.approx(4 * padded)
    # A prompt is not padded; within its group of two all of it is reduced.
    assert exchange_s("feed_forward", placement, batch=1, settled=True) == 64
    pairs = Placement(8, attention_data_parallel=4)
    assert exchange_s("attention", pairs, batch=1, settled=True) == 2 * (2 + 800 / 50)

    def attention_s(batch: int, engine: str) -> float:
        core = attending(GroupedQueryAttention(16, 16, 8, 8))
        forward = forward_pass(batch, 1, 99)
        latency = forward_latency(core, LINKED, forward, placement=placement, engine=engine)
        return float(latency.ops[0].memory_s)

    # An engine's time goes by steps of eight sequences; the ideal one shares them out.
    steps = [attention_s(batch, "real") / attention_s(8, "real") for batch in (1, 8, 9, 16, 17)]
    assert steps == pytest.approx([1, 1, 2, 2, 3])
    assert attention_s(9, "ideal") == pytest.approx(9 / 8 * attention_s(8, "ideal"))


def test_a_switch_that_adds_sends_every_byte_once() -> None:
    # 2 + 800 / 50 = 18, twice.
    hardware = linked(in_switch_reduce=True)
    assert exchange_s("attention", Placement(8), hardware=hardware) == 36


def test_one_device_exchanges_nothing() -> None:
    assert exchange_s("attention", ONE) == 0


def test_an_engine_without_collectives_has_them_for_free() -> None:
    hardware = device({"bf16": 1.0}, 1.0, engine=real_engine(memory_frac=0.5))
    assert exchange_s("attention", Placement(8), hardware=hardware) == 0


def test_collectives_of_a_model_by_hand() -> None:
    # 3 layers of attention and a feed-forward; 5 sequences of 2 tokens, 16 wide, in bf16: 320
    # bytes. Two devices: 2 + 320 / 50 = 8.4 s, six times.
    blocks = (
        Block("attention", (Linear("q_proj", 16, 16),), GroupedQueryAttention(2, 2, 8, 8)),
        Block("feed_forward", (Linear("up_proj", 16, 16),)),
    )
    toy = replace(model(), layers=(Layer(blocks, 3),))
    latency = forward_latency(
        toy, LINKED, forward_pass(5, 2), placement=Placement(2), engine="real"
    )
    assert float(latency.communication_s) == pytest.approx(6 * 8.4)


def test_devices_that_no_link_reaches_are_an_error() -> None:
    alone = replace(LINKED, interconnect=None)
    message = (
        "toy device: interconnect.link_bytes_per_s is not given; engine real cannot time "
        "collectives over 8 devices"
    )
    with pytest.raises(ProfileError, match=message):
        exchange_s("attention", Placement(8), hardware=alone)
    message = (
        "toy device: interconnect.max_devices is 8, and interconnect.scale_out_bytes_per_s, between "
        "nodes, is not given; engine real cannot time collectives over 16 devices"
    )
    with pytest.raises(ProfileError, match=message):
        exchange_s("attention", Placement(16))
    # Nor half of them in two nodes, though the links of one reach all.
    with pytest.raises(ProfileError, match="scale_out_bytes_per_s"):
        exchange_s("attention", Placement(8, nodes=2))
    assert LINKED.interconnect is not None
    near = replace(LINKED.interconnect, scale_out_bytes_per_s=1.0)
    message = "toy device: interconnect.max_devices is 8; engine real cannot time collectives"
    with pytest.raises(ProfileError, match=message):
        exchange_s("attention", Placement(16), hardware=replace(LINKED, interconnect=near))
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
        # Two groups of four: attention weights lie there twice, sequences once.
        (
            Placement(8, attention_data_parallel=2),
            (q_proj + k_proj) / 4 + (up_proj + vocabulary) / 8 + 6 * cache / 8,
        ),
    ):
        assert device_bytes(parts, placement, 6) == held
    assert device_bytes(parts, ONE, [0, 6]).tolist() == [9728, 9728 + 7680]


@given(architectures(), batches, contexts, placements())
def test_all_devices_together_hold_the_model_at_least(
    toy: Architecture, batch: int, context: int, placement: Placement
) -> None:
    parts = storage(toy, context)
    alone = float(device_bytes(parts, ONE, batch))
    each = float(device_bytes(parts, placement, batch))
    assert each <= alone * (1 + 1e-12)
    assert each * placement.devices >= alone * (1 - 1e-12)


@given(architectures(), passes)
def test_every_operation_is_timed_in_its_order(toy: Architecture, forward: ForwardPass) -> None:
    latency = forward_latency(toy, UNIT, forward)
    assert [op.op.name for op in latency.ops] == [op.name for op in forward_cost(toy, forward)]
