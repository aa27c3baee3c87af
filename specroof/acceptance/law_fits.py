"""Laws with few numbers fitted to a measured survival curve, by search rather than by slope."""

import itertools
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from specroof.acceptance.curve import (
    Acceptance,
    Law,
    beta_acceptance,
    beta_quadrature,
    constant_acceptance,
    constant_law,
    decay_acceptance,
    decay_law,
    rates_of_survival,
    survival_acceptance,
)
from specroof.acceptance.typical import SHAPES, acceptance_from_length
from specroof.errors import expect, expect_word, refuse, reject

#: Points on each side of a search box, and how often it shrinks around the best of them.
_POINTS: Final = 13
_ZOOMS: Final = 40
_SHRINK: Final = 0.5
_SMALLEST_MEAN: Final = 0.000_001


@dataclass(frozen=True, slots=True)
class AcceptanceFit:
    """A law fitted to a measured survival curve, with what it misses.

    Parameters
    ----------
    law
        ``"constant"``, ``"decay"`` or ``"beta"``.
    parameters
        Of `constant_acceptance`, `decay_acceptance` or `beta_acceptance`.
    acceptance
        The fitted curve, which has no end.
    depth
        Drafts that were fitted.
    rms_residual, worst_residual
        Root of the mean square, and largest size, of fitted less measured survival.
    length_residual
        Fitted less measured tokens per round at `depth` drafts.
    """

    law: str
    parameters: tuple[float, ...]
    acceptance: Acceptance
    depth: int
    rms_residual: float
    worst_residual: float
    length_residual: float


@dataclass(frozen=True, slots=True)
class _Family:
    """A law as a search sees it: a box of points, survival at many, and the numbers of a point."""

    bounds: tuple[tuple[float, float], ...]
    law: Law
    acceptance: Callable[..., Acceptance]
    parameters: Callable[[tuple[float, ...]], tuple[float, ...]] = tuple


def fit_acceptance(survival: ArrayLike, law: str) -> AcceptanceFit:
    r"""Return the numbers of a law that come closest to a measured survival curve.

    .. math:: \min \sum_{d=1}^{\gamma} (s_d^{law} - s_d)^2

    Parameters
    ----------
    survival
        s_1 … s_γ, of all rounds, as engines count them.
    law
        ``"constant"`` (1 number), ``"decay"`` (3) or ``"beta"`` (2).

    Counts
        every depth with the same weight. The search looks over a whole box of numbers and closes
        in on the best, so that it does not depend on where it starts. The numbers of ``"beta"`` are
        of rates over sequences with answers of equal length, of which hard ones have more of the
        rounds that were counted.
    Ignores
        how many rounds stand behind each depth. A law with as many numbers as there are depths
        meets them all and says nothing about others.
    Source
        least squares; the laws name theirs.

    Raises
    ------
    OptionError
        If `law` is unknown, or has more numbers than there are depths.

    Examples
    --------
    >>> fit = fit_acceptance([0.5, 0.25, 0.125], "constant")
    >>> round(fit.parameters[0], 6), round(fit.worst_residual, 6)
    (0.5, 0.0)
    """
    target = np.array(survival_acceptance(survival).parameters)
    expect_word("law", law, FITTED_LAWS)
    family = FITTED_LAWS[law]
    depth = len(target)
    if depth < len(family.bounds):
        reject(
            f"law is {law!r}, which has {len(family.bounds)} numbers",
            f"at most as many as the depths measured, which are {depth}",
        )
    point = _closest(family, target)
    parameters = tuple(map(float, family.parameters(point)))
    miss = family.law(point, depth)[1:] - target
    return AcceptanceFit(
        law=law,
        parameters=parameters,
        acceptance=family.acceptance(*parameters),
        depth=depth,
        rms_residual=float(np.sqrt(np.mean(miss**2))),
        worst_residual=float(np.max(np.abs(miss))),
        length_residual=float(np.sum(miss)),
    )


def _closest(family: _Family, target: NDArray[np.float64]) -> tuple[float, ...]:
    """Return the point of a law's box whose survival is closest to the target's."""
    low, high = (np.array(side) for side in zip(*family.bounds, strict=True))
    best, width = (low + high) / 2, high - low
    for _ in range(_ZOOMS):
        sides = [
            np.clip(np.linspace(middle - half, middle + half, _POINTS), *bounds)
            for middle, half, bounds in zip(best, width / 2, family.bounds, strict=True)
        ]
        # The best so far stays in the race, so that a step never loses ground.
        points = np.array([best, *itertools.product(*sides)])
        survival = family.law(tuple(points.T[..., None]), len(target))[..., 1:]
        best = points[int(np.argmin(np.sum((survival - target) ** 2, axis=-1)))]
        width = width * _SHRINK
    return tuple(best.tolist())


def _beta_law(point: tuple[Any, ...], depth: int) -> NDArray[np.float64]:
    r"""Return the share of rounds that accept each draft, of a mean rate and the log of a + b.

    .. math:: s_d = E\left[\frac{\alpha^d}{n_\alpha(\gamma)}\right] \Big/
        E\left[\frac{1}{n_\alpha(\gamma)}\right]
    """
    rates, weights = beta_quadrature(*_beta_parameters(tuple(map(np.squeeze, point))))
    survival = constant_law((rates[..., None],), depth)
    rounds = weights / survival.sum(axis=-1)
    shares = np.squeeze(rounds[..., None, :] @ survival, axis=-2)
    return np.asarray(shares / rounds.sum(axis=-1, keepdims=True))


def _beta_parameters(point: tuple[Any, ...]) -> tuple[Any, ...]:
    mean, log_sum = point
    total = np.exp(log_sum)
    return mean * total, (1.0 - mean) * total


#: What can be fitted, and within which box.
FITTED_LAWS: Final = {
    "constant": _Family(((0.0, 1.0),), constant_law, constant_acceptance),
    "decay": _Family(((0.0, 1.0), (0.0, 1.0), (0.0, 1.0)), decay_law, decay_acceptance),
    # A mean of 0 or 1 has no beta distribution; a + b from sequences that are all or nothing to
    # sequences that are alike.
    "beta": _Family(
        ((_SMALLEST_MEAN, 1.0 - _SMALLEST_MEAN), (-7.0, 14.0)),
        _beta_law,
        beta_acceptance,
        _beta_parameters,
    ),
}


# --- What a measurement says beyond its depth: nothing, unless a law is named --------------------

#: The way of an acceptance length alone; see `acceptance_from_length`.
_CONSTANT: Final = "constant"


def extrapolated_acceptance(acceptance: Acceptance, how: str) -> Acceptance:
    """Return a measured curve that goes on past its depth, in one of the ways that have a name.

    Parameters
    ----------
    acceptance
        A curve that ends, or one inferred from a length.
    how
        ``"geometric"``: every further draft is accepted at the last measured conditional rate.
        ``"decay"``: at the rates of a decay law fitted to the measured ones.
        ``"zero"``: no further draft is accepted, which no drafter undercuts.
        ``"constant"``, of a length alone: every draft is accepted at the same rate.

    Counts
        the measured part as it was measured.
    Ignores
        everything that a measurement cannot say about depths it did not reach. Of 40 measured
        profiles, each cut off after three positions or more, geometric misses tokens per round
        beyond by 0.7% (decay 1.0%; zero is 14% too low), and cut off after one or more by 2.1%
        (`benchmarks/acceptance_shapes.py`). What was measured past 8 drafts of a block drafter of
        15 (Doubleword 2026) brings N to 4.42: from the first 8 alone, geometric gives 4.36 and
        zero 3.86.
    Source
        constant rates: Leviathan et al. 2022, arXiv:2211.17192, equation 1.

    Raises
    ------
    OptionError
        If `how` is another name, no draft was measured, or a law was given, which has no end.

    Examples
    --------
    >>> from specroof import survival_acceptance
    >>> measured = survival_acceptance([0.8, 0.4])
    >>> extrapolated_acceptance(measured, "geometric").survival([2, 3, 4])  # halves each time
    array([0.4, 0.2, 0.1])
    >>> extrapolated_acceptance(measured, "zero").survival([2, 3])
    array([0.4, 0. ])
    """
    expect("acceptance", acceptance, Acceptance, "an Acceptance, from survival_acceptance")
    from_length = acceptance.max_draft_len is None and acceptance.measured_depth is not None
    expect("extrapolate", how, str, ", ".join(EXTRAPOLATIONS))
    if how not in EXTRAPOLATIONS and not (from_length and how == _CONSTANT):
        refuse("extrapolate", how, ", ".join([*EXTRAPOLATIONS, *[_CONSTANT] * from_length]))
    depth = acceptance.measured_depth if from_length else acceptance.max_draft_len
    if not depth:
        refuse("extrapolate", how, "with an acceptance measured for one draft or more, not a law")
    if how == _CONSTANT:
        length = float(acceptance.tokens_per_round(depth))
        return acceptance_from_length(length, depth, law=_CONSTANT)
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


def _continued_law(parameters: tuple[float, ...], depth: int) -> NDArray[np.float64]:
    """Return measured survival, then rates of a decay law: parameters are its three, then s_d."""
    (first, last, ratio), measured = parameters[:3], parameters[3:]
    positions = np.arange(len(measured), max(depth, len(measured)))
    rates = last + (first - last) * ratio**positions
    return np.concatenate(([1.0], measured[:depth], measured[-1] * np.cumprod(rates)))


def _last_rate(survival: tuple[float, ...]) -> tuple[float, float, float]:
    rate = float(rates_of_survival(survival)[-1])
    return rate, rate, 1.0


def _fitted_decay(survival: tuple[float, ...]) -> tuple[float, float, float]:
    first, last, ratio = fit_acceptance(survival, "decay").parameters
    return first, last, ratio


#: How a measured curve may go on past its depth: the decay law of the further rates.
EXTRAPOLATIONS: Final[dict[str, Callable[[tuple[float, ...]], tuple[float, float, float]]]] = {
    "geometric": _last_rate,
    "decay": _fitted_decay,
    "zero": lambda _survival: (0.0, 0.0, 1.0),
}
