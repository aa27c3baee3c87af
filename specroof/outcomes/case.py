"""What is served, where, for whom: what every question about drafts is asked of."""

from dataclasses import KW_ONLY, dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from specroof.latency import Deployment
from specroof.serving.capacity import RoomRule
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
