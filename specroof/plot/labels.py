"""Labels at points of a chart, put where they cover neither one another nor the lines."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.text import Annotation

from specroof.plot.style import INK

__all__ = ["Label", "place_labels"]

Floats = npt.NDArray[np.float64]

_POINTS_PER_INCH: Final = 72.0
# Places that are tried for a label: distances from its point, in points, at as many angles.
_DISTANCES: Final = (16, 22, 30, 40, 52, 66, 82, 100, 120, 145, 175, 210, 250, 300)
_ANGLES: Final = 24
_PADDING: Final = 4.0  # points between the text and what it must not touch
# What a place costs, in points of distance. Labels on labels or outside are worse than all else.
_CLASH: Final = 1e6
_HIDDEN_MARKER: Final = 200.0
_HIDDEN_LINE: Final = 6.0
_CROSSED_LEADER: Final = 60.0


@dataclass(frozen=True)
class Label:
    """Text that belongs to a point of the data.

    Attributes
    ----------
    x, y
        The point.
    text
        What it says.
    color
        Of its frame and of the leader to the point.
    """

    x: float
    y: float
    text: str
    color: str


def place_labels(chart: Figure, axes: Axes, labels: Sequence[Label], *, size: float = 8.5) -> None:
    """Write labels beside their points, each in the best place that is left.

    Call it last: places are found for the chart as it is laid out then.
    """
    notes = [_annotation(axes, label, size) for label in labels]
    chart.draw_without_rendering()  # lays out, so that sizes and positions are known
    pixel = _POINTS_PER_INCH / chart.dpi  # everything below is in points
    anchors = pixel * axes.transData.transform([(label.x, label.y) for label in labels])
    page = _Page(
        inside=pixel * axes.get_window_extent().get_points().ravel(),
        markers=anchors,
        lines=pixel * _line_points(axes),
    )
    for note, anchor in zip(notes, anchors, strict=True):
        extent = note.get_window_extent()
        box = pixel * np.array([extent.width, extent.height]) + 2 * _PADDING
        offset = page.place(anchor, box)
        note.set_position((float(offset[0]), float(offset[1])))


def _annotation(axes: Axes, label: Label, size: float) -> Annotation:
    note = axes.annotate(
        label.text,
        (label.x, label.y),
        xytext=(0, 0),
        textcoords="offset points",
        ha="center",
        va="center",
        fontsize=size,
        color=INK,
        linespacing=1.1,
        zorder=6,
        bbox={"boxstyle": "round,pad=0.2", "fc": "white", "ec": label.color, "lw": 1.0},
        arrowprops={"arrowstyle": "-", "color": label.color, "lw": 1.0, "shrinkA": 0, "shrinkB": 4},
    )
    note.set_in_layout(False)
    return note


def _line_points(axes: Axes) -> Floats:
    """Return points along every line of the axes, a few pixels apart."""
    found = [np.empty((0, 2))]
    for line in axes.get_lines():
        # The line's own transform: that of a horizontal line mixes data with axes coordinates.
        corners = line.get_transform().transform(line.get_xydata())
        corners = corners[np.isfinite(corners).all(axis=1)]
        for start, end in itertools.pairwise(np.clip(corners, -1e4, 1e4)):
            steps = np.linspace(0, 1, 2 + int(np.hypot(*(end - start)) // 5))[:, None]
            found.append(start + steps * (end - start))
    return np.concatenate(found)


class _Page:
    """Where labels may go, and what lies there already; all in points."""

    def __init__(self, *, inside: Floats, markers: Floats, lines: Floats) -> None:
        self.low, self.high = inside[:2], inside[2:]
        self.markers = markers
        self.lines = lines
        self.boxes = np.empty((0, 4))  # left, bottom, right, top
        self.leaders = np.empty((0, 2))

    def place(self, anchor: Floats, box: Floats) -> Floats:
        """Return the offset of a label's centre from its point, and take that place."""
        distances, offsets = _offsets(box)
        boxes = np.concatenate([anchor + offsets - box / 2, anchor + offsets + box / 2], axis=1)
        leaders = anchor + np.linspace(0.1, 1, 12)[:, None, None] * offsets
        cost = distances + _CLASH * (
            np.maximum(self.low - boxes[:, :2], 0).sum(axis=1)
            + np.maximum(boxes[:, 2:] - self.high, 0).sum(axis=1)
            + _shared_area(boxes, self.boxes)
        )
        cost += _HIDDEN_MARKER * _within(self.markers, boxes).sum(axis=0)
        cost += _HIDDEN_LINE * _within(self.lines, boxes).sum(axis=0)
        cost += _CROSSED_LEADER * _within(self.leaders, boxes).any(axis=0)
        cost += _CROSSED_LEADER * _within(leaders, self.boxes).any(axis=(0, 2))
        best = int(np.argmin(cost))
        self.boxes = np.vstack([self.boxes, boxes[best]])
        self.leaders = np.vstack([self.leaders, leaders[:, best]])
        return np.asarray(offsets[best])


def _offsets(box: Floats) -> tuple[Floats, Floats]:
    """Return places to try for a box: how far its edge is from its point, and its centre."""
    angles = np.linspace(0, 2 * np.pi, _ANGLES, endpoint=False)
    directions = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    distances = np.repeat(_DISTANCES, _ANGLES).astype(np.float64)
    directions = np.tile(directions, (len(_DISTANCES), 1))
    return distances, directions * (distances[:, None] + box / 2)


def _shared_area(boxes: Floats, others: Floats) -> Floats:
    """Return for each box the area that it shares with all others."""
    low = np.maximum(boxes[:, None, :2], others[:, :2])
    high = np.minimum(boxes[:, None, 2:], others[:, 2:])
    return np.asarray(np.maximum(high - low, 0).prod(axis=2).sum(axis=1))


def _within(points: Floats, boxes: Floats) -> npt.NDArray[np.bool_]:
    """Return for each point (last axis: x and y) and each box whether one lies in the other."""
    points = points[..., None, :]
    return np.asarray(((points > boxes[:, :2]) & (points < boxes[:, 2:])).all(axis=-1))
