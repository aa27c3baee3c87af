"""Recurrent layers: the state and what verification does to it, by hand and by counting."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from specroof.architecture import (
    BF16,
    HEADS,
    TENSOR,
    Architecture,
    Block,
    GatedDeltaNet,
    GroupedQueryAttention,
    KimiDeltaAttention,
    Layer,
    LightningAttention,
    Linear,
    Mamba2,
    RecurrentCore,
    ShortConvolution,
)
from specroof.architecture.base import CHOICES, OpCost, Options
from specroof.architecture.recurrent import (
    delta_rule_flops,
    kimi_delta_flops,
    kimi_delta_replay_bytes,
    lightning_replay_bytes,
    mamba2_replay_bytes,
    recurrent_state_bytes,
    replay_token_bytes,
    scan_flops,
    state_passes,
)
from specroof.cost import forward_cost, state_bytes, storage
from specroof.cost.forward import CORES, kv_cache_bytes
from specroof.units import dtype_bytes
from strategies import (
    batches,
    contexts,
    delta_nets,
    forward_pass,
    kimi_deltas,
    lightnings,
    mambas,
    recurrents,
    setting,
    short_convolutions,
    small,
    state_dtypes,
)

#: Nemotron 3 Super, Kimi Linear, Kimi K3 and MiniMax-M1 as their configs have them.
SUPER = Mamba2(128, 64, state_dim=128, n_groups=8, conv_kernel=4, conv_columns=3)
KIMI = KimiDeltaAttention(32, 128, conv_kernel=4, conv_columns=3)
K3 = KimiDeltaAttention(96, 128, conv_kernel=4, conv_columns=3)
M1 = LightningAttention(64, 128)

modes = st.sampled_from(CHOICES["recurrent_state"])


def costs(core: RecurrentCore, *sizes: int, mode: str = "snapshot") -> list[OpCost]:
    choices = Options(recurrent_state=mode)
    return CORES[type(core)].costs(core, setting(forward_pass(*sizes), choices))


def state_op(core: RecurrentCore, *sizes: int, mode: str = "snapshot") -> OpCost:
    return costs(core, *sizes, mode=mode)[-1]


def replay_bytes(core: RecurrentCore) -> float:
    """Return what one token leaves behind, written out tensor by tensor."""
    if isinstance(core, Mamba2):  # x per channel and B per group in bf16, dt per head in fp32
        return (
            2 * core.n_heads * core.head_dim
            + 2 * core.n_groups * core.state_dim
            + (4 * core.n_heads)
        )
    if isinstance(core, KimiDeltaAttention):  # k, v in bf16; decays and beta in fp32
        channels = core.n_heads * core.head_dim
        return 2 * channels + 2 * channels + 4 * channels + 4 * core.n_heads
    if isinstance(core, LightningAttention):  # k, v
        return 2 * 2 * core.n_heads * core.head_dim
    if isinstance(core, ShortConvolution):  # one column
        return 2 * core.channels
    assert isinstance(core, GatedDeltaNet)
    return replay_token_bytes(core)


#: Qwen3.6-35B-A3B: 16 key heads, 32 value heads, all 128 wide.
QWEN = GatedDeltaNet(16, 32, 128, 128, conv_kernel=4, conv_columns=3)


#: Positions of the pass: 1 (decoding), 2, 3, 8. One read, and the states written:
MOVED_STATES = {
    "snapshot": [1 + 1, 1 + 2, 1 + 3, 1 + 8],  # one for each position
    "snapshot-copy": [1 + 1, 3 + 2, 3 + 3, 3 + 8],  # and a copy: one more read and write
    "read-write": [1 + 1, 1 + 1, 1 + 1, 1 + 1],  # the last one
    "read": [1, 1, 1, 1],  # none, not even in decoding
    "replay": [1 + 1, 1, 1, 1],  # none in verification
}


@pytest.mark.parametrize(("mode", "passes"), MOVED_STATES.items())
def test_the_table_of_state_passes(mode: str, passes: list[float]) -> None:
    widths = [1.0, 2.0, 3.0, 8.0]
    assert state_passes(np.array(widths), mode).tolist() == passes
    assert [float(state_passes(np.array(width), mode)) for width in widths] == passes


def test_the_table_covers_every_mode_that_options_offer() -> None:
    assert set(MOVED_STATES) == set(CHOICES["recurrent_state"])


def test_the_published_sizes_by_hand() -> None:
    # 32 heads * 128 * 128 elements * 4 bytes = 2 097 152; the convolution is over
    # 2 * 16 * 128 + 32 * 128 = 8192 channels, of which 3 columns in bf16 are 49 152 bytes.
    assert QWEN.conv_dim == 8192
    assert recurrent_state_bytes(QWEN, "fp32", "bf16") == 2_097_152 + 49_152
    # With bf16 states and 4 columns, 30 layers hold 33.42 MB, as published.
    finn = replace(QWEN, conv_columns=4)
    assert 30 * recurrent_state_bytes(finn, "bf16", "bf16") == 33_423_360
    # A replayed token: keys and values of 128 * (16 + 32) in bf16, two float32 for 32 heads.
    assert replay_token_bytes(QWEN) == 2 * 128 * 48 + 8 * 32 == 12_544


@given(delta_nets, st.integers(1, 3))
def test_the_delta_rule_costs_four_multiply_adds_per_state_element(
    core: GatedDeltaNet, tokens: int
) -> None:
    core = replace(core, key_dim=4, value_dim=8, n_value_heads=8)
    flops = 0
    for _ in range(tokens):
        for _ in range(core.n_value_heads):
            for _ in range(core.key_dim * core.value_dim):
                flops += 2 + 2 + 2 + 2  # decay, S k, the rank-one write, S q
    assert delta_rule_flops(core, np.array(float(tokens))) == flops


@given(delta_nets)
def test_key_heads_change_the_convolution_never_the_state(core: GatedDeltaNet) -> None:
    wider = replace(core, n_key_heads=2 * core.n_key_heads)
    one = np.array(1.0)
    assert delta_rule_flops(wider, one) == delta_rule_flops(core, one)
    # Queries and keys, of each twice as many heads.
    assert wider.conv_dim - core.conv_dim == 2 * core.n_key_heads * core.key_dim
    matrix = replace(core, conv_columns=0)
    assert recurrent_state_bytes(matrix, "fp32", "bf16") == (
        core.n_value_heads * core.key_dim * core.value_dim * 4
    )


def test_a_verification_of_qwen_by_hand() -> None:
    # 8 sequences verify 4 tokens: 32 tokens of 8 * 32 * 128 * 128 FLOP.
    state_bytes = 2_146_304  # from the test above
    for mode, moved in (
        ("snapshot", 5 * state_bytes),
        ("snapshot-copy", 7 * state_bytes),
        ("read-write", 2 * state_bytes),
        ("read", state_bytes),
        ("replay", state_bytes + 4 * 12_544),
    ):
        conv, state = costs(QWEN, 8, 4, 1000, mode=mode)
        assert state.flops == 32 * 4_194_304
        assert state.cache_bytes == 8 * moved
        # One multiply-add per tap and channel: 4 * 8192 * 2 * 32 tokens; 32 768 taps in bf16.
        assert conv.flops == 2_097_152
        assert conv.weight_bytes == 65_536
    for mode in ("snapshot", "snapshot-copy", "read-write", "replay"):
        assert costs(QWEN, 8, 1, 1000, mode=mode)[1].cache_bytes == 8 * 2 * state_bytes
    assert costs(QWEN, 8, 1, 1000, mode="read")[1].cache_bytes == 8 * state_bytes


@given(delta_nets, batches, st.integers(2, 12))
def test_modes_order_by_what_they_write(core: GatedDeltaNet, batch: int, queries: int) -> None:
    moved = [
        float(costs(core, batch, queries, 0, mode=mode)[1].cache_bytes)
        for mode in ("read", "read-write", "snapshot", "snapshot-copy")
    ]
    assert moved == sorted(moved)
    assert len(set(moved)) == 4


# --- sizes ---------------------------------------------------------------------------------------


def test_published_state_bytes() -> None:
    # Finn 2026, inference-lab: four columns; Nemotron 3 Super all in float32, Kimi K3 in bfloat16.
    assert recurrent_state_bytes(replace(SUPER, conv_columns=4), "fp32", "fp32") == 4_358_144
    assert recurrent_state_bytes(replace(K3, conv_columns=4), "bf16", "bf16") == 3_440_640


def test_state_bytes_of_the_checkpoints_by_hand() -> None:
    # 128 heads * 64 * 128 states * 4 bytes; 8192 + 2 * 8 * 128 = 10 240 channels, 3 columns, bf16
    assert SUPER.conv_dim == 10_240
    assert recurrent_state_bytes(SUPER, "fp32", "bf16") == 4_194_304 + 61_440
    # 96 heads * 128 * 128 * 4; 3 * 96 * 128 = 36 864 channels
    assert recurrent_state_bytes(K3, "fp32", "bf16") == 6_291_456 + 221_184
    # 64 heads * 128 * 128 * 4, and no convolution
    assert recurrent_state_bytes(M1, "fp32", "bf16") == 4_194_304


def test_replayed_tokens_by_hand() -> None:
    assert mamba2_replay_bytes(SUPER) == 2 * (8192 + 8 * 128) + 4 * 128 == 18_944
    assert kimi_delta_replay_bytes(KIMI) == 2 * 2 * 4096 + 4 * (4096 + 32) == 32_896
    assert lightning_replay_bytes(M1) == 2 * 2 * 8192 == 32_768


def test_parameters_of_the_convolution() -> None:
    assert SUPER.n_params == 10_240 * 4 + 10_240  # taps and bias
    assert replace(SUPER, conv_bias=False).n_params == 10_240 * 4
    assert KIMI.n_params == 3 * 32 * 128 * 4
    assert M1.n_params == M1.stored_bytes == 0
    assert SUPER.stored_bytes == 2 * SUPER.n_params
    assert {core.label for core in (SUPER, KIMI, M1)} == {
        "mamba2",
        "delta_attention",
        "lightning_attention",
    }


@given(recurrents, state_dtypes, state_dtypes)
def test_state_and_columns_have_formats_of_their_own(
    core: RecurrentCore, state_dtype: str, conv_dtype: str
) -> None:
    expected = core.state_elements * dtype_bytes(state_dtype)
    expected += core.conv_columns * core.conv_dim * dtype_bytes(conv_dtype)
    assert recurrent_state_bytes(core, state_dtype, conv_dtype) == pytest.approx(expected)


# --- arithmetic ----------------------------------------------------------------------------------


class Counter:
    """Multiply-adds, counted as they are done."""

    def __init__(self) -> None:
        self.done = 0

    def multiply_add(self, a: float, b: float, c: float) -> float:
        self.done += 1
        return a * b + c


@given(mambas, st.integers(1, 3), st.integers(0, 2**16))
def test_a_mamba_step_done_by_hand_takes_the_counted_multiply_adds(
    core: Mamba2, tokens: int, seed: int
) -> None:
    """Run one head's recurrence, and hold it against its closed form."""
    dice, counter = np.random.default_rng(seed), Counter()
    x, b, c = (dice.normal(size=(tokens, size)) for size in (core.head_dim, *[core.state_dim] * 2))
    decay = dice.uniform(size=tokens)
    state = np.zeros((core.head_dim, core.state_dim))
    out = np.zeros((tokens, core.head_dim))
    for t in range(tokens):
        for i in range(core.head_dim):
            for j in range(core.state_dim):
                decayed = counter.multiply_add(decay[t], state[i, j], 0.0)
                state[i, j] = counter.multiply_add(x[t, i], b[t, j], decayed)
                out[t, i] = counter.multiply_add(state[i, j], c[t, j], out[t, i])
    closed = [
        sum(np.prod(decay[s + 1 : t + 1]) * (c[t] @ b[s]) * x[s] for s in range(t + 1))
        for t in range(tokens)
    ]
    assert np.allclose(out, closed)
    assert scan_flops(core, np.array(float(tokens))) == 2 * core.n_heads * counter.done


@given(kimi_deltas, st.integers(1, 3), st.integers(0, 2**16))
def test_a_delta_step_done_by_hand_takes_the_counted_multiply_adds(
    core: KimiDeltaAttention, tokens: int, seed: int
) -> None:
    """Run one head's recurrence, whose update must make the state return v for the key k."""
    dice, counter = np.random.default_rng(seed), Counter()
    width = core.head_dim
    state = dice.normal(size=(width, width))
    for _ in range(tokens):
        k, v, q = dice.normal(size=(3, width))
        k /= np.linalg.norm(k)
        rates = dice.uniform(size=width)
        # A decay for every key channel: rate times the gate, which is one multiply-add each.
        decay = [counter.multiply_add(rate, 1.0, 0.0) for rate in rates]
        out = np.zeros(width)
        read = np.zeros(width)
        for i in range(width):
            for j in range(width):
                state[i, j] = counter.multiply_add(decay[i], state[i, j], 0.0)
                read[j] = counter.multiply_add(state[i, j], k[i], read[j])
        for i in range(width):
            for j in range(width):
                state[i, j] = counter.multiply_add(k[i], v[j] - read[j], state[i, j])
                out[j] = counter.multiply_add(state[i, j], q[i], out[j])
        assert np.allclose(k @ state, v)
        assert np.allclose(q @ state, out)
    assert kimi_delta_flops(core, np.array(float(tokens))) == 2 * core.n_heads * counter.done


@given(lightnings, small)
def test_lightning_attention_is_a_scan_without_groups(
    core: LightningAttention, tokens: int
) -> None:
    twin = Mamba2(core.n_heads, core.head_dim, core.head_dim, 1, conv_kernel=4, conv_columns=3)
    t = np.array(float(tokens))
    assert scan_flops(core, t) == scan_flops(twin, t) == 6 * core.n_heads * core.head_dim**2 * t


@given(short_convolutions, batches, small)
def test_a_short_convolution_has_taps_and_columns_and_no_state(
    core: ShortConvolution, batch: int, queries: int
) -> None:
    conv, state = costs(core, batch, queries, 0)
    assert float(conv.flops) == 2 * core.channels * core.conv_kernel * batch * queries
    assert not state.flops.any()
    assert core.n_params == core.channels * (core.conv_kernel + core.conv_bias)
    stored = recurrent_state_bytes(core, "fp32", "bf16")
    assert stored == core.channels * core.conv_columns * 2


@given(kimi_deltas, small)
def test_a_decay_per_channel_is_all_that_kimi_adds_to_gated_delta_net(
    core: KimiDeltaAttention, tokens: int
) -> None:
    n, d = core.n_heads, core.head_dim
    twin = GatedDeltaNet(n, n, d, d, core.conv_kernel, core.conv_columns)
    t = np.array(float(tokens))
    assert kimi_delta_flops(core, t) - delta_rule_flops(twin, t) == 2 * n * d * t
    assert (core.state_elements, core.conv_dim) == (twin.state_elements, twin.conv_dim)
    assert kimi_delta_replay_bytes(core) - replay_token_bytes(twin) == 4 * n * (d - 1)


# --- what holds for every recurrent core ---------------------------------------------------------


@given(recurrents, batches, st.integers(1, 9), modes)
def test_every_core_moves_its_state_as_the_mode_says(
    core: RecurrentCore, batch: int, queries: int, mode: str
) -> None:
    moved = float(state_passes(np.array(float(queries)), mode))
    expected = moved * recurrent_state_bytes(core, "fp32", "bf16")
    if mode == "replay" and queries > 1:
        expected += queries * replay_bytes(core)
    assert float(state_op(core, batch, queries, 0, mode=mode).cache_bytes) == pytest.approx(
        batch * expected
    )


@given(recurrents, batches, small, contexts, modes)
def test_the_context_changes_nothing(
    core: RecurrentCore, batch: int, queries: int, context: int, mode: str
) -> None:
    for here, empty in zip(
        costs(core, batch, queries, context, mode=mode),
        costs(core, batch, queries, 0, mode=mode),
        strict=True,
    ):
        assert here.flops == empty.flops
        assert here.memory_bytes == empty.memory_bytes


@given(recurrents)
def test_every_core_divides_by_heads(core: RecurrentCore) -> None:
    ops = costs(core, 1, 1, 0)
    assert [op.kind for op in ops] == ["convolution", "state"][-len(ops) :]
    assert all(op.shard == HEADS for op in ops)
    assert (len(ops) == 2) == (not isinstance(core, LightningAttention))


@given(mambas, batches)
def test_the_convolution_is_one_multiply_add_per_tap_whatever_its_bias(
    core: Mamba2, batch: int
) -> None:
    with_bias, without = (
        costs(replace(core, conv_bias=bias), batch, 2, 0)[0] for bias in (True, False)
    )
    assert with_bias.flops == without.flops == 2 * 2 * batch * core.conv_dim * core.conv_kernel
    assert with_bias.weight_bytes - without.weight_bytes == 2 * core.conv_dim


def test_a_verification_of_nemotron_super_by_hand() -> None:
    # 8 sequences verify 4 tokens: 32 tokens of 6 * 128 * 64 * 128 FLOP over 4 255 744 bytes.
    for mode, moved in (
        ("snapshot", 5 * 4_255_744),
        ("snapshot-copy", 7 * 4_255_744),
        ("read-write", 2 * 4_255_744),
        ("read", 4_255_744),
        ("replay", 4_255_744 + 4 * 18_944),
    ):
        conv, state = costs(SUPER, 8, 4, 1000, mode=mode)
        assert state.flops == 32 * 6_291_456
        assert state.cache_bytes == 8 * moved
        assert conv.flops == 2 * 4 * 10_240 * 32
        assert conv.weight_bytes == 2 * 5 * 10_240


def stack(*blocks: Block) -> Architecture:
    head = Linear("lm_head", 8, 10, BF16, TENSOR, kind="head")
    return Architecture("stack", "falcon_h1", 8, 10, (Layer(blocks, 3),), head)


@given(recurrents, contexts, state_dtypes)
def test_a_recurrent_model_stores_states_and_no_cache(
    core: RecurrentCore, context: int, dtype: str
) -> None:
    model = stack(Block("attention", (), core))
    expected = 3 * recurrent_state_bytes(core, dtype, "bf16")
    assert kv_cache_bytes(model, context) == 0
    assert state_bytes(model, dtype) == pytest.approx(expected)
    kept = [part.sequence_bytes for part in storage(model, context, Options(state_dtype=dtype))]
    assert float(sum(kept, np.zeros(()))) == pytest.approx(expected)
    # Untied: embedding and head of 80 elements each.
    assert model.n_params == model.n_active_params == 3 * core.n_params + 2 * 80
    assert model.layer_kinds == {core.label: 3}


def test_parallel_mixers_are_followed_by_one_collective() -> None:
    attention = Block("attention", (Linear("q_proj", 8, 8),), GroupedQueryAttention(8, 1, 1, 1))
    mamba = Block("attention", (Linear("in_proj", 8, 8),), SUPER)
    mlp = Block("feed_forward", (Linear("up_proj", 8, 8, shard=TENSOR),))
    serial, parallel = (
        [
            op.name
            for op in forward_cost(stack(first, attention, mlp), forward_pass())
            if op.collective is not None
        ]
        for first in (mamba, replace(mamba, joins_next=True))
    )
    assert serial == ["mamba2.state", "full_attention.core", "mlp.up_proj"]
    assert parallel == ["full_attention.core", "mlp.up_proj"]


@given(modes)
def test_only_recurrent_state_follows_the_mode(mode: str) -> None:
    model = stack(Block("attention", (Linear("in_proj", 8, 8),), SUPER))
    default, other = (
        forward_cost(model, forward_pass(2, 4, 100), Options(recurrent_state=chosen))
        for chosen in ("snapshot", mode)
    )
    changed = {
        op.name
        for op, twin in zip(default, other, strict=True)
        if op.cache_bytes != twin.cache_bytes
    }
    assert changed == (set() if mode == "snapshot" else {"mamba2.state"})
    assert [op.flops for op in default] == [op.flops for op in other]
