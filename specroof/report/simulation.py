"""Simulations as text."""

from typing import Any

from specroof.questions.simulate import BatchTimes, Exactness
from specroof.report.layout import format_table
from specroof.units import format_seconds


def exactness_text(found: Exactness) -> str:
    """Return the counts of speculative sampling, a line for each claim."""
    result = found.result
    follows = "follow" if result.p_value >= 0.001 else "DO NOT follow"
    return "\n".join(
        [
            f"{result.n_tokens} tokens in {result.n_rounds} rounds",
            f"the tokens {follows} the target: chi-squared {result.chi_squared:.1f} at "
            f"{result.degrees_of_freedom} degrees of freedom, p = {result.p_value:.3f}",
            f"acceptance {result.acceptance_rate:.4f}, 1 - total variation distance "
            f"{result.expected_acceptance_rate:.4f} ({result.acceptance_z:+.1f} sigma)",
            f"tokens per round {result.tokens_per_round:.4f}, by the formula "
            f"{result.expected_tokens_per_round:.4f} ({result.tokens_per_round_z:+.1f} sigma)",
        ]
    )


def times_text(found: BatchTimes) -> str:
    """Return the spread of times, with drafts and without."""
    header = ["draft length", "seconds", "mean", "p50", "p95", "p99"]
    rows = [
        [str(drafts), words, *_spread(spread)]
        for drafts, run in found.runs.items()
        for words, spread in (
            ("between tokens", run.between_tokens),
            ("between bursts", run.between_bursts),
            ("per token of an answer", run.per_token),
            ("whole batch", run.batch),
        )
    ]
    notes = [f"note: {note}" for note in found.notes]
    return "\n".join([format_table(header, rows, left=[1]), *notes])


def _spread(spread: Any) -> list[str]:
    seconds = (spread.mean_s, spread.p50_s, spread.p95_s, spread.p99_s)
    return [format_seconds(value) for value in seconds]
