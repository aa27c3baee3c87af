"""Block-sparse attention: an indexer picks whole blocks of keys for every query.

Source
    MiniMax-M3: transformers 5, `models/minimax_m3_vl/modeling_minimax_m3_vl.py`
    (`MiniMaxM3VLIndexer`); SGLang `layers/attention/minimax_sparse_backend.py` and
    `mem_cache/memory_pool.py`. Qwen4-Exp: transformers 5.23,
    `models/qwen4_exp/modeling_qwen4_exp.py` (`Qwen4ExpTextQSAIndexer`); SGLang 0.5.23,
    `mem_cache/qsa_kv_pool.py`.
"""

from dataclasses import dataclass, replace

import numpy as np

from specroof.architecture.attention import (
    HeadsAttention,
    Indexer,
    counted_pairs,
    heads_op,
    indexer_op,
)
from specroof.architecture.base import (
    CacheDtypes,
    Kept,
    OpCost,
    PassSettings,
    Shard,
    cache_element_bytes,
)
from specroof.arrays import Array


@dataclass(frozen=True, slots=True)
class BlockSparseAttention(HeadsAttention):
    """Grouped-query attention to the blocks of keys that an indexer picks (MiniMax-M3, Qwen4-Exp).

    Parameters
    ----------
    n_heads, n_kv_heads, head_dim, value_dim
        As in `GroupedQueryAttention`.
    indexer
        Its query heads (each picks for a group of KV heads), the width of the one key
        that is cached for it, and the blocks that a query sees, its own among them.
    block_len
        Tokens per block.
    """

    indexer: Indexer
    block_len: int

    label = "block_sparse_attention"
    kernel = "block_sparse"
    overhead_kinds = ("sparse_index",)
    causal = True
    window_len = 0

    def costs(self, setting: PassSettings) -> list[OpCost]:
        r"""Return the cost of block-sparse attention in one layer: the scan of the keys, attention.

        .. math:: F = 2 \, B \left( n_I d_I \, A_{all} / g + n_h (d_k + d_v) \, A \right)

        with g tokens to an index key.

        Counts
            every query against every index key, in the dtype of the cache; the chosen blocks once
            per sequence, KV head and pass; new keys, values and index keys written.
        Ignores
            the maximum over each block and the top-k, 1 of 256 FLOP per pair; that queries of one
            sequence may pick different blocks: at most T times the blocks.
        Source
            MiniMax-M3 in transformers 5 and SGLang; see the module.

        Examples
        --------
        >>> from specroof.architecture.attention import Indexer
        >>> from specroof.architecture.base import ForwardPass, Options
        >>> indexer = Indexer(n_heads=4, head_dim=128, top_k=16)
        >>> core = BlockSparseAttention(64, 4, 128, 128, indexer, block_len=128)
        >>> decode = ForwardPass(batch_size=1, query_len=1, context_len=128_000)
        >>> scan, op = core.costs(PassSettings(decode, Options(), "bf16", "fp32", "bf16"))
        >>> float(scan.flops)  # 2 * 4 * 128 * 128 001 keys
        131073024.0
        >>> float(op.flops)  # 2 * 64 * 256 * (15 blocks of 128, and the token itself)
        62947328.0
        """
        forward, options = setting.forward, setting.options
        blocks, block_len = self.indexer.top_k, self.block_len
        if options.counts_all:
            pairs = block_pairs(forward.query_len, forward.context_len, block_len, blocks)
            read = np.minimum(
                forward.context_len, forward.context_len % block_len + (blocks - 1) * block_len
            )
        else:
            read = np.minimum(forward.context_len, blocks * block_len)
            pairs = np.asarray(forward.query_len * read)
        indexer = self.indexer
        scan = indexer_op(
            indexer,
            setting,
            pairs=counted_pairs(setting),
            read=forward.context_len,
            new=forward.query_len,
            key_bytes=_index_key_bytes(self, setting.kv_dtype),
            # Heads divide over devices, their one key does not.
            shard=Shard("attention", indexer.n_heads, indexer.n_heads, 1),
        )
        return [scan, heads_op(self, setting, pairs=pairs, read=read)]

    def kept(self, context_len: Array, dtypes: CacheDtypes) -> Kept:
        """Return what it keeps of a sequence: all keys and values, and on every device index keys.

        Source
            SGLang ``MiniMaxSparseKVPool``: nothing is dropped, only fewer blocks are read; an index
            key per token, for all index heads. ``QSATokenToKVPool``: one per block.

        Examples
        --------
        >>> from specroof.architecture.attention import Indexer
        >>> core = BlockSparseAttention(64, 4, 128, 128, Indexer(4, 128, 16), block_len=128)
        >>> kept = core.kept(np.array(1.0), CacheDtypes("bf16", "bf16", "fp32", "bf16"))
        >>> float(kept.cache_bytes), float(kept.repeated_bytes)  # (4 * 256 + 128) * 2; 128 * 2
        (2304.0, 256.0)
        """
        index = context_len / self.indexer.key_tokens * _index_key_bytes(self, dtypes.kv_dtype)
        pairs = HeadsAttention.kept(self, context_len, dtypes)
        return replace(pairs, cache_bytes=pairs.cache_bytes + index, repeated_bytes=index)


def block_pairs(query_len: Array, context_len: Array, block_len: int, top_k: int) -> Array:
    r"""Return the (query, key) pairs of one sequence, each query in `top_k` blocks.

    .. math:: A = \sum_{i=0}^{T-1} (S + i) \bmod b + 1 + b \min(\lfloor (S + i) / b \rfloor, k - 1)

    Parameters
    ----------
    query_len, context_len
        New positions, and cached positions before them.
    block_len
        Tokens per block, b.
    top_k
        Blocks that a query sees, k: the one that it stands in, and k - 1 whole ones before it.

    Counts
        the query's own position.
    Ignores
        nothing.
    Source
        `MiniMaxM3VLIndexer.forward`: the local block scores infinity and is one of the top k.

    Examples
    --------
    >>> # positions 5, 6, 7 in blocks of 4: 2, 3, 4 keys of the own block, and one block before it
    >>> float(block_pairs(np.array(3.0), np.array(5.0), block_len=4, top_k=2))
    21.0
    >>> float(block_pairs(np.array(3.0), np.array(5.0), block_len=4, top_k=1))
    9.0
    """
    stop = context_len + query_len
    return _pairs_below(stop, block_len, top_k) - _pairs_below(context_len, block_len, top_k)


def _pairs_below(positions: Array, block_len: int, top_k: int) -> Array:
    """Return the pairs of the queries at positions 0 to `positions` - 1."""
    # Up to the end of block k everything is seen; beyond it, k - 1 whole blocks and the own one.
    dense = np.minimum(positions, top_k * block_len)
    beyond = positions - dense
    whole = np.floor(beyond / block_len)
    rest = beyond - whole * block_len
    own = whole * block_len * (block_len + 1) / 2 + rest * (rest + 1) / 2
    return np.asarray(dense * (dense + 1) / 2 + beyond * (top_k - 1) * block_len + own)


def _index_key_bytes(core: BlockSparseAttention, dtype: str) -> float:
    # Unlike DeepSeek's, an FP8 index key has no scale (SGLang MiniMaxSparseKVPool on Hopper).
    return core.indexer.head_dim * cache_element_bytes(dtype)
