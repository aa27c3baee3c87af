"""Charts as files."""

import io
from pathlib import PurePath
from typing import Any, Final

from matplotlib.figure import Figure

from specroof.errors import OutputError
from specroof.plot.style import house_style

#: By suffix, metadata without a date: the same chart is the same file.
_METADATA: Final[dict[str, dict[str, Any]]] = {
    ".png": {},
    ".svg": {"Date": None},
    ".pdf": {"CreationDate": None},
}
_ALLOWED: Final = ", ".join(_METADATA)
_DPI: Final = 150


def figure_bytes(figure: Figure, name: PurePath | str) -> bytes:
    """Return a chart as the content of a file of this name; its suffix says the format.

    Raises
    ------
    OutputError
        Unless the name ends in .png, .svg or .pdf.

    Examples
    --------
    >>> figure_bytes(Figure(), "chart.png")[1:4]
    b'PNG'
    """
    kind = PurePath(name).suffix.lower()
    if kind not in _METADATA:
        message = f"{name}: no format for a chart; allowed: a file that ends in {_ALLOWED}"
        raise OutputError(message)
    content = io.BytesIO()
    with house_style():
        figure.savefig(content, format=kind[1:], dpi=_DPI, metadata=_METADATA[kind])
    return content.getvalue()
