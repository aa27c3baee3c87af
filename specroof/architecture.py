"""A model as frozen numbers: what it multiplies, what it caches, and in which formats.

Parsers build these values, `specroof.cost` prices them. Nothing here knows a config key, a chip
or a formula of time.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

from specroof.units import dtype_bytes

__all__ = [
    "ATTENTION_REPLICATED",
    "BF16",
    "FEED_FORWARD_REPLICATED",
    "FP32",
    "HEADS",
    "TENSOR",
    "WEIGHT_FORMATS",
    "Architecture",
    "Block",
    "CompressedAttention",
    "Compressor",
    "Core",
    "Experts",
    "GatedDeltaNet",
    "GroupedQueryAttention",
    "Indexer",
    "LatentAttention",
    "Layer",
    "Linear",
    "Shard",
    "WeightFormat",
    "by_kv_heads",
    "cache_only",
    "stack_layers",
]

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
        The dtype of `specroof.units.DTYPE_BYTES` whose peak prices the matmul. Weight-only
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
        Whether `out_features` bias elements are stored beside it (counted, not priced).
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
    """What a block does besides multiplying by its matrices.

    Attention over a cache and recurrent states store nothing, so zero is the rule here.
    """

    __slots__ = ()

    @property
    def label(self) -> str:
        """What operations of its block are called after."""
        raise NotImplementedError

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


@dataclass(frozen=True, slots=True)
class GroupedQueryAttention(Core):
    """Softmax attention with a cache of keys and values per KV head.

    Parameters
    ----------
    n_heads, n_kv_heads
        Query heads, and heads whose keys and values are cached.
    head_dim, value_dim
        Width of a query or key, and of a value.
    window
        Tokens a query may see, itself included; None sees all.
    """

    n_heads: int
    n_kv_heads: int
    head_dim: int
    value_dim: int
    window: int | None = None

    @property
    def label(self) -> str:
        """What operations of its block are called after."""
        return "sliding_attention" if self.window else "full_attention"


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


@dataclass(frozen=True, slots=True)
class LatentAttention(Core):
    """Multi-head latent attention in its absorbed form: one latent per token for all heads.

    Parameters
    ----------
    n_heads
        Query heads.
    latent_dim, rope_dim
        Width of the compressed key-value latent, and of the rotary key beside it.
    indexer
        Present where attention sees only the top-k tokens of an indexer.
    """

    n_heads: int
    latent_dim: int
    rope_dim: int
    indexer: Indexer | None = None

    @property
    def label(self) -> str:
        """What operations of its block are called after."""
        return "sparse_attention" if self.indexer else "latent_attention"


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
class CompressedAttention(Core):
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


@dataclass(frozen=True, slots=True)
class GatedDeltaNet(Core):
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

    @property
    def label(self) -> str:
        """What operations of its block are called after."""
        return "linear_attention"

    @property
    def conv_dim(self) -> int:
        """Channels of the convolution: q, k and v side by side."""
        return 2 * self.n_key_heads * self.key_dim + self.n_value_heads * self.value_dim

    @property
    def n_params(self) -> int:
        """Elements of the depthwise convolution."""
        return self.conv_dim * self.conv_kernel

    @property
    def stored_bytes(self) -> float:
        """Bytes of the convolution, which no published checkpoint quantises."""
        return self.n_params * dtype_bytes("bf16")


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
        Bias elements of one expert (counted, not priced).
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

    @property
    def label(self) -> str:
        """What operations of its block are called after."""
        return "moe"

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


@dataclass(frozen=True, slots=True)
class Block:
    """One residual branch: the matrices of a mixer or feed-forward, and what is not a matrix.

    Parameters
    ----------
    name
        ``"attention"`` or ``"feed_forward"``: which of a layer's two collectives follows it.
    linears
        Its matrices, in order.
    core
        What it does besides: attention over a cache, a recurrent state, routed experts.
    vector_params
        Elements of norms, sinks and the like: counted, not priced.
    """

    name: str
    linears: tuple[Linear, ...]
    core: Core | None = None
    vector_params: int = 0

    @property
    def label(self) -> str:
        """What its operations are called after: the kind of attention, ``"moe"`` or ``"mlp"``."""
        return self.core.label if self.core is not None else "mlp"

    @property
    def n_params(self) -> int:
        """All stored elements of the block."""
        core = self.core.n_params if self.core else 0
        return core + self.vector_params + sum(linear.n_params for linear in self.linears)

    @property
    def idle_params(self) -> int:
        """Stored elements that one token does not use."""
        return self.core.idle_params if self.core else 0

    @property
    def stored_bytes(self) -> float:
        """Bytes of the block in a checkpoint."""
        core = self.core.stored_bytes if self.core else 0.0
        vectors = self.vector_params * dtype_bytes("bf16")
        return core + vectors + sum(linear.stored_bytes for linear in self.linears)


@dataclass(frozen=True, slots=True)
class Layer:
    """Blocks that follow each other, and how many identical layers there are.

    Parameters
    ----------
    blocks
        Usually two: a mixer and a feed-forward.
    count
        Identical layers, wherever they stand.
    """

    blocks: tuple[Block, ...]
    count: int = 1


def stack_layers(layers: Iterable[Layer]) -> tuple[Layer, ...]:
    """Return `layers` with equal ones merged into one of a larger count, first seen first.

    Examples
    --------
    >>> dense = Layer((Block("feed_forward", (Linear("up_proj", 8, 32),)),))
    >>> empty = Layer(())
    >>> [layer.count for layer in stack_layers([dense, empty, dense, dense])]
    [3, 1]
    """
    counts: dict[tuple[Block, ...], int] = {}
    for layer in layers:
        counts[layer.blocks] = counts.get(layer.blocks, 0) + layer.count
    return tuple(Layer(blocks, count) for blocks, count in counts.items())


@dataclass(frozen=True)
class Architecture:
    """A decoder-only language model as numbers.

    Parameters
    ----------
    name
        What outputs call it.
    family
        The `model_type` it was parsed as.
    hidden_size, vocab_size
        Width of the residual stream, and rows of the embedding.
    layers
        Distinct layers with their counts.
    head
        The matrix from hidden state to logits; priced whether tied or not.
    tied_embeddings
        Whether the head is the embedding table, stored once.
    vector_params
        Elements outside of layers that are counted and not priced (final norm).
    activation_dtype, kv_dtype, state_dtype
        Of activations and attention arithmetic, of cached keys and values, of recurrent state.
    notes
        Sentences for the reader: what the config left open, what was left out.
    """

    name: str
    family: str
    hidden_size: int
    vocab_size: int
    layers: tuple[Layer, ...]
    head: Linear
    tied_embeddings: bool = False
    vector_params: int = 0
    activation_dtype: str = "bf16"
    kv_dtype: str = "bf16"
    state_dtype: str = "fp32"
    notes: tuple[str, ...] = ()

    @property
    def n_layers(self) -> int:
        """Layers of the model."""
        return sum(layer.count for layer in self.layers)

    @property
    def layer_kinds(self) -> dict[str, int]:
        """How many blocks there are of each kind of attention and feed-forward."""
        kinds: dict[str, int] = {}
        for layer in self.layers:
            for block in layer.blocks:
                kinds[block.label] = kinds.get(block.label, 0) + layer.count
        return kinds

    @property
    def embedding_params(self) -> int:
        """Elements of the embedding table (a lookup: it is stored and never multiplied)."""
        return self.vocab_size * self.hidden_size

    @cached_property
    def n_params(self) -> int:
        """Stored elements of the language model."""
        head = 0 if self.tied_embeddings else self.head.n_params
        blocks = sum(
            layer.count * block.n_params for layer in self.layers for block in layer.blocks
        )
        return blocks + head + self.embedding_params + self.vector_params

    @cached_property
    def n_active_params(self) -> int:
        """Stored elements that one token uses: all but the experts it does not visit."""
        idle = sum(
            layer.count * block.idle_params for layer in self.layers for block in layer.blocks
        )
        return self.n_params - idle

    @cached_property
    def weight_bytes(self) -> float:
        """Bytes of the weights as stored, block scales included."""
        head = 0.0 if self.tied_embeddings else self.head.stored_bytes
        table = self.embedding_params * dtype_bytes(self.activation_dtype)
        blocks = sum(
            layer.count * block.stored_bytes for layer in self.layers for block in layer.blocks
        )
        return blocks + head + table + self.vector_params * dtype_bytes("bf16")

    def with_weights(self, form: WeightFormat) -> "Architecture":
        """Return the model with its projections, feed-forward and experts stored as `form`.

        Router, compressors, residual mixing, embedding and head keep their format, as engines'
        online quantisation leaves them.
        """
        layers = tuple(
            replace(
                layer,
                blocks=tuple(_block_with_weights(block, form) for block in layer.blocks),
            )
            for layer in self.layers
        )
        return replace(self, layers=layers)


def _block_with_weights(block: Block, form: WeightFormat) -> Block:
    linears = tuple(
        replace(linear, weight=form) if linear.kind == "dense" else linear
        for linear in block.linears
    )
    core = replace(block.core, weight=form) if isinstance(block.core, Experts) else block.core
    return replace(block, linears=linears, core=core)
