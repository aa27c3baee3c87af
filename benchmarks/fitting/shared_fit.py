"""Parameters that all measurements share: fitted to all of them, and without each source."""

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from multiprocessing import get_context
from typing import Final

import numpy as np

from fitting.kernels import KERNEL_ENGINE, kernel_engine
from fitting.parameters import (
    ALL,
    ENGINES,
    FACTORS_BESIDE_ROUNDS,
    PARAMETERS,
    chip_family,
    fitted_engine,
)
from specroof.arrays import Array, grouped
from specroof.engines.least_squares import least_squares
from specroof.engines.record import Record, of_bare_passes
from specroof.evidence import STEP, Measurement, kind_of, measured_of, shape_group
from specroof.evidence.measurement import chip_of
from specroof.hardware.engine import EngineProfile
from specroof.scoring.bands import FULL_POINTS
from specroof.scoring.left_out import left_out_name, published_cases

# What an ordinary residual is, beyond which a point counts as an outlier (soft L1): 7% at first,
# then what the first fit leaves, between these bounds.
_ORDINARY: Final = 0.07
_SMALLEST: Final = 0.001
# The standard deviation of a normal distribution, by its median of absolute values.
_SIGMA: Final = 1.4826
# Plain throughput moves with versions and clocks that the speedup does not see.
_PLAIN_WEIGHT: Final = 0.7
_MOST_STEPS: Final = 80
#: How often n-grams match is presumed, by task, and what the host takes to search is not known:
#: their rows are scored, and what a round costs is learned from drafters that run on the device.
NOT_FITTED: Final = ("ngram",)


def initial_parameters() -> dict[str, float]:
    """Return where every fit starts.

    Examples
    --------
    >>> initial_parameters()["layer_s"]
    5e-05
    """
    return {parameter.name: parameter.typical for parameter in PARAMETERS}


def engine_key(point: Measurement) -> tuple[str, str, bool]:
    """Return the key of the fitted engine of a measurement: name, family of chips, bare passes.

    Kernels are timed chip by chip: of their engine the key has the chip instead of its family.
    """
    engine, chip = point.engine or "", point.hardware or ""
    return engine, place_of(engine, chip), point.method == STEP


def place_of(server: str, chip: str) -> str:
    """Return the family of a chip; the chip itself where a server's kernels were timed on it."""
    return chip if server == KERNEL_ENGINE else chip_family(chip_of(chip))


def engine_of(
    key: tuple[str, str, bool],
    parameters: Mapping[str, float],
    beside_rounds: Collection[str] = FACTORS_BESIDE_ROUNDS,
) -> EngineProfile:
    """Return the engine profile that parameters make for some measurements.

    Parameters
    ----------
    key
        See `engine_key`.
    parameters
        Fitted ones.
    beside_rounds
        See `fitted_engine`.
    """
    name, family, is_step = key
    if name == KERNEL_ENGINE:
        return kernel_engine(chip_of(family), parameters)
    engine = fitted_engine(name, family, parameters, beside_rounds)
    return of_bare_passes(engine) if is_step else engine


class Points:
    """Measurements as a fit sees them: what was measured, and the record to predict it from.

    Parameters
    ----------
    measurements
        Those that `specroof.evidence.kind_of` gives a kind.
    beside_rounds
        The factors of servers that count; see `fitted_engine`.
    """

    def __init__(
        self,
        measurements: Sequence[Measurement],
        beside_rounds: Collection[str] = FACTORS_BESIDE_ROUNDS,
    ) -> None:
        self._beside_rounds = beside_rounds
        self.points = points = [point for point in measurements if kind_of(point)[0]]
        keys = [engine_key(point) for point in points]
        self._keys = list(dict.fromkeys(keys))
        engines = self._engines(initial_parameters())
        self._record = Record(published_cases(points, [(key, engines[key]) for key in keys]))
        kinds = [kind_of(point)[0] for point in points]
        self._plain = np.array([kind == "plain" for kind in kinds])
        self._measured = np.log([measured_of(point)[1] for point in points])
        groups: dict[tuple[object, ...], int] = {}
        self._group = np.array(
            [
                groups.setdefault(shape_group(point), len(groups)) if kind == "shape" else -1
                for point, kind in zip(points, kinds, strict=True)
            ]
        )
        table = list(zip([point.source for point in points], self._plain, strict=True))
        sizes = Counter(table)
        share = np.array([min(1.0, FULL_POINTS / sizes[row]) ** 0.5 for row in table])
        self._weight = share * np.where(self._plain, _PLAIN_WEIGHT, 1.0)
        self._ordinary = _ORDINARY

    def predicted(self, parameters: Mapping[str, float]) -> Array:
        """Return the logarithm of what is predicted: a throughput or a speedup, as was measured."""
        rates = self._record.rates(self._engines(parameters))
        return np.asarray(np.log(rates.as_measured(self.points)))

    def _engines(
        self, parameters: Mapping[str, float]
    ) -> dict[tuple[str, str, bool], EngineProfile]:
        return {key: engine_of(key, parameters, self._beside_rounds) for key in self._keys}

    def residuals(self, parameters: Mapping[str, float]) -> Array:
        """Return what predictions are off, in logarithms, the factor of each shape taken out."""
        off = self.predicted(parameters) - self._measured
        shaped = self._group >= 0
        if shaped.any():
            group = self._group[shaped]
            off[shaped] -= (np.bincount(group, weights=off[shaped]) / np.bincount(group))[group]
        return np.asarray(off)

    @property
    def weights(self) -> Array:
        """What each residual counts for, in units of an ordinary one."""
        return np.asarray(self._weight / self._ordinary)

    def learn_scale(self, parameters: Mapping[str, float]) -> None:
        """Take what these parameters leave as the size of an ordinary residual."""
        left = _SIGMA * float(np.median(np.abs(self.residuals(parameters))))
        self._ordinary = min(max(left, _SMALLEST), _ORDINARY)

    def objective(self, x: Array) -> Array:
        """Return the residuals as a solver weighs them, by how far parameters were moved."""
        return self.residuals(parameters_at(x)) * self.weights


def parameters_at(x: Array) -> dict[str, float]:
    """Return the parameters that lie so many spreads from their usual values."""
    return {
        parameter.name: parameter.value(far)
        for parameter, far in zip(PARAMETERS, x.tolist(), strict=True)
    }


def fit(
    measurements: Sequence[Measurement], start: Mapping[str, float] | None = None
) -> dict[str, float]:
    """Return the parameters that fit some measurements best.

    Parameters
    ----------
    measurements
        What was measured.
    start
        Where to begin; what parameters are held near does not depend on it.

    Raises
    ------
    MeasurementError
        Without SciPy.

    Source
        Robust least squares on logarithms of throughput and speedup, with a normal prior on the
        logarithm of every parameter (`fitting.parameters.PARAMETERS`).
    """
    points = Points([point for point in measurements if point.method not in NOT_FITTED])
    begin = {**initial_parameters(), **(start or {})}
    x = np.array([parameter.coordinate(begin[parameter.name]) for parameter in PARAMETERS])
    for _ in range(2):
        x = least_squares(points.objective, x, np.ones(len(x)), max_nfev=_MOST_STEPS).x
        points.learn_scale(parameters_at(x))
    return parameters_at(x)


def leave_one_out(measurements: Sequence[Measurement]) -> dict[str, dict[str, float]]:
    """Return the fit to all under ``"all"``, and one without each source, family and engine.

    Parameters
    ----------
    measurements
        What was measured, by several sources.
    """
    groups = grouped(measurements, lambda point: point.source)
    for point in measurements:
        if kind_of(point)[0] and point.engine in ENGINES:
            engine, family, _ = engine_key(point)
            groups.setdefault(left_out_name(family=family), []).append(point)
            groups.setdefault(left_out_name(engine=engine), []).append(point)
    first, names = fit(measurements), list(groups)

    def fitted(task: int) -> dict[str, float]:
        group = groups[names[task]]
        return fit([point for point in measurements if point not in group], first)

    return {ALL: first, **dict(zip(names, in_processes(fitted, len(names)), strict=True))}


#: What forked processes find, as no function inside another can be sent to them.
_forked: list[Callable[[int], dict[str, float]]] = []


def _run_forked(task: int) -> dict[str, float]:
    return _forked[-1](task)


def in_processes(fitted: Callable[[int], dict[str, float]], n_tasks: int) -> list[dict[str, float]]:
    """Return the fits of so many tasks, as many at a time as there are cores."""
    _forked.append(fitted)
    try:
        with get_context("fork").Pool() as pool:
            return pool.map(_run_forked, range(n_tasks), chunksize=1)
    finally:
        _forked.pop()
