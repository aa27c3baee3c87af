"""The values that the cost room trades in: a pass, the choices, the cost of an operation."""

import math
from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np
import numpy.typing as npt

from specroof.architecture import (
    TENSOR,
    WEIGHT_FORMATS,
    CompressedAttention,
    Indexer,
    LatentAttention,
    Linear,
    Shard,
)
from specroof.arrays import Array, array_within
from specroof.errors import expect, expect_word, refuse
from specroof.units import DTYPE_BYTES, dtype_bytes

#: Everywhere, always: a multiply-add is two.
_FLOPS_PER_MULTIPLY_ADD: Final = 2.0

#: The values that each choice of `Options` may take (None besides, where that is the default).
CHOICES: Final[dict[str, tuple[str, ...]]] = {
    "granularity": ("op", "dtype", "pass"),
    "experts": ("exact", "replacement"),
    "count": ("all", "attention+ffn"),
    "recurrent_state": ("snapshot", "snapshot-copy", "read-write", "read", "replay"),
    "state_dtype": tuple(DTYPE_BYTES),
    "kv_dtype": tuple(DTYPE_BYTES),
    "index_dtype": tuple(DTYPE_BYTES),
    "weight_dtype": tuple(WEIGHT_FORMATS),
    "v4_attention": ("shared-kv", "mla-like"),
    "cost_of": ("decode", "verify"),
}

#: Choices that the config, or the engine, makes by default.
_MAY_BE_NONE: Final = {
    *("experts", "recurrent_state", "state_dtype", "kv_dtype", "index_dtype", "weight_dtype")
}


@dataclass(frozen=True, slots=True)
class Options:
    """Which formula counts a pass, where published sources disagree.

    One value counts decoding, verification and drafting alike, so that no ratio mixes two models.

    Parameters
    ----------
    granularity
        What ``max(compute, memory)`` is taken over: each ``"op"``, all work of one ``"dtype"``,
        or the whole ``"pass"``.
    experts
        Distinct experts that t tokens read: ``"exact"`` top-k without replacement, or
        ``"replacement"``: k·t independent draws. None for exact top-k, with the locality of
        routing that an engine's profile may bring.
    count
        ``"all"`` matmuls of the pass with their cache writes and logits, or ``"attention+ffn"``:
        projections, attention and indexer over the cached context, experts, dense feed-forward.
    recurrent_state
        How a verification keeps the state of linear attention recoverable; see
        `specroof.cost.recurrent.state_passes`. None for the engine's way, else ``"snapshot"``.
    state_dtype, kv_dtype, weight_dtype
        Override the config: recurrent state, cached keys and values, stored weights.
    index_dtype
        Keys of DeepSeek's indexer (V3.2 and its kin, V4), and the arithmetic on them. None for
        the dtype of the cache; servers keep them in fp8, see `specroof.latency.served_options`.
    v4_attention
        DeepSeek-V4: ``"shared-kv"``, one 512-wide vector as key and value, or ``"mla-like"``
        (1 088 multiply-adds and 576 elements per entry, as two published estimators count).
    cost_of
        What a drafter's share is a share of: the plain ``"decode"`` step, or the ``"verify"``
        pass of the same round.
    strict_dtype
        Refuse a chip that lacks a dtype, where the next wider one would stand in.

    Raises
    ------
    OptionError
        For a value that `CHOICES` does not list.
    """

    granularity: str = "op"
    experts: str | None = None
    count: str = "all"
    recurrent_state: str | None = None
    state_dtype: str | None = None
    kv_dtype: str | None = None
    index_dtype: str | None = None
    weight_dtype: str | None = None
    v4_attention: str = "shared-kv"
    cost_of: str = "decode"
    strict_dtype: bool = False

    def __post_init__(self) -> None:
        for name, allowed in CHOICES.items():
            value = getattr(self, name)
            if value is None and name in _MAY_BE_NONE:
                continue
            expect_word(name, value, allowed)
        expect("strict_dtype", self.strict_dtype, bool, "True or False")

    @property
    def counts_all(self) -> bool:
        """Whether every operation of the pass is counted."""
        return self.count == "all"


#: What the numbers of a pass are; the head may be left out.
_PASS_QUANTITIES: Final = {
    "batch_size": "pass_batch_size",
    "query_len": "query_len",
    "context_len": "pass_context_len",
    "head_len": "pass_context_len",
    "matmul_len": "padded_len",
}


@dataclass(frozen=True, slots=True, eq=False, init=False)
class ForwardPass:
    """One pass of the model: prefill, decoding and verification differ only in these numbers.

    Numbers or arrays that broadcast against each other, held as float64 (an int32 overflows
    without a word at a million tokens).

    Parameters
    ----------
    batch_size
        Sequences in the pass, over all devices.
    query_len
        New positions per sequence: 1 in decoding, ``draft_len + 1`` in verification.
    context_len
        Positions per sequence that are cached before the pass.
    head_len
        Positions per sequence that go through the LM head; all new ones if None.
    matmul_len
        Positions per sequence that matrices multiply, where an engine pads the pass to a captured
        size; `query_len` if None. Attention and state do not see the padding.
    settled
        Whether all new positions are accepted already, as where a drafter reads them again, so
        that recurrent state is kept behind the last one only. False in a verification.

    Raises
    ------
    OptionError
        For anything but real numbers within bounds (`specroof.units.BOUNDS`), a `head_len` above
        `query_len` or a `matmul_len` below, and arrays that do not broadcast.

    Examples
    --------
    >>> verify = ForwardPass(batch_size=[1, 8], query_len=4, context_len=4096)
    >>> verify.tokens
    array([ 4., 32.])
    """

    batch_size: Array
    query_len: Array
    context_len: Array
    head_len: Array
    matmul_len: Array
    settled: bool

    def __init__(
        self,
        batch_size: npt.ArrayLike,
        query_len: npt.ArrayLike,
        context_len: npt.ArrayLike,
        head_len: npt.ArrayLike | None = None,
        matmul_len: npt.ArrayLike | None = None,
        *,
        settled: bool = False,
    ) -> None:
        given = {
            "batch_size": batch_size,
            "query_len": query_len,
            "context_len": context_len,
            "head_len": query_len if head_len is None else head_len,
            "matmul_len": query_len if matmul_len is None else matmul_len,
        }
        for name, value in given.items():
            object.__setattr__(self, name, array_within(name, value, _PASS_QUANTITIES[name]))
        object.__setattr__(self, "settled", settled)
        self._check_shapes()
        expect("settled", settled, bool, "True or False")
        self._require("head_len", self.head_len <= self.query_len, "at most query_len")
        self._require("matmul_len", self.matmul_len >= self.query_len, "at least query_len")

    def _check_shapes(self) -> None:
        shapes = {name: getattr(self, name).shape for name in _PASS_QUANTITIES}
        try:
            np.broadcast_shapes(*shapes.values())
        except ValueError:
            said = ", ".join(f"{name} {shape}" for name, shape in shapes.items() if shape)
            refuse("the shape of a pass", said, "arrays that broadcast against each other")

    def _require(self, name: str, good: npt.NDArray[np.bool_], allowed: str) -> None:
        if not good.all():
            refuse(name, getattr(self, name).tolist(), f"numbers of {allowed}")

    @property
    def tokens(self) -> Array:
        """New positions of the whole batch."""
        return np.asarray(self.batch_size * self.query_len)

    @property
    def matmul_tokens(self) -> Array:
        """Positions that every matrix of a layer multiplies: the new ones, and any padding."""
        return np.asarray(self.batch_size * self.matmul_len)

    @property
    def head_tokens(self) -> Array:
        """Positions that the LM head multiplies; padded, where all new positions go through it."""
        padding = np.where(self.head_len == self.query_len, self.matmul_len, self.head_len)
        return np.asarray(self.batch_size * padding)


@dataclass(frozen=True, slots=True, eq=False)
class Collective:
    """What devices exchange after a block.

    Parameters
    ----------
    block
        ``"attention"``, ``"feed_forward"`` or ``"experts"``.
    message_bytes
        The block's output over the whole batch: tokens x hidden size x activation bytes.
    copies
        Devices that a token is sent to when experts are spread out: top-k, else 1.
    """

    block: str
    message_bytes: Array
    copies: int = 1


@dataclass(frozen=True, slots=True, eq=False)
class OpCost:
    """What one operation of a pass costs, before any hardware: work and bytes, apart.

    Arrays keep the shape that their formula gives them: what does not depend on the context is
    not expanded along it. All amounts are for one of `count` identical operations, over the whole
    batch and all devices.

    Parameters
    ----------
    name
        Block and role, such as ``"attention.q_proj"``.
    kind
        ``"dense"``, ``"experts"``, ``"attention"``, ``"latent_attention"``, ``"indexer"``,
        ``"state"``, ``"convolution"``, ``"compressor"``, ``"residual"``, ``"router"`` or
        ``"head"``.
    count
        Identical operations in the pass.
    flops
        Arithmetic, FLOP; a multiply-add is two.
    weight_bytes
        Weights read, block scales included.
    cache_bytes
        Cached keys, values, index keys and recurrent state, read and written.
    activation_bytes
        Logits written. Other activations are left out: see `specroof.cost.base`.
    compute_dtype
        The dtype of the arithmetic.
    shard
        How it divides over devices.
    rows, groups
        Of a grouped matmul (experts): expected tokens per expert that is hit, and experts hit.
    experts
        Of the same: experts that routing picks from, and those that every token visits.
    collective
        What devices exchange after it, if it ends a block.
    sequences
        How many sequences have this cost each; None where the amounts are of the whole batch.
    """

    name: str
    kind: str
    count: int
    flops: Array
    weight_bytes: Array
    cache_bytes: Array
    activation_bytes: Array
    compute_dtype: str
    shard: Shard = TENSOR
    rows: Array | None = None
    groups: Array | None = None
    experts: tuple[int, int] | None = None
    collective: Collective | None = None
    sequences: Array | None = None

    @property
    def memory_bytes(self) -> Array:
        """All bytes moved."""
        return np.asarray(self.weight_bytes + self.cache_bytes + self.activation_bytes)

    @property
    def intensity(self) -> Array:
        """FLOP per byte moved."""
        moved = self.memory_bytes
        return np.asarray(self.flops / np.where(moved > 0, moved, np.inf))


@dataclass(frozen=True, slots=True, eq=False)
class Setting:
    """What every formula of a pass may look at, besides the block that it counts.

    Parameters
    ----------
    forward
        The pass.
    options
        The choices.
    kv_dtype, state_dtype, activation_dtype
        Of cached keys and values, of recurrent state, of activations and attention arithmetic;
        the config's, unless `options` override them.
    expert_locality
        Exponents of the locality of routing, along a sequence and across the batch; see
        `specroof.cost.experts.independent_tokens`.
    """

    forward: ForwardPass
    options: Options
    kv_dtype: str
    state_dtype: str
    activation_dtype: str
    expert_locality: tuple[float, float] | None = None


def matmul_flops(multiply_adds: npt.ArrayLike) -> Array:
    """Return the FLOP of `multiply_adds`: two each.

    Source
        The convention of every accelerator's datasheet; Kaplan et al. 2020, arXiv:2001.08361.

    Examples
    --------
    >>> float(matmul_flops(4096 * 4096))  # one token through a square projection
    33554432.0
    """
    return _FLOPS_PER_MULTIPLY_ADD * np.asarray(multiply_adds, dtype=np.float64)


# --- How a cached value lies in memory: bytes per element, latent, index key and V4 entry --------


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


# --- Matrices that every token meets: projections, dense feed-forward, router, LM head -----------
# Ignores
#     Activations that a matmul reads and writes, but for the logits: a fused engine keeps most of
#     them on the chip. Counted in full they would add ``2 (in + out) t`` bytes to
#     ``2 in out`` of bf16 weights: 1% at 20 tokens and a width of 4 096, and above a thousand
#     tokens, where they would weigh, arithmetic is the bound. Queries of attention are left out
#     for the same reason.


def linear_cost(linear: Linear, *, tokens: Array, block: str, count: int) -> OpCost:
    r"""Return the cost of one matrix for `tokens` positions.

    .. math:: F = 2 \, d_{in} d_{out} \, t / g \qquad M = b \, d_{in} d_{out} / g

    Counts
        each weight once per pass, whatever the number of tokens; block scales.
    Ignores
        biases (one element per row of thousands) and activations (see the module).
    Source
        Kaplan et al. 2020, arXiv:2001.08361, table 1 (2 FLOP per weight and token).

    Examples
    --------
    >>> q_proj = Linear("q_proj", 4096, 4096)
    >>> op = linear_cost(q_proj, tokens=np.array([1.0, 8.0]), block="attention", count=32)
    >>> op.flops, float(op.weight_bytes)
    (array([3.35544320e+07, 2.68435456e+08]), 33554432.0)
    """
    return OpCost(
        name=f"{block}.{linear.name}",
        kind=linear.kind,
        count=count,
        flops=matmul_flops(linear.matrix_params * tokens),
        weight_bytes=np.asarray(linear.matrix_params * linear.weight.element_bytes),
        cache_bytes=np.zeros(()),
        activation_bytes=np.zeros(()),
        compute_dtype=linear.weight.compute_dtype,
        shard=linear.shard,
    )


def logit_bytes(vocab_size: int, positions: Array) -> Array:
    r"""Return the bytes of the logits that a pass writes, in float32.

    .. math:: M = 4 \, V \, t

    Ignores
        the sampler, which reads them again: as much once more.
    Source
        Engines sample from float32 logits (vLLM ``LogitsProcessor``, SGLang ``Sampler``).

    Examples
    --------
    >>> float(logit_bytes(248_320, np.array(2048.0))) / 1e9  # GB
    2.03423744
    """
    return np.asarray(4.0 * vocab_size * positions)
