"""Whether a server with its defaults would have run all requests of a measurement."""

from specroof.engines.published import left_out_engine, served_of
from specroof.evidence import STEP, Measurement, drafter_of, request_lengths
from specroof.serving.capacity import served_room

#: What cells call points beyond what a server runs at once, and those within it.
BOUND = "bound"
FREE = "free"


def capacity_bound(point: Measurement) -> str:
    """Return whether the rules of a server, with all its defaults, run fewer requests at once.

    Parameters
    ----------
    point
        What was measured, on a chip of a fitted family. A bare pass needs no server.

    Examples
    --------
    >>> from specroof.evidence import load_measurements
    >>> one = next(one for one in load_measurements() if one.source == "specdecode-fig2")
    >>> one.batch_size, capacity_bound(one)
    (1.0, 'free')
    """
    if point.method == STEP:
        return FREE
    served = served_of(point, left_out_engine(point))
    room = served_room(
        served.model,
        served.setup,
        context_len=request_lengths(point)[2],
        drafter=drafter_of(point) if point.drafts else None,
        verify_len=float(point.verify_len or 1),
    )
    return BOUND if float(room.largest_batch) < float(point.batch_size or 0) else FREE
