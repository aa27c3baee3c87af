"""The gains of better drafters, as a table."""

from collections.abc import Callable
from typing import Final

from specroof.questions.worth import Worth, WorthRow
from specroof.report.layout import figure, format_table, page
from specroof.units import format_drafts, format_price, format_seconds

_COLUMNS: Final[dict[str, Callable[[WorthRow], str]]] = {
    "tokens/round": lambda row: f"{row.accept_length:g}",
    "speedup": lambda row: f"{row.speedup:.2f}x",
    "per token": lambda row: "" if row.gain_per_token is None else f"{row.gain_per_token:+.2f}x",
    "best γ": lambda row: str(row.best_draft_len),
    "enough": lambda row: str(row.enough_drafts),
    "tok/s": lambda row: f"{row.tokens_per_s:.0f}",
    "$/Mtok": lambda row: figure(row.usd_per_million_tokens, format_price),
    "users": lambda row: str(row.users),
}


def worth_text(found: Worth) -> str:
    """Return a row for each acceptance length, and what the columns mean."""
    rows = [[cell(row) for cell in _COLUMNS.values()] for row in found.rows]
    meaning = (
        f"tokens/round as measured with {format_drafts(found.draft_len)}; per token: speedup for each "
        f"further one;\nenough: drafts beyond these bring less than 1%; users: at most "
        f"{format_seconds(found.tpot_s)} per token"
    )
    return page(found, format_table([*_COLUMNS], rows, left=[]), meaning)
