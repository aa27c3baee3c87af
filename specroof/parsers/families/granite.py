"""Bamba and Granite 4: Mamba2 and attention; of Granite, experts with a shared one.

Source
    transformers 5.24, `models/bamba/` and `models/granitemoehybrid/` (`modeling_*.py`,
    `configuration_*.py`); Granite 4 in mlx-lm.
"""

from collections.abc import Callable
from typing import Final

from specroof.architecture.model import Architecture, Block, gated_pair
from specroof.parsers.decoder import (
    BlockBuilder,
    attention_block,
    decoder,
    experts_block,
    feed_forward_block,
    kinds_part,
    read_attention,
    routed_experts,
    same_part,
)
from specroof.parsers.formats import LayerWeights
from specroof.parsers.mamba import MambaShape, mamba_block, read_mamba
from specroof.parsers.model_config import ModelConfig
from specroof.parsers.traits import GRANITE_NAMES, ExpertTraits
from specroof.reading.json_text import Reader

#: Mixers by the spellings of `layer_types`, before and after transformers 5.13 renamed them.
_MIXERS: Final = {
    "mamba": "mamba",
    "linear_attention": "mamba",
    "attention": "attention",
    "full_attention": "attention",
}


def parse_granitemoehybrid(config: ModelConfig) -> Architecture:
    """Return a Granite 4; `intermediate_size` is the width of an expert."""
    config.keys.pass_over(
        "attention_multiplier residual_multiplier mamba_chunk_size intermediate_size"
    )
    mixers = _mixers(config.keys, config.n_layers)
    return decoder(
        config,
        kinds_part(config, mixers, _BUILDERS),
        same_part(config, _feed_forward(config)),
    )


def parse_bamba(config: ModelConfig) -> Architecture:
    """Return a Bamba; without a list of layers with attention, all are Mamba."""
    keys, hidden_size = config.keys, config.hidden_size
    keys.pass_over("mamba_chunk_size z_loss_coefficient attn_rotary_emb layer_types")
    attends = frozenset(keys.ints("attn_layer_indices"))
    mixers = ["attention" if n in attends else "mamba" for n in range(config.n_layers)]
    width, bias = keys.positive_int("intermediate_size"), keys.flag("mlp_bias", default=False)

    def feed_forward(weights: LayerWeights) -> Block:
        module = "feed_forward"
        return feed_forward_block(hidden_size, width, weights, bias=bias, module=module)

    return decoder(config, kinds_part(config, mixers, _BUILDERS), same_part(config, feed_forward))


def _mixers(keys: Reader, n_layers: int) -> tuple[str, ...]:
    key = next((key for key in ("layer_types", "layers_block_type") if keys.has(key)), None)
    if key is None:
        # configuration_granitemoehybrid.py: all layers are Mamba
        return ("mamba",) * n_layers
    spelled = keys.texts(key, allowed=_MIXERS, at_least=n_layers)
    return tuple(_MIXERS[spelling] for spelling in spelled[:n_layers])


def _mamba_builder(config: ModelConfig) -> BlockBuilder:
    keys, hidden_size = config.keys, config.hidden_size
    core = read_mamba(keys, hidden_size)
    if keys.has("mamba_expand"):
        expanded = keys.positive_int("mamba_expand") * hidden_size
        if expanded != core.inner_dim:
            keys.refuse("mamba_expand", f"hidden_size times it is {core.inner_dim}, all heads")
    # configuration_granitemoehybrid.py: mamba_proj_bias False
    bias = keys.flag("mamba_proj_bias", default=False)
    shape = MambaShape(hidden_size, core, in_bias=bias, out_bias=bias)
    return lambda weights: mamba_block(shape, weights)


def _attention_builder(config: ModelConfig) -> BlockBuilder:
    # configuration_granitemoehybrid.py: attention_bias False
    shape = read_attention(config.keys, biased=True)
    return lambda weights: attention_block(shape, weights)


_BUILDERS: Final[dict[str, Callable[[ModelConfig], BlockBuilder]]] = {
    "mamba": _mamba_builder,
    "attention": _attention_builder,
}


def _feed_forward(config: ModelConfig) -> BlockBuilder:
    """Return the builder of experts with a shared one, or of the shared one where no others are."""
    keys, shared = config.keys, "shared_intermediate_size"
    if not keys.positive_int("num_local_experts", minimum=0):
        size, width = config.hidden_size, keys.positive_int(shared)
        return lambda weights: _dense_block(size, width, weights)
    routing = ExpertTraits(
        "num_local_experts", width=("intermediate_size",), shared_width=(shared, None)
    )
    shape = routed_experts(config, routing)
    return lambda weights: experts_block(shape, weights, GRANITE_NAMES)


def _dense_block(hidden_size: int, width: int, weights: LayerWeights) -> Block:
    pair = gated_pair(
        hidden_size, width, weights(GRANITE_NAMES.shared_in), weights(GRANITE_NAMES.shared_out)
    )
    return Block("feed_forward", pair, vector_params=hidden_size)
