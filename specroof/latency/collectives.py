"""Seconds of the exchanges between devices, by message size, topology and number of devices."""

import numpy as np
import numpy.typing as npt

from specroof.arrays import Array


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
