"""gpt-oss: attention with sinks, every other layer in a short window, biased experts in MXFP4.

Source
    transformers 5, `models/gpt_oss/modeling_gpt_oss.py` and `configuration_gpt_oss.py`; the
    tensors of the published checkpoints.
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
    listed_windows,
    top_k_experts,
)
from specroof.parsers.formats.quantization import LayerWeights
from specroof.parsers.model_config import Decoder, ModelConfig, build_layers
from specroof.reading.json_object import Reader

__all__ = ["parse_gpt_oss"]

_NAMES: Final = ExpertNames(routed="mlp.experts.gate_up_proj")


def parse_gpt_oss(config: ModelConfig) -> Architecture:
    """Return a gpt-oss; router and experts have biases, whatever `attention_bias` says."""
    keys = config.keys
    # configuration_gpt_oss.py: attention_bias True, head_dim 64.
    bias = keys.flag("attention_bias", default=True)
    attention = AttentionShape(
        config.hidden_size,
        *head_counts(keys),
        keys.positive_int("head_dim", default=64),
        qkv_bias=bias,
        out_bias=bias,
        sinks=True,
    )
    experts = ExpertsShape(
        config.hidden_size,
        *top_k_experts(keys, "num_local_experts", "num_experts_per_tok", "experts_per_token"),
        keys.positive_int("intermediate_size"),
        biases=True,
    )

    def layer(window: int | None, weights: LayerWeights) -> tuple[Block, ...]:
        return (
            attention_block(attention, window, weights),
            experts_block(experts, weights, _NAMES),
        )

    windows = _windows(keys, config.n_layers)
    return Decoder(build_layers(config, windows, layer)).architecture(config)


def _windows(keys: Reader, n_layers: int) -> list[int | None]:
    # configuration_gpt_oss.py: sliding_window 128; layer_types alternates, sliding first.
    window = keys.optional_int("sliding_window", missing=128)
    listed = listed_windows(keys, n_layers, window)
    if listed is not None:
        return listed
    return [None if index % 2 else window for index in range(n_layers)]
