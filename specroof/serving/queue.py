"""Requests beyond what a server runs: they wait, and the batch that runs is what has a speed."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from specroof.arrays import Array, distinct
from specroof.speedup.curve import SpeedupCurve


def running_requests(asked: npt.ArrayLike, largest: npt.ArrayLike, *, queues: bool) -> Array:
    r"""Return the requests that are decoded at a time; NaN where there is no such batch.

    .. math:: R = \min(C, \text{cap})

    Parameters
    ----------
    asked
        Requests in flight, C, or the batch that is asked about.
    largest
        The largest batch that runs.
    queues
        Whether those beyond it wait; otherwise a batch beyond it does not exist.

    Source
        Counting.

    Examples
    --------
    >>> running_requests([8, 64], 48, queues=True), running_requests([8, 64], 48, queues=False)
    (array([ 8., 48.]), array([ 8., nan]))
    """
    wanted, most = np.asarray(asked, dtype=np.float64), np.asarray(largest, dtype=np.float64)
    if queues:
        return np.where(most >= 1, np.minimum(wanted, most), np.nan)
    return np.where(wanted <= most, wanted, np.nan)


def queue_s(concurrency: npt.ArrayLike, running: npt.ArrayLike, service_s: npt.ArrayLike) -> Array:
    r"""Return the seconds that a request waits for room.

    A server that always runs R requests of :math:`t` seconds each ends one every :math:`t / R`; a
    new one waits until the :math:`C - R` before it have begun.

    .. math:: (C - R) \, t / R

    Parameters
    ----------
    concurrency, running
        Requests in flight, C, and those that run, R.
    service_s
        t: seconds of a request that runs.

    Source
        Little 1961, Oper. Res. 9(3): throughput :math:`R / t` times what a request takes, its wait
        and t, is C.

    Examples
    --------
    >>> float(queue_s(64, 16, 2.0))  # 48 * 2 / 16
    6.0
    """
    runs = np.asarray(running)
    return np.asarray((np.asarray(concurrency) - runs) * np.asarray(service_s) / runs)


def limited_curve(
    batch_size: Array,
    largest: Array,
    priced: Callable[[Array], SpeedupCurve],
    *,
    queues: bool,
) -> SpeedupCurve:
    """Return a curve whose points run no more requests than the server does.

    Parameters
    ----------
    batch_size
        Requests in flight.
    largest
        The largest batch that runs, axes (context_len, draft_len); [..., 0] of plain decoding.
    priced
        From batch sizes to a curve as if memory had no end; that curve is the answer where no limit
        binds.
    queues
        Whether requests beyond it wait; otherwise such points are NaN.
    """
    asked = batch_size[None, :, None]
    running = running_requests(asked, largest[:, None, :], queues=queues)
    if np.all(running == asked):
        return priced(batch_size)
    runs = np.isfinite(running)
    sizes = distinct(running[runs]) if runs.any() else batch_size[:1]
    found = priced(sizes)
    place = np.searchsorted(sizes, np.where(runs, running, sizes[0]))

    def at(values: Array) -> Array:
        return np.where(runs, np.take_along_axis(values, place, axis=1), np.nan)

    return replace(
        found,
        batch_size=batch_size,
        running=running,
        tokens_per_round=np.broadcast_to(found.tokens_per_round[:, :1], running.shape),
        draft_s=at(found.draft_s),
        verify_s=at(found.verify_s),
        round_s=at(found.round_s),
    )
