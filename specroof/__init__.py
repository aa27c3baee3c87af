"""Predict what speculative decoding gains, from a config, a hardware profile and a drafter."""

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Final

from specroof.questions import QUESTIONS

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
    "architecture.model": ("Architecture",),
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
    "hardware.engine": ("EngineProfile",),
    "hardware.profile": ("HardwareProfile", "Placement"),
    "latency.pass_seconds": ("PassLatency",),
    "questions.adaptive": ("adaptive",),  # the table of `advise` with policies, of batches too
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
    "plot": "specroof.plot",  # a room itself
}

if TYPE_CHECKING:
    # For type checkers: the door imports these when they are asked for, by the table above.
    from specroof import plot as plot
    from specroof.acceptance import Acceptance as Acceptance
    from specroof.acceptance import acceptance_from_length as acceptance_from_length
    from specroof.acceptance import beta_acceptance as beta_acceptance
    from specroof.acceptance import constant_acceptance as constant_acceptance
    from specroof.acceptance import context_acceptance as context_acceptance
    from specroof.acceptance import decay_acceptance as decay_acceptance
    from specroof.acceptance import histogram_acceptance as histogram_acceptance
    from specroof.acceptance import lengths_acceptance as lengths_acceptance
    from specroof.acceptance import rate_acceptance as rate_acceptance
    from specroof.acceptance import survival_acceptance as survival_acceptance
    from specroof.acceptance.law_fits import AcceptanceFit as AcceptanceFit
    from specroof.acceptance.law_fits import extrapolated_acceptance as extrapolated_acceptance
    from specroof.acceptance.law_fits import fit_acceptance as fit_acceptance
    from specroof.acceptance.published import AcceptanceProfile as AcceptanceProfile
    from specroof.acceptance.published import load_profiles as load_profiles
    from specroof.architecture.model import Architecture as Architecture
    from specroof.catalog import hardware_names as hardware_names
    from specroof.catalog import load_drafter as load_drafter
    from specroof.catalog import load_hardware as load_hardware
    from specroof.catalog import load_model as load_model
    from specroof.catalog import model_names as model_names
    from specroof.catalog.profiles import load_profile as load_profile
    from specroof.cost import ForwardPass as ForwardPass
    from specroof.cost import OpCost as OpCost
    from specroof.cost import Options as Options
    from specroof.drafters import Drafter as Drafter
    from specroof.drafters import DraftTime as DraftTime
    from specroof.drafters import Round as Round
    from specroof.errors import CatalogError as CatalogError
    from specroof.errors import ConfigError as ConfigError
    from specroof.errors import MeasurementError as MeasurementError
    from specroof.errors import OptionError as OptionError
    from specroof.errors import OutputError as OutputError
    from specroof.errors import ProfileError as ProfileError
    from specroof.errors import SpecroofError as SpecroofError
    from specroof.errors import StudyError as StudyError
    from specroof.hardware.engine import EngineProfile as EngineProfile
    from specroof.hardware.profile import HardwareProfile as HardwareProfile
    from specroof.hardware.profile import Placement as Placement
    from specroof.latency.pass_seconds import PassLatency as PassLatency
    from specroof.montecarlo import simulate_batch as simulate_batch
    from specroof.montecarlo import simulate_exactness as simulate_exactness
    from specroof.questions import *  # noqa: F403 - every question
    from specroof.questions.adaptive import adaptive as adaptive
    from specroof.questions.answer import Answer as Answer
    from specroof.questions.curves import forward_cost as forward_cost
    from specroof.questions.curves import forward_latency as forward_latency
    from specroof.questions.curves import speedup_curve as speedup_curve
    from specroof.questions.study_grid import Study as Study
    from specroof.questions.study_grid import Target as Target
    from specroof.serving.workload import Load as Load
    from specroof.serving.workload import Workload as Workload
    from specroof.speedup.result import SpeedupCurve as SpeedupCurve
    from specroof.sweeps import read_results as read_results
    from specroof.sweeps import write_sweep as write_sweep
else:  # a type checker would take a computed list for an empty one
    __all__ = list(_HOMES)


class _Door(ModuleType):
    """The package: names are imported when they are asked for."""

    def __getattr__(self, name: str) -> object:
        if name not in _HOMES:
            message = f"module 'specroof' has no attribute {name!r}"
            raise AttributeError(message)
        home = import_module(_HOMES[name])
        value: object = home if name == "plot" else getattr(home, name)
        setattr(self, name, value)
        return value

    def __dir__(self) -> list[str]:
        special = (name for name in super().__dir__() if name.startswith("__"))
        return [*special, *_HOMES]


sys.modules[__name__].__class__ = _Door
