"""Drafters that draft a whole block at once: DFlash and DSpark."""

from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from specroof.architecture import Architecture, DraftHead
from specroof.arrays import Array, whole_within
from specroof.cost import ForwardPass
from specroof.drafters.base import Drafter, PassTime, Round
from specroof.drafters.geometry import USUAL_BLOCKS, usual_dflash, usual_dspark
from specroof.drafters.heads import accepted_work, usual_origin
from specroof.drafters.placed import Geometry, Seconds, Where, timed_drafter
from specroof.errors import reject
from specroof.latency import Work
from specroof.units import Bounds

_LONGEST_BLOCK = 4096


def block_s(steps: int) -> Seconds:
    r"""Return the seconds of drafting a whole block, as a function of drafter, round and passes.

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

    def seconds(head: DraftHead, round_: Round, pass_s: PassTime) -> Array:
        batch, context = round_.batch_size, round_.context_len
        drafts = float(head.drafts or 0)
        serial: tuple[Work, ...] = ()
        if head.serial is not None:
            step = ForwardPass(batch, 1.0, context)
            serial = (Work(head.serial, step, times=drafts, kind="steps"),)
        block = ForwardPass(batch, float(head.block or 0), context, head_len=drafts)
        first_s = pass_s(head.model, block, *accepted_work(head, round_), *serial)
        if steps == 1:
            return first_s
        return np.asarray(first_s + (steps - 1) * pass_s(head.model, block, *serial))

    return seconds


@dataclass(frozen=True, slots=True)
class BlockKind:
    """A kind of drafter that drafts whole blocks over the target's features.

    Parameters
    ----------
    usual
        What it looks like for a target where no config is given.
    block
        Positions of its usual block.
    anchor_drafts
        Whether the anchor's position makes a draft too.
    most_steps
        Denoising steps at most: passes over a block.
    """

    usual: Geometry
    block: int
    anchor_drafts: bool = False
    most_steps: int = 1


#: The kinds of drafter that draft whole blocks.
BLOCK_KINDS: Final = {
    # block diffusion, DFlash2 too: Chen et al. 2026, arXiv:2602.06036
    "dflash": BlockKind(usual_dflash, USUAL_BLOCKS["dflash"], most_steps=64),
    # a block pass, then a short serial head for each draft: DSpark paper (deepseek-ai/DeepSpec)
    "dspark": BlockKind(usual_dspark, USUAL_BLOCKS["dspark"], anchor_drafts=True),
}


def head_block_drafter(  # noqa: PLR0913 - the keys of a SPEC
    kind: str,
    head: DraftHead | None = None,
    *,
    block: int | None = None,
    drafts: int | None = None,
    steps: int = 1,
    name: str | None = None,
    where: Where | None = None,
) -> Drafter:
    """Return a drafter of one of `BLOCK_KINDS`.

    Parameters
    ----------
    kind
        The kind.
    head
        Its layers; the usual geometry for the target if None.
    block, drafts
        Positions of a block (the anchor included), or drafts; as configured if None.
    steps
        Denoising steps.
    name
        What outputs call it; the kind if None.
    where
        Where it runs.

    Raises
    ------
    OptionError
        For a block longer than the drafter's, and more steps than its kind takes.

    Source
        See `BLOCK_KINDS`.

    Examples
    --------
    >>> head_block_drafter("dflash").max_draft_len, head_block_drafter("dspark").max_draft_len
    (15, 7)
    """
    row = BLOCK_KINDS[kind]
    whole_within("steps", steps, Bounds(1, row.most_steps, whole=True))
    configured = row.block if head is None else head.block
    anchor_drafts = row.anchor_drafts if head is None else head.anchor_drafts
    positions = _block_len(configured, (block, drafts), anchors=0 if anchor_drafts else 1)

    def geometry(target: Architecture) -> DraftHead:
        return replace(head or row.usual(target), block=positions)

    return timed_drafter(
        geometry,
        block_s(steps),
        name=name or kind,
        origin=f"{usual_origin(kind, head)}, block of {positions}",
        where=where,
        max_draft_len=positions if anchor_drafts else positions - 1,
    )


def _block_len(
    configured: int | None, sizes: tuple[int | None, int | None], *, anchors: int
) -> int:
    """Return the positions of a block: as asked for, within what the drafter was trained for."""
    asked, drafts = sizes
    most = configured or _LONGEST_BLOCK
    if asked is not None:
        return whole_within("block", asked, Bounds(anchors + 1, most, whole=True))
    if drafts is not None:
        return whole_within("drafts", drafts, Bounds(1, most - anchors, whole=True)) + anchors
    if configured is None:
        reject("block is missing and the config has no block size", "block= or drafts=")
    return configured
