"""What a load that is played through will take, told before it is begun."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Final

from specroof.errors import refuse
from specroof.serving.played import PROGRESS, Progress
from specroof.units import format_binary_bytes, format_seconds

#: Seconds of one request that is played through at one draft length, and the bytes that it holds
#: meanwhile, about: see `benchmarks/speed.py`.
PLAYED_REQUEST_S: Final = 1e-5
PLAYED_REQUEST_BYTES: Final = 500


@dataclass(frozen=True, slots=True)
class Budget:
    """What an answer may take.

    Parameters
    ----------
    seconds, size_bytes
        Of one process, and of its memory.
    more
        How the user allows more.
    """

    seconds: float
    size_bytes: float
    more: str = ""


_BUDGET: Final[ContextVar[Budget | None]] = ContextVar("_BUDGET", default=None)


@contextmanager
def limited(budget: Budget | None, tell: Progress | None = None) -> Iterator[None]:
    """Refuse loads in this block that take more than a budget, before they are played; None: none.

    All plays of a question are known where it tells its progress from the start: `tell` is called
    with the requests played so far, and those in all, after each play.
    """
    tell = tell or PROGRESS.get()

    def told(done: int, requests: int) -> None:
        if not done:
            check_work(requests)
        tell(done, requests)

    budgets, progress = _BUDGET.set(budget), PROGRESS.set(told)
    try:
        yield
    finally:
        PROGRESS.reset(progress)
        _BUDGET.reset(budgets)


def check_work(requests: int, at_once: int = 0) -> None:
    """Refuse more requests than the budget has seconds or memory for.

    Parameters
    ----------
    requests, at_once
        That will be played through: in all, and at most in one play.

    Raises
    ------
    OptionError
        With what they would take.

    Examples
    --------
    >>> check_work(10**12)
    >>> with limited(Budget(60, 2**30)):
    ...     check_work(10**9)
    Traceback (most recent call last):
    specroof.errors.OptionError: requests is 1000000000 over all plays, about 10000 s; allowed:
    what takes up to 60.0 s and 1.00 GiB
    """
    budget = _BUDGET.get()
    if budget is None:
        return
    seconds, size_bytes = requests * PLAYED_REQUEST_S, at_once * PLAYED_REQUEST_BYTES
    if seconds > budget.seconds or size_bytes > budget.size_bytes:
        most = f"{format_seconds(budget.seconds)} and {format_binary_bytes(budget.size_bytes)}"
        took = f"{requests} over all plays, about {format_seconds(seconds)}"
        took += f" and {format_binary_bytes(size_bytes)}" if at_once else ""
        refuse("requests", took, f"what takes up to {most}{budget.more}", show=str)
