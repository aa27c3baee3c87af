"""Qwen1.5 and Qwen2 with experts: Qwen2's attention, experts and a gated shared expert.

Source
    transformers 5, `models/qwen2_moe/modeling_qwen2_moe.py` and `configuration_qwen2_moe.py`.
"""

from dataclasses import replace
from typing import Final

from specroof.architecture import Architecture
from specroof.parsers.decoder import (
    ExpertNames,
    ExpertsShape,
    attention_part,
    decoder,
    feed_forward_part,
    layer_windows,
    read_attention,
    read_experts,
    used_window,
)
from specroof.parsers.families.qwen3_moe import sparse_layers
from specroof.parsers.model_config import ModelConfig
from specroof.reading.json_text import Reader

#: What Qwen calls the matrices of its one shared expert.
SHARED_EXPERT_NAMES: Final = ExpertNames(
    shared_in="mlp.shared_expert.gate_proj", shared_out="mlp.shared_expert.down_proj"
)


def parse_qwen2_moe(config: ModelConfig) -> Architecture:
    """Return a Qwen2 MoE; `intermediate_size` is read only where a layer is dense."""
    keys = config.keys
    # configuration_qwen2_moe.py: qkv_bias True
    attention = replace(read_attention(keys), qkv_bias=keys.flag("qkv_bias", default=True))
    return decoder(
        config,
        attention_part(config, attention, _windows(keys, config.n_layers)),
        feed_forward_part(
            config, gated_experts(keys), sparse_layers(config), names=SHARED_EXPERT_NAMES
        ),
    )


def gated_experts(keys: Reader) -> ExpertsShape:
    """Return experts with a shared one, which a gate of one row weighs."""
    return replace(
        read_experts(keys, "num_experts"),
        shared_width=keys.positive_int("shared_expert_intermediate_size"),
        shared_gate=True,
    )


def _windows(keys: Reader, n_layers: int) -> list[int | None]:
    """Return each layer's window: where it is used, every other layer up to one has it."""
    window = used_window(keys)
    if window is None:
        return [None] * n_layers
    # configuration_qwen2_moe.py: max_window_layers 28
    n_windows = keys.positive_int("max_window_layers", minimum=0, default=28)
    return layer_windows(keys, n_layers, window, lambda index: index % 2 == 0 and index < n_windows)
