"""Grids as text that a page unpacks, and the document that holds them."""

import base64
import hashlib
import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from importlib.resources import files
from typing import Any, Final

import numpy as np
import numpy.typing as npt

#: Seven bits of a number to a byte, as in LEB128; the eighth says that more follow.
_BITS: Final = 7


#: Letters of base 85 (RFC 1924) that JSON inside of a script would spell with six.
_PLAIN_IN_SCRIPTS: Final = str.maketrans("&<>", ",./")


@dataclass(frozen=True, slots=True, eq=False)
class PageGrid:
    """An array to be packed.

    Parameters
    ----------
    values
        Finite numbers.
    quantum
        They are rounded to multiples of it, of less than 2^48.
    differences
        How often differences are taken along each axis: what is smooth becomes small, and what is
        rounded coarsely becomes noise.
    """

    values: npt.NDArray[np.float64]
    quantum: float
    differences: tuple[int, ...]


def packed(things: Sequence[Mapping[str, Any]], **shared: Any) -> str:
    """Return things as a text, without what they share with the one before.

    Grids of one shape at the same place of one thing after another form a stack. Of a stack the
    numbers at the first place of all grids come first, which are alike. Signs go into the lowest
    bit. Behind a byte of zero stands how many more follow it: there are many.

    Parameters
    ----------
    things
        JSON objects with the same keys, and a `PageGrid` here and there.
    shared
        What else is JSON.

    Returns
    -------
    str
        In base 85 the length of a head in four bytes, the head, and numbers stack by stack, in the
        order of the things, both deflated. The head is JSON: `things`, with the number of its stack
        for each grid, and only the keys whose value is not that of the thing before; `stacks`:
        shape, quantum and differences; `shared`.

    Source
        Varints and zigzag: Protocol Buffers, "Encoding".

    Examples
    --------
    >>> even = PageGrid(np.arange(0.0, 3000.0, 3.0).reshape(10, 100), 0.5, (1, 2))
    >>> len(packed([{"a": even, "b": 1}, {"a": even, "b": 2}])) < 2000 / 8
    True
    """
    stacks: dict[tuple[Any, ...], list[PageGrid]] = {}

    def placed(value: Any, *place: Any) -> Any:
        if isinstance(value, PageGrid):
            key = (*place, value.values.shape)
            stacks.setdefault(key, []).append(value)
            return {"grid": [*stacks].index(key)}
        if isinstance(value, Mapping):
            return {name: placed(part, *place, name) for name, part in value.items()}
        if isinstance(value, list):
            return [placed(part, *place, i) for i, part in enumerate(value)]
        return value

    whole = [placed(thing) for thing in things]
    own = [
        {key: part for key, part in thing.items() if i == 0 or part != whole[i - 1][key]}
        for i, thing in enumerate(whole)
    ]
    heads, data = [], b""
    for grids in stacks.values():
        first = grids[0]
        differences = (0, *first.differences)
        numbers = np.rint(np.stack([grid.values for grid in grids]) / first.quantum).astype(
            np.int64
        )
        for axis, times in enumerate(differences):
            for _ in range(times):
                numbers = np.diff(numbers, axis=axis, prepend=0)
        signed = np.swapaxes(numbers, 0, 1).ravel()
        data += _varints(np.where(signed < 0, -2 * signed - 1, 2 * signed))
        heads.append(
            {"shape": list(numbers.shape), "quantum": first.quantum, "differences": differences}
        )
    head = json.dumps({"things": own, "stacks": heads, "shared": shared}, separators=(",", ":"))
    head_bytes, numbers_bytes = zlib.compress(head.encode(), 9), zlib.compress(_counted_zeros(data))
    parts = len(head_bytes).to_bytes(4, "big"), head_bytes, numbers_bytes
    return base64.b85encode(b"".join(parts)).decode().translate(_PLAIN_IN_SCRIPTS)


def _varints(numbers: npt.NDArray[np.int64]) -> bytes:
    """Return numbers from 0 as bytes: the lowest seven bits of all, then the next of those left."""
    coded = []
    while numbers.size:
        higher = numbers >> _BITS
        more = higher > 0
        coded.append(((numbers & 0x7F) | (more << _BITS)).astype(np.uint8).tobytes())
        numbers = higher[more]
    return b"".join(coded)


def _counted_zeros(data: bytes) -> bytes:
    """Return bytes with how many more zeros follow behind the first of each run of up to 256."""
    numbers = np.frombuffer(data, np.uint8)
    ends = np.flatnonzero(np.diff(numbers == 0, prepend=False, append=False)).reshape(-1, 2)
    lengths = ends[:, 1] - ends[:, 0]
    zeros = np.flatnonzero(numbers == 0)
    after = np.repeat(ends[:, 1], lengths) - zeros - 1
    left_out = (after % 256 < 255) & (np.repeat(ends[:, 0], lengths) < zeros)
    kept = np.delete(numbers, zeros[left_out])
    return np.insert(kept, np.flatnonzero(kept == 0) + 1, after[~left_out] % 256).tobytes()


# --- The document: data, style and scripts --------------------------------------------------------


def script_json(value: object) -> str:
    """Return JSON that is safe inside of a script: no tag begins in it."""
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _asset(name: str) -> str:
    return (files("specroof.page") / name).read_text(encoding="utf-8")


def _checksum(text: str) -> str:
    """Return a text's name in a content security policy."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def document(tables: dict[str, Any], *, is_alone: bool, preview: str = "") -> str:
    """Return the page.

    Parameters
    ----------
    tables
        The data that its script recombines.
    is_alone
        Whether the page holds all grids; else it runs the scripts of grids in its folder.
    preview
        The picture in its folder that previews of links show; empty for none.
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
        "PREVIEW": f'<meta property="og:image" content="{escape(preview)}">' if preview else "",
        "STYLE": f"<style>{style}</style>",
        "TABLES": script_json(tables),
        "SCRIPTS": "\n".join(f"<script>{script}</script>" for script in scripts),
    }
    pieces = _asset("page.html").split("%%")
    # Every other piece is the name of a part.
    return "".join(parts[piece] if i % 2 else piece for i, piece in enumerate(pieces))
