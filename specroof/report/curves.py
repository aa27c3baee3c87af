"""Speedup curves as tables for people."""

from collections.abc import Iterator, Sequence
from itertools import product

import numpy as np

from specroof.questions.predict import EndToEnd
from specroof.report.layout import format_table, in_line
from specroof.speedup.curve import SpeedupCurve
from specroof.units import format_seconds

__all__ = ["counted_table", "curves_table", "pays_lines", "source_lines"]


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
    plain = (
        f"context {first.context_len[0]:g}, batch {batch:g}: a plain step takes "
        f"{format_seconds(step_s)}, {batch / step_s:.0f} tok/s, {1 / step_s:.1f} per user"
    )
    header = ["best γ", "speedup", "within 1%", "tokens", "tok/s", "drafter"]
    rows = [[*cells[:5], curve.drafter] for curve in curves for cells in _best_cells(curve)]
    return f"{plain}\n\n{format_table(header, rows, left=[5])}"


def _one_drafter(curve: SpeedupCurve) -> str:
    header = ["context", "batch", "step", "best γ", "speedup", "within 1%", "tok/round"]
    points = product(curve.context_len, curve.batch_size)
    rows = [
        [f"{context:g}", f"{batch:g}", format_seconds(float(step_s)), *cells]
        for (context, batch), step_s, cells in zip(
            points, curve.decode_s.ravel(), _best_cells(curve), strict=True
        )
    ]
    table = format_table([*header, "tok/s", "per user"], rows, left=[])
    return f"{in_line(curve.drafter)}\n{table}"


def _best_cells(curve: SpeedupCurve) -> Iterator[list[str]]:
    """Yield what a table says of each operating point of a curve, contexts outermost."""
    best = curve.best_draft_len
    shortest, longest = curve.near_best(0.01)
    at_best = [
        np.take_along_axis(array, best[..., None], axis=-1).ravel()
        for array in (curve.tokens_per_round, curve.tokens_per_s, curve.tokens_per_s_per_user)
    ]
    columns = (best, curve.best_speedup, shortest, longest)
    for draft_len, speedup, low, high, tokens, rate, user_rate in zip(
        *(column.ravel() for column in columns), *at_best, strict=True
    ):
        yield [
            str(draft_len),
            f"{speedup:.2f}x",
            _span(low, high),
            f"{tokens:.2f}",
            f"{rate:.0f}",
            f"{user_rate:.1f}",
        ]


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
    """Return the runs of batch sizes whose best draft length is 0."""
    order = np.argsort(curve.batch_size)
    runs: list[tuple[float, float]] = []
    lost_before = False
    for batch, best in zip(curve.batch_size[order], curve.best_draft_len[i, order], strict=True):
        if best == 0:
            start = runs.pop()[0] if lost_before else batch
            runs.append((start, batch))
        lost_before = bool(best == 0)
    return ", ".join(_span(*run) for run in runs) or "none"


def counted_table(curves: Sequence[SpeedupCurve], counted: Sequence[EndToEnd]) -> str:
    """Return what is left of each best speedup with prefills counted.

    Parameters
    ----------
    curves
        Of decoding alone, as `curves_table` has them.
    counted
        The same with prefills.
    """
    header = ["batch", "decoding", "prefill", "best γ", "speedup", "tok/s", "drafter"]
    rows = []
    for curve, whole in zip(curves, counted, strict=True):
        best = whole.curve.best_draft_len[0]
        arrays = (whole.effective_batch, whole.prefill_frac, whole.speedup, whole.tokens_per_s)
        at_best = (np.take_along_axis(array[0], best[:, None], axis=-1)[:, 0] for array in arrays)
        for batch, draft_len, effective, share, speedup, rate in zip(
            curve.batch_size, best, *at_best, strict=True
        ):
            rows.append(
                [
                    f"{batch:g}",
                    f"{effective:.1f}",
                    f"{share:.1%}",
                    str(draft_len),
                    f"{speedup:.2f}x",
                    f"{rate:.0f}",
                    curve.drafter,
                ]
            )
    first = counted[0]
    title = f"prefills counted, {first.workload.requests}: each stops the batch for "
    title += f"{format_seconds(first.wait_s)}"
    if first.latency_s:
        title += f", and loses {format_seconds(first.latency_s)} alone"
    return f"{title}\n{format_table(header, rows, left=[6])}"


def source_lines(curves: Sequence[SpeedupCurve]) -> str:
    """Return, per drafter, where its cost and its acceptance come from."""
    return "\n".join(
        in_line(
            f"{curve.drafter}: cost from {curve.cost_from or 'the drafter'}; "
            f"acceptance: {curve.acceptance_from or 'as given'}"
        )
        for curve in curves
    )
