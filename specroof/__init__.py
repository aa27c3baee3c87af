"""Predict what speculative decoding gains, from a config, a hardware profile and a drafter."""

from specroof.acceptance import (
    Acceptance,
    AcceptanceFit,
    acceptance_from_length,
    beta_acceptance,
    constant_acceptance,
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
from specroof.simulate import simulate_batch, simulate_exactness
from specroof.speedup.curve import SpeedupCurve, forward_latency, speedup_curve

__all__ = [
    "Acceptance",
    "AcceptanceFit",
    "AcceptanceProfile",
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
    "decay_acceptance",
    "extrapolated_acceptance",
    "fit_acceptance",
    "forward_cost",
    "forward_latency",
    "hardware_names",
    "histogram_acceptance",
    "ideal_drafter",
    "lengths_acceptance",
    "load_drafter",
    "load_hardware",
    "load_model",
    "load_profile",
    "load_profiles",
    "model_names",
    "rate_acceptance",
    "simulate_batch",
    "simulate_exactness",
    "speedup_curve",
    "survival_acceptance",
]
