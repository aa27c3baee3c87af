"""A study as text and as tables of points."""

from specroof.questions.sweep import Sweep
from specroof.report.curves import counted_table, curves_table
from specroof.report.layout import columns_csv, json_line, note_lines
from specroof.report.points import curve_columns

__all__ = ["sweep_csv", "sweep_json", "sweep_text"]


def sweep_csv(found: Sweep) -> str:
    """Return every point of a study as CSV; targets are numbered, since names may repeat."""
    return columns_csv(
        {"target": [one.target] * len(columns["model"]), **columns}
        for one in found.outcomes
        for columns in curve_columns(one.prediction.curves, one.prediction.counted)
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
