"""Falcon: one KV head or groups of them, both branches beside each other behind one norm or two.

Source
    transformers 5.23, `models/falcon/modeling_falcon.py` and `configuration_falcon.py`.
"""

from dataclasses import replace
from typing import Final

from specroof.architecture.model import Architecture
from specroof.parsers.decoder import decoder_of
from specroof.parsers.model_config import ModelConfig
from specroof.parsers.traits import Traits

_FALCON: Final = Traits(
    # configuration_falcon.py: n_embed goes before hidden_size
    spelled={
        "hidden_size": "n_embed",
        "num_hidden_layers": "n_layer",
        "num_attention_heads": "n_head",
    },
    head_dim_keys=(),
    qkv_bias=("bias", False),
    out_bias=("bias", False),
    mlp_bias=("bias", False),
    gated=False,
    width=("ffn_hidden_size", 4),
    norm_vectors=2,
    tied=True,
    passed_over="activation alibi apply_residual_connection_post_layernorm hidden_size",
)


def parse_falcon(config: ModelConfig) -> Architecture:
    """Return a Falcon; only the new decoder asks how many KV heads there are."""
    keys = config.keys
    # configuration_falcon.py: new_decoder_architecture False, parallel_attn True
    is_new = keys.flag("new_decoder_architecture", default=False)
    parallel = keys.flag("parallel_attn", default=True)
    norms = keys.positive_int("num_ln_in_parallel_attn", maximum=2, default=2 if is_new else 1)
    own_heads = {"num_key_value_heads": "num_kv_heads"} if is_new else {}
    keys.pass_over("num_kv_heads")
    traits = replace(
        _FALCON,
        spelled={**_FALCON.spelled, **own_heads},
        kv_heads="heads" if is_new else "multi_query",
        parallel=parallel,
        one_norm=norms == 1,
    )
    return decoder_of(config, traits)
