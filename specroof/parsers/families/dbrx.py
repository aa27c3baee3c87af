"""DBRX: grouped queries and experts in all layers, whose sizes stand in two sections.

Source
    transformers 5.24, `models/dbrx/modeling_dbrx.py` and `configuration_dbrx.py`.
"""

from dataclasses import replace
from typing import Final

from specroof.architecture.model import Architecture, AttentionShape
from specroof.parsers.decoder import (
    ExpertsShape,
    attention_block,
    decoder,
    experts_block,
    same_part,
)
from specroof.parsers.model_config import ModelConfig
from specroof.parsers.traits import ExpertNames

_SPELLED: Final = {"hidden_size": "d_model", "num_hidden_layers": "n_layers"}
_NAMES: Final = ExpertNames(routed="ffn.experts.mlp.w1")


def parse_dbrx(config: ModelConfig) -> Architecture:
    """Return a DBRX, whose norms and matrices have no bias."""
    keys = replace(config.keys, spelled=_SPELLED)
    config = replace(config, keys=keys)
    keys.pass_over("resid_pdrop emb_pdrop num_key_value_heads")
    attention, feed_forward = (
        keys.required_section(name, "an object with the sizes of that part")
        for name in ("attn_config", "ffn_config")
    )
    attention.pass_over("attn_pdrop clip_qkv rope_theta")
    feed_forward.pass_over(
        "ffn_act_fn hidden_size moe_jitter_eps moe_loss_weight moe_normalize_expert_weights"
    )
    n_heads = keys.divisor("n_heads", of=config.hidden_size, called="d_model")
    shape = AttentionShape(
        config.hidden_size,
        n_heads,
        attention.divisor("kv_n_heads", of=n_heads, called="n_heads"),
        config.hidden_size // n_heads,
    )
    n_experts = feed_forward.positive_int("moe_num_experts")
    experts = ExpertsShape(
        config.hidden_size,
        n_experts,
        feed_forward.positive_int("moe_top_k", maximum=n_experts),
        feed_forward.positive_int("ffn_hidden_size"),
    )
    return decoder(
        config,
        same_part(
            config, lambda weights: attention_block(shape, weights, module="norm_attn_norm.attn")
        ),
        same_part(config, lambda weights: experts_block(experts, weights, _NAMES)),
    )
