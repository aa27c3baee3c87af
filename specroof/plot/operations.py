"""One pass: operations under the roofline, and where time goes; a round against a plain step."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import EngFormatter, NullFormatter

from specroof.arrays import grouped
from specroof.errors import OptionError
from specroof.latency.pass_seconds import OpLatency, PassLatency
from specroof.plot.bars import Bar, Fill, plot_bars
from specroof.plot.labels import Label, place_labels
from specroof.plot.style import COLORS, GREY, INK, add_legend, house_style, line_key, new_chart
from specroof.units import format_seconds, format_si

if TYPE_CHECKING:
    from specroof.speedup.waterfall import RoundParts

_BLUE, _VERMILLION, _GREEN, _PURPLE, _ORANGE, _SKY, _BLACK, _GREY = COLORS
_YELLOW: Final = "#F0E442"  # of Okabe and Ito as well; a filled mark with an outline may be pale
_KIND_COLORS: Final = {
    "dense": _BLUE,
    "experts": _VERMILLION,
    "attention": _GREEN,
    "latent_attention": _GREEN,  # no model has both
    "unsplit_attention": _GREEN,
    "state": _PURPLE,
    "head": _BLACK,
    "indexer": _SKY,
    "router": _ORANGE,
    "compressor": _YELLOW,
    "convolution": _GREY,
    "residual": "#FFFFFF",
    "mixing": "#FFFFFF",  # no model has both
}
_BOUND_MARKERS: Final = {"memory": "o", "compute": "s"}
_BOUND_FILLS: Final = {
    "memory": Fill("memory bound", _BLUE),
    "compute": Fill("compute bound", _ORANGE, "///"),
    "communication": Fill("collectives between devices", _GREEN, "..."),
    "overhead": Fill("overhead of the engine", _BLACK),
    "pipeline": Fill("other micro-batches in the slowest stage", _GREY, "\\\\\\"),
    "others": Fill("small operations together", _GREY),
}
_ROOF_LINES: Final = ("-", "--", "-.", ":")


class _Op(NamedTuple):
    """Identical operations of one pass, as each device does them."""

    name: str
    kind: str
    dtype: str
    bound: str
    seconds: float
    intensity: float
    flops_per_s: float


def _bound(op: OpLatency) -> str:
    return "compute" if op.compute_s > op.memory_s else "memory"


def _ops(latency: PassLatency, devices: int) -> list[_Op]:
    """Return the operations of one pass that have a place under a roof, longest first."""
    found = list[_Op]()
    for op in latency.ops:
        one, seconds = op.op, float(np.sum(op.seconds))
        flops, moved = (float(np.sum(one.count * of)) for of in (one.flops, one.memory_bytes))
        if min(flops, moved, seconds) > 0:
            rate = flops / devices / seconds
            words = one.name, one.kind, op.compute_dtype, _bound(op)
            found.append(_Op(*words, seconds, flops / moved, rate))
    return sorted(found, key=lambda op: -op.seconds)


def _spent_s(latency: PassLatency) -> dict[tuple[str, str], float]:
    """Return the seconds of all that a pass does, by its name and what bounds it."""
    spent_s: dict[tuple[str, str], float] = {}
    for op in latency.ops:
        key = op.op.name, _bound(op)
        spent_s[key] = spent_s.get(key, 0.0) + float(np.sum(op.seconds))
    return spent_s | {(name, kind): seconds for name, kind, seconds in latency.beside_ops_s}


# --- the roofline ------------------------------------------------------------------------------

_MOST_LABELS: Final = 8
_NEAR: Final = 0.07  # decades; marks nearer than that share a label
_MOST_NAMES: Final = 18  # in all labels together, but no fewer than three in each


@house_style()
def plot_roofline(
    latency: PassLatency,
    *,
    flops_per_s: Mapping[str, float],
    memory_bytes_per_s: float,
    devices: int = 1,
    title: str,
) -> Figure:
    """Draw the operations of a pass under the roofline of what it runs on.

    The area of a mark is its share of the time. Operations that lie on one another share a label,
    and a mark if they are of one kind; the eight places where most time goes have a label.

    Parameters
    ----------
    latency
        One pass, from `forward_latency`.
    flops_per_s, memory_bytes_per_s
        Peaks of one device: FLOP/s by dtype, bytes/s. What an engine does not reach shows as
        distance to the roof.
    devices
        How many share the pass. What does not divide among them is below the roof, too.
    title
        Which pass of what.

    Raises
    ------
    OptionError
        If `flops_per_s` lacks a dtype.
    """
    ops, total_s = _ops(latency, devices), sum(_spent_s(latency).values())
    roofs = _roofs(ops, flops_per_s)
    bound = _BOUND_FILLS[ops[0].bound].label
    found = f"{ops[0].name} takes {ops[0].seconds / total_s:.1%} of the time, {bound}"
    chart = new_chart(f"{title}\n{found}", width=8.5, height=5.2)
    axes = chart.add_subplot(xscale="log", yscale="log")
    axes.set_xlim(*_span([op.intensity for op in ops], max(roofs.values()) / memory_bytes_per_s))
    axes.set_ylim(*_span([op.flops_per_s for op in ops], max(roofs.values())))
    handles = _draw_roofs(axes, roofs, memory_bytes_per_s)
    places = _places(ops)
    for place in places:
        _draw_place(axes, place, total_s)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(EngFormatter(sep=""))
        axis.set_minor_formatter(NullFormatter())
    axes.set_xlabel("Arithmetic intensity (FLOP per byte moved)")
    axes.set_ylabel("Attained on each device (FLOP/s)")
    labelled = places[:_MOST_LABELS]
    others = [op for place in places[_MOST_LABELS:] for op in place]
    add_legend(chart, [*handles, *_mark_handles(ops, others, total_s)])
    most = max(3, _MOST_NAMES // len(labelled))
    place_labels(
        chart, axes, [_place_label(place, most=most, total_s=total_s) for place in labelled]
    )
    return chart


def _roofs(ops: Sequence[_Op], flops_per_s: Mapping[str, float]) -> dict[str, float]:
    """Return the peaks of the dtypes that a pass computes in, highest first."""
    dtypes = dict.fromkeys(op.dtype for op in ops)
    missing = [dtype for dtype in dtypes if dtype not in flops_per_s]
    if missing:
        has = ", ".join(flops_per_s) or "nothing"
        message = f"flops_per_s has {has}; must have {missing[0]!r}, which the pass computes in"
        raise OptionError(message)
    return {dtype: flops_per_s[dtype] for dtype in sorted(dtypes, key=lambda d: -flops_per_s[d])}


def _places(ops: Iterable[_Op]) -> list[list[_Op]]:
    """Return groups of operations whose marks lie on one another, longest group first."""
    places: list[list[_Op]] = []
    for op in ops:
        for place in places:
            aside = op.intensity / place[0].intensity, op.flops_per_s / place[0].flops_per_s
            if np.abs(np.log10(aside)).max() < _NEAR:
                place.append(op)
                break
        else:
            places.append([op])
    return sorted(places, key=lambda place: -_seconds(place))


def _seconds(ops: Iterable[_Op]) -> float:
    return sum(op.seconds for op in ops)


def _span(values: Sequence[float], highest: float) -> tuple[float, float]:
    """Return a log axis that holds the marks and the roof, with room for labels."""
    return min(*values, highest) / 6, max(*values, highest) * 5


def _draw_roofs(axes: Axes, roofs: Mapping[str, float], memory_bytes_per_s: float) -> list[Artist]:
    """Draw the slope of the memory up to the highest roof, and each roof from there on."""
    left, right = axes.get_xlim()
    ridge = max(roofs.values()) / memory_bytes_per_s
    slope = np.array([left, ridge])
    axes.plot(slope, slope * memory_bytes_per_s, color=GREY, lw=1.6)
    handles: list[Artist] = [
        line_key(f"memory: {format_si(memory_bytes_per_s, 'B/s')}", color=GREY)
    ]
    for i, (dtype, peak) in enumerate(roofs.items()):
        style = _ROOF_LINES[i % len(_ROOF_LINES)]
        axes.plot([peak / memory_bytes_per_s, right], [peak, peak], color=INK, lw=1.6, ls=style)
        text = f"{dtype}: {format_si(peak, 'FLOP/s')}"
        handles.append(line_key(text, color=INK, lw=1.6, ls=style))
    return handles


def _draw_place(axes: Axes, place: Sequence[_Op], total_s: float) -> None:
    """Draw a mark for each kind in a place, the large ones below the small."""
    alike = grouped(place, lambda op: (op.kind, op.bound))
    for (kind, bound), ops in sorted(alike.items(), key=lambda item: -_seconds(item[1])):
        axes.scatter(
            ops[0].intensity,
            ops[0].flops_per_s,
            s=_mark_area(ops, total_s),
            marker=_BOUND_MARKERS[bound],
            color=_KIND_COLORS.get(kind, GREY),
            edgecolors=INK,
            linewidths=0.7,
            zorder=3,
        )


def _mark_area(ops: Iterable[_Op], total_s: float) -> float:
    """Return the square points of a mark; the smallest can still be seen."""
    return 12 + 800 * _seconds(ops) / total_s


def _mark_handles(ops: Sequence[_Op], others: Sequence[_Op], total_s: float) -> list[Artist]:
    """Return a legend of the marks' colours and shapes, and what has no label."""
    keys: list[Artist] = [
        Patch(facecolor=_KIND_COLORS.get(kind, GREY), edgecolor=INK, lw=0.8, label=kind)
        for kind in dict.fromkeys(op.kind for op in ops)
    ]
    look = {"ls": "none", "mfc": "white", "mec": INK, "mew": 1.0}
    for bound, marker in _BOUND_MARKERS.items():
        if any(op.bound == bound for op in ops):
            keys.append(line_key(_BOUND_FILLS[bound].label, marker=marker, ms=8, **look))
    if others:
        count, share = len({op.name for op in others}), _seconds(others) / total_s
        text = f"not labelled: {count} other{'s' * (count > 1)}, {share:.1%} of the time"
        keys.append(line_key(text, marker="o", ms=4, **look))
    return keys


def _place_label(place: Sequence[_Op], *, most: int, total_s: float) -> Label:
    """Return the names of the operations in a place, those that take longest, and their share."""
    names = list(dict.fromkeys(op.name for op in place))
    more = [f"+ {len(names) - most} more"] if len(names) > most else []
    share = _seconds(place) / total_s
    return Label(
        x=place[0].intensity,
        y=place[0].flops_per_s,
        text="\n".join([*names[:most], *more, f"{share:.1%} of the time"]),
        color=GREY,
        radius=math.sqrt(_mark_area(place, total_s)) / 2 + 1,
    )


# --- bars ----------------------------------------------------------------------------------------

_MOST_BARS: Final = 16
_SMALL: Final = 0.005  # of the time; what takes less goes to the others


def plot_time_per_op(latency: PassLatency, *, title: str) -> Figure:
    """Draw the seconds of each operation of a pass as bars, longest first.

    Parameters
    ----------
    latency
        One pass, from `forward_latency`. Collectives and overheads have separate bars.
    title
        Which pass of what.
    """
    longest = sorted(_spent_s(latency).items(), key=lambda bar: -bar[1])
    total_s, pass_s = sum(spent_s for _, spent_s in longest), float(np.sum(latency.total_s))
    n_small = sum(spent_s < _SMALL * total_s for _, spent_s in longest)
    shown = longest[: min(_MOST_BARS, len(longest) - n_small)]
    others = longest[len(shown) :]
    if len(others) > 1:
        name = f"{len(others)} others"
        longest = [*shown, ((name, "others"), sum(spent_s for _, spent_s in others))]
    (name, _), most_s = longest[0]
    share = most_s / total_s if total_s else 0.0
    note = f"A pass takes {format_seconds(pass_s)}, {share:.0%} of it in {name}"
    if pass_s < total_s * (1 - 1e-6):
        note += (
            f"; the bars add up to {format_seconds(total_s)}, "
            "since arithmetic and memory are taken to overlap"
        )
    bars = [
        Bar(
            name,
            {bound: spent_s},
            f"{format_seconds(spent_s)}, {spent_s / total_s if total_s else 0.0:.1%}",
        )
        for (name, bound), spent_s in longest
    ]
    return plot_bars(bars, _BOUND_FILLS, f"{title}\n{note}", "Time on each device", unit="s")


#: Parts below this share of the round are one bar.
_SMALL_PART: Final = 0.002
_PART_FILLS: Final = {name: Fill("") for name in ("whole", "more", "less")}


def plot_waterfall(parts: "RoundParts", *, title: str) -> Figure:
    """Draw the parts that a round adds to a plain step, bar by bar, and the worth of its tokens.

    Parameters
    ----------
    parts
        One round, from `specroof.explain`.
    title
        Of what.
    """
    bars = [Bar("plain step", {"whole": parts.decode_s}, format_seconds(parts.decode_s))]
    place = parts.decode_s
    added = sorted(parts.added_s.items(), key=lambda part: -part[1])
    small = [part for part in added if abs(part[1]) <= _SMALL_PART * parts.round_s]
    if len(small) > 1:
        rest = f"{len(small)} smaller parts", sum(seconds for _, seconds in small)
        added = [*(part for part in added if part not in small), rest]
    for name, seconds in added:
        text = format_seconds(seconds)
        bars.append(Bar(name, {"more" if seconds > 0 else "less": seconds}, text, place))
        place += seconds
    bars.append(Bar("round", {"whole": parts.round_s}, format_seconds(parts.round_s)))
    worth = f"without drafts, its {parts.tokens_per_round:.2f} tokens take this long"
    limit = parts.tokens_per_round * parts.decode_s, worth
    return plot_bars(bars, _PART_FILLS, title, "Time", unit="s", limit=limit)
