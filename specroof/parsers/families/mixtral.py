"""Mixtral: Llama's attention, and experts in every layer.

Source
    transformers 5, `models/mixtral/modeling_mixtral.py` and `configuration_mixtral.py`.
"""

from specroof.architecture import Architecture
from specroof.parsers.decoder import (
    BLOCK_SPARSE_NAMES,
    attention_part,
    decoder,
    feed_forward_part,
    read_attention,
    read_experts,
)
from specroof.parsers.model_config import ModelConfig


def parse_mixtral(config: ModelConfig) -> Architecture:
    """Return a Mixtral: `intermediate_size` is the width of one expert."""
    keys = config.keys
    experts = read_experts(keys, "num_local_experts", width_key="intermediate_size")
    # configuration_mixtral.py: sliding_window None; where it is a number, all layers have it.
    windows = [keys.optional_int("sliding_window")] * config.n_layers
    attention = attention_part(config, read_attention(keys), windows)
    return decoder(config, attention, feed_forward_part(config, experts, names=BLOCK_SPARSE_NAMES))
