"""MiniMax-M2, M2.5 and M2.7: grouped-query attention, experts in every layer.

Source
    transformers 5, `models/minimax_m2/modeling_minimax_m2.py` and `configuration_minimax_m2.py`;
    SGLang `models/minimax_m2.py`; the tensors of the published checkpoints.
"""

from dataclasses import replace

from specroof.architecture import Architecture, Block
from specroof.parsers.decoder import (
    BLOCK_SPARSE_NAMES,
    attention_block,
    decoder,
    extended,
    feed_forward_part,
    flagged_layers,
    read_attention,
    read_experts,
    same_part,
)
from specroof.parsers.families.minimax_m1 import PASSED_OVER
from specroof.parsers.formats import LayerWeights
from specroof.parsers.model_config import ModelConfig


def parse_minimax_m2(config: ModelConfig) -> Architecture:
    """Return a MiniMax-M2; `intermediate_size` is the width of one expert."""
    keys = config.keys
    keys.pass_over(PASSED_OVER)
    full = flagged_layers(keys, "attn_type_list", config.n_layers)
    if full is not None and not all(full):
        # 0 is the linear attention of MiniMax-M1, which no model of this type has.
        keys.refuse("attn_type_list", "1 for every layer")
    # Its checkpoints have no shared expert, and transformers no code for one.
    keys.positive_int("shared_intermediate_size", minimum=0, maximum=0, default=0)
    attention = read_attention(keys)
    # transformers: head norms and correction bias always; the checkpoints have switches for both.
    # MiniMaxM2Attention: q_norm and k_norm are "per_layer", as wide as the projections.
    kind = keys.text("qk_norm_type", allowed=("per_head", "per_layer"), default="per_layer")
    normed = keys.flag("use_qk_norm", default=True)
    whole = normed and kind == "per_layer"
    heads = attention.n_heads + attention.n_kv_heads if whole else 2 * normed
    experts = read_experts(
        keys,
        "num_local_experts",
        width_key="intermediate_size",
        correction_bias=keys.flag("use_routing_bias", default=True),
    )

    def mixer(weights: LayerWeights) -> Block:
        block = extended(attention_block(attention, weights), n_params=heads * attention.head_dim)
        return replace(block, norm_over_heads=whole)

    return decoder(
        config,
        same_part(config, mixer),
        feed_forward_part(config, experts, names=BLOCK_SPARSE_NAMES),
    )
