"""DeepSeek-V2, V3, R1, V3.1, V3.2 (sparse indexer); Mistral Large 3; GLM; Youtu; Sarvam.

Source
    DeepSeek-V2 technical report, arXiv:2405.04434, section 2; DeepSeek-V3 technical report,
    arXiv:2412.19437, section 2.1; DeepSeek-V3.2 report, section 2; transformers 5,
    `models/deepseek_v2/`, `models/deepseek_v3/`, `models/deepseek_v32/`, `models/mistral4/`
    and `models/youtu/` (`modeling_*.py`, `configuration_*.py`); the tensors of the published
    checkpoints; SGLang `models/mistral_large_3.py`, which renames Mistral's matrices to DeepSeek's.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from specroof.architecture.attention import Indexer
from specroof.architecture.base import ATTENTION_REPLICATED, HEADS, Linear, Shard
from specroof.architecture.draft_heads import replicated
from specroof.architecture.latent import LatentAttention
from specroof.architecture.model import Architecture, Block
from specroof.parsers.decoder import LayerPart, decoder, feed_forward_of, listed_kinds, matrices
from specroof.parsers.formats import LayerWeights
from specroof.parsers.model_config import ModelConfig
from specroof.parsers.traits import LING_SHARED, ExpertTraits, Traits
from specroof.reading.json_text import MAX_LAYERS, Reader

#: configuration_deepseek_v3.py and configuration_glm_moe_dsa.py: first_k_dense_replace 3,
#: n_shared_experts 1. Experts are picked with ``e_score_correction_bias`` ("noaux_tc").
ROUTING: Final = ExpertTraits(
    "n_routed_experts",
    shared=("n_shared_experts", 1),
    correction_bias=True,
    dense=("first_k_dense_replace", 3),
    stride="moe_layer_freq",
)
#: Experts are picked by softmax. configuration_mistral4.py: first_k_dense_replace 0
_SOFTMAX: Final = replace(
    ROUTING, correction_bias=False, dense=("first_k_dense_replace", 0), listed=False
)
_USUAL: Final = Traits(routing=ROUTING)
#: Families that differ from V3 in more than their sizes.
_TRAITS: Final = {
    # configuration_deepseek_v2.py: n_shared_experts 2
    "deepseek_v2": Traits(routing=replace(_SOFTMAX, shared=("n_shared_experts", 2))),
    # configuration_glm4_moe_lite.py: all layers but the first have experts.
    "glm4_moe_lite": Traits(routing=replace(ROUTING, dense=("first_k_dense_replace", 1))),
    "mistral4": Traits(routing=_SOFTMAX),
    # configuration_sarvam_mla.py: first_k_dense_replace 1
    "sarvam_mla": Traits(
        routing=replace(
            ROUTING,
            shared=("n_shared_experts num_shared_experts", 1),
            each_shared=LING_SHARED,
            dense=("first_k_dense_replace", 1),
        ),
        passed_over="q_head_dim",
    ),
    "mistral_large3": Traits(routing=_SOFTMAX),
    # configuration_youtu.py: tie_word_embeddings True
    "youtu": Traits(tied=True, passed_over="embedding_initializer_range"),
}


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


def parse_latent(config: ModelConfig) -> Architecture:
    """Return a model whose layers attend alike, to all tokens.

    `num_key_value_heads` says nothing about its cache; V2-Lite does not compress its queries.
    """
    return _latent_decoder(config, [latent_shape(config.keys)] * config.n_layers)


def parse_deepseek_v32(config: ModelConfig) -> Architecture:
    """Return a DeepSeek-V3.2: every layer attends to the tokens that its indexer picks."""
    return _latent_decoder(config, [searching_shape(config.keys)] * config.n_layers)


def latent_shape(
    keys: Reader, *, value_dim: int | None = None, rotates: bool = True
) -> LatentShape:
    """Return the sizes of latent attention; a null `q_lora_rank` projects queries at once.

    `value_dim` is the width of a head's value where no key says so; None refuses such a config.
    Where no key `rotates`, the width of that part is 0, and stated.
    """
    keys.pass_over("head_dim num_key_value_heads qk_head_dim")  # the cache has no heads
    if "q_lora_rank" not in keys.values:
        # Null means something (no compression), so leaving the key out does not.
        keys.mistake("q_lora_rank", "a whole number from 1, or null", instead=1)
    return LatentShape(
        keys.positive_int("hidden_size"),
        keys.positive_int("num_attention_heads"),
        keys.optional_int("q_lora_rank"),
        keys.positive_int("kv_lora_rank"),
        keys.positive_int("qk_nope_head_dim"),
        keys.positive_int("qk_rope_head_dim")
        if rotates
        else keys.positive_int("qk_rope_head_dim", minimum=0, maximum=0),
        keys.positive_int("v_head_dim", default=value_dim),
        # configuration_deepseek_v3.py: attention_bias False
        bias=keys.flag("attention_bias", default=False),
    )


def searching_shape(keys: Reader) -> LatentShape:
    """Return the sizes of latent attention with an indexer, which every layer has.

    transformers names the kind of each layer; the indexer's queries come from the compressed one.
    """
    if not keys.has("q_lora_rank"):
        keys.mistake("q_lora_rank", "a whole number from 1", instead=1)
    keys.texts("layer_types", allowed=("deepseek_sparse_attention", "indexed_attention"))
    return replace(latent_shape(keys), indexer=read_indexer(keys))


def read_indexer(keys: Reader) -> Indexer:
    """Return the sizes of a lightning indexer."""
    return Indexer(
        keys.positive_int("index_n_heads"),
        keys.positive_int("index_head_dim"),
        keys.positive_int("index_topk"),
    )


def _latent_decoder(config: ModelConfig, attentions: Sequence[LatentShape]) -> Architecture:
    traits = _TRAITS.get(config.family, _USUAL)
    config.keys.pass_over(traits.passed_over)
    return decoder(
        config,
        LayerPart(attentions, latent_block),
        LayerPart(*feed_forward_of(config, traits)),
        tied_default=traits.tied,
    )


def latent_block(shape: LatentShape, weights: LayerWeights, *, module: str = "self_attn") -> Block:
    """Return latent attention with its projections; `module` is what the checkpoint calls it.

    The up-projection of the latent is one matrix here and is absorbed into queries and outputs
    by engines when they decode: the same weights and, per new token, the same arithmetic.
    """
    linears = tuple(
        Linear(name, in_features, out_features, weights(f"{module}.{name}"), shard, bias=bias)
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
    if indexer is None:
        return ()
    quantised = matrices(
        weights,
        "self_attn.indexer.",
        ATTENTION_REPLICATED,
        ("wq_b", shape.query_rank or shape.hidden_size, indexer.n_heads * indexer.head_dim),
        ("wk", shape.hidden_size, indexer.head_dim),
    )
    named = (replace(linear, name=f"indexer_{linear.name}") for linear in quantised)
    return (*named, index_weights(shape.hidden_size, indexer, weights))


def index_weights(hidden_size: int, indexer: Indexer, weights: LayerWeights) -> Linear:
    """Return the matrix of the heads' weights, which stays unquantised in FP8 checkpoints."""
    return replicated("indexer_weights_proj", hidden_size, indexer.n_heads, weights.plain)


# --- GLM 5 to 5.2: latent attention with (shared) indexers ----------------------------------------
#
# Source
#     transformers 5, `models/glm4_moe_lite/` and `models/glm_moe_dsa/` (`modeling_*.py`,
#     `configuration_*.py`); SGLang `configs/model_config.py` (`dsa_layer_skips_topk`); the tensors
#     of the published checkpoints.


_FULL: Final = "full"
_SHARED: Final = "shared"
#: How `index_topk_pattern` abbreviates them.
_LETTERS: Final = {"F": _FULL, "S": _SHARED}


def parse_glm_moe_dsa(config: ModelConfig) -> Architecture:
    """Return a GLM-5: in GLM-5.2 three layers of four share the selection of the one before."""
    keys = config.keys
    keys.pass_over(
        "index_share_for_mtp_iteration index_skip_topk_offset index_topk_freq "
        "indexer_rope_interleave moe_router_dtype num_experts"
    )
    full = searching_shape(keys)
    shared = replace(full, indexer=None, shared_top_k=keys.positive_int("index_topk"))
    kinds = indexer_kinds(keys, config.n_layers)
    return _latent_decoder(config, [full if kind == _FULL else shared for kind in kinds])


def listed_indexers(keys: Reader, n_layers: int) -> Sequence[str] | None:
    """Return ``"full"`` or ``"shared"`` of each layer by ``indexer_types``; None without."""
    kinds = listed_kinds(keys, "indexer_types", (_FULL, _SHARED), n_layers)
    if kinds and kinds[0] == _SHARED:
        keys.refuse("indexer_types", "full first, before which nothing is selected")
    return kinds


def indexer_kinds(keys: Reader, n_layers: int) -> Sequence[str]:
    """Return whether each layer runs its indexer or takes over an earlier layer's selection.

    Source
        `GlmMoeDsaConfig.__post_init__`: the list, else the pattern, else a stride that begins
        after some layers (``index_topk_freq`` 1 and ``index_skip_topk_offset`` 2 by default).
    """
    if listed := listed_indexers(keys, n_layers):
        return listed
    if keys.has("index_topk_pattern"):
        pattern = keys.text("index_topk_pattern")
        if len(pattern) < n_layers or pattern[0] != "F" or not set(pattern) <= set(_LETTERS):
            keys.refuse("index_topk_pattern", "F and S, one a layer, F first")
        return [_LETTERS[letter] for letter in pattern[:n_layers]]
    stride = keys.positive_int("index_topk_freq", default=1)
    offset = keys.positive_int("index_skip_topk_offset", maximum=MAX_LAYERS, default=2)
    return [_SHARED if max(index - offset + 1, 0) % stride else _FULL for index in range(n_layers)]
