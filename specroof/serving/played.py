"""A server played through: every pass of a load, from event to event.

Requests arrive, wait for room, have their prompts computed as the server's scheduler takes them,
and decode until they end. Between two events the batch decodes in a steady way, and the clock
jumps.
"""

import heapq
import math
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from specroof.arrays import Array, array_within, number_within, whole_within
from specroof.errors import refuse, reject
from specroof.serving.capacity import PrefillRules
from specroof.serving.pass_prices import PassPrices
from specroof.serving.workload import Workload
from specroof.units import format_seconds

#: Tokens by which sums may be off: what is that near its end has reached it.
_ROUNDING: Final = 1e-6
#: Percentiles that benchmarks print.
_PERCENTILES: Final = (50, 90, 99)
#: Requests of a benchmark for each of its clients, as InferenceX has it.
REQUESTS_PER_CLIENT: Final = 10


@dataclass(frozen=True, slots=True, eq=False)
class Requests:
    """The requests of a load, in the order in which they are sent; see `trace`.

    Parameters
    ----------
    arrival_s
        Seconds from the start, not falling.
    input_len, output_len
        Tokens of each prompt, and of each answer.
    cached_len
        Tokens at the beginning of each prompt that the server has cached.
    concurrency
        Requests in flight at most: others are sent when one ends. None without a limit.
    """

    arrival_s: Array
    input_len: Array
    output_len: Array
    cached_len: Array
    concurrency: int | None = None


def trace(
    arrival_s: npt.ArrayLike,
    input_len: npt.ArrayLike,
    output_len: npt.ArrayLike,
    cached_len: npt.ArrayLike = 0.0,
    *,
    concurrency: int | None = None,
) -> Requests:
    """Return requests that are known one by one; a batch job has all of them at 0.

    Parameters
    ----------
    arrival_s, input_len, output_len, cached_len
        See `Requests`: a number for all, or one for each. The last token of a prompt is computed
        whatever is cached.
    concurrency
        See `Requests`.

    Raises
    ------
    OptionError
        For lengths out of bounds, times that go back, and lists that do not fit together.

    Examples
    --------
    >>> trace([0.0, 0.5], input_len=[1024, 512], output_len=64).output_len
    array([64., 64.])
    >>> trace([0.0, 0.5, 0.25], input_len=1024, output_len=64)
    Traceback (most recent call last):
    specroof.errors.OptionError: arrival_s[2] is 0.25; allowed: 0.5 or later
    """
    values = {
        name: np.atleast_1d(array_within(name, given, quantity))
        for name, given, quantity in (
            ("arrival_s", arrival_s, "arrival_s"),
            ("input_len", input_len, "request_len"),
            ("output_len", output_len, "request_len"),
            ("cached_len", cached_len, "context_len"),
        )
    }
    shapes = ", ".join(f"{name} {value.shape}" for name, value in values.items())
    try:
        arrivals, prompts, answers, cached = np.broadcast_arrays(*values.values())
    except ValueError:
        reject(f"requests have shapes {shapes}", "a number, or one for each request")
    if arrivals.ndim != 1:
        reject(f"requests have shapes {shapes}", "numbers and lists of numbers")
    back = np.flatnonzero(np.diff(arrivals) < 0)
    if back.size:
        before, at = arrivals[back[0]], int(back[0]) + 1
        refuse(f"arrival_s[{at}]", float(arrivals[at]), f"{before:g} or later")
    over = np.flatnonzero(cached > prompts - 1)
    if over.size:
        at = int(over[0])
        most = f"at most {prompts[at] - 1:g}: the last token of a prompt is computed"
        refuse(f"cached_len[{at}]", float(cached[at]), most)
    if concurrency is not None:
        whole_within("concurrency", concurrency, "server_requests")
    return Requests(arrivals, prompts, answers, cached, concurrency)


def closed_loop(
    workload: Workload,
    concurrency: int,
    count: int | None = None,
    *,
    shortest: float = 1.0,
    ramp_s: float = 0.0,
    seed: int = 0,
) -> Requests:
    """Return the requests of clients that each send the next when they have an answer.

    Parameters
    ----------
    workload
        The lengths, and what of a prompt is cached.
    concurrency
        Clients.
    count
        Requests in all; 10 for each client if None.
    shortest
        Shares of the lengths from which those of a request are drawn, evenly, up to 1.
    ramp_s
        Seconds over which the clients start; 0 for all at once.
    seed
        Of the lengths.

    Raises
    ------
    OptionError
        For a value out of bounds.

    Source
        InferenceX, ``utils/bench_serving``: random lengths by ``--random-range-ratio``, clients by
        ``--max-concurrency``.

    Examples
    --------
    >>> load = closed_loop(Workload(1000, 100), 4, shortest=0.8)
    >>> load.arrival_s[-3:], load.input_len.shape, bool(load.input_len.min() >= 800)
    (array([0., 0., 0.]), (40,), True)
    """
    clients = whole_within("concurrency", concurrency, "server_requests")
    count = clients * REQUESTS_PER_CLIENT if count is None else count
    ramp = number_within("ramp_s", ramp_s, "seconds")
    starts = ramp * np.minimum(np.arange(_count(count)) / clients, 1.0)
    return _drawn_requests(workload, starts, shortest, seed, clients)


def open_loop(
    workload: Workload,
    rate: float,
    count: int,
    *,
    shortest: float = 1.0,
    burstiness: float = 1.0,
    seed: int = 0,
) -> Requests:
    """Return requests that arrive at a rate, whatever the server does.

    Parameters
    ----------
    workload
        The lengths, and what of a prompt is cached.
    rate
        Requests per second.
    count
        Requests in all.
    shortest
        See `closed_loop`.
    burstiness
        Shape of the gamma distribution of gaps: 1 for Poisson arrivals, below for bursts, inf for
        even gaps.
    seed
        Of gaps and lengths. With the same one, another rate has the same gaps, scaled.

    Raises
    ------
    OptionError
        For a value out of bounds.

    Source
        vLLM 0.33.0 ``benchmarks/serve.py``, ``get_request``; its last arrival is not moved to
        count / rate here.

    Examples
    --------
    >>> open_loop(Workload(1000, 100), 2.0, 3, burstiness=np.inf).arrival_s
    array([0.5, 1. , 1.5])
    """
    per_s = number_within("rate", rate, "request_rate")
    shape = float(burstiness)
    if not shape > 0:
        refuse("burstiness", burstiness, "a number above 0, or inf for even gaps")
    gaps = np.ones(_count(count))
    if math.isfinite(shape):
        gaps = np.random.default_rng((seed, 1)).gamma(shape, 1.0 / shape, len(gaps))
    return _drawn_requests(workload, np.cumsum(gaps) / per_s, shortest, seed)


def _count(count: int) -> int:
    return whole_within("requests", count, "played_requests")


def _drawn_requests(
    workload: Workload, starts: Array, shortest: float, seed: int, concurrency: int | None = None
) -> Requests:
    """Return requests whose lengths are drawn evenly from a share of those stated to all of it."""
    least = number_within("shortest", shortest, "share")
    rng = np.random.default_rng((whole_within("seed", seed, "seed"), 0))
    lengths = []
    for length in (workload.input_len, workload.output_len):
        shares = least + (1.0 - least) * rng.random(len(starts))
        lengths.append(np.maximum(length * shares, 1.0))
        if least < 1:  # of a range, whole numbers of tokens
            lengths[-1] = np.maximum(np.rint(lengths[-1]), 1.0)
    new = np.maximum(lengths[0] * (1 - workload.prefix_hit_rate), 1.0)
    return Requests(starts, lengths[0], lengths[1], lengths[0] - new, concurrency)


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

    def summary(self) -> Mapping[str, Mapping[str, float]]:
        """Return mean, p50, p90 and p99 of `ttft_s`, `tpot_s`, `latency_s` and `queue_s`.

        Source
            Percentiles with linear interpolation, as vLLM's and SGLang's clients have them.
        """
        found = {}
        for name in ("ttft_s", "tpot_s", "latency_s", "queue_s"):
            values = getattr(self, name)
            known = values[np.isfinite(values)]
            if known.size:
                of = np.percentile(known, _PERCENTILES).tolist()
                cuts = {f"p{cut}": value for cut, value in zip(_PERCENTILES, of, strict=True)}
                found[name] = {"mean": float(known.mean())} | cuts
        return found


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
