"""What a block does besides multiplying by matrices: attention, recurrent state, experts."""

from dataclasses import dataclass
from typing import ClassVar, Final

from specroof.units import dtype_bytes

# --- Matrices: how their weights are stored, how they divide over devices ------------------------

#: More devices than anything is ever split over: "divides without end".
_UNLIMITED: Final = 1 << 30


@dataclass(frozen=True, slots=True)
class WeightFormat:
    """How weights are stored, and which arithmetic multiplies them.

    Parameters
    ----------
    name
        What people call it, such as ``"mxfp4"``.
    element_bytes
        Bytes of one weight, its share of the block scales included.
    compute_dtype
        The dtype of `specroof.units.DTYPE_BYTES` at whose peak the matmul runs. Weight-only
        formats name the dtype of the activations.
    """

    name: str
    element_bytes: float
    compute_dtype: str


BF16: Final = WeightFormat("bf16", 2.0, "bf16")
# Engines multiply the few float32 matrices on tensor cores (tf32 or bf16), not at the vector rate.
FP32: Final = WeightFormat("fp32", 4.0, "bf16")

#: Formats by name, as the command line spells them. Scales: MXFP4 and MXFP8 one E8M0 byte per 32
#: weights; NVFP4 one E4M3 byte per 16; FP8 blocks one float32 per 128 x 128; INT4 one bf16 scale
#: per 128 (OCP Microscaling v1.0; NVIDIA NVFP4; DeepSeek-V3 report, section 3.3; AWQ).
WEIGHT_FORMATS: Final[dict[str, WeightFormat]] = {
    form.name: form
    for form in (
        BF16,
        FP32,
        WeightFormat("fp16", 2.0, "fp16"),
        WeightFormat("fp8", 1.0, "fp8"),
        WeightFormat("fp8-block", 1.0 + 4 / 16384, "fp8"),
        WeightFormat("mxfp8", 1.0 + 1 / 32, "fp8"),
        WeightFormat("int8", 1.0, "int8"),
        WeightFormat("fp4", 0.5, "fp4"),
        WeightFormat("mxfp4", 0.5 + 1 / 32, "fp4"),
        WeightFormat("nvfp4", 0.5 + 1 / 16, "fp4"),
        WeightFormat("int4", 0.5 + 2 / 128, "bf16"),
    )
}


@dataclass(frozen=True, slots=True)
class Shard:
    """Over how many devices, at most, each part of an operation divides.

    Parameters
    ----------
    group
        ``"attention"``: divides over a tensor-parallel group, and sequences over the
        data-parallel groups of attention; ``"feed_forward"``: divides over all devices.
    compute_ways, weight_ways, cache_ways
        The most devices that arithmetic, weights and cached bytes are split over; 1 means that
        every device of the group repeats them.
    """

    group: str
    compute_ways: int = _UNLIMITED
    weight_ways: int = _UNLIMITED
    cache_ways: int = _UNLIMITED


#: Feed-forward matrices, experts and the vocabulary-parallel head.
TENSOR: Final = Shard("feed_forward")
#: Query-side projections: split by heads, whose number tensor parallelism must divide.
HEADS: Final = Shard("attention")
#: Down-projections to a latent, the indexer: every device of the group runs all of it.
ATTENTION_REPLICATED: Final = Shard("attention", 1, 1, 1)
#: The router: a few rows, computed by everybody.
FEED_FORWARD_REPLICATED: Final = Shard("feed_forward", 1, 1, 1)


def by_kv_heads(n_kv_heads: int) -> Shard:
    """Return the shard of key and value projections: beyond `n_kv_heads` devices they repeat."""
    return Shard("attention", n_kv_heads, n_kv_heads, n_kv_heads)


def cache_only(cache_ways: int) -> Shard:
    """Return the shard of attention itself: arithmetic by query heads, the cache over fewer."""
    return Shard("attention", cache_ways=cache_ways)


@dataclass(frozen=True, slots=True)
class Linear:
    """One matrix that every token (or every verified position) is multiplied by.

    Parameters
    ----------
    name
        Its role, such as ``"q_proj"``.
    in_features, out_features
        Widths, so that one token costs ``2 * in_features * out_features / groups`` FLOP.
    weight
        Storage format and arithmetic.
    shard
        How it divides over devices.
    kind
        ``"dense"``, ``"router"``, ``"compressor"``, ``"residual"`` or ``"head"``: what a count
        of operations may leave out.
    groups
        Blocks of a block-diagonal matrix.
    bias
        Whether `out_features` bias elements are stored beside it (stored, not computed with).
    """

    name: str
    in_features: int
    out_features: int
    weight: WeightFormat = BF16
    shard: Shard = HEADS
    kind: str = "dense"
    groups: int = 1
    bias: bool = False

    @property
    def matrix_params(self) -> int:
        """Elements of the matrix."""
        return self.in_features * self.out_features // self.groups

    @property
    def n_params(self) -> int:
        """Elements of the matrix and its bias."""
        return self.matrix_params + (self.out_features if self.bias else 0)

    @property
    def stored_bytes(self) -> float:
        """Bytes in a checkpoint, block scales included."""
        return self.matrix_params * self.weight.element_bytes + (
            self.out_features * dtype_bytes("bf16") if self.bias else 0.0
        )


class Core:
    """What a block does besides multiplying by its matrices, and the traits that others ask for.

    Attention over a cache and recurrent states store no elements, so zero is the rule here.
    """

    __slots__ = ()

    #: Whether the layer caches every token that it may still look at.
    caches_tokens: ClassVar[bool] = False

    @property
    def label(self) -> str:
        """What operations of its block are called after."""
        raise NotImplementedError

    @property
    def overhead_kinds(self) -> tuple[str, ...]:
        """The kinds of layer that it makes of its layer, of `specroof.hardware.LAYER_KINDS`."""
        return ()

    @property
    def split_heads(self) -> int:
        """Query heads, which the devices of a group must divide; 0 where none must be divided."""
        return 0

    @property
    def window_len(self) -> int:
        """Tokens at which its cache stops growing; 0 where it never does, or has none."""
        return 0

    @property
    def n_params(self) -> int:
        """Stored elements."""
        return 0

    @property
    def idle_params(self) -> int:
        """Stored elements that one token does not use."""
        return 0

    @property
    def stored_bytes(self) -> float:
        """Bytes in a checkpoint."""
        return 0.0


class SoftmaxAttention(Core):
    """Softmax over cached tokens: its query heads are spread over devices, one on one device."""

    __slots__ = ()

    caches_tokens = True

    n_heads: int

    @property
    def split_heads(self) -> int:
        """Query heads, which the devices of a group must divide."""
        return self.n_heads


@dataclass(frozen=True, slots=True)
class GroupedQueryAttention(SoftmaxAttention):
    """Softmax attention with a cache of keys and values per KV head.

    Parameters
    ----------
    n_heads, n_kv_heads
        Query heads, and heads whose keys and values are cached.
    head_dim, value_dim
        Width of a query or key, and of a value.
    window
        Tokens a query may see, itself included; None sees all.
    causal
        False where the new positions of a pass see each other both ways, as those of a block
        drafter do.
    """

    n_heads: int
    n_kv_heads: int
    head_dim: int
    value_dim: int
    window: int | None = None
    causal: bool = True

    @property
    def label(self) -> str:
        """What operations of its block are called after."""
        return "sliding_attention" if self.window else "full_attention"

    @property
    def window_len(self) -> int:
        """Tokens at which its cache stops growing; 0 where it never does."""
        return self.window or 0


@dataclass(frozen=True, slots=True)
class ChunkedAttention(SoftmaxAttention):
    """Grouped-query attention whose queries see their own chunk of the sequence only (Llama 4).

    Parameters
    ----------
    n_heads, n_kv_heads
        Query heads, and heads whose keys and values are cached.
    head_dim, value_dim
        Width of a query or key, and of a value.
    chunk
        Tokens of a chunk; the query at position n (from 0) sees the ``n % chunk + 1`` last ones,
        itself included.
    """

    n_heads: int
    n_kv_heads: int
    head_dim: int
    value_dim: int
    chunk: int

    label = "chunked_attention"

    @property
    def window_len(self) -> int:
        """Tokens at which its cache stops growing."""
        return self.chunk


@dataclass(frozen=True, slots=True)
class SharedCacheAttention(Core):
    """Attention over the keys and values that an earlier layer has cached (Gemma 4).

    Parameters
    ----------
    attention
        What it computes, and the shape of the cache that it reads and does not keep.
    """

    attention: GroupedQueryAttention

    @property
    def label(self) -> str:
        """What operations of its block are called after."""
        return f"shared_{self.attention.label}"

    @property
    def split_heads(self) -> int:
        """Query heads, which the devices of a group must divide."""
        return self.attention.n_heads


@dataclass(frozen=True, slots=True)
class Indexer:
    """The scorer of sparse attention: every query against every index key (DeepSeek-V3.2).

    Parameters
    ----------
    n_heads, head_dim
        Its query heads, and the width of the one key that a token (or an entry) caches.
    top_k
        Entries that it lets attention see.
    """

    n_heads: int
    head_dim: int
    top_k: int


def _latent_kinds(indexer: Indexer | None) -> tuple[str, ...]:
    """Return the kinds of layer of latent attention, behind an indexer or not."""
    return ("latent_attention", "sparse_index") if indexer else ("latent_attention",)


@dataclass(frozen=True, slots=True)
class LatentAttention(SoftmaxAttention):
    """Multi-head latent attention: one cached latent per token for all heads.

    Parameters
    ----------
    n_heads
        Query heads.
    latent_dim, rope_dim
        Width of the compressed key-value latent, and of the rotary key beside it.
    indexer
        Present where attention sees only the top-k tokens of an indexer.
    shared_top_k
        Tokens that attention sees where it takes over what the indexer of an earlier layer
        picked (GLM-5.2); None where it has an indexer, or sees all.
    head_dims
        Widths of a head's key and value once the latent is expanded, positions included: what a
        prompt may be attended with. None where only the absorbed form is known.
    """

    n_heads: int
    latent_dim: int
    rope_dim: int
    indexer: Indexer | None = None
    shared_top_k: int | None = None
    head_dims: tuple[int, int] | None = None

    @property
    def label(self) -> str:
        """What operations of its block are called after."""
        if self.shared_top_k is not None:
            return "shared_index_attention"
        return "sparse_attention" if self.indexer else "latent_attention"

    @property
    def overhead_kinds(self) -> tuple[str, ...]:
        """The kinds of layer that it makes of its layer."""
        return _latent_kinds(self.indexer)

    @property
    def top_k(self) -> int | None:
        """Tokens that a query sees, however they are picked; None sees all."""
        return self.indexer.top_k if self.indexer else self.shared_top_k


@dataclass(frozen=True, slots=True)
class BlockSparseAttention(SoftmaxAttention):
    """Grouped-query attention to the blocks of keys that an indexer picks (MiniMax-M3, Qwen4-Exp).

    Parameters
    ----------
    n_heads, n_kv_heads, head_dim, value_dim
        As in `GroupedQueryAttention`.
    indexer
        Its query heads (each picks for a group of KV heads), the width of the one key
        that is cached for it, and the blocks that a query sees, its own among them.
    block_len
        Tokens per block.
    key_tokens
        Tokens that one index key stands for: 1, or those of a block, whose mean it is.
    """

    n_heads: int
    n_kv_heads: int
    head_dim: int
    value_dim: int
    indexer: Indexer
    block_len: int
    key_tokens: int = 1

    label = "block_sparse_attention"
    overhead_kinds = ("sparse_index",)


@dataclass(frozen=True, slots=True)
class Compressor:
    """The float32 ring of tokens that wait to be merged into the next compressed entry.

    Parameters
    ----------
    rows, row_dim
        Tokens held, and values held per token.
    """

    rows: int
    row_dim: int


@dataclass(frozen=True, slots=True)
class CompressedAttention(SoftmaxAttention):
    """DeepSeek-V4 attention: a short raw window and compressed entries, one vector as K and V.

    Parameters
    ----------
    n_heads
        Query heads.
    entry_dim, rope_dim
        Width of an entry, and how much of it is rotary.
    window
        Raw tokens that every query sees, itself included.
    ratio
        Tokens per compressed entry; 0 where the layer has none.
    indexer
        Present where only the top-k compressed entries are attended (CSA); absent in HCA.
    compressors
        Rings of unfinished entries (of attention, and of the indexer).
    """

    n_heads: int
    entry_dim: int
    rope_dim: int
    window: int
    ratio: int
    indexer: Indexer | None = None
    compressors: tuple[Compressor, ...] = ()

    @property
    def label(self) -> str:
        """What operations of its block are called after."""
        return f"c{self.ratio}_attention" if self.ratio else "sliding_attention"

    @property
    def overhead_kinds(self) -> tuple[str, ...]:
        """The kinds of layer that it makes of its layer."""
        return _latent_kinds(self.indexer)


@dataclass(frozen=True, slots=True)
class Experts(Core):
    """The routed experts of one layer.

    Parameters
    ----------
    n_experts, top_k
        Experts, and how many of them a token visits.
    in_features, hidden_features
        Widths of one expert's matrices.
    weight
        Storage format and arithmetic.
    n_matrices
        3 for a gated expert (gate, up, down), 2 for a plain one.
    bias_params
        Bias elements of one expert (stored, not computed with).
    n_shared
        Shared experts of the same size and format that run in the same grouped matmul; parsers
        leave this 0 and list shared experts among the block's matrices.
    """

    n_experts: int
    top_k: int
    in_features: int
    hidden_features: int
    weight: WeightFormat = BF16
    n_matrices: int = 3
    bias_params: int = 0
    n_shared: int = 0

    label = "moe"
    overhead_kinds = ("experts",)

    @property
    def matrix_params(self) -> int:
        """Elements of one expert's matrices."""
        return self.n_matrices * self.in_features * self.hidden_features

    @property
    def expert_params(self) -> int:
        """Elements of one expert, biases included."""
        return self.matrix_params + self.bias_params

    @property
    def n_params(self) -> int:
        """Elements of all experts."""
        return (self.n_experts + self.n_shared) * self.expert_params

    @property
    def idle_params(self) -> int:
        """Elements of the experts that a token does not visit."""
        return (self.n_experts - self.top_k) * self.expert_params

    @property
    def stored_bytes(self) -> float:
        """Bytes of all experts, block scales included."""
        expert = self.matrix_params * self.weight.element_bytes
        count = self.n_experts + self.n_shared
        return count * (expert + self.bias_params * dtype_bytes("bf16"))


# --- Cores whose memory of the context has a fixed size: linear attention and state spaces -------


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
