"""One partition: computed, and written whole or not at all."""

import hashlib
import json
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any, Final, TypeGuard

from specroof.questions.overview import Overview, overviews
from specroof.questions.sweep import Slice, Study, lacking_room, study_slices
from specroof.report.columns import load_columns, point_columns
from specroof.sweeps.formats import table_writer
from specroof.sweeps.places import Place
from specroof.sweeps.plan import Partition, Plan

#: Folders: of files with points, and of what is kept until the study is done.
POINTS: Final = "points"
UNFINISHED: Final = ".unfinished"
#: Notes that are kept of a partition.
_MOST_NOTES: Final = 20

#: The keys of a record, and what they hold.
_KINDS: Final[dict[str, type]] = {
    "name": str,
    "target": int,
    "drafter": int,
    "points": int,
    "loads_without_room": int,
    "bytes": int,
    "summary_sha256": str,
    "notes": list,
    "overviews": list,
}

#: Told how many points are done, each time some are.
Advance = Callable[[int], object]


def file_metadata(plan: Plan) -> dict[str, str]:
    """Return what every file says of itself."""
    return {
        "specroof_version": plan.described["specroof"],
        "specroof_study_sha256": plan.study_sha256,
        "specroof_study": plan.study.text,
    }


def finished(place: Place, partition: Partition, form: str) -> dict[str, Any] | None:
    """Return the record of a partition whose files are there; None of one that is to be done."""
    content = place.read(f"{UNFINISHED}/{partition.name}.json")
    try:
        record = json.loads(content or b"")
    except (ValueError, RecursionError):  # cut short, or no text
        return None
    if not is_record(record, partition):
        return None
    summary = place.read(f"{UNFINISHED}/{partition.name}.{form}")
    points = place.size(f"{POINTS}/{partition.name}.{form}")
    return (
        record if (points, _sum(summary)) == (record["bytes"], record["summary_sha256"]) else None
    )


def is_record(record: Any, partition: Partition) -> TypeGuard[dict[str, Any]]:
    """Tell the record of a partition from anything else that a damaged file may hold."""
    if not has_kinds(record) or not _named(partition).items() <= record.items():
        return False
    try:
        overviews_read = [Overview.from_dict(content) for content in record["overviews"]]
    except ValueError:
        return False
    return len(overviews_read) > 0


def has_kinds(record: Any) -> TypeGuard[dict[str, Any]]:
    """Tell whether a value has the keys of a record, each of its kind; overviews are not read."""
    return (
        isinstance(record, dict)
        and record.keys() == _KINDS.keys()
        and all(type(record[key]) is kind for key, kind in _KINDS.items())
        and record["name"].isdecimal()  # no way out of the folder
        and min(record["bytes"], record["loads_without_room"]) >= 0
        and all(isinstance(note, str) for note in record["notes"])
    )


def _sum(content: bytes | None) -> str:
    return hashlib.sha256(content or b"").hexdigest()


def _slices(study: Study, partition: Partition, most: int | None) -> Iterator[Slice]:
    """Return the slices of a partition, or a first one of about so many points."""
    whole_of = (study, partition.target, partition.drafter)
    return (
        study_slices(*whole_of) if most is None else islice(study_slices(*whole_of, most=most), 1)
    )


def write_partition(
    plan: Plan,
    partition: Partition,
    place: Place,
    form: str,
    advance: Advance,
    most: int | None = None,
) -> dict[str, Any]:
    """Write the points of one drafter on one target, then its record, and return the record.

    Until the record is there, nothing of the partition counts; another run does all of it again,
    and writes the same bytes.

    Parameters
    ----------
    plan, partition
        What is asked.
    place, form
        Where, in which format.
    advance
        Told of points that are done.
    most
        Write about so many points and no more, to learn what they take; None for all.
    """
    said: dict[str, None] = {}
    lacking = 0
    name, metadata = partition.name, file_metadata(plan)
    points = f"{POINTS}/{name}.{form}"

    with (
        place.open(points) as file,
        table_writer(form, file, metadata) as write,
        place.open(f"{UNFINISHED}/{name}.{form}") as summary_file,
        table_writer(form, summary_file, metadata) as write_load,
    ):

        def written() -> Iterator[Slice]:
            nonlocal lacking
            for part in _slices(plan.study, partition, most):
                found = part.prediction
                said.update(dict.fromkeys(found.notes[: _MOST_NOTES - len(said)]))
                lacking += lacking_room(found.curves[0])
                numbers = {"target": part.target}
                counted = found.counted or [None] * len(found.curves)
                for curve, whole in zip(found.curves, counted, strict=True):
                    write(numbers | point_columns(curve, whole))
                write_load(numbers | load_columns(found))
                yield part
                advance(found.curves[0].round_s.size)

        shown = overviews(plan.study.loads, written())
    record = _named(partition) | {
        "loads_without_room": lacking,
        "bytes": place.size(points),
        "summary_sha256": _sum(place.read(f"{UNFINISHED}/{name}.{form}")),
        "notes": list(said),
        "overviews": [one.to_dict() for one in shown],
    }
    with place.open(f"{UNFINISHED}/{name}.json") as file:
        file.write(json.dumps(record, allow_nan=False).encode())
    return record


def _named(partition: Partition) -> dict[str, Any]:
    """Return how a record names its partition."""
    return {
        "name": partition.name,
        "target": partition.target,
        "drafter": partition.drafter,
        "points": partition.points,
    }
