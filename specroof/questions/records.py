"""The parts of fits and validations, for printing; slow to import."""

from specroof.engines.calibration import Calibration, Fitted, Residual
from specroof.evidence import shape_group
from specroof.scoring import TRUSTED, Errors, Regret, Scored, Validation
from specroof.scoring.own_results import OwnErrors, OwnPoint, OwnValidation
from specroof.scoring.scores import round_costs, worst_regrets

__all__ = [
    "TRUSTED",
    "Calibration",
    "Errors",
    "Fitted",
    "OwnErrors",
    "OwnPoint",
    "OwnValidation",
    "Regret",
    "Residual",
    "Scored",
    "Validation",
    "round_costs",
    "shape_group",
    "worst_regrets",
]
