"""Where passes run: one chip, an engine, a placement and the formulas; built once, passed whole."""

from dataclasses import dataclass, replace

from specroof.architecture import (
    Architecture,
    BlockSparseAttention,
    ChunkedAttention,
    CompressedAttention,
    GroupedQueryAttention,
    LatentAttention,
    SharedCacheAttention,
)
from specroof.cost import Options
from specroof.errors import OptionError
from specroof.hardware import EngineProfile, HardwareProfile, Placement

__all__ = ["Setup", "check_placement", "drafting_engine", "drafting_setup", "engine_setup"]


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
    return replace(setup, engine=drafting_engine(setup.engine))


def drafting_engine(engine: EngineProfile) -> EngineProfile:
    """Return what an engine reaches in the passes of a drafter.

    Source
        What is read again is a few accepted positions, no prompt; vLLM and SGLang launch a
        drafter's passes without scheduling sequences around them.

    Examples
    --------
    >>> engine = EngineProfile(name="e", pass_overhead_s=2.0, draft_pass_overhead_s=0.5)
    >>> drafting_engine(engine).pass_overhead_s
    0.5
    """
    bare = replace(engine, graphs=None, prefill_compute_frac={})
    if engine.draft_pass_overhead_s is None:
        return bare
    return replace(bare, pass_overhead_s=engine.draft_pass_overhead_s, sequence_overhead_s=0.0)


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
