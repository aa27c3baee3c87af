"""Robust least squares with a normal prior, for shared fits and for a calibration of one's own.

Needs SciPy, which the extra `calibrate` brings.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from specroof.arrays import Array
from specroof.errors import MeasurementError, optional_library


@dataclass(frozen=True, slots=True, eq=False)
class Fit:
    """Where the sum of squares is least.

    Parameters
    ----------
    x
        Coordinates, shape (coordinates,).
    residuals
        In units of the noise, shape (points,).
    misfit
        Half the sum of squares, outliers weighed less.
    """

    x: Array
    residuals: Array
    misfit: float


def least_squares(
    residuals: Callable[[Array], Array],
    first: Array,
    widths: Array,
    *,
    slopes: Callable[[Array], Array] | None = None,
    **how: Any,
) -> Fit:
    r"""Return the coordinates that fit best, held near zero by a normal prior.

    .. math:: \min_x \; \frac12 \sum_i \rho\left(r_i(x)^2\right)
        + \frac12 \sum_k \rho\left(\frac{x_k^2}{w_k^2}\right)

    Parameters
    ----------
    residuals
        r, in units of the noise.
    first
        Where to begin.
    widths
        w, how far from zero each coordinate may be taken to lie.
    slopes
        Of the residuals, shape (points, coordinates); by differences if None.
    how
        More for SciPy's `least_squares`.

    Raises
    ------
    MeasurementError
        Without SciPy.

    Source
        Trust-region least squares (SciPy `least_squares`) with the soft L1 loss as ρ.
    """
    pulls = 1.0 / widths
    if slopes is not None:
        how["jac"] = lambda x: np.concatenate([slopes(x), np.diag(pulls)])
    solution = _scipy("optimize").least_squares(
        lambda x: np.concatenate([residuals(x), pulls * x]),
        first,
        loss="soft_l1",
        **how,
    )
    n_points = len(solution.fun) - len(widths)
    return Fit(solution.x, solution.fun[:n_points], float(solution.cost))


def chi_square_quantile(freedom: int, share: float) -> float:
    """Return what a sum of squares of so many normal variables is below, in a share of cases.

    Raises
    ------
    MeasurementError
        Without SciPy.
    """
    # Twice the inverse of the incomplete gamma function of half the freedom.
    return 2.0 * float(_scipy("special").gammaincinv(freedom / 2.0, share))


def _scipy(part: str) -> Any:
    return optional_library(f"scipy.{part}", "calibrate", refusal=MeasurementError)
