"""Price and energy of tokens."""

import numpy as np
import numpy.typing as npt

from specroof.arrays import Array
from specroof.units import HOUR, MILLION


def usd_per_million_tokens(
    tokens_per_s: npt.ArrayLike, *, devices: npt.ArrayLike, usd_per_hour: float
) -> Array:
    r"""Return the price of a million output tokens.

    .. math:: p = \frac{10^6 \, g \, c}{3600 \, r}

    Parameters
    ----------
    tokens_per_s
        r, output tokens of the whole server.
    devices
        g.
    usd_per_hour
        c, of one device.

    Counts
        the hours of the devices, idle or not, prefills included where the throughput counts them.
    Ignores
        hosts, networks and people.
    Source
        Counting.

    Examples
    --------
    >>> usd_per_million_tokens(1000.0, devices=2, usd_per_hour=3.6)  # 7.2 $ for 3.6 million
    array(2.)
    """
    hourly = np.asarray(devices) * usd_per_hour
    return np.asarray(MILLION * hourly / (HOUR * np.asarray(tokens_per_s, dtype=np.float64)))


def joules_per_million_tokens(
    tokens_per_s: npt.ArrayLike, *, devices: npt.ArrayLike, watts: float
) -> Array:
    r"""Return the energy of a million output tokens.

    .. math:: e = \frac{10^6 \, g \, w}{r}

    Parameters
    ----------
    tokens_per_s
        r, output tokens of the whole server.
    devices
        g.
    watts
        w, what one device draws under load.

    Counts
        the devices.
    Ignores
        hosts, cooling, and that a board rarely draws all that it is built for.
    Source
        Counting.

    Examples
    --------
    >>> joules_per_million_tokens(1000.0, devices=2, watts=700.0)  # 1400 J/s for 1000 seconds
    array(1400000.)
    """
    power = np.asarray(devices) * watts
    return np.asarray(MILLION * power / np.asarray(tokens_per_s, dtype=np.float64))
