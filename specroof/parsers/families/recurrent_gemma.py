"""RecurrentGemma (Griffin): gated linear recurrences, and every third layer attends to a window.

Source
    De et al. 2024, arXiv:2402.19427, section 2; transformers 5.24,
    `models/recurrent_gemma/modeling_recurrent_gemma.py` and `configuration_recurrent_gemma.py`.
"""

from typing import Final

from specroof.architecture.base import HEADS, Linear
from specroof.architecture.model import Architecture, AttentionShape, Block
from specroof.architecture.recurrent import SelectiveScan
from specroof.parsers.decoder import (
    LayerPart,
    attention_block,
    decoder,
    feed_forward_block,
    head_counts,
    matrices,
    same_part,
)
from specroof.parsers.formats import LayerWeights
from specroof.parsers.model_config import ModelConfig

_MODULE: Final = "temporal_block"


def parse_recurrent_gemma(config: ModelConfig) -> Architecture:
    """Return a RecurrentGemma; of `intermediate_size`, half is the width of its feed-forward."""
    keys, hidden_size, n_layers = config.keys, config.hidden_size, config.n_layers
    keys.pass_over(
        "logits_soft_cap w_init_variance_scale final_w_init_variance_scale head_dim "
        "embeddings_scale_by_sqrt_dim"
    )
    # a pattern that repeats
    spelled = keys.texts("block_types", allowed=("recurrent", "attention"))
    pattern = spelled or ("recurrent", "recurrent", "attention")
    attends = [pattern[index % len(pattern)] == "attention" for index in range(n_layers)]
    n_heads = keys.positive_int("num_attention_heads")
    shape = AttentionShape(
        hidden_size,
        *head_counts(keys, kv_default=n_heads),
        hidden_size // keys.divisor("num_attention_heads", of=hidden_size, called="hidden_size"),
        qkv_bias=keys.flag("attention_bias", default=False),
        out_bias=True,
        window=keys.positive_int("attention_window_size", default=2048),
    )
    width = keys.positive_int("lru_width", default=hidden_size)
    if width % n_heads:
        keys.refuse("lru_width", f"a multiple of the {n_heads} heads")
    kernel = keys.positive_int("conv1d_width", default=4)
    core = SelectiveScan(width, 1, kernel, conv_columns=kernel - 1)
    inner = keys.positive_int("intermediate_size", minimum=2) // 2

    def mixer(is_attention: bool, weights: LayerWeights) -> Block:
        if is_attention:
            return attention_block(shape, weights, module=_MODULE)
        into = [(name, hidden_size, width) for name in ("linear_y", "linear_x")]
        linears = matrices(weights, f"{_MODULE}.", HEADS, *into, bias=True)
        # a matrix of each head makes each of both gates
        gates = (
            Linear(name, width, width, weights.plain, HEADS, groups=n_heads, bias=True)
            for name in ("input_gate", "recurrent_gate")
        )
        out = matrices(weights, f"{_MODULE}.", HEADS, ("linear_out", width, hidden_size), bias=True)
        # the norm before it, and a decay of each channel
        return Block("attention", (*linears, *gates, *out), core, hidden_size + width)

    def feed_forward(weights: LayerWeights) -> Block:
        return feed_forward_block(hidden_size, inner, weights, bias=True, module="mlp_block")

    return decoder(
        config, LayerPart(attends, mixer), same_part(config, feed_forward), tied_default=True
    )
