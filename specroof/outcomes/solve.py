"""The one inverse: which acceptance, drafting cost, batch, context or rate just meets a wish."""

import math
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, TypeVar, cast

import numpy as np

from specroof.acceptance import (
    Acceptance,
    acceptance_from_length,
    accepted_at,
    constant_acceptance,
)
from specroof.arrays import Array, BoolArray, IntArray
from specroof.drafters import Drafter, DraftTime, Round
from specroof.errors import OptionError, reject
from specroof.outcomes.case import Case
from specroof.outcomes.outcomes import Outcomes, outcomes
from specroof.serving.played import Drafts, PlayedLoads, PlayedServer
from specroof.serving.workload import REQUESTS_PER_CLIENT, Load
from specroof.speedup.curve import acceptance_of, drafting_gain, grid_slices

#: Relative width of the interval that a root is left in.
EXACT: Final = 4 * float(np.finfo(np.float64).eps)
#: Speedups this close to the wanted one, as a share, may be noise: the steady state of a server is
#: searched to some 1e-11. Where the next guess comes no closer, they are.
_NOISE: Final = 1e-9
#: Shares of a plain step, and factors on drafting times, that are looked at.
_MOST_SHARE: Final = 100.0
_MOST_FACTOR: Final = 1e6
#: Relative width in which the gain of played requests, and rates, are left.
_PLAYED_WITHIN: Final = 1e-3
_RATE_WITHIN: Final = 0.01
_MOST_PLAYS: Final = 6
#: Powers from this one on are jumps of plays.
_MOST_POWER: Final = 2.0
#: Loads that are solved for, and the axes of the grid that they are.
AXES: Final = {"batch": "batch_size", "context": "context_len"}
#: Up to this many are priced one by one; of more, some in each doubling, and the ends of runs are
#: bisected.
_EACH: Final = 4096
_PER_OCTAVE: Final = 16
#: Times a token may take as a share of what is wished, by rounding.
_AS_LONG: Final = 1 + 1e-12


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What is wished of a drafter.

    Parameters
    ----------
    max_draft_len
        The longest draft that is priced.
    draft_len
        Drafts per round; None for the best of 1 to `max_draft_len`.
    speedup
        A speedup of so much or more.
    tpot_s
        In its place, so many seconds per token or fewer, with the best drafts or none.
    most
        The largest batch or context that is tried.
    """

    max_draft_len: int
    draft_len: int | None = None
    speedup: float = 1.0
    tpot_s: float | None = None
    most: int = _EACH

    def reached(self, one: Outcomes) -> tuple[Array, IntArray]:
        """Return what is reached of `least` with which drafts, axes (context_len, load)."""
        if self.tpot_s is None:
            return drafting_gain(one.curve, self.draft_len)
        sooner = np.nan_to_num(self.tpot_s * _AS_LONG / one.tpot_s, nan=-np.inf)
        return sooner.max(axis=-1), sooner.argmax(axis=-1)

    @property
    def least(self) -> float:
        """The speedup, or 1: how much sooner than the wished time tokens come."""
        return self.speedup if self.tpot_s is None else 1.0


@dataclass(frozen=True, slots=True)
class Solution:
    """Where a wish is just met.

    Parameters
    ----------
    answer
        ``"at"`` a value, ``"always"`` within what can be, ``"never"``, ``"beyond"`` the largest
        that was tried, which still meets it, ``"no room"`` for drafts on the server, or
        ``"unsustained"`` for requests that arrive faster than it answers them without drafts.
    value
        Where; the easier end of what was looked at for "always", None but for "at".
    draft_len
        Drafts per round there; for "never" those that come closest, for "beyond" those at the
        largest that was tried.
    ceiling
        The speedup at the harder end: the most that could be reached.
    runs
        Of batches and contexts all runs that meet it, first and last of each.
    unknown_from
        Of a larger batch or context nothing is known; None where the server has no room for it, and
        where another figure is solved for.
    room_ends
        Whether larger batches or contexts have no room on the server; of acceptance and cost,
        whether the load has none.
    """

    answer: str
    value: float | None
    draft_len: int
    ceiling: float
    runs: tuple[tuple[int, int], ...] = ()
    unknown_from: int | None = None
    room_ends: bool = False


def solve(
    case: Case, drafter: Drafter, parameter: str, wish: Wish, now: Outcomes | None = None
) -> Solution:
    r"""Return where a wish is just met.

    .. math:: \min \{ \alpha : S(\alpha) \ge S_{wanted} \}

    and likewise the largest cost, batch, context or rate.

    Parameters
    ----------
    case, drafter
        One load, and what drafts under it.
    parameter
        What is solved for: ``accept``, the acceptance rate of every draft; ``accept-length``, with
        as many drafts as are wished; ``cost``, of a drafter whose cost is a share of the plain step
        that share, of others a factor on their time; ``batch`` or ``context``, from 1 to the most
        that is tried; ``rate``, between the least and the most of the load.
    wish
        What is wanted.
    now
        What the drafter gains as it is, where it is known.

    Raises
    ------
    SpecroofError
        As `specroof.outcomes.outcomes.outcomes` does, and for a drafter whose time is no factor.

    Counts
        of requests that are played through: solved in closed form for a speedup that is moved, by
        the slope between the two nearest plays, until the one that is played is that of the wish,
        to 0.1%, and halfway between plays on both sides of it where that leads away; of six plays
        that all miss it, the nearest.
    Source
        Leviathan et al. 2022, arXiv:2211.17192, theorem 3.8, solved for α, for the tokens of a
        round, and for c or the drafting time, with the verification and the drafter priced.

    Examples
    --------
    >>> from specroof import load_drafter, load_hardware, load_model
    >>> from specroof.latency.setup import Deployment, engine_setup
    >>> from specroof.serving.workload import Load
    >>> setup = engine_setup(load_hardware("b200"), "ideal", None, None)
    >>> case = Case(Deployment(load_model("Qwen/Qwen3-8B"), setup), Load([1], [4096]))
    >>> drafter = load_drafter("autoregressive,cost=0.1")
    >>> found = solve(case, drafter, "accept", Wish(max_draft_len=1))
    >>> round(found.value, 2)  # one draft: 0.1 of a step for α tokens
    0.1
    """
    if parameter not in {"accept", "accept-length", "context"}:
        expect_known(drafter, float(case.load.steady.context_len[0]))
    if parameter in AXES:
        return _over_axis(case, drafter, AXES[parameter], wish)
    if parameter == "rate":
        return _largest_rate(case, drafter, wish)
    return _of_drafter(case, drafter, parameter, wish, now)


def expect_known(drafter: Drafter, context: float) -> None:
    """Refuse a drafter of which nobody knows what is accepted at a context."""
    one = accepted_at(acceptance_of(drafter), context).tokens_per_round(np.array([1.0]))
    if not np.isfinite(one).all():
        reject(
            f"of {drafter.name!r} nothing is known at context {context:g}",
            "a context, and at least one draft, with which its acceptance was measured",
        )


def _of_drafter(
    case: Case, drafter: Drafter, parameter: str, wish: Wish, now: Outcomes | None
) -> Solution:
    """Return the acceptance or the cost that meets a wish at one load."""
    first, load = wish.draft_len or 1, case.load
    if now is None:
        # What clients send runs at once as far as there is room, whatever is played.
        here = case.at(load=load.steady) if load.kind == "concurrency" else case
        known = drafter.acceptance is not None or drafter.is_ideal
        as_is = drafter if known else replace(drafter, acceptance=constant_acceptance(0.5))
        now = _outcomes(here, as_is, wish)
    runs = np.broadcast_to(now.decoding.running_batch[0, 0], wish.max_draft_len + 1)
    have_room = first + np.flatnonzero(np.isfinite(runs[first:]))
    if not have_room.size:
        return Solution("no room", None, first, -np.inf, room_ends=True)
    if now.unsustained.any():
        return Solution("unsustained", None, first, -np.inf)
    held = replace(wish, max_draft_len=int(have_room[-1]))
    drafted, ends = _varied(drafter, parameter, first)
    steady = case.at(load=replace(load.steady, batch_size=now.curve.batch_size.tolist()))
    tried: dict[float, tuple[float, int]] = {}

    def in_closed_form(value: float) -> tuple[float, int]:
        if value not in tried:
            tried[value] = _gain(steady, drafted(value), held)
        return tried[value]

    found = crossing(in_closed_form, wish.least, ends)
    if not load.requests:
        return replace(found, ceiling=in_closed_form(ends[1])[0])
    return _in_play(
        lambda value: _gain(case, drafted(value), held), in_closed_form, found, tried, wish, ends
    )


def _in_play(
    play: Callable[[float], tuple[float, int]],
    in_closed_form: Callable[[float], tuple[float, int]],
    found: Solution,
    tried: Mapping[float, tuple[float, int]],
    wish: Wish,
    ends: tuple[float, float],
) -> Solution:
    """Return where the played speedup is the one wished for, from the closed form's answer on."""
    hard, easy = ends
    # What the closed form never reaches, requests may: fewer of them run at once then.
    value = easy if found.value is None else found.value
    plays = {easy: play(easy)}
    most, drafts = plays[easy]
    if most < wish.least:
        return Solution("never", None, drafts, most)

    def missed(value: float) -> float:
        return abs(plays[value][0] / wish.least - 1)

    for _ in range(_MOST_PLAYS):
        plays[value] = played, drafts = plays.get(value) or play(value)
        if missed(value) <= _PLAYED_WITHIN:
            break
        if value == hard and played > wish.least:
            return Solution("always", hard, drafts, most)
        near = sorted(plays, key=missed)[:2]
        closed, seen = (
            [gain(one)[0] for one in near] for gain in (in_closed_form, plays.__getitem__)
        )
        wanted = closed[0] * (wish.least / seen[0]) ** _power(closed, seen)
        moved = crossing(in_closed_form, wanted, _nearest(tried, wanted, ends))
        value = easy if moved.value is None else moved.value
        low, high = sorted(_nearest(plays, wish.least, ends))
        # Played speedups jump: where the closed form leads away, halve what lies between two plays.
        if value in plays or not low <= value <= high:
            value = (low + high) / 2
    best = min(plays, key=missed)
    return Solution("at", best, plays[best][1], most)


def _power(closed: Sequence[float], seen: Sequence[float]) -> float:
    """Return the power of played speedups with which those in closed form rise; 1 of one play.

    Below 1 of arrivals: what drafts gain shortens the queue, too. Where jumps of plays hide it, 1.
    """
    rise, rise_seen = (math.log(gains[0] / gains[-1]) for gains in (closed, seen))
    power = rise / rise_seen if rise_seen else 1.0
    return power if 0 < power < _MOST_POWER else 1.0


def _nearest(
    tried: Mapping[float, tuple[float, int]], wanted: float, ends: tuple[float, float]
) -> tuple[float, float]:
    """Return the nearest values that were tried on both sides of a speedup, else the ends."""
    short = [value for value, (gained, _) in tried.items() if gained < wanted]
    enough = [value for value, (gained, _) in tried.items() if gained >= wanted]
    hard, easy = ends
    return (
        max(short, key=lambda value: tried[value], default=hard),
        min(enough, key=lambda value: tried[value], default=easy),
    )


def _outcomes(case: Case, drafter: Drafter, wish: Wish) -> Outcomes:
    lengths = () if wish.draft_len is None else (wish.draft_len,)
    most = wish.max_draft_len
    return outcomes(case, drafter, max_draft_len=most, draft_lens=lengths, only=bool(lengths))


def _gain(case: Case, drafter: Drafter, wish: Wish) -> tuple[float, int]:
    """Return what a drafter reaches at one load, and its draft length."""
    gains, drafts = wish.reached(_outcomes(case, drafter, wish))
    return float(gains[0, 0]), int(drafts[0, 0])


def _varied(
    drafter: Drafter, parameter: str, draft_len: int
) -> tuple[Callable[[float], Drafter], tuple[float, float]]:
    """Return the drafter by its acceptance or cost, and the values of least and most gain."""

    def accepting(law: Callable[[float], Acceptance]) -> Callable[[float], Drafter]:
        return lambda value: drafter.accepted(law(value))

    if parameter == "accept":
        return accepting(constant_acceptance), (0.0, 1.0)
    if parameter == "accept-length":
        law = partial(acceptance_from_length, draft_len=draft_len, kind=drafter.kind)
        return accepting(law), (1.0, draft_len + 1.0)
    with_cost = drafter.with_cost
    if with_cost is None:
        return partial(slowed, drafter), (_MOST_FACTOR, 0.0)
    return lambda cost: replace(with_cost(cost), acceptance=drafter.acceptance), (_MOST_SHARE, 0.0)


def _largest_rate(case: Case, drafter: Drafter, wish: Wish) -> Solution:
    """Return the largest rate that a plain server keeps up with at which a wish is met."""
    load, first = case.load.part(0), wish.draft_len or 1

    def at(rate: float) -> Case:
        return case.at(load=replace(load, rate=[rate]))

    least, most = min(case.load.rate), max(case.load.rate)
    played = cast("PlayedLoads", _outcomes(at(least), drafter, wish).played)  # rates arrive
    stable = float(played.stable_rate[0])
    if stable < least:
        return Solution("unsustained", None, first, -np.inf)
    ends = min(most, stable), least
    return crossing(lambda rate: _gain(at(rate), drafter, wish), wish.least, ends, _RATE_WITHIN)


def _over_axis(case: Case, drafter: Drafter, axis: str, wish: Wish) -> Solution:
    """Return the runs of batches or contexts at which a wish is met."""
    # Who waits for room is not served as fast.
    here = case.at(room="ignore" if case.room == "ignore" else "drop")

    def at(numbers: IntArray) -> tuple[Array, IntArray]:
        parts = []
        for _, some in grid_slices((1, len(numbers), wish.max_draft_len + 1)):
            load: Any = replace(case.load.steady, **{axis: numbers[some].tolist()})
            parts.append(wish.reached(_outcomes(here.at(load=load), drafter, wish)))
        gains, drafts = (np.concatenate([pair[i].ravel() for pair in parts]) for i in (0, 1))
        return gains, drafts

    places = _places(wish.most)
    beyond = int(places[-1]) + 1
    gains, drafts = at(np.append(places, beyond))
    pays, ceiling = gains[:-1] >= wish.least, float(gains[:-1].max())
    runs = runs_of(lambda number: at(np.array([number]))[0][0] >= wish.least, places, pays)
    ends = bool(np.isinf(gains[-1]))
    none = "never" if np.isfinite(ceiling) else "no room"
    found = Solution(none, None, int(drafts[np.argmax(gains[:-1])]), ceiling)
    if runs:
        last = runs[-1][1]
        nearest = np.flatnonzero(places == last)
        there = int(drafts[nearest[0]] if nearest.size else at(np.array([last]))[1][0])
        found = Solution("beyond", None, there, ceiling)
        if ends or last < places[-1]:
            everywhere = bool(np.all(pays | np.isinf(gains[:-1])))
            found = Solution("always" if everywhere else "at", float(last), there, ceiling)
    return replace(
        found,
        runs=tuple(runs),
        unknown_from=None if ends else beyond,
        room_ends=bool(runs) and ends,
    )


def _places(most: int) -> IntArray:
    """Return the numbers to look at: all of few, ever fewer of many."""
    if most <= _EACH:
        return np.arange(1, most + 1)
    octaves = np.log2(most)
    steps = 2 ** np.linspace(0.0, octaves, int(octaves * _PER_OCTAVE) + 1)
    return np.unique(np.append(np.round(steps).astype(np.int64), most))


# --- Rates within targets ------------------------------------------------------------------------

#: Of the least rate that is asked for, where the search for a smaller one begins.
LEAST_SHARE: Final = 0.01
_Drafts = TypeVar("_Drafts", int, Mapping[int, int])


def largest_load(
    server: PlayedServer,
    load: Load,
    choices: Sequence[_Drafts],
    targets: tuple[float, float],
    most: Array | None = None,
) -> tuple[float, _Drafts] | None:
    """Return the largest rate, or clients, of which p99 meets targets, and its draft length.

    Parameters
    ----------
    server
        Where requests are played.
    load
        Requests at rates: the largest is looked for up to the most of them, to 1%; from the least
        on, or from a hundredth of it where that is too much. Of clients from one on.
    choices
        The draft lengths to choose from, or schedules of them.
    targets
        Seconds to a first token, and of each later one: of p99.
    most
        Clients that are looked at, at most, by draft length.

    Counts
        with the same seed at each rate: gaps shrink together, so that a higher rate is no better.
        Between the ends, powers of 1.01 alone: whatever is looked at before, the same is found.
        None where a hundredth of the least rate, or one client, is too much for all lengths.
    """
    least, step = min(load.rate, default=1.0), math.log1p(_RATE_WITHIN)

    def meets(value: float, drafts: Drafts) -> bool:
        asked = replace(load, rate=[value], requests=load.requests[:1])
        if not load.rate:
            clients = math.floor(value)
            asked = replace(load, batch_size=[clients], requests=[REQUESTS_PER_CLIENT * clients])
        (requests,) = asked.played()
        seen = server.play(requests, drafts).figures()
        return all(
            seen.get(f"p99_{name}", 0.0) <= limit
            for name, limit in zip(("ttft_s", "tpot_s"), targets, strict=True)
        )

    found: tuple[float, _Drafts] | None = None
    for drafts in filter(server.runs, choices):
        # A run of so many requests may end before a queue that grows is long.
        if most is None or not isinstance(drafts, int):
            low, high = least, min(max(load.rate), server.answers(drafts))
        else:
            low, high = least, float(most[drafts])
        if found is not None:  # what is no better than the best so far is not looked at
            low = found[0] * (1 + _RATE_WITHIN)
        if low > high or not meets(low, drafts):
            low, high = LEAST_SHARE * low, min(low, high)
            if found is not None or not load.rate or not meets(low, drafts):
                continue
        if meets(high, drafts):
            low = high
        between = range(math.floor(math.log(low) / step) + 1, math.ceil(math.log(high) / step))
        enough = bisect_left(between, True, key=lambda n: not meets(math.exp(n * step), drafts))
        found = (math.exp(between[enough - 1] * step) if enough else low), drafts
    return found


# --- Roots and runs ------------------------------------------------------------------------------


def crossing(
    gain: Callable[[float], tuple[float, int]],
    wanted: float,
    ends: tuple[float, float],
    within: float = EXACT,
) -> Solution:
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
    >>> never = crossing(lambda x: (1 + x, 1), 3.0, (0.0, 1.0))
    >>> never.answer, never.value, never.ceiling
    ('never', None, 2.0)
    """
    hard, easy = ends
    (at_easy, easy_len), (at_hard, hard_len) = gain(easy), gain(hard)
    most, most_len = max((at_easy, easy_len), (at_hard, hard_len))
    if at_hard >= wanted:  # of rates perhaps there alone
        return Solution("always" if at_easy >= wanted else "at", hard, hard_len, most)
    if at_easy < wanted:
        return Solution("never", None, most_len, most)
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
    return Solution("at", nearest, draft_len[nearest], at_easy)


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


def runs_of(
    pays: Callable[[int], bool], places: IntArray, known: BoolArray
) -> list[tuple[int, int]]:
    """Return the runs of whole numbers that pay, first and last of each.

    Parameters
    ----------
    pays
        Whether a number does, such as a batch size.
    places, known
        Ascending numbers, and whether each of them does; the ends of runs between two of them are
        found by bisection.

    Ignores
        runs that begin and end between two neighbours of `places`.
    Source
        Bisection (Python's `bisect`).

    Examples
    --------
    >>> places = np.array([1, 16, 64, 100])
    >>> runs_of(lambda n: 10 < n <= 77, places, np.array([False, True, True, False]))
    [(11, 77)]
    """

    def first_after(i: int) -> int:
        """Return the first number after places[i] at which it is as at places[i + 1]."""
        between = range(int(places[i]) + 1, int(places[i + 1]))
        at = bisect_left(between, 1, key=lambda n: pays(n) == bool(known[i + 1]))
        return int(places[i]) + 1 + at

    changes = [first_after(int(i)) for i in np.flatnonzero(known[1:] != known[:-1])]
    edges = [*([int(places[0])] if known[0] else []), *changes]
    if known[-1]:
        edges.append(int(places[-1]) + 1)
    return [(start, stop - 1) for start, stop in zip(edges[::2], edges[1::2], strict=True)]
