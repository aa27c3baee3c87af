"""Drafters that make all drafts at once: DFlash, DSpark, P-EAGLE, PARD."""

import numbers

import numpy as np

from specroof.architecture import Architecture, DraftHead
from specroof.cost import ForwardPass
from specroof.drafters.base import Array, Drafter, Price, Round, Work
from specroof.drafters.geometry import (
    USUAL_BLOCKS,
    usual_dflash,
    usual_dspark,
    usual_p_eagle,
)
from specroof.drafters.heads import accepted_work, usual_origin
from specroof.drafters.placed import Geometry, Seconds, Where, priced_drafter
from specroof.errors import OptionError

__all__ = ["block_s", "dflash_drafter", "dspark_drafter", "p_eagle_drafter", "pard_drafter"]

_MOST_STEPS = 64
_LONGEST_BLOCK = 4096


def block_s(steps: int) -> Seconds:
    r"""Return the seconds of drafting a whole block, as a function of drafter, round and prices.

    .. math:: t = t_{accepted}(N) + n_{steps} \left( t(D) + D' \, t_{serial} \right)

    Parameters
    ----------
    steps
        Denoising steps: each is a pass over the block.

    Counts
        for the N committed tokens the fusion and the cached projections of every layer; a pass of
        the block's D positions over context and block, with the head on the D' that make a draft;
        the Markov head once more per draft. All of it whatever part of the block is verified.
    Ignores
        sampling between the steps.
    Source
        Chen et al. 2026, arXiv:2602.06036, section 4; DSpark paper (deepseek-ai/DeepSpec) 2026,
        section 3.
    """

    def seconds(head: DraftHead, round_: Round, price: Price) -> Array:
        batch, context = round_.batch_size, round_.context_len
        drafts = float(head.drafts or 0)
        serial: tuple[Work, ...] = ()
        if head.serial is not None:
            serial = (Work(head.serial, ForwardPass(batch, 1.0, context), times=drafts),)
        block = ForwardPass(batch, float(head.block or 0), context, head_len=drafts)
        first_s = price(head.model, block, *accepted_work(head, round_), *serial)
        if steps == 1:
            return first_s
        return np.asarray(first_s + (steps - 1) * price(head.model, block, *serial))

    return seconds


def dflash_drafter(
    head: DraftHead | None = None,
    *,
    block: int | None = None,
    drafts: int | None = None,
    steps: int = 1,
    name: str = "dflash",
    where: Where | None = None,
) -> Drafter:
    """Return a DFlash or DFlash2 drafter: block diffusion over the target's features.

    Parameters
    ----------
    head
        The drafter; five layers and a block of 16 if None.
    block, drafts
        Positions of a block (one anchor, the rest drafts), or drafts; as configured if None.
    steps
        Denoising steps.
    name
        What outputs call it.
    where
        Where it runs.

    Raises
    ------
    OptionError
        For a block longer than the drafter's, and steps outside of 1 to 64.

    Source
        Chen et al. 2026, arXiv:2602.06036.

    Examples
    --------
    >>> dflash_drafter().max_draft_len, dflash_drafter(block=8).max_draft_len
    (15, 7)
    """
    return _block_drafter(
        "dflash", usual_dflash, head, (block, drafts), steps=steps, name=name, where=where
    )


def dspark_drafter(
    head: DraftHead | None = None,
    *,
    block: int | None = None,
    drafts: int | None = None,
    name: str = "dspark",
    where: Where | None = None,
) -> Drafter:
    """Return a DSpark drafter: a block pass, then a short serial head for each draft.

    Parameters
    ----------
    head
        The drafter; five layers and a block of 7 if None.
    block, drafts
        Positions of a block, the anchor's a draft too, or drafts; as configured if None.
    name
        What outputs call it.
    where
        Where it runs.

    Raises
    ------
    OptionError
        For a block longer than the drafter's.

    Source
        DSpark paper (deepseek-ai/DeepSpec) 2026.

    Examples
    --------
    >>> dspark_drafter().max_draft_len
    7
    """
    return _block_drafter(
        "dspark", usual_dspark, head, (block, drafts), steps=1, name=name, where=where
    )


def _block_drafter(  # noqa: PLR0913 - what the two kinds differ in
    kind: str,
    usual: Geometry,
    head: DraftHead | None,
    sizes: tuple[int | None, int | None],
    *,
    steps: int,
    name: str,
    where: Where | None,
) -> Drafter:
    _whole("steps", steps, _MOST_STEPS)
    configured = USUAL_BLOCKS[kind] if head is None else head.block
    anchor_drafts = kind == "dspark" if head is None else head.anchor_drafts
    block = _block_len(configured, sizes, anchors=0 if anchor_drafts else 1)

    def geometry(target: Architecture) -> DraftHead:
        return (head or usual(target)).with_block(block)

    return priced_drafter(
        geometry,
        block_s(steps),
        name=name,
        origin=f"{usual_origin(kind, head)}, block of {block}",
        where=where,
        max_draft_len=block if anchor_drafts else block - 1,
    )


def _block_len(
    configured: int | None, sizes: tuple[int | None, int | None], *, anchors: int
) -> int:
    """Return the positions of a block: as asked for, within what the drafter was trained for."""
    asked, drafts = sizes
    most = configured or _LONGEST_BLOCK
    if asked is not None:
        least = anchors + 1
        _whole("block", asked, most, least)
        return asked
    if drafts is not None:
        _whole("drafts", drafts, most - anchors)
        return drafts + anchors
    if configured is None:
        message = "block is missing and the config has no block size; allowed: block= or drafts="
        raise OptionError(message)
    return configured


def _whole(key: str, value: object, most: int, least: int = 1) -> None:
    good = isinstance(value, numbers.Integral) and not isinstance(value, bool)
    if not good or not least <= value <= most:  # type: ignore[operator]
        message = f"{key} is {value!r}; allowed: a whole number from {least} to {most}"
        raise OptionError(message)


def _parallel_s(head: DraftHead, round_: Round, price: Price) -> Array:
    r"""Return the seconds of one pass over the committed tokens and a mask for each other draft.

    .. math:: t = t(N + \gamma - 1)

    Counts
        the head on γ positions.
    Source
        P-EAGLE, arXiv:2602.01469, and its vLLM post of 2026-03-13; PARD, arXiv:2504.18583.
    """
    read, drafts = round_.read_len, round_.draft_len
    forward = ForwardPass(
        round_.batch_size,
        read + drafts - 1.0,
        round_.context_len + 1.0 - read,
        head_len=drafts,
        settled=True,
    )
    return price(head.model, forward, *accepted_work(head, round_))


def p_eagle_drafter(
    head: DraftHead | None = None, *, name: str = "p_eagle", where: Where | None = None
) -> Drafter:
    """Return a P-EAGLE head: EAGLE-3 that makes all drafts in one pass.

    Parameters
    ----------
    head
        The head; four layers of the usual EAGLE-3 geometry if None.
    name
        What outputs call it.
    where
        Where it runs.

    Source
        P-EAGLE, arXiv:2602.01469.

    Examples
    --------
    >>> p_eagle_drafter().name
    'p_eagle'
    """
    return priced_drafter(
        usual_p_eagle if head is None else lambda _target: head,
        _parallel_s,
        name=name,
        origin=usual_origin("p_eagle", head),
        where=where,
    )


def pard_drafter(head: DraftHead, *, name: str = "pard", where: Where | None = None) -> Drafter:
    """Return a PARD drafter: a small language model that makes all drafts in one pass.

    Parameters
    ----------
    head
        The drafter.
    name
        What outputs call it.
    where
        Where it runs.

    Source
        An et al. 2025, arXiv:2504.18583; PARD-2: AMD-AGI/PARD.

    Examples
    --------
    >>> from specroof import load_model
    >>> pard_drafter(DraftHead("pard", load_model("Qwen/Qwen3-4B"))).name
    'pard'
    """
    return priced_drafter(
        lambda _target: head,
        _parallel_s,
        name=name,
        origin=usual_origin("pard", head),
        where=where,
    )
