"""Seconds of passes whose operations a test states itself."""

from collections.abc import Sequence

from specroof.cost import OpCost
from specroof.latency.model import pass_work
from specroof.latency.pass_seconds import PassLatency, PassShape, pass_time
from specroof.latency.setup import Setup


def pass_latency(
    ops: Sequence[OpCost], setup: Setup, shape: PassShape, *, settled: bool = False
) -> PassLatency:
    work = pass_work(ops, setup, shape, settled=settled)
    return pass_time(work, setup.engine, setup.options.granularity)
