"""What a framework's rules are asked, and the room for requests that they answer with."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from specroof.architecture import Architecture
from specroof.arrays import Array
from specroof.hardware import SERVER_KEYS, HardwareProfile, Placement, Server, ServerSettings
from specroof.serving.footprint import Footprint

__all__ = ["Array", "Need", "Place", "Room"]


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Place:
    """What is served where, by what.

    Parameters
    ----------
    model, hardware, placement
        What is served, and where.
    kind
        The drafter's kind, as a SPEC begins; None for plain decoding.
    """

    model: Architecture
    hardware: HardwareProfile
    placement: Placement
    kind: str | None = None

    @property
    def ranks(self) -> int:
        """Groups of devices with separate sequences."""
        return self.placement.attention_data_parallel

    def server(self, asked: ServerSettings, **defaults: Any) -> Server:
        """Return what a server runs with: as it was told, else by its framework's defaults.

        Parameters
        ----------
        asked
            What it was told.
        defaults
            Every field of `Server` that the model does not decide.
        """
        told = {name: getattr(asked, name) for name in SERVER_KEYS.values()}
        stated = {name: value for name, value in told.items() if value is not None}
        defaults = {"state_dtype": self.model.state_dtype, **defaults}
        return Server(**{**defaults, **stated}, stated=asked)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Need(Place):
    """What is to be served, with what it takes.

    Parameters
    ----------
    model, hardware, placement, kind
        As in `Place`.
    target
        What the model keeps on each device.
    draft
        What the drafter keeps there; None for one that keeps nothing, or of unknown size.
    replays
        Whether a verification keeps what replays a recurrent state, in the place of a copy of the
        state for each position.
    """

    target: Footprint
    draft: Footprint | None = None
    replays: bool = False

    @property
    def weight_bytes(self) -> float:
        """Bytes of the weights on each device, those of the drafter and of a vision tower too."""
        own = self.target.weight_bytes + self.vision_bytes
        return own + (0.0 if self.draft is None else self.draft.weight_bytes)

    @property
    def vision_bytes(self) -> float:
        """Bytes of a vision tower on each device."""
        tower = self.model.vision
        return 0.0 if tower is None else tower.weight_bytes / self.placement.tensor_parallel


@dataclass(frozen=True, slots=True, eq=False)
class Room:
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
    """

    memory_bytes: float
    reserved_bytes: npt.ArrayLike
    state_pool_bytes: Array
    cache_pool_bytes: Array
    state_bytes: Array
    cache_bytes: Array
    limits: Mapping[str, Array]
    short_bytes: Array

    def largest(self, ranks: int = 1) -> Array:
        """Return the most requests that run at once over `ranks` groups; 0 where none fits."""
        least = np.minimum.reduce(np.broadcast_arrays(*self.limits.values()))
        return np.asarray(ranks * np.maximum(np.floor(least), 0.0))

    @property
    def bound_by(self) -> npt.NDArray[np.str_]:
        """What limits the requests: a key of `limits`, the first where two agree."""
        names = np.array(list(self.limits))
        stacked = np.stack(np.broadcast_arrays(*(np.floor(x) for x in self.limits.values())))
        return np.asarray(names[np.argmin(stacked, axis=0)])
