"""What becomes of each load with one drafter, as rows: the columns that all questions share."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any, Final

import numpy as np

from specroof import quantities as q
from specroof.arrays import Array, IntArray
from specroof.outcomes.choose import decided
from specroof.outcomes.outcomes import Outcomes
from specroof.policies.decision import Decisions, LoadDecision
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


def load_fields(
    one: Outcomes, load: Load, money: Money, found: Decisions | None = None
) -> Iterator[dict[str, Any]]:
    """Yield what becomes of each context and load, by the names of `LoadRow`; loads innermost.

    Parameters
    ----------
    one, load
        What the drafter gains, and under which loads; of requests that are played through it knows
        them itself, unless these say which are.
    money
        What the devices cost and draw.
    found
        What was decided; what `specroof.outcomes.choose.decided` says if None.
    """
    curve, found = one.curve, decided(one) if found is None else found
    drafts, tried = found.draft_len, found.tried
    load = load if one.played is None or load.requests else one.played.load

    def at(values: Array, lengths: IntArray = drafts) -> Array:
        grid = np.broadcast_to(values, curve.round_s.shape)
        return np.take_along_axis(grid, lengths[..., None], axis=-1)[..., 0]

    figures = {"tokens_per_s": one.tokens_per_s, "tpot_s": one.tpot_s}
    if one.end_to_end is not None:
        figures["ttft_s"] = one.end_to_end.ttft_s
    plain = {f"plain_{name}": at(values, np.zeros_like(drafts)) for name, values in figures.items()}
    has_room = np.isfinite(plain["plain_tokens_per_s"])
    runs = (drafts > 0) | (found.reason != "")
    columns: dict[str, Any] = {
        "context_len": curve.context_len[:, None],
        **load_columns(load, curve.batch_size),
        "draft_len": drafts,
        "speedup": np.where(has_room, np.where(runs, found.speedup, 1.0), np.nan),
        "decision": np.where(has_room, found.decision, ""),
        **{name: at(values) for name, values in figures.items()},
        "running": at(one.running),
        "tried_draft_len": tried,
        "tried_speedup": np.where(tried > 0, found.speedup, np.nan),
        **plain,
        "plain_usd_per_million_tokens": money.of(plain["plain_tokens_per_s"])[
            "usd_per_million_tokens"
        ],
        "reason": np.where(has_room, found.reason, "memory"),
    }
    bands = {name: (at(pair[0]), at(pair[1])) for name, pair in one.figure_ends.items() if pair}
    if curve.speedup_low is not None:
        known = has_room & (tried > 0)
        low, high = (np.where(known, end, np.nan) for end in (found.low, found.high))
        bands["tried_speedup"] = low, high
        off = known & ~runs
        bands["speedup"] = np.where(off, 1.0, low), np.where(off, 1.0, high)
    columns |= costs_of(money, columns["tokens_per_s"], bands)
    if one.played is not None and load.arrival_rates:
        columns["largest_stable_rate"] = one.played.stable_rate[tried]
        columns["plain_largest_stable_rate"] = one.played.stable_rate[0]

    def listed(values: Any) -> list[Any]:
        if values is None:
            return [None] * drafts.size
        grid = np.broadcast_to(values, drafts.shape)
        cells = grid.ravel().tolist()
        return [one or None for one in cells] if grid.dtype.kind == "U" else cells

    ends = {name: list(zip(*map(listed, pair), strict=True)) for name, pair in bands.items()}
    for place, row in enumerate(zip(*map(listed, columns.values()), strict=True)):
        known_bands = {
            name: own for name, pairs in ends.items() if math.isfinite((own := pairs[place])[0])
        }
        yield {
            **dict(zip(columns, row, strict=True)),
            "drafter": curve.drafter,
            "bands": known_bands,
        }


def load_columns(load: Load, batch_size: Array) -> dict[str, Array]:
    """Return what loads are told by: their clients, their rates, or their batches.

    Examples
    --------
    >>> load_columns(Load([8, 16], [4096], requests=[80, 160]), np.array([8.0, 16.0]))
    {'requests': array([ 80, 160]), 'concurrency': array([ 8., 16.])}
    """
    names = {"requests": np.array(load.requests)} if load.requests else {}
    if load.arrival_rates:
        return names | {"rate": np.array(load.arrival_rates, dtype=np.float64)}
    if load.kind != "concurrency":
        return names
    return names | {"concurrency" if load.workload or load.requests else "batch_size": batch_size}


def costs_of(
    money: Money,
    tokens_per_s: Array,
    bands: dict[str, tuple[Array, Array]],
    name: str = "tokens_per_s",
) -> dict[str, Array | None]:
    """Return price and energy, and add their bands: the more tokens, the less they are.

    Parameters
    ----------
    money, tokens_per_s
        What the devices cost and draw, and the tokens that they make.
    bands
        By the names of figures.
    name
        Under which they have the band of the tokens.
    """
    fewest, most = map(money.of, bands.get(name, (np.nan, np.nan)))
    for cost, low in most.items():
        high = fewest[cost]
        if name in bands and low is not None and high is not None:
            bands[cost] = low, high
    return money.of(tokens_per_s)
