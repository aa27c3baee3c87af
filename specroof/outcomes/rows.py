"""What becomes of each load with one drafter, as rows: the columns that all questions share."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any, Final

import numpy as np

from specroof import quantities as q
from specroof.arrays import Array
from specroof.outcomes.choose import choose
from specroof.outcomes.outcomes import Outcomes
from specroof.policies.decision import Choice, LoadDecision
from specroof.serving.workload import Load
from specroof.speedup.price import Money


@dataclass(frozen=True, kw_only=True)
class OfLoad(q.Row):
    """What rows of loads are told apart by; None for what does not tell them apart."""

    target: Annotated[int | None, q.TARGET] = None
    model: Annotated[str | None, q.MODEL] = None
    hardware: Annotated[str | None, q.HARDWARE] = None
    context_len: Annotated[float | None, q.CONTEXT_LEN] = None
    batch_size: Annotated[float | None, q.BATCH_SIZE] = None
    concurrency: Annotated[float | None, q.CONCURRENCY] = None
    rate: Annotated[float | None, q.RATE] = None
    requests: Annotated[int | None, q.REQUESTS] = None

    @property
    def load(self) -> float:
        """The rate, the clients or the batch; the context where these are solved for."""
        given = (self.rate, self.concurrency, self.batch_size, self.context_len)
        return next((one for one in given if one is not None), np.nan)


#: The columns that loads stand in.
LOAD_KEYS: Final = ("concurrency", "batch_size", "rate")


@dataclass(frozen=True, kw_only=True)
class LoadRow(OfLoad):
    """One load with one drafter, at the length that is decided.

    Figures are of `draft_len` drafts, 0 where drafts are off. What the decision judges is
    `tried_draft_len`. None where the server has no room, and `reason` then says so.
    """

    drafter: Annotated[str, q.DRAFTER]
    draft_len: Annotated[int, q.DRAFT_LEN]
    speedup: Annotated[float, q.SPEEDUP]
    decision: Annotated[LoadDecision | None, q.DECISION]
    tokens_per_s: Annotated[float, q.TOKENS_PER_S]
    tpot_s: Annotated[float, q.TPOT]
    ttft_s: Annotated[float | None, q.TTFT] = None
    usd_per_million_tokens: Annotated[float | None, q.PRICE]
    joules_per_million_tokens: Annotated[float | None, q.ENERGY]
    running: Annotated[float, q.RUNNING]
    tried_draft_len: Annotated[int, q.TRIED_DRAFT_LEN]
    tried_speedup: Annotated[float, q.TRIED_SPEEDUP]
    plain_tokens_per_s: Annotated[float, q.PLAIN_TOKENS_PER_S]
    plain_tpot_s: Annotated[float, q.PLAIN_TPOT]
    plain_ttft_s: Annotated[float | None, q.PLAIN_TTFT] = None
    plain_usd_per_million_tokens: Annotated[float | None, q.PLAIN_PRICE]
    reason: Annotated[str | None, q.REASON] = None
    largest_stable_rate: Annotated[float | None, q.STABLE_RATE] = None
    plain_largest_stable_rate: Annotated[float | None, q.PLAIN_STABLE_RATE] = None


def load_fields(one: Outcomes, load: Load, money: Money) -> Iterator[dict[str, Any]]:
    """Yield what becomes of each context and load, by the names of `LoadRow`; loads innermost.

    Parameters
    ----------
    one, load
        What the drafter gains, and under which loads; of requests that are played through it knows
        them itself.
    money
        What the devices cost and draw.
    """
    curve = one.curve
    if one.played is not None:
        load = one.played.load
    figures = {"tokens_per_s": one.tokens_per_s, "tpot_s": one.tpot_s}
    ends = one.figure_ends
    if one.end_to_end is not None:
        figures["ttft_s"] = one.end_to_end.ttft_s
    running = np.broadcast_to(curve.running_batch, curve.round_s.shape)
    places = np.ndindex(curve.speedup.shape[:2])
    for at, (choice, decision) in zip(places, choose(one), strict=True):
        spot, plain = (*at, choice.draft_len), (*at, 0)
        has_room = bool(np.isfinite(figures["tokens_per_s"][plain]))
        bands = {name: _ends_at(pair, spot) for name, pair in ends.items() if pair is not None}
        tried = choice.low, choice.high
        if has_room and choice.tried and curve.speedup_low is not None:
            bands["tried_speedup"] = tried
            bands["speedup"] = tried if choice.draft_len or choice.reason else (1.0, 1.0)
        off, on = one.stable_rates(choice.tried) or (None, None)
        values = {name: float(array[spot]) for name, array in figures.items()}
        without = {f"plain_{name}": float(array[plain]) for name, array in figures.items()}
        costs = costs_of(money, values["tokens_per_s"], "tokens_per_s", bands)
        plain_usd = money.of(without["plain_tokens_per_s"])["usd_per_million_tokens"]
        yield {
            "context_len": float(curve.context_len[at[0]]),
            **load_keys(load, at[1], float(curve.batch_size[at[1]])),
            "drafter": curve.drafter,
            "draft_len": choice.draft_len,
            "speedup": _gain(choice) if has_room else np.nan,
            "decision": decision if has_room else None,
            **values,
            **costs,
            "running": float(running[spot]),
            "tried_draft_len": choice.tried,
            "tried_speedup": choice.speedup if choice.tried else np.nan,
            **without,
            "plain_usd_per_million_tokens": None if plain_usd is None else float(plain_usd),
            "reason": (choice.reason or None) if has_room else "memory",
            "largest_stable_rate": on,
            "plain_largest_stable_rate": off,
            "bands": bands,
        }


def _gain(choice: Choice) -> float:
    """Return the speedup of what runs: 1 where drafts are off, NaN where there is a reason."""
    return choice.speedup if choice.draft_len or choice.reason else 1.0


def load_keys(load: Load, place: int, batch_size: float) -> dict[str, Any]:
    """Return what a load is told by: its clients, its rate, or its batch.

    Examples
    --------
    >>> load_keys(Load([8, 16], [4096], requests=[80, 160]), 1, 16.0)
    {'requests': 160, 'concurrency': 16.0}
    """
    names: dict[str, Any] = {"requests": load.requests[place]} if load.requests else {}
    if load.arrival_rates:
        return names | {"rate": load.arrival_rates[place]}
    if load.kind != "concurrency":
        return names
    return names | {"concurrency" if load.workload or load.requests else "batch_size": batch_size}


def _ends_at(ends: tuple[Array, Array], spot: tuple[int, ...]) -> tuple[float, float]:
    low, high = (float(end[spot]) for end in ends)
    return low, high


def costs_of(
    money: Money, tokens_per_s: float, name: str, bands: dict[str, tuple[float, float]]
) -> dict[str, float | None]:
    """Return price and energy, and add their bands: the more tokens, the less they are.

    Parameters
    ----------
    money, tokens_per_s
        What the devices cost and draw, and the tokens that they make.
    name
        Under which `bands` has the band of the tokens.
    bands
        By the names of figures.
    """
    fewest, most = (
        money.of(np.nan if end is None else end) for end in bands.get(name, (None,) * 2)
    )
    costs: dict[str, float | None] = {}
    for cost, value in money.of(tokens_per_s).items():
        low, high = most[cost], fewest[cost]
        costs[cost] = None if value is None else float(value)
        if low is not None and high is not None:
            bands[cost] = float(low), float(high)
    return costs
