"""What is known about a drafter as a curve: one rate, rates, lengths, a histogram, a spread."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from specroof.acceptance.curve import (
    LONGEST_DRAFT,
    PROBABILITY,
    Acceptance,
    drafts_of,
    length_of,
    number_from,
    numbers_from,
    some,
)
from specroof.errors import reject

__all__ = [
    "beta_acceptance",
    "constant_acceptance",
    "decay_acceptance",
    "histogram_acceptance",
    "lengths_acceptance",
    "rate_acceptance",
    "survival_acceptance",
]


def constant_acceptance(rate: float) -> Acceptance:
    r"""Return the curve of drafts that are each accepted with the same probability.

    .. math:: s_d = \alpha^d, \quad N = \frac{1 - \alpha^{\gamma+1}}{1 - \alpha}

    Counts
        drafts of equal quality at every position: `rate`, 0 to 1, is the probability that a draft
        is accepted, given that those before it were.
    Ignores
        that acceptance changes with depth and differs between sequences. A block drafter's
        measured tail (Doubleword 2026, "Adaptive speculative decoding") is heavier: s_15 = 0.051,
        where its s_1 = 0.772 would give 0.021.
    Source
        Leviathan et al. 2022, arXiv:2211.17192, equation 1.

    Examples
    --------
    >>> constant_acceptance(0.75).tokens_per_round(2)  # 1 + 0.75 + 0.5625
    array(2.3125)
    >>> constant_acceptance(1).tokens_per_round(16)  # all 16 and the bonus token
    array(17.)
    """
    rate = number_from("rate", rate, 0.0, 1.0, PROBABILITY)
    description = f"constant acceptance {rate:g} per draft token"
    return Acceptance(description, None, constant_law, (rate,))


def rate_acceptance(rates: ArrayLike) -> Acceptance:
    r"""Return the curve of drafts whose acceptance differs by position.

    .. math:: s_d = \prod_{j=1}^{d} a_j

    Counts
        conditional rates, 0 to 1: a_j is the share of drafts accepted at position j = 1, 2, …
        among the rounds in which every draft before was accepted. The share among all rounds is
        what :func:`survival_acceptance` takes.
    Ignores
        positions past the last rate: the curve ends there.
    Source
        Leviathan et al. 2022, arXiv:2211.17192, definition 3.1, one rate for each position.

    Examples
    --------
    >>> rate_acceptance([0.9, 0.8, 0.5]).survival([1, 2, 3])  # 0.9, 0.9 * 0.8, 0.72 * 0.5
    array([0.9 , 0.72, 0.36])
    >>> rate_acceptance([0.9, 0.8, 0.5]).tokens_per_round(3)  # 1 + 0.9 + 0.72 + 0.36
    array(2.98)
    """
    checked = numbers_from("rates", rates, 1.0, PROBABILITY)
    survival = tuple(survival_of_rates(checked)[1:].tolist())
    description = f"conditional acceptance {some(checked)} by position"
    return Acceptance(description, len(checked), listed_law, survival)


def survival_acceptance(survival: ArrayLike) -> Acceptance:
    r"""Return the curve that is given as it is.

    .. math:: s_d = P(\text{accepted} \ge d)

    Counts
        the share of all rounds whose first d drafts were accepted, d = 1, 2, …, so that none is
        above the one before. s_0 = 1 is not part of the list.
    Ignores
        positions past the last value: the curve ends there.
    Source
        Leviathan et al. 2022, arXiv:2211.17192, section 3.1, as a tail distribution.

    Examples
    --------
    >>> survival_acceptance([0.8, 0.6, 0.6]).tokens_per_round([1, 2, 3])
    array([1.8, 2.4, 3. ])
    """
    checked = numbers_from("survival", survival, 1.0, PROBABILITY)
    for index in range(1, len(checked)):
        if checked[index] > checked[index - 1]:
            reject(
                f"survival[{index}] is {checked[index]}, above {checked[index - 1]} before it",
                "values that never rise (conditional rates may rise, survival cannot)",
            )
    return Acceptance(f"survival {some(checked)} by depth", len(checked), listed_law, checked)


def histogram_acceptance(counts: ArrayLike) -> Acceptance:
    r"""Return the curve behind a histogram of accepted drafts.

    .. math:: s_d = \sum_{k \ge d} n_k \Big/ \sum_{k \ge 0} n_k

    Counts
        rounds with 0, 1, 2, … accepted drafts, up to the draft length of the measurement, where
        the curve ends. Shares of rounds serve as well: only the ratios matter.
    Ignores
        the bonus token: a round that commits it alone belongs into the first bin.
    Source
        Leviathan et al. 2022, arXiv:2211.17192, section 3.1, as a measured distribution.

    Examples
    --------
    >>> histogram_acceptance([1, 1, 2]).survival([0, 1, 2])  # 4/4, 3/4, 2/4
    array([1.  , 0.75, 0.5 ])
    >>> histogram_acceptance([1, 1, 2]).tokens_per_round(2)  # 1 + (0 + 1 + 2 + 2) / 4
    array(2.25)
    """
    checked = numbers_from("counts", counts, math.inf, "a number of rounds, not negative")
    with np.errstate(over="ignore"):
        at_least = np.cumsum(checked[::-1])[::-1]
    total = float(at_least[0])
    if not 0.0 < total < math.inf:
        reject(f"counts add up to {total}", "a finite sum above 0")
    survival = tuple((at_least[1:] / total).tolist())
    description = (
        f"histogram of 0 to {len(survival)} accepted drafts, mean {math.fsum(survival):.4g}"
    )
    return Acceptance(description, len(survival), listed_law, survival)


def beta_acceptance(a: float, b: float) -> Acceptance:
    r"""Return the curve of sequences that differ in their constant rate.

    .. math:: \alpha \sim \mathrm{Beta}(a, b): \quad
        s_d = E[\alpha^d] = \prod_{i=0}^{d-1} \frac{a + i}{a + b + i}

    Counts
        the average over sequences of their survival; a, b > 0, the mean rate is a / (a + b), and
        the larger a + b, the more alike the sequences. From the second draft on it lies above the
        survival of the average rate (Jensen's inequality).
    Ignores
        that a hard sequence takes more rounds for the same text: this is an average over
        sequences, and the average over their rounds is lower.
    Source
        moments of the beta distribution (Johnson, Kotz and Balakrishnan 1995, Continuous
        Univariate Distributions 2, chapter 25), put into Leviathan et al. 2022,
        arXiv:2211.17192, equation 1.

    Examples
    --------
    >>> beta_acceptance(1, 1).survival([1, 2, 3])  # any rate is as likely: 1/2, 1/3, 1/4
    array([0.5       , 0.33333333, 0.25      ])
    >>> constant_acceptance(0.5).survival([1, 2, 3])  # the same mean, and a lighter tail
    array([0.5  , 0.25 , 0.125])
    """
    smallest = math.ulp(0.0)
    a = number_from("a", a, smallest, math.inf, "a number above 0")
    b = number_from("b", b, smallest, math.inf, "a number above 0")
    mean = beta_law((a, b), 1)[1]
    description = f"acceptance Beta({a:g}, {b:g}) over sequences, mean {mean:.4g}"
    return Acceptance(description, None, beta_law, (a, b))


def decay_acceptance(first_rate: float, last_rate: float, decay: float) -> Acceptance:
    r"""Return the curve of drafts whose rate runs from one value to another with depth.

    .. math:: a_j = a_\infty + (a_1 - a_\infty) \rho^{j-1}, \quad s_d = \prod_{j=1}^{d} a_j

    Parameters
    ----------
    first_rate, last_rate
        a_1 of the first draft, and a_∞ far along; the rates may fall or rise. From 0 to 1.
    decay
        ρ, 0 to 1: the share of the way that is left after each draft. 1 stays at `first_rate`.

    Counts
        drafters of several tokens at once, whose rates fall, and those of one at a time, whose
        rates stay or rise (Cheng et al. 2026, DSpark, figure 2).
    Ignores
        a dip: block drafters fall after the first draft and rise again (the DFlash of that figure:
        0.885, 0.820 at the third draft, 0.841 at the fifth), which leaves the law 0.02 off.
    Source
        a law of two rates and a ratio that fits such figures; no paper derives it.

    Raises
    ------
    OptionError
        For a number outside of 0 to 1.

    Examples
    --------
    >>> curve = decay_acceptance(0.8, 0.6, 0.5)  # rates 0.8, 0.7, 0.65
    >>> curve.survival([1, 2, 3])  # 0.8, 0.8 * 0.7, 0.56 * 0.65
    array([0.8  , 0.56 , 0.364])
    """
    first = number_from("first_rate", first_rate, 0.0, 1.0, PROBABILITY)
    last = number_from("last_rate", last_rate, 0.0, 1.0, PROBABILITY)
    ratio = number_from("decay", decay, 0.0, 1.0, PROBABILITY)
    description = (
        f"acceptance from {first:.4g} towards {last:.4g} per draft token, "
        f"{ratio:.4g} of the way left after each"
    )
    return Acceptance(description, None, decay_law, (first, last, ratio))


def lengths_acceptance(tokens_per_round: Mapping[int, float]) -> Acceptance:
    r"""Return the curve behind acceptance lengths measured at several draft lengths.

    .. math:: N(k) = 1 + \sum_{d=1}^{k} s_d \quad\Rightarrow\quad
        \bar s_{k' < d \le k} = \frac{N(k) - N(k')}{k - k'}

    Between two measured draft lengths the survival is the slope. Separate runs scatter: where
    a slope lies above the one before, which survival cannot, both become their average weighted
    by the depths they span (pool adjacent violators: the least squares solution).

    Parameters
    ----------
    tokens_per_round
        Acceptance length by number of drafts, bonus token included.

    Counts
        the bonus token, and drafts from 1 to the largest key, where the curve ends.
    Ignores
        the shape between two measured draft lengths; that a longer draft may change its first
        tokens; that after pooling a length may be missed (its size is in the description).
    Source
        Leviathan et al. 2022, arXiv:2211.17192, section 3.1, as a difference; pooling: Ayer et al.
        1955, Annals of Mathematical Statistics 26, 641.

    Raises
    ------
    OptionError
        For an empty mapping, drafts that are not whole numbers from 1 on, or a length that its
        drafts cannot give.

    Examples
    --------
    >>> lengths_acceptance({1: 1.8, 2: 2.4, 4: 3.0}).survival([1, 2, 3, 4])  # 0.6 over 2 drafts
    array([0.8, 0.6, 0.3, 0.3])
    >>> lengths_acceptance({1: 1.8, 2: 2.2, 3: 2.8}).survival([2, 3])  # 0.4 and 0.6 are pooled
    array([0.5, 0.5])
    """
    checked = _checked_lengths(tokens_per_round)
    steps = np.diff([0, *checked])
    slopes = np.diff([1.0, *checked.values()]) / steps
    pooled = np.clip(_pooled(slopes, steps.astype(np.float64)), 0.0, 1.0)
    survival = tuple(np.repeat(pooled, steps).tolist())
    fitted = 1.0 + np.cumsum(survival)
    miss = max(abs(float(fitted[k - 1]) - length) for k, length in checked.items())
    description = (
        f"acceptance lengths at {', '.join(str(k) for k in checked)} drafts (bonus included), "
        f"met within {miss:.2g} tokens"
    )
    return Acceptance(description, len(survival), listed_law, survival)


def constant_law(parameters: tuple[Any, ...], depth: int) -> NDArray[np.float64]:
    """Return the powers of one rate, or of each of many on an axis before the last."""
    (rate,) = parameters
    return survival_of_rates(rate * np.ones(depth))


def listed_law(parameters: tuple[float, ...], depth: int) -> NDArray[np.float64]:
    """Return the values of a list, s_0 = 1 before them."""
    return np.array([1.0, *parameters[:depth]])


def decay_law(parameters: tuple[Any, ...], depth: int) -> NDArray[np.float64]:
    """Return the survival of rates that run from the first to the last by powers of the decay."""
    first, last, ratio = parameters
    return survival_of_rates(last + (first - last) * ratio ** np.arange(depth))


def beta_law(parameters: tuple[Any, ...], depth: int) -> NDArray[np.float64]:
    """Return the average of α^d over a beta distribution of α."""
    a, b = parameters
    with np.errstate(over="ignore"):  # odds of infinity are a rate of 0
        odds_against = b / (a + np.arange(depth))
    # (a + i) / (a + b + i) in a form in which a huge a + b does not overflow.
    return survival_of_rates(1.0 / (1.0 + odds_against))


def survival_of_rates(rates: ArrayLike) -> NDArray[np.float64]:
    """Return s_0 = 1 and the running products of conditional `rates`, along the last axis."""
    each = np.asarray(rates, dtype=np.float64)
    first = np.ones((*each.shape[:-1], 1))
    return np.cumprod(np.concatenate((first, each), axis=-1), axis=-1)


def rates_of_survival(survival: ArrayLike) -> NDArray[np.float64]:
    """Return the conditional rates behind s_1, s_2, …; 0 where nothing survives before.

    Examples
    --------
    >>> rates_of_survival([0.8, 0.4, 0.0, 0.0])
    array([0.8, 0.5, 0. , 0. ])
    """
    curve = np.asarray(survival, dtype=np.float64)
    before = np.concatenate(([1.0], curve[:-1]))
    return np.divide(curve, before, out=np.zeros_like(curve), where=before > 0.0)


def _checked_lengths(tokens_per_round: Mapping[int, float]) -> dict[int, float]:
    """Return the lengths by draft length, ascending, each within what its drafts can give."""
    given: object = tokens_per_round
    if not isinstance(given, Mapping) or not given:
        reject("tokens_per_round holds no lengths", "one or more, by number of drafts")
    checked: dict[int, float] = {}
    for drafts, length in tokens_per_round.items():
        allowed = f"a whole number of drafts from 1 to {LONGEST_DRAFT}"
        count = drafts_of("a key of tokens_per_round", drafts, allowed)
        checked[count] = length_of(f"tokens_per_round[{count}]", length, count, "drafts")
    return dict(sorted(checked.items()))


def _pooled(values: NDArray[np.float64], weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the closest values (weighted least squares) that never rise."""
    blocks: list[tuple[float, float, int]] = []
    for value, weight in zip(values.tolist(), weights.tolist(), strict=True):
        mean, heavy, n = value, weight, 1
        while blocks and blocks[-1][0] < mean:
            other, other_weight, other_n = blocks.pop()
            mean = (mean * heavy + other * other_weight) / (heavy + other_weight)
            heavy, n = heavy + other_weight, n + other_n
        blocks.append((mean, heavy, n))
    return np.repeat([mean for mean, _, _ in blocks], [n for _, _, n in blocks])
