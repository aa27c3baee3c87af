"""A round of speculation against a plain step, as a waterfall."""

from typing import Final

from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import EngFormatter

from specroof.plot.style import COLORS, GREY, INK, add_legend, house_style, new_chart
from specroof.speedup.waterfall import RoundParts
from specroof.units import format_seconds

_TOTAL, _ADDED, _SAVED = COLORS[0], COLORS[1], COLORS[2]
#: Parts below this share of the round are drawn, but not written about.
_SMALL: Final = 0.002


@house_style()
def plot_waterfall(parts: RoundParts, *, title: str) -> Figure:
    """Draw the parts that a round adds to a plain step, bar by bar, and the worth of its tokens.

    Parameters
    ----------
    parts
        One round, from `specroof.explain`.
    title
        Of what.
    """
    added = sorted(parts.added_s.items(), key=lambda one: -one[1])
    bars = [("plain step", 0.0, parts.decode_s, _TOTAL)]
    place = parts.decode_s
    for name, seconds in added:
        bars.append((name, place, seconds, _ADDED if seconds > 0 else _SAVED))
        place += seconds
    bars.append(("round", 0.0, parts.round_s, _TOTAL))
    worth_s = parts.tokens_per_round * parts.decode_s
    chart = new_chart(title, width=8, height=1.2 + 0.31 * len(bars))
    axes = chart.add_subplot()
    axes.grid(visible=False, axis="y")
    for row, (_, start, seconds, color) in enumerate(bars):
        axes.barh(row, seconds, left=start, color=color, edgecolor=INK, lw=0.6, height=0.7)
        if abs(seconds) > _SMALL * parts.round_s:
            axes.annotate(
                format_seconds(seconds),
                (max(start, start + seconds), row),
                xytext=(4, 0),
                textcoords="offset points",
                va="center",
                bbox={"boxstyle": "square,pad=0.1", "fc": "white", "ec": "none"},
            )
    axes.axvline(worth_s, color=GREY, ls="--", lw=1.4)
    axes.set_xlim(0, 1.16 * max(worth_s, place, parts.round_s))
    axes.set_ylim(len(bars) - 0.4, -0.6)
    axes.set_yticks(range(len(bars)), [name for name, *_ in bars])
    axes.tick_params(axis="y", length=0)
    axes.xaxis.set_major_formatter(EngFormatter(unit="s"))
    axes.set_xlabel("Time")
    label = f"{parts.tokens_per_round:.2f} plain steps: the worth of the round's tokens"
    add_legend(chart, [Line2D([], [], color=GREY, ls="--", lw=1.4, label=label)])
    return chart
