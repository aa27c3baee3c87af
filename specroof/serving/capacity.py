"""How many requests a server runs at once, with and without speculation."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import numpy.typing as npt

from specroof.architecture import Architecture
from specroof.drafters import Drafter
from specroof.errors import reject
from specroof.hardware import SERVER_KEYS, CapturedGraphs, Server, ServerSettings
from specroof.latency import Setup, cache_notes, served_options
from specroof.serving import sglang, sglang_memory, unmanaged, vllm, vllm_sizes
from specroof.serving.footprint import draft_footprint, target_footprint
from specroof.serving.room import Array, Need, Place, Room


@dataclass(frozen=True, slots=True)
class Framework:
    """The rules of one server.

    Parameters
    ----------
    resolve
        From what a user states to what the server runs with.
    room
        From contexts and positions of a verification to the room for requests.
    drafts_beside
        Whether requests draft in a pass that they share with prompts.
    """

    resolve: Callable[[ServerSettings, Place, int], Server]
    room: Callable[[Server, Need, Array, Array], Room]
    drafts_beside: bool = True


#: Rules by the name that engines have in hardware files; `ideal` is the textbook.
FRAMEWORKS: Final[Mapping[str, Framework]] = {
    # managers/scheduler.py, mix_with_running: one token of each request that decodes.
    "sglang": Framework(sglang.resolve, sglang.room, drafts_beside=False),
    "vllm": Framework(vllm.resolve, vllm.room),
    "tensorrt-llm": Framework(unmanaged.resolve_tensorrt_llm, unmanaged.room_tensorrt_llm),
    "ideal": Framework(unmanaged.resolve_ideal, unmanaged.room_ideal),
}


@dataclass(frozen=True, slots=True, eq=False)
class ServedRoom:
    """The room of one server, and what it was computed from.

    Parameters
    ----------
    server
        What it runs with.
    need
        What it serves.
    room
        Arrays over contexts and positions of a verification.
    notes
        What was assumed.
    """

    server: Server
    need: Need
    room: Room
    notes: tuple[str, ...]

    @property
    def largest_batch(self) -> Array:
        """The most requests at once; without end on an ideal server that holds nothing."""
        return self.room.largest(self.need.ranks)


@dataclass(frozen=True, slots=True)
class PrefillRules:
    """How a server takes prompts.

    Parameters
    ----------
    chunk
        Tokens of a pass with prompts, those of decoding included where they share it; 0 for
        prompts in one piece.
    shares_passes
        Whether requests decode in passes with prompts; otherwise these stop the batch.
    drafts_beside
        Whether they draft there too; otherwise such a pass gives each one plain token.
    """

    chunk: float
    shares_passes: bool
    drafts_beside: bool


def in_server(model: Architecture, setup: Setup, asked: ServerSettings) -> Setup:
    """Return the setup of a server that was told so: captured sizes, overlap, dtype of state.

    Settings left unsaid stay as the engine's profile has them.

    Parameters
    ----------
    model, setup
        What is served, and where; the engine's name says whose rules count.
    asked
        What the user tells the server.

    Raises
    ------
    OptionError
        If server and options differ in the dtype of recurrent state.

    Examples
    --------
    >>> from specroof import load_hardware, load_model
    >>> from specroof.latency import engine_setup
    >>> setup = engine_setup(load_hardware("h100"), "sglang", None, None)
    >>> told = in_server(load_model("Qwen/Qwen3-8B"), setup, ServerSettings(capture=4))
    >>> told.engine.graphs.sizes, told.server.overlap
    ((1, 2, 3, 4), True)
    """
    options = setup.options
    if asked.state_dtype is not None:
        if options.state_dtype not in {None, asked.state_dtype}:
            reject(
                f"server: state-dtype is {asked.state_dtype!r} and --state-dtype "
                f"{options.state_dtype!r}",
                "one of them, or the same",
            )
        setup = replace(setup, options=replace(options, state_dtype=asked.state_dtype))
    place = Place(model=model, hardware=setup.hardware, placement=setup.placement)
    name = setup.engine.rules
    setup = replace(setup, server=FRAMEWORKS[name].resolve(asked, place, 1))
    if asked.overlap is not None:
        setup = replace(setup, engine=replace(setup.engine, overlap=asked.overlap))
    if asked.capture is None or name not in _CAPTURED:
        return setup
    graphs = setup.engine.graphs or CapturedGraphs(sizes=())
    graphs = _CAPTURED[name](setup, asked, graphs)
    return replace(setup, engine=replace(setup.engine, graphs=graphs))


def prefill_rules(model: Architecture, setup: Setup, kind: str | None = None) -> PrefillRules:
    """Return how the server takes prompts: as it was told, else as its framework does.

    Parameters
    ----------
    model, setup
        What is served, and where; what its server was told: see `in_server`.
    kind
        The drafter's kind, as a SPEC begins; None for plain decoding.

    Source
        vLLM 0.33.0 ``v1/core/sched/scheduler.py``: what is left of the tokens of a pass when all
        that decode have theirs is for prompts. SGLang 0.5.23 ``managers/scheduler.py``,
        ``get_next_batch_to_run``: a batch of prompts runs before the next step.

    Examples
    --------
    >>> from specroof import load_hardware, load_model
    >>> from specroof.latency import engine_setup
    >>> model, chip = load_model("Qwen/Qwen3-8B"), load_hardware("h100")
    >>> prefill_rules(model, engine_setup(chip, "sglang", None, None))
    PrefillRules(chunk=8192, shares_passes=False, drafts_beside=False)
    >>> prefill_rules(model, engine_setup(chip, "vllm", None, None)).shares_passes
    True
    """
    place = Place(model=model, hardware=setup.hardware, placement=setup.placement, kind=kind)
    name = setup.engine.rules
    framework = FRAMEWORKS[name]
    server = framework.resolve(setup.told, place, 1)
    return PrefillRules(
        chunk=server.chunk,
        shares_passes=server.mixed and server.chunk > 0,
        drafts_beside=framework.drafts_beside,
    )


def _captured_sequences(
    _setup: Setup, asked: ServerSettings, graphs: CapturedGraphs
) -> CapturedGraphs:
    # Servers that draft have the finer sizes; the profiles were fitted with them.
    sizes = sglang_memory.captured_sizes(asked.capture or 0, drafting=True)
    return replace(graphs, sizes=tuple(sizes), counts="sequences")


def _captured_tokens(setup: Setup, asked: ServerSettings, graphs: CapturedGraphs) -> CapturedGraphs:
    tokens = asked.chunk or vllm_sizes.batch_defaults(setup.hardware)[1]
    sizes = vllm_sizes.captured_sizes(setup.hardware, asked.capture or 0, tokens=tokens)
    return replace(graphs, sizes=tuple(sizes), counts="tokens")


#: What a server captures up to a size that it was told, in its own unit.
_CAPTURED: Final = {"sglang": _captured_sequences, "vllm": _captured_tokens}


def served_room(
    model: Architecture,
    setup: Setup,
    *,
    context_len: npt.ArrayLike,
    drafter: Drafter | None = None,
    verify_len: npt.ArrayLike = 1.0,
) -> ServedRoom:
    """Return the room for requests on a server.

    Parameters
    ----------
    model, setup
        What is served, and where; what its server was told: see `in_server`.
    context_len
        Cached tokens of each request.
    drafter
        What drafts; None for plain decoding.
    verify_len
        Positions of a verification, drafts and one; it broadcasts with `context_len`.

    Source
        `specroof.serving.sglang`, `specroof.serving.vllm`, `specroof.serving.unmanaged`.
    """
    name = setup.engine.rules
    held = None if drafter is None else drafter.held(model)
    draft = None
    if held is not None and held.head is not None:
        draft = draft_footprint(
            held.head,
            setup.placement,
            served_options(held.head.model, setup),
            tensor_parallel=held.tensor_parallel,
        )
    need = Need(
        model=model,
        hardware=setup.hardware,
        placement=setup.placement,
        kind=None if drafter is None else drafter.kind,
        target=target_footprint(model, setup.placement, served_options(model, setup)),
        draft=draft,
        replays=drafter is not None and setup.options.recurrent_state == "replay",
    )
    contexts = np.asarray(context_len, dtype=np.float64)
    positions = np.asarray(verify_len, dtype=np.float64)
    server = FRAMEWORKS[name].resolve(setup.told, need, int(np.ceil(positions.max())))
    notes = _notes(setup.engine.framework or setup.engine.name, server)
    notes += cache_notes(model, setup)
    if held is not None and drafter is not None and not held.is_known:
        notes.append(f"{drafter.name}: its size is unknown, its memory counted as 0")
    room = FRAMEWORKS[name].room(server, need, contexts, positions)
    return ServedRoom(server, need, room, tuple(notes))


def _notes(engine: str, server: Server) -> list[str]:
    """Return what a reader must know of the rules."""
    name = server.framework
    if name == "ideal":
        return []
    left = [key for key in SERVER_KEYS if key not in server.stated.stated]
    whose = f"{name} {server.version}"
    notes = [f"server: defaults of {whose} for {', '.join(left)}"] if left else []
    if name != engine:
        notes.append(f"engine {engine} is not a server: the memory rules of {whose} apply")
    if name == "tensorrt-llm":
        notes.append("server: rules of tensorrt-llm are from its documentation, unchecked")
    if name in {"vllm", "tensorrt-llm"}:
        notes.append(
            f"server: the memory of activations, which {name} measures at startup, is estimated"
        )
    return notes
