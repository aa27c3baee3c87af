"""A.X-K1 and K2: DeepSeek-V3's layers with a norm behind experts; V3.2's with gates.

Source
    transformers 5.24, `models/axk1/` and `models/axk2/` (`modeling_*.py`, `configuration_*.py`).
"""

from dataclasses import replace
from typing import Final

from specroof.architecture.base import (
    ATTENTION_REPLICATED,
    FEED_FORWARD_REPLICATED,
    HEADS,
    Linear,
    Shard,
)
from specroof.architecture.model import Architecture, Block
from specroof.parsers.decoder import LayerPart, decoder, extended, feed_forward_of, matrices
from specroof.parsers.families.deepseek_v3 import (
    ROUTING,
    LatentShape,
    latent_block,
    latent_shape,
    searching_shape,
)
from specroof.parsers.formats import LayerWeights
from specroof.parsers.model_config import ModelConfig
from specroof.parsers.traits import Traits

#: configuration_axk1.py and configuration_axk2.py: all layers but the first have experts.
_TRAITS: Final = Traits(routing=replace(ROUTING, dense=("first_k_dense_replace", 1)))


def parse_axk1(config: ModelConfig) -> Architecture:
    """Return an A.X-K1, whose experts' output passes a norm."""
    sparse, plain = feed_forward_of(config, _TRAITS)

    def feed_forward(is_sparse: bool, weights: LayerWeights) -> Block:
        second_norm = config.hidden_size if is_sparse else 0
        return extended(plain(is_sparse, weights), n_params=second_norm)

    attentions = [latent_shape(config.keys)] * config.n_layers
    return decoder(config, LayerPart(attentions, latent_block), LayerPart(sparse, feed_forward))


def parse_axk2(config: ModelConfig) -> Architecture:
    """Return an A.X-K2: the norms before attention and experts, and attention's output, are gated.

    Queries and the gate of the output come from one matrix, which takes the compressed query twice,
    with and without its norm.
    """
    keys, hidden_size = config.keys, config.hidden_size
    rank = keys.positive_int("gated_norm_rank", default=16)  # configuration_axk2.py
    sparse, plain = feed_forward_of(config, _TRAITS)

    def gated_norm(block: Block, shard: Shard, weights: LayerWeights, norm: str) -> Block:
        rows = ("fc1", hidden_size, rank), ("fc2", rank, hidden_size)
        return extended(block, *matrices(weights, f"{norm}.mlp.", shard, *rows))

    def attention(shape: LatentShape, weights: LayerWeights) -> Block:
        block = latent_block(shape, weights)
        rows = shape.n_heads * (shape.nope_dim + shape.rope_dim + shape.value_dim)
        fused = Linear(
            "q_gate_proj",
            2 * (shape.query_rank or 0),
            rows,
            weights("self_attn.q_gate_proj"),
            HEADS,
        )
        linears = (fused if linear.name == "q_b_proj" else linear for linear in block.linears)
        block = replace(block, linears=tuple(linears))
        return gated_norm(block, ATTENTION_REPLICATED, weights, "input_layernorm")

    def feed_forward(is_sparse: bool, weights: LayerWeights) -> Block:
        block = plain(is_sparse, weights)
        if not is_sparse:
            return block
        return gated_norm(block, FEED_FORWARD_REPLICATED, weights, "post_attention_layernorm")

    attentions = [searching_shape(keys)] * config.n_layers
    return decoder(config, LayerPart(attentions, attention), LayerPart(sparse, feed_forward))
