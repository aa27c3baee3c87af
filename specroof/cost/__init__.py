"""FLOPs and bytes of one whole forward pass, and of what a model keeps, before any hardware."""

from specroof.architecture.base import CHOICES, BlockExchange, ForwardPass, OpCost, Options, Shard
from specroof.cost.forward import (
    Storage,
    forward_cost,
    kv_bytes_per_token,
    replay_storage,
    state_bytes,
    storage,
    stored_as,
    window_bytes,
)
