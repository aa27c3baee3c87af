"""Configs of drafters that go token by token: EAGLE, EAGLE-3, P-EAGLE, Medusa, PARD, Gemma.

Source
    SafeAILab/EAGLE ``model/cnets*.py``; vLLM ``llama_eagle*.py`` and ``medusa.py``; speculators
    ``eagle3``; AMD-AGI/PARD; transformers 5, `models/gemma4_assistant/`.
"""

from dataclasses import replace
from typing import Final

from specroof.architecture import (
    HEADS,
    Block,
    DraftHead,
    GroupedQueryAttention,
    Layer,
    Linear,
    MedusaHeads,
    SharedCacheAttention,
    draft_model,
    eagle3_head,
    eagle_head,
    gated_pair,
    replicated,
    stack_layers,
    with_first,
)
from specroof.parsers import parse_family
from specroof.parsers.drafters.config import DraftConfig, layer_shapes
from specroof.parsers.drafters.mtp import open_target
from specroof.parsers.layer_lists import sliding_layers
from specroof.parsers.sizes import head_counts
from specroof.reading.json_object import Reader

_MOST_HEADS: Final = 64


def parse_eagle(config: DraftConfig) -> DraftHead:
    """Return an EAGLE-1 or -2 head: published files look like a Llama of one layer."""
    shapes = layer_shapes(config, qk_norm=False)
    if len(shapes) != 1:
        config.keys.refuse("num_hidden_layers", "1, as EAGLE heads have")
    return eagle_head(shapes[0], name=config.name)


def parse_eagle3(config: DraftConfig) -> DraftHead:
    """Return an EAGLE-3 head."""
    return _eagle3(config, "eagle3")


def parse_p_eagle(config: DraftConfig) -> DraftHead:
    """Return a P-EAGLE head: EAGLE-3 with several layers that makes all drafts at once."""
    return _eagle3(config, "p_eagle")


def _eagle3(config: DraftConfig, kind: str) -> DraftHead:
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
        dtype=config.dtype,
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
    keys = config.keys
    slides = sliding_layers(keys, config.n_layers)
    if not slides:
        keys.refuse("layer_types", "a list of full_attention and sliding_attention")
    heads = head_counts(keys)
    head_dim = keys.positive_int("head_dim", default=256)  # configuration_gemma4.py
    full_dim = keys.positive_int("global_head_dim", default=512)
    window = keys.positive_int("sliding_window", default=512)
    sliding = GroupedQueryAttention(*heads, head_dim, head_dim, window)
    full = GroupedQueryAttention(*heads, full_dim, full_dim)
    return [_assistant_layer(sliding if is_sliding else full, config) for is_sliding in slides]


def _assistant_layer(core: GroupedQueryAttention, config: DraftConfig) -> Layer:
    keys, weight = config.keys, config.weight
    size, width = keys.positive_int("hidden_size"), keys.positive_int("intermediate_size")
    queries = core.n_heads * core.head_dim
    attention = Block(
        "attention",
        (
            Linear("q_proj", size, queries, weight, HEADS),
            Linear("o_proj", queries, size, weight, HEADS),
        ),
        SharedCacheAttention(core),
        # norms before and after, and of a query head
        vector_params=2 * size + core.head_dim,
    )
    pair = gated_pair(size, width, weight, weight)
    return Layer((attention, Block("feed_forward", pair, vector_params=2 * size + 1)))
