"""The memory of a device, line by line."""

from typing import TYPE_CHECKING, Final

from matplotlib.figure import Figure
from matplotlib.patches import Patch

from specroof.plot.style import COLORS, GREY, INK, add_legend, house_style, new_chart
from specroof.units import GIBIBYTE

if TYPE_CHECKING:
    from specroof.questions.capacity import Capacity

#: What fills a device, from the left.
_PARTS: Final = {
    "reserved": ("kept away", GREY),
    "weights": ("weights", COLORS[0]),
    "vision_weights": ("vision tower", COLORS[3]),
    "draft_weights": ("drafter", COLORS[1]),
    "state_pool": ("recurrent state", COLORS[4]),
    "cache_pool": ("cache", COLORS[2]),
}


@house_style()
def plot_capacity(found: "Capacity") -> Figure:
    """Draw what fills a device, plain and with each drafter, and the most requests beside it.

    Parameters
    ----------
    found
        From `specroof.capacity`.
    """
    sides = found.sides
    chart = new_chart(found.title, width=8, height=1.4 + 0.5 * len(sides))
    axes = chart.add_subplot()
    axes.grid(visible=False, axis="y")
    for row, side in enumerate(sides):
        left = 0.0
        for name, (_, color) in _PARTS.items():
            # What does not fit leaves a pool of less than nothing.
            width = max(side.lines.get(name, 0.0), 0.0) / GIBIBYTE
            axes.barh(row, width, left=left, color=color, edgecolor=INK, lw=0.6, height=0.7)
            left += width
        axes.annotate(
            f"{side.largest_batch} requests ({side.bound_by})",
            (left, row),
            xytext=(4, 0),
            textcoords="offset points",
            va="center",
        )
    axes.axvline(sides[0].lines["memory"] / GIBIBYTE, color=INK, ls="--", lw=1.0)
    axes.set_xlim(0, 1.3 * max(bar.get_x() + bar.get_width() for bar in axes.patches))  # type: ignore[attr-defined]  # bars are rectangles
    names = ["plain", *(f"{side.drafter}, γ = {side.draft_len}" for side in sides[1:])]
    axes.set_yticks(range(len(sides)), names)
    axes.set_ylim(len(sides) - 0.4, -0.6)
    axes.set_xlabel("Memory of a device (GiB)")
    shown = {name for side in sides for name in side.lines}
    add_legend(
        chart, [Patch(color=c, label=text) for name, (text, c) in _PARTS.items() if name in shown]
    )
    return chart
