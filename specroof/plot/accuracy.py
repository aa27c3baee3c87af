"""Predicted against measured speedup: how far to trust a prediction, at a glance."""

from collections.abc import Iterable
from typing import Final, Protocol

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, NullLocator

from specroof.plot.style import COLORS, GREY, MARKERS, add_legend, house_style, new_chart

__all__ = ["plot_accuracy"]

_TICKS: Final = (0.5, 1, 1.5, 2, 3, 4, 5, 6, 8)


class Compared(Protocol):
    """A prediction beside a measurement; `specroof.validate.Scored` is one."""

    @property
    def source(self) -> str:
        """Who measured."""

    @property
    def kind(self) -> str:
        """``"speedup"``, ``"shape"`` or another, which is not drawn."""

    @property
    def predicted(self) -> float:
        """What the library says."""

    @property
    def measured(self) -> float:
        """What was measured."""


@house_style()
def plot_accuracy(points: Iterable[Compared], *, title: str | None = None) -> Figure:
    """Draw predicted against measured speedup, a colour for each source.

    The band is 10% either way. Filled points know their acceptance length; hollow ones are
    right but for one factor per group. Each source is predicted by fits that have not seen it.

    Parameters
    ----------
    points
        The `points` of a `specroof.validate.Validation`.
    title
        What the chart says of itself if None.
    """
    # A shape may be one of throughput, where a source prints no speedup.
    drawn = [one for one in points if one.measured <= _TICKS[-1]]
    speedups = [one for one in drawn if one.kind == "speedup"]
    shapes = [one for one in drawn if one.kind == "shape"]
    headline = "Predicted against measured speedup, each source predicted by fits without it"
    chart = new_chart(headline if title is None else title, width=7.4, height=6.0)
    axes = chart.add_subplot()
    line = np.array([_TICKS[0] * 0.8, _TICKS[-1] * 1.1])
    axes.plot(line, line, color=GREY, lw=1.2)
    axes.fill_between(line, line * 0.9, line * 1.1, color=GREY, alpha=0.15, lw=0)
    names = list(dict.fromkeys(one.source for one in [*speedups, *shapes]))
    handles = []
    for order, name in enumerate(names):
        color, marker = COLORS[order % len(COLORS)], MARKERS[order % len(MARKERS)]
        for some, filled in ((speedups, True), (shapes, False)):
            chosen = [one for one in some if one.source == name]
            if not chosen:
                continue
            axes.plot(
                [one.measured for one in chosen],
                [one.predicted for one in chosen],
                ls="",
                marker=marker,
                ms=5,
                mec=color,
                mfc=color if filled else "none",
                alpha=0.75,
            )
        known = any(one.source == name for one in speedups)
        handles.append(
            Line2D([], [], ls="", marker=marker, mec=color, mfc=color if known else "none",
                   label=name)
        )  # fmt: skip
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlim(line[0], line[1])
    axes.set_ylim(line[0], line[1])
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(NullLocator())
        axis.set_ticks(_TICKS)
        axis.set_minor_locator(NullLocator())
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}x"))
    axes.set_xlabel("Measured speedup")
    axes.set_ylabel("Predicted speedup")
    add_legend(chart, handles)
    return chart
