"""Seconds of a pass: the roofline of its operations, its collectives, what the engine adds."""

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from specroof.arrays import Array, BoolArray, IntArray, grouped
from specroof.cost import BlockExchange, OpCost
from specroof.errors import ProfileError
from specroof.hardware.engine import (
    STATE_TOKENS,
    Collective,
    EngineProfile,
    ExpertKernel,
    ExpertTile,
    SparseKernel,
)
from specroof.hardware.profile import DevicePower, HardwareProfile, Interconnect, Placement
from specroof.units import format_seconds

#: Rows of an expert that fill a tile: its timed kernel takes as long for fewer.
FULL_TILE: Final = 16.0

# --- Sums over the parts of a pass, and over the parts of each of many ---------------------------


def total(parts: Iterable[Array]) -> Array:
    """Return the sum, in the order given: a grid in slices must round as the whole one does.

    Source
        Addition.

    Examples
    --------
    >>> total([np.ones((2, 1)), np.array(3.0)]).tolist()
    [[4.0], [4.0]]
    """
    whole = np.zeros(())
    for part in parts:
        fits = part.shape in {(), whole.shape}
        if fits or np.broadcast_shapes(whole.shape, part.shape) == whole.shape:
            whole += part  # an array of a grid is dearer to make than to fill
        else:
            whole = np.asarray(whole + part)
    return whole


def weighted_total(parts: Iterable[tuple[Array | None, Array]]) -> Array:
    """Return the weighted sum of values; values of equal weight are added up first.

    Parameters
    ----------
    parts
        A weight, None for 1, and the values.

    Source
        Addition and the distributive law: over a grid, a weight with an axis of its own meets the
        values once.

    Examples
    --------
    >>> values, weights = np.array([[1.0], [2.0]]), np.array([10.0, 20.0])
    >>> weighted_total([(weights, values), (None, np.array(0.5)), (weights, values)])
    array([[20.5, 40.5],
           [40.5, 80.5]])
    """
    groups: dict[Hashable, tuple[Array | None, list[Array]]] = {None: (None, [])}
    for weight, values in parts:
        key = None if weight is None else (weight.shape, weight.tobytes())
        groups.setdefault(key, (weight, []))[1].append(values)
    return total(
        total(values) if weight is None else np.asarray(weight * total(values))
        for weight, values in groups.values()
    )


def by_pass(values: Array, passes: IntArray | None, n_passes: int | None) -> Array:
    """Return the sum of the values of each pass; the values themselves for a single pass.

    Parameters
    ----------
    values
        Of operations.
    passes
        The pass that each value belongs to; None for a single pass.
    n_passes
        How many passes there are.

    Source
        Addition.

    Examples
    --------
    >>> by_pass(np.array([1.0, 2.0, 4.0]), np.array([0, 2, 2]), 3).tolist()
    [1.0, 0.0, 6.0]
    """
    if passes is None or n_passes is None:
        return values
    each = np.broadcast_to(values, passes.shape)
    return np.asarray(np.bincount(passes, weights=each, minlength=n_passes), dtype=np.float64)


# --- Seconds of the exchanges between devices, by message size, topology and number of devices ---


@dataclass(frozen=True, slots=True)
class _Links:
    """Speed of the links of one device in an engine, inside its node and beyond."""

    within: Interconnect
    reached: Collective
    node_devices: int | None = None

    @property
    def link_bytes_per_s(self) -> float:
        return self.reached.link_frac * self.within.link_bytes_per_s

    @property
    def scale_out_bytes_per_s(self) -> float:
        # `communication_s` has refused profiles without it.
        return self.reached.link_frac * (self.within.scale_out_bytes_per_s or 0.0)

    @property
    def scale_out_latency_s(self) -> float:
        return self.reached.scale_out_latency_s or 0.0

    def latency_s(self, devices: int) -> float:
        return self.reached.latency_s + self.reached.device_latency_s * (devices - 1)

    def all_reduce(self, message_bytes: Array, devices: int) -> Array:
        r"""Return the seconds of an all-reduce of a tensor of n bytes.

        .. math:: t = t_0 + \phi \, n / W, \quad \phi = 2 (g - 1) / g

        with :math:`\phi = 1` where the switch adds, so that each byte crosses a link once. Of a
        short message in a one-shot kernel, in which each device reads the whole message of all
        others, :math:`t_0 + (g - 1) \, n / W_1`; no longer message takes less. Over m nodes a
        reduce-scatter and an all-gather inside of each, and between them an all-reduce of what one
        device then holds:

        .. math:: t = 2 \left( t_0 + \frac{g - 1}{g} \frac{n}{W} \right)
            + t_0' + \frac{2 (m - 1)}{m} \frac{n / g}{W'}

        Source
            Thakur et al. 2005, IJHPCA 19(1), section 4 (ring); NVLink SHARP for the switch;
            TensorRT-LLM ``customAllReduceKernels.cu`` and vLLM ``csrc/custom_all_reduce.cuh``
            (one-shot kernels); NCCL's hierarchical rings.
        """
        if devices == 1:
            return np.zeros(())
        group = min(devices, self.node_devices or self.within.max_devices)
        if devices > group:
            nodes = math.ceil(devices / group)
            between_s = (
                self.scale_out_latency_s
                + 2 * (nodes - 1) / nodes * (message_bytes / group) / self.scale_out_bytes_per_s
            )
            inside_s = self.all_to_all(message_bytes, group, self.latency_s(group))
            return np.asarray(2 * inside_s + between_s)
        share = 1.0 if self.within.switch_reduces else 2 * (devices - 1) / devices
        long_s = self.latency_s(devices) + share * message_bytes / self.link_bytes_per_s
        one_shot_frac, most = self.reached.one_shot_frac, self.reached.one_shot_bytes
        if one_shot_frac is None:
            return long_s
        bytes_per_s = one_shot_frac * self.within.link_bytes_per_s
        read_bytes = (devices - 1) * np.minimum(message_bytes, most)
        short_s = self.latency_s(devices) + read_bytes / bytes_per_s
        return np.where(message_bytes <= most, short_s, np.maximum(long_s, short_s))

    def all_to_all(self, sent_bytes: Array, devices: int, latency_s: float) -> Array:
        r"""Return the seconds of an all-to-all in which each device sends n bytes in total.

        .. math:: t = t_0 + \frac{g - 1}{g} \, n / W

        Source
            Thakur et al. 2005, IJHPCA 19(1), section 4.
        """
        group = min(devices, self.node_devices or self.within.max_devices)
        inside_bytes = (group - 1) / group * (sent_bytes * (group / devices))
        inside_s = np.asarray(latency_s + inside_bytes / self.link_bytes_per_s)
        if devices == group:
            return inside_s
        # What leaves the group goes over other links, at the same time.
        outside_s = latency_s + sent_bytes * (
            (devices - group) / devices / self.scale_out_bytes_per_s
        )
        return np.maximum(inside_s, outside_s)

    def between_stages(self, message_bytes: Array, placement: Placement) -> Array:
        r"""Return the seconds from stage to stage of a pipeline, and of a token back to the first.

        .. math:: t = \sum_{hops} \left( t_0 + \frac{n}{g W} + t_{gather}(n / d) \right) + t_0

        with g the devices of a stage, of which each sends a part, and d its groups of data-parallel
        attention: each gathers what its devices received.

        Source
            vLLM 0.33.0 and SGLang 0.5.23, ``distributed/parallel_state.py``, ``send_tensor_dict``.
            Stages lie in the order of devices: as few hops as can be leave a node.
        """
        nodes = placement.nodes or 1
        leaving = min(nodes, placement.pipeline_parallel) - 1
        staying = placement.pipeline_parallel - 1 - leaving
        sent_bytes = message_bytes / placement.tensor_parallel
        hop_s = self.latency_s(2)
        seconds = staying * (hop_s + sent_bytes / self.link_bytes_per_s)
        if leaving:
            hop_s = self.scale_out_latency_s
            seconds = seconds + leaving * (hop_s + sent_bytes / self.scale_out_bytes_per_s)
        group = placement.group_size
        if group > 1:
            shared_bytes = message_bytes / placement.attention_data_parallel
            gather_s = self.all_to_all(shared_bytes, group, self.latency_s(group))
            seconds = seconds + (leaving + staying) * gather_s
        return np.asarray(seconds + hop_s)


@dataclass(frozen=True, slots=True, eq=False)
class Exchange:
    """What devices exchange behind an operation of a pass, or behind those of many passes.

    Parameters
    ----------
    collective
        What is exchanged.
    count
        How often, for each message.
    hardware, placement
        Between which devices.
    passes
        Of many passes, the one that each message belongs to; None for a single pass.
    """

    collective: BlockExchange
    count: npt.ArrayLike
    hardware: HardwareProfile
    placement: Placement
    passes: IntArray | None = None


def communication_s(
    exchanges: Iterable[Exchange], engine: EngineProfile, n_passes: int | None = None
) -> Array:
    """Return the seconds of all collectives of a pass; 0 for an engine without a collective model.

    Parameters
    ----------
    exchanges
        What devices exchange in the pass, or in many passes.
    engine
        What it reaches on the links.
    n_passes
        How many passes; None for one.

    Raises
    ------
    ProfileError
        If the devices are more than the interconnect joins, and the profile does not say what
        the links between groups reach.

    Source
        Thakur et al. 2005, IJHPCA 19(1), section 4: see `_Links`.

    Examples
    --------
    >>> from specroof.hardware.engine import IDEAL_ENGINE
    >>> float(communication_s([], IDEAL_ENGINE))  # the ideal engine
    0.0
    """
    reached = engine.collective
    if reached is None:
        return np.zeros(())
    parts = []
    for exchange in exchanges:
        block, placement = exchange.collective, exchange.placement
        within, devices, nodes = exchange.hardware.interconnect, placement.devices, placement.nodes
        problem = None
        if within is None:
            problem = "interconnect.link_bytes_per_s is not given"
        elif devices > within.max_devices or (nodes or 1) > 1:
            most = f"interconnect.max_devices is {within.max_devices}"
            if within.scale_out_bytes_per_s is None:
                missing = "interconnect.scale_out_bytes_per_s, between nodes, is not given"
                problem = f"{most}, and {missing}"
            elif reached.scale_out_latency_s is None:
                problem = most
        if within is None or problem is not None:
            message = (
                f"{exchange.hardware.name}: {problem}; engine {engine.name} cannot time "
                f"collectives over {devices} devices"
            )
            raise ProfileError(message)
        links = _Links(within, reached, None if nodes is None else devices // nodes)
        seconds = np.asarray(exchange.count) * _collective_s(block, links, placement, engine)
        parts.append(by_pass(np.asarray(seconds), exchange.passes, n_passes))
    return total(parts)


def _collective_s(
    exchange: BlockExchange, links: _Links, placement: Placement, engine: EngineProfile
) -> Array:
    """Return the seconds of the collectives behind one block.

    Blocks end in an all-reduce, also experts that are spread over devices: every device has all
    tokens and adds what its own experts make of them. Behind data-parallel attention a feed-forward
    gathers its tokens first and scatters the sums: as much traffic, and one latency more. Where
    kernels send tokens to experts instead, each goes to as many devices as it has experts, at most
    to all: that a device may have two of them is left out.

    Source
        vLLM 0.33.0 ``fused_moe/config.py``, ``use_all2all_kernels`` (not without data parallelism),
        and ``fused_moe/runner/moe_runner.py``, ``_maybe_reduce_final_output``; SGLang 0.5.23
        ``layers/moe/fused_moe_triton/layer.py`` and ``layers/dp_attention.py``.
    """
    groups, devices = placement.attention_data_parallel, placement.tensor_parallel
    message_bytes = exchange.message_bytes
    if exchange.block == "stage":
        return links.between_stages(message_bytes, placement)
    if exchange.block == "context":  # all is gathered or scattered among few
        spread = placement.decode_context_parallel
        return links.all_to_all(message_bytes, spread, links.latency_s(spread))
    if exchange.block == "attention":
        return links.all_reduce(np.asarray(message_bytes / groups), devices // groups)
    if groups == 1:
        return links.all_reduce(message_bytes, devices)
    spread, kernels = placement.expert_parallel, None
    if exchange.block == "experts" and spread > 1:
        linked = links.within.max_devices
        if (placement.nodes or 1) > 1:
            linked = min(linked, links.node_devices or linked)
        kernels = engine.all_to_all(devices, linked)
    if kernels is not None:
        copies = min(exchange.copies, spread)
        sent_bytes = np.asarray(message_bytes * (copies / spread))
        dispatched_bytes = np.asarray(sent_bytes * exchange.dispatch_frac)
        dispatch_s = links.all_to_all(dispatched_bytes, spread, kernels.dispatch_latency_s)
        return dispatch_s + links.all_to_all(sent_bytes, spread, kernels.combine_latency_s)
    return links.latency_s(devices) + links.all_reduce(message_bytes, devices)


# --- The roofline, and what an engine adds around it: the only `max()` lives here -----------------


def overlapped_s(compute_s: Array, memory_s: Array, norm: float | None) -> Array:
    r"""Return the seconds of work whose arithmetic and memory traffic overlap.

    .. math:: t = (c^p + m^p)^{1/p}

    Parameters
    ----------
    compute_s, memory_s
        c and m, each as if the other were free.
    norm
        p: 1 for one after the other, None for the longer of the two (p without end).

    Source
        The roofline's `max` (Williams et al. 2009, CACM 52(4)) with a rounded knee; a norm of 2
        fits published decode steps best.

    Examples
    --------
    >>> times = np.array(3.0), np.array(4.0)
    >>> [float(overlapped_s(*times, norm)) for norm in (None, 2, 1)]
    [4.0, 5.0, 7.0]
    >>> float(overlapped_s(*times, 3)) ** 3  # 27 + 64
    91.0
    """
    if norm is None:
        return np.maximum(compute_s, memory_s)
    if norm == 2:  # of every fitted engine; no seconds are so few that their square is nothing
        squares = np.asarray(compute_s * compute_s + memory_s * memory_s)
        return np.sqrt(squares, out=squares)
    # The larger one is taken out first, so that no power underflows.
    larger = np.maximum(compute_s, memory_s)
    smaller = np.minimum(compute_s, memory_s)
    share = np.divide(smaller, larger, out=np.zeros(np.shape(larger)), where=larger > 0)
    return np.asarray(larger * (1 + share**norm) ** (1 / norm))


@dataclass(frozen=True, slots=True, eq=False)
class PassShape:
    """What an engine's overhead depends on; of many passes, an array with an entry for each.

    Parameters
    ----------
    n_layers
        Layers of the model.
    batch_size
        Sequences in the pass.
    layer_kinds
        How many layers are of a kind of `specroof.hardware.engine.LAYER_KINDS`.
    query_len
        New positions per sequence.
    eager
        Where the pass is larger than every captured graph.
    serial_steps
        Steps of a serial head, one after another.
    kernels
        Kernels that are launched where no graph holds them and nothing fuses them.
    launches
        Calls in which a server launches a pass over prompts.
    takes_prompts
        Whether there are tokens of prompts in the pass.
    groups
        Groups of data-parallel attention: the sequences of each have a scheduler of their own.
    token_s
        Seconds in which the memory, at its peak, moves the activations of a token of prompts.
    padding
        How many times the new positions matrices take, with those that fill a captured graph.
    """

    n_layers: Array | float
    batch_size: Array | float
    layer_kinds: Mapping[str, Array | float] = field(default_factory=dict)
    query_len: Array | float = 1.0
    eager: BoolArray | Array | bool = False
    serial_steps: Array | float = 0.0
    kernels: Array | float = 0.0
    launches: Array | float = 0.0
    takes_prompts: Array | bool = False
    groups: Array | float = 1.0
    token_s: Array | float = 0.0
    padding: Array | float = 1.0


#: The kind of attention whose kernel does not split the cache of a sequence over the chip: a thread
#: block that has the cache to itself multiplies full tiles, and reaches of a chip's arithmetic what
#: dense matmuls do, not what attention of a few rows does; of its bandwidth, what attention does.
UNSPLIT: Final = "unsplit_attention"


#: What an operation has of work.
AMOUNTS: Final = ("flops", "weight_bytes", "cache_bytes", "activation_bytes")
#: How many times its even share of an amount a device does.
Times: TypeAlias = Mapping[str, Array | float]


@dataclass(frozen=True, slots=True, eq=False)
class OpWork:
    """How long an operation keeps a device's arithmetic and its memory busy at their peaks.

    Parameters
    ----------
    op
        The operation.
    compute_dtype
        The dtype that the device computes in: the operation's, or a wider stand-in.
    flops, moved_bytes
        Amounts, in units that take `flop_s` and `byte_s` seconds each, repetitions included.
    settled
        Whether it is of a pass over a prompt, which runs other kernels.
    passes
        Of many passes, the one that each entry belongs to; None for a single pass.
    sequences
        How often all of it is done, one sequence after another; None for once.
    unsplit
        Of attention in several kernels, where it runs in the one that does not split the cache of a
        sequence over the chip; None where one kernel runs all of it.
    corrections
        What `flop_s` and `moved_bytes` have beyond the share of a device, by name.
    layers, held_experts
        Of experts, the layers that have some, and those of all of them that a device holds.
    """

    op: OpCost
    compute_dtype: str
    flops: Array
    moved_bytes: Array
    settled: bool = False
    passes: IntArray | None = None
    flop_s: Array | float = 1.0
    byte_s: Array | float = 1.0
    sequences: Array | None = None
    unsplit: BoolArray | None = None
    corrections: Mapping[str, Times] = field(default_factory=dict)
    layers: Array | float = 0.0
    held_experts: Array | float = 0.0

    @property
    def compute_s(self) -> Array:
        """Seconds of the arithmetic over all ``op.count`` repetitions, per device."""
        return self._of_all(self.flops * self.flop_s)

    @property
    def memory_s(self) -> Array:
        """Seconds of the memory traffic over all repetitions, per device."""
        return self._of_all(self.moved_bytes * self.byte_s)

    def _of_all(self, seconds: Array) -> Array:
        return np.asarray(seconds if self.sequences is None else seconds * self.sequences)


@dataclass(frozen=True, slots=True, eq=False)
class PassWork:
    """What a pass does, before any engine; or what many passes do, operations of a kind together.

    Parameters
    ----------
    ops, exchanges
        Operations, and what devices exchange behind them.
    shape
        Layers and sequences.
    n_passes
        How many passes; None for one, whose arrays have the shape of its operating points.
    notes
        Dtypes that the device lacks and what stands in.
    pipeline
        The stages that it goes through, of which the above is one micro-batch; None for one stage.
    times
        How many such passes follow one another: parts of a prompt; None for one.
    power
        What the devices draw, where they are capped; else None.
    """

    ops: Sequence[OpWork]
    exchanges: Sequence[Exchange]
    shape: PassShape
    n_passes: int | None = None
    notes: tuple[str, ...] = ()
    pipeline: "Pipeline | None" = None
    times: Array | float | None = None
    power: DevicePower | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Pipeline:
    """The stages that a pass goes through, in micro-batches.

    Parameters
    ----------
    stage_frac
        Share of the layers that the fullest stage has.
    micro_batches
        How many follow one another.
    fills
        Whether the pipeline is empty before the first of them, as of a prompt alone; else they come
        round again and again.
    """

    stage_frac: float
    micro_batches: npt.ArrayLike
    fills: bool


@dataclass(frozen=True, slots=True, eq=False)
class OpLatency:
    """How long one operation keeps a device's arithmetic and its memory busy.

    Parameters
    ----------
    op
        The operation.
    compute_dtype
        The dtype that the device computes in: the operation's, or a wider stand-in.
    compute_s, memory_s
        Seconds over all ``op.count`` repetitions, per device; of one sequence where `sequences`
        tells how many there are.
    overlap_norm
        How the engine overlaps the two: see `overlapped_s`.
    passes
        Of many passes, the one that each entry belongs to; None for a single pass.
    sequences
        How often all of it is done, one sequence after another; None for once.
    corrections
        See `OpWork`.
    floor_s
        Seconds over all repetitions that neither takes; None for none.
    """

    op: OpCost
    compute_dtype: str
    compute_s: Array
    memory_s: Array
    overlap_norm: float | None = None
    passes: IntArray | None = None
    sequences: Array | None = None
    corrections: Mapping[str, Times] = field(default_factory=dict)
    floor_s: Array | None = None

    @property
    def seconds(self) -> Array:
        """The roofline of this operation alone: the longer of the two, on an ideal engine."""
        busy_s = overlapped_s(self.compute_s, self.memory_s, self.overlap_norm)
        return busy_s if self.floor_s is None else np.asarray(busy_s + self.floor_s)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class PassLatency:
    """Seconds of one forward pass and what they are made of.

    Parameters
    ----------
    ops
        Every operation with its seconds.
    work_s
        The roofline over all of them, at the chosen granularity.
    communication_s
        Collectives; 0 on the ideal engine.
    overheads_s
        What the engine adds, by name: see `overheads_s`; empty on the ideal engine.
    notes
        Dtypes that the device lacks and what stands in.
    waiting_s
        What micro-batches wait for one another in the slowest stage; 0 with one stage.
    stage_s
        Of a micro-batch in the last stage, which has the head: the slowest. 0 with one stage.
    """

    ops: tuple[OpLatency, ...]
    work_s: Array
    communication_s: Array
    overheads_s: Mapping[str, Array | float]
    notes: tuple[str, ...] = ()
    waiting_s: Array | float = 0.0
    stage_s: Array | float = 0.0

    def __repr__(self) -> str:
        """Return one line: arrays are looked at by name."""
        points = self.total_s.size
        time = format_seconds(float(self.total_s.ravel()[0])) if points == 1 else f"{points} points"
        return f"<PassLatency: {len(self.ops)} operations, {time}>"

    @property
    def overhead_s(self) -> Array:
        """All that the engine adds."""
        return np.asarray(sum(self.overheads_s.values(), 0.0))

    @property
    def beside_ops_s(self) -> list[tuple[str, str, float]]:
        """Name, kind and seconds of what is no operation and takes time; of one pass."""
        parts = [
            ("communication", "communication", self.communication_s),
            *((name, "overhead", seconds) for name, seconds in self.overheads_s.items()),
            ("pipeline", "pipeline", self.waiting_s),
        ]
        summed = [(name, kind, float(np.sum(seconds))) for name, kind, seconds in parts]
        return [part for part in summed if part[2] > 0]

    @property
    def filling_s(self) -> Array:
        """Of a pass of prompts, what it takes when the next one has entered; 0 of one stage."""
        stage_s = np.asarray(self.stage_s)
        through_s = self.total_s - self.waiting_s
        return np.where(stage_s > 0, np.maximum(through_s - stage_s, 0.0), 0.0)

    @property
    def total_s(self) -> Array:
        """All of the pass."""
        # What depends on the context is in the work alone: the others are added up without it.
        return np.asarray(self.work_s + (self.communication_s + self.overhead_s + self.waiting_s))


def pass_time(work: PassWork, engine: EngineProfile, granularity: str = "op") -> PassLatency:
    r"""Return the seconds of a pass, or of each of many: the one formula that everything calls.

    .. math:: t = \sum_i \max \left( \frac{c_i}{f_i}, \frac{m_i}{q_i} \right)
        + t_{comm} + t_{over}

    with c and m the seconds at the peaks, and f and q the shares of the peaks that the engine
    reaches; the sum runs over operations, dtypes or the one pass.

    Parameters
    ----------
    work
        What is done, where.
    engine
        What it reaches of the peaks, and loses around the work.
    granularity
        ``"op"``, ``"dtype"`` or ``"pass"``.

    Raises
    ------
    ProfileError
        If collectives over so many devices have no known time.

    Source
        Williams et al. 2009, CACM 52(4), "Roofline"; granularities as published estimators use
        them: per operation (Modal 2026), per dtype (doublewordai/inference-lab), per pass.

    Examples
    --------
    >>> zero = np.zeros(())
    >>> op = OpCost("up_proj", "dense", 10, zero, zero, zero, zero, "bf16")
    >>> work = PassWork([OpWork(op, "bf16", np.array(3.0), np.array(4.0))], [], PassShape(10, 1))
    >>> engine = EngineProfile(name="half", memory_frac=0.5, layer_overhead_s=0.2)
    >>> float(pass_time(work, engine).total_s)  # 4 / 0.5, and 10 layers
    10.0
    """
    shape = work.shape
    ops = []
    for busy in work.ops:
        reached, memory_frac = _shares(busy, busy.op.kind, engine)
        if busy.unsplit is not None:
            other = _shares(busy, UNSPLIT, engine)
            reached = np.where(busy.unsplit, other[0], reached)
            memory_frac = np.where(busy.unsplit, other[1], memory_frac)
        kernel = expert_kernel(busy.op, engine, settled=busy.settled)
        ops.append(
            OpLatency(
                op=busy.op,
                compute_dtype=busy.compute_dtype,
                compute_s=np.asarray(busy.flops * (busy.flop_s / reached)),
                memory_s=np.asarray(busy.moved_bytes * (busy.byte_s / memory_frac)),
                overlap_norm=engine.overlap_norm,
                passes=busy.passes,
                sequences=busy.sequences,
                corrections=busy.corrections,
                floor_s=None
                if kernel is None
                else np.asarray(busy.layers * kernel.floor_s + busy.held_experts * kernel.expert_s),
            )
        )
    overheads = overheads_s(shape, engine)
    latency = PassLatency(
        ops=tuple(ops),
        work_s=_work_s(ops, work.n_passes, granularity),
        communication_s=communication_s(work.exchanges, engine, work.n_passes),
        overheads_s=overheads,
        notes=work.notes,
    )
    # What is left of launches, and what a cap costs, lies above all that was added so far.
    for name, launched_s in launches_s(shape, engine).items():
        overheads[name] = np.maximum(launched_s - latency.total_s, 0.0)
    if work.power is not None:
        bare = [
            replace(
                op, compute_s=0 * one.flops, memory_s=one.moved_bytes * one.byte_s, floor_s=None
            )
            for op, one in zip(ops, work.ops, strict=True)
        ]
        core_s = latency.total_s - _work_s(bare, work.n_passes, granularity)
        overheads["power cap"] = work.power.lost_s(core_s, latency.total_s)
    if work.times is not None:
        return repeated(latency, work.times)
    return latency if work.pipeline is None else staged(latency, work.pipeline, engine)


def expert_kernel(op: OpCost, engine: EngineProfile, *, settled: bool) -> ExpertKernel | None:
    """Return the timed kernel of an operation; None of what is no experts, or of a prompt.

    That of the format of its weights comes before that of the dtype of its arithmetic.

    Parameters
    ----------
    op, engine
        What runs, and where.
    settled
        Whether the pass is over a prompt.

    Source
        The profile: `EngineProfile.expert_kernels`.

    Examples
    --------
    >>> zero = np.zeros(())
    >>> op = OpCost("experts", "experts", 1, zero, zero, zero, zero, "fp8")
    >>> kernel = ExpertKernel(
    ...     floor_s=2e-5, expert_s=3e-7, memory_frac=0.9, compute_frac=0.05, tokens=512
    ... )
    >>> engine = EngineProfile(name="e", expert_kernels={"fp8": kernel})
    >>> [expert_kernel(op, engine, settled=settled) is kernel for settled in (False, True)]
    [True, False]
    >>> expert_kernel(replace(op, on_host=True), engine, settled=False) is None
    True
    """
    if op.kind != "experts" or settled or op.on_host:
        return None
    kernels = engine.expert_kernels
    return kernels.get(op.weight) or kernels.get(op.compute_dtype)


def sparse_kernel(op: OpCost, engine: EngineProfile, *, settled: bool) -> SparseKernel | None:
    """Return the timed kernel of attention to picked tokens; None of all else.

    Parameters
    ----------
    op, engine
        What runs, and where.
    settled
        Whether the pass is over a prompt.

    Source
        The profile: `EngineProfile.sparse_kernels`.

    Examples
    --------
    >>> zero = np.zeros(())
    >>> op = OpCost("core", "latent_attention", 1, zero, zero, zero, zero, "bf16")
    >>> sparse_kernel(op, EngineProfile(name="e"), settled=True) is None
    True
    """
    kernel = None if op.picked is None else engine.sparse_kernels.get(op.picked.kernel)
    return kernel if kernel is None or settled or kernel.decodes else None


def _shares(busy: OpWork, kind: str, engine: EngineProfile) -> tuple[Array | float, Array | float]:
    """Return the shares of a device's arithmetic and bandwidth that kernels of a kind reach."""
    kernel = expert_kernel(busy.op, engine, settled=busy.settled)
    if kernel is not None:
        return _kernel_share(kernel, busy.op.rows), kernel.memory_frac
    memory_frac = engine.kind_memory_frac.get(kind, engine.memory_frac)
    sparse = sparse_kernel(busy.op, engine, settled=busy.settled)
    if sparse is not None:
        return sparse.compute_frac, memory_frac
    share = engine.kind_compute_frac.get(kind, engine.compute_frac.get(busy.compute_dtype, 1.0))
    if busy.settled:
        share = engine.prefill_compute_frac.get(kind, share)
    reached: float | Array = share
    timed = None
    if kind == "experts" and busy.op.rows is not None:
        if busy.settled and not busy.op.on_host:
            tiles = engine.prefill_expert_tiles
            timed = tiles.get(busy.op.weight) or tiles.get(busy.op.compute_dtype)
        tile = timed or engine.expert_tile
        reached = share if tile is None else tiled_share(tile, busy.op.rows, few=share)
    if busy.settled and timed is None and kind not in engine.prefill_compute_frac:
        reached = engine.prefill_frac * reached
    if kind == UNSPLIT and kind not in engine.kind_memory_frac:
        memory_frac = engine.kind_memory_frac.get("attention", memory_frac)
    return reached, memory_frac


def _kernel_share(kernel: ExpertKernel, rows: Array | None) -> Array | float:
    """Return the share of a device's arithmetic that timed experts reach with so many rows each."""
    if kernel.rows is None or kernel.many_frac is None or rows is None:
        return kernel.compute_frac
    tile = ExpertTile(rows=kernel.rows, compute_frac=kernel.many_frac)
    return tiled_share(tile, np.maximum(rows - FULL_TILE, 0.0), few=kernel.compute_frac)


def repeated(latency: PassLatency, times: Array | float) -> PassLatency:
    """Return so many passes that follow one another.

    Parameters
    ----------
    latency
        Of one of them.
    times
        How many.

    Source
        Counting.

    Examples
    --------
    >>> one = PassLatency((), np.array(2.0), np.array(0.5), {"each pass": 1.0})
    >>> float(repeated(one, 4).total_s)
    14.0
    """
    return replace(
        latency,
        ops=tuple(
            replace(
                one,
                op=replace(one.op, **{name: getattr(one.op, name) * times for name in AMOUNTS}),
                compute_s=np.asarray(one.compute_s * times),
                memory_s=np.asarray(one.memory_s * times),
                floor_s=None if one.floor_s is None else np.asarray(one.floor_s * times),
            )
            for one in latency.ops
        ),
        work_s=np.asarray(latency.work_s * times),
        communication_s=np.asarray(latency.communication_s * times),
        overheads_s={name: seconds * times for name, seconds in latency.overheads_s.items()},
    )


def staged(latency: PassLatency, pipeline: Pipeline, engine: EngineProfile) -> PassLatency:
    r"""Return a pass in stages, from the seconds of a micro-batch through all of them.

    .. math:: t_{stage} = f (t - t_{end}) + t_{end}, \qquad
        t_{pass} = \max(t, m \, t_{stage})

    with f the share of the layers in the fullest stage, and t_end the head and what the engine adds
    once a pass. Of micro-batches that find the pipeline empty the last is through after
    :math:`t + (m - 1) t_{stage}`.

    Parameters
    ----------
    latency
        Of one micro-batch, t.
    pipeline
        Its stages, and m micro-batches.
    engine
        What it adds once a pass.

    Ignores
        that vLLM gives the last stage the fewer layers where they do not divide; that stages differ
        in the kinds of their layers.
    Source
        Counting. vLLM 0.33.0 ``config/vllm.py``, ``max_concurrent_batches``: as many micro-batches
        as stages are in flight (one more, with asynchronous scheduling, waits for the first stage).

    Examples
    --------
    >>> pipeline = Pipeline(stage_frac=0.5, micro_batches=3, fills=False)
    >>> engine = EngineProfile(name="e", pass_overhead_s=2.0)
    >>> latency = staged(PassLatency((), np.array(8.0), np.zeros(()), {}), pipeline, engine)
    >>> float(latency.stage_s), float(latency.total_s)  # 0.5 * 6 + 2, three times
    (5.0, 15.0)
    """
    head_s = total(op.seconds for op in latency.ops if op.op.kind == "head")
    end_s = head_s + engine.pass_overhead_s
    stage_s = np.asarray(pipeline.stage_frac * (latency.total_s - end_s) + end_s)
    rounds = np.asarray(pipeline.micro_batches, dtype=np.float64)
    if pipeline.fills:
        waiting_s = (rounds - 1) * stage_s
    else:
        waiting_s = np.maximum(rounds * stage_s - latency.total_s, 0.0)
    return replace(latency, stage_s=stage_s, waiting_s=np.asarray(waiting_s))


def overheads_s(shape: PassShape, engine: EngineProfile) -> dict[str, Array | float]:
    """Return what an engine adds to a pass, by name: seconds of one, times how many there are.

    Parameters
    ----------
    shape
        What is counted.
    engine
        Its seconds, which `EngineProfile` defines; those that it does not have are left out.

    Source
        Fits to published measurements, `benchmarks/fit_engines.py`. One scheduler for each group of
        data-parallel attention: SGLang 0.5.23 ``srt/managers/data_parallel_controller.py``, vLLM
        0.33.0 ``v1/engine/core.py``, ``DPEngineCoreProc``.

    Examples
    --------
    >>> engine = EngineProfile(name="e", layer_overhead_s=0.5, sequence_overhead_s=0.25)
    >>> found = overheads_s(PassShape(n_layers=6, batch_size=8), engine)
    >>> {name: float(seconds) for name, seconds in found.items()}
    {'layers': 3.0, 'sequences': 2.0}
    """
    scheduled = shape.batch_size / shape.groups
    further_len = np.minimum(shape.query_len, STATE_TOKENS) - 1
    kinds, by_kind = shape.layer_kinds, engine.layer_kind_overhead_s.items()
    tokens = shape.batch_size * shape.query_len
    frac = engine.activation_frac
    moved = 0.0 if frac is None else tokens * shape.takes_prompts  # tokens whose bytes count
    counted: dict[str, tuple[float, Array | float]] = {
        "each pass": (engine.pass_overhead_s, 1),
        "host": (0.0 if engine.overlap else engine.host_s, 1),
        "host, by sequence": (0.0 if engine.overlap else engine.host_sequence_s, scheduled),
        "layers": (engine.layer_overhead_s, shape.n_layers),
        **{f"layers, {kind}": (each_s, kinds[kind]) for kind, each_s in by_kind if kind in kinds},
        "recurrence": (
            engine.state_token_overhead_s,
            kinds.get("linear_attention", 0) * further_len,
        ),
        "tokens in layers": (
            engine.layer_token_overhead_s,
            shape.n_layers * (tokens - moved),
        ),
        "activations of prompts": (1 / frac if frac else 0.0, shape.token_s * moved),
        "kernels of prompts": (
            engine.prefill_kernel_overhead_s,
            shape.kernels * shape.takes_prompts,
        ),
        "sequences": (engine.sequence_overhead_s, scheduled),
        "serial head": (engine.serial_step_overhead_s, shape.serial_steps),
        "serial head, by sequence": (
            engine.serial_sequence_overhead_s,
            shape.serial_steps * scheduled,
        ),
    }
    return {name: each_s * n for name, (each_s, n) in counted.items() if each_s}


def launches_s(shape: PassShape, engine: EngineProfile) -> dict[str, Array]:
    """Return how long launching alone takes, by name: the device works meanwhile, and may wait.

    A pass lasts no less: what is left of it beside the work is an overhead.

    Parameters
    ----------
    shape
        Kernels, layers, and where no graph holds them.
    engine
        Its seconds of a launch.

    Source
        Fits to published measurements, `benchmarks/fit_engines.py`.

    Examples
    --------
    >>> engine = EngineProfile(name="e", prefill_launch_s=0.5)
    >>> prompt = PassShape(6, 1, launches=4, takes_prompts=True)
    >>> float(launches_s(prompt, engine)["launches of prompts"])
    2.0
    """
    found = {}
    if engine.graphs is not None and np.any(shape.eager):
        kernels_s = engine.graphs.eager_kernel_s * shape.kernels
        found["launches"] = np.where(shape.eager, kernels_s, 0.0)
    if engine.prefill_launch_s and np.any(shape.takes_prompts):
        prompts_s = engine.prefill_launch_s * shape.launches
        found["launches of prompts"] = np.asarray(prompts_s * shape.takes_prompts)
    return found


def tiled_share(tile: ExpertTile, rows: Array, *, few: float) -> Array:
    """Return the share of the peak that grouped matmuls reach.

    Parameters
    ----------
    tile
        What an engine's kernels do with their rows.
    rows
        Rows per expert that is hit.
    few
        The share with few rows, of a tile that has none of its own.

    Source
        Its two limits, and how it goes from one to the other: fits to published timings of fused
        kernels, `benchmarks/timed_kernels.py` (aiconfigurator-core 0.12.0).

    Examples
    --------
    >>> tile = ExpertTile(rows=25, compute_frac=0.5)
    >>> tiled_share(tile, np.array([0.0, 25.0, 1e9]), few=0.1).round(3).tolist()
    [0.1, 0.167, 0.5]
    """
    wasted = tile.rows / (tile.rows + np.asarray(rows, dtype=np.float64))  # few rows decide
    return np.asarray(1 / (wasted / (tile.few_frac or few) + (1 - wasted) / tile.compute_frac))


def _work_s(ops: Sequence[OpLatency], n_passes: int | None, granularity: str) -> Array:
    """Return the roofline of a pass, whose `max` is over each operation, each dtype, or all."""
    if granularity == "op":
        return weighted_total(
            (op.sequences, by_pass(op.seconds, op.passes, n_passes)) for op in ops
        )
    if granularity == "dtype":
        dtypes = grouped(ops, lambda op: op.compute_dtype)
        return total(_work_s(some, n_passes, "pass") for some in dtypes.values())
    norm = ops[0].overlap_norm if ops else None
    compute_s, memory_s, floor_s = (
        weighted_total(
            (op.sequences, by_pass(seconds, op.passes, n_passes))
            for op in ops
            if (seconds := getattr(op, part)) is not None
        )
        for part in ("compute_s", "memory_s", "floor_s")
    )
    return np.asarray(overlapped_s(compute_s, memory_s, norm) + floor_s)
