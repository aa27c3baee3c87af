"""Configs of drafters to `DraftHead`: what kind a file is, and who reads it.

Source
    The config classes of vllm-project/speculators, SafeAILab/EAGLE, sgl-project/SpecForge,
    z-lab/dflash, deepseek-ai/DeepSpec, FasterDecoding/Medusa and AMD-AGI/PARD, and published
    files of each.
"""

from collections.abc import Callable
from functools import partial
from typing import Final

from specroof.architecture.draft_heads import DraftHead, MedusaHeads
from specroof.errors import expect_word
from specroof.parsers.drafters.blocks import (
    parse_dflash,
    parse_dflash2,
    parse_dspark,
    parse_v4_dspark,
)
from specroof.parsers.drafters.config import DraftConfig, open_draft_config
from specroof.parsers.drafters.heads import (
    parse_assistant,
    parse_eagle,
    parse_eagle3,
    parse_medusa,
    parse_mtp,
    parse_pard,
)
from specroof.reading.json_text import read_json, read_whole

_Parser = Callable[[DraftConfig], DraftHead | MedusaHeads]

#: For each kind of a SPEC, the forms of file that describe one, and their parsers.
DRAFTER_KINDS: Final[dict[str, dict[str, _Parser]]] = {
    "mtp": {"target": parse_mtp, "assistant": parse_assistant},
    "eagle": {"eagle": parse_eagle, "plain": parse_eagle},
    "eagle3": {"eagle3": parse_eagle3},
    "medusa": {"medusa": parse_medusa},
    "dflash": {"dflash": parse_dflash, "dflash2": parse_dflash2},
    "dspark": {"dspark": parse_dspark, "v4_dspark": parse_v4_dspark},
    "p_eagle": dict.fromkeys(("p_eagle", "eagle3"), partial(parse_eagle3, kind="p_eagle")),
    "pard": {"plain": parse_pard, "target": parse_pard},
}

#: What `architectures` says.
_ARCHITECTURES: Final = {
    "DFlash2DraftModel": "dflash2",
    "DFlashDraftModel": "dflash",
    "DSparkDraftModel": "dspark",
    "Eagle3DraftModel": "eagle3",
    "Eagle3LlamaForCausalLM": "eagle3",
    "EagleLlamaForCausalLM": "eagle",
    "Gemma4AssistantForCausalLM": "assistant",
    "Gemma4DSparkModel": "dspark",
    "LlamaForCausalLMEagle3": "eagle3",
    "PEagleDraftModel": "p_eagle",
    "Qwen3DSparkModel": "dspark",
}
#: What `speculators_model_type` says.
_SPECULATORS: Final = {
    "dflash": "dflash",
    "dspark": "dspark",
    "eagle": "eagle",
    "eagle3": "eagle3",
    "p_eagle": "p_eagle",
    "peagle": "p_eagle",
}
#: Drafters that no parser reads, whatever their files look like.
_UNKNOWN: Final = ("DominoDraftModel",)
#: Keys that only one form of file has.
_MARKS: Final = (
    ("medusa_num_heads", "medusa"),
    ("dspark_block_size", "v4_dspark"),
    ("dflash_config", "dflash"),
    ("eagle_config", "eagle3"),
    ("draft_vocab_size", "eagle3"),
    ("truncated_vocab_size", "eagle3"),
    ("pard_token", "plain"),
)


def parse_drafter_config(
    text: str,
    *,
    source: str,
    kind: str,
    name: str | None = None,
    quantization_text: str | None = None,
) -> DraftHead | MedusaHeads:
    """Return the drafter that a config describes.

    Parameters
    ----------
    text
        The whole file: a drafter's config, or for ``mtp`` and ``dspark`` the config of a target
        whose checkpoint holds its own draft layers.
    source
        What messages call it; its stem is the drafter's name where no `name` is given.
    kind
        What a SPEC calls the drafter.
    name
        What outputs call it.
    quantization_text
        The `hf_quant_config.json` beside it.

    Raises
    ------
    ConfigError
        If the file cannot be read, is of another kind, lacks a key that determines cost, or has a
        value that describes no drafter.
    OptionError
        If `kind` has no config.

    Examples
    --------
    >>> layer = '"hidden_size": 64, "intermediate_size": 128, "num_attention_heads": 4'
    >>> vocab = '"vocab_size": 1000, "draft_vocab_size": 100, "num_hidden_layers": 1'
    >>> text = '{"architectures": ["LlamaForCausalLMEagle3"], ' + layer + ", " + vocab + "}"
    >>> head = parse_drafter_config(text, source="tiny.json", kind="eagle3")
    >>> head.name, head.vocab_size, head.taps
    ('tiny', 100, 3)
    """
    expect_word("kind", kind, DRAFTER_KINDS)
    sidecar = None
    if quantization_text is not None:
        sidecar = read_json(quantization_text, source=f"hf_quant_config.json of {source}")
    root = read_json(text, source=source)

    def read() -> DraftHead | MedusaHeads:
        config = open_draft_config(root, name=name, sidecar=sidecar)
        parsers = DRAFTER_KINDS[kind]
        form = _form(config)
        if form not in parsers:
            key = "speculators_model_type" if "speculators_model_type" in root.values else None
            allowed = f"a config of a drafter of kind {kind}; this one is {form}"
            root.refuse(key or "architectures", allowed)
        return parsers[form](config)

    return read_whole(read)


def _form(config: DraftConfig) -> str:
    """Return what kind of file a config is: by its class, or by keys that only one form has."""
    root = config.root
    if root.has("speculators_model_type"):
        return _SPECULATORS[root.text("speculators_model_type", allowed=_SPECULATORS)]
    names = root.texts("architectures")
    if any(name in _UNKNOWN for name in names):
        root.refuse("architectures", f"one of {', '.join(_ARCHITECTURES)}", next(iter(names)))
    for name in names:
        if name in _ARCHITECTURES:
            return _ARCHITECTURES[name]
    for key, form in _MARKS:
        if root.has(key) or config.keys.has(key):
            return form
    one_layer = config.keys.values.get("num_hidden_layers") == 1
    return "plain" if one_layer else "target"
