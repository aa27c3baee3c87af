"""gpt-oss: attention with sinks, every other layer in a short window, biased experts in MXFP4.

Source
    transformers 5, `models/gpt_oss/modeling_gpt_oss.py` and `configuration_gpt_oss.py`; the
    tensors of the published checkpoints.
"""

from dataclasses import replace
from typing import Final

from specroof.architecture import Architecture
from specroof.parsers.decoder import (
    ExpertNames,
    attention_part,
    decoder,
    feed_forward_part,
    layer_windows,
    read_attention,
    read_experts,
)
from specroof.parsers.model_config import ModelConfig

_NAMES: Final = ExpertNames(routed="mlp.experts.gate_up_proj")


def parse_gpt_oss(config: ModelConfig) -> Architecture:
    """Return a gpt-oss; router and experts have biases, whatever `attention_bias` says."""
    keys = config.keys
    keys.pass_over("experts_per_token")
    # configuration_gpt_oss.py: attention_bias True, head_dim 64.
    bias = keys.flag("attention_bias", default=True)
    attention = read_attention(keys, keys.positive_int("head_dim", default=64))
    attention = replace(attention, qkv_bias=bias, out_bias=bias, sinks=True)
    experts = read_experts(
        keys,
        "num_local_experts",
        "num_experts_per_tok",
        "experts_per_token",
        width_key="intermediate_size",
    )
    # configuration_gpt_oss.py: sliding_window 128; layer_types alternates, sliding first.
    window = keys.optional_int("sliding_window", missing=128)
    windows = layer_windows(keys, config.n_layers, window, lambda index: index % 2 == 0)
    return decoder(
        config,
        attention_part(config, attention, windows),
        feed_forward_part(config, replace(experts, biases=True), names=_NAMES),
    )
