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

from specroof.arrays import Array
from specroof.plot.style import INK

_POINTS_PER_INCH: Final = 72.0
# Places that are tried for a label: distances from its marker, in points, at as many angles.
_DISTANCES: Final = np.array([10, 16, 24, 34, 46, 60, 76, 94, 115, 140, 170, 205, 245, 295.0])
_ANGLES: Final = 24
_PADDING: Final = 4.0  # points between the text and what it must not touch
# What a place costs, in points of distance: on another label or outside, on a marker, for each
# point of a line below it.
_CLASH: Final = 1e6
_HIDDEN_MARKER: Final = 200.0
_HIDDEN_LINE: Final = 6.0


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
    radius
        Of the marker there, in points.
    """

    x: float
    y: float
    text: str
    color: str
    radius: float = 6.0


def place_labels(chart: Figure, axes: Axes, labels: Sequence[Label]) -> None:
    """Write labels beside their points, one after the other in the best place that is left.

    Call it last: places are found for the chart as it is laid out then.
    """
    notes = [_annotation(axes, label) for label in labels]
    chart.draw_without_rendering()  # lays out, so that sizes and positions are known
    pixel = _POINTS_PER_INCH / chart.dpi  # everything below is in points
    points = np.array([(label.x, label.y) for label in labels]).reshape(-1, 2)
    anchors = pixel * axes.transData.transform(points)
    radii = np.array([label.radius for label in labels]).reshape(-1, 1)
    markers = np.concatenate([anchors - radii, anchors + radii], axis=1)
    low, high = pixel * np.array(axes.get_window_extent().extents).reshape(2, 2)
    lines = pixel * _line_points(axes)
    angles = np.linspace(0, 2 * np.pi, _ANGLES, endpoint=False)
    directions = np.tile(np.stack([np.cos(angles), np.sin(angles)], axis=1), (_DISTANCES.size, 1))
    written = np.empty((0, 4))
    for note, anchor, radius in zip(notes, anchors, radii, strict=True):
        extent = note.get_window_extent()
        box = pixel * np.array([extent.width, extent.height]) + 2 * _PADDING
        distances = np.repeat(_DISTANCES + radius, _ANGLES)
        offsets = directions * (distances[:, None] + box / 2)
        boxes = np.concatenate([anchor + offsets - box / 2, anchor + offsets + box / 2], axis=1)
        outside = np.maximum(low - boxes[:, :2], 0) + np.maximum(boxes[:, 2:] - high, 0)
        cost = distances + _CLASH * (outside.sum(axis=1) + _shared_area(boxes, written))
        cost += _HIDDEN_MARKER * (_shared_area(boxes, markers) > 0)
        cost += _HIDDEN_LINE * _within(lines, boxes).sum(axis=0)
        best = int(np.argmin(cost))
        written = np.vstack([written, boxes[best]])
        note.set_position(tuple(offsets[best].tolist()))


def _annotation(axes: Axes, label: Label) -> Annotation:
    ends = {"shrinkA": 0, "shrinkB": label.radius - 2}
    note = axes.annotate(
        label.text,
        (label.x, label.y),
        xytext=(0, 0),
        textcoords="offset points",
        ha="center",
        va="center",
        fontsize=8.5,
        color=INK,
        linespacing=1.1,
        zorder=6,
        bbox={"boxstyle": "round,pad=0.2", "fc": "white", "ec": label.color, "lw": 1.0},
        arrowprops={"arrowstyle": "-", "color": label.color, "lw": 1.0, **ends},
    )
    note.set_in_layout(False)
    return note


def _line_points(axes: Axes) -> Array:
    """Return points along every line of the axes, a few pixels apart."""
    parts = [np.empty((0, 2))]
    for line in axes.get_lines():
        # The line's own transform: a horizontal line mixes data with axes coordinates.
        corners = line.get_transform().transform(line.get_xydata())
        corners = corners[np.isfinite(corners).all(axis=1)]
        for start, end in itertools.pairwise(np.clip(corners, -1e4, 1e4)):
            steps = np.linspace(0, 1, 2 + int(np.hypot(*(end - start)) // 5))[:, None]
            parts.append(start + steps * (end - start))
    points = np.concatenate(parts)
    return points[_within(points, np.array([axes.get_window_extent().extents]))[:, 0]]


def _shared_area(boxes: Array, others: Array) -> Array:
    """Return for each box the area that it shares with all others."""
    low = np.maximum(boxes[:, None, :2], others[:, :2])
    high = np.minimum(boxes[:, None, 2:], others[:, 2:])
    return np.asarray(np.maximum(high - low, 0).prod(axis=2).sum(axis=1))


def _within(points: Array, boxes: Array) -> npt.NDArray[np.bool_]:
    """Return for each point (last axis: x and y) and each box whether one lies in the other."""
    x, y = points[..., None, 0], points[..., None, 1]
    left, bottom, right, top = boxes.T
    return np.asarray((x > left) & (x < right) & (y > bottom) & (y < top))
