"""Predict what speculative decoding gains, from a config, a hardware profile and a drafter."""

from specroof.acceptance import (
    Acceptance,
    acceptance_from_length,
    beta_acceptance,
    constant_acceptance,
    histogram_acceptance,
    rate_acceptance,
    survival_acceptance,
)
from specroof.architecture import Architecture
from specroof.catalog import (
    hardware_names,
    load_drafter,
    load_hardware,
    load_model,
    model_names,
)
from specroof.cost import ForwardPass, OpCost, Options, forward_cost
from specroof.drafters import (
    Drafter,
    DraftTime,
    Round,
    autoregressive_drafter,
    block_drafter,
    ideal_drafter,
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
from specroof.solver import SpeedupCurve, forward_latency, speedup_curve

__all__ = [
    "Acceptance",
    "Architecture",
    "CatalogError",
    "ConfigError",
    "DraftTime",
    "Drafter",
    "EngineProfile",
    "ForwardPass",
    "HardwareProfile",
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
    "acceptance_from_length",
    "autoregressive_drafter",
    "beta_acceptance",
    "block_drafter",
    "constant_acceptance",
    "forward_cost",
    "forward_latency",
    "hardware_names",
    "histogram_acceptance",
    "ideal_drafter",
    "load_drafter",
    "load_hardware",
    "load_model",
    "model_names",
    "rate_acceptance",
    "speedup_curve",
    "survival_acceptance",
]
