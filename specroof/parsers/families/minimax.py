"""MiniMax-Text-01 and M1 (lightning attention, softmax every eighth layer), M2, M2.5 and M2.7.

Source
    MiniMax-01 report, arXiv:2501.08313, section 2; transformers 5,
    `models/minimax/modeling_minimax.py`, which is MiniMax-Text-01 (M1 continues its training),
    `models/minimax_m2/modeling_minimax_m2.py` and `configuration_minimax_m2.py`; SGLang
    `models/minimax_m2.py`; the tensors of the published checkpoints.
"""

from dataclasses import replace
from typing import Final

from specroof.architecture import HEADS, Architecture, Block, LightningAttention
from specroof.parsers.decoder import (
    LayerPart,
    attention_block,
    decoder,
    extended,
    feed_forward_part,
    flagged_layers,
    listed_kinds,
    matrices,
    read_attention,
    read_experts,
    same_part,
)
from specroof.parsers.formats import LayerWeights
from specroof.parsers.model_config import ModelConfig
from specroof.parsers.traits import BLOCK_SPARSE_NAMES, ExpertNames
from specroof.reading.json_text import Reader

_NAMES: Final = ExpertNames(
    routed="block_sparse_moe.experts.0.w1",
    shared_in="shared_mlp.gate_up_proj",
    shared_out="shared_mlp.down_proj",
)
#: Factors around the layers of a MiniMax, and how its shared expert is weighed.
_PASSED_OVER: Final = (
    "layernorm_full_attention_alpha layernorm_full_attention_beta layernorm_linear_attention_alpha "
    "layernorm_linear_attention_beta layernorm_mlp_alpha layernorm_mlp_beta postnorm "
    "shared_moe_mode mlp_intermediate_size"
)
_SOFTMAX: Final = 1
_LIGHTNING: Final = 0
_TYPES: Final = {"full_attention": _SOFTMAX, "linear_attention": _LIGHTNING}
_NOTE: Final = (
    "lightning attention counted as in MiniMax-Text-01; the code of M1 itself was not compared"
)


def parse_minimax_m1(config: ModelConfig) -> Architecture:
    """Return a MiniMax-M1; `intermediate_size` is the width of an expert."""
    keys = config.keys
    keys.pass_over(_PASSED_OVER)
    attention = read_attention(keys)
    lightning = LightningAttention(attention.n_heads, attention.head_dim)
    experts = replace(
        read_experts(keys, "num_local_experts", width_key="intermediate_size"),
        # modeling_minimax.py has no shared expert, and M1 gives it a width of 0.
        shared_width=keys.positive_int("shared_intermediate_size", minimum=0, default=0),
        shared_gate=True,
    )

    def mixer(kind: int, weights: LayerWeights) -> Block:
        if kind == _SOFTMAX:
            return attention_block(attention, weights)
        return _lightning_block(attention.hidden_size, lightning, weights)

    return decoder(
        config,
        LayerPart(_mixers(keys, config.n_layers), mixer),
        feed_forward_part(config, experts, names=_NAMES),
        notes=(_NOTE,) if config.family == "minimax_m1" else (),
    )


def _mixers(keys: Reader, n_layers: int) -> tuple[int, ...]:
    """Return each layer's mixer, 1 for softmax attention, from either spelling of the list."""
    if types := listed_kinds(keys, "layer_types", _TYPES, n_layers):
        return tuple(_TYPES[kind] for kind in types)
    mixers = keys.ints("attn_type_list", allowed=(_LIGHTNING, _SOFTMAX), at_least=n_layers)
    if not mixers:
        keys.refuse("attn_type_list", "a list of 0 (lightning) and 1 (softmax), one a layer")
    return mixers[:n_layers]


def _lightning_block(
    hidden_size: int, lightning: LightningAttention, weights: LayerWeights
) -> Block:
    """Return lightning attention with its projections; its norm spans all heads."""
    inner_dim = lightning.n_heads * lightning.head_dim
    linears = matrices(
        weights,
        "self_attn.",
        HEADS,
        ("qkv_proj", hidden_size, 3 * inner_dim),
        ("output_gate", hidden_size, inner_dim),
        ("out_proj", inner_dim, hidden_size),
    )
    return Block("attention", linears, lightning, vector_params=hidden_size + inner_dim)


def parse_minimax_m2(config: ModelConfig) -> Architecture:
    """Return a MiniMax-M2; `intermediate_size` is the width of one expert."""
    keys = config.keys
    keys.pass_over(_PASSED_OVER)
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
