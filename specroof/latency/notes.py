"""What to say about a prediction: the engine profile, replaced formats, what does not fit."""

import math
from bisect import bisect_right
from collections.abc import Iterator

from specroof.architecture import Architecture
from specroof.arrays import Array
from specroof.cost import Options, state_bytes, storage
from specroof.errors import Note
from specroof.hardware import GENERIC
from specroof.latency.cache_formats import served_options
from specroof.latency.operations import device_bytes
from specroof.latency.setup import Setup
from specroof.units import format_binary_bytes


def engine_notes(setup: Setup) -> Iterator[str]:
    """Yield which engine profile was used, where it comes from and how far off it has been.

    Source
        The hardware file: `sources`, and `expected_error` of the engine.

    Examples
    --------
    >>> from specroof.hardware import EngineProfile, HardwareProfile, Peak, Placement
    >>> peak = Peak(flops_per_s={"bf16": 1e15}, memory_bytes_per_s=1e12, memory_bytes=1e9)
    >>> sources = {"engines.mine": "a fit"}
    >>> chip = HardwareProfile(format_version=1, name="chip", sources=sources, peak=peak)
    >>> list(engine_notes(Setup(chip, EngineProfile(name="mine"), Placement(), Options())))
    ['engine mine of chip: a fit']
    """
    engine, generic = setup.engine, setup.hardware.generic
    if generic is not None and engine.name == GENERIC:
        yield generic.about(setup.hardware.name, engine)
        return
    source = setup.hardware.sources.get(f"engines.{engine.name}")
    if source is None:
        return
    sentence = f"engine {engine.name} of {setup.hardware.name}: {source}"
    error = engine.expected_error
    if error is not None and engine.bands:
        # Of speedups the cell of the drafter speaks, not the mean of all.
        sentence += (
            f"; on sources that it was fitted without, plain throughput was "
            f"{error.plain_median:.1%} off at the median"
        )
    elif error is not None:
        sentence += (
            f"; on sources that it was fitted without, speedups were {error.speedup_mean:.1%} off "
            f"on average ({error.speedup_median:.1%} at the median) and plain throughput "
            f"{error.plain_median:.1%} at the median"
        )
    kind, _, named = source.partition(": ")
    short = f"engine {engine.name} of {setup.hardware.name}: {kind}"
    yield Note(sentence, short if named else sentence)


def option_notes(model: Architecture, options: Options) -> Iterator[str]:
    """Yield a sentence for each format that options put in the place of the checkpoint's own.

    Source
        `Options`, against what the checkpoint says.

    Examples
    --------
    >>> from specroof.architecture import Layer, Linear
    >>> tiny = Architecture("tiny", "llama", 8, 100, (Layer(()),), Linear("lm_head", 8, 100))
    >>> list(option_notes(tiny, Options(kv_dtype="fp8")))
    ['KV cache counted as fp8, in the place of bf16']
    """
    if options.weight_dtype is not None:
        stays = "embedding, head, router and compressors keep what the checkpoint has"
        yield f"weights counted as {options.weight_dtype}: {stays}"
    if options.kv_dtype not in {None, model.kv_dtype}:
        yield f"KV cache counted as {options.kv_dtype}, in the place of {model.kv_dtype}"
    if options.state_dtype not in {None, model.state_dtype} and state_bytes(model):
        yield f"recurrent state counted as {options.state_dtype}, in the place of {model.state_dtype}"


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
    >>> import numpy as np
    >>> from specroof.hardware import IDEAL_ENGINE, HardwareProfile, Peak, Placement
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
    hardware = setup.hardware
    textbook = setup.engine.rules == "ideal"
    has = hardware.peak.memory_bytes if textbook else hardware.server_memory_bytes
    context = contexts.max()
    parts = storage(model, context, served_options(model, setup))

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
