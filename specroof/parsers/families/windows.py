"""Layers with a window or chunks that differ from full ones in more: heads, widths, sinks, gates.

MiMo-V2, Step 3.5 and Llama 4.

Source
    MiMo-V2: transformers 5, `models/mimo_v2_flash/modeling_mimo_v2_flash.py` and
    `configuration_mimo_v2_flash.py`; SGLang `models/mimo_v2.py`, for the keys of the published
    checkpoints (`hybrid_layer_pattern`, `swa_*`), which transformers does not read.
    Of the other families: see each.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from specroof.architecture.base import HEADS, WEIGHT_FORMATS
from specroof.architecture.chunked import ChunkedAttention
from specroof.architecture.model import Architecture, AttentionShape, Block
from specroof.parsers.decoder import LayerPart, LayerWeights, ModelConfig
from specroof.parsers.formats import ModuleNames, Rule
from specroof.parsers.model_config import quantization_section
from specroof.reading.json_text import Reader


def parse_mimo_v2(config: ModelConfig) -> Architecture:
    """Return a MiMo-V2; its checkpoints hold draft layers that not every config mentions."""
    keys, n_layers = config.keys, config.n_layers
    # SGLang `configs/model_config.py`: by ``store_dtype`` experts may be MXFP4 beside FP8 matrices.
    section = quantization_section(keys, config.root)
    if section is not None and section.values.get("store_dtype") == "mxfp4":
        experts = Rule(WEIGHT_FORMATS["mxfp4"], targets=ModuleNames(["mlp.experts"]))
        rules = (experts, *config.quantization.rules)
        config = replace(config, quantization=replace(config.quantization, rules=rules))
    listed = keys.flagged_layers("hybrid_layer_pattern", n_layers)
    # configuration_mimo_v2_flash.py: the first layer and every sixth attend fully.
    usual = [index != 0 and (index + 1) % 6 != 0 for index in range(n_layers)]
    sliding = listed or keys.sliding_layers(n_layers) or usual
    head_dim = keys.positive_int("head_dim")
    full = replace(
        config.read_attention(head_dim),
        # configuration_mimo_v2_flash.py: attention_bias False, never on the output
        qkv_bias=keys.flag("attention_bias", default=False),
        # SGLang: sinks where a flag says so
        sinks=keys.flag("add_full_attention_sink_bias", default=False),
        # SGLang: as wide as keys where the key is missing
        value_dim=keys.positive_int("v_head_dim", default=head_dim),
    )
    other = _mimo_sliding(keys, full) if any(sliding) else full
    # The family has no shared experts: transformers and SGLang have no code for them.
    keys.positive_int("n_shared_experts", minimum=0, maximum=0, default=0)
    return config.decoder(
        LayerPart(
            [other if slides else full for slides in sliding],
            lambda shape, weights: weights.attention(shape),
        ),
        config.feed_forwards(),
    )


def _mimo_sliding(keys: Reader, full: AttentionShape) -> AttentionShape:
    """Return the attention of sliding layers.

    Source
        SGLang reads the ``swa_*`` keys; `MiMoV2FlashAttention` of transformers has twice the KV
        heads of full layers, their other sizes, and always sinks.
    """
    heads_key = "swa_num_attention_heads"
    n_heads = keys.positive_int(heads_key, default=full.n_heads)
    # `MiMoV2FlashConfig.__post_init__`: ``sliding_window_size`` of published files counts the
    # tokens besides a query itself, as SGLang does, and goes before ``sliding_window``, which
    # counts it in and is what a file saved again has.
    besides = keys.has("sliding_window_size")
    window_key = "sliding_window_size" if besides else "sliding_window"
    return replace(
        full,
        n_heads=n_heads,
        n_kv_heads=keys.divisor(
            "swa_num_key_value_heads", of=n_heads, called=heads_key, default=2 * full.n_kv_heads
        ),
        head_dim=keys.positive_int("swa_head_dim", default=full.head_dim),
        sinks=keys.flag("add_swa_attention_sink_bias", default=True),
        value_dim=keys.positive_int("swa_v_head_dim", default=full.value_dim),
        window=keys.positive_int(window_key) + besides,
    )


# --- Step 3.5 and 3.7: sliding layers with more query heads, a gate per head ----------------------
#
# Source
#     transformers 5, `models/step3p7/modeling_step3p7.py` and `configuration_step3p7.py`; SGLang
#     `models/step3p5.py`; the names of matrices are those of the published checkpoints.


def parse_step3p5(config: ModelConfig) -> Architecture:
    """Return the language model of a Step 3.5 or 3.7."""
    keys = config.keys
    # Step3p7Attention gates every head; SGLang where this key says so.
    gated = keys.flag("use_head_wise_attn_gate", default=True)

    def mixer(attention: AttentionShape, weights: LayerWeights) -> Block:
        block = weights.attention(attention)
        if not gated:
            return block
        # one gate per head
        gate = ("g_proj", attention.hidden_size, attention.n_heads)
        return block.extended(*weights.matrices("self_attn.", HEADS, gate))

    keys = config.keys
    heads = (
        keys.positive_int("num_attention_heads"),
        keys.positive_int("num_attention_groups", "num_key_value_heads"),
    )
    # configuration_step3p7.py: attention_bias False, on all four projections
    usual = config.read_attention(heads=heads, biased=True)
    full = _step_checked(keys, replace(usual, qk_norm=True))
    # configuration_step3p7.py: without the list, which goes on with draft layers, all attend fully
    sliding = keys.sliding_layers(config.n_layers) or [False] * config.n_layers
    window = keys.positive_int("sliding_window") if any(sliding) else None
    layers = keys.layer_overrides(len(sliding), ("num_attention_heads",))
    if layers is not None:
        stated = [
            layer.positive_int("num_attention_heads", default=full.n_heads) for layer in layers
        ]
        shapes = [_step_checked(keys, replace(full, n_heads=n_heads)) for n_heads in stated]
    else:
        other = _step_sliding(keys, full) if any(sliding) else full
        shapes = [other if slides else full for slides in sliding]
    return config.decoder(
        LayerPart(
            [
                replace(shape, window=window if slides else None)
                for shape, slides in zip(shapes, sliding, strict=True)
            ],
            mixer,
        ),
        config.feed_forwards(),
    )


def _step_sliding(keys: Reader, full: AttentionShape) -> AttentionShape:
    """Return the attention of sliding layers, which the config states apart.

    The sizes of full layers would be read as theirs by transformers; no published model has them.
    """
    if keys.has("num_sliding_attention_heads"):
        heads = keys.positive_int("num_sliding_attention_heads")
        return _step_checked(keys, replace(full, n_heads=heads))
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
    return _step_checked(section, shape)


def _step_checked(keys: Reader, shape: AttentionShape) -> AttentionShape:
    if shape.n_heads % shape.n_kv_heads:
        allowed = f"a multiple of the {shape.n_kv_heads} heads of keys and values"
        keys.refuse("num_attention_heads", allowed, shape.n_heads)
    return shape


# --- Llama 4: attention in chunks with full layers between, experts with a shared one -------------
#
# Source
#     transformers 5, `models/llama4/modeling_llama4.py` and `configuration_llama4.py`.

_CHUNKED: Final = "chunked_attention"
_FULL: Final = "full_attention"


def parse_llama4(config: ModelConfig) -> Architecture:
    """Return a Llama 4."""
    keys = config.keys
    # configuration_llama4.py: attention_bias False, head_dim 128, a share of hidden_size where it
    # is null. The norm of queries and keys (use_qk_norm) has no weights.
    head_dim = keys.optional_int("head_dim", missing=128)
    attention = config.read_attention(head_dim, biased=True)
    # configuration_llama4.py: attention_chunk_size 8192; null means no chunks.
    chunk = keys.optional_int("attention_chunk_size", missing=8192)

    def mixer(kind: str, weights: LayerWeights) -> Block:
        block = weights.attention(attention)
        if kind == _FULL or chunk is None:
            return block
        heads = attention.n_heads, attention.n_kv_heads, attention.head_dim
        return replace(block, core=ChunkedAttention(*heads, attention.head_dim, chunk))

    mixers = _llama_mixers(keys, config.n_layers)
    notes = []
    if chunk is not None and _CHUNKED in mixers:
        notes.append(
            f"chunked attention sees the current {chunk} tokens: its cost begins anew at every "
            "multiple of them"
        )
    return config.decoder(LayerPart(mixers, mixer), config.feed_forwards(), notes=notes)


def _llama_mixers(keys: Reader, n_layers: int) -> Sequence[str]:
    """Return each layer's attention: layers that know positions see their chunk only.

    Source
        `Llama4TextConfig.__post_init__`: ``layer_types``, else ``no_rope_layers`` (1: has rotary
        positions), else every ``no_rope_layer_interval`` th layer (4) is full.
    """
    if listed := keys.listed_kinds("layer_types", (_CHUNKED, _FULL), n_layers):
        return listed
    if keys.values.get("no_rope_layers"):
        rotary = keys.ints("no_rope_layers", allowed=(0, 1), at_least=n_layers)
        return [_CHUNKED if uses_rope else _FULL for uses_rope in rotary[:n_layers]]
    interval = keys.positive_int("no_rope_layer_interval", default=4)
    return [_CHUNKED if (index + 1) % interval else _FULL for index in range(n_layers)]
