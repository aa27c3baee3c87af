"""Price and energy of tokens."""

from dataclasses import dataclass

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


@dataclass(frozen=True, slots=True)
class Money:
    """What devices cost and draw; None for what is not known, as is then what follows from it.

    Parameters
    ----------
    devices
        How many serve.
    usd_per_hour, watts
        Of one device.
    """

    devices: int
    usd_per_hour: float | None = None
    watts: float | None = None

    def of(self, tokens_per_s: npt.ArrayLike) -> dict[str, Array | None]:
        """Return price and energy of a million output tokens, by the names of their functions.

        Parameters
        ----------
        tokens_per_s
            Output tokens of the whole server.

        Examples
        --------
        >>> Money(2, 3.6).of(1000.0)
        {'usd_per_million_tokens': array(2.), 'joules_per_million_tokens': None}
        """
        hourly, watts, devices = self.usd_per_hour, self.watts, self.devices
        return {
            "usd_per_million_tokens": None
            if hourly is None
            else usd_per_million_tokens(tokens_per_s, devices=devices, usd_per_hour=hourly),
            "joules_per_million_tokens": None
            if watts is None
            else joules_per_million_tokens(tokens_per_s, devices=devices, watts=watts),
        }
