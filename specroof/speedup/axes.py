"""The axes of a grid: contexts, batch sizes and draft lengths, checked before any is priced."""

import math
from collections.abc import Iterator
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from specroof.arrays import Array, IntArray, array_within
from specroof.errors import reject
from specroof.units import MOST_POINTS

#: Contexts, batch sizes and draft lengths of a grid.
Axes: TypeAlias = tuple[Array, Array, IntArray]

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
    shape = [len(axis) for axis in axes]
    if math.prod(shape) > MOST_POINTS:
        sizes = " x ".join(str(size) for size in shape)
        reject(
            f"the grid has {sizes} points (contexts, batch sizes and draft lengths)",
            f"up to {MOST_POINTS}",
        )
    return axes


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
