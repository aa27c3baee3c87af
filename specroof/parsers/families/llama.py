"""Dense decoders with grouped-query attention and a gated feed-forward: Llama, Qwen2, Qwen3.

Source
    transformers 5, `models/llama/`, `models/qwen2/` and `models/qwen3/`: `modeling_*.py` for the
    matrices and biases, `configuration_*.py` for defaults. The sizes in those files are those of
    an example model and no defaults: a config without them is refused.
"""

from collections.abc import Sequence

from specroof.architecture import Architecture, Block
from specroof.parsers.blocks import (
    AttentionShape,
    attention_block,
    feed_forward_block,
    head_counts,
    listed_windows,
    split_head_dim,
)
from specroof.parsers.formats.quantization import LayerWeights
from specroof.parsers.model_config import Decoder, ModelConfig, build_layers
from specroof.reading.json_object import Reader

__all__ = ["dense_decoder", "parse_llama", "parse_qwen2", "parse_qwen3", "sliding_windows"]


def parse_llama(config: ModelConfig) -> Architecture:
    """Return a Llama: `attention_bias` is on all four projections, `mlp_bias` on the others."""
    keys = config.keys
    # configuration_llama.py: num_key_value_heads, head_dim None; both biases False.
    n_heads, n_kv_heads = head_counts(keys, kv_default=True)
    bias = keys.flag("attention_bias", default=False)
    shape = AttentionShape(
        config.hidden_size,
        n_heads,
        n_kv_heads,
        split_head_dim(keys),
        qkv_bias=bias,
        out_bias=bias,
    )
    mlp_bias = keys.flag("mlp_bias", default=False)
    return dense_decoder(config, shape, [None] * config.n_layers, mlp_bias=mlp_bias)


def parse_qwen2(config: ModelConfig) -> Architecture:
    """Return a Qwen2 or Qwen2.5: queries, keys and values have a bias, which no key says."""
    keys = config.keys
    shape = AttentionShape(
        config.hidden_size, *head_counts(keys), split_head_dim(keys), qkv_bias=True
    )
    return dense_decoder(config, shape, sliding_windows(keys, config.n_layers))


def parse_qwen3(config: ModelConfig) -> Architecture:
    """Return a Qwen3: queries and keys pass a norm per head."""
    keys = config.keys
    # configuration_qwen3.py: attention_bias False, head_dim 128 (not a share of hidden_size).
    bias = keys.flag("attention_bias", default=False)
    shape = AttentionShape(
        config.hidden_size,
        *head_counts(keys),
        keys.positive_int("head_dim", default=128),
        qkv_bias=bias,
        out_bias=bias,
        qk_norm=True,
    )
    return dense_decoder(config, shape, sliding_windows(keys, config.n_layers))


def sliding_windows(keys: Reader, n_layers: int) -> list[int | None]:
    """Return each layer's window; many configs carry a `sliding_window` that is switched off."""
    # configuration_qwen2.py: use_sliding_window False, sliding_window 4096, max_window_layers 28.
    window = None
    if keys.flag("use_sliding_window", default=False):
        window = keys.optional_int("sliding_window", missing=4096)
    listed = listed_windows(keys, n_layers, window)
    if listed is not None:
        return listed
    n_full = keys.positive_int("max_window_layers", minimum=0, default=28)
    return [window if index >= n_full else None for index in range(n_layers)]


def dense_decoder(
    config: ModelConfig,
    shape: AttentionShape,
    windows: Sequence[int | None],
    *,
    mlp_bias: bool = False,
) -> Architecture:
    """Return layers of attention and a gated feed-forward, alike but for each one's window."""
    width = config.keys.positive_int("intermediate_size")

    def layer(window: int | None, weights: LayerWeights) -> tuple[Block, ...]:
        return (
            attention_block(shape, window, weights),
            feed_forward_block(shape.hidden_size, width, weights, bias=mlp_bias),
        )

    return Decoder(build_layers(config, windows, layer)).architecture(config)
