"""The seconds of a pass: operations at the peaks x an engine. The only `max()` lives here."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np
import numpy.typing as npt

from specroof.arrays import Array, IntArray
from specroof.cost import OpCost
from specroof.hardware import STATE_TOKENS, EngineProfile, ExpertTile
from specroof.latency.communication import Exchange, by_pass, communication_s, total, weighted_total
from specroof.units import format_seconds


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
    """
    if norm is None:
        return np.maximum(compute_s, memory_s)
    if norm == 2:  # of every fitted engine; no seconds are so few that their square is nothing
        return np.sqrt(compute_s * compute_s + memory_s * memory_s)
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
        How many layers are of a kind of `specroof.hardware.LAYER_KINDS`.
    query_len
        New positions per sequence.
    eager
        Where the pass is larger than every captured graph.
    serial_steps
        Steps of a serial head, one after another.
    kernels
        Kernels that are launched where no graph holds them.
    """

    n_layers: npt.ArrayLike
    batch_size: npt.ArrayLike
    layer_kinds: Mapping[str, npt.ArrayLike] = field(default_factory=dict)
    query_len: npt.ArrayLike = 1.0
    eager: npt.ArrayLike = False
    serial_steps: npt.ArrayLike = 0.0
    kernels: npt.ArrayLike = 0.0


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
        Of many passes, the one that each entry belongs to; None where the arrays are of one.
    sequences
        How often all of it is done, one sequence after another; None for once.
    """

    op: OpCost
    compute_dtype: str
    flops: Array
    moved_bytes: Array
    settled: bool = False
    passes: IntArray | None = None
    flop_s: Array | float = 1.0
    byte_s: float = 1.0
    sequences: Array | None = None

    @property
    def compute_s(self) -> Array:
        """Seconds of the arithmetic over all ``op.count`` repetitions, per device."""
        return self._of_all(self.flops * self.flop_s)

    @property
    def memory_s(self) -> Array:
        """Seconds of the memory traffic, likewise."""
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
    """

    ops: Sequence[OpWork]
    exchanges: Sequence[Exchange]
    shape: PassShape
    n_passes: int | None = None
    notes: tuple[str, ...] = ()


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
    passes, sequences
        As of `OpWork`.
    """

    op: OpCost
    compute_dtype: str
    compute_s: Array
    memory_s: Array
    overlap_norm: float | None = None
    passes: IntArray | None = None
    sequences: Array | None = None

    @property
    def seconds(self) -> Array:
        """The roofline of this operation alone: the longer of the two, on an ideal engine."""
        return overlapped_s(self.compute_s, self.memory_s, self.overlap_norm)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class PassLatency:
    """Seconds of one forward pass and what they are made of.

    Parameters
    ----------
    ops
        Every operation with its seconds.
    work_s
        The roofline over all of them, at the granularity asked for.
    communication_s
        Collectives; 0 on the ideal engine.
    overhead_s
        What the engine adds per pass, layer and sequence; 0 on the ideal engine.
    notes
        Dtypes that the device lacks and what stands in.
    """

    ops: tuple[OpLatency, ...]
    work_s: Array
    communication_s: Array
    overhead_s: Array
    notes: tuple[str, ...] = ()

    def __repr__(self) -> str:
        """Return one line: arrays are looked at by name."""
        points = self.total_s.size
        time = format_seconds(float(self.total_s.ravel()[0])) if points == 1 else f"{points} points"
        return f"<PassLatency: {len(self.ops)} operations, {time}>"

    @property
    def total_s(self) -> Array:
        """All of the pass."""
        # What depends on the context is in the work alone: the others are added up without it.
        return np.asarray(self.work_s + (self.communication_s + self.overhead_s))


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
    ops = tuple(_op_latency(op, engine) for op in work.ops)
    latency = PassLatency(
        ops=ops,
        work_s=_GRANULARITIES[granularity](ops, work.n_passes),
        communication_s=communication_s(work.exchanges, engine, work.n_passes),
        overhead_s=_overhead_s(shape, engine),
        notes=work.notes,
    )
    if engine.graphs is None or not np.any(shape.eager):
        return latency
    # Launching is what an eager pass waits for, while the device works: a floor, not a summand.
    launched_s = engine.graphs.eager_layer_s * np.asarray(shape.n_layers)
    launched_s = launched_s + engine.graphs.eager_kernel_s * np.asarray(shape.kernels)
    waited_s = np.maximum(launched_s - latency.total_s, 0.0)
    overhead_s = latency.overhead_s + np.where(shape.eager, waited_s, 0.0)
    return replace(latency, overhead_s=np.asarray(overhead_s))


def _overhead_s(shape: PassShape, engine: EngineProfile) -> Array:
    """Return what an engine adds to a pass: per pass, layer, kind of layer, sequence and token."""
    batch = np.asarray(shape.batch_size, dtype=np.float64)
    queries = np.asarray(shape.query_len, dtype=np.float64)
    layers = np.asarray(shape.n_layers)
    further_tokens = np.minimum(queries, STATE_TOKENS) - 1
    per_kind_s = engine.layer_kind_overhead_s
    kinds_s = total(
        np.asarray(per_kind_s.get(kind, 0.0) * np.asarray(count))
        for kind, count in shape.layer_kinds.items()
    )
    recurrent = np.asarray(shape.layer_kinds.get("linear_attention", 0))
    host_s = np.zeros(())
    if not engine.overlap:
        host_s = engine.host_s + engine.host_sequence_s * batch
    return np.asarray(
        engine.pass_overhead_s
        + host_s
        + engine.layer_overhead_s * layers
        + (kinds_s + engine.state_token_overhead_s * recurrent * further_tokens)
        + engine.layer_token_overhead_s * (layers * batch * queries)
        + engine.sequence_overhead_s * batch
        + np.asarray(shape.serial_steps)
        * (engine.serial_step_overhead_s + engine.serial_sequence_overhead_s * batch)
    )


def _op_latency(work: OpWork, engine: EngineProfile) -> OpLatency:
    """Return an operation as an engine runs it."""
    op, dtype = work.op, work.compute_dtype
    share = engine.kind_compute_frac.get(op.kind, engine.compute_frac.get(dtype, 1.0))
    if work.settled:
        share = engine.prefill_compute_frac.get(op.kind, share)
    reached: float | Array = share
    if engine.expert_tile is not None and op.rows is not None:
        reached = tiled_share(engine.expert_tile, op.rows, few=share)
    memory_frac = engine.kind_memory_frac.get(op.kind, engine.memory_frac)
    return OpLatency(
        op=op,
        compute_dtype=dtype,
        compute_s=np.asarray(work.flops * (work.flop_s / reached)),
        memory_s=np.asarray(work.moved_bytes * (work.byte_s / memory_frac)),
        overlap_norm=engine.overlap_norm,
        passes=work.passes,
        sequences=work.sequences,
    )


def tiled_share(tile: ExpertTile, rows: Array, *, few: float) -> Array:
    """Return the share of the peak that grouped matmuls reach.

    Parameters
    ----------
    tile
        What an engine's kernels do with their rows.
    rows
        Rows per expert that is hit.
    few
        The share with few rows.

    Source
        Its two limits, and how it goes from one to the other: fits to published timings of fused
        kernels, `benchmarks/timed_kernels.py` (aiconfigurator-core 0.12.0).

    Examples
    --------
    >>> tile = ExpertTile(rows=25, compute_frac=0.5)
    >>> tiled_share(tile, np.array([0.0, 25.0, 1e9]), few=0.1).round(3).tolist()
    [0.1, 0.167, 0.5]
    """
    wasted = tile.wasted(rows)
    return np.asarray(1 / (wasted / few + (1 - wasted) / tile.compute_frac))


def _work_per_op(ops: Sequence[OpLatency], n_passes: int | None) -> Array:
    return weighted_total((op.sequences, by_pass(op.seconds, op.passes, n_passes)) for op in ops)


def _work_per_dtype(ops: Sequence[OpLatency], n_passes: int | None) -> Array:
    dtypes = dict.fromkeys(op.compute_dtype for op in ops)
    return total(
        _work_per_pass([op for op in ops if op.compute_dtype == dtype], n_passes)
        for dtype in dtypes
    )


def _work_per_pass(ops: Sequence[OpLatency], n_passes: int | None) -> Array:
    norm = ops[0].overlap_norm if ops else None
    compute_s, memory_s = (
        weighted_total(
            (op.sequences, by_pass(getattr(op, busy), op.passes, n_passes)) for op in ops
        )
        for busy in ("compute_s", "memory_s")
    )
    return overlapped_s(compute_s, memory_s, norm)


_GRANULARITIES: Final[dict[str, Callable[[Sequence[OpLatency], int | None], Array]]] = {
    "op": _work_per_op,
    "dtype": _work_per_dtype,
    "pass": _work_per_pass,
}
