"""Llama and what has its layers: Qwen2, Qwen3, Mistral, Ministral, Devstral, Phi-3, Phi-4.

Source
    transformers 5, `models/llama/`, `models/qwen2/`, `models/qwen3/`, `models/mistral/`,
    `models/ministral/`, `models/ministral3/` and `models/phi3/`: `modeling_*.py` for the matrices
    and biases, `configuration_*.py` for defaults. The sizes in those files are those of an example
    model and no defaults: a config without them is refused. A multimodal file (`mistral3`) holds
    one of them as its `text_config`.
"""

from collections.abc import Sequence
from dataclasses import replace

from specroof.architecture import Architecture, AttentionShape
from specroof.parsers.decoder import (
    attention_part,
    decoder,
    dense_part,
    head_counts,
    layer_windows,
    read_attention,
    used_window,
)
from specroof.parsers.model_config import ModelConfig


def parse_llama(config: ModelConfig) -> Architecture:
    """Return a Llama: `attention_bias` is on all four projections, `mlp_bias` on the others."""
    keys = config.keys
    # configuration_llama.py: num_key_value_heads, head_dim None; both biases False.
    heads = head_counts(keys, kv_default=keys.positive_int("num_attention_heads"))
    mlp_bias = keys.flag("mlp_bias", default=False)
    return dense_decoder(config, read_attention(keys, heads=heads, biased=True), mlp_bias=mlp_bias)


def parse_qwen2(config: ModelConfig) -> Architecture:
    """Return a Qwen2 or Qwen2.5: queries, keys and values have a bias, which no key says."""
    shape = replace(read_attention(config.keys), qkv_bias=True)
    return dense_decoder(config, shape, _sliding_windows(config))


def parse_mimo(config: ModelConfig) -> Architecture:
    """Return a MiMo: a Qwen2, whose bias is not the config's to say."""
    config.keys.pass_over("attention_bias")
    return parse_qwen2(config)


def parse_qwen3(config: ModelConfig) -> Architecture:
    """Return a Qwen3: queries and keys pass a norm per head."""
    # configuration_qwen3.py: attention_bias False, head_dim 128 (not a share of hidden_size).
    head_dim = config.keys.positive_int("head_dim", default=128)
    shape = replace(read_attention(config.keys, head_dim, biased=True), qk_norm=True)
    return dense_decoder(config, shape, _sliding_windows(config))


def _sliding_windows(config: ModelConfig) -> list[int | None]:
    keys = config.keys
    window = used_window(keys)
    # configuration_qwen2.py: max_window_layers 28; of Qwen2-VL 80, where all files state it
    return layer_windows(
        keys,
        config.n_layers,
        window,
        lambda index: (
            window is not None
            and index >= keys.positive_int("max_window_layers", minimum=0, default=28)
        ),
    )


def dense_decoder(
    config: ModelConfig,
    shape: AttentionShape,
    windows: Sequence[int | None] | None = None,
    *,
    mlp_bias: bool = False,
) -> Architecture:
    """Return layers of attention and a gated feed-forward, alike but for each one's window."""
    feed_forward = dense_part(config, bias=mlp_bias)
    return decoder(config, attention_part(config, shape, windows), feed_forward)


def parse_mistral(config: ModelConfig) -> Architecture:
    """Return a Mistral: all layers have the window, where there is one."""
    keys = config.keys
    # configuration_mistral.py: sliding_window 4096 where the key is missing, none where it is
    # null; head_dim a share of hidden_size.
    windows = [keys.optional_int("sliding_window", missing=4096)] * config.n_layers
    return dense_decoder(config, read_attention(keys), windows)


def parse_ministral3(config: ModelConfig) -> Architecture:
    """Return a Ministral 3 (Devstral Small 2 is one)."""
    keys = config.keys
    # configuration_ministral3.py: sliding_window None, head_dim 128.
    windows = [keys.optional_int("sliding_window")] * config.n_layers
    shape = read_attention(keys, keys.positive_int("head_dim", default=128))
    return dense_decoder(config, shape, windows)


def parse_ministral(config: ModelConfig) -> Architecture:
    """Return a Ministral of 2024, whose `layer_types` say which layers have the window."""
    keys = config.keys
    # configuration_ministral.py: sliding_window 4096; without layer_types all layers have it.
    window = keys.optional_int("sliding_window", missing=4096)
    windows = layer_windows(keys, config.n_layers, window, lambda _: True)
    return dense_decoder(config, read_attention(keys), windows)


def parse_phi3(config: ModelConfig) -> Architecture:
    """Return a Phi-3 or Phi-4; no matrix has a bias, whatever `attention_bias` says."""
    keys = config.keys
    # configuration_phi3.py: num_key_value_heads None (as many as query heads), sliding_window
    # None; where it is a number, all layers have it.
    heads = head_counts(keys, kv_default=keys.positive_int("num_attention_heads"))
    windows = [keys.optional_int("sliding_window")] * config.n_layers
    return dense_decoder(config, read_attention(keys, heads=heads), windows)
