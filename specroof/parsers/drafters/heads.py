"""Configs of drafters that go token by token: EAGLE, EAGLE-3, P-EAGLE, Medusa, PARD, Gemma.

Source
    SafeAILab/EAGLE ``model/cnets*.py``; vLLM ``llama_eagle*.py`` and ``medusa.py``; speculators
    ``eagle3``; AMD-AGI/PARD; transformers 5, `models/gemma4_assistant/`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from specroof.architecture.base import WeightFormat
from specroof.architecture.draft_heads import (
    DraftHead,
    MedusaHeads,
    draft_model,
    eagle3_head,
    eagle_head,
    replicated,
    with_first,
)
from specroof.architecture.model import (
    Architecture,
    AttentionShape,
    Block,
    Layer,
    gated_pair,
    grouped_query_block,
    stack_layers,
)
from specroof.parsers import PARSERS, parse_family
from specroof.parsers.decoder import extended, head_counts, shared_cache_block, sliding_layers
from specroof.parsers.drafters.config import DraftConfig, layer_shapes
from specroof.parsers.formats import Quantization
from specroof.parsers.model_config import ModelConfig, open_config
from specroof.reading.json_text import MAX_LAYERS, Reader

# --- Draft layers that a target's own checkpoint holds: multi-token prediction -------------------
# A draft layer is one of the model's own kind, so its family's parser reads it: from the same
# config, with the draft layer in the place of the model's layers.
#
# Source
#     DeepSeek-V3 report, arXiv:2412.19437, section 2.2; vLLM ``deepseek_mtp.py``,
#     ``qwen3_next_mtp.py``, ``glm4_moe_mtp.py``, ``mimo_mtp.py``; MiMo-V2-Flash report; the tensors
#     of the published checkpoints.

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
    key = next((key for key in _COUNT_KEYS if key in model.keys.values), _COUNT_KEYS[0])
    default = 1 if model.family in _UNMENTIONED else None
    modules = model.keys.positive_int(key, maximum=MAX_LAYERS, default=default)
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
    **dict.fromkeys(
        ("glm5_next", "glm5_next_text"),
        _one_layer(
            layer_types=["indexed_attention"],
            mlp_layer_types=["sparse"],
            indexer_types=["full"],
            mhc=False,
        ),
    ),
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


_MOST_HEADS: Final = 64


def parse_eagle(config: DraftConfig) -> DraftHead:
    """Return an EAGLE-1 or -2 head: published files look like a Llama of one layer."""
    shapes = layer_shapes(config, qk_norm=False)
    if len(shapes) != 1:
        config.keys.refuse("num_hidden_layers", "1, as EAGLE heads have")
    return eagle_head(shapes[0], name=config.name)


def parse_eagle3(config: DraftConfig, kind: str = "eagle3") -> DraftHead:
    """Return an EAGLE-3 head, or one with several layers that makes all drafts at once: P-EAGLE."""
    shapes = layer_shapes(config, qk_norm=False)
    if len(set(shapes)) > 1:
        config.keys.refuse("layer_types", "one kind of attention for all layers")
    vocab_size = config.keys.positive_int("vocab_size")
    # nebius calls it truncated; where both are missing or null the head has all tokens.
    place = next(
        (
            reader
            for reader in (config.root, config.keys)
            if reader.has("draft_vocab_size") or reader.has("truncated_vocab_size")
        ),
        config.root,
    )
    drafted = place.positive_int(
        "draft_vocab_size", "truncated_vocab_size", maximum=vocab_size, default=vocab_size
    )
    return eagle3_head(
        shapes[0],
        name=config.name,
        vocab_size=drafted,
        kind=kind,
        n_layers=len(shapes),
        taps=_taps(config),
        target_size=config.root.positive_int("target_hidden_size", default=shapes[0].hidden_size),
    )


def _taps(config: DraftConfig) -> int:
    """Return how many hidden states of the target are merged; three by default in engines."""
    settings = config.setting("eagle_aux_hidden_state_layer_ids")
    if not config.settings.flag("use_aux_hidden_state", default=True):
        config.settings.refuse("use_aux_hidden_state", "true: without it the head is not EAGLE-3")
    return len(settings.ints("eagle_aux_hidden_state_layer_ids")) or 3


def parse_medusa(config: DraftConfig) -> MedusaHeads:
    """Return Medusa heads; the widths are the target's, which most files do not repeat."""
    root = config.root
    return MedusaHeads(
        config.name,
        n_heads=root.positive_int("medusa_num_heads", "num_heads", maximum=_MOST_HEADS),
        n_layers=root.positive_int(
            "medusa_num_layers", "num_hidden_layers", minimum=0, maximum=_MOST_HEADS
        ),
        vocab_size=root.positive_int("truncated_vocab_size", "vocab_size")
        if root.has("truncated_vocab_size") or root.has("vocab_size")
        else None,
        target_size=root.positive_int("hidden_size") if root.has("hidden_size") else None,
    )


def parse_pard(config: DraftConfig) -> DraftHead:
    """Return a PARD drafter: a small model, in PARD-2 with a projection of target features."""
    root, model = config.root, parse_family(open_target(config))
    head = DraftHead("pard", model, vocab_size=model.vocab_size)
    if not root.has("pard2_target_dim"):
        return head
    taken = root.positive_int("pard2_target_dim")
    taps = len(root.ints("pard2_target_layers", minimum=-_MOST_HEADS)) or 1
    if taken % taps:
        root.refuse("pard2_target_dim", f"a multiple of the {taps} pard2_target_layers")
    projection = replicated("target_proj", taken, model.hidden_size, config.plain)
    biased = replace(projection, bias=root.flag("pard2_proj_bias", default=False))
    return replace(head, fusion=(biased,), taps=taps, target_size=taken // taps)


def parse_assistant(config: DraftConfig) -> DraftHead:
    """Return a Gemma 4 assistant: layers without keys and values, which read the target's cache.

    Counts
        a projection of embedding and hidden state before the layers, one back to the target's
        width behind them; with ordered embeddings the centroids and the rows of the best clusters
        in the place of the whole head. The table is stored whole.
    Source
        transformers 5, `models/gemma4_assistant/modeling_gemma4_assistant.py`.
    """
    keys, root = config.keys, config.root
    size, backbone = keys.positive_int("hidden_size"), root.positive_int("backbone_hidden_size")
    vocab_size = keys.positive_int("vocab_size")
    first = replicated("pre_projection", 2 * backbone, size, config.plain)
    layers = with_first(stack_layers(_assistant_layers(config)), [first])
    last = replicated("post_projection", size, backbone, config.plain)
    layers = (*layers, Layer((Block("feed_forward", (last,), joins_next=True),)))
    rows = _assistant_rows(root, vocab_size)
    centroids = rows[0] * size
    model = draft_model(
        config.name,
        "assistant",
        size,
        layers,
        head_rows=sum(rows),
        weight=config.plain,
        # The head counts its rows; the table has all of them.
        lookup_params=vocab_size * size + centroids - sum(rows) * size,
        dtype=config.activation_dtype,
    )
    return DraftHead("mtp", model, target_size=backbone, vocab_size=vocab_size, rereads=False)


def _assistant_rows(root: Reader, vocab_size: int) -> tuple[int, int]:
    """Return the rows of the head: centroids, and tokens that are scored."""
    if not root.flag("use_ordered_embeddings", default=False):
        return 0, vocab_size
    centroids = root.divisor("num_centroids", of=vocab_size, called="vocab_size")
    best = root.positive_int("centroid_intermediate_top_k", maximum=centroids)
    return centroids, best * (vocab_size // centroids)


def _assistant_layers(config: DraftConfig) -> list[Layer]:
    keys, weight = config.keys, config.weight
    slides = sliding_layers(keys, config.n_layers)
    if not slides:
        keys.refuse("layer_types", "a list of full_attention and sliding_attention")
    heads = head_counts(keys)
    head_dim = keys.positive_int("head_dim", default=256)  # configuration_gemma4.py
    full_dim = keys.positive_int("global_head_dim", default=512)
    window = keys.positive_int("sliding_window", default=512)
    size, width = keys.positive_int("hidden_size"), keys.positive_int("intermediate_size")
    full = AttentionShape(size, *heads, full_dim, qk_norm=True)
    sliding = replace(full, head_dim=head_dim, window=window)

    def layer(shape: AttentionShape) -> Layer:
        attention = shared_cache_block(shape, grouped_query_block(shape, lambda _: weight))
        pair = gated_pair(size, width, weight, weight)
        # a second norm behind attention; and behind the feed-forward, with a scale of the layer
        feed_forward = Block("feed_forward", pair, vector_params=2 * size + 1)
        return Layer((extended(attention, n_params=size), feed_forward))

    return [layer(sliding if is_sliding else full) for is_sliding in slides]
