"""Qwen1.5 and Qwen2 with experts: Qwen2's attention, experts and a gated shared expert.

Source
    transformers 5, `models/qwen2_moe/modeling_qwen2_moe.py` and `configuration_qwen2_moe.py`.
"""

from typing import Final

from specroof.architecture import Architecture, Block
from specroof.parsers.blocks import (
    AttentionShape,
    ExpertNames,
    ExpertsShape,
    attention_block,
    experts_block,
    feed_forward_block,
    head_counts,
    listed_windows,
    split_head_dim,
    top_k_experts,
)
from specroof.parsers.families.qwen3_moe import sparse_layers
from specroof.parsers.formats.quantization import LayerWeights
from specroof.parsers.model_config import Decoder, ModelConfig, build_layers
from specroof.reading.json_object import Reader

__all__ = ["parse_qwen2_moe"]

_NAMES: Final = ExpertNames(
    shared_in="mlp.shared_expert.gate_proj", shared_out="mlp.shared_expert.down_proj"
)


def parse_qwen2_moe(config: ModelConfig) -> Architecture:
    """Return a Qwen2 MoE; `intermediate_size` is read only where a layer is dense."""
    keys = config.keys
    attention = AttentionShape(
        config.hidden_size,
        *head_counts(keys),
        split_head_dim(keys),
        # configuration_qwen2_moe.py: qkv_bias True
        qkv_bias=keys.flag("qkv_bias", default=True),
    )
    experts = ExpertsShape(
        config.hidden_size,
        *top_k_experts(keys, "num_experts", "num_experts_per_tok"),
        keys.positive_int("moe_intermediate_size"),
        shared_width=keys.positive_int("shared_expert_intermediate_size"),
        shared_gate=True,
    )
    sparse = sparse_layers(keys, config.n_layers)
    dense_width = 0 if all(sparse) else keys.positive_int("intermediate_size")

    def layer(kind: tuple[bool, int | None], weights: LayerWeights) -> tuple[Block, ...]:
        is_sparse, window = kind
        feed_forward = (
            experts_block(experts, weights, _NAMES)
            if is_sparse
            else feed_forward_block(config.hidden_size, dense_width, weights)
        )
        return attention_block(attention, window, weights), feed_forward

    kinds = list(zip(sparse, _windows(keys, config.n_layers), strict=True))
    return Decoder(build_layers(config, kinds, layer)).architecture(config)


def _windows(keys: Reader, n_layers: int) -> list[int | None]:
    """Return each layer's window: where it is used, every other layer up to one has it."""
    # configuration_qwen2_moe.py: use_sliding_window False, sliding_window 4096, max_window_layers
    # 28.
    if not keys.flag("use_sliding_window", default=False):
        return [None] * n_layers
    window = keys.optional_int("sliding_window", missing=4096)
    listed = listed_windows(keys, n_layers, window)
    if listed is not None:
        return listed
    n_window_layers = keys.positive_int("max_window_layers", minimum=0, default=28)
    return [
        window if index % 2 == 0 and index < n_window_layers else None for index in range(n_layers)
    ]
