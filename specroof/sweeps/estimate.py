"""What a sweep will take, from a small part of it."""

import io
import time
from dataclasses import dataclass
from typing import Final

from specroof.questions.sweep import Study, study_slices
from specroof.report.columns import n_rows, point_columns
from specroof.sweeps.formats import best_format, table_writer
from specroof.sweeps.partition import file_metadata
from specroof.sweeps.plan import plan_of

__all__ = ["Estimate", "estimate"]

#: Partitions that are tried, and points of each.
_TRIED: Final = 6
_TRIED_POINTS: Final = 1 << 15


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
    seconds = size = tried = 0.0
    for partition in plan.partitions[::step]:
        begun = time.perf_counter()
        file = io.BytesIO()
        with table_writer(chosen, file, file_metadata(plan)) as write:
            slices = study_slices(
                plan.study, partition.target, partition.drafter, most=_TRIED_POINTS
            )
            part = next(slices)
            whole = next(iter(part.prediction.counted), None)
            columns = point_columns(part.prediction.curves[0], whole)
            write({"target": part.target} | columns)
            tried += n_rows(columns)
        seconds += time.perf_counter() - begun
        size += file.tell()
    share = plan.points / tried
    return Estimate(chosen, plan.points, len(plan.partitions), seconds * share, size * share)
