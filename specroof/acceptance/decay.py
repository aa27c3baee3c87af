"""Curves whose rates run towards a limit, and what a measurement says beyond its depth."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from specroof.acceptance.checks import LONGEST_DRAFT, PROBABILITY, number_from
from specroof.acceptance.curve import Acceptance
from specroof.acceptance.laws import listed_law, survival_of_rates
from specroof.acceptance.typical import SHAPES, acceptance_from_length
from specroof.errors import OptionError, expect, refuse

__all__ = [
    "EXTRAPOLATIONS",
    "decay_acceptance",
    "extrapolated_acceptance",
    "lengths_acceptance",
]


#: The way of an acceptance length alone; see `acceptance_from_length`.
_CONSTANT: Final = "constant"


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

    Between two measured draft lengths the survival is the slope. Runs of their own scatter: where
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


def extrapolated_acceptance(acceptance: Acceptance, how: str) -> Acceptance:
    """Return a measured curve that goes on past its depth, in one of the ways that have a name.

    Parameters
    ----------
    acceptance
        A curve that ends, or one inferred from a length; a law that was given stays as it is.
    how
        ``"geometric"``: every further draft is accepted at the last measured conditional rate.
        ``"decay"``: at the rates of a decay law fitted to the measured ones.
        ``"zero"``: no further draft is accepted, which no drafter undercuts.
        ``"constant"``, of a length alone: every draft is accepted at the same rate.

    Counts
        the measured part as it was measured.
    Ignores
        everything that a measurement cannot say about depths it did not reach. What was measured
        past 8 drafts of a block drafter of 15 (Doubleword 2026) brings N to 4.42: from the first
        8 alone, geometric gives 4.36 and zero 3.86.
    Source
        constant rates: Leviathan et al. 2022, arXiv:2211.17192, equation 1.

    Raises
    ------
    OptionError
        If `how` is another name, or no draft was measured.

    Examples
    --------
    >>> from specroof import survival_acceptance
    >>> measured = survival_acceptance([0.8, 0.4])
    >>> extrapolated_acceptance(measured, "geometric").survival([2, 3, 4])  # halves each time
    array([0.4, 0.2, 0.1])
    >>> extrapolated_acceptance(measured, "zero").survival([2, 3])
    array([0.4, 0. ])
    """
    expect("acceptance", acceptance, Acceptance, "an Acceptance, as of survival_acceptance")
    depth = acceptance.max_draft_len
    from_length = depth is None and acceptance.measured_depth is not None
    expect("extrapolate", how, str, ", ".join(EXTRAPOLATIONS))
    if how not in EXTRAPOLATIONS and not (from_length and how == _CONSTANT):
        refuse("extrapolate", how, ", ".join([*EXTRAPOLATIONS, *[_CONSTANT] * from_length]))
    if depth is None:
        depth = acceptance.measured_depth
        if depth is None:
            return acceptance
        if how == _CONSTANT:
            length = float(acceptance.tokens_per_round(depth))
            return acceptance_from_length(length, depth, law=_CONSTANT)
    if depth == 0:
        refuse("extrapolate", how, "with an acceptance of at least one draft")
    survival = tuple(acceptance.survival(np.arange(1, depth + 1)).tolist())
    tail = EXTRAPOLATIONS[how](survival)
    return replace(
        acceptance,
        description=f"{acceptance.description}, past {depth} drafts extrapolated: {how}",
        max_draft_len=None,
        law=_continued_law,
        parameters=(*tail, *survival),
        measured_depth=depth,
        spread=(0.0, acceptance.spread[1] or SHAPES[""].spread_beyond),
    )


def decay_law(parameters: tuple[float, ...], depth: int) -> NDArray[np.float64]:
    """Return the survival of rates that run from the first to the last by powers of the decay."""
    first, last, ratio = parameters
    return survival_of_rates(last + (first - last) * ratio ** np.arange(depth))


def _continued_law(parameters: tuple[float, ...], depth: int) -> NDArray[np.float64]:
    """Return measured survival, then rates of a decay law: parameters are its three, then s_d."""
    (first, last, ratio), measured = parameters[:3], parameters[3:]
    positions = np.arange(len(measured), max(depth, len(measured)))
    rates = last + (first - last) * ratio**positions
    return np.concatenate(([1.0], measured[:depth], measured[-1] * np.cumprod(rates)))


def _last_rate(survival: tuple[float, ...]) -> tuple[float, float, float]:
    before = (1.0, *survival)[-2]
    rate = survival[-1] / before if before > 0.0 else 0.0
    return rate, rate, 1.0


def _fitted_decay(survival: tuple[float, ...]) -> tuple[float, float, float]:
    from specroof.acceptance.law_fits import fit_acceptance  # noqa: PLC0415 - it uses this module

    first, last, ratio = fit_acceptance(survival, "decay").parameters
    return first, last, ratio


#: How a measured curve may go on past its depth: the decay law of the further rates.
EXTRAPOLATIONS: Final[dict[str, Callable[[tuple[float, ...]], tuple[float, float, float]]]] = {
    "geometric": _last_rate,
    "decay": _fitted_decay,
    "zero": lambda _survival: (0.0, 0.0, 1.0),
}


def _checked_lengths(tokens_per_round: Mapping[int, float]) -> dict[int, float]:
    """Return the lengths by draft length, ascending, each within what its drafts can give."""
    given: object = tokens_per_round
    if not isinstance(given, Mapping) or not given:
        msg = "tokens_per_round holds no lengths; allowed: one or more, by number of drafts"
        raise OptionError(msg)
    checked: dict[int, float] = {}
    for drafts, length in tokens_per_round.items():
        allowed = f"a whole number of drafts from 1 to {LONGEST_DRAFT}"
        count = number_from("a key of tokens_per_round", drafts, 1, LONGEST_DRAFT, allowed)
        if not count.is_integer():
            refuse("a key of tokens_per_round", drafts, allowed)
        allowed = f"a number from 1 to {count + 1:.0f} (drafts + 1: the bonus token counts)"
        name = f"tokens_per_round[{count:.0f}]"
        checked[int(count)] = number_from(name, length, 1.0, count + 1.0, allowed)
    return dict(sorted(checked.items()))


def _pooled(values: NDArray[np.float64], weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the closest values (weighted least squares) of which none is above the one before."""
    blocks: list[tuple[float, float, int]] = []
    for value, weight in zip(values.tolist(), weights.tolist(), strict=True):
        mean, heavy, n = value, weight, 1
        while blocks and blocks[-1][0] < mean:
            other, other_weight, other_n = blocks.pop()
            mean = (mean * heavy + other * other_weight) / (heavy + other_weight)
            heavy, n = heavy + other_weight, n + other_n
        blocks.append((mean, heavy, n))
    return np.repeat([mean for mean, _, _ in blocks], [n for _, _, n in blocks])
