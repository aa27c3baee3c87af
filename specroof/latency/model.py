"""A model in a setup: from a forward pass to what it does, and to its seconds."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

import numpy as np
import numpy.typing as npt

from specroof.architecture import Architecture
from specroof.cost import ForwardPass, OpCost, forward_cost
from specroof.hardware import CapturedGraphs
from specroof.latency.operations import pass_work
from specroof.latency.pass_seconds import PassLatency, PassShape, PassWork, pass_time
from specroof.latency.setup import Setup

__all__ = ["Beside", "layer_kinds", "model_latency", "model_work", "padded_pass"]


class Beside(Protocol):
    """Work of another model in the same pass, which adds no launches; `Work` is one."""

    @property
    def architecture(self) -> Architecture:
        """The model."""

    @property
    def forward_pass(self) -> ForwardPass:
        """Its positions."""

    @property
    def times(self) -> float:
        """How often it runs, one after another: a weight is read each time."""


def model_latency(
    model: Architecture, setup: Setup, forward: ForwardPass, *, beside: Sequence[Beside] = ()
) -> PassLatency:
    """Return the seconds of one pass of a model.

    Parameters
    ----------
    model
        What runs.
    setup
        Where, in which engine, by which formulas.
    forward
        The pass as it is asked for.
    beside
        What runs in the same pass, such as `specroof.drafters.Work`.

    Raises
    ------
    ProfileError
        If the device cannot compute a dtype, or collectives have no known time.

    Source
        See `model_work` and `specroof.latency.pass_time`.

    Examples
    --------
    >>> from specroof.architecture import Layer, Linear
    >>> from specroof.cost import Options
    >>> from specroof.hardware import EngineProfile, HardwareProfile, Peak, Placement
    >>> chip = HardwareProfile(
    ...     format_version=1,
    ...     name="chip",
    ...     sources={},
    ...     peak=Peak(flops_per_s={"bf16": 1e15}, memory_bytes_per_s=1e12, memory_bytes=1e9),
    ... )
    >>> tiny = Architecture("tiny", "llama", 8, 100, (Layer((), 5),), Linear("lm_head", 8, 0))
    >>> setup = Setup(chip, EngineProfile(name="e", layer_overhead_s=2.0), Placement(), Options())
    >>> float(model_latency(tiny, setup, ForwardPass(1, 1, 0)).total_s)  # 5 layers of 2 s
    10.0
    """
    work = model_work(model, setup, forward, beside=beside)
    return pass_time(work, setup.engine, setup.options.granularity)


def model_work(
    model: Architecture,
    setup: Setup,
    forward: ForwardPass,
    *,
    beside: Sequence[Beside] = (),
    by_sequence: bool = False,
) -> PassWork:
    """Return what one pass of a model does at the peaks of its devices: padded and counted.

    Parameters
    ----------
    model, setup, forward, beside
        As of `model_latency`. Of the engine only what changes the work matters: the sizes of its
        graphs and how dependent the routing of tokens is.
    by_sequence
        As of `specroof.cost.forward_cost`: less to compute over a grid.

    Raises
    ------
    ProfileError
        If the device cannot compute a dtype.

    Source
        See `specroof.cost.forward_cost` and `specroof.latency.operations.pass_work`.

    Examples
    --------
    >>> from specroof.architecture import Layer, Linear
    >>> from specroof.cost import Options
    >>> from specroof.hardware import IDEAL_ENGINE, HardwareProfile, Peak, Placement
    >>> chip = HardwareProfile(
    ...     format_version=1,
    ...     name="chip",
    ...     sources={},
    ...     peak=Peak(flops_per_s={"bf16": 1e15}, memory_bytes_per_s=1e12, memory_bytes=1e9),
    ... )
    >>> tiny = Architecture("tiny", "llama", 8, 100, (Layer((), 5),), Linear("lm_head", 8, 0))
    >>> setup = Setup(chip, IDEAL_ENGINE, Placement(), Options())
    >>> model_work(tiny, setup, ForwardPass(1, 1, 0)).shape.n_layers
    5
    """
    engine = setup.engine
    padded, eager = padded_pass(forward, engine.graphs)
    locality = engine.expert_locality
    works = [(one.architecture, one.forward_pass, one.times) for one in beside]
    ops = [
        _repeated(op, times)
        for part, positions, times in ((model, padded, 1.0), *works)
        for op in forward_cost(
            part,
            positions,
            setup.options,
            expert_locality=None if locality is None else (locality.run, locality.batch),
            by_sequence=by_sequence,
        )
    ]
    kinds = layer_kinds(model)
    shape = PassShape(model.n_layers, forward.batch_size, kinds, forward.query_len, eager)
    return pass_work(ops, setup, shape, settled=forward.settled)


def _repeated(op: OpCost, times: float) -> OpCost:
    """Return an operation that runs several times in a row, its weights read each time."""
    if times == 1:
        return op
    amounts = ("flops", "weight_bytes", "cache_bytes", "activation_bytes")
    return replace(op, **{name: getattr(op, name) * times for name in amounts})


def padded_pass(
    forward: ForwardPass, graphs: CapturedGraphs | None
) -> tuple[ForwardPass, npt.NDArray[np.bool_]]:
    """Return the pass as an engine runs it, and where no captured graph is large enough.

    Graphs whose sizes count sequences are of decoding and verification: a prompt fits none.

    Parameters
    ----------
    forward
        The pass as it is asked for.
    graphs
        The captured sizes; None for an engine that pads nothing.

    Source
        vLLM `cudagraph_capture_sizes`, SGLang `--cuda-graph-bs`: the next captured size runs.

    Examples
    --------
    >>> graphs = CapturedGraphs(sizes=(8, 16))
    >>> asked = ForwardPass(batch_size=[2, 3, 8], query_len=4, context_len=0)
    >>> padded, eager = padded_pass(asked, graphs)
    >>> padded.matmul_tokens.tolist(), eager.tolist()  # 8, 12 and 32 tokens
    ([8.0, 16.0, 32.0], [False, False, True])
    """
    if graphs is None:
        return forward, np.zeros((), dtype=bool)
    if forward.settled and graphs.counts == "sequences":
        return forward, np.ones((), dtype=bool)
    asked = forward.tokens if graphs.counts == "tokens" else forward.batch_size
    sizes = np.array([*graphs.sizes, np.inf])
    size = sizes[np.searchsorted(sizes, asked)]
    eager = np.isinf(size)
    factor = np.where(eager, 1.0, size / asked)
    return replace(forward, matmul_len=forward.query_len * factor), eager


def layer_kinds(model: Architecture) -> dict[str, int]:
    """Return how many layers are of each kind that an engine may lose extra time in.

    Source
        Counting.

    Examples
    --------
    >>> from specroof.architecture import Block, Experts, Layer, Linear
    >>> experts = Experts(n_experts=4, top_k=1, in_features=8, hidden_features=8)
    >>> moe = Layer((Block("feed_forward", (), experts),), count=3)
    >>> layer_kinds(Architecture("toy", "llama", 8, 9, (moe,), Linear("lm_head", 8, 9)))
    {'experts': 3}
    """
    counts: dict[str, int] = {}
    for layer in model.layers:
        for block in layer.blocks:
            for kind in () if block.core is None else block.core.overhead_kinds:
                counts[kind] = counts.get(kind, 0) + layer.count
    return counts
