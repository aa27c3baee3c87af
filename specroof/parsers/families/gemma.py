"""Gemma 2 and 3: short windows between fully attending layers, norms before and after a block.

Source
    transformers 5, `models/gemma2/` and `models/gemma3/` (`modeling_*.py`,
    `configuration_*.py`). Soft-capped logits and attention scales cost nothing.
"""

from collections.abc import Sequence
from dataclasses import replace

from specroof.architecture import Architecture, Block
from specroof.parsers.blocks import (
    AttentionShape,
    attention_block,
    feed_forward_block,
    head_counts,
    listed_windows,
)
from specroof.parsers.formats.quantization import LayerWeights
from specroof.parsers.model_config import Decoder, ModelConfig, build_layers
from specroof.reading.json_object import Reader

__all__ = ["parse_gemma2", "parse_gemma3", "with_closing_norm"]


def parse_gemma2(config: ModelConfig) -> Architecture:
    """Return a Gemma 2: every other layer has the window, beginning with the first."""
    keys = config.keys
    # configuration_gemma2.py: attention_bias False, head_dim 256, sliding_window 4096.
    bias = keys.flag("attention_bias", default=False)
    shape = AttentionShape(
        config.hidden_size,
        *head_counts(keys),
        keys.positive_int("head_dim", default=256),
        qkv_bias=bias,
        out_bias=bias,
    )
    return _gemma(config, shape, _windows(keys, config.n_layers, full_every=2))


def parse_gemma3(config: ModelConfig) -> Architecture:
    """Return a Gemma 3: every sixth layer attends fully, and queries and keys pass a norm."""
    keys = config.keys
    if keys.flag("use_bidirectional_attention", default=False):
        keys.refuse("use_bidirectional_attention", "false; others are no decoders")
    # configuration_gemma3.py: attention_bias False, head_dim 256, sliding_window 4096,
    # vocab_size 262208. Published files of the multimodal sizes leave these keys out, and those of
    # the smallest its heads too.
    bias = keys.flag("attention_bias", default=False)
    shape = AttentionShape(
        config.hidden_size,
        *head_counts(keys, heads_default=8, kv_default=4),
        keys.positive_int("head_dim", default=256),
        qkv_bias=bias,
        out_bias=bias,
        qk_norm=True,
    )
    stride = keys.positive_int("sliding_window_pattern", "_sliding_window_pattern", default=6)
    windows = _windows(keys, config.n_layers, full_every=stride)
    return _gemma(config, shape, windows, vocab_default=262_208)


def with_closing_norm(block: Block, hidden_size: int) -> Block:
    """Return `block` with the norm that its output passes before it is added."""
    return replace(block, vector_params=block.vector_params + hidden_size)


def _windows(keys: Reader, n_layers: int, *, full_every: int) -> list[int | None]:
    """Return each layer's window, from the list or from the stride that stands for it."""
    window = keys.optional_int("sliding_window", missing=4096)
    listed = listed_windows(keys, n_layers, window)
    if listed is not None:
        return listed
    return [window if (index + 1) % full_every else None for index in range(n_layers)]


def _gemma(
    config: ModelConfig,
    shape: AttentionShape,
    windows: Sequence[int | None],
    *,
    vocab_default: int | None = None,
) -> Architecture:
    hidden_size = shape.hidden_size
    width = config.keys.positive_int("intermediate_size")

    def layer(window: int | None, weights: LayerWeights) -> tuple[Block, ...]:
        attention = attention_block(shape, window, weights)
        feed_forward = feed_forward_block(hidden_size, width, weights)
        return (
            with_closing_norm(attention, hidden_size),
            with_closing_norm(feed_forward, hidden_size),
        )

    return Decoder(
        build_layers(config, windows, layer), tied_default=True, vocab_default=vocab_default
    ).architecture(config)
