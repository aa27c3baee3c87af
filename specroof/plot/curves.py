"""Speedup curves: over draft lengths, over batch sizes, and over both axes of a grid."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator

from specroof.acceptance.curve import Acceptance
from specroof.arrays import Array
from specroof.errors import reject
from specroof.plot.lines import (
    CROSS,
    RING,
    Across,
    Line,
    Measured,
    Panel,
    band_keys,
    plot_lines,
    stars,
)
from specroof.plot.style import (
    GREY,
    INK,
    NO_ROOM,
    add_legend,
    curve_names,
    draw_cells,
    house_style,
    line_key,
    look,
    new_chart,
    tick_cells,
)
from specroof.units import format_drafts, plain_number

if TYPE_CHECKING:
    from specroof.speedup.result import SpeedupCurve

#: With more lines than this the optima stand in the legend, where there is room.
_MOST_LABELS: Final = 8
#: With more lines than this their bands would hide one another.
_MOST_BANDS: Final = 4
_DASHES: Final[dict[str, Any]] = {"lw": 1.2, "dashes": (4, 2.5), "marker": ""}
_EXTRAPOLATED: Final[dict[str, Any]] = {"lw": 1.0, "marker": "o", "ms": 2}
_NEAR: Final = 0.01
_MOST_NUMBERS: Final = 150  # cells; the map of more is read by its colours
_MOST_TICKS: Final = 16


@house_style()
def plot_speedup_by_draft_len(
    curves: "Sequence[SpeedupCurve]", *, measured: Sequence[Measured] = ()
) -> Figure:
    """Draw speedup against draft length, a line for each drafter, the chosen length in a ring.

    Curves are drawn at their first context length and batch size.

    The dashed line of the same colour is the speedup if drafting and the verification of more than
    one position cost nothing, which is the tokens per round unless prefills are counted. Beyond
    the drafts at which acceptance was measured, where no length is chosen, a line is thin.

    Parameters
    ----------
    curves
        From `speedup_curve`; they may differ in more than the drafter.
    measured
        Measurements near the curves: those of the batch size are drawn as stars.

    Raises
    ------
    OptionError
        Without curves.
    """
    shared, names = curve_names(curves, "batch", "context")
    lines, best, guessed = list[Line](), list[tuple[bool, float, int, str]](), False
    place = 0, 0
    for i, (name, curve) in enumerate(zip(names, curves, strict=True)):
        if not curve.drafts_run[place]:
            lines.append(Line(f"{name}: no room", np.array([]), np.array([])))
            continue
        drafts, gain = int(curve.best_draft_len[place]), float(curve.best_speedup[place])
        chosen = f"γ = {drafts}, {gain:.2f}x"
        lengths = curve.draft_len.astype(np.float64)
        is_labelled = len(curves) <= _MOST_LABELS
        known, gains = curve.measured_draft_len, curve.speedup[place]
        if known is not None and np.isfinite(gains[known + 1 :]).any():
            beyond = {**_EXTRAPOLATED, "color": look(i)["color"]}
            lines.append(Line("", lengths[known:], gains[known:], look=beyond))
            gains, guessed = np.where(lengths <= known, gains, np.nan), True
        lunch = {**_DASHES, "color": look(i)["color"], "alpha": 0.85}
        low, high = (None if end is None else end[place] for end in _bands(curve, curves))
        lines += [
            Line("", lengths, curve.free_lunch[place], look=lunch),
            Line(
                name if is_labelled else f"{name}: {chosen}",
                lengths,
                gains,
                low,
                high,
                notes={drafts: chosen} if is_labelled else {},
                ringed=[drafts],
            ),
        ]
        # What accepts everything is a bound beside real drafters, no finding.
        best.append((curve.drafter != "ideal", gain, -drafts, names[i]))
    here = {curve.batch_size[0].item() for curve in curves}
    lines += stars(
        [(drafts, gain, known) for batch, drafts, gain, known in measured if batch in here]
    )
    if best:
        _, gain, drafts, name = max(best)
        of = f": {' '.join(name.split())}" if len(curves) > 1 else ""
        shared += f"\n{gain:.2f}x with {format_drafts(-drafts)}{of}"
    counted = any(curve.request_lengths for curve in curves)
    free = "every round costs a plain step" if counted else "speedup = tokens per round"
    keys = [
        *band_keys(lines),
        line_key("chosen draft length", **RING),
        line_key(f"if drafts were free: {free}", color=GREY, **_DASHES),
    ]
    if guessed:
        keys.append(line_key("acceptance extrapolated", color=GREY, **_EXTRAPOLATED))
    return plot_lines(
        [Panel(_speedup_label("Speedup", curves), lines, "speedup")],
        shared,
        Across("Draft length γ (tokens per sequence and round)", "whole"),
        keys=keys,
    )


@house_style()
def plot_by_batch(curves: "Sequence[SpeedupCurve]", *, measured: Sequence[Measured] = ()) -> Figure:
    """Draw best speedup above best draft length, both against the batch size.

    Curves are drawn at their first context length. The band holds the draft lengths within 1% of
    the best.

    Parameters
    ----------
    curves
        From `speedup_curve`; the legend names what they differ in.
    measured
        Measurements near the curves: those of lengths that are best somewhere are drawn as stars.

    Raises
    ------
    OptionError
        Without curves.
    """
    shared, names = curve_names(curves, "context")
    speedups, draft_lens = list[Line](), list[Line]()
    for name, curve in zip(names, curves, strict=True):
        ascending = np.argsort(curve.batch_size, kind="stable")
        batches, room = curve.batch_size[ascending], curve.drafts_run[0, ascending]
        # A speedup of 1 would say that drafts without room do not pay.
        best, gain, shortest, longest = (
            np.where(room, values[0, ascending], np.nan)
            for values in (curve.best_draft_len, curve.best_speedup, *curve.near_best(_NEAR))
        )
        low, high = (
            None if end is None else np.where(room, curve.at_best(end)[0, ascending], np.nan)
            for end in _bands(curve, curves)
        )
        speedups.append(Line(name, batches, gain, low, high, missing=batches[~room]))
        draft_lens.append(Line(name, batches, best, shortest, longest))
    gains = np.concatenate([line.y for line in speedups])
    if np.isfinite(gains).any():
        shared += f"\n{_range_of(speedups)}"
    chosen = {drafts for curve in curves for drafts in curve.best_draft_len.ravel().tolist()}
    speedups += stars([(batch, gain, known) for batch, k, gain, known in measured if k in chosen])
    keys = band_keys(speedups)
    if np.isnan(gains).any():
        full = np.concatenate([np.isnan(curve.best_speedup[0]) for curve in curves])
        lacking = np.concatenate([~curve.drafts_run[0] for curve in curves])
        whose = "" if full[lacking].all() else " for drafts" + ", or none at all" * bool(full.any())
        keys.append(line_key(f"no room{whose}", **CROSS, color=GREY))
    return plot_lines(
        [
            Panel(_speedup_label("Best speedup", curves), speedups, "speedup"),
            Panel("Best draft length γ (tokens)", draft_lens, "whole"),
        ],
        shared,
        Across("Batch size (sequences)", "loads"),
        keys=[*keys, *band_keys(draft_lens, f"drafts within {_NEAR:.0%} of the best")],
    )


def _range_of(lines: Sequence[Line]) -> str:
    """Return the best speedups at the smallest and at the largest batch size of all lines."""
    known = [
        (line.x[there], line.y[there]) for line in lines if (there := np.isfinite(line.y)).any()
    ]
    ends = (max(((y[end], x[end]) for x, y in known)) for end in (0, -1))
    told = dict.fromkeys(f"{gain:.2f}x at batch {plain_number(x)}" for gain, x in ends)
    return f"Best speedup {' and '.join(told)}"


def _bands(
    curve: "SpeedupCurve", curves: "Sequence[SpeedupCurve]"
) -> tuple[Array | None, Array | None]:
    """Return the ends of the band of each speedup; None without, and among many curves."""
    if len(curves) > _MOST_BANDS:
        return None, None
    return curve.speedup_low, curve.speedup_high


def _speedup_label(what: str, curves: "Sequence[SpeedupCurve]") -> str:
    """Return the name of an axis of speedups, which says where prefills are counted."""
    is_counted = any(curve.request_lengths for curve in curves)
    return f"{what} over plain decoding" + ",\nprefills counted in both" * is_counted + " (×)"


# --- batch x context ---------------------------------------------------------------------------


@house_style()
def plot_best_draft_len_map(curve: "SpeedupCurve") -> Figure:
    """Draw the best draft length over batch size and context length, as a heat map.

    Parameters
    ----------
    curve
        From `speedup_curve`, over a list of batch sizes and of context lengths.
    """
    room, full = curve.drafts_run, np.isnan(curve.best_speedup)
    best = np.ma.MaskedArray(curve.best_draft_len, mask=~room)
    known = curve.best_draft_len[room]
    highest = int(known.max(initial=0))
    lowest = int(known.min(initial=highest))
    shared, names = curve_names([curve])
    lengths = " to ".join(dict.fromkeys([f"{lowest}", f"{highest}"]))
    rows, columns = best.shape
    chart = new_chart(
        f"{shared}\ndrafter: {names[0]}\n{lengths} drafts are best where they fit",
        width=float(np.clip(2.6 + 0.46 * columns, 6, 11)),
        height=float(np.clip(1.6 + 0.36 * rows, 3, 8)),
    )
    axes = chart.add_subplot()
    colors = mpl.colormaps["viridis"].resampled(highest - lowest + 1)
    ends = {"vmin": lowest - 0.5, "vmax": highest + 0.5}
    image = draw_cells(axes, best, full, cmap=colors, **ends)
    ticks = MaxNLocator(nbins=9, integer=True, min_n_ticks=1)
    chart.colorbar(image, label="Best draft length γ (tokens)", ticks=ticks)
    if best.size <= _MOST_NUMBERS and columns <= _MOST_TICKS + 4:
        # Rec. 709 luma: dark cells take light numbers.
        luma = np.asarray(image.to_rgba(best))[..., :3] @ [0.2126, 0.7152, 0.0722]
        for row, column in np.argwhere(room):
            color = INK if luma[row, column] > 0.5 else "white"
            axes.text(column, row, f"{best[row, column]}", ha="center", va="center", color=color)
    for axis, values in ((axes.xaxis, curve.batch_size), (axes.yaxis, curve.context_len)):
        tick_cells(axis, values, np.arange(0, len(values), -(-len(values) // _MOST_TICKS)))
    axes.set_xlabel("Batch size (sequences)")
    axes.set_ylabel("Context length (tokens)")
    legend = zip((~room & ~full, full), NO_ROOM.items(), strict=True)
    add_legend(
        chart, [Patch(color=grey, label=why) for where, (why, grey) in legend if where.any()]
    )
    return chart


def speedup_figures(
    curves: "Sequence[SpeedupCurve]", *, measured: Sequence[Measured]
) -> dict[str, Figure]:
    """Return the charts that a grid can show, by the endings of their files; the first has none."""
    figures = {"": plot_speedup_by_draft_len(curves, measured=measured)}
    if len(curves[0].batch_size) > 1:
        figures["-by-batch"] = plot_by_batch(curves, measured=measured)
    if len(curves[0].context_len) > 1:
        figures["-map"] = plot_best_draft_len_map(curves[0])
    return figures


# --- Measured acceptance: survival and tokens per round against the depth of the draft ------------

#: A fitted law has no end; it is drawn this much further than what was measured.
_BEYOND: Final = 1.5


def plot_acceptance(
    curves: Sequence[tuple[str, Acceptance]], *, fits: Sequence[tuple[str, Acceptance]] = ()
) -> Figure:
    """Draw survival and tokens per round against draft length, a line for each curve.

    Parameters
    ----------
    curves
        Measured ones, each with its name, up to the depth that it was measured to.
    fits
        Laws to draw dashed, past that depth too.

    Raises
    ------
    OptionError
        Without curves, or for an endless curve.
    """
    depths = [curve.max_draft_len for _, curve in curves if curve.max_draft_len is not None]
    if not depths or len(depths) < len(curves):
        reject("curves is empty, or holds one without end", "one or more measured curves")
    panels: dict[str, list[Line]] = {"survival": [], "tokens_per_round": []}
    for i, (name, curve) in enumerate((*curves, *fits)):
        depth = curve.max_draft_len or int(np.ceil(_BEYOND * max(depths)))
        drafts = np.arange(depth + 1.0)
        style = {"marker": "", "ls": "--"} if i >= len(curves) else {}
        for panel, lines in panels.items():
            lines.append(Line(name, drafts, getattr(curve, panel)(drafts), look=style))
    measured = panels["tokens_per_round"][: len(curves)]
    most = max(measured, key=lambda line: line.y[-1])
    found = f"Measured acceptance: up to {most.y[-1]:.2f} tokens per round"
    return plot_lines(
        [
            Panel("First γ drafts all accepted (share of rounds)", panels["survival"]),
            Panel("Tokens per round (bonus token included)", panels["tokens_per_round"]),
        ],
        f"{found} with {format_drafts(most.x[-1])}",
        Across("Draft length γ", "whole"),
        columns=2,
    )
