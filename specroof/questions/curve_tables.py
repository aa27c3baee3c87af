"""Speedup curves as tables for people, and every point of them as JSON, CSV and columns."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from specroof.arrays import Array, IntArray, fields_of, to_json_array
from specroof.errors import Note
from specroof.hardware import CONCURRENCY_ENDS, EngineProfile, served_cells
from specroof.report.columns import Columns
from specroof.report.layout import ABSENT, brief, figure, format_table, in_line, wrapped
from specroof.serving.end_to_end import EndToEnd
from specroof.serving.workload import Workload, workload_json
from specroof.speedup.curve import REQUEST_WEIGHT, TEXT_WEIGHT, refuse_many_points
from specroof.speedup.result import (
    ALL_ROWS,
    CURVE_ARRAYS,
    SpeedupCurve,
    best_index,
    counted_engines,
)
from specroof.units import format_seconds

#: Columns that one operating point does without.
_OF_GRIDS: Final = {"context", "batch", "step", "tok/s/user", "runs"}
#: What stands in a table where a batch is larger than a server runs.
_NO_ROOM: Final = "no room"
#: What a table says of requests: an array of `EndToEnd`, and how its numbers are spelt.
_COUNTED: Final[dict[str, tuple[str, Callable[[float], str]]]] = {
    "speedup": ("speedup", "{:.2f}x".format),
    "tok/s": ("tokens_per_s", "{:.0f}".format),
    "req/s": ("requests_per_s", "{:.3g}".format),
    "TTFT": ("ttft_s", format_seconds),
    "TPOT": ("tpot_s", format_seconds),
    "decoding": ("effective_batch", "{:.1f}".format),
    "prefill": ("prefill_frac", "{:.1%}".format),
}


def _span(low: float, high: float) -> str:
    return f"{low:g}" if low == high else f"{low:g}-{high:g}"


def curves_table(curves: Sequence[SpeedupCurve]) -> str:
    """Return tables of several drafters on one grid.

    Per drafter and operating point: the best draft length, its speedup, the drafts within 1% of
    it, tokens per round and throughput there.
    """
    if curves[0].speedup.shape[:2] == (1, 1):
        return _one_point(curves)
    return "\n\n".join(_one_drafter(curve) for curve in curves)


def _one_point(curves: Sequence[SpeedupCurve]) -> str:
    first = curves[0]
    batch, step_s = first.batch_size[0], float(first.decode_s[0, 0])
    plain = f"context {first.context_len[0]:g}, batch {batch:g}: "
    plain += _NO_ROOM if np.isnan(step_s) else _plain_step(first, step_s)
    columns = [_columns(curve) | {"drafter": [curve.drafter]} for curve in curves]
    is_alone = len(curves) == 1  # the line of its cost names it
    shown = [
        title
        for title in max(columns, key=len)
        if title not in _OF_GRIDS | ({"drafter"} if is_alone else set())
    ]
    rows = [[cells.get(title, [ABSENT])[0] for title in shown] for cells in columns]
    header = [title.replace("tok/round", "tokens") for title in shown]
    return f"{plain}\n\n{format_table(header, rows, left=[] if is_alone else [len(header) - 1])}"


def _plain_step(curve: SpeedupCurve, step_s: float) -> str:
    runs, batch = float(curve.running_batch[0, 0, 0]), float(curve.batch_size[0])
    waiting = f"{runs:g} run, " if runs < batch else ""
    rate = f"{runs / step_s:.0f} tok/s, {1 / step_s:.1f} per user"
    return f"{waiting}a plain step takes {format_seconds(step_s)}, {rate}"


def _one_drafter(curve: SpeedupCurve) -> str:
    columns = _columns(curve)
    table = format_table([*columns], zip(*columns.values(), strict=True), left=[], keys=2)
    return f"{in_line(curve.drafter)}\n{table}"


def _columns(curve: SpeedupCurve) -> dict[str, list[str]]:
    """Return a curve as columns of cells: a row an operating point, contexts outermost."""
    best = ~np.isnan(curve.best_speedup)
    contexts, batches = np.broadcast_arrays(curve.context_len[:, None], curve.batch_size)
    rates = (curve.tokens_per_round, curve.tokens_per_s, curve.tokens_per_s_per_user)
    tokens, rate, user_rate = (curve.at_best(array) for array in rates)
    columns = {
        "context": _cells("{:g}".format, contexts),
        "batch": _cells("{:g}".format, batches),
        "step": _cells(format_seconds, curve.decode_s, absent=_NO_ROOM),
        "best γ": _cells(_length, curve.best_draft_len, known=best),
        "speedup": _cells(_gain, curve.best_speedup, curve.drafts_run, known=best),
        **_band_columns(curve),
        **_shortest_column(curve),
        "γ within 1%": _cells(_span, *curve.near_best(0.01), known=best),
        "tok/round": _cells("{:.2f}".format, tokens, known=best),
        "tok/s": _cells("{:.0f}".format, rate, known=best),
        "tok/s/user": _cells("{:.1f}".format, user_rate, known=best),
    }
    if curve.running is not None:
        runs = np.broadcast_to(curve.running, curve.round_s.shape)
        columns["runs"] = _cells(_runs, runs[..., 0], curve.at_best(runs))
    return columns


def _cells(
    spelt: Callable[..., str], first: Any, *others: Any, known: Any = None, absent: str = ABSENT
) -> list[str]:
    """Return a cell for each operating point; `absent` where nothing is known."""
    there = ~np.isnan(first) if known is None else known
    points = zip(there.flat, first.flat, *(other.flat for other in others), strict=True)
    return [spelt(*values) if is_known else absent for is_known, *values in points]


def _length(drafts: int) -> str:
    return str(drafts) if drafts else "none"


def _shortest_column(curve: SpeedupCurve) -> dict[str, list[str]]:
    """Return what the shortest draft gives where none is best; nothing where drafts always pay."""
    lengths, speedups = _shortest(curve)
    lost = (curve.best_draft_len == 0) & (lengths > 0)
    if not lost.any():
        return {}
    return {"shortest draft": _cells("{}: {:.2f}x".format, lengths, speedups, known=lost)}


def _shortest(curve: SpeedupCurve) -> tuple[IntArray, Array]:
    """Return the shortest draft that can run and its speedup; 0 and NaN where none can."""
    runs = np.isfinite(curve.speedup) & (curve.draft_len > 0)
    shortest = runs.argmax(axis=-1)
    speedups = np.take_along_axis(curve.speedup, shortest[..., None], axis=-1)[..., 0]
    return curve.draft_len[shortest], np.where(shortest > 0, speedups, np.nan)


def _gain(speedup: float, drafts: bool) -> str:
    return f"{speedup:.2f}x" if drafts else _NO_ROOM


def _runs(plain: float, drafting: float) -> str:
    """Return the running requests, plain and at the best draft."""
    return _span(plain, drafting).replace("-", ", ")


def _band_columns(curve: SpeedupCurve) -> dict[str, list[str]]:
    """Return the band, the verdict and the best drafts within the band; nothing without a band.

    Where no drafts are best, band and verdict are of the drafts that lose least, which are named.
    """
    within, low, high = curve.best_within_band(), curve.speedup_low, curve.speedup_high
    if curve.verdict is None or within is None or low is None or high is None:
        return {}
    tried = curve.best_draft_len
    if curve.draft_len[-1]:
        tried = np.where(tried > 0, tried, 1 + best_index(curve.choices[..., 1:]))
    least, most = (np.take_along_axis(end, tried[..., None], -1)[..., 0] for end in (low, high))
    known = (curve.verdict != "") & np.isfinite(least)

    def band(best: int, tried: int, least: float, most: float) -> str:
        return f"{'' if best else f'{tried}: '}{least:.2f}-{most:.2f}x"

    return {
        "80% band": _cells(band, curve.best_draft_len, tried, least, most, known=known),
        "verdict": _cells(str, curve.verdict, known=known),
        "γ within band": _cells(_span, *within, known=known),
    }


def pays_lines(curves: Sequence[SpeedupCurve]) -> str:
    """Return, per drafter, the batch sizes of its grid at which speculation does not pay."""
    batches = curves[0].batch_size
    title = f"does not pay at batch ({min(batches):g}-{max(batches):g})"
    rows = [
        [_loses(curve, i), f"{context:g}", curve.drafter]
        for curve in curves
        for i, context in enumerate(curve.context_len)
    ]
    return format_table([title, "context", "drafter"], rows, left=(0, 2))


def _loses(curve: SpeedupCurve, i: int) -> str:
    """Return the batch sizes at which no draft pays, and from which on none has room."""
    room = curve.drafts_run[i]
    if not room.any():
        return _NO_ROOM
    lost = ", ".join(_span(*run) for run in _losing_runs(curve, i)) or "none"
    return lost if room.all() else f"{lost}; {_NO_ROOM} from {min(curve.batch_size[~room]):g}"


def _losing_runs(curve: SpeedupCurve, i: int) -> list[tuple[float, float]]:
    """Return the runs of batch sizes whose best draft length is 0."""
    order = np.argsort(curve.batch_size)
    runs: list[tuple[float, float]] = []
    lost_before = False
    # Where no draft has room, nothing is known of what it would gain.
    lost = curve.drafts_run[i, order] & (curve.best_draft_len[i, order] == 0)
    for batch, loses in zip(curve.batch_size[order].tolist(), lost, strict=True):
        if loses:
            start = runs.pop()[0] if lost_before else batch
            runs.append((start, batch))
        lost_before = bool(loses)
    return runs


def survey_json(curves: Sequence[SpeedupCurve]) -> dict[str, Any]:
    """Return the batch sizes where drafting pays, over more than were asked about.

    Parameters
    ----------
    curves
        One for each drafter, on one grid; arrays are nested as [context][batch].
    """
    return {
        "batch_size": curves[0].batch_size.tolist(),
        "drafters": [
            {
                "name": curve.drafter,
                "best_draft_len": curve.best_draft_len.tolist(),
                "best_speedup": to_json_array(curve.best_speedup),
                "does_not_pay": [
                    [list(run) for run in _losing_runs(curve, i)]
                    for i in range(len(curve.context_len))
                ],
            }
            for curve in curves
        ],
    }


def lengths_table(curves: Sequence[SpeedupCurve], lengths: Sequence[int]) -> str:
    """Return the speedups of some draft lengths side by side, a row for each drafter and load.

    Parameters
    ----------
    curves
        One for each drafter, on one grid.
    lengths
        Drafts per round.
    """
    rows = [
        [
            f"{context:g}",
            f"{batch:g}",
            *(
                figure(
                    curve.speedup[i, b, k] if k < len(curve.draft_len) else None, "{:.2f}x".format
                )
                for k in lengths
            ),
            curve.drafter,
        ]
        for curve in curves
        for i, context in enumerate(curve.context_len)
        for b, batch in enumerate(curve.batch_size)
    ]
    header = ["context", "batch", *(f"γ={k}" for k in lengths), "drafter"]
    return format_table(header, rows, left=[len(header) - 1])


def counted_table(curves: Sequence[SpeedupCurve], counted: Sequence[EndToEnd]) -> str:
    """Return the best speedups with prefills counted.

    Parameters
    ----------
    curves
        Of decoding alone, as `curves_table` has them.
    counted
        The same with prefills.
    """
    lost = [_shortest_column(whole.curve) for whole in counted]
    shortest = list(dict.fromkeys(title for column in lost for title in column))
    header = ["batch", "best γ", *_COUNTED, *shortest, "drafter"]
    rows = [
        [
            f"{batch:g}",
            *_counted_cells(whole, b),
            *(column.get(title, {b: ABSENT})[b] for title in shortest),
            curve.drafter,
        ]
        for curve, whole, column in zip(curves, counted, lost, strict=True)
        for b, batch in enumerate(curve.batch_size)
    ]
    table = format_table(header, rows, left=[len(header) - 1])
    return f"{in_line(_prefill_line(counted[0]))}\n{table}"


def _counted_cells(whole: EndToEnd, b: int) -> list[str]:
    """Return the cells of a load: what its best draft length reaches."""
    if np.isnan(whole.curve.best_speedup[0, b]):
        return [ABSENT] * (1 + len(_COUNTED))
    best = int(whole.curve.best_draft_len[0, b])
    columns = _COUNTED.values()
    return [
        _length(best),
        *(figure(getattr(whole, name)[0, b, best], how) for name, how in columns),
    ]


def _prefill_line(whole: EndToEnd) -> str:
    """Return the server's way with prompts, in words."""
    alone, rules = format_seconds(whole.wait_s), whole.rules
    if whole.workers is not None:
        how = f"on workers of their own; a prompt alone takes {alone} with its transfer"
        return f"prefills counted, {whole.workload.requests}: {how}"
    chunk = f" of {rules.chunk:g} tokens" if rules.chunk else ""
    if rules.shares_passes:
        drafts = "" if rules.drafts_beside else ", which then drafts nothing"
        how = f"passes{chunk} shared with decoding{drafts}; a prompt alone takes {alone}"
    else:
        how = f"passes{chunk} that stop the batch; a prompt alone takes {alone}"
    if whole.latency_s:
        how += f", and each request loses {format_seconds(whole.latency_s)}"
    return f"prefills counted, {whole.workload.requests}: {how}"


def served_bands_line(
    engine: EngineProfile,
    batch_size: npt.ArrayLike,
    *,
    requests: bool,
    played: bool = False,
    can_play: bool = False,
) -> str:
    """Return the bands of TPOT, TTFT and throughput in one line, or why there are none.

    Nothing of the ideal engine, which is no server. Over several batch sizes, the widest. Where the
    question `can_play` requests through, the flag for it follows.
    """
    if engine.rules == "ideal":
        return ""
    ranges = set(np.searchsorted(CONCURRENCY_ENDS, np.atleast_1d(batch_size)).tolist())
    shown = []
    figures = _PLAYED if played else _REQUESTS if requests else _STEPS
    for name, title in figures.items():
        cells = [served_cells(engine.served_bands, name)[place] for place in sorted(ranges)]
        known = [band for band in cells if band is not None]
        if known and len(known) == len(cells):
            band = max(known, key=lambda cell: cell.width)
            span = f"{np.expm1(-band.width):+.0%} to {np.expm1(band.width):+.0%}"
            if band.width > 1:
                span = f"within a factor of {np.exp(band.width):.2g}"
            counted = counted_engines(band, engine)
            shown.append(f"{title} {span} of {band.points} loads{counted}")
    if not shown:
        titles = ", ".join(figures.values())
        return f"{titles} have no band: no measured load speaks for engine {engine.name} here"
    besides = "they"
    if requests:
        besides = "TPOT and tokens/s" if played else "TPOT, tokens/s and prices"
    line = (
        f"80% bands without drafts: {'; '.join(shown)}; with drafts {besides} have the band of the "
        f"speedup besides"
    )
    if can_play and len(shown) > 1:
        line += (
            ". Clients that start together, as in benchmarks, wait longer for a first token: "
            "without --steady they are played through"
        )
    return line


def compared_on(
    engines: Mapping[str, str], reaches: Mapping[str, Mapping[str, Any] | None]
) -> Iterator[str]:
    """Yield the engines that chips are compared on, and how near measurements are to each.

    Parameters
    ----------
    engines, reaches
        By the names of the chips; a reach as `specroof.speedup.reach.nearness` says it.
    """
    if len({*engines.values()}) > 1:
        unlike = ", ".join(f"{engine} on {chip}" for chip, engine in engines.items())
        yield wrapped(f"Compared on unlike engines: {unlike}.")
    else:
        yield wrapped(f"All on engine {next(iter(engines.values()))}.")
    for chip, reach in reaches.items():
        if reach:
            yield wrapped(f"reach of {chip}: {reach['text']}")


def source_lines(curves: Sequence[SpeedupCurve]) -> str:
    """Return, per drafter, where its cost and its acceptance come from."""
    return "\n".join(
        in_line(
            f"{curve.drafter}: cost from {_brief(curve.cost_from) or 'the drafter'}; "
            f"acceptance: {_brief(curve.acceptance_from) or 'as given'}"
        )
        for curve in curves
    )


def _brief(source: str) -> str:
    """Return a source up to its colon, unless all of it is asked for."""
    return brief(Note(source, short=source.partition(": ")[0]))


# --- Every point of speedup curves, as JSON and CSV ----------------------------------------------

#: What of a curve with prefills has a value at each point.
COUNTED_ARRAYS: Final = (
    "tokens_per_s",
    "speedup",
    "requests_per_s",
    "ttft_s",
    "tpot_s",
    "prefill_frac",
    "effective_batch",
)
#: What says of workers how busy they are, at each point.
WORKER_ARRAYS: Final = ("decode_batch", "prefill_busy", "link_busy", "prefill_s", "transfer_s")
_OF_REQUESTS: Final = ("input_len", "output_len", "prefix_hit_rate")
#: Figures with bands, and their titles: of requests in a steady state, played through, and of
#: decoding alone.
_REQUESTS: Final = {"tpot_s": "TPOT", "ttft_s": "TTFT", "tokens_per_s": "tokens/s and prices"}
_PLAYED: Final = {"tpot_s": "TPOT", "played_ttft_s": "TTFT", "tokens_per_s": "tokens/s"}
_STEPS: Final = {"tpot_s": "steps, tokens/s and prices"}
_BAND_KEYS: Final = ("speedup_low", "speedup_high", "verdict", "best_within_band")


def _plain(values: Any) -> list[int | float]:
    """Return an axis as a list, whole numbers without a point."""
    return [int(value) if float(value).is_integer() else float(value) for value in values]


def curves_json(curves: Sequence[SpeedupCurve], counted: Sequence[EndToEnd] = ()) -> dict[str, Any]:
    """Return several drafters on one grid as the object that ``--json`` prints.

    Parameters
    ----------
    curves
        Of decoding alone.
    counted
        The same with prefills, under ``end_to_end`` of each drafter; none for a plain context.
    """
    refuse_long_texts(curves, counted, "JSON")
    first = curves[0]
    content: dict[str, Any] = {
        **fields_of(first, "model", "hardware", "engine"),
        "placement": asdict(first.placement),
        **{
            name: _plain(getattr(first, name))
            for name in ("context_len", "batch_size", "draft_len")
        },
        "notes": list(dict.fromkeys(note for curve in curves for note in curve.notes)),
        "baseline": {
            "step_s": to_json_array(first.decode_s),
            "tokens_per_s": to_json_array(first.running_batch[..., 0] / first.decode_s),
            **ends_json("tokens_per_s", first.rate_ends, (..., 0)),
            **ends_json(
                "step", first.figure_ends("tpot_s", first.round_s, per_speedup=-1), (..., 0)
            ),
        },
        "drafters": [_drafter_json(curve) for curve in curves],
    }
    if counted:
        content |= workload_json(counted[0].workload)
        for drafter, whole in zip(content["drafters"], counted, strict=True):
            arrays = {
                name: to_json_array(getattr(whole, name)) for name in (*COUNTED_ARRAYS, "answer_s")
            }
            drafter["end_to_end"] = {
                **fields_of(whole, "wait_s", "latency_s"),
                **arrays,
                **{
                    key: ends
                    for name, pair in whole.figure_ends.items()
                    for key, ends in ends_json(name, pair).items()
                },
                "best_draft_len": to_json_array(_known(whole.curve, whole.curve.best_draft_len)),
                "best_speedup": to_json_array(whole.curve.best_speedup),
                **_shortest_json(whole.curve),
            }
            if whole.workers is not None:
                drafter["end_to_end"]["workers"] = {
                    name: to_json_array(getattr(whole.workers, name)) for name in WORKER_ARRAYS
                }
    return content


def ends_json(
    name: str, ends: tuple[Array, Array] | None, at: Any = ...
) -> dict[str, list[Any] | None]:
    """Return the ends of a band under `name` with ``_low`` and ``_high``; null without a band."""
    return {
        f"{name}_{side}": None if end is None else to_json_array(end[at])
        for side, end in zip(("low", "high"), ends or (None, None), strict=True)
    }


def _drafter_json(curve: SpeedupCurve) -> dict[str, Any]:
    shortest, longest = curve.near_best(0.01)
    return {
        "name": curve.drafter,
        **fields_of(curve, "cost_from", "acceptance_from"),
        "verify_len": _plain(curve.verify_len),
        **{name: to_json_array(getattr(curve, name)) for name in CURVE_ARRAYS},
        **ends_json("tokens_per_s", curve.rate_ends),
        **({} if curve.running is None else {"running": to_json_array(curve.running)}),
        "best_draft_len": to_json_array(_known(curve, curve.best_draft_len)),
        "best_speedup": to_json_array(curve.best_speedup),
        **_shortest_json(curve),
        "near_best": to_json_array(_known(curve, np.stack([shortest, longest], axis=-1))),
        "worth_measuring": to_json_array(_known(curve, curve.worth_measuring)),
        **_band_json(curve),
    }


def _shortest_json(curve: SpeedupCurve) -> dict[str, Any]:
    lengths, speedups = _shortest(curve)
    known = lengths.astype(object)
    known[lengths == 0] = None
    return {
        "shortest_draft_len": known.tolist(),
        "shortest_speedup": to_json_array(speedups),
    }


def _band_json(curve: SpeedupCurve) -> dict[str, Any]:
    """Return the band of a curve; null without one, as for the ideal engine."""
    within = curve.best_within_band()
    if curve.verdict is None or within is None:
        return dict.fromkeys(_BAND_KEYS)
    verdicts = curve.verdict.astype(object)
    verdicts[verdicts == ""] = None
    ends = np.stack(within, axis=-1)
    values = (
        to_json_array(curve.speedup_low),
        to_json_array(curve.speedup_high),
        verdicts.tolist(),
    )
    return dict(zip(_BAND_KEYS, (*values, to_json_array(_known(curve, ends))), strict=True))


def _known(curve: SpeedupCurve, best: Any) -> Any:
    """Return draft lengths where there is a best one: nothing is best of what cannot run."""
    if curve.running is None:
        return best
    missing = np.isnan(curve.best_speedup)
    values = best.astype(object)
    values[missing] = None
    return values


def refuse_long_texts(
    curves: Sequence[SpeedupCurve], counted: Sequence[EndToEnd], form: str
) -> None:
    """Refuse curves whose text would take gigabytes, which a sweep writes part by part."""
    refuse_many_points(
        curves[0].round_s.shape,
        curves=len(curves),
        weight=TEXT_WEIGHT * (REQUEST_WEIGHT if counted else 1),
        why=f" as {form}, which takes {TEXT_WEIGHT} times the memory of arrays",
    )


def curve_columns(
    curves: Sequence[SpeedupCurve], counted: Sequence[EndToEnd] = ()
) -> Iterator[Columns]:
    """Yield every point of several curves as columns, some rows at a time.

    Parameters
    ----------
    curves
        Of decoding alone.
    counted
        The same with prefills, in columns called as in `curves_json` with ``end_to_end_`` before
        the name; none for a plain context.
    """
    wholes: Sequence[EndToEnd | None] = counted or [None] * len(curves)
    for curve, whole in zip(curves, wholes, strict=True):
        for rows in curve.slabs():
            yield point_columns(curve, whole, rows)


def point_columns(
    curve: SpeedupCurve, whole: EndToEnd | None = None, rows: slice = ALL_ROWS
) -> Columns:
    """Return every point of some contexts of a curve, draft lengths innermost.

    Parameters
    ----------
    curve
        Of decoding alone.
    whole
        The same with prefills, in columns that begin with ``end_to_end_``; None without.
    rows
        Which contexts.
    """
    if whole is None:
        return curve.columns(rows)
    return {
        **curve.columns(rows),
        **request_columns(whole.workload),
        "end_to_end_wait_s": float(whole.wait_s),
        "end_to_end_latency_s": float(whole.latency_s),
        **{f"end_to_end_{name}": getattr(whole, name)[rows].ravel() for name in COUNTED_ARRAYS},
        "end_to_end_is_best": whole.curve.is_best[rows].ravel(),
    } | (
        {}
        if whole.workers is None
        else {
            "devices": whole.workers.devices,
            **{name: getattr(whole.workers, name)[rows].ravel() for name in WORKER_ARRAYS},
        }
    )


def request_columns(workload: Workload) -> Columns:
    """Return the tokens of a request, how many of them are cached, and how requests come."""
    return {name: getattr(workload, name) for name in _OF_REQUESTS}
