"""Small models of every kind, passes, placements and devices, for tests to draw from.

All query heads are multiples of eight, so that every placement drawn here divides every model.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from specroof.acceptance import Acceptance, constant_acceptance, survival_acceptance
from specroof.architecture.attention import GroupedQueryAttention, Indexer
from specroof.architecture.base import (
    ATTENTION_REPLICATED,
    CHOICES,
    FEED_FORWARD_REPLICATED,
    HEADS,
    TENSOR,
    WEIGHT_FORMATS,
    CacheDtypes,
    Core,
    ForwardPass,
    Kept,
    Linear,
    OpCost,
    Options,
    PassSettings,
    by_kv_heads,
)
from specroof.architecture.block_sparse import BlockSparseAttention
from specroof.architecture.chunked import ChunkedAttention
from specroof.architecture.compressed import CompressedAttention, Compressor
from specroof.architecture.experts import Experts
from specroof.architecture.latent import LatentAttention
from specroof.architecture.model import Architecture, Block, Layer, stack_layers
from specroof.architecture.recurrent import (
    GatedDeltaNet,
    KimiDeltaAttention,
    LightningAttention,
    Mamba2,
    RecurrentCore,
    SelectiveScan,
    ShortConvolution,
)
from specroof.drafters import Drafter, ideal_drafter
from specroof.drafters.kinds import autoregressive_drafter, block_drafter
from specroof.hardware.engine import EngineProfile
from specroof.hardware.profile import HardwareProfile, Interconnect, Peak, Placement

Floats = npt.NDArray[np.float64]

# --- numbers -------------------------------------------------------------------------------------

small = st.integers(1, 12)
contexts = st.integers(0, 60)
batches = st.integers(1, 40)
widths = st.sampled_from([4, 8, 16])
head_counts = st.sampled_from([8, 16])
flags = st.booleans()
hidden_sizes = st.sampled_from([16, 32])
formats = st.sampled_from(list(WEIGHT_FORMATS.values()))
cache_dtypes = st.sampled_from(CHOICES["kv_dtype"])
state_dtypes = st.sampled_from(CHOICES["state_dtype"])
options = st.builds(
    Options,
    **{
        name: st.sampled_from(
            (*allowed, None) if name.endswith("_dtype") else allowed  # None: as the config has it
        )
        for name, allowed in CHOICES.items()
    },
)

# --- cores ---------------------------------------------------------------------------------------

windows = st.one_of(st.none(), st.integers(1, 80))
indexers = st.builds(
    Indexer, n_heads=st.sampled_from([8, 16]), head_dim=widths, top_k=st.integers(1, 40)
)


#: What attention in groups is made of, and what attention to latents is.
GROUPED: dict[str, Any] = {
    "n_heads": head_counts,
    "n_kv_heads": st.sampled_from([1, 2, 4, 8]),
    "head_dim": widths,
    "value_dim": widths,
}
LATENT: dict[str, Any] = {
    "n_heads": head_counts,
    "latent_dim": st.sampled_from([16, 128, 160]),
    "rope_dim": widths,
}
few_tokens = st.integers(1, 40)

grouped_queries = st.builds(GroupedQueryAttention, **GROUPED, window=windows)
latents = st.builds(LatentAttention, **LATENT, indexer=st.one_of(st.none(), indexers))
shared_latents = st.builds(LatentAttention, **LATENT, shared_top_k=few_tokens)
sliding_latents = st.builds(
    LatentAttention, **LATENT, head_dims=st.just((24, 16)), window=few_tokens
)
chunked = st.builds(ChunkedAttention, **GROUPED, chunk=few_tokens)
block_sparse = st.builds(
    BlockSparseAttention,
    **GROUPED,
    indexer=st.builds(
        Indexer, n_heads=st.sampled_from([1, 2, 4]), head_dim=widths, top_k=st.integers(1, 8)
    ),
    block_len=st.integers(1, 9),
)
shared_caches = grouped_queries.map(lambda core: replace(core, shares_cache=True))

compressors = st.builds(Compressor, rows=small, row_dim=widths)
ratios = st.sampled_from([0, 2, 4, 7])
perhaps_indexers = st.one_of(st.none(), indexers)
two_compressors = st.lists(compressors, max_size=2)
entry_dims = st.sampled_from([32, 64, 576])
short_windows = st.integers(1, 20)


@st.composite
def compressed_attention(draw: DrawFn) -> CompressedAttention:
    """Draw a layer of window only, of capped entries (CSA), or of all entries (HCA)."""
    ratio = draw(ratios)
    indexer = draw(perhaps_indexers) if ratio else None
    rings = draw(two_compressors) if ratio else []
    return CompressedAttention(
        n_heads=draw(head_counts),
        entry_dim=draw(entry_dims),
        rope_dim=draw(widths),
        window=draw(short_windows),
        ratio=ratio,
        indexer=indexer,
        compressors=tuple(rings),
    )


#: What a short convolution in front of a recurrence is made of.
CONVOLVED: dict[str, Any] = {"conv_kernel": st.integers(2, 5), "conv_columns": st.integers(1, 6)}
delta_nets = st.builds(
    GatedDeltaNet,
    n_key_heads=head_counts,
    n_value_heads=st.sampled_from([8, 16, 32]),
    key_dim=widths,
    value_dim=widths,
    **CONVOLVED,
)
mambas = st.builds(
    Mamba2,
    n_heads=head_counts,
    head_dim=widths,
    state_dim=widths,
    n_groups=st.sampled_from([1, 2, 8]),
    conv_bias=flags,
    **CONVOLVED,
)
kimi_deltas = st.builds(KimiDeltaAttention, n_heads=head_counts, head_dim=widths, **CONVOLVED)
lightnings = st.builds(LightningAttention, n_heads=head_counts, head_dim=widths)
short_convolutions = st.builds(
    ShortConvolution,
    channels=st.sampled_from([16, 64]),
    conv_kernel=st.integers(2, 8),
    conv_columns=st.integers(1, 7),
    conv_bias=flags,
)
scans = st.builds(
    SelectiveScan,
    channels=st.sampled_from([16, 64]),
    state_dim=st.sampled_from([1, 8, 16]),
    conv_bias=flags,
    **CONVOLVED,
)
recurrents: SearchStrategy[RecurrentCore] = st.one_of(
    delta_nets, mambas, kimi_deltas, lightnings, short_convolutions, scans
)

expert_counts = st.integers(1, 24)
chosen_experts = {n: st.integers(1, n) for n in range(1, 25)}
matrix_counts = st.sampled_from([2, 3])
shared_experts = st.integers(0, 2)


# Strategies that depend on nothing that was drawn are made once: a draw that makes its own takes
# several times as long.
@cache
@st.composite
def experts(draw: DrawFn, in_features: int = 16) -> Experts:
    n_experts = draw(expert_counts)
    return Experts(
        n_experts=n_experts,
        top_k=draw(chosen_experts[n_experts]),
        in_features=in_features,
        hidden_features=draw(widths),
        weight=draw(formats),
        n_matrices=draw(matrix_counts),
        n_shared=draw(shared_experts),
    )


# --- blocks and models ---------------------------------------------------------------------------

rising = (
    grouped_queries,
    latents,
    shared_latents,
    sliding_latents,
    shared_caches,
    compressed_attention(),
    recurrents,
)
rising_cores: SearchStrategy[Core] = st.one_of(*rising)
all_cores: SearchStrategy[Core] = st.one_of(*rising, block_sparse, chunked)


@cache
@st.composite
def mixers(draw: DrawFn, hidden_size: int, *, sawtooth: bool = True) -> Block:
    """Draw a block of attention or linear attention, with projections that shard differently.

    Where a block or chunk of keys begins anew, attention reads less behind a longer context: such
    a `sawtooth` may be left out.
    """
    core = draw(all_cores if sawtooth else rising_cores)
    n_kv_heads = getattr(core, "n_kv_heads", None)
    key_shard = ATTENTION_REPLICATED if n_kv_heads is None else by_kv_heads(n_kv_heads)
    weight = draw(formats)
    return Block(
        "attention",
        (
            Linear("q_proj", hidden_size, 64, weight, HEADS),
            Linear("k_proj", hidden_size, 32, weight, key_shard, bias=draw(flags)),
            Linear("o_proj", 64, hidden_size, draw(formats), HEADS, groups=2),
        ),
        core,
        vector_params=hidden_size,
    )


@cache
@st.composite
def feed_forwards(draw: DrawFn, hidden_size: int) -> Block:
    """Draw a dense feed-forward, or a router with experts."""
    if draw(flags):
        up = Linear("up_proj", hidden_size, draw(widths), draw(formats), TENSOR)
        return Block("feed_forward", (up,), vector_params=hidden_size)
    core = draw(experts(hidden_size))
    router = Linear(
        "router", hidden_size, core.n_experts, shard=FEED_FORWARD_REPLICATED, kind="router"
    )
    return Block("feed_forward", (router,), core, vector_params=hidden_size)


@cache
def _stacks(hidden_size: int, sawtooth: bool) -> SearchStrategy[list[Layer]]:
    return st.lists(
        st.builds(
            lambda mixer, feed_forward, count: Layer((mixer, feed_forward), count),
            mixers(hidden_size, sawtooth=sawtooth),
            feed_forwards(hidden_size),
            st.integers(1, 3),
        ),
        min_size=1,
        max_size=3,
    )


lookup_sizes = st.sampled_from([0, 64])


def of_cores(*cores: Core | tuple[Core, int], **keys: Any) -> Architecture:
    """Return a model of layers with nothing but a core each, and how many of them."""
    counted = [core if isinstance(core, tuple) else (core, 1) for core in cores]
    layers = tuple(Layer((Block("attention", (), core),), count) for core, count in counted)
    head = Linear("lm_head", 8, 10, kind="head")
    return Architecture("cores", "llama", 8, 10, layers, head, **keys)


@st.composite
def architectures(draw: DrawFn, *, sawtooth: bool = True) -> Architecture:
    hidden_size = draw(hidden_sizes)
    layers = draw(_stacks(hidden_size, sawtooth))
    return Architecture(
        name="toy",
        family="llama",
        hidden_size=hidden_size,
        vocab_size=96,
        layers=stack_layers(layers),
        head=Linear("lm_head", hidden_size, 96, draw(formats), TENSOR, kind="head"),
        tied_embeddings=draw(flags),
        vector_params=hidden_size,
        lookup_params=draw(lookup_sizes),
        kv_dtype=draw(cache_dtypes),
        state_dtype=draw(state_dtypes),
    )


# --- passes --------------------------------------------------------------------------------------


def forward_pass(
    batch_size: npt.ArrayLike = 1, query_len: npt.ArrayLike = 1, context_len: npt.ArrayLike = 0
) -> ForwardPass:
    return ForwardPass(batch_size=batch_size, query_len=query_len, context_len=context_len)


passes = st.builds(forward_pass, batches, small, contexts)


def setting(
    forward: ForwardPass, choices: Options | None = None, kv_dtype: str = "bf16"
) -> PassSettings:
    """Return what a formula of one core looks at: bf16 all over, fp32 state."""
    return PassSettings(forward, choices or Options(), kv_dtype, "fp32", "bf16")


def kept(core: Core, context: float, dtype: str = "bf16") -> Kept:
    """Return what a core keeps of a sequence, keys of an indexer in the dtype of the cache."""
    return core.kept(np.array(float(context)), CacheDtypes(dtype, dtype, "fp32", "bf16"))


@dataclass(frozen=True)
class Grid:
    """The axes of a grid, as arrays that broadcast to (context, batch, query)."""

    contexts: Sequence[int]
    batches: Sequence[int]
    queries: Sequence[int]

    @property
    def shape(self) -> tuple[int, int, int]:
        return len(self.contexts), len(self.batches), len(self.queries)

    @property
    def forward(self) -> ForwardPass:
        return forward_pass(
            np.array(self.batches)[None, :, None],
            np.array(self.queries),
            np.array(self.contexts)[:, None, None],
        )


grids = st.builds(
    Grid,
    st.lists(contexts, min_size=1, max_size=3),
    st.lists(batches, min_size=1, max_size=3),
    st.lists(small, min_size=1, max_size=3),
)


def amounts(op: OpCost) -> dict[str, Floats]:
    """Return every amount of an operation by name."""
    listed = {
        "flops": op.flops,
        "weight_bytes": op.weight_bytes,
        "cache_bytes": op.cache_bytes,
        "activation_bytes": op.activation_bytes,
    }
    if op.rows is not None and op.routing is not None:
        listed |= {"rows": op.rows, "hit": op.routing.hit, "tokens": op.routing.tokens}
    if op.collective is not None:
        listed["message_bytes"] = op.collective.message_bytes
    return listed


# --- devices -------------------------------------------------------------------------------------

#: More than the devices of any placement drawn here.
LINK = Interconnect(link_bytes_per_s=1e11, max_devices=8)


def device(
    flops_per_s: dict[str, float] | None = None,
    memory_bytes_per_s: float = 1e12,
    memory_bytes: float = 1e12,
    interconnect: Interconnect | None = None,
    engine: EngineProfile | None = None,
) -> HardwareProfile:
    """Return a device with an engine beside the ideal one, if one is given."""
    return HardwareProfile(
        format_version=1,
        name="toy device",
        sources={},
        peak=Peak(
            flops_per_s=flops_per_s or {"bf16": 1e14, "fp16": 1e14},
            memory_bytes_per_s=memory_bytes_per_s,
            memory_bytes=memory_bytes,
        ),
        interconnect=interconnect,
        engines={} if engine is None else {engine.name: engine},
    )


def real_engine(**figures: Any) -> EngineProfile:
    """Return an engine called "real"."""
    return EngineProfile(name="real", **figures)


@st.composite
def devices(draw: DrawFn) -> HardwareProfile:
    """Draw a device, from one that is all arithmetic to one that is all memory."""
    bf16 = draw(st.floats(1e10, 1e16))
    others = draw(st.sets(st.sampled_from(["fp8", "fp4", "int8", "fp32"])))
    peaks = {"bf16": bf16, "fp16": bf16} | {
        dtype: bf16 * draw(st.floats(0.5, 8)) for dtype in sorted(others)
    }
    return device(peaks, draw(st.floats(1e9, 1e13)), interconnect=LINK)


@st.composite
def placements(draw: DrawFn) -> Placement:
    tensor_parallel = draw(st.sampled_from([1, 2, 4, 8]))
    divisors = st.sampled_from([n for n in (1, 2, 4, 8) if tensor_parallel % n == 0])
    return Placement(tensor_parallel, draw(divisors), draw(divisors))


def of_model(model: Architecture, placement: Placement) -> Placement:
    """Return the placement, without expert parallelism for a dense model."""
    return placement if model.has_experts else replace(placement, expert_parallel=1)


# --- drafters and acceptance ---------------------------------------------------------------------

#: In thousandths: a share of 1e-308 would leave times without digits to halve.
costs = st.integers(0, 2000).map(lambda share: share / 1000)
paid_drafters: SearchStrategy[Drafter] = st.one_of(
    st.builds(autoregressive_drafter, costs),
    st.builds(block_drafter, costs, drafts=st.integers(1, 8)),
)
drafters = st.one_of(st.just(ideal_drafter()), paid_drafters)
acceptances: SearchStrategy[Acceptance] = st.one_of(
    st.builds(constant_acceptance, st.floats(0, 1)),
    st.lists(st.floats(0, 1), min_size=1, max_size=20).map(
        lambda values: survival_acceptance(sorted(values, reverse=True))
    ),
)
