"""The one decision: how many drafts at a load, and whether they are on, off or unclear."""

from collections.abc import Iterator
from typing import Final

import numpy as np

from specroof.outcomes.outcomes import Outcomes
from specroof.policies.decision import Choice, LoadDecision, best_choice
from specroof.speedup.result import within_measured

#: A first token that comes so many times later is a price that throughput alone does not tell.
_MUCH_LATER: Final = 10.0


def choose(one: Outcomes) -> Iterator[tuple[Choice, LoadDecision]]:
    """Yield what to do with a drafter at each context and load, loads innermost.

    Parameters
    ----------
    one
        What the drafter gains.

    Source
        `specroof.policies.decision.best_choice`, over the lengths whose acceptance was measured.
    """
    curve, whole = one.curve, one.end_to_end
    ends = [
        curve.speedup if end is None else end for end in (curve.speedup_low, curve.speedup_high)
    ]
    allowed = np.isfinite(within_measured(curve.draft_len, curve.measured_draft_len))
    for place in np.ndindex(curve.speedup.shape[:2]):
        choice = best_choice(
            curve.speedup[place], low=ends[0][place], high=ends[1][place], allowed=allowed
        )
        late = whole is not None and is_late(
            float(whole.ttft_s[place][choice.draft_len]), float(whole.ttft_s[place][0])
        )
        yield choice, decision_of(choice, late=late)


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
    >>> [decision_of(best_choice([1.0, 1.4], low=[1, low])) for low in (1.2, 0.9)]
    ['on', 'unclear']
    """
    if not choice.draft_len:
        return "off"
    return "on" if choice.verdict == "pays" and not late else "unclear"


def is_late(ttft_s: float, plain_ttft_s: float) -> bool:
    """Return whether a first token comes ten times later than without drafts.

    Examples
    --------
    >>> is_late(3.0, 0.2), is_late(1.0, 0.2)
    (True, False)
    """
    return ttft_s > _MUCH_LATER * plain_ttft_s
