"""MiniMax-Text-01 and M1 (lightning attention, softmax every eighth layer), M2 to M2.7, M3.

Source
    MiniMax-01 report, arXiv:2501.08313, section 2; transformers 5,
    `models/minimax/modeling_minimax.py`, which is MiniMax-Text-01 (M1 continues its training),
    `models/minimax_m2/modeling_minimax_m2.py` and `configuration_minimax_m2.py`; SGLang
    `models/minimax_m2.py`; the tensors of the published checkpoints.
"""

from dataclasses import replace
from typing import Final

from specroof.architecture.attention import Indexer
from specroof.architecture.base import ATTENTION_REPLICATED, HEADS, Linear, by_kv_heads
from specroof.architecture.block_sparse import BlockSparseAttention
from specroof.architecture.model import Architecture, AttentionShape, Block
from specroof.architecture.recurrent import LightningAttention
from specroof.parsers.decoder import LayerPart, LayerWeights, ModelConfig
from specroof.reading.json_text import Reader

_FULL: Final = "full_attention"
_LINEAR: Final = "linear_attention"


def parse_minimax_m1(config: ModelConfig) -> Architecture:
    """Return a MiniMax-M1; `intermediate_size` is the width of an expert."""
    attention = config.read_attention()
    lightning = LightningAttention(attention.n_heads, attention.head_dim)

    def mixer(attends: bool, weights: LayerWeights) -> Block:
        if attends:
            return weights.attention(attention)
        inner_dim = lightning.n_heads * lightning.head_dim
        linears = weights.matrices(
            "self_attn.",
            HEADS,
            ("qkv_proj", attention.hidden_size, 3 * inner_dim),
            ("output_gate", attention.hidden_size, inner_dim),
            ("out_proj", inner_dim, attention.hidden_size),
        )
        return Block(
            "attention", linears, lightning, vector_params=attention.hidden_size + inner_dim
        )

    keys, n_layers = config.keys, config.n_layers
    kinds = keys.listed_kinds("layer_types", (_FULL, _LINEAR), n_layers)
    attending = [kind == _FULL for kind in kinds or ()]
    if not kinds:
        attending = keys.flagged_layers("attn_type_list", n_layers) or []
    if not attending:
        keys.refuse("attn_type_list", "a list of 0 (lightning) and 1 (softmax), one a layer")
    return config.decoder(
        LayerPart(attending, mixer),
        config.feed_forwards(),
        state_dtype=None,
    )


#: configuration_minimax_m2.py and configuration_minimax_m3_vl.py of transformers 5.
_HEAD_DIM: Final = 128


def parse_minimax_m2(config: ModelConfig) -> Architecture:
    """Return a MiniMax-M2; `intermediate_size` is the width of one expert."""
    keys = config.keys
    full = keys.flagged_layers("attn_type_list", config.n_layers)
    if full is not None and not all(full):
        # 0 is the linear attention of MiniMax-M1, which no model of this type has.
        keys.refuse("attn_type_list", "1 for every layer")
    keys.positive_int("shared_intermediate_size", minimum=0, maximum=0, default=0)
    attention = config.read_attention(keys.positive_int("head_dim", default=_HEAD_DIM))
    # transformers: head norms and correction bias always; the checkpoints have switches for both.
    # MiniMaxM2Attention: q_norm and k_norm are "per_layer", as wide as the projections.
    kind = keys.text("qk_norm_type", allowed=("per_head", "per_layer"), default="per_layer")
    normed = keys.flag("use_qk_norm", default=True)
    whole = normed and kind == "per_layer"
    heads = attention.n_heads + attention.n_kv_heads if whole else 2 * normed

    def mixer(weights: LayerWeights) -> Block:
        block = weights.attention(attention).extended(n_params=heads * attention.head_dim)
        return replace(block, norm_over_heads=whole)

    return config.decoder(config.same_part(mixer), config.feed_forwards())


# --- MiniMax-M3 -----------------------------------------------------------------------------------
# Attention to blocks of keys that an indexer picks, dense layers first.
#
# Source
#     transformers 5, `models/minimax_m3_vl/modeling_minimax_m3_vl.py` and
#     `configuration_minimax_m3_vl.py`; SGLang `models/minimax_m3.py`; the names of matrices are
#     those of the published checkpoints (transformers `conversion_mapping.py`).


_SPARSE: Final = "minimax_m3_sparse"
#: Keys of the indexer's heads, their width, top blocks, and the length of one.
_PUBLISHED_INDEXER: Final = (
    "sparse_num_index_heads sparse_index_dim sparse_topk_blocks sparse_block_size"
)
_SAVED_INDEXER: Final = "index_n_heads index_head_dim index_topk_blocks index_block_size"


def parse_minimax_m3(config: ModelConfig) -> Architecture:
    """Return the language model of a MiniMax-M3; `intermediate_size` is the width of one expert."""
    keys = config.keys
    if keys.flag("attention_output_gate", default=False):
        keys.refuse("attention_output_gate", "false, as in the published checkpoint")
    # MiniMaxM3VLAttention has a norm of one head's width for queries and for keys.
    attention = config.read_attention(keys.positive_int("head_dim", default=_HEAD_DIM))
    attention = replace(attention, qk_norm=keys.flag("use_qk_norm", default=True))
    searching = _sparse_attention(keys, config.n_layers)
    core = _searching_core(keys, attention) if any(searching) else None

    def mixer(searches: bool, weights: LayerWeights) -> Block:
        block = weights.attention(attention)
        if not searches or core is None:
            return block
        linears = _indexer_linears(core.indexer, config.hidden_size, weights)
        # norms of index queries and keys
        return replace(block.extended(*linears, n_params=2 * core.indexer.head_dim), core=core)

    return config.decoder(LayerPart(searching, mixer), config.feed_forwards())


def _indexer_linears(
    indexer: Indexer, hidden_size: int, weights: LayerWeights
) -> tuple[Linear, ...]:
    """Return the projections of index queries and of the one index key."""
    queries = ("index_q_proj", hidden_size, indexer.n_heads * indexer.head_dim)
    keys = ("index_k_proj", hidden_size, indexer.head_dim)
    return (
        *weights.matrices("self_attn.", by_kv_heads(indexer.n_heads), queries),
        *weights.matrices("self_attn.", ATTENTION_REPLICATED, keys),
    )


def _sparse_section(keys: Reader) -> Reader | None:
    section = keys.section("sparse_attention_config")
    if section is not None:
        section.pass_over("sparse_local_block sparse_score_type")
    return section


def _sparse_attention(keys: Reader, n_layers: int) -> list[bool]:
    """Return which layers have an indexer: `layer_types`, else the section of the checkpoint."""
    if kinds := keys.listed_kinds("layer_types", (_FULL, _SPARSE), n_layers):
        return [kind == _SPARSE for kind in kinds]
    section = _sparse_section(keys)
    # configuration_minimax_m3_vl.py: without the section, all layers attend fully.
    if section is None or not section.flag("use_sparse_attention", default=True):
        return [False] * n_layers
    searching = section.flagged_layers("sparse_attention_freq", n_layers)
    if searching is None:
        section.refuse("sparse_attention_freq", "a list of 0 and 1, one a layer")
    # transformers has no code for index values, which every published sparse layer disables.
    without_values = section.flagged_layers("sparse_disable_index_value", n_layers) or searching
    if any(is_on and not off for is_on, off in zip(searching, without_values, strict=True)):
        section.refuse("sparse_disable_index_value", "1 wherever sparse_attention_freq is 1")
    return searching


def _searching_core(keys: Reader, attention: AttentionShape) -> BlockSparseAttention:
    """Return attention with the indexer that the checkpoint states, or what transformers writes."""
    section = _sparse_section(keys)
    if section is None:
        names = _SAVED_INDEXER
    else:
        # `sparse_local_block` and `sparse_init_block` are among the top blocks: they only score
        # highest.
        keys, names = section, _PUBLISHED_INDEXER
    n_heads, head_dim, top_k, block_len = map(keys.positive_int, names.split())
    indexer = Indexer(n_heads, head_dim, top_k)
    heads = attention.n_heads, attention.n_kv_heads, attention.head_dim, attention.head_dim
    return BlockSparseAttention(*heads, indexer, block_len)
