"""`config.json` to `Architecture`: the one room that knows Hugging Face's names of keys.

A family is one file with one function, and one row of `PARSERS`.
"""

from collections.abc import Callable
from typing import Final

from specroof.architecture import Architecture
from specroof.errors import OptionError
from specroof.parsers.deepseek_v3 import parse_deepseek_v3, parse_deepseek_v32
from specroof.parsers.deepseek_v4 import parse_deepseek_v4
from specroof.parsers.gpt_oss import parse_gpt_oss
from specroof.parsers.llama import parse_llama, parse_qwen2, parse_qwen3
from specroof.parsers.mixtral import parse_mixtral
from specroof.parsers.model_config import ModelConfig, open_config
from specroof.parsers.qwen3_moe import parse_qwen3_moe
from specroof.parsers.qwen3_next import parse_qwen3_5, parse_qwen3_5_moe, parse_qwen3_next
from specroof.parsers.reader import read_json

__all__ = ["PARSERS", "parse_config"]

#: Family parsers by `model_type`; of a multimodal file, by the one inside `text_config`.
PARSERS: Final[dict[str, Callable[[ModelConfig], Architecture]]] = {
    "deepseek_v3": parse_deepseek_v3,
    "deepseek_v32": parse_deepseek_v32,
    "deepseek_v4": parse_deepseek_v4,
    "gpt_oss": parse_gpt_oss,
    "llama": parse_llama,
    "mixtral": parse_mixtral,
    "qwen2": parse_qwen2,
    "qwen3": parse_qwen3,
    "qwen3_5": parse_qwen3_5,
    "qwen3_5_moe": parse_qwen3_5_moe,
    "qwen3_5_moe_text": parse_qwen3_5_moe,
    "qwen3_5_text": parse_qwen3_5,
    "qwen3_moe": parse_qwen3_moe,
    "qwen3_next": parse_qwen3_next,
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
