"""Break-even points against the load."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from specroof.plot.style import (
    COLORS,
    GREY,
    add_legend,
    house_style,
    look,
    new_chart,
    short_number,
    thin_ticks,
    tick_at,
)

if TYPE_CHECKING:
    from matplotlib.artist import Artist

    from specroof.questions.breakeven import Breakeven, Row

_LABELS: Final = {
    "accept": "Least acceptance rate",
    "accept-length": "Least acceptance length (tokens)",
    "cost": "Largest cost of drafting",
    "batch": "Batches that pay (sequences)",
    "context": "Contexts that pay (tokens)",
}


@house_style()
def plot_breakeven(found: "Breakeven") -> Figure:
    """Draw the answer against the load: a line of values, or the runs of loads that pay.

    Parameters
    ----------
    found
        From `specroof.breakeven`.
    """
    chart = new_chart(f"{found.title}\n{found.sought}", width=8, height=4.2)
    axes = chart.add_subplot()
    axes.set_xscale("log", base=2)
    drawn = _draw_runs if found.solve in _RUNS else _draw_values
    handles = drawn(axes, found)
    axes.set_ylabel(_LABELS[found.solve])
    add_legend(chart, handles)
    return chart


_RUNS: Final = {"batch": "Context (tokens)", "context": "Batch size (sequences)"}


def _draw_values(axes: Axes, found: "Breakeven") -> "Sequence[Artist]":
    """Draw a line for each context over batch sizes, and marks where it never pays."""
    lines: dict[float, list[Row]] = {}
    for row in found.rows:
        lines.setdefault(row.context_len or 0.0, []).append(row)
    handles: list[Artist] = []
    for i, (context, rows) in enumerate(lines.items()):
        places = [row.place for row in rows]
        values = [np.nan if row.value is None else row.value for row in rows]
        axes.plot(places, values, **look(i))
        handles.append(Line2D([], [], **look(i), label=f"context {short_number(context)}"))
    known = [row.value for row in found.rows if row.value is not None]
    top = max(known, default=1.0) * 1.08 or 1.0
    axes.set_ylim(0.0 if found.solve != "accept-length" else min([1.0, *known]), top)
    never = [row.place for row in found.rows if row.value is None]
    if never:
        axes.plot(never, [top * 0.97] * len(never), ls="", marker="x", color=GREY, clip_on=False)
        label = "never reached" + " or no room" * any(row.room_ends for row in found.rows)
        handles.append(Line2D([], [], ls="", marker="x", color=GREY, label=label))
    _ticks(axes, [row.place for row in found.rows], "Batch size (sequences)")
    return handles


def _draw_runs(axes: Axes, found: "Breakeven") -> "Sequence[Artist]":
    """Draw a bar for each run of batches or contexts that pay, over the other load."""
    places = [max(row.place, 1.0) for row in found.rows]  # the axis has no 0
    for place, row in zip(places, found.rows, strict=True):
        for first, last in row.runs:
            axes.plot(
                [place] * 2,
                [first, max(last, first * 1.02)],
                color=COLORS[0],
                lw=7,
                solid_capstyle="butt",
            )
        if not row.runs:
            axes.plot([place], [1], ls="", marker="x", color=GREY)
    axes.set_yscale("log", base=2)
    lasts = [last for row in found.rows for _, last in row.runs]
    axes.set_ylim(0.8, 1.6 * max(lasts, default=2))
    ends = 2.0 ** np.arange(0, np.ceil(np.log2(1.6 * max(lasts, default=2))))
    shown = thin_ticks(ends, share=0.07)
    tick_at(axes.yaxis, shown, [short_number(end) for end in shown])
    _ticks(axes, [row.place for row in found.rows], _RUNS[found.solve])
    bar = Line2D([], [], color=COLORS[0], lw=7, label=f"{found.speedup:g}x or more")
    never = Line2D([], [], ls="", marker="x", color=GREY, label="never reached")
    return [bar, never][: 1 if all(row.runs for row in found.rows) else 2]


def _ticks(axes: Axes, places: Sequence[float], label: str) -> None:
    texts = {max(place, 1.0): short_number(place) for place in places}
    known = sorted(texts)
    axes.set_xlim(known[0] / 1.2, known[-1] * 1.2)
    shown = thin_ticks(known, share=0.05) if len(known) > 1 else np.array(known)
    tick_at(axes.xaxis, shown, [texts[place] for place in shown.tolist()])
    axes.set_xlabel(label)
