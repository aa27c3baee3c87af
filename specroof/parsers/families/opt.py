"""OPT: as many KV heads as query heads, a plain feed-forward, biases and learned positions.

Source
    Zhang et al. 2022, arXiv:2205.01068, table 1; transformers 5, `models/opt/modeling_opt.py` and
    `configuration_opt.py`.
"""

from dataclasses import dataclass
from typing import Final

from specroof.architecture import HEADS, TENSOR, Architecture, Block, GroupedQueryAttention
from specroof.parsers.blocks import matrices
from specroof.parsers.decoder import decoder, same_part
from specroof.parsers.formats.quantization import LayerWeights
from specroof.parsers.model_config import ModelConfig

#: `OPTLearnedPositionalEmbedding.offset`: rows before the one of the first position.
_POSITION_OFFSET: Final = 2


@dataclass(frozen=True, slots=True)
class _Shape:
    """Sizes of an OPT layer; `norm_params` are the weights and biases of one norm."""

    hidden_size: int
    n_heads: int
    width: int
    bias: bool
    norm_params: int


def parse_opt(config: ModelConfig) -> Architecture:
    """Return an OPT."""
    keys = config.keys
    hidden_size = config.hidden_size
    # configuration_opt.py: word_embed_proj_dim as hidden_size, max_position_embeddings 2048,
    # enable_bias, layer_norm_elementwise_affine, do_layer_norm_before and tie_word_embeddings
    # True, _remove_final_layer_norm False.
    n_heads = keys.divisor("num_attention_heads", of=hidden_size, called="hidden_size")
    if keys.positive_int("word_embed_proj_dim", default=hidden_size) != hidden_size:
        keys.refuse("word_embed_proj_dim", f"hidden_size ({hidden_size})")
    affine = keys.flag("layer_norm_elementwise_affine", default=True)
    norm_params = 2 * hidden_size if affine else 0
    shape = _Shape(
        hidden_size,
        n_heads,
        keys.positive_int("ffn_dim"),
        keys.flag("enable_bias", default=True),
        norm_params,
    )
    final_norm = keys.flag("do_layer_norm_before", default=True) and not keys.flag(
        "_remove_final_layer_norm", default=False
    )
    positions = keys.positive_int("max_position_embeddings", default=2048) + _POSITION_OFFSET
    return decoder(
        config,
        same_part(config, lambda weights: _attention(shape, weights)),
        same_part(config, lambda weights: _feed_forward(shape, weights)),
        tied_default=True,
        vector_params=norm_params if final_norm else 0,
        lookup_params=positions * hidden_size,
    )


def _attention(shape: _Shape, weights: LayerWeights) -> Block:
    size, head_dim = shape.hidden_size, shape.hidden_size // shape.n_heads
    rows = ((name, size, size) for name in ("q_proj", "k_proj", "v_proj", "out_proj"))
    return Block(
        "attention",
        matrices(weights, "self_attn.", HEADS, *rows, bias=shape.bias),
        GroupedQueryAttention(shape.n_heads, shape.n_heads, head_dim, head_dim),
        vector_params=shape.norm_params,
    )


def _feed_forward(shape: _Shape, weights: LayerWeights) -> Block:
    size, width = shape.hidden_size, shape.width
    rows = ("fc1", size, width), ("fc2", width, size)
    linears = matrices(weights, "", TENSOR, *rows, bias=shape.bias)
    return Block("feed_forward", linears, vector_params=shape.norm_params)
