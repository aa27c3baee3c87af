"""The parts that all charts share: colours, markers, fonts, the frame of a figure, names."""

import io
import textwrap
from collections.abc import Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, Final, Literal

import matplotlib.style
import numpy as np
import numpy.typing as npt
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.lines import Line2D
from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter, ScalarFormatter
from matplotlib.transforms import ScaledTranslation

from specroof.arrays import Array, BoolArray
from specroof.errors import OutputError, reject
from specroof.units import plain_number

if TYPE_CHECKING:
    from specroof.speedup.result import SpeedupCurve

#: Okabe and Ito 2008, "Color Universal Design", with its grey for its yellow, which is too pale
#: for a line on white. Neighbours differ in lightness too.
COLORS: Final = (
    "#0072B2",  # blue
    "#D55E00",  # vermillion
    "#009E73",  # bluish green
    "#CC79A7",  # reddish purple
    "#E69F00",  # orange
    "#56B4E9",  # sky blue
    "#000000",  # black
    "#7F7F7F",  # grey
)
#: One more than colours, so that 72 lines differ in one or the other.
MARKERS: Final = ("o", "s", "^", "D", "v", "P", "X", "<", ">")
GREY: Final = "#6B6B6B"
INK: Final = "#222222"

#: Cells of maps without a draft, by why there is none: the colour of 0 and that of 1.
NO_ROOM: Final = {"runs plain: no room for drafts": "#E6E6E6", "does not fit": "#B8B8B8"}

# Characters per inch, at the sizes of a title, of what stands below it, and of a legend.
_TITLE_PITCH: Final = 9.5
_ASKED_PITCH: Final = 13
_LEGEND_PITCH: Final = 14
# Inches of a line of a title.
_TITLE_LINE: Final = 0.2


def look(order: int) -> dict[str, Any]:
    """Return color and marker of a line by its place among others."""
    return {"color": COLORS[order % len(COLORS)], "marker": MARKERS[order % len(MARKERS)]}


class Chart(Figure):
    """A figure that a notebook shows as a picture although pyplot was never imported."""

    def _repr_png_(self) -> bytes:
        picture = io.BytesIO()
        with house_style():
            self.savefig(picture, format="png")
        return picture.getvalue()


@contextmanager
def house_style() -> Iterator[None]:
    """Draw in the style of all charts, whatever the user's settings, and leave those alone."""
    with matplotlib.style.context(Path(__file__).with_name("house.mplstyle"), after_reset=True):
        yield


def new_chart(title: str, *, width: float, height: float) -> Chart:
    """Return an empty figure of `width` x `height` inches with a title that fits it.

    The last line of the title, what was found, stands first and bold; what was asked is below.
    """
    *asked, found = title.splitlines() or [""]
    lines = textwrap.wrap(found, int(width * _TITLE_PITCH), break_on_hyphens=False)
    below = [line for text in asked for line in textwrap.wrap(text, int(width * _ASKED_PITCH))]
    rows = len(lines) + len(below)
    chart = Chart(figsize=(width, height + _TITLE_LINE * rows), layout="constrained")
    # Blank lines of the title keep the room of what stands below it.
    chart.suptitle("\n".join([*lines, *[" "] * len(below)]))
    if below:
        down = ScaledTranslation(0, -0.06 - _TITLE_LINE * len(lines), chart.dpi_scale_trans)
        where = chart.transFigure + down
        look: dict[str, Any] = {"ha": "center", "va": "top", "size": 9.5, "color": GREY}
        chart.text(0.5, 1, "\n".join(below), transform=where, **look)
    return chart


def line_key(label: str, **settings: Any) -> Line2D:
    """Return an entry of a legend: a line with the settings of those that it stands for."""
    return Line2D([], [], label=label, **settings)


def add_legend(chart: Figure, handles: Sequence[Artist]) -> None:
    """Put a legend below the axes, where it hides nothing, and make room for it.

    It gets as many columns as fit beside each other; there is none without handles.
    """
    if not handles:
        return
    texts = [str(handle.get_label()) for handle in handles]
    letters = max(len(line) for text in texts for line in text.splitlines())
    width, height = chart.get_size_inches()
    columns = int(np.clip(width * _LEGEND_PITCH // (letters + 8), 1, len(handles)))
    rows = int(np.ceil(len(handles) / columns))
    # Handles run down the columns; a row is as high as the highest text in it.
    lines = sum(
        max(len(text.splitlines()) for text in texts[row::rows] or [""]) for row in range(rows)
    )
    chart.set_size_inches(width, height + 0.19 * lines)
    chart.legend(handles=list(handles), loc="outside lower center", ncols=columns)


# --- names -------------------------------------------------------------------------------------


def engine_name(engine: str) -> str:
    """Return an engine as charts name it.

    Examples
    --------
    >>> engine_name("vllm"), engine_name("ideal")
    ('engine vllm', 'engine ideal: the plain roofline')
    """
    return "engine ideal: the plain roofline" if engine == "ideal" else f"engine {engine}"


def wrapped(text: str, *, width: int = 46) -> str:
    """Return a long SPEC over a few lines, with the middle of long lists of numbers left out.

    Examples
    --------
    >>> print(wrapped("autoregressive,accept=0.75,cost=0.10", width=30))
    autoregressive, accept=0.75,
    cost=0.10
    >>> print(wrapped("block,survival=.96/.92/.88/.85/.81/.78/.75/.72/.69/.66,cost=0.1,drafts=10"))
    block, survival=.96/.92/.88/.85/…/.66,
    cost=0.1, drafts=10
    """
    if text == "ideal":
        return "ideal: accepts everything, costs nothing"
    parts = [_shortened(part.strip()) for part in text.split(",")]
    return textwrap.fill(", ".join(parts), width, max_lines=4, placeholder=" …")


def _shortened(part: str) -> str:
    """Return one key=value of a SPEC, the first and the last of its many numbers."""
    if len(part) <= 36 or "=" not in part:
        return part
    first, _, rest = part[:28].rpartition("/")
    last = part.rpartition("/")[2]
    return f"{first or rest}/…/{last[-12:]}"


def short_number(value: float) -> str:
    """Return a length as people say it.

    Examples
    --------
    >>> short_number(512), short_number(4096), short_number(1 << 20), short_number(5000)
    ('512', '4k', '1M', '5000')
    """
    # Lengths of caches and batches are powers of two more often than not.
    for scale, prefix in ((1 << 20, "M"), (1 << 10, "k")):
        if value >= scale and value % scale == 0:
            return f"{value / scale:.0f}{prefix}"
    return plain_number(value)


def curve_names(
    curves: "Sequence[SpeedupCurve]", *places: Literal["batch", "context"]
) -> tuple[str, list[str]]:
    """Return a title of what all curves share, and a name of each for a legend.

    A drafter in common has a line of the title for itself. Equal names are counted: things that
    differ may have one, such as a chip and a calibrated copy of its profile.

    Parameters
    ----------
    curves
        What is named.
    places
        What is told of the first point of each, where it is read.

    Raises
    ------
    OptionError
        Without curves.
    """
    if not curves:
        reject("curves is empty", "one or more")
    facets = []
    for curve in curves:
        facet = {
            "model": curve.model,
            "hardware": _hardware_name(curve),
            "engine": engine_name(curve.engine),
            "drafter": wrapped(curve.drafter),
            "batch": f"batch {plain_number(curve.batch_size[0])}",
            "context": curve.request_lengths or f"context {plain_number(curve.context_len[0])}",
        }
        unread = {"batch", "context"}.difference(places)
        facets.append({key: text for key, text in facet.items() if key not in unread})
    own = {key for key in facets[0] if len({facet[key] for facet in facets}) > 1} or {"drafter"}
    names = [_phrase(facet, own, joint=":\n") for facet in facets]
    shared = _phrase(facets[0], facets[0].keys() - own, joint="\ndrafter: ")
    return shared, [
        f"{name} ({names[: i + 1].count(name)})" if names.count(name) > 1 else name
        for i, name in enumerate(names)
    ]


def _hardware_name(curve: "SpeedupCurve") -> str:
    placement = curve.placement
    name = f"{placement.devices} × {curve.hardware}" if placement.devices > 1 else curve.hardware
    degrees = {
        "EP": placement.expert_parallel,
        "DP attention": placement.attention_data_parallel,
        "DCP": placement.decode_context_parallel,
        "PP": placement.pipeline_parallel,
    }
    return name + "".join(f" ({of} {degree})" for of, degree in degrees.items() if degree > 1)


def _phrase(facet: Mapping[str, str], keys: Set[str], *, joint: str) -> str:
    """Return these keys of a facet as text, the drafter behind the joint."""
    told = {key: text for key, text in facet.items() if key in keys}
    drafter = told.pop("drafter", "")
    where = " on ".join(told.pop(key) for key in ("model", "hardware") if key in told)
    return joint.join(filter(None, [", ".join(filter(None, [where, *told.values()])), drafter]))


# --- ticks -------------------------------------------------------------------------------------


def thin_ticks(values: npt.ArrayLike, *, share: float) -> Array:
    """Return the values of a log2 axis to write down, none closer than `share` of its length.

    Powers of two go first.
    """
    ticks = np.unique(np.asarray(values, dtype=np.float64))
    places = np.log2(ticks)
    gap = share * (places[-1] - places[0])
    kept: list[float] = []
    for place in sorted(places.tolist(), key=lambda place: (place != round(place), place)):
        if all(abs(place - other) >= gap for other in kept):
            kept.append(place)
    return np.sort(ticks[np.isin(places, kept)])


def draw_cells(axes: Axes, values: npt.NDArray[Any], full: BoolArray, **colors: Any) -> AxesImage:
    """Draw a map of values, its smallest load at the lower left, and why there are none.

    Parameters
    ----------
    axes, values
        Where, and what; masked where drafts have no room.
    full
        Where nothing fits.
    colors
        From values to colours, as of `imshow`.
    """
    cells: dict[str, Any] = {"aspect": "auto", "origin": "lower", "interpolation": "nearest"}
    axes.grid(visible=False)
    image = axes.imshow(values, **colors, **cells)
    greys = ListedColormap([*NO_ROOM.values()])
    axes.imshow(full, cmap=greys, vmin=0, vmax=1, zorder=-1, **cells)
    return image


def tick_cells(axis: Axis, values: Array, places: npt.NDArray[np.int_]) -> None:
    """Write some of the loads of a map, by their places."""
    tick_at(axis, places, [short_number(value) for value in values[places].tolist()])


def tick_at(axis: Axis, places: npt.ArrayLike, texts: Sequence[str]) -> None:
    """Put ticks in these places, and none between them."""
    axis.set_ticks(np.asarray(places, dtype=np.float64).tolist(), labels=list(texts))
    axis.set_ticks([], minor=True)


def load_ticks(axes: Axes, loads: Array, ticks: Sequence[float]) -> None:
    """Write loads along a log2 axis, those that have room; a load of 0 stands before 1."""
    known = np.unique(loads)
    if known[0]:
        axes.set_xscale("log", base=2)
    else:
        axes.set_xscale("symlog", base=2, linthresh=1)
    margin = max(float(known[-1] / max(known[0], 1)) ** 0.03, 2**0.1)
    axes.set_xlim(known[0] / margin or -0.1, known[-1] * margin or 1.0)
    known = np.unique(ticks) if ticks else known
    texts = {load: short_number(load) for load in known.tolist()}
    longest = max(map(len, texts.values()))
    shown = known[known == 0]
    if known[-1]:
        shown = np.append(shown, thin_ticks(known[known > 0], share=0.015 * (1 + longest)))
    tick_at(axes.xaxis, shown, [texts[tick] for tick in shown.tolist()])


def log_ticks(axis: Axis) -> None:
    """Write the numbers of a logarithmic axis out, at 1, 2 and 5 of each decade.

    What spans less than a decade has ticks in equal steps.
    """
    low, high = axis.get_data_interval()
    narrow = low > 0.0 and high < 10 * low
    axis.set_major_locator(MaxNLocator(nbins=6) if narrow else LogLocator(subs=(1.0, 2.0, 5.0)))
    axis.set_major_formatter(ScalarFormatter())
    axis.set_minor_formatter(NullFormatter())


# --- Charts as files -----------------------------------------------------------------------------

#: By suffix, metadata without a date: the same chart is the same file.
_METADATA: Final[dict[str, dict[str, Any]]] = {
    ".png": {},
    ".svg": {"Date": None},
    ".pdf": {"CreationDate": None},
}
_ALLOWED: Final = ", ".join(_METADATA)


def chart_format(name: PurePath | str) -> str:
    """Return the suffix of a chart's file, which says its format.

    Raises
    ------
    OutputError
        Unless the name ends in .png, .svg or .pdf.

    Examples
    --------
    >>> chart_format("Chart.PNG")
    '.png'
    """
    kind = PurePath(name).suffix.lower()
    if kind not in _METADATA:
        reject(f"{name}: no format for a chart", f"a file that ends in {_ALLOWED}", OutputError)
    return kind


def figure_bytes(figure: Figure, name: PurePath | str) -> bytes:
    """Return a chart as the content of a file of this name: see `chart_format`.

    Examples
    --------
    >>> figure_bytes(Figure(), "chart.png")[1:4]
    b'PNG'
    """
    kind = chart_format(name)
    content = io.BytesIO()
    with house_style():
        figure.savefig(content, format=kind[1:], dpi=150, metadata=_METADATA[kind])
    return content.getvalue()
