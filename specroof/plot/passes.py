"""One forward pass: its operations under the roofline, and where its time goes."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import EngFormatter, MaxNLocator

from specroof.errors import OptionError
from specroof.plot.labels import Label, place_labels
from specroof.plot.style import COLORS, GREY, INK, add_legend, house_style, new_chart
from specroof.solver import PassLatency
from specroof.units import format_seconds, format_si

__all__ = ["plot_roofline", "plot_time_per_op"]

Floats = npt.NDArray[np.float64]

_BLUE, _VERMILLION, _GREEN, _PURPLE, _ORANGE, _SKY, _BLACK, _GREY = COLORS
_YELLOW: Final = "#F0E442"  # of Okabe and Ito as well; a filled mark with an outline may be pale
_KIND_COLORS: Final = {
    "dense": _BLUE,
    "experts": _VERMILLION,
    "attention": _GREEN,
    "state": _PURPLE,
    "head": _BLACK,
    "indexer": _SKY,
    "router": _ORANGE,
    "compressor": _YELLOW,
    "convolution": _GREY,
    "residual": "#FFFFFF",
}
_BOUND_MARKERS: Final = {"memory": "o", "compute": "s"}
_BOUND_FILLS: Final = {
    "memory": (_BLUE, ""),
    "compute": (_ORANGE, "///"),
    "communication": (_GREEN, "..."),
    "overhead": (_BLACK, ""),
    "others": (_GREY, ""),
}
_BOUND_NAMES: Final = {
    "memory": "memory bound",
    "compute": "compute bound",
    "communication": "collectives between devices",
    "overhead": "overhead of the engine",
    "others": "small operations together",
}
_ROOF_LINES: Final = ("-", "--", "-.", ":")


@dataclass(frozen=True)
class _Op:
    """Identical operations of one pass."""

    name: str
    kind: str
    dtype: str
    bound: str
    count: int
    flops: float
    memory_bytes: float
    seconds: float

    @property
    def intensity(self) -> float:
        return self.flops / self.memory_bytes

    @property
    def flops_per_s(self) -> float:
        return self.flops / self.seconds


def _ops(latency: PassLatency) -> list[_Op]:
    """Return the operations of a pass at one operating point, longest first."""
    if np.size(latency.total_s) != 1:
        message = f"latency holds {np.size(latency.total_s)} passes; allowed: one"
        raise OptionError(message)
    found = [
        _Op(
            name=op.op.name,
            kind=op.op.kind,
            dtype=op.compute_dtype,
            bound="compute" if op.compute_s > op.memory_s else "memory",
            count=op.op.count,
            flops=float(np.sum(op.op.count * op.op.flops)),
            memory_bytes=float(np.sum(op.op.count * op.op.memory_bytes)),
            seconds=float(np.sum(op.seconds)),
        )
        for op in latency.ops
    ]
    return sorted(found, key=lambda op: -op.seconds)
