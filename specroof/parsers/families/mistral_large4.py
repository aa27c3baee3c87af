"""Mistral Large 4: latent attention behind an indexer, without positions in every fourth layer.

Source
    transformers 5.24, `models/mistral_large4/modeling_mistral_large4.py` and
    `configuration_mistral_large4.py`.
"""

from dataclasses import replace
from typing import Final

from specroof.architecture.model import Architecture, Block
from specroof.parsers.decoder import LayerPart, decoder, extended, feed_forward_of, flagged_layers
from specroof.parsers.families.deepseek_v3 import (
    LatentShape,
    indexer_kinds,
    latent_block,
    read_indexer,
)
from specroof.parsers.formats import LayerWeights
from specroof.parsers.model_config import DSPARK_NOTE, ModelConfig
from specroof.parsers.traits import ExpertTraits, Traits

#: MistralLarge4TextConfig: n_shared_experts 1, first_k_dense_replace 1
_ROUTING: Final = ExpertTraits(
    "n_routed_experts", shared=("n_shared_experts", 1), dense=("first_k_dense_replace", 1)
)


def parse_mistral_large4(config: ModelConfig) -> Architecture:
    """Return the language model of a Mistral Large 4, whose queries are not compressed.

    Where positions are missing their part of a key comes from the latent, and is not cached.
    """
    keys, n_layers, hidden_size = config.keys, config.n_layers, config.hidden_size
    keys.pass_over("head_dim num_key_value_heads qk_head_dim num_experts no_rope_layer_interval")
    keys.texts("layer_types", allowed=("indexed_attention",))
    indexer = read_indexer(keys)
    full = LatentShape(
        hidden_size,
        keys.positive_int("num_attention_heads"),
        None,
        keys.positive_int("kv_lora_rank"),
        keys.positive_int("qk_nope_head_dim"),
        keys.positive_int("qk_rope_head_dim"),
        keys.positive_int("v_head_dim"),
        bias=keys.flag("attention_bias", default=False),
        indexer=indexer,
    )
    shared = replace(full, indexer=None, shared_top_k=indexer.top_k)
    own = list(range(n_layers))
    if keys.has("kv_source_layers") and [*keys.ints("kv_source_layers")] != own:
        keys.refuse("kv_source_layers", "each layer's own number: no cache is shared")
    # MistralLarge4TextConfig.__post_init__
    every = keys.positive_int("no_rope_layer_interval", default=4)
    positions = flagged_layers(keys, "no_rope_layers", n_layers) or [
        (index + 1) % every != 0 for index in range(n_layers)
    ]

    def attention(shape: LatentShape, weights: LayerWeights) -> Block:
        # A scale and a bias of each head; before the indexer's queries a norm with a bias.
        n_params = 2 * shape.n_heads
        if shape.indexer:
            n_params += 2 * shape.indexer.n_heads + 2 * hidden_size
        return extended(latent_block(shape, weights), n_params=n_params)

    shapes = [full if kind == "full" else shared for kind in indexer_kinds(keys, n_layers)]
    return decoder(
        config,
        LayerPart(
            [
                shape
                if rotates
                else replace(shape, nope_dim=shape.nope_dim + shape.rope_dim, rope_dim=0)
                for shape, rotates in zip(shapes, positions, strict=True)
            ],
            attention,
        ),
        LayerPart(*feed_forward_of(config, Traits(routing=_ROUTING))),
        # Behind the final norm, a factor of each frequency of its positions.
        vector_params=hidden_size + full.rope_dim // 2,
        # The class leaves out `mtp_dspark.*`, which the checkpoint holds.
        notes=(DSPARK_NOTE,),
    )
