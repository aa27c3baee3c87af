"""Grouped-query attention, with or without a window or a cache of its own, and the indexer."""

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import numpy.typing as npt

from specroof.architecture.base import (
    ATTENTION_REPLICATED,
    CacheDtypes,
    ContextExchange,
    Heads,
    Kept,
    OpCost,
    PassSettings,
    Shard,
    SoftmaxAttention,
    cache_element_bytes,
    cache_only,
    core_op,
    matmul_flops,
)
from specroof.arrays import Array
from specroof.units import dtype_bytes


@dataclass(frozen=True, slots=True)
class HeadsAttention(SoftmaxAttention):
    """Attention that caches a key and a value of each token for every KV head.

    Parameters
    ----------
    n_heads, n_kv_heads
        Query heads, and heads whose keys and values are cached.
    head_dim, value_dim
        Width of a query or key, and of a value.
    """

    n_heads: int
    n_kv_heads: int
    head_dim: int
    value_dim: int

    @property
    def heads(self) -> Heads:
        """Its heads."""
        return Heads(self.n_heads, self.n_kv_heads, self.head_dim)

    def kept(self, context_len: Array, dtypes: CacheDtypes) -> Kept:
        """Return what it keeps of a sequence: a window keeps its last tokens only.

        Counts
            of a chunk what must be free for its end, not what the begun one holds.
        Source
            Ainslie et al. 2023, arXiv:2305.13245. Of chunks: vLLM
            ``ChunkedLocalAttentionSpec.max_memory_usage_bytes`` (of the new tokens of a prefill
            apart).

        Examples
        --------
        >>> core = GroupedQueryAttention(32, n_kv_heads=8, head_dim=128, value_dim=128)
        >>> kept = core.kept(np.array(1.0), CacheDtypes("bf16", "bf16", "fp32", "bf16"))
        >>> float(kept.cache_bytes)  # 2 * 8 * 128 * 2
        4096.0
        """
        held = np.minimum(context_len, self.window_len) if self.window_len else context_len
        return Kept(cache_only(self.n_kv_heads), held * kv_token_bytes(self, dtypes.kv_dtype))


@dataclass(frozen=True, slots=True)
class GroupedQueryAttention(HeadsAttention):
    """Softmax attention with a cache of keys and values per KV head.

    Parameters
    ----------
    n_heads, n_kv_heads, head_dim, value_dim
        Heads and their widths.
    window
        Tokens a query may see, itself included; None sees all.
    causal
        False where the new positions of a pass see each other both ways, as those of a block
        drafter do.
    shares_cache
        Whether it reads the keys and values that an earlier layer has cached, and keeps none
        (Gemma 4).
    """

    window: int | None = None
    causal: bool = True
    shares_cache: bool = False

    kernel = "heads"
    overhead_kinds = ()

    @property
    def label(self) -> str:
        """The name of its kind, with which names of its operations begin."""
        name = "sliding_attention" if self.window else "full_attention"
        return f"shared_{name}" if self.shares_cache else name

    @property
    def cache_kind(self) -> Literal["tokens", "nothing"]:
        """What of a sequence it keeps."""
        return "nothing" if self.shares_cache else "tokens"

    @property
    def window_len(self) -> int:
        """Tokens at which its cache stops growing; 0 where it never does, or it has none."""
        return 0 if self.shares_cache else self.window or 0

    def costs(self, setting: PassSettings) -> list[OpCost]:
        r"""Return the cost of grouped-query attention in one layer.

        .. math:: M = B \, n_{kv} (d_k + d_v) \, b \, (S_{read} + T)

        Counts
            the cache once per sequence and pass, whatever the number of queries, and the T new
            entries written; of a shared cache these are read, since the earlier layer has written
            them in the same pass.
        Ignores
            queries and outputs (see `specroof.architecture.base`); that the T entries of a shared
            cache may still lie in the chip's: T of S + T.
        Source
            Ainslie et al. 2023, arXiv:2305.13245, section 2.2; one read for all queries: Pope et
            al. 2022, arXiv:2211.05102, section 3.3; shared caches: transformers 5,
            `models/gemma4/modeling_gemma4.py`, ``Gemma4TextAttention.forward``
            (``is_kv_shared_layer``).

        Examples
        --------
        >>> from specroof.architecture.base import ForwardPass, Options
        >>> core = GroupedQueryAttention(n_heads=32, n_kv_heads=8, head_dim=128, value_dim=128)
        >>> verify = ForwardPass(batch_size=2, query_len=4, context_len=1000)
        >>> (op,) = core.costs(PassSettings(verify, Options(), "bf16", "fp32", "bf16"))
        >>> float(op.cache_bytes)  # 2 sequences * 8 heads * 256 elements * 2 bytes * 1004 tokens
        8224768.0
        """
        pairs = counted_pairs(setting, self.window, causal=self.causal)
        read = cached_tokens_read(setting, self.window)
        return [heads_op(self, setting, pairs=pairs, read=read)]


@dataclass(frozen=True, slots=True)
class Indexer:
    """The scorer of sparse attention: every query against every index key (DeepSeek-V3.2).

    Parameters
    ----------
    n_heads, head_dim
        Its query heads, and the width of the one key that a token (or an entry) caches.
    top_k
        Entries that it lets attention see.
    key_tokens
        Tokens (or entries) that one key stands for: more than 1 where it is the mean of a block
        (Qwen4-Exp) or made of a pool (GLM-5.3-Flash).
    """

    n_heads: int
    head_dim: int
    top_k: int
    key_tokens: int = 1


# --- How a cached value lies in memory: bytes per element, latent, index key and V4 entry --------


_INDEX_SCALE_BYTES = 4


def kv_token_bytes(core: HeadsAttention, dtype: str) -> float:
    r"""Return the bytes of one cached token in one layer, :math:`n_{kv} (d_k + d_v) \, b`.

    Source
        Ainslie et al. 2023, arXiv:2305.13245, section 2.2.

    Examples
    --------
    >>> from specroof.architecture.attention import GroupedQueryAttention
    >>> kv_token_bytes(GroupedQueryAttention(32, 8, head_dim=128, value_dim=128), "bf16")
    4096.0
    """
    return core.n_kv_heads * (core.head_dim + core.value_dim) * cache_element_bytes(dtype)


def index_key_bytes(indexer: Indexer, dtype: str) -> float:
    """Return the bytes of one cached index key.

    Counts
        in fp8 one float32 scale per key: 132 bytes for 128 dimensions.
    Source
        SGLang ``NSATokenToKVPool`` (index key 128 + 4 bytes).

    Examples
    --------
    >>> lightning = Indexer(n_heads=64, head_dim=128, top_k=2048)
    >>> index_key_bytes(lightning, "fp8"), index_key_bytes(lightning, "bf16")
    (132.0, 256.0)
    """
    scale = _INDEX_SCALE_BYTES if dtype == "fp8" else 0
    return indexer.head_dim * cache_element_bytes(dtype) + scale


# --- Attention of a block that sees itself both ways: what a block drafter computes --------------


def two_way_tokens(
    query_len: npt.ArrayLike, context_len: npt.ArrayLike, window: int | None = None
) -> Array:
    r"""Return the (query, key) pairs of a block that is not causal, in one sequence.

    .. math:: A = T^2 + \sum_{i=1}^{T} \min(S, \max(w - i, 0))

    Counts
        the whole block for each of its T queries; of the context what lies within the window, the
        query's own position included, as in causal attention.
    Ignores
        nothing.
    Source
        z-lab/dflash, ``model.py`` at 44947fb: the block attends to the cached context and to all
        of itself; the sum by counting.

    Examples
    --------
    >>> float(two_way_tokens(3, 4))  # three queries, each with 4 + 3 keys
    21.0
    >>> float(two_way_tokens(3, 4, window=3))  # 2, 1 and 0 of the context, and 3 each
    12.0
    """
    new = np.asarray(query_len, dtype=np.float64)
    context = np.asarray(context_len, dtype=np.float64)
    if window is None:
        return np.asarray(new * (context + new))
    # The first queries see all of the context, where the window is wide enough.
    unbounded = np.clip(window - context, 0.0, new)
    seen = unbounded * context + _shrinking(new, window) - _shrinking(unbounded, window)
    return np.asarray(new * new + seen)


def _shrinking(n: Array, window: int) -> Array:
    """Return the sum of max(window - i, 0) over i = 1 … n."""
    within = np.minimum(n, window)
    return np.asarray(within * window - within * (within + 1) / 2)


def attended_tokens(
    query_len: npt.ArrayLike, context_len: npt.ArrayLike, window: int | None = None
) -> Array:
    r"""Return the (query, key) pairs of causal attention in one sequence.

    .. math:: A = \sum_{i=1}^{T} \min(S + i, w)

    Counts
        the query's own position: a window of w sees itself and w - 1 before it.
    Ignores
        nothing; masked pairs that a tiled kernel computes anyway belong to its efficiency.
    Source
        Beltagy et al. 2020, arXiv:2004.05150, section 3.1 (window); the triangle by counting.

    Examples
    --------
    >>> float(attended_tokens(3, 4))  # 5 + 6 + 7
    18.0
    >>> float(attended_tokens(3, 4, window=6))  # 5 + 6 + 6
    17.0
    """
    start = np.asarray(context_len, dtype=np.float64)
    stop = start + np.asarray(query_len, dtype=np.float64)
    return np.asarray(_pairs_below(stop, window) - _pairs_below(start, window))


def _pairs_below(positions: Array, window: int | None) -> Array:
    """Return the pairs of the queries at positions 1 to `positions`."""
    if window is None:
        return np.asarray(positions * (positions + 1) / 2)
    within = np.minimum(positions, window)
    return np.asarray(within * (within + 1) / 2 + window * (positions - within))


def cached_tokens_read(setting: PassSettings, window: int | None = None) -> Array:
    """Return the cached positions of one sequence that a pass reads, whatever its query length.

    The first query of a pass sees ``window - 1`` cached positions, the later ones fewer. Where
    its options count the cached context alone, a full window of it is seen.

    Source
        One read for all queries: Pope et al. 2022, arXiv:2211.05102, section 3.3.

    Examples
    --------
    >>> from specroof.architecture.base import ForwardPass, Options
    >>> verify = ForwardPass(batch_size=1, query_len=4, context_len=1000)
    >>> setting = PassSettings(verify, Options(), "bf16", "fp32", "bf16")
    >>> float(cached_tokens_read(setting, window=128))
    127.0
    """
    context_len = setting.forward.context_len
    if window is None:
        return context_len
    return np.minimum(context_len, window - 1 if setting.options.counts_all else window)


def counted_pairs(
    setting: PassSettings, window: int | None = None, *, causal: bool = True
) -> Array:
    """Return the (query, key) pairs of one sequence that the options of a pass count.

    ``count="attention+ffn"`` leaves out the keys of the pass itself, as published estimators do.
    Where the pass is not `causal`, its positions see each other both ways.

    Source
        Modal 2026, "Speculation Is All You Need"; Finn 2026, "The economics of speculative
        decoding": new tokens times cached context.

    Examples
    --------
    >>> from specroof.architecture.base import ForwardPass, Options
    >>> verify = ForwardPass(batch_size=1, query_len=4, context_len=1000)
    >>> for options in (Options(), Options(count="attention+ffn")):
    ...     float(counted_pairs(PassSettings(verify, options, "bf16", "fp32", "bf16")))
    4010.0
    4000.0
    """
    forward = setting.forward
    if setting.options.counts_all:
        attended = attended_tokens if causal else two_way_tokens
        return attended(forward.query_len, forward.context_len, window)
    return np.asarray(forward.query_len * cached_tokens_read(setting, window))


def attention_flops(setting: PassSettings, n_heads: int, pair_dims: int, pairs: Array) -> Array:
    r"""Return the FLOP of scores and values, :math:`QK^\top` and :math:`PV`.

    .. math:: F = 2 \, B \, n_h \, (d_k + d_v) \, A

    Parameters
    ----------
    setting
        The pass, of B sequences.
    n_heads
        Query heads.
    pair_dims
        ``d_k + d_v``: multiply-adds per pair and head.
    pairs
        (query, key) pairs per sequence, from `attended_tokens`.

    Counts
        one multiply-add (2 FLOP) per pair, head and dimension, for scores and for values.
    Ignores
        softmax and masking: about 5 FLOP per pair and head, 1% at d = 128.
    Source
        Chowdhery et al. 2022, arXiv:2204.02311, appendix B.

    Examples
    --------
    >>> from specroof.architecture.base import ForwardPass, Options
    >>> decode = ForwardPass(batch_size=1, query_len=1, context_len=4095)
    >>> setting = PassSettings(decode, Options(), "bf16", "fp32", "bf16")
    >>> float(attention_flops(setting, 32, 256, attended_tokens(1, 4095)))
    67108864.0
    """
    return matmul_flops(n_heads * pair_dims * setting.forward.batch_size * pairs)


def thread_blocks(setting: PassSettings, *, n_heads: int, n_kv_heads: int) -> Array:
    r"""Return the thread blocks of one sequence's attention where none shares its cache.

    .. math:: n = n_h \lceil T / M \rceil, \quad\text{or}\quad
        n = n_{kv} \lceil T (n_h / n_{kv}) / M \rceil

    Parameters
    ----------
    setting
        The pass, and how its kernel reads the cache: M query rows a block, of one head or of all
        heads that share a KV head.
    n_heads, n_kv_heads
        Query heads, and heads whose keys and values are cached.

    Source
        The grids of vLLM's FlashAttention 2 (``flash_fwd_launch_template.h``) and Triton kernel
        (``v1/attention/ops/triton_unified_attention.py``, 0.33.0).

    Examples
    --------
    >>> from specroof.architecture.base import CacheReading, ForwardPass, Options
    >>> verify = ForwardPass(batch_size=1, query_len=8, context_len=1000)
    >>> def blocks(**of_kernel):
    ...     reading = CacheReading("unsplit", **of_kernel)
    ...     setting = PassSettings(verify, Options(), "bf16", "fp32", "bf16", reading=reading)
    ...     return float(thread_blocks(setting, n_heads=12, n_kv_heads=2))
    >>> blocks(tile=64), blocks(tile=16, packed=True)  # 12 heads; 2 of 8 * 6 rows
    (12.0, 6.0)
    """
    readers = n_kv_heads if setting.reading.packed else n_heads
    return readers * query_tiles(setting, n_heads=n_heads, n_kv_heads=n_kv_heads)


def query_tiles(setting: PassSettings, *, n_heads: int, n_kv_heads: int) -> Array:
    """Return the tiles of query rows of a sequence and head: each reads all of the cache.

    Parameters
    ----------
    setting, n_heads, n_kv_heads
        As of `thread_blocks`.

    Source
        See `thread_blocks`.

    Examples
    --------
    >>> from specroof.architecture.base import CacheReading, ForwardPass, Options
    >>> verify = ForwardPass(batch_size=1, query_len=8, context_len=1000)
    >>> reading = CacheReading("unsplit", tile=16, packed=True)
    >>> setting = PassSettings(verify, Options(), "bf16", "fp32", "bf16", reading=reading)
    >>> float(query_tiles(setting, n_heads=12, n_kv_heads=2))  # 8 * 6 rows
    3.0
    """
    reading, new = setting.reading, setting.forward.query_len
    rows = new * (n_heads / n_kv_heads) if reading.packed else new
    return np.ceil(rows / reading.tile)


def context_exchange(
    setting: PassSettings,
    *,
    n_heads: int,
    head_dims: tuple[int, int],
    cached_bytes: Array,
    gathers: npt.NDArray[np.bool_],
) -> ContextExchange:
    r"""Return what devices exchange for attention if each caches a part of the context.

    .. math:: n = B \, T \, n_h \left[ (d_q + d_o) \, b + 4 \right]

    Parameters
    ----------
    setting
        The pass.
    n_heads, head_dims
        Query heads, and the widths of a query and of a partial output.
    cached_bytes, gathers
        As of `ContextExchange`.

    Counts
        queries and partial outputs in the dtype of activations; a sum of exponents in float32.
    Source
        vLLM 0.33.0 ``v1/attention/ops/dcp.py``, ``MLADCPManager`` and ``cp_lse_ag_out_rs``,
        ``v1/attention/backends/flash_attn.py``, ``_forward_with_dcp``; SGLang 0.5.23
        ``layers/dcp/comm.py``. Latents of a prompt: ``MLADCPManager.kv_gather``.

    Examples
    --------
    >>> from specroof.architecture.base import ForwardPass, Options
    >>> decode = ForwardPass(batch_size=2, query_len=1, context_len=9)
    >>> setting = PassSettings(decode, Options(), "bf16", "fp32", "bf16")
    >>> no, cached = np.zeros((), dtype=bool), np.zeros(())
    >>> dims = {"n_heads": 4, "head_dims": (8, 16)}
    >>> exchange = context_exchange(setting, **dims, cached_bytes=cached, gathers=no)
    >>> float(exchange.merged_bytes)  # 2 tokens of 4 heads: 24 elements of 2 bytes, and 4
    416.0
    """
    row_bytes = sum(head_dims) * dtype_bytes(setting.activation_dtype) + dtype_bytes("fp32")
    merged = np.asarray(setting.forward.tokens * (n_heads * row_bytes))
    return ContextExchange(merged, cached_bytes, gathers)


def attention_op(  # noqa: PLR0913 - what kinds of attention differ in, by name
    core: SoftmaxAttention,
    setting: PassSettings,
    *,
    flops: Array,
    read_bytes: Array,
    new_bytes: Array,
    value_dim: int,
    kind: str = "attention",
) -> OpCost:
    r"""Return the operation that attends a cache.

    .. math:: M = B (r \, M_{read} + M_{new}) \qquad F' = F \, \frac{n M}{n_h T}

    Parameters
    ----------
    core, setting
        Its heads, over whose cache devices divide; the pass, its dtypes, and how its kernel reads
        the cache.
    flops
        Of the whole batch.
    read_bytes, new_bytes
        Cached bytes per sequence that one reading takes, and that the pass adds.
    value_dim
        Width of an output of a head, before any projection.
    kind
        ``"attention"`` or ``"latent_attention"``, whose kernels reach more.

    Counts
        one reading of the cache, or r = T where the kernel makes a row of each new position; where
        it does not split the cache, the n thread blocks with all M rows of their tiles.
    Source
        The bytes are the caller's; that new entries are written and not read back is counting.

    Examples
    --------
    >>> from specroof.architecture.base import CacheReading, ForwardPass, Options
    >>> verify = ForwardPass(batch_size=2, query_len=3, context_len=10)
    >>> core = GroupedQueryAttention(2, n_kv_heads=1, head_dim=8, value_dim=8)
    >>> def op(reading):
    ...     return attention_op(
    ...         core,
    ...         PassSettings(verify, Options(), "bf16", "fp32", "bf16", reading=reading),
    ...         flops=np.array(9.0),
    ...         read_bytes=np.array(40.0),
    ...         new_bytes=np.array(4.0),
    ...         value_dim=8,
    ...     )
    >>> [float(op(CacheReading(kind)).cache_bytes) for kind in ("once", "per-position")]
    [88.0, 248.0]
    >>> few = op(CacheReading("unsplit", tile=12))
    >>> float(few.flops), float(few.blocks)  # 3 of 12 rows are used; 2 heads of 2 sequences
    (36.0, 4.0)
    """
    forward, (n_heads, n_kv_heads, head_dim) = setting.forward, core.heads
    written = new_bytes if setting.options.counts_all else np.zeros(())
    read = setting.cache_passes * read_bytes
    blocks, tiles = None, np.ones(())
    if setting.reading.kind in {"unsplit", "prefill"}:
        unsplit = setting.reads_apart
        tiles = query_tiles(setting, n_heads=n_heads, n_kv_heads=n_kv_heads)
        n_blocks = thread_blocks(setting, n_heads=n_heads, n_kv_heads=n_kv_heads)
        filled = n_heads * forward.query_len / (n_blocks * setting.reading.tile)
        flops = np.asarray(flops / np.where(unsplit, filled, 1.0))
        blocks = np.where(unsplit, forward.batch_size * n_blocks, np.inf)
    exchange = None
    if setting.reading.spread:
        of_latents = kind == "latent_attention"
        exchange = context_exchange(
            setting,
            n_heads=n_heads,
            head_dims=(head_dim, value_dim),
            cached_bytes=np.asarray(forward.batch_size * read_bytes),
            gathers=setting.gathers_context if of_latents else np.zeros((), dtype=bool),
        )
    moved = np.asarray(forward.batch_size * (read + written))
    seen = {"blocks": blocks, "tiles": tiles, "context": exchange}
    shard = cache_only(n_kv_heads)
    return core_op(setting, "core", kind, flops=flops, cache_bytes=moved, shard=shard, **seen)


def heads_op(core: HeadsAttention, setting: PassSettings, *, pairs: Array, read: Array) -> OpCost:
    r"""Return the operation that attends a cache of keys and values per KV head.

    .. math:: F = 2 \, B \, n_h (d_k + d_v) \, A \qquad
        M = B \, n_{kv} (d_k + d_v) \, b \, (S_{read} + T)

    Parameters
    ----------
    core, setting
        Sizes of the heads, and the pass.
    pairs, read
        Per sequence: (query, key) pairs, A, and cached tokens that are read, S_read.

    Source
        Ainslie et al. 2023, arXiv:2305.13245, section 2.2.

    Examples
    --------
    >>> from specroof.architecture.base import ForwardPass, Options
    >>> core = GroupedQueryAttention(n_heads=2, n_kv_heads=1, head_dim=4, value_dim=4)
    >>> decode = ForwardPass(batch_size=1, query_len=1, context_len=9)
    >>> setting = PassSettings(decode, Options(), "bf16", "fp32", "bf16")
    >>> op = heads_op(core, setting, pairs=np.array(10.0), read=np.array(9.0))
    >>> float(op.flops), float(op.cache_bytes)  # 2 * 2 * 8 * 10 pairs, 8 elements * 2 * 10 tokens
    (320.0, 160.0)
    """
    token_bytes = kv_token_bytes(core, setting.kv_dtype)
    return attention_op(
        core,
        setting,
        flops=attention_flops(setting, core.n_heads, core.head_dim + core.value_dim, pairs),
        read_bytes=np.asarray(token_bytes * read),
        new_bytes=token_bytes * setting.forward.query_len,
        value_dim=core.value_dim,
    )


def indexer_op(  # noqa: PLR0913 - what indexers differ in, by name
    indexer: Indexer,
    setting: PassSettings,
    *,
    pairs: Array,
    read: Array,
    new: Array,
    key_bytes: float | None = None,
    shard: Shard = ATTENTION_REPLICATED,
) -> OpCost:
    r"""Return the cost of scoring index keys: every query against every key.

    .. math:: F = 2 \, B \, n_I d_I \, A / g \qquad M = B \, b_I \, (S_{keys} + T_{keys}) / g

    with g tokens to a key.

    Parameters
    ----------
    indexer
        Heads, width and top-k.
    setting
        The pass; keys are scored in the dtype that they are cached in: the option
        ``index_dtype``, else that of the cache.
    pairs, read, new
        Per sequence: (query, token) pairs, cached tokens whose keys are read, tokens added.
    key_bytes
        Of one key; those of DeepSeek's indexer if None.
    shard
        How the scan divides over devices.

    Counts
        the weighted sum over heads within the multiply-add of the score.
    Ignores
        ReLU and the top-k selection: 2 of 256 FLOP per pair and head; that tokens of an unfinished
        block have no key yet: at most one key a sequence.
    Source
        DeepSeek-V3.2-Exp report 2025, equation 1 (lightning indexer).

    Examples
    --------
    >>> from specroof.architecture.base import ForwardPass, Options
    >>> decode = ForwardPass(batch_size=1, query_len=1, context_len=100)
    >>> setting = PassSettings(decode, Options(), "fp8", "fp32", "bf16")
    >>> op = indexer_op(
    ...     Indexer(n_heads=64, head_dim=128, top_k=2048),
    ...     setting,
    ...     pairs=np.array(101.0),
    ...     read=np.array(100.0),
    ...     new=np.array(1.0),
    ... )
    >>> float(op.flops), float(op.cache_bytes)  # 2 * 64 * 128 * 101 pairs, 132 bytes * 101 keys
    (1654784.0, 13332.0)
    """
    dtype = setting.kv_dtype
    if key_bytes is None:
        dtype = setting.options.index_dtype or dtype
        key_bytes = index_key_bytes(indexer, dtype)
    pairs, read, new = (tokens / indexer.key_tokens for tokens in (pairs, read, new))
    written = new if setting.options.counts_all else np.zeros(())
    narrow = dtype in {"fp8", "fp4"}
    batch_size = setting.forward.batch_size
    op = core_op(
        setting,
        "indexer",
        "indexer",
        flops=matmul_flops(indexer.n_heads * indexer.head_dim * batch_size * pairs),
        cache_bytes=np.asarray(batch_size * key_bytes * (setting.cache_passes * read + written)),
        shard=shard,
    )
    return replace(op, compute_dtype=dtype) if narrow else op
