"""Figures of an engine profile from noisy points: least squares, held near what the profile has."""

from collections.abc import Iterable, Sequence
from itertools import product
from typing import Final

import numpy as np

from specroof.arrays import Array
from specroof.drafters import Drafter
from specroof.engines.least_squares import Fit, chi_square_quantile, least_squares
from specroof.engines.own_parameters import Coordinate
from specroof.engines.own_rates import own_cases
from specroof.engines.record import BARE, ONLY, Record, of_bare_passes
from specroof.evidence import Measurement
from specroof.hardware import EngineProfile
from specroof.speedup.served import Served

#: A residual of 5% is an ordinary one; more is no noise, and less where the points say so.
_ORDINARY: Final = 0.05
_SMALLEST: Final = 0.001
#: Residuals beyond so many ordinary ones count as outliers (soft L1).
_OUTLIER: Final = 2.0
#: In one case of five, noise leaves residuals as small as those that it is judged by.
_DOUBT: Final = 0.2
#: How much the profile counts where the residuals alone are looked for: enough to have a solution.
_LOOSE: Final = 0.02
#: Widths of the prior that are tried: from a profile that holds, to one of another machine.
_WIDTHS: Final = np.geomspace(0.05, 1.0, 14)
#: Twice the logarithm of the ratio of likelihoods that a one-sided test at 10% refutes: 1.28².
_REFUTED: Final = 1.64
_STEP: Final = 1e-4
_INSIDE: Final = 1e-6
#: Shares from which a search begins, beside the profile's. Where memory binds, a share of the peak
#: in FLOP/s has no slope, and the other way round: a search that begins there never finds a machine
#: that computes at a fifth of its peak.
_STARTS: Final = {"compute_frac": (0.1, 0.3), "memory_frac": (0.4,)}
#: Optima that are this close are the same, in units of the prior.
_SAME: Final = 0.05
#: How far from the middle a normal distribution ends on either side, if it is to hold 80 %.
_HOLDS_80: Final = 1.2816


class Problem:
    """Points, recorded once, and the profile that predicts them.

    Parameters
    ----------
    points
        What was measured.
    served, drafter
        Of what, where, with which drafter.
    """

    def __init__(
        self, points: Sequence[Measurement], served: Served, drafter: Drafter | None
    ) -> None:
        self.points = points
        self.base = served.setup.engine
        self._record = Record(own_cases(points, served, drafter))

    @property
    def measured(self) -> Array:
        """Logarithms of the measured tokens per second, shape (points,)."""
        return np.log([point.rate for point in self.points])

    def predicted(self, engine: EngineProfile) -> Array:
        """Return logarithms of the predicted tokens per second, shape (points,)."""
        engines = {ONLY: engine, BARE: of_bare_passes(engine)}
        return np.asarray(np.log(self._record.rates(engines).measured))

    def engine(self, coordinates: Sequence[Coordinate], x: Array) -> EngineProfile:
        """Return the profile at some coordinates."""
        engine = self.base
        for one, where in zip(coordinates, x.tolist(), strict=True):
            engine = one.parameter.apply(engine, one.value(where))
        return engine

    def logs(self, coordinates: Sequence[Coordinate], x: Array) -> Array:
        """Return what is predicted at some coordinates, as `predicted` does."""
        return self.predicted(self.engine(coordinates, x))

    def jacobian(self, coordinates: Sequence[Coordinate], x: Array) -> Array:
        """Return the slopes of `logs`, shape (points, coordinates)."""
        here = self.logs(coordinates, x)
        steps = _STEP * np.eye(len(x))
        columns = [(self.logs(coordinates, x + step) - here) / _STEP for step in steps]
        return np.array(columns).reshape(len(x), len(here)).T


def starts(coordinates: Sequence[Coordinate]) -> list[Array]:
    """Return where searches begin: at the profile, and at other shares of the peaks.

    Parameters
    ----------
    coordinates
        What is to be fitted.

    Examples
    --------
    >>> from specroof import load_hardware
    >>> from specroof.engines.own_parameters import PARAMETERS, coordinate
    >>> engine = load_hardware("b200").engine("sglang")
    >>> memory, compute = (coordinate(PARAMETERS[at], engine) for at in (4, 5))
    >>> [round(compute.value(x[1]), 2) for x in starts([memory, compute])[:3]]
    [0.73, 0.1, 0.3]
    """
    choices = [
        [one.first, *map(one.at, _STARTS.get(one.parameter.name, ()))] for one in coordinates
    ]
    return [np.array(x) for x in product(*choices)]


def estimate(
    problem: Problem,
    coordinates: Sequence[Coordinate],
    *,
    noise: float = _ORDINARY,
    width: float = 1.0,
    first: Iterable[Array] | None = None,
) -> list[Fit]:
    """Return the optima that searches end in, the best first.

    Parameters
    ----------
    problem, coordinates
        What is to be fitted.
    noise
        The size of an ordinary residual of the logarithm of throughput.
    width
        Of the prior of coordinates that the profile knows; of others it is never below 1.
    first
        Where searches begin; `starts` if None.

    Raises
    ------
    MeasurementError
        Without SciPy.

    Source
        See `specroof.engines.least_squares`.
    """
    measured = problem.measured
    least, most = np.array([one.bounds for one in coordinates]).T
    widths = _widths(coordinates, width)
    ends = [
        least_squares(
            lambda x: (problem.logs(coordinates, x) - measured) / noise,
            np.clip(start, least + _INSIDE, most - _INSIDE),
            widths,
            slopes=lambda x: problem.jacobian(coordinates, x) / noise,
            bounds=(least, most),
            f_scale=_OUTLIER,
        )
        for start in (starts(coordinates) if first is None else first)
    ]
    found: list[Fit] = []
    for end in sorted(ends, key=lambda one: one.misfit):
        if all(np.max(np.abs(end.x - one.x)) > _SAME for one in found):
            found.append(end)
    return found


def _widths(coordinates: Sequence[Coordinate], width: float) -> Array:
    return np.array([width if one.is_known else max(width, 1.0) for one in coordinates])


def noise_of(problem: Problem, coordinates: Sequence[Coordinate]) -> float:
    r"""Return the size of an ordinary residual: the largest that the points leave room for.

    .. math:: \sigma = \sqrt{\sum_i r_i^2 \,/\, \chi^2_{0.2}(n - p)}

    of the n residuals that p coordinates leave when hardly anything holds them, and no more than
    5%. Consistent points are believed; few residuals that are small by chance are not. No point
    too many says nothing of noise: such points are taken at their word.

    Parameters
    ----------
    problem, coordinates
        What is to be fitted.

    Raises
    ------
    MeasurementError
        Without SciPy.

    Source
        The upper limit, at 80%, of a variance that is estimated with n - p degrees of freedom.
    """
    spare = len(problem.points) - len(coordinates)
    if spare <= 0:
        return _SMALLEST
    found = estimate(problem, coordinates, width=1.0 / _LOOSE)[0]
    left = np.sum((_ORDINARY * found.residuals) ** 2)
    noise = float(np.sqrt(left / chi_square_quantile(spare, _DOUBT)))
    return float(min(max(noise, _SMALLEST), _ORDINARY))


def prior_width(problem: Problem, coordinates: Sequence[Coordinate], noise: float) -> float:
    r"""Return how far from the profile the points as a whole say that the machine is, at least.

    .. math:: \min \{ w : 2 \log E(w) \ge \max 2 \log E - 1.64 \}, \quad
        E(w) = N(r_0; 0, \sigma^2 I + w^2 J_k J_k^T + J_u J_u^T)

    with the residuals of the profile as it is, usual seconds where it has none, and slopes of
    the coordinates that it knows (k) and of the others (u). Where the profile explains the
    points up to their noise, w is small, and noise moves little; where it does not, w is about
    1 and the points decide.

    Parameters
    ----------
    problem, coordinates
        What is to be fitted.
    noise
        σ, the size of an ordinary residual.

    Ignores
        that predictions are not linear in the coordinates.
    Source
        MacKay 1992, Neural Computation 4(3), "Bayesian interpolation": the evidence. The smallest
        width that the ratio to the likeliest does not refute at 10%, one-sided (Wilks 1938):
        noise may look like another machine, and is to move little all the same.
    """
    x = np.array([one.first for one in coordinates])
    known = np.array([one.is_known for one in coordinates])
    slopes = problem.jacobian(coordinates, x)
    left = problem.measured - problem.logs(coordinates, x)
    fixed = noise**2 * np.eye(len(left)) + slopes[:, ~known] @ slopes[:, ~known].T
    free = slopes[:, known] @ slopes[:, known].T

    def evidence(width: float) -> float:
        spread = fixed + width**2 * free
        return float(-np.linalg.slogdet(spread)[1] - left @ np.linalg.solve(spread, left))

    widths: list[float] = _WIDTHS.tolist()
    found = [evidence(width) for width in widths]
    return next(
        width for width, one in zip(widths, found, strict=True) if one >= max(found) - _REFUTED
    )


def uncertainty(
    problem: Problem,
    chosen: Sequence[Coordinate],
    others: Sequence[Coordinate],
    found: Sequence[Fit],
    *,
    noise: float,
    width: float,
) -> tuple[Array, Array]:
    r"""Return the half-width of the 80 % interval of each figure, and its share of the prior.

    .. math:: C = B \, (A + P S P + G D G^T) \, B, \quad B = (A + P)^{-1}

    with the curvature A of the points, the curvature P of the prior, the variance S of machines
    around a profile, the points' coupling G to figures that are not fitted, and their variance D.
    A half-width is 1.28 standard deviations, or more: it includes every other optimum that a
    likelihood ratio test of that size does not refute.

    Parameters
    ----------
    problem, chosen
        What was fitted.
    others
        Figures that the points determine and that stay as the profile has them.
    found
        The optima, the best first.
    noise, width
        As of `estimate`.

    Returns
    -------
    half_widths, variance_shares
        Shape (chosen,): half-widths, in units of the parameters; and variances, as a share of
        those of machines around a profile: 1 where the points say nothing.

    Source
        The error of a ridge estimate (Hoerl and Kennard 1970, Technometrics 12(1)) whose prior may
        be narrower than the truth is spread; the other optima by their ratio of likelihoods
        (Wilks 1938).
    """
    best, n = found[0], len(chosen)
    every = [*chosen, *others]
    x = np.array([*best.x, *(one.at(one.parameter.start(problem.base)) for one in others)])
    slopes = problem.jacobian(every, x) / noise
    curved = slopes.T @ (slopes * _weights(best.residuals)[:, None])
    free = np.linalg.pinv(curved + np.eye(len(every)))
    pulled = best.x / _widths(chosen, width)
    pull = np.diag(_weights(pulled) / _widths(chosen, width) ** 2)
    held = np.linalg.pinv(curved[:n, :n] + pull)
    shared, spread = curved[:n, n:], np.maximum(1.0, best.x**2)
    inside = curved[:n, :n] + pull @ np.diag(spread) @ pull + shared @ free[n:, n:] @ shared.T
    variances = np.diag(held @ inside @ held)
    half_widths = np.array(
        [
            one.slope(at) * _HOLDS_80 * off
            for one, at, off in zip(chosen, best.x, np.sqrt(variances), strict=True)
        ]
    )
    for other in found[1:]:
        if other.misfit - best.misfit <= _HOLDS_80**2 / 2:
            away = [
                abs(one.value(at) - one.value(there))
                for one, at, there in zip(chosen, best.x, other.x, strict=True)
            ]
            half_widths = np.maximum(half_widths, away)
    return half_widths, variances / spread


def _weights(residuals: Array) -> Array:
    """Return the weights of residuals in the curvature of the soft L1 loss."""
    return np.asarray(1.0 / np.sqrt(1.0 + (residuals / _OUTLIER) ** 2))
