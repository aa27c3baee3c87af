"""What a drafter is asked, and what it answers."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import numpy.typing as npt

from specroof.architecture import Architecture
from specroof.cost import ForwardPass

__all__ = ["Array", "DraftTime", "Drafter", "Round", "TokensPerRound"]

Array = npt.NDArray[np.float64]


class TokensPerRound(Protocol):
    """What a drafter needs to know of acceptance; `specroof.acceptance.Acceptance` is one."""

    @property
    def max_draft_len(self) -> int | None:
        """The depth that it was measured to; None without end."""

    def tokens_per_round(self, draft_len: npt.ArrayLike) -> Array:
        """Return the expected tokens per round, bonus token included."""


@dataclass(frozen=True, slots=True, eq=False)
class Round:
    """One round, as a drafter sees it. All arrays broadcast to (context, batch, draft length).

    Parameters
    ----------
    draft_len
        Tokens to propose per sequence; at least 1.
    batch_size, context_len
        Sequences, and cached positions of each.
    tokens_per_round
        Tokens committed per round, for drafters that read again what was accepted.
    decode_s
        Seconds of the target's plain step.
    verify_s
        Seconds of the target's verification of this round.
    cost_of
        ``"decode"`` or ``"verify"``: what a fixed share is a share of.
    price
        Seconds of a forward pass of any model on the target's devices and engine.
    """

    draft_len: Array
    batch_size: Array
    context_len: Array
    tokens_per_round: Array
    decode_s: Array
    verify_s: Array
    cost_of: str
    price: Callable[[Architecture, ForwardPass], Array]

    @property
    def share_base_s(self) -> Array:
        """Seconds that a fixed share is a share of."""
        return self.verify_s if self.cost_of == "verify" else self.decode_s


@dataclass(frozen=True, slots=True, eq=False)
class DraftTime:
    """Seconds of drafting in one round.

    Parameters
    ----------
    serial_s
        Before the verification can start.
    overlapped_s
        While the verification runs: only what outlasts it is felt.
    """

    serial_s: Array
    overlapped_s: Array = field(default_factory=lambda: np.zeros(()))


@dataclass(frozen=True, slots=True)
class Drafter:
    """Something that proposes tokens: a name and a function from a round to seconds.

    Parameters
    ----------
    name
        What outputs call it; begins with its kind.
    draft
        Seconds of drafting.
    max_draft_len
        The longest draft that it can make; None without end.
    acceptance
        How many of its drafts are accepted, where its SPEC says so.
    is_ideal
        Every draft is accepted, so that no acceptance may be given.
    """

    name: str
    draft: Callable[[Round], DraftTime]
    max_draft_len: int | None = None
    acceptance: TokensPerRound | None = None
    is_ideal: bool = False
