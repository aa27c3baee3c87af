"""Rows of quantities as the chart that they declare."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, Literal

import numpy as np
from matplotlib.artist import Artist
from matplotlib.figure import Figure

from specroof.arrays import Array, grouped
from specroof.plot.lines import (
    CROSS,
    RING,
    Across,
    Line,
    Measured,
    Panel,
    Scale,
    band_keys,
    plot_lines,
    stars,
)
from specroof.plot.style import GREY, line_key
from specroof.quantities import QUANTITIES, Lines, Quantity, Row, labelled, quantity_of

#: What spans powers of two more often than not.
_LOADS: Final = ("concurrency", "batch_size", "rate", "context_len")
#: What spans decades, by its unit.
_DECADES: Final = ("s", "tokens/s")
#: What loads are called below a chart, if not by their sentence.
_ACROSS: Final = {"batch_size": "Batch size (sequences)", "context_len": "Context (tokens)"}
#: From one point at a load to the next, as a factor.
_APART: Final = 1.03
_BARS: Final[dict[str, Any]] = {"marker": "", "lw": 7, "solid_capstyle": "butt"}


def plot_rows(
    rows: Sequence[Row], chart: Lines, title: str, measured: Sequence[Measured]
) -> Figure:
    """Draw rows as their chart says.

    Parameters
    ----------
    rows
        Of one class.
    chart
        What is drawn of them.
    title
        What was asked, and what was found.
    measured
        Measurements of the first figure: those of lengths that rows draft are drawn as stars.
    """
    records = [row.record for row in rows]
    x = chart.shown_x(records)
    by = [name for name in chart.by if len({row[name] for row in records}) > 1 and name != x]
    # What rows have in common names an only line.
    by = by or [name for name in chart.by if records and records[0][name] is not None]
    if "hardware" in by and "devices" in chart.by:  # a price and a speed are of so many
        by = [*dict.fromkeys([*by, "devices"])]
    groups = grouped(records, lambda row: _name(row, by))
    panels = []
    for name in chart.y:
        figure = _quantity(name)
        unit = f" ({figure.unit})" if figure.unit else ""
        usual = f"{figure.title[0].upper()}{figure.title[1:]}{unit}"
        label = chart.titles.get(name, usual)
        lines = [_line(text or label, own, x, name, chart) for text, own in groups.items()]
        panels.append(Panel(label, lines, _scale(figure)))
    loads, ticks = dict.fromkeys(row[x] for row in records), list[float]()
    if len(loads) == 1 and len(groups) > 1 and x in _LOADS:
        # Side by side, so that all bands are seen.
        panels, ticks = [replace(one, lines=_apart(one.lines)) for one in panels], [*loads]
    drawn = {row.get("draft_len") for row in records}
    near = stars((batch, gain, known) for batch, k, gain, known in measured if k in drawn)
    keys = _keys(panels, records, chart)
    panels[:1] = [replace(one, lines=[*one.lines, *near]) for one in panels[:1]]
    right = _quantity(x)
    label = chart.titles.get(x, _ACROSS.get(x, right.about.removesuffix(".")))
    scale: Literal["loads", "log", ""] = "log" if right.unit in _DECADES else ""
    across = Across(label, "loads" if x in _LOADS else scale, chart.limit, ticks)
    return plot_lines(panels, title, across, keys=keys)


def _name(row: Mapping[str, Any], by: Sequence[str]) -> str:
    """Return the name of the line that a row belongs to, with how many devices there are."""
    words = {name: labelled(name, row[name]) for name in by}
    if {"hardware", "devices"} <= words.keys():
        words["hardware"] = f"{words.pop('devices').split()[0]} x {words['hardware']}"
    return ", ".join(words.values())


def _apart(lines: Sequence[Line]) -> list[Line]:
    """Return lines of one point each, a little beside one another on an axis of loads."""
    steps = _APART ** (np.arange(len(lines)) - (len(lines) - 1) / 2)
    return [replace(line, x=line.x * step) for line, step in zip(lines, steps, strict=True)]


def _quantity(column: str) -> Quantity:
    return quantity_of(column) or QUANTITIES[column]


def _scale(figure: Quantity) -> Scale:
    """Return how an axis upwards is scaled."""
    if figure.name == "speedup":
        return "speedup"
    if figure.name == "runs":
        return "log2"
    if figure.unit in _DECADES:
        return "log"
    return "percent" if figure.spelt(1.0).endswith("%") else "zero"


def _line(name: str, rows: Sequence[Mapping[str, Any]], x: str, y: str, chart: Lines) -> Line:
    """Return the line of some rows, by what lies to the right; of runs, a bar for each."""
    rows = [rows[place] for place in np.argsort(_numbers(rows, x), kind="stable")]
    places = _numbers(rows, x)
    known = np.array([bool(row[y]) if y == "runs" else row[y] is not None for row in rows])
    if y == "runs":
        bars = [
            (place, end)
            for place, row in zip(places, rows, strict=True)
            for first, last in row[y]
            for end in (first, max(last, first * 1.02), np.nan)
        ]
        across, upwards = np.array(bars, dtype=np.float64).reshape(-1, 2).T
        return Line(name, across, upwards, missing=places[~known], look=_BARS)
    notes, before = dict[int, str](), ""
    for i, row in enumerate(rows):
        if chart.noted and y == chart.y[0] and known[i]:
            note = labelled(chart.noted, row[chart.noted])
            notes |= {i: note} if note != before else {}
            before = note
    low, high, error = (
        _numbers(rows, f"{y}_{end}") if f"{y}_{end}" in rows[0] else None
        for end in ("low", "high", "error")
    )
    return Line(
        name,
        places,
        _numbers(rows, y),
        low,
        high,
        error,
        missing=places[~known],
        notes=notes,
        ringed=[i for i, row in enumerate(rows) if row.get(chart.ringed)],
    )


def _numbers(rows: Sequence[Mapping[str, Any]], column: str) -> Array:
    return np.array([row[column] for row in rows], dtype=np.float64)  # None becomes NaN


def _keys(
    panels: Sequence[Panel], records: Sequence[Mapping[str, Any]], chart: Lines
) -> list[Artist]:
    """Return what the legend says of rings, crosses and notes."""
    lines = [line for panel in panels for line in panel.lines]
    banded = [
        line
        for line in lines
        if line.low is not None and line.high is not None and (line.low < line.high).any()
    ]
    keys = band_keys(banded)
    if any(line.ringed for line in lines):
        keys.append(line_key(chart.titles[chart.ringed], **RING))
    if any(len(line.missing) for line in lines):
        reasons = {row.get(chart.why) for row in records if not row[chart.y[0]]} - {None}
        told = ", ".join(["no value", *sorted(map(str, reasons))])
        keys.append(line_key(told.replace(", ", ": ", 1), **CROSS, color=GREY))
    if any(line.notes for line in lines):
        noted = _quantity(chart.noted)
        about = noted.about[0].lower() + noted.about[1:].removesuffix(".")
        keys.append(line_key(f"{noted.title}: {about}", ls=""))
    return keys
