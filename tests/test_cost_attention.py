"""Attention over a cache and the sparse indexer, against counting in loops."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from specroof.architecture import (
    ATTENTION_REPLICATED,
    GroupedQueryAttention,
    Indexer,
    LatentAttention,
)
from specroof.architecture.attention import (
    attended_tokens,
    attention_flops,
    cached_tokens_read,
    counted_pairs,
    grouped_query_cache_bytes,
    grouped_query_costs,
    indexer_op,
)
from specroof.architecture.base import OpCost, Options
from specroof.architecture.latent import (
    latent_bytes,
    latent_cache_bytes,
    latent_costs,
    latent_index_bytes,
)
from strategies import (
    batches,
    cache_dtypes,
    contexts,
    forward_pass,
    grouped_queries,
    indexers,
    latents,
    setting,
    small,
    windows,
)

CONTEXT_ONLY = Options(count="attention+ffn")

kinds_of_count = st.sampled_from([Options(), CONTEXT_ONLY])


def visible(query: int, context: int, window: int | None) -> set[int]:
    """Return the positions that a query may see, itself included, by asking about each."""
    own = context + query
    return {key for key in range(own + 1) if window is None or own - key < window}


def grouped(core: GroupedQueryAttention, *sizes: int, options: Options | None = None) -> OpCost:
    (op,) = grouped_query_costs(core, setting(forward_pass(*sizes), options))
    return op


@given(small, contexts, windows)
def test_attended_tokens_matches_counting(queries: int, context: int, window: int | None) -> None:
    pairs = sum(len(visible(query, context, window)) for query in range(queries))
    assert attended_tokens(queries, context, window) == pairs


@given(small, contexts, windows)
def test_the_cache_is_read_where_any_query_looks(
    queries: int, context: int, window: int | None
) -> None:
    seen = {key for query in range(queries) for key in visible(query, context, window)}
    cached = {key for key in seen if key < context}
    forward = forward_pass(1, queries, context)
    assert cached_tokens_read(forward, Options(), window) == len(cached)


@given(small, contexts, windows)
def test_the_count_of_estimators_has_every_query_see_the_same_cached_tokens(
    queries: int, context: int, window: int | None
) -> None:
    seen = list(range(context))[-window:] if window else list(range(context))
    forward = forward_pass(1, queries, context)
    assert cached_tokens_read(forward, CONTEXT_ONLY, window) == len(seen)
    assert counted_pairs(forward, CONTEXT_ONLY, window) == sum(len(seen) for _ in range(queries))


def test_pairs_of_a_long_context_are_exact() -> None:
    # At ten million tokens of context, one query sees 10 000 001 keys: the difference of two
    # triangles of 5e13 pairs each, which float32 and int32 would lose.
    assert attended_tokens(1, 10_000_000) == 10_000_001


@given(st.integers(1, 4), st.integers(1, 3), st.integers(0, 6), st.integers(1, 3))
def test_attention_flops_match_a_loop_over_every_multiply_add(
    batch: int, queries: int, context: int, n_heads: int
) -> None:
    key_dim, value_dim = 3, 2
    flops = 0
    for _, _, query in product(range(batch), range(n_heads), range(queries)):
        for _ in visible(query, context, None):
            flops += 2 * key_dim  # the score: one multiply-add per dimension
            flops += 2 * value_dim  # its share of the output
    counted = attention_flops(
        n_heads=n_heads,
        pair_dims=key_dim + value_dim,
        batch_size=np.array(float(batch)),
        pairs=attended_tokens(queries, context),
    )
    assert counted == flops


def test_one_layer_of_llama_by_hand() -> None:
    # Llama-3.1-8B: 32 query heads, 8 KV heads, 128 wide; 16 sequences verify 4 tokens at 1000.
    core = GroupedQueryAttention(32, 8, 128, 128)
    op = grouped(core, 16, 4, 1000)
    # Pairs: 1001 + 1002 + 1003 + 1004 = 4010. A pair and head: 2 * 128 for the score, 2 * 128
    # for the value. 16 * 32 * 512 * 4010 = 1 051 197 440.
    assert op.flops == 1_051_197_440
    # A token: 8 heads * (128 + 128) * 2 bytes = 4096. 1000 are read, 4 written: 16 * 1004 * 4096.
    assert op.cache_bytes == 65_798_144
    assert op.weight_bytes == op.activation_bytes == 0
    assert (op.name, op.kind, op.count, op.compute_dtype) == ("core", "attention", 1, "bf16")


def test_a_window_by_hand() -> None:
    # A window of 128 at context 1000, 4 queries: each sees 128 keys, 512 pairs; of the cache the
    # first query sees 127, the others fewer; 4 are written.
    core = GroupedQueryAttention(64, 8, 64, 64, window=128)
    op = grouped(core, 1, 4, 1000)
    assert op.flops == 64 * 2 * 128 * 512
    assert op.cache_bytes == 8 * 128 * 2 * (127 + 4)


@given(grouped_queries, batches, small, contexts, kinds_of_count)
def test_kv_heads_change_bytes_never_flops(
    core: GroupedQueryAttention, batch: int, queries: int, context: int, options: Options
) -> None:
    one = grouped(replace(core, n_kv_heads=1), batch, queries, context, options=options)
    many = grouped(core, batch, queries, context, options=options)
    assert many.flops == one.flops
    assert many.cache_bytes == core.n_kv_heads * one.cache_bytes


@given(grouped_queries, batches, small, contexts, st.integers(0, 20))
def test_a_window_that_holds_everything_is_full_attention(
    core: GroupedQueryAttention, batch: int, queries: int, context: int, slack: int
) -> None:
    # The last query sees context + queries tokens, itself included; the first reads all cached.
    everything = replace(core, window=context + queries + slack)
    full = replace(core, window=None)
    for options in (Options(), CONTEXT_ONLY):
        windowed = grouped(everything, batch, queries, context, options=options)
        reference = grouped(full, batch, queries, context, options=options)
        assert windowed.flops == reference.flops
        assert windowed.cache_bytes == reference.cache_bytes


@given(grouped_queries, batches, small, contexts)
def test_a_narrower_cache_moves_fewer_bytes_for_the_same_work(
    core: GroupedQueryAttention, batch: int, queries: int, context: int
) -> None:
    forward = forward_pass(batch, queries, context)
    (bf16,) = grouped_query_costs(core, setting(forward))
    (fp8,) = grouped_query_costs(core, setting(forward, kv_dtype="fp8"))
    (fp4,) = grouped_query_costs(core, setting(forward, kv_dtype="fp4"))
    assert bf16.flops == fp8.flops == fp4.flops
    assert bf16.compute_dtype == fp8.compute_dtype == "bf16"  # the cache is widened to multiply
    assert bf16.cache_bytes == 2 * fp8.cache_bytes
    assert fp4.cache_bytes == 0.5625 * fp8.cache_bytes  # half a byte, and a scale byte per 16


@given(grouped_queries, contexts, cache_dtypes)
def test_stored_bytes_are_what_a_decoding_step_reads_and_its_own_token(
    core: GroupedQueryAttention, context: int, dtype: str
) -> None:
    # A step reads all but the token that falls out of a window, which takes the new one's place.
    stored = grouped_query_cache_bytes(core, np.array(context + 1.0), dtype)
    (op,) = grouped_query_costs(core, setting(forward_pass(1, 1, context), kv_dtype=dtype))
    assert stored == pytest.approx(float(op.cache_bytes), rel=1e-12)


def latent(
    core: LatentAttention, *sizes: int, options: Options | None = None, kv_dtype: str = "bf16"
) -> list[OpCost]:
    return latent_costs(core, setting(forward_pass(*sizes), options, kv_dtype))


def test_one_layer_of_deepseek_v3_by_hand() -> None:
    # 128 heads, latent 512 and rotary 64; one sequence verifies 2 tokens at context 10:
    # 11 + 12 = 23 pairs of 128 * 2 * (512 + 64 + 512) = 278 528 FLOP each.
    (op,) = latent(LatentAttention(128, 512, 64), 1, 2, 10)
    assert op.flops == 23 * 278_528
    # 576 elements of 2 bytes a token, 10 read and 2 written: shared by all heads.
    assert op.cache_bytes == 12 * 1152


def test_a_prompt_is_attended_expanded_where_that_is_less() -> None:
    # DeepSeek-V3: keys of 128 + 64, values of 128, so that a pair costs 128 * 2 * 320 = 81 920
    # FLOP in the place of 278 528, and a cached token 2 * 512 * 128 * 256 to be projected up.
    core = LatentAttention(128, 512, 64, head_dims=(192, 128))
    prompt = replace(forward_pass(2, 1000, 0), settled=True)
    (op,) = latent_costs(core, setting(prompt))
    assert op.flops == 2 * 1000 * 1001 / 2 * 81_920
    chunk = replace(forward_pass(2, 1000, 3000), settled=True)
    (op,) = latent_costs(core, setting(chunk))
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
            latent_costs(core, setting(replace(asked, settled=settled)))
            for settled in (False, True)
        )
        assert (float(read.flops) == float(verified.flops)) is absorbed
        assert read.flops <= verified.flops
    # Behind an indexer each query sees tokens of its own.
    sparse = replace(core, shared_top_k=64)
    prompt = replace(forward_pass(1, 1000, 0), settled=True)
    (op,) = latent_costs(sparse, setting(prompt))
    assert op.flops == (64 * 65 / 2 + 936 * 64) * 278_528


@given(latents, batches, small, contexts)
def test_latent_attention_is_one_kv_head_whose_value_lies_inside_its_key(
    core: LatentAttention, batch: int, queries: int, context: int
) -> None:
    dense = replace(core, indexer=None)
    alike = GroupedQueryAttention(
        core.n_heads, 1, head_dim=core.latent_dim + core.rope_dim, value_dim=core.latent_dim
    )
    (op,) = latent(dense, batch, queries, context)
    reference = grouped(alike, batch, queries, context)
    assert op.flops == reference.flops
    key, value = core.latent_dim + core.rope_dim, core.latent_dim
    assert op.cache_bytes * (key + value) == reference.cache_bytes * key


@given(latents, batches, small, contexts)
def test_a_top_k_above_the_context_is_dense_latent_attention(
    core: LatentAttention, batch: int, queries: int, context: int
) -> None:
    everything = replace(core, indexer=Indexer(8, 4, top_k=context + queries))
    (reference,) = latent(replace(core, indexer=None), batch, queries, context)
    _, sparse = latent(everything, batch, queries, context)
    assert sparse.flops == reference.flops
    assert sparse.cache_bytes == reference.cache_bytes


@given(latents.filter(lambda core: core.indexer is not None), batches, small, contexts)
def test_behind_an_indexer_a_query_attends_its_top_k_and_scans_everything(
    core: LatentAttention, batch: int, queries: int, context: int
) -> None:
    assert core.indexer is not None
    scan, attention = latent(core, batch, queries, context)
    selected = sum(
        min(len(visible(query, context, None)), core.indexer.top_k) for query in range(queries)
    )
    pair_flops = 2 * core.n_heads * (2 * core.latent_dim + core.rope_dim)
    assert attention.flops == batch * pair_flops * selected
    scanned = sum(len(visible(query, context, None)) for query in range(queries))
    scan_flops = 2 * core.indexer.n_heads * core.indexer.head_dim
    assert scan.flops == batch * scan_flops * scanned
    assert scan.kind == "indexer"


def test_the_indexer_of_deepseek_v32_by_hand() -> None:
    # 64 heads of 128, fp8 keys of 128 + 4 bytes; 3 sequences verify 2 tokens at context 10:
    # 23 pairs of 2 * 64 * 128 = 16 384 FLOP; 10 keys read and 2 written.
    core = LatentAttention(128, 512, 64, Indexer(64, 128, 2048))
    scan, attention = latent(core, 3, 2, 10, kv_dtype="fp8")
    assert scan.flops == 3 * 23 * 16_384
    assert scan.cache_bytes == 3 * 12 * 132
    assert scan.shard == ATTENTION_REPLICATED
    # fp8 beside an indexer keeps the rotary part in bf16 and a scale per 128: 656 bytes.
    assert attention.cache_bytes == 3 * 12 * 656
    # The estimators' count: 2 queries see 10 keys each, nothing is written.
    scan, attention = latent(core, 3, 2, 10, options=CONTEXT_ONLY, kv_dtype="fp8")
    assert scan.flops == 3 * 20 * 16_384
    assert scan.cache_bytes == 3 * 10 * 132
    assert attention.cache_bytes == 3 * 10 * 656


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


@given(indexers, latents, contexts, cache_dtypes)
def test_a_latent_cache_stores_one_latent_and_one_index_key_per_token(
    indexer: Indexer, core: LatentAttention, context: int, dtype: str
) -> None:
    sparse = replace(core, indexer=indexer)
    scan, attention = latent(sparse, 1, 1, context, options=CONTEXT_ONLY, kv_dtype=dtype)
    cached = np.array(float(context))
    stored = latent_cache_bytes(sparse, cached, dtype) + latent_index_bytes(sparse, cached, dtype)
    tokens_read = min(context, indexer.top_k)
    per_token = latent_bytes(sparse, dtype)
    assert attention.cache_bytes == pytest.approx(tokens_read * per_token)
    assert stored == pytest.approx(context * per_token + float(scan.cache_bytes))
