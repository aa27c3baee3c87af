"""Layers of drafters and what stands around them: their shape, a pass, matrices before it."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from specroof.architecture.matrices import (
    ATTENTION_REPLICATED,
    BF16,
    TENSOR,
    Linear,
    WeightFormat,
)
from specroof.architecture.model import Architecture, Block, Layer
from specroof.architecture.usual_blocks import AttentionShape, gated_pair, grouped_query_block


@dataclass(frozen=True, slots=True)
class DraftShape(AttentionShape):
    """Sizes of one layer of a draft head: grouped-query attention and a gated feed-forward.

    Parameters
    ----------
    hidden_size, n_heads, n_kv_heads, head_dim, qkv_bias, out_bias, qk_norm, gated, sinks, value_dim
        Of attention, as in `AttentionShape`.
    window, causal
        Likewise; False for `causal` where a block sees itself both ways.
    width
        Inner width of the feed-forward.
    weight, plain
        Storage format and arithmetic of the layer's matrices, and of those around the layers,
        which quantised drafters leave alone.
    dtype
        Of activations and of the cache.
    """

    width: int = field(kw_only=True)
    weight: WeightFormat = BF16
    plain: WeightFormat = BF16
    dtype: str = "bf16"


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
    attention = grouped_query_block(
        shape, lambda _: shape.weight, in_features=in_features, opening_norm=opening_norm
    )
    pair = gated_pair(shape.hidden_size, shape.width, shape.weight, shape.weight)
    return Layer((attention, Block("feed_forward", pair, vector_params=shape.hidden_size)))


def with_first(layers: Sequence[Layer], linears: Sequence[Linear]) -> tuple[Layer, ...]:
    """Return `layers` with matrices before the first one, in its first block.

    They make no separate block, so that no collective follows them: engines repeat them
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
