"""A model in a setup: from a forward pass to what it does, and to its seconds."""

import math
from bisect import bisect_right
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import lru_cache, partial
from itertools import chain
from typing import Any, Final, Literal

import numpy as np
import numpy.typing as npt

from specroof.architecture.base import STAND_IN_MIXES, WEIGHT_FORMATS, CacheReading, Core
from specroof.architecture.experts import fullest_device
from specroof.architecture.model import Architecture
from specroof.arrays import Array, BoolArray, IntArray
from specroof.cost import (
    BlockExchange,
    ForwardPass,
    OpCost,
    Options,
    forward_cost,
    state_bytes,
    storage,
    stored_as,
)
from specroof.cost.forward import joined_costs
from specroof.errors import Note, Unfit, Urgent, expect_word
from specroof.frameworks import LOCAL_FRAMEWORKS, SpreadContext, refused_cache
from specroof.hardware.engine import LAYER_KINDS, RowKernel
from specroof.hardware.profile import GENERIC, HardwareProfile, Placement
from specroof.latency.pass_seconds import (
    AMOUNTS,
    UNSPLIT,
    Exchange,
    OpWork,
    PassLatency,
    PassShape,
    PassWork,
    Pipeline,
    Times,
    expert_kernel,
    pass_time,
    sparse_kernel,
)
from specroof.latency.setup import (
    Setup,
    attention_reading,
    device_bytes,
    divided,
    keeps_input_on_host,
    served_options,
    ways,
)
from specroof.units import (
    BOUNDS,
    dtype_bytes,
    format_binary_bytes,
    format_seconds,
    format_si,
    plain_number,
)

# --- From operations to what they do on a device at its peaks ------------------------------------

#: A context that is spread where nobody read how: as vLLM does.
_USUAL_SPREAD: Final = SpreadContext(merges=3)
#: Share of a CPU's peak in float32 that products of a few rows reach: 0.3 for 4 and 0.4 for 8 rows
#: of Q8_0 on a Zen 4 core (`benchmarks/cpu_rounds.py`).
_HOST_SHARE: Final = 0.3
#: What a count that was multiplied and divided may be off by.
_HAIR: Final = 1 + 1e-9


def pass_work(
    ops: Sequence[OpCost],
    setup: Setup,
    shape: PassShape,
    *,
    settled: bool = False,
    crowding: Array | float | None = None,
) -> PassWork:
    r"""Return what a pass does at the peaks of a device, before any engine.

    .. math:: c_i = \frac{F_i}{p_i P}, \qquad m_i = \frac{M_i}{q_i W}

    with p and q the devices that share an operation, of which one may do more than its share: see
    `CORRECTIONS`.

    Parameters
    ----------
    ops
        From `specroof.cost.forward_cost`.
    setup
        Where, and over how many devices. Of its engine one thing matters: in any but the ideal one
        the fullest device decides, in which experts and sequences are as uneven as chance and
        whole sequences make them.
    shape
        Layers and sequences, for what an engine loses around the work.
    settled
        Whether all new positions are accepted already, as those of a prompt are.
    crowding
        How many times its even share the busiest group of attention has; None for that of as many
        sequences as the shape has.

    Counts
        experts on the host at the peaks of its CPU and memory, one layer after the other, which
        devices of the placement do not share.
    Ignores
        tokens on their way to the host and back, some 20 us a layer; that llama.cpp copies the
        experts to the device for passes of 32 tokens and more.

    Raises
    ------
    ProfileError
        If the device has no arithmetic for a dtype, or with ``strict_dtype`` not just that one.

    Source
        Williams et al. 2009, CACM 52(4), "Roofline".

    Examples
    --------
    >>> from specroof.cost import Options
    >>> from specroof.hardware.engine import IDEAL_ENGINE
    >>> from specroof.hardware.profile import HardwareProfile, Peak, Placement
    >>> peak = Peak(flops_per_s={"bf16": 4.0}, memory_bytes_per_s=2.0, memory_bytes=1.0)
    >>> chip = HardwareProfile(format_version=1, name="chip", sources={}, peak=peak)
    >>> nothing = np.zeros(())
    >>> op = OpCost("up_proj", "dense", 1, np.array(8.0), np.array(6.0), nothing, nothing, "bf16")
    >>> setup = Setup(chip, IDEAL_ENGINE, Placement(), Options())
    >>> (work,) = pass_work([op], setup, PassShape(1, 1)).ops
    >>> float(work.compute_s), float(work.memory_s)
    (2.0, 3.0)
    """
    hardware, placement = setup.hardware, setup.placement
    even = setup.engine.rules == "ideal" or placement.expert_parallel == 1
    if crowding is None:
        crowding = _crowding(shape.batch_size, setup)
    # Graphs pad the matrices of all groups to the fullest already.
    crowded_rows = np.maximum(1.0, crowding / shape.padding)
    works: list[OpWork] = []
    exchanges = [*_context_exchanges(ops, setup, crowding)]
    stand_ins: dict[str, None] = {}
    for op, unsplit in map(_by_kernel, ops):
        chip = hardware.host if hardware.host is not None and op.on_host else hardware
        dtype, flops_per_s = chip.arithmetic(op.compute_dtype, strict=setup.options.strict_dtype)
        if dtype != op.compute_dtype:
            stand_ins[f"{chip.name} has no {op.compute_dtype} arithmetic: {dtype} stands in"] = None
        kernel = expert_kernel(op, setup.engine, settled=settled)
        if kernel is not None and np.any(_visits_and_tokens(op)[1] > kernel.tokens * _HAIR):
            stand_ins[f"kernels of experts were timed to {kernel.tokens:.0f} tokens a pass"] = None
        fullest = op if even else _on_fullest_device(op, placement.expert_parallel)
        busiest: Array | float = 1.0
        if op.shard.group == "attention":
            busiest = crowding if op.rows is None else crowded_rows
        part = Part(fullest, setup, busiest, chip, flops_per_s, settled)
        # One host, whichever devices wait for it.
        compute_ways, weight_ways, cache_ways = ways(
            op.shard, Placement() if op.on_host else placement
        )
        share: dict[str, Array | float] = {
            "flops": 1 / compute_ways,
            "weight_bytes": 1 / weight_ways,
            "cache_bytes": 1 / cache_ways,
            "activation_bytes": 1 / compute_ways,
        }
        corrections = {name: times(part) for name, times in CORRECTIONS.items()}
        for correction in corrections.values():
            for amount, times in correction.items():
                share[amount] = share[amount] * times
        # Caches and their arithmetic have all axes of a grid: each factor meets them once.
        moved = fullest.cache_bytes * share["cache_bytes"] + (
            fullest.weight_bytes * share["weight_bytes"]
            + fullest.activation_bytes * share["activation_bytes"]
        )
        works.append(
            OpWork(
                op=op if fullest is op else replace(op, rows=fullest.rows),
                compute_dtype=dtype,
                flops=fullest.flops,
                moved_bytes=moved,
                settled=settled,
                flop_s=share["flops"] * (op.count / flops_per_s),
                byte_s=op.count / chip.peak.memory_bytes_per_s,
                sequences=None if op.sequences is None else op.sequences * busiest,
                unsplit=unsplit,
                corrections=corrections,
                layers=op.count if op.routing else 0.0,
                held_experts=(
                    op.count * op.routing.n_experts / placement.expert_parallel
                    if op.routing
                    else 0.0
                ),
            )
        )
        if op.collective is not None and placement.tensor_parallel > 1:
            exchange = op.collective
            if exchange.block == "attention" or not settled:  # prompts are gathered as they are
                padded_bytes = np.asarray(exchange.message_bytes * crowded_rows)
                exchange = replace(exchange, message_bytes=padded_bytes)
            exchanges.append(Exchange(exchange, op.count, hardware, placement))
    power = hardware.power if hardware.power and hardware.power.cap_watts else None
    return PassWork(works, exchanges, shape, notes=tuple(stand_ins), power=power)


def _crowding(batch_size: Array | float, setup: Setup) -> Array | float:
    """Return how many times its even share of the sequences the busiest group of attention has.

    Fewer sequences than data-parallel groups leave groups idle, and the others have no less to do
    for it. Engines deal out whole sequences and pad decoding groups to the fullest.

    Source
        vLLM 0.33.0 ``v1/worker/dp_utils.py``, SGLang 0.5.23 ``layers/dp_attention.py``.
    """
    groups = setup.placement.attention_data_parallel
    if groups == 1:
        return 1.0
    share = batch_size / groups
    return np.maximum(1.0, 1 / share) if setup.engine.rules == "ideal" else np.ceil(share) / share


# --- Corrections of the peaks: how many times each amount a device does, or takes as long as ------


@dataclass(slots=True)
class Part:
    """The part of an operation that falls to a device.

    Parameters
    ----------
    op
        The operation, of experts as the fullest device has them.
    setup
        Where.
    busiest
        How many times its even share of the sequences, or of the rows of a matrix, the busiest
        device has; 1 but in attention.
    chip, flops_per_s
        The chip, or the CPU beside it, that computes it, and its peak in the operation's dtype.
    settled
        Whether the pass is over a prompt.
    """

    op: OpCost
    setup: Setup
    busiest: Array | float
    chip: HardwareProfile
    flops_per_s: float
    settled: bool = False

    @property
    def gathered(self) -> Array | float:
        """How many times its part of the context a device attends to.

        To that part for the heads of all that share it, or to what it gathered, the whole context,
        for its own.
        """
        context, spread = self.op.context, self.setup.placement.decode_context_parallel
        return 1.0 if context is None else np.where(context.gathers, spread, 1.0)


def _busiest_group(part: Part) -> Times:
    """Return how many more sequences the busiest group has, unless each is counted alone."""
    if part.op.sequences is not None or part.setup.placement.attention_data_parallel == 1:
        return {}
    return dict.fromkeys(("flops", "cache_bytes", "activation_bytes"), part.busiest)


def _gathered_context(part: Part) -> Times:
    """Return how many times its part of the context a device attends to, where it gathers it."""
    return {} if part.op.context is None else {"cache_bytes": part.gathered}


def _idle_multiprocessors(part: Part) -> Times:
    """Return what is left of a chip where multiprocessors have no thread block.

    Each tile of query rows reads the same cache: more of them bring no byte sooner. A thread block
    reads as long on each device that repeats its KV head: all that read the head count.
    """
    op, units = part.op, part.setup.hardware.peak.multiprocessors
    if op.blocks is None or units is None:
        return {}
    placement = part.setup.placement
    spread = placement.decode_context_parallel
    block_ways, _, cache_ways = ways(op.shard, placement)
    blocks = part.busiest * (op.blocks if op.sequences is None else op.sequences * op.blocks)
    occupied = np.minimum(1.0, blocks * spread / (block_ways * part.gathered * units))
    reading = np.minimum(1.0, blocks * spread / (cache_ways * np.asarray(op.tiles) * units))
    return {**dict.fromkeys(AMOUNTS, 1 / reading), "flops": 1 / occupied}


def _kernels_by_rows(part: Part) -> Times:
    """Return the work of the kernel that takes so many rows: `row_kernel_factors`."""
    op, peak, kernels = part.op, part.setup.hardware.peak, part.setup.engine.row_kernels.values()
    if op.rows is None or op.on_host or not kernels:
        return {}
    flops, moved = row_kernel_factors(op, kernels, peak.multiprocessors)
    slower = part.flops_per_s / peak.flops_per_s.get("fp32", part.flops_per_s)
    return {**dict.fromkeys(AMOUNTS, moved), "flops": flops * slower}


def _tiles_of_heads(part: Part) -> Times:
    """Return how many times the heads of a device are computed: kernels take whole tiles of them.

    Not over prompts that are attended densely, as a release may where all tokens would be picked.
    """
    kernel = sparse_kernel(part.op, part.setup.engine, settled=part.settled)
    picked = part.op.picked
    if kernel is None or picked is None:
        return {}
    placement = part.setup.placement
    devices = placement.group_size / placement.decode_context_parallel
    heads = picked.n_heads / devices
    times = np.asarray(np.ceil(heads / kernel.head_tile / _HAIR) * kernel.head_tile / heads)
    if kernel.all_slots:
        times = times * picked.slots
    if part.settled and part.setup.release.dense_prompts:
        times = np.where(picked.all_seen, 1.0, times)
    return {"flops": times}


def _arithmetic_of_a_cpu(part: Part) -> Times:
    """Return the inverse of what a few rows reach of a CPU's peak in float32: `_HOST_SHARE`."""
    if not part.op.on_host or part.setup.engine.rules == "ideal":
        return {}
    slower = part.flops_per_s / part.chip.peak.flops_per_s.get("fp32", part.flops_per_s)
    return {"flops": slower / _HOST_SHARE}


#: By name: how many times each amount is done, without unit; nothing where a correction has no say.
CORRECTIONS: Final[Mapping[str, Callable[[Part], Times]]] = {
    "busiest group of attention": _busiest_group,
    "gathered context": _gathered_context,
    "idle multiprocessors": _idle_multiprocessors,
    "tiles of heads": _tiles_of_heads,
    "kernels by rows": _kernels_by_rows,
    "arithmetic of a CPU": _arithmetic_of_a_cpu,
}


def _context_exchanges(
    ops: Iterable[OpCost], setup: Setup, crowding: Array | float
) -> Iterator[Exchange]:
    """Yield what devices exchange within attention where each caches a part of the context.

    Ignores
        query projections that SGLang repeats on every device for some models, so that no queries
        are gathered.
    Source
        Of `specroof.architecture.attention.context_exchange`; how many collectives: the file of the
        release.
    """
    placement = setup.placement
    spread, groups = placement.decode_context_parallel, placement.attention_data_parallel
    merges = (setup.release.spread_context or _USUAL_SPREAD).merges
    for op in ops:
        if op.context is None:
            continue
        heads_frac = spread / placement.group_size
        merged = op.context.merged_bytes * (heads_frac / merges)
        message_bytes = np.where(op.context.gathers, op.context.cached_bytes, merged)
        sequences = 1.0 if op.sequences is None else op.sequences
        share = np.asarray(crowding * sequences / groups)
        times = np.where(op.context.gathers, op.context.cached_bytes > 0, merges)
        exchange = BlockExchange("context", np.asarray(message_bytes * share))
        yield Exchange(exchange, op.count * times, setup.hardware, placement)


def row_kernel_factors(
    op: OpCost, kernels: Iterable[RowKernel], multiprocessors: int | None = None
) -> tuple[Array, Array]:
    r"""Return how many times the work of a matrix is done in the kernel that takes its rows.

    .. math:: \frac{\lceil r / r_{tile} \rceil r_{tile}}{r f b}, \qquad \frac{1}{q}

    where each token reads its experts on its own, :math:`r / q` of the latter; b is the share of
    the multiprocessors that have outputs enough.

    Parameters
    ----------
    op
        An operation with rows.
    kernels
        In order: the first that takes its rows, and weights of so many bits, computes it.
    multiprocessors
        Of the chip; None where they are not known, and all are busy.

    Returns
    -------
    tuple of arrays
        Of the arithmetic, in units of a vector peak, and of the bytes. 1 and 1 where no kernel
        takes it.

    Counts
        experts by the tokens of the pass, tiles by the mean rows of an expert that is hit; each
        matrix of an expert in the kernel of its own format.
    Ignores
        that devices share the outputs of a matrix.
    Source
        llama.cpp, ``ggml-cuda/mmvq.cu``, ``ggml-metal-ops.cpp`` and ``ggml-vulkan.cpp``: which
        kernel is launched for which number of columns; ``ggml-cuda/mmq.cuh``, ``mul_mat_q_case``:
        tiles that grow, and ``mul_mat_q``: thread blocks of 128 outputs, two a multiprocessor. That
        times are straight lines between the jumps:
        github.com/thc1006/qwen3.8-speculative-decoding-rtx3090, COST_MODEL (r2 0.996).

    Examples
    --------
    >>> from specroof.hardware.engine import RowKernel
    >>> zero, rows = np.zeros(()), np.array([1.0, 8.0, 9.0])
    >>> op = OpCost("up", "dense", 1, 20 * rows, np.array(5.0), zero, zero, "bf16", rows=rows)
    >>> vector, tiles = RowKernel(rows=8, compute_frac=0.1), RowKernel(compute_frac=0.5, tile=16)
    >>> row_kernel_factors(op, [vector, tiles])[0].round(2).tolist()  # 16 rows of 9 at half
    [10.0, 10.0, 3.56]
    """
    rows = np.maximum(np.asarray(op.rows), 1e-9)
    visits, tokens = _visits_and_tokens(op)
    outputs = max(op.outputs, 1) / (multiprocessors or 1e-9)  # a drafter may have no head
    of = "experts" if op.kind == "experts" else "dense"
    suited = [kernel for kernel in kernels if kernel.of == of]
    mean_bytes = op.weight_bytes * 2 * rows / np.maximum(op.flops, 1e-9)
    parts = op.weight_parts or ((mean_bytes, 1.0),)
    whole_bytes = sum(element_bytes * share for element_bytes, share in parts)
    flops, moved = np.zeros(()), np.zeros(())
    for element_bytes, share in parts:
        part_flops, part_moved, taken = np.ones(()), np.ones(()), np.zeros((), dtype=bool)
        for kernel in suited:
            # Products of floats: 8 tokens may come out a hair above 8.
            takes = ~taken & (tokens <= (kernel.rows or np.inf) * _HAIR)
            takes = takes & (8 * element_bytes <= (kernel.bits or np.inf) * _HAIR)
            if not takes.any():
                continue
            width: Array | float = kernel.tile
            if kernel.widest_tile is not None:
                # As few tiles as cover all visits, and no wider than they need.
                fewest = np.ceil(visits / kernel.widest_tile / _HAIR)
                width = np.ceil(visits / fewest / kernel.tile / _HAIR) * kernel.tile
            tiles = np.ceil(rows / width / _HAIR)
            busy = np.minimum(1.0, outputs * tiles / (kernel.busy_outputs or 1e-9))
            computed = tiles * width / (rows * kernel.compute_frac * busy)
            read = (rows if kernel.repeats else 1.0) / kernel.memory_share
            part_flops = np.where(takes, computed, part_flops)
            part_moved = np.where(takes, read, part_moved)
            taken = taken | takes
        flops = flops + share * part_flops
        # A pass that needs no logits reads no head: nothing, however often.
        moved = moved + share * element_bytes / np.maximum(whole_bytes, 1e-9) * part_moved
    return flops, moved


def _visits_and_tokens(op: OpCost) -> tuple[Array, Array]:
    """Return the rows of all experts together and the tokens of a pass; of matrices, its rows."""
    rows = np.maximum(np.asarray(op.rows), 1e-9)  # none where a pass needs no logits
    if op.routing is None:
        return rows, rows
    visits = np.asarray(rows * op.routing.hit)
    return visits, np.asarray(visits / (op.routing.top_k + op.routing.n_shared))


def _on_fullest_device(op: OpCost, n_devices: int) -> OpCost:
    """Return the cost of experts as if each device had as many of them as the fullest one has.

    Experts that every token visits are divided evenly.
    """
    routing = op.routing
    if routing is None or op.rows is None:
        return op
    more_experts, more_visits = fullest_device(routing, n_devices)
    chosen = routing.top_k / (routing.top_k + routing.n_shared)
    visits = 1 + chosen * (more_visits - 1)
    experts = 1 + (1 - routing.n_shared / routing.hit) * (more_experts - 1)
    return replace(
        op,
        flops=np.asarray(op.flops * visits),
        weight_bytes=np.asarray(op.weight_bytes * experts),
        rows=np.asarray(op.rows * visits / experts),
    )


def _by_kernel(op: OpCost) -> tuple[OpCost, BoolArray | None]:
    """Return an operation by its kernel, and where attention has another; None of one kernel."""
    if op.blocks is None:
        return op, None
    unsplit = np.isfinite(op.blocks)
    if unsplit.all():
        return replace(op, kind=UNSPLIT), None
    return op, unsplit if unsplit.any() else None


# --- Many passes as one: operations of a kind together, whatever model and chip they are of ------


def stacked(works: Sequence[PassWork], sizes: Sequence[int]) -> PassWork:
    """Return many passes as one value, of which `pass_time` gives the seconds of each.

    Parameters
    ----------
    works
        Passes in one engine; each is as many passes as its arrays have entries.
    sizes
        How many.

    Source
        Counting; nothing is added up before the engine is known.

    Examples
    --------
    >>> from specroof.cost import OpCost
    >>> from specroof.hardware.engine import IDEAL_ENGINE
    >>> from specroof.latency.pass_seconds import pass_time
    >>> zero = np.zeros(())
    >>> op = OpCost("up_proj", "dense", 1, zero, zero, zero, zero, "bf16")
    >>> first = PassWork([OpWork(op, "bf16", zero, np.array([1.0, 2.0]))], [], PassShape(1, 1))
    >>> second = PassWork([OpWork(op, "bf16", np.array(4.0), zero)] * 2, [], PassShape(1, 1))
    >>> pass_time(stacked([first, second], [2, 1]), IDEAL_ENGINE).total_s.tolist()
    [1.0, 2.0, 8.0]
    """
    ops: dict[Hashable, list[tuple[OpWork, IntArray]]] = {}
    exchanges: dict[Hashable, list[tuple[Exchange, IntArray]]] = {}
    first = 0
    for work, size in zip(works, sizes, strict=True):
        where = np.arange(first, first + size)
        first += size
        for op in chain.from_iterable(map(_parts_by_kernel, work.ops)):
            dtypes = (op.op.compute_dtype, op.compute_dtype)
            picked = op.op.picked and op.op.picked.kernel
            key = (op.op.kind, op.op.weight, picked, *dtypes, op.settled, op.op.rows is None)
            ops.setdefault(key, []).append((op, where))
        for exchange in work.exchanges:
            what = exchange.collective
            routed = (what.block, what.copies, what.dispatch_frac)
            between = (exchange.hardware.interconnect, exchange.placement, *routed)
            exchanges.setdefault(between, []).append((exchange, where))
    return PassWork(
        [_ops_of_a_kind(parts) for parts in ops.values()],
        [_exchanges_of_a_kind(parts) for parts in exchanges.values()],
        _shapes([work.shape for work in works], sizes),
        n_passes=first,
        power=works[0].power,
    )


def _parts_by_kernel(work: OpWork) -> list[OpWork]:
    """Return attention by the kernels that run it: with a cache that is split, and without."""
    if work.unsplit is None:
        return [work]
    return [
        replace(
            work,
            op=replace(work.op, kind=kind),
            flops=np.where(runs, work.flops, 0.0),
            moved_bytes=np.where(runs, work.moved_bytes, 0.0),
            unsplit=None,
        )
        for kind, runs in ((UNSPLIT, work.unsplit), (work.op.kind, ~work.unsplit))
    ]


def _joined(parts: Sequence[tuple[object, IntArray]], name: str) -> Array:
    """Return a field of several passes in one row, each value as often as there are passes."""
    rows = (
        np.broadcast_to(np.asarray(getattr(part, name), dtype=np.float64), at.shape)
        for part, at in parts
    )
    return np.concatenate([*rows])


def _ops_of_a_kind(parts: Sequence[tuple[OpWork, IntArray]]) -> OpWork:
    first, ops = parts[0][0], [(work.op, at) for work, at in parts]
    return OpWork(
        op=first.op if first.op.rows is None else replace(first.op, rows=_joined(ops, "rows")),
        compute_dtype=first.compute_dtype,
        flops=_joined(parts, "compute_s"),
        moved_bytes=_joined(parts, "memory_s"),
        settled=first.settled,
        passes=np.concatenate([at for _, at in parts]),
        layers=_joined(parts, "layers"),
        held_experts=_joined(parts, "held_experts"),
    )


def _exchanges_of_a_kind(parts: Sequence[tuple[Exchange, IntArray]]) -> Exchange:
    first, sent = parts[0][0], [(exchange.collective, at) for exchange, at in parts]
    message_bytes = _joined(sent, "message_bytes")
    return replace(
        first,
        collective=replace(first.collective, message_bytes=message_bytes),
        count=_joined(parts, "count"),
        passes=np.concatenate([at for _, at in parts]),
    )


def _shapes(shapes: Sequence[PassShape], sizes: Sequence[int]) -> PassShape:
    """Return layers and sequences of many passes, an entry for each."""
    parts = [(shape, np.arange(size)) for shape, size in zip(shapes, sizes, strict=True)]
    names = [one.name for one in fields(PassShape) if one.name != "layer_kinds"]
    rows: dict[str, Any] = {name: _joined(parts, name) for name in names}
    kinds = dict.fromkeys(kind for shape in shapes for kind in shape.layer_kinds)
    layers = [np.array([shape.layer_kinds.get(kind, 0) for shape in shapes]) for kind in kinds]
    by_pass = {kind: np.repeat(row, sizes) for kind, row in zip(kinds, layers, strict=True)}
    return PassShape(**rows, layer_kinds=by_pass)


#: Kernels of an operation that are more than one, where nothing fuses them.
_KERNELS: Final = {
    # rotations of queries and keys (10), their way into the cache (2), layout (1), the core (2)
    "attention": 15,
    "latent_attention": 15,
    # choice and weights of experts (8); their three matmuls around an activation, sums (8)
    "router": 8,
    "experts": 8,
    # streams mixed by 20 rounds of Sinkhorn, each two sums and two divisions, and what is around
    "residual": 90,
    # streams mixed by matrices alone (AltUp, low ranks): a norm, an activation, sums
    "mixing": 8,
    # gates, convolution or positions, norms
    "compressor": 10,
    "indexer": 10,
    "state": 15,
}
#: Said of passes outside of graphs of models with several residual streams. vLLM and SGLang mix
#: these in three kernels (``mhc_pre_tilelang``; ``models/deepseek_v4.py``, ``hc_pre``), and yet the
#: passes that were measured take what all of the above do: 104 ms, 1536 and 2047 tokens in vLLM,
#: 2.4 a layer. SGLang 0.5.9 took 2.3 ms a layer for prompts of DeepSeek-R1: see ``PREFILL_LAUNCH``
#: of ``benchmarks/fitting``.
_UNTIMED_LAUNCHES: Final = (
    "some passes are larger than any captured graph, and nobody timed their launches under {}: "
    "priced as the only ones that were timed (104 ms a pass, 21 in a graph), with a band that "
    "includes launches that take no time"
)
#: Kernels of a layer beside its operations: two norms of eight, two sums, an activation of two.
_LAYER_KERNELS: Final = 20
#: Calls of a server's Python for an operation that is not one: no Python runs between the kernels
#: inside of a call.
_CALLS: Final = {
    # with rotation and cache; one matrix, not three, before it
    "attention": -1,
    # norms of both latents, rotation, keys joined of two parts in two copies, cache, core
    "latent_attention": 7,
    # layout and kernel
    "convolution": 2,
    # gates, three copies, two norms, six kernels over chunks, a gated norm
    "state": 13,
    # choice of experts
    "router": 2,
    # with their quantised inputs
    "experts": 2,
}
#: Two norms, each with the sum before it, and an activation.
_LAYER_CALLS: Final = 3
#: Kinds of attention whose layers are many calls.
_IN_MANY_CALLS: Final = frozenset({"latent_attention", "state"})


@dataclass(frozen=True, slots=True, eq=False)
class Work:
    """Work inside a pass of a model: it adds no launch.

    Parameters
    ----------
    architecture, forward_pass
        What runs.
    times
        How often, one after another: a weight is read each time.
    kind
        ``"layers"`` of another model; ``"steps"``: each time waits for the token of the one before;
        ``"prompts"``: a second batch of the pass's own model, its matrices read once for both.
    """

    architecture: Architecture
    forward_pass: ForwardPass
    times: float = 1.0
    kind: Literal["layers", "steps", "prompts"] = "layers"


def model_latency(
    model: Architecture, setup: Setup, forward: ForwardPass, *, beside: Sequence[Work] = ()
) -> PassLatency:
    """Return the seconds of one pass of a model.

    Parameters
    ----------
    model
        What runs.
    setup
        Where, in which engine, by which formulas.
    forward
        The pass before padding.
    beside
        What runs in the same pass.

    Raises
    ------
    ProfileError
        If the device cannot compute a dtype, or collectives have no known time.

    Source
        See `model_work` and `specroof.latency.pass_seconds.pass_time`.

    Examples
    --------
    >>> from specroof.architecture.base import Linear
    >>> from specroof.architecture.model import Layer
    >>> from specroof.cost import Options
    >>> from specroof.hardware.engine import EngineProfile
    >>> from specroof.hardware.profile import HardwareProfile, Peak, Placement
    >>> chip = HardwareProfile(
    ...     format_version=1,
    ...     name="chip",
    ...     sources={},
    ...     peak=Peak(flops_per_s={"bf16": 1e15}, memory_bytes_per_s=1e12, memory_bytes=1e9),
    ... )
    >>> tiny = Architecture("tiny", "llama", 8, 100, (Layer((), 5),), Linear("lm_head", 8, 0))
    >>> setup = Setup(chip, EngineProfile(name="e", layer_overhead_s=2.0), Placement(), Options())
    >>> float(model_latency(tiny, setup, ForwardPass(1, 1, 0)).total_s)  # 5 layers of 2 s
    10.0
    """
    work = model_work(model, setup, forward, beside=beside)
    return pass_time(work, setup.engine, setup.options.granularity)


def model_work(
    model: Architecture,
    setup: Setup,
    forward: ForwardPass,
    *,
    beside: Sequence[Work] = (),
    by_sequence: bool = False,
) -> PassWork:
    """Return what one pass of a model does at the peaks of its devices: padded and counted.

    Parameters
    ----------
    model
        What runs.
    setup
        Where, by which formulas. Of the engine only what changes the work matters: the sizes of
        its graphs and how dependent the routing of tokens is.
    forward
        The pass before padding.
    beside
        What runs in the same pass.
    by_sequence
        Whether the work that each sequence does alone is counted for one sequence; see
        `specroof.cost.forward_cost`. Less to compute over a grid.

    Raises
    ------
    ProfileError
        If the device cannot compute a dtype.

    Source
        See `specroof.cost.forward_cost` and `specroof.latency.model.pass_work`.

    Examples
    --------
    >>> from specroof.architecture.base import Linear
    >>> from specroof.architecture.model import Layer
    >>> from specroof.cost import Options
    >>> from specroof.hardware.engine import IDEAL_ENGINE
    >>> from specroof.hardware.profile import HardwareProfile, Peak, Placement
    >>> chip = HardwareProfile(
    ...     format_version=1,
    ...     name="chip",
    ...     sources={},
    ...     peak=Peak(flops_per_s={"bf16": 1e15}, memory_bytes_per_s=1e12, memory_bytes=1e9),
    ... )
    >>> tiny = Architecture("tiny", "llama", 8, 100, (Layer((), 5),), Linear("lm_head", 8, 0))
    >>> setup = Setup(chip, IDEAL_ENGINE, Placement(), Options())
    >>> model_work(tiny, setup, ForwardPass(1, 1, 0)).shape.n_layers
    5
    """
    if setup.placement.pipeline_parallel > 1 or _in_parts(setup, forward, beside):
        return _staged_work(model, setup, forward, beside, by_sequence)
    return _work_at_once(model, setup, forward, beside, by_sequence)


def _work_at_once(
    model: Architecture,
    setup: Setup,
    forward: ForwardPass,
    beside: Sequence[Work],
    by_sequence: bool,
) -> PassWork:
    """Return what a pass does on devices without stages, which compute all of it together."""
    for work in beside:
        if work.kind == "prompts":
            return _mixed_work(model, setup, (forward, work.forward_pass), by_sequence)
    padded, eager = padded_pass(forward, setup)
    ops = _ops(model, setup, padded, by_sequence)
    for work in beside:
        added = _ops(work.architecture, setup, work.forward_pass, by_sequence)
        if work.times != 1:  # in a row, the weights read each time
            added = [
                replace(op, **{name: getattr(op, name) * work.times for name in AMOUNTS})
                for op in added
            ]
        ops += added
    shape = PassShape(
        model.n_layers,
        forward.batch_size,
        layer_kinds(model, setup),
        forward.query_len,
        eager,
        sum(work.times for work in beside if work.kind == "steps"),
        launched_kernels(ops, model.n_layers),
        served_calls(ops, model.n_layers),
        forward.settled,
        setup.placement.attention_data_parallel,
        _token_s(model, setup),
        padded.matmul_len / forward.query_len,
    )
    found = pass_work(ops, setup, shape, settled=forward.settled)
    if np.any(eager) and without_launches(model, setup) is not None:
        said = f"{model.name}: {_UNTIMED_LAUNCHES.format(setup.engine.rules)}"
        return replace(found, notes=(*found.notes, said))
    return found


@lru_cache(maxsize=512)
def activation_bytes(model: Architecture, placement: Placement) -> float:
    """Return the bytes that a token of a prompt moves on a device between its matrices.

    Parameters
    ----------
    model
        Whose layers.
    placement
        The devices that share them.

    Counts
        before each block the sum and the norm of the stream, two tensors read and two written, by
        all devices alike, or by those of a group of data-parallel attention; what else matrices
        take and give, each once, by what devices divide; rows of experts, in, between their
        matrices and out, each once.
    Ignores
        what dense matrices take and give of the stream: their own time has it.
    Source
        Counted in vLLM 0.33.0 ``model_executor/models/llama.py`` and
        ``layers/fused_moe/modular_kernel.py``.

    Examples
    --------
    >>> from specroof.architecture.model import Block, Layer
    >>> from specroof.architecture.base import Linear
    >>> layer = Layer((Block("feed_forward", (Linear("up_proj", 8, 32),)),), 3)
    >>> toy = Architecture("toy", "toy", 8, 100, (layer,), Linear("lm_head", 8, 100))
    >>> activation_bytes(toy, Placement(tensor_parallel=4))  # 3 * 2 * (4 * 8 + 32 / 4)
    240.0
    """
    width, element_bytes = model.hidden_size, dtype_bytes(model.activation_dtype)
    moved = 0.0
    for count, block in model.counted_blocks:
        elements = 4 * width / placement.attention_data_parallel
        for linear in block.linears:
            sides = [linear.in_features, linear.out_features]
            if width in sides:  # of the stream
                sides.remove(width)
            elements += sum(sides) / ways(linear.shard, placement)[0]
        if block.experts is not None:
            experts = block.experts
            ends = 2 * experts.in_features / placement.expert_parallel
            between = experts.n_matrices * experts.hidden_features / placement.tensor_parallel
            elements += (experts.top_k + experts.n_shared) * (ends + between)
        moved += count * elements * element_bytes
    return moved


def _token_s(model: Architecture, setup: Setup) -> float:
    peak = setup.hardware.peak.memory_bytes_per_s
    return activation_bytes(model, setup.placement) / peak


def without_launches(model: Architecture, setup: Setup) -> Setup | None:
    """Return a setup whose launches outside of graphs take no time, where nobody timed them.

    The least that a pass takes there is what its device works. None where launches were timed, as
    those of a model with one residual stream, and of any where the file of the release says so.

    Source
        The measurements of `specroof.evidence`.

    Examples
    --------
    >>> from specroof import load_hardware, load_model
    >>> from specroof.latency.setup import engine_setup
    >>> flash, b200 = load_model("deepseek-ai/DeepSeek-V4-Flash"), load_hardware("b200")
    >>> for engine in ("vllm", "sglang"):
    ...     without_launches(flash, engine_setup(b200, engine, None, None)) is None
    True
    False
    """
    graphs = setup.engine.graphs
    mixes = any(
        linear.kind == "residual" for _, block in model.counted_blocks for linear in block.linears
    )
    if graphs is None or not mixes or setup.release.timed_launches:
        return None
    graphs = replace(graphs, eager_kernel_s=0.0)
    return replace(setup, engine=replace(setup.engine, graphs=graphs))


def micro_batches(batch_size: npt.ArrayLike, setup: Setup) -> Array:
    """Return how many micro-batches the sequences of a batch go through a pipeline in.

    As many as passes are in flight, but none without a sequence for each group of data-parallel
    attention.

    Parameters
    ----------
    batch_size
        Sequences in flight, over all micro-batches.
    setup
        Its stages and groups of attention, and the server.

    Ignores
        that a sequence stays in the micro-batch in which its prompt ended, so that these are
        uneven: by dice a step is at most a quarter shorter or longer, most of all where each stage
        has one sequence.
    Source
        vLLM 0.33.0 ``config/vllm.py``, ``max_concurrent_batches``, and
        ``v1/core/sched/async_scheduler.py``, ``next_decode_eligible_step``; SGLang 0.5.23
        ``managers/scheduler_pp_mixin.py``. llama.cpp ``src/llama-context.cpp``, ``decode``: a batch
        of up to ``n_ubatch`` tokens is one graph, and the next waits for its logits.

    Examples
    --------
    >>> from specroof import load_hardware
    >>> from specroof.latency.setup import engine_setup
    >>> stages = Placement(pipeline_parallel=4)
    >>> for engine in ("vllm", "llama.cpp"):
    ...     setup = engine_setup(load_hardware("rtx-4090"), engine, stages, None)
    ...     micro_batches([1, 3, 64], setup).tolist()
    [1.0, 3.0, 4.0]
    [1.0, 1.0, 1.0]
    """
    batch = np.asarray(batch_size, dtype=np.float64)
    groups = setup.placement.attention_data_parallel
    return np.asarray(np.clip(batch / groups, 1.0, setup.passes_in_flight))


def _prompt_tokens(forward: ForwardPass, beside: Sequence[Work]) -> Array | float:
    """Return the tokens of prompts in a pass: all of one over prompts, else what is beside it."""
    if forward.settled:
        return forward.tokens
    return sum((work.forward_pass.tokens for work in beside if work.kind == "prompts"), 0.0)


def _in_parts(setup: Setup, forward: ForwardPass, beside: Sequence[Work]) -> bool:
    """Tell whether a device computes the prompts of a pass in parts that follow one another."""
    most = setup.release.part_tokens
    return most > 0 and bool(np.any(_prompt_tokens(forward, beside) > most))


def _staged_work(
    model: Architecture,
    setup: Setup,
    forward: ForwardPass,
    beside: Sequence[Work],
    by_sequence: bool,
) -> PassWork:
    """Return what one micro-batch of a pass does in all stages, with what they send one another.

    Or what one part of a pass does on a device that computes so many tokens of prompts at once.

    Decoding is cut by sequences. A pass of prompts goes through the stages whole, as it is cut into
    chunks whatever the stages, and the next one follows it: `PassLatency.filling_s`. Where a
    server cuts prompts into parts of so many tokens, they follow one another; else, beside
    decoding, there are as many parts as stages, which both keep busy.

    Ignores
        that llama.cpp has four parts at most in its stages, however many these are, and that those
        that decode are in the first part alone.
    Counts
        hidden states and the residual beside them, two tensors; llama.cpp's one has four bytes.
    Source
        vLLM 0.33.0 ``model_executor/models/llama.py``, ``make_empty_intermediate_tensors``, and
        ``v1/core/sched/scheduler.py``, ``schedule``: the next chunk of a prompt is scheduled while
        the one before it is in the stages; SGLang 0.5.23 ``models/llama.py``, ``PPProxyTensors``,
        and ``managers/scheduler_pp_mixin.py``, ``event_loop_pp``; llama.cpp
        ``src/llama-context.cpp``, ``pipeline_parallel``, and ``ggml/src/ggml-backend.cpp``,
        ``GGML_SCHED_MAX_COPIES``.
    """
    placement = setup.placement
    stages = placement.pipeline_parallel
    prompts = [work.forward_pass for work in beside if work.kind == "prompts"]
    count: Array | float = float(stages)
    if not (forward.settled or prompts):
        count = micro_batches(forward.batch_size, setup)
    elif setup.release.part_tokens:
        count = np.maximum(_prompt_tokens(forward, beside) / setup.release.part_tokens, 1.0)
    elif forward.settled:
        count = 1.0
    if forward.settled:
        whole_len, forward = forward.query_len, _chunk(forward, count)
        count = whole_len / forward.query_len
    else:
        # Prompts fill all stages: few requests beside them are a fraction of one in each.
        least = BOUNDS["pass_batch_size"].least
        forward = replace(forward, batch_size=np.maximum(forward.batch_size / count, least))
    beside = [
        replace(
            work,
            forward_pass=_chunk(work.forward_pass, count)
            if work.kind == "prompts"
            else replace(work.forward_pass, batch_size=work.forward_pass.batch_size / count),
        )
        for work in beside
    ]
    inside = replace(setup, placement=replace(placement, pipeline_parallel=1, nodes=None))
    work = _work_at_once(model, inside, forward, beside, by_sequence)
    if stages == 1:
        return replace(work, times=count)
    tokens = forward.tokens + sum(prompt.tokens / count for prompt in prompts)
    message_bytes = 2 * tokens * (model.hidden_size * dtype_bytes(model.activation_dtype))
    hops = Exchange(BlockExchange("stage", message_bytes), 1, setup.hardware, placement)
    exchanges = [replace(exchange, placement=placement) for exchange in work.exchanges]
    fills = forward.settled or setup.passes_in_flight == 1
    return replace(
        work,
        exchanges=[*exchanges, hops],
        pipeline=Pipeline(-(-model.n_layers // stages) / model.n_layers, count, fills),
    )


def _chunk(forward: ForwardPass, pieces: Array | float) -> ForwardPass:
    """Return the mean of equal pieces of a prompt that follow one another."""
    length = np.maximum(forward.query_len / pieces, np.minimum(forward.query_len, 1.0))
    before = (forward.query_len - length) / 2
    return replace(
        forward,
        query_len=length,
        context_len=forward.context_len + before,
        head_len=np.minimum(forward.head_len, length),
        matmul_len=length,
    )


def served_calls(ops: Sequence[OpCost], n_layers: float) -> float:
    """Return the calls in which a server launches a pass over prompts that no graph holds.

    0 of models that have neither latent nor linear attention: their layers are so few calls that
    counting them makes predictions of models that a fit has not seen worse.

    Parameters
    ----------
    ops, n_layers
        As of `launched_kernels`.

    Ignores
        all-reduces, and inputs that are quantised in a call of their own: one for each matrix in
        scaled blocks.
    Source
        Counted in SGLang 0.5.9 ``models/llama.py``, ``models/deepseek_common/
        attention_forward_methods/forward_mha.py``, ``models/qwen3_5.py`` and ``models/
        qwen2_moe.py``, ``layers/attention/hybrid_linear_attn_backend.py``,
        ``layers/attention/fla/chunk.py``.

    Examples
    --------
    >>> zero = np.zeros(())
    >>> core = OpCost("core", "latent_attention", 2, zero, zero, zero, zero, "bf16")
    >>> served_calls([core], 2)  # two cores of 7, two layers of 3
    20
    """
    if _IN_MANY_CALLS.isdisjoint(op.kind for op in ops):
        return 0.0
    found = sum(op.count * _CALLS.get(op.kind, 1) for op in ops)
    return found + _LAYER_CALLS * n_layers


def launched_kernels(ops: Sequence[OpCost], n_layers: float) -> float:
    """Return how many kernels a pass launches where no graph holds them and nothing fuses them.

    Parameters
    ----------
    ops
        Operations of the pass.
    n_layers
        Layers of the model.

    Source
        Counted in `transformers`, ``modeling_llama.py`` (41 a layer), ``modeling_qwen3_moe.py``
        and ``modeling_deepseek_v4.py``.

    Examples
    --------
    >>> zero = np.zeros(())
    >>> core = OpCost("core", "attention", 2, zero, zero, zero, zero, "bf16")
    >>> launched_kernels([core], 2)  # two cores of 15, two layers of 20
    70
    """
    return sum(op.count * _KERNELS.get(op.kind, 1) for op in ops) + _LAYER_KERNELS * n_layers


#: Passes of at most so many points are counted once, for all chips and engines that run them.
_FEW_POINTS: Final = 4096


@dataclass(frozen=True, slots=True)
class _Counted:
    """What decides the operations of a pass: `key` stands for the pass and how it reads caches."""

    architecture: Architecture
    options: Options
    expert_locality: tuple[float, float] | None
    by_sequence: bool
    key: tuple[Hashable, ...]
    forward: ForwardPass = field(compare=False)
    reading: Callable[[Core], CacheReading] = field(compare=False)


@lru_cache(maxsize=128)
def _known_ops(counted: _Counted) -> list[OpCost]:
    return forward_cost(
        counted.architecture,
        counted.forward,
        counted.options,
        expert_locality=counted.expert_locality,
        by_sequence=counted.by_sequence,
        reading=counted.reading,
    )


def _ops(
    model: Architecture, setup: Setup, forward: ForwardPass, by_sequence: bool
) -> list[OpCost]:
    locality, reading = setup.engine.expert_locality, attention_reading(model, setup)
    counted = _Counted(
        divided(model, setup),
        served_options(model, setup),
        None if locality is None else (locality.run, locality.batch),
        by_sequence,
        (model.layer_order, *forward.key, *[reading(core) for _, core in model.counted_cores]),
        forward,
        reading,
    )
    few = forward.size <= _FEW_POINTS
    ops = _known_ops(counted) if few else _known_ops.__wrapped__(counted)
    return [replace(op, on_host=True) for op in ops] if setup.on_host else [*ops]


def _mixed_work(
    model: Architecture,
    setup: Setup,
    batches: tuple[ForwardPass, ForwardPass],
    by_sequence: bool,
) -> PassWork:
    """Return what a pass does that takes chunks of prompts beside decoding.

    The engine's kernels for prompts run where prompts are: in their attention, and in matrices,
    whose tokens are mostly theirs.

    Source
        vLLM 0.33.0 ``v1/worker/gpu_model_runner.py``, SGLang 0.5.23 ``schedule_batch.py``,
        ``mix_with_running``: one row of tokens, one pass.
    """
    forward, prompts = batches
    batch = np.asarray(forward.batch_size + prompts.batch_size)
    queries = np.asarray((forward.tokens + prompts.tokens) / batch)
    together = ForwardPass(batch, queries, 0.0, settled=True)
    # Groups of attention have whole sequences of either, and each its tokens of both.
    crowded = [_crowding(one.batch_size, setup) for one in batches]
    of_both = sum(one.tokens * n for one, n in zip(batches, crowded, strict=True)) / together.tokens
    padded, eager = padded_pass(together, setup, of_both)
    padding = (padded.matmul_tokens - together.matmul_tokens) / forward.batch_size
    decoding = replace(forward, matmul_len=forward.query_len + padding)
    decoded_ops = _ops(model, setup, decoding, by_sequence)
    both, alone, beside = joined_costs(decoded_ops, _ops(model, setup, prompts, by_sequence))
    # One row of tokens: as many kernels as a pass of either.
    shape = PassShape(
        model.n_layers,
        batch,
        layer_kinds(model, setup),
        queries,
        eager,
        kernels=launched_kernels(decoded_ops, model.n_layers),
        launches=served_calls(decoded_ops, model.n_layers),
        takes_prompts=True,
        groups=setup.placement.attention_data_parallel,
        token_s=_token_s(model, setup),
        padding=padded.matmul_len / queries,
    )
    works = [
        pass_work(alone, setup, shape, crowding=crowded[0]),
        pass_work(both, setup, shape, settled=True, crowding=of_both),
        pass_work(beside, setup, shape, settled=True, crowding=crowded[1]),
    ]
    return replace(
        works[0],
        ops=[*chain.from_iterable(work.ops for work in works)],
        exchanges=[*chain.from_iterable(work.exchanges for work in works)],
        notes=tuple(dict.fromkeys(chain.from_iterable(work.notes for work in works))),
    )


def padded_pass(
    forward: ForwardPass, setup: Setup, crowding: Array | float | None = None
) -> tuple[ForwardPass, BoolArray]:
    """Return the pass as an engine runs it, and where no captured graph is large enough.

    Graphs whose sizes count sequences are of decoding and verification: prompts have others, by
    tokens, which are not among the sizes.

    Parameters
    ----------
    forward
        The pass before padding.
    setup
        Where: the sizes that its engine captured, and its groups of data-parallel attention, which
        all run the graph that the fullest needs.
    crowding
        As of `pass_work`.

    Ignores
        that SGLang pads groups to the fullest outside of graphs, too: less than one sequence each
        of more than were captured.
    Source
        vLLM `cudagraph_capture_sizes`, SGLang `--cuda-graph-bs`: the next captured size runs; of
        groups that of the fullest, vLLM ``v1/worker/gpu/dp_utils.py``, SGLang
        ``decode_cuda_graph_runner.py``, ``_max_dp_batch_size``, ``_global_num_tokens_for_graph``.

    Examples
    --------
    >>> from specroof import load_hardware
    >>> from specroof.hardware.engine import CapturedGraphs, EngineProfile
    >>> engine = EngineProfile(name="e", graphs=CapturedGraphs(sizes=(8, 16)))
    >>> setup = Setup(load_hardware("h100"), engine, Placement(), Options())
    >>> unpadded = ForwardPass(batch_size=[2, 3, 8], query_len=4, context_len=0)
    >>> padded, eager = padded_pass(unpadded, setup)
    >>> padded.matmul_tokens.tolist(), eager.tolist()  # 8, 12 and 32 tokens
    ([8.0, 16.0, 32.0], [False, False, True])
    """
    graphs, groups = setup.engine.graphs, setup.placement.attention_data_parallel
    if graphs is None or (forward.settled and graphs.counts == "sequences"):
        return forward, np.zeros((), dtype=bool)
    if crowding is None:
        crowding = _crowding(forward.batch_size, setup)
    sequences = forward.batch_size / groups * crowding
    used = sequences * forward.query_len if graphs.counts == "tokens" else sequences
    sizes = np.array([*graphs.sizes, np.inf])
    size = sizes[np.searchsorted(sizes, used / _HAIR)]
    eager = np.isinf(size)
    alone = forward.tokens if graphs.counts == "tokens" else forward.batch_size
    factor = np.where(eager, 1.0, np.maximum(1.0, groups * size / alone))
    return replace(forward, matmul_len=forward.query_len * factor), eager


#: Formats whose matmuls scale tokens in blocks too, by the kind of layer. Experts in mxfp4 are
#: multiplied in the dtype of the tokens (vLLM 0.33.0 ``quantization/mxfp4.py``, Marlin or Triton).
_SCALED_BLOCKS: Final = {
    "fp8-block": "fp8_blocks",
    "mxfp8": "fp8_blocks",
    "nvfp4": "fp4_blocks",
    "mxfp4": "fp4_blocks",
}


def layer_kinds(model: Architecture, setup: Setup) -> dict[str, int]:
    """Return how many layers are of each kind that an engine may lose extra time in.

    Parameters
    ----------
    model
        What runs.
    setup
        Where, in which formats: what a chip multiplies in a wider dtype is not scaled.

    Source
        Counting.

    Examples
    --------
    >>> from specroof.architecture.base import Linear
    >>> from specroof.architecture.experts import Experts
    >>> from specroof.architecture.model import Block, Layer
    >>> experts = Experts(n_experts=4, top_k=1, in_features=8, hidden_features=8)
    >>> moe = Layer((Block("feed_forward", (), experts),), count=3)
    >>> toy = Architecture("toy", "llama", 8, 9, (moe,), Linear("lm_head", 8, 9))
    >>> from specroof import load_hardware
    >>> from specroof.latency.setup import engine_setup
    >>> layer_kinds(toy, engine_setup(load_hardware("h100"), "ideal", None, None))
    {'experts': 3}
    """
    chosen = setup.options.weight_dtype
    if chosen is not None:
        model = stored_as(model, chosen)
    counts: dict[str, int] = {}
    for count, core in model.counted_cores:
        for kind in core.overhead_kinds:
            expect_word(f"overhead kind of {core.label}", kind, LAYER_KINDS)
            counts[kind] = counts.get(kind, 0) + count
    for count, block in model.counted_blocks:
        forms = {linear.weight for linear in block.linears if linear.kind == "dense"}
        if forms and block.name == "feed_forward":  # of shared experts, too
            counts["feed_forward"] = counts.get("feed_forward", 0) + count
        if block.experts and block.experts.weight.name != "mxfp4":
            forms.add(block.experts.weight)
        scaled = {
            _SCALED_BLOCKS[form.name]
            for form in forms
            if form.name in _SCALED_BLOCKS
            and setup.hardware.arithmetic(form.compute_dtype, strict=False)[0] == form.compute_dtype
        }
        for kind in scaled:
            counts[kind] = counts.get(kind, 0) + count
    return counts


# --- Notes about a prediction: the engine profile, replaced formats, what does not fit ----------


def engine_notes(setup: Setup) -> Iterator[str]:
    """Yield the engine profile, its source, and its error on sources it was fitted without.

    A chip of no known architecture is said first.

    Source
        The hardware file: `sources`, and `expected_error` of the engine.

    Examples
    --------
    >>> from specroof.hardware.engine import EngineProfile
    >>> from specroof.hardware.profile import HardwareProfile, Peak, Placement
    >>> peak = Peak(flops_per_s={"bf16": 1e15}, memory_bytes_per_s=1e12, memory_bytes=1e9)
    >>> sources = {"engines.mine": "a fit"}
    >>> chip = HardwareProfile(format_version=1, name="chip", sources=sources, peak=peak)
    >>> list(engine_notes(Setup(chip, EngineProfile(name="mine"), Placement(), Options())))
    ['engine mine of chip: a fit']
    """
    engine, generic = setup.engine, setup.hardware.generic
    if setup.hardware.architecture is None and generic is not None and engine.rules != "ideal":
        yield (
            f"{setup.hardware.name} has no architecture in its hardware file: its kernels "
            "and bands are those of an unknown chip; add vendor, architecture and, on CUDA, "
            "compute_capability"
        )
    if engine.row_kernels and "fp32" not in setup.hardware.peak.flops_per_s:
        yield (
            f"{setup.hardware.name} has no fp32 in its flops_per_s, in which kernels of few rows "
            "unpack weights: passes that verify may take several times as long"
        )
    power = setup.hardware.power
    if power is not None and power.cap_watts is not None:
        yield (
            f"power capped at {power.cap_watts:g} W: the clock falls with the arithmetic of a pass, as "
            "one card showed with one model"
        )
    if engine.release and engine.reach is not None:
        known = engine.reach.versions
        yield (
            f"engine {engine.full_name}: fitted to releases {known[0]} to {known[-1]} "
            "together; this release differs from the others only where a difference is known"
        )
    stands_in = engine.name == GENERIC or engine.rules in LOCAL_FRAMEWORKS
    if stands_in and generic is not None and engine.name not in setup.hardware.engines:
        yield generic.about(setup.hardware.name, engine)
        return
    source = setup.hardware.sources.get(f"engines.{engine.name}")
    if source is None:
        return
    sentence = f"engine {engine.name} of {setup.hardware.name}: {source}"
    error = engine.expected_error
    if error is not None and engine.bands:
        # The band of the drafter gives the error of speedups, not the mean over drafters.
        sentence += (
            f"; on sources left out of the fit, the median error of plain throughput is "
            f"{error.plain_median:.1%}"
        )
    elif error is not None:
        sentence += (
            f"; on sources left out of the fit, the mean error of speedups is "
            f"{error.speedup_mean:.1%} (median {error.speedup_median:.1%}), the median error of "
            f"plain throughput {error.plain_median:.1%}"
        )
    kind, _, named = source.partition(": ")
    short = f"engine {engine.name} of {setup.hardware.name}: {kind}"
    yield Note(sentence, short if named else sentence)


def setup_notes(model: Architecture, setup: Setup) -> Iterator[str]:
    """Yield what a placement, formats that differ from the checkpoint's, and a cache are priced as.

    Parameters
    ----------
    model, setup
        What runs where.

    Source
        `specroof.latency.pass_seconds`; redundant experts: SGLang 0.5.23 ``srt/eplb``, vLLM 0.33.0
        ``config/parallel.py``, ``EPLBConfig``; the cache: `served_options`, vLLM 0.33.0
        ``models/deepseek_v4/attention.py``, which refuses any format but fp8.

    Examples
    --------
    >>> from specroof import load_hardware, load_model
    >>> from specroof.latency.setup import engine_setup
    >>> llama = load_model("meta-llama/Llama-3.1-70B")
    >>> setup = engine_setup(load_hardware("h200"), "vllm", Placement(16), None)
    >>> next(setup_notes(llama, setup)).partition(",")[0]
    '16 devices are 2 nodes of 8'
    """
    place, link, reached = setup.placement, setup.hardware.interconnect, setup.engine.collective
    nodes, stages = place.nodes or 1, place.pipeline_parallel
    if nodes > 1:
        far = "" if reached is None else "; the links between them are not known"
        if reached and link and reached.scale_out_latency_s and link.scale_out_bytes_per_s:
            rate = format_si(link.scale_out_bytes_per_s, "B/s")
            late = format_seconds(reached.scale_out_latency_s)
            far = f", each device with {rate} and {late} to other nodes, undisturbed"
        yield f"{place.devices} devices are {nodes} nodes of {place.devices // nodes}{far}"
        asked = setup.release.token_kernels
        if (
            asked
            and model.has_experts
            and min(place.expert_parallel, place.attention_data_parallel) > 1
        ):
            yield Urgent(f"tokens reach experts of other nodes by kernels that send them: {asked}")
    if stages > 1:
        most = -(-model.n_layers // stages)
        flight = f"up to {stages} micro-batches in flight"
        if setup.release.stages_take_turns:
            longer = f"prompts of more than {setup.release.part_tokens} tokens"
            flight = f"one after another but for {longer}"
        yield (
            f"{stages} stages of at most {most} of {model.n_layers} layers, {flight}, drafts on "
            f"the last stage; operations are those of a micro-batch"
        )
    if setup.engine.bands and (nodes > 1 or setup.passes_in_flight > 1):
        yield "bands are wider, since nobody measured such a placement"
    for n_experts in {
        block.experts.n_experts for _, block in model.counted_blocks if block.experts
    }:
        if spare := -n_experts % place.expert_parallel:
            yield (
                f"{n_experts} experts do not divide over {place.expert_parallel} devices: "
                f"with {spare} redundant ones each holds {(n_experts + spare) // place.expert_parallel}"
            )
    yield from option_notes(model, setup.options)
    facts, chosen = setup.release, setup.options.kv_dtype
    rules, allowed = facts.framework, facts.compressed_formats
    if chosen is None and served_options(model, setup).kv_dtype is not None:
        yield f"KV cache priced as fp8, the default of {rules} for {model.name} on this chip"
    elif allowed and chosen not in {None, *allowed} and "compressed" in model.kernels:
        only = " or ".join(allowed)
        yield f"{rules} serves {model.name} with a cache of {only} only: --kv-cache {chosen} is refused"
    elif refused := refused_cache(facts, chosen, model.activation_dtype):
        yield f"{rules} {refused}: --kv-cache {chosen} is refused"


def option_notes(model: Architecture, options: Options) -> Iterator[str]:
    """Yield a note for each format of the checkpoint that the options replace.

    Source
        `Options`, against what the checkpoint says.

    Examples
    --------
    >>> from specroof.architecture.base import Linear
    >>> from specroof.architecture.model import Layer
    >>> tiny = Architecture("tiny", "llama", 8, 100, (Layer(()),), Linear("lm_head", 8, 100))
    >>> list(option_notes(tiny, Options(kv_dtype="fp8")))
    ['KV cache priced as fp8 instead of bf16']
    """
    if options.weight_dtype is not None:
        kept = "embedding, head, router and compressors keep what the checkpoint has"
        if options.weight_dtype not in WEIGHT_FORMATS:
            usual = "each tensor as files of that name have it"
            kept = STAND_IN_MIXES.get(options.weight_dtype, usual)
        yield f"weights priced as {options.weight_dtype}: {kept}"
    if options.n_cpu_moe:
        layers = model.expert_layers(options.n_cpu_moe)
        yield (
            f"experts of {layers} of {model.n_layers} layers lie in the memory of the host, and its "
            f"CPU multiplies them; prompts, too, which a server may copy them for"
        )
    if options.kv_dtype not in {None, model.kv_dtype}:
        yield f"KV cache priced as {options.kv_dtype} instead of {model.kv_dtype}"
    if options.state_dtype not in {None, model.state_dtype} and state_bytes(model):
        yield f"recurrent state priced as {options.state_dtype} instead of {model.state_dtype}"


def position_notes(
    model: Architecture, tokens: float, drafting: Architecture | None = None
) -> Iterator[str]:
    """Yield a note where a request has more tokens than the model has positions.

    Parameters
    ----------
    model
        What is served.
    tokens
        Of a request.
    drafting
        The draft model, if there is one.

    Source
        vLLM 0.33.0 ``config/model.py``, ``_get_and_verify_max_len``, which refuses more, and
        ``config/vllm.py``, ``_limit_max_model_len_to_draft``.

    Examples
    --------
    >>> from specroof import load_model
    >>> [note[:53] for note in position_notes(load_model("Qwen/Qwen3-8B"), 40961)]
    ['Qwen3-8B has positions for 40960 tokens, and 40961 ar']
    """
    if model.positions is not None and tokens > model.positions:
        yield Urgent(
            f"{model.name} has positions for {model.positions} tokens, and {plain_number(tokens)} are "
            f"asked about: most servers refuse such requests unless its config is changed"
        )
    if drafting is not None and drafting.positions is not None and tokens > drafting.positions:
        yield Urgent(
            f"the draft model {drafting.name} has positions for {drafting.positions} tokens, and "
            f"{plain_number(tokens)} are asked about: a server refuses such requests where it drafts "
            f"with it, or drafts nothing for them"
        )


def memory_notes(
    model: Architecture,
    setup: Setup,
    contexts: Array,
    batches: Array,
    *,
    longest: float = 0.0,
    drafting: Architecture | None = None,
) -> Iterator[str]:
    """Yield a note with the numbers if points of the grid do not fit the memory, or the model.

    Parameters
    ----------
    model, setup
        What runs where.
    contexts, batches
        The axes of the grid.
    longest
        Tokens of requests at their end, of which contexts are means.
    drafting
        The draft model, if there is one.

    Source
        `specroof.cost.forward`.

    Examples
    --------
    >>> from specroof.architecture.base import Linear
    >>> from specroof.architecture.model import Layer
    >>> import numpy as np
    >>> from specroof.hardware.engine import IDEAL_ENGINE
    >>> from specroof.hardware.profile import HardwareProfile, Peak, Placement
    >>> chip = HardwareProfile(
    ...     format_version=1,
    ...     name="chip",
    ...     sources={},
    ...     peak=Peak(flops_per_s={"bf16": 1e15}, memory_bytes_per_s=1e12, memory_bytes=1e9),
    ... )
    >>> tiny = Architecture("tiny", "llama", 8, 100, (Layer(()),), Linear("lm_head", 8, 100))
    >>> setup = Setup(chip, IDEAL_ENGINE, Placement(), Options())
    >>> list(memory_notes(tiny, setup, np.array([100.0]), np.array([1.0])))
    []
    """
    hardware = setup.hardware
    textbook = setup.engine.rules == "ideal"
    has = hardware.peak.memory_bytes if textbook else hardware.server_memory_bytes
    context = contexts.max()
    yield from position_notes(model, max(context, longest), drafting)
    options = served_options(model, setup)
    model, beside = divided(model, setup), keeps_input_on_host(setup)
    parts = storage(model, context, options, input_on_host=beside)
    host = hardware.host
    if options.n_cpu_moe and host is not None:
        whole = storage(model, context, replace(options, n_cpu_moe=0))
        held, own = (sum(part.weight_bytes for part in which) for which in (whole, parts))
        if held - own > host.peak.memory_bytes:
            yield Urgent(
                f"{model.name} does not fit the memory of {host.name}: "
                f"{format_binary_bytes(held - own)} of experts{' and tables' * beside}, and it has "
                f"{format_binary_bytes(host.peak.memory_bytes)}"
            )
    needed = partial(device_bytes, parts, setup.placement)
    if needed(batches.max()) <= has:
        return
    weights = float(needed(0.0))
    per_sequence = float(needed(1.0)) - weights
    # The smallest that does not, whatever the grid holds.
    batch = 1 + bisect_right(
        range(1, math.ceil(batches.max())), has, key=lambda size: float(needed(size))
    )
    yield Unfit(
        f"{model.name} does not fit {setup.placement.devices} x {setup.hardware.name} from batch "
        f"size {batch} at context {context:g}: {format_binary_bytes(weights)} of weights and "
        f"{format_binary_bytes(per_sequence)} of cache per sequence on each device, which has "
        f"{format_binary_bytes(has)}"
    )
