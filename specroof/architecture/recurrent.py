"""Cores whose memory of the context has a fixed size: linear attention and state spaces."""

from dataclasses import dataclass
from typing import ClassVar

from specroof.architecture.cores import Core
from specroof.units import dtype_bytes


class RecurrentCore(Core):
    """A matrix state per head, updated by every token, often behind a short convolution.

    Each kind says how many elements its state has and how many channels are convolved; what is
    stored, moved and divided follows from that alike for all.
    """

    __slots__ = ()

    #: Taps of the depthwise convolution, and past columns cached for it; 0 where there is none.
    conv_kernel: int
    conv_columns: int

    overhead_kinds: ClassVar[tuple[str, ...]] = ("linear_attention",)

    @property
    def state_elements(self) -> int:
        """Elements of the state of one sequence."""
        raise NotImplementedError

    @property
    def conv_dim(self) -> int:
        """Channels of the convolution."""
        raise NotImplementedError

    @property
    def conv_taps(self) -> int:
        """Elements of the depthwise filters, which each token is multiplied by."""
        return self.conv_dim * self.conv_kernel

    @property
    def n_params(self) -> int:
        """Elements of the depthwise convolution."""
        return self.conv_taps

    @property
    def stored_bytes(self) -> float:
        """Bytes of the convolution, which no published checkpoint quantises."""
        return self.n_params * dtype_bytes("bf16")


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

    @property
    def state_elements(self) -> int:
        """Elements of the state of one sequence: a matrix per value head."""
        return self.n_value_heads * self.key_dim * self.value_dim

    @property
    def conv_dim(self) -> int:
        """Channels of the convolution: q, k and v side by side."""
        return 2 * self.n_key_heads * self.key_dim + self.n_value_heads * self.value_dim


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

    @property
    def state_elements(self) -> int:
        """Elements of the state of one sequence: a matrix per head."""
        return self.n_heads * self.head_dim * self.head_dim

    @property
    def conv_dim(self) -> int:
        """Channels of the convolutions of q, k and v together."""
        return 3 * self.n_heads * self.head_dim


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

    @property
    def inner_dim(self) -> int:
        """Channels of all heads."""
        return self.n_heads * self.head_dim

    @property
    def state_elements(self) -> int:
        """Elements of the state of one sequence: a matrix per head."""
        return self.inner_dim * self.state_dim

    @property
    def conv_dim(self) -> int:
        """Channels of the convolution: x, B and C side by side."""
        return self.inner_dim + 2 * self.n_groups * self.state_dim

    @property
    def n_params(self) -> int:
        """Elements of the depthwise convolution and its bias."""
        return self.conv_taps + (self.conv_dim if self.conv_bias else 0)


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

    @property
    def state_elements(self) -> int:
        """Elements of the state of one sequence: a matrix per head."""
        return self.n_heads * self.head_dim * self.head_dim

    @property
    def conv_dim(self) -> int:
        """Channels of the convolution: none."""
        return 0


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
    # One small kernel: nothing of what makes linear attention slow to launch.
    overhead_kinds: ClassVar[tuple[str, ...]] = ()

    @property
    def state_elements(self) -> int:
        """Elements of the state of one sequence: none beside the columns."""
        return 0

    @property
    def conv_dim(self) -> int:
        """Channels of the convolution."""
        return self.channels

    @property
    def n_params(self) -> int:
        """Elements of the depthwise convolution and its bias."""
        return self.conv_taps + (self.channels if self.conv_bias else 0)
