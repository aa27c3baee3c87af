"""What a sweep will take, from a small part of it."""

import time
from dataclasses import dataclass
from tempfile import TemporaryDirectory
from typing import Final

import numpy as np

from specroof.questions.sweep import Study
from specroof.sweeps.formats import best_format
from specroof.sweeps.partition import POINTS, UNFINISHED, write_partition
from specroof.sweeps.places import Place, place_of
from specroof.sweeps.plan import Partition, Plan, plan_of

#: Partitions that are tried, and points of each, few and many: the cost of a file is told apart
#: from the cost of its points.
_TRIED: Final = 8
_TRIED_POINTS: Final = (1 << 14, 1 << 17)
#: How far off a clock is that met other work, or a disk with a queue.
_CLOCK_OFF: Final = 0.3


@dataclass(frozen=True, slots=True)
class Estimate:
    """What a sweep will take.

    Parameters
    ----------
    form
        The format of the files.
    points, partitions
        Counted.
    seconds
        Expected of one process on this machine.
    seconds_off
        By what share of them they may be off: two standard errors of what the partitions that were
        tried take, and what clocks are off by on a machine with other work.
    size_bytes
        Expected of the points on disk.
    """

    form: str
    points: int
    partitions: int
    seconds: float
    seconds_off: float
    size_bytes: float


def estimate(study: Study, form: str | None) -> Estimate:
    """Return what a sweep will take: some partitions are tried, a part of each.

    They are written into a temporary folder, which goes.

    Parameters
    ----------
    study
        What is asked.
    form
        As for `write_sweep`.
    """
    plan, chosen = plan_of(study), best_format(form)
    tried = _spread(plan)
    with TemporaryDirectory() as folder:
        place = place_of(folder)
        place.prepare(POINTS, UNFINISHED)
        _trial(plan, tried[0], place, chosen, _TRIED_POINTS[0])  # imports libraries, reads files
        few, many = (
            [_trial(plan, one, place, chosen, most) for one in tried] for most in _TRIED_POINTS
        )
    seconds, sizes = (
        np.array(
            [
                extrapolated((less[0], less[of]), (more[0], more[of]), one.points)
                for less, more, one in zip(few, many, tried, strict=True)
            ]
        )
        for of in (1, 2)
    )
    share = len(plan.partitions) / len(tried)
    spread = 2 * float(seconds.std() / seconds.mean()) / len(tried) ** 0.5 if share > 1 else 0.0
    return Estimate(
        form=chosen,
        points=plan.points,
        partitions=len(plan.partitions),
        seconds=float(seconds.sum()) * share,
        seconds_off=float(np.hypot(_CLOCK_OFF, spread)),
        size_bytes=float(sizes.sum()) * share,
    )


def _spread(plan: Plan) -> list[Partition]:
    """Return some partitions: of targets here and there, of one drafter after another."""
    drafters = len(plan.study.drafters)
    count = min(drafters * -(-_TRIED // drafters), 2 * _TRIED)
    targets = np.linspace(0, len(plan.study.targets) - 1, count).round().astype(int).tolist()
    apart = max(drafters // count, 1)
    chosen = dict.fromkeys(
        target * drafters + k * apart % drafters for k, target in enumerate(targets)
    )
    return [plan.partitions[place] for place in chosen]


def _trial(
    plan: Plan, partition: Partition, place: Place, form: str, most: int
) -> tuple[int, float, int]:
    """Return points, seconds and bytes of the first part of a partition."""
    done: list[int] = []
    begun = time.perf_counter()
    record = write_partition(plan, partition, place, form, done.append, most)
    return sum(done), time.perf_counter() - begun, int(record["bytes"])


def extrapolated(few: tuple[float, float], many: tuple[float, float], points: float) -> float:
    """Return what so many points take, from what few take and what many take.

    Each of the two is how many points there were, and what they took; what does not grow with
    them is taken once. Where all points were tried, nothing is extrapolated.

    Examples
    --------
    >>> extrapolated((10, 3.0), (20, 4.0), 100), extrapolated((10, 3.0), (10, 2.0), 10)
    (12.0, 2.0)
    """
    more = many[0] - few[0]
    # Many that took less than few have met a machine with other work.
    each = max(many[1] - few[1], 0.0) / more if more else 0.0
    return float(many[1] + each * (points - many[0]))
