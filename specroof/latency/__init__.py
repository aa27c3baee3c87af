"""Seconds of a pass: operations x profile x placement x engine."""

from specroof.latency.collectives import all_reduce_s, all_to_all_s, hierarchical_all_reduce_s
from specroof.latency.communication import communication_s
from specroof.latency.model import (
    WorkKind,
    launched_kernels,
    layer_kinds,
    model_latency,
    model_work,
    padded_pass,
)
from specroof.latency.notes import engine_notes, memory_notes, option_notes
from specroof.latency.operations import device_bytes, pass_latency, pass_work
from specroof.latency.pass_seconds import (
    OpLatency,
    OpWork,
    PassLatency,
    PassShape,
    PassWork,
    overlapped_s,
    pass_time,
)
from specroof.latency.setup import (
    Setup,
    check_placement,
    drafting_engine,
    drafting_setup,
    engine_setup,
)
from specroof.latency.stacking import stacked

__all__ = [
    "OpLatency",
    "OpWork",
    "PassLatency",
    "PassShape",
    "PassWork",
    "Setup",
    "WorkKind",
    "all_reduce_s",
    "all_to_all_s",
    "check_placement",
    "communication_s",
    "device_bytes",
    "drafting_engine",
    "drafting_setup",
    "engine_notes",
    "engine_setup",
    "hierarchical_all_reduce_s",
    "launched_kernels",
    "layer_kinds",
    "memory_notes",
    "model_latency",
    "model_work",
    "option_notes",
    "overlapped_s",
    "padded_pass",
    "pass_latency",
    "pass_time",
    "pass_work",
    "stacked",
]
