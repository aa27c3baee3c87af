"""What each kind of core costs and keeps: the one table that names all of them."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from specroof.architecture import (
    HEADS,
    BlockSparseAttention,
    ChunkedAttention,
    CompressedAttention,
    Core,
    Experts,
    GatedDeltaNet,
    GroupedQueryAttention,
    KimiDeltaAttention,
    LatentAttention,
    LightningAttention,
    Mamba2,
    Shard,
    SharedCacheAttention,
    ShortConvolution,
    cache_only,
)
from specroof.cost.attention import (
    grouped_query_cache_bytes,
    grouped_query_costs,
    shared_cache_costs,
)
from specroof.cost.base import Array, OpCost, Setting
from specroof.cost.block_sparse import (
    block_index_bytes,
    block_sparse_cache_bytes,
    block_sparse_costs,
)
from specroof.cost.chunked import chunked_cache_bytes, chunked_costs
from specroof.cost.compressed import (
    compressed_cache_bytes,
    compressed_costs,
    compressed_index_bytes,
    compressed_state_bytes,
)
from specroof.cost.experts import expert_costs
from specroof.cost.latent import latent_cache_bytes, latent_costs, latent_index_bytes
from specroof.cost.recurrent import delta_net_costs, recurrent_state_bytes, replay_token_bytes
from specroof.cost.state_space import (
    kimi_delta_costs,
    kimi_delta_replay_bytes,
    lightning_costs,
    lightning_replay_bytes,
    mamba2_costs,
    mamba2_replay_bytes,
    short_convolution_costs,
)


def _by_heads(_core: Core) -> Shard:
    return HEADS


def _by_kv_heads(core: Any) -> Shard:
    return cache_only(core.n_kv_heads)


def _whole(_core: Core) -> Shard:
    # One latent serves every head, so that each device keeps it all.
    return cache_only(1)


def _no_cache(_core: Core, context: Array, _dtype: str) -> Array:
    return 0.0 * context


def _no_state(_core: Core, _state_dtype: str, _conv_dtype: str) -> float:
    return 0.0


def _no_replay(_core: Core) -> float:
    return 0.0


@dataclass(frozen=True, slots=True)
class CoreFormulas:
    """What one kind of core costs in a pass, and what it keeps per sequence and layer.

    Parameters
    ----------
    costs
        From the core and the pass to its operations.
    shard
        How what it keeps per sequence divides over devices; None where it keeps nothing.
    cache_bytes
        Bytes of the cache, from the core, the context and the dtype of the cache.
    state_bytes
        Bytes that do not grow with the context, from the core and the dtypes of state and
        convolution.
    replay_bytes
        Bytes kept of a token so that a state can be replayed, in the place of a copy of the state.
    index_bytes
        Bytes of an indexer's keys in a dtype of their own, beside `cache_bytes`.
    repeated_bytes
        Bytes of the cache that do not divide where the rest does.
    by_sequence
        Whether every sequence costs the same, whatever else is in the batch: `costs` are then
        those of one sequence, as many times as there are.
    """

    costs: Callable[[Any, Setting], list[OpCost]]
    shard: Callable[[Any], Shard] | None = None
    cache_bytes: Callable[[Any, Array, str], Array] = _no_cache
    state_bytes: Callable[[Any, str, str], float] = _no_state
    replay_bytes: Callable[[Any], float] = _no_replay
    index_bytes: Callable[[Any, Array, str], Array] = _no_cache
    repeated_bytes: Callable[[Any, Array, str], Array] | None = None
    by_sequence: bool = False


#: The formulas of every kind of core.
CORES: Final[dict[type[Core], CoreFormulas]] = {
    GroupedQueryAttention: CoreFormulas(
        grouped_query_costs, _by_kv_heads, grouped_query_cache_bytes, by_sequence=True
    ),
    ChunkedAttention: CoreFormulas(
        chunked_costs, _by_kv_heads, chunked_cache_bytes, by_sequence=True
    ),
    SharedCacheAttention: CoreFormulas(shared_cache_costs, by_sequence=True),
    BlockSparseAttention: CoreFormulas(
        block_sparse_costs,
        _by_kv_heads,
        block_sparse_cache_bytes,
        repeated_bytes=block_index_bytes,
        by_sequence=True,
    ),
    LatentAttention: CoreFormulas(
        latent_costs,
        _whole,
        latent_cache_bytes,
        index_bytes=latent_index_bytes,
        by_sequence=True,
    ),
    CompressedAttention: CoreFormulas(
        compressed_costs,
        _whole,
        compressed_cache_bytes,
        lambda core, _state, _conv: compressed_state_bytes(core),
        index_bytes=compressed_index_bytes,
        by_sequence=True,
    ),
    GatedDeltaNet: CoreFormulas(
        delta_net_costs,
        _by_heads,
        state_bytes=recurrent_state_bytes,
        replay_bytes=replay_token_bytes,
    ),
    KimiDeltaAttention: CoreFormulas(
        kimi_delta_costs,
        _by_heads,
        state_bytes=recurrent_state_bytes,
        replay_bytes=kimi_delta_replay_bytes,
    ),
    Mamba2: CoreFormulas(
        mamba2_costs,
        _by_heads,
        state_bytes=recurrent_state_bytes,
        replay_bytes=mamba2_replay_bytes,
    ),
    LightningAttention: CoreFormulas(
        lightning_costs,
        _by_heads,
        state_bytes=recurrent_state_bytes,
        replay_bytes=lightning_replay_bytes,
    ),
    ShortConvolution: CoreFormulas(
        short_convolution_costs, _by_heads, state_bytes=recurrent_state_bytes
    ),
    Experts: CoreFormulas(expert_costs),
}
