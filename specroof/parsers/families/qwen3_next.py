"""Gated DeltaNet, attention every few layers: Qwen3-Next, 3.5, 3.6, Qwen4-Exp; OLMo Hybrid, Lara.

Source
    transformers 5, `models/qwen3_next/`, `models/qwen3_5/` and `models/qwen3_5_moe/`
    (`modeling_*.py`, `configuration_*.py`); transformers 5.24, `models/olmo_hybrid/` and
    `models/lara_mini/`; vLLM `models/qwen3_next.py` and `qwen3_5.py`; the tensors of the published
    checkpoints.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from math import isqrt
from typing import Final

from specroof.architecture.attention import Indexer
from specroof.architecture.base import (
    ATTENTION_REPLICATED,
    FEED_FORWARD_REPLICATED,
    HEADS,
    Linear,
    Shard,
)
from specroof.architecture.block_sparse import BlockSparseAttention
from specroof.architecture.model import Architecture, Block
from specroof.architecture.recurrent import GatedDeltaNet, ShortConvolution
from specroof.parsers.decoder import BlockBuilder, LayerPart, LayerWeights, ModelConfig
from specroof.parsers.model_config import DTYPES
from specroof.reading.json_text import MAX_LAYERS, Reader

LINEAR: Final = "linear_attention"
FULL: Final = "full_attention"
SLIDING: Final = "sliding_attention"


#: What checkpoints call two fused matrices, Qwen3.5's being of parts that engines fuse.
_QKVZ: Final = ("linear_attn.in_proj_qkv", "linear_attn.in_proj_qkvz")
_BA: Final = ("linear_attn.in_proj_b", "linear_attn.in_proj_ba")


def parse_qwen3_5(config: ModelConfig) -> Architecture:
    """Return a Qwen3-Next, or a Qwen3.5 or 3.6, dense or with experts."""
    return _hybrid(config, _by_interval(config.keys))


def parse_olmo_hybrid(config: ModelConfig) -> Architecture:
    """Return an OLMo Hybrid: queries and keys pass norms of all heads, nothing is gated."""
    return _hybrid(config, (LINEAR, LINEAR, LINEAR, FULL))


def parse_lara_mini(config: ModelConfig) -> Architecture:
    """Return a Lara 4 Mini: windows, too, and a shared expert without a gate."""
    return _hybrid(config, (LINEAR, SLIDING, LINEAR, FULL, SLIDING))


def _hybrid(config: ModelConfig, usual: Sequence[str]) -> Architecture:
    """Return a model of layers of the kinds that a list says, or of the `usual`, repeated."""
    keys = config.keys
    shape, attention = config.attention()
    recurrent = delta_net(keys)
    kinds = keys.layer_kinds(config.n_layers, usual, FULL, LINEAR)
    window = keys.positive_int("sliding_window") if SLIDING in kinds else None

    def mixer(kind: str, weights: LayerWeights) -> Block:
        if kind == LINEAR:
            return delta_net_block(config.hidden_size, recurrent, weights)
        return attention(replace(shape, window=window if kind == SLIDING else None), weights)

    return config.decoder(
        LayerPart(kinds, mixer),
        config.feed_forwards(),
        state_dtype=_state_dtype(keys),
    )


def _state_dtype(keys: Reader) -> str | None:
    """Return the format of the state; Qwen3-Next has no such key, and leaves it to the server."""
    if not keys.has("mamba_ssm_dtype"):
        return None
    return DTYPES[keys.text("mamba_ssm_dtype", allowed=DTYPES)]


def _by_interval(keys: Reader) -> tuple[str, ...]:
    """Return the kinds that repeat where the number of layers to one that attends fully says so."""
    # configuration_qwen3_next.py, Qwen4ExpTextConfig.__post_init__: full_attention_interval 4
    interval = keys.positive_int("full_attention_interval", default=4, maximum=MAX_LAYERS)
    return (*[LINEAR] * (interval - 1), FULL)


def delta_net(keys: Reader) -> GatedDeltaNet:
    """Return the sizes of Gated DeltaNet."""
    n_key_heads = keys.positive_int("linear_num_key_heads")
    n_value_heads = keys.positive_int("linear_num_value_heads")
    if n_value_heads % n_key_heads:
        allowed = f"a multiple of linear_num_key_heads ({n_key_heads})"
        keys.refuse("linear_num_value_heads", allowed)
    conv_kernel = keys.positive_int("linear_conv_kernel_dim")
    return GatedDeltaNet(
        n_key_heads,
        n_value_heads,
        keys.positive_int("linear_key_head_dim"),
        keys.positive_int("linear_value_head_dim"),
        conv_kernel,
        conv_columns=conv_kernel - 1,
    )


def delta_net_block(hidden_size: int, core: GatedDeltaNet, weights: LayerWeights) -> Block:
    """Return a Gated DeltaNet with its projections, fused as engines multiply them.

    Vectors: the norm before it, A_log and dt_bias per value head, the gated norm of one head.
    """
    n_heads = core.n_value_heads
    value_dim = n_heads * core.value_dim
    # z gates the output, b and a make the write strength and decay of each value head.
    qkvz_dim = core.sizes.convolved + value_dim
    linears = (
        Linear("in_proj_qkvz", hidden_size, qkvz_dim, weights(*_QKVZ), HEADS),
        Linear("in_proj_ba", hidden_size, 2 * n_heads, weights(*_BA), HEADS),
        *weights.matrices("linear_attn.", HEADS, ("out_proj", value_dim, hidden_size)),
    )
    vectors = hidden_size + 2 * n_heads + core.value_dim
    return Block("attention", linears, core, vector_params=vectors)


# --- Qwen4-Exp ------------------------------------------------------------------------------------
# Qwen3-Next's layers over several residual streams, sparse attention, n-gram tables.
#
# Source
#     transformers 5.23, `models/qwen4_exp/modeling_qwen4_exp.py` and `configuration_qwen4_exp.py`;
#     SGLang 0.5.23, `models/qwen4_exp.py`, `configs/qwen4_exp.py` and `mem_cache/qsa_kv_pool.py`.


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

    def around(self, block: Block, weights: LayerWeights, shard: Shard) -> Block:
        """Return a block whose norm is that of all streams, with the matrices that mix them."""
        rows = (
            ("input_mix_weight_down", self.width, self.rank),
            ("input_mix_weight_up", self.rank, self.width),
            ("block_inject_weight", self.width, self.count),
        )
        linears = (Linear(*row, weights.plain, shard, kind="mixing") for row in rows)
        return block.extended(*linears, n_params=self.width - self.hidden_size)


def parse_qwen4_exp(config: ModelConfig) -> Architecture:
    """Return the language model of a Qwen4-Exp.

    Ignores
        the arithmetic of mixing the streams into one behind the last layer, 4 x 320 x 8192 FLOP a
        token; its elements are counted.
    """
    keys, n_layers, hidden_size = config.keys, config.n_layers, config.hidden_size
    # configuration_qwen4_exp.py: hc_count 4, hc_lowrank 320
    streams = _MixedStreams(
        hidden_size,
        keys.positive_int("hc_count", minimum=2, default=4),
        keys.positive_int("hc_lowrank", default=320),
    )
    listed = keys.listed_kinds("layer_types", _KINDS, n_layers)
    kinds = [LINEAR if kind == LINEAR else FULL for kind in listed or ()]
    kinds = kinds or [*keys.layer_kinds(n_layers, _by_interval(keys))]
    recurrent, full = delta_net(keys), _full_builder(config)
    experts = config.routed_experts()
    lookups, table_params = _lookups(keys, kinds, streams)

    def mixer(kind: str, weights: LayerWeights) -> Block:
        linear = kind == LINEAR
        block = delta_net_block(hidden_size, recurrent, weights) if linear else full(weights)
        return streams.around(block, weights, ATTENTION_REPLICATED)

    def feed_forward(weights: LayerWeights) -> Block:
        block = weights.experts(experts, config.routing.names)
        return streams.around(block, weights, FEED_FORWARD_REPLICATED)

    return config.decoder(
        lookups,
        LayerPart(kinds, mixer),
        config.same_part(feed_forward),
        # A mixer that gives nothing back: two matrices and a norm.
        vector_params=(2 * streams.rank + 1) * streams.width,
        lookup_params=table_params,
        state_dtype=_state_dtype(keys),
    )


def _full_builder(config: ModelConfig) -> BlockBuilder:
    """Return what builds gated attention, to the blocks that an indexer picks where it has one.

    A query sees `indexer_budget` tokens in finished blocks, and those of the unfinished one. An
    index key is the mean of a block.
    """
    keys = config.keys
    shape, attention = config.attention()
    if not keys.has("indexer_n_heads"):
        return lambda weights: attention(shape, weights)
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
        key_tokens=block_len,
    )
    heads = shape.n_heads, shape.n_kv_heads, shape.head_dim, shape.head_dim
    core = BlockSparseAttention(*heads, indexer, block_len)
    row = ("index_qk_proj", shape.hidden_size, (indexer.n_heads + 1) * indexer.head_dim)

    def build(weights: LayerWeights) -> Block:
        linears = weights.matrices("self_attn.indexer.", ATTENTION_REPLICATED, row)
        block = attention(shape, weights)
        # norms of index queries and keys
        return replace(block.extended(*linears, n_params=2 * indexer.head_dim), core=core)

    return build


def _lookups(
    keys: Reader, kinds: Sequence[str], streams: _MixedStreams
) -> tuple[LayerPart[bool], int]:
    """Return what adds features of hashed n-grams to all streams, and the elements of its tables.

    Vectors: norms of its keys, queries and what is convolved, over all streams.

    Source
        `Qwen4ExpTextNGramEmbedding.__init__`: a different prime of rows for each table, those of a
        layer side by side and padded; and the numbers that hash into them.
    """
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
    base_rows = keys.positive_int("ngram_vocab_size_base", maximum=_MAX_ROWS, default=20_000_000)
    divisor = keys.positive_int("make_ngram_vocab_size_divisible_by", default=128)
    kernel = keys.positive_int("ple_conv_kernel_size", default=4)
    primes = _primes(base_rows)
    n_params = 0
    for _ in layers:
        rows = divisor * -(-sum(islice(primes, heads)) // divisor)
        n_params += rows * (embed_dim // heads) + ngram_size + 2 * heads
    projections = (
        ("key_proj", embed_dim, streams.width),
        ("value_proj", embed_dim, streams.hidden_size),
    )
    # One tap every n tokens, so that as many columns wait.
    core = ShortConvolution(streams.width, kernel, conv_columns=(kernel - 1) * ngram_size)

    def lookup(has_table: bool, weights: LayerWeights) -> Block | None:
        if not has_table:
            return None
        linears = weights.matrices("ple.", ATTENTION_REPLICATED, *projections)
        vectors = 3 * streams.width
        return Block("attention", linears, core, vector_params=vectors, joins_next=True)

    return LayerPart([index + 1 in layers for index in range(len(kinds))], lookup), n_params


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
