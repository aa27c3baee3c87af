"""Nemotron-H and Nemotron 3: layers of one block each, Mamba2, attention, feed-forward or experts.

Source
    transformers 5, `models/nemotron_h/modeling_nemotron_h.py` and `configuration_nemotron_h.py`;
    the same family in mlx-lm; the module names of the published quantisation lists.
"""

from collections.abc import Callable
from typing import Final, TypeAlias

from specroof.architecture import (
    FEED_FORWARD_REPLICATED,
    TENSOR,
    Architecture,
    Block,
    Experts,
    Linear,
    Mamba2,
)
from specroof.parsers.blocks import AttentionShape, attention_block, head_counts, top_k_experts
from specroof.parsers.formats.quantization import LayerWeights
from specroof.parsers.mamba2 import MambaShape, group_count, mamba_block
from specroof.parsers.model_config import DTYPES, Decoder, ModelConfig, build_layers
from specroof.reading.json_object import MAX_LAYERS, Reader

__all__ = ["parse_nemotron_h"]

_BlockBuilder: TypeAlias = Callable[[LayerWeights], Block]

#: Kinds of layers by every spelling: characters of `hybrid_override_pattern`, and entries of
#: `layers_block_type` before and after transformers 5.13 renamed them.
_KINDS: Final = {
    **dict.fromkeys(("M", "mamba", "linear_attention"), "mamba"),
    **dict.fromkeys(("*", "attention", "full_attention"), "attention"),
    **dict.fromkeys(("-", "mlp"), "mlp"),
    **dict.fromkeys(("E", "moe"), "moe"),
}
_CHARACTERS: Final = tuple(spelling for spelling in _KINDS if len(spelling) == 1)
_TYPES: Final = tuple(spelling for spelling in _KINDS if len(spelling) > 1)


def parse_nemotron_h(config: ModelConfig) -> Architecture:
    """Return a Nemotron-H: a norm and one mixer a layer, nothing gated."""
    keys = config.keys
    kinds = _layer_kinds(keys)
    builders = {kind: _BUILDERS[kind](config) for kind in dict.fromkeys(kinds)}

    def layer(kind: str, weights: LayerWeights) -> tuple[Block, ...]:
        return (builders[kind](weights),)

    # configuration_nemotron_h.py: mamba_ssm_cache_dtype float32
    state = keys.text("mamba_ssm_cache_dtype", allowed=DTYPES, default="float32")
    decoder = Decoder(build_layers(config, kinds, layer), state_dtype=DTYPES[state])
    return decoder.architecture(config)


def _layer_kinds(keys: Reader) -> tuple[str, ...]:
    """Return what each layer is, from the list or else from the pattern, as transformers does.

    `num_hidden_layers` may be missing. Where it contradicts the list, engines disagree on which
    of the two counts.
    """
    key = next((key for key in ("layers_block_type", "layer_types") if keys.has(key)), None)
    if key is None:
        key = "hybrid_override_pattern"
        spelled = tuple(keys.text(key))
        if not all(character in _CHARACTERS for character in spelled):
            keys.refuse(key, f"the characters {' '.join(_CHARACTERS)}, one a layer")
    else:
        spelled = keys.texts(key, allowed=_TYPES)
    n_layers = len(spelled)
    if not 1 <= n_layers <= MAX_LAYERS:
        keys.refuse(key, f"1 to {MAX_LAYERS} layers")
    if keys.positive_int("num_hidden_layers", default=n_layers) != n_layers:
        keys.refuse("num_hidden_layers", f"the {n_layers} layers of {key}")
    return tuple(_KINDS[spelling] for spelling in spelled)


def _mamba_builder(config: ModelConfig) -> _BlockBuilder:
    keys = config.keys
    n_heads = keys.positive_int("mamba_num_heads")
    # configuration_nemotron_h.py: conv_kernel 4, use_conv_bias True, use_bias False
    conv_kernel = keys.positive_int("conv_kernel", "mamba_d_conv", default=4)
    bias = keys.flag("use_bias", default=False)
    core = Mamba2(
        n_heads,
        keys.positive_int("mamba_head_dim"),
        keys.positive_int("ssm_state_size"),
        group_count(keys, "n_groups", n_heads),
        conv_kernel,
        conv_columns=conv_kernel - 1,
        conv_bias=keys.flag("use_conv_bias", default=True),
    )
    shape = MambaShape(config.hidden_size, core, in_bias=bias, out_bias=bias, module="mixer")
    return lambda weights: mamba_block(shape, weights)


def _attention_builder(config: ModelConfig) -> _BlockBuilder:
    keys = config.keys
    # configuration_nemotron_h.py: attention_bias False, head_dim 128; the first models call it
    # attention_head_dim.
    bias = keys.flag("attention_bias", default=False)
    shape = AttentionShape(
        config.hidden_size,
        *head_counts(keys),
        keys.positive_int("head_dim", "attention_head_dim", default=128),
        qkv_bias=bias,
        out_bias=bias,
        module="mixer",
    )
    return lambda weights: attention_block(shape, None, weights)


def _mlp_builder(config: ModelConfig) -> _BlockBuilder:
    hidden_size, bias = config.hidden_size, _mlp_bias(config.keys)
    width = config.keys.positive_int("intermediate_size")
    return lambda weights: Block(
        "feed_forward",
        _plain_mlp("", "mixer", (hidden_size, width), weights, bias=bias),
        vector_params=hidden_size,
    )


def _experts_builder(config: ModelConfig) -> _BlockBuilder:
    """Return the builder of expert layers; experts may work on a latent of the hidden state."""
    keys, hidden_size = config.keys, config.hidden_size
    latent = keys.optional_int("moe_latent_size")
    n_experts, top_k = top_k_experts(keys, "n_routed_experts", "num_experts_per_tok")
    width = keys.positive_int("moe_intermediate_size")
    # configuration_nemotron_h.py: n_shared_experts 1, as in every published config.
    n_shared = keys.positive_int("n_shared_experts", minimum=0, maximum=1, default=1)
    shared_width = keys.positive_int("moe_shared_expert_intermediate_size") if n_shared else 0
    bias = _mlp_bias(keys)

    def build(weights: LayerWeights) -> Block:
        matrices = [_router(hidden_size, n_experts, weights)]
        if shared_width:
            sizes = hidden_size, shared_width
            matrices += _plain_mlp("shared_", "mixer.shared_experts", sizes, weights, bias=bias)
        if latent:
            matrices += _latent_projections(hidden_size, latent, weights, bias=bias)
        experts = Experts(
            n_experts,
            top_k,
            latent or hidden_size,
            width,
            weight=weights("mixer.experts.0.up_proj"),
            n_matrices=2,
        )
        # The norm, and e_score_correction_bias.
        return Block("feed_forward", tuple(matrices), experts, hidden_size + n_experts)

    return build


def _mlp_bias(keys: Reader) -> bool:
    return keys.flag("mlp_bias", default=False)  # configuration_nemotron_h.py


def _router(hidden_size: int, n_experts: int, weights: LayerWeights) -> Linear:
    return Linear(
        "router",
        hidden_size,
        n_experts,
        weight=weights.plain,
        shard=FEED_FORWARD_REPLICATED,
        kind="router",
    )


def _plain_mlp(
    prefix: str, module: str, sizes: tuple[int, int], weights: LayerWeights, *, bias: bool
) -> tuple[Linear, ...]:
    """Return the two matrices of a feed-forward without a gate (squared ReLU)."""
    hidden_size, width = sizes
    return tuple(
        Linear(
            f"{prefix}{name}",
            in_features,
            out_features,
            weight=weights(f"{module}.{name}"),
            shard=TENSOR,
            bias=bias,
        )
        for name, in_features, out_features in (
            ("up_proj", hidden_size, width),
            ("down_proj", width, hidden_size),
        )
    )


def _latent_projections(
    hidden_size: int, latent: int, weights: LayerWeights, *, bias: bool
) -> tuple[Linear, ...]:
    """Return the matrices to the experts' latent and back, which every device runs in full."""
    return tuple(
        Linear(
            name,
            in_features,
            out_features,
            weight=weights(f"mixer.{name}"),
            shard=FEED_FORWARD_REPLICATED,
            bias=bias,
        )
        for name, in_features, out_features in (
            ("fc1_latent_proj", hidden_size, latent),
            ("fc2_latent_proj", latent, hidden_size),
        )
    )


_BUILDERS: Final[dict[str, Callable[[ModelConfig], _BlockBuilder]]] = {
    "mamba": _mamba_builder,
    "attention": _attention_builder,
    "mlp": _mlp_builder,
    "moe": _experts_builder,
}
