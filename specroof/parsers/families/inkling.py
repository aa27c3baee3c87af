"""Inkling: sliding and full attention with relative positions, short convolutions, experts.

Source
    transformers 5.23, `models/inkling/modeling_inkling.py` and `configuration_inkling.py`; SGLang
    0.5.23, `configs/inkling.py`, for the keys of the published file.
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
    listed_kinds,
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
    """Attention, the width of a head's relative state, and how many distances it tells apart."""

    shape: AttentionShape
    relative_dim: int
    extent: int


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
    for key in ("use_sconv", "use_embed_norm", "shared_expert_sink"):
        if not keys.flag(key, default=True):
            keys.refuse(key, "true")
    kinds = _kinds(keys, n_layers)
    mixers = {kind: _mixer(keys, slides=kind == _SLIDING) for kind in dict.fromkeys(kinds)}
    # configuration_inkling.py: conv_kernel_size 4
    kernel = keys.positive_int("sconv_kernel_size", "conv_kernel_size", default=4)

    def convolutions(kind: str, _: LayerWeights) -> Block:
        # Of keys, values, and what attention and feed-forward give back to the stream.
        shape = mixers[kind].shape
        channels = 2 * shape.n_kv_heads * shape.head_dim + 2 * hidden_size
        core = ShortConvolution(channels, kernel, conv_columns=kernel - 1)
        return Block("attention", (), core, joins_next=True)

    def attention(kind: str, weights: LayerWeights) -> Block:
        mixer = mixers[kind]
        relative = ("r_proj", hidden_size, mixer.shape.n_heads * mixer.relative_dim)
        return extended(
            attention_block(mixer.shape, weights),
            *matrices(weights, "self_attn.", HEADS, relative),
            n_params=mixer.relative_dim * mixer.extent,
        )

    feed_forward = _feed_forward(config)
    model = decoder(
        config,
        LayerPart(kinds, convolutions),
        LayerPart(kinds, attention),
        feed_forward,
        vector_params=2 * hidden_size,  # behind the embedding and behind the last layer
    )
    # The head of the published checkpoint has fewer rows than the embedding.
    n_rows = keys.optional_int("unpadded_vocab_size") or model.vocab_size
    return replace(model, head=replace(model.head, out_features=n_rows), tied_embeddings=False)


def _kinds(keys: Reader, n_layers: int) -> Sequence[str]:
    """Return each layer's kind: by a list of kinds, of layers that slide, or five of six."""
    if listed := listed_kinds(keys, "layer_types", (_FULL, _SLIDING), n_layers):
        return listed
    # InklingTextConfig.__post_init__
    local = {index for index in range(n_layers) if (index + 1) % 6}
    if keys.has("local_layer_ids"):
        local = set(keys.ints("local_layer_ids"))
    return [_SLIDING if index in local else _FULL for index in range(n_layers)]


def _mixer(keys: Reader, *, slides: bool) -> _Mixer:
    # configuration_inkling.py: d_rel 16, rel_extent 1024, sliding_window_size 512
    prefix = "swa_" if slides else ""
    n_heads = keys.positive_int(f"{prefix}num_attention_heads")
    window = keys.positive_int("sliding_window_size", default=512) if slides else None
    shape = AttentionShape(
        keys.positive_int("hidden_size"),
        n_heads,
        keys.divisor(f"{prefix}num_key_value_heads", of=n_heads, called="its query heads"),
        keys.positive_int(f"{prefix}head_dim"),
        qk_norm=True,
        window=window,
    )
    extent = window or keys.positive_int("rel_extent", default=1024)
    return _Mixer(shape, keys.positive_int("d_rel", default=16), extent)


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
    sparse, plain = feed_forward_of(config, Traits(routing=routing))
    n_shared = config.keys.positive_int("n_shared_experts", minimum=0, default=2)

    def build(is_sparse: bool, weights: LayerWeights) -> Block:
        block = extended(plain(is_sparse, weights), n_params=1)  # a scale of its output
        if block.experts is None:
            return block
        rows = block.experts.n_experts + n_shared
        gate = router("router", config.hidden_size, rows, weights)
        return replace(block, linears=(gate, *block.linears[1:]))

    return LayerPart(sparse, build)
