"""Mixtral: Llama's attention, and experts in every layer.

Source
    transformers 5, `models/mixtral/modeling_mixtral.py` and `configuration_mixtral.py`.
"""

from typing import Final

from specroof.architecture import Architecture, Block
from specroof.parsers.blocks import (
    AttentionShape,
    ExpertNames,
    ExpertsShape,
    attention_block,
    experts_block,
    head_counts,
    split_head_dim,
    top_k_experts,
)
from specroof.parsers.formats.quantization import LayerWeights
from specroof.parsers.model_config import Decoder, ModelConfig, build_layers

__all__ = ["parse_mixtral"]

_NAMES: Final = ExpertNames(routed="block_sparse_moe.experts.0.w1")


def parse_mixtral(config: ModelConfig) -> Architecture:
    """Return a Mixtral: `intermediate_size` is the width of one expert."""
    keys = config.keys
    attention = AttentionShape(config.hidden_size, *head_counts(keys), split_head_dim(keys))
    experts = ExpertsShape(
        config.hidden_size,
        *top_k_experts(keys, "num_local_experts", "num_experts_per_tok"),
        keys.positive_int("intermediate_size"),
    )
    # configuration_mixtral.py: sliding_window None; where it is a number, all layers have it.
    window = keys.optional_int("sliding_window")

    def layer(window: int | None, weights: LayerWeights) -> tuple[Block, ...]:
        return (
            attention_block(attention, window, weights),
            experts_block(experts, weights, _NAMES),
        )

    return Decoder(build_layers(config, [window] * config.n_layers, layer)).architecture(config)
