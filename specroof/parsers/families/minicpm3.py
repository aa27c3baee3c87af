"""MiniCPM3: a dense decoder of latent attention.

Source
    transformers 5.23, `models/minicpm3/` (`modeling_*.py`, `configuration_*.py`).
"""

from specroof.architecture.model import Architecture
from specroof.parsers.decoder import LayerPart, decoder, feed_forward_of
from specroof.parsers.families.deepseek_v3 import latent_block, latent_shape
from specroof.parsers.model_config import ModelConfig
from specroof.parsers.traits import Traits

_NOTE = (
    "its cache is counted as latents, as SGLang keeps it; vLLM 0.33.0 keeps keys and values of all "
    "heads"
)


def parse_minicpm3(config: ModelConfig) -> Architecture:
    """Return a MiniCPM3; the factors on embedding, layers and logits cost nothing."""
    keys = config.keys
    if keys.flag("mlp_bias", default=False):
        keys.refuse("mlp_bias", "false")
    shape = latent_shape(
        keys, value_dim=config.hidden_size // keys.positive_int("num_attention_heads")
    )
    # configuration_minicpm3.py: tie_word_embeddings True
    return decoder(
        config,
        LayerPart([shape] * config.n_layers, latent_block),
        LayerPart(*feed_forward_of(config, Traits())),
        tied_default=True,
        notes=(_NOTE,),
    )
