"""Chunked attention (Llama 4): a query sees its own chunk of the sequence, up to itself."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from specroof.architecture.attention import HeadsAttention, heads_op
from specroof.architecture.base import OpCost, PassSettings
from specroof.arrays import Array


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

        with A from :func:`chunked_pairs`.

        Counts
            of the cache the begun chunk, once per sequence and pass, and the T new entries written.
            With ``count="attention+ffn"`` the cached context alone: its queries up to the border of
            the chunk see the S mod c entries, later ones none.
        Ignores
            queries and outputs (see `specroof.architecture.base`). At a context that is a multiple
            of the chunk nothing cached is read: the cost is a sawtooth in the context, and half a
            chunk is its mean.
        Source
            See `chunked_pairs`; one read for all queries: Pope et al. 2022, arXiv:2211.05102,
            section 3.3.

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
            pairs = chunked_pairs(forward.query_len, forward.context_len, self.chunk)
        else:
            pairs = np.asarray(read * np.minimum(forward.query_len, self.chunk - read))
        return [heads_op(self, setting, pairs=pairs, read=read)]


def chunked_pairs(query_len: npt.ArrayLike, context_len: npt.ArrayLike, chunk: int) -> Array:
    r"""Return the (query, key) pairs of chunked attention in one sequence.

    .. math:: A = \sum_{n=S}^{S+T-1} (n \bmod c + 1) = P(S+T) - P(S), \qquad
        P(n) = \lfloor n/c \rfloor \frac{c(c+1)}{2} + \frac{r(r+1)}{2}, \; r = n \bmod c

    Counts
        the query's own position: the first query of a chunk sees itself alone.
    Ignores
        nothing; masked pairs that a tiled kernel computes anyway belong to its efficiency.
    Source
        transformers, `masking_utils.py`, ``chunked_overlay`` (same chunk, and causal); vLLM
        ``ChunkedLocalAttention``. The sum by counting.

    Examples
    --------
    >>> float(chunked_pairs(3, 2, chunk=4))  # 3 + 4, then 1 in the next chunk
    8.0
    >>> chunked_pairs(1, [0, 8191, 8192], chunk=8192)
    array([1.000e+00, 8.192e+03, 1.000e+00])
    """
    start = np.asarray(context_len, dtype=np.float64)
    stop = start + np.asarray(query_len, dtype=np.float64)
    return np.asarray(_pairs_below(stop, chunk) - _pairs_below(start, chunk))


def _pairs_below(positions: Array, chunk: int) -> Array:
    """Return the pairs of the queries before `positions`: those of whole chunks, and the rest."""
    rest = np.mod(positions, chunk)
    whole_chunks = (positions - rest) / chunk
    return np.asarray(whole_chunks * (chunk * (chunk + 1) / 2) + rest * (rest + 1) / 2)
