"""A model as frozen numbers, and what each kind of core computes and caches: one file per kind.

Parsers build these values, `specroof.cost` adds up a whole pass of them. Nothing here knows a
config key, a chip or a formula of time.
"""

from specroof.architecture.attention import (
    GroupedQueryAttention,
    Indexer,
    SharedCacheAttention,
)
from specroof.architecture.base import (
    ATTENTION_REPLICATED,
    BF16,
    CHOICES,
    FEED_FORWARD_REPLICATED,
    FP32,
    HEADS,
    TENSOR,
    WEIGHT_FORMATS,
    BlockExchange,
    CacheReading,
    Core,
    ForwardPass,
    Linear,
    OpCost,
    Options,
    Shard,
    WeightFormat,
    by_kv_heads,
    cache_only,
)
from specroof.architecture.block_sparse import BlockSparseAttention
from specroof.architecture.chunked import ChunkedAttention
from specroof.architecture.compressed import CompressedAttention, Compressor
from specroof.architecture.draft_heads import (
    DraftHead,
    DraftShape,
    MedusaHeads,
    block_head,
    draft_layer,
    draft_model,
    eagle3_head,
    eagle_head,
    markov_step,
    medusa_head,
    replicated,
    with_first,
)
from specroof.architecture.experts import Experts
from specroof.architecture.latent import LatentAttention
from specroof.architecture.model import (
    Architecture,
    AttentionShape,
    Block,
    Layer,
    VisionTower,
    gated_pair,
    grouped_query_block,
    stack_layers,
)
from specroof.architecture.recurrent import (
    GatedDeltaNet,
    KimiDeltaAttention,
    LightningAttention,
    Mamba2,
    ShortConvolution,
)
