"""Zamba: Mamba in every layer, before which some layers run one of a few shared transformer blocks.

A shared block takes the hidden state beside the embedding. Its weights are stored once and read in
each of its layers; Zamba 2 gives each of these layers adapters of its own.

Source
    Glorioso et al. 2024, arXiv:2405.16712 and arXiv:2411.15242; transformers 5.24, `models/zamba/`
    and `models/zamba2/` (`modeling_*.py`, `configuration_*.py`).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from specroof.architecture.attention import GroupedQueryAttention
from specroof.architecture.base import ATTENTION_REPLICATED, HEADS, TENSOR, by_kv_heads
from specroof.architecture.model import Architecture, Block
from specroof.parsers.decoder import (
    BlockBuilder,
    LayerPart,
    decoder,
    extended,
    feed_forward_block,
    head_counts,
    matrices,
)
from specroof.parsers.families.mamba import mamba2_builder, read_mamba2, scan_builder
from specroof.parsers.formats import LayerWeights
from specroof.parsers.model_config import ModelConfig
from specroof.reading.json_text import Reader

_MIXERS: Final = ("hybrid", "linear_attention", "mamba")
_MODULE: Final = "shared_transformer"
#: What Zamba 2 calls keys of other families.
_SPELLED: Final = {"mamba_n_heads": "n_mamba_heads", "mamba_n_groups": "mamba_ngroups"}


@dataclass(frozen=True, slots=True)
class _Shared:
    """Sizes of shared blocks: of attention over twice the hidden size, and of feed-forwards.

    Each layer has adapters of some `rank` (0: none), for `adapted` projections of attention, too.
    """

    hidden_size: int
    core: GroupedQueryAttention
    attention_size: int
    width: int
    bias: bool = False
    n_blocks: int = 1
    rank: int = 0
    adapted: tuple[str, ...] = ()

    def attention(self, stored: bool, weights: LayerWeights) -> Block:
        """Return attention over the hidden state and the embedding beside it."""
        core, size = self.core, self.attention_size
        queries, pairs = core.n_heads * core.head_dim, core.n_kv_heads * core.head_dim
        prefix = f"{_MODULE}.self_attn."
        linears = (
            *matrices(weights, prefix, HEADS, ("q_proj", size, queries)),
            *matrices(
                weights,
                prefix,
                by_kv_heads(core.n_kv_heads),
                *((name, size, pairs) for name in ("k_proj", "v_proj")),
            ),
            *matrices(weights, prefix, HEADS, ("o_proj", queries, self.hidden_size)),
        )
        return Block("attention", linears, core, vector_params=size, stored=stored)

    def feed_forward(self, stored: bool, weights: LayerWeights) -> Block:
        """Return the feed-forward behind it."""
        module = f"{_MODULE}.feed_forward"
        block = feed_forward_block(
            self.hidden_size, self.width, weights, bias=self.bias, module=module
        )
        return replace(block, stored=stored)


def parse_zamba(config: ModelConfig) -> Architecture:
    """Return a Zamba, which has one shared block."""
    keys, hidden_size, n_layers = config.keys, config.hidden_size, config.n_layers
    keys.pass_over("hidden_mamba_act use_mamba_kernels use_associative_scan")
    kinds = keys.texts("layers_block_type", allowed=_MIXERS)
    if not kinds:
        period = keys.positive_int("attn_layer_period", default=6)
        offset = keys.positive_int("attn_layer_offset", minimum=0, default=4)
        listed = ["mamba", "mamba", "hybrid"]
        listed += ["hybrid" if n % period == offset else "mamba" for n in range(n_layers - 3)]
        kinds = tuple(listed[:n_layers])
    keys.pass_over("attn_layer_period attn_layer_offset")
    size = keys.positive_int("attention_hidden_size", default=2 * hidden_size)
    dim = keys.positive_int("attention_head_dim", default=_head_dim(keys, hidden_size))
    core = GroupedQueryAttention(*head_counts(keys), dim, dim)
    shared = _Shared(hidden_size, core, size, keys.positive_int("intermediate_size"))
    channels = keys.positive_int("mamba_expand", default=2) * hidden_size
    heads = keys.divisor("n_mamba_heads", of=channels, called="the Mamba channels", default=2)
    return _model(config, kinds, shared, scan_builder(keys, hidden_size, channels, heads=heads))


def parse_zamba2(config: ModelConfig) -> Architecture:
    """Return a Zamba 2, whose shared blocks take turns."""
    keys, hidden_size = config.keys, config.hidden_size
    keys.pass_over(
        "chunk_size use_mamba_kernels use_mem_eff_path use_mem_rope use_long_context "
        "attention_hidden_size attention_head_dim mamba_headdim kv_channels num_query_groups "
        "hybrid_layer_ids mamba_expand use_conv_bias"
    )
    kinds = keys.texts("layers_block_type", allowed=_MIXERS)
    dim, n_heads = _head_dim(keys, hidden_size), keys.positive_int("num_attention_heads")
    core = GroupedQueryAttention(*head_counts(keys, kv_default=n_heads), dim, dim)
    width = keys.positive_int("intermediate_size", default=4 * hidden_size)
    bias = keys.flag("add_bias_linear", default=False)
    in_attention = keys.flag("use_shared_attention_adapter", default=False)
    shared = _Shared(
        hidden_size,
        core,
        2 * hidden_size,
        width,
        bias,
        n_blocks=keys.positive_int("num_mem_blocks", default=1),
        rank=keys.positive_int("adapter_rank", default=128),
        adapted=("q", "k", "v") if in_attention else (),
    )
    channels = keys.positive_int("mamba_expand", default=2) * hidden_size
    mamba_heads = keys.divisor("n_mamba_heads", of=channels, called="the Mamba channels")
    mixer = read_mamba2(replace(keys, spelled=_SPELLED), channels // mamba_heads)
    mamba = mamba2_builder(hidden_size, replace(mixer, conv_bias=True), in_bias=bias, out_bias=bias)
    return _model(config, kinds, shared, mamba)


def _head_dim(keys: Reader, hidden_size: int) -> int:
    size = 2 * hidden_size
    return size // keys.divisor("num_attention_heads", of=size, called="twice the hidden_size")


def _model(
    config: ModelConfig, kinds: Sequence[str], shared: _Shared, mamba: BlockBuilder
) -> Architecture:
    if len(kinds) != config.n_layers:
        config.keys.refuse("layers_block_type", f"one for each of the {config.n_layers} layers")
    if not config.keys.flag("tie_word_embeddings", default=True):
        config.keys.refuse("tie_word_embeddings", "true: with false, transformers shares no block")
    hidden_size, size, rank = shared.hidden_size, shared.attention_size, shared.rank
    hybrid = [index for index, kind in enumerate(kinds) if kind == "hybrid"]
    # the first layer of each shared block holds it
    holders = frozenset(hybrid[: shared.n_blocks])
    places = [(index in holders) if kind == "hybrid" else None for index, kind in enumerate(kinds)]

    def attention_adapters(_: bool, weights: LayerWeights) -> Block | None:
        rows = [
            row
            for name in shared.adapted
            for row in ((f"{name}_adapter_in", size, rank), (f"{name}_adapter_out", rank, size))
        ]
        linears = matrices(weights, f"{_MODULE}.self_attn.", HEADS, *rows)
        return Block("attention", linears, joins_next=True) if rows else None

    def adapters(_: bool, weights: LayerWeights) -> Block | None:
        rows = ("adapter_in", hidden_size, rank), ("adapter_out", rank, 2 * shared.width)
        linears = matrices(weights, f"{_MODULE}.feed_forward.", TENSOR, *rows)
        return Block("feed_forward", linears, joins_next=True) if rank else None

    def mixer(stored: bool | None, weights: LayerWeights) -> Block:
        if stored is None:
            return mamba(weights)
        rows = ("linear", hidden_size, hidden_size)
        return extended(mamba(weights), *matrices(weights, "", ATTENTION_REPLICATED, rows))

    def in_hybrid(
        build: Callable[[bool, LayerWeights], Block | None],
    ) -> LayerPart[bool | None]:
        return LayerPart(
            places, lambda stored, weights: None if stored is None else build(stored, weights)
        )

    shared_parts = (attention_adapters, shared.attention, adapters, shared.feed_forward)
    return decoder(
        config,
        *(in_hybrid(build) for build in shared_parts),
        LayerPart(places, mixer),
        tied_default=True,
    )
