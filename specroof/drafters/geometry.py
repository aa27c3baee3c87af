"""The usual drafter of each kind for a target, where no config says what it looks like.

Source
    What is published for targets of every size: SafeAILab/EAGLE and sgl-project/SpecForge
    (``configs/``), z-lab's DFlash drafters, deepseek-ai/DeepSpec, FasterDecoding/Medusa.
"""

from dataclasses import replace
from typing import Final

from specroof.architecture import (
    Architecture,
    Block,
    CompressedAttention,
    DraftHead,
    DraftShape,
    Experts,
    GroupedQueryAttention,
    Layer,
    MedusaHeads,
    block_head,
    draft_layer,
    draft_model,
    eagle3_head,
    eagle_head,
    markov_step,
    medusa_head,
    replicated,
    with_first,
)
from specroof.errors import reject

#: Positions of a block, by kind.
USUAL_BLOCKS: Final = {"dflash": 16, "dspark": 7}
#: Heads that the published Medusa weights have.
USUAL_MEDUSA_HEADS: Final = 5

_DRAFT_VOCABULARY: Final = 32_000
_HEAD_DIM: Final = 128
_BLOCK_LAYERS: Final = 5
_BLOCK_HEADS: Final = 32
_KV_HEADS: Final = 8
_P_EAGLE_LAYERS: Final = 4
_MARKOV_RANK: Final = 256
# Inner widths over targets with experts, as a multiple of the hidden size.
_EAGLE_WIDTH: Final = 6
_BLOCK_WIDTH: Final = 3


def usual_mtp(target: Architecture) -> DraftHead:
    """Return one layer of the target's own kind behind a merge of embedding and hidden state.

    Counts
        the last kind of layer with attention over a cache, feed-forward or experts included; of
        DeepSeek-V4 without its compressed entries. Embedding and head are the target's.
    Ignores
        draft layers that differ from the model's own (MiMo-V2, Nemotron): their config says.
    Source
        DeepSeek-V3 report, arXiv:2412.19437, section 2.2; the ``mtp`` modules of Qwen3.5 and
        GLM-4.5.
    """
    size = target.hidden_size
    attention, *others = _last_layer(target)
    merge = replicated("eh_proj", 2 * size, size, target.head.weight)
    layers = with_first([Layer((attention, *others))], [merge])
    # one norm each for embedding, hidden state and output
    model = draft_model(f"{target.name} MTP", "mtp", size, layers, vector_params=3 * size)
    model = replace(model, activation_dtype=target.activation_dtype, kv_dtype=target.kv_dtype)
    return DraftHead("mtp", model, target_size=size)


def _last_layer(target: Architecture) -> tuple[Block, ...]:
    """Return attention and feed-forward of the last kind of layer that attends to a cache."""
    for layer in reversed(target.layers):
        for block in layer.blocks:
            if block.core is not None and block.core.caches_tokens:
                behind = [other for other in layer.blocks if other.name == "feed_forward"]
                return (_windowed(block), *(behind or _feed_forwards(target)))
    return reject(f"{target.name} has no attention over a cache", "config= of its draft layer")


def _feed_forwards(target: Architecture) -> list[Block]:
    """Return the last feed-forward of a model whose layers are single blocks."""
    return [block for _, block in target.counted_blocks if block.name == "feed_forward"][-1:]


def _windowed(block: Block) -> Block:
    """Return attention without the compressed entries of DeepSeek-V4: its window alone."""
    core = block.core
    if not isinstance(core, CompressedAttention):
        return block
    linears = tuple(
        linear
        for linear in block.linears
        if linear.kind != "compressor" and not linear.name.startswith("indexer")
    )
    return replace(
        block, linears=linears, core=replace(core, ratio=0, indexer=None, compressors=())
    )


def usual_eagle(target: Architecture) -> DraftHead:
    """Return an EAGLE-1 or -2 head: one layer with the target's heads and feed-forward."""
    return eagle_head(_head_shape(target), name=f"EAGLE for {target.name}")


def usual_eagle3(target: Architecture) -> DraftHead:
    """Return an EAGLE-3 head: one layer, three taps, a draft vocabulary of 32 000 tokens."""
    return eagle3_head(
        _head_shape(target),
        name=f"EAGLE-3 for {target.name}",
        vocab_size=min(_DRAFT_VOCABULARY, target.vocab_size),
    )


def usual_p_eagle(target: Architecture) -> DraftHead:
    """Return a P-EAGLE head: EAGLE-3 with four layers."""
    return eagle3_head(
        _head_shape(target),
        name=f"P-EAGLE for {target.name}",
        vocab_size=min(_DRAFT_VOCABULARY, target.vocab_size),
        kind="p_eagle",
        n_layers=_P_EAGLE_LAYERS,
    )


def usual_medusa(target: Architecture) -> DraftHead:
    """Return five Medusa heads of one residual layer."""
    heads = MedusaHeads(f"Medusa for {target.name}", USUAL_MEDUSA_HEADS, n_layers=1)
    return medusa_head(heads, hidden_size=target.hidden_size, vocab_size=target.vocab_size)


def usual_dflash(target: Architecture) -> DraftHead:
    """Return a DFlash drafter: five layers, five taps, a block of 16."""
    return _usual_block(target, "dflash", f"DFlash for {target.name}")


def usual_dspark(target: Architecture) -> DraftHead:
    """Return a DSpark drafter: the layers of DFlash, a block of 7, a Markov head of rank 256."""
    name = f"DSpark for {target.name}"
    serial = markov_step(
        name,
        hidden_size=target.hidden_size,
        vocab_size=target.vocab_size,
        rank=_MARKOV_RANK,
        table_rows=target.vocab_size,
    )
    head = _usual_block(target, "dspark", name)
    return replace(head, serial=serial, anchor_drafts=True)


def _usual_block(target: Architecture, kind: str, name: str) -> DraftHead:
    size = target.hidden_size
    shape = DraftShape(
        size,
        n_heads=_BLOCK_HEADS,
        n_kv_heads=_KV_HEADS,
        head_dim=_HEAD_DIM,
        width=_dense_width(target) or _BLOCK_WIDTH * size,
        qk_norm=True,
        causal=False,
    )
    layers = [Layer(draft_layer(shape).blocks, _BLOCK_LAYERS)]
    model = draft_model(name, kind, size, layers)
    return block_head(kind, model, taps=_BLOCK_LAYERS, target_size=size, block=USUAL_BLOCKS[kind])


def _head_shape(target: Architecture) -> DraftShape:
    """Return the layer of an EAGLE head: the target's heads, or heads of 128; its feed-forward.

    Over experts the feed-forward is six times the hidden size, as for Qwen3-30B-A3B and gpt-oss.
    """
    size = target.hidden_size
    heads = (max(size // _HEAD_DIM, 1), min(_KV_HEADS, max(size // _HEAD_DIM, 1)), _HEAD_DIM)
    for _, block in target.counted_blocks:
        core = block.core
        if isinstance(core, GroupedQueryAttention) and core.window is None:
            heads = (core.n_heads, core.n_kv_heads, core.head_dim)
    return DraftShape(size, *heads, width=_dense_width(target) or _EAGLE_WIDTH * size)


def _dense_width(target: Architecture) -> int | None:
    """Return the inner width of the target's feed-forward; None for a model with experts."""
    blocks = [block for _, block in target.counted_blocks if block.name == "feed_forward"]
    if any(isinstance(block.core, Experts) for block in blocks):
        return None
    # Of the matrices back to the residual stream.
    widths = (
        linear.in_features
        for block in blocks
        for linear in block.linears
        if linear.out_features == target.hidden_size
    )
    return max(widths, default=None)
