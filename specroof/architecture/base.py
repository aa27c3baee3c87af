"""Matrices, a pass over them, and the cost of an operation: what every kind of core builds on."""

import math
from abc import ABC, abstractmethod
from collections.abc import Hashable
from dataclasses import dataclass, field
from itertools import chain
from typing import Annotated, Any, Final, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from specroof.arrays import Array, BoolArray, array_within, whole_within
from specroof.errors import expect, expect_word, refuse
from specroof.units import DTYPE_BYTES, Bounds, dtype_bytes

# --- Matrices: how their weights are stored, how they divide over devices ------------------------

#: More devices than anything is ever split over: "divides without end".
_UNLIMITED: Final = 1 << 30


@dataclass(frozen=True, slots=True)
class WeightFormat:
    """How weights are stored, and which arithmetic multiplies them.

    Parameters
    ----------
    name
        What people call it, such as ``"mxfp4"``.
    element_bytes
        Bytes of one weight, its share of the block scales included.
    compute_dtype
        The dtype of `specroof.units.DTYPE_BYTES` at whose peak the matmul runs. Weight-only
        formats name the dtype of the activations.
    parts
        Bytes of one weight and share of the weights, for each of several formats that
        `element_bytes` is the mean of; empty for one.
    block
        Outputs and inputs that share a scale, of blocks in both; 0 and 0 for none.
    """

    name: str
    element_bytes: float
    compute_dtype: str
    parts: tuple[tuple[float, float], ...] = field(default=(), repr=False)
    block: tuple[int, int] = field(default=(0, 0), repr=False)


BF16: Final = WeightFormat("bf16", 2.0, "bf16")
# Engines multiply the few float32 matrices on tensor cores (tf32 or bf16), not at the vector rate.
FP32: Final = WeightFormat("fp32", 4.0, "bf16")

#: Formats by name, as the command line spells them. Scales: MXFP4 and MXFP8 one E8M0 byte per 32
#: weights; NVFP4 one E4M3 byte per 16; FP8 blocks one float32 per 128 x 128; INT4 one bf16 scale
#: per 128 (OCP Microscaling v1.0; NVIDIA NVFP4; DeepSeek-V3 report, section 3.3; AWQ).
WEIGHT_FORMATS: Final[dict[str, WeightFormat]] = {
    form.name: form
    for form in (
        BF16,
        FP32,
        WeightFormat("fp16", 2.0, "fp16"),
        WeightFormat("fp8", 1.0, "fp8"),
        WeightFormat("fp8-block", 1.0 + 4 / 16384, "fp8", block=(128, 128)),
        WeightFormat("mxfp8", 1.0 + 1 / 32, "fp8"),
        WeightFormat("int8", 1.0, "int8"),
        WeightFormat("fp4", 0.5, "fp4"),
        WeightFormat("mxfp4", 0.5 + 1 / 32, "fp4"),
        WeightFormat("nvfp4", 0.5 + 1 / 16, "fp4"),
        WeightFormat("int4", 0.5 + 2 / 128, "bf16"),
    )
}

#: Mixes of formats by the kind of file that has them, of llama.cpp and of MLX:
#: `specroof.architecture.mixes` knows which tensor has which.
MIXES_BY_FILE: Final = {
    "gguf": (
        *("q8_0", "q6_k", "q5_k_m", "q5_k_s", "q5_1", "q5_0", "ud-q4_k_xl"),
        *("q4_k_m", "q4_k_s", "q4_1", "q4_0"),
        *("iq4_nl", "iq4_xs", "q3_k_l", "q3_k_m", "q3_k_s", "iq3_m", "iq3_s", "iq3_xs", "iq3_xxs"),
        *("q2_k", "q2_k_s", "iq2_m", "iq2_s", "iq2_xs", "iq2_xxs", "iq1_m", "iq1_s", "mxfp4_moe"),
    ),
    "mlx": (
        *("mlx-2bit", "mlx-3bit", "mlx-4bit", "mlx-5bit", "mlx-6bit", "mlx-8bit"),
        *("mlx-mxfp4", "mlx-nvfp4", "mlx-mxfp8"),
    ),
}
WEIGHT_MIXES: Final = tuple(chain.from_iterable(MIXES_BY_FILE.values()))
#: What there is to say about mixes whose rules nobody publishes.
STAND_IN_MIXES: Final = {
    "ud-q4_k_xl": (
        "a recipe of its own for each model: this stand-in takes 2 to 5 % less than published files "
        "of Qwen3.5 up to 35B, and 8 % more than that of 122B; a .gguf file says what it has"
    ),
}


@dataclass(frozen=True, slots=True)
class Shard:
    """Over how many devices, at most, each part of an operation divides.

    Parameters
    ----------
    group
        ``"attention"``: divides over a tensor-parallel group, and sequences over the
        data-parallel groups of attention; ``"feed_forward"``: divides over all devices.
    compute_ways, weight_ways, cache_ways
        The most devices that arithmetic, weights and cached bytes are split over; 1 means that
        every device of the group repeats them.
    """

    group: str
    compute_ways: int = _UNLIMITED
    weight_ways: int = _UNLIMITED
    cache_ways: int = _UNLIMITED


#: Feed-forward matrices, experts and the vocabulary-parallel head.
TENSOR: Final = Shard("feed_forward")
#: Query-side projections: split by heads, whose number tensor parallelism must divide.
HEADS: Final = Shard("attention")
#: Down-projections to a latent, the indexer: every device of the group runs all of it.
ATTENTION_REPLICATED: Final = Shard("attention", 1, 1, 1)
#: The router: a few rows, computed by everybody.
FEED_FORWARD_REPLICATED: Final = Shard("feed_forward", 1, 1, 1)


def by_kv_heads(n_kv_heads: int) -> Shard:
    """Return the shard of key and value projections: beyond `n_kv_heads` devices they repeat."""
    return Shard("attention", n_kv_heads, n_kv_heads, n_kv_heads)


def cache_only(cache_ways: int) -> Shard:
    """Return the shard of attention itself: arithmetic by query heads, the cache over fewer."""
    return Shard("attention", cache_ways=cache_ways)


@dataclass(frozen=True, slots=True)
class Linear:
    """One matrix that every token (or every verified position) is multiplied by.

    Parameters
    ----------
    name
        Its role, such as ``"q_proj"``.
    in_features, out_features
        Widths, so that one token costs ``2 * in_features * out_features / groups`` FLOP.
    weight
        Storage format and arithmetic.
    shard
        How it divides over devices.
    kind
        ``"dense"``, ``"router"``, ``"compressor"``, ``"residual"``, ``"mixing"`` or ``"head"``:
        what a count of operations may leave out.
    groups
        Blocks of a block-diagonal matrix.
    bias
        Whether `out_features` bias elements are stored beside it (stored, not computed with).
    """

    name: str
    in_features: int
    out_features: int
    weight: WeightFormat = BF16
    shard: Shard = HEADS
    kind: str = "dense"
    groups: int = 1
    bias: bool = False

    @property
    def matrix_params(self) -> int:
        """Elements of the matrix."""
        return self.in_features * self.out_features // self.groups

    @property
    def n_params(self) -> int:
        """Elements of the matrix and its bias."""
        return self.matrix_params + (self.out_features if self.bias else 0)

    @property
    def stored_bytes(self) -> float:
        """Bytes in a checkpoint, block scales included."""
        return self.matrix_params * self.weight.element_bytes + (
            self.out_features * dtype_bytes("bf16") if self.bias else 0.0
        )


#: Everywhere, always: a multiply-add is two.
_FLOPS_PER_MULTIPLY_ADD: Final = 2.0

# --- How a kernel of attention reads the cache for several new positions -------------------------

#: Once for all new positions; once for each; once, but with the cache of a sequence not split over
#: the chip; as a prompt's, with cached latents expanded to keys and values of every head.
READINGS: Final = ("once", "per-position", "unsplit", "prefill")

#: Accepted positions that a drafter may read again; a longer pass of accepted ones is a prompt's.
_LONGEST_REREAD: Final = 64


@dataclass(frozen=True, slots=True)
class CacheReading:
    """How a kernel reads the cache in a pass of several new positions per sequence.

    Parameters
    ----------
    kind
        One of `READINGS`.
    once_at
        Numbers of new positions for which it reads the cache once all the same.
    tile
        Of a kernel that does not split the cache of a sequence, or takes it as a prompt's: query
        rows of a thread block, which multiplies as many, whatever part of them is used.
    packed
        Of such a kernel: whether a thread block takes all query heads that share a KV head.
    spread
        Whether each device has a part of the context, so that devices exchange queries and outputs.
    """

    kind: Annotated[str, READINGS] = "once"
    once_at: tuple[int, ...] = (1,)
    tile: int = 1
    packed: bool = False
    spread: bool = False

    @property
    def of_chosen(self) -> "CacheReading":
        """How entries that an indexer chose are read: once, wherever they are."""
        return CacheReading(spread=self.spread)


#: Elements and bytes of the blocks that llama.cpp stores weights and caches in.
#:
#: Source
#:     llama.cpp in llama-cpp-python 0.3.36, ``ggml/src/ggml-common.h``, and ``kv_cache_types`` of
#:     ``common/arg.cpp``.
CACHE_BLOCKS: Final = {
    "q8_0": (32, 34),
    "q5_1": (32, 24),
    "q5_0": (32, 22),
    "q4_1": (32, 20),
    "q4_0": (32, 18),
    "iq4_nl": (32, 18),
}

#: The values that each choice of `Options` may take (None besides, where that is the default).
CHOICES: Final[dict[str, tuple[str, ...]]] = {
    "granularity": ("op", "dtype", "pass"),
    "experts": ("exact", "replacement"),
    "count": ("all", "attention+ffn"),
    "recurrent_state": ("snapshot", "snapshot-copy", "read-write", "read", "replay"),
    "state_dtype": tuple(DTYPE_BYTES),
    "kv_dtype": (*DTYPE_BYTES, *CACHE_BLOCKS),
    "index_dtype": tuple(DTYPE_BYTES),
    "weight_dtype": (*WEIGHT_FORMATS, *WEIGHT_MIXES),
    "v4_attention": ("shared-kv", "mla-like"),
    "cost_of": ("decode", "verify"),
    "verify_attention": READINGS,
}

_LAYERS: Final = Bounds(0, 65536, whole=True)
#: Choices that the config, or the engine, makes by default.
_MAY_BE_NONE: Final = {
    *("experts", "recurrent_state", "state_dtype", "kv_dtype", "index_dtype", "weight_dtype"),
    "verify_attention",
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
        `specroof.architecture.recurrent.state_passes`. None for the engine's way, else
        ``"snapshot"``.
    state_dtype, kv_dtype, weight_dtype
        Override the config: recurrent state, cached keys and values, stored weights. Weights may
        be a mix of formats, as a file of llama.cpp or MLX has it, in capitals or not.
    index_dtype
        Keys of DeepSeek's indexer (V3.2 and its kin, V4), and the arithmetic on them. None for
        the dtype of the cache; servers keep them in fp8: `specroof.latency.setup.served_options`.
    v4_attention
        DeepSeek-V4: ``"shared-kv"``, one 512-wide vector as key and value, or ``"mla-like"``
        (1 088 multiply-adds and 576 elements per entry, as two published estimators count).
    cost_of
        What a drafter's share is a share of: the plain ``"decode"`` step, or the ``"verify"``
        pass of the same round.
    strict_dtype
        Refuse a chip that lacks a dtype, where the next wider one would stand in.
    verify_attention
        How a verification reads the target's cache, one of `READINGS`; None for what the server
        chooses on the chip: see `specroof.latency.setup.attention_reading`. No effect on the ideal
        engine.
    n_cpu_moe
        Layers, the first ones, whose experts lie in the memory of the host and are multiplied by
        its CPU, as llama.cpp can have them; drafters stay on the device.

    Raises
    ------
    OptionError
        For a value that `CHOICES` does not list, or layers that no model has.
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
    verify_attention: str | None = None
    n_cpu_moe: int = 0

    def __post_init__(self) -> None:
        if isinstance(self.weight_dtype, str):  # files are called Q4_K_M
            object.__setattr__(self, "weight_dtype", self.weight_dtype.casefold())
        for name, allowed in CHOICES.items():
            value = getattr(self, name)
            if value is None and name in _MAY_BE_NONE:
                continue
            expect_word(name, value, allowed)
        expect("strict_dtype", self.strict_dtype, bool, "True or False")
        whole_within("n_cpu_moe", self.n_cpu_moe, _LAYERS)

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
        given = (batch_size, query_len, context_len, head_len, matmul_len)
        for (name, quantity), value in zip(_PASS_QUANTITIES.items(), given, strict=True):
            is_left_out = value is None and name in {"head_len", "matmul_len"}
            fitting = self.query_len if is_left_out else array_within(name, value, quantity)
            object.__setattr__(self, name, fitting)
        object.__setattr__(self, "settled", settled)
        arrays = {name: getattr(self, name) for name in _PASS_QUANTITIES}
        try:
            np.broadcast(*arrays.values())
        except ValueError:
            shapes = {name: array.shape for name, array in arrays.items()}
            given_shapes = ", ".join(f"{name} {shape}" for name, shape in shapes.items() if shape)
            refuse("the shape of a pass", given_shapes, "arrays that broadcast against each other")
        expect("settled", settled, bool, "True or False")
        if head_len is not None and not (self.head_len <= self.query_len).all():
            refuse("head_len", self.head_len.tolist(), "numbers of at most query_len")
        if matmul_len is not None and not (self.matmul_len >= self.query_len).all():
            refuse("matmul_len", self.matmul_len.tolist(), "numbers of at least query_len")

    @property
    def size(self) -> int:
        """How many passes these are."""
        return np.broadcast(*[getattr(self, name) for name in _PASS_QUANTITIES]).size

    @property
    def key(self) -> tuple[Hashable, ...]:
        """What tells it from another pass: its shapes and numbers."""
        arrays = [getattr(self, name) for name in _PASS_QUANTITIES]
        return self.settled, *[(array.shape, array.tobytes()) for array in arrays]

    @property
    def tokens(self) -> Array:
        """New positions of the whole batch."""
        return np.asarray(self.batch_size * self.query_len)

    @property
    def matmul_tokens(self) -> Array:
        """Positions that every matrix of a layer multiplies: the new ones, and any padding."""
        return np.asarray(self.batch_size * self.matmul_len)


@dataclass(frozen=True, slots=True, eq=False)
class BlockExchange:
    """What devices exchange after a block.

    Parameters
    ----------
    block
        ``"attention"``, ``"feed_forward"`` or ``"experts"``; ``"context"`` for an exchange within
        attention.
    message_bytes
        The block's output over the whole batch: tokens x hidden size x activation bytes. Of a
        context, what each device has in the end, or sends.
    copies
        Experts that a token visits, each perhaps on another device; 1 without experts.
    dispatch_frac
        Bytes of a token on its way to an expert, as a share of those of its result.
    """

    block: str
    message_bytes: Array
    copies: int = 1
    dispatch_frac: float = 1.0


@dataclass(frozen=True, slots=True, eq=False)
class ContextExchange:
    """What devices exchange for attention if each caches a part of the context.

    Parameters
    ----------
    merged_bytes
        All queries to every device, and partial outputs with their sums of exponents to the
        devices of their heads: of all heads and the whole batch.
    cached_bytes
        The cached context of the whole batch.
    gathers
        Where a kernel takes the cached context whole, as that of a prompt, so that it is what
        devices gather.
    """

    merged_bytes: Array
    cached_bytes: Array
    gathers: npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class Routing:
    """How the tokens of a pass pick experts.

    Parameters
    ----------
    n_experts, top_k
        Experts, and how many of them a token visits.
    n_shared
        Experts in the same grouped matmul that every token visits.
    tokens
        Tokens whose independent choices hit as many experts as those of the pass.
    hit
        Expected number of distinct experts that are hit, the shared ones included.
    """

    n_experts: int
    top_k: int
    n_shared: int
    tokens: Array
    hit: Array


@dataclass(frozen=True, slots=True, eq=False)
class PickedKeys:
    """What attention to keys that an indexer picked has to do with its heads.

    Parameters
    ----------
    kernel
        The name by which an engine has its timed kernels: the format of the cache, or that of the
        core where it has kernels of its own.
    n_heads
        Query heads.
    slots
        How many times the arithmetic a kernel does that takes as many keys for each query as may
        be picked, whether there are so many or not.
    all_seen
        Where no query sees more keys than may be picked: a prompt needs no index there.
    """

    kernel: str
    n_heads: int
    slots: Array
    all_seen: BoolArray


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
        ``"state"``, ``"convolution"``, ``"compressor"``, ``"residual"``, ``"mixing"``,
        ``"router"`` or ``"head"``; once the kernels are known, ``"unsplit_attention"`` too.
    count
        Identical operations in the pass.
    flops
        Arithmetic, FLOP; a multiply-add is two.
    weight_bytes
        Weights read, block scales included.
    cache_bytes
        Cached keys, values, index keys and recurrent state, read and written.
    activation_bytes
        Logits written. Other activations are left out: see `specroof.architecture.base`.
    compute_dtype
        The dtype of the arithmetic.
    shard
        How it divides over devices.
    rows
        Rows that a matrix multiplies: tokens, and of a grouped matmul (experts) the expected tokens
        per expert that is hit. None of an operation without a matrix.
    routing
        How tokens pick experts; None of all but a grouped matmul.
    collective
        What devices exchange after it, if it ends a block.
    sequences
        How many sequences have this cost each; None where the amounts are of the whole batch.
    blocks
        Thread blocks that do all of it, over all devices, where a kernel does not split the cache
        of a sequence; infinitely many where it does. None if it always does.
    tiles
        How many of these blocks read the same: one for each tile of query rows.
    context
        What devices exchange within it, if each caches a part of the context.
    on_host
        Whether the host's CPU does it, from the host's memory.
    weight_parts
        Bytes of one weight and share of the weights, where they are of several formats.
    outputs
        Outputs of a matrix, which kernels deal out to thread blocks; infinitely many where they are
        more than enough for any device.
    weight
        Name of the format of the weights; empty of an operation whose kernel it does not decide.
    picked
        Of attention to keys that an indexer picked; None of all else.
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
    routing: Routing | None = None
    collective: BlockExchange | None = None
    sequences: Array | None = None
    blocks: Array | None = None
    tiles: npt.ArrayLike = 1.0
    context: ContextExchange | None = None
    on_host: bool = False
    weight_parts: tuple[tuple[float, float], ...] = ()
    outputs: float = math.inf
    weight: str = ""
    picked: PickedKeys | None = None

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
class PassSettings:
    """The pass, the options and the dtypes: what the formulas of every core take.

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
        `specroof.architecture.experts.independent_tokens`.
    reading
        How the kernel of attention reads the cache.
    """

    forward: ForwardPass
    options: Options
    kv_dtype: str
    state_dtype: str
    activation_dtype: str
    expert_locality: tuple[float, float] | None = None
    reading: CacheReading = CacheReading()

    @property
    def reads_apart(self) -> npt.NDArray[np.bool_]:
        """Where the pass has several new positions, and more than its kernel reads once for."""
        new = self.forward.query_len
        several: npt.NDArray[np.bool_] = np.logical_and.reduce(
            [new != length for length in self.reading.once_at]
        )
        return several & (new <= _LONGEST_REREAD) if self.forward.settled else several

    @property
    def gathers_context(self) -> npt.NDArray[np.bool_]:
        """Where latents are expanded as a prompt's are: every device has to have all of them."""
        of_prompts = self.forward.query_len > _LONGEST_REREAD
        of_prompts = of_prompts if self.forward.settled else np.zeros((), dtype=bool)
        return of_prompts | self.reads_apart if self.reading.kind == "prefill" else of_prompts

    @property
    def cache_passes(self) -> Array:
        """How often the cached context is read."""
        if self.reading.kind != "per-position":
            return np.ones(())
        return np.where(self.reads_apart, self.forward.query_len, 1.0)


def core_op(
    setting: PassSettings,
    name: str,
    kind: str,
    *,
    flops: Array,
    cache_bytes: Array,
    shard: Shard,
    **more: Any,
) -> OpCost:
    """Return an operation of a core in one layer, in the arithmetic of activations: no weights.

    Parameters
    ----------
    setting
        The pass.
    name, kind, flops, cache_bytes, shard, more
        As of `OpCost`.

    Source
        Counting, by the caller.

    Examples
    --------
    >>> setting = PassSettings(ForwardPass(1, 1, 0), Options(), "bf16", "fp32", "bf16")
    >>> flops, moved = np.array(2.0), np.array(8.0)
    >>> op = core_op(setting, "core", "state", flops=flops, cache_bytes=moved, shard=HEADS)
    >>> float(op.memory_bytes), op.compute_dtype
    (8.0, 'bf16')
    """
    nothing = np.zeros(())
    dtype = setting.activation_dtype
    return OpCost(name, kind, 1, flops, nothing, cache_bytes, nothing, dtype, shard, **more)


# --- What every kind of core answers -------------------------------------------------------------

#: Classes of kernels that run a core: what a framework does with one is written down by them.
KERNELS: Final = (
    *("heads", "latent", "sparse_latent", "compressed", "block_sparse"),
    *("delta_net", "kimi_delta", "mamba2", "selective_scan", "lightning", "short_convolution"),
    "experts",
)
#: Of cores that cache a latent for all heads, attended whole or in part.
LATENT_KERNELS: Final = frozenset(("latent", "sparse_latent"))


class Heads(NamedTuple):
    """Heads of queries, heads of cached keys and values, and how wide a key is; 0 without heads."""

    n_heads: int = 0
    n_kv_heads: int = 0
    head_dim: int = 0


class CacheDtypes(NamedTuple):
    """dtypes of cached keys and values, of an indexer's keys, of states, of convolutions."""

    kv_dtype: str
    index_dtype: str
    state_dtype: str
    activation_dtype: str


@dataclass(frozen=True, slots=True, eq=False)
class Kept:
    """What a core keeps of one sequence in one layer.

    Parameters
    ----------
    shard
        How it divides over devices.
    cache_bytes
        Of the cached context, keys of an indexer included.
    repeated_bytes
        What of that every device keeps.
    state_bytes
        What does not grow with the context.
    """

    shard: Shard
    cache_bytes: Array | float = 0.0
    repeated_bytes: Array | float = 0.0
    state_bytes: float = 0.0


class Core(ABC):
    """What a block does besides multiplying by its matrices, and all that is asked about it.

    Nothing has a default: a kind that leaves an answer out cannot be made.
    """

    __slots__ = ()

    @property
    @abstractmethod
    def label(self) -> str:
        """The name of its kind, with which names of its operations begin."""

    @property
    @abstractmethod
    def kernel(self) -> str:
        """The class of kernels that runs it, of `KERNELS`."""

    @property
    @abstractmethod
    def overhead_kinds(self) -> tuple[str, ...]:
        """Layer kinds for which engines charge an overhead: see `LAYER_KINDS` of hardware."""

    @property
    @abstractmethod
    def heads(self) -> Heads:
        """Its heads; those of queries are what the devices of a group must divide."""

    @property
    @abstractmethod
    def causal(self) -> bool:
        """Whether a new position sees those before it alone."""

    @property
    @abstractmethod
    def cache_kind(self) -> Literal["tokens", "state", "nothing"]:
        """``"tokens"``, each of which may be looked at, a ``"state"``, or ``"nothing"``."""

    @property
    @abstractmethod
    def window_len(self) -> int:
        """Tokens at which its cache stops growing; 0 where it never does, or has none."""

    @property
    @abstractmethod
    def by_sequence(self) -> bool:
        """Whether the cost of a sequence does not depend on the rest of the batch.

        `costs` are then those of one sequence, as many times as there are.
        """

    @property
    @abstractmethod
    def replayed(self) -> tuple[int, int]:
        """Elements that a token leaves so that a state can be replayed: in bf16, in float32."""

    @property
    @abstractmethod
    def n_params(self) -> int:
        """Stored elements."""

    @property
    @abstractmethod
    def stored_bytes(self) -> float:
        """Bytes in a checkpoint."""

    @abstractmethod
    def costs(self, setting: PassSettings) -> list[OpCost]:
        """Return its operations in a pass, in order."""

    @abstractmethod
    def kept(self, context_len: Array, dtypes: CacheDtypes) -> Kept:
        """Return what it keeps of a sequence of `context_len` tokens; asked of those that do."""


class SoftmaxAttention(Core):
    """Softmax over cached tokens: each sequence alone, without a state or weights of its own."""

    __slots__ = ()

    by_sequence = True
    replayed = (0, 0)
    n_params = 0
    stored_bytes = 0.0

    @property
    def cache_kind(self) -> Literal["tokens", "nothing"]:
        """What of a sequence it keeps."""
        return "tokens"


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


# One scale per block of cached elements, where a layout has scales.
_FP4_BLOCK = 16


def cache_element_bytes(dtype: str) -> float:
    """Return the bytes of one cached key or value element.

    Counts
        for fp4 one scale byte per 16 elements; fp8 caches carry one scale per layer; the scales
        of llama.cpp's blocks.
    Source
        SGLang memory pool, ``KVFP4QuantizeUtil`` (16-element scales); vLLM ``--kv-cache-dtype``;
        `CACHE_BLOCKS`.

    Examples
    --------
    >>> cache_element_bytes("bf16"), cache_element_bytes("fp8"), cache_element_bytes("fp4")
    (2.0, 1.0, 0.5625)
    >>> cache_element_bytes("q8_0")  # 32 bytes and a scale of two
    1.0625
    """
    if dtype in CACHE_BLOCKS:
        elements, block_bytes = CACHE_BLOCKS[dtype]
        return block_bytes / elements
    return dtype_bytes(dtype) + (1 / _FP4_BLOCK if dtype == "fp4" else 0.0)


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
        rows=tokens,
        weight_parts=linear.weight.parts,
        outputs=linear.out_features,
    )
