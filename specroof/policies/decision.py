"""On or off, and how many drafts: the decision, as a pure function of speedups."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Any, Final, Literal

import numpy as np
import numpy.typing as npt

from specroof.arrays import Array, BoolArray, IntArray
from specroof.errors import reject
from specroof.policies.schedule import Ranges, best_schedule
from specroof.speedup.result import TIE, best_index, speedup_of, verdict, within_measured

Verdict = Literal["pays", "loses", "unclear"]
#: What to do at one load.
LoadDecision = Literal["on", "off", "unclear"]
Decision = Literal["on", "off", "depends", "unclear"]


#: A first token that comes so many times later is a price that throughput alone does not tell.
_MUCH_LATER: Final = 10.0


@dataclass(frozen=True, slots=True)
class Choice:
    """How many drafts at one load.

    Parameters
    ----------
    draft_len
        Drafts per round; 0 is off.
    tried
        `draft_len`, or the best length above 0 where that is 0; 0 where none can be.
    speedup, low, high
        At `tried`: the expected speedup, and the band around it.
    verdict
        Of `tried`.
    reason
        Why there is no speedup: ``unsustained`` where requests arrive faster than a server without
        drafts answers them, so that what is gained grows with the length of the load. Drafts are
        then chosen by the rates that are answered. Empty where there is one, or no room.
    """

    draft_len: int
    tried: int
    speedup: float
    low: float
    high: float
    verdict: Verdict
    reason: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Decisions:
    """What to do with a drafter, axes (context_len, load); names as of `Choice`."""

    draft_len: IntArray
    tried: IntArray
    speedup: Array
    low: Array
    high: Array
    verdict: npt.NDArray[np.str_]
    reason: npt.NDArray[np.str_]
    decision: npt.NDArray[np.str_]


def decide(
    ends: tuple[Array, Array, Array],
    unsustained: BoolArray,
    ttft_s: Array | None = None,
    *,
    allowed: BoolArray | None = None,
    least: float = 1.0,
    scheduled: IntArray | None = None,
) -> Decisions:
    """Return what to do at loads, from what each draft length gains there.

    Parameters
    ----------
    ends
        What lengths are chosen by, and the ends of its band; the last axis is the draft length,
        from 0. NaN where a length cannot be.
    unsustained
        The loads that a server without drafts does not keep up with.
    ttft_s
        Seconds to the first token, shaped alike; None without requests.
    allowed
        Which lengths there are to choose from, shaped alike; all if None, and 0 always is.
    least
        The speedup from which drafting pays; 1 where a server without drafts does not keep up.
    scheduled
        The lengths that were decided for all loads together, 0 for off; the best of each if None.

    Source
        The largest expected speedup; ties go to the shorter draft.
    """
    middle, low, high = ends
    drafts = middle.copy() if allowed is None else np.where(allowed, middle, np.nan)
    drafts[..., 0] = np.nan
    tried = best_index(drafts)  # 0 where no drafts can be
    if scheduled is not None:
        tried = np.where(scheduled > 0, scheduled, tried)

    def at(values: Array, lengths: npt.NDArray[np.intp]) -> Array:
        whole_grid = np.broadcast_to(values, middle.shape)
        return np.take_along_axis(whole_grid, lengths[..., None], axis=-1)[..., 0]

    gain, fewest, most = (np.where(tried > 0, at(ends, tried), 1.0) for ends in (middle, low, high))
    pays_from = np.where(unsustained, 1.0, least)
    draft_len = np.where(gain > pays_from * (1 + TIE), tried, 0) if scheduled is None else scheduled
    pays = np.where(tried > 0, verdict(fewest, most, least=pays_from), "loses")
    late = np.zeros(tried.shape, dtype=bool)
    if ttft_s is not None:
        late = is_late(at(ttft_s, draft_len), at(ttft_s, np.zeros_like(draft_len)))
    drafted = np.where((pays == "pays") & ~late, "on", "unclear")
    return Decisions(
        draft_len=draft_len,
        tried=tried,
        speedup=np.where(unsustained, np.nan, gain),
        low=np.where(unsustained, np.nan, fewest),
        high=np.where(unsustained, np.nan, most),
        verdict=pays,
        decision=np.where(draft_len > 0, drafted, "off"),
        reason=np.broadcast_to(np.where(unsustained, "unsustained", ""), tried.shape),
    )


def is_late(ttft_s: Any, plain_ttft_s: Any) -> Any:
    """Return whether a first token comes ten times later than without drafts.

    Examples
    --------
    >>> is_late(2.5, 0.2), is_late(2.0, 0.2)
    (True, False)
    """
    return ttft_s > _MUCH_LATER * plain_ttft_s


def decided(decisions: Sequence[LoadDecision]) -> Decision:
    """Return the decision over several loads.

    Parameters
    ----------
    decisions
        At each load.

    Raises
    ------
    OptionError
        If there is no load.

    Source
        Counting: on or off where all loads agree, `unclear` where drafting is known to pay
        nowhere but may, else `depends`.

    Examples
    --------
    >>> decided(["on", "on"]), decided(["on", "unclear"]), decided(["off", "unclear"])
    ('on', 'depends', 'unclear')
    """
    if not decisions:
        reject("decisions is empty", "at least one load")
    found = {*decisions}
    if found == {"on"}:
        return "on"
    if found == {"off"}:
        return "off"
    return "depends" if "on" in found else "unclear"


def paying_up_to(loads: Sequence[float], decisions: Sequence[LoadDecision]) -> float | None:
    """Return the largest load up to which drafting is on at every one; None if not at the first.

    Examples
    --------
    >>> paying_up_to([1, 8, 32], ["on", "on", "off"])
    8
    """
    by_load = sorted(zip(loads, decisions, strict=True))
    paying = takewhile(lambda pair: pair[1] == "on", by_load)
    return max((load for load, _ in paying), default=None)


# --- The gain of a draft length at the present load, and at others -------------------------------

#: A further range of a schedule must gain this share of throughput, over all loads.
LEAST_GAIN = 0.005
#: A smaller gain is not worth a restart.
WORTH_A_RESTART: Final = 0.01


@dataclass(frozen=True, slots=True)
class Gain:
    """What a draft length gains over plain decoding.

    Parameters
    ----------
    draft_len
        Drafts per round; 0 is off.
    speedup, low, high
        Throughput over that of plain decoding, and the band around it.
    """

    draft_len: int
    speedup: float
    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """From the draft length that runs to the one that should.

    Parameters
    ----------
    running
        Requests that run.
    now, best
        The draft length that runs and the one that should; None for one without a figure.
    schedule
        The best draft length by ranges of loads.
    measured
        The longest draft whose acceptance was measured; None where acceptance is given at any.
    longer
        A length beyond that, worth measuring, where one is expected to gain more; None if not.
    """

    running: int
    now: Gain | None
    best: Gain
    schedule: Ranges
    measured: int | None = None
    longer: Gain | None = None

    @property
    def recommended(self) -> Gain:
        """The length to run at the present load: what runs already, unless the best gains on it."""
        if self.now is not None and self.share_over_now(self.best) < WORTH_A_RESTART:
            return self.now
        return self.best

    def share_over_now(self, of: Gain) -> float:
        """Return what a draft length gains on the one that runs, as a share; NaN if unknown."""
        return math.nan if self.now is None else of.speedup / self.now.speedup - 1.0

    @property
    def is_unclear(self) -> bool:
        """Whether the band holds no gain: measure before changing anything.

        The band is that of the new length, or, where drafting should be turned off, of the length
        that runs, since it is compared with plain decoding.
        """
        if self.now is None or self.best.speedup <= self.now.speedup:
            return False
        if self.best.draft_len == 0:
            return self.now.high >= self.best.speedup
        return self.best.low <= self.now.speedup


def best_change(  # noqa: PLR0913 - a load, its draft length, and its figures
    loads: Sequence[int],
    tokens_per_s: npt.ArrayLike,
    *,
    running: int,
    now: int | None,
    speedup: npt.ArrayLike,
    ends: tuple[npt.ArrayLike, npt.ArrayLike] | None = None,
    measured: int | None = None,
    is_fixed: bool = False,
) -> Change:
    """Return the draft length that gains most over plain decoding, beside the one that runs.

    Parameters
    ----------
    loads
        Numbers of running requests, ascending, from 1 or more.
    tokens_per_s
        Throughput, shape (loads, draft lengths from 0); NaN where a length cannot be.
    running
        The present load, one of `loads`.
    now
        The draft length that runs; None where the server does not show it.
    speedup, ends
        Over plain decoding at that load, by draft length, and the ends of its band; no band if
        None.
    measured
        The longest draft whose acceptance was measured: a longer one is never the best. None where
        acceptance is given at any length.
    is_fixed
        Whether the server cannot change its length with the load.

    Source
        Counting; the schedule is `best_schedule`, up to the longest draft that was measured, with
        the recommended length at the present load.

    Examples
    --------
    >>> rates = [[1.0, 2.0, 3.0], [10.0, 14.0, 12.0]]
    >>> found = best_change([1, 8], rates, running=8, now=2, speedup=[1.0, 1.4, 1.2])
    >>> found.best.draft_len, found.best.speedup, found.now.speedup
    (1, 1.4, 1.2)
    >>> told = {"speedup": [1.0, 1.4, 1.5], "ends": ([1.0, 1.3, 1.4], [1.0, 1.5, 1.6])}
    >>> far = best_change([8], [[10.0, 14.0, 15.0]], running=8, now=1, measured=1, **told)
    >>> far.best.draft_len, far.longer
    (1, Gain(draft_len=2, speedup=1.5, low=1.4, high=1.6))
    """
    rates = np.asarray(tokens_per_s, dtype=np.float64)
    middle = np.asarray(speedup, dtype=np.float64)
    least, most = (np.asarray(end, dtype=np.float64) for end in ends or (middle, middle))

    def gain(drafts: int) -> Gain:
        return Gain(drafts, *(float(values[drafts]) for values in (middle, least, most)))

    known = within_measured(rates, measured)
    at = list(loads).index(running)
    best, longest = (gain(int(best_index(row))) for row in (known[at], rates[at]))
    longer = longest if longest.draft_len > best.draft_len else None
    runs = now is not None and now < rates.shape[1] and np.isfinite(rates[at, now])
    change = Change(
        running=running,
        now=gain(now) if runs and now is not None else None,
        best=best,
        schedule=(),
        measured=measured,
        longer=longer,
    )
    drafts = change.recommended.draft_len
    if is_fixed or not np.isfinite(known[at, drafts]):
        return replace(change, schedule=((1, loads[-1], drafts),))
    # Worth nothing, other lengths than the recommended one are no part of a schedule here.
    known[at] = np.where(np.arange(known.shape[1]) == drafts, known[at], 0.0 * known[at])
    return replace(change, schedule=best_schedule(loads, known, least_gain=LEAST_GAIN))


# --- The bottlenecks of a speedup: what it would be without each ----------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundBreakdown:
    """One operating point with drafts, beside plain decoding at the same load.

    Parameters
    ----------
    draft_len, tokens_per_round
        Drafts, and the tokens that a round commits with the bonus token.
    draft_s, verify_s, round_s
        Seconds of a round and of its parts.
    decode_s
        Seconds of the plain step at its own batch.
    running, plain_running
        Requests that are decoded at a time, with drafts and without.
    wait_s, plain_wait_s
        Seconds that a request keeps the batch waiting, with drafts and without.
    latency_s, output_len
        Seconds that it loses alone, and the tokens of its answer.
    """

    draft_len: int
    tokens_per_round: float
    draft_s: float
    verify_s: float
    round_s: float
    decode_s: float
    running: float
    plain_running: float
    wait_s: float = 0.0
    plain_wait_s: float = 0.0
    latency_s: float = 0.0
    output_len: float = 1.0

    @property
    def speedup(self) -> float:
        """Throughput over plain throughput, prefills counted.

        Source
            `specroof.speedup.result.speedup_of`, with what requests add to each token: see
            `specroof.serving.prefills.end_to_end_tokens_per_s`.
        """
        token_s = (self.running * self.wait_s + self.latency_s) / self.output_len
        plain_token_s = (self.plain_running * self.plain_wait_s + self.latency_s) / self.output_len
        return float(
            speedup_of(
                self.tokens_per_round,
                self.round_s + self.tokens_per_round * token_s,
                self.decode_s + plain_token_s,
                running=self.running,
                plain_running=self.plain_running,
            )
        )


def bottlenecks(point: RoundBreakdown) -> dict[str, float]:
    """Return the speedup without each thing that holds it back, the largest first.

    Parameters
    ----------
    point
        Where drafts are made.

    Returns
    -------
    dict
        ``memory``: as many requests run as without drafts; ``verification``: it takes no longer
        than a plain step; ``drafting``: it takes no time; ``acceptance``: every draft is
        accepted; ``prefill``: prompts take no time.

    Ignores
        that a round of more requests takes longer: ``memory`` is the most that room can bring.
    Source
        One part taken away at a time, after Amdahl 1967, AFIPS 30, 483-485.

    Examples
    --------
    >>> point = RoundBreakdown(
    ...     draft_len=3,
    ...     tokens_per_round=2.0,
    ...     draft_s=0.5,
    ...     verify_s=1.5,
    ...     round_s=2.0,
    ...     decode_s=1.0,
    ...     running=8,
    ...     plain_running=8,
    ... )
    >>> point.speedup, bottlenecks(point)["acceptance"]  # 2 / 2, and 4 / 2
    (1.0, 2.0)
    """
    slower_s = max(point.verify_s - point.decode_s, 0.0)
    without = {
        "memory": replace(point, running=max(point.running, point.plain_running)),
        "verification": replace(point, round_s=point.round_s - slower_s),
        "drafting": replace(point, round_s=point.round_s - point.draft_s),
        "acceptance": replace(point, tokens_per_round=point.draft_len + 1.0),
        "prefill": replace(point, wait_s=0.0, plain_wait_s=0.0),
    }
    gained = {name: freed.speedup for name, freed in without.items()}
    return dict(sorted(gained.items(), key=lambda pair: -pair[1]))


# --- The next measurement: the input that moves the decision most, the least certain point -------

#: How far each input is moved, either way: h.
STEP: Final = 0.1
#: Inputs of a speedup, in words.
INPUTS: Final = {
    "acceptance": "accepted drafts",
    "verification": "time of a verification",
    "drafting": "time of drafting",
    "step": "time of a plain step",
    "prompts": "time of a prompt",
}


def swings(point: RoundBreakdown) -> dict[str, float]:
    r"""Return by how much a speedup changes with each input, the largest change first.

    .. math:: \left|\ln \frac{s(x (1 + h))}{s(x (1 - h))}\right|

    Parameters
    ----------
    point
        Where drafts are made.

    Source
        One input at a time: a central difference of logarithms.

    Examples
    --------
    >>> point = RoundBreakdown(
    ...     draft_len=1,
    ...     tokens_per_round=1.5,
    ...     draft_s=0.5,
    ...     verify_s=2.0,
    ...     round_s=3.0,
    ...     decode_s=2.0,
    ...     running=1,
    ...     plain_running=1,
    ... )
    >>> list(swings(point))  # 1.1 / 0.9, 3.2 / 2.8, 1.55 / 1.45, 3.05 / 2.95, and no prompts
    ['step', 'verification', 'acceptance', 'drafting', 'prompts']
    """
    speedups = []
    for share in (STEP, -STEP):
        accepted = min((point.tokens_per_round - 1) * (1 + share), point.draft_len)
        waits_s = {name: getattr(point, name) * (1 + share) for name in ("wait_s", "plain_wait_s")}
        moved = {
            "acceptance": replace(point, tokens_per_round=1 + accepted),
            "verification": replace(point, round_s=point.round_s + share * point.verify_s),
            "drafting": replace(point, round_s=point.round_s + share * point.draft_s),
            "step": replace(point, decode_s=point.decode_s * (1 + share)),
            "prompts": replace(point, **waits_s),
        }
        speedups.append({name: there.speedup for name, there in moved.items()})
    more, less = speedups
    found = {name: abs(math.log(more[name] / less[name])) for name in INPUTS}
    return dict(sorted(found.items(), key=lambda pair: -pair[1]))


def least_settled(bands: Sequence[tuple[float, float, float]], least: float = 1.0) -> int:
    """Return the point to measure: its verdict is the least certain.

    Parameters
    ----------
    bands
        Low end, speedup and high end of each point.
    least
        The speedup from which drafting pays.

    Source
        A measurement replaces a band by its own, so it narrows the widest most; it settles a
        verdict only near `least`, so half-widths count in units of the distance from there.

    Examples
    --------
    >>> least_settled([(1.8, 2.0, 2.2), (0.95, 1.05, 1.16), (0.6, 0.7, 0.8)])
    1
    >>> least_settled([(2.0, 2.0, 2.0), (1.1, 1.1, 1.1)])  # no bands: the one next to 1
    1
    """
    doubts = []
    for low, speedup, high in bands:
        distance = max(abs(math.log(speedup / least)), 1e-9)
        half_width = math.log(high / low) / 2
        doubts.append((half_width / distance, -distance))
    return doubts.index(max(doubts))
