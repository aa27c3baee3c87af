"""Seconds of passes and exchanges that a test states itself."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from specroof.cost import BlockExchange, OpCost
from specroof.hardware.engine import Collective, EngineProfile
from specroof.hardware.profile import Interconnect, Placement
from specroof.latency.model import pass_work
from specroof.latency.pass_seconds import (
    Exchange,
    PassLatency,
    PassShape,
    communication_s,
    pass_time,
)
from specroof.latency.setup import Setup
from strategies import device


def pass_latency(
    ops: Sequence[OpCost], setup: Setup, shape: PassShape, *, settled: bool = False
) -> PassLatency:
    work = pass_work(ops, setup, shape, settled=settled)
    return pass_time(work, setup.engine, setup.options.granularity)


def on_links_s(
    links: Interconnect,
    reached: Collective | None,
    placement: Placement,
    message_bytes: float,
    *,
    block: str = "attention",
    **how: Any,
) -> float:
    """Return the seconds of an exchange: behind attention, an all-reduce over all devices."""
    collective = BlockExchange(block, np.array(message_bytes), **how)
    exchange = Exchange(collective, 1, device(interconnect=links), placement)
    return float(communication_s([exchange], EngineProfile(name="sglang", collective=reached)))
