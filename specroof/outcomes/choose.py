"""The one decision: how many drafts at a load, and whether they are on, off or unclear."""

from collections.abc import Iterator
from dataclasses import fields

from specroof.outcomes.outcomes import Outcomes
from specroof.policies.decision import Choice, Decisions, LoadDecision, decide
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
