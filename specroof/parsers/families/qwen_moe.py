"""Qwen1.5, Qwen2 and Qwen3 with experts; those before Qwen3 have a gated shared expert.

Source
    transformers 5, `models/qwen2_moe/` and `models/qwen3_moe/` (`modeling_*.py`,
    `configuration_*.py`).
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
from specroof.parsers.model_config import ModelConfig
from specroof.reading.json_text import Reader


def parse_qwen3_moe(config: ModelConfig) -> Architecture:
    """Return a Qwen3 MoE; `intermediate_size` is read only where a layer is dense."""
    keys = config.keys
    # configuration_qwen3_moe.py: attention_bias False; the class knows no head_dim.
    attention = replace(read_attention(keys, biased=True), qk_norm=True)
    # Where the window is used, all layers have it.
    windows = [used_window(keys)] * config.n_layers
    experts = read_experts(keys, "num_experts")
    return decoder(
        config,
        attention_part(config, attention, windows),
        feed_forward_part(config, experts, sparse_layers(config)),
    )


def sparse_layers(config: ModelConfig) -> list[bool]:
    """Return whether each layer has experts.

    Source
        `Qwen3MoeDecoderLayer.__init__`: not in ``mlp_only_layers``, and (i + 1) a multiple of
        ``decoder_sparse_step``; their defaults [] and 1 are in `configuration_qwen3_moe.py`.
    """
    dense = frozenset(config.keys.ints("mlp_only_layers"))
    step = config.keys.positive_int("decoder_sparse_step", default=1)
    return [index not in dense and (index + 1) % step == 0 for index in range(config.n_layers)]


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
