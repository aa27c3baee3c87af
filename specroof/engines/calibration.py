"""The engine profile that fits a benchmark best, and what the benchmark cannot say."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from specroof.arrays import Array
from specroof.drafters import Drafter
from specroof.engines.bands import BAND_SHARE
from specroof.engines.estimate import Problem, estimate, noise_of, prior_width
from specroof.engines.least_squares import Fit
from specroof.engines.own_parameters import PARAMETERS, Coordinate, ProfileParameter, coordinate
from specroof.engines.own_rates import ideal_rates
from specroof.errors import MeasurementError
from specroof.evidence import Measurement
from specroof.hardware import Band, EngineProfile
from specroof.speedup.served import Served

_LEAST_POINTS: Final = 3
#: A usual change of a parameter that moves predictions by less than this share is not seen.
_UNSEEN: Final = 1e-3
#: The part of a parameter's effect that those before it cannot copy; below, it is not told apart.
_COPIED: Final = 0.05
#: The part of a coordinate by which its effect is looked at.
_STEP: Final = 0.1
#: Of seconds per layer and per pass, whose effects are nearly the same, one stands for both: the
#: other, or a draft pass, could not be told apart from the pair.
_STANDS_FOR_IT: Final = {
    ("layer_overhead_s", False): "the profile has none; seconds per pass stand for it",
    ("pass_overhead_s", True): "seconds per layer, which the profile has, stand for it",
}
#: Overheads that every engine has; where a profile has none, effects are looked at with usual ones.
_USUAL: Final = ("pass_overhead_s", "sequence_overhead_s")


@dataclass(frozen=True, slots=True)
class Fitted:
    """A fitted figure.

    Parameters
    ----------
    name
        Its key in the hardware file.
    value, error
        What it is now, and its standard error; None where points are no more than figures. Where
        the profile was a guide, the error is what the points and the profile leave together.
    before
        What the profile had.
    """

    name: str
    value: float
    error: float | None
    before: float


@dataclass(frozen=True, slots=True)
class Residual:
    """One point beside what the fitted profile predicts for it, in tokens per second."""

    point: Measurement
    predicted: float

    @property
    def off(self) -> float:
        """How far the prediction is off, as a share of what was measured."""
        return self.predicted / self.point.rate - 1


@dataclass(frozen=True, slots=True)
class Calibration:
    """An engine profile that was fitted to a benchmark.

    Parameters
    ----------
    engine
        The profile.
    base
        The name of the engine that it started from.
    fitted
        What changed.
    kept
        What stayed, and why.
    residuals
        Each point beside its prediction.
    """

    engine: EngineProfile
    base: str
    fitted: tuple[Fitted, ...]
    kept: tuple[tuple[str, str], ...]
    residuals: tuple[Residual, ...]

    @property
    def mean_error(self) -> float:
        """Mean of what predictions are off, as a share; of the points that were fitted."""
        return mean_error(self.residuals)


def calibrate(
    points: Sequence[Measurement], served: Served, drafter: Drafter | None = None
) -> Calibration:
    """Return the profile that fits a benchmark best; what it cannot determine stays as it was.

    Parameters
    ----------
    points
        At least three, of one model on one placement.
    served
        What was measured, where; its engine is the one to start from.
    drafter
        What made the drafts, where some points have any.

    Raises
    ------
    MeasurementError
        For fewer than three points, points that determine nothing, or what `ideal_rates` refuses.

    Source
        Soft-L1 least squares on the logarithm of throughput, held near the profile
        (`specroof.engines.estimate`); parameters are told apart by Gram-Schmidt over the
        columns of the Jacobian.
    """
    if len(points) < _LEAST_POINTS:
        message = f"{len(points)} points cannot determine overheads; at least 3 are needed"
        raise MeasurementError(message)
    ideal_rates(points, served, drafter)  # refuses what cannot be
    problem = Problem(points, served, drafter)
    determined, kept = _determined(problem)
    if not determined:
        reasons = "; ".join(f"{name}: {reason}" for name, reason in kept)
        message = f"{len(points)} points determine nothing ({reasons})"
        raise MeasurementError(message)
    return _solved(problem, determined, kept)


def _determined(problem: Problem) -> tuple[list[Coordinate], list[tuple[str, str]]]:
    """Return what the points determine, and why they do not determine the rest."""
    determined: list[Coordinate] = []
    kept: list[tuple[str, str]] = []
    basis: list[Array] = []
    start = _start(problem.base)
    here = problem.predicted(start)
    for parameter in PARAMETERS:
        one = coordinate(parameter, problem.base)
        step = _STEP * one.slope(one.first)
        moved = parameter.apply(start, parameter.start(start) + step)
        column = (problem.predicted(moved) - here) / _STEP
        rest = column - sum((unit * (unit @ column) for unit in basis), np.zeros(len(column)))
        reason = _why_not(one, problem, len(determined), column, rest)
        if reason:
            kept.append((parameter.name, reason))
            continue
        determined.append(one)
        basis.append(rest / np.linalg.norm(rest))
    return determined, kept


def _start(engine: EngineProfile) -> EngineProfile:
    """Return the profile with overheads that are usual, where it has none."""
    for parameter in PARAMETERS:
        if parameter.name in _USUAL and parameter.start(engine) == 0:
            engine = parameter.apply(engine, parameter.typical)
    return engine


def _why_not(
    one: Coordinate, problem: Problem, n_before: int, column: Array, rest: Array
) -> str | None:
    """Return why the points do not determine a parameter; None if they do."""
    reason = _why_unasked(one.parameter, problem)
    if reason:
        return reason
    least = max(one.parameter.least_points, n_before + 1)
    if len(problem.points) < least:
        return f"it takes {least} points, and there are {len(problem.points)}"
    if float(np.sqrt(np.mean(column**2))) < _UNSEEN:
        return "the points hardly depend on it"
    if float(np.linalg.norm(rest)) < _COPIED * float(np.linalg.norm(column)):
        return "the points cannot tell it from those before it"
    return None


def _why_unasked(parameter: ProfileParameter, problem: Problem) -> str | None:
    """Return why a parameter has no place in this profile, or for these points."""
    if parameter.needs_drafts and not any(point.drafts for point in problem.points):
        return "no point has drafts"
    if getattr(problem.base, parameter.name) is None:
        return "the profile uses the seconds of the target's passes instead"
    return _STANDS_FOR_IT.get((parameter.name, problem.base.layer_overhead_s > 0))


def _solved(
    problem: Problem, determined: Sequence[Coordinate], kept: Sequence[tuple[str, str]]
) -> Calibration:
    """Return the fit of what the points determine, as far as each figure earns its place."""
    noise = noise_of(problem, determined)
    width = prior_width(problem, determined, noise)
    # What three points fit, and what the profile knows; the prior holds the latter.
    chosen = [
        one for one in determined if one.is_known or one.parameter.least_points == _LEAST_POINTS
    ]
    dropped: list[tuple[str, str]] = []
    found = estimate(problem, chosen, noise=noise, width=width)
    for one in determined:
        if one in chosen:
            continue
        first = np.append(found.x, one.first)
        wider = estimate(problem, [*chosen, one], noise=noise, width=width, first=first)
        # Schwarz 1978: a further figure must lower the misfit by more than noise would let it.
        if 2 * (found.misfit - wider.misfit) > np.log(len(problem.points)):
            chosen, found = [*chosen, one], wider
        else:
            dropped.append(
                (one.parameter.name, "the fit is no better with it than noise would make it")
            )
    return _calibration(problem, chosen, found, (*kept, *dropped))


def _calibration(
    problem: Problem,
    chosen: Sequence[Coordinate],
    found: Fit,
    kept: Sequence[tuple[str, str]],
) -> Calibration:
    """Return an estimate with what it predicts."""
    spare = len(problem.points) > len(chosen)
    fitted = [
        Fitted(
            one.parameter.name,
            one.value(x),
            one.slope(x) * error if spare else None,
            one.parameter.start(problem.base),
        )
        for one, x, error in zip(chosen, found.x.tolist(), found.errors.tolist(), strict=True)
    ]
    engine = problem.engine(chosen, found.x)
    rates = np.exp(problem.predicted(engine)).tolist()
    residuals = tuple(Residual(*pair) for pair in zip(problem.points, rates, strict=True))
    # What its base was off says nothing about it, but for bands, which nothing else sets.
    bands = {name: widened(band, residuals) for name, band in engine.bands.items()}
    return Calibration(
        engine=replace(engine, expected_error=None, bands=bands),
        base=problem.base.name,
        fitted=tuple(fitted),
        kept=tuple(kept),
        residuals=residuals,
    )


def widened(band: Band, residuals: Sequence[Residual]) -> Band:
    """Return a band that holds 80 % of a profile's own points, too.

    Parameters
    ----------
    band
        Of the engine that the profile started from.
    residuals
        The points beside what the profile predicts.

    Counts
        throughput that is off as if it were a speedup that is.
    Source
        The choice of this library: a profile is no surer of others than of its own points.

    Examples
    --------
    >>> point = Measurement(place="mine", tokens_per_s=100.0)
    >>> known = Band(width=0.1, mean_error=0.05, points=200)
    >>> widened(known, [Residual(point, 101.0)]) == known
    True
    >>> own = widened(known, [Residual(point, 150.0)] * 3)
    >>> round(own.width, 3), own.mean_error, own.points  # ln 1.5
    (0.405, 0.5, 3)
    """
    width = float(np.quantile(np.abs(np.log1p([one.off for one in residuals])), BAND_SHARE))
    if width <= band.width:
        return band
    return Band(width=width, mean_error=mean_error(residuals), points=len(residuals))


def mean_error(residuals: Sequence[Residual]) -> float:
    """Return how far predictions are off on average, as a share of what was measured."""
    return float(np.mean([abs(one.off) for one in residuals]))
