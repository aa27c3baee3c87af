"""A server played through: every pass of a load, from event to event.

Requests arrive, wait for room, have their prompts computed as the server's scheduler takes them,
and decode until they end. Between two events the batch decodes in a steady way, and the clock
jumps.
"""

import heapq
import math
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, TypeAlias, TypeVar

import numpy as np

from specroof.arrays import Array, IntArray, whole_within
from specroof.drafters import Drafter
from specroof.errors import refuse
from specroof.latency import Deployment
from specroof.serving.capacity import PrefillRules, RoomRule, prefill_rules
from specroof.serving.pass_prices import PassPrices, prices_by_draft_len
from specroof.serving.served import served_curve
from specroof.serving.workload import Load, Requests
from specroof.speedup.curve import acceptance_of
from specroof.speedup.round import waits_for_host
from specroof.units import format_seconds

#: Tokens by which sums may be off: what is that near its end has reached it.
_ROUNDING: Final = 1e-6
#: Percentiles that benchmarks print.
_PERCENTILES: Final = (50, 90, 99)
#: Times of requests, and figures of a whole run: properties of `Played`.
TIMES: Final = ("ttft_s", "tpot_s", "latency_s", "queue_s")
_WHOLE: Final = ("tokens_per_s", "requests_per_s", "duration_s", "mean_running")
#: Parts of a run in which the requests that run are told.
PARTS: Final = 100
#: What one play comes to.
FIGURES: Final = (
    *(
        f"{statistic}_{name}"
        for name in TIMES
        for statistic in ("mean", *(f"p{cut}" for cut in _PERCENTILES))
    ),
    *_WHOLE,
    "good_requests_per_s",
)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Played:
    """What clients see of a load that was played through, a value for each request.

    Parameters
    ----------
    sent_s, reached_s, started_s, first_s, end_s
        When each request was sent, when it reached the server, when its prompt was begun, and when
        its first and its last token came.
    output_len
        Tokens of its answer.
    event_s, running
        Times of events, and the requests that run from each on: prompts that are being computed,
        and answers.
    """

    sent_s: Array
    reached_s: Array
    started_s: Array
    first_s: Array
    end_s: Array
    output_len: Array
    event_s: Array
    running: Array

    def __repr__(self) -> str:
        """Return one line: arrays are looked at by name."""
        return (
            f"<Played: {len(self.end_s)} requests in {format_seconds(self.duration_s)}, "
            f"{self.tokens_per_s:.3g} tokens/s>"
        )

    @property
    def ttft_s(self) -> Array:
        """Seconds from sending a request to its first token."""
        return self.first_s - self.sent_s

    @property
    def queue_s(self) -> Array:
        """Seconds that a request waits at the server for the first pass over its prompt."""
        return self.started_s - self.reached_s

    @property
    def latency_s(self) -> Array:
        """Seconds from sending a request to its last token."""
        return self.end_s - self.sent_s

    @property
    def tpot_s(self) -> Array:
        """Mean seconds of a token after the first; NaN for answers of one token."""
        later = np.where(self.output_len > 1, self.output_len - 1, np.nan)
        return (self.end_s - self.first_s) / later

    @property
    def duration_s(self) -> float:
        """Seconds from the first request to the last token, ramp and drain included."""
        return float(self.end_s.max() - self.sent_s.min())

    @property
    def tokens_per_s(self) -> float:
        """Output tokens per second over the whole run, as benchmarks count them."""
        return float(self.output_len.sum() / self.duration_s)

    @property
    def requests_per_s(self) -> float:
        """Requests per second over the whole run."""
        return len(self.end_s) / self.duration_s

    @property
    def mean_running(self) -> float:
        """Requests that run, averaged over the whole run."""
        return float(np.sum(np.diff(self.event_s) * self.running[:-1]) / self.duration_s)

    def running_over_time(self) -> Array:
        """Return the mean number of requests that run in each of `PARTS` equal parts of the run."""
        edges = np.linspace(self.sent_s.min(), self.end_s.max(), PARTS + 1)
        request_s = np.append(0.0, np.cumsum(np.diff(self.event_s) * self.running[:-1]))
        return np.asarray(np.diff(np.interp(edges, self.event_s, request_s)) / np.diff(edges))

    def summary(self) -> Mapping[str, Mapping[str, float]]:
        """Return mean, p50, p90 and p99 of `ttft_s`, `tpot_s`, `latency_s` and `queue_s`.

        Source
            Percentiles with linear interpolation, as vLLM's and SGLang's clients have them.
        """
        found = {}
        for name in TIMES:
            values = getattr(self, name)
            known = values[np.isfinite(values)]
            if known.size:
                of = np.percentile(known, _PERCENTILES).tolist()
                cuts = {f"p{cut}": value for cut, value in zip(_PERCENTILES, of, strict=True)}
                found[name] = {"mean": float(known.mean())} | cuts
        return found

    def figures(self, ttft_s: float = math.inf, tpot_s: float = math.inf) -> dict[str, float]:
        """Return all single figures by the names of `FIGURES`.

        Parameters
        ----------
        ttft_s, tpot_s
            What a request may take that counts as goodput. Answers of one token have no TPOT.
        """
        known = np.where(np.isnan(self.tpot_s), 0.0, self.tpot_s)
        in_time = np.mean((self.ttft_s <= ttft_s) & (known <= tpot_s))
        times = {
            f"{statistic}_{name}": value
            for name, statistics in self.summary().items()
            for statistic, value in statistics.items()
        }
        whole = {name: float(getattr(self, name)) for name in _WHOLE}
        return times | whole | {"good_requests_per_s": float(in_time) * self.requests_per_s}


def play(
    prices: PassPrices | Mapping[int, PassPrices],
    requests: Requests,
    rules: PrefillRules,
    capacity: float,
    *,
    overlap: bool = False,
    seed: int | None = None,
) -> Played:
    """Return what becomes of requests on a server, pass by pass.

    First come, first served. Each pass takes tokens of prompts up to the chunk, the rest of a cut
    prompt first, as long as requests find room; where it shares passes, less the tokens of those
    that decode, which then do so too. Otherwise prompts stop the batch. Without prompts all decode.

    Parameters
    ----------
    prices
        Seconds of passes; where the draft length follows the batch, by the smallest number of
        decoding requests from which each draft length holds.
    requests
        The load.
    rules
        The server's scheduler: see `specroof.serving.capacity.prefill_rules`.
    capacity
        Requests that run at once, at most: with their prompt or their answer.
    overlap
        Whether the host schedules a pass while the one before it runs: a request then joins the
        pass after the next, but on an idle server.
    seed
        For rounds that commit as many tokens as dice say; the expected number of tokens if None.

    Raises
    ------
    OptionError
        For a server that has room for no request, prices that begin above one request, and dice
        for several draft lengths.

    Ignores
        preemption: requests keep their room; and the pass that a server with overlap takes to see
        that a request has ended.
    Source
        vLLM 0.33.0 ``v1/core/sched/scheduler.py``, ``schedule``, and ``v1/engine/core.py``,
        ``step_with_batch_queue``; SGLang 0.5.23 ``managers/scheduler.py``,
        ``get_next_batch_to_run`` and ``event_loop_overlap``, and ``managers/schedule_policy.py``,
        ``PrefillAdder``. TensorRT-LLM's in-flight batching is taken to be vLLM's.

    Examples
    --------
    >>> from specroof.serving.pass_prices import Grid
    >>> from specroof.serving.workload import trace
    >>> second = Grid([1, 2], [0, 9], np.ones((2, 2)))
    >>> prices = PassPrices(second, second, second, second)
    >>> rules = PrefillRules(chunk=100, shares_passes=False, drafts_beside=False)
    >>> two = play(prices, trace([0, 0], [80, 90], [4, 2]), rules, capacity=2)
    >>> two.first_s, two.end_s  # two prompts, a second each; both decode once, then one
    (array([2., 2.]), array([5., 3.]))
    """
    if not capacity >= 1:
        refuse("capacity", capacity, "1 request at least")
    schedule = {1: prices} if isinstance(prices, PassPrices) else prices
    if min(schedule, default=0) != 1:
        refuse("prices", sorted(schedule), "draft lengths from 1 request on")
    decoded_len = requests.output_len - 1.0
    if seed is not None:
        if len(schedule) > 1:
            refuse("seed", seed, "None where the draft length follows the batch")
        rng = np.random.default_rng(whole_within("seed", seed, "seed"))
        rounds = _drawn_rounds(decoded_len, schedule[1].survival, rng)
        decoded_len = rounds * schedule[1].tokens_per_round
    server = _Server(schedule, requests, decoded_len, rules, capacity, overlap)
    return server.played(requests.output_len)


class _Server:
    """A server between two events.

    Requests are numbered in the order in which they are sent, reach the server, and start.
    """

    def __init__(
        self,
        schedule: Mapping[int, PassPrices],
        requests: Requests,
        decoded_len: Array,
        rules: PrefillRules,
        capacity: float,
        overlap: bool,
    ) -> None:
        self.schedule, self.prices = schedule, schedule[1]
        self.rules, self.capacity, self.overlap = rules, capacity, overlap
        self.concurrency = requests.concurrency or math.inf
        # Of each request: tokens of its prompt, of these new ones, tokens to decode, and how many
        # of its answer are behind each of these: 1, but with dice.
        self.input_len = requests.input_len.tolist()
        self.new_len = (requests.input_len - requests.cached_len).tolist()
        self.decoded_len = decoded_len.tolist()
        expected = np.where(decoded_len > 0, decoded_len, 1.0)
        self.growth = ((requests.output_len - 1.0) / expected).tolist()
        self.arrival_s = requests.arrival_s.tolist()
        nothing = [0.0] * len(self.arrival_s)
        self.sent_s, self.started_s = nothing, nothing.copy()
        self.first_s, self.end_s = nothing.copy(), nothing.copy()
        self.event_s: list[float] = []
        self.running: list[int] = []
        self.n_sent = self.n_reached = self.n_started = self.n_ended = 0
        # The scheduler knows the requests that came until then.
        self.clock = self.seen_s = 0.0
        # Rounds since the scheduler looked for requests.
        self.unseen_rounds = 0
        # Tokens of the prompt of the last request that started which are still to be computed.
        self.cut_len = 0.0
        # Tokens of a request that has decoded all the time; what this is when a request ends.
        self.decoded = 0.0
        self.decoding: list[tuple[float, int]] = []
        # Cached tokens of all that decode: the first, and the second for each of `decoded`.
        self.context_base = self.context_growth = 0.0
        # Seconds of a round over the mean context, by the batch.
        self.rounds_s: dict[int, list[float]] = {}

    def played(self, output_len: Array) -> Played:
        """Play until the last request has ended."""
        self.send()
        while self.n_ended < len(self.end_s):
            next_s = self.reach()
            budget = self.rules.chunk or math.inf
            if self.rules.shares_passes:
                budget -= self.prices.positions * len(self.decoding)
            room = budget > 0 and self.n_started - self.n_ended < self.capacity
            if (budget > 0 and self.cut_len) or (room and self.n_started < self.n_reached):
                self.take_prompts(budget)
            elif self.decoding:
                self.decode(max(next_s - self.clock, 0.0) if room else math.inf)
            else:
                self.clock = self.seen_s = max(next_s, self.clock)
        sent_s = np.array(self.sent_s)
        return Played(
            sent_s=sent_s,
            reached_s=sent_s + self.prices.request_latency_s,
            started_s=np.array(self.started_s),
            first_s=np.array(self.first_s),
            end_s=np.array(self.end_s),
            output_len=output_len,
            event_s=np.array(self.event_s),
            running=np.array(self.running, dtype=np.float64),
        )

    def send(self) -> None:
        """Send the requests that the concurrency allows, each at its arrival or later."""
        most = min(len(self.sent_s), self.n_ended + self.concurrency)
        while self.n_sent < most:
            self.sent_s[self.n_sent] = max(self.arrival_s[self.n_sent], self.clock)
            self.n_sent += 1

    def reach(self) -> float:
        """Let requests reach the scheduler; return when the next one reaches the server."""
        latency_s = self.prices.request_latency_s
        looks = not self.unseen_rounds or not self.decoding
        while self.n_reached < self.n_sent:
            reaches_s = self.sent_s[self.n_reached] + latency_s
            if reaches_s > self.seen_s or not looks:
                return reaches_s
            self.n_reached += 1
        return math.inf

    def take_prompts(self, budget: float) -> None:
        """Run one pass with prompts, of so many tokens at most."""
        tokens = attended = 0.0
        through = []
        if not self.cut_len:
            self.start()
        while True:
            number = self.n_started - 1
            piece = min(self.cut_len, budget - tokens)
            tokens += piece
            attended += piece * (self.input_len[number] - self.cut_len + piece / 2)
            self.cut_len -= piece
            if self.cut_len > _ROUNDING:
                break
            self.cut_len = 0.0
            through.append(number)
            full = budget - tokens < _ROUNDING or self.n_started - self.n_ended >= self.capacity
            if full or self.n_started == self.n_reached:
                break
            self.start()
        self.note()
        self.seen_s = self.clock
        self.unseen_rounds = 0
        batch = len(self.decoding) if self.rules.shares_passes else 0
        if batch:
            context = (self.context_base + self.context_growth * self.decoded) / batch
            self.clock += self.prices.mixed_s(batch, context, tokens, attended / tokens)
        else:
            self.clock += self.prices.prompt_s.at(tokens, attended / tokens)
        self.clock += len(through) * self.prices.request_overhead_s
        if not self.overlap:
            self.seen_s = self.clock
        ended = self.n_ended
        if batch:
            self.commit(self.prices.tokens_per_round if self.rules.drafts_beside else 1.0)
        for number in through:
            self.first_s[number] = self.clock
            if self.decoded_len[number] > 0:
                heapq.heappush(self.decoding, (self.decoded + self.decoded_len[number], number))
                growth = self.growth[number]
                self.context_growth += growth
                self.context_base += self.input_len[number] - growth * self.decoded
            else:
                self.end(number)
        self.change(ended)

    def start(self) -> None:
        """Begin with the prompt of the next request."""
        self.started_s[self.n_started] = self.clock
        self.cut_len = self.new_len[self.n_started]
        self.n_started += 1

    def decode(self, until_s: float) -> None:
        """Decode until a request ends, or for so many seconds: to the end of a round."""
        batch, tokens = len(self.decoding), self.prices.tokens_per_round
        if batch not in self.rounds_s:
            self.rounds_s[batch] = self.prices.round_s.row(batch)
        prices = (self.prices.round_s.y, self.rounds_s[batch])
        context = (self.context_base + self.context_growth * self.decoded) / batch
        growth = self.context_growth * tokens / batch
        left = self.decoding[0][0] - self.decoded
        most = max(math.ceil((left - _ROUNDING) / tokens), 1)
        interval = self.rules.receive_interval
        if interval > 1:  # to the next look for requests: none is seen before it
            most, until_s = min(most, interval - self.unseen_rounds), math.inf
        rounds, seconds = steady_rounds(prices, context, growth, most, until_s)
        self.unseen_rounds = (self.unseen_rounds + rounds) % interval
        self.clock += seconds
        self.seen_s = self.clock
        if self.overlap:  # the next round was scheduled when the last one began
            context += growth * (rounds - 1)
            self.seen_s -= steady_rounds(prices, context, growth, 1, math.inf)[1]
        ended = self.n_ended
        self.commit(rounds * tokens)
        self.change(ended)

    def commit(self, tokens: float) -> None:
        """Let all that decode commit tokens; those end that have theirs."""
        self.decoded += tokens
        while self.decoding and self.decoding[0][0] < self.decoded + _ROUNDING:
            target, number = heapq.heappop(self.decoding)
            growth = self.growth[number]
            self.context_growth -= growth
            began = target - self.decoded_len[number]
            self.context_base -= self.input_len[number] - growth * began
            self.end(number)

    def end(self, number: int) -> None:
        """End a request."""
        self.end_s[number] = self.clock
        self.n_ended += 1

    def change(self, ended: int) -> None:
        """Follow a change of the batch: requests take the place of any that ended."""
        if self.n_ended > ended:
            self.note()
            self.send()
        if len(self.schedule) > 1:
            batch = max(len(self.decoding), 1)
            self.prices = self.schedule[max(least for least in self.schedule if least <= batch)]

    def note(self) -> None:
        """Note how many requests run from now on."""
        if not self.event_s or self.event_s[-1] < self.clock:
            self.event_s.append(self.clock)
            self.running.append(0)
        self.running[-1] = self.n_started - self.n_ended


def steady_rounds(
    prices: tuple[list[float], list[float]],
    context: float,
    growth: float,
    most: int,
    until_s: float,
) -> tuple[int, float]:
    """Return the rounds that a batch decodes without an event, and their seconds.

    Parameters
    ----------
    prices
        Mean contexts, ascending, and the seconds of a round at each: linear between them.
    context, growth
        The mean context of the first round, and what each round adds.
    most
        Rounds until a request ends.
    until_s
        Seconds until a request arrives: the round then under way is finished.

    Source
        Counting: sums of an arithmetic series, from one context of the grid to the next.

    Examples
    --------
    >>> rising = ([0.0, 10.0, 20.0], [1.0, 2.0, 4.0])
    >>> steady_rounds(rising, 0.0, 5.0, 4, math.inf)  # 1 + 1.5 + 2 + 3
    (4, 7.5)
    >>> steady_rounds(rising, 0.0, 5.0, 4, 2.6)
    (3, 4.5)
    """
    contexts, seconds = prices
    place = min(max(bisect_right(contexts, context) - 1, 0), len(contexts) - 2)
    rounds, passed_s = 0, 0.0
    while True:
        low, high = contexts[place], contexts[place + 1]
        slope = (seconds[place + 1] - seconds[place]) / (high - low)
        first_s = seconds[place] + slope * (context - low)
        here = most - rounds
        if place < len(contexts) - 2:
            here = min(here, max(math.ceil((high - context) / growth), 0))
        rise_s = slope * growth
        here_s = here * (first_s + rise_s * (here - 1) / 2)
        if passed_s + here_s >= until_s:
            # The smallest whole n with n first + rise n (n - 1) / 2 >= the seconds left.
            left_s, middle_s = until_s - passed_s, first_s - rise_s / 2
            root = 2 * left_s / (middle_s + math.sqrt(middle_s**2 + 2 * rise_s * left_s))
            here = min(max(math.ceil(root), 1), here)
            return rounds + here, passed_s + here * (first_s + rise_s * (here - 1) / 2)
        rounds += here
        passed_s += here_s
        if rounds == most:
            return rounds, passed_s
        context += here * growth
        place += 1


def _drawn_rounds(tokens: Array, survival: tuple[float, ...], rng: np.random.Generator) -> Array:
    """Return how many rounds it takes each request to commit its tokens.

    As many rounds at once as cannot commit too much, however the dice fall.
    """
    lengths = np.arange(1.0, len(survival) + 2)
    chances = -np.diff([1.0, *survival, 0.0])
    left, rounds = np.ceil(tokens), np.zeros(len(tokens))
    while (going := left > 0).any():
        batch = np.where(going, np.maximum(left // lengths[-1], 1.0), 0.0)
        left = left - rng.multinomial(batch.astype(np.int64), chances) @ lengths
        rounds += batch
    return rounds


# --- Loads on a deployment, at each draft length -------------------------------------------------

#: Called with the requests that have been played through, and with all that will be.
Progress = Callable[[int, int], None]
#: Whom to tell how far a long play is; see `specroof.cli`.
PROGRESS: ContextVar[Progress] = ContextVar("PROGRESS", default=lambda _done, _all: None)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class PlayedLoads:
    """What clients see of loads that were played through, at each draft length.

    Parameters
    ----------
    drafter
        The name of what drafts.
    load
        What was asked.
    draft_len
        Draft lengths from 0, which decodes plainly.
    figures
        By name, axes (load, draft_len); NaN where the server has no room for a request or the
        drafter does not draft as much. Times of requests in seconds, as ``p99_ttft_s``: mean, p50,
        p90 and p99 of ``ttft_s``, ``tpot_s``, ``latency_s`` and ``queue_s``. Of a load:
        ``tokens_per_s``, ``requests_per_s``, ``duration_s``, ``mean_running``, and
        ``good_requests_per_s``, requests per second within the targets.
    running
        Requests that run in each of 100 equal parts of the run, axes (load, draft_len, part).
    stable_rate
        Requests per second that the server answers at most, axes (draft_len,).
    has_targets
        Whether there are targets of TTFT or TPOT.
    """

    drafter: str
    load: Load
    draft_len: IntArray
    figures: Mapping[str, Array]
    running: Array
    stable_rate: Array
    has_targets: bool

    def __repr__(self) -> str:
        """Return one line: figures are looked at by name."""
        loads, lengths = self.speedup.shape
        return f"<PlayedLoads: {self.drafter}; {loads} loads, {lengths} draft lengths>"

    @property
    def speedup(self) -> Array:
        """Mean latency of a request without drafts over that with them, axes (load, draft_len)."""
        latency_s = self.figures["mean_latency_s"]
        return np.asarray(latency_s[:, :1] / latency_s)

    @property
    def best_draft_len(self) -> IntArray:
        """The draft length of the most goodput, of ties or without targets of the least latency."""
        rank = np.lexsort(
            (
                np.broadcast_to(self.draft_len, self.speedup.shape),
                -np.nan_to_num(self.speedup),
                -np.nan_to_num(self.figures["good_requests_per_s"]) * self.has_targets,
            ),
            axis=-1,
        )
        return np.asarray(self.draft_len[rank[:, 0]])


#: Drafts per round: of any batch, or by the smallest batch from which each length holds.
Drafts: TypeAlias = int | Mapping[int, int]
_Drafts = TypeVar("_Drafts", int, Mapping[int, int])


def _lengths(drafts: Drafts) -> list[int]:
    return [drafts] if isinstance(drafts, int) else [*drafts.values()]


#: Requests in flight at which a server is full that nothing but arithmetic limits.
_FULL: Final = 10_000.0


@dataclass(frozen=True, slots=True, eq=False)
class PlayedServer:
    """A server that loads are played on: prices, rules and room by draft length.

    Parameters
    ----------
    drafter
        The name of what drafts.
    prices
        By draft length from 0, as far as the drafter goes.
    rules, overlaps
        How prompts are taken and whether the host works beside passes: plain, and with drafts.
    capacity
        Requests that run at once, by draft length.
    stable_rate
        Requests per second that it answers at most, by draft length: full, in the steady state.
    """

    drafter: str
    prices: Sequence[PassPrices]
    rules: tuple[PrefillRules, PrefillRules]
    overlaps: tuple[bool, bool]
    capacity: Array
    stable_rate: Array

    def runs(self, drafts: Drafts) -> bool:
        """Return whether requests can have so many drafts."""
        most = max(_lengths(drafts))
        return most < len(self.prices) and bool(self.capacity[most] >= 1)

    def answers(self, drafts: Drafts) -> float:
        """Return the requests per second that it answers at most."""
        return float(np.nan_to_num(self.stable_rate[_lengths(drafts)]).max())

    def play(self, requests: Requests, drafts: Drafts) -> Played:
        """Return what becomes of requests with so many drafts a round."""
        most = max(_lengths(drafts))  # which the server keeps room for at any batch
        prices = self.prices
        return play(
            prices[drafts]
            if isinstance(drafts, int)
            else {least: prices[length] for least, length in drafts.items()},
            requests,
            self.rules[most > 0],
            float(self.capacity[most]),
            overlap=self.overlaps[most > 0],
        )

    def figures(
        self, load: Load, drafts: Drafts, targets: tuple[float, ...] = (math.inf, math.inf)
    ) -> dict[str, Array]:
        """Return what clients see of each load with so many drafts, by the names of `FIGURES`."""
        seen = [self.play(requests, drafts).figures(*targets) for requests in load.played()]
        return {name: np.array([one.get(name, math.nan) for one in seen]) for name in FIGURES}


def played_server(
    deployment: Deployment, drafter: Drafter, load: Load, room: RoomRule, max_draft_len: int
) -> PlayedServer:
    """Return the server on which a load can be played.

    Parameters
    ----------
    deployment, drafter, load
        What is served where, what drafts, and the requests: their lengths bound the prices.
    room
        Whether memory counts; who has no room waits.
    max_draft_len
        The longest draft.

    Raises
    ------
    SpecroofError
        As `specroof.serving.served.served_curve` does, and for loads out of bounds.

    Ignores
        the size of what requests hold: all have room for a request of the mean length.
    """
    clients, count, shortest, longest_prompt, longest, answer_len = np.transpose(
        [
            (
                requests.concurrency or _FULL,
                len(requests.arrival_s),
                requests.input_len.min(),
                requests.input_len.max(),
                (requests.input_len + requests.output_len).max(),
                requests.output_len.mean(),
            )
            for requests in load.played()
        ]
    )
    busy = served_curve(
        deployment,
        drafter,
        replace(load.steady, batch_size=[float(clients.max())]),
        "queue" if room == "drop" else room,
        max_draft_len=max_draft_len,
    )
    unbounded = np.full(max_draft_len + 1, math.inf)
    capacity = unbounded if busy.room is None else busy.room.largest[0]
    rules = prefill_rules(deployment), prefill_rules(deployment, drafter.kind)
    priced = partial(
        prices_by_draft_len,
        deployment,
        running=min(float(np.minimum(clients, count).max()), max(float(capacity.max()), 1.0)),
        input_len=(float(shortest.min()), float(longest_prompt.max())),
        longest=float(longest.max()),
    )
    drafting = priced(rules[1], drafting=(drafter, acceptance_of(drafter), max_draft_len))
    # "plain": plain steps overlap with the host's work, rounds do not.
    overlap = deployment.setup.engine.overlap is not False
    return PlayedServer(
        drafter=drafter.name,
        prices=[*priced(rules[0]), *drafting[1:]],
        rules=rules,
        overlaps=(overlap, overlap and not waits_for_host(deployment.setup, drafter)),
        capacity=capacity,
        stable_rate=busy.curve.tokens_per_s[0, 0] / answer_len.mean(),
    )


def played_loads(
    server: PlayedServer,
    load: Load,
    draft_lens: Sequence[int],
    targets: tuple[float, ...] = (math.inf, math.inf),
) -> PlayedLoads:
    """Return what clients see of loads, with a drafter and without, at each draft length.

    Parameters
    ----------
    server, load
        Where requests are played, and how they come.
    draft_lens
        The draft lengths that are played, besides 0.
    targets
        Of goodput: seconds to a first token, and of each later one.

    Source
        `play`, with rounds that commit their expected tokens.

    Examples
    --------
    >>> from specroof import load_drafter, load_hardware, load_model
    >>> from specroof.latency import engine_setup
    >>> from specroof.serving.workload import Workload
    >>> setup = engine_setup(load_hardware("h100"), "vllm", None, None)
    >>> deployment = Deployment(load_model("Qwen/Qwen3-8B"), setup)
    >>> work = Workload(1000, 100)
    >>> load = Load([8], [work.mean_context_len], work, requests=[80])
    >>> eagle = load_drafter("eagle3,accept=0.7")
    >>> server = played_server(deployment, eagle, load, "queue", 3)
    >>> found = played_loads(server, load, [1, 3])
    >>> found.figures["p99_ttft_s"].shape, int(found.best_draft_len[0])
    ((1, 4), 3)
    """
    drafts = np.arange(len(server.capacity))
    lengths = [n for n in sorted({0, *draft_lens}) if server.runs(n)]
    figures = {name: np.full((len(load.requests), len(drafts)), np.nan) for name in FIGURES}
    running = np.full((len(load.requests), len(drafts), PARTS), np.nan)
    done, in_all = 0, len(lengths) * sum(load.requests)
    PROGRESS.get()(done, in_all)
    for place, requests in enumerate(load.played()):
        for n in lengths:
            seen = server.play(requests, n)
            running[place, n] = seen.running_over_time()
            for name, value in seen.figures(*targets).items():
                figures[name][place, n] = value
            done += len(requests.arrival_s)
            PROGRESS.get()(done, in_all)
    return PlayedLoads(
        drafter=server.drafter,
        load=load,
        draft_len=drafts,
        figures=figures,
        running=running,
        stable_rate=server.stable_rate,
        has_targets=min(targets) < math.inf,
    )


def played_gain(
    deployment: Deployment,
    drafter: Drafter,
    load: Load,
    room: RoomRule,
    draft_lens: Sequence[int],
) -> tuple[float, int]:
    """Return the speedup of rounds that do draft, of the first load, and their draft length.

    Parameters
    ----------
    deployment, drafter, load, room
        As `played_server` has them.
    draft_lens
        The draft lengths to choose from.

    Counts
        mean latency of a request without drafts over that with them, as `PlayedLoads.speedup`;
        -inf where the server has no room for a request with any of these lengths.
    """
    server = played_server(deployment, drafter, load, room, max(draft_lens))
    gains = played_loads(server, load, draft_lens).speedup[0, list(draft_lens)]
    best = int(np.argmax(np.nan_to_num(gains, nan=-math.inf)))
    return float(np.nan_to_num(gains[best], nan=-math.inf)), draft_lens[best]


#: The ratio of two rates between which the largest one lies that is good enough.
_RATE_STEP: Final = 1.01


def largest_rate(
    server: PlayedServer, load: Load, choices: Sequence[_Drafts], targets: tuple[float, float]
) -> tuple[float, _Drafts] | None:
    """Return the largest rate at which 99% of the requests meet targets, and its draft length.

    Parameters
    ----------
    server
        Where requests are played.
    load
        Requests at rates: the largest is looked for between the least and the most of them, to 1%.
    choices
        The draft lengths to choose from, or schedules of them.
    targets
        Seconds to a first token, and of each later one: of p99.

    Counts
        with the same seed at each rate: gaps shrink together, so that a higher rate is no better.
        None where the least rate is too much for all lengths.
    """

    def meets(rate: float, drafts: Drafts) -> bool:
        (requests,) = replace(load, rate=[rate], requests=load.requests[:1]).played()
        seen = server.play(requests, drafts).figures()
        return all(
            seen.get(f"p99_{name}", 0.0) <= most
            for name, most in zip(("ttft_s", "tpot_s"), targets, strict=True)
        )

    found: tuple[float, _Drafts] | None = None
    for drafts in filter(server.runs, choices):
        # A run of so many requests may end before a queue that grows is long.
        low, high = min(load.rate), min(max(load.rate), server.answers(drafts))
        if found is not None:  # what is no better than the best so far is not looked at
            low = found[0] * _RATE_STEP
        if low > high or not meets(low, drafts):
            continue
        if meets(high, drafts):
            low = high
        while high > low * _RATE_STEP:
            middle = math.sqrt(low * high)
            low, high = (middle, high) if meets(middle, drafts) else (low, middle)
        found = low, drafts
    return found
