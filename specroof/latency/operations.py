"""Seconds of one pass, operation by operation, and the memory that a device needs."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Final

import numpy as np
import numpy.typing as npt

from specroof.cost import OpCost, Shard, Storage
from specroof.hardware import STATE_TOKENS, EngineProfile, ExpertTile, Placement
from specroof.latency.communication import communication_s
from specroof.latency.setup import (
    Array,
    OpLatency,
    PassLatency,
    PassShape,
    Setup,
    overlapped_s,
    total,
)

__all__ = ["device_bytes", "price_pass", "tiled_share"]


def price_pass(
    ops: Iterable[OpCost],
    setup: Setup,
    *,
    batch_size: npt.ArrayLike,
    n_layers: int,
    shape: PassShape | None = None,
) -> PassLatency:
    r"""Return the seconds of a pass.

    .. math:: t = \sum_i \max \left( \frac{F_i}{p_i f_i P}, \frac{M_i}{q_i W} \right)
        + t_{comm} + t_{over}

    with p and q the devices that share an operation, and f the fraction of peak P that the engine
    reaches; the sum runs over operations, dtypes or the one pass.

    Parameters
    ----------
    ops
        From `specroof.cost.forward_cost`.
    setup
        Where, how well, over how many devices, and at which granularity.
    batch_size
        Sequences in the pass.
    n_layers
        Layers of the model, for what an engine loses in each.
    shape
        What else an engine's overhead depends on.

    Raises
    ------
    ProfileError
        If the device has no arithmetic for a dtype, or with ``strict_dtype`` not just that one.

    Source
        Williams et al. 2009, CACM 52(4), "Roofline"; granularities as published estimators use
        them: per operation (Modal 2026), per dtype (doublewordai/inference-lab), per pass.

    Examples
    --------
    >>> from specroof.cost import Options
    >>> from specroof.hardware import parse_hardware
    >>> text = '''
    ... format_version: 1
    ... name: one petaflop, one terabyte per second
    ... aliases: []
    ... sources: {peak.flops_per_s: "-", peak.memory_bytes_per_s: "-", peak.memory_bytes: "-"}
    ... peak: {flops_per_s: {bf16: 1.0e+15}, memory_bytes_per_s: 1.0e+12, memory_bytes: 80.0e+9}
    ... '''
    >>> chip = parse_hardware(text, source="chip.yaml")
    >>> setup = Setup(chip, chip.engine("ideal"), Placement(), Options())
    >>> nothing = np.zeros(())
    >>> op = OpCost("up_proj", "dense", 10, np.array(2e9), np.array(2e9), nothing, nothing, "bf16")
    >>> float(price_pass([op], setup, batch_size=1, n_layers=10).total_s)  # 10 * 2 GB / 1 TB/s
    0.02
    """
    notes: dict[str, None] = {}
    shape = shape or PassShape()
    engine = setup.engine
    crowding = _crowding(setup.placement, batch_size)
    kind_frac = engine.kind_compute_frac
    if shape.settled:
        kind_frac = {**kind_frac, **engine.prefill_compute_frac}
    batch = np.asarray(batch_size, dtype=np.float64)
    layer_tokens = n_layers * batch * np.asarray(shape.query_len, dtype=np.float64)
    priced = tuple(_price_op(op, setup, kind_frac, crowding, notes) for op in ops)
    latency = PassLatency(
        ops=priced,
        work_s=_GRANULARITIES[setup.options.granularity](priced),
        communication_s=communication_s(priced, setup),
        overhead_s=np.asarray(
            engine.pass_overhead_s
            + engine.layer_overhead_s * n_layers
            + _kind_overhead_s(engine, shape)
            + engine.layer_token_overhead_s * layer_tokens
            + engine.sequence_overhead_s * batch
        ),
        notes=tuple(notes),
    )
    if engine.graphs is None or not np.any(shape.eager):
        return latency
    # Launching is what an eager pass waits for, while the device works: a floor, not a summand.
    waited_s = np.maximum(engine.graphs.eager_layer_s * n_layers - latency.total_s, 0.0)
    overhead_s = latency.overhead_s + np.where(shape.eager, waited_s, 0.0)
    return replace(latency, overhead_s=np.asarray(overhead_s))


def _kind_overhead_s(engine: EngineProfile, shape: PassShape) -> Array:
    """Return what layers of some kinds lose beyond what every layer does."""
    further_tokens = np.minimum(np.asarray(shape.query_len, dtype=np.float64), STATE_TOKENS) - 1
    per_kind_s = engine.layer_kind_overhead_s
    fixed_s = sum(per_kind_s.get(kind, 0.0) * count for kind, count in shape.layer_kinds.items())
    recurrent = shape.layer_kinds.get("linear_attention", 0)
    return np.asarray(fixed_s + engine.state_token_overhead_s * recurrent * further_tokens)


def _crowding(placement: Placement, batch_size: npt.ArrayLike) -> Array:
    """Return how many times its even share the busiest data-parallel group of attention has.

    Fewer sequences than groups leave groups idle; the others have no less to do for it.
    """
    batch = np.asarray(batch_size, dtype=np.float64)
    return np.maximum(1.0, placement.attention_data_parallel / batch)


def _price_op(
    op: OpCost,
    setup: Setup,
    kind_frac: Mapping[str, float],
    crowding: Array,
    notes: dict[str, None],
) -> OpLatency:
    hardware, engine = setup.hardware, setup.engine
    dtype, flops_per_s = hardware.arithmetic(op.compute_dtype, strict=setup.options.strict_dtype)
    if dtype != op.compute_dtype:
        notes[f"{hardware.name} has no {op.compute_dtype} arithmetic: {dtype} stands in"] = None
    compute_ways, weight_ways, cache_ways = _ways(op.shard, setup.placement)
    busiest = crowding if op.shard.group == "attention" else 1.0
    moved = (
        op.weight_bytes / weight_ways
        + busiest * op.cache_bytes / cache_ways
        + busiest * op.activation_bytes / compute_ways
    )
    compute_frac = kind_frac.get(op.kind, engine.compute_frac.get(dtype, 1.0))
    reached = np.asarray(compute_frac * flops_per_s)
    if engine.expert_tile is not None and op.rows is not None:
        reached = flops_per_s * tiled_share(engine.expert_tile, op.rows, few=compute_frac)
    memory_frac = engine.kind_memory_frac.get(op.kind, engine.memory_frac)
    bytes_per_s = memory_frac * hardware.peak.memory_bytes_per_s
    return OpLatency(
        op=op,
        compute_dtype=dtype,
        compute_s=np.asarray(busiest * op.count * op.flops / (compute_ways * reached)),
        memory_s=np.asarray(op.count * moved / bytes_per_s),
        overlap_norm=engine.overlap_norm,
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


def _ways(shard: Shard, placement: Placement) -> tuple[int, int, int]:
    """Return over how many devices arithmetic, weights and cached bytes are divided.

    Data-parallel attention divides the sequences, and with them arithmetic and cache, and repeats
    the weights in every group.
    """
    groups = placement.attention_data_parallel if shard.group == "attention" else 1
    group_size = placement.tensor_parallel // groups
    return (
        groups * min(group_size, shard.compute_ways),
        min(group_size, shard.weight_ways),
        groups * min(group_size, shard.cache_ways),
    )


def _work_per_op(ops: tuple[OpLatency, ...]) -> Array:
    return total(op.seconds for op in ops)


def _work_per_dtype(ops: tuple[OpLatency, ...]) -> Array:
    dtypes = dict.fromkeys(op.compute_dtype for op in ops)
    return total(
        _work_per_pass(tuple(op for op in ops if op.compute_dtype == dtype)) for dtype in dtypes
    )


def _work_per_pass(ops: tuple[OpLatency, ...]) -> Array:
    norm = ops[0].overlap_norm if ops else None
    return overlapped_s(total(op.compute_s for op in ops), total(op.memory_s for op in ops), norm)


_GRANULARITIES: Final[dict[str, Callable[[tuple[OpLatency, ...]], Array]]] = {
    "op": _work_per_op,
    "dtype": _work_per_dtype,
    "pass": _work_per_pass,
}


def device_bytes(
    parts: Iterable[Storage], placement: Placement, batch_size: npt.ArrayLike
) -> Array:
    """Return the memory that one device needs for weights and for its share of the sequences.

    Parameters
    ----------
    parts
        From `specroof.cost.storage`.
    placement
        How weights and caches divide.
    batch_size
        Sequences over all devices.

    Source
        Counting; the same division as `price_pass`.

    Examples
    --------
    >>> latent = Storage(8e9, np.array(1e6), Shard("attention", cache_ways=1))
    >>> float(device_bytes([latent], Placement(tensor_parallel=8), 1000)) / 1e9  # 8 / 8 + 1
    2.0
    """
    batch = np.asarray(batch_size, dtype=np.float64)
    total = np.zeros(())
    for part in parts:
        _, weight_ways, cache_ways = _ways(part.shard, placement)
        total = total + part.weight_bytes / weight_ways + batch * part.sequence_bytes / cache_ways
    return np.asarray(total)
