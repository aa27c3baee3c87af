"""Break-even points, as a table."""

from typing import Final

import numpy as np

from specroof.questions.breakeven import Breakeven, Row
from specroof.report.layout import ABSENT, figure, format_table, page

_ANSWERS: Final = {"never": "never", "always": "always", "at": ""}
_SEVERAL: Final = {"batch": "batches", "context": "contexts"}


def breakeven_text(found: Breakeven) -> str:
    """Return the answer at each load as a table, with the most that could be reached."""
    if found.solve in {"batch", "context"}:
        other = "context" if found.solve == "batch" else "batch"
        header = [
            other,
            f"largest {found.solve}",
            "γ",
            "at best",
            f"{_SEVERAL[found.solve]} that pay",
        ]
        table = format_table(header, [_run_cells(row) for row in found.rows], left=[4])
    else:
        header = ["context", "batch", found.solve, "γ", "at best", "now", ""]
        table = format_table(header, [_cells(row) for row in found.rows], left=[6])
    return page(found, table, below_title=found.sought)


def _cells(row: Row) -> list[str]:
    one = row.threshold
    value, now = figure(row.value, "{:.3g}".format), figure(row.speedup, "{:.2f}x".format)
    load = [f"{row.context_len:g}", f"{row.batch_size:g}"]
    told = "" if row.room_ends else _ANSWERS[one.answer]
    return [*load, value, *_most(row), now, told]


def _run_cells(row: Row) -> list[str]:
    one = row.threshold
    value = figure(row.value, "{:.0f}".format)
    runs = row.told_runs or "never"
    if one.answer == "always":
        runs += " (all that have room)"
    elif one.answer == "beyond":
        value = f"> {row.runs[-1][1]}"
        runs += f" (from {row.unknown_from} on unknown)"
    return [f"{row.place:g}", value, *_most(row), runs]


def _most(row: Row) -> tuple[str, str]:
    """Return the drafts of the answer, and the most that could be reached."""
    one = row.threshold
    return (
        (str(one.draft_len), f"{one.ceiling:.2f}x")
        if np.isfinite(one.ceiling)
        else (ABSENT, "no room")
    )
