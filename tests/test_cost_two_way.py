"""Blocks that see themselves both ways, and passes of which nothing is taken back."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specroof.architecture import GatedDeltaNet
from specroof.architecture.base import CHOICES
from specroof.cost import ForwardPass, Options
from strategies import setting

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
        *_, state = core.costs(setting(forward, choices))
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
