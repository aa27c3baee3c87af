"""Bytes that a model takes up, weights and what each sequence caches, and how they divide."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from specroof.architecture import (
    ATTENTION_REPLICATED,
    HEADS,
    TENSOR,
    WEIGHT_FORMATS,
    Architecture,
    Block,
    Core,
    Shard,
)
from specroof.cost.base import Array, Options
from specroof.cost.cores import CORES, CoreFormulas
from specroof.units import dtype_bytes


@dataclass(frozen=True, slots=True, eq=False)
class Storage:
    """What one part of a model keeps in memory.

    Parameters
    ----------
    weight_bytes
        Stored once.
    sequence_bytes
        Stored per sequence: cache and recurrent state.
    shard
        How both divide over devices.
    """

    weight_bytes: float
    sequence_bytes: Array
    shard: Shard


def storage(
    architecture: Architecture, context_len: npt.ArrayLike, options: Options | None = None
) -> list[Storage]:
    """Return what a model keeps in memory, part by part, for sequences of `context_len`.

    Counts
        weights with their block scales, embedding, cache and recurrent state.
    Ignores
        activations, captured graphs and the engine's own buffers (1 to 10 GB per device), state
        snapshots of a verification, and drafters.
    Source
        See `specroof.cost.layout` for the bytes of a cached entry.

    Examples
    --------
    >>> from specroof.architecture import GroupedQueryAttention, Layer, Linear
    >>> core = GroupedQueryAttention(32, n_kv_heads=8, head_dim=128, value_dim=128)
    >>> up = Linear("up_proj", 8, 32, shard=TENSOR)
    >>> layer = Layer((Block("attention", (), core), Block("feed_forward", (up,))), count=2)
    >>> tiny = Architecture("tiny", "llama", 8, 100, (layer,), head=Linear("lm_head", 8, 100))
    >>> parts = storage(tiny, context_len=10)
    >>> sum(part.weight_bytes for part in parts)  # 2 bytes of 2 * 256 + 800 + 800 elements
    4224.0
    >>> float(sum(part.sequence_bytes for part in parts))  # 2 layers * 4096 bytes * 10 tokens
    81920.0
    """
    options = options or Options()
    if options.weight_dtype is not None:
        architecture = architecture.with_weights(WEIGHT_FORMATS[options.weight_dtype])
    context = np.asarray(context_len, dtype=np.float64)
    nothing = np.zeros(())
    parts = [
        Storage(count * weight_bytes, nothing, shard)
        for count, block in architecture.counted_blocks
        for weight_bytes, shard in _block_weights(block)
    ]
    table = architecture.embedding_params * dtype_bytes(architecture.activation_dtype)
    head = 0.0 if architecture.tied_embeddings else architecture.head.stored_bytes
    parts.append(Storage(table + head, nothing, TENSOR))
    kv_dtype = options.kv_dtype or architecture.kv_dtype
    state_dtype = options.state_dtype or architecture.state_dtype
    for count, core, rules in _formulas(architecture):
        if rules.shard is None:
            continue
        kept = (
            rules.cache_bytes(core, context, kv_dtype)
            + rules.index_bytes(core, context, options.index_dtype or kv_dtype)
            + rules.state_bytes(core, state_dtype, architecture.activation_dtype)
        )
        if rules.repeated_bytes is not None:
            repeated = rules.repeated_bytes(core, context, kv_dtype)
            parts.append(Storage(0.0, np.asarray(count * repeated), ATTENTION_REPLICATED))
            kept = kept - repeated
        parts.append(Storage(0.0, np.asarray(count * kept), rules.shard(core)))
    return parts


def replay_storage(architecture: Architecture) -> list[Storage]:
    """Return what a model keeps of each drafted position so that its states can be replayed.

    Counts
        inputs of the recurrence, in the place of a copy of the state for each position.
    Source
        ``--recurrent-state replay``: see `specroof.cost.recurrent.replay_token_bytes`.

    Examples
    --------
    >>> from specroof.architecture import GatedDeltaNet, Layer, Linear
    >>> core = GatedDeltaNet(16, 32, key_dim=128, value_dim=128, conv_kernel=4, conv_columns=3)
    >>> layer = Layer((Block("attention", (), core),), count=3)
    >>> tiny = Architecture("tiny", "llama", 8, 100, (layer,), head=Linear("lm_head", 8, 100))
    >>> [float(part.sequence_bytes) for part in replay_storage(tiny)]  # 3 * 12544
    [37632.0]
    """
    return [
        Storage(0.0, np.asarray(count * rules.replay_bytes(core)), rules.shard(core))
        for count, core, rules in _formulas(architecture)
        if rules.shard is not None and rules.replay_bytes(core)
    ]


def _block_weights(block: Block) -> list[tuple[float, Shard]]:
    weights = [(linear.stored_bytes, linear.shard) for linear in block.linears]
    if block.core is not None:
        weights.append((block.core.stored_bytes, HEADS if block.name == "attention" else TENSOR))
    return weights


def _formulas(architecture: Architecture) -> list[tuple[int, Core, CoreFormulas]]:
    """Return the cores that may store something per sequence: their counts and formulas."""
    return [(count, core, CORES[type(core)]) for count, core in architecture.counted_cores]


def kv_cache_bytes(
    architecture: Architecture,
    context_len: npt.ArrayLike,
    kv_dtype: str | None = None,
    index_dtype: str | None = None,
) -> Array:
    """Return the bytes of cached keys, values and index keys of one sequence, over all layers.

    Parameters
    ----------
    architecture
        The model.
    context_len
        Cached positions.
    kv_dtype, index_dtype
        Overrides the config's.

    Counts
        what grows with the context, and windows; not recurrent state (`state_bytes`).
    Ignores
        paging: engines round up to blocks of 16 to 256 tokens.
    Source
        See `specroof.cost.layout` for the bytes of each kind of entry.

    Examples
    --------
    >>> from specroof.architecture import GroupedQueryAttention, Layer, Linear
    >>> core = GroupedQueryAttention(32, n_kv_heads=8, head_dim=128, value_dim=128)
    >>> up = Linear("up_proj", 8, 32, shard=TENSOR)
    >>> layer = Layer((Block("attention", (), core), Block("feed_forward", (up,))), count=2)
    >>> tiny = Architecture("tiny", "llama", 8, 100, (layer,), head=Linear("lm_head", 8, 100))
    >>> float(kv_cache_bytes(tiny, 10))  # 2 layers * 2 * 8 heads * 128 * 2 bytes * 10 tokens
    81920.0
    """
    context = np.asarray(context_len, dtype=np.float64)
    dtype = kv_dtype or architecture.kv_dtype
    total = 0.0 * context
    for count, core, rules in _formulas(architecture):
        keys = rules.index_bytes(core, context, index_dtype or dtype)
        total = total + count * (rules.cache_bytes(core, context, dtype) + keys)
    return np.asarray(total)


def kv_bytes_per_token(architecture: Architecture, kv_dtype: str | None = None) -> float:
    """Return the cache bytes that one more token of a long context takes.

    Windows that are full take none, and a compressed entry is shared by the tokens it stands for.

    Source
        The slope of `kv_cache_bytes` between two long contexts.

    Examples
    --------
    >>> from specroof.architecture import GroupedQueryAttention, Layer, Linear
    >>> core = GroupedQueryAttention(32, n_kv_heads=8, head_dim=128, value_dim=128)
    >>> up = Linear("up_proj", 8, 32, shard=TENSOR)
    >>> layer = Layer((Block("attention", (), core), Block("feed_forward", (up,))), count=2)
    >>> tiny = Architecture("tiny", "llama", 8, 100, (layer,), head=Linear("lm_head", 8, 100))
    >>> kv_bytes_per_token(tiny)
    8192.0
    """
    start, step = 2.0**20, 2.0**20
    longer = kv_cache_bytes(architecture, np.array([start, start + step]), kv_dtype)
    return float((longer[1] - longer[0]) / step)


def state_bytes(architecture: Architecture, state_dtype: str | None = None) -> float:
    """Return the bytes of one sequence that do not grow with the context: recurrent state, rings.

    Source
        `specroof.cost.recurrent.recurrent_state_bytes`, and the rings of DeepSeek-V4's
        compressors.

    Examples
    --------
    >>> from specroof.architecture import GroupedQueryAttention, Layer, Linear
    >>> core = GroupedQueryAttention(32, n_kv_heads=8, head_dim=128, value_dim=128)
    >>> up = Linear("up_proj", 8, 32, shard=TENSOR)
    >>> layer = Layer((Block("attention", (), core), Block("feed_forward", (up,))), count=2)
    >>> tiny = Architecture("tiny", "llama", 8, 100, (layer,), head=Linear("lm_head", 8, 100))
    >>> state_bytes(tiny)  # attention has none
    0.0
    """
    dtype = state_dtype or architecture.state_dtype
    return sum(
        count * rules.state_bytes(core, dtype, architecture.activation_dtype)
        for count, core, rules in _formulas(architecture)
    )
