"""Nemotron-H and Nemotron 3: layers of one block each, Mamba2, attention, feed-forward or experts.

Source
    transformers 5, `models/nemotron_h/modeling_nemotron_h.py` and `configuration_nemotron_h.py`;
    the same family in mlx-lm; the module names of the published quantisation lists.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from specroof.architecture.base import FEED_FORWARD_REPLICATED, TENSOR
from specroof.architecture.experts import Experts
from specroof.architecture.model import Architecture, Block
from specroof.parsers.decoder import (
    BlockBuilder,
    attention_block,
    decoder,
    kinds_part,
    matrices,
    read_attention,
    routed_experts,
    router,
)
from specroof.parsers.formats import LayerWeights
from specroof.parsers.mamba import MambaKeys, MambaShape, mamba_block, read_mamba_core
from specroof.parsers.model_config import DTYPES, ModelConfig
from specroof.parsers.traits import ExpertTraits
from specroof.reading.json_text import MAX_LAYERS, Reader

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
#: configuration_nemotron_h.py: conv_kernel 4, use_conv_bias True
_MAMBA_KEYS: Final = MambaKeys(
    heads="mamba_num_heads",
    state="ssm_state_size",
    groups="n_groups",
    kernel=("conv_kernel", "mamba_d_conv"),
    conv_bias="use_conv_bias",
)


def parse_nemotron_h(config: ModelConfig) -> Architecture:
    """Return a Nemotron-H: a norm and one mixer a layer, nothing gated."""
    keys = config.keys
    keys.pass_over(
        "attention_head_dim chunk_size expand intermediate_size moe_intermediate_size "
        "moe_shared_expert_intermediate_size moe_shared_expert_overlap n_routed_experts "
        "n_shared_experts num_experts_per_tok rescale_prenorm_residual use_mamba_kernels"
    )
    kinds = _layer_kinds(keys)
    # configuration_nemotron_h.py: mamba_ssm_cache_dtype float32
    state = keys.text("mamba_ssm_cache_dtype", allowed=DTYPES, default="float32")
    return decoder(
        config,
        kinds_part(config, kinds, _BUILDERS),
        state_dtype=DTYPES[state],
    )


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


def _mamba_builder(config: ModelConfig) -> BlockBuilder:
    keys = config.keys
    core = read_mamba_core(keys, _MAMBA_KEYS, keys.positive_int("mamba_head_dim"))
    # configuration_nemotron_h.py: use_bias False
    bias = keys.flag("use_bias", default=False)
    shape = MambaShape(config.hidden_size, core, in_bias=bias, out_bias=bias, module="mixer")
    return lambda weights: mamba_block(shape, weights)


def _attention_builder(config: ModelConfig) -> BlockBuilder:
    keys = config.keys
    # configuration_nemotron_h.py: attention_bias False, head_dim 128; the first models call it
    # attention_head_dim.
    head_dim = keys.positive_int("head_dim", "attention_head_dim", default=128)
    shape = read_attention(keys, head_dim, biased=True)
    return lambda weights: attention_block(shape, weights, module="mixer")


def _mlp_builder(config: ModelConfig) -> BlockBuilder:
    hidden_size, bias = config.hidden_size, _mlp_bias(config.keys)
    width = config.keys.positive_int("intermediate_size")
    rows = _plain_mlp(hidden_size, width)
    return lambda weights: Block(
        "feed_forward",
        matrices(weights, "mixer.", TENSOR, *rows, bias=bias),
        vector_params=hidden_size,
    )


def _experts_builder(config: ModelConfig) -> BlockBuilder:
    """Return the builder of expert layers; experts may work on a latent of the hidden state."""
    keys, hidden_size = config.keys, config.hidden_size
    latent = keys.optional_int("moe_latent_size")
    shape = routed_experts(config, ExpertTraits("n_routed_experts"))
    # configuration_nemotron_h.py: n_shared_experts 1, as in every published config.
    n_shared = keys.positive_int("n_shared_experts", minimum=0, maximum=1, default=1)
    shared_width = keys.positive_int("moe_shared_expert_intermediate_size") if n_shared else 0
    bias = _mlp_bias(keys)

    def build(weights: LayerWeights) -> Block:
        linears = [router("router", hidden_size, shape.n_experts, weights)]
        if shared_width:
            rows = _plain_mlp(hidden_size, shared_width)
            shared = matrices(weights, "mixer.shared_experts.", TENSOR, *rows, bias=bias)
            linears += (replace(linear, name=f"shared_{linear.name}") for linear in shared)
        if latent:
            # Every device runs the matrices to the experts' latent and back in full.
            down = ("fc1_latent_proj", hidden_size, latent)
            up = ("fc2_latent_proj", latent, hidden_size)
            shard = FEED_FORWARD_REPLICATED
            linears += matrices(weights, "mixer.", shard, down, up, bias=bias)
        experts = Experts(
            shape.n_experts,
            shape.top_k,
            latent or hidden_size,
            shape.width,
            weight=weights("mixer.experts.0.up_proj"),
            n_matrices=2,
        )
        # The norm, and e_score_correction_bias.
        return Block("feed_forward", tuple(linears), experts, hidden_size + shape.n_experts)

    return build


def _mlp_bias(keys: Reader) -> bool:
    return keys.flag("mlp_bias", default=False)  # configuration_nemotron_h.py


def _plain_mlp(hidden_size: int, width: int) -> tuple[tuple[str, int, int], ...]:
    """Return the two matrices of a feed-forward without a gate (squared ReLU)."""
    return ("up_proj", hidden_size, width), ("down_proj", width, hidden_size)


_BUILDERS: Final[dict[str, Callable[[ModelConfig], BlockBuilder]]] = {
    "mamba": _mamba_builder,
    "attention": _attention_builder,
    "mlp": _mlp_builder,
    "moe": _experts_builder,
}
