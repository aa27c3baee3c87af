"""Where speculation starts and stops paying: the speedup curve, asked the other way round."""

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

import numpy as np

from specroof.acceptance import Acceptance, acceptance_from_length, constant_acceptance
from specroof.arrays import Array, IntArray
from specroof.drafters import Drafter, DraftTime, Round
from specroof.errors import OptionError

#: Relative width of the interval that a root is left in.
EXACT: Final = 4 * float(np.finfo(np.float64).eps)
#: Speedups this close to the wanted one, as a share, may be noise: the steady state of a server is
#: searched to some 1e-11. Where the next guess comes no closer, they are.
_NOISE: Final = 1e-9

#: From what is varied to the speedup of drafting, and its draft length.
_AcceptanceGain: TypeAlias = Callable[[Acceptance], tuple[float, int]]
_DrafterGain: TypeAlias = Callable[[Drafter], tuple[float, int]]

#: Shares of a plain step, and factors on drafting times, that are looked at.
_MOST_SHARE: Final = 100.0
_MOST_FACTOR: Final = 1e6


@dataclass(frozen=True, slots=True)
class Threshold:
    """Where a wanted speedup is just reached.

    Parameters
    ----------
    answer
        ``"at"`` a value, ``"always"`` within what can be, ``"never"``, ``"beyond"`` the largest
        that was tried, which still reaches it, ``"no room"`` for drafts on the server, or
        ``"unsustained"`` for requests that arrive faster than it answers them without drafts.
    value
        Where; the easier end of what was looked at for "always", None but for "at".
    draft_len
        Drafts per round there; for "never" those that come closest, for "beyond" those at the
        largest that was tried.
    ceiling
        The speedup at the harder end: the most that could be reached.
    """

    answer: str
    value: float | None
    draft_len: int
    ceiling: float


def crossing(
    gain: Callable[[float], tuple[float, int]],
    wanted: float,
    ends: tuple[float, float],
    within: float = EXACT,
) -> Threshold:
    """Return where a speedup that changes one way from its hard to its easy end is `wanted`.

    Parameters
    ----------
    gain
        From what is varied to a speedup above 0 and its draft length.
    wanted
        The speedup.
    ends
        The hard end, where least is gained, and the easy end; either may be the larger number.
    within
        Relative width of the interval that the root is left in.

    Ignores
        speedups that turn back between the ends: one of the crossings is returned then.
    Source
        Chandrupatla 1997, Advances in Engineering Software 28, 145-149: bisection, and inverse
        quadratic interpolation where that is safe.

    Examples
    --------
    >>> crossing(lambda x: (1 + x, 1), 1.5, (0.0, 1.0)).value
    0.5
    >>> crossing(lambda x: (1 + x, 1), 3.0, (0.0, 1.0))
    Threshold(answer='never', value=None, draft_len=1, ceiling=2.0)
    """
    hard, easy = ends
    (at_easy, easy_len), (at_hard, hard_len) = gain(easy), gain(hard)
    if at_hard >= wanted:
        return Threshold("always", hard, hard_len, at_easy)
    if at_easy < wanted:
        return Threshold("never", None, easy_len, at_easy)
    # Seconds of a token, not their inverse: these are close to linear in what drafting costs.
    a, b, miss_a, miss_b = easy, hard, wanted / at_easy - 1, wanted / at_hard - 1
    draft_len = {easy: easy_len, hard: hard_len}
    between = 0.5
    while True:
        value = a + between * (b - a)
        gained, draft_len[value] = gain(value)
        miss, closest = wanted / gained - 1, min(abs(miss_a), abs(miss_b))
        # The root lies between a and b; c is the end that was there before.
        if (miss > 0) == (miss_a > 0):
            c, miss_c = a, miss_a
        else:
            c, miss_c, b, miss_b = b, miss_b, a, miss_a
        a, miss_a = value, miss
        nearest = a if abs(miss_a) < abs(miss_b) else b
        least = within * max(abs(nearest), within) / abs(b - c)
        if miss == 0 or least > 0.5 or closest / 2 < abs(miss) <= _NOISE:
            break
        x, y = (a - b) / (c - b), (miss_a - miss_b) / (miss_c - miss_b)
        between = 0.5
        if y**2 < x and (1 - y) ** 2 < 1 - x:
            between = miss_a / (miss_b - miss_a) * miss_c / (miss_b - miss_c)
            between += (c - a) / (b - a) * miss_a / (miss_c - miss_a) * miss_b / (miss_c - miss_b)
        between = min(max(between, least), 1 - least)
    return Threshold("at", nearest, draft_len[nearest], at_easy)


def least_rate(gain: _AcceptanceGain, wanted: float, *, within: float = EXACT) -> Threshold:
    r"""Return the least acceptance rate that reaches a speedup.

    .. math:: \min \{ \alpha : S(\alpha) \ge S_{wanted} \}

    Parameters
    ----------
    gain
        From an acceptance to the speedup of drafting at one load, and its draft length.
    wanted
        The speedup.
    within
        See `crossing`.

    Counts
        the same rate for every draft.
    Source
        Leviathan et al. 2022, arXiv:2211.17192, theorem 3.8, solved for α with the verification
        and the drafter priced.

    Examples
    --------
    >>> one_free_draft = lambda acceptance: (acceptance.tokens_per_round([1]).item(), 1)
    >>> round(least_rate(one_free_draft, 1.5).value, 9)  # 1 + α tokens in the time of a plain step
    0.5
    """
    return crossing(lambda rate: gain(constant_acceptance(rate)), wanted, (0.0, 1.0), within)


def least_length(
    gain: _AcceptanceGain, wanted: float, *, draft_len: int, kind: str, within: float = EXACT
) -> Threshold:
    """Return the least acceptance length that reaches a speedup.

    Parameters
    ----------
    gain
        From an acceptance to the speedup of drafting at one load, and its draft length.
    wanted
        The speedup.
    draft_len, kind
        The drafts that the length is measured with, and the kind of drafter: see
        `specroof.acceptance.acceptance_from_length`.
    within
        See `crossing`.

    Source
        Leviathan et al. 2022, arXiv:2211.17192, theorem 3.8, solved for the tokens of a round.

    Examples
    --------
    >>> free = lambda acceptance: (acceptance.tokens_per_round([2]).item(), 2)
    >>> round(least_length(free, 1.5, draft_len=2, kind="mtp").value, 9)
    1.5
    """

    def gain_of_length(length: float) -> tuple[float, int]:
        return gain(acceptance_from_length(length, draft_len, kind=kind))

    return crossing(gain_of_length, wanted, (1.0, draft_len + 1.0), within)


def largest_cost(
    gain: _DrafterGain, wanted: float, *, drafter: Drafter, within: float = EXACT
) -> Threshold:
    """Return the largest cost of a drafter that still reaches a speedup.

    Of a drafter whose cost is a share of the plain step, that share; of others a factor on their
    time.

    Parameters
    ----------
    gain
        From a drafter to its speedup at one load, and its draft length.
    wanted
        The speedup.
    drafter
        Its cost is varied.
    within
        See `crossing`.

    Source
        Leviathan et al. 2022, arXiv:2211.17192, theorem 3.8, solved for c, or for the drafting
        time.

    Examples
    --------
    >>> from specroof import load_drafter
    >>> cheap = load_drafter("autoregressive,cost=0.1")
    >>> gain = lambda drafter: (2 / (1 + float(drafter.name.partition("cost=")[2])), 1)
    >>> round(largest_cost(gain, 1.0, drafter=cheap).value, 9)  # 2 tokens in 1 + c steps
    1.0
    """
    with_cost = drafter.with_cost

    def gain_of_cost(cost: float) -> tuple[float, int]:
        return gain(slowed(drafter, cost) if with_cost is None else with_cost(cost))

    most = _MOST_FACTOR if with_cost is None else _MOST_SHARE
    return crossing(gain_of_cost, wanted, (most, 0.0), within)


def slowed(drafter: Drafter, factor: float) -> Drafter:
    """Return a drafter that takes `factor` times as long.

    Raises
    ------
    OptionError
        When it is priced, if it drafts while the target verifies: how much of it is felt then
        does not grow by a factor.

    Source
        Multiplication.

    Examples
    --------
    >>> slowed(Drafter("my", lambda _: DraftTime(np.array(3.0))), 2.0).draft(None).serial_s
    np.float64(6.0)
    """

    def draft(round_: Round) -> DraftTime:
        time = drafter.draft(round_)
        if np.any(time.overlapped_s):
            message = (
                f"drafter {drafter.name!r} drafts while the target verifies; allowed for a factor "
                f"on its time: one that drafts in line"
            )
            raise OptionError(message)
        return DraftTime(time.serial_s * factor)

    return replace(drafter, draft=draft)


def paying_runs(
    gain: Callable[[IntArray], Array], places: IntArray, wanted: float
) -> list[tuple[int, int]]:
    """Return the runs of whole numbers at which a speedup is reached, first and last of each.

    Parameters
    ----------
    gain
        From ascending whole numbers, such as batch sizes, to speedups.
    places
        Where to look; the ends of runs between two of them are found by bisection.
    wanted
        The speedup.

    Ignores
        runs that begin and end between two neighbours of `places`.
    Source
        Bisection (Python's `bisect`).

    Examples
    --------
    >>> bump = lambda n: np.where((n > 10) & (n <= 77), 2.0, 1.0)
    >>> paying_runs(bump, np.array([1, 16, 64, 100]), 1.5)
    [(11, 77)]
    """
    pays = gain(places) >= wanted

    def first_after(i: int) -> int:
        """Return the first number after places[i] at which it is as at places[i + 1]."""
        between = range(int(places[i]) + 1, int(places[i + 1]))
        later = bool(pays[i + 1])
        at = bisect_left(between, 1, key=lambda n: bool(gain(np.array([n]))[0] >= wanted) == later)
        return int(places[i]) + 1 + at

    changes = [first_after(int(i)) for i in np.flatnonzero(pays[1:] != pays[:-1])]
    edges = [*([int(places[0])] if pays[0] else []), *changes]
    if pays[-1]:
        edges.append(int(places[-1]) + 1)
    return [(start, stop - 1) for start, stop in zip(edges[::2], edges[1::2], strict=True)]
