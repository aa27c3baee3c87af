"""Grids as text that a page unpacks: whole numbers, their differences, deflated, in base64."""

import base64
import hashlib
import json
import re
import zlib
from collections.abc import Callable, Iterator
from functools import lru_cache
from html import escape
from importlib.resources import files
from itertools import product
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from specroof.errors import OptionError
from specroof.questions.explore import Exploration
from specroof.questions.grids import (
    KNOTS,
    LENGTH_DEPTHS,
    LENGTH_STEPS,
    PRICED_KINDS,
    Cell,
    Drafting,
    flags_to_paste,
    profile_tokens,
    typical_acceptance,
)

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


def packed(numbers: npt.NDArray[np.int64]) -> dict[str, Any]:
    """Return whole numbers as text with their shape.

    It holds differences of differences along the last axis, which are small wherever seconds grow
    evenly with the draft length, and then differences along the first, since seconds of drafting
    change little with the context. Signs go into the lowest bit.

    Parameters
    ----------
    numbers
        Of less than 2^48.

    Source
        Varints and zigzag: Protocol Buffers, "Encoding".

    Examples
    --------
    >>> even = packed(np.arange(0, 3000, 3).reshape(10, 100))
    >>> even["shape"], len(even["data"]) < 1000 / 8  # less than a bit a number
    ([10, 100], True)
    """
    found = np.diff(np.diff(numbers, prepend=0), prepend=0)
    if numbers.ndim > 1:
        found = np.diff(found, axis=0, prepend=0)
    signed = found.ravel()
    data = zlib.compress(_varints(np.where(signed < 0, -2 * signed - 1, 2 * signed)), 9)
    return {"shape": list(numbers.shape), "data": base64.b64encode(data).decode()}


def _varints(numbers: npt.NDArray[np.int64]) -> bytes:
    """Return numbers from 0 as bytes, the lowest seven bits of each first."""
    septets = np.array([numbers >> (_BITS * place) for place in range(8)]).T
    n_bytes = np.maximum(1, (septets > 0).sum(axis=1))
    inside = np.arange(8) < n_bytes[:, None]
    more = np.arange(8) < n_bytes[:, None] - 1
    found = (septets & 0x7F) | (more << _BITS)
    return bytes(found[inside].astype(np.uint8))


# --- The page as files: one that holds everything, or a folder that loads grids when it needs
#     them

#: Kinds whose typical shapes differ; "" stands for all others.
_SHAPED_KINDS: Final = ("", *PRICED_KINDS)
_CHARTS: Final = "plotly.min.js"
_STYLE_NAME: Final = re.compile(r'getElementById\("([0-9a-f]{64})"\)')


def single_page(found: Exploration) -> str:
    """Return the page as one file that needs nothing else.

    Parameters
    ----------
    found
        What the page holds.

    Raises
    ------
    OptionError
        Where Plotly is not installed.
    """
    charts = _charts()
    grids = {
        f"{m}-{c}": _section(found, model, chip)
        for (m, model), (c, chip) in product(enumerate(found.models), enumerate(found.hardware))
    }
    return _page({**_tables(found), "sections": grids}, [charts], beside=False)


def site_files(
    found: Exploration, advance: Callable[[], None] = lambda: None
) -> Iterator[tuple[str, bytes]]:
    """Yield the files of a site by name: the page, the charts' script, a grid of each pair.

    Parameters
    ----------
    found
        What the site holds.
    advance
        Called after each grid.

    Raises
    ------
    OptionError
        Where Plotly is not installed.
    """
    yield _CHARTS, _charts().encode()
    yield "index.html", _page(_tables(found), [], beside=True).encode()
    for (m, model), (c, chip) in product(enumerate(found.models), enumerate(found.hardware)):
        name = f"{m}-{c}"
        section = _section(found, model, chip)
        yield f"grid-{name}.js", f"specroofPage.receive({_json(name)},{_json(section)});\n".encode()
        advance()


@lru_cache(maxsize=1)
def _charts() -> str:
    """Return Plotly's script."""
    try:
        script = files("plotly") / "package_data" / _CHARTS
    except ModuleNotFoundError:
        message = "explore needs Plotly; install it with: pip install plotly"
        raise OptionError(message) from None
    # An end tag inside of a script, as in text that it makes, would end it.
    return script.read_text(encoding="utf-8").replace("</script", "<\\/script")


@lru_cache(maxsize=1)
def _typical(max_draft_len: int) -> dict[str, dict[str, Any]]:
    """Return the typical shapes of each kind, packed: axes (1, stated length, draft length).

    Stated lengths at one depth stand behind those at the depth before: few large texts are unpacked
    faster than many small ones.
    """
    tables = {}
    for kind in _SHAPED_KINDS:
        found = typical_acceptance(kind, max_draft_len).values()
        tables[kind] = {
            name: packed_shares(np.concatenate([curves[name] for curves in found])[None])
            for name in ("tokens", "below", "above")
        }
    return tables


def _tables(found: Exploration) -> dict[str, Any]:
    """Return all that does not depend on model and chip."""
    longest = found.axes.max_draft_len
    return {
        "models": list(found.models),
        "hardware": [[word, one.name] for word, one in found.hardware.items()],
        "devices": list(found.devices),
        "context_len": list(found.axes.context_len),
        "batch_size": list(found.axes.batch_size),
        "max_draft_len": longest,
        "knots": list(KNOTS),
        "quantum": QUANTUM,
        "cost_of": found.options.cost_of,
        "options": found.changed_options,
        "profiles": profile_tokens(longest),
        "typical": _typical(longest),
        "length_depths": list(LENGTH_DEPTHS),
        "length_steps": LENGTH_STEPS,
        "flags": {kind: flags_to_paste(kind, longest) for kind in PRICED_KINDS},
    }


def _section(found: Exploration, model: str, chip: str) -> dict[str, Any]:
    section = found.section(model, chip)
    return {
        "default_engine": section.default_engine,
        "cells": [
            {"engine": engine, "devices": devices, **_cell(cell)}
            for (engine, devices), cell in section.cells.items()
        ],
    }


def _cell(cell: Cell) -> dict[str, Any]:
    scale_s = _scale_s(cell)
    return {
        "engine_round_s": cell.engine_round_s,
        "scale_s": scale_s.ravel().tolist(),
        "verify": packed_shares(cell.verify_s / scale_s),
        "largest": packed_ends(cell.largest),
        "bands": cell.bands,
        "drafting": {kind: _drafting(cell, one) for kind, one in cell.drafting.items()},
    }


def _scale_s(cell: Cell) -> np.ndarray:
    """Return the unit of packed seconds: for each batch size the shortest plain step."""
    shortest = cell.verify_s[..., 0].min(axis=0).tolist()
    return np.array([float(f"{one:.4g}") for one in shortest])[:, None]  # any unit near it will do


def _drafting(cell: Cell, drafting: Drafting) -> dict[str, Any]:
    scale_s = _scale_s(cell)
    found = {
        "depth": drafting.depth,
        "largest": packed_ends(drafting.largest),
        "engine_round_s": drafting.engine_round_s,
    }
    share = drafting.draft_s[..., 1:] / cell.verify_s[..., 1:]
    if np.ptp(share) < QUANTUM * share.flat[0] and not drafting.more_s.any():
        return {**found, "share": float(share.flat[0])}
    return {
        **found,
        "draft": packed_shares(drafting.draft_s / scale_s),
        "more": packed_shares(drafting.more_s / scale_s),
    }


# --- the document ------------------------------------------------------------------------------


def _json(value: object) -> str:
    """Return JSON that is safe inside of a script: no tag begins in it."""
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _asset(name: str) -> str:
    return (files("specroof.page") / name).read_text(encoding="utf-8")


def _sum(text: str) -> str:
    """Return a text's name in a content security policy."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _page(tables: dict[str, Any], charts: list[str], *, beside: bool) -> str:
    """Return the document; its policy runs these scripts, and with `beside` those in its folder."""
    scripts = [*charts, _asset("recombine.js"), _asset("page.js")]
    style = _asset("page.css")
    own = "'self' " if beside else ""
    policy = "; ".join(
        [
            "default-src 'none'",
            f"script-src {own}{' '.join(_sum(script) for script in scripts)}",
            # Plotly makes an empty style element and puts its rules in by script.
            f"style-src {_sum(style)} {_sum('')}",
            "img-src data:",
            "base-uri 'none'",
            "form-action 'none'",
        ]
    )
    parts = {
        "POLICY": escape(policy),
        "STYLE": f"<style>{style}</style>",
        "TABLES": _json(tables),
        # Where these names are taken, Plotly puts in no styles of maps, which nothing draws.
        "GUARDS": "".join(f'<i hidden id="{one}"></i>' for one in _STYLE_NAME.findall(_charts())),
        "SCRIPTS": "\n".join(
            [
                *([f'<script src="{_CHARTS}"></script>'] if beside else []),
                *(f"<script>{script}</script>" for script in scripts),
            ]
        ),
    }
    pieces = _asset("page.html").split("%%")
    # Every other piece is the name of a part.
    return "".join(parts[one] if i % 2 else one for i, one in enumerate(pieces))
