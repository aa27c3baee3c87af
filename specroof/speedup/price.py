"""Price and energy of tokens."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from specroof.arrays import Array
from specroof.errors import reject
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
        usd = joules = None
        if self.usd_per_hour is not None:
            hourly = self.usd_per_hour
            usd = usd_per_million_tokens(tokens_per_s, devices=self.devices, usd_per_hour=hourly)
        if self.watts is not None:
            watts = self.watts
            joules = joules_per_million_tokens(tokens_per_s, devices=self.devices, watts=watts)
        return {"usd_per_million_tokens": usd, "joules_per_million_tokens": joules}


# --- The best that a server can give each user for what each device gives all of them ------------


@dataclass(frozen=True, slots=True, eq=False)
class Frontier:
    """Operating points that no other beats in both rates, from many users to fast ones.

    Parameters
    ----------
    index
        Which of the given points, shape (points,).
    tokens_per_s_per_user, tokens_per_s_per_device
        Their rates, in the same shape: the first rises, the second falls.
    """

    index: npt.NDArray[np.intp]
    tokens_per_s_per_user: Array
    tokens_per_s_per_device: Array

    def cheapest_within(self, tpot_s: float) -> int | None:
        """Return the point with most tokens of each device whose users wait at most `tpot_s`.

        None if no point is as fast.

        Examples
        --------
        >>> frontier = frontier_of([10.0, 50.0, 100.0], [900.0, 600.0, 100.0])
        >>> frontier.cheapest_within(0.02), frontier.cheapest_within(0.001)
        (1, None)
        """
        fast = np.flatnonzero(self.tokens_per_s_per_user * tpot_s >= 1.0 - 1e-12)
        return int(self.index[fast[0]]) if fast.size else None


def frontier_of(
    tokens_per_s_per_user: npt.ArrayLike, tokens_per_s_per_device: npt.ArrayLike
) -> Frontier:
    """Return the points that no other beats in both rates.

    Parameters
    ----------
    tokens_per_s_per_user, tokens_per_s_per_device
        Rates of operating points, of one shape; NaN for points that cannot be.

    Raises
    ------
    OptionError
        If the shapes differ.

    Source
        Pareto: of points sorted by one rate, those above all before them in the other.

    Examples
    --------
    >>> frontier_of([10.0, 20.0, 15.0], [300.0, 100.0, 90.0]).index.tolist()  # 15 loses to 20
    [0, 1]
    """
    user = np.asarray(tokens_per_s_per_user, dtype=np.float64)
    device = np.asarray(tokens_per_s_per_device, dtype=np.float64)
    if user.shape != device.shape:
        reject(
            f"tokens_per_s_per_device has shape {device.shape}",
            f"{user.shape}, the shape of tokens_per_s_per_user",
        )
    user, device = user.ravel(), device.ravel()
    known = np.flatnonzero(np.isfinite(user) & np.isfinite(device))
    # Fastest users first; of equals the one with more of each device.
    order = known[np.lexsort((-device[known], -user[known]))]
    best_before = np.concatenate([[-np.inf], np.maximum.accumulate(device[order])[:-1]])
    kept = order[device[order] > best_before][::-1] if order.size else order
    return Frontier(kept, user[kept], device[kept])
