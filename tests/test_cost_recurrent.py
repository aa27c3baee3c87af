"""Recurrent layers: the state and what verification does to it, by hand and by counting."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from specroof.architecture.attention import GroupedQueryAttention
from specroof.architecture.base import HEADS, TENSOR, Linear, Options
from specroof.architecture.model import Block, Layer
from specroof.architecture.recurrent import (
    GatedDeltaNet,
    KimiDeltaAttention,
    LightningAttention,
    Mamba2,
    RecurrentCore,
    SelectiveScan,
    ShortConvolution,
    kimi_delta_flops,
    recurrent_state_bytes,
    scan_flops,
    state_passes,
)
from specroof.cost import forward_cost
from specroof.units import dtype_bytes
from strategies import (
    batches,
    contexts,
    forward_pass,
    kimi_deltas,
    mambas,
    of_cores,
    recurrents,
    setting,
    state_dtypes,
)
from tables import rows

CORES: dict[str, Any] = {
    # Qwen3.6-35B-A3B, Nemotron 3 Super, Kimi K3 and MiniMax-M1 as their configs have them.
    "qwen": GatedDeltaNet(16, 32, 128, 128, conv_kernel=4, conv_columns=3),
    "super": Mamba2(128, 64, state_dim=128, n_groups=8, conv_kernel=4, conv_columns=3),
    "k3": KimiDeltaAttention(96, 128, conv_kernel=4, conv_columns=3),
    "m1": LightningAttention(64, 128),
    # Falcon-Mamba 7B, and the recurrence of RecurrentGemma 2B.
    "falcon": SelectiveScan(8192, 16, conv_kernel=4, conv_columns=3),
    "griffin": SelectiveScan(2560, 1, conv_kernel=4, conv_columns=3),
}

#: What one token leaves behind, in bf16 and in float32, tensor by tensor.
REPLAYED: dict[type[RecurrentCore], Callable[[Any], tuple[int, int]]] = {
    # k of each key head, v; a decay and a write strength of each value head
    GatedDeltaNet: lambda core: (
        core.n_key_heads * core.key_dim + core.n_value_heads * core.value_dim,
        core.n_value_heads + core.n_value_heads,
    ),
    # x of each channel and B of each group; dt of each head
    Mamba2: lambda core: (
        core.n_heads * core.head_dim + core.n_groups * core.state_dim,
        core.n_heads,
    ),
    # k, v; decays and beta
    KimiDeltaAttention: lambda core: (
        core.n_heads * core.head_dim + core.n_heads * core.head_dim,
        core.n_heads * core.head_dim + core.n_heads,
    ),
    LightningAttention: lambda core: (2 * core.n_heads * core.head_dim, 0),  # k, v
    ShortConvolution: lambda core: (core.channels, 0),  # one column
    # x and B; a step of each channel
    SelectiveScan: lambda core: (core.channels + core.state_dim, core.channels),
}


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


@pytest.mark.parametrize(
    ("name", "columns", "state_dtype", "conv_dtype", "n_bytes"), rows("values", "recurrent_states")
)
def test_bytes_of_a_state_as_published_and_by_hand(
    name: str, columns: int | None, state_dtype: str, conv_dtype: str, n_bytes: float
) -> None:
    core = CORES[name] if columns is None else replace(CORES[name], conv_columns=columns)
    assert recurrent_state_bytes(core, state_dtype, conv_dtype) == n_bytes


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


@given(recurrents, batches, st.integers(1, 9), contexts, st.data())
def test_every_core_moves_its_state_as_the_mode_says_whatever_the_context(
    core: RecurrentCore, batch: int, queries: int, context: int, data: st.DataObject
) -> None:
    mode = data.draw(st.sampled_from(list(MOVED_STATES)))
    state_dtype, conv_dtype = data.draw(state_dtypes), "bf16"
    state = core.sizes.state * dtype_bytes(state_dtype)
    state += core.conv_columns * core.sizes.convolved * dtype_bytes(conv_dtype)
    assert recurrent_state_bytes(core, state_dtype, conv_dtype) == pytest.approx(state)
    moved = float(state_passes(np.array(float(queries)), mode)) * state
    if mode == "replay" and queries > 1:
        narrow, wide = REPLAYED[type(core)](core)
        moved += queries * (2 * narrow + 4 * wide)
    pass_ = setting(forward_pass(batch, queries, context), Options(recurrent_state=mode))
    *convolutions, op = core.costs(replace(pass_, state_dtype=state_dtype))
    assert float(op.cache_bytes) == pytest.approx(batch * moved)
    assert (op.kind, op.shard) == ("state", HEADS)
    # A pass of which nothing is taken back moves the state as decoding does, however long it is.
    settled = replace(pass_, forward=replace(pass_.forward, settled=True), state_dtype=state_dtype)
    (written,) = (one for one in core.costs(settled) if one.kind == "state")
    assert float(written.cache_bytes) == pytest.approx(batch * (1 + (mode != "read")) * state)
    # One multiply-add per tap and channel; a bias is read and not counted.
    assert len(convolutions) == (not isinstance(core, LightningAttention))
    for one in convolutions:
        assert not isinstance(core, LightningAttention)  # which has no taps
        assert float(one.flops) == 2 * core.sizes.convolved * core.conv_kernel * batch * queries
        weights = core.sizes.convolved * (core.conv_kernel + getattr(core, "conv_bias", False))
        assert one.weight_bytes == 2 * weights == 2 * core.n_params
        assert (one.kind, one.shard) == ("convolution", HEADS)


def test_parallel_mixers_are_followed_by_one_collective() -> None:
    attention = Block("attention", (Linear("q_proj", 8, 8),), GroupedQueryAttention(8, 1, 1, 1))
    mamba = Block("attention", (Linear("in_proj", 8, 8),), CORES["super"])
    mlp = Block("feed_forward", (Linear("up_proj", 8, 8, shard=TENSOR),))
    serial, parallel = (
        [op.name for op in forward_cost(model, forward_pass()) if op.collective is not None]
        for first in (mamba, replace(mamba, joins_next=True))
        for model in [replace(of_cores(), layers=(Layer((first, attention, mlp), 3),))]
    )
    assert serial == ["mamba2.state", "full_attention.core", "mlp.up_proj"]
    assert parallel == ["full_attention.core", "mlp.up_proj"]
