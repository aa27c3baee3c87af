"""Block drafters as numbers: DFlash, DFlash2 and DSpark around the layers of one pass."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from specroof.architecture.draft_heads import DraftHead
from specroof.architecture.draft_layers import draft_model, replicated
from specroof.architecture.matrices import BF16, WeightFormat
from specroof.architecture.model import Architecture, Block, Layer

#: Projections whose outputs are cached: all that a context token costs a block drafter.
_CACHED: Final = ("k_proj", "v_proj", "kv_a_proj_with_mqa", "wkv")


def context_layers(layers: Iterable[Layer]) -> tuple[Layer, ...]:
    """Return what a token of the context costs: the projections that are cached, layer by layer.

    No collective follows them: each device keeps what its heads need.
    """
    kept = []
    for layer in layers:
        linears = tuple(
            linear for block in layer.blocks for linear in block.linears if linear.name in _CACHED
        )
        kept.append(Layer((Block("attention", linears, joins_next=True),), layer.count))
    return tuple(kept)


def block_head(  # noqa: PLR0913 - the parts of a block drafter, by name
    kind: str,
    model: Architecture,
    *,
    taps: int,
    target_size: int,
    block: int | None,
    anchor_drafts: bool = False,
    serial: Architecture | None = None,
    vocab_size: int | None = None,
    weight: WeightFormat = BF16,
) -> DraftHead:
    """Return a block drafter around the layers of `model`: DFlash, DFlash2, DSpark.

    Counts
        per accepted token the fusion of `taps` hidden states and the cached projections of every
        layer; per block one pass of the layers.
    Source
        Chen et al. 2026, arXiv:2602.06036, section 4; z-lab/dflash, ``model.py``.
    """
    return DraftHead(
        kind,
        # the norm behind the fusion
        replace(model, vector_params=model.vector_params + model.hidden_size),
        fusion=(replicated("fc", taps * target_size, model.hidden_size, weight),),
        injection=context_layers(model.layers),
        serial=serial,
        taps=taps,
        target_size=target_size,
        vocab_size=vocab_size,
        block=block,
        anchor_drafts=anchor_drafts,
    )


def markov_step(  # noqa: PLR0913 - the parts of the step, by name
    name: str,
    *,
    hidden_size: int,
    vocab_size: int,
    rank: int,
    table_rows: int,
    head_type: str = "vanilla",
    confidence: bool = True,
) -> Architecture:
    """Return one step of DSpark's Markov head, which makes a draft depend on the one before.

    Counts
        the lookup table of the previous token (stored), the matrix from rank to vocabulary, what
        a gated or recurrent head adds, and the row that gives the confidence.
    Source
        DSpark paper (deepseek-ai/DeepSpec) 2026, section 3; vllm-project/speculators.

    Examples
    --------
    >>> step = markov_step("m", hidden_size=4096, vocab_size=1000, rank=256, table_rows=1000)
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
        lookup_params=table_rows * rank,
    )
