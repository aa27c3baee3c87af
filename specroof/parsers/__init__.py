"""`config.json` to `Architecture`: the one room that knows Hugging Face's names of keys.

A family is a row of `TRAITS`, or one file with one function and one row of `PARSERS`.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from difflib import SequenceMatcher
from functools import partial
from importlib import import_module
from typing import Final, NoReturn

from specroof.architecture import Architecture
from specroof.errors import ConfigError, expect_word
from specroof.parsers.model_config import (
    MAX_KEYS,
    ModelConfig,
    open_config,
    parse_foreign,
    sidecar_notes,
    typed_section,
    unread_keys,
)
from specroof.parsers.traits import TRAITS
from specroof.reading.json_text import AskedObject, Reader, printable, read_json, read_whole

#: Family parsers by `model_type`, as the file and its function; of a multimodal file, by the type
#: inside `text_config`. Rows of `TRAITS` share one.
PARSERS: Final = {
    **dict.fromkeys(TRAITS, "usual:parse_usual"),
    "bailing_hybrid": "bailing_hybrid:parse_bailing_hybrid",
    "deepseek_ref": "deepseek_v4:parse_deepseek_v4_converted",
    "deepseek_v2": "deepseek_v3:parse_deepseek_v2",
    "deepseek_v3": "deepseek_v3:parse_deepseek_v3",
    "deepseek_v32": "deepseek_v3:parse_deepseek_v32",
    "deepseek_v4": "deepseek_v4:parse_deepseek_v4",
    "falcon": "falcon:parse_falcon",
    "falcon_h1": "falcon_h1:parse_falcon_h1",
    "gemma3n": "gemma3n:parse_gemma3n",
    "gemma3n_text": "gemma3n:parse_gemma3n",
    "gemma4": "gemma4:parse_gemma4",
    "gemma4_text": "gemma4:parse_gemma4",
    "gemma4_unified": "gemma4:parse_gemma4_unified",
    "gemma4_unified_text": "gemma4:parse_gemma4_unified",
    "glm4_moe_lite": "glm:parse_glm4_moe_lite",
    "glm_moe_dsa": "glm:parse_glm_moe_dsa",
    "granitemoehybrid": "granite:parse_granitemoehybrid",
    "hy_v4": "hy_v4:parse_hy_v4",
    "inkling_mm_model": "inkling:parse_inkling",
    "inkling_model": "inkling:parse_inkling",
    "inkling_text": "inkling:parse_inkling",
    "kimi_k2": "deepseek_v3:parse_deepseek_v3",
    "kimi_k25": "deepseek_v3:parse_deepseek_v3",
    "kimi_k3": "kimi_linear:parse_kimi_linear",
    "kimi_linear": "kimi_linear:parse_kimi_linear",
    "lfm2": "lfm2:parse_lfm2",
    "lfm2_moe": "lfm2:parse_lfm2_moe",
    "lfm3": "lfm2:parse_lfm3",
    "llama4": "llama4:parse_llama4",
    "llama4_text": "llama4:parse_llama4",
    "longcat_flash": "longcat_flash:parse_longcat_flash",
    "mimo_v2": "mimo_v2:parse_mimo_v2",
    "mimo_v2_flash": "mimo_v2:parse_mimo_v2",
    "minicpm3": "minicpm3:parse_minicpm3",
    "minimax": "minimax:parse_minimax_m1",
    "minimax_m1": "minimax:parse_minimax_m1",
    "minimax_m2": "minimax:parse_minimax_m2",
    "minimax_m3": "minimax_m3:parse_minimax_m3",
    "minimax_m3_vl": "minimax_m3:parse_minimax_m3",
    "minimax_m3_vl_text": "minimax_m3:parse_minimax_m3",
    "minimax_text_01": "minimax:parse_minimax_m1",
    "mistral4": "deepseek_v3:parse_mistral_latent",
    "mistral_large3": "deepseek_v3:parse_mistral_latent",
    "nemotron-nas": "nemotron_nas:parse_nemotron_nas",
    "nemotron_h": "nemotron_h:parse_nemotron_h",
    "opt": "opt:parse_opt",
    "qwen3_5": "qwen3_next:parse_qwen3_5",
    "qwen3_5_moe": "qwen3_next:parse_qwen3_5_moe",
    "qwen3_5_moe_text": "qwen3_next:parse_qwen3_5_moe",
    "qwen3_5_text": "qwen3_next:parse_qwen3_5",
    "qwen3_next": "qwen3_next:parse_qwen3_next",
    "qwen4_exp": "qwen4_exp:parse_qwen4_exp",
    "qwen4_exp_text": "qwen4_exp:parse_qwen4_exp",
    "step3p5": "step3p5:parse_step3p5",
    "step3p7": "step3p5:parse_step3p5",
    "youtu": "minicpm3:parse_youtu",
}


def parse_family(config: ModelConfig) -> Architecture:
    """Return the model of an opened config, from the parser of its family.

    A family's file is imported when the first model needs it: a model is of one family, and a cold
    start is felt.
    """
    file, function = PARSERS[config.family].split(":")
    module = import_module(f"{__name__}.families.{file}")
    parse: Callable[[ModelConfig], Architecture] = getattr(module, function)
    return parse(config)


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
        A `model_type` to read the config as, whatever it says itself. Where it says another one,
        it takes no default of the family: it states all sizes, its ties and its activation.
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
    if family is not None:
        expect_word("family", family, sorted(PARSERS))
    sidecar = None
    if quantization_text is not None:
        sidecar = read_json(quantization_text, source=f"hf_quant_config.json of {source}")
    root = read_json(text, source=source)

    def read() -> tuple[ModelConfig, Callable[[ModelConfig], Architecture], Architecture]:
        typed = typed_section(root)
        if family is None and typed.text("model_type", default="") not in PARSERS:
            _refuse_unknown_type(typed, root)
        config = open_config(root, known=PARSERS, name=name, family=family, sidecar=sidecar)
        parse = partial(parse_foreign, parse=parse_family) if config.is_foreign else parse_family
        return config, parse, parse(config)

    config, parse, model = read_whole(read)
    unread = list(unread_keys(config.keys.values))
    if "per_layer_config" in unread:
        config.keys.refuse("per_layer_config", "none: layers of this family are alike")
    if unread:
        shown = ", ".join(printable(key) for key in unread[:MAX_KEYS])
        more = f" and {len(unread) - MAX_KEYS} more" if len(unread) > MAX_KEYS else ""
        note = f"not understood, and may change what the model costs: {shown}{more}"
        model = replace(model, notes=(*model.notes, note))
    if sidecar is None or not config.states_quantization:
        return model
    notes = sidecar_notes(config, model, sidecar, parse)
    return replace(model, notes=(*model.notes, *notes))


# --- An unknown `model_type`: which family its keys fit ------------------------------------------

#: Families that others are named after, so that they are preferred among equals.
_PLAIN: Final = ("deepseek_v3", "llama", "mistral", "mixtral", "qwen3_moe")
#: From how alike on two names are taken for relatives: qwen4_moe and qwen3_moe are at 0.89.
_ALIKE: Final = 0.6
#: Objects in objects that any parser reads; files of strangers may be nested deeper.
_DEPTH: Final = 4


def _refuse_unknown_type(typed: Reader, root: Reader) -> NoReturn:
    """Refuse a config of a `model_type` without a parser, and say which family its keys fit.

    Parameters
    ----------
    typed
        The part of the file that says its `model_type`.
    root
        The whole file.
    """
    fit = _fitting_family(root, typed.text("model_type", default=""))
    advice = "and none fits its keys"
    if fit is not None:
        family, unstated = fit
        missing = f" once it states {', '.join(unstated)}" if unstated else ""
        advice = f"or --family: its keys fit {family}{missing}, try --family {family}"
    typed.refuse("model_type", f"one of {len(PARSERS)} known types, {advice}")


def _fitting_family(root: Reader, stated: str) -> tuple[str, tuple[str, ...]] | None:
    """Return a family that reads all keys of a config, and what the config should state besides.

    First goes a family whose name is like the `stated` one, then plain ones, then what needs the
    fewest keys besides, then the one that has read more keys. None where none reads all keys.
    """
    ranks = {}
    for family in PARSERS:
        fresh = Reader(root.source, _unasked(root.values))
        unstated: dict[str, None] = {}
        try:
            config = open_config(fresh, known=PARSERS, name=None, family=family, sidecar=None)
            parse_foreign(config, parse_family, unstated)
        except ConfigError:
            continue
        alike = SequenceMatcher(None, stated[:80], family).ratio()
        ranks[family] = (
            -alike if alike >= _ALIKE else 0.0,
            family not in _PLAIN,
            len(unstated),
            -_n_read(config.keys.values),
            len(family),
            family,
            tuple(unstated),
        )
    if not ranks:
        return None
    family = min(ranks, key=lambda family: ranks[family])
    return family, ranks[family][-1]


def _unasked(values: Mapping[str, object], depth: int = _DEPTH) -> AskedObject:
    """Return a copy without read marks; how weights are stored fits no family."""
    return AskedObject(
        (key, _unasked(value, depth - 1) if depth and isinstance(value, dict) else value)
        for key, value in values.items()
        if key != "quantization_config"
    )


def _n_read(values: Mapping[str, object]) -> int:
    return len(values.keys() & values.asked) if isinstance(values, AskedObject) else 0
