"""LFM2 and LFM3: gated short convolutions, attention every few layers, dense or with experts.

Source
    transformers 5.23, `models/lfm2/`, `models/lfm2_moe/` and `models/lfm3/` (`modeling_*.py`,
    `configuration_*.py`); vLLM 0.33.0, `layers/mamba/short_conv.py`.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from specroof.architecture.base import HEADS
from specroof.architecture.model import Architecture, Block, gated_pair, grouped_query_block
from specroof.architecture.recurrent import ShortConvolution
from specroof.parsers.decoder import (
    BlockBuilder,
    LayerPart,
    attention_block,
    decoder,
    expert_layers,
    experts_block,
    extended,
    listed_kinds,
    matrices,
    read_attention,
    routed_experts,
    same_part,
)
from specroof.parsers.formats import LayerWeights
from specroof.parsers.model_config import ModelConfig
from specroof.parsers.traits import ExpertNames, ExpertTraits
from specroof.reading.json_text import Reader

_CONV: Final = "conv"
_FULL: Final = "full_attention"
_SLIDING: Final = "sliding_attention"
#: What LFM2 calls a matrix that other families call so.
_STORED: Final = {"o_proj": "out_proj"}
#: configuration_lfm2_moe.py: num_dense_layers 2, use_expert_bias True
_ROUTING: Final = ExpertTraits(
    "num_experts",
    correction_bias=("use_expert_bias", True),
    listed=False,
    dense=("num_dense_layers", 2),
    names=ExpertNames(routed="feed_forward.experts.0.w1"),
)


def parse_lfm2(config: ModelConfig) -> Architecture:
    """Return an LFM2; `full_attn_idxs` names the layers with attention where no list does."""
    keys, n_layers = config.keys, config.n_layers
    keys.pass_over("full_attn_idxs block_dim block_mlp_init_scale block_norm_eps conv_dim")
    kinds = listed_kinds(keys, "layer_types", (_CONV, _FULL), n_layers)
    if kinds is None:
        # configuration_lfm2.py: without either, all layers attend.
        full = set(keys.ints("full_attn_idxs") if keys.has("full_attn_idxs") else range(n_layers))
        kinds = tuple(_FULL if index in full else _CONV for index in range(n_layers))
    return _lfm2(config, kinds, same_part(config, _dense_builder(config, _adjusted_width(keys))))


def parse_lfm2_moe(config: ModelConfig) -> Architecture:
    """Return an LFM2 with experts in all layers but the first few."""
    keys, n_layers = config.keys, config.n_layers
    kinds = keys.texts("layer_types", allowed=(_CONV, _FULL), at_least=n_layers)[:n_layers]
    if not kinds:
        keys.refuse("layer_types", f"a list of {_CONV} and {_FULL}, one a layer")
    experts = routed_experts(config, _ROUTING)
    dense = _dense_builder(config, keys.positive_int("intermediate_size"))

    def feed_forward(is_sparse: bool, weights: LayerWeights) -> Block:
        return experts_block(experts, weights, _ROUTING.names) if is_sparse else dense(weights)

    return _lfm2(config, kinds, LayerPart(expert_layers(config, _ROUTING), feed_forward))


def parse_lfm3(config: ModelConfig) -> Architecture:
    """Return an LFM3: attention in windows and without, gated by head, and two norms a sublayer."""
    keys, hidden_size = config.keys, config.hidden_size
    usual = (_SLIDING, _CONV, _FULL, _CONV)  # Lfm3Config.__post_init__
    kinds = listed_kinds(keys, "layer_types", (_CONV, _FULL, _SLIDING), config.n_layers) or tuple(
        usual[index % 4] if index else _CONV for index in range(config.n_layers)
    )
    # configuration_lfm3.py: head_dim 128, sliding_window 256, conv_L_cache 7; both flags True
    shape = read_attention(keys, keys.positive_int("head_dim", default=128), biased=True)
    window = keys.optional_int("sliding_window", missing=256)
    gated = keys.flag("use_attention_gate", default=True)
    gates = (("g_proj", hidden_size, shape.n_heads),) if gated else ()
    second_norm = hidden_size if keys.flag("use_sandwich_norm", default=True) else 0
    convolution = _convolution_builder(config, default_kernel=7)
    dense = _dense_builder(config, keys.positive_int("intermediate_size"))

    def mixer(kind: str, weights: LayerWeights) -> Block:
        if kind == _CONV:
            return extended(convolution(weights), n_params=second_norm)
        seen = window if kind == _SLIDING else None
        block = attention_block(replace(shape, qk_norm=True, window=seen), weights)
        gating = matrices(weights, "self_attn.", HEADS, *gates)
        return extended(block, *gating, n_params=second_norm)

    def feed_forward(weights: LayerWeights) -> Block:
        return extended(dense(weights), n_params=second_norm)

    # configuration_lfm3.py: tie_word_embeddings True
    return decoder(
        config, LayerPart(kinds, mixer), same_part(config, feed_forward), tied_default=True
    )


def _lfm2(config: ModelConfig, kinds: Sequence[str], feed_forward: LayerPart[Any]) -> Architecture:
    keys = config.keys
    shape = replace(read_attention(keys), qk_norm=True)
    convolution = _convolution_builder(config, default_kernel=3)

    def mixer(kind: str, weights: LayerWeights) -> Block:
        if kind == _CONV:
            return convolution(weights)
        return grouped_query_block(
            shape, lambda name: weights(f"self_attn.{_STORED.get(name, name)}")
        )

    model = decoder(config, LayerPart(kinds, mixer), feed_forward, tied_default=True)
    # The published name of the key, which the configuration classes prefer.
    return replace(model, tied_embeddings=keys.flag("tie_embedding", default=model.tied_embeddings))


def _adjusted_width(keys: Reader) -> int:
    """Return the inner width of a feed-forward: as stated, or two thirds of it, rounded up.

    Source
        `Lfm2MLP.__init__`; `Lfm2Config.__post_init__`, where ``block_ff_dim`` goes first.
    """
    width = keys.positive_int("block_ff_dim", "intermediate_size")
    if not keys.flag("block_auto_adjust_ff_dim", default=True):
        return width
    width = 2 * width // 3
    if keys.values.get("block_ffn_dim_multiplier", 1.0) is None:
        return width
    # configuration_lfm2.py: block_ffn_dim_multiplier 1.0, block_multiple_of 256
    if keys.has("block_ffn_dim_multiplier"):
        factor = keys.positive_number("block_ffn_dim_multiplier", maximum=1e3)
        width = int(factor * width)
    multiple = keys.positive_int("block_multiple_of", default=256)
    return multiple * -(-width // multiple)


def _convolution_builder(config: ModelConfig, *, default_kernel: int) -> BlockBuilder:
    """Return what builds a short convolution between its two projections."""
    keys, size = config.keys, config.hidden_size
    kernel = keys.positive_int("conv_L_cache", default=default_kernel)
    bias = keys.flag("conv_bias", default=False)
    core = ShortConvolution(size, kernel, conv_columns=kernel - 1, conv_bias=bias)
    rows = (("in_proj", size, 3 * size), ("out_proj", size, size))

    def build(weights: LayerWeights) -> Block:
        linears = matrices(weights, "conv.", HEADS, *rows, bias=bias)
        return Block("attention", linears, core, vector_params=size)

    return build


def _dense_builder(config: ModelConfig, width: int) -> BlockBuilder:
    size = config.hidden_size

    def build(weights: LayerWeights) -> Block:
        pair = gated_pair(size, width, weights("feed_forward.w1"), weights("feed_forward.w2"))
        return Block("feed_forward", pair, vector_params=size)

    return build
