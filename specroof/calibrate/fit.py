"""The engine profile that fits a benchmark best, and what the benchmark cannot say."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from specroof.architecture import Architecture
from specroof.calibrate.forward import predicted_tokens_per_s
from specroof.calibrate.parameters import PARAMETERS, Parameter
from specroof.calibrate.readers import BenchmarkPoint
from specroof.drafters import Drafter
from specroof.errors import MeasurementError
from specroof.hardware import IDEAL_ENGINE, EngineProfile, HardwareProfile, Placement
from specroof.latency import Setup
from specroof.pricing import check_placement, engine_setup

__all__ = ["Calibration", "Fitted", "Residual", "calibrate"]

Array = npt.NDArray[np.float64]

_LEAST_POINTS: Final = 3
#: A measurement may beat the ideal roofline by its own noise, not by more.
_IMPOSSIBLE: Final = 1.1
#: A usual change of a parameter that moves predictions by less than this share is not seen.
_UNSEEN: Final = 1e-3
#: The part of a parameter's effect that those before it cannot copy; below, it is not told apart.
_COPIED: Final = 0.05
#: A residual of 5 % is an ordinary one; beyond, a point counts as an outlier (soft L1).
_ORDINARY: Final = 0.05
#: How far from its bounds a solution starts, and a misfit that counts as none.
_INSIDE: Final = 1e-6
_NO_MISFIT: Final = 1e-12


@dataclass(frozen=True, slots=True)
class Fitted:
    """A fitted figure.

    Parameters
    ----------
    name
        Its key in the hardware file.
    value, error
        What it is now, and its standard error; None where points are no more than figures.
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

    point: BenchmarkPoint
    predicted: float

    @property
    def off(self) -> float:
        """How far the prediction is off, as a share of what was measured."""
        return self.predicted / self.point.tokens_per_s - 1


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
        return float(np.mean([abs(one.off) for one in self.residuals]))


def calibrate(
    points: Sequence[BenchmarkPoint],
    model: Architecture,
    hardware: HardwareProfile,
    *,
    placement: Placement | None = None,
    engine: str | None = None,
    drafter: Drafter | None = None,
) -> Calibration:
    """Return the profile that fits a benchmark best; what it cannot determine stays as it was.

    Parameters
    ----------
    points
        At least three, of one model on one placement.
    model, hardware, placement
        What was measured, where.
    engine
        The engine to start from: the profile's default if None.
    drafter
        What made the drafts, where some points have any.

    Raises
    ------
    MeasurementError
        For fewer than three points, points that determine nothing, points of another placement,
        or a throughput that the ideal roofline does not allow.

    Source
        Soft-L1 least squares on the logarithm of throughput (SciPy `least_squares`); parameters
        are told apart by Gram-Schmidt over the columns of the Jacobian.
    """
    if len(points) < _LEAST_POINTS:
        message = f"{len(points)} points cannot determine overheads; at least 3 are needed"
        raise MeasurementError(message)
    setup = engine_setup(hardware, engine, placement, None)
    check_placement(model, setup.placement)
    if drafter is not None:
        drafter.describe(model)  # refuses a model that the drafter does not fit
    for point in points:
        _check(point, model, setup, drafter)
    fit = _Fit(points, model, setup, drafter)
    chosen, kept = _determined(fit)
    if not chosen:
        reasons = "; ".join(f"{name}: {reason}" for name, reason in kept)
        message = f"{len(points)} points determine nothing ({reasons})"
        raise MeasurementError(message)
    return _solved(fit, chosen, kept)


def _check(
    point: BenchmarkPoint, model: Architecture, setup: Setup, drafter: Drafter | None
) -> None:
    """Refuse a point of another placement, or one that is faster than physics."""
    devices = setup.placement.tensor_parallel
    if point.tensor_parallel not in {None, devices}:
        message = f"{point.place}: tensor parallelism is {point.tensor_parallel}; --tp is {devices}"
        raise MeasurementError(message)
    ideal = predicted_tokens_per_s(point, model, replace(setup, engine=IDEAL_ENGINE), drafter)
    if point.tokens_per_s > _IMPOSSIBLE * ideal:
        message = (
            f"{point.place}: {point.tokens_per_s:g} tokens/s is more than the {ideal:.4g} that "
            f"{model.name} reaches on {setup.placement.devices} x {setup.hardware.name} at best; "
            f"other units, another model, or more devices?"
        )
        raise MeasurementError(message)


@dataclass(frozen=True, slots=True)
class _Fit:
    """Points and what prices them."""

    points: Sequence[BenchmarkPoint]
    model: Architecture
    setup: Setup
    drafter: Drafter | None

    @property
    def base(self) -> EngineProfile:
        return self.setup.engine

    def logs(self, engine: EngineProfile) -> Array:
        """Return the logarithm of the predicted throughput of every point."""
        setup = replace(self.setup, engine=engine)
        rates = [
            predicted_tokens_per_s(point, self.model, setup, self.drafter) for point in self.points
        ]
        return np.asarray(np.log(rates))

    def engine(self, parameters: Sequence[Parameter], values: Sequence[float]) -> EngineProfile:
        engine = self.base
        for parameter, value in zip(parameters, values, strict=True):
            engine = parameter.apply(engine, float(value))
        return engine


def _determined(fit: _Fit) -> tuple[list[Parameter], list[tuple[str, str]]]:
    """Return the parameters that the points determine, and why they do not determine others."""
    chosen: list[Parameter] = []
    kept: list[tuple[str, str]] = []
    basis: list[Array] = []
    start = _start(fit)
    here = fit.logs(start)
    for parameter in PARAMETERS:
        step = parameter.typical * 0.1
        column = fit.logs(parameter.apply(start, parameter.start(start) + step)) - here
        rest = column - sum((unit * (unit @ column) for unit in basis), np.zeros(len(column)))
        reason = _why_not(parameter, fit, len(chosen), column * 10, rest * 10)
        if reason:
            kept.append((parameter.name, reason))
            continue
        chosen.append(parameter)
        basis.append(rest / np.linalg.norm(rest))
    return chosen, kept


def _start(fit: _Fit) -> EngineProfile:
    """Return the profile with overheads that are usual, where it has none."""
    engine = fit.base
    for parameter in PARAMETERS[:2]:
        if parameter.start(engine) == 0:
            engine = parameter.apply(engine, parameter.typical)
    return engine


def _why_not(
    parameter: Parameter, fit: _Fit, n_chosen: int, column: Array, rest: Array
) -> str | None:
    """Return why the points do not determine a parameter; None if they do."""
    n_points = len(fit.points)
    if parameter.needs_drafts and not any(point.draft_len for point in fit.points):
        return "no point has drafts"
    if getattr(fit.base, parameter.name) is None:
        return "the profile has that of the target's passes in its place"
    if n_points < max(parameter.least_points, n_chosen + 1):
        least = max(parameter.least_points, n_chosen + 1)
        return f"{n_points} points, of {least} that it takes"
    if float(np.sqrt(np.mean(column**2))) < _UNSEEN:
        return "the points hardly depend on it"
    if float(np.linalg.norm(rest)) < _COPIED * float(np.linalg.norm(column)):
        return "the points cannot tell it from those before it"
    return None


def _solved(
    fit: _Fit, determined: Sequence[Parameter], kept: Sequence[tuple[str, str]]
) -> Calibration:
    """Return the fit of what the points determine, as far as each figure earns its place."""
    chosen = [one for one in determined if one.least_points == _LEAST_POINTS]
    dropped: list[tuple[str, str]] = []
    found = _solution(fit, chosen, _start(fit))
    for one in determined:
        if one in chosen:
            continue
        wider = _solution(fit, [*chosen, one], fit.engine(chosen, found.values))
        n_points = len(fit.points)
        # Schwarz 1978: a further figure must lower the misfit by more than noise would let it.
        if n_points * np.log(found.misfit / wider.misfit) > np.log(n_points):
            chosen, found = [*chosen, one], wider
        else:
            dropped.append((one.name, "the fit is no better with it than noise would make it"))
    return _calibration(fit, chosen, found, (*kept, *dropped))


@dataclass(frozen=True, slots=True)
class _Solution:
    """Values of some parameters, their standard errors, and what is left over."""

    values: Sequence[float]
    errors: Sequence[float | None]
    misfit: float


def _solution(fit: _Fit, chosen: Sequence[Parameter], start: EngineProfile) -> _Solution:
    """Return the values that fit best, from those of `start` on."""
    measured = np.log(np.array([point.tokens_per_s for point in fit.points]))
    typical = np.array([one.typical for one in chosen])

    def residuals(scaled: Array) -> Array:
        return np.asarray(fit.logs(fit.engine(chosen, (scaled * typical).tolist())) - measured)

    least = np.array([0.0 if one.most == np.inf else 0.05 for one in chosen])
    most = np.array([one.most for one in chosen]) / typical
    first = np.array([one.start(start) for one in chosen]) / typical
    found = _least_squares()(
        residuals,
        np.clip(first, least + _INSIDE, most - _INSIDE),
        bounds=(least, most),
        loss="soft_l1",
        f_scale=_ORDINARY,
        diff_step=1e-4,
    )
    errors = _standard_errors(found.jac, residuals(found.x))
    known = [None] * len(chosen) if errors is None else (errors * typical).tolist()
    return _Solution((found.x * typical).tolist(), known, float(found.cost) + _NO_MISFIT)


def _calibration(
    fit: _Fit,
    chosen: Sequence[Parameter],
    found: _Solution,
    kept: Sequence[tuple[str, str]],
) -> Calibration:
    """Return a solution with what it predicts."""
    engine = fit.engine(chosen, found.values)
    fitted = [
        Fitted(one.name, value, error, one.start(fit.base))
        for one, value, error in zip(chosen, found.values, found.errors, strict=True)
    ]
    rates = np.exp(fit.logs(engine)).tolist()
    return Calibration(
        # What its base was off says nothing about it.
        engine=replace(engine, expected_error=None),
        base=fit.base.name,
        fitted=tuple(fitted),
        kept=tuple(kept),
        residuals=tuple(Residual(*pair) for pair in zip(fit.points, rates, strict=True)),
    )


def _standard_errors(jacobian: Array, off: Array) -> Array | None:
    """Return standard errors of scaled parameters; None where no point is left over."""
    n_points, n_parameters = jacobian.shape
    if n_points <= n_parameters:
        return None
    variance = float(off @ off) / (n_points - n_parameters)
    inverse: Array = np.asarray(np.linalg.pinv(jacobian))
    return np.asarray(np.sqrt(variance * np.sum(inverse**2, axis=1)))


def _least_squares() -> Any:
    """Return SciPy's solver.

    Raises
    ------
    MeasurementError
        If SciPy is not installed.
    """
    try:
        from scipy.optimize import least_squares  # noqa: PLC0415 - an optional extra
    except ImportError:
        message = "calibrate needs SciPy; install it with: pip install 'specroof[calibrate]'"
        raise MeasurementError(message) from None
    return least_squares
