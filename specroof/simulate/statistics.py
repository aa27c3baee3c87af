"""Pearson's chi-squared test, with the closed form of its p-value."""

import math
from typing import Final

import numpy as np
from numpy.typing import NDArray

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
