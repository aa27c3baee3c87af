"""DeepSeek-V4 attention: windows, compressed entries and rings, against counting in loops."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from specroof.architecture import (
    ATTENTION_REPLICATED,
    CompressedAttention,
    Compressor,
    GroupedQueryAttention,
    Indexer,
    cache_only,
)
from specroof.architecture.attention import grouped_query_costs, index_key_bytes
from specroof.architecture.base import OpCost, Options
from specroof.architecture.compressed import (
    attended_entries,
    compressed_cache_bytes,
    compressed_costs,
    compressed_index_bytes,
    compressed_state_bytes,
    entry_bytes,
)
from strategies import (
    batches,
    cache_dtypes,
    compressed_attention,
    contexts,
    forward_pass,
    setting,
    small,
)

CONTEXT_ONLY = Options(count="attention+ffn")
MLA_LIKE = Options(v4_attention="mla-like")

ratios = st.integers(1, 9)
caps = st.one_of(st.none(), st.integers(1, 12))
cores = compressed_attention()
kinds_of_count = st.sampled_from([Options(), CONTEXT_ONLY])

#: The layers of DeepSeek-V4-Pro: 128 query heads over entries of 448 plain and 64 rotary elements.
CSA = CompressedAttention(128, 512, 64, window=128, ratio=4, indexer=Indexer(64, 128, 1024))
HCA = CompressedAttention(128, 512, 64, window=128, ratio=128)
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
    """Return the operations of a layer by kind."""
    found: dict[str, list[OpCost]] = {"indexer": [], "attention": [], "compressor": []}
    for op in compressed_costs(core, setting(forward_pass(*sizes), options, kv_dtype)):
        found[op.kind].append(op)
    return found


def attention(
    core: CompressedAttention, *sizes: int, options: Options | None = None, kv_dtype: str = "bf16"
) -> OpCost:
    (op,) = costs(core, *sizes, options=options, kv_dtype=kv_dtype)["attention"]
    return op


@given(small, contexts, ratios, caps)
def test_attended_entries_matches_counting(
    queries: int, context: int, ratio: int, cap: int | None
) -> None:
    pairs = 0
    for position in range(context, context + queries):
        complete = entries_before(position + 1, ratio)  # the query's own token fills one, too
        pairs += complete if cap is None else min(complete, cap)
    counted = attended_entries(np.array(float(queries)), np.array(float(context)), ratio, cap)
    assert counted == pairs


def test_a_query_sees_the_entry_that_its_own_token_completes() -> None:
    # DeepseekV4CSACompressor of transformers: (position + 1) // 4, and 151 + 1 = 38 * 4
    assert attended_entries(np.array(1.0), np.array(151.0), 4) == 38
    assert attended_entries(np.array(1.0), np.array(150.0), 4) == 37


@given(cores, st.integers(1, 4), small, contexts)
def test_attention_flops_match_counting_every_query(
    core: CompressedAttention, batch: int, queries: int, context: int
) -> None:
    pairs = 0
    for position in range(context, context + queries):
        pairs += min(position + 1, core.window)
        if core.ratio:
            entries = entries_before(position + 1, core.ratio)
            pairs += min(entries, core.indexer.top_k) if core.indexer else entries
    # An entry is key and value at once: entry_dim for the score, entry_dim for the output.
    op = attention(core, batch, queries, context)
    assert op.flops == batch * core.n_heads * pairs * (2 * core.entry_dim + 2 * core.entry_dim)
    # The MLA-like count has a rotary key beside the entry.
    op = attention(core, batch, queries, context, options=MLA_LIKE)
    assert op.flops == (batch * core.n_heads * pairs * 2 * (2 * core.entry_dim + core.rope_dim))


@given(cores, batches, small, contexts)
def test_the_estimators_count_lets_every_query_see_what_the_first_one_sees(
    core: CompressedAttention, batch: int, queries: int, context: int
) -> None:
    entries = entries_before(context, core.ratio) if core.ratio else 0
    seen = min(entries, core.indexer.top_k) if core.indexer else entries
    read = min(context, core.window) + seen
    op = attention(core, batch, queries, context, options=CONTEXT_ONLY)
    assert op.flops == batch * queries * read * core.n_heads * 4 * core.entry_dim
    assert op.cache_bytes == batch * read * core.entry_dim * 2


@given(cores, batches, small, contexts, cache_dtypes)
def test_entries_are_read_once_however_many_queries(
    core: CompressedAttention, batch: int, queries: int, context: int, dtype: str
) -> None:
    raw = entry_bytes(core, dtype, "shared-kv")
    one = attention(core, batch, 1, context, options=CONTEXT_ONLY, kv_dtype=dtype)
    many = attention(core, batch, queries, context, options=CONTEXT_ONLY, kv_dtype=dtype)
    assert many.cache_bytes == one.cache_bytes
    # The full count adds what new tokens write: one raw entry each, one compressed per ratio.
    per_token = raw * (1 + (1 / core.ratio if core.ratio else 0))
    grown = (
        attention(core, batch, queries, context, kv_dtype=dtype).cache_bytes
        - attention(core, batch, 1, context, kv_dtype=dtype).cache_bytes
    )
    assert float(grown) == pytest.approx(batch * (queries - 1) * per_token)


@given(cores.filter(lambda core: core.indexer is not None), batches, small, contexts)
def test_a_top_k_above_all_entries_attends_like_the_layer_without_indexer(
    core: CompressedAttention, batch: int, queries: int, context: int
) -> None:
    everything = replace(core, indexer=Indexer(8, 4, top_k=context + queries))
    reference = attention(replace(core, indexer=None), batch, queries, context)
    op = attention(everything, batch, queries, context)
    assert op.flops == reference.flops
    assert op.cache_bytes == reference.cache_bytes


@given(cores, batches, small, contexts, kinds_of_count)
def test_without_entries_it_is_window_attention_of_one_head_that_is_key_and_value(
    core: CompressedAttention, batch: int, queries: int, context: int, options: Options
) -> None:
    plain = replace(core, ratio=0, indexer=None, compressors=())
    alike = GroupedQueryAttention(core.n_heads, 1, core.entry_dim, core.entry_dim, core.window)
    (reference,) = grouped_query_costs(
        alike, setting(forward_pass(batch, queries, context), options)
    )
    op = attention(plain, batch, queries, context, options=options)
    assert op.flops == reference.flops
    assert 2 * op.cache_bytes == reference.cache_bytes  # one vector where keys and values are two


@given(cores, batches, small, contexts)
def test_the_indexer_scores_every_complete_entry_whatever_its_top_k(
    core: CompressedAttention, batch: int, queries: int, context: int
) -> None:
    scans = costs(core, batch, queries, context)["indexer"]
    if core.indexer is None:
        assert not scans
        return
    (scan,) = scans
    pairs = sum(entries_before(context + query + 1, core.ratio) for query in range(queries))
    assert scan.flops == batch * pairs * 2 * core.indexer.n_heads * core.indexer.head_dim
    keys = entries_before(context, core.ratio) + queries / core.ratio
    assert float(scan.cache_bytes) == pytest.approx(batch * keys * core.indexer.head_dim * 2)


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


@given(cores)
def test_one_latent_for_all_heads_and_an_indexer_on_every_device(core: CompressedAttention) -> None:
    found = costs(core, 1, 1, 0)
    assert [op.shard for op in found["attention"]] == [cache_only(1)]
    assert {op.shard for op in found["indexer"] + found["compressor"]} <= {ATTENTION_REPLICATED}


def test_entries_of_both_published_layouts_by_hand() -> None:
    assert entry_bytes(CSA, "bf16", "shared-kv") == 1024  # 512 elements of 2 bytes
    # 448 in fp8, 64 rotary in bf16, seven scale bytes padded to eight.
    assert entry_bytes(CSA, "fp8", "shared-kv") == 448 + 128 + 8
    assert entry_bytes(CSA, "fp8", "mla-like") == 512 + 64
    assert entry_bytes(CSA, "bf16", "mla-like") == 2 * (512 + 64)
    assert index_key_bytes(Indexer(64, 128, 1024), "fp8") == 128 + 4
    assert index_key_bytes(Indexer(64, 128, 1024), "bf16") == 256
    assert index_key_bytes(Indexer(64, 128, 1024), "fp4") == 64 + 8  # and a scale byte per 16


def test_layers_of_deepseek_v4_pro_by_hand() -> None:
    # One token at context 4096. The window holds 128 raw tokens, itself among them: 127 are read.
    # CSA: 4096 / 4 = 1024 entries, as many as its top-k; HCA: 4096 / 128 = 32; 4 FLOP per pair,
    # head and element.
    for core, entries in ((CSA, 1024), (HCA, 32), (WINDOW_ONLY, 0)):
        op = attention(core, 1, 1, 4096, kv_dtype="fp8")
        assert op.flops == 128 * 512 * 4 * (128 + entries)
        written = 1 + (1 / core.ratio if core.ratio else 0)
        assert op.cache_bytes == 584 * (127 + entries + written)
    (scan,) = costs(CSA, 1, 1, 4096, kv_dtype="fp8")["indexer"]
    assert scan.flops == 2 * 64 * 128 * 1024
    assert scan.cache_bytes == 132 * 1024.25
    assert scan.compute_dtype == "fp8"
    # Four times the context: CSA still attends 1024 entries, its indexer scans 4096.
    assert attention(CSA, 1, 1, 16384).flops == 128 * 512 * 4 * (128 + 1024)
    assert costs(CSA, 1, 1, 16384)["indexer"][0].flops == 2 * 64 * 128 * 4096
    assert attention(HCA, 1, 1, 16384).flops == 128 * 512 * 4 * (128 + 128)
    # As published estimators count: 1088 multiply-adds a pair, 576 bytes an entry, nothing written.
    finn = Options(count="attention+ffn", v4_attention="mla-like")
    op = attention(HCA, 8, 5, 4096, options=finn, kv_dtype="fp8")
    assert op.flops == 8 * 5 * 160 * 128 * 2 * 1088
    assert op.cache_bytes == 8 * 160 * 576


def test_a_cache_of_a_million_tokens_by_hand() -> None:
    # 1 048 576 tokens in bf16. CSA: 128 raw entries of 1 KiB are 0.125 MiB; 262 144 entries of
    # 1 KiB are 256 MiB, and their keys of 256 bytes 64 MiB. HCA: 0.125 MiB and 8192 entries, 8 MiB.
    million, mebibyte = np.array(2.0**20), 2**20
    assert compressed_cache_bytes(CSA, million, "bf16") == 256.125 * mebibyte
    assert compressed_index_bytes(CSA, million, "bf16") == 64 * mebibyte
    assert compressed_index_bytes(HCA, million, "bf16") == 0
    assert compressed_cache_bytes(HCA, million, "bf16") == 8.125 * mebibyte
    assert compressed_cache_bytes(WINDOW_ONLY, million, "bf16") == 0.125 * mebibyte


@given(cores, contexts, cache_dtypes)
def test_stored_entries_match_counting(core: CompressedAttention, context: int, dtype: str) -> None:
    entries = entries_before(context, core.ratio) if core.ratio else 0
    raw = entry_bytes(core, dtype, "shared-kv")
    key = index_key_bytes(core.indexer, dtype) if core.indexer else 0
    stored = sum(raw for position in range(context) if context - position <= core.window)
    stored += sum(raw + key for _ in range(entries))
    cached = np.array(float(context))
    kept = compressed_cache_bytes(core, cached, dtype) + compressed_index_bytes(core, cached, dtype)
    assert float(kept) == pytest.approx(stored)


def test_rings_of_a_sequence_by_hand() -> None:
    # Two rings of eight tokens, 1024 and 256 float32 values each.
    core = replace(CSA, compressors=(Compressor(8, 1024), Compressor(8, 256)))
    assert compressed_state_bytes(core) == (8 * 1024 + 8 * 256) * 4
    assert compressed_state_bytes(WINDOW_ONLY) == 0
