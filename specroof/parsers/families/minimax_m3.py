"""MiniMax-M3: attention to blocks of keys that an indexer picks, dense layers first.

Source
    transformers 5, `models/minimax_m3_vl/modeling_minimax_m3_vl.py` and
    `configuration_minimax_m3_vl.py`; SGLang `models/minimax_m3.py`; the names of matrices are
    those of the published checkpoints (transformers `conversion_mapping.py`).
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from specroof.architecture import (
    ATTENTION_REPLICATED,
    Architecture,
    AttentionShape,
    Block,
    BlockSparseAttention,
    Indexer,
    Linear,
    by_kv_heads,
)
from specroof.parsers.decoder import (
    ExpertsShape,
    LayerPart,
    attention_block,
    decoder,
    extended,
    feed_forward_part,
    flagged_layers,
    listed_experts,
    listed_kinds,
    matrices,
    read_attention,
    read_experts,
)
from specroof.parsers.families.deepseek_v3 import EXPERTS_FROM
from specroof.parsers.formats import LayerWeights
from specroof.parsers.model_config import ModelConfig
from specroof.parsers.traits import BLOCK_SPARSE_NAMES
from specroof.reading.json_text import Reader

_FULL: Final = "full_attention"
_SPARSE: Final = "minimax_m3_sparse"
#: Keys of the indexer's heads, their width, top blocks, and the length of one.
_PUBLISHED_INDEXER: Final = (
    "sparse_num_index_heads",
    "sparse_index_dim",
    "sparse_topk_blocks",
    "sparse_block_size",
)
_SAVED_INDEXER: Final = (
    "index_n_heads",
    "index_head_dim",
    "index_topk_blocks",
    "index_block_size",
)


def parse_minimax_m3(config: ModelConfig) -> Architecture:
    """Return the language model of a MiniMax-M3; `intermediate_size` is the width of one expert."""
    keys = config.keys
    keys.pass_over(
        f"{EXPERTS_FROM} moe_intermediate_size dense_intermediate_size qk_norm_type use_gemma_norm "
        "index_n_heads index_head_dim index_block_size index_topk_blocks index_local_blocks"
    )
    if keys.flag("attention_output_gate", default=False):
        keys.refuse("attention_output_gate", "false, as in the published checkpoint")
    # MiniMaxM3VLAttention has a norm of one head's width for queries and for keys.
    attention = replace(read_attention(keys), qk_norm=keys.flag("use_qk_norm", default=True))
    searching = _sparse_attention(keys, config.n_layers)
    core = _searching_core(keys, attention) if any(searching) else None
    sparse = _expert_layers(keys, config.n_layers)
    experts = _experts_shape(keys) if any(sparse) else None

    def mixer(searches: bool, weights: LayerWeights) -> Block:
        block = attention_block(attention, weights)
        if not searches or core is None:
            return block
        linears = _indexer_linears(core.indexer, config.hidden_size, weights)
        # norms of index queries and keys
        return replace(extended(block, *linears, n_params=2 * core.indexer.head_dim), core=core)

    return decoder(
        config,
        LayerPart(searching, mixer),
        feed_forward_part(
            config, experts, sparse, names=BLOCK_SPARSE_NAMES, width_key="dense_intermediate_size"
        ),
    )


def _indexer_linears(
    indexer: Indexer, hidden_size: int, weights: LayerWeights
) -> tuple[Linear, ...]:
    """Return the projections of index queries and of the one index key."""
    queries = ("index_q_proj", hidden_size, indexer.n_heads * indexer.head_dim)
    keys = ("index_k_proj", hidden_size, indexer.head_dim)
    return (
        *matrices(weights, "self_attn.", by_kv_heads(indexer.n_heads), queries),
        *matrices(weights, "self_attn.", ATTENTION_REPLICATED, keys),
    )


def _sparse_section(keys: Reader) -> Reader | None:
    section = keys.section("sparse_attention_config")
    if section is not None:
        section.pass_over("sparse_local_block sparse_score_type")
    return section


def _sparse_attention(keys: Reader, n_layers: int) -> list[bool]:
    """Return which layers have an indexer: `layer_types`, else the section of the checkpoint."""
    if kinds := listed_kinds(keys, "layer_types", (_FULL, _SPARSE), n_layers):
        return [kind == _SPARSE for kind in kinds]
    section = _sparse_section(keys)
    # configuration_minimax_m3_vl.py: without the section, all layers attend fully.
    if section is None or not section.flag("use_sparse_attention", default=True):
        return [False] * n_layers
    searching = flagged_layers(section, "sparse_attention_freq", n_layers)
    if searching is None:
        section.refuse("sparse_attention_freq", "a list of 0 and 1, one a layer")
    # transformers has no code for index values, which every published sparse layer disables.
    without_values = flagged_layers(section, "sparse_disable_index_value", n_layers) or searching
    if any(is_on and not off for is_on, off in zip(searching, without_values, strict=True)):
        section.refuse("sparse_disable_index_value", "1 wherever sparse_attention_freq is 1")
    return searching


def _searching_core(keys: Reader, attention: AttentionShape) -> BlockSparseAttention:
    """Return attention with the indexer that the checkpoint states, or what transformers writes."""
    section = _sparse_section(keys)
    if section is None:
        names: Sequence[str] = _SAVED_INDEXER
    else:
        # `sparse_local_block` and `sparse_init_block` are among the top blocks: they only score
        # highest.
        keys, names = section, _PUBLISHED_INDEXER
    n_heads, head_dim, top_k, block_len = (keys.positive_int(name) for name in names)
    indexer = Indexer(n_heads, head_dim, top_k)
    heads = attention.n_heads, attention.n_kv_heads, attention.head_dim, attention.head_dim
    return BlockSparseAttention(*heads, indexer, block_len)


def _expert_layers(keys: Reader, n_layers: int) -> list[bool]:
    listed = listed_experts(keys, n_layers) or flagged_layers(keys, "moe_layer_freq", n_layers)
    # configuration_minimax_m3_vl.py: experts in every layer where neither list is given
    return listed or [True] * n_layers


def _experts_shape(keys: Reader) -> ExpertsShape:
    # MiniMaxM3VLSparseMoeBlock has one shared expert; SGLang reads how many.
    n_shared = keys.positive_int("n_shared_experts", minimum=0, default=1)
    shared_width = keys.positive_int("shared_intermediate_size") if n_shared else 0
    experts = read_experts(
        keys,
        "num_local_experts",
        width_key="intermediate_size",
        correction_bias=keys.flag("use_routing_bias", default=True),
    )
    return replace(experts, shared_width=n_shared * shared_width)
