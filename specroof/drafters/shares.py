"""Drafters whose cost is given: nothing, or a fixed share of the target's step."""

from functools import partial
from typing import Final

import numpy as np

from specroof.arrays import number_within, whole_within
from specroof.drafters.base import Drafter, DraftTime, Held, Round
from specroof.units import Bounds

#: A draft token that costs a hundred plain steps is a typing error, such as 10 for 10%.
_COSTS: Final = Bounds(0, 100)
_DRAFTS: Final = Bounds(1, 4096, whole=True)


def ideal_drafter() -> Drafter:
    """Return the drafter of the free lunch: every draft accepted, no time spent.

    Its speedup is what verification alone allows: at the same draft length no other drafter is
    faster, as long as a pass of fewer tokens takes no smaller share of the time than of the tokens.

    Ignores
        captured sizes that count tokens, as vLLM's do: a lookup that proposes only in some rounds
        verifies fewer positions, and may fit the largest captured graph where this drafter, which
        proposes in all, is launched without one. It is then faster at that draft length.
    Source
        Modal 2026, "Speculation Is All You Need": the series "ideal".

    Examples
    --------
    >>> ideal_drafter().name
    'ideal'
    """
    return Drafter(
        "ideal",
        lambda _: DraftTime(np.zeros(())),
        is_ideal=True,
        describe=lambda _: "nothing: what verification alone allows",
        held=lambda _: Held(),
    )


def autoregressive_drafter(cost: float, *, name: str | None = None) -> Drafter:
    r"""Return a drafter that makes token after token (MTP, EAGLE, a small model).

    .. math:: t_{draft} = \gamma \, c \, t_1

    Parameters
    ----------
    cost
        c, the share of the target's plain step that one draft token costs.
    name
        What outputs call it.

    Raises
    ------
    OptionError
        Unless 0 <= cost <= 100.

    Source
        Leviathan et al. 2022, arXiv:2211.17192, theorem 3.8 (c).

    Examples
    --------
    >>> autoregressive_drafter(0.1).name
    'autoregressive,cost=0.1'
    """
    share = number_within("cost", cost, _COSTS)
    return Drafter(
        name or f"autoregressive,cost={share:g}",
        lambda round_: DraftTime(round_.draft_len * share * round_.share_base_s),
        describe=lambda _: f"given: {share:g} of the target's step per draft token",
        at_share=autoregressive_drafter,
    )


def block_drafter(cost: float, *, drafts: int, name: str | None = None) -> Drafter:
    r"""Return a drafter that makes a whole block in one pass (DFlash, P-EAGLE).

    .. math:: t_{draft} = \lceil \gamma / D \rceil \, c \, t_1

    Parameters
    ----------
    cost
        c, the share of the target's plain step that one block costs, whatever part of it is
        verified.
    drafts
        D, drafts in a block; a longer draft pays for the next block.
    name
        What outputs call it.

    Raises
    ------
    OptionError
        Unless 0 <= cost <= 100 and 1 <= drafts <= 4096.

    Source
        Modal 2026, "Speculation Is All You Need".

    Examples
    --------
    >>> block_drafter(0.1, drafts=15).name
    'block,cost=0.1,drafts=15'
    """
    share = number_within("cost", cost, _COSTS)
    per_block = whole_within("drafts", drafts, _DRAFTS)

    def draft(round_: Round) -> DraftTime:
        return DraftTime(np.ceil(round_.draft_len / per_block) * share * round_.share_base_s)

    return Drafter(
        name or f"block,cost={share:g},drafts={per_block}",
        draft,
        describe=lambda _: f"given: {share:g} of the target's step per block of {per_block} drafts",
        at_share=partial(block_drafter, drafts=per_block),
    )
