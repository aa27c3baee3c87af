"""DeepSeek-V3, R1, V3.1 (latent attention) and V3.2 (with the sparse indexer on top).

Source
    DeepSeek-V3 technical report, arXiv:2412.19437, section 2.1; DeepSeek-V3.2 report, section 2;
    transformers 5, `models/deepseek_v3/` and `models/deepseek_v32/` (`modeling_*.py`,
    `configuration_*.py`); the tensors of the published checkpoints.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from specroof.architecture import (
    ATTENTION_REPLICATED,
    HEADS,
    Architecture,
    Block,
    Indexer,
    LatentAttention,
    Linear,
    Shard,
)
from specroof.parsers.blocks import (
    ExpertsShape,
    experts_block,
    feed_forward_block,
    top_k_experts,
)
from specroof.parsers.formats.quantization import LayerWeights
from specroof.parsers.layer_lists import listed_experts
from specroof.parsers.model_config import Decoder, ModelConfig, build_layers
from specroof.reading.json_object import MAX_LAYERS, Reader

__all__ = [
    "LatentShape",
    "check_indexed",
    "expert_layers",
    "latent_block",
    "latent_decoder",
    "latent_experts",
    "latent_shape",
    "parse_deepseek_v3",
    "parse_deepseek_v32",
    "read_indexer",
]


@dataclass(frozen=True, slots=True)
class LatentShape:
    """Sizes of multi-head latent attention.

    Parameters
    ----------
    hidden_size
        Width of the residual stream.
    n_heads
        Query heads; the one latent serves all.
    query_rank, latent_dim
        Widths of the compressed query (None: queries are projected at once) and key-value latent.
    nope_dim, rope_dim, value_dim
        Per head: width of keys without and with rotary positions, and of values.
    bias
        Whether the down-projections and the output have a bias.
    indexer
        Present in V3.2.
    shared_top_k
        Present where the layer takes over what an earlier one's indexer picked (GLM-5.2).
    """

    hidden_size: int
    n_heads: int
    query_rank: int | None
    latent_dim: int
    nope_dim: int
    rope_dim: int
    value_dim: int
    bias: bool = False
    indexer: Indexer | None = None
    shared_top_k: int | None = None


def parse_deepseek_v3(config: ModelConfig) -> Architecture:
    """Return a DeepSeek-V3; `num_key_value_heads` says nothing about its cache."""
    return _deepseek(config, latent_shape(config))


def parse_deepseek_v32(config: ModelConfig) -> Architecture:
    """Return a DeepSeek-V3.2: every layer attends to the tokens that its indexer picks."""
    if not config.keys.has("q_lora_rank"):
        # The indexer's queries come from the compressed query.
        config.keys.refuse("q_lora_rank", "a whole number from 1")
    check_indexed(config.keys)
    return _deepseek(config, latent_shape(config, read_indexer(config.keys)))


def check_indexed(keys: Reader) -> None:
    """Refuse layers without an indexer: transformers names all layers, and they are alike."""
    keys.texts("layer_types", allowed=("deepseek_sparse_attention", "indexed_attention"))


def _deepseek(config: ModelConfig, attention: LatentShape) -> Architecture:
    # Files of V3.2 that transformers saved list the layers, and have no first_k_dense_replace.
    sparse = listed_experts(config.keys, config.n_layers)
    if sparse is None:
        # configuration_deepseek_v3.py: first_k_dense_replace 3, n_shared_experts 1
        sparse = expert_layers(config.keys, config.n_layers, n_dense_default=3)
    # e_score_correction_bias of the "noaux_tc" selection, the only one of this family
    experts = latent_experts(config, sparse, n_shared_default=1, correction_bias=True)
    return latent_decoder(config, [attention] * config.n_layers, experts, sparse)


def read_indexer(keys: Reader) -> Indexer:
    """Return the sizes of a lightning indexer."""
    return Indexer(
        keys.positive_int("index_n_heads"),
        keys.positive_int("index_head_dim"),
        keys.positive_int("index_topk"),
    )


def latent_shape(config: ModelConfig, indexer: Indexer | None = None) -> LatentShape:
    """Return the sizes of latent attention; a null `q_lora_rank` projects queries at once."""
    keys = config.keys
    if "q_lora_rank" not in keys.values:
        # Null means something (no compression), so leaving the key out does not.
        keys.refuse("q_lora_rank", "a whole number from 1, or null")
    return LatentShape(
        config.hidden_size,
        keys.positive_int("num_attention_heads"),
        keys.optional_int("q_lora_rank"),
        keys.positive_int("kv_lora_rank"),
        keys.positive_int("qk_nope_head_dim"),
        keys.positive_int("qk_rope_head_dim"),
        keys.positive_int("v_head_dim"),
        # configuration_deepseek_v3.py: attention_bias False
        bias=keys.flag("attention_bias", default=False),
        indexer=indexer,
    )


def latent_decoder(
    config: ModelConfig,
    attentions: Sequence[LatentShape],
    experts: ExpertsShape | None,
    sparse: Sequence[bool],
) -> Architecture:
    """Return a model of latent attention, given each layer's attention and if it has experts."""
    dense_width = 0 if all(sparse) else config.keys.positive_int("intermediate_size")

    def layer(kind: tuple[LatentShape, bool], weights: LayerWeights) -> tuple[Block, ...]:
        attention, is_sparse = kind
        feed_forward = (
            experts_block(experts, weights)
            if is_sparse and experts is not None
            else feed_forward_block(config.hidden_size, dense_width, weights)
        )
        return latent_block(attention, weights), feed_forward

    kinds = list(zip(attentions, sparse, strict=True))
    return Decoder(build_layers(config, kinds, layer)).architecture(config)


def expert_layers(keys: Reader, n_layers: int, *, n_dense_default: int) -> list[bool]:
    """Return whether each layer has experts: all but the first few, or every few of them.

    Source
        `DeepseekV3DecoderLayer.__init__` of the checkpoints' own `modeling_deepseek.py`, where
        ``moe_layer_freq`` is 1 by default; the default of ``first_k_dense_replace`` is that of
        the family's configuration class.
    """
    n_dense = keys.positive_int(
        "first_k_dense_replace", minimum=0, maximum=MAX_LAYERS, default=n_dense_default
    )
    stride = keys.positive_int("moe_layer_freq", default=1)
    return [index >= n_dense and index % stride == 0 for index in range(n_layers)]


def latent_experts(
    config: ModelConfig, sparse: Sequence[bool], *, n_shared_default: int, correction_bias: bool
) -> ExpertsShape | None:
    """Return the sizes of the experts, None where no layer has any.

    All shared experts of a layer are one wide expert.
    """
    if not any(sparse):
        return None
    keys = config.keys
    width = keys.positive_int("moe_intermediate_size")
    n_shared = keys.positive_int("n_shared_experts", minimum=0, default=n_shared_default)
    return ExpertsShape(
        config.hidden_size,
        *top_k_experts(keys, "n_routed_experts", "num_experts_per_tok"),
        width,
        shared_width=n_shared * width,
        correction_bias=correction_bias,
    )


def latent_block(shape: LatentShape, weights: LayerWeights) -> Block:
    """Return latent attention with its projections.

    The up-projection of the latent is one matrix here and is absorbed into queries and outputs
    by engines when they decode: the same weights and, per new token, the same arithmetic.
    """
    linears = tuple(
        Linear(name, in_features, out_features, weights(f"self_attn.{name}"), shard, bias=bias)
        for name, in_features, out_features, shard, bias in _latent_matrices(shape)
    )
    norms = shape.hidden_size + (shape.query_rank or 0) + shape.latent_dim
    index_norm = 2 * shape.indexer.head_dim if shape.indexer else 0  # weight and bias
    return Block(
        "attention",
        (*linears, *_indexer_linears(shape, weights)),
        LatentAttention(
            shape.n_heads,
            shape.latent_dim,
            shape.rope_dim,
            shape.indexer,
            shape.shared_top_k,
            head_dims=(shape.nope_dim + shape.rope_dim, shape.value_dim),
        ),
        vector_params=norms + index_norm,
    )


def _latent_matrices(shape: LatentShape) -> Iterator[tuple[str, int, int, Shard, bool]]:
    """Yield name, widths, shard and bias of each projection."""
    query_dim = shape.n_heads * (shape.nope_dim + shape.rope_dim)
    key_value_dim = shape.n_heads * (shape.nope_dim + shape.value_dim)
    if shape.query_rank is None:
        yield "q_proj", shape.hidden_size, query_dim, HEADS, False
    else:
        yield "q_a_proj", shape.hidden_size, shape.query_rank, ATTENTION_REPLICATED, shape.bias
        yield "q_b_proj", shape.query_rank, query_dim, HEADS, False
    cached_dim = shape.latent_dim + shape.rope_dim
    yield "kv_a_proj_with_mqa", shape.hidden_size, cached_dim, ATTENTION_REPLICATED, shape.bias
    yield "kv_b_proj", shape.latent_dim, key_value_dim, HEADS, False
    yield "o_proj", shape.n_heads * shape.value_dim, shape.hidden_size, HEADS, shape.bias


def _indexer_linears(shape: LatentShape, weights: LayerWeights) -> tuple[Linear, ...]:
    indexer = shape.indexer
    if indexer is None or shape.query_rank is None:
        return ()
    sizes = (
        ("wq_b", shape.query_rank, indexer.n_heads * indexer.head_dim),
        ("wk", shape.hidden_size, indexer.head_dim),
    )
    quantised = tuple(
        Linear(
            f"indexer_{name}",
            in_features,
            out_features,
            weight=weights(f"self_attn.indexer.{name}"),
            shard=ATTENTION_REPLICATED,
        )
        for name, in_features, out_features in sizes
    )
    # The heads' weights stay unquantised in FP8 checkpoints.
    head_weights = Linear(
        "indexer_weights_proj",
        shape.hidden_size,
        indexer.n_heads,
        weight=weights.plain,
        shard=ATTENTION_REPLICATED,
    )
    return (*quantised, head_weights)
