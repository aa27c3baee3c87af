"""Mistral, Ministral, Ministral 3, Devstral: Llama's layers, with a window in the first of them.

Source
    transformers 5, `models/mistral/`, `models/ministral/` and `models/ministral3/`
    (`modeling_*.py`, `configuration_*.py`). A multimodal file (`mistral3`) holds one of them as
    its `text_config`.
"""

from specroof.architecture import Architecture
from specroof.parsers.decoder import layer_windows, read_attention
from specroof.parsers.families.llama import dense_decoder
from specroof.parsers.model_config import ModelConfig


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
