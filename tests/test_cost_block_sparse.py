"""Block-sparse attention and shared selections, against asking about every key."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specroof.architecture.attention import Indexer
from specroof.architecture.base import ATTENTION_REPLICATED, Linear, OpCost, Shard, cache_only
from specroof.architecture.block_sparse import BlockSparseAttention
from specroof.architecture.latent import LatentAttention, latent_bytes
from specroof.architecture.model import Architecture, Block, Layer
from specroof.cost import kv_bytes_per_token, storage
from strategies import (
    batches,
    block_sparse,
    cache_dtypes,
    contexts,
    forward_pass,
    indexers,
    kept,
    latents,
    setting,
    small,
)

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


def stack(core: BlockSparseAttention | LatentAttention) -> Architecture:
    """Return two layers with nothing but a core each."""
    layer = Layer((Block("attention", (), core),), 2)
    return Architecture("stack", "llama", 8, 10, (layer,), Linear("lm_head", 8, 10, kind="head"))


def test_index_keys_do_not_divide_where_keys_and_values_do() -> None:
    assert costs(M3, 1, 1, 0)[0].shard == Shard("attention", 4, 4, 1)  # whose heads do
    parts = [part for part in storage(stack(M3), 1000.0) if part.sequence_bytes > 0]
    stored = {part.shard: float(part.sequence_bytes) for part in parts}
    assert stored == {ATTENTION_REPLICATED: 2 * 256_000, cache_only(4): 2 * 2_048_000}
    assert kept(M3, 1000).repeated_bytes == 256_000
    assert kv_bytes_per_token(stack(M3)) == 2 * 2304


@given(latents, indexers, batches, small, contexts, cache_dtypes)
def test_a_shared_selection_saves_the_scan_and_nothing_else(
    core: LatentAttention, indexer: Indexer, batch: int, queries: int, context: int, dtype: str
) -> None:
    own = replace(core, indexer=indexer)
    shared = replace(core, indexer=None, shared_top_k=indexer.top_k)
    forward = setting(forward_pass(batch, queries, context), kv_dtype=dtype)
    _, attention = own.costs(forward)
    (alone,) = shared.costs(forward)
    assert alone.flops == attention.flops
    assert alone.cache_bytes == attention.cache_bytes
    assert latent_bytes(shared, dtype) == latent_bytes(own, dtype)
