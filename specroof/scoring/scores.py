"""One prediction beside what was measured: how far off, whether in its band, and its verdict."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from specroof import quantities as q
from specroof.arrays import grouped
from specroof.evidence import (
    STEP,
    Measurement,
    drafter_of,
    kind_of,
    measured_of,
    request_lengths,
    shape_group,
)
from specroof.scoring.left_out import left_out_engine, served_of
from specroof.serving.capacity import served_room
from specroof.speedup.result import LOSES, PAYS, UNCLEAR, best_index, verdict

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
        right but for one factor over all points of its group; ``"drafting"`` alone; a ``"rate"``,
        throughput with drafts that were never measured without.
    predicted, measured
        Tokens per second, or the ratio; of drafting its seconds, or its share.
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
    def ends(self) -> tuple[float, float]:
        """The ends of the band: the prediction itself without one."""
        away = math.exp(self.band or 0.0)
        return self.predicted / away, self.predicted * away

    @property
    def predicted_verdict(self) -> str:
        """The verdict of the prediction on a speedup: that it pays, loses, or is unclear."""
        return str(verdict(*self.ends))

    @property
    def verdict(self) -> bool | None:
        """Whether the verdict on a speedup is right; None for what is no speedup.

        A measurement near 1 is met by a prediction near 1, or by none; any other only by the side
        of 1 that it lies on.
        """
        if self.kind != "speedup":
            return None
        if abs(self.measured - 1) <= _UNDECIDED:
            return abs(self.predicted - 1) <= _UNDECIDED or self.predicted_verdict == UNCLEAR
        return self.predicted_verdict == (PAYS if self.measured > 1 else LOSES)


def scored(point: Measurement, predicted: float) -> Scored:
    """Return a prediction beside its measurement; of a shape the factor is still in it."""
    return Scored(point, kind_of(point)[0], predicted, measured_of(point)[1])


def levelled(points: Iterable[Scored]) -> list[Scored]:
    """Return the points with the factor of every group of shapes divided out.

    A group of one says nothing and is left out. The factor is the geometric mean of what is off.
    """
    points = list(points)
    kept = [score for score in points if score.kind != "shape"]
    shapes = [score for score in points if score.kind == "shape"]
    for group in grouped(shapes, lambda score: shape_group(score.point)).values():
        if len(group) > 1:
            off = np.exp(np.mean([np.log(score.predicted / score.measured) for score in group]))
            kept += [replace(score, predicted=score.predicted / float(off)) for score in group]
    return kept


# --- Whether a server with its defaults would have run all requests of a measurement -------------

#: What cells call points beyond what a server runs at once, and those within it.
BOUND = "bound"
FREE = "free"


def capacity_bound(point: Measurement) -> str:
    """Return whether the rules of a server, with all its defaults, run fewer requests at once.

    Parameters
    ----------
    point
        What was measured, on a chip of a fitted family. A bare pass needs no server.

    Examples
    --------
    >>> from specroof.evidence import load_measurements
    >>> points = [point for point in load_measurements() if point.source == "specdecode-fig2"]
    >>> points[0].batch_size, capacity_bound(points[0])
    (1.0, 'free')
    """
    if point.method == STEP:
        return FREE
    served = served_of(point, left_out_engine(point))
    room = served_room(
        served,
        context_len=request_lengths(point)[2],
        drafter=drafter_of(point) if point.drafts else None,
        verify_len=float(point.verify_len or 1),
    )
    return BOUND if float(room.largest_batch) < float(point.batch_size or 0) else FREE


# --- What following `advise` would have lost where options were measured beside one another ------


@dataclass(frozen=True, slots=True)
class Regret:
    """One set-up: what is advised by the predictions, and what the measurements say of it.

    Parameters
    ----------
    options
        Drafters and draft lengths that were measured there; no drafts are one more option.
    taken, best
        What is advised, and what was measured best; None is no drafts.
    """

    options: tuple[Scored, ...]
    taken: Scored | None
    best: Scored | None

    @property
    def lost(self) -> float:
        """The share of throughput that what is taken loses to what is best."""
        return 1.0 - _measured(self.taken) / _measured(self.best)

    @property
    def point(self) -> Measurement:
        """A measurement of the set-up."""
        return self.options[0].point

    @property
    def is_trusted(self) -> bool:
        """Whether its source counts."""
        return self.options[0].is_trusted


def regrets(speedups: Iterable[Scored]) -> list[Regret]:
    """Return what following the predictions loses in each set-up.

    Parameters
    ----------
    speedups
        Beside predictions that have not seen them. Whoever measured a model on a chip at a load
        had the drafters and draft lengths of all these points to choose from.

    Counts
        the acceptance length of each option as it was measured with it.
    Ignores
        shapes: the factor that is free in a group comes from the measurements. Bands tell a
        verdict, and do not move the choice.
    Source
        `specroof.speedup.result.best_index`, by which `advise` takes draft lengths.
    """
    losses = []
    for options in grouped(speedups, _setup).values():
        # As in `advise`, ties go to the shorter draft.
        ordered = sorted(
            options, key=lambda score: (score.point.draft_len or 0, score.point.verify_len or 0)
        )
        choices = (None, *ordered)
        best = int(best_index([1.0, *(score.predicted for score in ordered)]))
        losses.append(Regret(tuple(ordered), choices[best], max(choices, key=_measured)))
    return losses


def worst_regrets(losses: Iterable[Regret], n: int) -> list[Regret]:
    """Return those that lose most, at most so many, the largest first; none that lose nothing."""
    losing = [regret for regret in losses if regret.lost > 0.0]
    return sorted(losing, key=lambda regret: regret.lost, reverse=True)[:n]


def _setup(score: Scored) -> tuple[object, ...]:
    """Return what points share that are options of one choice."""
    point = score.point
    if score.options_of is not None:
        return (point.source, score.options_of)
    return (
        *(point.source, point.model, point.hardware, point.engine),
        *(point.tensor_parallel, point.expert_parallel, point.quantization),
        *(point.batch_size, point.context_len, point.input_len, point.output_len, point.task),
    )


def _measured(score: Scored | None) -> float:
    return 1.0 if score is None else score.measured


# --- Errors over many points: of speedups, verdicts, choices and plain steps; costs of rounds ----


@dataclass(frozen=True, kw_only=True)
class Errors(q.Row):
    """The errors over some points, as shares of what was measured; None where none can say.

    Parameters
    ----------
    source, trust
        What the points are of, and the trust order of a source.
    n
        Points that were scored.
    speedup_mean_error, speedup_median_error, speedup_p90_error
        Of speedups with a known acceptance length.
    shape_mean_error
        Of speedups over load, one factor per group being free.
    trees_mean_error
        Of drafts that branch: speedups, and shapes where no tree has a known acceptance length.
    decode_mean_error, decode_median_error
        Of plain throughput.
    drafting_median_error
        Of drafting alone, its seconds or its share of a round.
    verdict_accuracy
        Share of speedups whose verdict is right: see `Scored.verdict`.
    unclear_share
        Share of speedups whose prediction says unclear.
    regret_mean
        Throughput lost by taking what is predicted best of a set-up, no drafts being an option: see
        `specroof.scoring.scores`.
    band80_coverage
        Share of speedups that lie in the band around their prediction.
    band80_width
        Median half-width of those bands, as a share of the prediction.
    """

    source: str
    trust: int | None
    n: int
    speedup_mean_error: float | None
    speedup_median_error: float | None
    speedup_p90_error: float | None
    shape_mean_error: float | None
    trees_mean_error: float | None
    decode_mean_error: float | None
    decode_median_error: float | None
    drafting_median_error: float | None
    verdict_accuracy: float | None
    unclear_share: float | None
    regret_mean: float | None
    band80_coverage: float | None
    band80_width: float | None

    @property
    def figures(self) -> dict[str, float | None]:
        """The errors by name, without what they are of."""
        return {name: self.record[name] for name in self.record if name not in {"source", "trust"}}


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
    known = [s for s in points if s.kind == "speedup" and s.point.tokens_per_round is not None]
    costs: dict[str, RoundCosts] = {}
    for method, scores in sorted(grouped(known, lambda score: score.point.method or "").items()):
        tokens = np.array([score.point.tokens_per_round for score in scores])
        predicted = tokens / [score.predicted for score in scores]
        measured = tokens / [score.measured for score in scores]
        error = np.abs(predicted / measured - 1)
        means = (float(values.mean()) for values in (predicted, measured, error))
        costs[method] = RoundCosts(len(scores), *means)
    return costs


def errors_of(points: Sequence[Scored], source: str = "", trust: int | None = None) -> Errors:
    """Return the errors over some points, shapes levelled already.

    Parameters
    ----------
    points
        Of one source, or of all.
    source, trust
        What they are of.
    """

    def of(kind: str, *, trees: bool = False) -> list[float]:
        return [p.error for p in points if p.kind == kind and (p.point.branches or not trees)]

    speedups = [score for score in points if score.kind == "speedup"]
    banded = [score for score in speedups if score.band is not None]
    widths = [math.expm1(score.band or 0.0) for score in banded]
    return Errors(
        source=source,
        trust=trust,
        n=len(points),
        speedup_mean_error=mean(of("speedup")),
        speedup_median_error=_quantile(of("speedup"), 0.5),
        speedup_p90_error=_quantile(of("speedup"), 0.9),
        shape_mean_error=mean(of("shape")),
        # Of drafts that branch: speedups, else shapes.
        trees_mean_error=mean(of("speedup", trees=True) or of("shape", trees=True)),
        decode_mean_error=mean(of("plain")),
        decode_median_error=_quantile(of("plain"), 0.5),
        drafting_median_error=_quantile(of("drafting"), 0.5),
        verdict_accuracy=mean([score.verdict for score in speedups]),
        unclear_share=mean([score.predicted_verdict == UNCLEAR for score in speedups]),
        regret_mean=mean([regret.lost for regret in regrets(speedups)]),
        band80_coverage=mean([score.off <= (score.band or 0.0) for score in banded]),
        band80_width=_quantile(widths, 0.5),
    )


def mean(values: Sequence[float | bool | None]) -> float | None:
    """Return the mean; None of nothing."""
    return float(np.mean(np.array(values, dtype=np.float64))) if values else None


def _quantile(values: Sequence[float], share: float) -> float | None:
    return float(np.quantile(values, share)) if values else None
