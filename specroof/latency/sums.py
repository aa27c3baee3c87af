"""Sums over the parts of a pass, and over the parts of each of many."""

from collections.abc import Hashable, Iterable

import numpy as np

from specroof.arrays import Array, IntArray

__all__ = ["Array", "IntArray", "by_pass", "total", "weighted_total"]


def total(parts: Iterable[Array]) -> Array:
    """Return the sum, in the order given: a grid in slices must round as the whole one does.

    Source
        Addition.

    Examples
    --------
    >>> total([np.ones((2, 1)), np.array(3.0)]).tolist()
    [[4.0], [4.0]]
    """
    whole = np.zeros(())
    for part in parts:
        whole = np.asarray(whole + part)
    return whole


def weighted_total(parts: Iterable[tuple[Array | None, Array]]) -> Array:
    """Return the sum of values, each so many times; the values of one weight are added up first.

    Parameters
    ----------
    parts
        A weight, None for 1, and the values.

    Source
        Addition and the distributive law: over a grid, a weight with an axis of its own meets the
        values once.

    Examples
    --------
    >>> several, many = np.array([[1.0], [2.0]]), np.array([10.0, 20.0])
    >>> weighted_total([(many, several), (None, np.array(0.5)), (many, several)])
    array([[20.5, 40.5],
           [40.5, 80.5]])
    """
    groups: dict[Hashable, tuple[Array | None, list[Array]]] = {None: (None, [])}
    for weight, values in parts:
        key = None if weight is None else (weight.shape, weight.tobytes())
        groups.setdefault(key, (weight, []))[1].append(values)
    return total(
        total(values) if weight is None else np.asarray(weight * total(values))
        for weight, values in groups.values()
    )


def by_pass(values: Array, passes: IntArray | None, n_passes: int | None) -> Array:
    """Return the sum of the values of each pass; the values themselves where they are of one.

    Parameters
    ----------
    values
        Of operations.
    passes
        The pass that each value belongs to; None where they are all of one.
    n_passes
        How many passes there are.

    Source
        Addition.

    Examples
    --------
    >>> by_pass(np.array([1.0, 2.0, 4.0]), np.array([0, 2, 2]), 3).tolist()
    [1.0, 0.0, 6.0]
    """
    if passes is None or n_passes is None:
        return values
    each = np.broadcast_to(values, passes.shape)
    return np.asarray(np.bincount(passes, weights=each, minlength=n_passes), dtype=np.float64)
