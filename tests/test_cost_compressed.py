"""DeepSeek-V4 attention: windows, compressed entries and rings, against counting in loops."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specroof.architecture.attention import Indexer, index_key_bytes
from specroof.architecture.base import OpCost, Options
from specroof.architecture.compressed import CompressedAttention, Compressor, entry_bytes
from strategies import (
    batches,
    cache_dtypes,
    compressed_attention,
    contexts,
    forward_pass,
    kept,
    setting,
    small,
)

CONTEXT_ONLY, MLA_LIKE = Options(count="attention+ffn"), Options(v4_attention="mla-like")


#: The layers of DeepSeek-V4-Pro: 128 query heads over entries of 448 plain and 64 rotary elements.
CSA = CompressedAttention(128, 512, 64, window=128, ratio=4, indexer=Indexer(64, 128, 1024))
WINDOW_ONLY = CompressedAttention(128, 512, 64, window=128, ratio=0)


def entries_before(position: int, ratio: int) -> int:
    """Return the entries that are complete when the token at `position` comes, by making them."""
    waiting = finished = 0
    for _ in range(position):
        waiting += 1
        if waiting == ratio:
            waiting, finished = 0, finished + 1
    return finished


def costs(
    core: CompressedAttention, *sizes: int, options: Options | None = None, kv_dtype: str = "bf16"
) -> dict[str, list[OpCost]]:
    found: dict[str, list[OpCost]] = {"indexer": [], "attention": [], "compressor": []}
    for op in core.costs(setting(forward_pass(*sizes), options, kv_dtype)):
        found[op.kind].append(op)
    return found


def attention(
    core: CompressedAttention, *sizes: int, options: Options | None = None, kv_dtype: str = "bf16"
) -> OpCost:
    (op,) = costs(core, *sizes, options=options, kv_dtype=kv_dtype)["attention"]
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
        (MLA_LIKE, 2 * core.entry_dim + core.rope_dim),
    ):
        op = attention(core, batch, queries, context, options=options)
        assert op.flops == batch * core.n_heads * pairs * 2 * dims
    # All queries read what the first one sees, and write an entry each and one a ratio.
    written = queries * (1 + (1 / core.ratio if core.ratio else 0))
    entries = entries_before(context, core.ratio) if core.ratio else 0
    read = min(context, core.window - 1) + min(entries, cap)
    found = costs(core, batch, queries, context)
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
    (ring,) = costs(core, batch, entries * ratio, 0)["compressor"]
    assert float(ring.cache_bytes) == pytest.approx(batch * moved)
    assert ring.flops == 0
    assert ring.weight_bytes == 0


def test_entries_of_both_published_layouts_by_hand() -> None:
    assert entry_bytes(CSA, "bf16", "shared-kv") == 1024  # 512 elements of 2 bytes
    # 448 in fp8, 64 rotary in bf16, seven scale bytes padded to eight.
    assert entry_bytes(CSA, "fp8", "shared-kv") == 448 + 128 + 8
    assert entry_bytes(CSA, "fp8", "mla-like") == 512 + 64
    assert entry_bytes(CSA, "bf16", "mla-like") == 2 * (512 + 64)
    assert index_key_bytes(Indexer(64, 128, 1024), "fp8") == 128 + 4
    assert index_key_bytes(Indexer(64, 128, 1024), "bf16") == 256
    assert index_key_bytes(Indexer(64, 128, 1024), "fp4") == 64 + 8  # and a scale byte per 16


def test_rings_of_a_sequence_by_hand() -> None:
    # Two rings of eight tokens, 1024 and 256 float32 values each.
    core = replace(CSA, compressors=(Compressor(8, 1024), Compressor(8, 256)))
    assert kept(core, 0).state_bytes == (8 * 1024 + 8 * 256) * 4
    assert kept(WINDOW_ONLY, 0).state_bytes == 0
