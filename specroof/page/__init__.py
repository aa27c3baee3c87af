"""Grids as text that a page unpacks, and the document that holds them."""

import base64
import hashlib
import json
import zlib
from collections.abc import Sequence
from html import escape
from importlib.resources import files
from typing import Any, Final

import numpy as np
import numpy.typing as npt

#: Share of a plain step that is told apart: seconds that are packed are off by half of it. Of
#: verification and drafting together that is a fifth of the 1e-6 that a page may be off.
QUANTUM: Final = 2e-7
#: Stands for a number without an end.
_NO_END: Final = -1

#: Seven bits of a number to a byte, as in LEB128; the eighth says that more follow.
_BITS: Final = 7


def packed_shares(shares: npt.NDArray[np.float64]) -> dict[str, Any]:
    """Return shares of a plain step, rounded to `QUANTUM`.

    Parameters
    ----------
    shares
        On a last axis along which they change smoothly; NaN is packed as 0.

    Examples
    --------
    >>> packed_shares(np.array([1.0, 1.5, 2.0]))["shape"]
    [3]
    """
    return packed(np.rint(np.nan_to_num(shares) / QUANTUM).astype(np.int64))


def packed_ends(ends: npt.NDArray[np.float64]) -> dict[str, Any]:
    """Return whole numbers, with -1 for infinity.

    Examples
    --------
    >>> packed_ends(np.array([[8.0, np.inf]])) == packed(np.array([[8, -1]]))
    True
    """
    return packed(np.where(np.isfinite(ends), ends, _NO_END).astype(np.int64))


def packed(numbers: npt.NDArray[np.int64], *, width: int = 0) -> dict[str, Any]:
    """Return whole numbers as text with their shape.

    It holds differences of differences along the last axis, which are small wherever seconds grow
    evenly with the draft length, and then differences along the first, since seconds of drafting
    change little with the context. Signs go into the lowest bit.

    Parameters
    ----------
    numbers
        Of less than 2^48.
    width
        Where the last axis is a table of rows of this width, differences are taken once along both
        of its sides instead: half as much text for what two things change smoothly.

    Source
        Varints and zigzag: Protocol Buffers, "Encoding".

    Examples
    --------
    >>> even = packed(np.arange(0, 3000, 3).reshape(10, 100))
    >>> even["shape"], len(even["data"]) < 1000 / 8  # less than a bit a number
    ([10, 100], True)
    """
    if width:
        sides = numbers.reshape(*numbers.shape[:-1], -1, width)
        differences = np.diff(np.diff(sides, prepend=0), axis=-2, prepend=0)
    else:
        differences = np.diff(np.diff(numbers, prepend=0), prepend=0)
        if numbers.ndim > 1:
            differences = np.diff(differences, axis=0, prepend=0)
    signed = differences.ravel()
    data = zlib.compress(_varints(np.where(signed < 0, -2 * signed - 1, 2 * signed)), 9)
    text = base64.b64encode(data).decode()
    return {"shape": list(numbers.shape), "data": text, **({"width": width} if width else {})}


def _varints(numbers: npt.NDArray[np.int64]) -> bytes:
    """Return numbers from 0 as bytes, the lowest seven bits of each first."""
    septets = np.array([numbers >> (_BITS * place) for place in range(8)]).T
    n_bytes = np.maximum(1, (septets > 0).sum(axis=1))
    inside = np.arange(8) < n_bytes[:, None]
    more = np.arange(8) < n_bytes[:, None] - 1
    coded = (septets & 0x7F) | (more << _BITS)
    return bytes(coded[inside].astype(np.uint8))


# --- The document: data, style and scripts --------------------------------------------------------

#: The list of all models on all chips, in the folder of a site.
PAIRS_NAME: Final = "models.html"
#: The style of that list and of the pages of pairs.
STYLE_NAME: Final = "summary.css"


def script_json(value: object) -> str:
    """Return JSON that is safe inside of a script: no tag begins in it."""
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _asset(name: str) -> str:
    return (files("specroof.page") / name).read_text(encoding="utf-8")


def _checksum(text: str) -> str:
    """Return a text's name in a content security policy."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def document(tables: dict[str, Any], *, is_alone: bool) -> str:
    """Return the page.

    Parameters
    ----------
    tables
        The data that its script recombines.
    is_alone
        Whether the page holds all grids; else it runs the scripts of grids in its folder.
    """
    scripts = [_asset(name) for name in ("recombine.js", "charts.js", "page.js")]
    style = _asset("page.css")
    own = "" if is_alone else "'self' "
    policy = "; ".join(
        [
            "default-src 'none'",
            f"script-src {own}{' '.join(_checksum(script) for script in scripts)}",
            f"style-src {_checksum(style)}",
            "img-src data:",
            "base-uri 'none'",
            "form-action 'none'",
        ]
    )
    parts = {
        "POLICY": escape(policy),
        "PAIRS": "" if is_alone else f' <a href="{PAIRS_NAME}">All models and chips</a>.',
        "STYLE": f"<style>{style}</style>",
        "TABLES": script_json(tables),
        "SCRIPTS": "\n".join(f"<script>{script}</script>" for script in scripts),
    }
    pieces = _asset("page.html").split("%%")
    # Every other piece is the name of a part.
    return "".join(parts[piece] if i % 2 else piece for i, piece in enumerate(pieces))


def summary_style() -> str:
    """Return the style of summaries, which is that of the page."""
    return _asset("page.css")


def summary_page(
    title: str,
    text: str = "",
    *,
    head: Sequence[str] = (),
    rows: Sequence[Sequence[tuple[str, str]]] = (),
    link: str = "index.html",
) -> str:
    """Return a page without scripts: what a search engine reads, and a chat shows of a link.

    Parameters
    ----------
    title, text
        What it is about, and what is said of it.
    head, rows
        A table, if any: each cell is a text and what it links to, "" for nothing.
    link
        The settings of the interactive page that it leads to.
    """
    cells = [
        [f'<a href="{escape(to)}">{escape(word)}</a>' if to else escape(word) for word, to in row]
        for row in rows
    ]
    headers = "".join(f'<th scope="col">{escape(word)}</th>' for word in head)
    body = "".join(
        f'<tr><th scope="row">{first}</th>{"".join(f"<td>{cell}</td>" for cell in others)}</tr>'
        for first, *others in cells
    )
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'self'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="description" content="{escape(f"{title}. {text}")}">
<meta property="og:title" content="{escape(title)}">
<meta property="og:description" content="{escape(text)}">
<title>{escape(title)}</title>
<link rel="stylesheet" href="{STYLE_NAME}">
</head>
<body class="summary">
<main>
<h1>{escape(title)}</h1>
<p>{escape(text)}</p>
<p><a href="{escape(link)}">Try other loads, drafters and engines</a> · <a href="{PAIRS_NAME}">All models and chips</a></p>
<div class="scroll" tabindex="0" role="region" aria-label="Table"><table><thead><tr>{headers}</tr></thead><tbody>{body}</tbody></table></div>
</main>
</body>
</html>
"""
