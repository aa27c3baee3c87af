"""Tokens per second of a device against tokens per second of a user."""

from typing import TYPE_CHECKING

from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import LogLocator, NullFormatter, ScalarFormatter

from specroof.plot.style import GREY, INK, add_legend, house_style, look, new_chart, wrapped

if TYPE_CHECKING:
    from specroof.questions.frontier import FrontierAnswer


@house_style()
def plot_frontier(found: "FrontierAnswer") -> Figure:
    """Draw a frontier for plain decoding and for each drafter, and the cheapest point of each.

    Parameters
    ----------
    found
        From `specroof.frontier`.
    """
    chart = new_chart(found.title, width=8, height=4.6)
    axes = chart.add_subplot()
    axes.set_xscale("log")
    axes.set_yscale("log")
    handles: list[Line2D] = []
    for i, one in enumerate(found.series):
        users = [point.tokens_per_s_per_user for point in one.points]
        rates = [point.tokens_per_s_per_device for point in one.points]
        axes.plot(users, rates, **look(i))
        handles.append(Line2D([], [], **look(i), label=wrapped(one.name)))
        if one.cheapest is not None:
            place = (one.cheapest.tokens_per_s_per_user, one.cheapest.tokens_per_s_per_device)
            axes.plot(*place, ls="", marker="o", ms=13, mfc="none", mec=INK, mew=1.5)
    ring = Line2D([], [], ls="", marker="o", ms=11, mfc="none", mec=INK, label="cheapest")
    handles.append(ring)
    if found.tpot_s is not None:
        ring.set_label("cheapest that is fast enough")
        axes.axvline(1 / found.tpot_s, color=GREY, ls=":", lw=1.4)
        handles.append(Line2D([], [], color=GREY, ls=":", label="slowest that users may have"))
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axis.set_major_formatter(ScalarFormatter())
        axis.set_minor_formatter(NullFormatter())
    axes.set_xlabel("Tokens/s of each user")
    axes.set_ylabel("Tokens/s of each device")
    add_legend(chart, handles)
    return chart
