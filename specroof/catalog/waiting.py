"""Bounded waits for other computers."""

import queue
import threading
from collections.abc import Callable
from typing import TypeVar

_Outcome = TypeVar("_Outcome")


def within(seconds: float, call: Callable[[], _Outcome]) -> _Outcome:
    """Return what a call returns, or raise what it raises, unless it takes too long.

    Raises
    ------
    TimeoutError
        After so many seconds.

    Examples
    --------
    >>> within(60.0, lambda: 2)
    2
    """
    outcomes: queue.SimpleQueue[tuple[_Outcome] | Exception] = queue.SimpleQueue()

    def run() -> None:
        try:
            outcomes.put((call(),))
        except Exception as failure:  # noqa: BLE001 - raised again in the thread that waits
            outcomes.put(failure)

    # A daemon: the program ends without waiting for its reads.
    threading.Thread(target=run, daemon=True).start()
    try:
        outcome = outcomes.get(timeout=seconds)
    except queue.Empty:
        message = f"given up after {seconds:g} seconds"
        raise TimeoutError(message) from None
    if isinstance(outcome, Exception):
        raise outcome
    return outcome[0]
