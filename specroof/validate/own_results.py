"""A user's own benchmark beside what specroof predicts for it."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from specroof.architecture import Architecture
from specroof.drafters import Drafter
from specroof.engines import Residual, ideal_rates, predicted_tokens_per_s
from specroof.evidence import BenchmarkPoint
from specroof.evidence.bundled import Measurement
from specroof.latency import Setup
from specroof.validate.scores import Errors, Scored, errors_of

__all__ = ["OwnErrors", "OwnPoint", "OwnValidation", "own_validation"]

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


@dataclass(frozen=True, slots=True)
class OwnErrors:
    """The errors over some results.

    Parameters
    ----------
    scored
        Of speedups and of plain throughput.
    rate_mean
        Mean error of throughput, with and without drafts; None over no results.
    """

    scored: Errors
    rate_mean: float | None


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
        names = dict.fromkeys(one.source for one in self.points)
        return {name: _errors([one for one in self.points if one.source == name]) for name in names}

    @property
    def total(self) -> OwnErrors:
        """The errors over all files."""
        return _errors(self.points)

    @property
    def ideal_total(self) -> OwnErrors:
        """The errors of the ideal roofline over all files."""
        return _errors(self.ideal)


def own_validation(
    points: Sequence[BenchmarkPoint],
    sources: Sequence[str],
    model: Architecture,
    setup: Setup,
    drafter: Drafter | None = None,
) -> OwnValidation:
    """Return predictions beside results, and speedups where a load was measured both ways.

    Parameters
    ----------
    points
        Of one model on one placement.
    sources
        The file of each point.
    model, setup
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
    ideal = ideal_rates(points, model, setup, drafter)
    rates = predicted_tokens_per_s(points, model, setup, drafter)
    arms = [_plain_arm(point, points) for point in points]
    measured = np.array([point.tokens_per_s for point in points])

    def beside(predicted: np.ndarray, engine: str) -> tuple[OwnPoint, ...]:
        found = []
        for row, (point, source, arm) in enumerate(zip(points, sources, arms, strict=True)):
            record = _record(point, source, (model.name, setup, engine), arm)
            base = (1.0, 1.0)
            if arm:
                base = (float(predicted[arm].mean()), float(measured[arm].mean()))
            kind = "plain" if not point.draft_len else "speedup" if arm else "rate"
            rate = float(predicted[row])
            scored = Scored(record, kind, rate / base[0], point.tokens_per_s / base[1])
            found.append(OwnPoint(source, Residual(point, rate), scored))
        return tuple(found)

    return OwnValidation(beside(rates, setup.engine.name), beside(ideal, "ideal"))


def _plain_arm(point: BenchmarkPoint, points: Sequence[BenchmarkPoint]) -> list[int]:
    """Return where the results without drafts are of the load of a point with drafts."""
    if not point.draft_len:
        return []
    return [
        row for row, other in enumerate(points) if not other.draft_len and _same_load(point, other)
    ]


def _same_load(one: BenchmarkPoint, other: BenchmarkPoint) -> bool:
    """Tell whether two results are of one tool, one batch size (as asked for) and one workload."""
    if one.tool != other.tool:
        return False
    if (one.concurrency or one.batch_size) != (other.concurrency or other.batch_size):
        return False
    lengths = (
        (one.input_len, other.input_len),
        (one.output_len, other.output_len),
        (one.context_len, other.context_len),
    )
    return all(_same_length(*pair) for pair in lengths)


def _same_length(one: float | None, other: float | None) -> bool:
    if one is None or other is None:
        return one is other
    return abs(one / other - 1) <= _SAME_LENGTH


def _record(
    point: BenchmarkPoint, source: str, where: tuple[str, Setup, str], arm: Sequence[int]
) -> Measurement:
    """Return a result in the form in which published ones are scored.

    Draft lengths that were measured over the same plain results are options of one set-up.
    """
    model, setup, engine = where
    return Measurement(
        source=source,
        model=model,
        hardware=setup.hardware.name,
        engine=engine,
        tensor_parallel=setup.placement.tensor_parallel,
        method="drafts" if point.draft_len else "ar",
        draft_len=point.draft_len,
        verify_len=point.draft_len + 1,
        batch_size=point.concurrency or point.batch_size,
        context_len=point.context_len,
        input_len=point.input_len,
        output_len=point.output_len,
        acceptance_length=point.tokens_per_round,
        acceptance_kind="pooled",
        tokens_per_s=point.tokens_per_s,
        baseline_tokens_per_s=None,
        speedup=None,
        includes_prefill=point.input_len is not None,
        trust=1,
        task=f"beside {arm}",
    )


def _errors(points: Sequence[OwnPoint]) -> OwnErrors:
    off = [abs(one.rate.off) for one in points]
    return OwnErrors(
        errors_of([one.scored for one in points]), float(np.mean(off)) if off else None
    )
