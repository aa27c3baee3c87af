"""The one decision, how many drafts at a load: on, off or unclear; the one frontier of loads."""

from collections.abc import Iterator, Mapping
from dataclasses import fields

import numpy as np
import numpy.typing as npt

from specroof.arrays import Array, IntArray
from specroof.outcomes.outcomes import Outcomes
from specroof.policies.decision import Choice, Decisions, LoadDecision, decide
from specroof.quantities import QUANTITIES
from specroof.speedup.result import within_measured


def decided(one: Outcomes, draft_len: int | None = None) -> Decisions:
    """Return what to do with a drafter at all contexts and loads.

    Parameters
    ----------
    one
        What the drafter gains.
    draft_len
        The drafts of every round; the best of each load if None.

    Source
        `specroof.policies.decision.decide`, over the lengths whose acceptance was measured.
    """
    middle, low, high = (
        within_measured(ends, one.curve.measured_draft_len) for ends in one.deciding
    )
    whole = one.end_to_end
    ttft_s = None if whole is None else whole.ttft_s
    allowed = None if draft_len is None else one.curve.draft_len == draft_len
    return decide((middle, low, high), one.unsustained, ttft_s, allowed=allowed)


def choose(one: Outcomes) -> Iterator[tuple[Choice, LoadDecision]]:
    """Yield what to do with a drafter at each context and load, loads innermost: see `decided`."""
    found = decided(one)
    names = [field.name for field in fields(Choice)]
    columns = [getattr(found, name).ravel().tolist() for name in (*names, "decision")]
    for *choice, decision in zip(*columns, strict=True):
        yield Choice(*choice), decision


def pareto(points: Mapping[str, npt.ArrayLike], x: str, y: str) -> IntArray:
    """Return the points that no other beats in both quantities, from the worst x to the best.

    Parameters
    ----------
    points
        Quantities by their names, each of shape (points,); NaN for points that cannot be.
    x, y
        Two of them; which way is better the quantity says.

    Returns
    -------
    array
        The places of these points. Of equal points the first.

    Source
        Pareto: of points sorted by one quantity, those above all before them in the other.

    Examples
    --------
    >>> rates = {"tokens_per_s_per_user": [10, 20, 15], "tokens_per_s_per_device": [300, 100, 90]}
    >>> pareto(rates, *rates).tolist()  # 15 loses to 20
    [0, 1]
    >>> pareto({**rates, "tokens_per_s_per_user": [0.3, 0.1 + 0.2, 0.2]}, *rates).tolist()
    [0]
    >>> pareto({name: [1e-14, 2e-14] for name in rates}, *rates).tolist()  # small, not equal
    [1]
    """
    across, up = (
        _rounded(points[name]) * (-1 if QUANTITIES[name].better == "less" else 1) for name in (x, y)
    )
    known = np.flatnonzero(np.isfinite(across) & np.isfinite(up))
    # The best x first; of equals the one of the better y.
    order = known[np.lexsort((-up[known], -across[known]))]
    best_before = np.maximum.accumulate(np.append(-np.inf, up[order]))[:-1]
    return order[up[order] > best_before][::-1]


def _rounded(values: npt.ArrayLike) -> Array:
    """Return values as shares of the largest, of which points differ by more than rounding."""
    found = np.asarray(values, dtype=np.float64)
    most = np.abs(found[np.isfinite(found)]).max(initial=0.0)
    return np.asarray(np.round(found / (most or 1.0), 12))
