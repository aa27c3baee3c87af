"""Seconds of all collectives of a pass: which one follows a block, over which links."""

from collections.abc import Hashable, Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from specroof.arrays import Array, IntArray
from specroof.cost import Collective
from specroof.errors import ProfileError
from specroof.hardware import Collective as Reached
from specroof.hardware import EngineProfile, HardwareProfile, Interconnect, Placement

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
        whole = np.asarray(whole + part)
    return whole


def weighted_total(parts: Iterable[tuple[Array | None, Array]]) -> Array:
    """Return the sum of values, each so many times; the values of one weight are added up first.

    Parameters
    ----------
    parts
        A weight, None for 1, and the values.

    Source
        Addition and the distributive law: over a grid, a weight with an axis of its own meets the
        values once.

    Examples
    --------
    >>> several, many = np.array([[1.0], [2.0]]), np.array([10.0, 20.0])
    >>> weighted_total([(many, several), (None, np.array(0.5)), (many, several)])
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
    """Return the sum of the values of each pass; the values themselves where they are of one.

    Parameters
    ----------
    values
        Of operations.
    passes
        The pass that each value belongs to; None where they are all of one.
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


@dataclass(frozen=True, slots=True)
class _Links:
    """What the links of one device reach in an engine, in its group and beyond."""

    within: Interconnect
    reached: Reached

    @property
    def link_bytes_per_s(self) -> float:
        return self.reached.link_frac * self.within.link_bytes_per_s

    @property
    def scale_out_bytes_per_s(self) -> float:
        # `_links` has refused profiles without it.
        return self.reached.link_frac * (self.within.scale_out_bytes_per_s or 0.0)

    @property
    def scale_out_latency_s(self) -> float:
        return self.reached.scale_out_latency_s or 0.0

    def latency_s(self, devices: int) -> float:
        return self.reached.latency_s + self.reached.device_latency_s * (devices - 1)

    def all_reduce(self, message_bytes: Array, devices: int) -> Array:
        if devices == 1:
            return np.zeros(())
        group = min(devices, self.within.max_devices)
        if devices == group:
            return all_reduce_s(
                message_bytes,
                devices=devices,
                link_bytes_per_s=self.link_bytes_per_s,
                latency_s=self.latency_s(devices),
                in_switch_reduce=self.reached.in_switch_reduce,
            )
        return hierarchical_all_reduce_s(
            message_bytes,
            nodes=devices // group,
            node_devices=group,
            link_bytes_per_s=(self.link_bytes_per_s, self.scale_out_bytes_per_s),
            latency_s=(self.latency_s(group), self.scale_out_latency_s),
        )

    def all_to_all(self, sent_bytes: Array, devices: int) -> Array:
        group = min(devices, self.within.max_devices)
        inside_s = all_to_all_s(
            sent_bytes * (group / devices),
            devices=group,
            link_bytes_per_s=self.link_bytes_per_s,
            latency_s=self.latency_s(group),
        )
        if devices == group:
            return inside_s
        # What leaves the group goes over other links, at the same time.
        outside_s = self.scale_out_latency_s + sent_bytes * (
            (devices - group) / devices / self.scale_out_bytes_per_s
        )
        return np.maximum(inside_s, outside_s)


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
        Of many passes, the one that each message belongs to; None where all are of one.
    """

    collective: Collective
    count: npt.ArrayLike
    hardware: HardwareProfile
    placement: Placement
    passes: IntArray | None = None


def communication_s(
    exchanges: Iterable[Exchange], engine: EngineProfile, n_passes: int | None = None
) -> Array:
    """Return the seconds of all collectives of a pass; an engine without any has them for free.

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
        See `specroof.latency.communication`.

    Examples
    --------
    >>> from specroof.hardware import IDEAL_ENGINE
    >>> float(communication_s([], IDEAL_ENGINE))  # the ideal engine has collectives for free
    0.0
    """
    reached = engine.collective
    if reached is None:
        return np.zeros(())
    return total(
        by_pass(_exchanged_s(one, engine, reached), one.passes, n_passes) for one in exchanges
    )


def _exchanged_s(one: Exchange, engine: EngineProfile, reached: Reached) -> Array:
    links = _links(one, engine, reached)
    return np.asarray(np.asarray(one.count) * _collective_s(one.collective, links, one.placement))


def _links(one: Exchange, engine: EngineProfile, reached: Reached) -> _Links:
    """Return what an engine reaches on the links of an exchange."""
    within, devices = one.hardware.interconnect, one.placement.devices
    if within is None or not _joined(within, reached, devices):
        told = "interconnect.link_bytes_per_s is not given"
        if within is not None:
            told = f"interconnect.max_devices is {within.max_devices}"
        message = f"{one.hardware.name}: {told}"
        msg = f"{message}; engine {engine.name} cannot time collectives over {devices} devices"
        raise ProfileError(msg)
    return _Links(within, reached)


def _joined(within: Interconnect, reached: Reached, devices: int) -> bool:
    """Tell whether collectives over so many devices have a time: one group, or whole groups."""
    if devices <= within.max_devices:
        return True
    known = within.scale_out_bytes_per_s is not None and reached.scale_out_latency_s is not None
    return known and devices % within.max_devices == 0


def _collective_s(collective: Collective, links: _Links, placement: Placement) -> Array:
    """Return the seconds of what follows one block.

    Tensor-parallel blocks end in an all-reduce. Behind data-parallel attention a feed-forward
    gathers its tokens first and scatters the sums: as much traffic, and one latency more. Experts
    spread over devices get and return their tokens by all-to-all.
    """
    groups = placement.attention_data_parallel
    message_bytes = collective.message_bytes
    if collective.block == "attention":
        return links.all_reduce(np.asarray(message_bytes / groups), placement.devices // groups)
    if groups == 1:
        return links.all_reduce(message_bytes, placement.devices)
    if collective.block == "experts" and placement.expert_parallel > 1:
        sent_bytes = message_bytes * collective.copies / placement.expert_parallel
        return 2 * links.all_to_all(np.asarray(sent_bytes), placement.expert_parallel)
    return links.latency_s(placement.devices) + links.all_reduce(message_bytes, placement.devices)
