"""Layers of drafters and what stands around them: their shape, a pass, matrices before it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from specroof.architecture.cores import GroupedQueryAttention
from specroof.architecture.matrices import (
    ATTENTION_REPLICATED,
    BF16,
    HEADS,
    TENSOR,
    Linear,
    Shard,
    WeightFormat,
    by_kv_heads,
)
from specroof.architecture.model import Architecture, Block, Layer

__all__ = ["DraftShape", "draft_layer", "draft_model", "replicated", "with_first"]


@dataclass(frozen=True, slots=True)
class DraftShape:
    """Sizes of one layer of a draft head: grouped-query attention and a gated feed-forward.

    Parameters
    ----------
    hidden_size
        Width of the residual stream.
    n_heads, n_kv_heads, head_dim
        Of attention.
    width
        Inner width of the feed-forward.
    value_dim
        Width of a value; that of a key if None.
    window
        Tokens a query may see; None sees all.
    bias
        Whether the projections of attention have one.
    qk_norm, sinks
        Whether queries and keys pass a norm per head, and whether each head has a sink.
    causal
        False where a block sees itself both ways.
    weight, plain
        Storage format and arithmetic of the layer's matrices, and of those around the layers,
        which quantised drafters leave alone.
    dtype
        Of activations and of the cache.
    """

    hidden_size: int
    n_heads: int
    n_kv_heads: int
    head_dim: int
    width: int
    value_dim: int | None = None
    window: int | None = None
    bias: bool = False
    qk_norm: bool = False
    sinks: bool = False
    causal: bool = True
    weight: WeightFormat = BF16
    plain: WeightFormat = BF16
    dtype: str = "bf16"

    @property
    def head_vectors(self) -> int:
        """Elements of the norms of one head, and of the sinks."""
        norms = 2 * self.head_dim if self.qk_norm else 0
        return norms + (self.n_heads if self.sinks else 0)


def draft_layer(
    shape: DraftShape, *, in_features: int | None = None, opening_norm: bool = True
) -> Layer:
    """Return one layer; its queries, keys and values may take an input of another width.

    Examples
    --------
    >>> llama = DraftShape(4096, n_heads=32, n_kv_heads=8, head_dim=128, width=14336)
    >>> [linear.matrix_params for linear in draft_layer(llama).blocks[0].linears]
    [16777216, 4194304, 4194304, 16777216]
    """
    hidden_size, taken = shape.hidden_size, in_features or shape.hidden_size
    value_dim = shape.value_dim or shape.head_dim
    queries, keys = shape.n_heads * shape.head_dim, shape.n_kv_heads * shape.head_dim
    kv_shard = by_kv_heads(shape.n_kv_heads)

    def linear(name: str, in_: int, out: int, shard: Shard = HEADS) -> Linear:
        return Linear(name, in_, out, shape.weight, shard, bias=shape.bias)

    attention = Block(
        "attention",
        (
            linear("q_proj", taken, queries),
            linear("k_proj", taken, keys, kv_shard),
            linear("v_proj", taken, shape.n_kv_heads * value_dim, kv_shard),
            linear("o_proj", shape.n_heads * value_dim, hidden_size),
        ),
        GroupedQueryAttention(
            shape.n_heads, shape.n_kv_heads, shape.head_dim, value_dim, shape.window, shape.causal
        ),
        vector_params=(taken if opening_norm else 0) + shape.head_vectors,
    )
    feed_forward = Block(
        "feed_forward",
        (
            Linear("gate_up_proj", hidden_size, 2 * shape.width, shape.weight, TENSOR),
            Linear("down_proj", shape.width, hidden_size, shape.weight, TENSOR),
        ),
        vector_params=hidden_size,
    )
    return Layer((attention, feed_forward))


def with_first(layers: Sequence[Layer], linears: Sequence[Linear]) -> tuple[Layer, ...]:
    """Return `layers` with matrices before the first one, in its first block.

    They belong to no block of their own, so that no collective follows them: engines repeat them
    on every device.
    """
    first, *others = layers
    opening, *blocks = first.blocks
    opened = replace(opening, linears=(*linears, *opening.linears))
    rest = (replace(first, count=first.count - 1),) if first.count > 1 else ()
    return (Layer((opened, *blocks)), *rest, *others)


def draft_model(  # noqa: PLR0913 - the parts of a pass, by name
    name: str,
    kind: str,
    hidden_size: int,
    layers: Sequence[Layer],
    *,
    head_rows: int = 0,
    vector_params: int | None = None,
    lookup_params: int = 0,
    weight: WeightFormat = BF16,
    dtype: str = "bf16",
) -> Architecture:
    """Return a pass of a drafter that embeds tokens with the target's table.

    A head of no rows is the target's; the vectors of the last norm are counted unless given.
    """
    return Architecture(
        name=name,
        family=kind,
        hidden_size=hidden_size,
        vocab_size=0,
        layers=tuple(layers),
        head=Linear("lm_head", hidden_size, head_rows, weight, TENSOR, kind="head"),
        vector_params=hidden_size if vector_params is None else vector_params,
        lookup_params=lookup_params,
        activation_dtype=dtype,
        kv_dtype=dtype,
    )


def replicated(name: str, in_features: int, out_features: int, weight: WeightFormat) -> Linear:
    """Return a matrix that every device of an attention group repeats, as engines run fusions."""
    return Linear(name, in_features, out_features, weight, ATTENTION_REPLICATED)
