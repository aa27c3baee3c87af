"""What becomes of each load with one drafter, as rows: the columns that all questions share."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from specroof import quantities as q
from specroof.arrays import Array, IntArray, fields_of
from specroof.outcomes.choose import decided
from specroof.outcomes.outcomes import Outcomes
from specroof.policies.decision import Decisions, LoadDecision
from specroof.serving.workload import Load
from specroof.speedup.price import Money
from specroof.speedup.result import within_measured


@dataclass(frozen=True, kw_only=True)
class OfLoad(q.Row):
    """What rows of loads are told apart by; None for what does not tell them apart."""

    target: int | None = None
    workload: int | None = None
    model: str | None = None
    hardware: str | None = None
    context_len: float | None = None
    batch_size: float | None = None
    concurrency: float | None = None
    rate: float | None = None
    requests: int | None = None

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

    drafter: str
    draft_len: int
    speedup: float
    decision: LoadDecision | None
    tokens_per_s: float
    tpot_s: float
    ttft_s: float | None = None
    requests_per_s: float | None = None
    usd_per_million_tokens: float | None
    joules_per_million_tokens: float | None
    running: float
    tokens_per_round: float
    near_best: tuple[int, int] | None
    within_band: tuple[int, int] | None
    tried_draft_len: int
    tried_speedup: float
    plain_tokens_per_s: float
    plain_tpot_s: float
    plain_ttft_s: float | None = None
    plain_usd_per_million_tokens: float | None
    reason: str | None = None
    largest_stable_rate: float | None = None
    plain_largest_stable_rate: float | None = None


def load_arrays(
    one: Outcomes, load: Load, money: Money, found: Decisions | None = None
) -> tuple[dict[str, Any], dict[str, tuple[Array, Array]]]:
    """Return what becomes of each context and load, by the names of `LoadRow`, and its bands.

    Axes are (context_len, load), or such that broadcast to them.

    Parameters
    ----------
    one, load
        What the drafter gains, and under which loads; of requests that are played through it knows
        them itself, unless these say which are.
    money
        What the devices cost and draw.
    found
        What was decided; what the outcomes say themselves if None.
    """
    curve, found = one.curve, decided(one) if found is None else found
    drafts, tried = found.draft_len, found.tried
    load = load if one.played is None or load.requests else one.played.load

    def at(values: npt.ArrayLike, lengths: IntArray = drafts) -> Array:
        grid = np.broadcast_to(values, curve.round_s.shape)
        return np.take_along_axis(grid, lengths[..., None], axis=-1)[..., 0]

    figures = {q.TOKENS_PER_S.name: one.tokens_per_s, q.TPOT.name: one.tpot_s}
    if one.end_to_end is not None:
        figures["ttft_s"] = one.end_to_end.ttft_s
    plain = {f"plain_{name}": at(values, np.zeros_like(drafts)) for name, values in figures.items()}
    if one.end_to_end is not None:
        figures["requests_per_s"] = one.end_to_end.requests_per_s
    has_room = np.isfinite(plain["plain_tokens_per_s"])
    runs = (drafts > 0) | (found.reason != "")
    # Lengths that were measured, of which memory holds none.
    there = np.isfinite(within_measured(curve.tokens_per_round, curve.measured_draft_len))
    held = np.isfinite(curve.speedup) & there
    unknown = curve.acceptance_unknown
    is_full = there[..., 1:].any(axis=-1) & ~held[..., 1:].any(axis=-1) & ~runs
    # Without drafts; of drafts, the shortest is the last to find no room.
    is_limited = at(one.bound_by_setting, np.minimum(has_room, curve.draft_len[-1]))
    columns: dict[str, Any] = {
        "context_len": curve.context_len[:, None],
        **load_columns(load, curve.batch_size),
        "draft_len": drafts,
        "speedup": np.where(has_room, np.where(runs, found.speedup, 1.0), np.nan),
        "decision": np.where(has_room & ~unknown, found.decision, ""),
        **{name: at(values) for name, values in figures.items()},
        "running": at(one.running),
        "tokens_per_round": np.where(has_room, at(one.decoding.tokens_per_round), np.nan),
        "tried_draft_len": tried,
        "tried_speedup": np.where(tried > 0, found.speedup, np.nan),
        **plain,
        "plain_usd_per_million_tokens": money.of(plain["plain_tokens_per_s"])[
            "usd_per_million_tokens"
        ],
        "reason": np.where(
            has_room & ~is_full,
            np.where(unknown, "acceptance", found.reason),
            np.where(is_limited, "limit", "memory"),
        ),
    }
    bands = {name: (at(pair[0]), at(pair[1])) for name, pair in one.figure_ends.items() if pair}
    if one.speedup_ends is not None:
        known = has_room & (tried > 0)
        low, high = (np.where(known, end, np.nan) for end in (found.low, found.high))
        bands["tried_speedup"] = low, high
        off = known & ~runs
        bands["speedup"] = np.where(off, 1.0, low), np.where(off, 1.0, high)
    columns |= costs_of(money, columns[q.TOKENS_PER_S.name], bands)
    if one.played is not None and load.arrival_rates:
        columns["largest_stable_rate"] = one.played.stable_rate[tried]
        columns["plain_largest_stable_rate"] = one.played.stable_rate[0]
    return columns, bands


def load_fields(
    one: Outcomes, load: Load, money: Money, found: Decisions | None = None
) -> Iterator[dict[str, Any]]:
    """Yield what becomes of each context and load, as `load_arrays` has it; loads innermost."""
    return listed_fields(one, *load_arrays(one, load, money, found))


def listed_fields(
    one: Outcomes, columns: Mapping[str, Any], bands: Mapping[str, tuple[Array, Array]]
) -> Iterator[dict[str, Any]]:
    """Yield the arrays of `load_arrays` as the fields of a row for each context and load."""
    shape = columns["draft_len"].shape

    def listed(values: Any) -> list[Any]:
        if values is None:
            return [None] * math.prod(shape)
        grid = np.broadcast_to(values, shape)
        cells = grid.ravel().tolist()
        return [one or None for one in cells] if grid.dtype.kind == "U" else cells

    ends = {name: list(zip(*map(listed, pair), strict=True)) for name, pair in bands.items()}
    known = listed(columns["reason"] == "")

    def spans(pair: tuple[IntArray, IntArray] | None) -> list[tuple[int, int] | None]:
        if pair is None:
            return [None] * len(known)
        both = zip(known, *map(listed, pair), strict=True)
        return [(first, last) if is_known else None for is_known, first, last in both]

    near, within = spans(one.curve.near_best()), spans(one.curve.best_within_band())
    for place, row in enumerate(zip(*map(listed, columns.values()), strict=True)):
        known_bands = {
            name: own for name, pairs in ends.items() if math.isfinite((own := pairs[place])[0])
        }
        yield {
            **dict(zip(columns, row, strict=True)),
            "drafter": one.curve.drafter,
            "near_best": near[place],
            "within_band": within[place],
            "bands": known_bands,
        }


#: Figures of decoding alone, of requests besides those of rows, and of workers.
_OF_ROUNDS: Final = ("tokens_per_round", "draft_s", "verify_s", "round_s")
_OF_REQUESTS: Final = ("ttft_s", "requests_per_s", "prefill_frac", "effective_batch")
_OF_WORKERS: Final = (
    *("devices", "decode_batch", "prefill_busy", "link_busy", "prefill_s", "transfer_s"),
)
#: What is told of played requests by a name that the steady state has, too.
_TOLD: Final = (q.TOKENS_PER_S.name, q.REQUEST_RATE.name)


def point_arrays(one: Outcomes, money: Money | None = None) -> dict[str, Any]:
    """Return every draft length of every load by the names of quantities.

    Speedups, waits and throughput are those of rows: of requests with their prompts and waits.
    Rounds and their parts are of decoding alone.

    Parameters
    ----------
    one
        What the drafter gains.
    money
        What the devices cost and draw; None for the points of a study, which have neither price
        and energy nor bands but those of speedups.

    Returns
    -------
    dict of arrays
        Each broadcasts to the axes of the curve. ``batch_size`` of requests are the clients, or how
        many run on average without drafts; their ``rate`` is NaN where clients send them.
    """
    curve, whole, played = one.curve, one.end_to_end, one.played
    tpot_s = one.tpot_s
    arrays: dict[str, Any] = {
        "context_len": curve.context_len[:, None, None],
        "batch_size": curve.batch_size[:, None],
        "draft_len": curve.draft_len,
        "verify_len": np.asarray(curve.verify_len, dtype=np.float64),
        "running": one.running,
        **{name: getattr(one.decoding, name) for name in _OF_ROUNDS},
        "speedup": curve.speedup,
        q.TOKENS_PER_S.name: one.tokens_per_s,
        q.USER_TOKENS.name: curve.tokens_per_s_per_user if whole is None else 1.0 / tpot_s,
        "tpot_s": tpot_s,
    }
    ends = {} if money is None else one.figure_ends
    bands = {name: pair for name, pair in ends.items() if pair}
    if "tpot_s" in bands:
        fastest, slowest = bands["tpot_s"]
        bands[q.USER_TOKENS.name] = 1.0 / slowest, 1.0 / fastest
    if one.speedup_ends is not None:
        bands["speedup"] = one.speedup_ends
    if whole is not None:
        arrays |= {name: getattr(whole, name) for name in _OF_REQUESTS}
        arrays |= {
            "latency_s": whole.answer_s,
            "queue_s": whole.queue_s,
            "steady": np.True_,
        }
        if whole.workers is not None:
            arrays |= {name: np.asarray(getattr(whole.workers, name)) for name in _OF_WORKERS}
    if played is not None:
        counts = np.array(played.load.requests)
        rates = np.array(played.load.arrival_rates or [np.nan] * len(counts))
        arrays |= {
            "requests": counts[:, None],
            "rate": rates[:, None],
            "steady": np.isnan(played.figures[q.TOKENS_PER_S.name]),
        }
        arrays |= {
            name: seen
            for name, seen in played.figures.items()
            if name not in _TOLD and not name.startswith("mean_")
        }
    if money is not None:
        costs = costs_of(money, arrays[q.TOKENS_PER_S.name], bands)
        arrays |= {name: cost for name, cost in costs.items() if cost is not None}
    for name, pair in bands.items():
        arrays |= dict(zip((f"{name}_low", f"{name}_high"), pair, strict=True))
    is_best = curve.draft_len == decided(one).draft_len[..., None]
    room = np.isfinite(curve.running_batch)
    return arrays | {"has_room": room, "is_best": is_best & room[..., :1]}


def point_columns(one: Outcomes, money: Money | None = None) -> Iterator[dict[str, Any]]:
    """Yield the arrays of `point_arrays` as columns, some contexts at a time."""
    curve, names = one.curve, one.curve.names
    if one.end_to_end is not None:
        workload = one.end_to_end.workload
        names |= fields_of(workload, "input_len", "output_len", "prefix_hit_rate")
    shape = curve.round_s.shape
    arrays = {
        name: np.broadcast_to(values, shape) for name, values in point_arrays(one, money).items()
    }
    for rows in curve.slabs():
        yield names | {name: values[rows].ravel() for name, values in arrays.items()}


def bands_around(
    row: q.Row, one: Outcomes, place: int, draft_lens: Sequence[int]
) -> dict[str, tuple[float, float]]:
    """Return the bands of outcomes around the figures of a row, the widest of several lengths.

    Parameters
    ----------
    row
        Whose figures are played or simulated besides those of the outcomes.
    one, place, draft_lens
        The outcomes at one context, the position of the load, and the lengths that are drafted.
    """
    whole, curve = one.end_to_end, one.curve
    pairs = {"speedup": one.speedup_ends, **one.figure_ends}
    bands = {}
    for name, pair in pairs.items():
        if name in row.quantities() and pair is not None:
            grids: Any = (getattr(curve if name == "speedup" else whole or one, name), *pair)
            middle, low, high = (grid[0, place, draft_lens] for grid in grids)
            value = getattr(row, name)
            bands[name] = value * (low / middle).min(), value * (high / middle).max()
    return known_bands(bands)


def known_bands(bands: Mapping[str, Sequence[Any]]) -> dict[str, tuple[float, float]]:
    """Return the bands that there are.

    Examples
    --------
    >>> known_bands({"speedup": [np.float64(1.2), 1.9], "ttft_s": [np.nan, np.nan]})
    {'speedup': (1.2, 1.9)}
    """
    ends = {name: (float(low), float(high)) for name, (low, high) in bands.items()}
    return {name: pair for name, pair in ends.items() if math.isfinite(sum(pair))}


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
    money: Money, tokens_per_s: Array, bands: dict[str, tuple[Array, Array]]
) -> dict[str, Array | None]:
    """Return price and energy, and add their bands.

    Parameters
    ----------
    money, tokens_per_s
        What the devices cost and draw, and the tokens that they make.
    bands
        By the names of figures, that of the tokens among them.
    """
    name = q.TOKENS_PER_S.name
    fewest, most = map(money.of, bands.get(name, (np.nan, np.nan)))
    for cost, low in most.items():
        high = fewest[cost]
        if name in bands and low is not None and high is not None:
            bands[cost] = np.minimum(low, high), np.maximum(low, high)
    return money.of(tokens_per_s)
