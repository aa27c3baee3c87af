"""Blocks that most models and drafters share: grouped-query attention, gated feed-forward."""

from collections.abc import Callable
from dataclasses import dataclass

from specroof.architecture.cores import GroupedQueryAttention
from specroof.architecture.matrices import (
    HEADS,
    TENSOR,
    Linear,
    Shard,
    WeightFormat,
    by_kv_heads,
)
from specroof.architecture.model import Block


@dataclass(frozen=True, slots=True)
class AttentionShape:
    """Sizes of grouped-query attention with its projections.

    Parameters
    ----------
    hidden_size
        Width of the residual stream.
    n_heads, n_kv_heads, head_dim
        Query heads, key and value heads, width of each.
    qkv_bias, out_bias
        Whether the projections have a bias.
    qk_norm
        Whether queries and keys pass a norm of one head's width.
    gated
        Whether the query projection also makes an output gate, and is twice as wide.
    sinks
        Whether each query head has a learned sink.
    value_dim
        Width of a value; as of a key if None.
    window
        Tokens that a query may see; None sees all.
    causal
        False where the new positions of a pass see each other both ways.
    """

    hidden_size: int
    n_heads: int
    n_kv_heads: int
    head_dim: int
    qkv_bias: bool = False
    out_bias: bool = False
    qk_norm: bool = False
    gated: bool = False
    sinks: bool = False
    value_dim: int | None = None
    window: int | None = None
    causal: bool = True

    @property
    def head_vectors(self) -> int:
        """Elements of the norms of one head, and of the sinks."""
        norms = 2 * self.head_dim if self.qk_norm else 0
        return norms + (self.n_heads if self.sinks else 0)


def grouped_query_block(
    shape: AttentionShape,
    weight_of: Callable[[str], WeightFormat],
    *,
    in_features: int | None = None,
    opening_norm: bool = True,
) -> Block:
    """Return grouped-query attention with its projections, and the norm before it.

    Parameters
    ----------
    shape
        Its sizes.
    weight_of
        The format of a projection by its name.
    in_features
        Width of what queries, keys and values take, where it differs from the residual stream.
    opening_norm
        Whether a norm stands before it.
    """
    taken, value_dim = in_features or shape.hidden_size, shape.value_dim or shape.head_dim
    kv_shard = by_kv_heads(shape.n_kv_heads)

    def projection(name: str, out_features: int, shard: Shard) -> Linear:
        return Linear(name, taken, out_features, weight_of(name), shard, bias=shape.qkv_bias)

    query_width = shape.n_heads * shape.head_dim
    out = Linear(
        "o_proj",
        shape.n_heads * value_dim,
        shape.hidden_size,
        weight_of("o_proj"),
        HEADS,
        bias=shape.out_bias,
    )
    return Block(
        "attention",
        (
            projection("q_proj", (2 if shape.gated else 1) * query_width, HEADS),
            projection("k_proj", shape.n_kv_heads * shape.head_dim, kv_shard),
            projection("v_proj", shape.n_kv_heads * value_dim, kv_shard),
            out,
        ),
        GroupedQueryAttention(
            shape.n_heads, shape.n_kv_heads, shape.head_dim, value_dim, shape.window, shape.causal
        ),
        vector_params=(taken if opening_norm else 0) + shape.head_vectors,
    )


def gated_pair(
    hidden_size: int,
    width: int,
    into: WeightFormat,
    out: WeightFormat,
    *,
    prefix: str = "",
    bias: bool = False,
) -> tuple[Linear, Linear]:
    """Return the matrices of a gated feed-forward; engines multiply gate and up as one.

    Examples
    --------
    >>> from specroof.architecture.matrices import BF16
    >>> [linear.matrix_params for linear in gated_pair(8, 32, BF16, BF16)]
    [512, 256]
    """
    return (
        Linear(f"{prefix}gate_up_proj", hidden_size, 2 * width, into, TENSOR, bias=bias),
        Linear(f"{prefix}down_proj", width, hidden_size, out, TENSOR, bias=bias),
    )
