"""The engine profile that fits a benchmark best, and what the benchmark cannot say."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from specroof.arrays import Array
from specroof.drafters import Drafter
from specroof.engines.bands import BAND_SHARE
from specroof.engines.estimate import Problem, estimate, noise_of, prior_width, starts, uncertainty
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
#: A figure is hardly more than its prior if more than this share of the prior's variance remains.
_SAYS_LITTLE: Final = 0.5
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
        What it is now, and half the width of the interval around it that holds the truth in 80 %
        of cases, other optima included; None where points are no more than figures.
    before
        What the profile had.
    is_prior
        Whether the points hardly say more of it than the profile, or a usual value, does.
    """

    name: str
    value: float
    error: float | None
    before: float
    is_prior: bool = False


@dataclass(frozen=True, slots=True)
class Residual:
    """One point beside what the fitted profile predicts for it, in the unit of its rate."""

    point: Measurement
    predicted: float

    @property
    def shown(self) -> float:
        """The prediction as people read it: of a bare pass its seconds."""
        if self.point.pass_s is None:
            return self.predicted
        return self.point.pass_s * self.point.rate / self.predicted

    @property
    def off(self) -> float:
        """How far the prediction is off, as a share of what was measured: a rate, or seconds."""
        return self.shown / (self.point.pass_s or self.point.rate) - 1


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
        Soft-L1 least squares on the logarithm of throughput, searched from several starts and
        held near the profile (`specroof.engines.estimate`); parameters are told apart by
        Gram-Schmidt over the columns of the Jacobian.
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
    """Return what the points determine, and why they do not determine the rest.

    A figure is determined if it is at one of the places where searches begin: where memory binds,
    points say nothing of a share of the peak in FLOP/s that they would refute if it were a fifth.
    """
    determined: list[Coordinate] = []
    kept: list[tuple[str, str]] = []
    start = _start(problem.base)
    every = [coordinate(parameter, problem.base) for parameter in PARAMETERS]
    shares = [one for one in every if one.parameter.is_share]
    places = [start, *(_moved(start, shares, x) for x in starts(shares)[1:])]
    here = [problem.predicted(place) for place in places]
    bases: list[list[Array]] = [[] for _ in places]
    for one in every:
        parameter = one.parameter
        step = _STEP * one.slope(one.first)
        columns, rests = [], []
        for place, now, basis in zip(places, here, bases, strict=True):
            moved = parameter.apply(place, parameter.start(place) + step)
            column = (problem.predicted(moved) - now) / _STEP
            columns.append(column)
            rests.append(column - sum((unit * (unit @ column) for unit in basis), 0 * column))
        reason = _why_not(one, problem, len(determined), columns, rests)
        if reason:
            kept.append((parameter.name, reason))
            continue
        determined.append(one)
        for rest, basis in zip(rests, bases, strict=True):
            basis.append(rest / (np.linalg.norm(rest) or 1.0))
    return determined, kept


def _moved(engine: EngineProfile, coordinates: Sequence[Coordinate], x: Array) -> EngineProfile:
    for one, at in zip(coordinates, x.tolist(), strict=True):
        engine = one.parameter.apply(engine, one.value(at))
    return engine


def _start(engine: EngineProfile) -> EngineProfile:
    """Return the profile with overheads that are usual, where it has none."""
    for parameter in PARAMETERS:
        if parameter.name in _USUAL and parameter.start(engine) == 0:
            engine = parameter.apply(engine, parameter.typical)
    return engine


def _why_not(
    one: Coordinate,
    problem: Problem,
    n_before: int,
    columns: Sequence[Array],
    rests: Sequence[Array],
) -> str | None:
    """Return why the points do not determine a parameter; None if they do."""
    reason = _why_unasked(one.parameter, problem)
    if reason:
        return reason
    least = max(one.parameter.least_points, n_before + 1)
    if len(problem.points) < least:
        return f"it takes {least} points, and there are {len(problem.points)}"
    seen = [float(np.sqrt(np.mean(column**2))) >= _UNSEEN for column in columns]
    if not any(seen):
        return "the points hardly depend on it"
    told = [
        float(np.linalg.norm(rest)) >= _COPIED * float(np.linalg.norm(column))
        for rest, column in zip(rests, columns, strict=True)
    ]
    if not any(sees and apart for sees, apart in zip(seen, told, strict=True)):
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
    dropped: list[Coordinate] = []
    found = estimate(problem, chosen, noise=noise, width=width)
    for one in determined:
        if one in chosen:
            continue
        # Only shares of peaks have no slope where the other one binds.
        on = None if one.parameter.is_share else [np.append(fit.x, one.first) for fit in found]
        wider = estimate(problem, [*chosen, one], noise=noise, width=width, first=on)
        # Schwarz 1978: a further figure must lower the misfit by more than noise would let it.
        if 2 * (found[0].misfit - wider[0].misfit) > np.log(len(problem.points)):
            chosen, found = [*chosen, one], wider
        else:
            dropped.append(one)
    unfitted = [
        (one.parameter.name, "the fit is no better with it than noise would make it")
        for one in dropped
    ]
    errors, shares = uncertainty(problem, chosen, dropped, found, noise=noise, width=width)
    spare = len(problem.points) > len(chosen)
    fitted = [
        Fitted(
            one.parameter.name,
            one.value(x),
            error if spare else None,
            one.parameter.start(problem.base),
            is_prior=share > _SAYS_LITTLE,
        )
        for one, x, error, share in zip(
            chosen, found[0].x.tolist(), errors.tolist(), shares.tolist(), strict=True
        )
    ]
    engine = problem.engine(chosen, found[0].x)
    rates = np.exp(problem.predicted(engine)).tolist()
    residuals = tuple(Residual(*pair) for pair in zip(problem.points, rates, strict=True))
    # What its base was off says nothing about it, but for bands, which nothing else sets.
    bands = {name: widened(band, residuals) for name, band in engine.bands.items()}
    return Calibration(
        engine=replace(engine, expected_error=None, bands=bands),
        base=problem.base.name,
        fitted=tuple(fitted),
        kept=(*kept, *unfitted),
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
