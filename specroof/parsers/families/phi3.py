"""Phi-3 and Phi-4: Llama's layers, stored with queries, keys and values as one matrix.

Source
    transformers 5, `models/phi3/modeling_phi3.py` and `configuration_phi3.py`.
"""

from specroof.architecture import Architecture
from specroof.parsers.decoder import head_counts, read_attention
from specroof.parsers.families.llama import dense_decoder
from specroof.parsers.model_config import ModelConfig


def parse_phi3(config: ModelConfig) -> Architecture:
    """Return a Phi-3 or Phi-4; no matrix has a bias, whatever `attention_bias` says."""
    keys = config.keys
    # configuration_phi3.py: num_key_value_heads None (as many as query heads), sliding_window
    # None; where it is a number, all layers have it.
    heads = head_counts(keys, kv_default=keys.positive_int("num_attention_heads"))
    windows = [keys.optional_int("sliding_window")] * config.n_layers
    return dense_decoder(config, read_attention(keys, heads=heads), windows)
