"""The values that the latency room trades in: where a pass runs, and how long its parts take."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from specroof.cost import OpCost, Options
from specroof.hardware import EngineProfile, HardwareProfile, Placement, Server

__all__ = ["Array", "OpLatency", "PassLatency", "PassShape", "Setup", "overlapped_s", "total"]

Array = npt.NDArray[np.float64]


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
    # The larger one is taken out first, so that no power underflows.
    larger = np.maximum(compute_s, memory_s)
    smaller = np.minimum(compute_s, memory_s)
    share = np.divide(smaller, larger, out=np.zeros(np.shape(larger)), where=larger > 0)
    return np.asarray(larger * (1 + share**norm) ** (1 / norm))


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
    server
        What the server around it runs with; None where nobody asked for a server.
    """

    hardware: HardwareProfile
    engine: EngineProfile
    placement: Placement
    options: Options
    server: Server | None = None


@dataclass(frozen=True, slots=True, eq=False)
class PassShape:
    """What an engine's overhead depends on, besides layers and sequences.

    Parameters
    ----------
    layer_kinds
        How many layers are of a kind of `specroof.hardware.LAYER_KINDS`.
    query_len
        New positions per sequence.
    eager
        Where the pass is larger than every captured graph.
    settled
        Whether all new positions are accepted already, as those of a prompt are.
    """

    layer_kinds: Mapping[str, int] = field(default_factory=dict)
    query_len: npt.ArrayLike = 1.0
    eager: npt.ArrayLike = False
    settled: bool = False


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
    overlap_norm
        How the engine overlaps the two: see `overlapped_s`.
    """

    op: OpCost
    compute_dtype: str
    compute_s: Array
    memory_s: Array
    overlap_norm: float | None = None

    @property
    def seconds(self) -> Array:
        """The roofline of this operation alone: the longer of the two, on an ideal engine."""
        return overlapped_s(self.compute_s, self.memory_s, self.overlap_norm)


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
