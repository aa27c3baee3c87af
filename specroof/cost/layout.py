"""How a cached value lies in memory: bytes per element, latent, index key and V4 entry."""

import math
from typing import Protocol

from specroof.architecture import (
    CompressedAttention,
    Indexer,
    LatentAttention,
)
from specroof.units import dtype_bytes


class HeadsCached(Protocol):
    """Attention that caches a key and a value of each token for every KV head."""

    @property
    def n_heads(self) -> int:
        """Query heads."""

    @property
    def n_kv_heads(self) -> int:
        """Heads whose keys and values are cached."""

    @property
    def head_dim(self) -> int:
        """Width of a query or key."""

    @property
    def value_dim(self) -> int:
        """Width of a value."""


# One scale per block of cached elements, where a layout has scales.
_FP4_BLOCK = 16
_INDEX_SCALE_BYTES = 4
_LATENT_SCALE_BLOCK = 128
_ENTRY_SCALE_BLOCK = 64
_ENTRY_SCALE_ALIGN = 8


def cache_element_bytes(dtype: str) -> float:
    """Return the bytes of one cached key or value element.

    Counts
        for fp4 one scale byte per 16 elements; fp8 caches carry one scale per layer.
    Source
        SGLang memory pool, ``KVFP4QuantizeUtil`` (16-element scales); vLLM ``--kv-cache-dtype``.

    Examples
    --------
    >>> cache_element_bytes("bf16"), cache_element_bytes("fp8"), cache_element_bytes("fp4")
    (2.0, 1.0, 0.5625)
    """
    return dtype_bytes(dtype) + (1 / _FP4_BLOCK if dtype == "fp4" else 0.0)


def kv_token_bytes(core: HeadsCached, dtype: str) -> float:
    r"""Return the bytes of one cached token in one layer, :math:`n_{kv} (d_k + d_v) \, b`.

    Source
        Ainslie et al. 2023, arXiv:2305.13245, section 2.2.

    Examples
    --------
    >>> from specroof.architecture import GroupedQueryAttention
    >>> kv_token_bytes(GroupedQueryAttention(32, 8, head_dim=128, value_dim=128), "bf16")
    4096.0
    """
    return core.n_kv_heads * (core.head_dim + core.value_dim) * cache_element_bytes(dtype)


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


def index_key_bytes(indexer: Indexer, dtype: str) -> float:
    """Return the bytes of one cached index key.

    Counts
        in fp8 one float32 scale per key: 132 bytes for 128 dimensions.
    Source
        SGLang ``NSATokenToKVPool`` (index key 128 + 4 bytes).

    Examples
    --------
    >>> lightning = Indexer(n_heads=64, head_dim=128, top_k=2048)
    >>> index_key_bytes(lightning, "fp8"), index_key_bytes(lightning, "bf16")
    (132.0, 256.0)
    """
    scale = _INDEX_SCALE_BYTES if dtype == "fp8" else 0
    return indexer.head_dim * cache_element_bytes(dtype) + scale


def entry_bytes(core: CompressedAttention, dtype: str, v4_attention: str) -> float:
    """Return the bytes of one DeepSeek-V4 cache entry, raw or compressed.

    Counts
        in fp8 the rotary part stays bf16, and one scale byte per 64 elements is padded to 8:
        448 + 2 * 64 + 8 = 584; ``"mla-like"`` counts 512 + 64 elements without scales.
    Source
        SGLang ``pool_configurator.py`` (584 bytes); ``"mla-like"``: Finn 2026, "The economics of
        speculative decoding".

    Examples
    --------
    >>> v4 = CompressedAttention(128, entry_dim=512, rope_dim=64, window=128, ratio=128)
    >>> entry_bytes(v4, "bf16", "shared-kv"), entry_bytes(v4, "fp8", "shared-kv")
    (1024.0, 584.0)
    >>> entry_bytes(v4, "fp8", "mla-like")
    576.0
    """
    if v4_attention == "mla-like":
        return (core.entry_dim + core.rope_dim) * cache_element_bytes(dtype)
    if dtype != "fp8":
        return core.entry_dim * cache_element_bytes(dtype)
    plain = core.entry_dim - core.rope_dim
    scales = math.ceil(plain / _ENTRY_SCALE_BLOCK / _ENTRY_SCALE_ALIGN) * _ENTRY_SCALE_ALIGN
    return plain * dtype_bytes("fp8") + core.rope_dim * dtype_bytes("bf16") + scales
