"""Predicted values over measured ones, a mark for each point."""

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import EngFormatter, FuncFormatter, LogLocator, NullFormatter, NullLocator

from specroof.plot.style import GREY, Chart, add_legend, house_style, look, new_chart

#: A source, the measured value, the predicted value, and whether the mark is filled.
_Point: TypeAlias = tuple[str, float, float, bool]


def predicted_over_measured(
    title: str,
    points: Sequence[_Point],
    ends: tuple[float, float],
    *,
    of: str,
    meanings: tuple[str, str],
    speedups: Sequence[float] = (),
) -> Chart:
    """Draw predicted over measured values, a color for each source, over logarithmic axes.

    The line is where predictions are right, and the band is 10% either way.

    Parameters
    ----------
    title
        The title of the chart.
    points
        Source, measured value, predicted value, and whether the mark is filled.
    ends
        The least and the largest value of both axes.
    of
        What is compared, as the axes are labelled.
    meanings
        What filled marks are, and hollow ones.
    speedups
        Where axes of speedups are ticked; none for axes of rates.
    """
    with house_style():
        chart, axes = _scattered(title, points, ends, meanings)
        for axis, which in ((axes.xaxis, "Measured"), (axes.yaxis, "Predicted")):
            _tick(axis, speedups)
            axis.set_label_text(f"{which} {of}")
        return chart


def _scattered(
    title: str, points: Sequence[_Point], ends: tuple[float, float], meanings: tuple[str, str]
) -> tuple[Chart, Axes]:
    """Return the marks, the band, and the legend."""
    chart = new_chart(title, width=7.4, height=6.0)
    axes = chart.add_subplot(xscale="log", yscale="log", xlim=ends, ylim=ends)
    line = np.array(ends)
    axes.plot(line, line, color=GREY, lw=1.2)
    axes.fill_between(line, line * 0.9, line * 1.1, color=GREY, alpha=0.15, lw=0)
    handles: list[Artist] = []
    for order, name in enumerate(dict.fromkeys(source for source, *_ in points)):
        mark, faces = look(order) | {"ls": ""}, list[str]()
        for is_filled in (True, False):
            pairs = [point[1:3] for point in points if (point[0], point[3]) == (name, is_filled)]
            if pairs:
                faces.append(mark["color"] if is_filled else "none")
                axes.plot(*np.array(pairs).T, **mark, ms=5, mfc=faces[-1], alpha=0.75)
        handles.append(Line2D([], [], **mark, mfc=faces[0], label=name))
    handles += [
        Line2D([], [], marker="o", ls="", color=GREY, mfc=face, label=text)
        for face, text in zip((GREY, "none"), meanings, strict=True)
    ]
    handles.append(Patch(color=GREY, alpha=0.15, lw=0, label="10% either way"))
    add_legend(chart, handles)
    return chart, axes


def _tick(axis: Axis, speedups: Sequence[float]) -> None:
    """Put speedups, such as 1.5x, at these places; or a few rates, such as 2k, in each decade."""
    if speedups:
        axis.set_major_locator(NullLocator())
        axis.set_ticks(speedups)
        axis.set_minor_locator(NullLocator())
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}x"))
    else:  # loads seldom span two decades
        axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axis.set_major_formatter(EngFormatter(sep=""))
        axis.set_minor_formatter(NullFormatter())
