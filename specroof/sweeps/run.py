"""Studies to files: what is done is kept, what is left goes on, by one process or by many."""

import contextlib
import json
import os
from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from specroof.arrays import whole_within
from specroof.errors import OptionError, OutputError
from specroof.questions.overview import Overview
from specroof.questions.sweep import StudyLike, study_of
from specroof.sweeps.formats import FORMATS, best_format, joined
from specroof.sweeps.partition import (
    POINTS,
    UNFINISHED,
    Advance,
    file_metadata,
    finished,
    is_record,
    write_partition,
)
from specroof.sweeps.places import Place, place_of
from specroof.sweeps.plan import Partition, Plan, changes, plan_of
from specroof.units import Bounds

#: Processes of a machine; more than there are files are not started.
WORKERS: Final = Bounds(1, 4096, whole=True)

#: What says which study a folder holds, and whether it is done.
MANIFEST: Final = "manifest.json"

#: Keys that every manifest has, and what they hold.
_MANIFEST_KINDS: Final[dict[str, type]] = {
    "done": bool,
    "format": str,
    "points": int,
    "study": dict,
    "partitions": list,
}

#: The folder of charts.
CHARTS: Final = "charts"

_Records = dict[int, dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Run:
    """What a folder holds of a study.

    Parameters
    ----------
    folder, form
        Where, in which format.
    plan
        All of the study.
    records
        What is done, by the number of the partition.
    """

    folder: str
    form: str
    plan: Plan
    records: _Records

    @property
    def done(self) -> bool:
        """Whether nothing is left to be done."""
        return len(self.records) == len(self.plan.partitions)

    @property
    def overviews(self) -> list[Overview]:
        """The best of each curve at some of its loads."""
        return [
            Overview.from_dict(one)
            for _, record in sorted(self.records.items())
            for one in record["overviews"]
        ]

    @property
    def without_room(self) -> int:
        """Loads at which nothing runs."""
        return sum(record["loads_without_room"] for record in self.records.values())

    @property
    def notes(self) -> list[str]:
        """Sentences for the reader."""
        told = (note for _, record in sorted(self.records.items()) for note in record["notes"])
        return list(dict.fromkeys(told))

    def write_charts(self, charts: Mapping[str, bytes]) -> None:
        """Write charts into a separate folder, by the names of their files."""
        place = place_of(self.folder)
        place.prepare(CHARTS)
        for name, content in charts.items():
            with place.open(f"{CHARTS}/{name}") as file:
                file.write(content)


def write_sweep(  # noqa: PLR0913 - how, besides what and where
    study: StudyLike,
    folder: str | os.PathLike[str],
    *,
    form: str | None = None,
    workers: int = 1,
    on: str | None = None,
    advance: Advance = lambda _: None,
    stop: Callable[[], bool] = lambda: False,
) -> Run:
    """Write a study into a folder, or go on with it where the folder holds a part of it.

    Parameters
    ----------
    study
        A study file, the name of a bundled study, a mapping with the keys of a study file, or a
        `Study`.
    folder
        A path, or a URL that fsspec reaches.
    form
        ``"parquet"``, ``"csv"`` or ``"jsonl"``; if None what the folder holds, Parquet where
        pyarrow is installed, else CSV.
    workers
        Processes on this machine.
    on
        A cluster of dask that exists, ``dask://HOST:PORT``, in the place of processes here.
    advance
        Told how many points are done, each time some are.
    stop
        Asked after each file; True ends the run there.

    Raises
    ------
    OptionError, OutputError
        For a folder that holds another study or cannot be written, and one in which another sweep
        writes; for arguments of other kinds.
    """
    workers = whole_within("workers", workers, WORKERS)
    place = place_of(folder)
    plan = plan_of(study_of(study))
    place.prepare()
    with place.lock():
        before = _manifest(place)
        chosen = best_format(form if form or before is None else before["format"])
        _check_same(place, plan, before, chosen)
        if before is not None and before["done"] and _is_whole(place, plan, before):
            place.remove(UNFINISHED)
            records = dict(enumerate(before["partitions"], start=1))
            advance(plan.points)
            return Run(place.url, chosen, plan, records)
        _write_manifest(place, plan, chosen, {})
        place.prepare(POINTS, UNFINISHED)
        run = Run(place.url, chosen, plan, {})
        _compute(run, place, workers, on, advance, stop)
        if run.done:
            _finish(place, run)
        return run


def _manifest(place: Place) -> dict[str, Any] | None:
    """Return what a folder says of itself; None of one that has no manifest."""
    content = place.read(MANIFEST)
    if content is None:
        return None
    found = parse_manifest(content)
    if found is None:
        message = f"{place.url}/{MANIFEST} is not the manifest of a sweep; allowed: another folder"
        raise OutputError(message)
    return found


def parse_manifest(content: bytes) -> dict[str, Any] | None:
    """Return what a manifest holds; None of a file that is none, or damaged.

    Records of partitions are as the file has them: see `is_record`.
    """
    try:
        found = json.loads(content)
        json.dumps(found)  # nested so deeply that it can be read and not be shown
    except (ValueError, RecursionError):
        return None
    is_whole = isinstance(found, dict) and all(
        type(found.get(key)) is kind for key, kind in _MANIFEST_KINDS.items()
    )
    return found if is_whole and found["format"] in FORMATS else None


def _check_same(place: Place, plan: Plan, before: dict[str, Any] | None, form: str) -> None:
    """Refuse a folder of another study, of another format, or of files without a manifest."""
    allowed = "allowed: the same study, or another folder"
    if before is None:
        if place.names(POINTS):
            message = f"{place.url}/{POINTS} holds files and no manifest says of what; {allowed}"
            raise OutputError(message)
        return
    if before["study"] != plan.described:
        changed = changes(before["study"], plan.described)
        message = f"{place.url} holds another study: {changed}; {allowed}"
        raise OutputError(message)
    if before["format"] != form:
        message = f"{place.url} holds {before['format']}, and format is {form}; {allowed}"
        raise OutputError(message)


def _is_whole(place: Place, plan: Plan, manifest: dict[str, Any]) -> bool:
    """Tell whether all files that a manifest lists are there, with the bytes that it states."""
    form, records = manifest["format"], manifest["partitions"]
    return (
        len(records) == len(plan.partitions)
        and all(is_record(*pair) for pair in zip(records, plan.partitions, strict=True))
        and place.size(f"summary.{form}") == manifest.get("summary_bytes", "unknown")
        and all(
            place.size(f"{POINTS}/{record['name']}.{form}") == record["bytes"] for record in records
        )
    )


def _compute(
    run: Run,
    place: Place,
    workers: int,
    on: str | None,
    advance: Advance,
    stop: Callable[[], bool],
) -> None:
    """Compute what is left, and keep the records of all that is done."""
    left: list[Partition] = []
    for partition in run.plan.partitions:
        record = finished(place, partition, run.form)
        if record is None:
            left.append(partition)
        else:
            run.records[partition.number] = record
            advance(partition.points)
    written = (
        (write_partition(run.plan, one, place, run.form, advance) for one in left)
        if on is None and workers == 1
        else _written_away(run, left, workers, on, advance)
    )
    with contextlib.closing(written):  # here, where an interrupt of what it waits for is heard
        for record in written:
            run.records[int(record["name"])] = record
            if stop():
                break


def _written_away(
    run: Run, left: list[Partition], workers: int, on: str | None, advance: Advance
) -> Generator[dict[str, Any], None, None]:
    """Yield the record of each partition as other processes get it ready."""
    if not run.plan.study.text:
        message = "workers take a study file or a mapping; allowed for a Study: workers=1"
        raise OptionError(message)
    from specroof.sweeps.workers import on_cluster, on_processes  # noqa: PLC0415 - slow to import

    away = (
        on_processes(run.plan, left, run.folder, run.form, workers)
        if on is None
        else on_cluster(run.plan, left, run.folder, run.form, on)
    )
    with contextlib.closing(away):
        for record in away:
            advance(record["points"])
            yield record


def _finish(place: Place, run: Run) -> None:
    """Write the summary, then say that all is done."""

    def contents() -> Iterator[bytes]:
        for partition in run.plan.partitions:
            with place.open_to_read(f"{UNFINISHED}/{partition.name}.{run.form}") as part:
                yield part.read()

    with place.open(f"summary.{run.form}") as file:
        joined(run.form, file, contents(), file_metadata(run.plan))
    _write_manifest(place, run.plan, run.form, run.records)
    place.remove(UNFINISHED)


def _write_manifest(place: Place, plan: Plan, form: str, records: _Records) -> None:
    """Write what a folder holds; `records` of all partitions where it is done."""
    content = {
        "format_version": 1,
        "done": bool(records),
        "format": form,
        "study_sha256": plan.study_sha256,
        "points": plan.points,
        "study": plan.described,
        **({"summary_bytes": place.size(f"summary.{form}")} if records else {}),
        "partitions": [record for _, record in sorted(records.items())],
    }
    with place.open(MANIFEST) as file:
        file.write(_manifest_text(content).encode())


def _manifest_text(content: Mapping[str, Any]) -> str:
    """Return a manifest as JSON, a line for each key and each partition.

    Examples
    --------
    >>> print(_manifest_text({"done": False, "partitions": [{"name": "1"}, {"name": "2"}]}), end="")
    {
     "done": false,
     "partitions": [
      {"name": "1"},
      {"name": "2"}
     ]
    }
    """
    # An indent of `json` would be spelt by Python, byte by byte: seconds for thousands of files.
    lines = [
        f'"{key}": [\n  ' + ",\n  ".join(map(_json, value)) + "\n ]"
        if key == "partitions" and value
        else f'"{key}": {_json(value)}'
        for key, value in content.items()
    ]
    return "{\n " + ",\n ".join(lines) + "\n}\n"


def _json(value: Any) -> str:
    return json.dumps(value, allow_nan=False)
