"""Curves whose rates run towards a limit, and what lengths at several depths say."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from specroof.acceptance.checks import LONGEST_DRAFT, PROBABILITY, drafts_of, length_of, number_from
from specroof.acceptance.curve import Acceptance
from specroof.acceptance.laws import listed_law, survival_of_rates
from specroof.errors import reject

__all__ = [
    "decay_acceptance",
    "lengths_acceptance",
]


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


def decay_law(parameters: tuple[float, ...], depth: int) -> NDArray[np.float64]:
    """Return the survival of rates that run from the first to the last by powers of the decay."""
    first, last, ratio = parameters
    return survival_of_rates(last + (first - last) * ratio ** np.arange(depth))


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
