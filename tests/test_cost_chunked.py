"""Chunked attention and attention over another layer's cache, against counting in loops."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from specroof.architecture import (
    Architecture,
    Block,
    ChunkedAttention,
    Core,
    GroupedQueryAttention,
    Layer,
    Linear,
    SharedCacheAttention,
    cache_only,
)
from specroof.architecture.attention import grouped_query_costs, shared_cache_costs
from specroof.architecture.base import OpCost, Options
from specroof.architecture.chunked import chunked_cache_bytes, chunked_costs, chunked_pairs
from specroof.cost import forward_cost, storage
from specroof.cost.forward import kv_cache_bytes
from specroof.errors import OptionError
from specroof.hardware import Placement
from specroof.latency.setup import check_placement
from strategies import (
    batches,
    cache_dtypes,
    contexts,
    forward_pass,
    grouped_queries,
    setting,
    small,
    widths,
)

CONTEXT_ONLY = Options(count="attention+ffn")
kinds_of_count = st.sampled_from([Options(), CONTEXT_ONLY])
chunks = st.integers(1, 20)
cores = st.builds(
    ChunkedAttention,
    n_heads=st.sampled_from([8, 16]),
    n_kv_heads=st.sampled_from([1, 2, 4, 8]),
    head_dim=widths,
    value_dim=widths,
    chunk=chunks,
)


def visible(position: int, chunk: int) -> set[int]:
    """Return the positions of the query's own chunk, up to itself, by asking about each."""
    return {key for key in range(position + 1) if key // chunk == position // chunk}


def seen(queries: int, context: int, chunk: int) -> list[set[int]]:
    """Return what each query of a pass sees."""
    return [visible(context + query, chunk) for query in range(queries)]


def chunked(core: ChunkedAttention, *sizes: int, options: Options | None = None) -> OpCost:
    (op,) = chunked_costs(core, setting(forward_pass(*sizes), options))
    return op


def model(*cores: Core) -> Architecture:
    """Return a model with a layer of each core and no matrix besides its head."""
    layers = tuple(Layer((Block("attention", (), core),)) for core in cores)
    return Architecture("toy", "llama4_text", 8, 100, layers, head=Linear("lm_head", 8, 100))


@given(small, contexts, chunks)
def test_pairs_match_counting(queries: int, context: int, chunk: int) -> None:
    pairs = sum(len(keys) for keys in seen(queries, context, chunk))
    assert chunked_pairs(queries, context, chunk) == pairs


@given(cores, batches, small, contexts)
def test_flops_count_every_pair_head_and_dimension(
    core: ChunkedAttention, batch: int, queries: int, context: int
) -> None:
    pairs = sum(len(keys) for keys in seen(queries, context, core.chunk))
    multiply_adds = batch * core.n_heads * pairs * (core.head_dim + core.value_dim)
    assert chunked(core, batch, queries, context).flops == 2 * multiply_adds


@given(cores, batches, small, contexts)
def test_the_cache_is_read_where_any_query_looks_and_written_for_each(
    core: ChunkedAttention, batch: int, queries: int, context: int
) -> None:
    looked_at = set.union(*seen(queries, context, core.chunk))
    cached = {key for key in looked_at if key < context}
    token_bytes = core.n_kv_heads * (core.head_dim + core.value_dim) * 2  # bf16
    op = chunked(core, batch, queries, context)
    assert op.cache_bytes == batch * token_bytes * (len(cached) + queries)
    assert op.shard == cache_only(core.n_kv_heads)


@given(cores, batches, small, contexts)
def test_the_count_of_estimators_has_the_cached_keys_only(
    core: ChunkedAttention, batch: int, queries: int, context: int
) -> None:
    looks = [{key for key in keys if key < context} for keys in seen(queries, context, core.chunk)]
    pairs = sum(len(keys) for keys in looks)
    op = chunked(core, batch, queries, context, options=CONTEXT_ONLY)
    assert op.flops == 2 * batch * core.n_heads * pairs * (core.head_dim + core.value_dim)
    cached = len(set.union(*looks))
    assert op.cache_bytes == (
        batch * core.n_kv_heads * (core.head_dim + core.value_dim) * 2 * cached
    )


@given(cores, batches, small, contexts, kinds_of_count)
def test_a_sequence_within_its_first_chunk_is_fully_attended(
    core: ChunkedAttention, batch: int, queries: int, context: int, options: Options
) -> None:
    # The limit: chunk >= everything, so that there is one chunk.
    long = replace(core, chunk=context + queries)
    full = GroupedQueryAttention(core.n_heads, core.n_kv_heads, core.head_dim, core.value_dim)
    forward = setting(forward_pass(batch, queries, context), options)
    (op,), (whole,) = chunked_costs(long, forward), grouped_query_costs(full, forward)
    assert (op.flops, op.cache_bytes) == (whole.flops, whole.cache_bytes)


@given(cores, small, contexts)
def test_costs_repeat_with_every_chunk(core: ChunkedAttention, queries: int, context: int) -> None:
    here, later = (chunked(core, 1, queries, context + n * core.chunk) for n in (0, 3))
    assert (here.flops, here.cache_bytes) == (later.flops, later.cache_bytes)


@given(cores, contexts, cache_dtypes)
def test_a_sequence_needs_room_for_its_longest_chunk(
    core: ChunkedAttention, context: int, dtype: str
) -> None:
    # What the last query of any position so far has seen, at most.
    longest = max((len(visible(position, core.chunk)) for position in range(context)), default=0)
    (op,) = chunked_costs(core, replace(setting(forward_pass(1, 1, 0)), kv_dtype=dtype))
    assert chunked_cache_bytes(core, np.array(context), dtype) == pytest.approx(
        longest * float(op.cache_bytes)  # of one token
    )


@given(grouped_queries, batches, small, contexts, kinds_of_count)
def test_a_shared_cache_is_attended_like_one_of_its_own(
    core: GroupedQueryAttention, batch: int, queries: int, context: int, options: Options
) -> None:
    forward = setting(forward_pass(batch, queries, context), options)
    (own,), (shared,) = (
        grouped_query_costs(core, forward),
        shared_cache_costs(SharedCacheAttention(core), forward),
    )
    assert (own.flops, own.cache_bytes) == (shared.flops, shared.cache_bytes)


@given(grouped_queries, contexts)
def test_a_shared_cache_is_stored_once(core: GroupedQueryAttention, context: int) -> None:
    alone, with_readers = model(core), model(core, *[SharedCacheAttention(core)] * 3)
    assert kv_cache_bytes(alone, context) == kv_cache_bytes(with_readers, context)
    assert sum(part.sequence_bytes for part in storage(with_readers, context)) == kv_cache_bytes(
        alone, context
    )
    decode = forward_pass(1, 1, context)
    read_alone, read_by_all = (
        sum(op.count * op.cache_bytes for op in forward_cost(toy, decode))
        for toy in (alone, with_readers)
    )
    assert read_by_all == 4 * read_alone


CHUNKED = ChunkedAttention(n_heads=8, n_kv_heads=2, head_dim=4, value_dim=4, chunk=16)
FULL = GroupedQueryAttention(n_heads=8, n_kv_heads=2, head_dim=4, value_dim=4)


@pytest.mark.parametrize("core", [CHUNKED, SharedCacheAttention(FULL)])
def test_tensor_parallelism_divides_their_heads(core: Core) -> None:
    check_placement(model(core), Placement(tensor_parallel=8))
    with pytest.raises(
        OptionError, match=r"^tensor_parallel is 16 .*allowed: groups of 1, 2, 4, 8"
    ):
        check_placement(model(core), Placement(tensor_parallel=16))
