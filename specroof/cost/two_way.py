"""Attention of a block that sees itself both ways: what a block drafter computes."""

import numpy as np
import numpy.typing as npt

from specroof.arrays import Array


def two_way_tokens(
    query_len: npt.ArrayLike, context_len: npt.ArrayLike, window: int | None = None
) -> Array:
    r"""Return the (query, key) pairs of a block that is not causal, in one sequence.

    .. math:: A = T^2 + \sum_{i=1}^{T} \min(S, \max(w - i, 0))

    Counts
        the whole block for each of its T queries; of the context what lies within the window, the
        query's own position included, as in causal attention.
    Ignores
        nothing.
    Source
        z-lab/dflash, ``model.py`` at 44947fb: the block attends to the cached context and to all
        of itself; the sum by counting.

    Examples
    --------
    >>> float(two_way_tokens(3, 4))  # three queries, each with 4 + 3 keys
    21.0
    >>> float(two_way_tokens(3, 4, window=3))  # 2, 1 and 0 of the context, and 3 each
    12.0
    """
    new = np.asarray(query_len, dtype=np.float64)
    context = np.asarray(context_len, dtype=np.float64)
    if window is None:
        return np.asarray(new * (context + new))
    # The first queries see all of the context, where the window is wide enough.
    unbounded = np.clip(window - context, 0.0, new)
    seen = unbounded * context + _shrinking(new, window) - _shrinking(unbounded, window)
    return np.asarray(new * new + seen)


def _shrinking(n: Array, window: int) -> Array:
    """Return the sum of max(window - i, 0) over i = 1 … n."""
    within = np.minimum(n, window)
    return np.asarray(within * window - within * (within + 1) / 2)
