"""Measured acceptance as charts: survival and tokens per round against the depth of the draft."""

from collections.abc import Sequence
from typing import Final

import numpy as np
from matplotlib.artist import Artist
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from specroof.acceptance.curve import Acceptance
from specroof.errors import OptionError
from specroof.plot.style import add_legend, house_style, look, new_chart

#: A fitted law has no end; it is drawn this much further than what was measured.
_BEYOND: Final = 1.5
_LABELS: Final = (
    "First γ drafts all accepted (share of rounds)",
    "Tokens per round (bonus token included)",
)


@house_style()
def plot_acceptance(
    curves: Sequence[tuple[str, Acceptance]],
    *,
    fits: Sequence[tuple[str, Acceptance]] = (),
    title: str = "Measured acceptance",
) -> Figure:
    """Draw survival and tokens per round against draft length, a line for each curve.

    Parameters
    ----------
    curves
        Measured ones, each with its name, up to the depth that it was measured to.
    fits
        Laws to draw dashed, past that depth too.
    title
        Of the chart.

    Raises
    ------
    OptionError
        Without curves, or for an endless curve.
    """
    depths = [curve.max_draft_len for _, curve in curves]
    if not depths or None in depths:
        message = "curves is empty, or holds one without end; allowed: one or more measured curves"
        raise OptionError(message)
    deepest = max(depth for depth in depths if depth is not None)
    chart = new_chart(title, width=9, height=4)
    axes = chart.subplots(1, 2)
    handles: list[Artist] = []
    for i, (name, curve) in enumerate((*curves, *fits)):
        depth = curve.max_draft_len or int(np.ceil(_BEYOND * deepest))
        drafts = np.arange(depth + 1)
        drawn = look(i) | ({"marker": "", "ls": "--"} if i >= len(curves) else {})
        for one, values in zip(axes, (curve.survival, curve.tokens_per_round), strict=True):
            one.plot(drafts, values(drafts), **drawn)
        handles.append(Line2D([], [], label=name, **drawn))
    for one, label in zip(axes, _LABELS, strict=True):
        one.set_xlabel("Draft length γ")
        one.set_ylabel(label)
        one.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes[0].set_ylim(0, 1.03)
    add_legend(chart, handles)
    return chart
