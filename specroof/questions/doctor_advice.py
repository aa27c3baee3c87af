"""The advice for a running server, in sentences."""

import math
from collections.abc import Iterator
from typing import Final

from specroof.drafters import Drafter
from specroof.policies.decision import Change
from specroof.questions.diagnosed import drafts_now
from specroof.serving.observed import Observed

#: A smaller gain is not worth a restart.
LEAST_GAIN: Final = 0.01


def advice(seen: Observed, drafter: Drafter | None, change: Change | None) -> Iterator[str]:
    """Yield the advice, sentence by sentence."""
    now = drafts_now(seen)
    state = f"K={now} now" if now else "speculation is off now"
    if drafter is None:
        yield f"{state}; name the drafter (--drafter) to see what another draft length would gain"
    elif change is None:
        yield f"{state}; no prediction: no acceptance was counted or given, or no room for this load"
    else:
        yield "; ".join([state, gain_words(change), *_schedule_words(change)])
        yield from _longer_words(change)


def gain_words(change: Change) -> str:
    """Return the gain of the best length over the length that runs."""
    at = f"at {change.running} running requests"
    if change.best == change.now:
        return f"{at} that is best"
    if math.isnan(change.gain):
        return f"{at} {_drafts_words(change.best)} is best (no figure for what runs)"
    if change.gain < LEAST_GAIN:
        return f"{at} that is within {LEAST_GAIN:.0%} of the best"
    gain = _share_words(change.gain, change.low, change.high)
    if change.is_unclear:
        return f"{at} {_drafts_words(change.best)} may give {gain}, unclear: measure it first"
    beyond = f", beyond K={change.measured}, the longest measured" * change.is_beyond
    return f"{at} {_drafts_words(change.best)} gives {gain}{beyond}"


def _longer_words(change: Change) -> Iterator[str]:
    """Yield the gain of a length beyond the measured ones, where it is worth a try."""
    one = change.longer
    # Not where what runs has no figure, which a NaN says.
    if one is not None and one.gain >= max(change.gain, 0.0) + LEAST_GAIN:
        yield (
            f"K={one.draft_len} may give {_share_words(one.gain, one.low, one.high)}, beyond "
            f"K={change.measured}, the longest measured: try it before you keep it"
        )


def _share_words(gain: float, low: float, high: float) -> str:
    band = "" if low == high else f" ({low * 100:+.0f}…{high * 100:+.0f})"
    return f"{gain * 100:+.0f} %{band}"


def _drafts_words(drafts: int) -> str:
    return f"K={drafts}" if drafts else "no draft"


def _schedule_words(change: Change) -> Iterator[str]:
    """Yield the schedule's length at this load, and its lengths at larger ones."""
    here = change.schedule.drafts(change.running)
    if here not in {change.best, change.now}:
        yield f"one length for more loads is {_drafts_words(here)}"
    for first, _, drafts in change.schedule.ranges:
        if first > change.running:
            yield f"above {first - 1} {_drafts_words(drafts) if drafts else 'turn it off'}"
