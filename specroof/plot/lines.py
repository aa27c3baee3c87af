"""The chart of lines: figures over a load or a length, a line for each of what is compared."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator, PercentFormatter

from specroof.arrays import Array
from specroof.plot.labels import Label, place_labels
from specroof.plot.style import (
    GREY,
    INK,
    Chart,
    add_legend,
    house_style,
    line_key,
    load_ticks,
    log_ticks,
    look,
    new_chart,
    short_number,
    thin_ticks,
    tick_at,
    wrapped,
)

#: Where a line has no value: the height of its crosses, of that of the axes, and how much lower
#: those of the next line are.
_CROSSES: Final = (0.97, 0.045)
CROSS: Final[dict[str, Any]] = {"ls": "", "marker": "x"}
RING: Final[dict[str, Any]] = {"ls": "", "marker": "o", "ms": 12, "mfc": "none", "mec": INK}
_LIMIT: Final[dict[str, Any]] = {"color": GREY, "ls": "--", "lw": 1.4}
#: Of a line, at most; lines that lie on one another take turns.
_MOST_MARKS: Final = 48

#: What spans less than this on a logarithmic axis is level.
_LEVEL: Final = 1.1

#: Of what is drawn upwards.
Scale: TypeAlias = Literal["zero", "whole", "log", "log2", "speedup", "doublings", "percent"]
#: Looks of lines by their names.
Looks: TypeAlias = Mapping[str, Mapping[str, Any]]
#: Batch size, draft length and speedup of a measurement, and whether its acceptance is known.
Measured: TypeAlias = tuple[float, int, float, bool]
#: What stars stand for, by whether the acceptance is known, and their faces.
_STARS: Final = {
    True: ("measured here, at about this acceptance", INK),
    False: ("measured here, acceptance not published", "white"),
}


_STAR: Final[dict[str, Any]] = {"ls": "", "marker": "*", "ms": 9, "color": INK, "mew": 0.8}


@dataclass(frozen=True, eq=False)
class Line:
    """One line of a panel.

    Parameters
    ----------
    name
        In the legend, which has each name once; what has none is drawn besides.
    x, y
        Points, ascending; NaN where there is none.
    low, high
        Ends of a band; None without.
    error
        Standard errors; None without.
    missing
        Where there is no value, which a cross says.
    notes
        Texts at some of the points, by their places.
    ringed
        Places of points in a ring.
    look
        What differs from the look of the name.
    """

    name: str
    x: Array
    y: Array
    low: Array | None = None
    high: Array | None = None
    error: Array | None = None
    missing: Array | Sequence[float] = ()
    notes: Mapping[int, str] = field(default_factory=dict)
    ringed: Sequence[int] = ()
    look: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Panel:
    """Lines in one pair of axes.

    Parameters
    ----------
    label
        Of what is drawn upwards.
    lines
        The last lies on top.
    scale
        Of what is drawn upwards: "zero" begins there, "whole" has no fractions, "log2" is ticked at
        powers of two, "speedup" and "doublings" of it have a line at 1, which is plain decoding.
    """

    label: str
    lines: Sequence[Line]
    scale: Scale = "zero"


@dataclass(frozen=True)
class Across:
    """What panels draw to the right.

    Parameters
    ----------
    label, scale
        "loads" are mostly powers of two, "whole" has no fractions.
    limit
        A place that is marked, and what it is.
    ticks
        The loads that are written; those of the lines if empty.
    """

    label: str
    scale: Literal["", "whole", "loads", "log"] = ""
    limit: tuple[float, str] | None = None
    ticks: Sequence[float] = ()


@house_style()
def plot_lines(
    panels: Sequence[Panel],
    title: str,
    across: Across,
    *,
    columns: int = 1,
    keys: Sequence[Artist] = (),
) -> Chart:
    """Draw panels over one axis, with one legend below them.

    Parameters
    ----------
    panels
        Row by row; the first of two rows is the higher.
    title, across, columns
        Of the chart, and what is drawn to the right.
    keys
        What the legend has behind the lines.
    """
    rows = len(panels) // columns
    chart = new_chart(title, width=7.0 + columns, height=4.4 if rows == 1 else 6.0)
    ratios = (3, 2) if (rows, columns) == (2, 1) else (1,) * rows
    grid = chart.subplots(rows, columns, sharex=True, squeeze=False, height_ratios=ratios)
    looks = looks_of(line.name for panel in panels for line in panel.lines)
    for axes, panel in zip(grid.ravel().tolist(), panels, strict=True):
        draw_panel(axes, panel, looks)
        if across.limit is not None:
            axes.axvline(across.limit[0], **_LIMIT)
    lines = [line for panel in panels for line in panel.lines]
    for axes in grid[-1]:
        axes.set_xlabel(across.label)
        if across.scale == "loads":
            loads = [[*line.x, *line.missing] for line in lines]
            load_ticks(axes, np.concatenate(loads), across.ticks)
        elif across.scale == "log":
            axes.set_xscale("log")
            log_ticks(axes.xaxis)
        elif across.scale == "whole":
            drawn = [line.x[np.isfinite(line.y)] for line in lines]
            longest = max(1.0, *(float(x.max(initial=0.0)) for x in drawn))
            axes.set_xlim(-0.03 * longest, 1.04 * longest)
            axes.xaxis.set_major_locator(MaxNLocator(nbins=17, integer=True, min_n_ticks=1))
    own = {line.name: line.look for line in lines if line.name}
    names = [
        line_key(name if "\n" in name else wrapped(name), **(looks[name] | dict(own[name])))
        for name in own
    ]
    if across.limit is not None:
        keys = [*keys, line_key(across.limit[1], **_LIMIT)]
    plain = [plain_key()] if any(panel.scale == "speedup" for panel in panels) else []
    add_legend(chart, [*names, *keys, *plain])
    for axes, panel in zip(grid.ravel().tolist(), panels, strict=True):
        if any(line.notes for line in panel.lines):
            place_labels(chart, axes, _labels(panel, looks))
    return chart


def looks_of(names: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Return a colour and a marker for each name; none of lines that have no name."""
    found = {name: look(i) for i, name in enumerate(dict.fromkeys(filter(None, names)))}
    return found | {"": {}}


def stars(points: Iterable[tuple[float, float, bool]]) -> list[Line]:
    """Return measured values as lines of stars, those of unknown acceptance hollow."""
    given, lines = sorted(points), list[Line]()
    for known, (name, face) in _STARS.items():
        pairs = [(x, y) for x, y, is_known in given if is_known == known]
        if not pairs:
            continue
        x, y = np.array(pairs, dtype=np.float64).T
        lines.append(Line(name, x, y, look={**_STAR, "mfc": face}))
    return lines


def plain_key() -> Artist:
    """Return the entry of plain decoding in a legend."""
    return line_key("plain decoding", color=GREY, lw=1.2, ls=":")


def band_keys(lines: Sequence[Line], label: str = "80% band") -> list[Artist]:
    """Return the entry of bands in a legend, if any line has one."""
    if all(line.low is None for line in lines):
        return []
    return [Patch(color=GREY, alpha=0.25, lw=0, label=label)]


def draw_panel(axes: Axes, panel: Panel, looks: Looks) -> None:
    """Draw lines, each in the look of its name."""
    if panel.scale in ("speedup", "doublings"):
        axes.axhline(1, color=GREY, lw=1.2, ls=":")
    named = [line for line in panel.lines if line.name]
    for i, line in enumerate(panel.lines):
        own: dict[str, Any] = {**looks[line.name], **line.look}
        twins = [other for other in panel.lines if _lies_on(line, other)]
        rank = twins.index(line)
        # The first point with a marker, and the step to the next.
        step = max(1, -(-len(line.x) // _MOST_MARKS))
        marked = rank * step % max(len(line.x), 1), step * len(twins)
        # What lies on another line is thinner or dashed, so that both are seen.
        drawn: dict[str, Any] = {"lw": 2.4 - i / len(panel.lines), "zorder": 3 + 0.01 * i}
        drawn |= own | ({"ls": "--"} if rank and not own.get("marker") else {})
        axes.plot(line.x, line.y, markevery=marked, **drawn)
        if line.low is not None and line.high is not None:
            if len(line.x) > 1:
                axes.fill_between(line.x, line.low, line.high, color=own["color"], alpha=0.15, lw=0)
            else:  # a band over one point has no width
                axes.vlines(line.x, line.low, line.high, color=own["color"], alpha=0.3, lw=5)
        if line.error is not None:
            axes.errorbar(line.x, line.y, line.error, fmt="none", ecolor=own["color"], capsize=2)
        for place in line.ringed:
            axes.plot(line.x[place], line.y[place], **RING, mew=1.5, zorder=5)
        if len(line.missing):
            top, apart = _CROSSES
            heights = np.full(len(line.missing), top - apart * i)
            where = axes.get_xaxis_transform()
            axes.plot(line.missing, heights, **CROSS, color=own["color"], transform=where)
    _scale(axes, panel.scale, named)
    axes.set_ylabel(panel.label)


def _lies_on(line: Line, other: Line) -> bool:
    """Return whether two lines, both with a name or both without, cannot be told apart."""
    shapes = [(bool(one.name), one.y.shape) for one in (line, other)]
    return shapes[0] == shapes[1] and all(
        np.allclose(one, two, rtol=1e-3, equal_nan=True)
        for one, two in ((line.x, other.x), (line.y, other.y))
    )


def _scale(axes: Axes, scale: Scale, lines: Sequence[Line]) -> None:
    """Scale an axis so that it holds the lines, and notes above them."""
    ends = [end for line in lines for end in (line.y, line.low, line.high) if end is not None]
    values = np.concatenate([*ends, [1.0] if scale == "speedup" else []])
    values = values[np.isfinite(values)]
    low, high = (float(values.min()), float(values.max())) if values.size else (0.0, 1.0)
    if scale == "log":
        axes.set_yscale("log")
        log_ticks(axes.yaxis)
        if high < _LEVEL * low:  # matplotlib would zoom in on what rounding makes of a level
            axes.set_ylim(low / _LEVEL, high * _LEVEL)
    elif scale == "doublings":
        axes.set_yscale("log", base=2)
    elif scale == "log2":
        axes.set_yscale("log", base=2)
        axes.set_ylim(0.8, 1.6 * high)
        shown = thin_ticks(2.0 ** np.arange(np.ceil(np.log2(high)) + 1), share=0.07)
        tick_at(axes.yaxis, shown, [short_number(power) for power in shown.tolist()])
    elif scale == "percent":
        axes.yaxis.set_major_formatter(PercentFormatter(1.0))
    elif scale == "whole":
        axes.set_ylim(-0.06 * max(high, 1), 1.08 * max(high, 1))
        axes.yaxis.set_major_locator(MaxNLocator(nbins=9, integer=True, min_n_ticks=1))
    elif scale == "speedup":
        span = max(high - low, 0.2)
        axes.set_ylim(max(low - 0.08 * span, 0.0), low + 1.14 * span)
    else:
        axes.set_ylim(0, 1.1 * high or 1.0)


def _labels(panel: Panel, looks: Looks) -> list[Label]:
    """Return the notes of the lines; equal ones at one place share a label."""
    places: dict[tuple[str, float, str], list[tuple[Line, int]]] = {}
    for line in panel.lines:
        for place, text in line.notes.items():
            key = text, float(line.x[place]), f"{line.y[place]:.3g}"
            places.setdefault(key, []).append((line, place))
    return [
        Label(
            x=x,
            y=float(lines[0][0].y[lines[0][1]]),
            text=f"{text} ({len(lines)} lines)" if len(lines) > 1 else text,
            color=INK if len(lines) > 1 else looks[lines[0][0].name]["color"],
        )
        for (text, x, _), lines in places.items()
    ]
