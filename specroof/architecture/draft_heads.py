"""Drafters as numbers: the passes they make, and what accepted tokens cost them.

A drafter is layers like those of any model, so a pass of it is an `Architecture`. What differs is
around them: features of the target that are merged once per accepted token, projections of
accepted tokens that are only cached, a head that belongs to the target, steps of one token each.

Source
    SafeAILab/EAGLE, ``model/cnets.py``; z-lab/dflash, ``model.py``; vllm-project/speculators;
    FasterDecoding/Medusa, ``medusa_model.py``: the matrices of each kind, read in its code.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Final

from specroof.architecture.base import ATTENTION_REPLICATED, BF16, TENSOR, Linear, WeightFormat
from specroof.architecture.compressed import CompressedAttention
from specroof.architecture.model import Architecture, AttentionShape, Block, Layer, gated_pair
from specroof.errors import reject
from specroof.units import dtype_bytes

# --- Layers of drafters and what stands around them: their shape, a pass, matrices before it -----


@dataclass(frozen=True, slots=True)
class DraftShape(AttentionShape):
    """Sizes of one layer of a draft head: grouped-query attention and a gated feed-forward.

    Parameters
    ----------
    hidden_size, n_heads, n_kv_heads, head_dim, qkv_bias, out_bias, qk_norm, gated, sinks, value_dim
        Of attention, as in `AttentionShape`.
    window, causal
        Of attention too; False for `causal` where a block sees itself both ways.
    width
        Inner width of the feed-forward.
    weight, plain
        Storage format and arithmetic of the layer's matrices, and of those around the layers,
        which quantised drafters leave alone.
    dtype
        Of activations and of the cache.
    """

    width: int = field(kw_only=True)
    weight: WeightFormat = BF16
    plain: WeightFormat = BF16
    dtype: str = "bf16"


def draft_layer(
    shape: DraftShape, *, in_features: int | None = None, opening_norm: bool = True
) -> Layer:
    """Return one layer; its queries, keys and values may take an input of another width.

    Examples
    --------
    >>> llama = DraftShape(4096, n_heads=32, n_kv_heads=8, head_dim=128, width=14336)
    >>> [linear.matrix_params for linear in draft_layer(llama).blocks[0].linears]
    [16777216, 4194304, 4194304, 16777216]
    """
    attention = shape.block(
        lambda _: shape.weight, in_features=in_features, opening_norm=opening_norm
    )
    pair = gated_pair(shape.hidden_size, shape.width, shape.weight, shape.weight)
    return Layer((attention, Block("feed_forward", pair, vector_params=shape.hidden_size)))


def with_first(layers: Sequence[Layer], linears: Sequence[Linear]) -> tuple[Layer, ...]:
    """Return `layers` with matrices before the first one, in its first block.

    They make no separate block, so that no collective follows them: engines repeat them
    on every device.
    """
    first, *others = layers
    opening, *blocks = first.blocks
    opened = replace(opening, linears=(*linears, *opening.linears))
    rest = (replace(first, count=first.count - 1),) if first.count > 1 else ()
    return (Layer((opened, *blocks)), *rest, *others)


def draft_model(  # noqa: PLR0913 - the parts of a pass, by name
    name: str,
    kind: str,
    hidden_size: int,
    layers: Sequence[Layer],
    *,
    head_rows: int = 0,
    weight: WeightFormat = BF16,
    dtype: str = "bf16",
    **more: Any,
) -> Architecture:
    """Return a pass of a drafter that embeds tokens with the target's table.

    A head of no rows is the target's; the vectors of the last norm are counted unless given. What
    is given `more` is as of `Architecture`.
    """
    head = Linear("lm_head", hidden_size, head_rows, weight, TENSOR, kind="head")
    usual = {"vector_params": hidden_size, "activation_dtype": dtype, "kv_dtype": dtype}
    return Architecture(name, kind, hidden_size, 0, tuple(layers), head, **{**usual, **more})


def replicated(name: str, in_features: int, out_features: int, weight: WeightFormat) -> Linear:
    """Return a matrix that every device of an attention group repeats, as engines run fusions."""
    return Linear(name, in_features, out_features, weight, ATTENTION_REPLICATED)


@dataclass(frozen=True, slots=True)
class MedusaHeads:
    """Medusa heads, whose widths are those of the target.

    Parameters
    ----------
    name
        What outputs call them.
    n_heads
        Heads, one per draft token.
    n_layers
        Residual matrices of each before its output matrix.
    vocab_size
        Rows of an output matrix; None for the target's vocabulary.
    target_size
        The target's width where the config says it; None takes any.
    """

    name: str
    n_heads: int
    n_layers: int
    vocab_size: int | None = None
    target_size: int | None = None


@dataclass(frozen=True)
class DraftHead:
    """A drafter as numbers.

    Parameters
    ----------
    kind
        What a SPEC calls it.
    model
        One pass: its layers and its head. A head without rows is the target's.
    fusion
        Matrices that the target's features pass, once for each accepted token.
    injection
        Layers of what each accepted token costs a block drafter besides: projections that are
        cached. Their weights are those of `model`.
    serial
        What runs once more for every draft of a block, one after another; None for nothing.
    taps, target_size
        Hidden states of the target taken per token, and their width; None reads tokens only.
    vocab_size
        Tokens it can propose; None for the target's vocabulary.
    block
        Positions of a block pass; None where the config leaves them open, or there are no blocks.
    anchor_drafts
        Whether the position of the last accepted token makes a draft too.
    modules
        Copies of the layers, each with a separate cache, that make the first drafts.
    rereads
        Whether accepted tokens pass the layers again; False without a separate cache.
    """

    kind: str
    model: Architecture
    fusion: tuple[Linear, ...] = ()
    injection: tuple[Layer, ...] = ()
    serial: Architecture | None = None
    taps: int = 1
    target_size: int | None = None
    vocab_size: int | None = None
    block: int | None = None
    anchor_drafts: bool = False
    modules: int = 1
    rereads: bool = True

    @cached_property
    def intake(self) -> Architecture | None:
        """What accepted tokens pass through beside the first pass of a round; None for nothing."""
        fusion = (
            (Layer((Block("attention", self.fusion, joins_next=True),)),) if self.fusion else ()
        )
        layers = (*fusion, *self.injection)
        if not layers:
            return None
        size = self.model.hidden_size
        none = Linear("lm_head", size, 0, kind="head")
        return Architecture(self.model.name, self.model.family, size, 0, layers, none)

    @property
    def name(self) -> str:
        """What outputs call it."""
        return self.model.name

    @property
    def shares_head(self) -> bool:
        """Whether its head is the target's."""
        return not self.model.head.out_features

    @property
    def feature_bytes(self) -> float:
        """Bytes of the hidden states that it takes of one token."""
        if self.target_size is None:
            return 0.0
        return self.taps * self.target_size * dtype_bytes(self.model.activation_dtype)

    @property
    def n_params(self) -> int:
        """Its stored elements: layers, fusion, head, tables."""
        layers = sum(count * block.n_params for count, block in self.model.counted_blocks)
        fusion = sum(linear.n_params for linear in self.fusion)
        serial = 0 if self.serial is None else self.serial.n_params
        return self.model.n_params + (self.modules - 1) * layers + fusion + serial

    @property
    def drafts(self) -> int | None:
        """Drafts of one block; None where `block` is."""
        if self.block is None:
            return None
        return self.block if self.anchor_drafts else self.block - 1


def attention_window(head: object) -> int | None:
    """Return how many tokens a drafter's attention sees; None for all, or where none is known."""
    if not isinstance(head, DraftHead):
        return None
    cores = [core for _, core in head.model.counted_cores if core.cache_kind == "tokens"]
    windows = [core.window_len for core in cores]
    return max(windows) if windows and all(windows) else None


def eagle_head(shape: DraftShape, *, name: str) -> DraftHead:
    """Return an EAGLE-1 or -2 head: every pass merges embedding and feature, then one layer.

    Counts
        ``fc`` with its bias, and one layer without a norm before attention; no norm after it. The
        head is the target's.
    Source
        Li et al. 2024, arXiv:2401.15077, section 4.1; SafeAILab/EAGLE, ``model/cnets1.py``.

    Examples
    --------
    >>> llama2 = DraftShape(4096, n_heads=32, n_kv_heads=32, head_dim=128, width=11008)
    >>> eagle_head(llama2, name="EAGLE-llama2-chat-7B").n_params  # published: 0.24 B
    235937792
    """
    hidden_size = shape.hidden_size
    fc = replace(replicated("fc", 2 * hidden_size, hidden_size, shape.plain), bias=True)
    layers = with_first([draft_layer(shape, opening_norm=False)], [fc])
    model = draft_model(name, "eagle", hidden_size, layers, vector_params=0, dtype=shape.dtype)
    return DraftHead("eagle", model, target_size=hidden_size)


def eagle3_head(  # noqa: PLR0913 - what the kinds of EAGLE-3 differ in
    shape: DraftShape,
    *,
    name: str,
    vocab_size: int,
    kind: str = "eagle3",
    n_layers: int = 1,
    taps: int = 3,
    target_size: int | None = None,
) -> DraftHead:
    """Return an EAGLE-3 head: features merged once per accepted token, a separate head.

    Counts
        ``fc`` over all taps; a first layer whose queries, keys and values take embedding and
        feature side by side; a head over the draft vocabulary.
    Source
        Li et al. 2025, arXiv:2503.01840, section 3; SafeAILab/EAGLE, ``model/cnets.py``.

    Examples
    --------
    >>> llama = DraftShape(4096, n_heads=32, n_kv_heads=8, head_dim=128, width=14336)
    >>> head = eagle3_head(llama, name="EAGLE3-LLaMA3.1-Instruct-8B", vocab_size=32_000)
    >>> head.n_params - 4 * 4096  # without norms, as published: 424.7 M
    424673280
    """
    hidden_size = shape.hidden_size
    size = target_size or hidden_size
    first = draft_layer(shape, in_features=2 * hidden_size)
    others = [Layer(draft_layer(shape).blocks, n_layers - 1)] if n_layers > 1 else []
    model = draft_model(
        name,
        kind,
        hidden_size,
        [first, *others],
        head_rows=vocab_size,
        weight=shape.plain,
        dtype=shape.dtype,
    )
    return DraftHead(
        kind,
        model,
        fusion=(replicated("fc", taps * size, hidden_size, shape.plain),),
        taps=taps,
        target_size=size,
        vocab_size=vocab_size,
    )


def medusa_head(heads: MedusaHeads, *, hidden_size: int, vocab_size: int) -> DraftHead:
    """Return Medusa heads on a target: all of them look at its last hidden state, once.

    Counts
        per head `n_layers` residual matrices with bias, and an output matrix over the vocabulary.
    Source
        Cai et al. 2024, arXiv:2401.10774, section 2.1.1; FasterDecoding/Medusa,
        ``medusa_model.py``.

    Examples
    --------
    >>> five = MedusaHeads("medusa-vicuna-7b-v1.3", n_heads=5, n_layers=1)
    >>> medusa_head(five, hidden_size=4096, vocab_size=32_000).n_params  # 5 * (h*h + h + V*h)
    739266560
    """
    rows = heads.vocab_size or vocab_size
    residual = Linear("res_block", hidden_size, hidden_size, BF16, TENSOR, bias=True)
    blocks = tuple(
        Block("feed_forward", (residual,), joins_next=True) for _ in range(heads.n_layers)
    )
    layers = [Layer(blocks, heads.n_heads)] if blocks else []
    model = draft_model(
        heads.name,
        "medusa",
        hidden_size,
        layers,
        head_rows=heads.n_heads * rows,
        vector_params=0,
    )
    return DraftHead(
        "medusa",
        model,
        target_size=heads.target_size or hidden_size,
        vocab_size=rows,
        block=heads.n_heads,
        anchor_drafts=True,
        rereads=False,
    )


# --- Block drafters as numbers: DFlash, DFlash2 and DSpark around the layers of one pass ---------

#: Projections whose outputs are cached: all that a context token costs a block drafter.
_CACHED: Final = ("k_proj", "v_proj", "kv_a_proj_with_mqa", "wkv")


def block_head(
    kind: str,
    model: Architecture,
    *,
    taps: int,
    target_size: int,
    weight: WeightFormat = BF16,
    **more: Any,
) -> DraftHead:
    """Return a block drafter around the layers of `model`: DFlash, DFlash2, DSpark.

    What is given `more` is as of `DraftHead`.

    Counts
        per accepted token the fusion of `taps` hidden states and the cached projections of every
        layer; per block one pass of the layers.
    Source
        Chen et al. 2026, arXiv:2602.06036, section 4; z-lab/dflash, ``model.py``.
    """
    # A token of the context costs the projections that are cached, layer by layer. No collective
    # follows them: each device keeps what its heads need.
    kept = []
    for layer in model.layers:
        linears = tuple(
            linear for block in layer.blocks for linear in block.linears if linear.name in _CACHED
        )
        kept.append(Layer((Block("attention", linears, joins_next=True),), layer.count))
    return DraftHead(
        kind,
        # the norm behind the fusion
        replace(model, vector_params=model.vector_params + model.hidden_size),
        fusion=(replicated("fc", taps * target_size, model.hidden_size, weight),),
        injection=tuple(kept),
        taps=taps,
        target_size=target_size,
        **more,
    )


def markov_step(  # noqa: PLR0913 - the parts of the step, by name
    name: str,
    *,
    hidden_size: int,
    vocab_size: int,
    rank: int,
    table_rows: int | None = None,
    head_type: str = "vanilla",
    confidence: bool = True,
) -> Architecture:
    """Return one step of DSpark's Markov head, which makes a draft depend on the one before.

    Counts
        the lookup table of the previous token (stored), which has as many rows as the vocabulary
        if `table_rows` is None; the matrix from rank to vocabulary, what
        a gated or recurrent head adds, and the row that gives the confidence.
    Source
        DSpark paper (deepseek-ai/DeepSpec) 2026, section 3; vllm-project/speculators.

    Examples
    --------
    >>> step = markov_step("m", hidden_size=4096, vocab_size=1000, rank=256)
    >>> step.head.matrix_params, step.lookup_params, step.n_params
    (256000, 256000, 516352)
    """
    extra = {
        "vanilla": [],
        "gated": [("markov_gate", hidden_size + rank, rank)],
        "rnn": [("markov_rnn", 2 * rank + hidden_size, 3 * rank)],
    }[head_type]
    rows = [("confidence_head", hidden_size + rank, 1)] if confidence else []
    linears = tuple(replicated(part, in_, out, BF16) for part, in_, out in [*extra, *rows])
    layers = (Layer((Block("attention", linears, joins_next=True),)),) if linears else ()
    return draft_model(
        name,
        "markov",
        rank,
        layers,
        head_rows=vocab_size,
        vector_params=0,
        lookup_params=(table_rows or vocab_size) * rank,
    )


# --- The usual drafter of each kind for a target, where no config says what it looks like --------
# Source
#     What is published for targets of every size: SafeAILab/EAGLE and sgl-project/SpecForge
#     (``configs/``), z-lab's DFlash drafters, deepseek-ai/DeepSpec, FasterDecoding/Medusa.


@dataclass(frozen=True, slots=True)
class HeadDesign:
    """What a head that does not exist yet is asked to be; None is as usual for its kind.

    Parameters
    ----------
    n_layers
        Layers that one pass goes through.
    hidden_size
        Width, where it is not the target's: the feed-forward follows in proportion, attention keeps
        its heads. Such a head has an embedding of its own.
    vocab_size
        Tokens that it can propose, with a separate head of as many rows.
    weight
        Storage of the matrices of its layers. Fusion, merge and head stay in 16 bits.
    window
        Tokens that its attention sees; None for all.
    """

    n_layers: int | None = None
    hidden_size: int | None = None
    vocab_size: int | None = None
    weight: WeightFormat | None = None
    window: int | None = None


_USUAL: Final = HeadDesign()
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


def usual_mtp(target: Architecture, design: HeadDesign = _USUAL) -> DraftHead:
    """Return one layer of the target's own kind behind a merge of embedding and hidden state.

    As many modules of it as the target's config names.

    Counts
        the last kind of layer with attention over a cache, feed-forward or experts included; of
        DeepSeek-V4 without its compressed entries. Embedding and head are the target's.
    Ignores
        draft layers that differ from the model's own (MiMo-V2, Nemotron): their config says; and
        that half of DeepSeek-V4's merge multiplies each of four residual streams.
    Source
        DeepSeek-V3 report, arXiv:2412.19437, section 2.2; the ``mtp`` modules of Qwen3.5 and
        GLM-4.5. DeepSeek-V4's merge has the format of its layers: vllm 0.33.0
        ``models/deepseek_v4/nvidia/mtp.py``.
    """
    size = target.hidden_size
    attention, *others = _last_layer(target)
    weight = target.mtp_weight or target.head.weight
    if isinstance(attention.core, CompressedAttention):
        weight = next(linear.weight for linear in attention.linears if linear.kind == "dense")
    merge = replicated("eh_proj", 2 * size, size, weight)
    layers = [Layer((attention, *others), design.n_layers or 1)]
    # one norm each for embedding, hidden state and output
    model = draft_model(
        f"{target.name} MTP",
        "mtp",
        size,
        layers,
        head_rows=design.vocab_size or 0,
        vector_params=3 * size,
        activation_dtype=target.activation_dtype,
        kv_dtype=target.kv_dtype,
    )
    stored = design.weight or target.mtp_weight
    if stored is not None:
        model = model.with_weights(stored)
    model = replace(model, layers=with_first(model.layers, [merge]))
    return DraftHead(
        "mtp",
        model,
        target_size=size,
        vocab_size=design.vocab_size,
        modules=target.mtp_modules,
    )


def _last_layer(target: Architecture) -> tuple[Block, ...]:
    """Return attention and feed-forward of the last kind of layer that attends to a cache."""
    for layer in reversed(target.layers):
        for block in layer.blocks:
            if block.core is not None and block.core.cache_kind == "tokens":
                behind = [other for other in layer.blocks if other.name == "feed_forward"]
                last = [other for _, other in target.counted_blocks if other.name == "feed_forward"]
                return (_windowed(block), *(behind or last[-1:]))
    return reject(f"{target.name} has no attention over a cache", "config= of its draft layer")


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


def usual_eagle3(target: Architecture, design: HeadDesign = _USUAL) -> DraftHead:
    """Return an EAGLE-3 head: one layer, three taps, a draft vocabulary of 32 000 tokens."""
    head = eagle3_head(
        _designed(_head_shape(target), design),
        name=f"EAGLE-3 for {target.name}",
        vocab_size=design.vocab_size or min(_DRAFT_VOCABULARY, target.vocab_size),
        n_layers=design.n_layers or 1,
        target_size=target.hidden_size,
    )
    table = target.vocab_size * (design.hidden_size or 0)
    return replace(head, model=replace(head.model, lookup_params=table))


def usual_p_eagle(target: Architecture) -> DraftHead:
    """Return a P-EAGLE head: EAGLE-3 with four layers."""
    head = usual_eagle3(target, HeadDesign(n_layers=_P_EAGLE_LAYERS))
    named = replace(head.model, name=f"P-EAGLE for {target.name}", family="p_eagle")
    return replace(head, kind="p_eagle", model=named)


def usual_medusa(target: Architecture) -> DraftHead:
    """Return five Medusa heads of one residual layer."""
    heads = MedusaHeads(f"Medusa for {target.name}", USUAL_MEDUSA_HEADS, n_layers=1)
    return medusa_head(heads, hidden_size=target.hidden_size, vocab_size=target.vocab_size)


def usual_dflash(target: Architecture, design: HeadDesign = _USUAL) -> DraftHead:
    """Return a DFlash drafter: five layers, five taps, a block of 16."""
    return _usual_block(target, "dflash", f"DFlash for {target.name}", design)


def usual_dspark(target: Architecture) -> DraftHead:
    """Return a DSpark drafter: the layers of DFlash, a block of 7, a Markov head of rank 256."""
    name = f"DSpark for {target.name}"
    serial = markov_step(
        name,
        hidden_size=target.hidden_size,
        vocab_size=target.vocab_size,
        rank=_MARKOV_RANK,
    )
    head = _usual_block(target, "dspark", name)
    return replace(head, serial=serial, anchor_drafts=True)


def _usual_block(
    target: Architecture, kind: str, name: str, design: HeadDesign = _USUAL
) -> DraftHead:
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
    shape = _designed(shape, design)
    layers = [Layer(draft_layer(shape).blocks, design.n_layers or _BLOCK_LAYERS)]
    # The target's head takes the target's width alone.
    whole = 0 if design.hidden_size is None else target.vocab_size
    model = draft_model(
        name,
        kind,
        shape.hidden_size,
        layers,
        head_rows=design.vocab_size or whole,
        lookup_params=target.vocab_size * (design.hidden_size or 0),
    )
    return block_head(
        kind,
        model,
        taps=_BLOCK_LAYERS,
        target_size=size,
        block=USUAL_BLOCKS[kind],
        vocab_size=design.vocab_size,
    )


def _designed(shape: DraftShape, design: HeadDesign) -> DraftShape:
    """Return a layer of the width and format that a design asks for."""
    size = design.hidden_size or shape.hidden_size
    return replace(
        shape,
        hidden_size=size,
        width=max(shape.width * size // shape.hidden_size, 1),
        weight=design.weight or shape.weight,
        window=design.window or shape.window,
    )


def _head_shape(target: Architecture) -> DraftShape:
    """Return the layer of an EAGLE head: the target's heads, or heads of 128; its feed-forward.

    Over experts the feed-forward is six times the hidden size, as for Qwen3-30B-A3B and gpt-oss.
    """
    size = target.hidden_size
    heads = (max(size // _HEAD_DIM, 1), min(_KV_HEADS, max(size // _HEAD_DIM, 1)), _HEAD_DIM)
    for _, block in target.counted_blocks:
        core = block.core
        if core is None or core.cache_kind != "tokens" or core.window_len:
            continue
        if core.kernel == "heads" or core.heads.n_kv_heads > 1:  # one may be a latent for all
            heads = core.heads
    return DraftShape(size, *heads, width=_dense_width(target) or _EAGLE_WIDTH * size)


def _dense_width(target: Architecture) -> int | None:
    """Return the inner width of the target's feed-forward; None for a model with experts."""
    blocks = [block for _, block in target.counted_blocks if block.name == "feed_forward"]
    if any(block.experts for block in blocks):
        return None
    # Of the matrices back to the residual stream.
    widths = (
        linear.in_features
        for block in blocks
        for linear in block.linears
        if linear.out_features == target.hidden_size
    )
    return max(widths, default=None)
