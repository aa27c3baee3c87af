"""Drafters that go token by token: MTP layers, EAGLE heads, independent models; and Medusa."""

import numpy as np

from specroof.architecture import Architecture, Block, DraftHead, Layer, Linear, MedusaHeads
from specroof.architecture import medusa_head as sized_medusa
from specroof.cost import ForwardPass
from specroof.drafters.base import Array, Drafter, Price, Round, Work
from specroof.drafters.geometry import (
    USUAL_MEDUSA_HEADS,
    usual_eagle,
    usual_eagle3,
    usual_medusa,
    usual_mtp,
)
from specroof.drafters.placed import Where, priced_drafter

__all__ = [
    "accepted_work",
    "chained_s",
    "eagle3_drafter",
    "eagle_drafter",
    "medusa_drafter",
    "model_drafter",
    "mtp_drafter",
    "usual_origin",
]


def accepted_work(head: DraftHead, round_: Round) -> tuple[Work, ...]:
    """Return what the accepted tokens of a round cost a drafter beside its first pass.

    Counts
        the fusion of the target's features, and projections that are only cached, over all
        committed tokens; their weights are read once.
    Ignores
        the bytes that are cached: as many tokens as a block writes in any case, of S read.
    Source
        SafeAILab/EAGLE, ``model/cnets.py`` (``fc``); z-lab/dflash, ``model.py``.
    """
    fusion = (Layer((Block("attention", head.fusion, joins_next=True),)),) if head.fusion else ()
    layers = (*fusion, *head.injection)
    if not layers:
        return ()
    model = head.model
    none = Linear("lm_head", model.hidden_size, 0, kind="head")
    forward = ForwardPass(
        round_.batch_size, round_.read_len, round_.context_len, head_len=0, settled=True
    )
    taken = Architecture(model.name, model.family, model.hidden_size, 0, layers, none)
    return (Work(taken, forward),)


def chained_s(head: DraftHead, round_: Round, price: Price) -> Array:
    r"""Return the seconds of drafting token by token.

    .. math:: t = t_1(N) + \sum_{i=2}^{\gamma} t_i(1)

    Counts
        a first pass that reads the N committed tokens again and makes one draft; then a pass of
        one position per sequence for each further draft, or of the positions of a tree's next
        level. Each pass reads the drafter's cache, the experts that its tokens hit, and the head.
        With several modules each of the first drafts is such a first pass, through layers of its
        own.
    Ignores
        that later passes have 1 to γ - 1 more positions cached: all are priced at their mean.
    Source
        Li et al. 2025, arXiv:2503.01840, section 3.1; DeepSeek-V3 report, arXiv:2412.19437,
        section 2.2.2; vLLM ``v1/spec_decode/eagle.py``.
    """
    context, batch = round_.context_len, round_.batch_size
    read = round_.read_len if head.rereads else np.ones(())
    first = ForwardPass(batch, read, context + 1.0 - read, head_len=1.0, settled=True)
    first_s = price(head.model, first, *accepted_work(head, round_))
    n_first = np.minimum(round_.draft_len, head.modules)
    total_s = np.asarray(n_first * first_s)
    replaced = n_first - 1.0
    for width, passes in round_.later_passes:
        left = np.maximum(passes - replaced, 0.0)
        replaced = np.maximum(replaced - passes, 0.0)
        forward = ForwardPass(batch, width, context + round_.draft_len / 2, head_len=width)
        total_s = total_s + left * price(head.model, forward)
    return total_s


def mtp_drafter(
    head: DraftHead | None = None, *, name: str = "mtp", where: Where | None = None
) -> Drafter:
    """Return multi-token prediction: a layer of the target's own kind, used token by token.

    Parameters
    ----------
    head
        The draft layer; one like the target's last layer with attention if None.
    name
        What outputs call it.
    where
        Where it runs.

    Source
        DeepSeek-V3 report, arXiv:2412.19437, section 2.2.

    Examples
    --------
    >>> mtp_drafter().name
    'mtp'
    """
    return priced_drafter(
        usual_mtp if head is None else lambda _target: head,
        chained_s,
        name=name,
        origin=usual_origin("mtp", head),
        where=where,
    )


def eagle_drafter(
    head: DraftHead | None = None, *, name: str = "eagle", where: Where | None = None
) -> Drafter:
    """Return an EAGLE-1 or -2 head, whose every pass ends in the target's head.

    Parameters
    ----------
    head
        The head; the usual geometry for the target if None.
    name
        What outputs call it.
    where
        Where it runs.

    Source
        Li et al. 2024, arXiv:2401.15077 and arXiv:2406.16858.

    Examples
    --------
    >>> eagle_drafter().name
    'eagle'
    """
    return priced_drafter(
        usual_eagle if head is None else lambda _target: head,
        chained_s,
        name=name,
        origin=usual_origin("eagle", head),
        where=where,
    )


def eagle3_drafter(
    head: DraftHead | None = None, *, name: str = "eagle3", where: Where | None = None
) -> Drafter:
    """Return an EAGLE-3 head: features of the target merged once, a separate vocabulary.

    Parameters
    ----------
    head
        The head; the usual geometry for the target if None.
    name
        What outputs call it.
    where
        Where it runs.

    Source
        Li et al. 2025, arXiv:2503.01840.

    Examples
    --------
    >>> eagle3_drafter().name
    'eagle3'
    """
    return priced_drafter(
        usual_eagle3 if head is None else lambda _target: head,
        chained_s,
        name=name,
        origin=usual_origin("eagle3", head),
        where=where,
    )


def model_drafter(
    model: Architecture, *, name: str = "model", where: Where | None = None
) -> Drafter:
    """Return an independent draft model: it has embedding, layers and head.

    Parameters
    ----------
    model
        The draft model.
    name
        What outputs call it.
    where
        Where it runs.

    Source
        Leviathan et al. 2022, arXiv:2211.17192; vLLM ``v1/spec_decode/draft_model.py``, which
        reads the committed tokens again as EAGLE does.

    Examples
    --------
    >>> from specroof import load_model
    >>> model_drafter(load_model("Qwen/Qwen3-4B")).name
    'model'
    """
    head = DraftHead("model", model, vocab_size=model.vocab_size)
    return priced_drafter(
        lambda _target: head,
        chained_s,
        name=name,
        origin=usual_origin("model", head),
        where=where,
    )


def medusa_drafter(
    heads: MedusaHeads | None = None, *, name: str = "medusa", where: Where | None = None
) -> Drafter:
    """Return Medusa heads, which all look at the target's last hidden state, once a round.

    Parameters
    ----------
    heads
        How many, of how many layers; five of one if None.
    name
        What outputs call it.
    where
        Where they run.

    Source
        Cai et al. 2024, arXiv:2401.10774.

    Examples
    --------
    >>> medusa_drafter().max_draft_len
    5
    """

    def geometry(target: Architecture) -> DraftHead:
        if heads is None:
            return usual_medusa(target)
        size = heads.target_size or target.hidden_size
        return sized_medusa(heads, hidden_size=size, vocab_size=target.vocab_size)

    def seconds(head: DraftHead, round_: Round, price: Price) -> Array:
        return price(head.model, ForwardPass(round_.batch_size, 1.0, round_.context_len))

    named = "the usual five heads (no config=)" if heads is None else f"config {heads.name}"
    return priced_drafter(
        geometry,
        seconds,
        name=name,
        origin=named,
        where=where,
        max_draft_len=USUAL_MEDUSA_HEADS if heads is None else heads.n_heads,
    )


def usual_origin(kind: str, head: DraftHead | None) -> str:
    """Return where the sizes of a drafter come from, for people."""
    return f"the usual geometry of {kind} (no config=)" if head is None else f"config {head.name}"
