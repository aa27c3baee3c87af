"""Seconds of all collectives of a pass: which one follows a block, over which links."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from specroof.cost import Collective
from specroof.errors import ProfileError
from specroof.hardware import Collective as Reached
from specroof.hardware import EngineProfile, HardwareProfile, Interconnect, Placement
from specroof.latency.collectives import all_reduce_s, all_to_all_s, hierarchical_all_reduce_s
from specroof.latency.sums import Array, IntArray, by_pass, total


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
        See `specroof.latency.collectives`.

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
