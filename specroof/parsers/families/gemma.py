"""Gemma 2 and 3: short windows between fully attending layers, norms before and after a block.

Source
    transformers 5, `models/gemma2/` and `models/gemma3/` (`modeling_*.py`,
    `configuration_*.py`). Soft-capped logits and attention scales cost nothing.
"""

from dataclasses import replace

from specroof.architecture import Architecture, AttentionShape, Block
from specroof.parsers.decoder import (
    Part,
    attention_block,
    decoder,
    extended,
    feed_forward_block,
    head_counts,
    layer_windows,
    read_attention,
    same_part,
)
from specroof.parsers.formats import LayerWeights
from specroof.parsers.model_config import ModelConfig


def parse_gemma2(config: ModelConfig) -> Architecture:
    """Return a Gemma 2: every other layer has the window, beginning with the first."""
    keys = config.keys
    keys.pass_over("sliding_window_size")
    # configuration_gemma2.py: attention_bias False, head_dim 256, sliding_window 4096.
    shape = read_attention(keys, keys.positive_int("head_dim", default=256), biased=True)
    return _gemma(config, shape, full_every=2)


def parse_gemma3(config: ModelConfig) -> Architecture:
    """Return a Gemma 3: every sixth layer attends fully, and queries and keys pass a norm."""
    keys = config.keys
    if keys.flag("use_bidirectional_attention", default=False):
        keys.refuse("use_bidirectional_attention", "false; others are not decoders")
    # configuration_gemma3.py: attention_bias False, head_dim 256, sliding_window 4096,
    # vocab_size 262208. Published files of the multimodal sizes leave these keys out, and those of
    # the smallest its heads too.
    head_dim = keys.positive_int("head_dim", default=256)
    heads = head_counts(keys, heads_default=8, kv_default=4)
    shape = replace(read_attention(keys, head_dim, heads=heads, biased=True), qk_norm=True)
    stride = keys.positive_int("sliding_window_pattern", "_sliding_window_pattern", default=6)
    return _gemma(config, shape, full_every=stride, vocab_default=262_208)


def _gemma(
    config: ModelConfig,
    shape: AttentionShape,
    *,
    full_every: int,
    vocab_default: int | None = None,
) -> Architecture:
    keys, hidden_size = config.keys, shape.hidden_size
    width = keys.positive_int("intermediate_size")
    window = keys.optional_int("sliding_window", missing=4096)
    windows = layer_windows(
        keys, config.n_layers, window, lambda index: (index + 1) % full_every != 0
    )

    # Each block has a second norm, which its output passes.
    def attention(window: int | None, weights: LayerWeights) -> Block:
        block = attention_block(replace(shape, window=window), weights)
        return extended(block, n_params=hidden_size)

    def feed_forward(weights: LayerWeights) -> Block:
        return extended(feed_forward_block(hidden_size, width, weights), n_params=hidden_size)

    return decoder(
        config,
        Part(windows, attention),
        same_part(config, feed_forward),
        tied_default=True,
        vocab_default=vocab_default,
    )
