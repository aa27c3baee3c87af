"""Recurrent cores besides Gated DeltaNet: Kimi delta, Mamba2, lightning, short convolutions.

What they move follows `specroof.cost.recurrent`; here is what differs: the arithmetic of their
update, and what a token must leave behind for a replay.
"""

from specroof.architecture import (
    KimiDeltaAttention,
    LightningAttention,
    Mamba2,
    RecurrentCore,
    ShortConvolution,
)
from specroof.cost.base import Array, OpCost, Setting, matmul_flops
from specroof.cost.recurrent import delta_rule_flops, recurrent_costs
from specroof.units import dtype_bytes


def scan_flops(core: RecurrentCore, tokens: Array) -> Array:
    r"""Return the FLOP of a state that decays, takes in a rank-one term and is read out.

    .. math:: S_t = a_t S_{t-1} + x_t \otimes B_t, \quad y_t = S_t C_t
        \qquad F = 6 \, n \, d \, d_{state} \, t

    Mamba2 has :math:`d` channels by :math:`d_{state}` states per head; lightning attention has
    keys by values, with a decay that no token changes.

    Counts
        three multiply-adds per state element and token: decay, outer product, read-out (the
        convention of `specroof.cost.recurrent.delta_rule_flops`, which reads the state once
        more; single operations would be five).
    Ignores
        discretisation, gates and the skip :math:`D x`: a few FLOP per channel, under 1% at 128
        states. The chunked form of long prefills does more arithmetic on tensor cores.
    Source
        Dao and Gu 2024, arXiv:2405.21060, equation 2; Qin et al. 2024, arXiv:2401.04658,
        section 3 (lightning attention).

    Examples
    --------
    >>> import numpy as np
    >>> core = Mamba2(128, 64, state_dim=128, n_groups=8, conv_kernel=4, conv_columns=3)
    >>> float(scan_flops(core, np.array(1.0)))  # 6 * 128 * 64 * 128
    6291456.0
    """
    return matmul_flops(3 * core.state_elements * tokens)


def mamba2_replay_bytes(core: Mamba2) -> float:
    r"""Return the bytes cached per token and layer so that a Mamba2 state can be replayed.

    .. math:: M = 2 (n \, d + g \, d_{state}) + 4 \, n

    Counts
        the input x and the input projection B of each group in bf16, the step size in float32;
        C only reads the state out.
    Ignores
        nothing.
    Source
        ReplaySSM, dao-lab.ai 2026 (raw inputs instead of states).

    Examples
    --------
    >>> core = Mamba2(128, 64, state_dim=128, n_groups=8, conv_kernel=4, conv_columns=3)
    >>> mamba2_replay_bytes(core)  # 2 * (8192 + 1024) + 4 * 128
    18944.0
    """
    inputs = core.inner_dim + core.n_groups * core.state_dim
    return inputs * dtype_bytes("bf16") + core.n_heads * dtype_bytes("fp32")


def mamba2_costs(core: Mamba2, setting: Setting) -> list[OpCost]:
    """Return the cost of one Mamba2 layer beside its projections.

    Counts
        the state as `specroof.cost.recurrent.state_passes` says; the depthwise convolution, one
        multiply-add per tap.
    Ignores
        that engines repeat B and C where devices are more than their groups: of Nemotron 3 Super
        on 16 devices 20% of the convolution and 11% of the input projection. See `scan_flops`.
    Source
        Dao and Gu 2024, arXiv:2405.21060, section 7; vLLM ``MambaMixer2``.

    Examples
    --------
    >>> from specroof.cost.base import ForwardPass, Options
    >>> core = Mamba2(128, 64, state_dim=128, n_groups=8, conv_kernel=4, conv_columns=3)
    >>> decode = ForwardPass(batch_size=1, query_len=1, context_len=4096)
    >>> conv, state = mamba2_costs(core, Setting(decode, Options(), "bf16", "fp32", "bf16"))
    >>> float(conv.weight_bytes)  # 10240 channels * (4 taps + bias) * 2 bytes
    102400.0
    >>> float(state.cache_bytes)  # read and written: 2 * (8192 * 128 * 4 + 10240 * 3 * 2)
    8511488.0
    """
    return recurrent_costs(
        core,
        setting,
        flops=scan_flops(core, setting.forward.tokens),
        replay_bytes=mamba2_replay_bytes(core),
    )


def kimi_delta_flops(core: KimiDeltaAttention, tokens: Array) -> Array:
    r"""Return the FLOP of Kimi delta attention in one layer.

    .. math:: F = (8 \, d + 2) \, n \, d \, t

    Counts
        the delta rule, and one multiply-add per key channel for a decay per channel.
    Ignores
        what `specroof.cost.recurrent.delta_rule_flops` ignores.
    Source
        Kimi Linear report 2025, arXiv:2510.26692, section 3.

    Examples
    --------
    >>> import numpy as np
    >>> core = KimiDeltaAttention(32, 128, conv_kernel=4, conv_columns=3)
    >>> float(kimi_delta_flops(core, np.array(1.0)))  # 8 * 32 * 128 * 128 + 2 * 32 * 128
    4202496.0
    """
    return delta_rule_flops(core, tokens) + matmul_flops(core.n_heads * core.head_dim * tokens)


def kimi_delta_replay_bytes(core: KimiDeltaAttention) -> float:
    r"""Return the bytes cached per token and layer so that a state can be replayed.

    .. math:: M = 2 \cdot 2 \, n \, d + 4 \, n (d + 1)

    Counts
        keys and values in bf16; the decay of every key channel, and beta, in float32.
    Ignores
        nothing.
    Source
        ReplaySSM, dao-lab.ai 2026, with the decay as a vector.

    Examples
    --------
    >>> core = KimiDeltaAttention(32, 128, conv_kernel=4, conv_columns=3)
    >>> kimi_delta_replay_bytes(core)  # 4 * 4096 + 4 * 32 * 129
    32896.0
    """
    channels = core.n_heads * core.head_dim
    gates = channels + core.n_heads
    return 2 * channels * dtype_bytes("bf16") + gates * dtype_bytes("fp32")


def kimi_delta_costs(core: KimiDeltaAttention, setting: Setting) -> list[OpCost]:
    """Return the cost of one layer of Kimi delta attention beside its projections.

    Counts
        the state as `specroof.cost.recurrent.state_passes` says; the three depthwise
        convolutions as one, one multiply-add per tap.
    Ignores
        see `kimi_delta_flops`.
    Source
        Kimi Linear report 2025, arXiv:2510.26692, section 3.

    Examples
    --------
    >>> from specroof.cost.base import ForwardPass, Options
    >>> core = KimiDeltaAttention(32, 128, conv_kernel=4, conv_columns=3)
    >>> decode = ForwardPass(batch_size=1, query_len=1, context_len=4096)
    >>> conv, state = kimi_delta_costs(core, Setting(decode, Options(), "bf16", "fp32", "bf16"))
    >>> float(state.cache_bytes)  # read and written: 2 * (32 * 128 * 128 * 4 + 12288 * 3 * 2)
    4341760.0
    """
    return recurrent_costs(
        core,
        setting,
        flops=kimi_delta_flops(core, setting.forward.tokens),
        replay_bytes=kimi_delta_replay_bytes(core),
    )


def lightning_replay_bytes(core: LightningAttention) -> float:
    r"""Return the bytes cached per token and layer so that a state can be replayed.

    .. math:: M = 2 \cdot 2 \, n \, d

    Counts
        keys and values in bf16; the decay is the same for every token.
    Ignores
        nothing.
    Source
        ReplaySSM, dao-lab.ai 2026 (raw inputs instead of states).

    Examples
    --------
    >>> lightning_replay_bytes(LightningAttention(n_heads=64, head_dim=128))  # 4 * 8192
    32768.0
    """
    return 2 * core.n_heads * core.head_dim * dtype_bytes("bf16")


def lightning_costs(core: LightningAttention, setting: Setting) -> list[OpCost]:
    """Return the cost of one layer of lightning attention beside its projections.

    Counts
        the state as `specroof.cost.recurrent.state_passes` says.
    Ignores
        see `scan_flops`.
    Source
        MiniMax-01 report 2025, arXiv:2501.08313, section 2.2.

    Examples
    --------
    >>> from specroof.cost.base import ForwardPass, Options
    >>> core = LightningAttention(n_heads=64, head_dim=128)
    >>> decode = ForwardPass(batch_size=1, query_len=1, context_len=4096)
    >>> (state,) = lightning_costs(core, Setting(decode, Options(), "bf16", "fp32", "bf16"))
    >>> float(state.flops)  # 6 * 64 * 128 * 128
    6291456.0
    """
    return recurrent_costs(
        core,
        setting,
        flops=scan_flops(core, setting.forward.tokens),
        replay_bytes=lightning_replay_bytes(core),
    )


def short_convolution_costs(core: ShortConvolution, setting: Setting) -> list[OpCost]:
    r"""Return the cost of a short convolution beside its projections.

    .. math:: F = 2 \, c \, K \, t

    Counts
        one multiply-add per tap, and the columns as `specroof.cost.recurrent.state_passes` says; a
        replayed token leaves one column in bf16.
    Ignores
        the gates before and behind it: two FLOP per channel, of :math:`8 \, h` of the projections.
    Source
        transformers 5.23, `Lfm2ShortConv`; vLLM 0.33.0, ``short_conv_state_shape``.

    Examples
    --------
    >>> from specroof.cost.base import ForwardPass, Options
    >>> core = ShortConvolution(2048, conv_kernel=3, conv_columns=2)
    >>> decode = ForwardPass(batch_size=1, query_len=1, context_len=4096)
    >>> conv, state = short_convolution_costs(
    ...     core, Setting(decode, Options(), "bf16", "fp32", "bf16")
    ... )
    >>> float(conv.flops), float(state.cache_bytes)  # 2 * 2048 * 3; 2 * 2048 * 2 columns * 2 bytes
    (12288.0, 16384.0)
    """
    return recurrent_costs(
        core,
        setting,
        flops=0.0 * setting.forward.tokens,
        replay_bytes=core.channels * dtype_bytes("bf16"),
    )
