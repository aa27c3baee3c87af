"""Qwen4-Exp: Qwen3-Next's layers over several residual streams, sparse attention, n-gram tables.

Source
    transformers 5.23, `models/qwen4_exp/modeling_qwen4_exp.py` and `configuration_qwen4_exp.py`;
    SGLang 0.5.23, `models/qwen4_exp.py`, `configs/qwen4_exp.py` and `mem_cache/qsa_kv_pool.py`.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from math import isqrt
from typing import Final

from specroof.architecture import (
    ATTENTION_REPLICATED,
    FEED_FORWARD_REPLICATED,
    Architecture,
    Block,
    BlockSparseAttention,
    Indexer,
    Linear,
    Shard,
    ShortConvolution,
)
from specroof.parsers.decoder import (
    BlockBuilder,
    LayerPart,
    attention_block,
    decoder,
    experts_block,
    extended,
    listed_kinds,
    matrices,
    routed_experts,
    same_part,
)
from specroof.parsers.families.qwen3_next import (
    FULL,
    LINEAR,
    attention_shape,
    delta_net,
    delta_net_block,
    interval_kinds,
)
from specroof.parsers.formats import LayerWeights
from specroof.parsers.model_config import DTYPES, ModelConfig
from specroof.parsers.traits import GATED_EXPERTS
from specroof.reading.json_text import Reader

#: Three names of the same layers.
_KINDS: Final = (LINEAR, FULL, "indexed_attention", "qwen_sparse_attention")
#: More than any checkpoint has; a strange file must not keep the search for primes busy.
_MAX_TABLES: Final = 256
_MAX_ROWS: Final = 10**8


@dataclass(frozen=True, slots=True)
class _MixedStreams:
    """The residual streams, and the rank of what mixes them into the input of a sublayer."""

    hidden_size: int
    count: int
    rank: int

    @property
    def width(self) -> int:
        """Width of all streams."""
        return self.count * self.hidden_size

    @property
    def mixer_params(self) -> int:
        """Elements of a mixer that gives nothing back: two matrices and a norm."""
        return (2 * self.rank + 1) * self.width

    def around(self, block: Block, weights: LayerWeights, shard: Shard) -> Block:
        """Return a block whose norm is that of all streams, with the matrices that mix them."""
        rows = (
            ("input_mix_weight_down", self.width, self.rank),
            ("input_mix_weight_up", self.rank, self.width),
            ("block_inject_weight", self.width, self.count),
        )
        linears = (Linear(*row, weights.plain, shard, kind="residual") for row in rows)
        return extended(block, *linears, n_params=self.width - self.hidden_size)


@dataclass(frozen=True, slots=True)
class _Tables:
    """Embeddings of hashed n-grams, in some layers.

    `layers` count from 1; a layer has `heads` tables, of `embed_dim` all together.
    """

    layers: Sequence[int]
    heads: int
    embed_dim: int
    ngram_size: int
    base_rows: int
    divisor: int
    kernel: int

    @property
    def n_params(self) -> int:
        """Elements of all tables, and of the numbers that hash into them.

        Source
            `Qwen4ExpTextNGramEmbedding.__init__`: a different prime of rows for each table, those
            of a layer side by side and padded.
        """
        primes = _primes(self.base_rows)
        total = 0
        for _ in self.layers:
            rows = sum(islice(primes, self.heads))
            padded = self.divisor * -(-rows // self.divisor)
            total += padded * (self.embed_dim // self.heads) + self.ngram_size + 2 * self.heads
        return total


def parse_qwen4_exp(config: ModelConfig) -> Architecture:
    """Return the language model of a Qwen4-Exp.

    Ignores
        the arithmetic of mixing the streams into one behind the last layer, 4 x 320 x 8192 FLOP a
        token; its elements are counted.
    """
    keys, n_layers, hidden_size = config.keys, config.n_layers, config.hidden_size
    keys.pass_over(
        "output_gate_type full_attention_interval seed split_ngram_parts number_of_conv_states "
        "index_share_for_mtp_iteration"
    )
    # configuration_qwen4_exp.py: hc_count 4, hc_lowrank 320
    streams = _MixedStreams(
        hidden_size,
        keys.positive_int("hc_count", minimum=2, default=4),
        keys.positive_int("hc_lowrank", default=320),
    )
    kinds = _kinds(keys, n_layers)
    recurrent, full = delta_net(keys), _full_builder(keys)
    experts = routed_experts(config, GATED_EXPERTS)
    tables = _tables(keys, kinds)

    def lookup(has_table: bool, weights: LayerWeights) -> Block | None:
        return _lookup_block(tables, streams, weights) if has_table else None

    def mixer(kind: str, weights: LayerWeights) -> Block:
        linear = kind == LINEAR
        block = delta_net_block(hidden_size, recurrent, weights) if linear else full(weights)
        return streams.around(block, weights, ATTENTION_REPLICATED)

    def feed_forward(weights: LayerWeights) -> Block:
        block = experts_block(experts, weights, GATED_EXPERTS.names)
        return streams.around(block, weights, FEED_FORWARD_REPLICATED)

    return decoder(
        config,
        LayerPart([index + 1 in tables.layers for index in range(n_layers)], lookup),
        LayerPart(kinds, mixer),
        same_part(config, feed_forward),
        vector_params=streams.mixer_params,
        lookup_params=tables.n_params,
        state_dtype=DTYPES[keys.text("mamba_ssm_dtype", allowed=DTYPES, default="float32")],
    )


def _kinds(keys: Reader, n_layers: int) -> list[str]:
    if listed := listed_kinds(keys, "layer_types", _KINDS, n_layers):
        return [LINEAR if kind == LINEAR else FULL for kind in listed]
    return interval_kinds(keys, n_layers)


def _full_builder(keys: Reader) -> BlockBuilder:
    """Return what builds gated attention, to the blocks that an indexer picks where it has one.

    A query sees `indexer_budget` tokens in finished blocks, and those of the unfinished one. An
    index key is the mean of a block.
    """
    shape = attention_shape(keys)
    if not keys.has("indexer_n_heads"):
        return lambda weights: attention_block(shape, weights)
    # Qwen4ExpTextConfig.validate_architecture
    keys.positive_int("indexer_kv_heads", maximum=1)
    block_len = keys.positive_int("indexer_compress_ratio")
    budget = keys.positive_int("indexer_budget")
    if budget % block_len:
        keys.refuse("indexer_budget", f"a multiple of indexer_compress_ratio ({block_len})")
    indexer = Indexer(
        keys.positive_int("indexer_n_heads"),
        keys.positive_int("indexer_head_dim"),
        budget // block_len + 1,
    )
    heads = shape.n_heads, shape.n_kv_heads, shape.head_dim, shape.head_dim
    core = BlockSparseAttention(*heads, indexer, block_len, key_tokens=block_len)
    row = ("index_qk_proj", shape.hidden_size, (indexer.n_heads + 1) * indexer.head_dim)

    def build(weights: LayerWeights) -> Block:
        linears = matrices(weights, "self_attn.indexer.", ATTENTION_REPLICATED, row)
        block = attention_block(shape, weights)
        # norms of index queries and keys
        return replace(extended(block, *linears, n_params=2 * indexer.head_dim), core=core)

    return build


def _tables(keys: Reader, kinds: Sequence[str]) -> _Tables:
    layers = sorted(set(keys.ints("ple_layer_ids", minimum=1)))
    for number in layers:
        if number > len(kinds) or kinds[number - 1] != LINEAR:
            keys.refuse("ple_layer_ids", "numbers from 1 of layers with linear attention")
    # configuration_qwen4_exp.py: ngram_size 3, heads_per_ngram 8, ngram_vocab_size_base 20 million,
    # make_ngram_vocab_size_divisible_by 128, ple_conv_kernel_size 4
    ngram_size = keys.positive_int("ngram_size", minimum=2, maximum=_MAX_TABLES, default=3)
    heads = keys.positive_int("heads_per_ngram", maximum=_MAX_TABLES, default=8)
    heads *= ngram_size - 1
    if heads * len(layers) > _MAX_TABLES:
        keys.refuse("heads_per_ngram", f"up to {_MAX_TABLES} tables in all layers")
    embed_dim = keys.positive_int("ple_embed_dim", default=keys.positive_int("hidden_size"))
    if layers and embed_dim % heads:
        keys.refuse("ple_embed_dim", f"a multiple of the {heads} tables of a layer", embed_dim)
    return _Tables(
        layers,
        heads,
        embed_dim,
        ngram_size,
        keys.positive_int("ngram_vocab_size_base", maximum=_MAX_ROWS, default=20_000_000),
        keys.positive_int("make_ngram_vocab_size_divisible_by", default=128),
        keys.positive_int("ple_conv_kernel_size", default=4),
    )


def _lookup_block(tables: _Tables, streams: _MixedStreams, weights: LayerWeights) -> Block:
    """Return what adds n-gram features to all streams: two projections, a dilated convolution.

    Vectors: norms of its keys, queries and what is convolved, over all streams.
    """
    rows = (
        ("key_proj", tables.embed_dim, streams.width),
        ("value_proj", tables.embed_dim, streams.hidden_size),
    )
    # One tap every n tokens, so that as many columns wait.
    columns = (tables.kernel - 1) * tables.ngram_size
    return Block(
        "attention",
        matrices(weights, "ple.", ATTENTION_REPLICATED, *rows),
        ShortConvolution(streams.width, tables.kernel, conv_columns=columns),
        vector_params=3 * streams.width,
        joins_next=True,
    )


def _primes(start: int) -> Iterator[int]:
    """Yield the primes from `start` on, in order.

    Examples
    --------
    >>> list(islice(_primes(20), 3)), next(_primes(1))
    ([23, 29, 31], 2)
    """
    number = max(start, 2)
    while True:
        if all(number % divisor for divisor in range(2, isqrt(number) + 1)):
            yield number
        number += 1
