"""Pearson's chi-squared test, with the closed form of its p-value."""

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from specroof.arrays import Array, number_within, real_array, whole_within
from specroof.errors import refuse
from specroof.units import BOUNDS

if TYPE_CHECKING:
    from numpy.random import Generator

#: Expected counts below this are pooled (Cochran 1954, Biometrics 10, 417).
_SMALLEST_EXPECTED: Final = 5.0


def chi_squared_p_value(statistic: float, degrees_of_freedom: int) -> float:
    r"""Return the probability that chance alone gives a statistic at least as large.

    .. math:: Q = e^{-x/2} \sum_{i < k/2} \frac{(x/2)^i}{i!} \quad (k \text{ even}), \qquad
        Q = \mathrm{erfc}\sqrt{x/2} + e^{-x/2} \sum_{i=1}^{(k-1)/2}
        \frac{(x/2)^{i-1/2}}{\Gamma(i + 1/2)} \quad (k \text{ odd})

    Parameters
    ----------
    statistic, degrees_of_freedom
        x and k; without a degree of freedom nothing can be off, and the answer is 1.

    Counts
        finite sums of positive terms, exact for whole degrees of freedom.
    Ignores
        that counts are whole numbers, which matters where a count of 5 or less is expected.
    Source
        Abramowitz and Stegun 1964, Handbook of Mathematical Functions, 26.4.4 and 26.4.5.

    Examples
    --------
    >>> round(chi_squared_p_value(3.841, 1), 3), round(chi_squared_p_value(18.307, 10), 3)
    (0.05, 0.05)
    """
    if math.isinf(statistic):
        return 0.0
    half = statistic / 2.0
    if degrees_of_freedom <= 0 or half <= 0.0:
        return 1.0
    odd = degrees_of_freedom % 2
    powers = np.arange(odd, (degrees_of_freedom - odd) // 2 + odd) - odd / 2.0
    logs = [power * math.log(half) - math.lgamma(power + 1.0) - half for power in powers.tolist()]
    tail = math.erfc(math.sqrt(half)) if odd else 0.0
    return min(1.0, tail + math.fsum(math.exp(log) for log in logs))


def chi_squared_test(
    counts: NDArray[np.float64], expected: NDArray[np.float64]
) -> tuple[float, int]:
    r"""Return Pearson's statistic and its degrees of freedom.

    .. math:: x = \sum_i \frac{(n_i - e_i)^2}{e_i}

    Parameters
    ----------
    counts, expected
        How often each outcome came, and should have come; equal sums.

    Counts
        outcomes that should have come less than five times as one outcome. One that cannot come,
        and came, makes the statistic infinite.
    Source
        Pearson 1900, Philosophical Magazine 50, 157.

    Examples
    --------
    >>> chi_squared_test(np.array([60.0, 40.0]), np.array([50.0, 50.0]))  # 100/50 + 100/50
    (4.0, 1)
    """
    if np.any(counts[expected == 0.0]):
        return math.inf, max(1, len(counts) - 1)
    order = np.argsort(expected)[::-1]
    counts, expected = counts[order], expected[order]
    # The rarest outcomes go together, and others with them until they are not rare any more.
    behind = np.append(np.cumsum(expected[:0:-1])[::-1], 0.0)
    kept = np.count_nonzero((expected >= _SMALLEST_EXPECTED) & (behind >= _SMALLEST_EXPECTED))
    groups = np.append(expected[:kept], expected[kept:].sum())
    found = np.append(counts[:kept], counts[kept:].sum())
    there = groups > 0.0
    statistic = float(np.sum((found[there] - groups[there]) ** 2 / groups[there]))
    return statistic, int(np.sum(there)) - 1


# --- Speculative sampling with dice: committed tokens follow the target, whatever was drafted ----

Tokens = NDArray[np.int64]

#: Sequences that are simulated side by side.
_SEQUENCES: Final = 256
#: Each draft of a round is drawn from a whole vocabulary, so that this many take a minute or two.
_MOST_DRAWS: Final = 20_000_000_000
#: How far typed probabilities may miss a sum of 1.
_SUM_TOLERANCE: Final = 0.000_1
_ROUNDING: Final = 1e-9


@dataclass(frozen=True, slots=True)
class ExactnessResult:
    """What dice say about one pair of distributions, beside what the formulas say.

    Parameters
    ----------
    n_tokens, n_rounds
        Committed tokens, bonus tokens included, and rounds.
    chi_squared, degrees_of_freedom, p_value
        Of the committed tokens against the target's distribution: a p-value below 0.001 says
        that they do not follow it.
    acceptance_rate, expected_acceptance_rate
        Share of drafts accepted among those looked at, and 1 less the total variation distance,
        averaged over the contexts in which they were looked at.
    acceptance_z
        Their difference in standard deviations; beyond 4 they disagree.
    tokens_per_round, expected_tokens_per_round
        Mean of the rounds, and 1 plus the sum of survival.
    tokens_per_round_z
        Their difference in standard deviations.
    """

    n_tokens: int
    n_rounds: int
    chi_squared: float
    degrees_of_freedom: int
    p_value: float
    acceptance_rate: float
    expected_acceptance_rate: float
    acceptance_z: float
    tokens_per_round: float
    expected_tokens_per_round: float
    tokens_per_round_z: float


@dataclass(frozen=True, slots=True, eq=False)
class _Pair:
    """Target and draft distributions, a row for each context; one row where none matters."""

    target: Array
    draft: Array
    residual: Array

    @property
    def accepted(self) -> Array:
        """Probability of drafting a token and accepting it."""
        return np.minimum(self.target, self.draft)

    @property
    def overlap(self) -> Array:
        """Acceptance rate in each context."""
        return np.asarray(self.accepted.sum(axis=1))

    def context(self, tokens: Tokens) -> Tokens:
        """Return the rows that follow tokens."""
        return tokens if len(self.target) > 1 else np.zeros_like(tokens)


def simulate_exactness(
    target: ArrayLike,
    draft: ArrayLike,
    *,
    draft_len: int = 4,
    n_tokens: int = 100_000,
    seed: int = 0,
) -> ExactnessResult:
    r"""Run speculative sampling on two distributions and hold its output against the target's.

    Each round drafts γ tokens from q, accepts each with probability min(1, p/q) until the first
    refusal, replaces that one by a token from the normalised positive part of p − q, and adds a
    token from p where all were accepted.

    .. math:: \alpha = \sum_x \min(p_x, q_x) = 1 - \tfrac12 \sum_x |p_x - q_x|, \qquad
        N = 1 + \sum_{d=1}^{\gamma} \pi M^d \mathbf 1, \quad M_{xy} = \min(p_{xy}, q_{xy})

    Parameters
    ----------
    target, draft
        p and q: one distribution, or a row for each token that may come before (a Markov chain).
    draft_len
        γ, at least 1.
    n_tokens
        How many tokens to commit, at least.
    seed
        Of the dice.

    Counts
        every committed token, the bonus token included. N starts from the contexts π in which
        the rounds did start; without contexts it is (1 − α^{γ+1}) / (1 − α).
    Ignores
        everything about time.
    Source
        Leviathan et al. 2022, arXiv:2211.17192, algorithm 1, theorem 3.5 and equation 1; Chen et
        al. 2023, arXiv:2302.01318, algorithm 2 and theorem 1.

    Raises
    ------
    OptionError
        For rows that are not distributions, or another number out of range.

    Examples
    --------
    >>> result = simulate_exactness([0.5, 0.3, 0.2], [0.2, 0.3, 0.5], n_tokens=20_000)
    >>> round(result.expected_acceptance_rate, 12)  # 0.2 + 0.3 + 0.2
    0.7
    >>> result.p_value > 0.001, abs(result.acceptance_z) < 4, abs(result.tokens_per_round_z) < 4
    (True, True, True)
    """
    p, q = _distribution("target", target), _distribution("draft", draft)
    if p.shape != q.shape:
        refuse("draft", f"of shape {q.shape}", f"the target's shape {p.shape}")
    pair = _Pair(p, q, _residual(p, q))
    drafts = whole_within("draft_len", draft_len, "simulated_draft_len")
    tokens = whole_within("n_tokens", n_tokens, "simulated_tokens")
    if drafts * tokens * pair.target.shape[1] > _MOST_DRAWS:
        sizes = f"{tokens} x {drafts} x {pair.target.shape[1]}"
        refuse("n_tokens x draft_len x vocabulary", sizes, f"up to {_MOST_DRAWS}")
    whole_within("seed", seed, "seed")
    dice = np.random.default_rng(seed)
    before = pair.context(dice.integers(0, pair.target.shape[1], _SEQUENCES))
    tally = _Tally(
        np.zeros_like(pair.target), np.zeros(len(pair.target)), np.zeros(len(pair.target))
    )
    while tally.committed.sum() < n_tokens:
        np.add.at(tally.starts, before, 1.0)
        committed, accepted = _round(pair, before, draft_len, dice)
        tally.accepted.append(accepted)
        for position, token in enumerate(committed):
            there = position <= accepted
            np.add.at(tally.committed, (before[there], token[there]), 1.0)
            if position < draft_len:
                np.add.at(tally.looked_at, before[there], 1.0)
            before = np.where(there, pair.context(token), before)
    return _result(pair, tally, draft_len)


def random_distributions(
    vocabulary: int, closeness: float, *, contexts: bool = False, seed: int = 0
) -> tuple[Array, Array]:
    """Return a target's and a draft's distribution, drawn at random.

    Parameters
    ----------
    vocabulary
        Tokens, 2 to 4096.
    closeness
        1 makes both the same, 0 leaves them independent.
    contexts
        Whether distributions depend on the token before.
    seed
        Of the dice.

    Raises
    ------
    OptionError
        For a number out of range.

    Source
        both are drawn from the flat Dirichlet distribution: every distribution is as likely.

    Examples
    --------
    >>> target, draft = random_distributions(8, 1.0)
    >>> bool((target == draft).all()), round(float(target.sum()), 12)
    (True, 1.0)
    """
    whole_within("vocabulary", vocabulary, "vocabulary")
    whole_within("seed", seed, "seed")
    number_within("closeness", closeness, "share")
    dice = np.random.default_rng(seed)
    flat = np.ones(vocabulary)
    shape = (vocabulary,) if contexts else ()
    target, other = dice.dirichlet(flat, size=shape), dice.dirichlet(flat, size=shape)
    return target, closeness * target + (1.0 - closeness) * other


@dataclass(frozen=True, slots=True, eq=False)
class _Tally:
    """What the rounds so far did: rows are contexts."""

    committed: Array
    starts: Array
    looked_at: Array
    accepted: list[Tokens] = field(default_factory=list)


def _round(pair: _Pair, before: Tokens, draft_len: int, dice: "Generator") -> tuple[Tokens, Tokens]:
    """Return the tokens of one round by position, and the number of accepted drafts.

    Position `accepted` holds the replacement or the bonus token; later positions are void.
    """
    tokens = np.empty((draft_len + 1, len(before)), dtype=np.int64)
    accepted = np.zeros(len(before), dtype=np.int64)
    for position in range(draft_len):
        draft = _drawn(pair.draft[before], dice)
        p, q = pair.target[before, draft], pair.draft[before, draft]
        kept = dice.random(len(before)) * q < p  # accept with probability min(1, p / q)
        tokens[position] = np.where(kept, draft, _drawn(pair.residual[before], dice))
        running = accepted == position
        accepted += running & kept
        before = np.where(running, pair.context(tokens[position]), before)
    tokens[draft_len] = _drawn(pair.target[before], dice)
    return tokens, accepted


def _drawn(rows: Array, dice: "Generator") -> Tokens:
    """Return one outcome of each row, a distribution, by inverting its cumulated sum."""
    cumulated = np.cumsum(rows, axis=1)
    # Scaled to the sum as it came out, so that rounding never points past the last outcome.
    points = dice.random((len(rows), 1)) * cumulated[:, -1:]
    return np.asarray(np.sum(cumulated <= points, axis=1), dtype=np.int64)


def _result(pair: _Pair, tally: _Tally, draft_len: int) -> ExactnessResult:
    """Return the counts beside the formulas' values."""
    accepted = np.concatenate(tally.accepted)
    n_tokens, n_rounds = int(tally.committed.sum()), len(accepted)
    tests = [
        chi_squared_test(row, row.sum() * distribution)
        for row, distribution in zip(tally.committed, pair.target, strict=True)
    ]
    statistic, freedom = math.fsum(x for x, _ in tests), sum(k for _, k in tests)
    looks = float(tally.looked_at.sum())
    expected = float(tally.looked_at @ pair.overlap)
    spread = float(tally.looked_at @ (pair.overlap * (1.0 - pair.overlap)))
    # 1 + Σ π M^d 1: accepted drafts lead from one context to the next.
    step = pair.accepted if len(pair.target) > 1 else pair.overlap[:, None]
    survival, length = tally.starts / tally.starts.sum(), 1.0
    for _ in range(draft_len):
        survival = survival @ step
        length += float(survival.sum())
    mean = 1.0 + float(accepted.mean())
    return ExactnessResult(
        n_tokens=n_tokens,
        n_rounds=n_rounds,
        chi_squared=statistic,
        degrees_of_freedom=freedom,
        p_value=chi_squared_p_value(statistic, freedom),
        acceptance_rate=float(accepted.sum()) / looks,
        expected_acceptance_rate=expected / looks,
        acceptance_z=_deviations(float(accepted.sum()) - expected, math.sqrt(max(spread, 0.0))),
        tokens_per_round=mean,
        expected_tokens_per_round=length,
        tokens_per_round_z=_deviations(mean - length, float(accepted.std()) / math.sqrt(n_rounds)),
    )


def _deviations(difference: float, deviation: float) -> float:
    """Return a difference in standard deviations; of rounding, where nothing is left to chance."""
    if deviation > _ROUNDING:
        return difference / deviation
    return 0.0 if abs(difference) < _SUM_TOLERANCE else math.inf


def _residual(target: Array, draft: Array) -> Array:
    """Return the distribution after a refused draft: the normalised positive part of p − q."""
    excess = np.maximum(target - draft, 0.0)
    total = excess.sum(axis=1, keepdims=True)
    # Where both agree nothing is refused, and any distribution will do.
    return np.where(total > 0.0, excess / np.where(total > 0.0, total, 1.0), target)


def _distribution(name: str, values: ArrayLike) -> Array:
    """Return one distribution for each context."""
    allowed = "probabilities that add up to 1, or a square table with a row for each token before"
    given = real_array(values)
    if given is None:
        refuse(name, values, allowed)
    rows = np.atleast_2d(given)
    contexts, vocabulary = rows.shape if rows.ndim == 2 else (0, 0)
    if contexts not in {1, vocabulary} or not 2 <= vocabulary <= BOUNDS["vocabulary"].most:
        refuse(name, f"of shape {rows.shape}", allowed)
    # Not a number lies nowhere; beyond 1 a sum may overflow.
    if not np.all((rows >= 0.0) & (rows <= 1.0 + _SUM_TOLERANCE)):
        refuse(name, values, allowed)
    sums = rows.sum(axis=1, keepdims=True)
    if np.any(np.abs(sums - 1.0) > _SUM_TOLERANCE):
        refuse(name, f"of sum {float(sums.flat[np.argmax(np.abs(sums - 1.0))]):g}", allowed)
    return np.asarray(rows / sums)
