"""From operations to what they do on a device at its peaks, and the memory that it needs."""

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from specroof.cost import OpCost, Shard, Storage
from specroof.hardware import Placement
from specroof.latency.communication import Exchange
from specroof.latency.pass_seconds import OpWork, PassShape, PassWork
from specroof.latency.setup import Setup
from specroof.latency.sums import Array


def pass_work(
    ops: Iterable[OpCost], setup: Setup, shape: PassShape, *, settled: bool = False
) -> PassWork:
    r"""Return what a pass does at the peaks of a device, before any engine.

    .. math:: c_i = \frac{F_i}{p_i P}, \qquad m_i = \frac{M_i}{q_i W}

    with p and q the devices that share an operation.

    Parameters
    ----------
    ops
        From `specroof.cost.forward_cost`.
    setup
        Where, and over how many devices; its engine does not matter.
    shape
        Layers and sequences, for what an engine loses around the work.
    settled
        Whether all new positions are accepted already, as those of a prompt are.

    Raises
    ------
    ProfileError
        If the device has no arithmetic for a dtype, or with ``strict_dtype`` not just that one.

    Source
        Williams et al. 2009, CACM 52(4), "Roofline".

    Examples
    --------
    >>> from specroof.cost import Options
    >>> from specroof.hardware import IDEAL_ENGINE, HardwareProfile, Peak
    >>> peak = Peak(flops_per_s={"bf16": 4.0}, memory_bytes_per_s=2.0, memory_bytes=1.0)
    >>> chip = HardwareProfile(format_version=1, name="chip", sources={}, peak=peak)
    >>> nothing = np.zeros(())
    >>> op = OpCost("up_proj", "dense", 1, np.array(8.0), np.array(6.0), nothing, nothing, "bf16")
    >>> setup = Setup(chip, IDEAL_ENGINE, Placement(), Options())
    >>> (work,) = pass_work([op], setup, PassShape(1, 1)).ops
    >>> float(work.compute_s), float(work.memory_s)
    (2.0, 3.0)
    """
    crowding = _crowding(setup.placement, shape.batch_size)
    ops = tuple(ops)
    works = [_op_work(op, setup, crowding, settled=settled) for op in ops]
    name = setup.hardware.name
    stand_ins = dict.fromkeys(
        f"{name} has no {one.op.compute_dtype} arithmetic: {one.compute_dtype} stands in"
        for one in works
        if one.compute_dtype != one.op.compute_dtype
    )
    exchanges = [
        Exchange(op.collective, op.count, setup.hardware, setup.placement)
        for op in ops
        if op.collective is not None and setup.placement.devices > 1
    ]
    return PassWork(works, exchanges, shape, notes=tuple(stand_ins))


def _crowding(placement: Placement, batch_size: npt.ArrayLike) -> Array | float:
    """Return how many times its even share the busiest data-parallel group of attention has.

    Fewer sequences than groups leave groups idle; the others have no less to do for it.
    """
    if placement.attention_data_parallel == 1:
        return 1.0
    batch = np.asarray(batch_size, dtype=np.float64)
    return np.maximum(1.0, placement.attention_data_parallel / batch)


def _op_work(op: OpCost, setup: Setup, crowding: Array | float, *, settled: bool) -> OpWork:
    hardware = setup.hardware
    dtype, flops_per_s = hardware.arithmetic(op.compute_dtype, strict=setup.options.strict_dtype)
    compute_ways, weight_ways, cache_ways = _ways(op.shard, setup.placement)
    busiest = crowding if op.shard.group == "attention" else 1.0
    sequences = op.sequences
    if sequences is not None:
        sequences, busiest = np.asarray(sequences * busiest), 1.0
    moved = (
        op.weight_bytes / weight_ways
        + busiest * op.cache_bytes / cache_ways
        + busiest * op.activation_bytes / compute_ways
    )
    bytes_per_s = hardware.peak.memory_bytes_per_s
    return OpWork(
        op=op,
        compute_dtype=dtype,
        flops=op.flops,
        moved_bytes=moved,
        settled=settled,
        flop_s=busiest * op.count / (compute_ways * flops_per_s),
        byte_s=op.count / bytes_per_s,
        sequences=sequences,
    )


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
        Counting; the same division as `pass_work`.

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
