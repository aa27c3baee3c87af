"""Linear attention: the state and what verification does to it, by hand and by counting."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from specroof.architecture import HEADS, GatedDeltaNet
from specroof.architecture.base import CHOICES, OpCost, Options
from specroof.architecture.recurrent import (
    delta_net_costs,
    delta_rule_flops,
    recurrent_state_bytes,
    replay_token_bytes,
    state_passes,
)
from specroof.units import dtype_bytes
from strategies import batches, cache_dtypes, contexts, delta_nets, forward_pass, setting, small

modes = st.sampled_from(CHOICES["recurrent_state"])

#: Qwen3.6-35B-A3B: 16 key heads, 32 value heads, all 128 wide.
QWEN = GatedDeltaNet(16, 32, 128, 128, conv_kernel=4, conv_columns=3)


def costs(core: GatedDeltaNet, *sizes: int, mode: str = "snapshot") -> tuple[OpCost, OpCost]:
    choices = Options(recurrent_state=mode)
    conv, state = delta_net_costs(core, setting(forward_pass(*sizes), choices))
    return conv, state


# --- the state -----------------------------------------------------------------------------------


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


@given(delta_nets, cache_dtypes, cache_dtypes)
def test_matrix_and_convolution_have_formats_of_their_own(
    core: GatedDeltaNet, state_dtype: str, conv_dtype: str
) -> None:
    elements = core.n_value_heads * core.key_dim * core.value_dim
    channels = core.n_key_heads * core.key_dim * 2 + core.n_value_heads * core.value_dim
    assert recurrent_state_bytes(core, state_dtype, conv_dtype) == pytest.approx(
        elements * dtype_bytes(state_dtype) + core.conv_columns * channels * dtype_bytes(conv_dtype)
    )


# --- the layer -----------------------------------------------------------------------------------


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


@given(delta_nets, batches, small, contexts, modes)
def test_the_context_changes_nothing(
    core: GatedDeltaNet, batch: int, queries: int, context: int, mode: str
) -> None:
    for here, empty in zip(
        costs(core, batch, queries, context, mode=mode),
        costs(core, batch, queries, 0, mode=mode),
        strict=True,
    ):
        assert here.flops == empty.flops
        assert here.memory_bytes == empty.memory_bytes


@given(delta_nets, small, modes)
def test_states_are_linear_in_the_batch_and_filters_are_read_once(
    core: GatedDeltaNet, queries: int, mode: str
) -> None:
    conv, state = costs(core, 1, queries, 0, mode=mode)
    larger_conv, larger_state = costs(core, 24, queries, 0, mode=mode)
    assert larger_state.flops == 24 * state.flops
    assert larger_state.cache_bytes == 24 * state.cache_bytes
    assert larger_conv.flops == 24 * conv.flops
    assert larger_conv.weight_bytes == conv.weight_bytes


@given(delta_nets, batches, st.integers(2, 12))
def test_modes_order_by_what_they_write(core: GatedDeltaNet, batch: int, queries: int) -> None:
    moved = [
        float(costs(core, batch, queries, 0, mode=mode)[1].cache_bytes)
        for mode in ("read", "read-write", "snapshot", "snapshot-copy")
    ]
    assert moved == sorted(moved)
    assert len(set(moved)) == 4


@given(delta_nets, st.lists(small, min_size=1), modes)
def test_arrays_of_passes_are_counted_like_each_pass(
    core: GatedDeltaNet, queries: list[int], mode: str
) -> None:
    choices = Options(recurrent_state=mode)
    _, state = delta_net_costs(core, setting(forward_pass(3, queries, 5), choices))
    assert state.cache_bytes.tolist() == [
        float(costs(core, 3, query, 5, mode=mode)[1].cache_bytes) for query in queries
    ]


@given(delta_nets)
def test_linear_attention_divides_by_heads(core: GatedDeltaNet) -> None:
    assert [op.shard for op in costs(core, 1, 1, 0)] == [HEADS, HEADS]
    assert [op.kind for op in costs(core, 1, 1, 0)] == ["convolution", "state"]
