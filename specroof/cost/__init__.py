"""FLOPs and bytes of one forward pass, before any hardware."""

from specroof.architecture import Shard
from specroof.cost.base import CHOICES, Collective, ForwardPass, OpCost, Options
from specroof.cost.forward import (
    Storage,
    forward_cost,
    kv_bytes_per_token,
    replay_storage,
    state_bytes,
    storage,
)

__all__ = [
    "CHOICES",
    "Collective",
    "ForwardPass",
    "OpCost",
    "Options",
    "Shard",
    "Storage",
    "forward_cost",
    "kv_bytes_per_token",
    "replay_storage",
    "state_bytes",
    "storage",
]
