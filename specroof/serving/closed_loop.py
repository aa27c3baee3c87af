"""Clients that always wait for an answer: how many requests start, decode and prefill at a time."""

from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import numpy.typing as npt

from specroof.arrays import Array, broadcast

#: Halvings of the interval in which the requests that start in a pass lie: twelve digits.
_HALVINGS: Final = 40
#: Prompts that fill their passes but for rounding take no further one.
_ROUNDING: Final = 1e-9


def answer_rounds(output_len: npt.ArrayLike, tokens_per_round: npt.ArrayLike) -> Array:
    r"""Return the rounds that decode an answer, whose first token the prefill has given.

    .. math:: \frac{L - 1}{N} + \frac{N - 1}{2 N}

    Parameters
    ----------
    output_len
        Tokens of the answer, L.
    tokens_per_round
        N.

    Counts
        the last round, which an answer leaves half used on average.
    Ignores
        that rounds of very different lengths end answers later: a tenth of a round at most.
    Source
        Counting: the mean of :math:`\lceil (L - 1) / N \rceil` over lengths, for whole N.

    Examples
    --------
    >>> answer_rounds([101, 1], 1).tolist()  # a plain step a token
    [100.0, 0.0]
    >>> float(answer_rounds(100, 3))  # 33; of 98 and 99 later tokens it is 33, of 100 34
    33.333333333333336
    """
    tokens = np.asarray(tokens_per_round, dtype=np.float64)
    later = np.asarray(output_len, dtype=np.float64) - 1
    rounds = np.maximum((later + (tokens - 1) / 2) / tokens, 1.0)
    return np.asarray(np.where(later > 0, rounds, 0.0) * np.ones_like(tokens))


def prompts_together(running: npt.ArrayLike, rounds: npt.ArrayLike) -> tuple[Array, Array]:
    r"""Return how many prompts start together, where prompts wait for the end of a round.

    .. math:: \frac{R p}{1 - (1 - p)^R} \quad \text{and} \quad 1 + (R - 1) \, p

    with :math:`p`, the chance that a request ends in a round, one over its rounds: the mean over
    rounds in which any ends, and the mean that a request finds, itself counted.

    Parameters
    ----------
    running
        Requests that run, R: each that ends makes room for the next.
    rounds
        Rounds of an answer: see `answer_rounds`.

    Ignores
        answers of one length that start together and so end together: those stay together.
    Source
        Counting: R requests at independent places of their answers.

    Examples
    --------
    >>> [float(mean) for mean in prompts_together(2, 2)]  # of 3 in 4 rounds, one in 1, 1, 2
    [1.3333333333333333, 1.5]
    >>> [float(mean) for mean in prompts_together(8, 1)]  # answers of one round end all at once
    [8.0, 8.0]
    """
    requests = np.asarray(running, dtype=np.float64)
    chance = 1 / np.maximum(np.asarray(rounds, dtype=np.float64), 1.0)
    return np.asarray(requests * chance / _any_of(chance, requests)), 1 + (requests - 1) * chance


def _any_of(chance: Array, times: Array) -> Array:
    """Return the chance that something happens at all, in so many tries."""
    with np.errstate(divide="ignore"):  # what is certain in one try is in all
        return np.asarray(-np.expm1(times * np.log1p(-chance)))


@dataclass(frozen=True, slots=True, eq=False)
class SharedPasses:
    """A server whose passes take chunks of prompts beside decoding, in its steady state.

    Parameters
    ----------
    started
        Requests that start in a pass, and so end in one.
    waited
        Passes from a request's start to its first token, those that other prompts fill included.
    decoded
        Passes from there to its last token.
    mixed_frac
        Share of the passes in which there is a prompt.
    pieces
        Passes that a prompt is spread over, alone.
    prompts
        Prompts in a pass that has one.
    own_prompts
        Prompts in a pass that a request's own prompt is in, which it finds more often the more
        there are.
    """

    started: Array
    waited: Array
    decoded: Array
    mixed_frac: Array
    pieces: Array
    prompts: Array
    own_prompts: Array

    @property
    def passes(self) -> Array:
        """Passes of a request."""
        return self.waited + self.decoded


def shared_passes(
    running: npt.ArrayLike,
    rounds: npt.ArrayLike,
    *,
    new_len: npt.ArrayLike,
    budget: npt.ArrayLike,
    positions: npt.ArrayLike,
    slowed: npt.ArrayLike = 1.0,
) -> SharedPasses:
    r"""Return the steady state of a server whose passes prompts and decoding share.

    A request is in :math:`k` passes with its prompt and in :math:`Z` after it. Of R requests,
    :math:`x` start in a pass, by Little's law :math:`R = x (k + Z)`. A pass has room for b tokens,
    less those of the :math:`x Z` that decode; a prompt fills :math:`s` of what is left, and finds
    others before it:

    .. math:: k = \lceil s \rceil + \frac{s}{2} \cdot \frac{u}{1 - u},
        \qquad u = \frac{R - 1}{R} \, x s

    Parameters
    ----------
    running
        R.
    rounds
        Rounds of an answer, if no pass is slowed.
    new_len
        Tokens of a prompt that are not cached.
    budget
        Tokens of a pass, b.
    positions
        Tokens of a request that decodes.
    slowed
        Tokens of a round for each that a pass with a prompt gives: 1 where requests draft in it.

    Ignores
        that passes are whole where prompts queue: up to half a pass of the wait.
    Source
        Little 1961, Oper. Res. 9(3); Reiser and Lavenberg 1980, J. ACM 27(2): in a closed loop a
        request finds what R - 1 others leave, here with Schweitzer's share (R - 1) / R and a
        service whose length does not vary.

    Examples
    --------
    >>> alone = shared_passes(1, 9, new_len=100, budget=512, positions=1)
    >>> float(alone.started), float(alone.waited)  # ten passes a request, one with its prompt
    (0.1, 1.0)
    >>> full = shared_passes(64, 9, new_len=1000, budget=1009, positions=1)
    >>> round(float(full.started), 2)  # not more than one prompt and its nine tokens fit a pass
    1.0
    """
    arrays = broadcast(running, rounds, new_len, budget, positions, slowed)
    low, high = np.zeros(arrays[0].shape), np.array(arrays[0])
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        fits = middle * _passes_at(middle, *arrays).passes < arrays[0]
        low, high = np.where(fits, middle, low), np.where(fits, high, middle)
    state = _passes_at(low, *arrays)
    # Where passes are full, other requests wait.
    return replace(state, waited=np.asarray(arrays[0] / low - state.decoded))


def _passes_at(  # noqa: PLR0913, PLR0917 - the arrays of `shared_passes`, in its order
    started: Array,
    running: Array,
    rounds: Array,
    new_len: Array,
    budget: Array,
    positions: Array,
    slowed: Array,
) -> SharedPasses:
    """Return the passes of a request where so many start in one."""
    others = (running - 1) / running
    # Of those that decode, the ones that the last pass left: slowed requests are more.
    left = np.maximum(budget - positions * started * rounds, 1.0)
    filled = new_len / left
    pieces = np.ceil(filled - _ROUNDING)
    used = others * started * filled
    with np.errstate(divide="ignore", invalid="ignore"):
        queued = np.where(started * filled < 1, filled / 2 * used / (1 - used), np.inf)
    busy = np.minimum(used, 1.0)
    # Short prompts that start together share a pass. The last chunk of a long prompt is filled up
    # only if another prompt is already queued.
    short = np.maximum(_any_of(np.minimum(started / running, 1.0), running), started * filled)
    long = started * (filled + (pieces - filled) * (1 - busy))
    mixed = np.minimum(np.where(filled < 1, short, long), 1.0)
    decoded = rounds * slowed / (slowed + mixed * (1 - slowed))
    with np.errstate(divide="ignore", invalid="ignore"):
        prompts = np.where(mixed > 0, started * pieces / mixed, 1.0)
    # A pass that others wait for is full. Of a long prompt only the last piece leaves room; short
    # ones share the pass with all that start in it.
    most = np.maximum(left / (new_len / pieces), 1.0)
    beside = np.where(filled < 1, others * started * pieces, busy * (most - 1))
    wait = np.nan_to_num(queued, posinf=0.0)
    own_prompts = (pieces * np.minimum(1 + beside, most) + wait * most) / (pieces + wait)
    return SharedPasses(
        started=started,
        waited=pieces + queued,
        decoded=decoded,
        mixed_frac=mixed,
        pieces=pieces,
        prompts=np.minimum(prompts, most),
        own_prompts=own_prompts,
    )
