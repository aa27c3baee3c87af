"""The advice at each load: values."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from specroof.arrays import number_within
from specroof.policies.decision import Choice, Verdict
from specroof.policies.limiting import Point, limits_of_speedup
from specroof.policies.schedule import Day, drafts_at
from specroof.units import MILLISECOND


@dataclass(frozen=True, slots=True)
class Targets:
    """What users are promised; None for no promise.

    Parameters
    ----------
    ttft_ms, tpot_ms
        Milliseconds until the first token, and of each token after it.
    min_speedup
        The least speedup that is worth it.
    """

    ttft_ms: float | None = None
    tpot_ms: float | None = None
    min_speedup: float | None = None

    def __post_init__(self) -> None:
        for name in ("ttft_ms", "tpot_ms", "min_speedup"):
            if getattr(self, name) is not None:
                number_within(name, getattr(self, name), "target")

    @property
    def least_speedup(self) -> float:
        """The speedup from which drafting pays."""
        return max(1.0, self.min_speedup or 1.0)

    def met(self, ttft_s: Any, tpot_s: Any) -> Any:
        """Return whether waits are short enough."""
        first = np.inf if self.ttft_ms is None else self.ttft_ms
        each = np.inf if self.tpot_ms is None else self.tpot_ms
        in_time = np.asarray(ttft_s) <= first * MILLISECOND
        return in_time & (np.asarray(tpot_s) <= each * MILLISECOND)


@dataclass(frozen=True, slots=True)
class Times:
    """What a server gives at one load.

    Parameters
    ----------
    tokens_per_s
        Output tokens of all requests, prefills counted.
    ttft_s, tpot_s
        Seconds until the first token, waiting included, and of each token after it.
    usd_per_million_tokens
        None where no price is known.
    running
        Requests that are decoded at a time.
    """

    tokens_per_s: float
    ttft_s: float
    tpot_s: float
    usd_per_million_tokens: float | None
    running: float


@dataclass(frozen=True, slots=True)
class BreakEven:
    """The least acceptance that pays; None where none is enough.

    Parameters
    ----------
    rate
        Of each draft, all alike.
    tokens_per_round
        What a round commits then, bonus token included.
    """

    rate: float | None
    tokens_per_round: float | None


@dataclass(frozen=True, slots=True)
class Row:
    """One load.

    Parameters
    ----------
    concurrency
        Requests in flight.
    drafter, tried
        The best one here, by its place, None where it is off; and the one that comes nearest.
    draft_len
        Drafts per round; 0 is off.
    choice
        The best drafts, and their speedup with its band.
    times, plain
        What the server gives so, and without drafts.
    point
        The round that was tried, in seconds; None where there is none.
    meets
        Whether the targets are met.
    least
        The speedup from which drafting pays.
    own
        Speedups of the lengths that the user named, by drafter and length.
    break_even
        The least acceptance of the drafts that were tried.
    """

    concurrency: float
    drafter: int | None
    draft_len: int
    choice: Choice
    times: Times
    plain: Times
    point: Point | None
    meets: bool
    least: float = 1.0
    tried: int = 0
    own: dict[tuple[int, int], float] = field(default_factory=dict)
    break_even: BreakEven = field(default_factory=lambda: BreakEven(None, None))

    @property
    def verdict(self) -> Verdict:
        """Whether drafting pays here."""
        return self.choice.verdict

    @property
    def speedup(self) -> tuple[float, float, float]:
        """The speedup of the advised drafts, with its band; 1 where drafting is off."""
        if self.draft_len == 0:
            return 1.0, 1.0, 1.0
        return self.choice.speedup, self.choice.low, self.choice.high

    @property
    def limits(self) -> dict[str, float]:
        """Speedup without each thing that holds it back, the largest first."""
        return {} if self.point is None else limits_of_speedup(self.point)

    @property
    def limited_by(self) -> str:
        """What holds the speedup back most; empty where nothing does."""
        return next(iter(self.limits), "")


@dataclass(frozen=True, slots=True)
class Advised:
    """What to do at all loads of a chip.

    Parameters
    ----------
    rows
        The loads that were asked about.
    chosen
        The drafter to start the server with, by its place.
    schedule
        First and last load, and drafts, from 1 on.
    lost
        Mean share of throughput that the few ranges lose, every load alike; None of a day.
    is_tree, nodes
        Whether the drafter branches, and the drafts of its tree.
    capacity
        The most requests without drafts and with, and their limits; None for endless memory.
    warnings
        Sentences for the reader.
    day
        What the traffic of a day gains; None where none was given.
    """

    rows: tuple[Row, ...]
    chosen: int
    schedule: tuple[tuple[int, int, int], ...]
    lost: float | None
    is_tree: bool
    nodes: int
    capacity: dict[str, Any] | None
    warnings: tuple[str, ...]
    day: Day | None = None

    def drafts(self, load: float) -> int:
        """Return the drafts of the schedule at a load; beyond the last range, its own."""
        return drafts_at(self.schedule, load)

    @property
    def reached(self) -> tuple[tuple[int, int, int], ...]:
        """The ranges that a server with drafts comes to, which runs what it has room for."""
        if self.capacity is None:
            return self.schedule
        most = max(self.capacity["speculative"]["largest_batch"], 1)
        return tuple(one for one in self.schedule if one[0] <= most)
