"""GLM-5.3-Flash: Kimi's delta attention, latent attention behind pooled index keys, streams.

Source
    transformers 5.24, `models/glm5_next/modeling_glm5_next.py` and `configuration_glm5_next.py`;
    vLLM 0.33.0, `models/glm5next/`, for `mhc`, the draft layer and the pools that are cached.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from specroof.architecture.base import ATTENTION_REPLICATED, FEED_FORWARD_REPLICATED, Shard
from specroof.architecture.draft_heads import replicated
from specroof.architecture.model import Architecture, Block
from specroof.parsers.decoder import (
    LayerPart,
    decoder,
    extended,
    feed_forward_of,
    listed_kinds,
    stream_mixing,
)
from specroof.parsers.families.deepseek_v3 import (
    LatentShape,
    indexer_kinds,
    latent_block,
    latent_shape,
    read_indexer,
)
from specroof.parsers.families.kimi_linear import DELTA, delta_builder
from specroof.parsers.formats import LayerWeights
from specroof.parsers.model_config import ModelConfig
from specroof.parsers.traits import ExpertTraits, Traits
from specroof.reading.json_text import Reader

_INDEXED: Final = "indexed_attention"
#: Glm5NextTextConfig: n_shared_experts 1, and all layers but the first three have experts.
_ROUTING: Final = ExpertTraits(
    "n_routed_experts",
    shared=("n_shared_experts", 1),
    correction_bias=True,
    dense=("first_k_dense_replace", 3),
)


def parse_glm5_next(config: ModelConfig) -> Architecture:
    """Return the language model of a GLM-5.3-Flash.

    Ignores
        that a query also sees the tokens of the unfinished pool, up to 15 beside 2048, which wait
        with their keys and gates.
    """
    keys, n_layers, hidden_size = config.keys, config.n_layers, config.hidden_size
    keys.pass_over(
        "hc_sinkhorn_iters index_kpool_always_select_tail index_kpool_compress indexer_rope_interleave "
        "index_skip_topk_offset index_topk_freq index_share_for_mtp_iteration linear_conv_kernel_dim "
        "linear_head_dim linear_lower_bound linear_num_heads moe_layer_freq"
    )
    # Glm5NextTextConfig: hc_mult 4. vLLM's has a switch, which is off in draft layers.
    n_streams = keys.positive_int("hc_mult", default=4)
    rows = (2 + n_streams) * n_streams if keys.flag("mhc", default=True) else 0
    delta, latents = delta_builder(keys), _latents(keys)

    def mixed(block: Block, name: str, shard: Shard) -> Block:
        if not rows:
            return block
        mixing = stream_mixing(name, hidden_size, n_streams, rows, shard)
        # Beside the matrix a base of each row, and three scales.
        return extended(block, mixing, n_params=rows + 3)

    def mixer(kind: str, weights: LayerWeights) -> Block:
        block = delta(weights) if kind == DELTA else _latent_block(latents[kind], weights)
        return mixed(block, "attn_hc_fn", ATTENTION_REPLICATED)

    sparse, plain = feed_forward_of(config, Traits(routing=_ROUTING))

    def feed_forward(is_sparse: bool, weights: LayerWeights) -> Block:
        return mixed(plain(is_sparse, weights), "ffn_hc_fn", FEED_FORWARD_REPLICATED)

    return decoder(
        config, LayerPart(_kinds(keys, n_layers), mixer), LayerPart(sparse, feed_forward)
    )


def _kinds(keys: Reader, n_layers: int) -> Sequence[str]:
    """Return each layer's kind of attention, and of those with latents that of its indexer."""
    allowed = (DELTA, _INDEXED, "full_attention")
    kinds = listed_kinds(keys, "layer_types", allowed, n_layers) or [
        DELTA if index % 4 != 3 else _INDEXED for index in range(n_layers)
    ]
    indexers = indexer_kinds(keys, n_layers)
    return [
        DELTA if kind == DELTA else indexer for kind, indexer in zip(kinds, indexers, strict=True)
    ]


def _latents(keys: Reader) -> dict[str, LatentShape]:
    """Return the sizes of latent attention, by what becomes of its indexer."""
    if not keys.has("q_lora_rank"):
        keys.mistake("q_lora_rank", "a whole number from 1", instead=1)
    indexer = read_indexer(keys)
    pool = keys.divisor("index_kpool", of=indexer.top_k, called="index_topk", default=16)
    plain = latent_shape(keys, rotates=False)
    full = replace(plain, indexer=replace(indexer, key_tokens=pool))
    return {"full": full, "shared": replace(plain, shared_top_k=indexer.top_k)}


def _latent_block(shape: LatentShape, weights: LayerWeights) -> Block:
    """Return latent attention, with what makes one index key of a pool: gates and positions."""
    block, indexer = latent_block(shape, weights), shape.indexer
    if indexer is None:
        return block
    gate = replicated("indexer_gate", shape.hidden_size, indexer.head_dim, weights.plain)
    return extended(block, gate, n_params=indexer.key_tokens * indexer.head_dim)
