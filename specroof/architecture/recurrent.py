"""Linear attention and state spaces: sizes, the state and its traffic, the convolution."""

from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from specroof.architecture.base import (
    HEADS,
    CacheDtypes,
    Core,
    Heads,
    Kept,
    OpCost,
    PassSettings,
    core_op,
    matmul_flops,
)
from specroof.arrays import Array
from specroof.units import dtype_bytes

# --- Cores whose memory of the context has a fixed size: linear attention and state spaces -------


class StateSizes(NamedTuple):
    """Elements that a recurrent core works on.

    Attributes
    ----------
    state
        Of the state of one sequence.
    convolved
        Channels of the convolution.
    replayed
        What a token leaves so that a state can be replayed: in bf16, in float32.
    """

    state: int
    convolved: int
    replayed: tuple[int, int]


class RecurrentCore(Core):
    """A matrix state per head, updated by every token, often behind a short convolution.

    Each kind says its sizes and what an update takes; what is stored, moved and divided follows
    from that alike for all.
    """

    __slots__ = ()

    #: Taps of the depthwise convolution, and past columns cached for it; 0 where there is none.
    conv_kernel: int
    conv_columns: int
    #: Whether the convolution has a bias.
    conv_bias: bool = False

    overhead_kinds: tuple[str, ...] = ("linear_attention",)
    # A state is divided by its heads, but no framework asks that devices divide them.
    heads = Heads()
    causal = True
    cache_kind = "state"
    window_len = 0
    by_sequence = False

    @property
    @abstractmethod
    def sizes(self) -> StateSizes:
        """Elements of its state, of its convolution and of a replay."""

    @abstractmethod
    def update_flops(self, tokens: Array) -> Array:
        """Return the FLOP of the state's update and read-out by so many tokens."""

    @property
    def replayed(self) -> tuple[int, int]:
        """Elements that a token leaves so that a state can be replayed: in bf16, in float32."""
        return self.sizes.replayed

    @property
    def conv_taps(self) -> int:
        """Elements of the depthwise filters, which each token is multiplied by."""
        return self.sizes.convolved * self.conv_kernel

    @property
    def n_params(self) -> int:
        """Elements of the depthwise convolution and its bias."""
        return self.conv_taps + (self.sizes.convolved if self.conv_bias else 0)

    @property
    def stored_bytes(self) -> float:
        """Bytes of the convolution, which no published checkpoint quantises."""
        return self.n_params * dtype_bytes("bf16")

    def costs(self, setting: PassSettings) -> list[OpCost]:
        r"""Return the cost of one recurrent layer beside its projections, whatever its rule.

        .. math:: M = B \, (r + w(T)) \, m

        Counts
            the state as `state_passes` says; the depthwise convolution, one multiply-add per tap.
        Ignores
            see `state_passes` and the FLOP of each kind; that engines repeat B and C of Mamba2
            where devices are more than their groups: of Nemotron 3 Super on 16 devices 20% of the
            convolution and 11% of the input projection; the decays of Mamba (1), one a state, which
            a pass reads once: 0.3% of the weights of Falcon-Mamba.
        Source
            Yang et al. 2024, arXiv:2412.06464; Dao and Gu 2024, arXiv:2405.21060, section 7, and
            vLLM ``MambaMixer2``; Kimi Linear report 2025, arXiv:2510.26692, section 3; MiniMax-01
            report 2025, arXiv:2501.08313, section 2.2; transformers 5.23, `Lfm2ShortConv`, and vLLM
            0.33.0, ``short_conv_state_shape``. See the functions for what engines move.

        Examples
        --------
        >>> from specroof.architecture.base import ForwardPass, Options
        >>> core = GatedDeltaNet(16, 32, key_dim=128, value_dim=128, conv_kernel=4, conv_columns=3)
        >>> decode = ForwardPass(batch_size=1, query_len=1, context_len=4096)
        >>> conv, state = core.costs(PassSettings(decode, Options(), "bf16", "fp32", "bf16"))
        >>> float(conv.flops)  # 2 * 8192 channels * 4 taps
        65536.0
        >>> float(state.cache_bytes)  # read and written: 2 * (32 * 128 * 128 * 4 + 8192 * 3 * 2)
        4292608.0
        """
        forward, options = setting.forward, setting.options
        state_bytes = recurrent_state_bytes(self, setting.state_dtype, setting.activation_dtype)
        mode = options.recurrent_state or "snapshot"
        # Nothing of a settled pass is ever taken back: one state is written, as in decoding.
        kept = np.minimum(forward.query_len, 1.0) if forward.settled else forward.query_len
        moved = state_passes(kept, mode) * state_bytes
        if mode == "replay":
            moved = moved + np.where(kept > 1, kept * replay_token_bytes(self), 0.0)
        state = core_op(
            setting,
            "state",
            "state",
            flops=self.update_flops(forward.tokens),
            cache_bytes=np.asarray(forward.batch_size * moved),
            shard=HEADS,
        )
        if not self.sizes.convolved:
            return [state]
        taps, nothing = matmul_flops(self.conv_taps * forward.tokens), np.zeros(())
        convolution = core_op(
            setting, "conv", "convolution", flops=taps, cache_bytes=nothing, shard=HEADS
        )
        return [replace(convolution, weight_bytes=np.asarray(self.stored_bytes)), state]

    def kept(self, _context_len: Array, dtypes: CacheDtypes) -> Kept:
        """Return what it keeps of a sequence: its state and the columns of its convolution."""
        state = recurrent_state_bytes(self, dtypes.state_dtype, dtypes.activation_dtype)
        return Kept(HEADS, state_bytes=state)


# --- The arithmetic of a state's update and read-out by some tokens, of each kind ----------------


def delta_rule_flops(core: RecurrentCore, tokens: Array) -> Array:
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
    return matmul_flops(4 * core.sizes.state * tokens)


def scan_flops(core: RecurrentCore, tokens: Array) -> Array:
    r"""Return the FLOP of a state that decays, takes in a rank-one term and is read out.

    .. math:: S_t = a_t S_{t-1} + x_t \otimes B_t, \quad y_t = S_t C_t
        \qquad F = 6 \, n \, d \, d_{state} \, t

    Mamba2 has :math:`d` channels by :math:`d_{state}` states per head; lightning attention has
    keys by values, with a decay that no token changes; Mamba (1) has n d channels, and a decay of
    each state.

    Counts
        three multiply-adds per state element and token: decay, outer product, read-out (the
        convention of `delta_rule_flops`, which reads the state once
        more; single operations would be five).
    Ignores
        discretisation, gates and the skip :math:`D x`: a few FLOP per channel, under 1% at 128
        states; of Mamba (1) the exponential of each state's decay. The chunked form of long
        prefills does more arithmetic on tensor cores.
    Source
        Dao and Gu 2024, arXiv:2405.21060, equation 2; Qin et al. 2024, arXiv:2401.04658,
        section 3 (lightning attention); Gu and Dao 2023, arXiv:2312.00752, equation 2.

    Examples
    --------
    >>> import numpy as np
    >>> core = Mamba2(128, 64, state_dim=128, n_groups=8, conv_kernel=4, conv_columns=3)
    >>> float(scan_flops(core, np.array(1.0)))  # 6 * 128 * 64 * 128
    6291456.0
    """
    return matmul_flops(3 * core.sizes.state * tokens)


def kimi_delta_flops(core: "KimiDeltaAttention", tokens: Array) -> Array:
    r"""Return the FLOP of Kimi delta attention in one layer.

    .. math:: F = (8 \, d + 2) \, n \, d \, t

    Counts
        the delta rule, and one multiply-add per key channel for a decay per channel.
    Ignores
        what `delta_rule_flops` ignores.
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


@dataclass(frozen=True, slots=True)
class GatedDeltaNet(RecurrentCore):
    """Linear attention with a matrix state per value head, and a short convolution before it.

    Parameters
    ----------
    n_key_heads, n_value_heads
        Heads of queries and keys, and of values.
    key_dim, value_dim
        Widths of one head; the state of a value head is ``key_dim x value_dim``.
    conv_kernel
        Taps of the depthwise convolution over q, k and v.
    conv_columns
        Past columns that are cached for it.
    """

    n_key_heads: int
    n_value_heads: int
    key_dim: int
    value_dim: int
    conv_kernel: int
    conv_columns: int

    label = "linear_attention"
    kernel = "delta_net"
    update_flops = delta_rule_flops

    @property
    def sizes(self) -> StateSizes:
        """A matrix per value head; q, k and v side by side; keys and values, decay and beta."""
        keys, values = self.n_key_heads * self.key_dim, self.n_value_heads * self.value_dim
        return StateSizes(
            self.key_dim * values, 2 * keys + values, (keys + values, 2 * self.n_value_heads)
        )


@dataclass(frozen=True, slots=True)
class KimiDeltaAttention(RecurrentCore):
    """The delta rule with a decay for every key channel (KDA, Kimi Linear).

    Parameters
    ----------
    n_heads
        Heads of queries, keys and values alike.
    head_dim
        Width of each; the state of a head is ``head_dim x head_dim``.
    conv_kernel, conv_columns
        Taps of the three depthwise convolutions (q, k, v), and past columns cached for them.
    """

    n_heads: int
    head_dim: int
    conv_kernel: int
    conv_columns: int

    label = "delta_attention"
    kernel = "kimi_delta"
    update_flops = kimi_delta_flops

    @property
    def sizes(self) -> StateSizes:
        """A matrix per head; q, k and v together; keys and values, each key's decay and beta."""
        channels = self.n_heads * self.head_dim
        return StateSizes(
            channels * self.head_dim, 3 * channels, (2 * channels, channels + self.n_heads)
        )


@dataclass(frozen=True, slots=True)
class Mamba2(RecurrentCore):
    """A state-space mixer with a scalar decay per head, behind a short convolution with bias.

    Parameters
    ----------
    n_heads, head_dim
        Heads, and channels of each.
    state_dim
        States per channel; the state of a head is ``head_dim x state_dim``.
    n_groups
        Groups of heads that share their input and output projections B and C.
    conv_kernel, conv_columns
        Taps of the depthwise convolution over x, B and C, and past columns cached for it.
    conv_bias
        Whether the convolution has one.
    """

    n_heads: int
    head_dim: int
    state_dim: int
    n_groups: int
    conv_kernel: int
    conv_columns: int
    conv_bias: bool = True

    label = "mamba2"
    kernel = "mamba2"
    update_flops = scan_flops

    @property
    def inner_dim(self) -> int:
        """Channels of all heads."""
        return self.n_heads * self.head_dim

    @property
    def sizes(self) -> StateSizes:
        """A matrix per head; x, B and C side by side; x, B of each group and the step size.

        C only reads out.
        """
        inner, group = self.inner_dim, self.n_groups * self.state_dim
        return StateSizes(inner * self.state_dim, inner + 2 * group, (inner + group, self.n_heads))


@dataclass(frozen=True, slots=True)
class SelectiveScan(RecurrentCore):
    """A few states of each channel, which decay on their own: Mamba (1), and RG-LRU with one.

    Parameters
    ----------
    channels, state_dim
        Channels, and states of each.
    conv_kernel, conv_columns
        Taps of the depthwise convolution over the channels, and past columns cached for it.
    conv_bias
        Whether the convolution has one.
    """

    channels: int
    state_dim: int
    conv_kernel: int
    conv_columns: int
    conv_bias: bool = True

    label = "selective_scan"
    kernel = "selective_scan"
    update_flops = scan_flops

    @property
    def sizes(self) -> StateSizes:
        """Some states of each channel; the channels; the input of each, B and the step sizes."""
        channels, states = self.channels, self.state_dim
        return StateSizes(channels * states, channels, (channels + states, channels))


@dataclass(frozen=True, slots=True)
class LightningAttention(RecurrentCore):
    """Linear attention with a fixed decay per head and no convolution (MiniMax-01, M1).

    Parameters
    ----------
    n_heads, head_dim
        Heads of queries, keys and values alike, and their width; the state of a head is
        ``head_dim x head_dim``.
    conv_kernel, conv_columns
        Zero: nothing is convolved.
    """

    n_heads: int
    head_dim: int
    conv_kernel: int = 0
    conv_columns: int = 0

    label = "lightning_attention"
    kernel = "lightning"
    update_flops = scan_flops

    @property
    def sizes(self) -> StateSizes:
        """A matrix per head; nothing convolved; keys and values, as the decay is constant."""
        channels = self.n_heads * self.head_dim
        return StateSizes(channels * self.head_dim, 0, (2 * channels, 0))


@dataclass(frozen=True, slots=True)
class ShortConvolution(RecurrentCore):
    """A depthwise convolution over the last few tokens, without any other memory (LFM2).

    Parameters
    ----------
    channels
        What is convolved.
    conv_kernel, conv_columns
        Taps, and past columns cached for them.
    conv_bias
        Whether it has one.
    """

    channels: int
    conv_kernel: int
    conv_columns: int
    conv_bias: bool = False

    label = "short_convolution"
    kernel = "short_convolution"
    update_flops = scan_flops
    overhead_kinds = ()  # one small kernel: nothing of what makes linear attention slow to launch

    @property
    def sizes(self) -> StateSizes:
        """No state beside the columns; the channels; a column."""
        return StateSizes(0, self.channels, (self.channels, 0))


def recurrent_state_bytes(core: RecurrentCore, state_dtype: str, conv_dtype: str) -> float:
    r"""Return the bytes of one sequence's state in one layer: matrix states and conv columns.

    .. math:: m = e \, b_{state} + c \, n_{columns} \, b_{conv}

    with e elements of state and c channels of convolution.

    Counts
        the state in its own dtype, the columns in the dtype of the activations.
    Ignores
        columns that engines add while they speculate, one per draft token: under 1% each.
    Source
        vLLM ``MambaStateShapeCalculator`` (shapes of Mamba2, Gated DeltaNet, KDA and linear
        attention); Finn 2026, ``inference-lab`` (the sizes below, four columns).

    Examples
    --------
    A layer of Qwen3.6-35B-A3B in bfloat16, Nemotron 3 Super in float32, Kimi K3 in bfloat16:

    >>> qwen = GatedDeltaNet(16, 32, key_dim=128, value_dim=128, conv_kernel=4, conv_columns=4)
    >>> recurrent_state_bytes(qwen, "bf16", "bf16")  # 32*128*128*2 + 8192 channels * 4 * 2
    1114112.0
    >>> mamba = Mamba2(128, 64, state_dim=128, n_groups=8, conv_kernel=4, conv_columns=4)
    >>> recurrent_state_bytes(mamba, "fp32", "fp32")  # 8192*128*4 + 10240 channels * 4 * 4
    4358144.0
    >>> kimi = KimiDeltaAttention(96, 128, conv_kernel=4, conv_columns=4)
    >>> recurrent_state_bytes(kimi, "bf16", "bf16")  # 96*128*128*2 + 36864 channels * 4 * 2
    3440640.0
    """
    matrix = core.sizes.state * dtype_bytes(state_dtype)
    return matrix + core.sizes.convolved * core.conv_columns * dtype_bytes(conv_dtype)


def replay_token_bytes(core: Core) -> float:
    r"""Return the bytes cached per token and layer so that a state can be replayed.

    .. math:: M = 2 \, n_{inputs} + 4 \, n_{gates}

    Counts
        inputs in bf16, gates in float32: of Gated DeltaNet :math:`n_k d_k + n_v d_v` and
        :math:`2 n_v`, of Kimi's :math:`2 n d` and :math:`n (d + 1)`, of Mamba2
        :math:`n d + g d_{state}` and n, of lightning attention :math:`2 n d` and none, of a short
        convolution its channels.
    Ignores
        nothing.
    Source
        ReplaySSM, dao-lab.ai 2026 (raw inputs instead of states; of Kimi's with the decay as a
        vector); FlashInfer ``gated_delta_rule_replayssm_commit``.

    Examples
    --------
    >>> replay_token_bytes(GatedDeltaNet(16, 32, 128, 128, conv_kernel=4, conv_columns=3))
    12544.0
    >>> replay_token_bytes(Mamba2(128, 64, 128, 8, conv_kernel=4, conv_columns=3))
    18944.0
    """
    inputs, gates = core.replayed
    return inputs * dtype_bytes("bf16") + gates * dtype_bytes("fp32")


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
