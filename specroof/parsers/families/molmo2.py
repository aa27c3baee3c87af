"""Molmo 2: norms of queries and keys as Qwen 3 or OLMo 2 has them, and words beside the embedding.

Source
    transformers 5.24, `models/molmo2/modeling_molmo2.py` and `configuration_molmo2.py`.
"""

from dataclasses import replace
from typing import Final

from specroof.architecture.model import Architecture
from specroof.parsers.decoder import decoder_of
from specroof.parsers.model_config import ModelConfig
from specroof.parsers.traits import Traits

_MOLMO: Final = Traits(
    head_dim=128,
    kv_heads=None,
    # published files have the first, and so do OLMo's: no bias behind attention
    qkv_bias=("qkv_bias", "attention_bias", False),
    qk_norm=True,
    positions=("additional_vocab_size", 128),
    passed_over="norm_after rope_scaling_layers qk_norm_type",
)


def parse_molmo2(config: ModelConfig) -> Architecture:
    """Return the language model of a Molmo 2; its head has no rows for words of images."""
    keys = config.keys
    if not keys.flag("use_qk_norm", default=True):
        keys.refuse("use_qk_norm", "true")
    kind = keys.text("qk_norm_type", allowed=("qwen3", "olmo"), default="qwen3")
    return decoder_of(config, replace(_MOLMO, norm_span="head" if kind == "qwen3" else "heads"))
