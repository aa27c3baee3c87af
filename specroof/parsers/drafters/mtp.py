"""Draft layers that a target's own checkpoint holds: multi-token prediction.

A draft layer is one of the model's own kind, so its family's parser reads it: from the same
config, with the draft layer in the place of the model's layers.

Source
    DeepSeek-V3 report, arXiv:2412.19437, section 2.2; vLLM ``deepseek_mtp.py``,
    ``qwen3_next_mtp.py``, ``glm4_moe_mtp.py``, ``mimo_mtp.py``; MiMo-V2-Flash report; the tensors
    of the published checkpoints.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from specroof.architecture import (
    Architecture,
    DraftHead,
    WeightFormat,
    draft_model,
    replicated,
    with_first,
)
from specroof.parsers import PARSERS, parse_family
from specroof.parsers.drafters.config import DraftConfig
from specroof.parsers.formats.quantization import Quantization
from specroof.parsers.model_config import ModelConfig, open_config
from specroof.reading.json_object import MAX_LAYERS, Reader

#: From the keys of a target to those that describe its draft layer.
_Changes: TypeAlias = Callable[[Reader], dict[str, object]]
_COUNT_KEYS: Final = ("num_nextn_predict_layers", "mtp_num_hidden_layers", "num_mtp_modules")
#: Families whose checkpoints hold one draft layer that no key mentions.
_UNMENTIONED: Final = ("qwen3_next",)


@dataclass(frozen=True, slots=True, eq=False)
class _DraftQuantization(Quantization):
    """The formats of the draft layer, which lists name by its number or as ``mtp``.

    Parameters
    ----------
    stored_layer
        Its number in the checkpoint, behind the last layer.
    """

    stored_layer: int = 0

    def weight_format(self, layer: int | None, *names: str) -> WeightFormat:
        """Return the format of a matrix."""
        if layer is None:
            return Quantization.weight_format(self, None, *names)
        for rule in self.rules:
            listed = any(rule.ignored.match(None, f"mtp.layers.0.{name}") for name in names)
            if rule.covers(self.stored_layer, *names) and not listed:
                return rule.form
        return self.plain


def parse_mtp(config: DraftConfig) -> DraftHead:
    """Return the multi-token-prediction layer of a target, from the target's config.

    Counts
        a merge of embedding and hidden state, unquantised, before one layer of the model's kind.
        Several modules have separate layers and make one draft each.
    """
    model = open_target(config)
    if model.family not in _CHANGES:
        typed = model.keys if model.keys.has("model_type") else model.root
        typed.refuse("model_type", f"one whose draft layers are known: {', '.join(_CHANGES)}")
    modules = _modules(model)
    drafted = draft_layers(model, _CHANGES[model.family](model.keys))
    size = drafted.hidden_size
    merge = replicated("eh_proj", 2 * size, size, model.quantization.plain)
    layers = with_first(drafted.layers, [merge])
    # one norm each for embedding, hidden state and output
    draft = draft_model(f"{config.name} MTP", "mtp", size, layers, vector_params=3 * size)
    draft = replace(draft, activation_dtype=drafted.activation_dtype, kv_dtype=drafted.kv_dtype)
    return DraftHead("mtp", draft, target_size=size, modules=modules)


def open_target(config: DraftConfig) -> ModelConfig:
    """Return a drafter's config opened as a model's config."""
    return open_config(
        config.root, known=PARSERS, name=config.name, family=None, sidecar=config.sidecar
    )


def draft_layers(model: ModelConfig, changes: Mapping[str, object]) -> Architecture:
    """Return the model that has the draft layers only: the config with `changes` to its keys."""
    stored = model.keys.positive_int("num_hidden_layers", maximum=MAX_LAYERS, default=MAX_LAYERS)
    quantization = model.quantization
    changed = replace(
        model,
        keys=replace(model.keys, values={**model.keys.values, **changes}),
        quantization=_DraftQuantization(
            quantization.plain, quantization.rules, quantization.kv_dtype, stored
        ),
    )
    return parse_family(changed)


def _modules(model: ModelConfig) -> int:
    """Return how many draft layers the checkpoint has."""
    keys = model.keys
    key = next((key for key in _COUNT_KEYS if key in keys.values), _COUNT_KEYS[0])
    default = 1 if model.family in _UNMENTIONED else None
    return keys.positive_int(key, maximum=MAX_LAYERS, default=default)


def _listed_blocks(keys: Reader) -> dict[str, object]:
    """Return the blocks of Nemotron's draft layer, which the config spells out."""
    for key, own in (
        ("hybrid_override_pattern", "mtp_hybrid_override_pattern"),
        ("layers_block_type", "mtp_layers_block_type"),
    ):
        if keys.has(own):
            blocks = keys.values[own]
            others = {"hybrid_override_pattern": None, "layers_block_type": None}
            return {**others, "num_hidden_layers": None, key: blocks}
    return keys.refuse("mtp_hybrid_override_pattern", "the blocks of the draft layer")


def _one_layer(**lists: object) -> _Changes:
    """Return the changes to one layer, whatever the config; None where no list is to be read."""
    return lambda _keys: {"num_hidden_layers": 1, **lists}


def _latent_listed(keys: Reader) -> dict[str, object]:
    lists = {"indexer_types": ["full"], "mlp_layer_types": ["sparse"], "index_topk_pattern": "F"}
    return {**_LATENT(keys), **{key: value for key, value in lists.items() if keys.has(key)}}


_LATENT: Final = _one_layer(first_k_dense_replace=0, moe_layer_freq=1)
_FULL_ATTENTION: Final = _one_layer(layer_types=["full_attention"], mlp_only_layers=[])
# `hybrid_layer_pattern` and `moe_layer_freq` go before the lists that transformers saves.
_WINDOW_AND_DENSE: Final = _one_layer(hybrid_layer_pattern=[1], moe_layer_freq=[0])
# The lists that transformers saves describe the model's layers, and would go first.
_WINDOW_AND_EXPERTS: Final = _one_layer(
    layer_types=None, mlp_layer_types=None, compress_ratios=[0], num_hash_layers=0
)
#: For each family, the keys that describe its draft layer in the place of the model's layers.
_CHANGES: Final[dict[str, _Changes]] = {
    "deepseek_v3": _LATENT,
    "deepseek_v32": _latent_listed,
    "deepseek_v4": _WINDOW_AND_EXPERTS,
    "glm4_moe": _LATENT,
    "glm4_moe_lite": _latent_listed,
    "glm_moe_dsa": _latent_listed,
    "kimi_k2": _LATENT,
    "mimo": _one_layer(),
    "mimo_v2": _WINDOW_AND_DENSE,
    "mimo_v2_flash": _WINDOW_AND_DENSE,
    "minimax_m2": _one_layer(attn_type_list=[1]),
    "nemotron_h": _listed_blocks,
    "qwen3_5": _FULL_ATTENTION,
    "qwen3_5_moe": _FULL_ATTENTION,
    "qwen3_5_moe_text": _FULL_ATTENTION,
    "qwen3_5_text": _FULL_ATTENTION,
    "qwen3_next": _FULL_ATTENTION,
}
