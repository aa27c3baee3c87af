"""Seconds of a pass: operations x profile x placement x engine. The only `max()` lives here."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from specroof.cost import Collective, OpCost, Options, Shard, Storage
from specroof.errors import ProfileError
from specroof.hardware import EngineProfile, HardwareProfile, Placement

__all__ = [
    "OpLatency",
    "PassLatency",
    "Setup",
    "all_reduce_s",
    "all_to_all_s",
    "device_bytes",
    "hierarchical_all_reduce_s",
    "price_pass",
]

Array = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Setup:
    """Where a pass runs and which formulas price it.

    Parameters
    ----------
    hardware
        One device.
    engine
        What an engine reaches of it, and loses around it.
    placement
        Over how many devices, and how.
    options
        Granularity and the other choices.
    """

    hardware: HardwareProfile
    engine: EngineProfile
    placement: Placement
    options: Options


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
        Seconds over all ``op.count`` repetitions, per device.
    """

    op: OpCost
    compute_dtype: str
    compute_s: Array
    memory_s: Array

    @property
    def seconds(self) -> Array:
        """The roofline of this operation alone: the longer of the two."""
        return np.maximum(self.compute_s, self.memory_s)


@dataclass(frozen=True, slots=True, eq=False)
class PassLatency:
    """Seconds of one forward pass and what they are made of.

    Parameters
    ----------
    ops
        Every operation, priced.
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

    @property
    def total_s(self) -> Array:
        """All of the pass."""
        return np.asarray(self.work_s + self.communication_s + self.overhead_s)


def price_pass(
    ops: Iterable[OpCost],
    setup: Setup,
    *,
    batch_size: npt.ArrayLike,
    n_layers: int,
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

    Raises
    ------
    ProfileError
        If the device has no arithmetic for a dtype, or with ``strict_dtype`` not just that one.

    Source
        Williams et al. 2009, CACM 52(4), "Roofline"; granularities as published estimators use
        them: per operation (Modal 2026), per dtype (doublewordai/inference-lab), per pass.

    Examples
    --------
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
    engine = setup.engine
    priced = tuple(_price_op(op, setup, notes) for op in ops)
    return PassLatency(
        ops=priced,
        work_s=_GRANULARITIES[setup.options.granularity](priced),
        communication_s=_communication_s(priced, setup),
        overhead_s=np.asarray(
            engine.pass_overhead_s
            + engine.layer_overhead_s * n_layers
            + engine.sequence_overhead_s * np.asarray(batch_size, dtype=np.float64)
        ),
        notes=tuple(notes),
    )


def _price_op(op: OpCost, setup: Setup, notes: dict[str, None]) -> OpLatency:
    hardware, engine = setup.hardware, setup.engine
    dtype, flops_per_s = hardware.arithmetic(op.compute_dtype, strict=setup.options.strict_dtype)
    if dtype != op.compute_dtype:
        notes[f"{hardware.name} has no {op.compute_dtype} arithmetic: {dtype} stands in"] = None
    compute_ways, weight_ways, cache_ways = _ways(op.shard, setup.placement)
    moved = (
        op.weight_bytes / weight_ways
        + op.cache_bytes / cache_ways
        + op.activation_bytes / compute_ways
    )
    reached = engine.compute_frac.get(dtype, 1.0) * flops_per_s
    bytes_per_s = engine.memory_frac * hardware.peak.memory_bytes_per_s
    return OpLatency(
        op=op,
        compute_dtype=dtype,
        compute_s=np.asarray(op.count * op.flops / (compute_ways * reached)),
        memory_s=np.asarray(op.count * moved / bytes_per_s),
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


def _total(parts: Iterable[Array]) -> Array:
    """Return the sum, small shapes first, so that each is expanded as late as can be."""
    total = np.zeros(())
    for part in sorted(parts, key=np.size):
        total = np.asarray(total + part)
    return total


def _work_per_op(ops: tuple[OpLatency, ...]) -> Array:
    return _total(op.seconds for op in ops)


def _work_per_dtype(ops: tuple[OpLatency, ...]) -> Array:
    dtypes = dict.fromkeys(op.compute_dtype for op in ops)
    return _total(
        _work_per_pass(tuple(op for op in ops if op.compute_dtype == dtype)) for dtype in dtypes
    )


def _work_per_pass(ops: tuple[OpLatency, ...]) -> Array:
    return np.maximum(_total(op.compute_s for op in ops), _total(op.memory_s for op in ops))


_GRANULARITIES: Final[dict[str, Callable[[tuple[OpLatency, ...]], Array]]] = {
    "op": _work_per_op,
    "dtype": _work_per_dtype,
    "pass": _work_per_pass,
}


def all_reduce_s(
    message_bytes: npt.ArrayLike,
    *,
    devices: int,
    link_bytes_per_s: float,
    latency_s: float,
    in_switch_reduce: bool = False,
) -> Array:
    r"""Return the seconds of an all-reduce.

    .. math:: t = t_0 + \phi \, n / W, \quad \phi = 2 (g - 1) / g

    Parameters
    ----------
    message_bytes
        The tensor, n.
    devices
        g.
    link_bytes_per_s
        One direction of one device's links, W.
    latency_s
        Of a short message.
    in_switch_reduce
        The switch adds: each byte crosses a link once, so that :math:`\phi = 1`.

    Ignores
        one-shot kernels for short messages, whose cost `latency_s` carries.
    Source
        Thakur et al. 2005, IJHPCA 19(1), section 4 (ring); NVLink SHARP for the switch.

    Examples
    --------
    >>> link = {"devices": 8, "link_bytes_per_s": 1e12, "latency_s": 1e-6}
    >>> float(all_reduce_s(8e6, **link)) * 1e6  # 1 + 2 * 7/8 * 8, in microseconds
    15.0
    """
    share = 1.0 if in_switch_reduce else 2 * (devices - 1) / devices
    return latency_s + share * np.asarray(message_bytes, dtype=np.float64) / link_bytes_per_s


def all_to_all_s(
    device_bytes: npt.ArrayLike, *, devices: int, link_bytes_per_s: float, latency_s: float
) -> Array:
    r"""Return the seconds of an all-to-all in which each device sends `device_bytes` in total.

    .. math:: t = t_0 + \frac{g - 1}{g} \, n / W

    Source
        Thakur et al. 2005, IJHPCA 19(1), section 4.

    Examples
    --------
    >>> link = {"devices": 8, "link_bytes_per_s": 1e12, "latency_s": 1e-6}
    >>> float(all_to_all_s(8e6, **link)) * 1e6  # 1 + 7/8 * 8, in microseconds
    8.0
    """
    share = (devices - 1) / devices
    return latency_s + share * np.asarray(device_bytes, dtype=np.float64) / link_bytes_per_s


def hierarchical_all_reduce_s(
    message_bytes: npt.ArrayLike,
    *,
    nodes: int,
    node_devices: int,
    link_bytes_per_s: tuple[float, float],
    latency_s: tuple[float, float],
) -> Array:
    r"""Return the seconds of an all-reduce over several nodes.

    Inside each node a reduce-scatter and an all-gather, between nodes an all-reduce of what one
    device then holds:

    .. math:: t = 2 \left( t_0 + \frac{g - 1}{g} \frac{n}{W} \right)
        + t_0' + \frac{2 (m - 1)}{m} \frac{n / g}{W'}

    Parameters
    ----------
    message_bytes
        The tensor, n.
    nodes, node_devices
        m and g.
    link_bytes_per_s, latency_s
        Inside a node, and between nodes.

    Source
        Thakur et al. 2005, IJHPCA 19(1); NCCL's hierarchical rings.

    Examples
    --------
    >>> float(
    ...     hierarchical_all_reduce_s(
    ...         8e6,
    ...         nodes=2,
    ...         node_devices=8,
    ...         link_bytes_per_s=(1e12, 100e9),
    ...         latency_s=(1e-6, 10e-6),
    ...     )
    ... ) * 1e6
    36.0
    """
    inside = all_to_all_s(
        message_bytes,
        devices=node_devices,
        link_bytes_per_s=link_bytes_per_s[0],
        latency_s=latency_s[0],
    )
    between = all_reduce_s(
        np.asarray(message_bytes, dtype=np.float64) / node_devices,
        devices=nodes,
        link_bytes_per_s=link_bytes_per_s[1],
        latency_s=latency_s[1],
    )
    return np.asarray(2 * inside + between)


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


@dataclass(frozen=True, slots=True)
class _Link:
    """What one device's links reach in an engine."""

    link_bytes_per_s: float
    latency_s: float
    in_switch_reduce: bool

    def all_reduce(self, message_bytes: Array, devices: int) -> Array:
        if devices == 1:
            return np.zeros(())
        return all_reduce_s(
            message_bytes,
            devices=devices,
            link_bytes_per_s=self.link_bytes_per_s,
            latency_s=self.latency_s,
            in_switch_reduce=self.in_switch_reduce,
        )

    def all_to_all(self, sent_bytes: Array, devices: int) -> Array:
        return all_to_all_s(
            sent_bytes,
            devices=devices,
            link_bytes_per_s=self.link_bytes_per_s,
            latency_s=self.latency_s,
        )


def _communication_s(ops: tuple[OpLatency, ...], setup: Setup) -> Array:
    """Return the seconds of all collectives of a pass; an engine without any has them for free."""
    reached, devices = setup.engine.collective, setup.placement.devices
    if reached is None or devices == 1:
        return np.zeros(())
    within = setup.hardware.interconnect
    if within is None or devices > within.max_devices:
        most = 1 if within is None else within.max_devices
        message = f"{setup.hardware.name}: interconnect.max_devices is {most}"
        msg = f"{message}; engine {setup.engine.name} cannot price {devices} devices"
        raise ProfileError(msg)
    link = _Link(
        link_bytes_per_s=reached.link_frac * within.link_bytes_per_s,
        latency_s=reached.latency_s,
        in_switch_reduce=reached.in_switch_reduce,
    )
    return _total(
        op.op.count * _collective_s(op.op.collective, link, setup.placement)
        for op in ops
        if op.op.collective is not None
    )


def _collective_s(collective: Collective, link: _Link, placement: Placement) -> Array:
    """Return the seconds of what follows one block.

    Tensor-parallel blocks end in an all-reduce. Behind data-parallel attention a feed-forward
    gathers its tokens first and scatters the sums: as much traffic, and one latency more. Experts
    spread over devices get and return their tokens by all-to-all.
    """
    groups = placement.attention_data_parallel
    message_bytes = collective.message_bytes
    if collective.block == "attention":
        return link.all_reduce(np.asarray(message_bytes / groups), placement.devices // groups)
    if groups == 1:
        return link.all_reduce(message_bytes, placement.devices)
    if collective.block == "experts" and placement.expert_parallel > 1:
        sent_bytes = message_bytes * collective.copies / placement.expert_parallel
        return 2 * link.all_to_all(np.asarray(sent_bytes), placement.expert_parallel)
    return link.latency_s + link.all_reduce(message_bytes, placement.devices)
