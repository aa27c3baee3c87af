"""Predict what speculative decoding gains, from a config, a hardware profile and a drafter."""

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Final

from specroof.questions import QUESTIONS

if TYPE_CHECKING:
    # For type checkers: the door imports these when they are asked for, by the table below.
    from specroof import plot
    from specroof.acceptance import (
        Acceptance,
        acceptance_from_length,
        beta_acceptance,
        constant_acceptance,
        context_acceptance,
        decay_acceptance,
        histogram_acceptance,
        lengths_acceptance,
        rate_acceptance,
        survival_acceptance,
    )
    from specroof.acceptance.law_fits import AcceptanceFit, extrapolated_acceptance, fit_acceptance
    from specroof.acceptance.published import AcceptanceProfile, load_profiles
    from specroof.architecture import Architecture
    from specroof.catalog import (
        hardware_names,
        load_drafter,
        load_hardware,
        load_model,
        model_names,
    )
    from specroof.catalog.profiles import load_profile
    from specroof.cost import ForwardPass, OpCost, Options
    from specroof.drafters import Drafter, DraftTime, Round
    from specroof.errors import (
        CatalogError,
        ConfigError,
        MeasurementError,
        OptionError,
        OutputError,
        ProfileError,
        SpecroofError,
        StudyError,
    )
    from specroof.hardware import EngineProfile, HardwareProfile, Placement
    from specroof.latency import PassLatency
    from specroof.montecarlo import simulate_batch, simulate_exactness
    from specroof.questions.adaptive import adaptive
    from specroof.questions.advise import advise
    from specroof.questions.answer import Answer
    from specroof.questions.breakeven import breakeven
    from specroof.questions.calibrate import calibrate
    from specroof.questions.capacity import capacity
    from specroof.questions.curves import forward_cost, forward_latency, speedup_curve
    from specroof.questions.doctor import doctor
    from specroof.questions.explain import explain
    from specroof.questions.explore import explore
    from specroof.questions.frontier import frontier
    from specroof.questions.mock import mock
    from specroof.questions.predict import predict
    from specroof.questions.study_grid import Study, Target
    from specroof.questions.sweep import sweep
    from specroof.questions.validate import validate
    from specroof.questions.worth import worth
    from specroof.serving.workload import Load, Workload
    from specroof.speedup.result import SpeedupCurve
    from specroof.sweeps import read_results, write_sweep

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
    "StudyError",
    "Target",
    "Workload",
    "acceptance_from_length",
    "adaptive",
    "advise",
    "beta_acceptance",
    "breakeven",
    "calibrate",
    "capacity",
    "constant_acceptance",
    "context_acceptance",
    "decay_acceptance",
    "doctor",
    "explain",
    "explore",
    "extrapolated_acceptance",
    "fit_acceptance",
    "forward_cost",
    "forward_latency",
    "frontier",
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
    "read_results",
    "simulate_batch",
    "simulate_exactness",
    "speedup_curve",
    "survival_acceptance",
    "sweep",
    "validate",
    "worth",
    "write_sweep",
]


#: Which room has a name; the other names are questions.
_ROOMS: Final = {
    "acceptance": (
        "Acceptance",
        "acceptance_from_length",
        "beta_acceptance",
        "constant_acceptance",
        "context_acceptance",
        "decay_acceptance",
        "histogram_acceptance",
        "lengths_acceptance",
        "rate_acceptance",
        "survival_acceptance",
    ),
    "acceptance.law_fits": ("AcceptanceFit", "extrapolated_acceptance", "fit_acceptance"),
    "acceptance.published": ("AcceptanceProfile", "load_profiles"),
    "architecture": ("Architecture",),
    "catalog": ("hardware_names", "load_drafter", "load_hardware", "load_model", "model_names"),
    "catalog.profiles": ("load_profile",),
    "cost": ("ForwardPass", "OpCost", "Options"),
    "drafters": ("Drafter", "DraftTime", "Round"),
    "errors": (
        "CatalogError",
        "ConfigError",
        "MeasurementError",
        "OptionError",
        "OutputError",
        "ProfileError",
        "SpecroofError",
        "StudyError",
    ),
    "hardware": ("EngineProfile", "HardwareProfile", "Placement"),
    "latency": ("PassLatency",),
    "questions.answer": ("Answer",),
    "questions.curves": ("forward_cost", "forward_latency", "speedup_curve"),
    "questions.study_grid": ("Study", "Target"),
    "serving.workload": ("Load", "Workload"),
    "montecarlo": ("simulate_batch", "simulate_exactness"),
    "speedup.result": ("SpeedupCurve",),
    "sweeps": ("read_results", "write_sweep"),
}
#: Where a name is imported from when it is first asked for: a program pays for what it uses.
_HOMES: Final = {
    **{name: f"specroof.questions.{name}" for name in QUESTIONS},
    **{name: f"specroof.{room}" for room, names in _ROOMS.items() for name in names},
}


class _Door(ModuleType):
    """The package: names are imported when they are asked for."""

    def __getattr__(self, name: str) -> object:
        if name == "plot":  # a room itself
            return import_module("specroof.plot")
        if name not in _HOMES:
            message = f"module 'specroof' has no attribute {name!r}"
            raise AttributeError(message)
        found: object = getattr(import_module(_HOMES[name]), name)
        setattr(self, name, found)
        return found

    def __dir__(self) -> list[str]:
        special = (name for name in super().__dir__() if name.startswith("__"))
        return [*special, *_HOMES, "plot"]


sys.modules[__name__].__class__ = _Door
