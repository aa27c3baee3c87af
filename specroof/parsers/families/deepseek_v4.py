"""DeepSeek-V4: a short raw window and compressed entries, a residual of several streams.

Source
    DeepSeek-V4 report, section 2; transformers 5, `models/deepseek_v4/modeling_deepseek_v4.py` and
    `configuration_deepseek_v4.py`; the tensors of the published checkpoints, whose names are used
    here (`wq_a` is `q_a_proj` there).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from specroof.architecture.attention import Indexer
from specroof.architecture.base import (
    ATTENTION_REPLICATED,
    FEED_FORWARD_REPLICATED,
    FP32,
    HEADS,
    WEIGHT_FORMATS,
    Linear,
    Shard,
    WeightFormat,
)
from specroof.architecture.compressed import CompressedAttention, Compressor
from specroof.architecture.draft_heads import replicated
from specroof.architecture.model import Architecture, Block
from specroof.parsers.decoder import LayerPart, LayerWeights, ModelConfig
from specroof.parsers.families.latent import index_weights, read_indexer
from specroof.parsers.formats import ModuleNames, Quantization, Rule
from specroof.reading.json_text import MAX_LAYERS, Reader

_SLIDING: Final = "sliding_attention"
#: CSA, whose entries overlap and are picked by an indexer, and HCA, all of whose are attended.
_SPARSE: Final = "compressed_sparse_attention"
_HEAVY: Final = "heavily_compressed_attention"
#: The kind of layer that a ratio in `compress_ratios` means.
_KINDS: Final = {0: _SLIDING, 4: _SPARSE, 128: _HEAVY}


@dataclass(frozen=True, slots=True)
class _Compression:
    """How a layer compresses what is beyond its window: tokens per entry, 0 where it does not.

    `searches` where entries overlap and an indexer picks them.
    """

    ratio: int = 0
    searches: bool = False

    @property
    def overlap(self) -> int:
        """Entries that hold a token."""
        return 2 if self.searches else 1


@dataclass(frozen=True, slots=True)
class _Shape:
    """Sizes that all layers share.

    `entry_dim` is the width of a head and of the one vector that is key and value; `n_streams`
    the residual streams that each sublayer mixes into one and back (mHC).
    """

    hidden_size: int
    n_heads: int
    entry_dim: int
    rope_dim: int
    query_rank: int
    out_rank: int
    out_groups: int
    window: int
    n_streams: int
    indexer: Indexer

    @property
    def mixing_rows(self) -> int:
        """Rows of a sublayer's mixing matrix: read, write, and stream to stream."""
        return (2 + self.n_streams) * self.n_streams

    @property
    def mixing_vectors(self) -> int:
        """Elements beside that matrix: a base per row, a scale for each of the three parts."""
        return self.mixing_rows + 3

    def mixing(self, name: str, shard: Shard) -> Linear:
        """Return the matrix that looks at all streams before a sublayer."""
        return Linear(
            name, self.n_streams * self.hidden_size, self.mixing_rows, FP32, shard, "residual"
        )


def parse_deepseek_v4(config: ModelConfig) -> Architecture:
    """Return a DeepSeek-V4: every layer has experts, the first ones picked by token id."""
    return _deepseek_v4(config, expert_dtype="fp4" if config.quantization.rules else "fp8")


def _deepseek_v4(config: ModelConfig, *, expert_dtype: str) -> Architecture:
    """Return the model; experts have `expert_dtype` where no key says theirs."""
    config = replace(config, quantization=_quantization(config, expert_dtype))
    keys, n_layers = config.keys, config.n_layers
    shape = _shape(config)
    experts = config.routed_experts()
    hashed = _hashed_layers(keys, n_layers)

    def attention(compression: _Compression, weights: LayerWeights) -> Block:
        ratio, overlap, indexer = compression.ratio, compression.overlap, shape.indexer
        # What is compressed: entries, and keys of the indexer.
        widths = {"compressor": shape.entry_dim} if ratio else {}
        if compression.searches:
            widths["indexer_compressor"] = indexer.head_dim
        core = CompressedAttention(
            shape.n_heads,
            shape.entry_dim,
            shape.rope_dim,
            shape.window,
            ratio,
            indexer=indexer if compression.searches else None,
            # Keys and gates of the tokens that wait, those of the overlapping entry included.
            compressors=tuple(
                Compressor(overlap * ratio, 2 * overlap * width) for width in widths.values()
            ),
        )
        norms = shape.hidden_size + shape.query_rank + shape.entry_dim
        # Each compressor has a position bias per token of an entry, and a norm of the entry.
        compressors = sum(ratio * overlap * width + width for width in widths.values())
        # The matrices that make keys and gates of compressed entries are never quantised.
        making = [
            replicated(f"{name}_wkv_wgate", shape.hidden_size, 2 * overlap * width, weights.plain)
            for name, width in widths.items()
        ]
        linears = [
            shape.mixing("hc_attn_fn", ATTENTION_REPLICATED),
            *_projections(shape, weights),
            *(replace(linear, kind="compressor") for linear in making),
        ]
        if compression.searches:
            width, form = indexer.n_heads * indexer.head_dim, weights("attn.indexer.wq_b")
            linears.append(replicated("indexer_wq_b", shape.query_rank, width, form))
            linears.append(index_weights(shape.hidden_size, indexer, weights))
        vectors = norms + shape.n_heads + shape.mixing_vectors + compressors
        return Block("attention", tuple(linears), core, vector_params=vectors)

    def feed_forward(is_hashed: bool, weights: LayerWeights) -> Block:
        routed = replace(experts, correction_bias=not is_hashed)
        block = weights.experts(routed, config.routing.names)
        mixing = shape.mixing("hc_ffn_fn", FEED_FORWARD_REPLICATED)
        block = replace(block, linears=(mixing, *block.linears))
        return block.extended(n_params=shape.mixing_vectors)

    head_mixing = shape.n_streams * (shape.n_streams * shape.hidden_size + 1) + 1
    # `DeepseekV4Config.__post_init__`: `layer_types` go before `compress_ratios`; `compress_rates`
    # 4 and 128. The list of published files goes on with the draft layers.
    if keys.has("layer_types"):
        allowed = tuple(_KINDS.values())
        kinds: Sequence[str] = keys.texts("layer_types", allowed=allowed, at_least=n_layers)
    elif keys.has("compress_ratios"):
        ratios = keys.ints("compress_ratios", allowed=tuple(_KINDS), at_least=n_layers)
        kinds = [_KINDS[ratio] for ratio in ratios]
    else:
        keys.refuse("compress_ratios", "a list of 0, 4 and 128, one a layer")
    rates = keys.section("compress_rates") or Reader(keys.source, {})
    by_kind = {
        _SLIDING: _Compression(),
        _SPARSE: _Compression(rates.positive_int(_SPARSE, default=4), searches=True),
        _HEAVY: _Compression(rates.positive_int(_HEAVY, default=128)),
    }
    return config.decoder(
        LayerPart([by_kind[kind] for kind in kinds[:n_layers]], attention),
        LayerPart(hashed, feed_forward),
        head_name="head",
        vector_params=shape.hidden_size + head_mixing,
        # tid2eid of DeepseekV4HashRouter: the experts of each token id
        lookup_params=sum(hashed) * keys.positive_int("vocab_size") * experts.top_k,
    )


def _hashed_layers(keys: Reader, n_layers: int) -> list[bool]:
    """Return which layers pick experts by token id: those listed, or the first few."""
    if kinds := keys.listed_kinds("mlp_layer_types", ("hash_moe", "moe"), n_layers):
        return [kind == "hash_moe" for kind in kinds]
    # configuration_deepseek_v4.py: default_num_hash_layers 3
    n_hashed = keys.positive_int("num_hash_layers", minimum=0, maximum=MAX_LAYERS, default=3)
    return [index < n_hashed for index in range(n_layers)]


def parse_deepseek_v4_converted(config: ModelConfig) -> Architecture:
    """Return a DeepSeek-V4 whose experts were converted to FP8, as by sgl-project.

    Source
        The builds sgl-project/DeepSeek-V4-Flash-FP8 and -Pro-FP8, made for chips without FP4.
    """
    note = "expert_dtype is not given: fp8, as in the converted builds of this model_type"
    notes = config.notes if _dtype_place(config).has("expert_dtype") else (*config.notes, note)
    return _deepseek_v4(replace(config, notes=notes), expert_dtype="fp8")


def _shape(config: ModelConfig) -> _Shape:
    keys = config.keys
    n_heads = keys.positive_int("num_attention_heads")
    # One key-value vector for all heads is what makes this attention cheap; nothing else exists.
    keys.positive_int("num_key_value_heads", maximum=1, default=1)
    entry_dim = keys.positive_int("head_dim")
    out_groups = keys.divisor("o_groups", of=n_heads, called="num_attention_heads")
    return _Shape(
        config.hidden_size,
        n_heads,
        entry_dim,
        keys.positive_int("qk_rope_head_dim", maximum=entry_dim),
        keys.positive_int("q_lora_rank"),
        keys.positive_int("o_lora_rank"),
        out_groups,
        keys.positive_int("sliding_window"),
        keys.positive_int("hc_mult", default=4),  # configuration_deepseek_v4.py
        read_indexer(keys),
    )


def _dtype_place(config: ModelConfig) -> Reader:
    """Return where `expert_dtype` stands: DeepSeek-V4.1 has it inside quantization_config."""
    section = config.keys.section("quantization_config")
    return section if section is not None and section.has("expert_dtype") else config.keys


def _quantization(config: ModelConfig, expert_dtype: str) -> Quantization:
    """Return the formats of a V4 checkpoint; the config tells only a part of them.

    Experts are MXFP4 although `quant_method` says fp8; `expert_dtype` tells, and one published
    revision lacks even that. FP8 scales are one E8M0 byte per block. A list of modules with
    their own algorithms (`quantized_layers`, of builds by others) goes before both.
    """
    stated = config.quantization
    rules = tuple(replace(rule, form=_byte_scales(rule.form)) for rule in stated.rules)
    stated_dtype = _dtype_place(config).text(
        "expert_dtype", allowed=("fp4", "fp8"), default=expert_dtype
    )
    if stated_dtype == "fp4":
        listed = tuple(rule for rule in rules if rule.targets is not None)
        others = tuple(rule for rule in rules if rule.targets is None)
        experts = Rule(WEIGHT_FORMATS["mxfp4"], targets=ModuleNames(["ffn.experts"]))
        rules = (*listed, experts, *others)
    return replace(stated, rules=rules)


def _byte_scales(form: WeightFormat) -> WeightFormat:
    """Return FP8 blocks with one byte of scale instead of a float32's four."""
    if form.name != "fp8-block":
        return form
    return replace(form, element_bytes=1.0 + (form.element_bytes - 1.0) / 4)


def _projections(shape: _Shape, weights: LayerWeights) -> Iterator[Linear]:
    query_dim = shape.n_heads * shape.entry_dim
    out_dim = shape.out_groups * shape.out_rank
    for name, in_features, out_features, shard, groups in (
        ("wq_a", shape.hidden_size, shape.query_rank, ATTENTION_REPLICATED, 1),
        ("wq_b", shape.query_rank, query_dim, HEADS, 1),
        ("wkv", shape.hidden_size, shape.entry_dim, ATTENTION_REPLICATED, 1),
        # Each group of heads has a separate output projection.
        ("wo_a", query_dim, out_dim, HEADS, shape.out_groups),
        ("wo_b", out_dim, shape.hidden_size, HEADS, 1),
    ):
        form = weights(f"attn.{name}")
        yield Linear(name, in_features, out_features, weight=form, shard=shard, groups=groups)
