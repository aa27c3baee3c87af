"""The advised speedup against the load, with its band: a line for each chip."""

from typing import TYPE_CHECKING

import numpy as np
from matplotlib.artist import Artist
from matplotlib.figure import Figure

from specroof.plot.style import (
    add_legend,
    house_style,
    look,
    new_chart,
    plain_line,
    thin_ticks,
    tick_at,
)
from specroof.units import plain_number

if TYPE_CHECKING:
    from specroof.questions.advise import Advice


@house_style()
def plot_advice(found: "Advice") -> Figure:
    """Draw the speedup of what is advised against requests in flight.

    Where drafting is off, the speedup is 1. The length of drafts stands at each load of the best
    chip.

    Parameters
    ----------
    found
        From `specroof.advise`.
    """
    chart = new_chart(f"{found.model.name}: what is advised", width=8, height=4.4)
    axes = chart.subplots()
    plain = plain_line(axes)
    handles: list[Artist] = []
    for i, chip in enumerate(found.chips):
        drawn = look(i)
        loads = [row.concurrency for row in chip.rows]
        speedup, low, high = np.array([row.speedup for row in chip.rows]).T
        (line,) = axes.plot(loads, speedup, **drawn)
        axes.fill_between(loads, low, high, color=drawn["color"], alpha=0.15, lw=0)
        devices = chip.setup.placement.devices
        line.set_label(f"{devices} × {chip.setup.hardware.name}, {chip.setup.engine.name}")
        handles.append(line)
    for row in found.chips[0].rows:
        axes.annotate(
            f"γ {row.draft_len}" if row.draft_len else "off",
            (row.concurrency, row.speedup[0]),
            xytext=(0, 7),
            textcoords="offset points",
            ha="center",
        )
    axes.set_xscale("log", base=2)
    ticks = thin_ticks([row.concurrency for row in found.chips[0].rows], share=0.05)
    tick_at(axes.xaxis, ticks, [plain_number(load) for load in ticks])
    axes.set_xlabel("Requests in flight")
    axes.set_ylabel("Speedup over plain decoding,\nprefills counted in both (×)")
    axes.margins(y=0.15)
    add_legend(chart, [*handles, plain])
    return chart
