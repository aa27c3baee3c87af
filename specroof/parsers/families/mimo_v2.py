"""MiMo-V2: most layers in a short window with other KV heads, values narrower than keys.

Source
    transformers 5, `models/mimo_v2_flash/modeling_mimo_v2_flash.py` and
    `configuration_mimo_v2_flash.py`; SGLang `models/mimo_v2.py`, for the keys of the published
    checkpoints (`hybrid_layer_pattern`, `swa_*`), which transformers does not read.
"""

from dataclasses import replace
from typing import Final

from specroof.architecture.base import WEIGHT_FORMATS
from specroof.architecture.model import Architecture, AttentionShape
from specroof.parsers.decoder import (
    LayerPart,
    attention_block,
    decoder,
    feed_forward_of,
    flagged_layers,
    head_counts,
    sliding_layers,
)
from specroof.parsers.formats import ModuleNames, Quantization, Rule
from specroof.parsers.model_config import MTP_NOTE, ModelConfig, quantization_section
from specroof.parsers.traits import ExpertTraits, Traits
from specroof.reading.json_text import Reader

#: configuration_mimo_v2_flash.py: all layers but the first have experts.
_ROUTING: Final = ExpertTraits(
    "n_routed_experts", correction_bias=True, dense=("", 1), flagged="moe_layer_freq"
)


def parse_mimo_v2(config: ModelConfig) -> Architecture:
    """Return a MiMo-V2; its checkpoints hold draft layers that not every config mentions."""
    config = replace(config, quantization=_quantization(config))
    keys = config.keys
    sliding = _sliding_layers(keys, config.n_layers)
    full = _full_shape(config)
    other = _sliding_shape(keys, full) if any(sliding) else full
    # The family has no shared experts: transformers and SGLang have no code for them.
    keys.positive_int("n_shared_experts", minimum=0, maximum=0, default=0)
    return decoder(
        config,
        LayerPart([other if slides else full for slides in sliding], attention_block),
        feed_forward_of(config, Traits(routing=_ROUTING)),
        notes=() if keys.has("num_nextn_predict_layers") else (MTP_NOTE,),
    )


def _full_shape(config: ModelConfig) -> AttentionShape:
    keys = config.keys
    head_dim = keys.positive_int("head_dim")
    return AttentionShape(
        config.hidden_size,
        *head_counts(keys),
        head_dim,
        # configuration_mimo_v2_flash.py: attention_bias False, never on the output
        qkv_bias=keys.flag("attention_bias", default=False),
        # SGLang: sinks where a flag says so
        sinks=keys.flag("add_full_attention_sink_bias", default=False),
        # SGLang: as wide as keys where the key is missing
        value_dim=keys.positive_int("v_head_dim", default=head_dim),
    )


def _sliding_shape(keys: Reader, full: AttentionShape) -> AttentionShape:
    """Return the attention of sliding layers.

    Source
        SGLang reads the ``swa_*`` keys; `MiMoV2FlashAttention` of transformers has twice the KV
        heads of full layers, their other sizes, and always sinks.
    """
    heads_key = "swa_num_attention_heads"
    n_heads = keys.positive_int(heads_key, default=full.n_heads)
    return replace(
        full,
        n_heads=n_heads,
        n_kv_heads=keys.divisor(
            "swa_num_key_value_heads", of=n_heads, called=heads_key, default=2 * full.n_kv_heads
        ),
        head_dim=keys.positive_int("swa_head_dim", default=full.head_dim),
        sinks=keys.flag("add_swa_attention_sink_bias", default=True),
        value_dim=keys.positive_int("swa_v_head_dim", default=full.value_dim),
        window=_window(keys),
    )


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


def _sliding_layers(keys: Reader, n_layers: int) -> list[bool]:
    """Return which layers slide: 1 in `hybrid_layer_pattern`, or `layer_types`."""
    listed = flagged_layers(keys, "hybrid_layer_pattern", n_layers) or sliding_layers(
        keys, n_layers
    )
    # configuration_mimo_v2_flash.py: the first layer and every sixth attend fully.
    return listed or [index != 0 and (index + 1) % 6 != 0 for index in range(n_layers)]


def _quantization(config: ModelConfig) -> Quantization:
    """Return the formats of the checkpoint, whose experts may be MXFP4 beside FP8 matrices.

    Source
        SGLang `configs/model_config.py`: ``store_dtype`` of the quantisation config.
    """
    stated = config.quantization
    section = quantization_section(config.keys, config.root)
    if section is None or section.values.get("store_dtype") != "mxfp4":
        return stated
    experts = Rule(WEIGHT_FORMATS["mxfp4"], targets=ModuleNames(["mlp.experts"]))
    return replace(stated, rules=(experts, *stated.rules))
