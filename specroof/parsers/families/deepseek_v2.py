"""DeepSeek-V2 and what goes on from it: Mistral Large 3 and Small 4, latent attention, no bias.

Source
    DeepSeek-V2 technical report, arXiv:2405.04434, section 2; transformers 5,
    `models/deepseek_v2/` and `models/mistral4/` (`modeling_*.py`, `configuration_*.py`); SGLang
    `models/mistral_large_3.py`, which renames Mistral's matrices to DeepSeek's.
"""

from specroof.architecture import Architecture
from specroof.parsers.decoder import experts_after_first
from specroof.parsers.families.deepseek_v3 import latent_decoder
from specroof.parsers.model_config import ModelConfig


def parse_deepseek_v2(config: ModelConfig) -> Architecture:
    """Return a DeepSeek-V2; V2-Lite does not compress its queries."""
    # configuration_deepseek_v2.py: first_k_dense_replace 0, n_shared_experts 2
    return _softmax_routed(config, n_shared_default=2)


def parse_mistral_latent(config: ModelConfig) -> Architecture:
    """Return a Mistral Large 3 or Small 4."""
    # configuration_mistral4.py: first_k_dense_replace 0, n_shared_experts 1
    return _softmax_routed(config, n_shared_default=1)


def _softmax_routed(config: ModelConfig, *, n_shared_default: int) -> Architecture:
    """Return the decoder; experts are picked by softmax, without V3's correction bias."""
    sparse = experts_after_first(config.keys, config.n_layers, n_dense_default=0)
    return latent_decoder(config, sparse, n_shared_default=n_shared_default, correction_bias=False)
