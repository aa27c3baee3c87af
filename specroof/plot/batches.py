"""Best speedup and best draft length over batch sizes and context lengths."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import matplotlib as mpl
import numpy as np
import numpy.typing as npt
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator

from specroof.arrays import Array
from specroof.plot.curves import plot_speedup_by_draft_len
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
    short_number,
    speedup_label,
    speedup_limits,
    thin_ticks,
    tick_at,
)

if TYPE_CHECKING:
    from specroof.speedup.result import SpeedupCurve

_NEAR: Final = 0.01
_NO_ROOM: Final = "no room for drafts"
_MOST_NUMBERS: Final = 150  # cells; the map of more is read by its colours
_MOST_TICKS: Final = 16
_FULL: Final = "#D9D9D9"  # cells of a map where drafts have no room
#: Batch sizes are written out until they get as long as this.
_PLAIN_BATCHES: Final = 10_000


@dataclass(frozen=True, eq=False)
class _BatchRow:
    """The best of one curve at one context length, by ascending batch size.

    NaN where the server has no room for drafts: a speedup of 1 would say that they do not pay.
    """

    name: str
    look: dict[str, Any]
    speedup_label: str
    batch_size: Array
    speedup: Array
    draft_len: Array
    shortest: Array
    longest: Array


@house_style()
def plot_speedup_by_batch(
    curves: "Sequence[SpeedupCurve]", *, context_index: int = 0, title: str | None = None
) -> Figure:
    """Draw the best speedup against the batch size, a line for each curve.

    Parameters
    ----------
    curves
        From `speedup_curve`; the legend names what they differ in.
    context_index
        Which context length of each.
    title
        What the curves have in common if None.

    Raises
    ------
    OptionError
        Without curves, or if one has no such context length.
    """
    return _by_batch(curves, context_index, title, (_draw_speedup,), height=4.2)


@house_style()
def plot_draft_len_by_batch(
    curves: "Sequence[SpeedupCurve]", *, context_index: int = 0, title: str | None = None
) -> Figure:
    """Draw the best draft length against the batch size, and the drafts within 1% of the best.

    Parameters
    ----------
    curves
        From `speedup_curve`; the legend names what they differ in.
    context_index
        Which context length of each.
    title
        What the curves have in common if None.

    Raises
    ------
    OptionError
        Without curves, or if one has no such context length.
    """
    return _by_batch(curves, context_index, title, (_draw_draft_len,), height=4.2)


@house_style()
def plot_by_batch(
    curves: "Sequence[SpeedupCurve]", *, context_index: int = 0, title: str | None = None
) -> Figure:
    """Draw best speedup above best draft length, both against the batch size.

    Parameters
    ----------
    curves
        From `speedup_curve`; the legend names what they differ in.
    context_index
        Which context length of each.
    title
        What the curves have in common if None.

    Raises
    ------
    OptionError
        Without curves, or if one has no such context length.
    """
    return _by_batch(curves, context_index, title, (_draw_speedup, _draw_draft_len), height=6.6)


def _by_batch(
    curves: "Sequence[SpeedupCurve]",
    context_index: int,
    title: str | None,
    parts: "Sequence[Callable[[Axes, Sequence[_BatchRow]], Artist]]",
    *,
    height: float,
) -> Figure:
    """Return a chart with parts above one another, the first half as high again as the second."""
    shared, rows = _rows(curves, context_index)
    chart = new_chart(shared if title is None else title, width=8, height=height)
    panels = chart.subplots(
        len(parts), 1, sharex=True, squeeze=False, height_ratios=(3, 2)[: len(parts)]
    )[:, 0]
    told = [draw(axes, rows) for draw, axes in zip(parts, panels, strict=True)]
    _finish_batch_axis(panels[-1], rows)
    lines = [Line2D([], [], **row.look, label=row.name) for row in rows]
    add_legend(chart, [*lines, *told, *_mark_no_room(panels[0], rows)])
    return chart


def _rows(curves: "Sequence[SpeedupCurve]", context_index: int) -> tuple[str, list[_BatchRow]]:
    """Return the words that all curves share, and the best of each at its context length."""
    require_curves(curves)
    contexts = [position("context_index", context_index, curve.context_len) for curve in curves]
    points = [
        {"context": context_name(curve, context)}
        for curve, context in zip(curves, contexts, strict=True)
    ]
    shared, names = curve_names(curves, points)
    rows = []
    for i, (name, curve, context) in enumerate(zip(names, curves, contexts, strict=True)):
        ascending = np.argsort(curve.batch_size, kind="stable")
        room = curve.drafts_run[context, ascending]
        best, speedup, shortest, longest = (
            np.where(room, values[context, ascending], np.nan)
            for values in (curve.best_draft_len, curve.best_speedup, *curve.near_best(_NEAR))
        )
        rows.append(
            _BatchRow(
                name=name,
                look=look(i),
                speedup_label=speedup_label("Best speedup", curves),
                batch_size=curve.batch_size[ascending],
                speedup=speedup,
                draft_len=best,
                shortest=shortest,
                longest=longest,
            )
        )
    return shared, rows


def _draw_speedup(axes: Axes, rows: Sequence[_BatchRow]) -> Artist:
    plain = plain_line(axes)
    for row in rows:
        turn = _turn(row.speedup, [other.speedup for other in rows])
        axes.plot(row.batch_size, row.speedup, **row.look, markevery=turn)
    axes.set_ylim(speedup_limits([row.speedup for row in rows]))
    axes.set_ylabel(rows[0].speedup_label)
    return plain


def _mark_no_room(axes: Axes, rows: Sequence[_BatchRow]) -> Sequence[Artist]:
    """Cross out the batch sizes at which a drafter has no room, and return what crosses mean."""
    full = np.unique(np.concatenate([row.batch_size[np.isnan(row.speedup)] for row in rows]))
    if not full.size:
        return []
    return axes.plot(full, np.ones(full.size), ls="", marker="x", color=GREY, label=_NO_ROOM)


def _draw_draft_len(axes: Axes, rows: Sequence[_BatchRow]) -> Artist:
    """Draw lines and bands; each line is thinner than the one below, which whole numbers hide."""
    for i, row in enumerate(rows):
        axes.fill_between(
            row.batch_size, row.shortest, row.longest, color=row.look["color"], alpha=0.16, lw=0
        )
        axes.plot(
            row.batch_size,
            row.draft_len,
            **row.look,
            lw=3 - 1.6 * i / len(rows),
            ms=8 - 3.5 * i / len(rows),
            markevery=_turn(row.draft_len, [other.draft_len for other in rows]),
        )
    highest = max(float(np.nanmax(row.longest, initial=0)) for row in rows)
    axes.set_ylim(-0.06 * max(highest, 1), 1.08 * max(highest, 1))
    axes.yaxis.set_major_locator(MaxNLocator(nbins=9, integer=True, min_n_ticks=1))
    axes.set_ylabel("Best draft length γ (tokens)")
    return Patch(color=GREY, alpha=0.25, lw=0, label=f"drafts within {_NEAR:.0%} of the best")


def _turn(values: Array, lines: Sequence[Array]) -> tuple[int, int]:
    """Return the points that get a marker; lines that lie on one another share them out."""
    twins = [id(line) for line in lines if np.array_equal(line, values, equal_nan=True)]
    return marks_every(len(values), rank=twins.index(id(values)), of=len(twins))


def _finish_batch_axis(axes: Axes, rows: Sequence[_BatchRow]) -> None:
    batches = np.unique(np.concatenate([row.batch_size for row in rows]))
    axes.set_xscale("log", base=2)
    margin = max(float(batches[-1] / batches[0]) ** 0.03, 2**0.1)
    axes.set_xlim(float(batches[0]) / margin, float(batches[-1]) * margin)
    texts = {batch: short_number(batch, plain_below=_PLAIN_BATCHES) for batch in batches.tolist()}
    longest = max(len(text) for text in texts.values())
    ticks = thin_ticks(batches, share=0.015 * (1 + longest))
    tick_at(axes.xaxis, ticks, [texts[tick] for tick in ticks.tolist()])
    axes.set_xlabel("Batch size (sequences)")


# --- batch x context ---------------------------------------------------------------------------


@house_style()
def plot_best_draft_len_map(curve: "SpeedupCurve", *, title: str | None = None) -> Figure:
    """Draw the best draft length over batch size and context length, as a heat map.

    Parameters
    ----------
    curve
        From `speedup_curve`, over a list of batch sizes and of context lengths.
    title
        Model, hardware, engine and drafter if None.
    """
    room = curve.drafts_run
    best = np.ma.MaskedArray(curve.best_draft_len, mask=~room)
    rows, columns = best.shape
    if title is None:
        shared, names = curve_names([curve], [{}])
        title = f"{shared}\ndrafter: {names[0]}"
    chart = new_chart(
        title,
        width=float(np.clip(2.6 + 0.46 * columns, 6, 11)),
        height=float(np.clip(1.6 + 0.36 * rows, 3, 8)),
    )
    axes = chart.add_subplot()
    axes.grid(visible=False)
    known = curve.best_draft_len[room]
    lowest, highest = int(known.min(initial=known.max(initial=0))), int(known.max(initial=0))
    image = axes.imshow(
        best,
        cmap=mpl.colormaps["viridis"].resampled(highest - lowest + 1),
        vmin=lowest - 0.5,
        vmax=highest + 0.5,
        aspect="auto",
        origin="lower",
        interpolation="nearest",
    )
    ticks = MaxNLocator(nbins=9, integer=True, min_n_ticks=1)
    chart.colorbar(image, label="Best draft length γ (tokens)", ticks=ticks)
    if best.size <= _MOST_NUMBERS and columns <= _MOST_TICKS + 4:
        _write_numbers(axes, image, best)
    _index_ticks(axes, curve)
    axes.set_xlabel("Batch size (sequences)")
    axes.set_ylabel("Context length (tokens)")
    if not room.all():
        axes.set_facecolor(_FULL)
        add_legend(chart, [Patch(color=_FULL, label=_NO_ROOM)])
    return chart


def _write_numbers(axes: Axes, image: AxesImage, best: npt.NDArray[np.int64]) -> None:
    # Rec. 709 luma: dark cells take light numbers.
    luma = np.asarray(image.to_rgba(best))[..., :3] @ [0.2126, 0.7152, 0.0722]
    for row, column in np.argwhere(~np.ma.getmaskarray(best)):
        color = INK if luma[row, column] > 0.5 else "white"
        axes.text(column, row, f"{best[row, column]}", ha="center", va="center", color=color)


def _index_ticks(axes: Axes, curve: "SpeedupCurve") -> None:
    """Write batch sizes and context lengths at their cells, not each where there are many."""
    batches = [short_number(batch, plain_below=_PLAIN_BATCHES) for batch in curve.batch_size]
    contexts = [short_number(context) for context in curve.context_len]
    for axis, texts in ((axes.xaxis, batches), (axes.yaxis, contexts)):
        step = -(-len(texts) // _MOST_TICKS)
        tick_at(axis, np.arange(0, len(texts), step), texts[::step])


# --- All charts of a grid ------------------------------------------------------------------------


def speedup_figures(curves: "Sequence[SpeedupCurve]") -> dict[str, Figure]:
    """Return the charts that a grid can show, by the endings of their files; the first has none."""
    figures = {"": plot_speedup_by_draft_len(curves)}
    if len(curves[0].batch_size) > 1:
        figures["-by-batch"] = plot_by_batch(curves)
    if len(curves[0].context_len) > 1:
        figures["-map"] = plot_best_draft_len_map(curves[0])
    return figures
