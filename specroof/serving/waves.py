"""Requests that come together: all at once, and the next when all of these are answered."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from specroof.arrays import Array, broadcast


@dataclass(frozen=True, slots=True, eq=False)
class Wave:
    """A wave whose prompts share passes with decoding.

    Parameters
    ----------
    filling
        Passes until the last prompt is through.
    groups
        Groups of prompts that are through one after another: of one prompt, or of a pass.
    beside
        Requests that decode in one of them, on average.
    pieces
        Passes that a prompt is spread over.
    prompts
        Prompts in a pass.
    ahead
        Rounds by which the first request is ahead of the last: so many end with fewer and fewer.
    ending
        Requests that decode in one of these, on average.
    early_frac
        Share of the requests that end while prompts are still taken.
    """

    filling: Array
    groups: Array
    beside: Array
    pieces: Array
    prompts: Array
    ahead: Array
    ending: Array
    early_frac: Array

    def wave_s(self, rounds: Array, *, filling_s: Array, round_s: Array, ending_s: Array) -> Array:
        """Return the seconds of a wave, given those of its passes and rounds.

        Parameters
        ----------
        rounds
            Of an answer.
        filling_s, round_s, ending_s
            Of a pass with prompts, of a round of all requests, of one while they end.
        """
        whole = rounds - self.ahead
        return np.asarray(self.filling * filling_s + whole * round_s + self.ahead * ending_s)

    def idle_s(self, *, filling_s: Array, ending_s: Array) -> Array:
        """Return the mean seconds from an answer to the end of its wave."""
        early = self.early_frac
        spread = self.filling * (self.groups - 1) / self.groups
        early_s = early * spread / 2 * filling_s + self.ahead * ending_s
        return np.asarray(early * early_s + (1 - early) * self.ahead / 2 * ending_s)

    def first_s(self, filling_s: Array) -> Array:
        """Return the mean seconds to a first token: prompts are through one after another."""
        return np.asarray(self.filling * (self.groups + 1) / (2 * self.groups) * filling_s)


def shared_wave(
    running: npt.ArrayLike,
    rounds: npt.ArrayLike,
    *,
    new_len: npt.ArrayLike,
    budget: npt.ArrayLike,
    positions: npt.ArrayLike,
    slowed: npt.ArrayLike = 1.0,
) -> Wave:
    r"""Return the passes of a wave whose prompts share them with decoding.

    R prompts of P tokens start together. They take m passes of b tokens, which hold
    q tokens of each request that decodes, for its Z passes at most:

    .. math:: b m = R P + q R \cdot \begin{cases} m / 2 & m \le Z \\ Z (1 - Z / 2 m) \end{cases}

    Parameters
    ----------
    running, rounds, new_len, budget, positions, slowed
        R, Z / slowed, P, b, q and tokens of a round for each of a pass with a prompt: as of
        `specroof.serving.closed_loop.shared_passes`.

    Ignores
        that rounds commit more or fewer tokens: a wave lasts as long as the longest answer, a few
        rounds more.
    Source
        Counting.

    Examples
    --------
    >>> four = shared_wave(4, 9, new_len=100, budget=100, positions=0)
    >>> float(four.filling), float(four.first_s(1.0))  # one prompt a pass: the mean of 1, 2, 3, 4
    (4.0, 2.5)
    """
    requests, needed, prompt, most, width, slow = broadcast(
        running, rounds, new_len, budget, positions, slowed
    )
    passes = needed * slow
    prompts, decoding = requests * prompt, width * requests * passes
    with np.errstate(divide="ignore", invalid="ignore"):
        rising = prompts / (most - width * requests / 2)
        under = np.maximum((prompts + decoding) ** 2 - 2 * most * decoding * passes, 0.0)
        steady = (prompts + decoding + np.sqrt(under)) / (2 * most)
    fits = (most > width * requests / 2) & (rising <= passes)
    filling = np.maximum(np.ceil(np.where(fits, rising, steady) - _ROUNDING), 1.0)
    pieces = np.ceil(filling / requests - _ROUNDING)
    groups = np.minimum(filling, requests)
    spread = filling * (groups - 1) / groups  # passes from the first token of a wave to the last
    share = np.minimum(passes / np.maximum(spread, _ROUNDING), 1.0)
    return Wave(
        filling=filling,
        groups=groups,
        beside=requests * spread / filling * share * (1 - share / 2),
        pieces=pieces,
        prompts=requests * pieces / filling,
        ahead=np.minimum(spread / slow, needed),
        ending=requests * share / 2,
        early_frac=1 - share,
    )


#: Passes that are full but for rounding take no further one.
_ROUNDING = 1e-9
