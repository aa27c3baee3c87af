"""What a sweep will take, from a small part of it."""

import io
import time
from dataclasses import dataclass
from typing import Final

import numpy as np

from specroof.questions.sweep import Study, study_slices
from specroof.report.columns import n_rows, point_columns
from specroof.sweeps.formats import best_format, table_writer
from specroof.sweeps.partition import file_metadata
from specroof.sweeps.plan import Partition, Plan, plan_of

__all__ = ["Estimate", "estimate", "extrapolated"]

#: Partitions that are tried, and points of each, few and many: the cost of a file is told apart
#: from the cost of its points.
_TRIED: Final = 6
_TRIED_POINTS: Final = (1 << 12, 1 << 15)


@dataclass(frozen=True, slots=True)
class Estimate:
    """What a sweep will take.

    Parameters
    ----------
    form
        The format of the files.
    points, partitions
        Counted.
    seconds, size_bytes
        Expected of one process on this machine, and on disk.
    """

    form: str
    points: int
    partitions: int
    seconds: float
    size_bytes: float


def estimate(study: Study, form: str | None) -> Estimate:
    """Return what a sweep will take: some partitions are tried, a part of each, in memory.

    Parameters
    ----------
    study
        What is asked.
    form
        As for `write_sweep`.
    """
    plan, chosen = plan_of(study), best_format(form)
    step = -(-len(plan.partitions) // _TRIED)
    tried = plan.partitions[::step]
    _of_some_points(plan, tried[0], chosen, _TRIED_POINTS[0])  # imports libraries, and reads files
    few, many = (
        np.sum([_of_some_points(plan, one, chosen, most) for one in tried], axis=0)
        for most in _TRIED_POINTS
    )
    share = len(plan.partitions) / len(tried)
    seconds, size_bytes = (
        extrapolated((few[0], few[of]), (many[0], many[of]), plan.points / share) * share
        for of in (1, 2)
    )
    return Estimate(chosen, plan.points, len(plan.partitions), seconds, size_bytes)


def _of_some_points(
    plan: Plan, partition: Partition, form: str, most: int
) -> tuple[int, float, int]:
    """Return points, seconds and bytes of the first part of a partition."""
    begun = time.perf_counter()
    file = io.BytesIO()
    with table_writer(form, file, file_metadata(plan)) as write:
        part = next(study_slices(plan.study, partition.target, partition.drafter, most=most))
        whole = next(iter(part.prediction.counted), None)
        columns = point_columns(part.prediction.curves[0], whole)
        write({"target": part.target} | columns)
    return n_rows(columns), time.perf_counter() - begun, file.tell()


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
    each = max(many[1] - few[1], 0.0) / more if more else many[1] / many[0]
    return float(many[1] + each * (points - many[0]))
