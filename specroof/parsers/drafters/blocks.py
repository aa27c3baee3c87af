"""Configs of block drafters: DFlash, DFlash2, DSpark, and DSpark inside of DeepSeek-V4.

Source
    z-lab/dflash, ``model.py``; vLLM ``qwen3_dflash.py``; speculators ``dflash`` and ``dspark``;
    deepseek-ai/DeepSpec; ROCm/ATOM ``deepseek_v4_dspark.py``.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from specroof.architecture.attention import GroupedQueryAttention
from specroof.architecture.base import WeightFormat
from specroof.architecture.draft_heads import (
    DraftHead,
    block_head,
    draft_layer,
    draft_model,
    markov_step,
    replicated,
)
from specroof.architecture.latent import LatentAttention
from specroof.architecture.model import Architecture, Block, Layer, stack_layers
from specroof.parsers import parse_family
from specroof.parsers.decoder import feed_forward_block
from specroof.parsers.drafters.config import DraftConfig, layer_shapes
from specroof.parsers.drafters.heads import draft_layers, open_target
from specroof.parsers.families.latent import latent_block, latent_shape
from specroof.parsers.formats import LayerWeights

_MOST_POSITIONS: Final = 4096
_TAP_KEYS: Final = (
    "target_layer_ids",
    "aux_hidden_state_layer_ids",
    "eagle_aux_hidden_state_layer_ids",
)
_HEAD_TYPES: Final = ("vanilla", "gated", "rnn")


def parse_dflash(config: DraftConfig) -> DraftHead:
    """Return a DFlash drafter: layers that see the block both ways, the target's head."""
    return _block_head(config, "dflash", _layers(config), anchor_default=False)


def parse_dflash2(config: DraftConfig) -> DraftHead:
    """Return a DFlash2 drafter: convolutions over the block, and a selector of candidates.

    Counts
        before and behind each sublayer the matrix that makes a convolution's kernel from the
        hidden state; the selector's projection; its two tables (stored; few rows are read).
    Ignores
        the convolutions themselves (two taps), and choosing among the candidates.
    """
    settings = config.settings
    size = config.keys.positive_int("hidden_size")
    kernel = settings.positive_int("conv_kernel_size")
    group = settings.divisor("conv_group_size", of=size, called="hidden_size")
    rows = 2 * kernel * (size // group)
    base = 2 * kernel * size
    layers = [_convolved(layer, size, rows, base, config.plain) for layer in _layers(config)]
    rank = settings.positive_int("selector_rank")
    selector = replicated("selector_proj", size, rank, config.plain)
    layers.append(Layer((Block("feed_forward", (selector,), joins_next=True),)))
    tables = 2 * config.keys.positive_int("vocab_size") * rank
    head = _block_head(config, "dflash", layers, anchor_default=False)
    return replace(head, model=replace(head.model, lookup_params=tables))


def _convolved(layer: Layer, size: int, rows: int, base: int, plain: WeightFormat) -> Layer:
    """Return a layer with the kernel projections of its two convolutions."""
    blocks = tuple(
        replace(
            block,
            linears=(*block.linears, replicated(f"{name}_kernel", size, rows, plain)),
            vector_params=block.vector_params + base,
        )
        for block, name in zip(layer.blocks, ("attention_conv", "mlp_conv"), strict=True)
    )
    return Layer(blocks, layer.count)


def parse_dspark(config: DraftConfig) -> DraftHead:
    """Return a DSpark drafter: the layers of DFlash, then a Markov head for each draft."""
    layers = _gemma_layers(config) if config.keys.has("global_head_dim") else _layers(config)
    head = _block_head(config, "dspark", layers, anchor_default=True)
    return replace(head, serial=_markov(config, head.model.hidden_size))


def parse_v4_dspark(config: DraftConfig) -> DraftHead:
    """Return the DSpark drafter inside of a DeepSeek-V4 checkpoint: V4 layers with a window."""
    model = open_target(config)
    keys = model.keys
    n_layers = len(keys.ints("compress_ratios")) - model.n_layers
    if n_layers < 1:
        keys.refuse("compress_ratios", "entries for draft layers behind those of the model")
    changes = {
        "num_hidden_layers": n_layers,
        "compress_ratios": [0] * n_layers,
        "num_hash_layers": 0,
    }
    drafted = draft_layers(model, changes)
    size = drafted.hidden_size
    pass_ = draft_model(f"{config.name} DSpark", "dspark", size, drafted.layers)
    pass_ = replace(pass_, activation_dtype=drafted.activation_dtype, kv_dtype=drafted.kv_dtype)
    taps = len(keys.ints("dspark_target_layer_ids"))
    if not taps:
        keys.refuse("dspark_target_layer_ids", "a list of layers of the target")
    vocab_size = keys.positive_int("vocab_size")
    serial = markov_step(
        pass_.name,
        hidden_size=size,
        vocab_size=vocab_size,
        rank=keys.positive_int("dspark_markov_rank"),
        table_rows=vocab_size,
    )
    return block_head(
        "dspark",
        pass_,
        taps=taps,
        target_size=size,
        block=keys.positive_int("dspark_block_size", maximum=_MOST_POSITIONS),
        anchor_drafts=True,
        serial=serial,
    )


def _block_head(
    config: DraftConfig, kind: str, layers: Sequence[Layer], *, anchor_default: bool
) -> DraftHead:
    keys, root = config.keys, config.root
    size = keys.positive_int("hidden_size")
    vocab_size = keys.positive_int("vocab_size")
    drafted = root.positive_int("draft_vocab_size", maximum=vocab_size, default=vocab_size)
    own = drafted != vocab_size
    model = draft_model(
        config.name,
        kind,
        size,
        stack_layers(layers),
        # Only a smaller vocabulary comes with a separate head.
        head_rows=drafted if own else 0,
        weight=config.plain,
        dtype=config.activation_dtype,
    )
    anchors, sized = config.setting("sample_from_anchor"), config.setting("block_size")
    block = None  # engines choose it
    if sized.has("block_size"):
        block = sized.positive_int("block_size", minimum=2, maximum=_MOST_POSITIONS)
    return block_head(
        kind,
        model,
        taps=_taps(config),
        target_size=root.positive_int("target_hidden_size", default=size),
        block=block,
        anchor_drafts=anchors.flag("sample_from_anchor", default=anchor_default),
        vocab_size=drafted if own else None,
        weight=config.plain,
    )


def _taps(config: DraftConfig) -> int:
    """Return how many hidden states of the target are merged.

    Source
        z-lab/dflash, ``build_target_layer_ids``: one per draft layer where none are listed.
    """
    for key in _TAP_KEYS:
        taps = config.setting(key).ints(key)
        if taps:
            return len(taps)
    return config.n_layers


def _layers(config: DraftConfig) -> list[Layer]:
    """Return the layers of a Qwen3-like drafter, or of one with latent attention."""
    settings = config.settings
    mode = settings.text("attention_mode", allowed=("gqa", "mla"), default="gqa")
    causal = any(config.setting(key).flag(key, default=False) for key in ("is_causal", "causal"))
    if mode == "mla":
        return _latent_layers(config, causal=causal)
    return [draft_layer(shape) for shape in layer_shapes(config, qk_norm=True, causal=causal)]


def _latent_layers(config: DraftConfig, *, causal: bool) -> list[Layer]:
    """Return layers of latent attention (kimi-k3-dflash2), counted without a window."""
    keys, weights = config.keys, LayerWeights(config.quantization, 0)
    size, width = keys.positive_int("hidden_size"), keys.positive_int("intermediate_size")
    attention = latent_block(latent_shape(keys), weights)
    attention = attention if causal else _both_ways(attention)
    layer = Layer((attention, feed_forward_block(size, width, weights)))
    return [layer] * config.n_layers


def _gemma_layers(config: DraftConfig) -> list[Layer]:
    """Return the layers of a Gemma 4 drafter, seeing the block both ways.

    Source
        deepseek-ai/DeepSpec, ``Gemma4DSparkModel``: layers of the Gemma 4 family.
    """
    parsed = parse_family(open_target(config))
    return [
        Layer(tuple(_both_ways(block) for block in layer.blocks), layer.count)
        for layer in parsed.layers
    ]


def _both_ways(block: Block) -> Block:
    if not isinstance(block.core, GroupedQueryAttention | LatentAttention):
        return block
    return replace(block, core=replace(block.core, causal=False))


def _markov(config: DraftConfig, hidden_size: int) -> Architecture:
    """Return the Markov head of a DSpark drafter.

    Source
        speculators ``dspark``: ``markov_rank`` and ``markov_head_type``; NVIDIA spells the rank
        ``dspark_markov_rank`` too.
    """
    place = config.setting("markov_rank")
    key = "markov_rank" if place.has("markov_rank") else "dspark_markov_rank"
    kind = config.setting("markov_head_type")
    confidence = config.setting("enable_confidence_head")
    vocab_size = config.keys.positive_int("vocab_size")
    return markov_step(
        config.name,
        hidden_size=hidden_size,
        vocab_size=config.root.positive_int("draft_vocab_size", default=vocab_size),
        rank=place.positive_int(key),
        table_rows=vocab_size,
        head_type=kind.text("markov_head_type", allowed=_HEAD_TYPES, default="vanilla"),
        confidence=confidence.flag("enable_confidence_head", default=False),
    )
