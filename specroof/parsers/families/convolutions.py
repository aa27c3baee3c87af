"""Short convolutions: between attention layers, beside every sublayer, or of queries and keys.

LFM2 and LFM3, Inkling and ZAYA1.

Source
    LFM2 and LFM3: transformers 5.23, `models/lfm2/`, `models/lfm2_moe/` and `models/lfm3/`
    (`modeling_*.py`, `configuration_*.py`); vLLM 0.33.0, `layers/mamba/short_conv.py`.
    Of the other families: see each.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from specroof.architecture.base import HEADS, Linear
from specroof.architecture.model import Architecture, AttentionShape, Block
from specroof.architecture.recurrent import ShortConvolution
from specroof.parsers.decoder import BlockBuilder, LayerPart, LayerWeights, ModelConfig
from specroof.reading.json_text import Reader

_CONV: Final = "conv"
_FULL: Final = "full_attention"
_SLIDING: Final = "sliding_attention"
#: What LFM2 calls a matrix that other families call so.
_STORED: Final = {"o_proj": "out_proj"}


def parse_lfm2(config: ModelConfig) -> Architecture:
    """Return an LFM2; `full_attn_idxs` names the layers with attention where no list does."""
    keys, n_layers = config.keys, config.n_layers
    kinds = keys.listed_kinds("layer_types", (_CONV, _FULL), n_layers)
    if kinds is None:
        # configuration_lfm2.py: without either, all layers attend.
        full = set(keys.ints("full_attn_idxs") if keys.has("full_attn_idxs") else range(n_layers))
        kinds = tuple(_FULL if index in full else _CONV for index in range(n_layers))
    size, width = config.hidden_size, _adjusted_width(keys)

    def feed_forward(weights: LayerWeights) -> Block:
        names = config.traits.mlp_names
        return weights.feed_forward(size, width, module=config.traits.mlp, names=names)

    return _lfm2(config, kinds, config.same_part(feed_forward))


def parse_lfm2_moe(config: ModelConfig) -> Architecture:
    """Return an LFM2 with experts in all layers but the first few."""
    keys, n_layers = config.keys, config.n_layers
    kinds = keys.texts("layer_types", allowed=(_CONV, _FULL), at_least=n_layers)[:n_layers]
    if not kinds:
        keys.refuse("layer_types", f"a list of {_CONV} and {_FULL}, one a layer")
    return _lfm2(config, kinds, config.feed_forwards())


def parse_lfm3(config: ModelConfig) -> Architecture:
    """Return an LFM3: attention in windows and without, gated by head, and two norms a sublayer."""
    keys, hidden_size = config.keys, config.hidden_size
    usual = (_SLIDING, _CONV, _FULL, _CONV)  # Lfm3Config.__post_init__
    kinds = keys.listed_kinds("layer_types", (_CONV, _FULL, _SLIDING), config.n_layers) or tuple(
        usual[index % 4] if index else _CONV for index in range(config.n_layers)
    )
    # configuration_lfm3.py: head_dim 128, sliding_window 256, conv_L_cache 7; both flags True
    shape = config.read_attention(keys.positive_int("head_dim", default=128), biased=True)
    window = keys.optional_int("sliding_window", missing=256)
    gated = keys.flag("use_attention_gate", default=True)
    gates = (("g_proj", hidden_size, shape.n_heads),) if gated else ()
    second_norm = hidden_size if keys.flag("use_sandwich_norm", default=True) else 0
    convolution = _convolution_builder(config, default_kernel=7)

    def mixer(kind: str, weights: LayerWeights) -> Block:
        if kind == _CONV:
            return convolution(weights).extended(n_params=second_norm)
        seen = window if kind == _SLIDING else None
        block = weights.attention(replace(shape, qk_norm=True, window=seen))
        gating = weights.matrices("self_attn.", HEADS, *gates)
        return block.extended(*gating, n_params=second_norm)

    norms = hidden_size + second_norm
    return config.decoder(LayerPart(kinds, mixer), config.feed_forwards(norms))


def _lfm2(config: ModelConfig, kinds: Sequence[str], feed_forward: LayerPart[Any]) -> Architecture:
    keys = config.keys
    shape = replace(config.read_attention(), qk_norm=True)
    convolution = _convolution_builder(config, default_kernel=3)

    def mixer(kind: str, weights: LayerWeights) -> Block:
        if kind == _CONV:
            return convolution(weights)
        return shape.block(lambda name: weights(f"self_attn.{_STORED.get(name, name)}"))

    model = config.decoder(LayerPart(kinds, mixer), feed_forward)
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
        linears = weights.matrices("conv.", HEADS, *rows, bias=bias)
        return Block("attention", linears, core, vector_params=size)

    return build


# --- Inkling 1 and 2: sliding and full attention with relative positions, experts -----------------
#
# Source
#     transformers 5.24, `models/inkling/` and `models/inkling2/` (`modeling_*.py`,
#     `configuration_*.py`); SGLang 0.5.23, `configs/inkling.py`, for the keys of the published
#     file.

_HYBRID: Final = "hybrid"
_HYBRID_SLIDING: Final = "hybrid_sliding"


@dataclass(frozen=True, slots=True)
class _InklingMixer:
    """Attention, the width of a head's relative state, how many distances it tells apart.

    `kernel` is the length of convolutions.
    """

    shape: AttentionShape
    relative_dim: int
    extent: int
    kernel: int


def parse_inkling(config: ModelConfig) -> Architecture:
    """Return the language model of an Inkling.

    Ignores
        the matmul of relative states with one profile a distance, 2 x 64 x 16 x 1024 FLOP a token
        and layer, 1 % of the projections beside it; and that a server keeps the columns of the two
        convolutions on the residual stream on every device.
    """
    keys, n_layers, hidden_size = config.keys, config.n_layers, config.hidden_size
    # configuration_inkling.py: sliding_window_size 512
    mixers = _inkling_mixers(keys, n_layers, window=512)
    model = config.decoder(
        LayerPart(mixers, lambda mixer, _: _inkling_convolutions(mixer)),
        LayerPart(mixers, _inkling_attention),
        _inkling_feed_forward(config),
        vector_params=2 * hidden_size,  # behind the embedding and behind the last layer
    )
    return _with_head(model, keys.optional_int("unpadded_vocab_size"))


def parse_inkling2(config: ModelConfig) -> Architecture:
    """Return the language model of an Inkling 2: gated, and without shared experts.

    Ignores
        beside what `parse_inkling` leaves out, that each sublayer takes a weighted sum of up to
        nine residual streams: 2 x 2 x 9 x 4608 FLOP a token, 0.1 % of its matrices.
    """
    keys, n_layers, hidden_size = config.keys, config.n_layers, config.hidden_size
    # configuration_inkling2.py: sliding_window_size 1024, unpadded_vocab_size 200058
    mixers = _inkling_mixers(keys, n_layers, window=1024, qk_norm=False)

    def attention(kind: tuple[_InklingMixer, bool], weights: LayerWeights) -> Block:
        mixer, is_first = kind
        shape, n_heads = mixer.shape, mixer.shape.n_heads
        rows = [
            ("gate_proj", hidden_size, n_heads * shape.head_dim),
            ("sink_proj", hidden_size, n_heads),
        ]
        # Queries, keys and values share a sum of streams where a window slides; elsewhere each has
        # its own, with a norm, and the taps of their convolutions depend on the token.
        sums = 1
        if shape.window is None:
            sums = 3
            taps = shape.n_kv_heads * mixer.kernel
            rows += [("k_sconv_proj", hidden_size, taps), ("v_sconv_proj", hidden_size, taps)]
        scales = n_heads * (shape.head_dim + mixer.relative_dim)
        weighing = 0 if is_first else sums * hidden_size
        return _inkling_attention(mixer, weights).extended(
            *weights.matrices("self_attn.", HEADS, *rows),
            n_params=scales + (sums - 1) * hidden_size + weighing,
        )

    model = config.decoder(
        LayerPart(mixers, lambda mixer, _: _inkling_convolutions(mixer)),
        LayerPart([(mixer, index == 0) for index, mixer in enumerate(mixers)], attention),
        config.feed_forwards(2 * hidden_size),
        # behind the embedding and the last layer, and a weighted sum before the head
        vector_params=3 * hidden_size,
    )
    return _with_head(model, keys.positive_int("unpadded_vocab_size", default=200_058))


def _with_head(model: Architecture, rows: int | None) -> Architecture:
    """Return a model whose head has fewer rows than its embedding, as published ones have."""
    n_rows = rows or model.vocab_size
    return replace(model, head=replace(model.head, out_features=n_rows), tied_embeddings=False)


def _inkling_convolutions(mixer: _InklingMixer) -> Block:
    """Return those of keys, values, and what attention and feed-forward give to the stream."""
    shape = mixer.shape
    channels = 2 * shape.n_kv_heads * shape.head_dim + 2 * shape.hidden_size
    core = ShortConvolution(channels, mixer.kernel, conv_columns=mixer.kernel - 1)
    return Block("attention", (), core, joins_next=True)


def _inkling_attention(mixer: _InklingMixer, weights: LayerWeights) -> Block:
    shape = mixer.shape
    relative = ("r_proj", shape.hidden_size, shape.n_heads * mixer.relative_dim)
    return weights.attention(shape).extended(
        *weights.matrices("self_attn.", HEADS, relative),
        n_params=mixer.relative_dim * mixer.extent,
    )


def _inkling_mixers(
    keys: Reader, n_layers: int, *, window: int, qk_norm: bool = True
) -> list[_InklingMixer]:
    """Return the mixer of each layer: by a list of kinds, of layers that slide, or five of six."""
    if keys.has("local_layer_ids") and not keys.has("layer_types"):
        local = set(keys.ints("local_layer_ids"))
        slides = [index in local for index in range(n_layers)]
    else:
        # InklingTextConfig.__post_init__
        kinds = keys.layer_kinds(n_layers, (*[_HYBRID_SLIDING] * 5, _HYBRID))
        slides = [kind == _HYBRID_SLIDING for kind in kinds]
    mixers = {
        is_sliding: _inkling_mixer(keys, window if is_sliding else None, qk_norm=qk_norm)
        for is_sliding in dict.fromkeys(slides)
    }
    return [mixers[is_sliding] for is_sliding in slides]


def _inkling_mixer(keys: Reader, window: int | None, *, qk_norm: bool) -> _InklingMixer:
    """Return the sizes of a kind of layer; `window` is that of a config which says none."""
    prefix = "swa_" if window else ""
    n_heads = keys.positive_int(f"{prefix}num_attention_heads")
    seen = keys.positive_int("sliding_window_size", default=window) if window else None
    shape = AttentionShape(
        keys.positive_int("hidden_size"),
        n_heads,
        keys.divisor(f"{prefix}num_key_value_heads", of=n_heads, called="its query heads"),
        keys.positive_int(f"{prefix}head_dim"),
        qk_norm=qk_norm,
        window=seen,
    )
    # Both configuration classes: d_rel 16, rel_extent 1024, conv_kernel_size 4
    return _InklingMixer(
        shape,
        keys.positive_int("d_rel", default=16),
        seen or keys.positive_int("rel_extent", default=1024),
        keys.positive_int("sconv_kernel_size", "conv_kernel_size", default=4),
    )


def _inkling_feed_forward(config: ModelConfig) -> LayerPart[bool]:
    """Return experts, whose router weighs the shared ones too, or a dense feed-forward.

    Source
        `InklingTextConfig.__post_init__`: where ``dense_intermediate_size`` is given, the other
        width is that of an expert.
    """
    widths = ("moe_intermediate_size", "intermediate_size")
    if config.keys.has("dense_intermediate_size"):
        widths = ("intermediate_size", "dense_intermediate_size")
    routing = replace(config.routing, width=widths[:1], dense_width=widths[1:])
    config = config.of_row(replace(config.traits, routing=routing))
    n_shared = config.keys.positive_int("n_shared_experts", minimum=0, default=2)

    def changed(_: bool, block: Block, weights: LayerWeights) -> Block:
        block = block.extended(n_params=1)  # a scale of its output
        if block.experts is None:
            return block
        rows = block.experts.n_experts + n_shared
        gate = weights.router("router", config.hidden_size, rows)
        return replace(block, linears=(gate, *block.linears[1:]))

    return config.feed_forwards().changed(changed)


# --- ZAYA1: attention behind convolutions of queries and keys, one expert a token -----------------
#
# Source
#     Compressed convolutional attention, arXiv:2510.04476; transformers 5.24,
#     `models/zaya/modeling_zaya.py` and `configuration_zaya.py`.


def parse_zaya(config: ModelConfig) -> Architecture:
    """Return a ZAYA1.

    Ignores
        that half of the last token's values are kept, 128 elements a layer beside the 2 x 1280 of
        the convolutions; SGLang 0.5.23 keeps all 2048 of that token.
    """
    keys, hidden_size, n_layers = config.keys, config.hidden_size, config.n_layers
    usual, plain = config.attention()
    channels = (usual.n_heads + usual.n_kv_heads) * usual.head_dim
    # configuration_zaya.py: cca_time0 2, cca_time1 2, router_hidden_size 256
    kernel, second = (
        keys.positive_int(key, maximum=2**10, default=2) for key in ("cca_time0", "cca_time1")
    )
    convolution = ShortConvolution(channels, kernel, kernel + second - 2, conv_bias=True)
    kinds = keys.layer_kinds(n_layers, (_HYBRID,), _HYBRID_SLIDING)
    window = keys.positive_int("sliding_window") if _HYBRID_SLIDING in kinds else None
    # ZayaResidualScaling: two scales and two biases behind each sublayer
    scaling = 4 * hidden_size

    def attention(shape: AttentionShape, weights: LayerWeights) -> Block:
        # Each head is convolved with a matrix of its own, over the last few tokens.
        grouped = Linear(
            "conv_qk_grouped", second * shape.head_dim, channels, weights.plain, HEADS, bias=True
        )
        return plain(shape, weights).extended(grouped, n_params=scaling + shape.n_kv_heads)

    keys.positive_int("num_experts_per_tok", maximum=1)
    experts = config.routed_experts()
    width = keys.positive_int("router_hidden_size", default=256)
    rows = experts.n_experts + 1  # the last one stands for no expert

    def feed_forward(is_first: bool, weights: LayerWeights) -> Block:
        routers = (
            weights.router("router_down_proj", hidden_size, width, bias=True),
            weights.router("router_fc1", width, width, bias=True),
            weights.router("router_fc2", width, width, bias=True),
            weights.router("router", width, rows),
        )
        # a norm, biases of the selection, and a scale of what the router of the layer before made
        vectors = scaling + width + rows + (0 if is_first else width)
        block = weights.experts(experts)
        return replace(block, linears=routers).extended(n_params=vectors)

    model = config.decoder(
        config.same_part(lambda _: Block("attention", (), convolution, joins_next=True)),
        LayerPart(
            [replace(usual, window=window if kind == _HYBRID_SLIDING else None) for kind in kinds],
            attention,
        ),
        LayerPart([index == 0 for index in range(n_layers)], feed_forward),
        vector_params=3 * hidden_size,  # and scales and biases of the embedding
    )
    head_bias = keys.flag("lm_head_bias", default=False)
    return replace(model, head=replace(model.head, bias=head_bias))
