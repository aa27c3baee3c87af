"""A model as frozen numbers: what it multiplies, what it caches, and in which formats.

Parsers build these values, `specroof.cost` prices them. Nothing here knows a config key, a chip
or a formula of time.
"""

from specroof.architecture.cores import (
    CompressedAttention,
    Compressor,
    Core,
    Experts,
    GatedDeltaNet,
    GroupedQueryAttention,
    Indexer,
    LatentAttention,
)
from specroof.architecture.matrices import (
    ATTENTION_REPLICATED,
    BF16,
    FEED_FORWARD_REPLICATED,
    FP32,
    HEADS,
    TENSOR,
    WEIGHT_FORMATS,
    Linear,
    Shard,
    WeightFormat,
    by_kv_heads,
    cache_only,
)
from specroof.architecture.model import (
    Architecture,
    Block,
    Layer,
    stack_layers,
)

__all__ = [
    "ATTENTION_REPLICATED",
    "BF16",
    "FEED_FORWARD_REPLICATED",
    "FP32",
    "HEADS",
    "TENSOR",
    "WEIGHT_FORMATS",
    "Architecture",
    "Block",
    "CompressedAttention",
    "Compressor",
    "Core",
    "Experts",
    "GatedDeltaNet",
    "GroupedQueryAttention",
    "Indexer",
    "LatentAttention",
    "Layer",
    "Linear",
    "Shard",
    "WeightFormat",
    "by_kv_heads",
    "cache_only",
    "stack_layers",
]
