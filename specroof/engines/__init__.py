"""Engine profiles from evidence: shared fits to published measurements, calibration to a user's."""

from specroof.engines.calibration import (
    Calibration,
    Fitted,
    Residual,
    calibrate,
    ideal_rates,
    predicted_tokens_per_s,
)
from specroof.hardware.schema import calibrated_yaml

__all__ = [
    "Calibration",
    "Fitted",
    "Residual",
    "calibrate",
    "calibrated_yaml",
    "ideal_rates",
    "predicted_tokens_per_s",
]
