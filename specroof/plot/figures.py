"""Several charts of one answer, by the endings of their files' names; the first has none."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from specroof.plot.batches import plot_best_draft_len_map, plot_by_batch
from specroof.plot.curves import plot_speedup_by_draft_len
from specroof.plot.operations import plot_roofline, plot_time_per_op
from specroof.plot.waterfall import plot_waterfall
from specroof.speedup.result import SpeedupCurve

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from specroof.questions.explain import Explanation


def speedup_figures(curves: "Sequence[SpeedupCurve]") -> "dict[str, Figure]":
    """Return the charts that a grid of this shape can show."""
    figures = {"": plot_speedup_by_draft_len(curves)}
    if len(curves[0].batch_size) > 1:
        figures["-by-batch"] = plot_by_batch(curves)
    if len(curves[0].context_len) > 1:
        figures["-map"] = plot_best_draft_len_map(curves[0])
    return figures


def pass_figures(found: "Explanation") -> "dict[str, Figure]":
    """Return the roofline of a pass, and the time of each operation; a round's waterfall first."""
    peak = found.setup.hardware.peak
    roofline = plot_roofline(
        found.latency,
        flops_per_s=peak.flops_per_s,
        memory_bytes_per_s=peak.memory_bytes_per_s,
        devices=found.setup.placement.devices,
        title=found.title,
    )
    time = plot_time_per_op(found.latency, title=found.title)
    if found.round is None:
        return {"": roofline, "-time": time}
    waterfall = plot_waterfall(found.round, title=f"{found.title}\n{found.why}")
    return {"": waterfall, "-roofline": roofline, "-time": time}
