"""What a block does besides multiplying by matrices: attention, recurrent state, experts."""

from dataclasses import dataclass
from typing import ClassVar

from specroof.architecture.matrices import BF16, WeightFormat
from specroof.units import dtype_bytes


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
