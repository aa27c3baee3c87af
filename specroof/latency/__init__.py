"""Seconds of a pass: operations x profile x placement x engine. The only `max()` lives here."""

from specroof.latency.collectives import all_reduce_s, all_to_all_s, hierarchical_all_reduce_s
from specroof.latency.communication import communication_s
from specroof.latency.operations import device_bytes, price_pass
from specroof.latency.setup import (
    OpLatency,
    PassLatency,
    PassShape,
    Setup,
    overlapped_s,
)

__all__ = [
    "OpLatency",
    "PassLatency",
    "PassShape",
    "Setup",
    "all_reduce_s",
    "all_to_all_s",
    "communication_s",
    "device_bytes",
    "hierarchical_all_reduce_s",
    "overlapped_s",
    "price_pass",
]
