"""A user's own benchmark beside what specroof predicts for it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from specroof.arrays import grouped
from specroof.drafters import Drafter
from specroof.engines import Residual, ideal_rates, predicted_tokens_per_s
from specroof.evidence import STEP, Measurement
from specroof.hardware.engine import Band
from specroof.latency.setup import Deployment
from specroof.scoring.bands import operating_point
from specroof.scoring.scores import Errors, Scored, errors_of, mean
from specroof.speedup.reach import evidence_engine

#: Prompts and answers of one load differ by so much between runs: samples, and special tokens.
_SAME_LENGTH = 0.01


@dataclass(frozen=True, slots=True)
class OwnPoint:
    """One result beside its prediction.

    Parameters
    ----------
    source
        The file that it stands in.
    rate
        Tokens per second of the whole batch, measured and predicted.
    scored
        What counts: the throughput without drafts; with them the speedup over the results without,
        or the throughput where there are none.
    """

    source: str
    rate: Residual
    scored: Scored


@dataclass(frozen=True, kw_only=True)
class OwnErrors(Errors):
    """The errors over some results.

    Parameters
    ----------
    tokens_per_s_mean_error
        Of throughput, with and without drafts; None over no results.
    """

    tokens_per_s_mean_error: float | None


@dataclass(frozen=True, slots=True)
class OwnValidation:
    """What predictions are worth for results of one's own.

    Parameters
    ----------
    points, ideal
        Every result beside what the profile predicts, and beside what the ideal roofline does.
    """

    points: tuple[OwnPoint, ...]
    ideal: tuple[OwnPoint, ...]

    @property
    def sources(self) -> dict[str, OwnErrors]:
        """The errors of each file."""
        files = grouped(self.points, lambda point: point.source)
        return {name: _errors(points, name) for name, points in files.items()}

    @property
    def total(self) -> OwnErrors:
        """The errors over all files."""
        return _errors(self.points, "total")

    @property
    def ideal_total(self) -> OwnErrors:
        """The errors of the ideal roofline over all files."""
        return _errors(self.ideal, "ideal roofline")


def own_validation(
    points: Sequence[Measurement], served: Deployment, drafter: Drafter | None
) -> OwnValidation:
    """Return predictions beside results, and speedups where a load was measured both ways.

    Parameters
    ----------
    points
        Of one model on one placement.
    served
        What was measured, and the engine that predicts it.
    drafter
        What made the drafts, where some points have any.

    Raises
    ------
    MeasurementError
        For what `specroof.engines.ideal_rates` refuses.

    Source
        See `specroof.engines.predicted_tokens_per_s`. A speedup is over the mean of all plain
        results of the same batch size and lengths.
    """
    ideal = ideal_rates(points, served, drafter)
    rates = predicted_tokens_per_s(points, served, drafter)
    arms = [_plain_arm(point, points) for point in points]
    measured = np.array([point.rate for point in points])
    band = evidence_engine(served).band("" if drafter is None else drafter.kind)

    def beside(predicted: np.ndarray, band: Band | None) -> Iterator[OwnPoint]:
        for point, rate, arm in zip(points, predicted.tolist(), arms, strict=True):
            kind = "plain" if not point.drafts else "speedup" if arm else "rate"
            bases = (predicted[arm].mean(), measured[arm].mean()) if arm else (1.0, 1.0)
            base, base_measured = map(float, bases)
            residual = Residual(point, rate)
            score = Scored(
                point,
                kind,
                residual.shown / base,
                # Of a timed pass its seconds, which have no arm without drafts.
                (point.pass_s or point.rate) / base_measured,
                # Draft lengths that were measured over the same plain results are options.
                options_of=(*arm, point.concurrency or point.batch_size),
                band=None if band is None else float(band.width_at(*operating_point(point))),
            )
            yield OwnPoint(point.source, residual, score)

    return OwnValidation(tuple(beside(rates, band)), tuple(beside(ideal, None)))


def _plain_arm(point: Measurement, points: Sequence[Measurement]) -> list[int]:
    """Return the rows without drafts that measured the load of a point with drafts.

    They are of one tool, of one batch size (as the benchmark set it) and of one workload.
    """

    def same_length(length: float | None, other: float | None) -> bool:
        if length is None or other is None:
            return length is other
        return abs(length / other - 1) <= _SAME_LENGTH

    if not point.drafts:
        return []
    return [
        row
        for row, other in enumerate(points)
        if not other.drafts
        and other.method != STEP
        and point.engine == other.engine
        and (point.concurrency or point.batch_size) == (other.concurrency or other.batch_size)
        and same_length(point.input_len, other.input_len)
        and same_length(point.output_len, other.output_len)
        and same_length(point.context_len, other.context_len)
    ]


def _errors(points: Sequence[OwnPoint], source: str) -> OwnErrors:
    errors = errors_of([point.scored for point in points], source)
    off = [abs(point.rate.off) for point in points]
    return OwnErrors(**vars(errors), tokens_per_s_mean_error=mean(off))
