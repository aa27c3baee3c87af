"""Bands of figures: how far off left-out predictions were.

Of speedups by engine and kind of drafter; of served loads by server, chips and concurrency.
"""

import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final

import numpy as np

from specroof.arrays import grouped
from specroof.engines.calibration import BAND_SHARE
from specroof.evidence import Measurement, base_model, drafter_of, request_lengths, shape_group
from specroof.hardware.engine import (
    ANY_CONCURRENCY,
    CONCURRENCY_ENDS,
    CONCURRENCY_RANGES,
    SERVED_FIGURES,
    Band,
    served_width,
)
from specroof.scoring.left_out import generic_family
from specroof.scoring.scores import Scored
from specroof.scoring.served import ServedScore, chip_family, range_name

#: A cell speaks for itself once so many sources have measured it; below, its neighbours join in.
LEAST_SOURCES: Final = 3
#: Points of a source that count in full; a longer table weighs as much as so many. Of families of
#: chips each weighs the same, as a strange chip is one more family: see `FAMILY_POINTS`.
FULL_POINTS: Final = 25.0
FAMILY_POINTS: Final = 1.0


@dataclass(frozen=True, slots=True)
class Miss:
    """How far a prediction was off.

    Parameters
    ----------
    source
        What the fit had not seen: who measured, or of a generic engine the family of chips.
    engine, drafter
        The serving software, and the kind of drafter.
    off
        Of the speedup, as a natural logarithm, without its sign.
    full_points
        Points of the source that count in full.
    batch_size, context_len
        Of the measurement, where its acceptance was known; None else, as a shape that is levelled
        over its batches says nothing about the largest alone.
    """

    source: str
    engine: str
    drafter: str
    off: float
    full_points: float = FULL_POINTS
    batch_size: float | None = None
    context_len: float | None = None


def width_scale(misses: Sequence[Miss]) -> float:
    """Return what widths are multiplied by so that bands hold `BAND_SHARE` of unseen measurements.

    A source whose own misses differ from the others' is held too often or too rarely by a band
    that these set. How often tells the sources themselves: each point is compared with the band
    that is set without its source.

    Parameters
    ----------
    misses
        As of `band_of`; 1 where they are all of one source.

    Source
        Vovk 2015, "Cross-conformal predictors" (Annals of Mathematics and Artificial Intelligence
        74), with a source for a fold.

    Examples
    --------
    >>> seen = [Miss(name, "vllm", "mtp", off) for name, off in zip("abcd", (1, 1, 1, 2))]
    >>> round(width_scale(seen), 2)  # 1 is 0.53 of a band of 1.9, and 2 is 2 of a band of 1
    1.12
    """
    shares = []
    for source, own in grouped(misses, lambda miss: miss.source).items():
        others = [miss for miss in misses if miss.source != source]
        for cell, members in grouped(own, lambda miss: (miss.engine, miss.drafter)).items():
            band = band_of(others, *cell)
            if band is not None and band.width > 0:
                shares += [miss.off / band.width for miss in members]
    return float(np.quantile(shares, BAND_SHARE)) if shares else 1.0


def band_of(
    misses: Sequence[Miss], engine: str, drafter: str, *, scale: float = 1.0
) -> Band | None:
    """Return the band that holds `BAND_SHARE` of speedups; None where there are no measurements.

    Parameters
    ----------
    misses
        Of profiles of one kind of chip. To score a source, leave its own out.
    engine, drafter
        The cell that is asked for: the narrowest that enough sources have measured, of engine and
        drafter, of the drafter, of all.
    scale
        What the width is multiplied by: see `width_scale`.

    Source
        Vovk et al. 2005, "Algorithmic Learning in a Random World" (conformal prediction), with
        sources in the place of exchangeable points: those of a source go together.

    Examples
    --------
    >>> seen = [Miss(name, "vllm", "mtp", 0.01 * n) for n in range(1, 6) for name in "abc"]
    >>> round(band_of(seen, "vllm", "mtp").width, 2)  # between the 12th and the 13th of 15
    0.04
    """
    alike = [miss for miss in misses if miss.drafter == drafter]
    near = [miss for miss in alike if miss.engine == engine]
    enough = (
        cell for cell in (near, alike) if len({miss.source for miss in cell}) >= LEAST_SOURCES
    )
    return _band(next(enough, misses), scale) if misses else None


def _band(cell: Sequence[Miss], scale: float) -> Band:
    """Return the band of a cell, and its mean error as a share."""
    shares = [np.expm1(miss.off) for miss in cell]
    counts = Counter(miss.engine for miss in cell)
    batches, contexts = (
        [value for miss in cell if (value := getattr(miss, name)) is not None]
        for name in ("batch_size", "context_len")
    )
    return Band(
        width=scale * miss_quantile(cell),
        mean_error=float(np.mean(shares)),
        points=len(cell),
        engines={name: counts[name] for name in sorted(counts) if name},
        batch_size=max(batches, default=None),
        context_len=max(contexts, default=None),
    )


def miss_quantile(misses: Sequence[Miss]) -> float:
    """Return the weighted quantile of misses: a source of many points weighs as much as some.

    Examples
    --------
    >>> miss_quantile([Miss(name, "vllm", "mtp", 0.1) for name in "abc"])
    0.1
    """
    sizes = Counter(miss.source for miss in misses)
    pairs = sorted((miss.off, min(1.0, miss.full_points / sizes[miss.source])) for miss in misses)
    off, weight = np.array(pairs).T
    middle = (np.cumsum(weight) - weight / 2) / weight.sum()
    return float(np.interp(BAND_SHARE, middle, off))


def operating_point(point: Measurement) -> tuple[float, float]:
    """Return the batch and the mean context of a measurement, as stated or presumed.

    Examples
    --------
    >>> operating_point(Measurement(place="mine", batch_size=8, input_len=1000, output_len=200))
    (8, 1100.0)
    """
    return point.batch_size or 1.0, request_lengths(point)[2]


# --- Bands of served loads: TPOT, TTFT and throughput ---------------------------------------------

#: So many models, or so many loads, speak for themselves; below, their neighbours join in.
_LEAST_MODELS: Final = 3
_LEAST_LOADS: Final = 25


def unseen_shares(scores: Iterable[ServedScore]) -> Iterator[tuple[Measurement, str, float]]:
    """Yield misses of loads without drafts, as shares of the band that other models set.

    Parameters
    ----------
    scores
        As of `served_bands_of`.
    """
    plain = [score for score in scores if not score.point.drafts]
    for model, own in grouped(plain, lambda score: base_model(score.point)).items():
        others = [score for score in plain if base_model(score.point) != model]
        bands = {
            place: served_bands_of(others, *place) for place in dict.fromkeys(map(_place, own))
        }
        for score in own:
            for figure, off in score.off.items():
                width = served_width(bands[_place(score)], figure, score.point.concurrency or 1)
                if width is not None and width > 0:
                    yield score.point, figure, abs(off) / float(width)


def served_bands_of(
    scores: Sequence[ServedScore],
    engine: str,
    family: str,
    *,
    scales: Mapping[str, float] = MappingProxyType({}),
) -> dict[str, dict[str, Band]]:
    """Return what a profile holds of served loads without drafts: bands by figure and concurrency.

    Parameters
    ----------
    scores
        Loads beside predictions by profiles that have not seen their model.
    engine, family
        The cells that are asked for: of server and family of chips where enough loads speak, else
        of the server, else of all, where each server and family weighs the same: a strange family
        is one more. A server on a family of which one model was measured does not stand in for
        others: without the model it has not been seen there. It does where no family is asked for.
        Of the same loads a range of concurrency that enough of them lie in has a band of its own;
        every other one has the widest. No band of a figure that too few speak for.
    scales
        What the widths of a figure are multiplied by, so that they hold unseen models.

    Source
        As `band_of`, with models in the place of sources.

    Examples
    --------
    >>> point = Measurement(place="mine", engine="vllm", hardware="h200", concurrency=8)
    >>> scores = [ServedScore(point, {"tpot_s": 0.1}, True)] * 25
    >>> {name: list(cells) for name, cells in served_bands_of(scores, "vllm", "hopper").items()}
    {'tpot_s': ['to-32', 'any']}
    """
    plain, here = [score for score in scores if not score.point.drafts], (engine, family)
    if family:
        pairs = {(_place(score), base_model(score.point)) for score in plain}
        models = Counter(place for place, _ in pairs)
        plain = [one for one in plain if _place(one) == here or models[_place(one)] > 1]
    bands: dict[str, dict[str, Band]] = {}
    for figure in SERVED_FIGURES:
        known = [score for score in plain if figure in score.off]
        own = [score for score in known if score.point.engine == engine]
        near = [score for score in known if _place(score) == here]
        widest = next(filter(_enough_loads, (near, own, known)), [])
        if not widest:
            continue
        ranges = grouped(widest, _range)
        cells = {name: ranges[name] for name in CONCURRENCY_RANGES if name in ranges}
        cells = {name: cell for name, cell in cells.items() if _enough_loads(cell)}
        made = {
            name: _band(
                _served_misses(cell, figure, borrowed=widest is not near), scales.get(figure, 1.0)
            )
            for name, cell in (cells | {ANY_CONCURRENCY: widest}).items()
        }
        most = max(band.width for band in made.values())
        bands[figure] = made | {ANY_CONCURRENCY: replace(made[ANY_CONCURRENCY], width=most)}
    return bands


def _range(score: ServedScore) -> str:
    return CONCURRENCY_RANGES[bisect_left(CONCURRENCY_ENDS, score.point.concurrency or 1)]


def _place(score: ServedScore) -> tuple[str, str]:
    """Return the server of a load, and the family of its chip."""
    return score.point.engine or "", chip_family(score.point)


def _enough_loads(cell: Sequence[ServedScore]) -> bool:
    models = {base_model(score.point) for score in cell}
    return len(models) >= _LEAST_MODELS or len(cell) >= _LEAST_LOADS


def _served_misses(scores: Iterable[ServedScore], figure: str, *, borrowed: bool) -> list[Miss]:
    """Return misses of loads by model; where loads of others stand in, by server and chips."""
    full_points = FAMILY_POINTS if borrowed else FULL_POINTS
    return [
        Miss(
            " ".join(_place(score)) if borrowed else base_model(score.point),
            score.point.engine or "",
            "",
            abs(score.off[figure]),
            full_points,
        )
        for score in scores
    ]


# --- How many measurements bands hold, by what they are of ---------------------------------------

#: Cells of fewer measurements say little: the binomial error of 20 is 9 points.
COUNTED_CELL: Final = 20
#: The longest mean context of each range; there is one more above.
CONTEXT_ENDS: Final = (1024, 4096)


@dataclass(frozen=True, slots=True)
class Coverage:
    """How many measurements of a cell lie in bands that have not seen them.

    Parameters
    ----------
    figure, family, engine, batch_size, context_len
        The cell: what is predicted, chips, server, and ranges of both.
    n
        Measurements.
    models
        Different models among them: misses of one model go together.
    inside
        The share that its bands hold.
    """

    figure: str
    family: str
    engine: str
    batch_size: str
    context_len: str
    n: int
    models: int
    inside: float


def band_coverage(points: Iterable[Scored], served: Sequence[ServedScore]) -> tuple[Coverage, ...]:
    """Return how many measurements lie in 80 % bands: figure, chips, server, batch and context.

    Parameters
    ----------
    points
        Speedups with bands that were set without their source, as of `banded`.
    served
        Loads beside predictions by profiles that have not seen their model. Their bands are set
        and scaled by the other models.

    Source
        As `width_scale`, with a model for a fold: the bands of other models, whose scale it is,
        have seen this one.
    """
    held = [
        ("speedup", score.point, score.off <= score.band)
        for score in points
        if score.kind == "speedup" and score.band is not None and score.is_trusted
    ]
    for figure, misses in grouped(unseen_shares(served), lambda miss: miss[1]).items():
        for model, own in grouped(misses, lambda miss: base_model(miss[0])).items():
            others = [share for point, _, share in misses if base_model(point) != model]
            scale = float(np.quantile(others, BAND_SHARE)) if others else 1.0
            held += [(figure, point, share <= scale) for point, _, share in own]

    def cell(miss: tuple[str, Measurement, bool]) -> tuple[str, str, str, int, int]:
        figure, point, _ = miss
        batch = point.concurrency or point.batch_size or 1
        context = (1 + point.shortest) / 2 * request_lengths(point)[2]
        ranges = bisect_left(CONCURRENCY_ENDS, batch), bisect_left(CONTEXT_ENDS, context)
        return (figure, chip_family(point), point.engine or "", *ranges)

    cells = sorted(grouped(held, cell).items())
    return tuple(
        Coverage(
            figure,
            family,
            engine,
            range_name(CONCURRENCY_ENDS, batch_range),
            range_name(CONTEXT_ENDS, context_range),
            n=len(members),
            models=len({base_model(point) for _, point, _ in members}),
            inside=float(np.mean([inside for *_, inside in members])),
        )
        for (figure, family, engine, batch_range, context_range), members in cells
    )


# --- Bands around predictions, each set without the source that it is scored on ------------------

#: What has a band: ratios, not seconds or rates.
_BANDED: Final = ("speedup", "shape")


def banded(
    points: Sequence[Scored],
    *,
    seen: Sequence[Scored] | None = None,
    by_family: bool = False,
    calibrated: bool = False,
) -> tuple[Scored, ...]:
    """Return the points with the bands that the other sources set.

    Parameters
    ----------
    points
        Beside predictions of one kind of profile, each made without its source; shapes levelled.
    seen
        The predictions that set the bands, where those are another kind's: `points` if None.
    by_family
        Whether predictions were made without the family of the chip, as of the generic engine.
        Then the other families set the band, each as much as any other.
    calibrated
        Whether bands are as wide as the other sources say that they have to be: see
        `width_scale`.
    """
    misses = misses_of(points if seen is None else seen, by_family=by_family)
    others = {
        unit: [miss for miss in misses if miss.source != unit]
        for unit in dict.fromkeys(_unit(score, by_family) for score in points)
    }
    scales = {unit: width_scale(rest) if calibrated else 1.0 for unit, rest in others.items()}
    scored = []
    for score in points:
        if score.kind in _BANDED:
            unit, engine = _unit(score, by_family), score.point.engine or ""
            band = band_of(others[unit], engine, _drafter(score), scale=scales[unit])
            width = None if band is None else float(band.width_at(*operating_point(score.point)))
            scored.append(replace(score, band=width))
        else:
            scored.append(score)
    return tuple(scored)


def misses_of(points: Iterable[Scored], *, by_family: bool = False) -> list[Miss]:
    r"""Return how far off predictions with drafts are, of sources that count in bands.

    The factor that is free in a group of n shapes makes their misses smaller; as of any n with
    their mean taken out, they count :math:`\sqrt{n / (n - 1)}` times.

    Parameters
    ----------
    points, by_family
        As of `banded`.
    """
    counted = [score for score in points if score.kind in _BANDED and score.widens_bands]
    sizes = Counter(shape_group(score.point) for score in counted if score.kind == "shape")

    def correction(score: Scored) -> float:
        n = sizes[shape_group(score.point)] if score.kind == "shape" else 0
        return math.sqrt(n / (n - 1)) if n > 1 else 1.0

    return [
        Miss(
            _unit(score, by_family),
            score.point.engine or "",
            _drafter(score),
            score.off * correction(score),
            FAMILY_POINTS if by_family else FULL_POINTS,
            *(operating_point(score.point) if score.kind == "speedup" else ()),
        )
        for score in counted
    ]


def _unit(score: Scored, by_family: bool) -> str:
    """Return what bands are set without."""
    return generic_family(score.point.hardware or "") if by_family else score.source


def _drafter(score: Scored) -> str:
    """Return the kind of drafter that a method stands for."""
    return drafter_of(score.point).kind
