"""Gemma 4: two shapes of attention, caches shared between layers, embeddings per layer, experts.

Source
    transformers 5, `models/gemma4/` and `models/gemma4_unified/` (`modeling_*.py`,
    `configuration_*.py`), and the names of the published checkpoints.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from specroof.architecture import (
    FEED_FORWARD_REPLICATED,
    Architecture,
    Block,
    GroupedQueryAttention,
    Linear,
    SharedCacheAttention,
)
from specroof.parsers.blocks import (
    AttentionShape,
    ExpertNames,
    ExpertsShape,
    attention_block,
    experts_block,
    feed_forward_block,
    head_counts,
    top_k_experts,
)
from specroof.parsers.families.gemma import with_closing_norm
from specroof.parsers.formats.quantization import LayerWeights
from specroof.parsers.layer_lists import layer_overrides
from specroof.parsers.model_config import Decoder, ModelConfig, build_layers
from specroof.reading.json_object import MAX_LAYERS, Reader

__all__ = ["parse_gemma4", "parse_gemma4_unified"]

_SLIDING: Final = "sliding_attention"
_FULL: Final = "full_attention"
_NAMES: Final = ExpertNames(routed="experts.0.gate_proj")


@dataclass(frozen=True, slots=True)
class _Attention:
    """The attention of one kind of layer.

    Parameters
    ----------
    shape, window
        Sizes, and tokens that a query may see.
    keys_are_values
        Whether values are the projected keys: there is no v_proj. Keys are then rotated and
        values are not, so that both are cached all the same.
    """

    shape: AttentionShape
    window: int | None
    keys_are_values: bool


@dataclass(frozen=True, slots=True)
class _FeedForward:
    """The feed-forward of all layers.

    Parameters
    ----------
    hidden_size, width
        Of the dense part; `shared_width` in layers that share a cache.
    experts
        What runs beside the dense part, if anything.
    per_layer_dim
        Width of the embedding that every layer adds; 0 where there is none.
    """

    hidden_size: int
    width: int
    shared_width: int
    experts: ExpertsShape | None
    per_layer_dim: int


def parse_gemma4(config: ModelConfig) -> Architecture:
    """Return a Gemma 4."""
    # configuration_gemma4.py: sliding_window 512, hidden_size_per_layer_input 256,
    # vocab_size_per_layer_input 262144, enable_moe_block False.
    keys = config.keys
    per_layer_dim = keys.positive_int("hidden_size_per_layer_input", minimum=0, default=256)
    per_layer_vocab = keys.positive_int("vocab_size_per_layer_input", default=262_144)
    experts = None
    if keys.flag("enable_moe_block", default=False):
        experts = ExpertsShape(
            config.hidden_size,
            *top_k_experts(keys, "num_experts", "top_k_experts"),
            keys.positive_int("moe_intermediate_size"),
        )
    return _gemma4(
        config,
        _feed_forward_shape(config, experts, per_layer_dim),
        window_default=512,
        lookup_params=per_layer_vocab * config.n_layers * per_layer_dim,
    )


def parse_gemma4_unified(config: ModelConfig) -> Architecture:
    """Return a Gemma 4 whose pictures and sounds need no tower; it has no experts."""
    # configuration_gemma4_unified.py: sliding_window 1024; knows no embeddings per layer.
    feed_forward = _feed_forward_shape(config, None, 0)
    return _gemma4(config, feed_forward, window_default=1024, lookup_params=0)


def _feed_forward_shape(
    config: ModelConfig, experts: ExpertsShape | None, per_layer_dim: int
) -> _FeedForward:
    width = config.keys.positive_int("intermediate_size")
    double = config.keys.flag("use_double_wide_mlp", default=False)
    return _FeedForward(
        config.hidden_size, width, 2 * width if double else width, experts, per_layer_dim
    )


def _gemma4(
    config: ModelConfig, feed_forward: _FeedForward, *, window_default: int, lookup_params: int
) -> Architecture:
    keys = config.keys
    if keys.has("use_bidirectional_attention"):
        keys.text("use_bidirectional_attention", allowed=("vision",))  # "all" is not a decoder
    kinds = _layer_kinds(keys, config.n_layers)
    attentions = _attentions(config, [name for name, _ in kinds], window_default)

    def layer(kind: tuple[_Attention, bool], weights: LayerWeights) -> tuple[Block, ...]:
        attention, shares_cache = kind
        return (
            _attention_block(attention, weights, shares_cache=shares_cache),
            _feed_forward_block(feed_forward, weights, shares_cache=shares_cache),
        )

    return Decoder(
        build_layers(
            config,
            [(attention, kind[1]) for attention, kind in zip(attentions, kinds, strict=True)],
            layer,
        ),
        tied_default=True,
        # the last norm, and the one of all embeddings per layer
        vector_params=config.hidden_size + feed_forward.per_layer_dim,
        lookup_params=lookup_params,
    ).architecture(config)


def _layer_kinds(keys: Reader, n_layers: int) -> list[tuple[str, bool]]:
    """Return the kind of attention of each layer, and whether it reads another layer's cache.

    Source
        `Gemma4TextConfig`: ``layer_types`` is every sixth layer full by default, and the last
        layer is full whatever it says; ``kv_sharing_modes``: the last ``num_kv_shared_layers``
        (0) read the cache of the last layer of their kind before them, which must be there.
    """
    kinds = [_SLIDING if (index + 1) % 6 else _FULL for index in range(n_layers)]
    if keys.has("layer_types"):
        stated = keys.texts("layer_types", allowed=(_FULL, _SLIDING), at_least=n_layers)
        kinds = list(stated[:n_layers])
    kinds[-1] = _FULL
    n_shared = keys.positive_int("num_kv_shared_layers", minimum=0, maximum=MAX_LAYERS, default=0)
    first_shared = n_layers - n_shared
    if first_shared <= 0 or set(kinds[:first_shared]) != set(kinds):
        allowed = "a number that leaves a layer of each kind with a cache of its own"
        keys.refuse("num_kv_shared_layers", allowed)
    return [(kind, index >= first_shared) for index, kind in enumerate(kinds)]


def _attentions(config: ModelConfig, names: Sequence[str], window_default: int) -> list[_Attention]:
    """Return the attention of each layer, given its kind.

    Source
        `Gemma4TextConfig`: head_dim 256, attention_k_eq_v and attention_bias False. Files that
        transformers 5.23 has saved say by ``per_layer_config`` which layers have heads of another
        width or number, and the keys that say so of full layers are then without meaning.
    """
    keys = config.keys
    n_heads, n_kv_heads = head_counts(keys)
    bias = keys.flag("attention_bias", default=False)
    usual = AttentionShape(
        config.hidden_size,
        n_heads,
        n_kv_heads,
        keys.positive_int("head_dim", default=256),
        qkv_bias=bias,
        out_bias=bias,
        qk_norm=True,
    )
    window = keys.positive_int("sliding_window", default=window_default)
    keys_are_values = keys.flag("attention_k_eq_v", default=False)
    layers = layer_overrides(keys, len(names), ("head_dim", "num_key_value_heads"))
    if layers is None:
        full = _full_shape(keys, usual, keys_are_values=keys_are_values)
        shapes = [full if name == _FULL else usual for name in names]
    else:
        shapes = [_overridden(usual, layer) for layer in layers]
    return [
        _Attention(shape, None, keys_are_values)
        if name == _FULL
        else _Attention(shape, window, keys_are_values=False)
        for name, shape in zip(names, shapes, strict=True)
    ]


def _full_shape(keys: Reader, usual: AttentionShape, *, keys_are_values: bool) -> AttentionShape:
    """Return the shape of full layers, whose heads have a width and number of their own.

    Source
        `Gemma4TextConfig.__post_init__`: global_head_dim 512; num_global_key_value_heads counts
        where keys are values, and is num_key_value_heads by default.
    """
    n_kv_heads = usual.n_kv_heads
    if keys_are_values:
        n_kv_heads = keys.positive_int("num_global_key_value_heads", default=n_kv_heads)
    if usual.n_heads % n_kv_heads:
        allowed = f"a divisor of num_attention_heads ({usual.n_heads})"
        keys.refuse("num_global_key_value_heads", allowed)
    head_dim = keys.optional_int("global_head_dim", missing=512) or usual.head_dim
    return replace(usual, n_kv_heads=n_kv_heads, head_dim=head_dim)


def _overridden(usual: AttentionShape, layer: Reader) -> AttentionShape:
    n_kv_heads = layer.positive_int("num_key_value_heads", default=usual.n_kv_heads)
    if usual.n_heads % n_kv_heads:
        allowed = f"a divisor of num_attention_heads ({usual.n_heads})"
        layer.refuse("num_key_value_heads", allowed)
    head_dim = layer.positive_int("head_dim", default=usual.head_dim)
    return replace(usual, n_kv_heads=n_kv_heads, head_dim=head_dim)


def _attention_block(attention: _Attention, weights: LayerWeights, *, shares_cache: bool) -> Block:
    """Return attention, without the projections (and the norm of keys) that a layer lacks."""
    shape = attention.shape
    block = attention_block(shape, attention.window, weights)
    block = with_closing_norm(block, shape.hidden_size)
    if shares_cache and isinstance(block.core, GroupedQueryAttention):
        return replace(
            block,
            linears=_without(block, "k_proj", "v_proj"),
            core=SharedCacheAttention(block.core),
            vector_params=block.vector_params - shape.head_dim,
        )
    if attention.keys_are_values:
        return replace(block, linears=_without(block, "v_proj"))
    return block


def _without(block: Block, *names: str) -> tuple[Linear, ...]:
    return tuple(linear for linear in block.linears if linear.name not in names)


def _feed_forward_block(
    feed_forward: _FeedForward, weights: LayerWeights, *, shares_cache: bool
) -> Block:
    """Return the dense feed-forward with what runs beside and after it, as one block.

    Vectors: a norm before and after, and the layer's scalar; beside experts, three more norms,
    the router's scale, and one of each expert; after the embedding of the layer, one more norm.
    """
    hidden_size = feed_forward.hidden_size
    width = feed_forward.shared_width if shares_cache else feed_forward.width
    dense = with_closing_norm(feed_forward_block(hidden_size, width, weights), hidden_size)
    linears, core, vectors = dense.linears, None, dense.vector_params + 1
    if feed_forward.experts is not None:
        routed = experts_block(feed_forward.experts, weights, _NAMES)
        linears, core = (*linears, *routed.linears), routed.core
        vectors += 4 * hidden_size + feed_forward.experts.n_experts
    if feed_forward.per_layer_dim:
        # First, since the exchange between devices belongs to the last matrix of a block.
        linears = (*_per_layer_linears(feed_forward, weights), *linears)
        vectors += hidden_size
    return Block("feed_forward", linears, core, vector_params=vectors)


def _per_layer_linears(feed_forward: _FeedForward, weights: LayerWeights) -> tuple[Linear, ...]:
    """Return the matrices around a layer's own embedding of the token.

    The model projects its first hidden state once for all layers; each layer has its share here:
    the same weights and the same arithmetic.
    """
    hidden_size, dim = feed_forward.hidden_size, feed_forward.per_layer_dim
    sizes = (
        ("per_layer_model_projection", hidden_size, dim),
        ("per_layer_input_gate", hidden_size, dim),
        ("per_layer_projection", dim, hidden_size),
    )
    return tuple(
        Linear(name, in_features, out_features, weight=weights(name), shard=FEED_FORWARD_REPLICATED)
        for name, in_features, out_features in sizes
    )
