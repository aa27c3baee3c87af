"""How many requests a server runs at once, with and without speculation."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import numpy.typing as npt

from specroof.architecture import Architecture
from specroof.drafters import Drafter
from specroof.errors import OptionError
from specroof.hardware import CapturedGraphs, Server, ServerSettings
from specroof.latency import Setup
from specroof.serving import sglang, unmanaged, vllm
from specroof.serving.footprint import draft_footprint, target_footprint
from specroof.serving.room import Array, Need, Room

__all__ = ["FRAMEWORKS", "Framework", "ServedRoom", "framework_of", "served_room", "served_setup"]


@dataclass(frozen=True, slots=True)
class Framework:
    """The rules of one server.

    Parameters
    ----------
    resolve
        From what a user states to what the server runs with.
    room
        From contexts and positions of a verification to the room for requests.
    """

    resolve: Callable[[ServerSettings, Need, int], Server]
    room: Callable[[Server, Need, Array, Array], Room]


#: Rules by the name that engines have in hardware files; `ideal` is the textbook.
FRAMEWORKS: Final[Mapping[str, Framework]] = {
    "sglang": Framework(sglang.resolve, sglang.room),
    "vllm": Framework(vllm.resolve, vllm.room),
    "tensorrt-llm": Framework(unmanaged.resolve_tensorrt_llm, unmanaged.room_tensorrt_llm),
    "ideal": Framework(unmanaged.resolve_ideal, unmanaged.room_ideal),
}

#: Whose rules an engine without a server of its own has: `generic`, or a user's calibration.
_STAND_IN: Final = "vllm"


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


def framework_of(engine: str) -> str:
    """Return whose rules an engine has.

    Examples
    --------
    >>> framework_of("sglang"), framework_of("generic"), framework_of("ideal")
    ('sglang', 'vllm', 'ideal')
    """
    return engine if engine in FRAMEWORKS else _STAND_IN


def served_room(
    model: Architecture,
    setup: Setup,
    asked: ServerSettings,
    *,
    context_len: npt.ArrayLike,
    drafter: Drafter | None = None,
    verify_len: npt.ArrayLike = 1.0,
) -> ServedRoom:
    """Return the room for requests on a server.

    Parameters
    ----------
    model, setup
        What is served, and where; the engine's name says whose rules count.
    asked
        What the user tells the server.
    context_len
        Cached tokens of each request.
    drafter
        What drafts; None for plain decoding.
    verify_len
        Positions of a verification, drafts and one; it broadcasts with `context_len`.

    Raises
    ------
    OptionError
        If the server's dtype of recurrent state is not that of the options.

    Source
        `specroof.serving.sglang`, `specroof.serving.vllm`, `specroof.serving.unmanaged`.
    """
    options = setup.options
    if asked.state_dtype is not None:
        if options.state_dtype not in {None, asked.state_dtype}:
            message = (
                f"server: state-dtype is {asked.state_dtype!r} and --state-dtype "
                f"{options.state_dtype!r}; allowed: one of them, or the same"
            )
            raise OptionError(message)
        options = replace(options, state_dtype=asked.state_dtype)
    name = framework_of(setup.engine.name)
    held = None if drafter is None else drafter.held(model)
    need = Need(
        model=model,
        hardware=setup.hardware,
        placement=setup.placement,
        target=target_footprint(model, setup.placement, options),
        draft=None if held is None else draft_footprint(held, setup.placement, options),
        kind=None if drafter is None else drafter.name.partition(",")[0],
    )
    contexts = np.asarray(context_len, dtype=np.float64)
    positions = np.asarray(verify_len, dtype=np.float64)
    framework = FRAMEWORKS[name]
    server = framework.resolve(asked, need, int(np.ceil(positions.max())))
    notes = _notes(setup.engine.name, name, server, asked)
    if held is not None and drafter is not None and not held.is_known:
        notes.append(f"{drafter.name}: its size is unknown, its memory counted as 0")
    return ServedRoom(server, need, framework.room(server, need, contexts, positions), (*notes,))


def _notes(engine: str, name: str, server: Server, asked: ServerSettings) -> list[str]:
    """Return what a reader must know of the rules."""
    if name == "ideal":
        return []
    left = [key for key in server.to_dict() if key not in {"framework", "version", *asked.stated}]
    whose = f"{name} {server.version}"
    notes = [f"server: {', '.join(left)} as {whose} has them by default"] if left else []
    if name != engine:
        notes.append(f"engine {engine} is no server: the rules are those of {whose}")
    if name == "tensorrt-llm":
        notes.append("server: rules of tensorrt-llm are from its documentation, unchecked")
    if name in {"vllm", "tensorrt-llm"}:
        notes.append(f"server: the activations that {name} measures are estimated")
    return notes


def served_setup(setup: Setup, server: Server, asked: ServerSettings) -> Setup:
    """Return the setup of a server: sizes that were captured, and the dtype of recurrent state.

    What nobody states stays as the engine's profile has it.

    Parameters
    ----------
    setup
        Where passes run.
    server, asked
        What the server runs with, and what of it was stated.

    Examples
    --------
    >>> from specroof import load_hardware
    >>> from specroof.latency.model import engine_setup
    >>> setup = engine_setup(load_hardware("h100"), "sglang", None, None)
    >>> server = Server(
    ...     framework="sglang",
    ...     version="0.5.23",
    ...     memory_frac=0.9,
    ...     running=None,
    ...     capture=4,
    ...     overlap=True,
    ...     chunk=8192,
    ...     mixed=False,
    ...     state_dtype="fp32",
    ...     prefix_cache=True,
    ... )
    >>> served_setup(setup, server, ServerSettings(capture=4)).engine.graphs.sizes
    (1, 2, 3, 4)
    """
    setup = replace(setup, server=server)
    if asked.state_dtype is not None:
        setup = replace(setup, options=replace(setup.options, state_dtype=asked.state_dtype))
    if asked.capture is None or server.framework not in {"sglang", "vllm"}:
        return setup
    tokens, sequences = server.framework == "vllm", server.framework == "sglang"
    if sequences:
        sizes = sglang.captured_sizes(asked.capture, drafting=True)
    else:
        _, of_a_pass = vllm.batch_defaults(setup.hardware)
        sizes = vllm.captured_sizes(setup.hardware, asked.capture, tokens=server.chunk or of_a_pass)
    before = setup.engine.graphs or CapturedGraphs(sizes=())
    graphs = replace(before, sizes=tuple(sizes), counts="tokens" if tokens else "sequences")
    return replace(setup, engine=replace(setup.engine, graphs=graphs))
