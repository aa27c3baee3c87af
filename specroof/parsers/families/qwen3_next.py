"""Qwen3-Next, Qwen3.5 and Qwen3.6: Gated DeltaNet layers with full attention every few layers.

Source
    transformers 5, `models/qwen3_next/`, `models/qwen3_5/` and `models/qwen3_5_moe/`
    (`modeling_*.py`, `configuration_*.py`); vLLM `models/qwen3_next.py` and `qwen3_5.py`; the
    tensors of the published checkpoints.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeAlias

from specroof.architecture import HEADS, Architecture, Block, GatedDeltaNet, Linear
from specroof.parsers.blocks import (
    AttentionShape,
    ExpertNames,
    ExpertsShape,
    attention_block,
    experts_block,
    feed_forward_block,
    head_counts,
    top_k_experts,
)
from specroof.parsers.families.qwen3_moe import sparse_layers
from specroof.parsers.formats.quantization import LayerWeights
from specroof.parsers.model_config import DTYPES, Decoder, ModelConfig, build_layers
from specroof.reading.json_object import Reader

__all__ = ["parse_qwen3_5", "parse_qwen3_5_moe", "parse_qwen3_next"]

_LINEAR: Final = "linear_attention"
_FULL: Final = "full_attention"
_NAMES: Final = ExpertNames(
    shared_in="mlp.shared_expert.gate_proj", shared_out="mlp.shared_expert.down_proj"
)

_FeedForward: TypeAlias = Callable[[bool, LayerWeights], Block]


@dataclass(frozen=True, slots=True)
class _DeltaNetNames:
    """What the fused input projections are called in the checkpoint (by their parts)."""

    qkvz: tuple[str, ...]
    ba: tuple[str, ...]


_NEXT_NAMES: Final = _DeltaNetNames(("linear_attn.in_proj_qkvz",), ("linear_attn.in_proj_ba",))
_QWEN3_5_NAMES: Final = _DeltaNetNames(
    ("linear_attn.in_proj_qkv", "linear_attn.in_proj_qkvz"),
    ("linear_attn.in_proj_b", "linear_attn.in_proj_ba"),
)


def parse_qwen3_next(config: ModelConfig) -> Architecture:
    """Return a Qwen3-Next; its checkpoints hold a draft layer that no key mentions."""
    notes = ("multi-token-prediction layer not counted among the model's weights",)
    return _hybrid(config, _sparse_feed_forward(config), _NEXT_NAMES, notes)


def parse_qwen3_5(config: ModelConfig) -> Architecture:
    """Return a dense Qwen3.5 or Qwen3.6."""
    hidden_size = config.hidden_size
    width = config.keys.positive_int("intermediate_size")

    def feed_forward(_is_sparse: bool, weights: LayerWeights) -> Block:
        return feed_forward_block(hidden_size, width, weights)

    return _hybrid(config, feed_forward, _QWEN3_5_NAMES)


def parse_qwen3_5_moe(config: ModelConfig) -> Architecture:
    """Return a Qwen3.5 or Qwen3.6 with experts."""
    return _hybrid(config, _sparse_feed_forward(config), _QWEN3_5_NAMES)


def _sparse_feed_forward(config: ModelConfig) -> _FeedForward:
    """Return the builder of expert layers, and of dense ones where the config has any."""
    keys = config.keys
    hidden_size = config.hidden_size
    experts = ExpertsShape(
        hidden_size,
        *top_k_experts(keys, "num_experts", "num_experts_per_tok"),
        keys.positive_int("moe_intermediate_size"),
        shared_width=keys.positive_int("shared_expert_intermediate_size"),
        shared_gate=True,
    )
    all_sparse = all(sparse_layers(keys, config.n_layers))
    dense_width = 0 if all_sparse else keys.positive_int("intermediate_size")

    def feed_forward(is_sparse: bool, weights: LayerWeights) -> Block:
        if is_sparse:
            return experts_block(experts, weights, _NAMES)
        return feed_forward_block(hidden_size, dense_width, weights)

    return feed_forward


def _hybrid(
    config: ModelConfig,
    feed_forward: _FeedForward,
    names: _DeltaNetNames,
    notes: tuple[str, ...] = (),
) -> Architecture:
    keys = config.keys
    attention = _attention_shape(config)
    delta_net = _delta_net(keys)

    def layer(kind: tuple[str, bool], weights: LayerWeights) -> tuple[Block, ...]:
        mixer = (
            attention_block(attention, None, weights)
            if kind[0] == _FULL
            else _delta_net_block(config.hidden_size, delta_net, names, weights)
        )
        return mixer, feed_forward(kind[1], weights)

    kinds = list(
        zip(_mixers(keys, config.n_layers), sparse_layers(keys, config.n_layers), strict=True)
    )
    return Decoder(
        build_layers(config, kinds, layer),
        # Qwen3-Next has no such key; SGLang and mlx-lm then keep the state in float32.
        state_dtype=DTYPES[keys.text("mamba_ssm_dtype", allowed=DTYPES, default="float32")],
        notes=notes,
    ).architecture(config)


def _attention_shape(config: ModelConfig) -> AttentionShape:
    keys = config.keys
    # configuration_qwen3_5.py: attention_bias False, head_dim 256; vLLM: attn_output_gate True.
    bias = keys.flag("attention_bias", default=False)
    return AttentionShape(
        config.hidden_size,
        *head_counts(keys),
        keys.positive_int("head_dim", default=256),
        qkv_bias=bias,
        out_bias=bias,
        qk_norm=True,
        gated=keys.flag("attn_output_gate", default=True),
    )


def _mixers(keys: Reader, n_layers: int) -> tuple[str, ...]:
    """Return each layer's mixer, from the list or from the stride that stands for it."""
    if keys.has("layer_types"):
        return keys.texts("layer_types", allowed=(_FULL, _LINEAR), at_least=n_layers)[:n_layers]
    # configuration_qwen3_next.py: full_attention_interval 4
    interval = keys.positive_int("full_attention_interval", default=4)
    return tuple(_LINEAR if (index + 1) % interval else _FULL for index in range(n_layers))


def _delta_net(keys: Reader) -> GatedDeltaNet:
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


def _delta_net_block(
    hidden_size: int, delta_net: GatedDeltaNet, names: _DeltaNetNames, weights: LayerWeights
) -> Block:
    """Return a Gated DeltaNet with its projections, fused as engines multiply them.

    Vectors: the norm before it, A_log and dt_bias per value head, the gated norm of one head.
    """
    value_dim = delta_net.n_value_heads * delta_net.value_dim
    # z gates the output, b and a make the write strength and decay of each value head.
    qkvz = Linear(
        "in_proj_qkvz",
        hidden_size,
        delta_net.conv_dim + value_dim,
        weight=weights(*names.qkvz),
        shard=HEADS,
    )
    ba = Linear(
        "in_proj_ba",
        hidden_size,
        2 * delta_net.n_value_heads,
        weight=weights(*names.ba),
        shard=HEADS,
    )
    out = Linear(
        "out_proj", value_dim, hidden_size, weight=weights("linear_attn.out_proj"), shard=HEADS
    )
    vectors = hidden_size + 2 * delta_net.n_value_heads + delta_net.value_dim
    return Block("attention", (qkvz, ba, out), delta_net, vector_params=vectors)
