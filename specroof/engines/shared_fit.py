"""Robust least squares over measurements: shared parameters, held near where they start.

Needs SciPy, an optional extra: ``pip install specroof[calibrate]``.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from specroof.engines.recording import PARTS, Record
from specroof.engines.shared_parameters import PARAMETERS
from specroof.engines.timing import committed_tokens, lengths
from specroof.errors import OptionError
from specroof.evidence.bundled import Measurement
from specroof.validate.scores import kind_of, measured_speedup, shape_group

__all__ = ["Points", "fit", "initial_parameters", "leave_one_out"]

Array = npt.NDArray[np.float64]

# What an ordinary residual is, beyond which a point counts as an outlier (soft L1): 7% at first,
# then what the first fit leaves, between these bounds.
_ORDINARY: Final = 0.07
_SMALLEST: Final = 0.001
# The standard deviation of a normal distribution, by its median of absolute values.
_SIGMA: Final = 1.4826
# Points of a source that count in full; a longer table weighs as much as so many.
_FULL_POINTS: Final = 25
# Plain throughput moves with versions and clocks that the speedup does not see.
_PLAIN_WEIGHT: Final = 0.7
_MOST_STEPS: Final = 80

_START: Final = np.log([value for value, _, _ in PARAMETERS.values()])
_SPREAD: Final = np.array([spread for _, spread, _ in PARAMETERS.values()])


def initial_parameters() -> dict[str, float]:
    """Return where every fit starts.

    Examples
    --------
    >>> initial_parameters()["layer_s"]
    5e-05
    """
    return {name: value for name, (value, _, _) in PARAMETERS.items()}


class Points:
    """Measurements as a fit sees them: what was measured, and the record to predict it from.

    Parameters
    ----------
    measurements
        Those that `specroof.validate.scores.kind_of` gives a kind.
    """

    def __init__(self, measurements: Sequence[Measurement]) -> None:
        self.points = points = [one for one in measurements if kind_of(one)[0]]
        self._record = Record(points, initial_parameters())
        kinds = [kind_of(one)[0] for one in points]
        self._plain = np.array([kind == "plain" for kind in kinds])
        self._is_ratio = ~self._plain & np.array([measured_speedup(o) is not None for o in points])
        self._measured = np.log(
            [_measured(one, kind) for one, kind in zip(points, kinds, strict=True)]
        )
        groups: dict[tuple[object, ...], int] = {}
        self._group = np.array(
            [
                groups.setdefault(shape_group(one), len(groups)) if kind == "shape" else -1
                for one, kind in zip(points, kinds, strict=True)
            ]
        )
        self._batch = np.array([float(one.batch_size or 0) for one in points])
        self._answer = np.array([lengths(one)[1] for one in points])
        self._requests = np.array([float(one.includes_prefill) for one in points])
        self._committed = np.array([committed_tokens(one) for one in points])
        self._vllm = np.array([one.engine == "vllm" for one in points])
        self._weight = self._weights()
        self._ordinary = _ORDINARY

    def _weights(self) -> Array:
        table = list(zip([one.source for one in self.points], self._plain, strict=True))
        sizes = Counter(table)
        share = np.array([min(1.0, _FULL_POINTS / sizes[row]) ** 0.5 for row in table])
        return np.asarray(share * np.where(self._plain, _PLAIN_WEIGHT, 1.0))

    def predicted(self, parameters: Mapping[str, float]) -> Array:
        """Return the logarithm of what is predicted: a throughput or a speedup, as was measured."""
        p, pass_s = parameters, self._record.pass_s(parameters)
        decode, prefill, verify, draft = (self._record.counts[part] @ pass_s for part in PARTS)
        waiting_s = self._batch * (prefill + p["request_s"]) + p["request_latency_s"]
        waiting_s = self._requests * waiting_s / self._answer
        per_round_s = np.where(self._vllm, p["round_s.vllm"], p["round_s.sglang"])
        round_s = verify + draft + per_round_s + p["round_sequence_s"] * self._batch
        plain = self._batch / (decode + waiting_s)
        fast = self._batch / (round_s / self._committed + waiting_s)
        rate = np.where(self._plain, plain, fast)
        return np.asarray(np.log(np.where(self._is_ratio, fast / plain, rate)))

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

    def objective(self, logs: Array) -> Array:
        """Return the residuals as a solver weighs them, and how far parameters were moved."""
        parameters = dict(zip(PARAMETERS, np.exp(logs).tolist(), strict=True))
        data = self.residuals(parameters) * self.weights
        return np.concatenate([data, (logs - _START) / _SPREAD])


def _measured(point: Measurement, kind: str) -> float:
    ratio = None if kind == "plain" else measured_speedup(point)
    return float(ratio or point.tokens_per_s or 0.0)


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
    OptionError
        Without SciPy.

    Source
        Robust least squares on logarithms of throughput and speedup, with a normal prior on the
        logarithm of every parameter (`specroof.engines.shared_parameters.PARAMETERS`).
    """
    try:
        from scipy.optimize import least_squares  # noqa: PLC0415 - an optional extra
    except ImportError:
        message = "fitting needs SciPy, which is missing; allowed: pip install specroof[calibrate]"
        raise OptionError(message) from None
    points = Points(measurements)
    logs = np.log(list(start.values())) if start else _START
    parameters = initial_parameters()
    for _ in range(2):
        found = least_squares(
            points.objective, logs, loss="soft_l1", x_scale=_SPREAD, max_nfev=_MOST_STEPS
        )
        logs = found.x
        parameters = dict(zip(PARAMETERS, np.exp(logs).tolist(), strict=True))
        points.learn_scale(parameters)
    return parameters


def leave_one_out(measurements: Sequence[Measurement]) -> dict[str, dict[str, float]]:
    """Return the fit to all sources under ``"all"``, and under its name one without each.

    Parameters
    ----------
    measurements
        What was measured, by several sources.
    """
    fits = {"all": fit(measurements)}
    for source in dict.fromkeys(one.source for one in measurements):
        others = [one for one in measurements if one.source != source]
        fits[source] = fit(others, fits["all"])
    return fits
