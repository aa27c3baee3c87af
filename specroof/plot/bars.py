"""The chart of bars: what parts of something take, row by row."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from matplotlib.artist import Artist
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import EngFormatter, MaxNLocator

from specroof.plot.style import COLORS, GREY, INK, add_legend, house_style, line_key, new_chart


@dataclass(frozen=True)
class Bar:
    """A row: parts from the left, and a note behind the last.

    Parameters
    ----------
    name
        At the left of the row.
    parts
        What each takes, by the keys of the chart; less than nothing goes back to the left.
    note
        Behind the row.
    start
        Where the first part begins.
    """

    name: str
    parts: Mapping[str, float]
    note: str = ""
    start: float = 0.0


@dataclass(frozen=True)
class Fill:
    """What the legend says of a part, nothing if empty, and its color: one of all if empty."""

    label: str
    color: str = ""
    hatch: str = ""


@house_style()
def plot_bars(
    bars: Sequence[Bar],
    fills: Mapping[str, Fill],
    title: str,
    x_label: str,
    *,
    unit: str = "",
    limit: tuple[float, str] | None = None,
) -> Figure:
    """Draw rows of parts, the first at the top.

    Parameters
    ----------
    bars, fills
        Rows, and the looks of their parts by key.
    title, x_label, unit
        Of the chart; with a unit, places have prefixes.
    limit
        A place that is marked, and what it is.
    """
    chart = new_chart(title, width=8, height=1.2 + 0.3 * len(bars))
    axes = chart.add_subplot()
    axes.grid(visible=False, axis="y")
    colors = {key: fill.color or COLORS[i] for i, (key, fill) in enumerate(fills.items())}
    furthest = 0.0 if limit is None else limit[0]
    for row, bar in enumerate(bars):
        left = end = bar.start
        for key, width in bar.parts.items():
            hatch = fills[key].hatch
            axes.barh(row, width, 0.72, left, fc=colors[key], hatch=hatch, ec=INK, lw=0.6)
            left += width
            end = max(end, left)
        furthest = max(furthest, end)
        axes.annotate(
            bar.note,
            (end, row),
            xytext=(4, 0),
            textcoords="offset points",
            va="center",
            bbox={"boxstyle": "square,pad=0.1", "fc": "white", "ec": "none"},
        )
    axes.set_xlim(0, 1.34 * furthest or 1.0)
    axes.set_ylim(len(bars) - 0.4, -0.6)
    axes.set_yticks(range(len(bars)), [bar.name for bar in bars])
    axes.tick_params(axis="y", length=0)
    axes.xaxis.set_major_locator(MaxNLocator(nbins=6))
    if unit:
        axes.xaxis.set_major_formatter(EngFormatter(unit=unit))
    axes.set_xlabel(x_label)
    drawn = dict.fromkeys(key for bar in bars for key in bar.parts)
    keys: list[Artist] = [
        Patch(fc=colors[key], ec=INK, lw=0.8, hatch=fill.hatch, label=fill.label)
        for key, fill in fills.items()
        if key in drawn and fill.label
    ]
    if limit is not None:
        axes.axvline(limit[0], color=GREY, ls="--", lw=1.4)
        keys.append(line_key(limit[1], color=GREY, ls="--", lw=1.4))
    add_legend(chart, keys)
    return chart
