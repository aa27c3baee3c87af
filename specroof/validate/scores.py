"""How far predictions are from measurements: of the speedup, its verdict and choice, the step."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from specroof.evidence import Measurement, shape_group

__all__ = [
    "TRUSTED",
    "Errors",
    "RoundCosts",
    "Scored",
    "errors_of",
    "levelled",
    "round_costs",
    "scored",
]

#: A measured speedup within this of 1 is no verdict.
_UNDECIDED: Final = 0.1

#: Sources of a trust order beyond this are predicted and shown, and neither fitted nor totalled.
TRUSTED: Final = 3


@dataclass(frozen=True, slots=True)
class Scored:
    """One prediction beside what was measured.

    Parameters
    ----------
    point
        The measurement.
    kind
        ``"plain"`` throughput; a ``"speedup"`` whose acceptance length is known; a ``"shape"``,
        right but for one factor over all points of its group; a ``"rate"``, throughput with
        drafts that nobody measured without.
    predicted, measured
        Tokens per second, or the ratio.
    options_of
        What draft lengths share that are options of one choice; that of the point if None.
    """

    point: Measurement
    kind: str
    predicted: float
    measured: float
    options_of: object = None

    @property
    def source(self) -> str:
        """Who measured."""
        return self.point.source

    @property
    def is_trusted(self) -> bool:
        """Whether its source counts: those that somebody measured on their own always do."""
        return (self.point.trust or 0) <= TRUSTED

    @property
    def error(self) -> float:
        """How far off, as a share of what was measured."""
        return abs(self.predicted / self.measured - 1)

    @property
    def verdict(self) -> bool | None:
        """Whether a speedup is predicted on the side of 1 where it is; None where it is near 1."""
        if self.kind != "speedup" or abs(self.measured - 1) <= _UNDECIDED:
            return None
        return (self.predicted > 1) == (self.measured > 1)


@dataclass(frozen=True, slots=True)
class Errors:
    """The errors over some points; None where none of them can say.

    Parameters
    ----------
    n
        Points that were scored.
    speedup_mean, speedup_median, speedup_p90
        Of speedups with a known acceptance length.
    decode_mean, decode_median
        Of plain throughput.
    shape_mean
        Of speedups over load, one factor per group being free.
    verdict_accuracy
        Share of cases, of those off 1.0x by more than 10%, whose prediction is on the same side.
    regret_mean
        Throughput lost by taking the option of a set-up that is predicted best.
    """

    n: int
    speedup_mean: float | None
    speedup_median: float | None
    speedup_p90: float | None
    decode_mean: float | None
    decode_median: float | None
    shape_mean: float | None
    verdict_accuracy: float | None
    regret_mean: float | None


@dataclass(frozen=True, slots=True)
class RoundCosts:
    """What one round costs in units of a plain step, over the points of one kind of drafter.

    A round that commits N tokens at a speedup of s takes N / s plain steps.

    Parameters
    ----------
    n
        Points whose acceptance length is known.
    predicted, measured
        Means over them.
    mean_error
        Mean of how far each is off, as a share of what was measured.
    """

    n: int
    predicted: float
    measured: float
    mean_error: float


def round_costs(points: Iterable[Scored]) -> dict[str, RoundCosts]:
    """Return the cost of a round for each kind of drafter, by its method.

    Examples
    --------
    >>> round_costs([])
    {}
    """
    found: dict[str, list[tuple[float, float]]] = {}
    for one in points:
        tokens = one.point.tokens_per_round
        if one.kind == "speedup" and tokens is not None:
            pair = (tokens / one.predicted, tokens / one.measured)
            found.setdefault(one.point.method or "", []).append(pair)
    costs = {}
    for method, pairs in sorted(found.items()):
        predicted, measured = np.array(pairs).T
        costs[method] = RoundCosts(
            n=len(pairs),
            predicted=float(predicted.mean()),
            measured=float(measured.mean()),
            mean_error=float(np.abs(predicted / measured - 1).mean()),
        )
    return costs


def scored(point: Measurement, kind: str, rates: tuple[float, float]) -> Scored:
    """Return a prediction beside its measurement; of a shape the factor is still in it.

    Parameters
    ----------
    point, kind
        What was measured, and as what it counts.
    rates
        What is predicted without drafts, and as it was measured, in tokens per second.
    """
    plain, rate = rates
    ratio = None if kind == "plain" else point.measured_speedup
    if ratio is None:
        return Scored(point, kind, rate, point.rate)
    return Scored(point, kind, rate / plain, ratio)


def levelled(points: Iterable[Scored]) -> list[Scored]:
    """Return the points with the factor of every group of shapes divided out.

    A group of one says nothing and is left out. The factor is the geometric mean of what is off.
    """
    groups = defaultdict(list)
    kept = []
    for one in points:
        if one.kind == "shape":
            groups[shape_group(one.point)].append(one)
        else:
            kept.append(one)
    for shapes in groups.values():
        if len(shapes) > 1:
            off = np.exp(np.mean([np.log(one.predicted / one.measured) for one in shapes]))
            kept += [replace(one, predicted=one.predicted / float(off)) for one in shapes]
    return kept


def errors_of(points: Sequence[Scored]) -> Errors:
    """Return the errors over some points, shapes levelled already.

    Parameters
    ----------
    points
        Of one source, or of all.
    """
    of = {
        kind: np.array([one.error for one in points if one.kind == kind])
        for kind in ("speedup", "plain", "shape")
    }
    speedups = [one for one in points if one.kind == "speedup"]
    right = [one.verdict for one in speedups if one.verdict is not None]
    return Errors(
        n=len(points),
        speedup_mean=_mean(of["speedup"]),
        speedup_median=_quantile(of["speedup"], 0.5),
        speedup_p90=_quantile(of["speedup"], 0.9),
        decode_mean=_mean(of["plain"]),
        decode_median=_quantile(of["plain"], 0.5),
        shape_mean=_mean(of["shape"]),
        verdict_accuracy=_mean(np.array(right, dtype=float)),
        regret_mean=_mean(np.array(list(_regrets(speedups)))),
    )


def _regrets(speedups: Iterable[Scored]) -> Iterable[float]:
    """Yield the share of throughput lost, for each set-up that was measured in several ways."""
    setups = defaultdict(list)
    for one in speedups:
        point = one.point
        where = (point.model, point.hardware, point.method, point.batch_size, point.task)
        setups[(point.source, one.options_of or where)].append(one)
    for options in setups.values():
        if len({(one.point.draft_len, one.point.verify_len) for one in options}) > 1:
            chosen = max(options, key=lambda one: one.predicted)
            yield 1 - chosen.measured / max(one.measured for one in options)


def _mean(values: np.ndarray) -> float | None:
    return float(np.mean(values)) if values.size else None


def _quantile(values: np.ndarray, share: float) -> float | None:
    return float(np.quantile(values, share)) if values.size else None
