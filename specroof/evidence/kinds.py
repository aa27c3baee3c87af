"""As what a measurement counts, and what those lack that do not."""

from typing import Final

from specroof.evidence.measurement import Measurement
from specroof.evidence.presumed import has_drafter

#: What methods without a known cost leave open.
_LACKING: Final = {
    "mock": "the draft count behind a forced acceptance length",
}


def kind_of(point: Measurement) -> tuple[str, str]:
    """Return as what a published measurement counts, or an empty kind and what it lacks.

    ``"plain"`` throughput, a ``"speedup"`` whose acceptance length is known, a ``"shape"``, right
    but for one factor over all points of its group, or ``"drafting"`` alone.
    """
    if not point.drafts:
        return ("plain", "") if point.tokens_per_s is not None else ("", "throughput")
    if point.draft_s is not None or point.draft_share is not None:
        return "drafting", ""
    if not has_drafter(point.method):
        return "", _LACKING.get(point.method or "", f"a known cost of {point.method!r}")
    for name in ("batch_size", "draft_len", "verify_len"):
        if getattr(point, name) is None:
            return "", name
    if point.measured_speedup is None:
        return ("shape", "") if point.tokens_per_s is not None else ("", "throughput")
    return ("shape" if point.tokens_per_round is None else "speedup"), ""


def measured_of(point: Measurement) -> tuple[str, float]:
    """Return what was measured, by its name in `specroof.engines.record.Rates`, and its value."""
    if point.draft_s is not None:
        return "draft_s", point.draft_s
    if point.draft_share is not None:
        return "draft_share", point.draft_share
    ratio = point.measured_speedup
    if point.drafts and ratio is not None:
        return "speedup", ratio
    return ("speculative" if point.drafts else "plain"), point.rate


def shape_group(point: Measurement) -> tuple[object, ...]:
    """Return what points share whose acceptance length is the same unknown number."""
    drafts = (point.method, point.draft_len, point.verify_len)
    return (point.source, point.model, *drafts, point.task)
