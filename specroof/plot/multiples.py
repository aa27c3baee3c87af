"""A study as small multiples: a panel for each model and chip, a page at most for each chart."""

import itertools
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import matplotlib as mpl
import numpy as np
import numpy.typing as npt
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator

from specroof.arrays import Array, grouped
from specroof.plot.lines import Line, Panel, draw_panel, looks_of, plain_key
from specroof.plot.style import (
    NO_ROOM,
    add_legend,
    draw_cells,
    engine_name,
    house_style,
    line_key,
    new_chart,
    short_number,
    tick_at,
    tick_cells,
    wrapped,
)
from specroof.units import three_digits

if TYPE_CHECKING:
    from specroof.speedup.overview import Overview

#: Panels of a page, and lines of a panel.
_MOST_ROWS: Final = 5
_MOST_COLUMNS: Final = 5
_MOST_LINES: Final = 8
_MOST_TICKS: Final = 5


@dataclass(frozen=True, slots=True)
class _Page:
    """Curves of the panels of one page: a row for each model, a column for each setup."""

    models: Sequence[str]
    setups: Sequence[str]
    panels: "Mapping[tuple[str, str], list[Overview]]"

    @property
    def overviews(self) -> "list[Overview]":
        """The curves of all panels."""
        return [*itertools.chain.from_iterable(self.panels.values())]


def study_figures(overviews: "Sequence[Overview]") -> dict[str, Figure]:
    """Return every chart of a study, by the name of its file without an ending.

    Parameters
    ----------
    overviews
        The best of each curve at some of its loads.
    """
    figures: dict[str, Figure] = {}
    for workload, members in grouped(overviews, lambda one: one.requests and one.workload).items():
        load = f"-workload-{workload}" if workload else ""
        axis = "context"
        if _is_by_batch(members[0]):
            axis = "rate" if members[0].is_by_rate else "batch"
        for ending, page in _pages(members):
            figures[f"best-speedup-by-{axis}{load}{ending}"] = _lines_chart(page)
        if min(members[0].best_speedup.shape) > 1:
            for drafter, own in grouped(members, lambda one: one.drafter_number).items():
                for ending, page in _pages(own):
                    figures[f"best-speedup-map{load}-{drafter}{ending}"] = _maps_chart(page)
    return figures


def _is_by_batch(overview: "Overview") -> bool:
    """Return whether lines are over batch sizes: over contexts where only those are several."""
    return overview.batch_size.size > 1 or overview.context_len.size == 1


def _setup(overview: "Overview") -> str:
    return f"{overview.devices} x {overview.hardware}\n{engine_name(overview.engine)}"


def _pages(overviews: "Sequence[Overview]") -> Iterator[tuple[str, _Page]]:
    """Yield pages, and what their file names end in: nothing for the first."""
    curves = grouped(overviews, lambda overview: (overview.model, _setup(overview)))
    models, setups = (list(dict.fromkeys(names)) for names in zip(*curves, strict=True))
    number = 0
    for row in range(0, len(models), _MOST_ROWS):
        for column in range(0, len(setups), _MOST_COLUMNS):
            rows = models[row : row + _MOST_ROWS]
            columns = setups[column : column + _MOST_COLUMNS]
            shown = {key: curves[key] for key in itertools.product(rows, columns) if key in curves}
            if shown:
                number += 1
                yield "" if number == 1 else f"-{number}", _Page(rows, columns, shown)


@house_style()
def _lines_chart(page: _Page) -> Figure:
    """Draw the best speedup against the batch size, a line for each drafter."""
    # The drafters that are drawn: of many, those that gain most.
    groups = grouped(page.overviews, lambda overview: overview.drafter)
    gains = {drafter: _highest(members) for drafter, members in groups.items()}
    best = sorted(gains, key=lambda drafter: -gains[drafter])[:_MOST_LINES]
    drafters = [drafter for drafter in gains if drafter in best]
    first = page.overviews[0]
    by_batch, middle = _is_by_batch(first), first.context_len.size // 2
    at = first.requests or f"context {short_number(first.context_len[middle])}"
    if not by_batch:
        load = three_digits(first.batch_size[0])
        at = f"{load} requests/s" if first.is_by_rate else f"batch {load}"
    chart, panels = _panels(page, f"{_most(page)} over plain decoding, {at}")
    looks = looks_of(drafters)
    for key, axes in panels.items():
        lines = []
        for overview in page.panels[key]:
            if overview.drafter in drafters:
                x = overview.batch_size if by_batch else overview.context_len
                gain = _with_drafts(overview)
                y = gain[overview.context_len.size // 2] if by_batch else gain[:, 0]
                lines.append(Line(overview.drafter, x, y, look={"ms": 3, "lw": 1.2}))
        draw_panel(axes, Panel(axes.get_ylabel(), lines, "doublings"), looks)
        axes.yaxis.label.set_fontsize("x-small")
        if by_batch:
            axes.set_xscale("log", base=2)
        values = first.batch_size if by_batch else first.context_len
        places = values[_spread(values)]
        tick_at(axes.xaxis, places, [short_number(value) for value in places])
        steps = _gain_steps(*axes.get_ylim())
        tick_at(axes.yaxis, steps, [f"{step:.3g}" for step in steps])
    _label_x(panels, _load_axis(first) if by_batch else "Context length (tokens)")
    chart.supylabel("Best speedup (×)")
    handles: list[Artist] = [
        line_key(wrapped(drafter), **looks[drafter], ms=4) for drafter in drafters
    ]
    handles.append(plain_key())
    if any((overview.drafts_run == 0).any() for overview in page.overviews):
        handles.append(line_key("a line ends where drafts have no room", ls=""))
    add_legend(chart, handles)
    return chart


def _highest(overviews: "Sequence[Overview]") -> float:
    return max(float(np.nan_to_num(overview.best_speedup).max()) for overview in overviews)


def _most(page: _Page) -> str:
    """Return the best speedup of a page in words: bounds of textbooks apart, where others are."""
    groups = grouped(page.overviews, lambda one: "ideal" in {one.engine, one.drafter})
    apart = f" (ideal: {_highest(groups[True]):.2f}x)" if len(groups) > 1 else ""
    return f"Up to {_highest(groups.get(False) or groups[True]):.2f}x{apart}"


def _with_drafts(overview: "Overview") -> Array:
    """Return the best speedup where drafts run: elsewhere 1 says nothing of them."""
    return np.where(overview.drafts_run == 1, overview.best_speedup, np.nan)


def _load_axis(overview: "Overview") -> str:
    return "Requests/s" if overview.is_by_rate else "Batch size (sequences)"


def _label_x(panels: Mapping[tuple[str, str], Axes], text: str) -> None:
    """Name the axis below the lowest panel of the middle column."""
    columns = sorted({axes.get_position().x0 for axes in panels.values()})
    middle = columns[(len(columns) - 1) // 2]
    own = [axes for axes in panels.values() if axes.get_position().x0 == middle]
    own[-1].set_xlabel(text)


@house_style()
def _maps_chart(page: _Page) -> Figure:
    """Draw the best speedup of one drafter over batch sizes and context lengths."""
    chart, panels = _panels(page, f"{_most(page)} with {page.overviews[0].drafter}")
    top = max(_highest(page.overviews), 1.01)
    norm, colors = LogNorm(1, top), mpl.colormaps["viridis"]
    for overview in page.overviews:
        axes = panels[overview.model, _setup(overview)]
        gains, full = np.ma.masked_invalid(_with_drafts(overview)), np.isnan(overview.best_speedup)
        draw_cells(axes, gains, full, cmap=colors, norm=norm)
        for axis, values in ((axes.xaxis, overview.batch_size), (axes.yaxis, overview.context_len)):
            tick_cells(axis, values, _spread(values))
    bar = chart.colorbar(
        ScalarMappable(norm, colors), ax=list(panels.values()), label="Best speedup", shrink=0.8
    )
    # The top is written, and no step whose number would lie on it.
    steps = [*(step for step in _gain_steps(1, top) if step < top**0.9), top]
    tick_at(bar.ax.yaxis, steps, [f"{step:.3g}" for step in steps])
    _label_x(panels, _load_axis(page.overviews[0]))
    chart.supylabel("Context length (tokens)")
    add_legend(chart, [Patch(color=grey, label=why) for why, grey in NO_ROOM.items()])
    return chart


def _panels(page: _Page, title: str) -> tuple[Figure, dict[tuple[str, str], Axes]]:
    """Return a page of empty panels by model and setup: a table, or a row after the other.

    A table has a row for each model and a column for each setup, unless most of it were empty.
    """
    rows, columns = len(page.models), len(page.setups)
    is_table = 2 * len(page.panels) > rows * columns
    if not is_table:
        columns = min(_MOST_COLUMNS, int(np.ceil(np.sqrt(len(page.panels)))))
        rows = -(-len(page.panels) // columns)
    chart = new_chart(title, width=max(1.2 + 3.2 * columns, 6.0), height=max(1.0 + 1.9 * rows, 3.2))
    grid = chart.subplots(rows, columns, sharex=True, sharey=True, squeeze=False)
    panels: dict[tuple[str, str], Axes] = {}
    for number, (model, setup) in enumerate(page.panels):
        place = divmod(number, columns)
        if is_table:
            place = page.models.index(model), page.setups.index(setup)
        axes = panels[model, setup] = grid[place]
        if not is_table or place[0] == 0:
            axes.set_title(setup if is_table else f"{model}\n{setup}", fontsize="x-small")
        if is_table and place[1] == 0:
            axes.set_ylabel("\n".join(textwrap.wrap(model, 18)[:3]), fontsize="x-small")
    for place, axes in np.ndenumerate(grid):
        if axes not in panels.values():
            axes.set_axis_off()
            if is_table:
                axes.text(0.5, 0.5, "not in the study", ha="center", transform=axes.transAxes)
            if place[0]:  # the panel above it is the lowest of its column
                grid[place[0] - 1, place[1]].tick_params(labelbottom=True)
    return chart, panels


def _spread(values: Array) -> npt.NDArray[np.int_]:
    """Return the places of a few values that get a tick, the ends among them."""
    return np.unique(np.linspace(0, values.size - 1, _MOST_TICKS).round().astype(int))


def _gain_steps(low: float, high: float) -> list[float]:
    """Return speedups to write along a logarithmic axis: doublings where some are within it.

    Examples
    --------
    >>> _gain_steps(0.9, 9.5), _gain_steps(1.0, 1.31)
    ([1.0, 2.0, 4.0, 8.0], [1.0, 1.1, 1.2, 1.3])
    """
    doublings = 2.0 ** np.arange(np.ceil(np.log2(low)), np.log2(high) + 1)
    finer = MaxNLocator(nbins=6, steps=[1, 2, 5, 10]).tick_values(low, high)  # 1 is among them
    values = np.round(finer if high < 4 * low else doublings, 3).tolist()
    return [step for step in values if low <= step <= high]
