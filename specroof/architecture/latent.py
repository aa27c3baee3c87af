"""Multi-head latent attention, absorbed or expanded, with or without an indexer."""

import math
from dataclasses import dataclass, replace

import numpy as np

from specroof.architecture.attention import (
    Indexer,
    attention_flops,
    attention_op,
    cached_tokens_read,
    counted_pairs,
    index_key_bytes,
    indexer_op,
)
from specroof.architecture.base import (
    HEADS,
    CacheDtypes,
    Heads,
    Kept,
    OpCost,
    PassSettings,
    PickedKeys,
    SoftmaxAttention,
    cache_element_bytes,
    cache_only,
    core_op,
    matmul_flops,
)
from specroof.arrays import Array
from specroof.units import dtype_bytes


@dataclass(frozen=True, slots=True)
class LatentAttention(SoftmaxAttention):
    """Multi-head latent attention: one cached latent per token for all heads.

    Parameters
    ----------
    n_heads
        Query heads.
    latent_dim, rope_dim
        Width of the compressed key-value latent, and of the rotary key beside it.
    indexer
        Present where attention sees only the top-k tokens of an indexer.
    shared_top_k
        Tokens that attention sees where it takes over what the indexer of an earlier layer
        picked (GLM-5.2); None where it has an indexer, or sees all.
    head_dims
        Widths of a head's key and value once the latent is expanded, positions included: what a
        prompt may be attended with. None where only the absorbed form is known.
    causal
        False where the new positions of a pass see each other both ways.
    window
        Tokens a query may see, itself included (dots3.note); None sees all, or what was picked.
    """

    n_heads: int
    latent_dim: int
    rope_dim: int
    indexer: Indexer | None = None
    shared_top_k: int | None = None
    head_dims: tuple[int, int] | None = None
    causal: bool = True
    window: int | None = None

    @property
    def window_len(self) -> int:
        """Tokens at which its cache stops growing; 0 where it never does."""
        return self.window or 0

    @property
    def label(self) -> str:
        """The name of its kind, with which names of its operations begin."""
        if self.window is not None:
            return "sliding_latent_attention"
        if self.shared_top_k is not None:
            return "shared_index_attention"
        return "sparse_attention" if self.indexer else "latent_attention"

    @property
    def overhead_kinds(self) -> tuple[str, ...]:
        """Layer kinds for which engines charge an overhead."""
        return ("latent_attention", "token_index") if self.indexer else ("latent_attention",)

    @property
    def top_k(self) -> int | None:
        """Tokens that a query sees, however they are picked; None sees all."""
        return self.indexer.top_k if self.indexer else self.shared_top_k

    @property
    def kernel(self) -> str:
        """The class of kernels that runs it."""
        return "latent" if self.top_k is None else "sparse_latent"

    @property
    def heads(self) -> Heads:
        """Its heads, all of which look at one latent."""
        return Heads(self.n_heads, 1, self.latent_dim + self.rope_dim)

    def costs(self, setting: PassSettings) -> list[OpCost]:
        r"""Return the cost of multi-head latent attention in one layer, indexer included.

        .. math:: F = 2 \, B \, n_h (2 d_c + d_r) \, A \qquad M = B \, b_{latent} (S_{read} + T)

        and over a prompt (``settled`` passes), where that is less, with keys and values expanded:

        .. math:: F = 2 \, B \, n_h [(d_k + d_v) \, A + d_c (d_k - d_r + d_v) \, S]

        A verification that a kernel takes as a prefill has that form whatever it costs, and moves
        what it expands: see `expansion_op`.

        Counts
            scores over the latent and the rotary key, values over the latent; behind an indexer, be
            it an earlier layer's, only its top-k tokens. Expanded, the cached latents are projected
            up once for all queries.
        Ignores
            that queries of one sequence may select different tokens (the cache is read once for
            all), and what expanded keys and values move: a kernel may expand a tile at a time.
            The up-projections of new tokens are matrices of the block, not part of this.
        Source
            DeepSeek-V2 report, arXiv:2405.04434, section 2.1; V3.2: DeepSeek-V3.2-Exp report 2025.
            When expanding pays: Finn 2026, "The economics of speculative decoding", appendix; with
            128 wide keys and values from 171 new tokens on, where the cache is long.

        Examples
        --------
        >>> from specroof.architecture.base import ForwardPass, Options
        >>> core = LatentAttention(n_heads=128, latent_dim=512, rope_dim=64)
        >>> decode = ForwardPass(batch_size=1, query_len=1, context_len=0)
        >>> (op,) = core.costs(PassSettings(decode, Options(), "bf16", "fp32", "bf16"))
        >>> float(op.flops)  # one pair: 2 * 128 * (2 * 512 + 64)
        278528.0
        """
        forward = setting.forward
        top_k = self.top_k
        token_bytes = latent_bytes(self, setting.kv_dtype)
        seen = self.window if top_k is None else top_k
        pairs = counted_pairs(setting, seen, causal=self.causal)
        pair_dims = 2 * self.latent_dim + self.rope_dim
        flops = attention_flops(setting, self.n_heads, pair_dims, pairs)
        expansion = []
        as_prefill = setting.reading.kind == "prefill"
        if (forward.settled or as_prefill) and top_k is None and self.head_dims is not None:
            expanded_flops = attention_flops(setting, self.n_heads, sum(self.head_dims), pairs)
            projection = expansion_op(self, self.head_dims, setting)
            if forward.settled:
                flops = np.minimum(flops, expanded_flops + projection.flops)
            if as_prefill:
                # The operation is there in every pass, so that those of two batches go together.
                expands = setting.reads_apart
                flops = np.where(expands, expanded_flops, flops)
                projection = replace(
                    projection,
                    flops=np.where(expands, projection.flops, 0.0),
                    cache_bytes=np.where(expands, projection.cache_bytes, 0.0),
                )
                expansion = [projection]
        # Of sparse attention, rules say how the index is read.
        attention = attention_op(
            self,
            setting if top_k is None else replace(setting, reading=setting.reading.of_chosen),
            flops=flops,
            read_bytes=token_bytes * cached_tokens_read(setting, seen),
            new_bytes=token_bytes * forward.query_len,
            value_dim=self.latent_dim,
            kind="latent_attention",
        )
        if top_k is not None:
            slots = top_k * forward.query_len / np.maximum(pairs, 1e-9)
            all_seen = forward.context_len + forward.query_len <= top_k
            picked = PickedKeys(setting.kv_dtype, self.n_heads, slots, all_seen)
            attention = replace(attention, picked=picked)
        if self.indexer is None:
            return [*expansion, attention]
        scan = indexer_op(
            self.indexer,
            setting,
            pairs=counted_pairs(setting),
            read=forward.context_len,
            new=forward.query_len,
        )
        return [scan, attention]

    def kept(self, context_len: Array, dtypes: CacheDtypes) -> Kept:
        """Return what it keeps of a sequence: latents, and the keys of its indexer.

        Source
            `latent_bytes`, `index_key_bytes`.

        Examples
        --------
        >>> sparse = LatentAttention(128, 512, 64, Indexer(n_heads=64, head_dim=128, top_k=2048))
        >>> kept = sparse.kept(np.array(2.0), CacheDtypes("bf16", "fp8", "fp32", "bf16"))
        >>> float(kept.cache_bytes)  # 2 * ((512 + 64) * 2 + 128 + 4)
        2568.0
        """
        tokens = context_len if self.window is None else np.minimum(context_len, self.window)
        cached = tokens * latent_bytes(self, dtypes.kv_dtype)
        if self.indexer:
            n_keys = context_len / self.indexer.key_tokens
            cached = cached + n_keys * index_key_bytes(self.indexer, dtypes.index_dtype)
        # One latent serves every head, so that each device keeps it all.
        return Kept(cache_only(1), cached)


_LATENT_SCALE_BLOCK = 128


def latent_bytes(core: LatentAttention, dtype: str) -> float:
    """Return the bytes of one cached MLA token, without the index key.

    Counts
        in fp8 behind an indexer (DeepSeek-V3.2): the latent in fp8 with a float32 scale per 128,
        the rotary part in bf16, 656 bytes; in fp8 without one, 576.
    Source
        vLLM ``fp8_ds_mla`` cache layout; DeepSeek-V2 report, arXiv:2405.04434, section 2.1.2.

    Examples
    --------
    >>> mla = LatentAttention(n_heads=128, latent_dim=512, rope_dim=64)
    >>> latent_bytes(mla, "bf16"), latent_bytes(mla, "fp8")
    (1152.0, 576.0)
    >>> sparse = LatentAttention(128, 512, 64, Indexer(n_heads=64, head_dim=128, top_k=2048))
    >>> latent_bytes(sparse, "fp8")  # 512 + 4 * 4 + 64 * 2
    656.0
    """
    if dtype == "fp8" and core.top_k is not None:
        scales = math.ceil(core.latent_dim / _LATENT_SCALE_BLOCK) * dtype_bytes("fp32")
        return core.latent_dim * dtype_bytes("fp8") + scales + core.rope_dim * dtype_bytes("bf16")
    return (core.latent_dim + core.rope_dim) * cache_element_bytes(dtype)


def expansion_op(
    core: LatentAttention, head_dims: tuple[int, int], setting: PassSettings
) -> OpCost:
    r"""Return the operation that expands the cached latents to keys and values of every head.

    .. math:: F = 2 \, B \, n_h d_c (d_k - d_r + d_v) \, S \qquad
        M = 2 \, B \, n_h (d_k + d_v) \, b \, S

    Counts
        keys and values written, and read again by the attention that follows.
    Ignores
        the latents that are gathered into a workspace first, written and read again: 11% of M at
        16 heads.
    Source
        vLLM 0.33.0 ``model_executor/layers/attention/mla_attention.py``,
        ``_compute_prefill_context``.

    Examples
    --------
    >>> from specroof.architecture.base import CacheReading, ForwardPass, Options
    >>> core = LatentAttention(n_heads=16, latent_dim=512, rope_dim=64, head_dims=(192, 128))
    >>> verify = ForwardPass(batch_size=1, query_len=2, context_len=1000)
    >>> reading = CacheReading("prefill")
    >>> setting = PassSettings(verify, Options(), "bf16", "fp32", "bf16", reading=reading)
    >>> op = expansion_op(core, (192, 128), setting)
    >>> float(op.flops) / 1000, float(op.cache_bytes) / 1000  # 2 * 16 * 512 * 256; 2 * 16 * 320 * 2
    (4194304.0, 20480.0)
    """
    forward = setting.forward
    cached = forward.batch_size * cached_tokens_read(setting, core.window)
    moved = 2 * core.n_heads * sum(head_dims) * dtype_bytes(setting.activation_dtype)
    projected_dims = core.n_heads * (sum(head_dims) - core.rope_dim)
    return core_op(
        setting,
        "expansion",
        "dense",
        flops=matmul_flops(core.latent_dim * projected_dims * cached),
        cache_bytes=np.asarray(moved * cached),
        shard=HEADS,
    )
