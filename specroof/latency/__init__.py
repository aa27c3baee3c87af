"""Seconds of a pass: operations x profile x placement x engine."""

from specroof.latency.model import (
    Work,
    engine_notes,
    memory_notes,
    micro_batches,
    model_latency,
    model_work,
    option_notes,
    setup_notes,
    stacked,
    without_launches,
)
from specroof.latency.pass_seconds import PassLatency, PassWork, pass_time
from specroof.latency.setup import (
    Deployment,
    Setup,
    attention_reading,
    check_placement,
    device_bytes,
    draft_placement,
    drafting_engine,
    drafting_setup,
    engine_setup,
    reading_notes,
    release_in,
    served_options,
)
