"""Qwen3 with experts: Qwen3's attention, experts in all layers but those listed as dense.

Source
    transformers 5, `models/qwen3_moe/modeling_qwen3_moe.py` and `configuration_qwen3_moe.py`.
"""

from dataclasses import replace

from specroof.architecture import Architecture
from specroof.parsers.decoder import (
    attention_part,
    decoder,
    feed_forward_part,
    read_attention,
    read_experts,
    used_window,
)
from specroof.parsers.model_config import ModelConfig


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
