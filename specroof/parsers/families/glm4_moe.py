"""GLM-4.5, 4.6 and 4.7: grouped-query attention, experts in all layers but the first few.

Source
    transformers 5, `models/glm4_moe/` and `models/glm4v_moe/` (`modeling_*.py`,
    `configuration_*.py`); the tensors of the published checkpoints.
"""

from specroof.architecture import Architecture, Block
from specroof.parsers.blocks import (
    AttentionShape,
    ExpertsShape,
    attention_block,
    experts_block,
    feed_forward_block,
    head_counts,
    split_head_dim,
    top_k_experts,
)
from specroof.parsers.formats.quantization import LayerWeights
from specroof.parsers.model_config import Decoder, ModelConfig, build_layers
from specroof.reading.json_object import MAX_LAYERS

__all__ = ["parse_glm4_moe", "parse_glm4v_moe"]


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
    hidden_size = config.hidden_size
    attention = AttentionShape(
        hidden_size,
        *head_counts(keys),
        split_head_dim(keys),
        qkv_bias=keys.flag("attention_bias", default=bias_default),
        qk_norm=keys.flag("use_qk_norm", default=False),
    )
    # configuration_glm4_moe.py: first_k_dense_replace 1, n_shared_experts 1
    n_dense = keys.positive_int("first_k_dense_replace", minimum=0, maximum=MAX_LAYERS, default=1)
    sparse = [index >= n_dense for index in range(config.n_layers)]
    dense_width = keys.positive_int("intermediate_size") if n_dense else 0
    experts = _experts_shape(config) if any(sparse) else None

    def layer(is_sparse: bool, weights: LayerWeights) -> tuple[Block, ...]:
        feed_forward = (
            experts_block(experts, weights)
            if is_sparse and experts is not None
            else feed_forward_block(hidden_size, dense_width, weights)
        )
        return attention_block(attention, None, weights), feed_forward

    return Decoder(build_layers(config, sparse, layer)).architecture(config)


def _experts_shape(config: ModelConfig) -> ExpertsShape:
    keys = config.keys
    width = keys.positive_int("moe_intermediate_size")
    return ExpertsShape(
        config.hidden_size,
        *top_k_experts(keys, "n_routed_experts", "num_experts_per_tok"),
        width,
        shared_width=keys.positive_int("n_shared_experts", minimum=0, default=1) * width,
        correction_bias=True,
    )
