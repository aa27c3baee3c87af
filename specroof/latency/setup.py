"""Where passes run: one chip, an engine, a placement and the formulas; built once, passed whole."""

from dataclasses import dataclass, replace

from specroof.architecture import Architecture
from specroof.cost import Options
from specroof.errors import reject
from specroof.hardware import EngineProfile, HardwareProfile, Placement, Server, ServerSettings


@dataclass(frozen=True, slots=True)
class Setup:
    """Where a pass runs and which formulas count it.

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
        What the server around it runs with; None where no server was asked for.
    """

    hardware: HardwareProfile
    engine: EngineProfile
    placement: Placement
    options: Options
    server: Server | None = None

    @property
    def told(self) -> ServerSettings:
        """What the user told the server."""
        return ServerSettings() if self.server is None else self.server.stated


def engine_setup(
    hardware: HardwareProfile,
    engine: str | None,
    placement: Placement | None,
    options: Options | None,
) -> Setup:
    """Return where passes run; what was not chosen is as the engine has it.

    Raises
    ------
    OptionError
        If the profile has no such engine.

    Source
        The choices of this library: one device, the defaults of `Options`, and the way in which
        an engine keeps recurrent state.

    Examples
    --------
    >>> from specroof.hardware import Peak
    >>> peak = Peak(flops_per_s={"bf16": 1e15}, memory_bytes_per_s=1e12, memory_bytes=1e9)
    >>> chip = HardwareProfile(format_version=1, name="chip", sources={}, peak=peak)
    >>> engine_setup(chip, None, None, None).placement.devices
    1
    """
    profile = hardware.engine(engine)
    chosen = options or Options()
    if chosen.recurrent_state is None and profile.recurrent_state is not None:
        chosen = replace(chosen, recurrent_state=profile.recurrent_state)
    return Setup(hardware, profile, placement or Placement(), chosen)


def drafting_setup(setup: Setup) -> Setup:
    """Return where a drafter runs: its passes are small, and may have another overhead.

    Source
        See `drafting_engine`.

    Examples
    --------
    >>> from specroof.hardware import EngineProfile, Peak
    >>> peak = Peak(flops_per_s={"bf16": 1e15}, memory_bytes_per_s=1e12, memory_bytes=1e9)
    >>> chip = HardwareProfile(format_version=1, name="chip", sources={}, peak=peak)
    >>> engine = EngineProfile(name="e", pass_overhead_s=2.0, draft_pass_overhead_s=0.5)
    >>> setup = Setup(chip, engine, Placement(), Options())
    >>> drafting_setup(setup).engine.pass_overhead_s
    0.5
    """
    return replace(setup, engine=drafting_engine(setup.engine))


def drafting_engine(engine: EngineProfile) -> EngineProfile:
    """Return what an engine reaches in the passes of a drafter.

    Source
        What is read again is a few accepted positions, no prompt; vLLM and SGLang launch a
        drafter's passes without scheduling sequences around them, so that no host is waited for.

    Examples
    --------
    >>> engine = EngineProfile(name="e", pass_overhead_s=2.0, draft_pass_overhead_s=0.5)
    >>> drafting_engine(engine).pass_overhead_s
    0.5
    """
    bare = replace(engine, graphs=None, prefill_compute_frac={}, overlap=True)
    if engine.draft_pass_overhead_s is None:
        return bare
    return replace(bare, pass_overhead_s=engine.draft_pass_overhead_s, sequence_overhead_s=0.0)


def _divisors(count: int) -> str:
    return ", ".join(str(one) for one in range(1, count + 1) if count % one == 0)


def check_placement(model: Architecture, placement: Placement) -> None:
    """Refuse tensor parallelism that does not divide the query heads of every layer.

    Raises
    ------
    OptionError
        With the numbers.

    Source
        vLLM and SGLang, which refuse the same: a head is computed on one device.

    Examples
    --------
    >>> from specroof.architecture import Block, GroupedQueryAttention, Layer, Linear
    >>> attention = GroupedQueryAttention(4, n_kv_heads=2, head_dim=8, value_dim=8)
    >>> layer = Layer((Block("attention", (), attention),))
    >>> toy = Architecture("toy", "llama", 8, 9, (layer,), Linear("lm_head", 8, 9))
    >>> check_placement(toy, Placement(tensor_parallel=2))  # two heads on each of two devices
    """
    group = placement.tensor_parallel // placement.attention_data_parallel
    for _, core in model.counted_cores:
        heads = core.split_heads
        if heads % group:
            reject(
                f"tensor_parallel is {placement.tensor_parallel} with attention_data_parallel "
                f"{placement.attention_data_parallel}: groups of {group} devices do not divide "
                f"the {heads} query heads of {model.name}",
                f"groups of {_divisors(heads)}",
            )
