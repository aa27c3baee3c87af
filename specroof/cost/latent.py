"""Multi-head latent attention, absorbed or expanded, with or without an indexer."""

import numpy as np

from specroof.architecture import LatentAttention, cache_only
from specroof.arrays import Array
from specroof.cost.attention import (
    attention_flops,
    attention_op,
    cached_tokens_read,
    counted_pairs,
    indexer_op,
)
from specroof.cost.base import (
    ForwardPass,
    OpCost,
    Setting,
    index_key_bytes,
    latent_bytes,
    matmul_flops,
)


def latent_costs(core: LatentAttention, setting: Setting) -> list[OpCost]:
    r"""Return the cost of multi-head latent attention in one layer, indexer included.

    .. math:: F = 2 \, B \, n_h (2 d_c + d_r) \, A \qquad M = B \, b_{latent} (S_{read} + T)

    and over a prompt (``settled`` passes), where that is less, with keys and values expanded:

    .. math:: F = 2 \, B \, n_h [(d_k + d_v) \, A + d_c (d_k - d_r + d_v) \, S]

    Counts
        scores over the latent and the rotary key, values over the latent; behind an indexer, be
        it an earlier layer's, only its top-k tokens. Expanded, the cached latents are projected
        up once for all queries.
    Ignores
        that queries of one sequence may select different tokens (the cache is read once for all),
        and what expanded keys and values move: a kernel may expand a tile at a time.
        The up-projections of new tokens are matrices of the block, not part of this.
    Source
        DeepSeek-V2 report, arXiv:2405.04434, section 2.1; V3.2: DeepSeek-V3.2-Exp report 2025.
        When expanding pays: Finn 2026, "The economics of speculative decoding", appendix; with
        128 wide keys and values from 171 new tokens on, where the cache is long.

    Examples
    --------
    >>> from specroof.cost.base import ForwardPass, Options
    >>> core = LatentAttention(n_heads=128, latent_dim=512, rope_dim=64)
    >>> decode = ForwardPass(batch_size=1, query_len=1, context_len=0)
    >>> (op,) = latent_costs(core, Setting(decode, Options(), "bf16", "fp32", "bf16"))
    >>> float(op.flops)  # one pair: 2 * 128 * (2 * 512 + 64)
    278528.0
    """
    forward, options = setting.forward, setting.options
    top_k = core.top_k
    token_bytes = latent_bytes(core, setting.kv_dtype)
    pairs = counted_pairs(forward, options, top_k)
    flops = attention_flops(
        n_heads=core.n_heads,
        pair_dims=2 * core.latent_dim + core.rope_dim,
        batch_size=forward.batch_size,
        pairs=pairs,
    )
    if forward.settled and top_k is None and core.head_dims is not None:
        flops = np.minimum(flops, _expanded_flops(core, core.head_dims, forward, pairs))
    attention = attention_op(
        setting,
        flops=flops,
        read_bytes=token_bytes * cached_tokens_read(forward, options, top_k),
        new_bytes=token_bytes * forward.query_len,
        shard=cache_only(1),
        kind="latent_attention",
    )
    if core.indexer is None:
        return [attention]
    scan = indexer_op(
        core.indexer,
        setting,
        pairs=counted_pairs(forward, options),
        read=forward.context_len,
        new=forward.query_len,
    )
    return [scan, attention]


def _expanded_flops(
    core: LatentAttention, head_dims: tuple[int, int], forward: ForwardPass, pairs: Array
) -> Array:
    """Return the FLOP of attending expanded keys and values, cached latents projected up first."""
    attended = attention_flops(
        n_heads=core.n_heads, pair_dims=sum(head_dims), batch_size=forward.batch_size, pairs=pairs
    )
    projected_dims = core.n_heads * (sum(head_dims) - core.rope_dim)
    projected = matmul_flops(
        core.latent_dim * projected_dims * forward.batch_size * forward.context_len
    )
    return np.asarray(attended + projected)


def latent_cache_bytes(core: LatentAttention, context_len: Array, dtype: str) -> Array:
    """Return the bytes of latents that one sequence stores in one layer.

    Source
        See `specroof.cost.base`.

    Examples
    --------
    >>> mla = LatentAttention(n_heads=128, latent_dim=512, rope_dim=64)
    >>> float(latent_cache_bytes(mla, np.array(1.0), "bf16"))  # (512 + 64) * 2
    1152.0
    """
    return np.asarray(context_len * latent_bytes(core, dtype))


def latent_index_bytes(core: LatentAttention, context_len: Array, dtype: str) -> Array:
    """Return the bytes of index keys that one sequence stores in one layer.

    Source
        See `specroof.cost.base`.

    Examples
    --------
    >>> from specroof.architecture import Indexer
    >>> sparse = LatentAttention(128, 512, 64, Indexer(n_heads=64, head_dim=128, top_k=2048))
    >>> float(latent_index_bytes(sparse, np.array(2.0), "fp8"))  # 2 * (128 + 4)
    264.0
    """
    key_bytes = index_key_bytes(core.indexer, dtype) if core.indexer else 0.0
    return np.asarray(context_len * key_bytes)
