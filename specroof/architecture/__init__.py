"""A model as frozen numbers: what it multiplies, what it caches, and in which formats.

Parsers build these values, `specroof.cost` counts their work. Nothing here knows a config key, a
chip or a formula of time.
"""

from specroof.architecture.cores import (
    BlockSparseAttention,
    ChunkedAttention,
    CompressedAttention,
    Compressor,
    Core,
    Experts,
    GroupedQueryAttention,
    Indexer,
    LatentAttention,
    SharedCacheAttention,
)
from specroof.architecture.draft_blocks import block_head, markov_step
from specroof.architecture.draft_heads import (
    DraftHead,
    MedusaHeads,
    eagle3_head,
    eagle_head,
    medusa_head,
)
from specroof.architecture.draft_layers import (
    DraftShape,
    draft_layer,
    draft_model,
    replicated,
    with_first,
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
from specroof.architecture.model import Architecture, Block, Layer, VisionTower, stack_layers
from specroof.architecture.recurrent import (
    GatedDeltaNet,
    KimiDeltaAttention,
    LightningAttention,
    Mamba2,
    RecurrentCore,
    ShortConvolution,
)
from specroof.architecture.usual_blocks import AttentionShape, gated_pair, grouped_query_block

__all__ = [
    "ATTENTION_REPLICATED",
    "BF16",
    "FEED_FORWARD_REPLICATED",
    "FP32",
    "HEADS",
    "TENSOR",
    "WEIGHT_FORMATS",
    "Architecture",
    "AttentionShape",
    "Block",
    "BlockSparseAttention",
    "ChunkedAttention",
    "CompressedAttention",
    "Compressor",
    "Core",
    "DraftHead",
    "DraftShape",
    "Experts",
    "GatedDeltaNet",
    "GroupedQueryAttention",
    "Indexer",
    "KimiDeltaAttention",
    "LatentAttention",
    "Layer",
    "LightningAttention",
    "Linear",
    "Mamba2",
    "MedusaHeads",
    "RecurrentCore",
    "Shard",
    "SharedCacheAttention",
    "ShortConvolution",
    "VisionTower",
    "WeightFormat",
    "block_head",
    "by_kv_heads",
    "cache_only",
    "draft_layer",
    "draft_model",
    "eagle3_head",
    "eagle_head",
    "gated_pair",
    "grouped_query_block",
    "markov_step",
    "medusa_head",
    "replicated",
    "stack_layers",
    "with_first",
]
