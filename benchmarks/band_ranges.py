"""Measure what bands of speedups need beyond the largest measured batch and context.

Of every range, points at twice its end and beyond are compared with the band that points within it
set: nearer, the noise of single points would count for more than the distance. What 80 % of them
need is `BATCH_WIDENING` and `CONTEXT_WIDENING` of ``specroof/hardware/engine.py``, in natural
logarithms for each e-fold. Fits have not seen the source, or the model, of a point; they have seen
its range.

Loads of prefill and decode workers are compared with the band of a server that does both. What 80 %
of those with drafts need besides is ``split`` in `UNMEASURED`; workers are left out in turn.

Measurements of each kind of drafter are compared with the band that the other kinds and sources
set: what 80 % of a kind need besides is `UNMEASURED_KIND` at most.

    python benchmarks/band_ranges.py
"""

import math
from collections import defaultdict
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter

import numpy as np

from specroof.arrays import grouped
from specroof.evidence import request_lengths, shape_group
from specroof.evidence.measurement import chip_of
from specroof.scoring import validation
from specroof.scoring.bands import Miss, band_of, miss_quantile, misses_of
from specroof.scoring.left_out import served_of
from specroof.scoring.long_contexts import long_context_scores
from specroof.scoring.served import TPOT_RATIO, served_validation
from specroof.scoring.splits import ACCEPTANCE, split_scores
from specroof.speedup.reach import evidence_engine

#: What loads have in common that the same workers serve.
WORKERS = attrgetter(
    *("source", "hardware", "engine", "engine_version", "prefill_workers", "decode_workers"),
    *("prefill_tensor_parallel", "tensor_parallel", "attention_data_parallel"),
)
#: From so many times the end of a range on, points are beyond it.
_LEAST = 2.0


@dataclass(frozen=True)
class Point:
    """How far off a prediction was, where; points of a `group` share an unknown factor, if any."""

    unit: str
    off: float
    batch_size: float
    context_len: float
    group: Hashable = None


def published() -> Iterator[Point]:
    """Yield speedups and shapes, each predicted by a fit without its source."""
    for score in validation().points:
        if score.kind in {"speedup", "shape"} and score.widens_bands:
            yield Point(
                score.source,
                math.log(score.predicted / score.measured),
                score.point.batch_size or 1,
                request_lengths(score.point)[2],
                None if score.kind == "speedup" else shape_group(score.point),
            )


def served() -> Iterator[Point]:
    """Yield ratios of drafted to plain TPOT, and rounds over long contexts."""
    for score in served_validation().counted:
        if TPOT_RATIO in score.off:
            point = score.point
            unit = f"{point.source} {point.model} {point.engine} {point.hardware}"
            group = (unit, point.quantization, point.tensor_parallel, point.method, point.draft_len)
            prompt, answer, _ = request_lengths(point)
            context = (1 + point.shortest) / 2 * (prompt + answer / 2)
            known = point.tokens_per_round is not None
            yield Point(
                unit,
                score.off[TPOT_RATIO],
                point.concurrency or 1,
                context,
                None if known else group,
            )
    for row in long_context_scores():
        if row.row.quantity == "round_over_step":
            off = math.log(row.predicted / row.row.measured)
            yield Point(row.row.source, off, row.row.batch_size, row.row.context_len)


def levelled(within: Sequence[Point], beyond: Sequence[Point]) -> tuple[list[Point], list[Point]]:
    """Return points without the factor of their group, which those within the range tell."""
    groups: dict[Hashable, list[float]] = defaultdict(list)
    for point in within:
        groups[point.group].append(point.off)
    levels = {group: float(np.mean(offs)) for group, offs in groups.items() if len(offs) > 1}
    spread = {group: math.sqrt(len(offs) / max(len(offs) - 1, 1)) for group, offs in groups.items()}
    levels[None], spread[None] = 0.0, 1.0
    return (
        [
            replace(point, off=(point.off - levels[point.group]) * spread[point.group])
            for point in within
            if point.group in levels
        ],
        [
            replace(point, off=point.off - levels[point.group])
            for point in beyond
            if point.group in levels
        ],
    )


def needs(points: Sequence[Point], axis: str) -> Iterator[Miss]:
    """Yield how steeply a band has to widen for each point beyond each range."""
    if axis == "batch_size":  # shapes over batches of one context
        points = [
            replace(point, group=None if point.group is None else (point.group, point.context_len))
            for point in points
        ]
    for end in sorted({getattr(point, axis) for point in points})[:-1]:
        within, beyond = levelled(
            [point for point in points if getattr(point, axis) <= end],
            [point for point in points if getattr(point, axis) >= _LEAST * end],
        )
        if within:
            width = miss_quantile([Miss(one.unit, "", "", abs(one.off)) for one in within])
            for point in beyond:
                extra = math.sqrt(max(point.off**2 - width**2, 0.0))
                yield Miss(point.unit, "", "", extra / math.log(getattr(point, axis) / end))


def workers() -> Iterator[Miss]:
    """Yield the half-width that a band needs besides for each drafted load of split workers.

    Loads that share an acceptance length tell it, and are compared in shape.
    """
    scores = [score for score in split_scores() if score.point.drafts]
    for group in {ACCEPTANCE(score.point) for score in scores}:
        alike = [score for score in scores if ACCEPTANCE(score.point) == group]
        level = float(np.mean([score.off for score in alike]))
        for score in alike if len(alike) > 1 else ():
            point = score.point
            engine = chip_of(point.hardware or "").engine(point.engine)
            band = evidence_engine(served_of(point, engine)).band(point.method or "")
            off = (score.off - level) * math.sqrt(len(alike) / (len(alike) - 1))
            extra = math.sqrt(max(off**2 - (band.width if band else 0.0) ** 2, 0.0))
            yield Miss(" ".join(map(str, WORKERS(point))), point.engine or "", "mtp", extra)


def kinds() -> Iterator[tuple[str, int, float]]:
    """Yield kinds of drafters, how many measurements each has, and what 80 % of them need."""
    misses = misses_of(validation().points)
    for kind, own in grouped(misses, lambda miss: miss.drafter).items():
        extra = []
        for source, mine in grouped(own, lambda miss: miss.source).items():
            others = [miss for miss in misses if kind != miss.drafter and source != miss.source]
            band = band_of(others, "", kind)
            width = 0.0 if band is None else band.width
            extra += [
                replace(miss, off=math.sqrt(max(miss.off**2 - width**2, 0.0))) for miss in mine
            ]
        yield kind, len(own), miss_quantile(extra)


def main() -> None:
    """Print both slopes, what workers and kinds need, and what they are measured with."""
    pools = [*published()], [*served()]
    for axis in ("batch_size", "context_len"):
        found = [miss for pool in pools for miss in needs(pool, axis)]
        units = {miss.source for miss in found}
        print(
            f"{axis}: {miss_quantile(found):.3g} an e-fold, {len(found)} pairs, {len(units)} groups"
        )
        for name, pool in zip(("published speedups", "served loads"), pools, strict=True):
            own = [*needs(pool, axis)]
            sources = len({miss.source for miss in own})
            print(f"  {name}: {miss_quantile(own):.3g}, {len(own)} pairs, {sources} groups")
    split = [*workers()]
    units = {miss.source for miss in split}
    held = [
        miss.off <= miss_quantile([other for other in split if other.source != unit])
        for unit in units
        for miss in split
        if miss.source == unit
    ]
    print(
        f"split: {miss_quantile(split):.3g} besides, {len(split)} loads of {len(units)} workers; "
        f"those of others hold {np.mean(held):.0%}"
    )
    for kind, points, need in kinds():
        print(f"kind {kind}: {need:.3g} besides, {points} measurements")


if __name__ == "__main__":
    main()
