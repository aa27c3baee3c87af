"""What is priced: one drafter at one load, or over a grid of loads."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from specroof.acceptance import ContextAcceptance
from specroof.architecture import Architecture
from specroof.arrays import Array, IntArray
from specroof.drafters import Drafter, TokensPerRound
from specroof.latency import Setup
from specroof.speedup.curve import SpeedupCurve, acceptance_of, curve_in


@dataclass(frozen=True, slots=True, eq=False)
class Point:
    """One drafter at one load, or over a grid of loads, wherever it is priced.

    Parameters
    ----------
    model, setup, drafter
        What is served, where, and what drafts.
    batch_size, context_len
        The load; several, if lists.
    longest
        The longest draft that is priced.
    draft_len
        Drafts per round; None for the best of 1 to `longest`.
    """

    model: Architecture
    setup: Setup
    drafter: Drafter
    batch_size: npt.ArrayLike
    context_len: npt.ArrayLike
    longest: int
    draft_len: int | None = None

    def curve(self, tokens: TokensPerRound | ContextAcceptance) -> SpeedupCurve:
        """Return the curve at this load under an acceptance."""
        return curve_in(
            self.model,
            self.setup,
            drafter=self.drafter,
            tokens=tokens,
            batch_size=self.batch_size,
            context_len=self.context_len,
            longest=self.longest,
        )

    def waits(self, tokens: TokensPerRound | ContextAcceptance) -> tuple[SpeedupCurve, Array]:
        """Return the curve under an acceptance, and seconds that a user waits for each token."""
        curve = self.curve(tokens)
        return curve, 1.0 / curve.tokens_per_s_per_user

    @property
    def drafted(self) -> SpeedupCurve:
        """The curve under the drafter's own acceptance."""
        return self.curve(acceptance_of(self.drafter))

    def gain(self, tokens: TokensPerRound | ContextAcceptance) -> tuple[float, int]:
        """Return the speedup of drafting under an acceptance, and its draft length."""
        gains, drafts = drafting_gain(self.curve(tokens), self.draft_len)
        return float(gains[0, 0]), int(drafts[0, 0])


def drafting_gain(
    curve: SpeedupCurve, draft_len: int | None, largest_batch: Array | None = None
) -> tuple[Array, IntArray]:
    """Return the speedup of rounds that do draft, and their draft length, axes (context, batch).

    Parameters
    ----------
    curve
        What drafting gains.
    draft_len
        Drafts per round; None for the best from 1 on.
    largest_batch
        What a server has room for, axes (context, draft length); None without end.

    Source
        `SpeedupCurve.best_speedup`, without its way out: there drafts are optional.

    Examples
    --------
    >>> from specroof import speedup_curve
    >>> loses = speedup_curve("Qwen/Qwen3-8B", "b200", drafter="block,accept=0,cost=1,drafts=4")
    >>> gains, drafts = drafting_gain(loses, None)
    >>> bool(gains[0, 0] < 0.5), loses.best_speedup.item(), drafts.tolist()
    (True, 1.0, [[1]])
    """
    speedup = np.where(np.isnan(curve.speedup), -np.inf, curve.speedup)
    if largest_batch is not None:
        room = curve.batch_size[None, :, None] <= largest_batch[:, None, :]
        speedup = np.where(room, speedup, -np.inf)
    if draft_len is not None:
        return speedup[..., draft_len], np.full(speedup.shape[:2], draft_len)
    best = np.argmax(speedup[..., 1:], axis=-1) + 1
    return np.take_along_axis(speedup, best[..., None], axis=-1)[..., 0], best
