"""Drafters as numbers: the passes they make, and what accepted tokens cost them.

A drafter is layers like those of any model, so a pass of it is an `Architecture`. What differs is
around them: features of the target that are merged once per accepted token, projections of
accepted tokens that are only cached, a head that belongs to the target, steps of one token each.

Source
    SafeAILab/EAGLE, ``model/cnets.py``; z-lab/dflash, ``model.py``; vllm-project/speculators;
    FasterDecoding/Medusa, ``medusa_model.py``: the matrices of each kind, read in its code.
"""

from dataclasses import dataclass, replace

from specroof.architecture.draft_layers import (
    DraftShape,
    draft_layer,
    draft_model,
    replicated,
    with_first,
)
from specroof.architecture.matrices import BF16, TENSOR, Linear
from specroof.architecture.model import Architecture, Block, Layer
from specroof.units import dtype_bytes


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
        cached. The same weights as in `model`.
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
