"""Granite 3 with experts: Llama's attention, experts in every layer, a shared one in some models.

Source
    transformers 5.23, `models/granitemoe/` and `models/granitemoeshared/` (`modeling_*.py`,
    `configuration_*.py`).
"""

from dataclasses import replace

from specroof.architecture import Architecture
from specroof.parsers.decoder import (
    attention_part,
    decoder,
    feed_forward_part,
    head_counts,
    read_attention,
    read_experts,
)
from specroof.parsers.families.granitemoehybrid import EXPERT_NAMES
from specroof.parsers.model_config import ModelConfig


def parse_granitemoe(config: ModelConfig) -> Architecture:
    """Return a Granite MoE: `intermediate_size` is the width of one expert."""
    keys = config.keys
    keys.pass_over("attention_multiplier residual_multiplier")
    # configuration_granitemoe.py: num_key_value_heads None (as many as query heads),
    # attention_bias False; configuration_granitemoeshared.py: shared_intermediate_size 0, for none.
    heads = head_counts(keys, kv_default=keys.positive_int("num_attention_heads"))
    attention = attention_part(config, read_attention(keys, heads=heads, biased=True))
    experts = replace(
        read_experts(keys, "num_local_experts", width_key="intermediate_size"),
        shared_width=keys.positive_int("shared_intermediate_size", minimum=0, default=0),
    )
    return decoder(config, attention, feed_forward_part(config, experts, names=EXPERT_NAMES))
