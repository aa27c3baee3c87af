"""Where speculation starts and stops paying: the speedup curve, asked the other way round."""

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from specroof.acceptance import acceptance_from_length, constant_acceptance
from specroof.arrays import Array, IntArray
from specroof.drafters import Drafter, DraftTime, Round
from specroof.errors import OptionError, optional_library, reject
from specroof.speedup.curve import Point, acceptance_of

#: Shares of a plain step, and factors on drafting times, that are looked at.
_MOST_SHARE: Final = 100.0
_MOST_FACTOR: Final = 1e6


@dataclass(frozen=True, slots=True)
class Threshold:
    """Where a wanted speedup is just reached.

    Parameters
    ----------
    answer
        ``"at"`` a value, ``"always"`` within what can be, ``"never"``, or ``"beyond"`` the largest
        that was tried, which still reaches it.
    value
        Where; the easier end of what was looked at for "always", None for "never" and "beyond".
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
    gain: Callable[[float], tuple[float, int]], wanted: float, ends: tuple[float, float]
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

    Ignores
        speedups that turn back between the ends: one of the crossings is returned then.
    Source
        Brent 1973, Algorithms for Minimization without Derivatives, chapter 4 (SciPy `brentq`).

    Raises
    ------
    OptionError
        Without SciPy.

    Examples
    --------
    >>> crossing(lambda x: (1 + x, 1), 1.5, (0.0, 1.0)).value
    0.5
    >>> crossing(lambda x: (1 + x, 1), 3.0, (0.0, 1.0))
    Threshold(answer='never', value=None, draft_len=1, ceiling=2.0)
    """
    brentq = optional_library("scipy.optimize", "a break-even point").brentq
    hard, easy = ends
    (at_hard, hard_len), (at_easy, easy_len) = gain(hard), gain(easy)
    if at_hard >= wanted:
        return Threshold("always", hard, hard_len, at_easy)
    if at_easy < wanted:
        return Threshold("never", None, easy_len, at_easy)
    least = 4 * np.finfo(np.float64).eps  # as exact as SciPy goes
    # Seconds of a token, not their inverse: these are close to linear in what drafting costs.
    value = float(brentq(lambda x: wanted / gain(x)[0] - 1, hard, easy, xtol=least, rtol=least))
    return Threshold("at", value, gain(value)[1], at_easy)


def least_rate(point: Point, wanted: float) -> Threshold:
    r"""Return the least acceptance rate that reaches a speedup.

    .. math:: \min \{ \alpha : S(\alpha) \ge S_{wanted} \}

    Parameters
    ----------
    point
        The load, and what drafts; its own acceptance does not matter.
    wanted
        The speedup.

    Counts
        the same rate for every draft.
    Source
        Leviathan et al. 2022, arXiv:2211.17192, theorem 3.8, solved for α with the verification
        and the drafter priced.

    Examples
    --------
    >>> from specroof import load_drafter, load_hardware, load_model
    >>> from specroof.latency import engine_setup
    >>> setup = engine_setup(load_hardware("b200"), "ideal", None, None)
    >>> free = load_drafter("autoregressive,cost=0")
    >>> point = Point(load_model("Qwen/Qwen3-8B"), setup, free, 1, 4096, 1, draft_len=1)
    >>> least_rate(point, 1.5).value.__round__(2)  # 1 + α tokens, memory bound: about the same time
    0.5
    """
    return crossing(lambda rate: point.gain(constant_acceptance(rate)), wanted, (0.0, 1.0))


def least_length(point: Point, wanted: float) -> Threshold:
    """Return the least acceptance length, at the point's draft length, that reaches a speedup.

    Parameters
    ----------
    point
        The load, and what drafts; its own acceptance does not matter.
    wanted
        The speedup.

    Raises
    ------
    OptionError
        For a point without a draft length.

    Source
        As `least_rate`; `specroof.acceptance.acceptance_from_length`.
    """
    if point.draft_len is None:
        reject("draft_len is None", "the drafts of the acceptance length")
    drafts, kind = point.draft_len, point.drafter.kind

    def gain(length: float) -> tuple[float, int]:
        return point.gain(acceptance_from_length(length, drafts, kind=kind))

    return crossing(gain, wanted, (1.0, drafts + 1.0))


def largest_cost(point: Point, wanted: float) -> Threshold:
    """Return the largest cost of a drafter that still reaches a speedup.

    Of a drafter whose cost is a share of the plain step, that share; of others a factor on their
    time.

    Parameters
    ----------
    point
        The load, and a drafter with its acceptance.
    wanted
        The speedup.

    Source
        As `least_rate`, solved for c, or for the drafting time.
    """
    tokens, with_cost = acceptance_of(point.drafter), point.drafter.with_cost

    def gain(cost: float) -> tuple[float, int]:
        drafter = slowed(point.drafter, cost) if with_cost is None else with_cost(cost)
        return replace(point, drafter=drafter).gain(tokens)

    return crossing(gain, wanted, (_MOST_FACTOR if with_cost is None else _MOST_SHARE, 0.0))


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
