"""The gains of adaptive draft lengths against the load."""

from typing import TYPE_CHECKING

from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import PercentFormatter

from specroof.plot.style import GREY, add_legend, house_style, look, new_chart

if TYPE_CHECKING:
    from specroof.questions.adaptive import Adaptive


@house_style()
def plot_adaptive(found: "Adaptive") -> Figure:
    """Draw the gain of each policy over the one length, with its standard error.

    Parameters
    ----------
    found
        From `specroof.adaptive`.
    """
    chart = new_chart(found.title, width=8, height=4.6)
    axes = chart.subplots()
    loads = list(found.loads)
    axes.axhline(0, color=GREY, lw=1.2, ls=":")
    policies = [policy for policy in found.outcomes if policy != "fixed"]
    for i, policy in enumerate(policies):
        gains, errors = found.gains(policy)
        axes.errorbar(loads, gains, yerr=errors, **look(i), capsize=2)
    axes.set_xscale("log", base=2)
    axes.set_xticks(loads, [str(load) for load in loads])
    axes.minorticks_off()
    axes.yaxis.set_major_formatter(PercentFormatter(1.0))
    axes.set_xlabel("Batch size (sequences)")
    axes.set_ylabel(f"Gain in tokens/s over a fixed draft length of {found.draft_len}")
    add_legend(chart, [Line2D([], [], **look(i), label=name) for i, name in enumerate(policies)])
    return chart
