"""Step 3.5 and 3.7: sliding layers with more query heads, a gate per head, experts after a few.

Source
    transformers 5, `models/step3p7/modeling_step3p7.py` and `configuration_step3p7.py`; SGLang
    `models/step3p5.py`; the names of matrices are those of the published checkpoints.
"""

from dataclasses import replace
from typing import Final

from specroof.architecture.base import HEADS
from specroof.architecture.model import Architecture, AttentionShape, Block
from specroof.parsers.decoder import (
    LayerPart,
    attention_block,
    decoder,
    extended,
    feed_forward_of,
    layer_overrides,
    matrices,
    sliding_layers,
    split_head_dim,
)
from specroof.parsers.formats import LayerWeights
from specroof.parsers.model_config import ModelConfig
from specroof.parsers.traits import ExpertNames, ExpertTraits, Traits
from specroof.reading.json_text import Reader

_ROUTING: Final = ExpertTraits(
    "moe_num_experts n_routed_experts num_experts",
    top_k=("moe_top_k", "num_experts_per_tok"),
    shared_width=("share_expert_dim share_expert_dims", None),
    # Step3p7TopKRouter has one always; SGLang where this key says so.
    correction_bias=("use_moe_router_bias", True),
    dense=("", 3),  # configuration_step3p7.py: all layers but the first three
    numbered="moe_layers_enum",
    names=ExpertNames(
        routed="moe.gate_proj",
        shared_in="share_expert.gate_proj",
        shared_out="share_expert.down_proj",
    ),
)


def parse_step3p5(config: ModelConfig) -> Architecture:
    """Return the language model of a Step 3.5 or 3.7."""
    keys = config.keys
    keys.pass_over("num_sliding_attention_heads attention_other_setting")
    # Step3p7Attention gates every head; SGLang where this key says so.
    gated = keys.flag("use_head_wise_attn_gate", default=True)

    def mixer(attention: AttentionShape, weights: LayerWeights) -> Block:
        block = attention_block(attention, weights)
        if not gated:
            return block
        # one gate per head
        gate = ("g_proj", attention.hidden_size, attention.n_heads)
        return extended(block, *matrices(weights, "self_attn.", HEADS, gate))

    return decoder(
        config,
        LayerPart(_attentions(config), mixer),
        feed_forward_of(config, Traits(routing=_ROUTING)),
    )


def _attentions(config: ModelConfig) -> list[AttentionShape]:
    """Return each layer's attention; ``per_layer_config`` of a file saved again goes first."""
    keys = config.keys
    full = _full_shape(config)
    # configuration_step3p7.py: without the list, which goes on with draft layers, all attend fully
    sliding = sliding_layers(keys, config.n_layers) or [False] * config.n_layers
    window = keys.positive_int("sliding_window") if any(sliding) else None
    layers = layer_overrides(keys, len(sliding), ("num_attention_heads",))
    if layers is not None:
        heads = [
            layer.positive_int("num_attention_heads", default=full.n_heads) for layer in layers
        ]
        shapes = [_checked(keys, replace(full, n_heads=n_heads)) for n_heads in heads]
    else:
        other = _sliding_shape(keys, full) if any(sliding) else full
        shapes = [other if slides else full for slides in sliding]
    return [
        replace(shape, window=window if slides else None)
        for shape, slides in zip(shapes, sliding, strict=True)
    ]


def _full_shape(config: ModelConfig) -> AttentionShape:
    keys = config.keys
    # configuration_step3p7.py: attention_bias False, on all four projections
    bias = keys.flag("attention_bias", default=False)
    shape = AttentionShape(
        config.hidden_size,
        keys.positive_int("num_attention_heads"),
        keys.positive_int("num_attention_groups", "num_key_value_heads"),
        split_head_dim(keys),
        qkv_bias=bias,
        out_bias=bias,
        qk_norm=True,
    )
    return _checked(keys, shape)


def _sliding_shape(keys: Reader, full: AttentionShape) -> AttentionShape:
    """Return the attention of sliding layers, which the config states apart.

    The sizes of full layers would be read as theirs by transformers; no published model has them.
    """
    if keys.has("num_sliding_attention_heads"):
        heads = keys.positive_int("num_sliding_attention_heads")
        return _checked(keys, replace(full, n_heads=heads))
    section = keys.required_section(
        "attention_other_setting", "an object with the heads of sliding layers"
    )
    shape = replace(
        full,
        n_heads=section.positive_int("num_attention_heads"),
        n_kv_heads=section.positive_int(
            "num_attention_groups", "num_key_value_heads", default=full.n_kv_heads
        ),
        head_dim=section.positive_int("head_dim", default=full.head_dim),
    )
    return _checked(section, shape)


def _checked(keys: Reader, shape: AttentionShape) -> AttentionShape:
    if shape.n_heads % shape.n_kv_heads:
        allowed = f"a multiple of the {shape.n_kv_heads} heads of keys and values"
        keys.refuse("num_attention_heads", allowed, shape.n_heads)
    return shape
