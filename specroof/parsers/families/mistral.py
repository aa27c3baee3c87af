"""Mistral, Ministral, Ministral 3, Devstral: Llama's layers, with a window in the first of them.

Source
    transformers 5, `models/mistral/`, `models/ministral/` and `models/ministral3/`
    (`modeling_*.py`, `configuration_*.py`). A multimodal file (`mistral3`) holds one of them as
    its `text_config`.
"""

from collections.abc import Sequence

from specroof.architecture import Architecture
from specroof.parsers.blocks import AttentionShape, head_counts, listed_windows, split_head_dim
from specroof.parsers.families.llama import dense_decoder
from specroof.parsers.model_config import ModelConfig

__all__ = ["parse_ministral", "parse_ministral3", "parse_mistral"]


def parse_mistral(config: ModelConfig) -> Architecture:
    """Return a Mistral: a window, where there is one, is that of every layer."""
    # configuration_mistral.py: sliding_window 4096 where the key is missing, none where it is
    # null; head_dim a share of hidden_size.
    window = config.keys.optional_int("sliding_window", missing=4096)
    return _mistral(config, split_head_dim(config.keys), [window] * config.n_layers)


def parse_ministral3(config: ModelConfig) -> Architecture:
    """Return a Ministral 3 (Devstral Small 2 is one)."""
    # configuration_ministral3.py: sliding_window None, head_dim 128.
    window = config.keys.optional_int("sliding_window")
    head_dim = config.keys.positive_int("head_dim", default=128)
    return _mistral(config, head_dim, [window] * config.n_layers)


def parse_ministral(config: ModelConfig) -> Architecture:
    """Return a Ministral of 2024, whose `layer_types` say which layers have the window."""
    keys, n_layers = config.keys, config.n_layers
    # configuration_ministral.py: sliding_window 4096; without layer_types all layers have it.
    window = keys.optional_int("sliding_window", missing=4096)
    listed = listed_windows(keys, n_layers, window)
    return _mistral(config, split_head_dim(keys), listed or [window] * n_layers)


def _mistral(config: ModelConfig, head_dim: int, windows: Sequence[int | None]) -> Architecture:
    shape = AttentionShape(config.hidden_size, *head_counts(config.keys), head_dim)
    return dense_decoder(config, shape, windows)
