"""The gains of adaptive draft lengths, as a table."""

from typing import Final

from specroof.questions.adaptive import FIXED, Adaptive
from specroof.report.layout import format_table, page

#: What each policy does, for whoever reads the table.
_MEANING: Final = {
    "fixed": "one length for all loads, the one that makes most tokens",
    "by load": "the best length at each load",
    "stopping": "a sequence drafts on while its drafts so far are sure enough",
    "batch confidence": "one length for all, chosen each round from how sure its drafts are",
    "sequence confidence": "the drafts that are sure enough, chosen each round",
    "oracle": "drafts that will be accepted, as far as they pay: no policy can beat it",
}


def adaptive_text(found: Adaptive) -> str:
    """Return the gain of each policy at each load, and the meaning of each policy."""
    header = ["policy", *(f"batch {load}" for load in found.loads), "all loads"]
    plain = [f"{rate:.0f}" for rate in found.plain_tokens_per_s]
    rows = [["tok/s without drafts", *plain, ""]]
    rows += [_row(found, policy) for policy in found.outcomes]
    most = max(float(found.gains(policy)[1].max()) for policy in found.outcomes)
    lengths = ", ".join(
        f"K={k} at {load}" for load, k in zip(found.loads, found.load_draft_len, strict=True)
    )
    means = [f"{name}: {_MEANING[name]}" for name in found.outcomes]
    meaning = [
        f"fixed is K={found.draft_len}, as a speedup over no drafts; the others are gains over fixed",
        f"by load is {lengths}",
        f"dice: ±{most:.1%} at most (one standard error); confidence knows {found.confidence:.0%} of "
        f"the variance of acceptance",
        *means,
    ]
    return page(found, format_table(header, rows), "\n".join(meaning))


def _row(found: Adaptive, policy: str) -> list[str]:
    if policy == FIXED[0]:
        speedups = [
            one.tokens_per_s / plain
            for one, plain in zip(found.outcomes[policy], found.plain_tokens_per_s, strict=True)
        ]
        return [policy, *(f"{speedup:.2f}x" for speedup in speedups), ""]
    gains, _ = found.gains(policy)
    cells = [f"{gain:+.1%}" for gain in gains.tolist()]
    return [policy, *cells, f"{found.total_gain(policy)[0]:+.1%}"]
