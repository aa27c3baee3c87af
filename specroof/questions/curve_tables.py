"""Speedup curves as tables for people, and every point of them as JSON, CSV and columns."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from specroof import quantities as q
from specroof.errors import Note
from specroof.hardware import CONCURRENCY_ENDS, EngineProfile, played_figure, served_cells
from specroof.quantities import NOT_USEFUL, is_useful
from specroof.report.columns import Columns
from specroof.report.layout import brief, figure, format_table, in_line, wrapped
from specroof.serving.end_to_end import EndToEnd
from specroof.serving.workload import Workload
from specroof.speedup.curve import REQUEST_WEIGHT, TEXT_WEIGHT, refuse_many_points
from specroof.speedup.result import (
    SpeedupCurve,
    counted_engines,
)
from specroof.units import format_seconds


def _span(low: float, high: float) -> str:
    return f"{low:g}" if low == high else f"{low:g}-{high:g}"


def pays_lines(curves: Sequence[SpeedupCurve]) -> str:
    """Return, per drafter, the batch sizes of its grid at which speculation pays, a line each."""
    batches = curves[0].batch_size
    contexts = len(curves[0].context_len) > 1
    lines = [f"batches of {min(batches):g} to {max(batches):g} at which drafts pay:"]
    for curve in curves:
        for i, context in enumerate(curve.context_len):
            at = f" at context {context:g}" if contexts else ""
            lines.append(f"  {in_line(curve.drafter)}{at}: {_pays(curve, i)}")
    return "\n".join(lines)


def _pays(curve: SpeedupCurve, i: int) -> str:
    """Return the batch sizes at which a draft pays, and from which on none fits."""
    room = curve.drafts_run[i]
    if not room.any():
        return "none, since no draft fits in memory"
    fits = (
        "" if room.all() else f"; from {min(curve.batch_size[~room]):g} on memory holds no drafts"
    )
    lost = ", ".join(_span(*run) for run in _losing_runs(curve, i))
    return (f"all but {lost}" if lost else "all" + " that fit" * bool(fits)) + fits


def losing_runs(curve: SpeedupCurve) -> list[list[tuple[float, float]]]:
    """Return, per context, the runs of batch sizes whose best draft length is 0."""
    return [_losing_runs(curve, i) for i in range(len(curve.context_len))]


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


def prefill_line(whole: EndToEnd) -> str:
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
    figures = _REQUESTS if requests else _STEPS
    for name, title in figures.items():
        bands = engine.served_bands
        cells = served_cells(bands, played_figure(bands, name) if played or not requests else name)
        cells = [cells[place] for place in sorted(ranges)]
        known = [band for band in cells if band is not None]
        if known and len(known) == len(cells):
            band = max(known, key=lambda cell: cell.width)
            low, high = np.expm1(-band.width), np.expm1(band.width)
            span = f"{low:+.0%} to {high:+.0%}" if is_useful(1 + low, 1 + high) else NOT_USEFUL
            counted = counted_engines(band, engine)
            shown.append(f"{title} {span}, from {band.points} measured loads{counted}")
    if not shown:
        titles = ", ".join(figures.values())
        return f"{titles} have no band: no load was measured on engine {engine.name} here"
    besides = "TPOT, tokens/s and prices" if requests else "steps"
    line = (
        f"80% bands without drafts: {'; '.join(shown)}; with drafts, the band of the speedup widens "
        f"those of {besides}"
    )
    if can_play and len(shown) > 1:
        line += (
            ". The first token takes longer where clients start together, as in benchmarks: leave "
            "out --steady to play them through"
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
        yield wrapped(f"engines differ: {unlike}")
    for chip, reach in reaches.items():
        if reach:
            yield wrapped(f"evidence on {chip}: {reach['text']}")


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

#: What says of workers how busy they are, at each point.
WORKER_ARRAYS: Final = ("decode_batch", "prefill_busy", "link_busy", "prefill_s", "transfer_s")
_OF_REQUESTS: Final = ("input_len", "output_len", "prefix_hit_rate")
#: Figures with bands, and their titles: of requests, and of decoding alone.
_TPOT, _RATE = q.TPOT.name, q.TOKENS_PER_S.name
_REQUESTS: Final = {_TPOT: "TPOT", q.TTFT.name: "TTFT", _RATE: "tokens/s and prices"}
_STEPS: Final = {_TPOT: "steps, tokens/s and prices"}


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


def request_columns(workload: Workload) -> Columns:
    """Return the tokens of a request, how many of them are cached, and how requests come."""
    return {name: getattr(workload, name) for name in _OF_REQUESTS}
