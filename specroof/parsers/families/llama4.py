"""Llama 4: attention in chunks with full layers between, experts with a shared one.

Source
    transformers 5, `models/llama4/modeling_llama4.py` and `configuration_llama4.py`.
"""

from dataclasses import replace
from typing import Final

from specroof.architecture import Architecture, Block, ChunkedAttention
from specroof.parsers.blocks import (
    AttentionShape,
    ExpertNames,
    ExpertsShape,
    attention_block,
    experts_block,
    feed_forward_block,
    head_counts,
    split_head_dim,
    top_k_experts,
)
from specroof.parsers.formats.quantization import LayerWeights
from specroof.parsers.model_config import Decoder, ModelConfig, build_layers
from specroof.reading.json_object import MAX_LAYERS, Reader

__all__ = ["parse_llama4"]

_CHUNKED: Final = "chunked_attention"
_FULL: Final = "full_attention"
_NAMES: Final = ExpertNames(
    routed="feed_forward.experts.0.gate_proj",
    shared_in="feed_forward.shared_expert.gate_proj",
    shared_out="feed_forward.shared_expert.down_proj",
)


def parse_llama4(config: ModelConfig) -> Architecture:
    """Return a Llama 4.

    `intermediate_size` is the width of an expert and of the shared expert, `intermediate_size_mlp`
    that of a dense layer.
    """
    keys = config.keys
    sparse = _sparse_layers(keys, config.n_layers)
    experts = _experts_shape(config) if any(sparse) else None
    dense_width = 0 if all(sparse) else keys.positive_int("intermediate_size_mlp")
    attention = _attention_shape(config)
    # configuration_llama4.py: attention_chunk_size 8192; null means no chunks.
    chunk = keys.optional_int("attention_chunk_size", missing=8192)

    def layer(kind: tuple[str, bool], weights: LayerWeights) -> tuple[Block, ...]:
        mixer, is_sparse = kind
        feed_forward = (
            experts_block(experts, weights, _NAMES)
            if is_sparse and experts is not None
            else feed_forward_block(config.hidden_size, dense_width, weights, module="feed_forward")
        )
        block = _attention_block(attention, chunk if mixer == _CHUNKED else None, weights)
        return block, feed_forward

    mixers = _mixers(keys, config.n_layers)
    notes: tuple[str, ...] = ()
    if chunk is not None and _CHUNKED in mixers:
        notes = (
            f"chunked attention sees the current {chunk} tokens: its cost begins anew at every "
            "multiple of them",
        )
    layers = build_layers(config, list(zip(mixers, sparse, strict=True)), layer)
    return Decoder(layers, notes=notes).architecture(config)


def _attention_shape(config: ModelConfig) -> AttentionShape:
    keys = config.keys
    # configuration_llama4.py: attention_bias False, head_dim 128, a share of hidden_size where it
    # is null. The norm of queries and keys (use_qk_norm) has no weights.
    bias = keys.flag("attention_bias", default=False)
    return AttentionShape(
        config.hidden_size,
        *head_counts(keys),
        keys.optional_int("head_dim", missing=128) or split_head_dim(keys),
        qkv_bias=bias,
        out_bias=bias,
    )


def _experts_shape(config: ModelConfig) -> ExpertsShape:
    width = config.keys.positive_int("intermediate_size")
    return ExpertsShape(
        config.hidden_size,
        *top_k_experts(config.keys, "num_local_experts", "num_experts_per_tok"),
        width,
        shared_width=width,
    )


def _sparse_layers(keys: Reader, n_layers: int) -> list[bool]:
    """Return whether each layer has experts.

    Source
        `Llama4TextConfig.__post_init__`: the layers of ``moe_layers``, else every
        ``interleave_moe_layer_step`` th (1).
    """
    if keys.has("moe_layers"):
        listed = frozenset(keys.ints("moe_layers"))
        return [index in listed for index in range(n_layers)]
    step = keys.positive_int("interleave_moe_layer_step", maximum=MAX_LAYERS, default=1)
    return [(index + 1) % step == 0 for index in range(n_layers)]


def _mixers(keys: Reader, n_layers: int) -> list[str]:
    """Return each layer's attention: layers that know positions see their chunk only.

    Source
        `Llama4TextConfig.__post_init__`: ``layer_types``, else ``no_rope_layers`` (1: has rotary
        positions), else every ``no_rope_layer_interval`` th layer (4) is full.
    """
    if keys.has("layer_types"):
        kinds = keys.texts("layer_types", allowed=(_CHUNKED, _FULL), at_least=n_layers)
        return list(kinds[:n_layers])
    if keys.values.get("no_rope_layers"):
        rotary = keys.ints("no_rope_layers", allowed=(0, 1), at_least=n_layers)
        return [_CHUNKED if uses_rope else _FULL for uses_rope in rotary[:n_layers]]
    interval = keys.positive_int("no_rope_layer_interval", default=4)
    return [_CHUNKED if (index + 1) % interval else _FULL for index in range(n_layers)]


def _attention_block(shape: AttentionShape, chunk: int | None, weights: LayerWeights) -> Block:
    block = attention_block(shape, None, weights)
    if chunk is None:
        return block
    chunked = ChunkedAttention(
        shape.n_heads, shape.n_kv_heads, shape.head_dim, shape.head_dim, chunk
    )
    return replace(block, core=chunked)
