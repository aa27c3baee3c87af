"""Studies to files: what is done is kept, what is left goes on, by one process or by many."""

import contextlib
import functools
import json
import logging
import multiprocessing
import os
import re
import signal
import threading
from collections.abc import Callable, Generator, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, CancelledError, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from itertools import islice
from multiprocessing.connection import Connection
from multiprocessing.connection import wait as wait_for_any
from typing import Any, Final

from specroof.arrays import whole_within
from specroof.errors import OptionError, OutputError, optional_library, refuse, reject
from specroof.questions.study import parse_study
from specroof.questions.sweep import StudyLike, study_of
from specroof.report.layout import json_line
from specroof.speedup.overview import Overview
from specroof.sweeps.places import FORMATS, Place, best_format, joined, place_of, sha256_of
from specroof.sweeps.plan import (
    POINTS,
    UNFINISHED,
    Advance,
    Partition,
    Plan,
    changes,
    file_metadata,
    finished,
    is_record,
    overviews_of,
    plan_of,
    write_partition,
)
from specroof.units import Bounds

# --- Partitions on several processes of this machine, or on a cluster of dask that exists --------

_GO_ON: Final = "the same command again, which goes on where this one ended"
#: The address of a cluster: a name or number of a host, that of IPv6 in brackets, and a port.
_DASK: Final = re.compile(r"dask://((?:[^\s/:\[\]]+|\[[0-9a-fA-F:.]+\]):[0-9]{1,5})")
#: Seconds for a scheduler to answer: a busy one has taken more than ten.
_CONNECT_S: Final = 30


def on_processes(
    run: "Run", left: list[Partition], workers: int
) -> Generator[dict[str, Any], None, None]:
    """Yield the records of partitions that processes write, as they get ready.

    Where the caller stops asking, what the processes have in hand is finished; an interrupt ends
    them at once.

    Raises
    ------
    OutputError
        If a process is ended from outside.
    """
    waiting = iter(left)
    workers = min(workers, max(1, len(left)))
    with _process_pool(workers) as pool:
        running = {_sent(pool, run, part) for part in islice(waiting, workers)}
        try:
            while running:
                done, running = wait(running, return_when=FIRST_COMPLETED)
                for future in done:
                    yield future.result()
                    running |= {_sent(pool, run, part) for part in islice(waiting, 1)}
        except BrokenProcessPool:
            reject("workers: a process was ended from outside", _GO_ON, OutputError)


@contextlib.contextmanager
def _process_pool(workers: int) -> Iterator[ProcessPoolExecutor]:
    """Yield processes that finish what they have in hand, unless that wait is interrupted too."""
    context = multiprocessing.get_context("spawn")
    # Nothing is sent through the pipe: processes end when its writing end is closed.
    reader, writer = context.Pipe(duplex=False)
    pool = ProcessPoolExecutor(
        workers, mp_context=context, initializer=_follow_parent, initargs=(reader,)
    )
    try:
        try:
            yield pool
        except (Exception, GeneratorExit):
            pool.shutdown()
            raise
        pool.shutdown()
    finally:
        writer.close()
        pool.shutdown(cancel_futures=True)
        reader.close()


def _sent(pool: ProcessPoolExecutor, run: "Run", partition: Partition) -> "Future[dict[str, Any]]":
    # A process starts here, and inherits what is blocked: a terminal sends Ctrl-C to it as well.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        return pool.submit(write_by_number, *_words(run, partition))
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _words(run: "Run", partition: Partition) -> tuple[Any, ...]:
    """Return what another process needs to know to write a partition."""
    study, plan = run.plan.study, run.plan
    return study.text, study.source, plan.study_sha256, partition.number, run.folder, run.form


def _follow_parent(pipe: Connection) -> None:
    """Leave interrupts to the parent, and end when it ends or closes its end of the pipe."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def follow() -> None:
        # The end of a parent, however it comes about, closes the pipe too.
        wait_for_any([pipe])
        os._exit(1)

    threading.Thread(target=follow, daemon=True).start()


def _scheduler(address: object) -> str:
    """Return the host and the port of a cluster's address."""
    match = _DASK.fullmatch(str(address))
    if match is None or int(match[1].rpartition(":")[2]) > 65535:
        refuse("on", address, "dask://HOST:PORT")
    return match[1]


def on_cluster(
    run: "Run", left: list[Partition], address: str
) -> Generator[dict[str, Any], None, None]:
    """Yield the records of partitions that a cluster writes, as they get ready.

    A partition whose worker is lost is written again by another, with the same bytes.

    Raises
    ------
    OptionError, OutputError
        For an address that is none, and a cluster that cannot be reached or gives up.
    """
    scheduler = _scheduler(address)
    distributed = optional_library("distributed", f"on {address!r}", refusal=OutputError)
    # They would put what they know of a lost connection beside the one line that matters.
    for part_of in ("distributed", "distributed.client"):
        logging.getLogger(part_of).setLevel(logging.CRITICAL)
    try:
        with distributed.Client(f"tcp://{scheduler}", timeout=_CONNECT_S) as client:
            tasks = [
                client.submit(
                    write_by_number,
                    *_words(run, part),
                    key=f"specroof-{run.plan.study_sha256}-{part.name}",
                    retries=2,
                )
                for part in left
            ]
            for task in distributed.as_completed(tasks):
                yield task.result()
    # What is cancelled has lost its scheduler; what cannot be imported lacks specroof there.
    except (OSError, ImportError, CancelledError, distributed.KilledWorker) as failure:
        reject(f"{address}: {failure}", "a cluster of dask that can be reached", OutputError)


def write_by_number(
    text: str, source: str, study_sha256: str, number: int, url: str, form: str
) -> dict[str, Any]:
    """Write one partition of a study that is read from its text, and return its record.

    Raises
    ------
    OptionError
        If the study is another one here: a file that it names has changed, or differs between
        machines.
    """
    plan = _plan(text, source)
    if plan.study_sha256 != study_sha256:
        reject(f"{source}: a file that it names has changed since the sweep began", _GO_ON)
    place = place_of(url)
    return write_partition(plan, plan.partitions[number - 1], place, form, lambda _: None)


@functools.lru_cache(maxsize=1)
def _plan(text: str, source: str) -> Plan:
    return plan_of(parse_study(text, source, check=False))


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
    records: dict[int, dict[str, Any]]

    @property
    def done(self) -> bool:
        """Whether nothing is left to be done."""
        return len(self.records) == len(self.plan.partitions)

    @property
    def in_order(self) -> list[dict[str, Any]]:
        """The records in the order of their partitions."""
        return [record for _, record in sorted(self.records.items())]

    @property
    def overviews(self) -> list[Overview]:
        """The best of each curve at some of its loads."""
        return overviews_of(self.in_order)

    @property
    def without_room(self) -> int:
        """Loads at which nothing runs."""
        return sum(record["loads_without_room"] for record in self.records.values())

    @property
    def notes(self) -> list[str]:
        """Sentences for the reader."""
        return list(dict.fromkeys(note for record in self.in_order for note in record["notes"]))

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
    if on is not None:
        _scheduler(on)
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
        run = Run(place.url, chosen, plan, {})
        _write_manifest(place, run, done=False)
        place.prepare(POINTS, UNFINISHED)
        _compute(run, place, workers, on, advance, stop)
        if run.done:
            _finish(place, run)
        return run


def _manifest(place: Place) -> dict[str, Any] | None:
    """Return what a folder says of itself; None of one that has no manifest."""
    content = place.read(MANIFEST)
    if content is None:
        return None
    manifest = parse_manifest(content)
    if manifest is None:
        reject(
            f"{place.url}/{MANIFEST} is not the manifest of a sweep", "another folder", OutputError
        )
    return manifest


def parse_manifest(content: bytes) -> dict[str, Any] | None:
    """Return what a manifest holds; None of a file that is none, or damaged.

    Records of partitions are as the file has them: see `is_record`.
    """
    try:
        manifest = json.loads(content)
        json.dumps(manifest)  # nested so deeply that it can be read and not be shown
    except (ValueError, RecursionError):
        return None
    is_whole = isinstance(manifest, dict) and all(
        type(manifest.get(key)) is kind for key, kind in _MANIFEST_KINDS.items()
    )
    return manifest if is_whole and manifest["format"] in FORMATS else None


def _check_same(place: Place, plan: Plan, before: dict[str, Any] | None, form: str) -> None:
    """Refuse a folder of another study, of another format, or of files without a manifest."""
    allowed = "the same study, or another folder"
    if before is None:
        if place.names(POINTS):
            what = f"{place.url}/{POINTS} holds files and no manifest says of what"
            reject(what, allowed, OutputError)
        return
    if before["study"] != plan.described:
        changed = changes(before["study"], plan.described)
        reject(f"{place.url} holds another study: {changed}", allowed, OutputError)
    if before["format"] != form:
        what = f"{place.url} holds {before['format']}, and format is {form}"
        reject(what, allowed, OutputError)


def _is_whole(place: Place, plan: Plan, manifest: dict[str, Any]) -> bool:
    """Tell whether all files that a manifest lists are there, with the content that it states."""
    form, records = manifest["format"], manifest["partitions"]
    return (
        len(records) == len(plan.partitions)
        and all(is_record(*pair) for pair in zip(records, plan.partitions, strict=True))
        and sha256_of(place, f"summary.{form}") == manifest.get("summary_sha256", "unknown")
        and all(
            sha256_of(place, f"{POINTS}/{record['name']}.{form}")
            == record.get("points_sha256", "unknown")
            for record in records
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
    is_here = on is None and workers == 1
    if not (is_here or run.plan.study.text):
        message = "workers take a study file or a mapping; allowed for a Study: workers=1"
        raise OptionError(message)
    written: Generator[dict[str, Any], None, None]
    if is_here:
        written = (write_partition(run.plan, part, place, run.form, advance) for part in left)
    else:
        written = on_processes(run, left, workers) if on is None else on_cluster(run, left, on)
    with contextlib.closing(written):  # here, where an interrupt of what it waits for is heard
        for record in written:
            if not is_here:
                advance(record["points"])
            run.records[int(record["name"])] = record
            if stop():
                break


def _finish(place: Place, run: Run) -> None:
    """Write the summary, then say that all is done."""

    def contents() -> Iterator[bytes]:
        for partition in run.plan.partitions:
            with place.open_to_read(f"{UNFINISHED}/{partition.name}.{run.form}") as part:
                yield part.read()

    with place.open(f"summary.{run.form}") as file:
        joined(run.form, file, contents(), file_metadata(run.plan))
    _write_manifest(place, run, done=True)
    place.remove(UNFINISHED)


def _write_manifest(place: Place, run: Run, *, done: bool) -> None:
    """Write what a folder holds."""
    sums = {"summary_sha256": sha256_of(place, f"summary.{run.form}")} if done else {}
    content = {
        "format_version": 1,
        "done": done,
        "format": run.form,
        "study_sha256": run.plan.study_sha256,
        "points": run.plan.points,
        "study": run.plan.described,
        **sums,
        "partitions": run.in_order,
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
        f'"{key}": [\n  ' + ",\n  ".join(map(json_line, value)) + "\n ]"
        if key == "partitions" and value
        else f'"{key}": {json_line(value)}'
        for key, value in content.items()
    ]
    return "{\n " + ",\n ".join(lines) + "\n}\n"
