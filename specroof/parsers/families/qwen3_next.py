"""Qwen3-Next, Qwen3.5 and Qwen3.6: Gated DeltaNet layers with full attention every few layers.

Source
    transformers 5, `models/qwen3_next/`, `models/qwen3_5/` and `models/qwen3_5_moe/`
    (`modeling_*.py`, `configuration_*.py`); vLLM `models/qwen3_next.py` and `qwen3_5.py`; the
    tensors of the published checkpoints.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from specroof.architecture import HEADS, Architecture, AttentionShape, Block, GatedDeltaNet, Linear
from specroof.parsers.decoder import (
    LayerPart,
    attention_block,
    decoder,
    dense_part,
    expert_layers,
    feed_forward_part,
    listed_kinds,
    matrices,
    read_attention,
    routed_experts,
)
from specroof.parsers.formats import LayerWeights
from specroof.parsers.model_config import DTYPES, MTP_NOTE, ModelConfig
from specroof.parsers.traits import GATED_EXPERTS
from specroof.reading.json_text import Reader

LINEAR: Final = "linear_attention"
FULL: Final = "full_attention"


#: What checkpoints call two fused matrices, Qwen3.5's being of parts that engines fuse.
_QKVZ: Final = ("linear_attn.in_proj_qkv", "linear_attn.in_proj_qkvz")
_BA: Final = ("linear_attn.in_proj_b", "linear_attn.in_proj_ba")


def parse_qwen3_next(config: ModelConfig) -> Architecture:
    """Return a Qwen3-Next; its checkpoints hold a draft layer that no key mentions."""
    return _hybrid(config, _sparse_part(config), (MTP_NOTE,))


def parse_qwen3_5(config: ModelConfig) -> Architecture:
    """Return a dense Qwen3.5 or Qwen3.6."""
    config.keys.pass_over("output_gate_type")
    return _hybrid(config, dense_part(config))


def parse_qwen3_5_moe(config: ModelConfig) -> Architecture:
    """Return a Qwen3.5 or Qwen3.6 with experts."""
    config.keys.pass_over("output_gate_type")
    return _hybrid(config, _sparse_part(config))


def _sparse_part(config: ModelConfig) -> LayerPart[bool]:
    config.keys.pass_over("intermediate_size")
    experts = routed_experts(config, GATED_EXPERTS)
    sparse = expert_layers(config, GATED_EXPERTS)
    return feed_forward_part(config, experts, sparse, names=GATED_EXPERTS.names)


def _hybrid(
    config: ModelConfig, feed_forward: LayerPart[Any], notes: Sequence[str] = ()
) -> Architecture:
    keys = config.keys
    keys.pass_over("full_attention_interval")
    attention, recurrent = attention_shape(keys), delta_net(keys)

    def mixer(kind: str, weights: LayerWeights) -> Block:
        if kind == FULL:
            return attention_block(attention, weights)
        return delta_net_block(config.hidden_size, recurrent, weights)

    return decoder(
        config,
        LayerPart(_mixers(keys, config.n_layers), mixer),
        feed_forward,
        # Qwen3-Next has no such key; SGLang and mlx-lm then keep the state in float32.
        state_dtype=DTYPES[keys.text("mamba_ssm_dtype", allowed=DTYPES, default="float32")],
        notes=notes,
    )


def attention_shape(keys: Reader) -> AttentionShape:
    """Return the sizes of gated attention between the layers of delta attention."""
    # configuration_qwen3_5.py: attention_bias False, head_dim 256; vLLM: attn_output_gate True.
    shape = read_attention(keys, keys.positive_int("head_dim", default=256), biased=True)
    return replace(shape, qk_norm=True, gated=keys.flag("attn_output_gate", default=True))


def _mixers(keys: Reader, n_layers: int) -> Sequence[str]:
    """Return each layer's mixer, from the list or from the stride that stands for it."""
    return listed_kinds(keys, "layer_types", (FULL, LINEAR), n_layers) or interval_kinds(
        keys, n_layers
    )


def interval_kinds(keys: Reader, n_layers: int) -> list[str]:
    """Return the kind of each layer by the number of layers to one that attends fully."""
    # configuration_qwen3_next.py, Qwen4ExpTextConfig.__post_init__: full_attention_interval 4
    interval = keys.positive_int("full_attention_interval", default=4)
    return [LINEAR if (index + 1) % interval else FULL for index in range(n_layers)]


def delta_net(keys: Reader) -> GatedDeltaNet:
    """Return the sizes of Gated DeltaNet."""
    n_key_heads = keys.positive_int("linear_num_key_heads")
    n_value_heads = keys.positive_int("linear_num_value_heads")
    if n_value_heads % n_key_heads:
        allowed = f"a multiple of linear_num_key_heads ({n_key_heads})"
        keys.refuse("linear_num_value_heads", allowed)
    conv_kernel = keys.positive_int("linear_conv_kernel_dim")
    return GatedDeltaNet(
        n_key_heads,
        n_value_heads,
        keys.positive_int("linear_key_head_dim"),
        keys.positive_int("linear_value_head_dim"),
        conv_kernel,
        conv_columns=conv_kernel - 1,
    )


def delta_net_block(hidden_size: int, core: GatedDeltaNet, weights: LayerWeights) -> Block:
    """Return a Gated DeltaNet with its projections, fused as engines multiply them.

    Vectors: the norm before it, A_log and dt_bias per value head, the gated norm of one head.
    """
    n_heads = core.n_value_heads
    value_dim = n_heads * core.value_dim
    # z gates the output, b and a make the write strength and decay of each value head.
    qkvz_dim = core.conv_dim + value_dim
    linears = (
        Linear("in_proj_qkvz", hidden_size, qkvz_dim, weights(*_QKVZ), HEADS),
        Linear("in_proj_ba", hidden_size, 2 * n_heads, weights(*_BA), HEADS),
        *matrices(weights, "linear_attn.", HEADS, ("out_proj", value_dim, hidden_size)),
    )
    vectors = hidden_size + 2 * n_heads + core.value_dim
    return Block("attention", linears, core, vector_params=vectors)
