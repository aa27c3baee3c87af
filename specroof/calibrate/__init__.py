"""A user's own benchmark results to an engine profile of the user's own machine."""

from specroof.calibrate.fit import Calibration, Fitted, Residual, calibrate
from specroof.calibrate.profile import calibrated_yaml
from specroof.calibrate.readers import BenchmarkPoint, read_benchmark
from specroof.calibrate.words import calibration_json, calibration_text, described, refuse_others

__all__ = [
    "BenchmarkPoint",
    "Calibration",
    "Fitted",
    "Residual",
    "calibrate",
    "calibrated_yaml",
    "calibration_json",
    "calibration_text",
    "described",
    "read_benchmark",
    "refuse_others",
]
