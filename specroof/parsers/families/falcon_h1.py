"""Falcon-H1: attention and Mamba2 side by side on the same input, then a gated feed-forward.

Source
    transformers 5, `models/falcon_h1/modeling_falcon_h1.py` and `configuration_falcon_h1.py`;
    the same family in mlx-lm.
"""

from specroof.architecture.model import Architecture, Block
from specroof.parsers.decoder import (
    LayerPart,
    attention_block,
    decoder,
    feed_forward_block,
    read_attention,
    same_part,
)
from specroof.parsers.formats import LayerWeights
from specroof.parsers.mamba import MambaShape, mamba_block, read_mamba
from specroof.parsers.model_config import ModelConfig


def parse_falcon_h1(config: ModelConfig) -> Architecture:
    """Return a Falcon-H1: the outputs of both mixers are summed before devices exchange them."""
    keys, hidden_size = config.keys, config.hidden_size
    keys.pass_over(
        "attention_in_multiplier attention_out_multiplier key_multiplier lm_head_multiplier "
        "mlp_multipliers ssm_in_multiplier ssm_multipliers ssm_out_multiplier mamba_chunk_size "
        "mamba_expand mamba_norm_before_gate mamba_use_mlp"
    )
    # configuration_falcon_h1.py: attention_bias, mlp_bias, mamba_proj_bias, projectors_bias and
    # mamba_rms_norm False
    width, mlp_bias = keys.positive_int("intermediate_size"), keys.flag("mlp_bias", default=False)
    mamba = MambaShape(
        hidden_size,
        read_mamba(keys, hidden_size),
        gated_norm=keys.flag("mamba_rms_norm", default=False),
        in_bias=keys.flag("mamba_proj_bias", default=False),
        out_bias=keys.flag("projectors_bias", default=False),
        shares_norm=True,
    )

    def feed_forward(weights: LayerWeights) -> Block:
        module = "feed_forward"
        return feed_forward_block(hidden_size, width, weights, bias=mlp_bias, module=module)

    return decoder(
        config,
        same_part(config, lambda weights: mamba_block(mamba, weights, joins_next=True)),
        LayerPart([read_attention(keys, biased=True)] * config.n_layers, attention_block),
        same_part(config, feed_forward),
    )
