"""What is served, where, for whom: what every question about drafts is asked of."""

from dataclasses import KW_ONLY, dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from specroof.latency.setup import Deployment
from specroof.serving.capacity import RoomRule
from specroof.serving.served import room_rule
from specroof.serving.workload import Load

if TYPE_CHECKING:
    from specroof.serving.split import Split


@dataclass(frozen=True, slots=True, eq=False)
class Case:
    """A deployment under loads.

    Parameters
    ----------
    deployment
        What is served, and where: of a split, on one decode worker.
    load
        Sequences in flight at contexts, or requests; those with `requests` are played through.
    room
        What becomes of requests that the server has no memory for.
    split
        Workers of prefill and of decoding; None where one server does both.
    raises
        Whether default limits of running requests are raised, as
        `specroof.serving.served.served_curve` does.
    targets
        Of the goodput of played requests: seconds to a first token, and of each later one.
    """

    deployment: Deployment
    load: Load
    room: RoomRule = "ignore"
    _: KW_ONLY
    split: "Split | None" = None
    raises: bool = True
    targets: tuple[float, ...] = (np.inf, np.inf)

    def at(self, **change: Any) -> "Case":
        """Return the same case elsewhere: under another load, in another room."""
        return replace(self, **change)


def served_case(
    deployment: Deployment,
    load: Load,
    capacity: bool | None = None,
    *,
    in_flight: bool = False,
    **more: Any,
) -> Case:
    """Return a case in the room of its server: requests beyond it wait, batches have none.

    Parameters
    ----------
    deployment, load
        What is served, and under which loads.
    capacity
        As of `specroof.serving.served.room_rule`.
    in_flight
        Whether loads without the lengths of requests are clients, whose requests wait.
    more
        Other fields of `Case`.

    Raises
    ------
    OptionError
        As `room_rule` does.
    """
    waits = in_flight or load.workload is not None
    room = room_rule(deployment.setup, capacity, "queue" if waits else "drop")
    return Case(deployment, load, room, **more)
