"""Errors over many points: of speedups, verdicts, choices and plain steps; costs of rounds."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from specroof.arrays import Array
from specroof.speedup.bands import UNCLEAR
from specroof.validate.regret import regrets
from specroof.validate.scored import Scored


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
    drafting_median
        Of drafting alone, its seconds or its share of a round.
    trees_mean
        Of drafts that branch: speedups, and shapes where no tree has a known acceptance length.
    verdict_accuracy
        Share of speedups whose verdict is right: see `Scored.verdict`.
    unclear_share
        Share of speedups whose prediction says unclear.
    regret_mean
        Throughput lost by taking what is predicted best of a set-up, no drafts being an option: see
        `specroof.validate.regret`.
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
    drafting_median: float | None
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


def errors_of(points: Sequence[Scored]) -> Errors:
    """Return the errors over some points, shapes levelled already.

    Parameters
    ----------
    points
        Of one source, or of all.
    """
    of = {
        kind: np.array([one.error for one in points if one.kind == kind])
        for kind in ("speedup", "plain", "shape", "drafting")
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
        drafting_median=_quantile(of["drafting"], 0.5),
        trees_mean=_mean(_of_trees(points)),
        verdict_accuracy=_mean(np.array([one.verdict for one in speedups], dtype=float)),
        unclear_share=_mean(np.array([one.said == UNCLEAR for one in speedups], dtype=float)),
        regret_mean=_mean(np.array([one.lost for one in regrets(speedups)])),
        band80_coverage=_mean(np.array(held, dtype=float)),
        band80_width=_quantile(np.expm1(np.array(bands)), 0.5),
    )


def _of_trees(points: Iterable[Scored]) -> Array:
    """Return the errors of drafts that branch: of speedups, else of shapes."""
    trees = [one for one in points if one.is_tree]
    known = [one.error for one in trees if one.kind == "speedup"]
    return np.array(known or [one.error for one in trees if one.kind == "shape"])


def _mean(values: Array) -> float | None:
    return float(np.mean(values)) if values.size else None


def _quantile(values: Array, share: float) -> float | None:
    return float(np.quantile(values, share)) if values.size else None
