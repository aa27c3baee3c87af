"""The whole pass: every block of every distinct layer, and the head."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final

import numpy as np
import numpy.typing as npt

from specroof.architecture.base import (
    ATTENTION_REPLICATED,
    HEADS,
    TENSOR,
    WEIGHT_FORMATS,
    BlockExchange,
    CacheDtypes,
    CacheReading,
    Core,
    ForwardPass,
    Kept,
    OpCost,
    Options,
    PassSettings,
    Routing,
    Shard,
    linear_cost,
)
from specroof.architecture.model import Architecture
from specroof.architecture.recurrent import replay_token_bytes
from specroof.arrays import Array
from specroof.errors import expect
from specroof.units import dtype_bytes

# --- Two batches in one pass: matrices are read once for the tokens of both, attention runs
#     apart


def joined_costs(first: Sequence[OpCost], second: Sequence[OpCost]) -> tuple[list[OpCost], ...]:
    """Return what one pass over two batches of a model costs.

    Parameters
    ----------
    first, second
        Operations of each batch alone, from `specroof.cost.forward_cost`.

    Returns
    -------
    tuple of lists of OpCost
        What runs over the tokens of both, and what runs for the first and for the second alone.

    Counts
        the weights of a matrix once; the experts that either batch visits; attention, states and
        caches of each batch.
    Source
        vLLM and SGLang flatten chunks of prompts and decoded tokens into one row of tokens;
        Agrawal et al. 2024, arXiv:2403.02310, section 4.2.

    Examples
    --------
    >>> def up(tokens):
    ...     weights, zero = np.array(64.0), np.zeros(())
    ...     return OpCost("up_proj", "dense", 1, 64 * tokens, weights, zero, zero, "bf16")
    >>> ((op,), alone, beside) = joined_costs([up(np.array(2.0))], [up(np.array(6.0))])
    >>> float(op.flops), float(op.weight_bytes), alone, beside  # 8 tokens, one matrix
    (512.0, 64.0, [], [])
    """
    both, alone, beside = [], [], []
    for op, other in zip(first, second, strict=True):
        exchange = None
        if op.collective is not None and other.collective is not None:
            message_bytes = op.collective.message_bytes + other.collective.message_bytes
            exchange = replace(op.collective, message_bytes=np.asarray(message_bytes))
        if not np.any(op.weight_bytes > 0):
            # What devices exchange is behind both batches: it is counted once.
            alone.append(replace(op, collective=exchange))
            beside.append(replace(other, collective=None))
            continue
        weights = np.maximum(op.weight_bytes, other.weight_bytes)
        rows, routing = op.rows, op.routing
        if rows is not None and other.rows is not None:
            rows = np.asarray(rows + other.rows)
        if op.routing is not None and other.routing is not None:
            routing = joined_routing(op.routing, other.routing)
            weights = op.weight_bytes * (routing.hit / op.routing.hit)
            visits = op.routing.hit * op.rows + other.routing.hit * other.rows  # type: ignore[operator]  # with routing
            rows = visits / routing.hit
        both.append(
            replace(
                op,
                flops=np.asarray(op.flops + other.flops),
                weight_bytes=np.asarray(weights),
                cache_bytes=np.asarray(op.cache_bytes + other.cache_bytes),
                activation_bytes=np.asarray(op.activation_bytes + other.activation_bytes),
                rows=rows,
                routing=routing,
                collective=exchange,
            )
        )
    return both, alone, beside


def joined_routing(first: Routing, second: Routing) -> Routing:
    r"""Return how the tokens of two batches of a model pick experts.

    .. math:: D = E \left[ 1 - (1 - D_1 / E) (1 - D_2 / E) \right]

    Counts
        batches that are routed independently of one another.
    Source
        Counting: an expert is missed if both miss it. For top-k this is
        `specroof.architecture.experts.distinct_experts` of all tokens.

    Examples
    --------
    >>> few = Routing(n_experts=8, top_k=2, n_shared=1, tokens=np.array(1.0), hit=np.array(3.0))
    >>> more = Routing(n_experts=8, top_k=2, n_shared=1, tokens=np.array(2.4), hit=np.array(5.0))
    >>> float(joined_routing(few, more).hit)  # 1 + 8 (1 - 6/8 * 4/8)
    6.0
    """
    routed, shared = first.n_experts, first.n_shared
    missed = (routed + shared - first.hit) * (routed + shared - second.hit) / routed
    tokens = np.asarray(first.tokens + second.tokens)
    return replace(first, tokens=tokens, hit=np.asarray(routed + shared - missed))


#: Bytes of an element of a token that is sent to its experts, with its share of the scales: one of
#: four bytes for 128 elements (DeepEP, 7392 bytes of 7168 elements), or one of a byte for 16.
_DISPATCHED_BYTES: Final = {"fp8": 1 + 4 / 128, "fp4": 0.5 + 1 / 16}

#: Kinds that ``count="attention+ffn"`` keeps.
_ATTENTION_AND_FFN: Final = {
    *("dense", "experts", "attention", "latent_attention", "indexer", "state")
}


@lru_cache(maxsize=16)
def stored_as(architecture: Architecture, name: str) -> Architecture:
    """Return a model with its weights in a format, or in a mix as files have it.

    Parameters
    ----------
    architecture
        The model.
    name
        One of `WEIGHT_FORMATS`, in which projections, feed-forward and experts are then, or of
        `WEIGHT_MIXES`, which says what every tensor is in.

    Source
        `specroof.architecture.mixes`.

    Examples
    --------
    >>> from specroof.architecture.base import Linear
    >>> tiny = Architecture("tiny", "llama", 32, 64, (), head=Linear("lm_head", 32, 64))
    >>> [stored_as(tiny, name).weight_bytes for name in ("fp8", "q8_0")]  # 2 * 2048 weights
    [8192.0, 4352.0]
    """
    if name in WEIGHT_FORMATS:
        return architecture.with_weights(WEIGHT_FORMATS[name])
    # Imported here: few predictions are of such files.
    from specroof.architecture.mixes import mixed  # noqa: PLC0415

    return mixed(architecture, name)


def _as_served(architecture: Architecture, options: Options) -> Architecture:
    if options.weight_dtype is not None:
        architecture = stored_as(architecture, options.weight_dtype)
    return architecture.with_host_experts(options.n_cpu_moe) if options.n_cpu_moe else architecture


def forward_cost(
    architecture: Architecture,
    forward: ForwardPass,
    options: Options | None = None,
    *,
    expert_locality: tuple[float, float] | None = None,
    by_sequence: bool = False,
    reading: Callable[[Core], CacheReading] = lambda _core: CacheReading(),
) -> list[OpCost]:
    """Return what one pass of a model costs, operation by operation.

    Parameters
    ----------
    architecture
        The model.
    forward
        Batch, new positions and context; scalars or arrays that broadcast.
    options
        Which formulas; the defaults of `Options` if None.
    expert_locality
        How local the routing of tokens is: see `specroof.architecture.experts.independent_tokens`.
        None for independent routing; of no effect where `options` name a way to count experts.
    by_sequence
        Whether what each sequence of the batch does alone, such as attention, is counted for one
        of them (`OpCost.sequences`): over a grid, its arrays have no axis of batches then.
    reading
        How the kernel of a core reads the cache for several new positions; once for all if left
        out.

    Returns
    -------
    list of OpCost
        In the order of a layer, identical layers as one operation with a count, the head last.

    Source
        Each formula names its own; see the modules of `specroof.cost`.

    Examples
    --------
    >>> from specroof.architecture.base import Linear
    >>> from specroof.architecture.model import Block, Layer
    >>> up = Linear("up_proj", 8, 32)
    >>> tiny = Architecture(
    ...     "tiny",
    ...     "llama",
    ...     8,
    ...     100,
    ...     (Layer((Block("feed_forward", (up,)),), 2),),
    ...     head=Linear("lm_head", 8, 100, kind="head"),
    ... )
    >>> ops = forward_cost(tiny, ForwardPass(batch_size=1, query_len=1, context_len=0))
    >>> [(op.name, op.count, float(op.flops)) for op in ops]
    [('mlp.up_proj', 2, 512.0), ('lm_head', 1, 1600.0)]
    """
    expect("architecture", architecture, Architecture, "an Architecture, from load_model")
    expect("forward", forward, ForwardPass, "a ForwardPass")
    expect("options", options, Options | None, "Options, or None")
    options = options or Options()
    architecture = _as_served(architecture, options)
    setting = PassSettings(
        forward=forward,
        options=options,
        kv_dtype=options.kv_dtype or architecture.kv_dtype,
        state_dtype=options.state_dtype or architecture.state_dtype,
        activation_dtype=architecture.activation_dtype,
        expert_locality=expert_locality,
    )
    tokens = forward.matmul_tokens
    message_bytes = tokens * (architecture.hidden_size * dtype_bytes(architecture.activation_dtype))
    one_sequence = replace(forward, batch_size=np.ones(()))
    ops: list[OpCost] = []
    for count, block in architecture.counted_blocks:
        block_ops = [
            linear_cost(linear, tokens=tokens, block=block.label, count=count)
            for linear in block.linears
        ]
        if block.core is not None:
            counted, sequences = replace(setting, reading=reading(block.core)), None
            if by_sequence and block.core.by_sequence:
                counted, sequences = replace(counted, forward=one_sequence), forward.batch_size
            block_ops += [
                replace(op, name=f"{block.label}.{op.name}", count=count, sequences=sequences)
                for op in block.core.costs(counted)
            ]
        if not options.counts_all:
            block_ops = [op for op in block_ops if op.kind in _ATTENTION_AND_FFN]
        if block.norm_over_heads:
            # The sums of squares of queries and keys, in float32 (SGLang 0.5.23
            # ``models/minimax_m2.py``, vLLM 0.33.0 ``minimax_rms_norm``), behind the projections.
            squares = BlockExchange("attention", message_bytes=tokens * (2 * dtype_bytes("fp32")))
            block_ops[0] = replace(block_ops[0], collective=squares)
        if block_ops and not block.joins_next:
            # Devices exchange the output of a branch behind its last operation.
            exchange = BlockExchange(block.name, message_bytes)
            if block.experts:
                # Kernels that compute in fewer bits are sent their tokens so.
                activation_bytes = dtype_bytes(architecture.activation_dtype)
                sent_bytes = _DISPATCHED_BYTES.get(block.experts.weight.compute_dtype)
                exchange = BlockExchange(
                    block="experts",
                    message_bytes=message_bytes,
                    copies=block.experts.top_k,
                    dispatch_frac=(sent_bytes or activation_bytes) / activation_bytes,
                )
            block_ops[-1] = replace(block_ops[-1], collective=exchange)
        ops += block_ops
    if not options.counts_all and architecture.head.kind not in _ATTENTION_AND_FFN:
        return ops
    # Positions that the LM head multiplies; padded, where all new positions go through it.
    padding = np.where(forward.head_len == forward.query_len, forward.matmul_len, forward.head_len)
    positions = np.asarray(forward.batch_size * padding)
    head = linear_cost(architecture.head, tokens=positions, block="", count=1)
    head = replace(
        head,
        name=architecture.head.name,
        # A pass that needs no logits does not read the head.
        weight_bytes=(
            head.weight_bytes
            if np.all(positions > 0)
            else np.where(positions > 0, head.weight_bytes, 0.0)
        ),
        # Engines sample from float32 logits (vLLM ``LogitsProcessor``, SGLang ``Sampler``): 4 V
        # bytes a token, written; the sampler, which reads them again, is ignored.
        activation_bytes=(
            np.asarray(4.0 * architecture.head.out_features * positions)
            if options.counts_all
            else np.zeros(())
        ),
    )
    return [*ops, head]


# --- Bytes that a model takes up, weights and what each sequence caches, and how they divide -----


@dataclass(frozen=True, slots=True, eq=False)
class Storage:
    """What one part of a model keeps in memory.

    Parameters
    ----------
    weight_bytes
        Stored once.
    sequence_bytes
        Stored per sequence: cache and recurrent state.
    shard
        How both divide over devices.
    n_layers
        Layers of the model, which it is part of; 0 for what lies at its ends.
    last_frac
        Share of the ends that belongs to the last layers: the head.
    n_experts
        Experts of each layer, which devices hold whole where these are dealt out; 0 for all else.
    """

    weight_bytes: float
    sequence_bytes: Array
    shard: Shard
    n_layers: int = 0
    last_frac: float = 1.0
    n_experts: int = 0

    def stage_frac(self, stages: int) -> float:
        """Return the share of it in the last of so many stages, the fullest, with the head.

        Examples
        --------
        >>> Storage(1.0, np.zeros(()), TENSOR, n_layers=61).stage_frac(2) * 61
        31.0
        """
        return -(-self.n_layers // stages) / self.n_layers if self.n_layers else self.last_frac


def storage(
    architecture: Architecture,
    context_len: npt.ArrayLike,
    options: Options | None = None,
    *,
    input_on_host: bool = False,
) -> list[Storage]:
    """Return what a model keeps in memory, part by part, for sequences of `context_len`.

    Counts
        weights with their block scales, embedding, cache and recurrent state; no experts that lie
        in the memory of the host, nor with `input_on_host` the tables that only the input reads.
    Ignores
        activations, captured graphs and the engine's own buffers (1 to 10 GB per device), state
        snapshots of a verification, and drafters.
    Source
        See `specroof.architecture.base` for the bytes of a cached entry.

    Examples
    --------
    >>> from specroof.architecture.attention import GroupedQueryAttention
    >>> from specroof.architecture.base import Linear
    >>> from specroof.architecture.model import Block, Layer
    >>> core = GroupedQueryAttention(32, n_kv_heads=8, head_dim=128, value_dim=128)
    >>> up = Linear("up_proj", 8, 32, shard=TENSOR)
    >>> layer = Layer((Block("attention", (), core), Block("feed_forward", (up,))), count=2)
    >>> tiny = Architecture("tiny", "llama", 8, 100, (layer,), head=Linear("lm_head", 8, 100))
    >>> parts = storage(tiny, context_len=10)
    >>> sum(part.weight_bytes for part in parts)  # 2 bytes of 2 * 256 + 800 + 800 elements
    4224.0
    >>> float(sum(part.sequence_bytes for part in parts))  # 2 layers * 4096 bytes * 10 tokens
    81920.0
    """
    options = options or Options()
    architecture = _as_served(architecture, options)
    context = np.asarray(context_len, dtype=np.float64)
    nothing = np.zeros(())
    parts: list[Storage] = []
    layers = architecture.n_layers
    for count, block in architecture.stored_blocks:
        parts += [
            Storage(count * linear.stored_bytes, nothing, linear.shard, layers)
            for linear in block.matrices
        ]
        if block.core is not None and not (block.experts and block.experts.on_host):
            shard = HEADS if block.name == "attention" else TENSOR
            experts = block.experts.n_experts if block.experts else 0
            stored = count * block.core.stored_bytes
            parts.append(Storage(stored, nothing, shard, layers, n_experts=experts))
    table = architecture.table_bytes - input_on_host * architecture.input_bytes
    tied = architecture.tied_embeddings  # a tied table is needed at both ends of a pipeline
    head = 0.0 if tied else architecture.head.stored_bytes
    # Each group of attention looks up its own tokens: SGLang 0.5.23
    # ``layers/vocab_parallel_embedding.py``, ``get_embedding_tp_kwargs``.
    parts.append(Storage(table, nothing, HEADS, last_frac=float(tied)))
    parts.append(Storage(head, nothing, architecture.head.shard))
    for count, kept in _kept(architecture, context, options):
        repeated = np.asarray(kept.repeated_bytes)
        if repeated.any():
            parts.append(Storage(0.0, count * repeated, ATTENTION_REPLICATED, layers))
        divided = 0.0 * context + kept.cache_bytes + kept.state_bytes - repeated
        parts.append(Storage(0.0, np.asarray(count * divided), kept.shard, layers))
    return parts


def replay_storage(architecture: Architecture) -> list[Storage]:
    """Return what a model keeps of each drafted position so that its states can be replayed.

    Counts
        inputs of the recurrence, in the place of a copy of the state for each position.
    Ignores
        columns of short convolutions without a state behind them: 53 kB of LFM3-1.7B.
    Source
        ``--recurrent-state replay``: see `specroof.architecture.recurrent.replay_token_bytes`.

    Examples
    --------
    >>> from specroof.architecture.base import Linear
    >>> from specroof.architecture.model import Block, Layer
    >>> from specroof.architecture.recurrent import GatedDeltaNet
    >>> core = GatedDeltaNet(16, 32, key_dim=128, value_dim=128, conv_kernel=4, conv_columns=3)
    >>> layer = Layer((Block("attention", (), core),), count=3)
    >>> tiny = Architecture("tiny", "llama", 8, 100, (layer,), head=Linear("lm_head", 8, 100))
    >>> [float(part.sequence_bytes) for part in replay_storage(tiny)]  # 3 * 12544
    [37632.0]
    """
    return [
        Storage(0.0, np.asarray(count * replay_token_bytes(core)), HEADS)
        for count, core in architecture.counted_cores
        if any(core.replayed) and core.kernel != "short_convolution"
    ]


def _kept(
    architecture: Architecture, context: Array, options: Options | None
) -> Iterator[tuple[int, Kept]]:
    """Yield what each core keeps of a sequence, behind the number of layers that have it."""
    options = options or Options()
    kv_dtype = options.kv_dtype or architecture.kv_dtype
    dtypes = CacheDtypes(
        kv_dtype,
        options.index_dtype or kv_dtype,
        options.state_dtype or architecture.state_dtype,
        architecture.activation_dtype,
    )
    for count, core in architecture.counted_cores:
        if core.cache_kind != "nothing":
            yield count, core.kept(context, dtypes)


def kv_cache_bytes(
    architecture: Architecture, context_len: npt.ArrayLike, options: Options | None = None
) -> Array:
    """Return the bytes of cached keys, values and index keys of one sequence, over all layers.

    Parameters
    ----------
    architecture
        The model.
    context_len
        Cached positions.
    options
        Formats that override the config's, if any.

    Counts
        what grows with the context, and windows; not recurrent state (`state_bytes`).
    Ignores
        paging: engines round up to blocks of 16 to 256 tokens.
    Source
        See `specroof.architecture.base` for the bytes of each kind of entry.

    Examples
    --------
    >>> from specroof.architecture.attention import GroupedQueryAttention
    >>> from specroof.architecture.base import Linear
    >>> from specroof.architecture.model import Block, Layer
    >>> core = GroupedQueryAttention(32, n_kv_heads=8, head_dim=128, value_dim=128)
    >>> up = Linear("up_proj", 8, 32, shard=TENSOR)
    >>> layer = Layer((Block("attention", (), core), Block("feed_forward", (up,))), count=2)
    >>> tiny = Architecture("tiny", "llama", 8, 100, (layer,), head=Linear("lm_head", 8, 100))
    >>> float(kv_cache_bytes(tiny, 10))  # 2 layers * 2 * 8 heads * 128 * 2 bytes * 10 tokens
    81920.0
    """
    context = np.asarray(context_len, dtype=np.float64)
    total = 0.0 * context
    for count, kept in _kept(architecture, context, options):
        total = total + count * np.asarray(kept.cache_bytes)
    return np.asarray(total)


#: Tokens of a context that fills all windows.
_LONG_LEN: Final = 2.0**20


def kv_bytes_per_token(architecture: Architecture, options: Options | None = None) -> float:
    """Return the cache bytes that one more token of a long context takes.

    Windows that are full take none, and a compressed entry is shared by the tokens it stands for.

    Source
        The slope of `kv_cache_bytes` between two long contexts.

    Examples
    --------
    >>> from specroof.architecture.attention import GroupedQueryAttention
    >>> from specroof.architecture.base import Linear
    >>> from specroof.architecture.model import Block, Layer
    >>> core = GroupedQueryAttention(32, n_kv_heads=8, head_dim=128, value_dim=128)
    >>> up = Linear("up_proj", 8, 32, shard=TENSOR)
    >>> layer = Layer((Block("attention", (), core), Block("feed_forward", (up,))), count=2)
    >>> tiny = Architecture("tiny", "llama", 8, 100, (layer,), head=Linear("lm_head", 8, 100))
    >>> kv_bytes_per_token(tiny)
    8192.0
    """
    shorter, longer = kv_cache_bytes(architecture, _LONG_LEN * np.array([1, 2]), options)
    return float((longer - shorter) / _LONG_LEN)


def window_bytes(architecture: Architecture) -> float:
    """Return the cache bytes of a sequence that its length does not change: full windows.

    Source
        What is left of `kv_cache_bytes` at a long context without `kv_bytes_per_token`.

    Examples
    --------
    >>> from specroof.architecture.attention import GroupedQueryAttention
    >>> from specroof.architecture.base import Linear
    >>> from specroof.architecture.model import Block, Layer
    >>> core = GroupedQueryAttention(32, n_kv_heads=8, head_dim=128, value_dim=128, window=10)
    >>> layer = Layer((Block("attention", (), core),), count=2)
    >>> tiny = Architecture("tiny", "llama", 8, 100, (layer,), head=Linear("lm_head", 8, 100))
    >>> window_bytes(tiny)  # 2 layers * 2 * 8 heads * 128 * 2 bytes * 10 tokens
    81920.0
    """
    whole = float(kv_cache_bytes(architecture, _LONG_LEN))
    return whole - kv_bytes_per_token(architecture) * _LONG_LEN


def state_bytes(architecture: Architecture, options: Options | None = None) -> float:
    """Return the bytes of one sequence that do not grow with the context: recurrent state, rings.

    Source
        `specroof.architecture.recurrent.recurrent_state_bytes`, and the rings of DeepSeek-V4's
        compressors.

    Examples
    --------
    >>> from specroof.architecture.attention import GroupedQueryAttention
    >>> from specroof.architecture.base import Linear
    >>> from specroof.architecture.model import Block, Layer
    >>> core = GroupedQueryAttention(32, n_kv_heads=8, head_dim=128, value_dim=128)
    >>> up = Linear("up_proj", 8, 32, shard=TENSOR)
    >>> layer = Layer((Block("attention", (), core), Block("feed_forward", (up,))), count=2)
    >>> tiny = Architecture("tiny", "llama", 8, 100, (layer,), head=Linear("lm_head", 8, 100))
    >>> state_bytes(tiny)  # attention has none
    0.0
    """
    kept = _kept(architecture, np.zeros(()), options)
    return sum((count * held.state_bytes for count, held in kept), 0.0)
