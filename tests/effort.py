"""Bounds on the work of a call, in seconds of the processor: a loaded machine moves them little."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

__all__ = ["cpu_bound", "cpu_seconds"]


@contextmanager
def cpu_bound(most_s: float) -> Iterator[None]:
    """Fail where the block takes this process more than `most_s` seconds of the processor.

    Bounds are ten times what the block takes, and a small part of what it took before it was
    mended: they tell work that explodes from work that does not, and measure nothing.
    """
    start = time.process_time()
    yield
    taken = time.process_time() - start
    assert taken < most_s, f"took {taken:.1f} s of the processor"


def cpu_seconds(call: Callable[[], object], repeats: int = 3) -> float:
    """Return the least seconds of the processor that a call takes."""
    taken = []
    for _ in range(repeats):
        start = time.process_time()
        call()
        taken.append(time.process_time() - start)
    return min(taken)
