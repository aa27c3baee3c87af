"""Inkling 1 and 2: sliding and full attention with relative positions, short convolutions, experts.

Source
    transformers 5.24, `models/inkling/` and `models/inkling2/` (`modeling_*.py`,
    `configuration_*.py`); SGLang 0.5.23, `configs/inkling.py`, for the keys of the published file.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from specroof.architecture.base import HEADS
from specroof.architecture.model import Architecture, AttentionShape, Block
from specroof.architecture.recurrent import ShortConvolution
from specroof.parsers.decoder import (
    LayerPart,
    attention_block,
    decoder,
    extended,
    feed_forward_of,
    layer_kinds,
    matrices,
    router,
)
from specroof.parsers.formats import LayerWeights
from specroof.parsers.model_config import ModelConfig
from specroof.parsers.traits import ExpertTraits, Traits
from specroof.reading.json_text import Reader

_FULL: Final = "hybrid"
_SLIDING: Final = "hybrid_sliding"


@dataclass(frozen=True, slots=True)
class _Mixer:
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
    keys.pass_over(
        "route_scale log_scaling_n_floor log_scaling_alpha logits_mup_width_multiplier "
        "rms_norm_eps_moe_gate norm_after_topk gate_activation use_gate_bias use_global_scale "
        "inference_moe_w13_interleaved enable_lm_head_output_fp32 shared_experts_size "
        "chain_hidden_post_norm padded_vocab_size number_of_conv_states dense_mlp_idx "
        "local_layer_ids dense_intermediate_size intermediate_size"
    )
    keys.expect_flags("use_sconv use_embed_norm shared_expert_sink", value=True)
    kinds = _kinds(keys, n_layers)
    # configuration_inkling.py: sliding_window_size 512
    mixers = {kind: _mixer(keys, kind, window=512) for kind in dict.fromkeys(kinds)}

    def attention(kind: str, weights: LayerWeights) -> Block:
        return _attention(mixers[kind], weights)

    model = decoder(
        config,
        LayerPart(kinds, lambda kind, _: _convolutions(mixers[kind])),
        LayerPart(kinds, attention),
        _feed_forward(config),
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
    keys.pass_over(
        "route_scale log_scaling_n_floor log_scaling_alpha qk_l2_clip_threshold rel_l2_clip_threshold "
        "n_layers_per_attn_res_block mlp_gate_softcap mlp_up_softcap number_of_conv_states"
    )
    kinds = _kinds(keys, n_layers)
    # configuration_inkling2.py: sliding_window_size 1024, unpadded_vocab_size 200058
    mixers = {kind: _mixer(keys, kind, window=1024, qk_norm=False) for kind in dict.fromkeys(kinds)}

    def attention(kind: tuple[str, bool], weights: LayerWeights) -> Block:
        name, is_first = kind
        mixer = mixers[name]
        shape, n_heads = mixer.shape, mixer.shape.n_heads
        rows = [
            ("gate_proj", hidden_size, n_heads * shape.head_dim),
            ("sink_proj", hidden_size, n_heads),
        ]
        # Queries, keys and values share a sum of streams where a window slides; elsewhere each has
        # its own, with a norm, and the taps of their convolutions depend on the token.
        sums = 1
        if name == _FULL:
            sums = 3
            taps = shape.n_kv_heads * mixer.kernel
            rows += [("k_sconv_proj", hidden_size, taps), ("v_sconv_proj", hidden_size, taps)]
        scales = n_heads * (shape.head_dim + mixer.relative_dim)
        weighing = 0 if is_first else sums * hidden_size
        return extended(
            _attention(mixer, weights),
            *matrices(weights, "self_attn.", HEADS, *rows),
            n_params=scales + (sums - 1) * hidden_size + weighing,
        )

    routing = ExpertTraits("n_routed_experts", correction_bias=True, listed=False)
    model = decoder(
        config,
        LayerPart(kinds, lambda kind, _: _convolutions(mixers[kind])),
        LayerPart([(kind, index == 0) for index, kind in enumerate(kinds)], attention),
        feed_forward_of(config, Traits(routing=routing), 2 * hidden_size),
        # behind the embedding and the last layer, and a weighted sum before the head
        vector_params=3 * hidden_size,
    )
    return _with_head(model, keys.positive_int("unpadded_vocab_size", default=200_058))


def _with_head(model: Architecture, rows: int | None) -> Architecture:
    """Return a model whose head has fewer rows than its embedding, as published ones have."""
    n_rows = rows or model.vocab_size
    return replace(model, head=replace(model.head, out_features=n_rows), tied_embeddings=False)


def _convolutions(mixer: _Mixer) -> Block:
    """Return those of keys, values, and what attention and feed-forward give to the stream."""
    shape = mixer.shape
    channels = 2 * shape.n_kv_heads * shape.head_dim + 2 * shape.hidden_size
    core = ShortConvolution(channels, mixer.kernel, conv_columns=mixer.kernel - 1)
    return Block("attention", (), core, joins_next=True)


def _attention(mixer: _Mixer, weights: LayerWeights) -> Block:
    shape = mixer.shape
    relative = ("r_proj", shape.hidden_size, shape.n_heads * mixer.relative_dim)
    return extended(
        attention_block(shape, weights),
        *matrices(weights, "self_attn.", HEADS, relative),
        n_params=mixer.relative_dim * mixer.extent,
    )


def _kinds(keys: Reader, n_layers: int) -> Sequence[str]:
    """Return each layer's kind: by a list of kinds, of layers that slide, or five of six."""
    if keys.has("local_layer_ids") and not keys.has("layer_types"):
        local = set(keys.ints("local_layer_ids"))
        return [_SLIDING if index in local else _FULL for index in range(n_layers)]
    # InklingTextConfig.__post_init__
    return layer_kinds(keys, n_layers, (*[_SLIDING] * 5, _FULL))


def _mixer(keys: Reader, kind: str, *, window: int, qk_norm: bool = True) -> _Mixer:
    """Return the sizes of a kind of layer; `window` is that of a config which says none."""
    slides = kind == _SLIDING
    prefix = "swa_" if slides else ""
    n_heads = keys.positive_int(f"{prefix}num_attention_heads")
    seen = keys.positive_int("sliding_window_size", default=window) if slides else None
    shape = AttentionShape(
        keys.positive_int("hidden_size"),
        n_heads,
        keys.divisor(f"{prefix}num_key_value_heads", of=n_heads, called="its query heads"),
        keys.positive_int(f"{prefix}head_dim"),
        qk_norm=qk_norm,
        window=seen,
    )
    # Both configuration classes: d_rel 16, rel_extent 1024, conv_kernel_size 4
    return _Mixer(
        shape,
        keys.positive_int("d_rel", default=16),
        seen or keys.positive_int("rel_extent", default=1024),
        keys.positive_int("sconv_kernel_size", "conv_kernel_size", default=4),
    )


def _feed_forward(config: ModelConfig) -> LayerPart[bool]:
    """Return experts, whose router weighs the shared ones too, or a dense feed-forward.

    Source
        `InklingTextConfig.__post_init__`: where ``dense_intermediate_size`` is given, the other
        width is that of an expert.
    """
    published = config.keys.has("dense_intermediate_size")
    routing = ExpertTraits(
        "n_routed_experts",
        width=("intermediate_size" if published else "moe_intermediate_size",),
        shared=("n_shared_experts", 2),  # configuration_inkling.py
        correction_bias=True,
        dense=("dense_mlp_idx", 0),
        dense_width=("dense_intermediate_size" if published else "intermediate_size",),
    )
    n_shared = config.keys.positive_int("n_shared_experts", minimum=0, default=2)

    def changed(_: bool, block: Block, weights: LayerWeights) -> Block:
        block = extended(block, n_params=1)  # a scale of its output
        if block.experts is None:
            return block
        rows = block.experts.n_experts + n_shared
        gate = router("router", config.hidden_size, rows, weights)
        return replace(block, linears=(gate, *block.linears[1:]))

    return feed_forward_of(config, Traits(routing=routing)).changed(changed)
