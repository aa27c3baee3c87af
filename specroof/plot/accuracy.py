"""Predicted against measured: how far to trust a prediction, at a glance."""

from collections.abc import Sequence
from typing import Final, Protocol

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import EngFormatter, FuncFormatter, LogLocator, NullFormatter, NullLocator

from specroof.plot.style import COLORS, GREY, MARKERS, add_legend, house_style, new_chart

__all__ = ["plot_accuracy", "plot_throughput_accuracy"]

_TICKS: Final = (0.25, 0.5, 1, 1.5, 2, 3, 4, 5, 6, 8)


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


class Rate(Protocol):
    """A throughput beside its prediction; `specroof.engines.Residual` is one."""

    @property
    def predicted(self) -> float:
        """Tokens per second that are predicted."""

    @property
    def off(self) -> float:
        """How far that is off, as a share of what was measured."""


def _draw_band(axes: Axes, line: np.ndarray) -> None:
    """Draw where predictions are right, 10% either way, over logarithmic axes."""
    axes.plot(line, line, color=GREY, lw=1.2)
    axes.fill_between(line, line * 0.9, line * 1.1, color=GREY, alpha=0.15, lw=0)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlim(line[0], line[-1])
    axes.set_ylim(line[0], line[-1])


def _draw_points(
    axes: Axes, pairs: Sequence[tuple[float, float]], marker: str, color: str, *, filled: bool
) -> None:
    """Draw measured and predicted values of one source."""
    measured, predicted = np.array(pairs).T
    face = color if filled else "none"
    axes.plot(measured, predicted, ls="", marker=marker, ms=5, mec=color, mfc=face, alpha=0.75)


@house_style()
def plot_accuracy(points: Sequence[Compared], *, title: str | None = None) -> Figure:
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
    speedups, shapes = (
        [one for one in points if one.kind == kind and one.measured <= _TICKS[-1]]
        for kind in ("speedup", "shape")
    )
    drawn = [*speedups, *shapes]
    headline = "Predicted against measured speedup, each source predicted by fits without it"
    chart = new_chart(headline if title is None else title, width=7.4, height=6.0)
    axes = chart.add_subplot()
    least = min(0.9 * value for one in drawn for value in (one.measured, one.predicted))
    line = np.array([min(least, 0.8 * _TICKS[1]), _TICKS[-1] * 1.1])
    _draw_band(axes, line)
    names = list(dict.fromkeys(one.source for one in drawn))
    handles = []
    for order, name in enumerate(names):
        color, marker = COLORS[order % len(COLORS)], MARKERS[order % len(MARKERS)]
        for some, filled in ((speedups, True), (shapes, False)):
            chosen = [one for one in some if one.source == name]
            if not chosen:
                continue
            pairs = [(one.measured, one.predicted) for one in chosen]
            _draw_points(axes, pairs, marker, color, filled=filled)
        known = any(one.source == name for one in speedups)
        handles.append(
            Line2D([], [], ls="", marker=marker, mec=color, mfc=color if known else "none",
                   label=name)
        )  # fmt: skip
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(NullLocator())
        axis.set_ticks([tick for tick in _TICKS if tick >= line[0]])
        axis.set_minor_locator(NullLocator())
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}x"))
    axes.set_xlabel("Measured speedup")
    axes.set_ylabel("Predicted speedup")
    add_legend(chart, handles)
    return chart


@house_style()
def plot_throughput_accuracy(
    rates: Sequence[tuple[str, Rate]],
    ideal: Sequence[tuple[str, Rate]],
    *,
    engine: str,
    title: str | None = None,
) -> Figure:
    """Draw predicted against measured tokens per second, a colour for each file.

    The band is 10% either way. Filled points are predicted by the engine's profile, hollow ones
    by the ideal roofline.

    Parameters
    ----------
    rates, ideal
        The file of each result, and the result beside the prediction of each.
    engine
        The engine of `rates`.
    title
        What the chart says of itself if None.
    """
    headline = f"Predicted against measured throughput: {engine} filled, ideal roofline hollow"
    chart = new_chart(headline if title is None else title, width=7.4, height=6.0)
    axes = chart.add_subplot()
    drawn = [
        (name, one.predicted / (1 + one.off), one.predicted, filled)
        for some, filled in ((rates, True), (ideal, False))
        for name, one in some
    ]
    values = [value for _, measured, predicted, _ in drawn for value in (measured, predicted)]
    _draw_band(axes, np.array([min(values) * 0.8, max(values) * 1.25]))
    names = list(dict.fromkeys(name for name, _ in rates))
    handles = []
    for order, name in enumerate(names):
        color, marker = COLORS[order % len(COLORS)], MARKERS[order % len(MARKERS)]
        for filled in (True, False):
            pairs = [(one[1], one[2]) for one in drawn if one[0] == name and one[3] is filled]
            _draw_points(axes, pairs, marker, color, filled=filled)
        handles.append(Line2D([], [], ls="", marker=marker, mec=color, mfc=color, label=name))
    for axis in (axes.xaxis, axes.yaxis):
        # A few ticks within a decade too: the loads of a benchmark seldom span two.
        axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axis.set_major_formatter(EngFormatter(sep=""))
        axis.set_minor_formatter(NullFormatter())
    axes.set_xlabel("Measured tokens per second")
    axes.set_ylabel("Predicted tokens per second")
    add_legend(chart, handles)
    return chart
