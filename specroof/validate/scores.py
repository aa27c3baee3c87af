"""How far predictions are from measurements: of the speedup, its verdict and choice, the step."""

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import numpy.typing as npt

from specroof.evidence import Measurement, kind_of, measured_of, shape_group
from specroof.speedup.bands import LOSES, PAYS, UNCLEAR

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

Array = npt.NDArray[np.float64]

#: A speedup within this of 1 hardly matters either way.
_UNDECIDED: Final = 0.1

#: Sources of a trust order beyond this are predicted and shown, and neither fitted nor totalled.
TRUSTED: Final = 3
#: Those up to here count in bands nevertheless, which are to show what is not known.
_BANDED: Final = 4


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
        drafts that were never measured without.
    predicted, measured
        Tokens per second, or the ratio.
    options_of
        What draft lengths share that are options of one choice; the point's if None.
    band
        Half-width of the band around the prediction, in natural logarithms, set without its source;
        None where there is none, as of the ideal engine.
    """

    point: Measurement
    kind: str
    predicted: float
    measured: float
    options_of: object = None
    band: float | None = None

    @property
    def source(self) -> str:
        """Who measured."""
        return self.point.source

    @property
    def is_trusted(self) -> bool:
        """Whether its source counts: those that somebody measured on their own always do."""
        return (self.point.trust or 0) <= TRUSTED

    @property
    def widens_bands(self) -> bool:
        """Whether it counts in bands: single measurements on strange chips do, and in no total."""
        return (self.point.trust or 0) <= _BANDED

    @property
    def error(self) -> float:
        """How far off, as a share of what was measured."""
        return abs(self.predicted / self.measured - 1)

    @property
    def off(self) -> float:
        """How far off, as a natural logarithm without its sign."""
        return abs(math.log(self.predicted / self.measured))

    @property
    def in_band(self) -> bool | None:
        """Whether what was measured lies in the band; None without one."""
        return None if self.band is None else self.off <= self.band

    @property
    def said(self) -> str:
        """What a prediction says of a speedup: that it pays, loses, or that it is unclear."""
        away = math.log(self.predicted)
        if abs(away) <= (self.band or 0.0):
            return UNCLEAR
        return PAYS if away > 0 else LOSES

    @property
    def verdict(self) -> bool | None:
        """Whether the verdict on a speedup is right; None for what is no speedup.

        A measurement near 1 is met by a prediction near 1, or by none; any other only by the side
        of 1 that it lies on.
        """
        if self.kind != "speedup":
            return None
        if abs(self.measured - 1) <= _UNDECIDED:
            return abs(self.predicted - 1) <= _UNDECIDED or self.said == UNCLEAR
        return self.said == (PAYS if self.measured > 1 else LOSES)

    @property
    def is_tree(self) -> bool:
        """Whether its drafts branch: more positions are verified than a chain has."""
        return (self.point.verify_len or 0) > (self.point.draft_len or 0) + 1


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
    trees_mean
        Of drafts that branch: speedups, and shapes where no tree has a known acceptance length.
    verdict_accuracy
        Share of speedups whose verdict is right: see `Scored.verdict`.
    unclear_share
        Share of speedups whose prediction says unclear.
    regret_mean
        Throughput lost by taking what is predicted best of a set-up, no drafts being an option.
    band80_coverage
        Share of speedups that lie in the band around their prediction.
    band80_width
        Median half-width of those bands, as a share of the prediction.
    """

    n: int
    speedup_mean: float | None
    speedup_median: float | None
    speedup_p90: float | None
    decode_mean: float | None
    decode_median: float | None
    shape_mean: float | None
    trees_mean: float | None
    verdict_accuracy: float | None
    unclear_share: float | None
    regret_mean: float | None
    band80_coverage: float | None
    band80_width: float | None


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


def scored(point: Measurement, predicted: float) -> Scored:
    """Return a prediction beside its measurement; of a shape the factor is still in it."""
    return Scored(point, kind_of(point)[0], predicted, measured_of(point)[1])


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
    bands = [one.band for one in speedups if one.band is not None]
    held = [one.in_band for one in speedups if one.in_band is not None]
    return Errors(
        n=len(points),
        speedup_mean=_mean(of["speedup"]),
        speedup_median=_quantile(of["speedup"], 0.5),
        speedup_p90=_quantile(of["speedup"], 0.9),
        decode_mean=_mean(of["plain"]),
        decode_median=_quantile(of["plain"], 0.5),
        shape_mean=_mean(of["shape"]),
        trees_mean=_mean(_of_trees(points)),
        verdict_accuracy=_mean(np.array([one.verdict for one in speedups], dtype=float)),
        unclear_share=_mean(np.array([one.said == UNCLEAR for one in speedups], dtype=float)),
        regret_mean=_mean(np.array(list(_regrets(speedups)))),
        band80_coverage=_mean(np.array(held, dtype=float)),
        band80_width=_quantile(np.expm1(np.array(bands)), 0.5),
    )


def _of_trees(points: Iterable[Scored]) -> Array:
    """Return the errors of drafts that branch: of speedups, else of shapes."""
    trees = [one for one in points if one.is_tree]
    known = [one.error for one in trees if one.kind == "speedup"]
    return np.array(known or [one.error for one in trees if one.kind == "shape"])


def _regrets(speedups: Iterable[Scored]) -> Iterator[float]:
    """Yield the share of throughput lost in each set-up; not to draft is always an option."""
    setups = defaultdict(list)
    for one in speedups:
        point = one.point
        where = (point.model, point.hardware, point.method, point.batch_size, point.task)
        setups[(point.source, one.options_of or where)].append(one)
    for options in setups.values():
        choices = [(1.0, 1.0), *((one.predicted, one.measured) for one in options)]
        _, taken = max(choices, key=lambda choice: choice[0])
        yield 1 - taken / max(measured for _, measured in choices)


def _mean(values: Array) -> float | None:
    return float(np.mean(values)) if values.size else None


def _quantile(values: Array, share: float) -> float | None:
    return float(np.quantile(values, share)) if values.size else None
