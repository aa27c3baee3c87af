"""Attention over a cache, the sparse indexer and DeepSeek-V4, against counting in loops."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from specroof.architecture.attention import (
    GroupedQueryAttention,
    Indexer,
    index_key_bytes,
    indexer_op,
)
from specroof.architecture.base import (
    ATTENTION_REPLICATED,
    CHOICES,
    Core,
    OpCost,
    Options,
    Shard,
    cache_only,
)
from specroof.architecture.block_sparse import BlockSparseAttention
from specroof.architecture.chunked import ChunkedAttention
from specroof.architecture.compressed import CompressedAttention, Compressor, entry_bytes
from specroof.architecture.latent import LatentAttention
from specroof.cost import forward_cost, kv_bytes_per_token, storage
from specroof.cost.forward import kv_cache_bytes
from strategies import (
    batches,
    block_sparse,
    cache_dtypes,
    chunked,
    compressed_attention,
    contexts,
    forward_pass,
    grouped_queries,
    kept,
    latents,
    of_cores,
    setting,
    shared_latents,
    sliding_latents,
    small,
)

CONTEXT_ONLY = Options(count="attention+ffn")

#: Attention over a cache of tokens, of which each query sees some; the query itself is one.
attentions = st.one_of(
    grouped_queries, grouped_queries.map(lambda core: replace(core, causal=False)),
    latents, shared_latents, sliding_latents, block_sparse, chunked,
)  # fmt: skip


def visible(core: Core, query: int, context: int, queries: int) -> set[int]:
    """Return the positions that a query may see, by asking about each.

    Which keys an indexer picks changes no count: the latest stand for them.
    """
    own = context + query
    causal, before = getattr(core, "causal", True), range(own + 1)
    if isinstance(core, ChunkedAttention):
        return {key for key in before if key // core.chunk == own // core.chunk}
    if isinstance(core, BlockSparseAttention):
        blocks = range(own // core.block_len + 1)[-core.indexer.top_k :]
        return {key for key in before if key // core.block_len in blocks}
    if isinstance(core, LatentAttention):
        return set(before[-(core.top_k or core.window or own + 1) :])
    window = core.window_len
    seen = {key for key in before if not window or own - key < window}
    return seen if causal else seen | set(range(context, context + queries))


def visible_to_estimators(core: Core, query: int, context: int) -> set[int]:
    """Return the cached positions that published estimators let a query see: all see the same."""
    if isinstance(core, ChunkedAttention):
        return {key for key in visible(core, query, context, 1) if key < context}
    if isinstance(core, BlockSparseAttention):
        most: int | None = core.indexer.top_k * core.block_len
    else:
        most = (isinstance(core, LatentAttention) and core.top_k) or core.window_len
    return set(range(context)[-(most or context + 1) :])


def sizes(core: Any) -> tuple[int, int]:
    if isinstance(core, LatentAttention):
        return 2 * core.latent_dim + core.rope_dim, core.latent_dim + core.rope_dim
    dims = core.head_dim + core.value_dim
    return dims, core.n_kv_heads * dims


@given(attentions, batches, small, contexts, st.booleans())
def test_attention_costs_what_counting_every_query_and_key_gives(
    core: Any, batch: int, queries: int, context: int, estimated: bool
) -> None:
    pass_ = setting(forward_pass(batch, queries, context), CONTEXT_ONLY if estimated else None)
    *scans, op = core.costs(pass_)
    seen = [
        visible_to_estimators(core, query, context)
        if estimated
        else visible(core, query, context, queries)
        for query in range(queries)
    ]
    pair_dims, token_elements = sizes(core)
    assert op.flops == batch * core.n_heads * 2 * pair_dims * sum(map(len, seen))
    assert op.shard == cache_only(getattr(core, "n_kv_heads", 1))
    read = len({key for keys in seen for key in keys if key < context})
    written = 0 if estimated else queries
    assert op.cache_bytes == batch * 2 * token_elements * (read + written)
    # An indexer scores every key for every query.
    indexer: Any = getattr(core, "indexer", None)
    assert len(scans) == (indexer is not None)
    for scan in scans:
        pairs = sum(context + (0 if estimated else query + 1) for query in range(queries))
        assert scan.flops == batch * pairs * 2 * indexer.n_heads * indexer.head_dim
        assert scan.cache_bytes == batch * 2 * indexer.head_dim * (context + written)
        assert scan.kind == "indexer"


@given(attentions, contexts, cache_dtypes)
def test_a_sequence_keeps_what_a_query_may_still_see(core: Any, context: int, dtype: str) -> None:
    limit = core.chunk if isinstance(core, ChunkedAttention) else core.window_len
    seen = len(range(context)[-(limit or context + 1) :])
    # What one new token writes into an empty cache, index key included.
    empty = setting(forward_pass(1, 1, 0), kv_dtype=dtype)
    token_bytes = sum(float(op.cache_bytes) for op in core.costs(empty))
    assert core.costs(empty)[-1].compute_dtype == "bf16"  # the cache is widened to multiply
    assert float(kept(core, context, dtype).cache_bytes) == pytest.approx(seen * token_bytes)


def test_a_prompt_is_attended_expanded_where_that_is_less() -> None:
    # DeepSeek-V3: keys of 128 + 64, values of 128, so that a pair costs 128 * 2 * 320 = 81 920
    # FLOP in the place of 278 528, and a cached token 2 * 512 * 128 * 256 to be projected up.
    core = LatentAttention(128, 512, 64, head_dims=(192, 128))
    prompt = replace(forward_pass(2, 1000, 0), settled=True)
    (op,) = core.costs(setting(prompt))
    assert op.flops == 2 * 1000 * 1001 / 2 * 81_920
    chunk = replace(forward_pass(2, 1000, 3000), settled=True)
    (op,) = core.costs(setting(chunk))
    pairs = 1000 * 3000 + 1000 * 1001 / 2
    assert op.flops == 2 * (pairs * 81_920 + 3000 * 33_554_432)
    # Latents are what is cached, whatever form they are attended in.
    assert op.cache_bytes == 2 * 4000 * 1152


def test_short_runs_and_verifications_stay_absorbed() -> None:
    core = LatentAttention(128, 512, 64, head_dims=(192, 128))
    # Crossing at 33 554 432 / (278 528 - 81 920) = 170.67 queries, where the cache is long.
    for queries, absorbed in ((170, True), (171, False)):
        asked = forward_pass(1, queries, 1e8)
        (verified,), (read,) = (
            core.costs(setting(replace(asked, settled=settled))) for settled in (False, True)
        )
        assert (float(read.flops) == float(verified.flops)) is absorbed
        assert read.flops <= verified.flops
    # Behind an indexer each query sees tokens of its own.
    sparse = replace(core, shared_top_k=64)
    prompt = replace(forward_pass(1, 1000, 0), settled=True)
    (op,) = sparse.costs(setting(prompt))
    assert op.flops == (64 * 65 / 2 + 936 * 64) * 278_528


@pytest.mark.parametrize(
    ("kv_dtype", "computes_in"),
    [("fp8", "fp8"), ("fp4", "fp4"), ("bf16", "bf16"), ("fp16", "bf16"), ("int8", "bf16")],
)
def test_index_keys_are_scored_in_the_narrow_format_of_the_cache(
    kv_dtype: str, computes_in: str
) -> None:
    one = np.array(1.0)
    op = indexer_op(
        Indexer(8, 16, 4), setting(forward_pass(), kv_dtype=kv_dtype), pairs=one, read=one, new=one
    )
    assert op.compute_dtype == computes_in


@given(grouped_queries, contexts, st.sampled_from(CHOICES["count"]))
def test_a_shared_cache_is_read_by_each_layer_and_stored_once(
    core: GroupedQueryAttention, context: int, count: str
) -> None:
    shared: list[Core] = [replace(core, shares_cache=True)] * 3
    alone, with_readers = of_cores(core), of_cores(core, *shared)
    assert kv_cache_bytes(alone, context) == kv_cache_bytes(with_readers, context)
    assert sum(part.sequence_bytes for part in storage(with_readers, context)) == kv_cache_bytes(
        alone, context
    )
    ops, ops_of_all = (
        [
            op
            for op in forward_cost(toy, forward_pass(1, 2, context), Options(count=count))
            if op.kind == "attention"
        ]
        for toy in (alone, with_readers)
    )
    for amount in ("flops", "cache_bytes"):
        one, all_of_them = (
            sum(op.count * getattr(op, amount) for op in some) for some in (ops, ops_of_all)
        )
        assert all_of_them == 4 * one


# --- Block-sparse attention and shared selections -------------------------------------------------


#: MiniMax-M3: 64 query heads, 4 KV heads, 128 wide, 16 blocks of 128 tokens.
M3 = BlockSparseAttention(64, 4, 128, 128, Indexer(4, 128, top_k=16), block_len=128)


def costs(core: BlockSparseAttention, *sizes: int) -> tuple[OpCost, OpCost]:
    scan, attention = core.costs(setting(forward_pass(*sizes)))
    return scan, attention


@given(block_sparse, batches, st.integers(1, 5), contexts)
def test_a_key_that_stands_for_a_block_is_scanned_and_stored_once_a_block(
    core: BlockSparseAttention, batch: int, queries: int, context: int
) -> None:
    merged = replace(core, indexer=replace(core.indexer, key_tokens=core.block_len))
    scan, attention = costs(core, batch, queries, context)
    fewer, same = costs(merged, batch, queries, context)
    assert float(fewer.flops) * core.block_len == pytest.approx(float(scan.flops))
    assert float(fewer.cache_bytes) * core.block_len == pytest.approx(float(scan.cache_bytes))
    assert (same.flops, same.cache_bytes) == (attention.flops, attention.cache_bytes)
    stored = float(kept(merged, context).cache_bytes)
    keys = context * core.n_kv_heads * (core.head_dim + core.value_dim) * 2
    assert stored == pytest.approx(keys + context / core.block_len * 2 * core.indexer.head_dim)


def test_index_keys_do_not_divide_where_keys_and_values_do() -> None:
    assert costs(M3, 1, 1, 0)[0].shard == Shard("attention", 4, 4, 1)  # whose heads do
    parts = [part for part in storage(of_cores((M3, 2)), 1000.0) if part.sequence_bytes > 0]
    stored = {part.shard: float(part.sequence_bytes) for part in parts}
    assert [part.weight_bytes for part in parts] == [0, 0]
    assert stored == {ATTENTION_REPLICATED: 2 * 256_000, cache_only(4): 2 * 2_048_000}
    assert kept(M3, 1000).repeated_bytes == 256_000
    assert kv_bytes_per_token(of_cores((M3, 2))) == 2 * 2304


# --- DeepSeek-V4: windows, compressed entries and rings ------------------------------------------


def entries_before(position: int, ratio: int) -> int:
    """Return the entries that are complete when the token at `position` comes, by making them."""
    waiting = finished = 0
    for _ in range(position):
        waiting += 1
        if waiting == ratio:
            waiting, finished = 0, finished + 1
    return finished


def entry_costs(
    core: CompressedAttention, *sizes: int, options: Options | None = None
) -> dict[str, list[OpCost]]:
    found: dict[str, list[OpCost]] = {"indexer": [], "attention": [], "compressor": []}
    for op in core.costs(setting(forward_pass(*sizes), options)):
        found[op.kind].append(op)
    return found


def attention(core: CompressedAttention, *sizes: int, options: Options | None = None) -> OpCost:
    (op,) = entry_costs(core, *sizes, options=options)["attention"]
    return op


@given(compressed_attention(), batches, small, contexts)
def test_attention_and_its_indexer_cost_what_counting_every_query_gives(
    core: CompressedAttention, batch: int, queries: int, context: int
) -> None:
    # The query's own token may complete an entry, which it sees: in DeepseekV4CSACompressor of
    # transformers (position + 1) // ratio.
    positions = range(context, context + queries)
    complete = [entries_before(at + 1, core.ratio) if core.ratio else 0 for at in positions]
    cap = core.indexer.top_k if core.indexer else context + queries
    pairs = sum(min(at + 1, core.window) for at in positions) + sum(
        min(entries, cap) for entries in complete
    )
    # An entry is key and value at once: entry_dim for the score, entry_dim for the output. The
    # MLA-like count has a rotary key beside the entry.
    for options, dims in (
        (None, 2 * core.entry_dim),
        (Options(v4_attention="mla-like"), 2 * core.entry_dim + core.rope_dim),
    ):
        op = attention(core, batch, queries, context, options=options)
        assert op.flops == batch * core.n_heads * pairs * 2 * dims
    # All queries read what the first one sees, and write an entry each and one a ratio.
    written = queries * (1 + (1 / core.ratio if core.ratio else 0))
    entries = entries_before(context, core.ratio) if core.ratio else 0
    read = min(context, core.window - 1) + min(entries, cap)
    found = entry_costs(core, batch, queries, context)
    (op,) = found["attention"]
    assert float(op.cache_bytes) == pytest.approx(batch * 2 * core.entry_dim * (read + written))
    # Published estimators let every query see as much, and write nothing.
    read = min(context, core.window) + min(entries, cap)
    op = attention(core, batch, queries, context, options=CONTEXT_ONLY)
    assert op.flops == batch * queries * read * core.n_heads * 4 * core.entry_dim
    assert op.cache_bytes == batch * read * core.entry_dim * 2
    assert len(found["indexer"]) == (core.indexer is not None)
    for scan in found["indexer"]:
        assert core.indexer is not None
        index_dim = core.indexer.head_dim
        assert scan.flops == batch * sum(complete) * 2 * core.indexer.n_heads * index_dim
        keys = entries + queries / core.ratio
        assert float(scan.cache_bytes) == pytest.approx(batch * keys * index_dim * 2)


@given(compressed_attention(), contexts, cache_dtypes)
def test_stored_entries_match_counting(core: CompressedAttention, context: int, dtype: str) -> None:
    entries = entries_before(context, core.ratio) if core.ratio else 0
    key = index_key_bytes(core.indexer, dtype) if core.indexer else 0
    seen = len(range(context)[-core.window :])
    raw = entry_bytes(core, dtype, "shared-kv")
    stored = float(kept(core, context, dtype).cache_bytes)
    assert stored == pytest.approx(seen * raw + entries * (raw + key))


@given(st.integers(1, 9), st.integers(1, 12), st.integers(1, 5), st.integers(1, 6))
def test_rings_move_what_a_simulation_moves(
    ratio: int, rows: int, entries: int, batch: int
) -> None:
    row_bytes = 6 * 4  # six float32 values
    moved = 0
    for token in range(1, entries * ratio + 1):
        moved += row_bytes  # every token is written into the ring
        if token % ratio == 0:
            moved += rows * row_bytes  # a finished entry reads all of it
    core = CompressedAttention(8, 32, 8, 4, ratio, compressors=(Compressor(rows, 6),))
    (ring,) = entry_costs(core, batch, entries * ratio, 0)["compressor"]
    assert float(ring.cache_bytes) == pytest.approx(batch * moved)
    assert ring.flops == 0
    assert ring.weight_bytes == 0
