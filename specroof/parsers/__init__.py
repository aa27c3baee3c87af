"""`config.json` to `Architecture`: the one room that knows Hugging Face's names of keys.

A family is one file with one function, and one row of `PARSERS`.
"""

from collections.abc import Callable
from typing import Final

from specroof.architecture import Architecture
from specroof.errors import OptionError
from specroof.parsers.deepseek_v2 import parse_deepseek_v2, parse_mistral_latent
from specroof.parsers.deepseek_v3 import parse_deepseek_v3, parse_deepseek_v32
from specroof.parsers.deepseek_v4 import parse_deepseek_v4, parse_deepseek_v4_converted
from specroof.parsers.falcon_h1 import parse_falcon_h1
from specroof.parsers.gemma import parse_gemma2, parse_gemma3
from specroof.parsers.gemma4 import parse_gemma4, parse_gemma4_unified
from specroof.parsers.glm4_moe import parse_glm4_moe, parse_glm4v_moe
from specroof.parsers.glm_moe_dsa import parse_glm4_moe_lite, parse_glm_moe_dsa
from specroof.parsers.gpt_oss import parse_gpt_oss
from specroof.parsers.granitemoehybrid import parse_granitemoehybrid
from specroof.parsers.kimi_linear import parse_kimi_linear
from specroof.parsers.llama import parse_llama, parse_qwen2, parse_qwen3
from specroof.parsers.llama4 import parse_llama4
from specroof.parsers.mimo_v2 import parse_mimo_v2
from specroof.parsers.minimax_m1 import parse_minimax_m1
from specroof.parsers.minimax_m2 import parse_minimax_m2
from specroof.parsers.minimax_m3 import parse_minimax_m3
from specroof.parsers.mistral import parse_ministral, parse_ministral3, parse_mistral
from specroof.parsers.mixtral import parse_mixtral
from specroof.parsers.model_config import ModelConfig, open_config
from specroof.parsers.nemotron_h import parse_nemotron_h
from specroof.parsers.nemotron_nas import parse_nemotron_nas
from specroof.parsers.opt import parse_opt
from specroof.parsers.phi3 import parse_phi3
from specroof.parsers.qwen2_moe import parse_qwen2_moe
from specroof.parsers.qwen3_moe import parse_qwen3_moe
from specroof.parsers.qwen3_next import parse_qwen3_5, parse_qwen3_5_moe, parse_qwen3_next
from specroof.parsers.reader import read_json
from specroof.parsers.step3p5 import parse_step3p5

__all__ = ["PARSERS", "parse_config"]

#: Family parsers by `model_type`; of a multimodal file, by the one inside `text_config`.
PARSERS: Final[dict[str, Callable[[ModelConfig], Architecture]]] = {
    "deepseek_ref": parse_deepseek_v4_converted,
    "deepseek_v2": parse_deepseek_v2,
    "deepseek_v3": parse_deepseek_v3,
    "deepseek_v32": parse_deepseek_v32,
    "deepseek_v4": parse_deepseek_v4,
    "falcon_h1": parse_falcon_h1,
    "gemma2": parse_gemma2,
    "gemma3": parse_gemma3,
    "gemma3_text": parse_gemma3,
    "gemma4": parse_gemma4,
    "gemma4_text": parse_gemma4,
    "gemma4_unified": parse_gemma4_unified,
    "gemma4_unified_text": parse_gemma4_unified,
    "glm4_moe": parse_glm4_moe,
    "glm4_moe_lite": parse_glm4_moe_lite,
    "glm4v_moe": parse_glm4v_moe,
    "glm4v_moe_text": parse_glm4v_moe,
    "glm_moe_dsa": parse_glm_moe_dsa,
    "gpt_oss": parse_gpt_oss,
    "granitemoehybrid": parse_granitemoehybrid,
    "kimi_k2": parse_deepseek_v3,
    "kimi_k25": parse_deepseek_v3,
    "kimi_k3": parse_kimi_linear,
    "kimi_linear": parse_kimi_linear,
    "llama": parse_llama,
    "llama4": parse_llama4,
    "llama4_text": parse_llama4,
    "mimo": parse_qwen2,
    "mimo_v2": parse_mimo_v2,
    "mimo_v2_flash": parse_mimo_v2,
    "minimax": parse_minimax_m1,
    "minimax_m1": parse_minimax_m1,
    "minimax_m2": parse_minimax_m2,
    "minimax_m3": parse_minimax_m3,
    "minimax_m3_vl": parse_minimax_m3,
    "minimax_m3_vl_text": parse_minimax_m3,
    "minimax_text_01": parse_minimax_m1,
    "ministral": parse_ministral,
    "ministral3": parse_ministral3,
    "mistral": parse_mistral,
    "mistral3": parse_mistral,
    "mistral4": parse_mistral_latent,
    "mistral_large3": parse_mistral_latent,
    "mixtral": parse_mixtral,
    "nemotron-nas": parse_nemotron_nas,
    "nemotron_h": parse_nemotron_h,
    "opt": parse_opt,
    "phi3": parse_phi3,
    "qwen2": parse_qwen2,
    "qwen2_moe": parse_qwen2_moe,
    "qwen3": parse_qwen3,
    "qwen3_5": parse_qwen3_5,
    "qwen3_5_moe": parse_qwen3_5_moe,
    "qwen3_5_moe_text": parse_qwen3_5_moe,
    "qwen3_5_text": parse_qwen3_5,
    "qwen3_moe": parse_qwen3_moe,
    "qwen3_next": parse_qwen3_next,
    "qwen3_vl": parse_qwen3,
    "qwen3_vl_moe": parse_qwen3_moe,
    "qwen3_vl_moe_text": parse_qwen3_moe,
    "qwen3_vl_text": parse_qwen3,
    "step3p5": parse_step3p5,
    "step3p7": parse_step3p5,
}


def parse_config(
    text: str,
    *,
    source: str,
    name: str | None = None,
    family: str | None = None,
    quantization_text: str | None = None,
) -> Architecture:
    """Return the model that a `config.json` describes.

    Parameters
    ----------
    text
        The whole file.
    source
        What messages call it; its stem is the model's name where no `name` is given.
    name
        What outputs call the model.
    family
        A `model_type` to read the config as, whatever it says itself.
    quantization_text
        The `hf_quant_config.json` beside it.

    Raises
    ------
    ConfigError
        If the config cannot be read, is of no known family, lacks a key that determines cost, or
        has a value that describes no model.
    OptionError
        If `family` is unknown.

    Examples
    --------
    >>> sizes = '"hidden_size": 64, "intermediate_size": 128, "vocab_size": 1000'
    >>> shape = '"num_hidden_layers": 2, "num_attention_heads": 4'
    >>> text = '{"model_type": "llama", ' + sizes + ", " + shape + "}"
    >>> model = parse_config(text, source="tiny.json")
    >>> model.name, model.n_layers, model.layers[0].count
    ('tiny', 2, 2)
    """
    if family is not None and family not in PARSERS:
        message = f"family is {family!r}; allowed: {', '.join(sorted(PARSERS))}"
        raise OptionError(message)
    sidecar = None
    if quantization_text is not None:
        sidecar = read_json(quantization_text, source=f"hf_quant_config.json of {source}")
    config = open_config(
        read_json(text, source=source), known=PARSERS, name=name, family=family, sidecar=sidecar
    )
    return PARSERS[config.family](config)
