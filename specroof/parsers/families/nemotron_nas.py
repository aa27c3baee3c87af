"""Llama-Nemotron of neural architecture search: each layer has its own attention and width.

Source
    Bercovich et al. 2024, arXiv:2411.19146 (Puzzle); mlx-lm, `models/nemotron-nas.py`, after the
    checkpoints' own `modeling_decilm.py`.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from specroof.architecture.base import HEADS, TENSOR, Shard
from specroof.architecture.model import Architecture, Block
from specroof.parsers.decoder import (
    LayerPart,
    attention_block,
    decoder,
    feed_forward_block,
    matrices,
    read_attention,
)
from specroof.parsers.formats import LayerWeights
from specroof.parsers.model_config import ModelConfig
from specroof.reading.json_text import MAX_SIZE, Reader

_WIDTH_MULTIPLE: Final = 256
#: The size of a block that is one square matrix.
_SQUARE: Final = 0


def parse_nemotron_nas(config: ModelConfig) -> Architecture:
    """Return a Llama-Nemotron; `num_key_value_heads` and `intermediate_size` are null in it."""
    keys, hidden_size, n_layers = config.keys, config.hidden_size, config.n_layers
    n_heads = keys.positive_int("num_attention_heads")
    # The checkpoints' configuration_decilm.py, after configuration_llama.py: both biases False.
    shape = read_attention(keys, heads=(n_heads, n_heads), biased=True)
    mlp_bias = keys.flag("mlp_bias", default=False)

    def square(name: str, weights: LayerWeights, shard: Shard, *, bias: bool) -> Block:
        module = "self_attn" if name == "attention" else "mlp"
        (linear,) = matrices(weights, "", shard, (module, hidden_size, hidden_size), bias=bias)
        return Block(name, (replace(linear, name="linear"),), vector_params=hidden_size)

    def attention(n_kv_heads: int | None, weights: LayerWeights) -> Block | None:
        if n_kv_heads is None:
            return None
        if n_kv_heads == _SQUARE:
            return square("attention", weights, HEADS, bias=shape.out_bias)
        return attention_block(replace(shape, n_kv_heads=n_kv_heads), weights)

    def feed_forward(width: int | None, weights: LayerWeights) -> Block | None:
        if width is None:
            return None
        if width == _SQUARE:
            return square("feed_forward", weights, TENSOR, bias=mlp_bias)
        return feed_forward_block(hidden_size, width, weights, bias=mlp_bias)

    def kv_heads(part: Reader) -> int:
        for key in ("window_length", "num_sink_tokens", "sparsify"):
            if part.has(key):
                part.refuse(key, "null")
        return n_heads // part.divisor("n_heads_in_group", of=n_heads, called="num_attention_heads")

    blocks = keys.objects("block_configs", at_least=n_layers)[:n_layers]
    if not blocks:
        keys.refuse("block_configs", "a list of objects, one a layer")
    heads = [_size(block, "attention", kv_heads) for block in blocks]
    widths = [_size(block, "ffn", lambda part: _width(part, hidden_size)) for block in blocks]
    return decoder(
        config,
        LayerPart(heads, attention),
        LayerPart(widths, feed_forward),
    )


def _size(block: Reader, key: str, read: Callable[[Reader], int]) -> int | None:
    """Return the size of one half of a layer, both of which a config states; None for no half."""
    part = block.required_section(key)
    if part.flag("no_op", default=False):
        return None
    return _SQUARE if part.flag("replace_with_linear", default=False) else read(part)


def _width(feed_forward: Reader, hidden_size: int) -> int:
    """Return the width of a feed-forward: two thirds of the multiplier, rounded up to 256.

    Source
        ``_ffn_mult_to_intermediate_size`` and ``FFNConfig`` of mlx-lm's `nemotron-nas.py`.
    """
    if feed_forward.has("sparsify"):
        feed_forward.refuse("sparsify", "null")
    multiplier = round(feed_forward.positive_number("ffn_mult", maximum=MAX_SIZE), 6)
    width = int(2 * multiplier * hidden_size / 3)
    width += -width % _WIDTH_MULTIPLE
    if not 0 < width <= MAX_SIZE:
        feed_forward.refuse("ffn_mult", f"a number that makes a width from 1 to {MAX_SIZE}")
    return width
