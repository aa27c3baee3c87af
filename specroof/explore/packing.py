"""Grids as text that a page unpacks: whole numbers, their differences, deflated, in base64."""

import base64
import zlib
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
