"""Seconds of all collectives of a pass: which one follows a block, over which links."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from specroof.cost import Collective
from specroof.errors import ProfileError
from specroof.hardware import Collective as Reached
from specroof.hardware import Interconnect, Placement
from specroof.latency.collectives import all_reduce_s, all_to_all_s, hierarchical_all_reduce_s
from specroof.latency.setup import Array, OpLatency, Setup, total

__all__ = ["communication_s"]


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
        # `communication_s` has refused profiles without it.
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


def communication_s(ops: Iterable[OpLatency], setup: Setup) -> Array:
    """Return the seconds of all collectives of a pass; an engine without any has them for free.

    Parameters
    ----------
    ops
        The operations of a pass; the last of each block names its collective.
    setup
        Links, engine and placement.

    Raises
    ------
    ProfileError
        If the devices are more than the interconnect joins, and the profile does not say what
        the links between groups reach.

    Source
        See `specroof.latency.collectives`.

    Examples
    --------
    >>> from specroof.cost import Options
    >>> from specroof.hardware import IDEAL_ENGINE, HardwareProfile, Peak
    >>> chip = HardwareProfile(
    ...     format_version=1,
    ...     name="chip",
    ...     sources={},
    ...     peak=Peak(flops_per_s={"bf16": 1e15}, memory_bytes_per_s=1e12, memory_bytes=8e10),
    ... )
    >>> setup = Setup(chip, IDEAL_ENGINE, Placement(tensor_parallel=8), Options())
    >>> float(communication_s([], setup))  # the ideal engine has collectives for free
    0.0
    """
    reached, devices = setup.engine.collective, setup.placement.devices
    if reached is None or devices == 1:
        return np.zeros(())
    within = setup.hardware.interconnect
    if within is None or not _joined(within, reached, devices):
        most = 1 if within is None else within.max_devices
        message = f"{setup.hardware.name}: interconnect.max_devices is {most}"
        msg = f"{message}; engine {setup.engine.name} cannot price {devices} devices"
        raise ProfileError(msg)
    links = _Links(within, reached)
    return total(
        op.op.count * _collective_s(op.op.collective, links, setup.placement)
        for op in ops
        if op.op.collective is not None
    )


def _joined(within: Interconnect, reached: Reached, devices: int) -> bool:
    """Tell whether collectives over so many devices have a price: one group, or whole groups."""
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
