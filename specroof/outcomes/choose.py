"""The one decision: how many drafts at a load, and whether they are on, off or unclear."""

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any, Final, TypeVar

import numpy as np
import numpy.typing as npt

from specroof.arrays import Array, BoolArray, IntArray
from specroof.outcomes.outcomes import Outcomes
from specroof.policies.decision import Choice, LoadDecision
from specroof.speedup.result import best_index, verdict, within_measured

_Seconds = TypeVar("_Seconds", float, Array)

#: A first token that comes so many times later is a price that throughput alone does not tell.
_MUCH_LATER: Final = 10.0


@dataclass(frozen=True, slots=True, eq=False)
class Decisions:
    """What to do with a drafter, axes (context_len, load); names as of `Choice`."""

    draft_len: IntArray
    tried: IntArray
    speedup: Array
    low: Array
    high: Array
    verdict: npt.NDArray[np.str_]
    reason: npt.NDArray[np.str_]
    decision: npt.NDArray[np.str_]


def decided(one: Outcomes) -> Decisions:
    """Return what to do with a drafter at all contexts and loads.

    Parameters
    ----------
    one
        What the drafter gains.

    Source
        `decide`, over the lengths whose acceptance was measured.
    """
    middle, low, high = (
        within_measured(ends, one.curve.measured_draft_len) for ends in one.deciding
    )
    whole = one.end_to_end
    ttft_s = None if whole is None else whole.ttft_s
    return decide((middle, low, high), one.unsustained, ttft_s)


def decide(
    ends: tuple[Array, Array, Array],
    unsustained: BoolArray,
    ttft_s: Array | None = None,
    *,
    allowed: BoolArray | None = None,
    least: float = 1.0,
    scheduled: IntArray | None = None,
) -> Decisions:
    """Return what to do at loads, from what each draft length gains there.

    Parameters
    ----------
    ends
        What lengths are chosen by, and the ends of its band; the last axis is the draft length,
        from 0. NaN where a length cannot be.
    unsustained
        The loads that a server without drafts does not keep up with.
    ttft_s
        Seconds to the first token, shaped alike; None without requests.
    allowed
        Which lengths there are to choose from, shaped alike; all if None, and 0 always is.
    least
        The speedup from which drafting pays.
    scheduled
        The lengths that were decided for all loads together, 0 for off; the best of each if None.

    Source
        `specroof.policies.decision.best_choice`.
    """
    middle, low, high = ends
    drafts = middle.copy() if allowed is None else np.where(allowed, middle, np.nan)
    drafts[..., 0] = np.nan
    tried = best_index(drafts)  # 0 where no drafts can be
    if scheduled is not None:
        tried = np.where(scheduled > 0, scheduled, tried)

    def at(values: Array, lengths: npt.NDArray[np.intp]) -> Array:
        whole_grid = np.broadcast_to(values, middle.shape)
        return np.take_along_axis(whole_grid, lengths[..., None], axis=-1)[..., 0]

    gain, fewest, most = (np.where(tried > 0, at(ends, tried), 1.0) for ends in (middle, low, high))
    draft_len = np.where(gain > least, tried, 0) if scheduled is None else scheduled
    pays = np.where(tried > 0, verdict(fewest, most, least=least), "loses")
    late = np.zeros(tried.shape, dtype=bool)
    if ttft_s is not None:
        late = is_late(at(ttft_s, draft_len), at(ttft_s, np.zeros_like(draft_len)))
    drafted = np.where((pays == "pays") & ~late, "on", "unclear")
    return Decisions(
        draft_len=draft_len,
        tried=tried,
        speedup=np.where(unsustained, np.nan, gain),
        low=np.where(unsustained, np.nan, fewest),
        high=np.where(unsustained, np.nan, most),
        verdict=pays,
        decision=np.where(draft_len > 0, drafted, "off"),
        reason=np.broadcast_to(np.where(unsustained, "unsustained", ""), tried.shape),
    )


def choose(one: Outcomes) -> Iterator[tuple[Choice, LoadDecision]]:
    """Yield what to do with a drafter at each context and load, loads innermost: see `decided`."""
    found = decided(one)
    names = [field.name for field in fields(Choice)]
    columns = [getattr(found, name).ravel().tolist() for name in (*names, "decision")]
    for *choice, decision in zip(*columns, strict=True):
        yield Choice(*choice), decision


def decision_of(choice: Choice) -> LoadDecision:
    """Return what to do at a load: on only where the whole band pays.

    Parameters
    ----------
    choice
        The drafts that are best.

    Source
        The choice of this library.

    Examples
    --------
    >>> from specroof.policies.decision import best_choice
    >>> [decision_of(best_choice([1.0, 1.4], low=[1, low])) for low in (1.2, 0.9)]
    ['on', 'unclear']
    """
    if not choice.draft_len:
        return "off"
    return "on" if choice.verdict == "pays" else "unclear"


def is_late(ttft_s: _Seconds, plain_ttft_s: _Seconds) -> Any:
    """Return whether a first token comes ten times later than without drafts.

    Examples
    --------
    >>> is_late(3.0, 0.2), is_late(1.0, 0.2)
    (True, False)
    """
    return ttft_s > _MUCH_LATER * plain_ttft_s
