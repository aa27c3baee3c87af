"""Chunked attention (Llama 4): a query sees its own chunk of the sequence, up to itself."""

from dataclasses import dataclass

import numpy as np

from specroof.architecture.attention import HeadsAttention, heads_op
from specroof.architecture.base import OpCost, PassSettings
from specroof.architecture.block_sparse import block_pairs


@dataclass(frozen=True, slots=True)
class ChunkedAttention(HeadsAttention):
    """Grouped-query attention whose queries see their own chunk of the sequence only (Llama 4).

    Parameters
    ----------
    n_heads, n_kv_heads, head_dim, value_dim
        Heads and their widths.
    chunk
        Tokens of a chunk; the query at position n (from 0) sees the ``n % chunk + 1`` last ones,
        itself included.
    """

    chunk: int

    label = "chunked_attention"
    kernel = "heads"
    overhead_kinds = ()
    causal = True

    @property
    def window_len(self) -> int:
        """Tokens at which its cache stops growing: a whole chunk."""
        return self.chunk

    def costs(self, setting: PassSettings) -> list[OpCost]:
        r"""Return the cost of chunked attention in one layer.

        .. math:: F = 2 \, B \, n_h (d_k + d_v) \, A \qquad
            M = B \, n_{kv} (d_k + d_v) \, b \, (S \bmod c + T)

        with A from `block_pairs`, of blocks of which a query sees its own.

        Counts
            of the cache the begun chunk, once per sequence and pass, and the T new entries written.
            With ``count="attention+ffn"`` the cached context alone: its queries up to the border of
            the chunk see the S mod c entries, later ones none.
        Ignores
            queries and outputs (see `specroof.architecture.base`). At a context that is a multiple
            of the chunk nothing cached is read: the cost is a sawtooth in the context, and half a
            chunk is its mean.
        Source
            transformers, `masking_utils.py`, ``chunked_overlay`` (same chunk, and causal); vLLM
            ``ChunkedLocalAttention``. One read for all queries: Pope et al. 2022,
            arXiv:2211.05102, section 3.3.

        Examples
        --------
        >>> from specroof.architecture.base import ForwardPass, Options
        >>> core = ChunkedAttention(40, n_kv_heads=8, head_dim=128, value_dim=128, chunk=8192)
        >>> decode = ForwardPass(batch_size=1, query_len=1, context_len=[8191, 10_000])
        >>> (op,) = core.costs(PassSettings(decode, Options(), "bf16", "fp32", "bf16"))
        >>> op.cache_bytes  # 8 heads * 256 elements * 2 bytes * (8191 + 1, 1808 + 1 tokens)
        array([33554432.,  7409664.])
        """
        forward = setting.forward
        read = np.mod(forward.context_len, self.chunk)
        if setting.options.counts_all:
            pairs = block_pairs(forward.query_len, forward.context_len, self.chunk, top_k=1)
        else:
            pairs = np.asarray(read * np.minimum(forward.query_len, self.chunk - read))
        return [heads_op(self, setting, pairs=pairs, read=read)]
