"""A model on an engine: from a forward pass to its seconds, and what to say about them."""

import math
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

import numpy as np
import numpy.typing as npt

from specroof.architecture import (
    Architecture,
    BlockSparseAttention,
    ChunkedAttention,
    CompressedAttention,
    Experts,
    GroupedQueryAttention,
    LatentAttention,
    RecurrentCore,
    SharedCacheAttention,
)
from specroof.cost import ForwardPass, OpCost, Options, forward_cost, state_bytes, storage
from specroof.errors import OptionError
from specroof.hardware import CapturedGraphs, HardwareProfile, Placement
from specroof.latency import PassLatency, PassShape, Setup, device_bytes, price_pass
from specroof.units import format_binary_bytes

__all__ = [
    "check_placement",
    "drafting_setup",
    "engine_notes",
    "engine_setup",
    "layer_kinds",
    "memory_notes",
    "model_latency",
    "option_notes",
    "padded_pass",
]

Array = npt.NDArray[np.float64]

# Layers that an engine may lose time of their own in (`specroof.hardware.LAYER_KINDS`).
_KINDS: Final = {
    "experts": Experts,
    "linear_attention": RecurrentCore,
    "latent_attention": LatentAttention | CompressedAttention,
}


def model_latency(
    model: Architecture,
    setup: Setup,
    forward: ForwardPass,
    *,
    beside: Sequence[tuple[Architecture, ForwardPass, float]] = (),
) -> PassLatency:
    """Return the seconds of one pass of a model: padded, counted and priced.

    Parameters
    ----------
    model
        What runs.
    setup
        Where, in which engine, by which formulas.
    forward
        The pass as it is asked for.
    beside
        What runs in the same pass without launches of its own: a model, its positions, and how
        often, one after another.

    Raises
    ------
    ProfileError
        If the device cannot compute a dtype, or collectives have no price.

    Source
        See `specroof.cost.forward_cost` and `specroof.latency.price_pass`.

    Examples
    --------
    >>> from specroof.architecture import Layer, Linear
    >>> from specroof.hardware import EngineProfile, Peak
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
    engine = setup.engine
    padded, eager = padded_pass(forward, engine.graphs)
    locality = engine.expert_locality
    ops = [
        _repeated(op, times)
        for part, positions, times in ((model, padded, 1.0), *beside)
        for op in forward_cost(
            part,
            positions,
            setup.options,
            expert_locality=None if locality is None else (locality.run, locality.batch),
        )
    ]
    shape = PassShape(layer_kinds(model), forward.queries, eager, settled=forward.settled)
    return price_pass(ops, setup, batch_size=forward.batch, n_layers=model.n_layers, shape=shape)


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
    asked = forward.tokens if graphs.counts == "tokens" else forward.batch
    sizes = np.array([*graphs.sizes, np.inf])
    size = sizes[np.searchsorted(sizes, asked)]
    eager = np.isinf(size)
    factor = np.where(eager, 1.0, size / asked)
    return replace(forward, matmul_len=forward.queries * factor), eager


def layer_kinds(model: Architecture) -> dict[str, int]:
    """Return how many layers are of each kind that an engine may lose time of its own in.

    Source
        Counting.

    Examples
    --------
    >>> from specroof.architecture import Block, Layer, Linear
    >>> experts = Experts(n_experts=4, top_k=1, in_features=8, hidden_features=8)
    >>> moe = Layer((Block("feed_forward", (), experts),), count=3)
    >>> layer_kinds(Architecture("toy", "llama", 8, 9, (moe,), Linear("lm_head", 8, 9)))
    {'experts': 3}
    """
    counts: dict[str, int] = {}
    for layer in model.layers:
        for block in layer.blocks:
            kinds = [kind for kind, cores in _KINDS.items() if isinstance(block.core, cores)]
            if getattr(block.core, "indexer", None) is not None:
                kinds.append("sparse_index")
            for kind in kinds:
                counts[kind] = counts.get(kind, 0) + layer.count
    return counts


def engine_setup(
    hardware: HardwareProfile,
    engine: str | None,
    placement: Placement | None,
    options: Options | None,
) -> Setup:
    """Return where passes run; what nobody chose is as the engine has it.

    Raises
    ------
    OptionError
        If the profile has no such engine.
    """
    profile = hardware.engine(engine)
    chosen = options or Options()
    if chosen.recurrent_state is None and profile.recurrent_state is not None:
        chosen = replace(chosen, recurrent_state=profile.recurrent_state)
    return Setup(hardware, profile, placement or Placement(), chosen)


def drafting_setup(setup: Setup) -> Setup:
    """Return where a drafter runs: its passes are small, and may have an overhead of their own."""
    # What it reads again is a few accepted positions, no prompt.
    engine = replace(setup.engine, graphs=None, prefill_compute_frac={})
    if engine.draft_pass_overhead_s is not None:
        engine = replace(
            engine, pass_overhead_s=engine.draft_pass_overhead_s, sequence_overhead_s=0.0
        )
    return replace(setup, engine=engine)


def engine_notes(setup: Setup) -> Iterator[str]:
    """Yield which engine profile was used, where it comes from and how far off it has been."""
    engine = setup.engine
    source = setup.hardware.sources.get(f"engines.{engine.name}")
    if source is None:
        return
    sentence = f"engine {engine.name} of {setup.hardware.name}: {source}"
    if engine.expected_error is not None:
        error = engine.expected_error
        sentence += (
            f"; on sources that it was fitted without, speedups were {error.speedup_mean:.1%} off "
            f"on average ({error.speedup_median:.1%} at the median) and plain throughput "
            f"{error.plain_median:.1%} at the median"
        )
    yield sentence


def option_notes(model: Architecture, options: Options) -> Iterator[str]:
    """Yield a sentence for each format that options put in the place of the checkpoint's own.

    Examples
    --------
    >>> from specroof.architecture import Layer, Linear
    >>> tiny = Architecture("tiny", "llama", 8, 100, (Layer(()),), Linear("lm_head", 8, 100))
    >>> list(option_notes(tiny, Options(kv_dtype="fp8")))
    ['KV cache priced as fp8, in the place of bf16']
    """
    if options.weight_dtype is not None:
        stays = "embedding, head, router and compressors keep what the checkpoint has"
        yield f"weights priced as {options.weight_dtype}: {stays}"
    if options.kv_dtype not in {None, model.kv_dtype}:
        yield f"KV cache priced as {options.kv_dtype}, in the place of {model.kv_dtype}"
    if options.state_dtype not in {None, model.state_dtype} and state_bytes(model):
        yield f"recurrent state priced as {options.state_dtype}, in the place of {model.state_dtype}"


def check_placement(model: Architecture, placement: Placement) -> None:
    """Refuse tensor parallelism that does not divide the query heads of every layer.

    Raises
    ------
    OptionError
        With the numbers.
    """
    group = placement.tensor_parallel // placement.attention_data_parallel
    softmax = (
        GroupedQueryAttention
        | LatentAttention
        | CompressedAttention
        | ChunkedAttention
        | SharedCacheAttention
        | BlockSparseAttention
    )
    for layer in model.layers:
        for block in layer.blocks:
            if isinstance(block.core, softmax) and block.core.n_heads % group:
                msg = (
                    f"tensor_parallel is {placement.tensor_parallel} with attention_data_parallel "
                    f"{placement.attention_data_parallel}: groups of {group} devices do not divide "
                    f"the {block.core.n_heads} query heads of {model.name}"
                )
                raise OptionError(msg)


def memory_notes(
    model: Architecture, setup: Setup, contexts: Array, batches: Array
) -> Iterator[str]:
    """Yield a sentence with the numbers if the grid holds points that do not fit the memory.

    Parameters
    ----------
    model, setup
        What runs where.
    contexts, batches
        The axes of the grid.

    Source
        `specroof.cost.storage`.

    Examples
    --------
    >>> from specroof.architecture import Layer, Linear
    >>> from specroof.hardware import IDEAL_ENGINE, Peak
    >>> chip = HardwareProfile(
    ...     format_version=1,
    ...     name="chip",
    ...     sources={},
    ...     peak=Peak(flops_per_s={"bf16": 1e15}, memory_bytes_per_s=1e12, memory_bytes=1e9),
    ... )
    >>> tiny = Architecture("tiny", "llama", 8, 100, (Layer(()),), Linear("lm_head", 8, 100))
    >>> setup = Setup(chip, IDEAL_ENGINE, Placement(), Options())
    >>> list(memory_notes(tiny, setup, np.array([100.0]), np.array([1.0])))
    []
    """
    has = setup.hardware.peak.memory_bytes
    context = contexts.max()
    parts = storage(model, context, setup.options)

    def needed(batch_size: float) -> float:
        return float(device_bytes(parts, setup.placement, batch_size))

    if needed(batches.max()) <= has:
        return
    weights = needed(0.0)
    per_sequence = needed(1.0) - weights
    # The smallest that does not, whatever the grid holds.
    batch = 1 + bisect_right(range(1, math.ceil(batches.max())), has, key=needed)
    yield (
        f"{model.name} does not fit {setup.placement.devices} x {setup.hardware.name} from batch "
        f"size {batch} at context {context:g}: {format_binary_bytes(weights)} of weights and "
        f"{format_binary_bytes(per_sequence)} of cache per sequence on each device, which has "
        f"{format_binary_bytes(has)}"
    )
