"""Llama-Nemotron of neural architecture search: each layer has its own attention and width.

Source
    Bercovich et al. 2024, arXiv:2411.19146 (Puzzle); mlx-lm, `models/nemotron-nas.py`, after the
    checkpoints' own `modeling_decilm.py`.
"""

from dataclasses import replace
from typing import Final, TypeAlias

from specroof.architecture import HEADS, TENSOR, Architecture, Block, Linear
from specroof.parsers.blocks import (
    AttentionShape,
    attention_block,
    feed_forward_block,
    split_head_dim,
)
from specroof.parsers.formats.quantization import LayerWeights
from specroof.parsers.model_config import Decoder, ModelConfig, build_layers
from specroof.reading.json_object import MAX_SIZE, Reader

__all__ = ["parse_nemotron_nas"]

#: What stands for a block that is one square matrix; a number is its size, None no block at all.
_LINEAR: Final = "linear"
_Size: TypeAlias = int | str | None

_WIDTH_MULTIPLE: Final = 256


def parse_nemotron_nas(config: ModelConfig) -> Architecture:
    """Return a Llama-Nemotron; `num_key_value_heads` and `intermediate_size` are null in it."""
    keys = config.keys
    hidden_size = config.hidden_size
    n_heads = keys.positive_int("num_attention_heads")
    # The checkpoints' configuration_decilm.py, after configuration_llama.py: both biases False.
    bias = keys.flag("attention_bias", default=False)
    mlp_bias = keys.flag("mlp_bias", default=False)
    shape = AttentionShape(
        hidden_size, n_heads, n_heads, split_head_dim(keys), qkv_bias=bias, out_bias=bias
    )

    def layer(kind: tuple[_Size, _Size], weights: LayerWeights) -> tuple[Block, ...]:
        n_kv_heads, width = kind
        blocks = []
        if isinstance(n_kv_heads, int):
            blocks.append(attention_block(replace(shape, n_kv_heads=n_kv_heads), None, weights))
        elif n_kv_heads is not None:
            blocks.append(_linear_block("attention", "self_attn", hidden_size, weights, bias=bias))
        if isinstance(width, int):
            blocks.append(feed_forward_block(hidden_size, width, weights, bias=mlp_bias))
        elif width is not None:
            blocks.append(_linear_block("feed_forward", "mlp", hidden_size, weights, bias=mlp_bias))
        return tuple(blocks)

    configs = keys.objects("block_configs", at_least=config.n_layers)
    kinds = [
        (_kv_heads(block, n_heads), _width(block, hidden_size))
        for block in configs[: config.n_layers]
    ]
    if not kinds:
        keys.refuse("block_configs", "a list of objects, one a layer")
    return Decoder(build_layers(config, kinds, layer)).architecture(config)


def _linear_block(
    name: str, module: str, hidden_size: int, weights: LayerWeights, *, bias: bool
) -> Block:
    shard = HEADS if name == "attention" else TENSOR
    linear = Linear(
        "linear", hidden_size, hidden_size, weight=weights(module), shard=shard, bias=bias
    )
    return Block(name, (linear,), vector_params=hidden_size)


def _part(block: Reader, key: str) -> Reader:
    """Return one half of a layer's config; both are there, if only to say that there is none."""
    part = block.section(key)
    if part is None:
        block.refuse(key, "an object")
    return part


def _replacement(part: Reader) -> tuple[bool, _Size]:
    """Return whether a half of a layer is not the usual one, and what it is then."""
    if part.flag("no_op", default=False):
        return True, None
    return part.flag("replace_with_linear", default=False), _LINEAR


def _kv_heads(block: Reader, n_heads: int) -> _Size:
    attention = _part(block, "attention")
    replaced, size = _replacement(attention)
    if replaced:
        return size
    for key in ("window_length", "num_sink_tokens", "sparsify"):
        if attention.has(key):
            attention.refuse(key, "null")
    group = attention.positive_int("n_heads_in_group", maximum=n_heads)
    if n_heads % group:
        attention.refuse("n_heads_in_group", f"a divisor of num_attention_heads ({n_heads})")
    return n_heads // group


def _width(block: Reader, hidden_size: int) -> _Size:
    """Return the width of a feed-forward: two thirds of the multiplier, rounded up to 256.

    Source
        ``_ffn_mult_to_intermediate_size`` and ``FFNConfig`` of mlx-lm's `nemotron-nas.py`.
    """
    feed_forward = _part(block, "ffn")
    replaced, size = _replacement(feed_forward)
    if replaced:
        return size
    if feed_forward.has("sparsify"):
        feed_forward.refuse("sparsify", "null")
    multiplier = round(feed_forward.positive_number("ffn_mult", maximum=MAX_SIZE), 6)
    width = int(2 * multiplier * hidden_size / 3)
    width += -width % _WIDTH_MULTIPLE
    if not 0 < width <= MAX_SIZE:
        feed_forward.refuse("ffn_mult", f"a number that makes a width from 1 to {MAX_SIZE}")
    return width
