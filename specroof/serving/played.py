"""A server played through: every pass of a load, from event to event.

Requests arrive, wait for room, have their prompts computed as the server's scheduler takes them,
and decode until they end. Between two events the batch decodes in a steady way, and the clock
jumps.
"""

import math
from bisect import bisect_right, insort
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, fields, replace
from functools import lru_cache, partial
from typing import Any, Final, TypeAlias

import numpy as np

from specroof import quantities as q
from specroof.acceptance import accepted_at
from specroof.arrays import Array, BoolArray, IntArray, fields_of, whole_within
from specroof.drafters import Drafter
from specroof.errors import refuse
from specroof.latency.setup import Deployment
from specroof.serving.capacity import (
    PrefillRules,
    RoomRule,
    ServedRoom,
    ServerRoom,
    prefill_rules,
    served_room,
    server_room,
)
from specroof.serving.pass_prices import PassPrices, pass_prices
from specroof.serving.served import served_curve, with_running
from specroof.serving.workload import Load, Requests
from specroof.speedup.curve import acceptance_of, waits_for_host
from specroof.speedup.result import within_measured
from specroof.units import format_seconds

#: Tokens by which sums may be off: what is that near its end has reached it.
_ROUNDING: Final = 1e-6
#: SGLang 0.5.23 ``environ.py``: the share of answers that end by themselves which is reserved at
#: first, at least, and how it falls by each round; rounds for which there is room after a loss. Of
#: its conservativeness the default, 1, and 0.3 in groups (``arg_groups/parallel_hook.py``).
_FIRST_RATIO: Final = 0.7
_LEAST_RATIO: Final = 0.14 * _FIRST_RATIO
_RATIO_STEP: Final = (_FIRST_RATIO - _LEAST_RATIO) / 600
_GROUPS_SHARE: Final = 0.3
_STEPS_AFTER_LOSS: Final = 20
#: Percentiles that benchmarks print.
_PERCENTILES: Final = (50, 90, 99)
_STATISTICS: Final = ("mean", *(f"p{cut}" for cut in _PERCENTILES))
#: Times of requests, and figures of a whole run: properties of `Played`.
TIMES: Final = ("ttft_s", "tpot_s", "latency_s", "queue_s")
_WHOLE: Final = (q.TOKENS_PER_S.name, q.REQUEST_RATE.name, "duration_s", "mean_running")
#: Parts of a run in which the requests that run are told.
PARTS: Final = 100
#: What one play comes to.
FIGURES: Final = (
    *(f"{statistic}_{name}" for name in TIMES for statistic in _STATISTICS),
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
            values = np.sort(getattr(self, name))
            if np.isnan(values[-1]):  # answers of one token have no TPOT
                values = values[np.isfinite(values)]
            if values.size:
                found[name] = {"mean": float(values.mean())}
                for cut in _PERCENTILES:
                    place = (len(values) - 1) * cut / 100
                    low, high = values[[math.floor(place), math.ceil(place)]].tolist()
                    found[name][f"p{cut}"] = low + (high - low) * (place % 1)
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
        found = {name: float(getattr(self, name)) for name in _WHOLE}
        found["good_requests_per_s"] = float(in_time) * self.requests_per_s
        for name, statistics in self.summary().items():
            found |= {f"{statistic}_{name}": value for statistic, value in statistics.items()}
        return found


@dataclass(frozen=True, slots=True)
class Memory:
    """What requests hold of a server's memory for cached tokens, in shares of it.

    Parameters
    ----------
    request
        What each request that runs holds whatever its context: recurrent state, windows, slots
        ahead of its context, and the unused part of its last block.
    token
        What a cached token takes.
    reserves
        Whether a request begins only where its whole answer fits too, beside those of all others;
        where not, the last ones that began lose what they hold when there is no room for the next
        tokens of all.
    most_len
        Tokens of an answer still to come that are reserved at most; where more may come and there
        is no room for it, those with the shortest answers so far lose what they hold.
    shares
        Whether of answers of known lengths, too, only a share is reserved.

    Ignores
        in which step of a block each request is: the last one is half used on average.
    """

    request: float = 0.0
    token: float = 0.0
    reserves: bool = False
    most_len: float = math.inf
    shares: bool = False


#: Of a server whose requests may hold any number of tokens.
_ENDLESS: Final = Memory()


def play(  # noqa: C901, PLR0912, PLR0913, PLR0915 - what is asked of whom by which rules; one loop
    prices: PassPrices | Mapping[int, PassPrices],
    requests: Requests,
    rules: PrefillRules,
    capacity: float,
    *,
    memory: Memory | None = None,
    overlap: bool = False,
    seed: int | None = None,
) -> Played:
    """Return what becomes of requests on a server, pass by pass.

    First come, first served. Each pass takes tokens of prompts up to the chunk, the rest of a cut
    prompt first, as long as requests find room; where it shares passes, less the tokens of those
    that decode, which then do so too. Otherwise prompts stop the batch. Without prompts all decode.
    Of several groups of devices each takes a chunk: the next prompt goes to the emptiest. Where
    prompts wait for one in every group, the batch decodes meanwhile.

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
    memory
        What they hold of it as their contexts grow; any number of tokens if None.
    overlap
        Whether the host schedules a pass while the one before it runs: a request then joins the
        pass after the next, but on an idle server.
    seed
        For rounds that commit as many tokens as dice say, where the draft length follows the batch
        those of the longest; the expected number of tokens if None.

    Raises
    ------
    OptionError
        For a server that has room for no request, and prices that begin above one request.

    Counts
        the host, which makes tokens of one text after another before the scheduler knows of a
        request; a request that loses its memory, which computes its prompt and what there is of its
        answer again. It waits before all others, but behind them where answers are reserved. With
        overlap, the memory of one that ends is free a pass later.

        Of answers that end by themselves so much is reserved as they may have, `Requests.most_len`,
        times a ratio that falls with each round, but of those that have just started; those that
        found no room try again when one has ended.
        Clients of a closed loop are back with the next request after `Requests.turnaround_s`, where
        answers are long: what a request takes besides passes then makes their first token late.
    Ignores
        that each micro-batch of a pipeline has a chunk of its own: all that decode have a round
        beside one, and so have, without drafts, those of a group of SGLang that has a prompt; that
        requests are dealt out to groups as they come; blocks that a cache of prefixes keeps of a
        request that lost its memory; of a limit of running requests the pass that a server with
        overlap takes to see that one has ended; and that SGLang without a cache of prefixes counts
        on what ends before others.
    Source
        vLLM 0.33.0 ``v1/core/sched/scheduler.py``, ``schedule``, and ``v1/engine/core.py``,
        ``step_with_batch_queue``. SGLang 0.5.23 ``managers/scheduler.py``,
        ``get_next_batch_to_run``, ``update_running_batch`` and ``event_loop_overlap``;
        ``managers/schedule_policy.py``, ``PrefillAdder`` (its ratio is 1 for requests that ignore
        the end of a text, as benchmarks send them); ``managers/schedule_batch.py``,
        ``retract_decode``. TensorRT-LLM's in-flight batching is taken to be vLLM's, with the
        default of its documentation for memory, GUARANTEED_NO_EVICT: whole answers are reserved.

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
    rounds_len = requests.output_len - 1.0
    if seed is not None:
        longest = max(schedule.values(), key=lambda one: one.tokens_per_round)
        seed = whole_within("seed", seed, "seed")
        drawn = _drawn_rounds(rounds_len.tobytes(), longest.survival, seed)
        rounds_len = drawn * longest.tokens_per_round
    memory = memory or _ENDLESS
    # One loop from event to event until the last request has ended, with all that a server knows in
    # local variables: an event takes microseconds, and half as much again where parts of it are
    # methods. Requests are numbered in the order in which they are sent, reach the server, and
    # first start.
    count = len(rounds_len)
    prices, several = schedule[1], len(schedule) > 1
    tokens_per_round = prices.tokens_per_round
    overhead_s, latency_s = prices.request_overhead_s, prices.request_latency_s
    tokenize_s, tokenized_s = prices.tokenize_s, 0.0
    # The first token may be late, and not the last: by a small part of the answer at most.
    answer_s = rounds_len / tokens_per_round * min(prices.round_s.row(1))
    turned_s = latency_s if requests.turnaround_s is None else requests.turnaround_s
    reach_s = np.clip(latency_s - _LATE_SHARE * answer_s, min(turned_s, latency_s), latency_s)
    reaches_s: list[float] = reach_s.tolist()
    chunk, interval, groups = rules.chunk or math.inf, rules.receive_interval, rules.groups
    holds, free_slots = rules.holds_back, rules.free_slots(capacity)
    patience = rules.gathering_passes
    eased = _GROUPS_SHARE if groups > 1 else 1.0
    concurrency, ceil = requests.concurrency or count, math.ceil
    token, fixed = memory.token, memory.request
    reserves, clip_len = memory.reserves, memory.most_len
    arrival_s: list[float] = requests.arrival_s.tolist()
    # Of each request: tokens of its prompt, of these new ones, and of all when it ends; and how
    # many of its answer are behind each that is to be decoded: 1, but with dice. What there is of
    # an answer whose memory was lost is part of the prompt.
    input_len: list[float] = requests.input_len.tolist()
    new_len: list[float] = (requests.input_len - requests.cached_len).tolist()
    full_len: list[float] = (requests.input_len + requests.output_len - 1.0).tolist()
    expected_len = np.where(rounds_len > 0, rounds_len, 1.0)
    growths: list[float] = ((requests.output_len - 1.0) / expected_len).tolist()
    decoded_len: list[float] = rounds_len.tolist()
    # What must fit for a request to start: its prompt, and what may come where that is reserved.
    needed_len, bound_len, first_len = input_len, full_len, input_len.copy()
    clips, overflows, ends_alone, ratio = False, not reserves, False, 1.0
    if reserves:
        asked_len = requests.output_len if requests.most_len is None else requests.most_len
        bound_len = (requests.input_len + asked_len - 1.0).tolist()
        needed_len = (requests.input_len + np.minimum(asked_len - 1.0, clip_len)).tolist()
        clips = bool((asked_len - 1.0 > clip_len).any())
        is_guessed = memory.shares or requests.most_len is not None
        ends_alone = is_guessed and clip_len < math.inf
        overflows = clips or ends_alone
        ratio = eased * _FIRST_RATIO if ends_alone else 1.0
    sent_s: list[float] = []
    reached_s: list[float] = []
    answered_s: list[float] = []  # in the order in which they end
    started_s, first_s, end_s, left_s = ([0.0] * count for _ in range(4))
    event_s: list[float] = []
    running: list[int] = []
    n_sent = n_reached = n_started = n_ended = 0
    # Requests that wait; those with memory by their last start (that have ended stay among them
    # until they are the last), and how many have not ended.
    waiting: deque[int] = deque()
    started: list[int] = []
    n_running = 0
    # The scheduler knows the requests that came until `seen_s`; rounds since it looked for them.
    clock = seen_s = 0.0
    unseen_rounds = 0
    # Tokens of prompts that began and are still to be computed, one in each group of devices.
    cut: dict[int, float] = {}
    # Tokens of a request that has decoded all the time; what this is when a request ends; who
    # ends then, and how many decode. Less than nothing is decoded at: the next end is the last.
    decoded = 0.0
    targets = [-1.0] * count
    ends: dict[float, list[int]] = {}
    pending: list[float] = []
    batch = 0
    # Cached tokens of all that decode: the first, and the second for each of `decoded`; and what
    # these may be in all when they end.
    context_base = context_growth = promised_len = 0.0
    # Tokens, and requests, that are free a pass after their end.
    leaving_len, n_leaving = 0.0, 0
    # Whether what waits has found too little memory, and nothing has ended since.
    blocked = False
    # Rounds that are decoded before the next prompt, and those that prompts have waited for others.
    owed = gathered = 0

    while n_ended < count:
        # Clients send what their number allows; the scheduler looks who has come.
        if n_sent < count and n_sent < n_ended + concurrency:
            for arrives_s in arrival_s[n_sent : min(n_ended + concurrency, count)]:
                # The host reads one text after another.
                sends_s = max(arrives_s, clock)
                if len(sent_s) >= concurrency:  # by the client of the one that ended then
                    sends_s = max(sends_s, answered_s[len(sent_s) - concurrency])
                tokenized_s = max(sends_s + reaches_s[len(sent_s)], tokenized_s)
                sent_s.append(sends_s)
                tokenized_s += tokenize_s * input_len[len(reached_s)]
                reached_s.append(tokenized_s)
            n_sent = len(sent_s)
        if not unseen_rounds or not batch:
            while n_reached < n_sent and reached_s[n_reached] <= seen_s:
                waiting.append(n_reached)
                n_reached += 1
        next_s = reached_s[n_reached] if n_reached < n_sent else math.inf

        # The share of the memory that the next pass leaves, and whether all have enough for it.
        cached_len = context_base + context_growth * decoded
        tokens = leaving_len + cached_len
        if cut:
            tokens += sum(input_len[number] for number in cut)
        free = 1 - token * tokens - fixed * (n_running + n_leaving)
        admits = True
        loses = free < 0 and overflows and not (reserves and cut)
        while loses and free < 0 and (batch if reserves else n_running) > 1:
            # The last one that started loses its memory, or the one of the shortest answer.
            admits = blocked = False
            if reserves:
                contexts = _contexts(ends, decoded, input_len, growths, decoded_len)
                number = _shortest(contexts, first_len)
                started.remove(number)
            else:
                number = started.pop()
            if number in cut:
                del cut[number]
            elif targets[number] < decoded + _ROUNDING:
                continue  # it has ended
            else:
                growth, target = growths[number], targets[number]
                ends[target].remove(number)
                if not ends[target]:
                    del ends[target]
                    pending.remove(-target)
                batch -= 1
                context_growth -= growth
                context_base -= input_len[number] - growth * (target - decoded_len[number])
                promised_len -= bound_len[number]
                # The pass over its prompt and its answer so far gives the next token.
                left = target - decoded - 1 / growth
                more = growth * (decoded_len[number] - left)
                input_len[number] += more
                new_len[number] += more
                decoded_len[number] = left if left > _ROUNDING else 0.0
            n_running -= 1
            if reserves:
                rest_len = bound_len[number] - input_len[number]
                needed_len[number] = input_len[number] + min(rest_len, clip_len)
                waiting.append(number)
            else:
                waiting.appendleft(number)
            cached_len = context_base + context_growth * decoded
            tokens = leaving_len + cached_len + sum(input_len[number] for number in cut)
            free = 1 - token * tokens - fixed * (n_running + n_leaving)
        if not admits:
            event_s.append(clock)
            running.append(n_running)
            if ends_alone:
                contexts = _contexts(ends, decoded, input_len, growths, decoded_len)
                ratio = _ratio_after_loss(contexts, first_len, bound_len)
        if several:
            prices = schedule[max(least for least in schedule if least <= max(batch, 1))]
            tokens_per_round = prices.tokens_per_round

        budget = chunk - prices.positions * batch / groups if rules.shares_passes else chunk
        room = admits and budget > 0 and n_running < capacity
        if holds and not cut and n_running:
            room = room and capacity - n_running >= free_slots
        fits = full = False
        left = free
        if room and waiting:
            if reserves:
                reserved_len = ratio * (promised_len - cached_len)
                if clips and not blocked:
                    contexts = _contexts(ends, decoded, input_len, growths, decoded_len)
                    reserved_len = ratio * sum(
                        min(bound_len[number] - context, clip_len) for number, context in contexts
                    )
                if cut:
                    reserved_len += sum(needed_len[number] - input_len[number] for number in cut)
                left -= token * reserved_len
            fits = not n_running
            if not blocked and token * needed_len[waiting[0]] + fixed <= left:
                fits = True
            full = not fits
            if not cut:  # else it is asked when that prompt is through
                blocked = reserves and full
        gathers = fits and batch >= groups > len(waiting) and gathered < patience
        through: list[int] = []
        if ((fits and not gathers) or (cut and budget > 0)) and not (owed and batch):
            # A pass with prompts, the rests of cut ones first, each group up to its chunk.
            tokens = attended = 0.0
            rests = [*cut.items()][::-1] if cut else []
            if rests:
                cut, fits = {}, False
            rooms, most_left = [budget] * groups, budget
            while True:
                if rests:
                    number, rest = rests.pop()
                else:
                    if not fits:
                        if not (room and waiting and n_running < capacity):
                            break
                        if most_left < _ROUNDING:
                            break
                        if blocked or token * needed_len[waiting[0]] + fixed > left:
                            blocked = reserves
                            break
                    fits = False
                    number = waiting.popleft()
                    if number == n_started:
                        started_s[number] = clock
                        n_started += 1
                    started.append(number)
                    n_running += 1
                    rest = new_len[number]
                    left -= token * needed_len[number] + fixed
                piece = min(rest, most_left)
                attended += piece * (input_len[number] - rest + piece / 2)
                tokens += piece
                if groups > 1:
                    rooms[rooms.index(most_left)] -= piece
                    most_left = max(rooms)
                else:
                    most_left -= piece
                if rest - piece > _ROUNDING:
                    cut[number] = rest - piece
                else:
                    through.append(number)
            event_s.append(clock)
            running.append(n_running)
            seen_s = clock
            unseen_rounds = 0
            clock += prices.prompt_s.at(tokens, attended / tokens)
            committed = leaves_s = 0.0
            if prices.filling_s is not None:
                leaves_s = prices.filling_s.at(tokens, attended / tokens)
                clock -= leaves_s
            if batch and rules.shares_passes:
                clock += prices.sharing_s.line(batch, tokens)
                clock += prices.context_s.line(batch, cached_len / batch)
                committed = tokens_per_round if rules.drafts_beside else 1.0
            clock += len(through) * overhead_s
            owed, gathered = rules.rounds_between, 0
            if not overlap:
                seen_s = clock
        elif batch:
            # Rounds until a request ends, memory is full, or one comes that there is room for.
            context, growth = cached_len / batch, context_growth * tokens_per_round / batch
            most = 1
            waits = not admits or (full and n_leaving)
            if waits:  # perhaps for one pass: what has ended leaves, and may be enough
                left = free + token * leaving_len + fixed * n_leaving
                waits = ends_alone or token * needed_len[waiting[0]] + fixed <= left
            if not waits:
                most = ceil((-pending[-1] - decoded - _ROUNDING) / tokens_per_round) or 1
                if overflows and most > 1:
                    grows = token * context_growth * tokens_per_round
                    if free < grows * (most - 1):
                        most = int(max(free, 0.0) / grows) + 1
            until_s = math.inf
            if room and not full:
                until_s = next_s - clock if next_s > clock else 0.0
            if gathers:
                most = min(most, patience - gathered)
            if owed:  # no prompt begins before them
                most, until_s = min(most, owed), math.inf
            if interval > 1:  # to the next look for requests: none is seen before it
                most, until_s = min(most, interval - unseen_rounds), math.inf
            rounds, seconds, last_s = steady_rounds(
                prices.round_s.y, prices.round_s.row(batch), context, growth, most, until_s
            )
            unseen_rounds = (unseen_rounds + rounds) % interval
            owed = max(owed - rounds, 0)
            gathered += rounds * gathers
            # With overlap the next round was scheduled when the last one began.
            last_began_s = clock if rounds == 1 else clock + seconds - last_s
            clock += seconds
            seen_s = last_began_s if overlap else clock
            committed = rounds * tokens_per_round
            if ends_alone and admits:
                ratio = max(ratio - eased * rounds * _RATIO_STEP, eased * _LEAST_RATIO)
        else:
            leaving_len, n_leaving = 0.0, 0
            clock = seen_s = max(next_s, clock)
            if ends_alone:
                ratio = eased * _FIRST_RATIO
            continue

        # Those that decode commit tokens; those end that have theirs.
        decoded += committed
        ended = 0
        leaving_len = 0.0
        while pending and -pending[-1] < decoded + _ROUNDING:
            target = -pending.pop()
            for number in ends.pop(target):
                growth = growths[number]
                context_growth -= growth
                context_base -= input_len[number] - growth * (target - decoded_len[number])
                promised_len -= bound_len[number]
                leaving_len += full_len[number]
                end_s[number] = clock
                answered_s.append(clock + left_s[number])
                ended += 1
        batch -= ended
        for number in through:
            if not first_s[number]:  # else it had lost its memory
                first_s[number], left_s[number] = clock, leaves_s
            if decoded_len[number] > 0:
                target, growth = decoded + decoded_len[number], growths[number]
                targets[number] = target
                if target in ends:
                    ends[target].append(number)
                else:
                    ends[target] = [number]
                    insort(pending, -target)
                context_growth += growth
                context_base += input_len[number] - growth * decoded
                promised_len += bound_len[number]
                batch += 1
            else:
                leaving_len += full_len[number]
                end_s[number] = clock
                answered_s.append(clock + left_s[number])
                ended += 1
        if ended:
            n_ended += ended
            n_running -= ended
            event_s.append(clock)
            running.append(n_running)
        if n_leaving or (ended and not overlap):
            blocked = False  # what has ended has left
        if overlap:
            n_leaving = ended
        else:
            leaving_len = 0.0
    # The others go on while a prompt leaves the stages behind the first: its request alone waits.
    late_s = np.array(left_s)
    # Of events at the same time the last one holds.
    times = np.array(event_s)
    last = np.append(np.diff(times) > 0, True)
    return Played(
        sent_s=np.array(sent_s),
        reached_s=np.array(reached_s),
        started_s=np.array(started_s),
        first_s=np.array(first_s) + late_s + latency_s - reach_s,
        end_s=np.array(end_s) + late_s,
        output_len=requests.output_len,
        event_s=times[last],
        running=np.array(running, dtype=np.float64)[last],
    )


def _contexts(
    ends: Mapping[float, list[int]],
    decoded: float,
    input_len: list[float],
    growths: list[float],
    decoded_len: list[float],
) -> list[tuple[int, float]]:
    """Return the requests that decode, in the order in which they began to, and their contexts."""
    return [
        (number, input_len[number] + growths[number] * (decoded - target + decoded_len[number]))
        for target, numbers in ends.items()
        for number in numbers
    ]


def _shortest(contexts: list[tuple[int, float]], first_len: list[float]) -> int:
    """Return the request of the shortest answer so far; of those the one of the longest prompt.

    Source
        SGLang 0.5.23 ``managers/schedule_batch.py``, ``_get_decode_retraction_order``.
    """
    return min(
        (round(context - first_len[number], 6), -first_len[number], -place, number)
        for place, (number, context) in enumerate(contexts)
    )[-1]


def _ratio_after_loss(
    contexts: list[tuple[int, float]], first_len: list[float], bound_len: list[float]
) -> float:
    """Return the share of answers still to come that is reserved once memory was full.

    Source
        SGLang 0.5.23 ``new_token_ratio_tracker.py``, ``estimate_new_token_ratio_after_retract``.
    """
    made = sum(context - first_len[number] + 1 for number, context in contexts)
    asked = sum(bound_len[number] - first_len[number] + 1 for number, _ in contexts)
    return min((made + _STEPS_AFTER_LOSS * len(contexts)) / (asked + 1), 1.0)


def joined(shares: Sequence[Played]) -> Played:
    """Return what becomes of requests that several servers answer side by side.

    Parameters
    ----------
    shares
        What becomes of those of each server.
    """
    if len(shares) == 1:
        return shares[0]
    columns = {
        one.name: np.concatenate([getattr(share, one.name) for share in shares])
        for one in fields(Played)
    }
    event_s = np.unique(columns["event_s"])
    running: Any = sum(
        np.append(0, share.running)[np.searchsorted(share.event_s, event_s, side="right")]
        for share in shares
    )
    return Played(**columns | {"event_s": event_s, "running": running})


def steady_rounds(
    contexts: list[float],
    seconds: list[float],
    context: float,
    growth: float,
    most: int,
    until_s: float,
) -> tuple[int, float, float]:
    """Return the rounds that a batch decodes without an event, their seconds and the last one's.

    Parameters
    ----------
    contexts, seconds
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
    >>> steady_rounds(*rising, 0.0, 5.0, 4, math.inf)  # 1 + 1.5 + 2 + 3
    (4, 7.5, 3.0)
    >>> steady_rounds(*rising, 0.0, 5.0, 4, 2.6)
    (3, 4.5, 2.0)
    """
    last = len(contexts) - 1
    place = bisect_right(contexts, context, 1, last)
    rounds, passed_s = 0, 0.0
    while True:
        low, high, low_s = contexts[place - 1], contexts[place], seconds[place - 1]
        slope = (seconds[place] - low_s) / (high - low)
        first_s = low_s + slope * (context - low)
        here = most - rounds
        if place < last and context + growth * (here - 1) >= high:
            here = min(here, max(math.ceil((high - context) / growth), 0))
        rise_s = slope * growth
        here_s = here * (first_s + rise_s * (here - 1) / 2)
        if passed_s + here_s >= until_s:
            # The smallest whole n with n first + rise n (n - 1) / 2 >= the seconds left.
            left_s, middle_s = until_s - passed_s, first_s - rise_s / 2
            root = 2 * left_s / (middle_s + math.sqrt(middle_s**2 + 2 * rise_s * left_s))
            here = min(max(math.ceil(root), 1), here)
            here_s = here * (first_s + rise_s * (here - 1) / 2)
            return rounds + here, passed_s + here_s, first_s + rise_s * (here - 1)
        rounds += here
        passed_s += here_s
        if rounds == most:
            return rounds, passed_s, first_s + rise_s * (here - 1)
        context += here * growth
        place += 1


#: Answers of so many of the longest rounds have their expected rounds counted out.
_COUNTED_ROUNDS: Final = 4


@lru_cache(maxsize=32)  # a search plays the same requests at many loads
def _drawn_rounds(tokens_of_each: bytes, survival: tuple[float, ...], seed: int) -> Array:
    r"""Return how many rounds it takes each request to commit its tokens.

    As many rounds at once as cannot commit too much, however the dice fall. Requests differ as the
    dice say; all rounds are as many as are expected, so that no seed gains more than another:

    .. math:: m(L) = 1 + \sum_c p_c \, m(L - c) \approx L / \mu + (E[c^2] - \mu) / (2 \mu^2)

    of rounds that commit c tokens with probability p, μ on average, and m = 0 up to 0.

    Ignores
        what the asymptote, which is for `_COUNTED_ROUNDS` of the longest rounds and more, is off: a
        fifth of a round where nearly all rounds commit alike, of which it is the mean over lengths.
    Source
        Renewal theory (Feller 1968, volume 1, chapter XIII); counting.
    """
    tokens, rng = np.frombuffer(tokens_of_each), np.random.default_rng((seed, 2))
    lengths = np.arange(1.0, len(survival) + 2)
    chances = -np.diff([1.0, *survival, 0.0])
    wanted = np.ceil(tokens)
    left, rounds = wanted.copy(), np.zeros(len(tokens))
    while (going := np.flatnonzero(left > 0)).size:
        batch = np.maximum(left[going] // lengths[-1], 1.0)
        left[going] -= rng.multinomial(batch.astype(np.int64), chances) @ lengths
        rounds[going] += batch
    mean, least = chances @ lengths, np.ceil(wanted / lengths[-1])
    expected = wanted / mean + (chances @ lengths**2 - mean) / (2 * mean**2)
    few = wanted < _COUNTED_ROUNDS * len(lengths)
    counted = [0.0]
    for _ in range(int(wanted[few].max(initial=0))):
        behind = counted[: -len(lengths) - 1 : -1]  # a round that ends the answer leaves none
        counted.append(1.0 + float(chances[: len(behind)] @ behind))
    expected[few] = np.take(counted, wanted[few].astype(np.intp))
    whole = np.clip(expected, least, wanted).sum() / max(rounds.sum(), 1.0)
    drawn = np.diff(np.rint(np.cumsum(rounds * whole)), prepend=0.0)
    return np.asarray(np.clip(drawn, least, wanted))


# --- Loads on a deployment, at each draft length -------------------------------------------------

#: Called with the requests that have been played through, and with all that will be.
Progress = Callable[[int, int], None]
#: Whom to tell how far a long play is; see `specroof.cli`.
PROGRESS: ContextVar[Progress] = ContextVar("PROGRESS", default=lambda _done, _all: None)


@contextmanager
def part_of(before: int, in_all: int) -> Iterator[None]:
    """Tell of a play that is a part of several: so many requests came before, of so many in all."""
    whole = PROGRESS.get()
    token = PROGRESS.set(lambda done, _: whole(before + done, in_all))
    try:
        yield
    finally:
        PROGRESS.reset(token)


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
    most_running
        Requests that run at once at most, axes (load, draft_len).
    stable_rate
        Requests per second that the server answers at most, axes (draft_len,).
    stable_gain
        Those over the ones without drafts, and the ends of its band, axes (3, draft_len).
    has_targets
        Whether there are targets of TTFT or TPOT.
    measured_draft_len
        The longest draft that acceptance was measured with, beyond which none is best; None where
        a law was given.
    """

    drafter: str
    load: Load
    draft_len: IntArray
    figures: Mapping[str, Array]
    running: Array
    most_running: Array
    stable_rate: Array
    stable_gain: Array
    has_targets: bool
    measured_draft_len: int | None

    def __repr__(self) -> str:
        """Return one line: figures are looked at by name."""
        loads, lengths = self.speedup.shape
        return f"<PlayedLoads: {self.drafter}; {loads} loads, {lengths} draft lengths>"

    @property
    def sums_work(self) -> bool:
        """Whether a load is work that ends sooner: clients that wait for answers, or a job."""
        return self.load.kind in ("concurrency", "job")

    @property
    def speedup(self) -> Array:
        """How much sooner the same work is done with drafts, axes (load, draft_len).

        Of clients and of a job tokens per second over those without drafts; of requests that come
        whatever the server does, their mean latency without drafts over that with them: NaN where
        it cannot keep up without drafts, as latency then grows with the length of the load.
        """
        if self.sums_work:
            rate = self.figures[q.TOKENS_PER_S.name]
            return np.asarray(rate / rate[:, :1])
        gains = self._sooner.copy()
        gains[self.unsustained, 1:] = np.nan
        return gains

    @property
    def _sooner(self) -> Array:
        latency_s = self.figures["mean_latency_s"]
        return np.asarray(latency_s[:, :1] / latency_s)

    @property
    def lasting_rates(self) -> Array:
        """Requests that arrive in a second, as `lasting_rates` has them."""
        return lasting_rates(self.load, {key: one[:, 0] for key, one in self.figures.items()})

    @property
    def unsustained(self) -> BoolArray:
        """The loads that arrive faster than the server answers them without drafts."""
        return np.asarray(self.lasting_rates > self.stable_rate[0])

    @property
    def keeps_up(self) -> BoolArray:
        """Whether the server answers as many requests as arrive, axes (load, draft_len)."""
        return np.asarray(self.lasting_rates[:, None] <= self.stable_rate)

    @property
    def deciding(self) -> Array:
        """What a length is chosen by where the server cannot keep up without drafts.

        Axes (3, load, draft_len): the gain in the largest rate that is answered, and the ends of
        its band. A length that keeps up comes before all that do not, that of the least latency
        first, and is certain to pay.
        """
        gain = np.broadcast_to(self.stable_gain[:, None], (3, *self.keeps_up.shape))
        most = np.nanmax(gain, initial=1.0)
        return np.where(self.keeps_up, most + self._sooner, gain)

    @property
    def choices(self) -> Array:
        """Speedups of the lengths to choose from, axes (load, draft_len); NaN of others."""
        return within_measured(self.speedup, self.measured_draft_len)

    @property
    def best_draft_len(self) -> IntArray:
        """The draft length of the most goodput, of ties or without targets of the least latency.

        Where the server cannot keep up without drafts, of the first by `deciding`.
        """
        good = within_measured(self.figures["good_requests_per_s"], self.measured_draft_len)
        decided = within_measured(self.deciding[0], self.measured_draft_len)
        gains = np.where(self.unsustained[:, None], decided, self.choices)
        keys = (-np.nan_to_num(gains), -np.nan_to_num(good) * self.has_targets)
        # The sort is stable: of ties the shortest draft comes first.
        return np.asarray(self.draft_len[np.lexsort(keys, axis=-1)[:, 0]])


#: Drafts per round: of any batch, or by the smallest batch from which each length holds.
Drafts: TypeAlias = int | Mapping[int, int]


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
        Requests that run at once, by draft length, whatever memory they hold; 0 where it has no
        room for one of the mean length.
    memory
        What they hold of the memory, by draft length; None where requests are counted.
    stable_rate, stable_gain
        Requests per second that it answers at most, by draft length: full, in the steady state;
        and those over the ones without drafts with the ends of the band, axes (3, draft_len).
    measured_draft_len
        The longest draft that acceptance was measured with; None where a law was given.
    is_raised
        Whether a default limit of running requests is raised.
    """

    drafter: str
    prices: Sequence[PassPrices]
    rules: tuple[PrefillRules, PrefillRules]
    overlaps: tuple[bool, bool]
    capacity: Array
    memory: Sequence[Memory | None]
    stable_rate: Array
    stable_gain: Array
    measured_draft_len: int | None
    is_raised: bool = False

    @property
    def choices(self) -> range:
        """The draft lengths to choose from, from 1 on."""
        longest = len(self.capacity) - 1
        return range(1, 1 + min(longest, self.measured_draft_len or longest))

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
        schedule = {1: drafts} if isinstance(drafts, int) else drafts
        return play(
            {least: self.prices[length] for least, length in schedule.items()},
            requests,
            self.rules[most > 0],
            float(self.capacity[most]),
            memory=self.memory[most],
            overlap=self.overlaps[most > 0],
            seed=requests.seed if most else None,
        )

    def figures(
        self, load: Load, drafts: Drafts, targets: tuple[float, ...] = (math.inf, math.inf)
    ) -> dict[str, Array]:
        """Return what clients see of each load with so many drafts, by the names of `FIGURES`."""
        seen = [self.play(requests, drafts).figures(*targets) for requests in load.played()]
        return {name: np.array([one.get(name, math.nan) for one in seen]) for name in FIGURES}


#: Of the time of an answer, by how much its first token may be late at its client while the last
#: is not: times between tokens are that much shorter than rounds at most.
_LATE_SHARE: Final = 0.1

#: Contexts at which the memory of a request is looked at: blocks are even out over them.
_CONTEXTS: Final = 64


def _counted(room: ServerRoom) -> Array:
    """Return the requests that anything but memory for tokens allows, axes (draft_len,)."""

    def least(side: ServedRoom) -> Array:
        others = [limit for name, limit in side.room.limits.items() if name != "cache"]
        return np.asarray(np.floor(side.need.ranks * np.minimum.reduce(others)))

    return np.asarray(room.by_drafts(least)[0])


def played_server(
    deployment: Deployment,
    drafter: Drafter,
    load: Load,
    room: RoomRule,
    max_draft_len: int,
    *,
    raises: bool = True,
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
    raises
        Whether default limits of running requests are raised.

    Raises
    ------
    SpecroofError
        As `specroof.serving.served.served_curve` does, and for loads out of bounds.

    Ignores
        of windows and states what a request holds more or less of than the line through its least
        and most context says; and, on servers whose rules only count requests, all but the mean
        length; and that acceptance may depend on the context: it is that of the mean token.
    """
    loads = [*load.played()]
    clients = [float(one.concurrency or _FULL) for one in loads]
    in_flight = max(min(most, len(one.arrival_s)) for most, one in zip(clients, loads, strict=True))
    prompts = np.concatenate([one.input_len for one in loads])
    shortest, longest = float(prompts.min()), max(one.longest for one in loads)
    answer_len = np.mean([one.output_len.mean() for one in loads])
    contexts_len = [
        np.average(one.input_len + one.output_len / 2, weights=one.output_len) for one in loads
    ]
    waits: RoomRule = "queue" if room == "drop" else room
    steady = replace(load.steady, batch_size=[max(clients)])
    busy = served_curve(
        deployment, drafter, steady, waits, max_draft_len=max_draft_len, raises=raises
    )
    # A limit that is raised for the largest load holds for all: one server plays them.
    plain, drafts = busy.told[0] if busy.told else (None, None)
    undrafted, drafted = (with_running(deployment, limit) for limit in (plain, drafts))
    capacity = np.full(max_draft_len + 1, math.inf)
    if busy.room is not None:
        capacity = busy.room.largest[0]
    running = most = max(float(capacity.max()), 1.0)
    memory: list[Memory | None] = [None] * len(capacity)
    facts = deployment.setup.release
    reserves = facts.reserves
    if busy.room is not None and reserves is not None:
        contexts = np.linspace(shortest, longest, _CONTEXTS)
        near = server_room(drafted, drafter, contexts, busy.decoding.verify_len)
        if plain != drafts:
            plain_room = served_room(undrafted, context_len=contexts[:, None])
            near = replace(near, plain=plain_room)
        # What a request holds of the memory for tokens, axes (context_len, draft_len).
        shares = near.by_drafts(
            lambda side: 1 / np.maximum(side.need.ranks * side.room.limits["cache"], 1e-9)
        )
        middle = contexts.mean()
        token = (contexts - middle) @ shares / np.sum((contexts - middle) ** 2)
        request = shares.mean(axis=0) - token * middle
        pairs = zip(request.tolist(), token.tolist(), strict=True)
        clip_len = float(facts.reserved_tokens or math.inf)
        memory = [Memory(*held, reserves, clip_len, facts.reserves_shares) for held in pairs]
        capacity = np.where(capacity >= 1, _counted(busy.room), 0.0)
        with np.errstate(divide="ignore"):  # models of states alone take no share of tokens
            fit = np.minimum(capacity, 1 / (request + token * shortest))
        most = max(running, float(np.nan_to_num(fit).max()))
    rules = prefill_rules(undrafted), prefill_rules(drafted, drafter.kind)
    priced = partial(
        pass_prices,
        running=min(in_flight, running),
        most=min(in_flight, most),
        input_len=(shortest, float(prompts.max())),
        longest=longest,
    )
    accepted = accepted_at(acceptance_of(drafter), float(np.mean(contexts_len)))
    drafting = priced(drafted, rules[1], drafting=(drafter, accepted, max_draft_len))
    # "plain": plain steps overlap with the host's work, rounds do not.
    overlap = deployment.setup.engine.overlap is not False
    gain, low, high = busy.curve.speedup, busy.curve.speedup_low, busy.curve.speedup_high
    return PlayedServer(
        drafter=drafter.name,
        prices=[*priced(undrafted, rules[0]), *drafting[1:]],
        rules=rules,
        overlaps=(overlap, overlap and not waits_for_host(deployment.setup, drafter)),
        capacity=capacity,
        memory=memory,
        stable_rate=busy.curve.tokens_per_s[0, 0] / answer_len,
        stable_gain=np.array([(gain if one is None else one)[0, 0] for one in (gain, low, high)]),
        measured_draft_len=busy.curve.measured_draft_len,
        is_raised=any((plain, drafts)),
    )


def lasting_rates(load: Load, plain: Mapping[str, Array]) -> Array:
    """Return the requests per second that a server has to keep up with; 0 of clients and jobs.

    Parameters
    ----------
    load
        How requests come.
    plain
        What clients see without drafts, by load. Requests of a trace have until the last of them
        comes, and as long as one takes that has not waited: in a burst that is shorter than an
        answer none pile up.
    """
    if load.kind == "trace" and load.arrival_rates:
        arrival_s = load.trace.arrival_s  # type: ignore[union-attr]  # of its kind
        takes_s = plain["mean_latency_s"] - plain["mean_queue_s"]
        return np.asarray(len(arrival_s) / (arrival_s[-1] + takes_s))
    return np.array(load.arrival_rates or [0.0] * len(load.requests))


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
        `play`, with rounds that commit as many tokens as dice say: requests of one length get out
        of step, and wait less for the prompts of others.

    Examples
    --------
    >>> from specroof import load_drafter, load_hardware, load_model
    >>> from specroof.latency.setup import engine_setup
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
    shape = len(load.requests), len(drafts)
    figures = {name: np.full(shape, np.nan) for name in FIGURES}
    running, most_running = np.full((*shape, PARTS), np.nan), np.full(shape, np.nan)
    done, in_all = 0, len(lengths) * sum(load.requests)
    PROGRESS.get()(done, in_all)
    for place, requests in enumerate(load.played()):
        for n in lengths:
            seen = server.play(requests, n)
            running[place, n], most_running[place, n] = seen.running_over_time(), seen.running.max()
            for name, value in seen.figures(*targets).items():
                figures[name][place, n] = value
            done += len(requests.arrival_s)
            PROGRESS.get()(done, in_all)
    return PlayedLoads(
        load=load,
        draft_len=drafts,
        figures=figures,
        running=running,
        most_running=most_running,
        has_targets=min(targets) < math.inf,
        **fields_of(server, "drafter", "stable_rate", "stable_gain", "measured_draft_len"),
    )
