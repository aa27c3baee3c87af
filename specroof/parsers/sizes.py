"""Sizes that most families spell alike: heads of attention, and experts."""

from typing import Final

from specroof.architecture import AttentionShape
from specroof.parsers.blocks import ExpertsShape
from specroof.reading.json_object import Reader

#: What transformers calls the number of experts in files that it saves again: the `attribute_map`
#: of a configuration class takes these names for the family's own.
_SAVED_EXPERTS_KEYS: Final = ("num_local_experts", "num_experts", "n_routed_experts")


def head_counts(
    keys: Reader, *, heads_default: int | None = None, kv_default: int | None = None
) -> tuple[int, int]:
    """Return query heads and KV heads, which divide them; defaults are those of a config class."""
    n_heads = keys.positive_int("num_attention_heads", default=heads_default)
    n_kv_heads = keys.divisor(
        "num_key_value_heads", of=n_heads, called="num_attention_heads", default=kv_default
    )
    return n_heads, n_kv_heads


def split_head_dim(keys: Reader) -> int:
    """Return `head_dim`, or where it is missing the heads' share of the hidden size."""
    if keys.has("head_dim"):
        return keys.positive_int("head_dim")
    hidden_size = keys.positive_int("hidden_size")
    n_heads = keys.positive_int("num_attention_heads")
    if hidden_size % n_heads:
        allowed = f"a divisor of hidden_size ({hidden_size}), or a head_dim beside it"
        keys.refuse("num_attention_heads", allowed)
    return keys.positive_int("head_dim", default=hidden_size // n_heads)


def read_attention(
    keys: Reader,
    head_dim: int | None = None,
    *,
    heads: tuple[int, int] | None = None,
    biased: bool = False,
) -> AttentionShape:
    """Return the sizes of grouped-query attention, with neither head norms nor sinks.

    Parameters
    ----------
    keys
        The config.
    head_dim
        Width of a head; None reads it, or takes the heads' share of the hidden size.
    heads
        Query and KV heads; None reads them.
    biased
        Whether the family has `attention_bias`, on all four projections and false by default.
    """
    bias = biased and keys.flag("attention_bias", default=False)
    return AttentionShape(
        keys.positive_int("hidden_size"),
        *(heads or head_counts(keys)),
        head_dim or split_head_dim(keys),
        qkv_bias=bias,
        out_bias=bias,
    )


def read_experts(
    keys: Reader,
    experts_key: str,
    *top_k_keys: str,
    width_key: str = "moe_intermediate_size",
    n_shared: int = 0,
    correction_bias: bool = False,
) -> ExpertsShape:
    """Return the sizes of experts; all shared ones of a layer are one wide expert.

    Parameters
    ----------
    keys
        The config; without the family's `experts_key` it may have a name that transformers saves.
    experts_key, top_k_keys, width_key
        Where it says how many experts there are, how many of them a token visits (by default
        `num_experts_per_tok`), and the inner width of one.
    n_shared
        Shared experts of a layer, as wide as the others.
    correction_bias
        Whether each expert has a bias that only the selection sees.
    """
    hidden_size = keys.positive_int("hidden_size")
    if experts_key not in keys.values:
        experts_key = next((key for key in _SAVED_EXPERTS_KEYS if keys.has(key)), experts_key)
    n_experts = keys.positive_int(experts_key)
    top_k = keys.positive_int(*(top_k_keys or ("num_experts_per_tok",)), maximum=n_experts)
    width = keys.positive_int(width_key)
    return ExpertsShape(
        hidden_size,
        n_experts,
        top_k,
        width,
        shared_width=n_shared * width,
        correction_bias=correction_bias,
    )
