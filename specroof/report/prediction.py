"""A prediction, as tables and as CSV of its points."""

from collections.abc import Sequence
from typing import Any

from specroof.questions.answer import title_of
from specroof.questions.prediction import Prediction
from specroof.report.columns import curves_csv, curves_json, refuse_long_texts
from specroof.report.curves import (
    counted_table,
    curves_table,
    lengths_table,
    pays_lines,
    source_lines,
    survey_json,
)
from specroof.report.layout import in_line, note_lines


def prediction_json(found: Prediction) -> dict[str, Any]:
    """Return a prediction as the object that ``--json`` prints."""
    answer = curves_json(found.curves, found.counted)
    server = found.setup.server
    answer |= {
        "notes": list(found.notes),
        "warnings": list(found.warnings),
        "server": None if server is None else server.to_dict(),
        "survey": survey_json(found.survey),
        "capacity": None,
    }
    if found.limits:
        answer["capacity"] = {
            "queues": found.queues,
            "largest_batch": found.limits[0].largest[:, 0].astype(int).tolist(),
            "bound_by": found.limits[0].bound_by[:, 0].tolist(),
        }
    for drafter, limit in zip(answer["drafters"], found.limits, strict=False):
        drafter["server"] = limit.server.to_dict()
        drafter["capacity"] = {
            "largest_batch": limit.largest.astype(int).tolist(),
            "bound_by": limit.bound_by.tolist(),
        }
    return answer


def predictions_json(found: Sequence[Prediction]) -> dict[str, Any]:
    """Return one prediction as its object; several, of one chip each, under ``chips``."""
    curves = [curve for one in found for curve in one.curves]
    refuse_long_texts(curves, found[0].counted, "JSON")  # of all chips, before the first is a list
    objects = [one.to_dict() for one in found]
    return objects[0] if len(objects) == 1 else {"chips": objects}


def prediction_csv(*found: Prediction) -> str:
    """Return every point of predictions as CSV."""
    curves = [curve for one in found for curve in one.curves]
    return curves_csv(curves, [whole for one in found for whole in one.counted])


def prediction_text(found: Prediction) -> str:
    """Return the loads where drafting does not pay, best draft lengths, sources and sentences."""
    parts = [
        in_line(title_of(found.model, found.setup)),
        pays_lines(found.survey),
        note_lines(found.warnings),
        curves_table(found.curves),
        counted_table(found.curves, found.counted) if found.counted else "",
        lengths_table(found.drawn, found.draft_len) if found.draft_len else "",
        source_lines(found.curves),
        note_lines(found.notes),
    ]
    return "\n\n".join(filter(None, parts))
