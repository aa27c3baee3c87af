"""MiniMax-M3: attention to blocks of keys that an indexer picks, dense layers first.

Source
    transformers 5, `models/minimax_m3_vl/modeling_minimax_m3_vl.py` and
    `configuration_minimax_m3_vl.py`; SGLang `models/minimax_m3.py`; the names of matrices are
    those of the published checkpoints (transformers `conversion_mapping.py`).
"""

from dataclasses import dataclass, replace
from typing import Final

from specroof.architecture import (
    ATTENTION_REPLICATED,
    Architecture,
    Block,
    BlockSparseAttention,
    Indexer,
    Linear,
    by_kv_heads,
)
from specroof.parsers.blocks import (
    AttentionShape,
    ExpertNames,
    ExpertsShape,
    attention_block,
    experts_block,
    feed_forward_block,
    head_counts,
    split_head_dim,
    top_k_experts,
)
from specroof.parsers.formats.quantization import LayerWeights
from specroof.parsers.layer_lists import flagged_layers, listed_experts
from specroof.parsers.model_config import Decoder, ModelConfig, build_layers
from specroof.reading.json_object import Reader

__all__ = ["parse_minimax_m3"]

_NAMES: Final = ExpertNames(
    routed="block_sparse_moe.experts.0.w1",
    shared_in="block_sparse_moe.shared_experts.gate_proj",
    shared_out="block_sparse_moe.shared_experts.down_proj",
)
_FULL: Final = "full_attention"
_SPARSE: Final = "minimax_m3_sparse"


@dataclass(frozen=True, slots=True)
class _BlockIndexer:
    """The indexer of the sparse layers; its `top_k` counts blocks of `block_len` tokens."""

    indexer: Indexer
    block_len: int


def parse_minimax_m3(config: ModelConfig) -> Architecture:
    """Return the language model of a MiniMax-M3; `intermediate_size` is that of one expert."""
    keys = config.keys
    if keys.flag("attention_output_gate", default=False):
        keys.refuse("attention_output_gate", "false, as in the published checkpoint")
    attention = AttentionShape(
        config.hidden_size,
        *head_counts(keys),
        split_head_dim(keys),
        # MiniMaxM3VLAttention has a norm of one head's width for queries and for keys.
        qk_norm=keys.flag("use_qk_norm", default=True),
    )
    searching = _sparse_attention(keys, config.n_layers)
    indexer = _indexer(keys) if any(searching) else None
    sparse = _expert_layers(keys, config.n_layers)
    experts = _experts_shape(config) if any(sparse) else None
    dense_width = 0 if all(sparse) else keys.positive_int("dense_intermediate_size")

    def layer(kind: tuple[bool, bool], weights: LayerWeights) -> tuple[Block, ...]:
        searches, is_sparse = kind
        mixer = attention_block(attention, None, weights)
        if searches and indexer is not None:
            mixer = _searching(mixer, attention, indexer, weights)
        if is_sparse and experts is not None:
            return mixer, experts_block(experts, weights, _NAMES)
        return mixer, feed_forward_block(config.hidden_size, dense_width, weights)

    kinds = list(zip(searching, sparse, strict=True))
    return Decoder(build_layers(config, kinds, layer)).architecture(config)


def _searching(
    block: Block, attention: AttentionShape, found: _BlockIndexer, weights: LayerWeights
) -> Block:
    """Return an attention block that scores keys first, with the indexer's two projections."""
    indexer = found.indexer
    index_q = Linear(
        "index_q_proj",
        attention.hidden_size,
        indexer.n_heads * indexer.head_dim,
        weight=weights("self_attn.index_q_proj"),
        shard=by_kv_heads(indexer.n_heads),
    )
    index_k = Linear(
        "index_k_proj",
        attention.hidden_size,
        indexer.head_dim,
        weight=weights("self_attn.index_k_proj"),
        shard=ATTENTION_REPLICATED,
    )
    return replace(
        block,
        linears=(*block.linears, index_q, index_k),
        core=BlockSparseAttention(
            attention.n_heads,
            attention.n_kv_heads,
            attention.head_dim,
            attention.head_dim,
            indexer,
            found.block_len,
        ),
        # norms of index queries and keys
        vector_params=block.vector_params + 2 * indexer.head_dim,
    )


def _sparse_attention(keys: Reader, n_layers: int) -> list[bool]:
    """Return which layers have an indexer: `layer_types`, else the section of the checkpoint."""
    if keys.has("layer_types"):
        kinds = keys.texts("layer_types", allowed=(_FULL, _SPARSE), at_least=n_layers)
        return [kind == _SPARSE for kind in kinds[:n_layers]]
    section = keys.section("sparse_attention_config")
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


def _indexer(keys: Reader) -> _BlockIndexer:
    """Return the indexer by the keys of the checkpoint, or by those that transformers writes."""
    section = keys.section("sparse_attention_config")
    if section is None:
        indexer = Indexer(
            keys.positive_int("index_n_heads"),
            keys.positive_int("index_head_dim"),
            keys.positive_int("index_topk_blocks"),
        )
        return _BlockIndexer(indexer, keys.positive_int("index_block_size"))
    indexer = Indexer(
        section.positive_int("sparse_num_index_heads"),
        section.positive_int("sparse_index_dim"),
        # `sparse_local_block` and `sparse_init_block` are among these: they only score highest.
        section.positive_int("sparse_topk_blocks"),
    )
    return _BlockIndexer(indexer, section.positive_int("sparse_block_size"))


def _expert_layers(keys: Reader, n_layers: int) -> list[bool]:
    sparse = listed_experts(keys, n_layers)
    if sparse is None:
        sparse = flagged_layers(keys, "moe_layer_freq", n_layers)
    # configuration_minimax_m3_vl.py: experts in every layer where neither list is given
    return [True] * n_layers if sparse is None else sparse


def _experts_shape(config: ModelConfig) -> ExpertsShape:
    keys = config.keys
    # MiniMaxM3VLSparseMoeBlock has one shared expert; SGLang reads how many.
    n_shared = keys.positive_int("n_shared_experts", minimum=0, default=1)
    shared_width = keys.positive_int("shared_intermediate_size") if n_shared else 0
    return ExpertsShape(
        config.hidden_size,
        *top_k_experts(keys, "num_local_experts", "num_experts_per_tok"),
        keys.positive_int("intermediate_size"),
        shared_width=n_shared * shared_width,
        correction_bias=keys.flag("use_routing_bias", default=True),
    )
