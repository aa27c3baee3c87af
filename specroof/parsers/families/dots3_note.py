"""dots3.note: latent attention behind an indexer or in a window, with a gate of each head.

Source
    transformers 5.24, `models/dots3_note/modeling_dots3_note.py` and `configuration_dots3_note.py`;
    vLLM 0.33.0, `transformers_utils/configs/dots3_note.py`: files name no draft layer, and
    checkpoints hold one.
"""

from dataclasses import replace
from typing import Final

from specroof.architecture.base import HEADS
from specroof.architecture.latent import LatentAttention
from specroof.architecture.model import Architecture, Block
from specroof.parsers.decoder import (
    LayerPart,
    decoder,
    extended,
    feed_forward_of,
    layer_overrides,
    listed_kinds,
    matrices,
)
from specroof.parsers.families.deepseek_v3 import LatentShape, latent_block, read_indexer
from specroof.parsers.formats import LayerWeights
from specroof.parsers.model_config import MTP_NOTE, ModelConfig
from specroof.parsers.traits import ExpertTraits, Traits
from specroof.reading.json_text import Reader

_INDEXED: Final = "indexed_attention"
_SLIDING: Final = "sliding_attention"
_FULL: Final = "full_attention"
#: Sizes of layers with a window, where no key says so (Dots3NoteTextConfig.__post_init__).
_IN_WINDOW: Final = {
    "num_attention_heads": 64,
    "q_lora_rank": 1024,
    "kv_lora_rank": 1024,
    "qk_nope_head_dim": 192,
    "qk_rope_head_dim": 64,
    "v_head_dim": 128,
}
#: Dots3NoteTextConfig: all layers but the first have experts.
_ROUTING: Final = ExpertTraits(
    "n_routed_experts",
    shared=("n_shared_experts", 1),
    each_shared=("shared_experts_intermediate_size moe_shared_expert_intermediate_size", True),
    correction_bias=True,
    dense=("first_k_dense_replace", 1),
    stride="moe_layer_freq",
)


def parse_dots3_note(config: ModelConfig) -> Architecture:
    """Return the language model of a dots3.note; layers with a window have sizes of their own."""
    keys, n_layers = config.keys, config.n_layers
    keys.pass_over(
        "head_dim num_key_value_heads swa_head_dim swa_num_key_value_heads sliding_window "
        "sliding_window_size use_sliding_window index_n_heads index_head_dim index_topk"
    )
    if keys.flag("mlp_bias", default=False):
        keys.refuse("mlp_bias", "false")
    window = keys.positive_int("sliding_window", "sliding_window_size", default=512)
    kinds = _kinds(keys, n_layers)
    indexer = read_indexer(keys) if _INDEXED in kinds else None

    def attention(kind: tuple[str, LatentShape], weights: LayerWeights) -> Block:
        name, shape = kind
        block = latent_block(shape, weights)
        if name == _SLIDING and isinstance(block.core, LatentAttention):
            block = replace(block, core=replace(block.core, window=window))
        gate = ("g_proj", shape.hidden_size, shape.n_heads)
        # and a norm of the rotary key
        return extended(
            block, *matrices(weights, "self_attn.", HEADS, gate), n_params=shape.rope_dim
        )

    shapes = zip(kinds, _shapes(keys, kinds), strict=True)
    return decoder(
        config,
        LayerPart(
            [
                (kind, replace(shape, indexer=indexer if kind == _INDEXED else None))
                for kind, shape in shapes
            ],
            attention,
        ),
        LayerPart(*feed_forward_of(config, Traits(routing=_ROUTING))),
        notes=() if keys.has("num_nextn_predict_layers") else (MTP_NOTE,),
    )


def _kinds(keys: Reader, n_layers: int) -> list[str]:
    """Return each layer's kind; published files call layers with an indexer ``full_attention``."""
    kinds = listed_kinds(keys, "layer_types", (_INDEXED, _SLIDING, _FULL), n_layers)
    if kinds is None:
        slides = keys.flag("use_sliding_window", default=True)
        kinds = tuple(
            _SLIDING if slides and index >= 2 and index % 4 != 1 else _INDEXED
            for index in range(n_layers)
        )
    if keys.has("use_dsa") or not keys.has("per_layer_config"):
        searches = keys.flag("use_dsa", default=True)
        old, new = (_FULL, _INDEXED) if searches else (_INDEXED, _FULL)
        return [new if kind == old else kind for kind in kinds]
    return [*kinds]


def _shapes(keys: Reader, kinds: list[str]) -> list[LatentShape]:
    """Return the sizes of each layer: one by one as transformers saves them, or of each kind."""
    overrides = layer_overrides(keys, len(kinds), (*_IN_WINDOW, "head_dim", "num_key_value_heads"))
    if overrides is not None:
        return [_shape(keys, layer) for layer in overrides]
    plain = _shape(keys, Reader(keys.source, {}))
    if _SLIDING not in kinds:
        return [plain] * len(kinds)
    own = {
        name: keys.positive_int(f"swa_{name}", default=size) for name, size in _IN_WINDOW.items()
    }
    sliding = _shape(keys, Reader(keys.source, own))
    return [sliding if kind == _SLIDING else plain for kind in kinds]


def _shape(keys: Reader, own: Reader) -> LatentShape:
    """Return the sizes of a layer, which are its own or those of the file."""
    own.pass_over("head_dim num_key_value_heads")
    heads, query_rank, latent_dim, nope_dim, rope_dim, value_dim = (
        (own if own.has(name) else keys).positive_int(name) for name in _IN_WINDOW
    )
    bias = keys.flag("attention_bias", default=False)
    hidden_size = keys.positive_int("hidden_size")
    return LatentShape(
        hidden_size, heads, query_rank, latent_dim, nope_dim, rope_dim, value_dim, bias
    )
