"""DeepSeek-V4 attention: a raw window, compressed entries, and the rings that fill them.

Source
    DeepSeek-V4 as served by vLLM ("DeepSeek V4 in vLLM", 2026-04-24) and SGLang
    (``pool_configurator.py``).
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from specroof.architecture.attention import (
    Indexer,
    attention_flops,
    attention_op,
    cached_tokens_read,
    counted_pairs,
    index_key_bytes,
    indexer_op,
)
from specroof.architecture.base import (
    ATTENTION_REPLICATED,
    CacheDtypes,
    Core,
    Heads,
    Kept,
    OpCost,
    PassSettings,
    PickedKeys,
    SoftmaxAttention,
    cache_element_bytes,
    cache_only,
    core_op,
)
from specroof.arrays import Array
from specroof.units import dtype_bytes


@dataclass(frozen=True, slots=True)
class Compressor:
    """The float32 ring of tokens that wait to be merged into the next compressed entry.

    Parameters
    ----------
    rows, row_dim
        Tokens held, and values held per token.
    """

    rows: int
    row_dim: int


@dataclass(frozen=True, slots=True)
class CompressedAttention(SoftmaxAttention):
    """DeepSeek-V4 attention: a short raw window and compressed entries, one vector as K and V.

    Parameters
    ----------
    n_heads
        Query heads.
    entry_dim, rope_dim
        Width of an entry, and how much of it is rotary.
    window
        Raw tokens that every query sees, itself included.
    ratio
        Tokens per compressed entry; 0 where the layer has none.
    indexer
        Present where only the top-k compressed entries are attended (CSA); absent in HCA.
    compressors
        Rings of unfinished entries (of attention, and of the indexer).
    """

    n_heads: int
    entry_dim: int
    rope_dim: int
    window: int
    ratio: int
    indexer: Indexer | None = None
    compressors: tuple[Compressor, ...] = ()

    kernel = "compressed"
    causal = True
    # Compressed entries grow with the context.
    window_len = 0

    @property
    def label(self) -> str:
        """The name of its kind, with which names of its operations begin."""
        return f"c{self.ratio}_attention" if self.ratio else "sliding_attention"

    @property
    def overhead_kinds(self) -> tuple[str, ...]:
        """Layer kinds for which engines charge an overhead."""
        return ("latent_attention", "sparse_index") if self.indexer else ("latent_attention",)

    @property
    def heads(self) -> Heads:
        """Its heads, all of which look at one entry."""
        return Heads(self.n_heads, 1, self.entry_dim)

    def costs(self, setting: PassSettings) -> list[OpCost]:
        r"""Return the cost of one DeepSeek-V4 layer's attention: indexer, attention, rings.

        .. math:: F = 2 \, B \, n_h \, 2 d \, (A_{window} + A_{entries})

        Counts
            entries once per sequence and pass; per new token one raw entry and 1/m of a
            compressed one written; in the rings one row written per token, and all rows read per
            entry emitted.
        Ignores
            that queries of one sequence may select different entries: at most T times the top-k.
        Source
            "DeepSeek V4 in vLLM", 2026-04-24; SGLang ``pool_configurator.py`` (see the module).

        Examples
        --------
        >>> from specroof.architecture.base import ForwardPass, Options
        >>> core = CompressedAttention(128, entry_dim=512, rope_dim=64, window=128, ratio=128)
        >>> decode = ForwardPass(batch_size=1, query_len=1, context_len=4096)
        >>> attention, *_ = core.costs(PassSettings(decode, Options(), "bf16", "fp32", "bf16"))
        >>> float(attention.flops)  # 2 * 128 heads * 1024 * (128 raw + 32 compressed)
        41943040.0
        """
        forward, options = setting.forward, setting.options
        raw_bytes = entry_bytes(self, setting.kv_dtype, options.v4_attention)
        top_k = self.indexer.top_k if self.indexer else None
        dims = 2 * self.entry_dim + (self.rope_dim if options.v4_attention == "mla-like" else 0)
        pairs = counted_pairs(setting, self.window) + _counted_entries(self, setting, top_k)
        read = cached_tokens_read(setting, self.window)
        # Rules say how the index is read.
        attention = attention_op(
            self,
            replace(setting, reading=setting.reading.of_chosen),
            flops=attention_flops(setting, self.n_heads, dims, pairs),
            read_bytes=raw_bytes * (read + _entries_at(self, forward.context_len, top_k)),
            new_bytes=raw_bytes
            * (forward.query_len + _entries_per_token(self) * forward.query_len),
            value_dim=self.entry_dim,
        )
        picked = PickedKeys(self.kernel, self.n_heads, np.ones(()), np.zeros((), dtype=bool))
        attention = replace(attention, picked=picked)
        scan = (
            [
                indexer_op(
                    self.indexer,
                    setting,
                    pairs=_counted_entries(self, setting, None),
                    read=_entries_at(self, forward.context_len, None),
                    new=_entries_per_token(self) * forward.query_len,
                )
            ]
            if self.indexer
            else []
        )
        return [*scan, attention, *(_ring_op(ring, self, setting) for ring in self.compressors)]

    def kept(self, context_len: Array, dtypes: CacheDtypes) -> Kept:
        """Return what it keeps of a sequence: entries, a key of its indexer for each, and rings.

        Source
            See `specroof.architecture.base` for the bytes of an entry; SGLang
            ``pool_configurator.py`` (compressor states in float32).

        Examples
        --------
        >>> ring = Compressor(rows=128, row_dim=1024)
        >>> core = CompressedAttention(128, 512, 64, window=128, ratio=128, compressors=(ring,))
        >>> kept = core.kept(np.array(2.0**20), CacheDtypes("bf16", "bf16", "fp32", "bf16"))
        >>> float(kept.cache_bytes) / 2**20, kept.state_bytes  # 8 MiB + window; 128 * 1024 * 4
        (8.125, 524288.0)
        """
        entries = _entries_at(self, context_len, None)
        raw_bytes = entry_bytes(self, dtypes.kv_dtype, "shared-kv")
        cached = (np.minimum(context_len, self.window) + entries) * raw_bytes
        if self.indexer:
            cached = cached + entries * index_key_bytes(self.indexer, dtypes.index_dtype)
        rings = sum(ring.rows * ring.row_dim for ring in self.compressors) * dtype_bytes("fp32")
        # One entry serves every head, so that each device keeps it all.
        return Kept(cache_only(1), cached, state_bytes=rings)


def window_and_rings(
    cores: Iterable[tuple[float, Core]], most_ratio: int
) -> tuple[int, float, float]:
    """Return the longest raw window, and the bytes of rings in two kinds of layers.

    Parameters
    ----------
    cores
        How many there are of each.
    most_ratio
        Tokens per compressed entry in layers of the first kind, at most.

    Source
        Counting, in float32: see `CompressedAttention.kept`.

    Examples
    --------
    >>> four, many = Compressor(rows=8, row_dim=2048), Compressor(rows=128, row_dim=1024)
    >>> core = CompressedAttention(128, 512, 64, window=128, ratio=4, compressors=(four,))
    >>> other = CompressedAttention(128, 512, 64, window=128, ratio=128, compressors=(many,))
    >>> window_and_rings([(21, core), (20, other)], 4)
    (128, 1376256.0, 10485760.0)
    """
    window, rings = 0, {True: 0.0, False: 0.0}
    for count, core in cores:
        if isinstance(core, CompressedAttention):
            window = max(window, core.window)
            for ring in core.compressors:
                ring_bytes = ring.rows * ring.row_dim * dtype_bytes("fp32")
                rings[core.ratio <= most_ratio] += count * ring_bytes
    return window, rings[True], rings[False]


@dataclass(frozen=True, slots=True)
class Pages:
    """Caches of a kind in blocks of so many tokens.

    Parameters
    ----------
    tokens
        Of a block.
    window
        Tokens that a sequence keeps; 0 for all.
    caches
        How many there are, by the bytes that each has of a block.
    """

    tokens: int
    window: int
    caches: Mapping[float, float]


def pages(
    cores: Iterable[tuple[float, Core]],
    dtype: str,
    *,
    entry_tokens: int,
    window_tokens: int,
    ring_tokens: Mapping[str, int],
    alignment: int,
) -> tuple[Pages, ...]:
    """Return what compressed attention caches in blocks: entries, raw windows, rings.

    Parameters
    ----------
    cores
        How many there are of each.
    dtype
        Format of the cache.
    entry_tokens, window_tokens, ring_tokens
        Tokens of a block that holds compressed entries, raw ones, and rows of rings, by the label
        of the attention.
    alignment
        What the bytes of a cache in a block are a multiple of.

    Source
        Counting.

    Examples
    --------
    >>> ring = Compressor(rows=128, row_dim=1024)
    >>> core = CompressedAttention(128, 512, 64, window=128, ratio=128, compressors=(ring,))
    >>> sizes = {"entry_tokens": 256, "window_tokens": 64, "ring_tokens": {"c128_attention": 8}}
    >>> for one in pages([(20, core)], "fp8", **sizes, alignment=576):
    ...     print(one.tokens, one.window, one.caches)  # 64 * 584, 2 * 584 and 8 * 4096, rounded up
    64 128 {37440: 20}
    256 0 {1728: 20}
    8 128 {32832: 20}
    """
    found: dict[tuple[int, int], dict[float, float]] = {}

    def add(tokens: int, window: int, held: float, count: float) -> None:
        page, caches = (
            math.ceil(held / alignment) * alignment,
            found.setdefault((tokens, window), {}),
        )
        caches[page] = caches.get(page, 0) + count

    for count, core in cores:
        if not isinstance(core, CompressedAttention):
            continue
        one = entry_bytes(core, dtype, "shared-kv")
        add(window_tokens, core.window, window_tokens * one, count)
        if core.ratio:
            add(entry_tokens, 0, entry_tokens / core.ratio * one, count)
        if core.indexer:
            key = index_key_bytes(core.indexer, dtype)
            add(entry_tokens, 0, entry_tokens / core.ratio * key, count)
        for ring in core.compressors:
            tokens = ring_tokens[core.label]
            add(tokens, ring.rows, tokens * ring.row_dim * dtype_bytes("fp32"), count)
    return tuple(Pages(*kind, caches) for kind, caches in found.items())


_ENTRY_SCALE_BLOCK = 64
_ENTRY_SCALE_ALIGN = 8


def entry_bytes(core: CompressedAttention, dtype: str, v4_attention: str) -> float:
    """Return the bytes of one DeepSeek-V4 cache entry, raw or compressed.

    Counts
        in fp8 the rotary part stays bf16, and one scale byte per 64 elements is padded to 8:
        448 + 2 * 64 + 8 = 584; ``"mla-like"`` counts 512 + 64 elements without scales.
    Source
        SGLang ``pool_configurator.py`` (584 bytes); ``"mla-like"``: Finn 2026, "The economics of
        speculative decoding".

    Examples
    --------
    >>> v4 = CompressedAttention(128, entry_dim=512, rope_dim=64, window=128, ratio=128)
    >>> entry_bytes(v4, "bf16", "shared-kv"), entry_bytes(v4, "fp8", "shared-kv")
    (1024.0, 584.0)
    >>> entry_bytes(v4, "fp8", "mla-like")
    576.0
    """
    if v4_attention == "mla-like":
        return (core.entry_dim + core.rope_dim) * cache_element_bytes(dtype)
    if dtype != "fp8":
        return core.entry_dim * cache_element_bytes(dtype)
    plain = core.entry_dim - core.rope_dim
    scales = math.ceil(plain / _ENTRY_SCALE_BLOCK / _ENTRY_SCALE_ALIGN) * _ENTRY_SCALE_ALIGN
    return plain * dtype_bytes("fp8") + core.rope_dim * dtype_bytes("bf16") + scales


def attended_entries(
    query_len: Array, context_len: Array, ratio: int, cap: int | None = None
) -> Array:
    r"""Return the (query, compressed entry) pairs of one sequence.

    .. math:: A = \sum_{i=0}^{T-1} \min(\lfloor (S + i + 1) / m \rfloor, k)

    Parameters
    ----------
    query_len, context_len
        New positions, and cached positions before them.
    ratio
        Positions per entry, m.
    cap
        Entries that a query may attend, k; None for all.

    Counts
        entries that are complete at the query's position, which completes one itself if it is the
        last of m.
    Ignores
        nothing.
    Source
        transformers 5.23, `models/deepseek_v4/modeling_deepseek_v4.py`: a query at n (from 0) sees
        ``(n + 1) // compress_rate`` entries.

    Examples
    --------
    >>> float(attended_entries(np.array(3.0), np.array(7.0), ratio=4))  # 8//4 + 9//4 + 10//4
    6.0
    >>> float(attended_entries(np.array(3.0), np.array(7.0), ratio=4, cap=1))
    3.0
    """
    first = context_len + 1
    return _entries_below(first + query_len, ratio, cap) - _entries_below(first, ratio, cap)


def _entries_below(positions: Array, ratio: int, cap: int | None) -> Array:
    """Return the sum of the entries that the first n positions fill, for n below `positions`."""
    growing = positions if cap is None else np.minimum(positions, (cap + 1) * ratio)
    whole = np.floor(growing / ratio)
    pairs = ratio * whole * (whole - 1) / 2 + whole * (growing - ratio * whole)
    return pairs if cap is None else np.asarray(pairs + cap * (positions - growing))


def _entries_per_token(core: CompressedAttention) -> float:
    return 1 / core.ratio if core.ratio else 0.0


def _entries_at(core: CompressedAttention, context_len: Array, cap: int | None) -> Array:
    """Return the compressed entries of one sequence that are cached, up to `cap`."""
    if not core.ratio:
        return np.zeros(())
    entries = np.floor(context_len / core.ratio)
    return entries if cap is None else np.minimum(entries, cap)


def _counted_entries(core: CompressedAttention, setting: PassSettings, cap: int | None) -> Array:
    """Return the (query, entry) pairs of one sequence that the options count."""
    forward = setting.forward
    if not core.ratio:
        return np.zeros(())
    if not setting.options.counts_all:
        return np.asarray(forward.query_len * _entries_at(core, forward.context_len, cap))
    return attended_entries(forward.query_len, forward.context_len, core.ratio, cap)


def _ring_op(ring: Compressor, core: CompressedAttention, setting: PassSettings) -> OpCost:
    """Return the traffic of one float32 ring of tokens that wait to be compressed."""
    row_bytes = ring.row_dim * dtype_bytes("fp32")
    rows_moved = 1 + ring.rows * _entries_per_token(core)
    return core_op(
        setting,
        "ring",
        "compressor",
        flops=np.zeros(()),
        cache_bytes=np.asarray(setting.forward.tokens * row_bytes * rows_moved),
        shard=ATTENTION_REPLICATED,
    )
