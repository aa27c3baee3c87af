"""The memory request that a framework's rules take, and the memory plan that they return."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, partial
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from specroof.architecture.base import Core
from specroof.architecture.draft_heads import DraftHead
from specroof.architecture.model import Architecture
from specroof.arrays import Array
from specroof.cost import Options, replay_storage, storage
from specroof.hardware.engine import SERVER_KEYS, Server, ServerSettings
from specroof.hardware.profile import HardwareProfile, Placement
from specroof.latency.setup import device_bytes

# --- What models keep on one device: weights, cache of each sequence, recurrent state ------------

#: A context beyond every window and chunk: what grows there has no end.
_LONG: float = 2.0**20


@dataclass(frozen=True, slots=True, eq=False)
class Footprint:
    """What a model keeps on one device; sequences are those of one group of devices.

    Parameters
    ----------
    weight_bytes
        Stored once.
    token_bytes
        Of one more cached token, in all layers whose cache grows with the whole context.
    by_token
        Whether a cached token takes as much as any other there; if not, as where some are dropped
        or share an entry, a request is counted with what it stores.
    windows
        Layers that see a window, and the bytes of one cached token in all of them, by the window.
    state_bytes
        Recurrent state of one sequence, one copy.
    replay_bytes
        What replays the state, for one drafted position of a sequence.
    n_cached, n_windowed, n_recurrent
        Layers that cache tokens of the whole context, that see a window, and with recurrent state.
    window_token_bytes
        Of one cached token, in all layers that see a window.
    sequence_bytes
        From cached tokens to the bytes of one sequence, state included.
    """

    weight_bytes: float
    token_bytes: float
    by_token: bool
    windows: Mapping[int, tuple[int, float]]
    state_bytes: float
    replay_bytes: float
    n_cached: int
    n_windowed: int
    n_recurrent: int
    window_token_bytes: float
    sequence_bytes: Callable[[npt.ArrayLike], Array]


@lru_cache(maxsize=64)
def target_footprint(
    model: Architecture,
    placement: Placement,
    options: Options | None = None,
    *,
    input_on_host: bool = False,
) -> Footprint:
    """Return what a model keeps on each of its devices.

    Parameters
    ----------
    model
        The model.
    placement
        How weights and caches divide.
    options
        Formats in the place of the checkpoint's own; see `specroof.latency.setup.served_options`.
    input_on_host
        Whether tables that only the input reads lie in the memory of the host.

    Counts
        what `specroof.cost.forward` does, divided as a pass divides its work.
    Ignores
        a vision tower's weights (0.3 to 0.5 B parameters for Qwen3.5), and paging.
    Source
        `specroof.cost.forward`.

    Examples
    --------
    >>> from specroof import load_model
    >>> eight = target_footprint(load_model("Qwen/Qwen3-8B"), Placement(tensor_parallel=2))
    >>> eight.token_bytes  # 36 layers * 2 * 8 heads * 128 * 2 bytes, over 2 devices
    73728.0
    """
    everything = partial(_sequence_bytes, model, placement, options)
    weights = storage(model, 0, options, input_on_host=input_on_host)
    groups = placement.attention_data_parallel
    whole = _layers_with(model, lambda core: not core.window_len)
    windows: dict[int, tuple[int, float]] = {}
    for window in sorted({core.window_len for _, core in model.counted_cores} - {0}):
        part = _layers_with(model, lambda core: core.window_len == window)  # noqa: B023 - used here
        none, one = _sequence_bytes(part, placement, options, np.array([0.0, 1.0])).tolist()
        layers = sum(count for count, core in part.counted_cores if core.cache_kind == "tokens")
        windows[window] = (layers, one - none)
    lengths = np.array([0.0, _LONG, 2 * _LONG])
    none, one, two = _sequence_bytes(whole, placement, options, lengths).tolist()
    n_recurrent = sum(count for count, core in model.counted_cores if core.cache_kind == "state")
    replayed = replay_storage(model) if n_recurrent else []
    return Footprint(
        weight_bytes=float(device_bytes(weights, placement, 0)),
        token_bytes=(two - one) / _LONG,
        by_token=math.isclose(one - none, two - one),
        windows=windows,
        state_bytes=float(everything(0.0)),
        replay_bytes=float(device_bytes(replayed, placement, groups)),
        n_cached=sum(count for count, core in whole.counted_cores if core.cache_kind == "tokens"),
        n_windowed=sum(layers for layers, _ in windows.values()),
        n_recurrent=n_recurrent,
        window_token_bytes=sum(token_bytes for _, token_bytes in windows.values()),
        sequence_bytes=everything,
    )


@lru_cache(maxsize=64)
def draft_footprint(
    head: DraftHead,
    placement: Placement,
    options: Options | None = None,
    *,
    tensor_parallel: int | None = None,
    input_on_host: bool = False,
) -> Footprint:
    """Return what a drafter keeps on each of the target's devices.

    Parameters
    ----------
    head
        Its layers, as `specroof.drafters.Drafter.held` says.
    placement
        The target's.
    options
        Formats in the place of its own, as of `target_footprint`.
    tensor_parallel
        Devices that it divides over; None for as many as the target.
    input_on_host
        As of `target_footprint`.

    Counts
        layers, their copies, merging matrices, a serial head, and a separate head; the target's
        embedding and head are shared.
    Source
        Counting.
    """
    over = placement if tensor_parallel is None else Placement(tensor_parallel)
    if options is not None:
        # A file keeps its formats, whatever the target's are.
        weights = None if head.model.embedding else options.weight_dtype
        options = replace(options, n_cpu_moe=0, weight_dtype=weights)
    layers = tuple(replace(layer, count=layer.count * head.modules) for layer in head.model.layers)
    model = replace(head.model, layers=layers)
    own = target_footprint(model, over, options, input_on_host=input_on_host)
    serial = 0.0
    if head.serial is not None:
        serial = float(device_bytes(storage(head.serial, 0, options), over, 0))
    fusion = sum(linear.stored_bytes for linear in head.fusion)
    return replace(own, weight_bytes=own.weight_bytes + serial + fusion)


def _sequence_bytes(
    model: Architecture, placement: Placement, options: Options | None, context: npt.ArrayLike
) -> Array:
    """Return the bytes that one sequence of a group takes on each of the group's devices."""
    cached = [part for part in storage(model, context, options) if not part.weight_bytes]
    held = device_bytes(cached, placement, placement.attention_data_parallel)
    return np.broadcast_to(held, np.shape(context))


def _layers_with(model: Architecture, wanted: Callable[[Core], bool]) -> Architecture:
    """Return the model with those blocks alone whose core is wanted."""
    layers = tuple(
        replace(layer, blocks=tuple(b for b in layer.blocks if b.core and wanted(b.core)))
        for layer in model.layers
    )
    return replace(model, layers=layers)


@dataclass(frozen=True, slots=True, eq=False)
class ServerSite:
    """The model, the devices and the drafter that a server is resolved for.

    Parameters
    ----------
    model, hardware, placement
        What is served, and where.
    kind
        The drafter's kind, as a SPEC begins; None for plain decoding.
    facts
        The release of the server whose rules count, a `specroof.frameworks.Release`.
    decodes_only
        Whether other workers compute the prompts.
    """

    model: Architecture
    hardware: HardwareProfile
    placement: Placement
    facts: Any
    kind: str | None = None
    decodes_only: bool = False

    @property
    def state_dtype(self) -> str:
        """The format of recurrent state, where the user says none."""
        model = self.model
        if model.leaves_state and self.facts.states_as_activations:
            return model.activation_dtype
        return model.state_dtype

    @property
    def ranks(self) -> int:
        """Groups of devices with separate sequences."""
        return self.placement.attention_data_parallel

    @property
    def limit_ranks(self) -> int:
        """Groups that share one limit of running requests."""
        return 1 if self.facts.rank_limits else self.ranks

    def told_running(self, batch: npt.ArrayLike) -> Array:
        """Return the limit that lets a batch run, as the server's flag counts it.

        Whole requests of each group of devices: requests are dealt out to them.
        """
        return np.asarray(self.limit_ranks * np.ceil(np.divide(batch, self.ranks)))

    def server(self, user_settings: ServerSettings, **defaults: Any) -> Server:
        """Fill the settings that the user left open with the defaults of a framework.

        Parameters
        ----------
        user_settings
            What the user tells the server.
        defaults
            Every field of `Server` that neither the release nor the model decides.
        """
        stated = {SERVER_KEYS[key]: value for key, value in user_settings.stated.items()}
        if user_settings.overlap == "plain" and self.kind is not None:
            stated["overlap"] = False  # a server that drafts takes rounds, which wait
        whose = {"framework": self.facts.framework, "version": self.facts.version}
        defaults = {**whose, "state_dtype": self.state_dtype, **defaults}
        return Server(**{**defaults, **stated}, stated=user_settings)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class MemoryRequest(ServerSite):
    """The bytes that a model and its drafter ask a server for.

    Parameters
    ----------
    model, hardware, placement, facts, kind
        What is served, where, the server's release, and the drafter's kind.
    target
        What the model keeps on each device.
    draft
        What the drafter keeps there; None for one that keeps nothing, or of unknown size.
    replays
        Whether a verification keeps what replays a recurrent state, in the place of a copy of the
        state for each position.
    prompt_len
        Tokens that a prefill computes here of each request; None for all that it caches.
    """

    target: Footprint
    draft: Footprint | None = None
    replays: bool = False
    prompt_len: float | None = None

    @property
    def weight_bytes(self) -> float:
        """Bytes of the weights on each device, those of the drafter and of a vision tower too."""
        own = self.target.weight_bytes + self.vision_bytes
        return own + (0.0 if self.draft is None else self.draft.weight_bytes)

    def stored_bytes(self, held: Array) -> Array:
        """Return the bytes of so many tokens as stored, state and the drafter's cache included."""
        own = self.target.sequence_bytes(held)
        return own if self.draft is None else np.asarray(own + self.draft.sequence_bytes(held))

    @property
    def vision_bytes(self) -> float:
        """Bytes of a vision tower on each device."""
        tower = self.model.vision
        return 0.0 if tower is None else tower.weight_bytes / self.placement.tensor_parallel


#: What limits requests by a setting of the server, whatever memory holds.
SETTINGS: Final = ("running", "drafted tokens")


@dataclass(frozen=True, eq=False)
class MemoryPlan:
    """Memory of one device, and the requests that fit; arrays over contexts and draft lengths.

    Parameters
    ----------
    memory_bytes
        What the server sees of the device's memory; on the ideal engine, all of it.
    reserved_bytes
        Kept away from weights and pools: activations, captured graphs, what is not managed.
    state_pool_bytes, cache_pool_bytes
        What is left for recurrent state and for cached tokens; where one pool holds both, all of
        it stands in the second.
    state_bytes, cache_bytes
        Of one request: all copies of its state, its cached tokens and those of the drafter.
    limits
        The most requests of one group of devices, by what limits them.
    short_bytes
        What is missing for a single request.
    most_started
        The largest limit of running requests with which the server starts.
    """

    memory_bytes: float
    reserved_bytes: npt.ArrayLike
    state_pool_bytes: Array
    cache_pool_bytes: Array
    state_bytes: Array
    cache_bytes: Array
    limits: Mapping[str, Array]
    short_bytes: Array
    most_started: float = math.inf

    @cached_property
    def bound_by(self) -> npt.NDArray[np.str_]:
        """What limits the requests: a key of `limits`, the first where two agree."""
        names = np.array(list(self.limits))
        stacked = np.stack(np.broadcast_arrays(*(np.floor(x) for x in self.limits.values())))
        return np.asarray(names[np.argmin(stacked, axis=0)])

    def least(self, *, of_settings: bool) -> Array:
        """Return how many requests settings of the server allow, or its memory; may be endless."""
        stacked = np.stack(np.broadcast_arrays(*self.limits.values()))
        counts = np.isin([*self.limits], SETTINGS) == of_settings
        return np.asarray(stacked[counts].min(axis=0, initial=np.inf))
