"""Linear attention: the recurrent state, its traffic under verification, the convolution."""

import numpy as np

from specroof.architecture import HEADS, GatedDeltaNet
from specroof.cost.base import Array, OpCost, Setting, matmul_flops
from specroof.units import dtype_bytes

__all__ = [
    "delta_net_costs",
    "delta_net_state_bytes",
    "delta_rule_flops",
    "replay_token_bytes",
    "state_passes",
]


def delta_rule_flops(core: GatedDeltaNet, tokens: Array) -> Array:
    r"""Return the FLOP of the gated delta rule in one layer.

    .. math:: F = 8 \, n_v \, d_k d_v \, t

    Counts
        four multiply-adds per state element and token: decay, read :math:`Sk`, rank-one write,
        read-out :math:`Sq`.
    Ignores
        gates and normalisation: a few FLOP per channel, under 1%. The chunked form of long
        prefills does more arithmetic on tensor cores.
    Source
        Yang et al. 2024, arXiv:2412.06464, equation 10; count of Finn 2026, "Adaptive speculative
        decoding".

    Examples
    --------
    >>> core = GatedDeltaNet(16, 32, key_dim=128, value_dim=128, conv_kernel=4, conv_columns=3)
    >>> float(delta_rule_flops(core, np.array(1.0)))  # 8 * 32 * 128 * 128
    4194304.0
    """
    return matmul_flops(4 * core.n_value_heads * core.key_dim * core.value_dim * tokens)


def delta_net_state_bytes(core: GatedDeltaNet, state_dtype: str, conv_dtype: str) -> float:
    """Return the bytes of one sequence's state in one layer: matrix states and conv columns.

    Source
        Qwen3-Next in vLLM, ``MambaStateShapeCalculator.gated_delta_net_state_shape``.

    Examples
    --------
    >>> core = GatedDeltaNet(16, 32, key_dim=128, value_dim=128, conv_kernel=4, conv_columns=4)
    >>> delta_net_state_bytes(core, "bf16", "bf16")  # 32*128*128*2 + 8192 channels * 4 * 2
    1114112.0
    """
    matrix = core.n_value_heads * core.key_dim * core.value_dim * dtype_bytes(state_dtype)
    return matrix + core.conv_dim * core.conv_columns * dtype_bytes(conv_dtype)


def replay_token_bytes(core: GatedDeltaNet) -> float:
    r"""Return the bytes cached per token and layer so that a state can be replayed.

    .. math:: M = 2 (n_k d_k + n_v d_v) + 2 \cdot 4 \, n_v

    Counts
        keys and values in bf16, decay and beta in float32.
    Ignores
        nothing.
    Source
        ReplaySSM, dao-lab.ai 2026; FlashInfer ``gated_delta_rule_replayssm_commit``.

    Examples
    --------
    >>> replay_token_bytes(GatedDeltaNet(16, 32, 128, 128, conv_kernel=4, conv_columns=3))
    12544.0
    """
    inputs = core.n_key_heads * core.key_dim + core.n_value_heads * core.value_dim
    return inputs * dtype_bytes("bf16") + 2 * core.n_value_heads * dtype_bytes("fp32")


def state_passes(query_len: Array, mode: str) -> Array:
    r"""Return how often a pass moves the state: one read and w(T) writes.

    .. math:: r + w(T), \quad r = 1

    A rejected draft must not spoil the state, so a verification of T >= 2 keeps one per position.

    Counts
        ``"snapshot"`` writes T states (vLLM); ``"snapshot-copy"`` copies the accepted one back
        besides, T + 2 (SGLang); ``"read-write"`` writes one; ``"read"`` none, in decoding either;
        ``"replay"`` none in verification, where `replay_token_bytes` come instead. Plain decoding
        reads and writes the state in every mode but ``"read"``.
    Ignores
        that convolution windows of neighbouring positions overlap: under 3% of a state.
    Source
        SGLang memory pool (``intermediate_ssm_state_cache``); vLLM speculative Mamba blocks;
        ReplaySSM 2026.

    Examples
    --------
    >>> widths = np.array([1.0, 2.0, 8.0])
    >>> state_passes(widths, "snapshot"), state_passes(widths, "snapshot-copy")
    (array([2., 3., 9.]), array([ 2.,  5., 11.]))
    """
    if mode == "read":
        return np.ones(np.shape(query_len))
    writes = {
        "snapshot": query_len,
        "snapshot-copy": query_len + 2,
        "read-write": np.ones(np.shape(query_len)),
        "replay": np.zeros(np.shape(query_len)),
    }[mode]
    return 1.0 + np.where(query_len > 1, writes, 1.0)


def delta_net_costs(core: GatedDeltaNet, setting: Setting) -> list[OpCost]:
    """Return the cost of one Gated DeltaNet layer beside its projections.

    Counts
        the state as `state_passes` says; the depthwise convolution, one multiply-add per tap.
    Ignores
        see `delta_rule_flops` and `state_passes`.
    Source
        Yang et al. 2024, arXiv:2412.06464; see the functions for what engines move.
    """
    forward, options = setting.forward, setting.options
    state_bytes = delta_net_state_bytes(core, setting.state_dtype, setting.activation_dtype)
    moved = state_passes(forward.queries, options.recurrent_state) * state_bytes
    if options.recurrent_state == "replay":
        moved = moved + np.where(
            forward.queries > 1, forward.queries * replay_token_bytes(core), 0.0
        )
    return [
        OpCost(
            name="conv",
            kind="convolution",
            count=1,
            flops=matmul_flops(core.n_params * forward.tokens),
            weight_bytes=np.asarray(core.stored_bytes),
            cache_bytes=np.zeros(()),
            activation_bytes=np.zeros(()),
            compute_dtype=setting.activation_dtype,
            shard=HEADS,
        ),
        OpCost(
            name="state",
            kind="state",
            count=1,
            flops=delta_rule_flops(core, forward.tokens),
            weight_bytes=np.zeros(()),
            cache_bytes=np.asarray(forward.batch * moved),
            activation_bytes=np.zeros(()),
            compute_dtype=setting.activation_dtype,
            shard=HEADS,
        ),
    ]
