"""A model in a setup: from a forward pass to what it does, and to its seconds."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

import numpy as np
import numpy.typing as npt

from specroof.architecture import Architecture
from specroof.cost import ForwardPass, OpCost, forward_cost
from specroof.cost.joined import joined_costs
from specroof.hardware import CapturedGraphs
from specroof.latency.cache_formats import served_options
from specroof.latency.operations import pass_work
from specroof.latency.pass_seconds import PassLatency, PassShape, PassWork, pass_time
from specroof.latency.setup import Setup

#: Kernels of an operation that are more than one, where nothing fuses them.
_KERNELS: Final = {
    # rotations of queries and keys (10), their way into the cache (2), layout (1), the core (2)
    "attention": 15,
    "latent_attention": 15,
    # choice and weights of experts (8); their three matmuls around an activation, sums (8)
    "router": 8,
    "experts": 8,
    # streams mixed by 20 rounds of Sinkhorn, each two sums and two divisions, and what is around
    "residual": 90,
    # gates, convolution or positions, norms
    "compressor": 10,
    "indexer": 10,
    "state": 15,
}
#: Kernels of a layer beside its operations: two norms of eight, two sums, an activation of two.
_LAYER_KERNELS: Final = 20


@dataclass(frozen=True, slots=True, eq=False)
class Work:
    """Work inside a pass of a model: it adds no launch.

    Parameters
    ----------
    architecture, forward_pass
        What runs.
    times
        How often, one after another: a weight is read each time.
    kind
        ``"layers"`` of another model; ``"steps"``: each time waits for the token of the one before;
        ``"prompts"``: a second batch of the pass's own model, its matrices read once for both.
    """

    architecture: Architecture
    forward_pass: ForwardPass
    times: float = 1.0
    kind: Literal["layers", "steps", "prompts"] = "layers"


def model_latency(
    model: Architecture, setup: Setup, forward: ForwardPass, *, beside: Sequence[Work] = ()
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
        What runs in the same pass.

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
    beside: Sequence[Work] = (),
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
    for one in beside:
        if one.kind == "prompts":
            return _mixed_work(model, setup, (forward, one.forward_pass), by_sequence)
    padded, eager = padded_pass(forward, setup.engine.graphs)
    works = [(one.architecture, one.forward_pass, one.times) for one in beside]
    ops = [
        _repeated(op, times)
        for part, positions, times in ((model, padded, 1.0), *works)
        for op in _ops(part, setup, positions, by_sequence)
    ]
    kinds = layer_kinds(model)
    shape = PassShape(
        model.n_layers,
        forward.batch_size,
        kinds,
        forward.query_len,
        eager,
        sum(one.times for one in beside if one.kind == "steps"),
        launched_kernels(ops, model.n_layers),
    )
    return pass_work(ops, setup, shape, settled=forward.settled)


def launched_kernels(ops: Sequence[OpCost], n_layers: float) -> float:
    """Return how many kernels a pass launches where no graph holds them and nothing fuses them.

    Parameters
    ----------
    ops
        Operations of the pass.
    n_layers
        Layers of the model.

    Source
        Counted in `transformers`, ``modeling_llama.py`` (41 a layer), ``modeling_qwen3_moe.py``
        and ``modeling_deepseek_v4.py``.

    Examples
    --------
    >>> zero = np.zeros(())
    >>> core = OpCost("core", "attention", 2, zero, zero, zero, zero, "bf16")
    >>> launched_kernels([core], 2)  # two cores of 15, two layers of 20
    70
    """
    return sum(one.count * _KERNELS.get(one.kind, 1) for one in ops) + _LAYER_KERNELS * n_layers


def _ops(
    model: Architecture,
    setup: Setup,
    forward: ForwardPass,
    by_sequence: bool,
) -> list[OpCost]:
    locality = setup.engine.expert_locality
    return forward_cost(
        model,
        forward,
        served_options(model, setup),
        expert_locality=None if locality is None else (locality.run, locality.batch),
        by_sequence=by_sequence,
    )


def _mixed_work(
    model: Architecture,
    setup: Setup,
    batches: tuple[ForwardPass, ForwardPass],
    by_sequence: bool,
) -> PassWork:
    """Return what a pass does that takes chunks of prompts beside decoding.

    The engine's kernels for prompts run where prompts are: in their attention, and in matrices,
    whose tokens are mostly theirs.

    Source
        vLLM 0.33.0 ``v1/worker/gpu_model_runner.py``, SGLang 0.5.23 ``schedule_batch.py``,
        ``mix_with_running``: one row of tokens, one pass.
    """
    forward, prompts = batches
    batch = np.asarray(forward.batch_size + prompts.batch_size)
    queries = np.asarray((forward.tokens + prompts.tokens) / batch)
    together = ForwardPass(batch, queries, 0.0, settled=True)
    padded, eager = padded_pass(together, setup.engine.graphs)
    padding = (padded.matmul_tokens - together.matmul_tokens) / forward.batch_size
    decoding = replace(forward, matmul_len=forward.query_len + padding)
    costs = [_ops(model, setup, one, by_sequence) for one in (decoding, prompts)]
    both, alone, beside = joined_costs(*costs)
    # One row of tokens: as many kernels as a pass of either.
    kernels = launched_kernels(costs[0], model.n_layers)
    kinds = layer_kinds(model)
    shape = PassShape(model.n_layers, batch, kinds, queries, eager, kernels=kernels)
    decoded = pass_work(alone, setup, shape, settled=False)
    prefilled = pass_work([*both, *beside], setup, shape, settled=True)
    return replace(
        decoded,
        ops=[*decoded.ops, *prefilled.ops],
        exchanges=[*decoded.exchanges, *prefilled.exchanges],
        notes=tuple(dict.fromkeys((*decoded.notes, *prefilled.notes))),
    )


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

    Graphs whose sizes count sequences are of decoding and verification: prompts have others, by
    tokens, which are not among the sizes.

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
        return forward, np.zeros((), dtype=bool)
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
    for count, core in model.counted_cores:
        for kind in core.overhead_kinds:
            counts[kind] = counts.get(kind, 0) + count
    return counts
