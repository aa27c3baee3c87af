"""Predicted values over measured ones, a mark for each point."""

from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

import numpy as np
from matplotlib.artist import Artist
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import EngFormatter, FuncFormatter, LogLocator, NullFormatter

from specroof.plot.style import GREY, add_legend, house_style, line_key, look, new_chart

#: A source, the measured value, the predicted value, and whether the mark is filled.
_Point: TypeAlias = tuple[str, float, float, bool]
_HOLLOW: Final = "none"


@house_style()
def plot_predicted(
    points: Sequence[_Point],
    title: str,
    what: str,
    *,
    meanings: Mapping[bool, str],
    ticks: Sequence[float] = (),
) -> Figure:
    """Draw predicted over measured values, a color for each source, over logarithmic axes.

    The line is where predictions are right, and the band is 10% either way.

    Parameters
    ----------
    points
        Source, measured value, predicted value, and whether the mark is filled.
    title, what
        Of the chart, and what is predicted.
    meanings
        What filled marks mean, and hollow ones.
    ticks
        Speedups that axes are ticked at, the last of them near their end; rates without any.
    """
    values = [value for _, *pair, _ in points for value in pair]
    ends = 0.8 * min(values), 1.25 * max(values)
    if ticks:
        ends = min(ends[0], 0.8 * ticks[1]), 1.1 * ticks[-1]
    chart = new_chart(title, width=7.4, height=6.0)
    axes = chart.add_subplot(xscale="log", yscale="log", xlim=ends, ylim=ends)
    line = np.array(ends)
    axes.plot(line, line, color=GREY, lw=1.2)
    axes.fill_between(line, line * 0.9, line * 1.1, color=GREY, alpha=0.15, lw=0)
    keys: list[Artist] = []
    for order, name in enumerate(dict.fromkeys(source for source, *_ in points)):
        mark, faces = look(order) | {"ls": ""}, list[str]()
        for is_filled in (True, False):
            pairs = [point[1:3] for point in points if (point[0], point[3]) == (name, is_filled)]
            if pairs:
                faces.append(mark["color"] if is_filled else _HOLLOW)
                axes.plot(*np.array(pairs).T, **mark, ms=5, mfc=faces[-1], alpha=0.75)
        keys.append(line_key(name, **mark, mfc=faces[0]))
    for is_filled, text in meanings.items():
        face = GREY if is_filled else _HOLLOW
        keys.append(line_key(text, marker="o", ls="", color=GREY, mfc=face))
    keys.append(Patch(color=GREY, alpha=0.15, lw=0, label="10% either way"))
    add_legend(chart, keys)
    for axis in (axes.xaxis, axes.yaxis):
        # Rates seldom span two decades.
        axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axis.set_major_formatter(EngFormatter(sep=""))
        axis.set_minor_formatter(NullFormatter())
        if ticks:
            axis.set_ticks([tick for tick in ticks if tick >= ends[0]])
            axis.set_ticks([], minor=True)
            axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}x"))
    axes.set_xlabel(f"Measured {what}")
    axes.set_ylabel(f"Predicted {what}")
    return chart
