"""Blocks that see themselves both ways, and passes of which nothing is taken back."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specroof.architecture import GatedDeltaNet, GroupedQueryAttention
from specroof.architecture.attention import attended_tokens, grouped_query_costs, two_way_tokens
from specroof.architecture.base import CHOICES
from specroof.architecture.recurrent import delta_net_costs
from specroof.cost import ForwardPass, Options
from strategies import contexts, setting, small, windows

BLOCK = GroupedQueryAttention(8, 2, head_dim=16, value_dim=16, causal=False)


@given(small, contexts, windows)
def test_pairs_of_a_block_match_counting(query: int, context: int, window: int | None) -> None:
    # Query i (from 0) stands at context + i: of the cached keys it sees those within its window,
    # of the block all.
    cached = sum(
        window is None or context + i - j < window for i in range(query) for j in range(context)
    )
    assert two_way_tokens(query, context, window) == cached + query * query


@given(small, contexts, windows)
def test_a_block_has_no_fewer_pairs_than_causal_attention(
    query: int, context: int, window: int | None
) -> None:
    assert two_way_tokens(query, context, window) >= attended_tokens(query, context, window)
    assert two_way_tokens(1, context, None) == attended_tokens(1, context, None)


def test_seeing_ahead_costs_arithmetic_and_no_bytes() -> None:
    forward = setting(ForwardPass(batch_size=2, query_len=4, context_len=10))
    (both_ways,) = grouped_query_costs(BLOCK, forward)
    (causal,) = grouped_query_costs(replace(BLOCK, causal=True), forward)
    # 2 sequences * 8 heads * 32 dimensions, two FLOP each, over 4 * (10 + 4) and 11 + … + 14 pairs
    assert both_ways.flops == 2 * 2 * 8 * 32 * 56
    assert causal.flops == 2 * 2 * 8 * 32 * 50
    assert both_ways.cache_bytes == causal.cache_bytes


def test_counts_of_the_context_alone_know_no_direction() -> None:
    choices = Options(count="attention+ffn")
    forward = setting(ForwardPass(batch_size=2, query_len=4, context_len=10), choices)
    (both_ways,) = grouped_query_costs(BLOCK, forward)
    (causal,) = grouped_query_costs(replace(BLOCK, causal=True), forward)
    assert both_ways.flops == causal.flops


#: States that a verification of T positions reads and writes, by mode. Decoding moves two, or one
#: where none is written.
MOVED_STATES: dict[str, Callable[[int], int]] = {
    "snapshot": lambda positions: 1 + positions,
    "snapshot-copy": lambda positions: 1 + positions + 2,
    "read-write": lambda _: 2,
    "read": lambda _: 1,
    "replay": lambda _: 1,
}
#: Keys of 2 heads and values of 4, 8 wide and in bf16, and two float32 for each of the 4.
REPLAYED_TOKEN_BYTES = 2 * 8 * (2 + 4) + 4 * 2 * 4


@pytest.mark.parametrize("mode", CHOICES["recurrent_state"])
@given(st.integers(2, 9))
def test_a_settled_pass_moves_the_state_as_decoding_does(mode: str, query: int) -> None:
    core = GatedDeltaNet(2, 4, key_dim=8, value_dim=8, conv_kernel=4, conv_columns=3)
    choices = Options(recurrent_state=mode)

    def state_bytes(forward: ForwardPass) -> float:
        *_, state = delta_net_costs(core, setting(forward, choices))
        return float(state.cache_bytes)

    # 4 heads of 8 * 8 in fp32; 3 columns of 2 * 2 * 8 + 4 * 8 channels in bf16
    one_state = 4 * 64 * 4 + 3 * 64 * 2
    decoding = 3 * (1 if mode == "read" else 2) * one_state
    assert state_bytes(ForwardPass(3, 1, 0)) == decoding
    assert state_bytes(ForwardPass(3, query, 0, settled=True)) == decoding
    # A verification of as many keeps what a rejected draft may call back.
    replayed = query * REPLAYED_TOKEN_BYTES if mode == "replay" else 0
    verification = 3 * (MOVED_STATES[mode](query) * one_state + replayed)
    assert state_bytes(ForwardPass(3, query, 0)) == verification
