"""Speedup, and measured acceptance, against draft length."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from specroof.acceptance.curve import Acceptance
from specroof.arrays import Array
from specroof.errors import OptionError
from specroof.plot.labels import Label, place_labels
from specroof.plot.style import (
    GREY,
    INK,
    add_legend,
    context_name,
    curve_names,
    house_style,
    look,
    marks_every,
    new_chart,
    plain_line,
    position,
    require_curves,
    speedup_label,
    speedup_limits,
)
from specroof.units import plain_number

if TYPE_CHECKING:
    from specroof.speedup.result import SpeedupCurve

#: With more lines than this the optima stand in the legend, where there is room.
_MOST_LABELS: Final = 8


@dataclass(frozen=True, eq=False)
class _DraftRow:
    """One curve at one context length and batch size."""

    name: str
    look: dict[str, Any]
    draft_len: Array
    speedup: Array
    free_lunch: Array
    best_draft_len: int
    best_speedup: float
    has_room: bool

    @property
    def optimum(self) -> str:
        return f"γ* = {self.best_draft_len}, {self.best_speedup:.2f}x"


@house_style()
def plot_speedup_by_draft_len(
    curves: "Sequence[SpeedupCurve]",
    *,
    context_index: int = 0,
    batch_index: int = 0,
    title: str | None = None,
) -> Figure:
    """Draw speedup against draft length, a line for each drafter, its optimum marked.

    The dashed line of the same colour is the free lunch: the speedup if drafting and the
    verification of more than one position cost nothing, which is the tokens per round unless
    prefills are counted.

    Parameters
    ----------
    curves
        From `speedup_curve`; they may differ in more than the drafter.
    context_index, batch_index
        Which context length and batch size of each.
    title
        What the curves have in common if None.

    Raises
    ------
    OptionError
        Without curves, or if one has no such context length or batch size.
    """
    require_curves(curves)
    shared, rows = _rows(curves, context_index, batch_index)
    chart = new_chart(shared if title is None else title, width=8, height=4.6)
    axes = chart.add_subplot()
    plain = plain_line(axes)
    for i, row in enumerate(rows):
        _draw(axes, row, twins=[other for other in rows if _same_line(row, other)], order=i)
    longest = max(float(row.draft_len[np.isfinite(row.speedup)].max(initial=0)) for row in rows)
    axes.set_xlim(-0.03 * max(longest, 1), 1.04 * max(longest, 1))
    axes.set_ylim(speedup_limits([row.speedup for row in rows]))
    axes.xaxis.set_major_locator(MaxNLocator(nbins=17, integer=True, min_n_ticks=1))
    axes.set_xlabel("Draft length γ (tokens per sequence and round)")
    axes.set_ylabel(speedup_label("Speedup", curves))
    add_legend(chart, [*_legend(rows, free_lunch=_free_lunch(curves)), plain])
    place_labels(chart, axes, _optima(rows) if len(rows) <= _MOST_LABELS else [])
    return chart


def _rows(
    curves: "Sequence[SpeedupCurve]", context_index: int, batch_index: int
) -> tuple[str, list[_DraftRow]]:
    """Return the words that all curves share, and each curve at its operating point."""
    places = [
        (
            position("context_index", context_index, curve.context_len),
            position("batch_index", batch_index, curve.batch_size),
        )
        for curve in curves
    ]
    points = [
        {
            "batch": f"batch {plain_number(curve.batch_size[batch])}",
            "context": context_name(curve, context),
        }
        for curve, (context, batch) in zip(curves, places, strict=True)
    ]
    shared, names = curve_names(curves, points)
    return shared, [
        _DraftRow(
            name=name,
            look=look(i),
            draft_len=curve.draft_len.astype(np.float64),
            speedup=curve.speedup[place],
            free_lunch=curve.free_lunch[place],
            best_draft_len=int(curve.best_draft_len[place]),
            best_speedup=float(curve.best_speedup[place]),
            has_room=bool(curve.drafts_run[place]),
        )
        for i, (name, curve, place) in enumerate(zip(names, curves, places, strict=True))
    ]


def _same_line(row: _DraftRow, other: _DraftRow) -> bool:
    return row.speedup.shape == other.speedup.shape and np.allclose(
        row.speedup, other.speedup, rtol=1e-3, equal_nan=True
    )


def _draw(axes: Axes, row: _DraftRow, *, twins: list[_DraftRow], order: int) -> None:
    """Draw the free lunch, the speedup and the optimum of one row, if its drafts have room.

    Rows that cannot be told apart share out the marks among them.
    """
    if not row.has_room:
        return
    color = row.look["color"]
    axes.plot(row.draft_len, row.free_lunch, color=color, lw=1.2, dashes=(4, 2.5), alpha=0.85)
    axes.plot(
        row.draft_len,
        row.speedup,
        **row.look,
        markevery=marks_every(len(row.draft_len), rank=twins.index(row), of=len(twins)),
        zorder=3 + 0.01 * order,
    )
    axes.plot(
        row.best_draft_len,
        row.best_speedup,
        **row.look,
        markersize=11,
        markeredgecolor=INK,
        markeredgewidth=1.2,
        linestyle="none",
        zorder=4 + 0.01 * order,
    )


def _free_lunch(curves: "Sequence[SpeedupCurve]") -> str:
    """Return the meaning of the dashed lines."""
    if any(curve.request_lengths for curve in curves):
        return "free lunch: every round costs a plain step"
    return "free lunch: speedup = tokens per round"


def _legend(rows: Sequence[_DraftRow], *, free_lunch: str) -> list[Artist]:
    """Return handles: a line for each row, then what dashes mean."""
    many = len(rows) > _MOST_LABELS
    optima = [
        f": {row.optimum}" if row.has_room and many else "" if row.has_room else ": no room"
        for row in rows
    ]
    return [
        *(
            Line2D([], [], **row.look, label=row.name + optimum)
            for row, optimum in zip(rows, optima, strict=True)
        ),
        Line2D([], [], color=GREY, lw=1.2, dashes=(4, 2.5), label=free_lunch),
    ]


def _optima(rows: Sequence[_DraftRow]) -> list[Label]:
    """Return a label for each optimum; equal ones share one."""
    found: dict[str, list[_DraftRow]] = {}
    drawn = [row for row in rows if row.has_room]
    for row in sorted(drawn, key=lambda row: (-row.best_speedup, row.best_draft_len)):
        found.setdefault(row.optimum, []).append(row)
    return [
        Label(
            x=same[0].best_draft_len,
            y=same[0].best_speedup,
            text=f"{text} ({len(same)} lines)" if len(same) > 1 else text,
            color=INK if len(same) > 1 else same[0].look["color"],
        )
        for text, same in found.items()
    ]


# --- Measured acceptance: survival and tokens per round against the depth of the draft ------------

#: A fitted law has no end; it is drawn this much further than what was measured.
_BEYOND: Final = 1.5
_LABELS: Final = (
    "First γ drafts all accepted (share of rounds)",
    "Tokens per round (bonus token included)",
)


@house_style()
def plot_acceptance(
    curves: Sequence[tuple[str, Acceptance]],
    *,
    fits: Sequence[tuple[str, Acceptance]] = (),
    title: str = "Measured acceptance",
) -> Figure:
    """Draw survival and tokens per round against draft length, a line for each curve.

    Parameters
    ----------
    curves
        Measured ones, each with its name, up to the depth that it was measured to.
    fits
        Laws to draw dashed, past that depth too.
    title
        Of the chart.

    Raises
    ------
    OptionError
        Without curves, or for an endless curve.
    """
    depths = [curve.max_draft_len for _, curve in curves]
    if not depths or None in depths:
        message = "curves is empty, or holds one without end; allowed: one or more measured curves"
        raise OptionError(message)
    deepest = max(depth for depth in depths if depth is not None)
    chart = new_chart(title, width=9, height=4)
    axes = chart.subplots(1, 2)
    handles: list[Artist] = []
    for i, (name, curve) in enumerate((*curves, *fits)):
        depth = curve.max_draft_len or int(np.ceil(_BEYOND * deepest))
        drafts = np.arange(depth + 1)
        style = look(i) | ({"marker": "", "ls": "--"} if i >= len(curves) else {})
        for panel, values in zip(axes, (curve.survival, curve.tokens_per_round), strict=True):
            panel.plot(drafts, values(drafts), **style)
        handles.append(Line2D([], [], label=name, **style))
    for panel, label in zip(axes, _LABELS, strict=True):
        panel.set_xlabel("Draft length γ")
        panel.set_ylabel(label)
        panel.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes[0].set_ylim(0, 1.03)
    add_legend(chart, handles)
    return chart
