"""Engine profiles calibrated to a user's benchmark, and predictions of measured points."""

from specroof.engines.calibration import (
    Calibration,
    Residual,
    calibrate,
    ideal_rates,
    predicted_tokens_per_s,
)
from specroof.hardware.written import calibrated_yaml
