"""Grids as text that a page unpacks: whole numbers, their differences, deflated, in base64."""

import base64
import zlib
from typing import Any, Final

import numpy as np
import numpy.typing as npt

__all__ = ["QUANTUM", "packed", "packed_shares"]

#: Share of a plain step that is told apart: what a page computes is off by less than that.
QUANTUM: Final = 5e-8

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


def packed(numbers: npt.NDArray[np.int64]) -> dict[str, Any]:
    """Return whole numbers as text with their shape.

    What is kept are differences of differences along the last axis: small wherever seconds grow
    evenly with the draft length. Signs go into the lowest bit.

    Parameters
    ----------
    numbers
        Of less than 2^52.

    Source
        Varints and zigzag: Protocol Buffers, "Encoding".

    Examples
    --------
    >>> even = packed(np.arange(0, 3000, 3).reshape(10, 100))
    >>> even["shape"], len(even["data"]) < 1000 / 8  # less than a bit a number
    ([10, 100], True)
    """
    flat = numbers.reshape(-1, numbers.shape[-1])
    for _ in range(2):
        flat = np.diff(flat, axis=-1, prepend=0)
    signed = flat.ravel()
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
