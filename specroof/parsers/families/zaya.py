"""ZAYA1: attention behind convolutions of queries and keys, one expert a token, a router of layers.

Source
    Compressed convolutional attention, arXiv:2510.04476; transformers 5.24,
    `models/zaya/modeling_zaya.py` and `configuration_zaya.py`.
"""

from dataclasses import replace
from typing import Final

from specroof.architecture.base import HEADS, Linear
from specroof.architecture.model import Architecture, AttentionShape, Block
from specroof.architecture.recurrent import ShortConvolution
from specroof.parsers.decoder import (
    LayerPart,
    attention_of,
    decoder,
    experts_block,
    extended,
    layer_kinds,
    routed_experts,
    router,
    same_part,
)
from specroof.parsers.formats import LayerWeights
from specroof.parsers.model_config import ModelConfig
from specroof.parsers.traits import ExpertTraits, Traits

_FULL: Final = "hybrid"
_SLIDING: Final = "hybrid_sliding"
_BIAS: Final = ("attention_bias", False)
# configuration_zaya.py: head_dim 128
_TRAITS: Final = Traits(head_dim=128, kv_heads=None, qkv_bias=_BIAS, out_bias=_BIAS)
_ROUTING: Final = ExpertTraits("num_experts", listed=False)
_NOTE: Final = "a token that its router sends to no expert is counted as one that visits an expert"


def parse_zaya(config: ModelConfig) -> Architecture:
    """Return a ZAYA1.

    Ignores
        that half of the last token's values are kept, 128 elements a layer beside the 2 x 1280 of
        the convolutions; SGLang 0.5.23 keeps all 2048 of that token.
    """
    keys, hidden_size, n_layers = config.keys, config.hidden_size, config.n_layers
    keys.pass_over("sliding_window")
    usual, plain = attention_of(config, _TRAITS)
    channels = (usual.n_heads + usual.n_kv_heads) * usual.head_dim
    # configuration_zaya.py: cca_time0 2, cca_time1 2, router_hidden_size 256
    kernel, second = (
        keys.positive_int(key, maximum=2**10, default=2) for key in ("cca_time0", "cca_time1")
    )
    convolution = ShortConvolution(channels, kernel, kernel + second - 2, conv_bias=True)
    kinds = layer_kinds(keys, n_layers, (_FULL,), _SLIDING)
    window = keys.positive_int("sliding_window") if _SLIDING in kinds else None
    # ZayaResidualScaling: two scales and two biases behind each sublayer
    scaling = 4 * hidden_size

    def attention(shape: AttentionShape, weights: LayerWeights) -> Block:
        # Each head is convolved with a matrix of its own, over the last few tokens.
        grouped = Linear(
            "conv_qk_grouped", second * shape.head_dim, channels, weights.plain, HEADS, bias=True
        )
        return extended(plain(shape, weights), grouped, n_params=scaling + shape.n_kv_heads)

    keys.positive_int("num_experts_per_tok", maximum=1)
    experts = routed_experts(config, _ROUTING)
    width = keys.positive_int("router_hidden_size", default=256)
    rows = experts.n_experts + 1  # the last one stands for no expert

    def feed_forward(is_first: bool, weights: LayerWeights) -> Block:
        routers = (
            router("router_down_proj", hidden_size, width, weights, bias=True),
            router("router_fc1", width, width, weights, bias=True),
            router("router_fc2", width, width, weights, bias=True),
            router("router", width, rows, weights),
        )
        # a norm, biases of the selection, and a scale of what the router of the layer before made
        vectors = scaling + width + rows + (0 if is_first else width)
        block = experts_block(experts, weights)
        return extended(replace(block, linears=routers), n_params=vectors)

    model = decoder(
        config,
        same_part(config, lambda _: Block("attention", (), convolution, joins_next=True)),
        LayerPart(
            [replace(usual, window=window if kind == _SLIDING else None) for kind in kinds],
            attention,
        ),
        LayerPart([index == 0 for index in range(n_layers)], feed_forward),
        tied_default=True,
        vector_params=3 * hidden_size,  # and scales and biases of the embedding
        notes=(_NOTE,),
    )
    head_bias = keys.flag("lm_head_bias", default=False)
    return replace(model, head=replace(model.head, bias=head_bias))
