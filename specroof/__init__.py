"""Predict what speculative decoding gains, from a config, a hardware profile and a drafter."""

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

from specroof.acceptance import (
    Acceptance,
    AcceptanceFit,
    acceptance_from_length,
    beta_acceptance,
    constant_acceptance,
    context_acceptance,
    decay_acceptance,
    extrapolated_acceptance,
    fit_acceptance,
    histogram_acceptance,
    lengths_acceptance,
    rate_acceptance,
    survival_acceptance,
)
from specroof.acceptance.published import AcceptanceProfile, load_profiles
from specroof.architecture import Architecture
from specroof.catalog import (
    hardware_names,
    load_drafter,
    load_hardware,
    load_model,
    load_profile,
    model_names,
)
from specroof.cost import ForwardPass, OpCost, Options
from specroof.drafters import (
    Drafter,
    DraftTime,
    Round,
)
from specroof.errors import (
    CatalogError,
    ConfigError,
    MeasurementError,
    OptionError,
    OutputError,
    ProfileError,
    SpecroofError,
)
from specroof.hardware import EngineProfile, HardwareProfile, Placement
from specroof.latency import PassLatency
from specroof.questions import (
    breakeven,
    calibrate,
    capacity,
    doctor,
    explain,
    mock,
    predict,
    sweep,
    validate,
)
from specroof.questions.answer import Answer
from specroof.questions.curves import forward_cost, forward_latency, speedup_curve
from specroof.questions.sweep import Study, Target
from specroof.serving.requests import Load, Workload
from specroof.simulate import simulate_batch, simulate_exactness
from specroof.speedup.curve import SpeedupCurve

if TYPE_CHECKING:
    from specroof import plot  # noqa: TC004 - the door imports it when it is asked for

__all__ = [
    "Acceptance",
    "AcceptanceFit",
    "AcceptanceProfile",
    "Answer",
    "Architecture",
    "CatalogError",
    "ConfigError",
    "DraftTime",
    "Drafter",
    "EngineProfile",
    "ForwardPass",
    "HardwareProfile",
    "Load",
    "MeasurementError",
    "OpCost",
    "OptionError",
    "Options",
    "OutputError",
    "PassLatency",
    "Placement",
    "ProfileError",
    "Round",
    "SpecroofError",
    "SpeedupCurve",
    "Study",
    "Target",
    "Workload",
    "acceptance_from_length",
    "beta_acceptance",
    "breakeven",
    "calibrate",
    "capacity",
    "constant_acceptance",
    "context_acceptance",
    "decay_acceptance",
    "doctor",
    "explain",
    "extrapolated_acceptance",
    "fit_acceptance",
    "forward_cost",
    "forward_latency",
    "hardware_names",
    "histogram_acceptance",
    "lengths_acceptance",
    "load_drafter",
    "load_hardware",
    "load_model",
    "load_profile",
    "load_profiles",
    "mock",
    "model_names",
    "plot",
    "predict",
    "rate_acceptance",
    "simulate_batch",
    "simulate_exactness",
    "speedup_curve",
    "survival_acceptance",
    "sweep",
    "validate",
]


class _Door(ModuleType):
    """The package: charts are imported when needed, and questions keep their names.

    A room such as `specroof.validate` would replace the question of its name when it is imported.
    """

    def __getattr__(self, name: str) -> object:
        if name == "plot":  # matplotlib is slow to import
            return import_module("specroof.plot")
        message = f"module 'specroof' has no attribute {name!r}"
        raise AttributeError(message)

    def __setattr__(self, name: str, value: object) -> None:
        if not (isinstance(value, ModuleType) and callable(self.__dict__.get(name))):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Door
