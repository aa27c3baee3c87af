"""Predicted against measured: how far to trust a prediction, at a glance."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import EngFormatter, FuncFormatter, LogLocator, NullFormatter, NullLocator

from specroof.plot.style import GREY, Chart, add_legend, house_style, look, new_chart

if TYPE_CHECKING:
    from specroof.engines.calibration import Residual
    from specroof.scoring.scores import Scored

_MEANINGS: Final = {GREY: "acceptance length known", "none": "known up to one factor"}
_TICKS: Final = (0.25, 0.5, 1, 1.5, 2, 3, 4, 5, 6, 8)


#: A source, what it measured, what is predicted, and whether the mark is filled.
_Point: TypeAlias = tuple[str, float, float, bool]


def _compared(
    title: str,
    points: Sequence[_Point],
    ends: tuple[float, float],
    *,
    meanings: Mapping[str, str],
) -> tuple[Chart, Axes]:
    """Return predicted over measured values, a color for each source, over logarithmic axes.

    The line is where predictions are right, and the band is 10% either way. `meanings` says what
    a mark stands for, by the colour of its face: `GREY` or ``"none"``.
    """
    chart = new_chart(title, width=7.4, height=6.0)
    axes = chart.add_subplot(xscale="log", yscale="log", xlim=ends, ylim=ends)
    line = np.array(ends)
    axes.plot(line, line, color=GREY, lw=1.2)
    axes.fill_between(line, line * 0.9, line * 1.1, color=GREY, alpha=0.15, lw=0)
    handles: list[Artist] = []
    for order, name in enumerate(dict.fromkeys(source for source, *_ in points)):
        mark, faces = look(order) | {"ls": ""}, list[str]()
        for filled in (True, False):
            pairs = [point[1:3] for point in points if (point[0], point[3]) == (name, filled)]
            if pairs:
                faces.append(mark["color"] if filled else "none")
                axes.plot(*np.array(pairs).T, **mark, ms=5, mfc=faces[-1], alpha=0.75)
        handles.append(Line2D([], [], **mark, mfc=faces[0], label=name))
    handles += [
        Line2D([], [], marker="o", ls="", color=GREY, mfc=face, label=text)
        for face, text in meanings.items()
    ]
    handles.append(Patch(color=GREY, alpha=0.15, lw=0, label="10% either way"))
    add_legend(chart, handles)
    return chart, axes


@house_style()
def plot_accuracy(points: "Sequence[Scored]", *, title: str | None = None) -> Figure:
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
    least = min(0.9 * value for one in drawn for value in (one.measured, one.predicted))
    ends = (min(least, 0.8 * _TICKS[1]), _TICKS[-1] * 1.1)
    pairs = [(one.source, one.measured, one.predicted, one.kind == "speedup") for one in drawn]
    chart, axes = _compared(headline if title is None else title, pairs, ends, meanings=_MEANINGS)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(NullLocator())
        axis.set_ticks([tick for tick in _TICKS if tick >= ends[0]])
        axis.set_minor_locator(NullLocator())
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}x"))
    axes.set_xlabel("Measured speedup")
    axes.set_ylabel("Predicted speedup")
    return chart


@house_style()
def plot_throughput_accuracy(
    rates: "Sequence[tuple[str, Residual]]",
    ideal: "Sequence[tuple[str, Residual]]",
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
    headline = "Predicted against measured throughput"
    drawn = [
        (name, one.predicted / (1 + one.off), one.predicted, filled)
        for some, filled in ((rates, True), (ideal, False))
        for name, one in some
    ]
    values = [value for _, measured, predicted, _ in drawn for value in (measured, predicted)]
    ends = (min(values) * 0.8, max(values) * 1.25)
    meanings = {GREY: f"engine {engine}", "none": "ideal roofline"}
    chart, axes = _compared(headline if title is None else title, drawn, ends, meanings=meanings)
    for axis in (axes.xaxis, axes.yaxis):
        # A few ticks within a decade too: the loads of a benchmark seldom span two.
        axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axis.set_major_formatter(EngFormatter(sep=""))
        axis.set_minor_formatter(NullFormatter())
    axes.set_xlabel("Measured tokens per second")
    axes.set_ylabel("Predicted tokens per second")
    return chart
