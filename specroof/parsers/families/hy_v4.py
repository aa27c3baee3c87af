"""Hy4: latent attention behind a (shared) indexer, gated, and several residual streams.

Source
    transformers 5.23, `models/hy_v4/modeling_hy_v4.py` and `configuration_hy_v4.py`; vLLM 0.33.0,
    `transformers_utils/configs/hy_v4.py`, for the keys of its published file.
"""

from dataclasses import replace

from specroof.architecture.base import (
    ATTENTION_REPLICATED,
    FEED_FORWARD_REPLICATED,
    HEADS,
)
from specroof.architecture.model import Architecture, Block
from specroof.parsers.decoder import (
    LayerPart,
    decoder,
    extended,
    feed_forward_of,
    matrices,
    stream_mixing,
)
from specroof.parsers.families.deepseek_v3 import (
    LatentShape,
    latent_block,
    listed_indexers,
    searching_shape,
)
from specroof.parsers.formats import LayerWeights
from specroof.parsers.model_config import ModelConfig
from specroof.parsers.traits import ExpertTraits, Traits


def parse_hy_v4(config: ModelConfig) -> Architecture:
    """Return a Hy4: most layers take over the tokens that an earlier one's indexer picked."""
    keys, n_layers, hidden_size = config.keys, config.n_layers, config.hidden_size
    keys.pass_over(
        "hc_magnitude learnable_sink_init enable_lm_head_fp32 mtp_loss_factor layer_types"
    )
    if not keys.flag("enable_ihc", default=True):
        keys.refuse("enable_ihc", "true")
    full = searching_shape(keys)
    shared = replace(full, indexer=None, shared_top_k=keys.positive_int("index_topk"))
    # HYV4Config.__post_init__: the first layer runs its indexer, and every fourth from the second.
    usual = ["full" if index == 0 or index % 4 == 1 else "shared" for index in range(n_layers)]
    kinds = listed_indexers(keys, n_layers) or usual
    # The class's file of vLLM: gated_mla and learnable_sink True, gating_type elementwise.
    gate_dims = {"elementwise": full.n_heads * full.value_dim, "headwise": full.n_heads}
    gate_dim = gate_dims[keys.text("gating_type", allowed=gate_dims, default="elementwise")]
    gates = (("gate_proj", hidden_size, gate_dim),) if keys.flag("gated_mla", default=True) else ()
    n_sinks = full.n_heads if keys.flag("learnable_sink", default=True) else 0
    n_streams = keys.positive_int("hc_mult", default=4)  # configuration_hy_v4.py
    # Beside the mixing matrix of a sublayer, a base for each row, and two scales.
    mixing_params = 2 * n_streams + 2

    def attention(shape: LatentShape, weights: LayerWeights) -> Block:
        return extended(
            latent_block(shape, weights),
            *matrices(weights, "self_attn.", HEADS, *gates),
            stream_mixing(
                "attn_hc_fn", hidden_size, n_streams, 2 * n_streams, ATTENTION_REPLICATED
            ),
            n_params=n_sinks + mixing_params,
        )

    routing = ExpertTraits(
        "n_routed_experts",
        shared=("n_shared_experts", 1),  # configuration_hy_v4.py
        correction_bias=True,
        dense=("", 1),  # HYV4Config.__post_init__: all layers but the first
    )
    sparse, plain = feed_forward_of(config, Traits(routing=routing))

    def feed_forward(is_sparse: bool, weights: LayerWeights) -> Block:
        mixing = stream_mixing(
            "ffn_hc_fn", hidden_size, n_streams, 2 * n_streams, FEED_FORWARD_REPLICATED
        )
        return extended(plain(is_sparse, weights), mixing, n_params=mixing_params)

    # Behind the last layer the streams become one: a matrix, a base of each, and a scale.
    head_mixing = n_streams * n_streams * hidden_size + n_streams + 1
    return decoder(
        config,
        LayerPart([full if kind == "full" else shared for kind in kinds], attention),
        LayerPart(sparse, feed_forward),
        vector_params=hidden_size + head_mixing,
    )
