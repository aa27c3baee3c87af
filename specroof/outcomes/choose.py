"""The one decision: how many drafts at a load, and whether they are on, off or unclear."""

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any, Final, TypeVar

import numpy as np
import numpy.typing as npt

from specroof.arrays import Array, IntArray
from specroof.outcomes.outcomes import Outcomes
from specroof.policies.decision import Choice, LoadDecision
from specroof.speedup.result import best_index, verdict, within_measured

_Seconds = TypeVar("_Seconds", float, Array)

#: What is said of a load that a server without drafts does not keep up with.
UNSUSTAINED: Final[dict[str, Any]] = {
    **dict.fromkeys(("speedup", "low", "high"), np.nan),
    "reason": "unsustained",
}
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
        `specroof.policies.decision.best_choice`, over the lengths whose acceptance was measured.
    """
    curve, whole = one.curve, one.end_to_end
    middle, low, high = (within_measured(ends, curve.measured_draft_len) for ends in one.deciding)
    drafts = middle.copy()
    drafts[..., 0] = np.nan
    tried = best_index(drafts)  # 0 where no drafts can be

    def at(values: Array, lengths: npt.NDArray[np.intp]) -> Array:
        whole_grid = np.broadcast_to(values, middle.shape)
        return np.take_along_axis(whole_grid, lengths[..., None], axis=-1)[..., 0]

    gain, least, most = (np.where(tried > 0, at(ends, tried), 1.0) for ends in (middle, low, high))
    draft_len = np.where(gain > 1.0, tried, 0)
    pays = np.where(tried > 0, verdict(least, most), "loses")
    late = np.zeros(tried.shape, dtype=bool)
    if whole is not None:
        ttft_s = whole.ttft_s
        late = is_late(at(ttft_s, draft_len), at(ttft_s, np.zeros_like(draft_len)))
    drafted = np.where((pays == "pays") & ~late, "on", "unclear")
    hidden = one.unsustained
    return Decisions(
        draft_len=draft_len,
        tried=tried,
        speedup=np.where(hidden, np.nan, gain),
        low=np.where(hidden, np.nan, least),
        high=np.where(hidden, np.nan, most),
        verdict=pays,
        decision=np.where(draft_len > 0, drafted, "off"),
        reason=np.broadcast_to(np.where(hidden, "unsustained", ""), tried.shape),
    )


def choose(one: Outcomes) -> Iterator[tuple[Choice, LoadDecision]]:
    """Yield what to do with a drafter at each context and load, loads innermost: see `decided`."""
    found = decided(one)
    names = [field.name for field in fields(Choice)]
    columns = [getattr(found, name).ravel().tolist() for name in (*names, "decision")]
    for *choice, decision in zip(*columns, strict=True):
        yield Choice(*choice), decision


def decision_of(choice: Choice, *, late: bool = False) -> LoadDecision:
    """Return what to do at a load: on only where the whole band pays, and nobody waits for it.

    Parameters
    ----------
    choice
        The drafts that are best.
    late
        Whether the first token comes much later with them.

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
    return "on" if choice.verdict == "pays" and not late else "unclear"


def is_late(ttft_s: _Seconds, plain_ttft_s: _Seconds) -> Any:
    """Return whether a first token comes ten times later than without drafts.

    Examples
    --------
    >>> is_late(3.0, 0.2), is_late(1.0, 0.2)
    (True, False)
    """
    return ttft_s > _MUCH_LATER * plain_ttft_s
