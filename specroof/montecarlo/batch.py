"""Rounds whose outcome a drafter's confidence knows in part beforehand."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from specroof.acceptance import Acceptance
from specroof.acceptance.curve import beta_law, rates_of_survival
from specroof.arrays import Array, array_within, number_within, whole_within
from specroof.errors import expect, refuse

if TYPE_CHECKING:
    from numpy.random import Generator


def confident_rounds(
    survival: ArrayLike, *, known: float, shape: tuple[int, ...], dice: "Generator"
) -> tuple[Array, NDArray[np.intp]]:
    r"""Draw rounds: how likely each draft survives, as confidence knows it, and how many did.

    .. math:: c_j \sim \mathrm{Beta}(\kappa a_j, \kappa (1 - a_j)), \quad
        \kappa = \frac{1}{\rho} - 1, \quad a_j = \frac{s_j}{s_{j-1}}

    Parameters
    ----------
    survival
        s_1 … s_γ on average.
    known
        ρ: the share of the variance of each draft's acceptance that confidence knows, from 0, where
        all rounds look alike, to 1, where it tells what will be accepted.
    shape
        Of the rounds that are drawn.
    dice
        What draws.

    Returns
    -------
    tuple
        :math:`\prod_{i \le j} c_i` of each draft, axes (\*shape, γ), and accepted drafts, axes
        `shape`.

    Counts
        confidence that is calibrated: of drafts with confidence c, a share c is accepted. The
        average over rounds is `survival`, whatever is known.
    Ignores
        that confident drafts come in runs: positions and rounds are drawn apart.
    Source
        The beta distribution has mean a and variance a (1 - a) / (κ + 1), a share 1 / (κ + 1) of
        the variance of the outcome (Johnson, Kotz and Balakrishnan 1995, Continuous Univariate
        Distributions 2, chapter 25); survival as a product of confidences: DSpark (Cheng et al.
        2026), algorithm 1.

    Examples
    --------
    >>> dice = np.random.default_rng(0)
    >>> worth, accepted = confident_rounds([0.8, 0.4], known=0.0, shape=(2,), dice=dice)
    >>> worth
    array([[0.8, 0.4],
           [0.8, 0.4]])
    """
    share = number_within("known", known, "share")
    rates = rates_of_survival(survival)
    full = (*shape, len(rates))
    chances = dice.random(full)
    if share in {0.0, 1.0}:
        surely = (dice.random(full) < rates).astype(np.float64)
        confidence = np.broadcast_to(rates, full) if share == 0.0 else surely
    else:
        kappa = 1.0 / share - 1.0
        # The beta of a certain rate is that rate, which the distribution does not allow.
        open_ = np.clip(rates, 1e-12, 1.0 - 1e-12)
        confidence = dice.beta(kappa * open_, kappa * (1.0 - open_), full)
    accepted = np.cumprod(chances < confidence, axis=-1).sum(axis=-1)
    return np.cumprod(confidence, axis=-1, dtype=np.float64), accepted


# --- A batch of sequences round by round: the spread of times, which a mean does not show --------

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
    times = np.atleast_1d(array_within("round_s", round_s, "seconds"))
    if times.ndim != 1 or not np.all(times > 0.0):
        refuse("round_s", round_s, "seconds above 0 for 1, 2, … sequences")
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
