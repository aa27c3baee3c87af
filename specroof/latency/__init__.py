"""Seconds of a pass: operations x profile x placement x engine."""

from specroof.latency.cache_formats import cache_notes, served_options
from specroof.latency.model import Work, model_latency, model_work
from specroof.latency.notes import engine_notes, memory_notes, option_notes
from specroof.latency.pass_seconds import PassLatency, PassWork, pass_time
from specroof.latency.setup import (
    Setup,
    check_placement,
    drafting_engine,
    drafting_setup,
    engine_setup,
)
from specroof.latency.stacking import stacked

__all__ = [
    "PassLatency",
    "PassWork",
    "Setup",
    "Work",
    "cache_notes",
    "check_placement",
    "drafting_engine",
    "drafting_setup",
    "engine_notes",
    "engine_setup",
    "memory_notes",
    "model_latency",
    "model_work",
    "option_notes",
    "pass_time",
    "served_options",
    "stacked",
]
