"""Llama-Nemotron of neural architecture search: each layer has its own attention and width.

Source
    Bercovich et al. 2024, arXiv:2411.19146 (Puzzle); mlx-lm, `models/nemotron-nas.py`, after the
    checkpoints' own `modeling_decilm.py`.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Final, TypeAlias

from specroof.architecture.base import HEADS, TENSOR, Linear, Shard
from specroof.architecture.model import Architecture, Block
from specroof.parsers.decoder import (
    LayerPart,
    attention_block,
    decoder,
    feed_forward_block,
    read_attention,
)
from specroof.parsers.formats import LayerWeights
from specroof.parsers.model_config import ModelConfig
from specroof.reading.json_text import MAX_SIZE, Reader

#: What stands for a block that is one square matrix; a number is its size, None no block at all.
_LINEAR: Final = "linear"
_Size: TypeAlias = int | str | None

_WIDTH_MULTIPLE: Final = 256


def parse_nemotron_nas(config: ModelConfig) -> Architecture:
    """Return a Llama-Nemotron; `num_key_value_heads` and `intermediate_size` are null in it."""
    keys, hidden_size, n_layers = config.keys, config.hidden_size, config.n_layers
    n_heads = keys.positive_int("num_attention_heads")
    # The checkpoints' configuration_decilm.py, after configuration_llama.py: both biases False.
    shape = read_attention(keys, heads=(n_heads, n_heads), biased=True)
    mlp_bias = keys.flag("mlp_bias", default=False)

    def attention(n_kv_heads: int, weights: LayerWeights) -> Block:
        return attention_block(replace(shape, n_kv_heads=n_kv_heads), weights)

    def feed_forward(width: int, weights: LayerWeights) -> Block:
        return feed_forward_block(hidden_size, width, weights, bias=mlp_bias)

    def square(module: str, shard: Shard, *, bias: bool) -> Callable[[LayerWeights], Linear]:
        return lambda weights: Linear(
            "linear", hidden_size, hidden_size, weights(module), shard, bias=bias
        )

    blocks = keys.objects("block_configs", at_least=n_layers)[:n_layers]
    if not blocks:
        keys.refuse("block_configs", "a list of objects, one a layer")
    square_attention = square("self_attn", HEADS, bias=shape.out_bias)
    square_mlp = square("mlp", TENSOR, bias=mlp_bias)
    return decoder(
        config,
        LayerPart(
            [_kv_heads(block, n_heads) for block in blocks],
            _replaceable("attention", attention, square_attention),
        ),
        LayerPart(
            [_width(block, hidden_size) for block in blocks],
            _replaceable("feed_forward", feed_forward, square_mlp),
        ),
    )


def _replaceable(
    name: str,
    usual: Callable[[int, LayerWeights], Block],
    square: Callable[[LayerWeights], Linear],
) -> Callable[[_Size, LayerWeights], Block | None]:
    """Return the builder of a block of some size, or of what stands in its place."""

    def build(size: _Size, weights: LayerWeights) -> Block | None:
        if isinstance(size, int):
            return usual(size, weights)
        if size is None:
            return None
        linear = square(weights)
        return Block(name, (linear,), vector_params=linear.in_features)

    return build


def _part(block: Reader, key: str) -> Reader:
    """Return one half of a layer's config; both are there, if only to say that there is none."""
    part = block.section(key)
    if part is None:
        block.refuse(key, "an object")
    return part


def _replacement(part: Reader) -> tuple[bool, _Size]:
    """Return whether another layer replaces a half, and its size."""
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
    return n_heads // attention.divisor(
        "n_heads_in_group", of=n_heads, called="num_attention_heads"
    )


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
