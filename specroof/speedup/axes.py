"""The axes of a grid: contexts, batch sizes and draft lengths, checked before any is priced."""

import math
from collections.abc import Iterator, Sequence
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from specroof.arrays import Array, IntArray, array_within
from specroof.errors import reject
from specroof.units import MOST_POINTS

#: Contexts, batch sizes and draft lengths of a grid.
Axes: TypeAlias = tuple[Array, Array, IntArray]

#: Bytes of a point over those of decoding alone, about 100: with the times of requests 290, and as
#: lists and text 600 (JSON) or 430 (CSV), or 1 270 with requests.
REQUEST_WEIGHT: Final = 3
TEXT_WEIGHT: Final = 6

#: Operating points that are computed at once: their temporaries stay within some tens of MB.
_CHUNK_POINTS: Final = 1 << 18


def grid_axes(context_len: npt.ArrayLike, batch_size: npt.ArrayLike, longest: int) -> Axes:
    """Return the axes of a grid.

    Parameters
    ----------
    context_len
        Cached tokens of each sequence: a number or a list of numbers.
    batch_size
        Sequences in flight, likewise.
    longest
        The longest draft; the last axis runs from 0 to it.

    Raises
    ------
    OptionError
        For an axis that is not a list of numbers within their bounds, or for more points than the
        memory of a machine holds.

    Examples
    --------
    >>> grid_axes(4096, [1, 8], 2)
    (array([4096.]), array([1., 8.]), array([0, 1, 2]))
    """
    axes = (
        _axis("context_len", context_len),
        _axis("batch_size", batch_size),
        np.arange(longest + 1, dtype=np.int64),
    )
    refuse_many_points([len(axis) for axis in axes])
    return axes


def refuse_many_points(
    shape: Sequence[int], *, curves: int = 1, weight: int = 1, why: str = ""
) -> None:
    """Refuse more points than the memory of a machine holds, before they are held.

    Parameters
    ----------
    shape
        Contexts, batch sizes and draft lengths of each curve.
    curves
        Curves that are held at a time: drafters, on each chip.
    weight
        What a point is held in, in points of a curve of decoding: `REQUEST_WEIGHT`, `TEXT_WEIGHT`,
        or their product.
    why
        What makes it heavier, for the refusal.

    Raises
    ------
    OptionError
        For more than `MOST_POINTS` of that weight.

    Examples
    --------
    >>> refuse_many_points([30, 300, 1025], weight=TEXT_WEIGHT, why=" as JSON")
    Traceback (most recent call last):
    specroof.errors.OptionError: the grid has 30 x 300 x 1025 points (contexts, batch sizes and
    draft lengths) as JSON; allowed: up to 1666666
    """
    if math.prod(shape) * curves * weight > MOST_POINTS:
        sizes = " x ".join(str(size) for size in shape)
        each = f" on each of {curves} curves" if curves > 1 else ""
        reject(
            f"the grid has {sizes} points (contexts, batch sizes and draft lengths){each}{why}",
            f"up to {MOST_POINTS // weight}{' in all' * (curves > 1)}",
        )


def _axis(name: str, values: npt.ArrayLike) -> Array:
    """Return an axis of the grid from a number or a list of numbers."""
    axis = np.atleast_1d(array_within(name, values, name))
    if axis.ndim != 1:
        reject(f"{name} has shape {axis.shape}", "a number or a list of numbers")
    return axis


def grid_slices(shape: tuple[int, int, int]) -> Iterator[tuple[slice, slice]]:
    """Yield slices of the first two axes that hold at most `_CHUNK_POINTS` points each."""
    contexts, batches, drafts = shape
    columns = max(1, min(batches, _CHUNK_POINTS // drafts))
    rows = max(1, min(contexts, _CHUNK_POINTS // (drafts * columns)))
    for row in range(0, contexts, rows):
        for column in range(0, batches, columns):
            yield slice(row, row + rows), slice(column, column + columns)
