"""MiMo-V2: most layers in a short window with KV heads of their own, values narrower than keys.

Source
    transformers 5, `models/mimo_v2_flash/modeling_mimo_v2_flash.py` and
    `configuration_mimo_v2_flash.py`; SGLang `models/mimo_v2.py`, for the keys of the published
    checkpoints (`hybrid_layer_pattern`, `swa_*`), which transformers does not read.
"""

from dataclasses import dataclass, replace
from typing import Final

from specroof.architecture import WEIGHT_FORMATS, Architecture, Block
from specroof.parsers.blocks import (
    AttentionShape,
    ExpertsShape,
    attention_block,
    experts_block,
    feed_forward_block,
    top_k_experts,
)
from specroof.parsers.formats.module_names import ModuleNames
from specroof.parsers.formats.quantization import LayerWeights, Quantization, Rule
from specroof.parsers.layer_lists import flagged_layers, listed_experts
from specroof.parsers.model_config import Decoder, ModelConfig, build_layers
from specroof.reading.json_object import Reader

__all__ = ["parse_mimo_v2"]

_FULL: Final = "full_attention"
_SLIDING: Final = "sliding_attention"


@dataclass(frozen=True, slots=True)
class _Mixer:
    """One of the two kinds of attention."""

    shape: AttentionShape
    window: int | None


def parse_mimo_v2(config: ModelConfig) -> Architecture:
    """Return a MiMo-V2; its checkpoints hold draft layers that not every config mentions."""
    config = replace(config, quantization=_quantization(config))
    keys = config.keys
    sliding = _sliding_layers(keys, config.n_layers)
    full_mixer = _full_mixer(config)
    sliding_mixer = _sliding_mixer(keys, full_mixer.shape) if any(sliding) else full_mixer
    sparse = _expert_layers(keys, config.n_layers)
    experts = _experts_shape(config) if any(sparse) else None
    dense_width = 0 if all(sparse) else keys.positive_int("intermediate_size")

    def layer(kind: tuple[bool, bool], weights: LayerWeights) -> tuple[Block, ...]:
        slides, is_sparse = kind
        mixer = sliding_mixer if slides else full_mixer
        feed_forward = (
            experts_block(experts, weights)
            if is_sparse and experts is not None
            else feed_forward_block(config.hidden_size, dense_width, weights)
        )
        return attention_block(mixer.shape, mixer.window, weights), feed_forward

    kinds = list(zip(sliding, sparse, strict=True))
    said = keys.has("num_nextn_predict_layers")
    return Decoder(
        build_layers(config, kinds, layer),
        notes=()
        if said
        else ("multi-token-prediction layer not counted among the model's weights",),
    ).architecture(config)


def _full_mixer(config: ModelConfig) -> _Mixer:
    keys = config.keys
    head_dim = keys.positive_int("head_dim")
    shape = AttentionShape(
        config.hidden_size,
        keys.positive_int("num_attention_heads"),
        keys.positive_int("num_key_value_heads"),
        head_dim,
        # configuration_mimo_v2_flash.py: attention_bias False, never on the output
        qkv_bias=keys.flag("attention_bias", default=False),
        # SGLang: sinks where a flag says so
        sinks=keys.flag("add_full_attention_sink_bias", default=False),
        # SGLang: as wide as keys where the key is missing
        value_dim=keys.positive_int("v_head_dim", default=head_dim),
    )
    return _Mixer(_checked(keys, shape, "num_key_value_heads", "num_attention_heads"), None)


def _sliding_mixer(keys: Reader, full: AttentionShape) -> _Mixer:
    """Return the attention of sliding layers.

    Source
        SGLang reads the ``swa_*`` keys; `MiMoV2FlashAttention` of transformers has twice the KV
        heads of full layers, their other sizes, and always sinks.
    """
    head_dim = keys.positive_int("swa_head_dim", default=full.head_dim)
    shape = replace(
        full,
        n_heads=keys.positive_int("swa_num_attention_heads", default=full.n_heads),
        n_kv_heads=keys.positive_int("swa_num_key_value_heads", default=2 * full.n_kv_heads),
        head_dim=head_dim,
        sinks=keys.flag("add_swa_attention_sink_bias", default=True),
        value_dim=keys.positive_int("swa_v_head_dim", default=full.value_dim),
    )
    names = ("swa_num_key_value_heads", "swa_num_attention_heads")
    return _Mixer(_checked(keys, shape, *names), _window(keys))


def _window(keys: Reader) -> int:
    """Return how many tokens a query of a sliding layer sees, itself included.

    Source
        `MiMoV2FlashConfig.__post_init__`: ``sliding_window_size`` of published files counts the
        tokens besides itself, as SGLang does, and goes before ``sliding_window``, which counts it
        in and is what a file saved again has.
    """
    if keys.has("sliding_window_size"):
        return keys.positive_int("sliding_window_size") + 1
    return keys.positive_int("sliding_window")


def _checked(keys: Reader, shape: AttentionShape, kv_key: str, heads_key: str) -> AttentionShape:
    if shape.n_heads % shape.n_kv_heads:
        keys.refuse(kv_key, f"a divisor of {heads_key} ({shape.n_heads})", shape.n_kv_heads)
    return shape


def _sliding_layers(keys: Reader, n_layers: int) -> list[bool]:
    """Return which layers slide: 1 in `hybrid_layer_pattern`, or `layer_types`."""
    flagged = flagged_layers(keys, "hybrid_layer_pattern", n_layers)
    if flagged is not None:
        return flagged
    if keys.has("layer_types"):
        kinds = keys.texts("layer_types", allowed=(_FULL, _SLIDING), at_least=n_layers)
        return [kind == _SLIDING for kind in kinds[:n_layers]]
    # configuration_mimo_v2_flash.py: the first layer and every sixth attend fully.
    return [index != 0 and (index + 1) % 6 != 0 for index in range(n_layers)]


def _expert_layers(keys: Reader, n_layers: int) -> list[bool]:
    sparse = flagged_layers(keys, "moe_layer_freq", n_layers)
    if sparse is None:
        sparse = listed_experts(keys, n_layers)
    # configuration_mimo_v2_flash.py: all layers but the first have experts.
    return [index > 0 for index in range(n_layers)] if sparse is None else sparse


def _experts_shape(config: ModelConfig) -> ExpertsShape:
    keys = config.keys
    # The family has no shared experts: transformers and SGLang have no code for them.
    keys.positive_int("n_shared_experts", minimum=0, maximum=0, default=0)
    return ExpertsShape(
        config.hidden_size,
        *top_k_experts(keys, "n_routed_experts", "num_experts_per_tok"),
        keys.positive_int("moe_intermediate_size"),
        correction_bias=True,
    )


def _quantization(config: ModelConfig) -> Quantization:
    """Return the formats of the checkpoint, whose experts may be MXFP4 beside FP8 matrices.

    Source
        SGLang `configs/model_config.py`: ``store_dtype`` of the quantisation config.
    """
    stated = config.quantization
    section = config.keys.section("quantization_config") or config.root.section(
        "quantization_config"
    )
    if section is None or section.values.get("store_dtype") != "mxfp4":
        return stated
    experts = Rule(WEIGHT_FORMATS["mxfp4"], targets=ModuleNames(["mlp.experts"]))
    return replace(stated, rules=(experts, *stated.rules))
