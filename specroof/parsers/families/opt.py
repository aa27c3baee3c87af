"""OPT: as many KV heads as query heads, a plain feed-forward, biases and learned positions.

Source
    Zhang et al. 2022, arXiv:2205.01068, table 1; transformers 5, `models/opt/modeling_opt.py` and
    `configuration_opt.py`.
"""

from typing import Final

from specroof.architecture.attention import GroupedQueryAttention
from specroof.architecture.base import HEADS, TENSOR
from specroof.architecture.model import Architecture, Block
from specroof.parsers.decoder import decoder, matrices, same_part
from specroof.parsers.formats import LayerWeights
from specroof.parsers.model_config import ModelConfig

#: `OPTLearnedPositionalEmbedding.offset`: rows before the one of the first position.
_POSITION_OFFSET: Final = 2


def parse_opt(config: ModelConfig) -> Architecture:
    """Return an OPT."""
    keys = config.keys
    hidden_size = config.hidden_size
    keys.pass_over("activation_function")
    # configuration_opt.py: word_embed_proj_dim as hidden_size, max_position_embeddings 2048,
    # enable_bias, layer_norm_elementwise_affine, do_layer_norm_before and tie_word_embeddings
    # True, _remove_final_layer_norm False.
    n_heads = keys.divisor("num_attention_heads", of=hidden_size, called="hidden_size")
    if keys.positive_int("word_embed_proj_dim", default=hidden_size) != hidden_size:
        keys.refuse("word_embed_proj_dim", f"hidden_size ({hidden_size})")
    affine = keys.flag("layer_norm_elementwise_affine", default=True)
    norm_params = 2 * hidden_size if affine else 0
    width, bias = keys.positive_int("ffn_dim"), keys.flag("enable_bias", default=True)
    final_norm = keys.flag("do_layer_norm_before", default=True) and not keys.flag(
        "_remove_final_layer_norm", default=False
    )
    positions = keys.positive_int("max_position_embeddings", default=2048) + _POSITION_OFFSET
    head_dim = hidden_size // n_heads
    core = GroupedQueryAttention(n_heads, n_heads, head_dim, head_dim)

    def attention(weights: LayerWeights) -> Block:
        names = ("q_proj", "k_proj", "v_proj", "out_proj")
        rows = [(name, hidden_size, hidden_size) for name in names]
        linears = matrices(weights, "self_attn.", HEADS, *rows, bias=bias)
        return Block("attention", linears, core, vector_params=norm_params)

    def feed_forward(weights: LayerWeights) -> Block:
        rows = ("fc1", hidden_size, width), ("fc2", width, hidden_size)
        linears = matrices(weights, "", TENSOR, *rows, bias=bias)
        return Block("feed_forward", linears, vector_params=norm_params)

    return decoder(
        config,
        same_part(config, attention),
        same_part(config, feed_forward),
        tied_default=True,
        vector_params=norm_params if final_norm else 0,
        lookup_params=positions * hidden_size,
    )
