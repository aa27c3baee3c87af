"""A drafter: from one round to the seconds of drafting, and to what it proposes."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Literal, Protocol, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from specroof.acceptance import Acceptance, ContextAcceptance
from specroof.architecture.draft_heads import DraftHead
from specroof.architecture.model import Architecture
from specroof.arrays import Array
from specroof.cost import ForwardPass
from specroof.hardware.profile import HardwareProfile, Placement
from specroof.latency.model import Work

_Answer = TypeVar("_Answer")

#: Counts: whole numbers of a chain or a tree, means where some sequences propose nothing.
Counts = npt.NDArray[np.float64] | npt.NDArray[np.int64]


#: The acceptance that drafters read: expected tokens per round, up to the depth that is known.
TokensPerRound: TypeAlias = Acceptance


class PassTime(Protocol):
    """Seconds of a forward pass of any model, with what runs `beside` it in the same pass."""

    def __call__(
        self, architecture: Architecture, forward_pass: ForwardPass, /, *beside: Work
    ) -> Array:
        """Return the seconds, in the shape that the fields of the pass broadcast to."""


@dataclass(frozen=True, slots=True, eq=False)
class Proposals:
    """The drafts that the target verifies, for each draft length.

    Parameters
    ----------
    verify_len
        Positions that the target verifies per sequence: drafted tokens and 1. The mean over
        sequences where some propose nothing.
    tokens_per_round
        Expected tokens per sequence and round, bonus token included.
    expansions
        How a drafter that goes token by token gets there after its first pass: pairs of the
        positions of a pass, and of how many such passes there are for each draft length.
    branches
        Whether the drafts are a tree, for each draft length.
    looked_up
        Whether the drafts are looked up in the text so far: no model drafts.
    all_accepted
        Probability that the last draft is accepted, for each draft length of a chain; None for
        trees.
    """

    verify_len: Counts
    tokens_per_round: Array
    expansions: tuple[tuple[float, Array], ...]
    branches: npt.NDArray[np.bool_]
    looked_up: bool = False
    all_accepted: Array | None = None


def chain_proposals(acceptance: TokensPerRound, draft_len: Counts) -> Proposals:
    """Return the proposals of a chain: γ tokens in a row, each from a pass of one position.

    Examples
    --------
    >>> from specroof.acceptance import constant_acceptance
    >>> chain = chain_proposals(constant_acceptance(0.5), np.array([1, 2, 3]))
    >>> chain.verify_len, chain.tokens_per_round, chain.all_accepted
    (array([2, 3, 4]), array([1.5  , 1.75 , 1.875]), array([0.5  , 0.25 , 0.125]))
    """
    tokens = acceptance.tokens_per_round(draft_len)
    return Proposals(
        verify_len=draft_len + 1,
        tokens_per_round=tokens,
        expansions=((1.0, np.maximum(draft_len - 1.0, 0.0)),),
        branches=np.zeros(np.shape(draft_len), dtype=np.bool_),
        all_accepted=tokens - acceptance.tokens_per_round(np.maximum(draft_len - 1, 0)),
    )


@dataclass(frozen=True, slots=True, eq=False)
class Round:
    """One round: the input of a drafter. All arrays broadcast to (context, batch, draft length).

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
    pass_s
        Seconds of a forward pass of any model on the target's devices and engine, or on its own.
    target
        The model that is served, for drafters that have its sizes.
    on_own_devices
        From devices, or another number of them, to the seconds of a forward pass there; None for
        the target's, ``"cpu"`` for the CPU beside them.
    expansions
        Passes behind the first one, for each draft length: positions of each pass, and how many;
        see `Proposals`. None for a chain.
    all_accepted
        Probability that the last draft was accepted, where a model keeps in its cache what it
        drafted: it has not read that draft. None where it reads all committed tokens again.
    reads_verified
        Whether a model of its own forgets what it drafted, and reads all verified tokens in a pass
        of its own behind the verification.
    verified_len
        Positions of each sequence that a drafter reads again where those that were rejected stay
        among them; None where it reads those that were committed.
    """

    draft_len: Array
    batch_size: Array
    context_len: Array
    tokens_per_round: Array
    decode_s: Array
    verify_s: Array
    cost_of: str
    pass_s: PassTime
    target: Architecture | None = None
    on_own_devices: (
        Callable[[HardwareProfile | Literal["cpu"] | None, Placement | None], PassTime] | None
    ) = None
    expansions: tuple[tuple[float, Array], ...] | None = None
    all_accepted: Array | None = None
    reads_verified: bool = False
    verified_len: Array | None = None

    @property
    def committed(self) -> Array:
        """Tokens committed per round; 1 where the acceptance has no value."""
        known = np.isfinite(self.tokens_per_round)
        return np.asarray(np.where(known, self.tokens_per_round, 1.0))

    @property
    def read_len(self) -> Array:
        """Tokens that the drafter has not read yet and whose context it has."""
        read = self.committed if self.verified_len is None else self.verified_len
        if np.max(read) <= np.min(self.context_len) + 1:
            # Equal at all contexts: what follows from it has no axis of contexts.
            return read
        return np.minimum(read, self.context_len + 1)


@dataclass(frozen=True, slots=True, eq=False)
class PromptRead:
    """Prompts of which the target has a pass: a drafter with a cache of its own reads them, too.

    Parameters
    ----------
    prompts
        The target's pass over them.
    target, pass_s, on_own_devices
        As of `Round`.
    """

    prompts: ForwardPass
    target: Architecture
    pass_s: PassTime
    on_own_devices: Callable[[HardwareProfile | Literal["cpu"] | None, Placement | None], PassTime]


@dataclass(frozen=True, slots=True, eq=False)
class DraftTime:
    """Seconds of drafting in one round.

    Parameters
    ----------
    serial_s
        Before the verification can start.
    overlapped_s
        While the verification runs: only seconds beyond it count.
    """

    serial_s: Array
    overlapped_s: Array = field(default_factory=lambda: np.zeros(()))


@dataclass(frozen=True, slots=True)
class DrafterFootprint:
    """The memory of a drafter on the target's devices.

    Parameters
    ----------
    head
        Its layers, whose weights and cache lie there; None where it keeps nothing there.
    tensor_parallel
        Devices that it is split over; None for as many as the target.
    is_known
        False for a drafter that is a share of time, of whose size nothing is known.
    """

    head: DraftHead | None = None
    tensor_parallel: int | None = None
    is_known: bool = True


def same_for_all(answer: _Answer, _asked: object) -> _Answer:
    """Return an answer that does not depend on the target or the round that is asked about.

    Drafters are made of such functions, not of local ones: those could not be pickled.
    """
    return answer


_no_words = partial(same_for_all, "")
_no_time = partial(same_for_all, np.zeros(()))
_unknown_size = partial(same_for_all, DrafterFootprint(is_known=False))


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
    describe
        Where its cost comes from, for one target: a sentence. Refuses a target that it does not
        fit.
    propose
        From acceptance and draft lengths to what is verified: a chain, or a tree.
    held
        What it keeps in the memory of the target's devices.
    with_cost
        From another cost to the drafter that has it, where the cost is given as a share of the
        target's step.
    own_model
        The model of its own that drafts, whose family and tokens servers look at; None for other
        drafters.
    read
        Seconds in which it reads prompts behind the target; none for what keeps no cache.
    """

    name: str
    draft: Callable[[Round], DraftTime]
    max_draft_len: int | None = None
    acceptance: TokensPerRound | ContextAcceptance | None = None
    is_ideal: bool = False
    describe: Callable[[Architecture], str] = _no_words
    propose: Callable[[TokensPerRound, Counts], Proposals] = chain_proposals
    held: Callable[[Architecture], DrafterFootprint] = _unknown_size
    with_cost: "Callable[[float], Drafter] | None" = None
    own_model: Architecture | None = None
    read: Callable[[PromptRead], Array] = _no_time

    @property
    def kind(self) -> str:
        """The kind that its name begins with."""
        return self.name.partition(",")[0].strip()

    def described(self, more: str, target: Architecture) -> str:
        """Return where its cost comes from, for one target, and something more."""
        return f"{self.describe(target)}, {more}"

    def accepted(self, acceptance: Acceptance) -> "Drafter":
        """Return this with another acceptance, which falls beyond the window that it has."""
        known = self.acceptance
        if isinstance(known, ContextAcceptance) and known.window is not None:
            return replace(self, acceptance=replace(known, curves=(acceptance,)))
        return replace(self, acceptance=acceptance)
