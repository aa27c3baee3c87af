"""Charts as files."""

import io
import os
from pathlib import Path
from typing import Any, Final

from matplotlib.figure import Figure

from specroof.errors import OutputError
from specroof.plot.style import house_style

__all__ = ["figure_bytes", "save_figure"]

#: By suffix, metadata without a date: the same chart is the same file.
_METADATA: Final[dict[str, dict[str, Any]]] = {
    ".png": {},
    ".svg": {"Date": None},
    ".pdf": {"CreationDate": None},
}
_DPI: Final = 150


def figure_bytes(figure: Figure, suffix: str) -> bytes:
    """Return a chart as the bytes of a file with this suffix.

    Raises
    ------
    OutputError
        Unless the suffix is .png, .svg or .pdf.

    Examples
    --------
    >>> figure_bytes(Figure(), ".png")[1:4]
    b'PNG'
    """
    kind = suffix.lower()
    if kind not in _METADATA:
        message = f"{suffix or 'no suffix'!r} is no format for a chart; allowed: {_allowed()}"
        raise OutputError(message)
    content = io.BytesIO()
    with house_style():
        figure.savefig(content, format=kind[1:], dpi=_DPI, metadata=_METADATA[kind])
    return content.getvalue()


def _allowed() -> str:
    return ", ".join(_METADATA)


def save_figure(figure: Figure, path: str | os.PathLike[str]) -> None:
    """Write a chart to a PNG, SVG or PDF file, by its suffix: all of it or nothing.

    Parameters
    ----------
    figure
        From one of the ``plot_`` functions.
    path
        Where to; what is there is replaced once the new file is complete.

    Raises
    ------
    OutputError
        If the suffix is another one, or the file cannot be written.
    """
    target = Path(path)
    if target.suffix.lower() not in _METADATA:
        message = f"{target}: no format for a chart; allowed: a file that ends in {_allowed()}"
        raise OutputError(message)
    content = figure_bytes(figure, target.suffix)
    # Beside the target, since a file is only replaced in one step within a file system.
    part = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        try:
            part.write_bytes(content)
            part.replace(target)
        finally:
            part.unlink(missing_ok=True)
    except OSError as failure:
        reason = failure.strerror or failure
        message = f"{target}: {reason}; allowed: a file in a folder that can be written to"
        raise OutputError(message) from None
