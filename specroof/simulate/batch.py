"""A batch of sequences round by round: the spread of times, which a mean does not show."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from specroof.acceptance import Acceptance
from specroof.acceptance.laws import beta_law
from specroof.arrays import Array, array_within, number_within, whole_within
from specroof.errors import expect, refuse

if TYPE_CHECKING:
    # Dice take longer to import than a prediction does.
    from numpy.random import Generator

#: Sequences times tokens of all batches: what memory and patience allow.
_MOST_TOKENS: Final = 20_000_000


@dataclass(frozen=True, slots=True)
class Spread:
    """Mean and percentiles of a time in seconds.

    Parameters
    ----------
    mean_s, p50_s, p95_s, p99_s
        The mean, and what 50, 95 and 99 of 100 stay within.
    """

    mean_s: float
    p50_s: float
    p95_s: float
    p99_s: float

    @classmethod
    def of(cls, seconds: Array) -> "Spread":
        """Return the spread of some seconds."""
        p50, p95, p99 = np.percentile(seconds, [50, 95, 99]).tolist()
        return cls(float(np.mean(seconds)), p50, p95, p99)


@dataclass(frozen=True, slots=True)
class BatchSimulation:
    """How tokens of a simulated batch came.

    Parameters
    ----------
    between_tokens
        Seconds from one token to the next of its sequence. The tokens of a round come at once,
        so that all but one of them wait 0.
    between_bursts
        Seconds from one round's tokens to the next of a sequence: what a reader sees stall.
    per_token
        Seconds per token of each sequence from its start to its end: what clients report as time
        per output token.
    batch
        Seconds until the last sequence of a batch is done.
    tokens_per_round
        Mean of the rounds of unfinished sequences, bonus token included; the last round of a
        sequence may be cut short.
    n_sequences
        Of all batches.
    """

    between_tokens: Spread
    between_bursts: Spread
    per_token: Spread
    batch: Spread
    tokens_per_round: float
    n_sequences: int


def simulate_batch(
    acceptance: Acceptance,
    round_s: ArrayLike,
    *,
    draft_len: int,
    output_len: int = 256,
    n_batches: int = 200,
    seed: int = 0,
) -> BatchSimulation:
    r"""Decode batches of equal sequences to their end, with new dice every round.

    .. math:: P(\text{accepted} \ge d) = s_d, \qquad
        \text{committed} = \min(\text{accepted} + 1, \text{tokens left})

    Parameters
    ----------
    acceptance
        The survival curve; of a beta curve each sequence draws its rate.
    round_s
        Seconds of a round with 1, 2, … unfinished sequences; as many as the batch is large.
    draft_len
        γ; 0 is plain decoding.
    output_len
        Tokens of each sequence.
    n_batches
        How many batches are decoded.
    seed
        Of the dice.

    Counts
        the bonus token; rounds that get shorter as sequences finish, since nothing takes their
        place.
    Ignores
        prefill, arrivals, and the growth of the context during an answer. Rounds of one sequence
        are independent: runs of easy and hard text, which lengthen the tail, are not there,
        save between sequences of a beta curve.
    Source
        Leviathan et al. 2022, arXiv:2211.17192, section 3.1, drawn instead of averaged.

    Raises
    ------
    OptionError
        For a number out of range, or a draft past the depth of a measured curve.

    Examples
    --------
    >>> from specroof import constant_acceptance
    >>> sure = simulate_batch(constant_acceptance(1), [0.01, 0.02], draft_len=3, output_len=8)
    >>> sure.tokens_per_round, sure.batch.mean_s  # 4 tokens a round: 2 rounds of 0.02 s
    (4.0, 0.04)
    """
    expect("acceptance", acceptance, Acceptance, "an Acceptance, as of constant_acceptance")
    times = _times(round_s)
    check_tokens(len(times), draft_len=draft_len, output_len=output_len, n_batches=n_batches)
    whole_within("seed", seed, "seed")
    dice = np.random.default_rng(seed)
    at_most = _cumulated(acceptance, draft_len, (n_batches, len(times)), dice)
    wait_s, burst, done_s = _decoded(at_most, times, output_len, dice)
    together = np.zeros(int(burst.sum()) - len(burst))
    return BatchSimulation(
        between_tokens=Spread.of(np.concatenate((wait_s, together))),
        between_bursts=Spread.of(wait_s),
        per_token=Spread.of(done_s.ravel() / output_len),
        batch=Spread.of(done_s.max(axis=1)),
        tokens_per_round=float(np.mean(burst)),
        n_sequences=done_s.size,
    )


def check_tokens(batch_size: int, *, draft_len: int, output_len: int, n_batches: int) -> None:
    """Refuse more tokens than memory and patience allow, before anything is computed for them.

    Parameters
    ----------
    batch_size
        Sequences at the start of each batch.
    draft_len, output_len, n_batches
        As for `simulate_batch`.

    Raises
    ------
    OptionError
        For a number out of range, or too many tokens in all.

    Examples
    --------
    >>> check_tokens(8, draft_len=4, output_len=256, n_batches=200)
    """
    batch = number_within("batch_size", batch_size, "batch_size")
    drafts = whole_within("draft_len", draft_len, "draft_len")
    length = whole_within("output_len", output_len, "simulated_len")
    batches = whole_within("n_batches", n_batches, "simulated_batches")
    if batch * batches * max(length, drafts) > _MOST_TOKENS:
        refuse(
            "n_batches x batch size x output_len",
            f"{batches} x {batch:g} x {max(length, drafts)}",
            f"at most {_MOST_TOKENS} tokens, drafts of one round included",
        )


def _decoded(
    at_most: Array, times: Array, output_len: int, dice: "Generator"
) -> tuple[Array, NDArray[np.int64], Array]:
    """Return the wait before and the size of each burst, and when each sequence is done."""
    left = np.full((len(at_most), len(times)), output_len, dtype=np.int64)
    done_s = np.zeros(left.shape)
    waits, bursts = [], []
    while np.any(left):
        active = left > 0
        running = active.sum(axis=1, keepdims=True)
        # A batch that is done waits for nothing: times[-1] of it is never counted.
        wait_s = np.broadcast_to(times[running - 1], left.shape)[active]
        accepted = np.sum(dice.random((*left.shape, 1)) > at_most, axis=-1)
        tokens = np.minimum(accepted + 1, left)[active]
        waits.append(wait_s)
        bursts.append(tokens)
        done_s[active] += wait_s
        left[active] -= tokens
    return np.concatenate(waits), np.concatenate(bursts), done_s


def _cumulated(
    acceptance: Acceptance, draft_len: int, shape: tuple[int, int], dice: "Generator"
) -> Array:
    """Return P(accepted < d) for d = 1 … γ, on a last axis, of each sequence."""
    depth = acceptance.max_draft_len
    if depth is not None and draft_len > depth:
        refuse("draft_len", draft_len, f"at most {depth}, the depth of {acceptance.description!r}")
    if acceptance.law is beta_law:
        a, b = acceptance.parameters
        rates = dice.beta(a, b, size=(*shape, 1))
        return np.asarray(1.0 - rates ** np.arange(1, draft_len + 1))
    at_most = 1.0 - acceptance.survival(np.arange(1, draft_len + 1))
    return np.broadcast_to(at_most, (*shape, draft_len))


def _times(round_s: ArrayLike) -> Array:
    """Return the seconds of a round by unfinished sequences."""
    times = np.atleast_1d(array_within("round_s", round_s, "seconds"))
    if times.ndim != 1 or not np.all(times > 0.0):
        refuse("round_s", round_s, "seconds above 0 for 1, 2, … sequences")
    return times
