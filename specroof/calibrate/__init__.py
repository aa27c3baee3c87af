"""A user's own benchmark results to an engine profile of the user's own machine."""

from specroof.calibrate.fit import Calibration, Fitted, Residual, calibrate
from specroof.calibrate.forward import ideal_rates, predicted_tokens_per_s
from specroof.calibrate.points import BenchmarkPoint, refuse_mixed, refuse_repeats
from specroof.calibrate.profile import calibrated_yaml
from specroof.calibrate.readers import read_benchmark
from specroof.calibrate.stated import refuse_other_kinds
from specroof.calibrate.words import (
    RESIDUAL_HEADER,
    calibration_json,
    calibration_text,
    described,
    engine_of_results,
    engine_of_tool,
    file_label,
    idle_notes,
    in_sample_notes,
    refuse_others,
    residual_cells,
    residual_json,
)

__all__ = [
    "RESIDUAL_HEADER",
    "BenchmarkPoint",
    "Calibration",
    "Fitted",
    "Residual",
    "calibrate",
    "calibrated_yaml",
    "calibration_json",
    "calibration_text",
    "described",
    "engine_of_results",
    "engine_of_tool",
    "file_label",
    "ideal_rates",
    "idle_notes",
    "in_sample_notes",
    "predicted_tokens_per_s",
    "read_benchmark",
    "refuse_mixed",
    "refuse_other_kinds",
    "refuse_others",
    "refuse_repeats",
    "residual_cells",
    "residual_json",
]
