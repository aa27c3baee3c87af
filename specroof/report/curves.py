"""Speedup curves as tables for people."""

from collections.abc import Callable, Iterator, Sequence
from itertools import product
from typing import Any, Final

import numpy as np

from specroof.errors import Note
from specroof.questions.overview import drafts_run
from specroof.questions.prediction import EndToEnd
from specroof.report.fitting import brief
from specroof.report.layout import format_table, in_line
from specroof.speedup.curve import SpeedupCurve
from specroof.units import format_seconds

__all__ = [
    "counted_table",
    "curves_table",
    "lengths_table",
    "pays_lines",
    "source_lines",
    "survey_json",
]


#: What a table says besides, where an engine has a band.
_BAND_HEADER: Final = ("within band", "80% band", "verdict")
#: What stands in a table where a batch is larger than a server runs.
_NO_ROOM: Final = "no room"
_ABSENT: Final = "-"
#: What a table says of requests, and how.
_COUNTED: Final[dict[str, tuple[Callable[[EndToEnd], Any], Callable[[float], str]]]] = {
    "speedup": (lambda whole: whole.speedup, "{:.2f}x".format),
    "tok/s": (lambda whole: whole.tokens_per_s, "{:.0f}".format),
    "req/s": (lambda whole: whole.requests_per_s, "{:.3g}".format),
    "TTFT": (lambda whole: whole.ttft_s, format_seconds),
    "TPOT": (lambda whole: whole.tpot_s, format_seconds),
    "decoding": (lambda whole: whole.effective_batch, "{:.1f}".format),
    "prefill": (lambda whole: whole.prefill_frac, "{:.1%}".format),
}


def _span(low: float, high: float) -> str:
    return f"{low:g}" if low == high else f"{low:g}-{high:g}"


def curves_table(curves: Sequence[SpeedupCurve]) -> str:
    """Return what people read of several drafters on one grid.

    Per drafter and operating point: the best draft length, its speedup, the drafts within 1% of
    it, tokens per round and throughput there.
    """
    first = curves[0]
    title = in_line(
        f"{first.model} on {first.placement.devices} x {first.hardware}, engine {first.engine}"
    )
    if first.speedup.shape[:2] == (1, 1):
        return "\n\n".join([title, _one_point(curves)])
    return "\n\n".join([title, *(_one_drafter(curve) for curve in curves)])


def _one_point(curves: Sequence[SpeedupCurve]) -> str:
    first = curves[0]
    batch, step_s = first.batch_size[0], float(first.decode_s[0, 0])
    plain = f"context {first.context_len[0]:g}, batch {batch:g}: "
    plain += _NO_ROOM if np.isnan(step_s) else _plain_step(first, step_s)
    rows = [
        [*cells[:3], *band, *cells[3:5], curve.drafter]
        for curve in curves
        for cells, band in zip(_best_cells(curve), _band_cells(curve), strict=True)
    ]
    header = ["best γ", "speedup", "within 1%", *_BAND_HEADER[: len(rows[0]) - 6]]
    header += ["tokens", "tok/s", "drafter"]
    return f"{plain}\n\n{format_table(header, rows, left=[len(header) - 1])}"


def _plain_step(curve: SpeedupCurve, step_s: float) -> str:
    runs, batch = float(curve.running_batch[0, 0, 0]), float(curve.batch_size[0])
    waiting = f"{runs:g} run, " if runs < batch else ""
    rate = f"{runs / step_s:.0f} tok/s, {1 / step_s:.1f} per user"
    return f"{waiting}a plain step takes {format_seconds(step_s)}, {rate}"


def _one_drafter(curve: SpeedupCurve) -> str:
    header = ["context", "batch", "step", "best γ", "speedup", "within 1%"]
    header += [*(_BAND_HEADER if curve.band is not None else ()), "tok/round", "tok/s", "per user"]
    points = product(curve.context_len, curve.batch_size)
    rows = [
        [f"{context:g}", f"{batch:g}", _step(float(step_s)), *cells[:3], *band, *cells[3:]]
        for (context, batch), step_s, cells, band in zip(
            points, curve.decode_s.ravel(), _best_cells(curve), _band_cells(curve), strict=True
        )
    ]
    if curve.running is not None:
        header.append("runs")
        rows = [[*row, runs] for row, runs in zip(rows, _runs(curve), strict=True)]
    table = format_table(header, rows, left=[], keys=2)
    return f"{in_line(curve.drafter)}\n{table}"


def _step(step_s: float) -> str:
    return _NO_ROOM if np.isnan(step_s) else format_seconds(step_s)


def _runs(curve: SpeedupCurve) -> Iterator[str]:
    """Yield how many requests run at each operating point: plain, and at the best draft."""
    running = np.broadcast_to(curve.running_batch, curve.round_s.shape)
    at_best = np.take_along_axis(running, curve.best_draft_len[..., None], axis=-1)
    for plain, drafting in zip(running[..., 0].ravel(), at_best.ravel(), strict=True):
        yield _ABSENT if np.isnan(plain) else _span(plain, drafting).replace("-", ", ")


def _best_cells(curve: SpeedupCurve) -> Iterator[list[str]]:
    """Yield what a table says of each operating point of a curve, contexts outermost."""
    best = curve.best_draft_len
    shortest, longest = curve.near_best(0.01)
    at_best = [
        np.take_along_axis(array, best[..., None], axis=-1).ravel()
        for array in (curve.tokens_per_round, curve.tokens_per_s, curve.tokens_per_s_per_user)
    ]
    columns = (best, curve.best_speedup, shortest, longest, drafts_run(curve))
    for draft_len, speedup, low, high, drafts, tokens, rate, user_rate in zip(
        *(column.ravel() for column in columns), *at_best, strict=True
    ):
        if np.isnan(speedup):
            yield [_ABSENT] * 6
            continue
        yield [
            str(draft_len),
            f"{speedup:.2f}x" if drafts else _NO_ROOM,
            _span(low, high),
            f"{tokens:.2f}",
            f"{rate:.0f}",
            f"{user_rate:.1f}",
        ]


def _band_cells(curve: SpeedupCurve) -> Iterator[list[str]]:
    """Yield the best drafts within the band, the band and the verdict at each operating point."""
    within, low, high = curve.best_within_band(), curve.speedup_low, curve.speedup_high
    if curve.verdict is None or within is None or low is None or high is None:
        yield from ([] for _ in range(curve.best_draft_len.size))
        return
    best = curve.best_draft_len[..., None]
    ends = (np.take_along_axis(end, best, -1).ravel() for end in (low, high))
    columns = (*(end.ravel() for end in within), *ends, curve.verdict.ravel())
    for shortest, longest, least, most, verdict in zip(*columns, strict=True):
        known = verdict and np.isfinite(least)
        band = f"{least:.2f}-{most:.2f}x"
        yield [_span(shortest, longest), band, verdict] if known else [_ABSENT] * 3


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
    if not drafts_run(curve)[i].any():
        return _NO_ROOM
    return ", ".join(_span(*run) for run in _losing_runs(curve, i)) or "none"


def _losing_runs(curve: SpeedupCurve, i: int) -> list[tuple[float, float]]:
    """Return the runs of batch sizes whose best draft length is 0."""
    order = np.argsort(curve.batch_size)
    runs: list[tuple[float, float]] = []
    lost_before = False
    # Where no draft has room, nothing is known of what it would gain.
    lost = drafts_run(curve)[i, order] & (curve.best_draft_len[i, order] == 0)
    for batch, loses in zip(curve.batch_size[order].tolist(), lost, strict=True):
        if loses:
            start = runs.pop()[0] if lost_before else batch
            runs.append((start, batch))
        lost_before = bool(loses)
    return runs


def survey_json(curves: Sequence[SpeedupCurve]) -> dict[str, Any]:
    """Return where drafting pays, over more batch sizes than were asked about.

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
                "best_speedup": [
                    [None if np.isnan(one) else one for one in row]
                    for row in curve.best_speedup.tolist()
                ],
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
            *(_speedup_cell(curve, i, b, k) for k in lengths),
            curve.drafter,
        ]
        for curve in curves
        for i, context in enumerate(curve.context_len)
        for b, batch in enumerate(curve.batch_size)
    ]
    header = ["context", "batch", *(f"γ={k}" for k in lengths), "drafter"]
    return format_table(header, rows, left=[len(header) - 1])


def _speedup_cell(curve: SpeedupCurve, i: int, b: int, k: int) -> str:
    if k >= len(curve.draft_len) or np.isnan(curve.speedup[i, b, k]):
        return _ABSENT
    return f"{curve.speedup[i, b, k]:.2f}x"


def counted_table(curves: Sequence[SpeedupCurve], counted: Sequence[EndToEnd]) -> str:
    """Return what is left of each best speedup with prefills counted.

    Parameters
    ----------
    curves
        Of decoding alone, as `curves_table` has them.
    counted
        The same with prefills.
    """
    header = ["batch", "best γ", *_COUNTED, "drafter"]
    rows = [
        [f"{batch:g}", *_counted_cells(whole, b), curve.drafter]
        for curve, whole in zip(curves, counted, strict=True)
        for b, batch in enumerate(curve.batch_size)
    ]
    table = format_table(header, rows, left=[len(header) - 1])
    return f"{in_line(_prefill_line(counted[0]))}\n{table}"


def _counted_cells(whole: EndToEnd, b: int) -> list[str]:
    """Return the cells of a load: what its best draft length reaches."""
    if np.isnan(whole.curve.best_speedup[0, b]):
        return [_ABSENT] * (1 + len(_COUNTED))
    best = int(whole.curve.best_draft_len[0, b])
    values = [(float(array(whole)[0, b, best]), spelt) for array, spelt in _COUNTED.values()]
    return [str(best), *(_ABSENT if np.isnan(one) else spelt(one) for one, spelt in values)]


def _prefill_line(whole: EndToEnd) -> str:
    """Return how prompts are taken, in words."""
    alone, rules = format_seconds(whole.wait_s), whole.rules
    chunk = f" of {rules.chunk:g} tokens" if rules.chunk else ""
    if rules.shares_passes:
        drafts = "" if rules.drafts_beside else ", which then drafts nothing"
        how = f"passes{chunk} shared with decoding{drafts}; a prompt alone takes {alone}"
    else:
        how = f"passes{chunk} that stop the batch; a prompt alone takes {alone}"
    if whole.latency_s:
        how += f", and each request loses {format_seconds(whole.latency_s)}"
    return f"prefills counted, {whole.workload.requests}: {how}"


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
    """Return a source without what follows its colon, unless all of it is asked for."""
    return brief(Note(source, short=source.partition(": ")[0]))
