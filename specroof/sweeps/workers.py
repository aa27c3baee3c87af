"""Partitions on several processes of this machine, or on a cluster of dask that exists."""

import contextlib
import functools
import logging
import multiprocessing
import os
import re
import signal
import threading
from collections.abc import Generator, Iterator
from concurrent.futures import FIRST_COMPLETED, CancelledError, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from itertools import islice
from multiprocessing.connection import Connection
from multiprocessing.connection import wait as wait_for_any
from typing import Any, Final

from specroof.errors import OptionError, OutputError, optional_library, refuse
from specroof.sweeps.partition import write_partition
from specroof.sweeps.places import place_of
from specroof.sweeps.plan import Partition, Plan, plan_of

_GO_ON: Final = "allowed: the same command again, which goes on where this one ended"
#: The address of a cluster: a name or number of a host, that of IPv6 in brackets, and a port.
_DASK: Final = re.compile(r"dask://((?:[^\s/:\[\]]+|\[[0-9a-fA-F:.]+\]):[0-9]{1,5})")
_DASK_FORM: Final = "dask://HOST:PORT"
_LAST_PORT: Final = 65535
#: Seconds for a scheduler to answer: a busy one has taken more than ten.
_CONNECT_S: Final = 30


def on_processes(
    plan: Plan, left: list[Partition], url: str, form: str, workers: int
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
        running = {_sent(pool, plan, part, url, form) for part in islice(waiting, workers)}
        try:
            while running:
                done, running = wait(running, return_when=FIRST_COMPLETED)
                for future in done:
                    yield future.result()
                    running |= {_sent(pool, plan, part, url, form) for part in islice(waiting, 1)}
        except BrokenProcessPool:
            message = f"workers: a process was ended from outside; {_GO_ON}"
            raise OutputError(message) from None


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


def _sent(
    pool: ProcessPoolExecutor, plan: Plan, partition: Partition, url: str, form: str
) -> "Future[dict[str, Any]]":
    # A process starts here, and inherits what is blocked: a terminal sends Ctrl-C to it as well.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        return pool.submit(write_by_number, *_words(plan, partition, url, form))
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _words(plan: Plan, partition: Partition, url: str, form: str) -> tuple[Any, ...]:
    """Return what another process needs to know to write a partition."""
    study = plan.study
    return study.text, study.source, plan.study_sha256, partition.number, url, form


def _follow_parent(pipe: Connection) -> None:
    """Leave interrupts to the parent, and end when it ends or closes its end of the pipe."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def follow() -> None:
        # The end of a parent, however it comes about, closes the pipe too.
        wait_for_any([pipe])
        os._exit(1)

    threading.Thread(target=follow, daemon=True).start()


def on_cluster(
    plan: Plan, left: list[Partition], url: str, form: str, address: str
) -> Generator[dict[str, Any], None, None]:
    """Yield the records of partitions that a cluster writes, as they get ready.

    A partition whose worker is lost is written again by another, with the same bytes.

    Raises
    ------
    OptionError, OutputError
        For an address that is none, and a cluster that cannot be reached or gives up.
    """
    match = _DASK.fullmatch(str(address))
    if match is None or int(match[1].rpartition(":")[2]) > _LAST_PORT:
        refuse("on", address, _DASK_FORM)
    distributed = optional_library("distributed", f"on {address!r}", refusal=OutputError)
    # They would put what they know of a lost connection beside the one line that matters.
    for part_of in ("distributed", "distributed.client"):
        logging.getLogger(part_of).setLevel(logging.CRITICAL)
    try:
        with distributed.Client(f"tcp://{match[1]}", timeout=_CONNECT_S) as client:
            tasks = [
                client.submit(
                    write_by_number,
                    *_words(plan, part, url, form),
                    key=f"specroof-{plan.study_sha256}-{part.name}",
                    retries=2,
                )
                for part in left
            ]
            for task in distributed.as_completed(tasks):
                yield task.result()
    # What is cancelled has lost its scheduler; what cannot be imported lacks specroof there.
    except (OSError, ImportError, CancelledError, distributed.KilledWorker) as failure:
        message = f"{address}: {failure}; allowed: a cluster of dask that can be reached"
        raise OutputError(message) from None


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
        message = f"{source}: a file that it names has changed since the sweep began; {_GO_ON}"
        raise OptionError(message)
    place = place_of(url)
    return write_partition(plan, plan.partitions[number - 1], place, form, lambda _: None)


@functools.lru_cache(maxsize=1)
def _plan(text: str, source: str) -> Plan:
    from specroof.questions.study import parse_study  # noqa: PLC0415 - needs pydantic

    return plan_of(parse_study(text, source, check=False))
