"""What is known about a drafter as a curve: one rate, rates, a length, a histogram, a spread."""

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from specroof.acceptance.checks import (
    PROBABILITY,
    number_from,
    numbers_from,
    some,
)
from specroof.acceptance.curve import Acceptance
from specroof.errors import reject

__all__ = [
    "beta_acceptance",
    "constant_acceptance",
    "histogram_acceptance",
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
    return Acceptance(description, None, _constant_law, (rate,))


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


def _constant_law(parameters: tuple[float, ...], depth: int) -> NDArray[np.float64]:
    (rate,) = parameters
    return survival_of_rates(np.full(depth, rate))


def listed_law(parameters: tuple[float, ...], depth: int) -> NDArray[np.float64]:
    """Return the values of a list, s_0 = 1 before them."""
    return np.array([1.0, *parameters[:depth]])


def beta_law(parameters: tuple[float, ...], depth: int) -> NDArray[np.float64]:
    """Return the average of α^d over a beta distribution of α."""
    a, b = parameters
    with np.errstate(over="ignore"):  # odds of infinity are a rate of 0
        odds_against = b / (a + np.arange(depth))
    # (a + i) / (a + b + i) in a form in which a huge a + b does not overflow.
    return survival_of_rates(1.0 / (1.0 + odds_against))


def survival_of_rates(rates: ArrayLike) -> NDArray[np.float64]:
    """Return s_0 = 1 and the running products of conditional `rates`."""
    return np.cumprod(np.concatenate(([1.0], rates)), dtype=np.float64)
