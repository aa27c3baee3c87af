"""GLM-4.5, 4.6 and 4.7: grouped-query attention, experts in all layers but the first few.

Source
    transformers 5, `models/glm4_moe/` and `models/glm4v_moe/` (`modeling_*.py`,
    `configuration_*.py`); the tensors of the published checkpoints.
"""

from dataclasses import replace

from specroof.architecture import Architecture
from specroof.parsers.decoder import (
    attention_part,
    decoder,
    feed_forward_part,
    read_attention,
    read_experts,
)
from specroof.parsers.model_config import ModelConfig
from specroof.reading.json_text import MAX_LAYERS


def parse_glm4_moe(config: ModelConfig) -> Architecture:
    """Return a GLM-4.5, 4.6 or 4.7; `attention_bias` is not on the output."""
    # configuration_glm4_moe.py: attention_bias False, use_qk_norm False (GLM-4.5-Air has none).
    return _glm4_moe(config, bias_default=False)


def parse_glm4v_moe(config: ModelConfig) -> Architecture:
    """Return the language model of a GLM-4.5V or 4.6V."""
    # configuration_glm4v_moe.py: attention_bias True; its attention class has no head norms.
    return _glm4_moe(config, bias_default=True)


def _glm4_moe(config: ModelConfig, *, bias_default: bool) -> Architecture:
    keys = config.keys
    attention = replace(
        read_attention(keys),
        qkv_bias=keys.flag("attention_bias", default=bias_default),
        qk_norm=keys.flag("use_qk_norm", default=False),
    )
    # configuration_glm4_moe.py: first_k_dense_replace 1, n_shared_experts 1
    n_dense = keys.positive_int("first_k_dense_replace", minimum=0, maximum=MAX_LAYERS, default=1)
    sparse = [index >= n_dense for index in range(config.n_layers)]
    experts = None
    if any(sparse):
        n_shared = keys.positive_int("n_shared_experts", minimum=0, default=1)
        experts = read_experts(keys, "n_routed_experts", n_shared=n_shared, correction_bias=True)
    feed_forward = feed_forward_part(config, experts, sparse)
    return decoder(config, attention_part(config, attention), feed_forward)
