"""Mamba, Falcon-Mamba, Mamba 2 and Jamba: state spaces alone, or beside attention and experts.

Source
    transformers 5.24, `models/mamba/`, `models/falcon_mamba/`, `models/mamba2/` and
    `models/jamba/` (`modeling_*.py`, `configuration_*.py`).
"""

from typing import Final

from specroof.architecture.model import Architecture, Block
from specroof.parsers.decoder import (
    ExpertsShape,
    LayerPart,
    attention_block,
    decoder,
    experts_block,
    feed_forward_block,
    read_attention,
    same_part,
)
from specroof.parsers.formats import LayerWeights
from specroof.parsers.mamba import (
    JAMBA_KEYS,
    MambaKeys,
    MambaShape,
    ScanKeys,
    mamba_block,
    read_mamba_core,
    scan_builder,
)
from specroof.parsers.model_config import ModelConfig
from specroof.parsers.traits import ExpertNames
from specroof.reading.json_text import MAX_LAYERS, Reader

_MAMBA: Final = ScanKeys(
    "state_size", "conv_kernel", "expand", "time_step_rank", "use_conv_bias", "use_bias"
)
_MAMBA_2: Final = MambaKeys(
    "num_heads", "state_size", "n_groups", ("conv_kernel",), "use_conv_bias"
)
#: Keys that change no cost, some of which the first files state beside the usual ones.
_NUMERICS: Final = (
    "residual_in_fp32 rescale_prenorm_residual use_mambapy use_associative_scan "
    "d_inner d_model d_state fused_add_norm n_layer ssm_cfg"
)
_JAMBA_NAMES: Final = ExpertNames(routed="feed_forward.experts.0.gate_proj")


def parse_mamba(config: ModelConfig) -> Architecture:
    """Return a Mamba or a Falcon-Mamba, whose norms of step, B and C have no elements."""
    keys = config.keys
    keys.pass_over(f"{_NUMERICS} expand mixer_rms_eps use_falcon_mambapy")
    build = scan_builder(keys, config.hidden_size, _MAMBA, module="mixer")
    return decoder(config, same_part(config, build), tied_default=True)


def parse_mamba2(config: ModelConfig) -> Architecture:
    """Return a Mamba 2."""
    keys, hidden_size = config.keys, config.hidden_size
    keys.pass_over(f"{_NUMERICS} chunk_size time_step_rank norm_before_gate rms_norm")
    core = read_mamba_core(keys, _MAMBA_2, keys.positive_int("head_dim"))
    channels = keys.positive_int("expand", default=2) * hidden_size
    if channels != core.inner_dim:
        keys.refuse("expand", f"hidden_size times it is {core.inner_dim}, all heads")
    bias = keys.flag("use_bias", default=False)
    shape = MambaShape(hidden_size, core, in_bias=bias, out_bias=bias, module="mixer")
    return decoder(config, same_part(config, lambda weights: mamba_block(shape, weights)))


def parse_jamba(config: ModelConfig) -> Architecture:
    """Return a Jamba: attention every few layers, experts in every other."""
    keys, hidden_size, n_layers = config.keys, config.hidden_size, config.n_layers
    keys.pass_over("use_mamba_kernels use_mambapy use_associative_scan")
    attends = _every(keys, "attn_layer_period", "attn_layer_offset", (8, 4), n_layers)
    n_experts = keys.positive_int("num_experts", "num_local_experts", default=16)
    sparse = _every(keys, "expert_layer_period", "expert_layer_offset", (2, 1), n_layers)
    width = keys.positive_int("intermediate_size")
    top_k = keys.positive_int("num_experts_per_tok", maximum=n_experts, default=min(2, n_experts))
    experts = ExpertsShape(hidden_size, n_experts, top_k, width)
    scan = scan_builder(keys, hidden_size, JAMBA_KEYS, module="mamba", normed=True)
    attention = read_attention(keys)

    def mixer(is_attention: bool, weights: LayerWeights) -> Block:
        return attention_block(attention, weights) if is_attention else scan(weights)

    def feed_forward(is_sparse: bool, weights: LayerWeights) -> Block:
        if is_sparse and n_experts > 1:
            return experts_block(experts, weights, _JAMBA_NAMES)
        return feed_forward_block(hidden_size, width, weights, module="feed_forward")

    return decoder(config, LayerPart(attends, mixer), LayerPart(sparse, feed_forward))


def _every(
    keys: Reader, period: str, offset: str, defaults: tuple[int, int], n_layers: int
) -> list[bool]:
    """Return which layers have something: every so many, from one on."""
    every = keys.positive_int(period, maximum=MAX_LAYERS, default=defaults[0])
    first = keys.positive_int(offset, minimum=0, maximum=MAX_LAYERS, default=defaults[1])
    if first >= every:
        keys.refuse(offset, f"a number below {period} ({every})")
    return [index % every == first for index in range(n_layers)]
