"""What better drafters would bring, as people read it and as rows."""

from specroof.questions.worth import Worth
from specroof.report.layout import format_table, page, rows_csv
from specroof.units import format_seconds

__all__ = ["worth_csv", "worth_text"]


def worth_csv(found: Worth) -> str:
    """Return a row for each acceptance length as CSV."""
    return rows_csv(found.to_dict()["rows"])


def worth_text(found: Worth) -> str:
    """Return a row for each acceptance length, and what the columns mean."""
    header = [
        "tokens/round",
        "speedup",
        "per token",
        "best γ",
        "enough",
        "tok/s",
        "$/Mtok",
        "users",
    ]
    rows = [
        [
            f"{row.accept_length:g}",
            f"{row.speedup:.2f}x",
            "" if row.gain_per_token is None else f"{row.gain_per_token:+.2f}x",
            str(row.best_draft_len),
            str(row.enough_drafts),
            f"{row.tokens_per_s:.0f}",
            "-" if row.usd_per_million_tokens is None else f"{row.usd_per_million_tokens:.3g}",
            str(row.users),
        ]
        for row in found.rows
    ]
    meaning = (
        f"tokens/round as measured with {found.draft_len} drafts; per token: speedup for each "
        f"further one;\nenough: drafts beyond these bring less than 1%; users: at most "
        f"{format_seconds(found.tpot_s)} per token"
    )
    return page(found, format_table(header, rows, left=[]), meaning)
