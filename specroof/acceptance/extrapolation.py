"""What a measurement says beyond its depth: nothing, unless a law is named."""

from collections.abc import Callable
from dataclasses import replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from specroof.acceptance.curve import Acceptance
from specroof.acceptance.law_fits import fit_acceptance
from specroof.acceptance.laws import rates_of_survival
from specroof.acceptance.typical import SHAPES, acceptance_from_length
from specroof.errors import expect, refuse

#: The way of an acceptance length alone; see `acceptance_from_length`.
_CONSTANT: Final = "constant"


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
    expect("acceptance", acceptance, Acceptance, "an Acceptance, from survival_acceptance")
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
