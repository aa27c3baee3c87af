"""A study as text and as tables of points."""

from specroof.questions.sweep import Sweep
from specroof.report.curves import counted_table, curves_table
from specroof.report.layout import json_line, note_lines, rows_csv
from specroof.report.points import curve_rows

__all__ = ["sweep_csv", "sweep_json", "sweep_text"]


def sweep_csv(found: Sweep) -> str:
    """Return every point of a study as CSV; targets are numbered, since names may repeat."""
    return rows_csv(
        [
            {"target": one.target, **row}
            for one in found.outcomes
            for row in curve_rows(one.prediction.curves, one.prediction.counted)
        ]
    )


def sweep_json(found: Sweep) -> str:
    """Return a JSON array with the object of each prediction."""
    return json_line(found.rows()) + "\n"


def sweep_text(found: Sweep) -> str:
    """Return a table for each target and load, and each note once."""
    tables = []
    for one in found.outcomes:
        curves, counted = one.prediction.curves, one.prediction.counted
        tables.append(curves_table(curves))
        if counted:
            tables.append(counted_table(curves, counted))
    return "\n\n".join(tables) + "\n\n" + note_lines(found.notes)
