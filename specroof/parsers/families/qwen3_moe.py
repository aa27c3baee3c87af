"""Qwen3 with experts: Qwen3's attention, experts in all layers but those listed as dense.

Source
    transformers 5, `models/qwen3_moe/modeling_qwen3_moe.py` and `configuration_qwen3_moe.py`.
"""

from specroof.architecture import Architecture, Block
from specroof.parsers.blocks import (
    AttentionShape,
    ExpertsShape,
    attention_block,
    experts_block,
    feed_forward_block,
    head_counts,
    split_head_dim,
    top_k_experts,
)
from specroof.parsers.formats.quantization import LayerWeights
from specroof.parsers.model_config import Decoder, ModelConfig, build_layers
from specroof.reading.json_object import Reader

__all__ = ["parse_qwen3_moe", "sparse_layers"]


def parse_qwen3_moe(config: ModelConfig) -> Architecture:
    """Return a Qwen3 MoE; `intermediate_size` is read only where a layer is dense."""
    keys = config.keys
    # configuration_qwen3_moe.py: attention_bias False; the class knows no head_dim of its own.
    bias = keys.flag("attention_bias", default=False)
    attention = AttentionShape(
        config.hidden_size,
        *head_counts(keys),
        split_head_dim(keys),
        qkv_bias=bias,
        out_bias=bias,
        qk_norm=True,
    )
    experts = ExpertsShape(
        config.hidden_size,
        *top_k_experts(keys, "num_experts", "num_experts_per_tok"),
        keys.positive_int("moe_intermediate_size"),
    )
    window = _window(keys)
    sparse = sparse_layers(keys, config.n_layers)
    dense_width = 0 if all(sparse) else keys.positive_int("intermediate_size")

    def layer(is_sparse: bool, weights: LayerWeights) -> tuple[Block, ...]:
        feed_forward = (
            experts_block(experts, weights)
            if is_sparse
            else feed_forward_block(config.hidden_size, dense_width, weights)
        )
        return attention_block(attention, window, weights), feed_forward

    return Decoder(build_layers(config, sparse, layer)).architecture(config)


def sparse_layers(keys: Reader, n_layers: int) -> list[bool]:
    """Return whether each layer has experts.

    Source
        `Qwen3MoeDecoderLayer.__init__`: not in ``mlp_only_layers``, and (i + 1) a multiple of
        ``decoder_sparse_step``; their defaults [] and 1 are in `configuration_qwen3_moe.py`.
    """
    dense = frozenset(keys.ints("mlp_only_layers"))
    step = keys.positive_int("decoder_sparse_step", default=1)
    return [index not in dense and (index + 1) % step == 0 for index in range(n_layers)]


def _window(keys: Reader) -> int | None:
    # configuration_qwen3_moe.py: use_sliding_window False, sliding_window 4096, for all layers.
    if keys.flag("use_sliding_window", default=False):
        return keys.optional_int("sliding_window", missing=4096)
    return None
