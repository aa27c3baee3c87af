"""A prediction, as people read it and as a table of points."""

from specroof.questions.predict import Prediction
from specroof.report.curves import counted_table, curves_table, pays_lines, source_lines
from specroof.report.layout import note_lines
from specroof.report.points import curves_csv

__all__ = ["prediction_csv", "prediction_text"]


def prediction_csv(found: Prediction) -> str:
    """Return every point of a prediction as CSV."""
    return curves_csv(found.curves, found.counted)


def prediction_text(found: Prediction) -> str:
    """Return the best draft lengths, where drafting does not pay, sources and notes."""
    counted = [counted_table(found.curves, found.counted)] if found.counted else []
    parts = [
        curves_table(found.curves),
        *counted,
        pays_lines(found.survey),
        source_lines(found.curves),
    ]
    return "\n\n".join(parts) + "\n\n" + note_lines(found.notes)
