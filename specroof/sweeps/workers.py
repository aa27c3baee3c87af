"""Partitions on several processes of this machine, or on a cluster of dask that exists."""

import functools
import multiprocessing
import os
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from itertools import islice
from typing import Any, Final

from specroof.errors import OptionError, OutputError, optional_library
from specroof.sweeps.partition import write_partition
from specroof.sweeps.places import place_of
from specroof.sweeps.plan import Partition, Plan, plan_of

_GO_ON: Final = "allowed: the same command again, which goes on where this one ended"
#: How the address of a cluster begins.
_DASK: Final = "dask://"
#: Seconds for a scheduler to answer: a busy one has taken more than ten.
_CONNECT_S: Final = 30


def on_processes(
    plan: Plan, left: list[Partition], url: str, form: str, workers: int
) -> Iterator[dict[str, Any]]:
    """Yield the records of partitions that processes write, as they get ready.

    Where the caller stops asking, what the processes have in hand is finished.

    Raises
    ------
    OutputError
        If a process is ended from outside.
    """
    waiting = iter(left)
    pool = ProcessPoolExecutor(
        workers, mp_context=multiprocessing.get_context("spawn"), initializer=_follow_parent
    )
    with pool:
        running = {_sent(pool, plan, one, url, form) for one in islice(waiting, workers)}
        try:
            while running:
                done, running = wait(running, return_when=FIRST_COMPLETED)
                for future in done:
                    running |= {_sent(pool, plan, one, url, form) for one in islice(waiting, 1)}
                    yield future.result()
        except BrokenProcessPool:
            message = f"workers: a process was ended from outside; {_GO_ON}"
            raise OutputError(message) from None


def _sent(
    pool: ProcessPoolExecutor, plan: Plan, partition: Partition, url: str, form: str
) -> "Future[dict[str, Any]]":
    return pool.submit(write_by_number, *_words(plan, partition, url, form))


def _words(plan: Plan, partition: Partition, url: str, form: str) -> tuple[Any, ...]:
    """Return what another process needs to know to write a partition."""
    study = plan.study
    return study.text, study.source, plan.study_sha256, partition.number, url, form


def _follow_parent() -> None:
    """Leave interrupts to the parent, and end when it ends, however that comes about."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()

    def follow() -> None:
        if parent is not None:
            parent.join()
        os._exit(1)

    threading.Thread(target=follow, daemon=True).start()


def on_cluster(
    plan: Plan, left: list[Partition], url: str, form: str, address: str
) -> Iterator[dict[str, Any]]:
    """Yield the records of partitions that a cluster writes, as they get ready.

    A partition whose worker is lost is written again by another, with the same bytes.

    Raises
    ------
    OptionError, OutputError
        For an address that is none, and a cluster that cannot be reached or gives up.
    """
    if not address.startswith(_DASK):
        message = f"on is {address!r}; allowed: {_DASK}HOST:PORT"
        raise OptionError(message)
    distributed = optional_library("distributed", f"on {address!r}", refusal=OutputError)
    try:
        with distributed.Client(
            f"tcp://{address.removeprefix(_DASK)}", timeout=_CONNECT_S
        ) as client:
            tasks = [
                client.submit(
                    write_by_number,
                    *_words(plan, one, url, form),
                    key=f"specroof-{plan.study_sha256}-{one.name}",
                    retries=2,
                )
                for one in left
            ]
            for task in distributed.as_completed(tasks):
                yield task.result()
    except (OSError, distributed.KilledWorker) as failure:
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
