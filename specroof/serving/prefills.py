"""Requests instead of steps: the passes of prompts, and what is left of a speedup beside them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from specroof.arrays import Array, BoolArray, broadcast
from specroof.cost import ForwardPass
from specroof.drafters import Drafter
from specroof.errors import refuse
from specroof.hardware.engine import EngineProfile
from specroof.latency.model import Work
from specroof.latency.setup import Deployment
from specroof.serving.blocks import input_slots
from specroof.serving.capacity import PrefillRules, prefill_rules
from specroof.serving.end_to_end import EndToEnd
from specroof.serving.workload import Workload, prefill_pass
from specroof.speedup.curve import PassSeconds, engine_pass_s, pass_latency, prompt_read_s
from specroof.speedup.result import SpeedupCurve

# --- Clients that always wait for an answer: how many start, decode and prefill at a time ---------

#: Halvings of an interval: twelve digits.
_HALVINGS: Final = 40
#: Prompts that fill their passes but for rounding take no further one.
_ROUNDING: Final = 1e-9


def largest_that(fits: Callable[[Array], BoolArray], most: Array) -> Array:
    """Return the largest numbers up to some that fit, where smaller ones do too; 0 if none.

    Examples
    --------
    >>> largest_that(lambda number: number**2 < 2, np.array([8.0])).round(9)
    array([1.41421356])
    """
    low, high = np.zeros(most.shape), most
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        room = fits(middle)
        low, high = np.where(room, middle, low), np.where(room, high, middle)
    return low


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
        that rounds of many tokens are likelier to be the last: answers take
        :math:`\sigma^2 / 2 N^2` rounds more, with σ the deviation of the tokens of a round. Over
        the bundled profiles that is 0.22 on average (0.4% of 256 tokens with 4 a round) and 0.95 at
        most (look-ups).
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
    return np.asarray(np.where(later > 0, rounds, 0.0))


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
    gathered
        Of `waited` those in which it only waits for prompts of other groups.
    """

    started: Array
    waited: Array
    decoded: Array
    mixed_frac: Array
    pieces: Array
    prompts: Array
    own_prompts: Array
    gathered: Array | float = 0.0

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
    less those of the :math:`x Z` that decode; a prompt fills :math:`s` of what the other requests
    leave, and finds prompts before it:

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
    most = arrays[0]
    low = largest_that(lambda start: start * _passes_at(start, arrays).passes < most, most)
    state = _passes_at(low, arrays)
    # Where passes are full, other requests wait.
    return replace(state, waited=np.asarray(most / low - state.decoded))


def _together(
    groups: Array, running: Array, rounds: Array, gathering: float, **of_one: Any
) -> SharedPasses:
    """Return the passes of groups of devices that share them, each in a state like the others'.

    A pass has a prompt where any group has one. Where the first waits for one in every group, up to
    `gathering` passes, as many have come after 1 / p, with p the chance of a new one in a group.
    """
    one = shared_passes(running, rounds, **of_one)
    mixed = np.where(groups > 1, _any_of(np.minimum(one.mixed_frac, 1.0), groups), one.mixed_frac)
    each = one.mixed_frac * one.prompts
    others = np.asarray((groups - 1) * each)
    if gathering:
        begins = np.minimum(one.mixed_frac / one.pieces, 1.0)
        first = 1 / _any_of(begins, groups)
        with np.errstate(divide="ignore"):  # the lesser of both, on average about
            gap = (running > 1) / np.hypot(1 / (1 / begins - first), 1 / gathering)
        # Half of it is waited on average; in vain the last one comes before its end.
        in_vain = (gap / gathering) ** 2
        together = np.maximum(groups * one.started * (first + gap), 1.0)
        idle = gap / 2 * (1 + in_vain / together)
        waited = one.waited + idle
        started = running / (waited + one.decoded)
        mixed = np.minimum(one.pieces / (first + gap), mixed)
        each = each * started / one.started
        others = (groups - 1) * each / mixed
        one = replace(one, waited=waited, started=started, gathered=idle)
    return replace(
        one,
        started=groups * one.started,
        mixed_frac=mixed,
        prompts=groups * each / mixed,
        own_prompts=one.own_prompts + others,
    )


def _passes_at(started: Array, arrays: Sequence[Array]) -> SharedPasses:
    """Return the passes of a request where so many start in one; arrays as of `shared_passes`."""
    running, rounds, new_len, budget, positions, slowed = arrays
    others = (running - 1) / running
    # Of those that decode, the ones that the last pass left: slowed requests are more.
    decoding = positions * started * rounds
    left = np.maximum(budget - decoding, 1.0)
    # A prompt shares its passes with the decoding of others, not with its own, which comes later.
    filled = new_len / np.maximum(budget - others * decoding, 1.0)
    pieces = np.ceil(filled - _ROUNDING)
    used = others * started * filled
    with np.errstate(divide="ignore", invalid="ignore"):
        queued = np.where(started * new_len < left, filled / 2 * used / (1 - used), np.inf)
    # Short prompts that start together share a pass. The last chunk of a long prompt is filled up
    # only if another prompt is already queued.
    short = np.maximum(_any_of(started / running, running), started * filled)
    long = started * (filled + (pieces - filled) * (1 - used))
    mixed = np.minimum(np.where(filled < 1, short, long), 1.0)
    decoded = rounds * slowed / (slowed + mixed * (1 - slowed))
    # A pass that others wait for is full. Of a long prompt only the last piece leaves room; short
    # ones share the pass with all that start in it.
    most = np.maximum(left / (new_len / pieces), 1.0)
    beside = np.where(filled < 1, others * started, used * (most - 1))
    rest = np.maximum(most - 1 - beside, 0.0)
    return SharedPasses(
        started=started,
        waited=pieces + queued,
        decoded=decoded,
        mixed_frac=mixed,
        pieces=pieces,
        prompts=np.minimum(started * pieces / mixed, most),
        own_prompts=most - rest * pieces / (pieces + queued),
    )


# --- The passes of prompts -----------------------------------------------------------------------


def piece_pass(
    new_len: npt.ArrayLike,
    cached_len: npt.ArrayLike,
    pieces: npt.ArrayLike,
    prompts: npt.ArrayLike,
) -> ForwardPass:
    """Return the mean pass over prompts that are cut into equal pieces.

    Parameters
    ----------
    new_len, cached_len
        Tokens of a prompt that are computed, and those before them that are cached.
    pieces
        Passes that a prompt is spread over.
    prompts
        Prompts of which the pass takes a piece.

    Ignores
        that a prompt is cut into full chunks and a rest: their tokens, and the tokens that they
        attend to, add up to those of equal pieces.
    """
    new = np.asarray(new_len, dtype=np.float64)
    length = np.maximum(new / np.asarray(pieces), 1.0)
    before = np.asarray(cached_len) + (new - length) / 2
    return prefill_pass(length, batch_size=prompts, context_len=before)


def prompt_groups(
    new_len: npt.ArrayLike, count: npt.ArrayLike, chunk: float, groups: int = 1
) -> tuple[Array, Array]:
    """Return the prompts that share a pass, and the passes that each group of them takes.

    Short prompts share a pass; long ones take several passes each, beside those that other groups
    of devices take.

    Parameters
    ----------
    new_len
        Tokens of each prompt.
    count
        Prompts that wait.
    chunk
        Tokens of a pass, in each group of devices; 0 takes all prompts in one.
    groups
        Groups of devices that have prompts of their own.

    Ignores
        that a pass may take the end of one long prompt and the beginning of the next.
    Source
        SGLang 0.5.23 ``managers/schedule_policy.py``, ``PrefillAdder``: prompts are added until the
        tokens of a chunk are used up.

    Examples
    --------
    >>> [float(number) for number in prompt_groups(1024, 4, 2048)]  # two by two
    [2.0, 1.0]
    >>> [float(number) for number in prompt_groups(5000, 4, 2048)]  # one by one, each in three
    [1.0, 3.0]
    >>> [float(number) for number in prompt_groups(5000, 4, 2048, groups=2)]
    [2.0, 3.0]
    """
    new = np.asarray(new_len, dtype=np.float64)
    waiting = np.asarray(count, dtype=np.float64)
    if not chunk:
        return waiting, np.ones_like(new)
    return np.minimum(waiting, groups * np.maximum(chunk / new, 1.0)), np.ceil(new / chunk)


# --- What prompts do to decoding: they stop the batch, or share its passes; seconds of both ------

#: Smallest batch of a decoding pass, so that one with no decoding request still has a cost.
_SMALLEST_BATCH: Final = 0.01


@dataclass(frozen=True, slots=True, eq=False)
class RequestLoad:
    """Requests that a server runs, in arrays that broadcast.

    Parameters
    ----------
    new_len, cached_len
        Tokens of a prompt that are computed, and those before them in a cache of prefixes.
    output_len
        Tokens of an answer.
    running
        Requests that run at a time: one that ends makes room for the next.
    context_len
        Cached tokens of each while it is decoded.
    verify_len, tokens_per_round
        Positions of a round, and the tokens that it commits; 1 and 1 of plain decoding.
    input_slots
        Tokens of a pass that a drafter's input takes for each, beside the positions of a round.
    """

    new_len: npt.ArrayLike
    output_len: npt.ArrayLike
    running: Array
    context_len: npt.ArrayLike
    verify_len: npt.ArrayLike
    tokens_per_round: Array
    cached_len: npt.ArrayLike = 0.0
    input_slots: Array | float = 0.0

    @property
    def rounds(self) -> Array:
        """Rounds of an answer."""
        return answer_rounds(self.output_len, self.tokens_per_round)


@dataclass(frozen=True, slots=True, eq=False)
class RequestTimes:
    """Seconds of a request that runs.

    Parameters
    ----------
    token_s
        Of its passes, over the tokens of its answer.
    wait_s
        That each request keeps all others waiting.
    first_s
        From its start to its first token, what it loses alone not counted.
    """

    token_s: Array
    wait_s: Array
    first_s: Array


#: Seconds of requests: of a deployment, given the seconds of any pass, those of a round in which
#: all requests decode, and the engine's profile.
RequestTiming: TypeAlias = Callable[[Deployment, PassSeconds, Array, EngineProfile], RequestTimes]


def request_timing(load: RequestLoad, rules: PrefillRules) -> RequestTiming:
    """Return the function that times requests; what no engine changes is worked out beforehand.

    Parameters
    ----------
    load
        The requests.
    rules
        How the server takes prompts: they stop the batch, or share its passes.

    Ignores
        that a drafter reads the prompts, too: see `end_to_end`.
    """
    return _shared_timing(load, rules) if rules.shares_passes else _stopped_timing(load, rules)


def _leaving_s(served: Deployment, prompts: ForwardPass) -> Array | float:
    """Return how long prompts are in a pipeline once the next pass, or their next chunk, is, too.

    What decodes beside them has read the same weights, and counts as nothing.
    """
    if served.setup.passes_in_flight == 1:
        return 0.0
    return pass_latency(served, prompts).filling_s


def _stopped_timing(load: RequestLoad, rules: PrefillRules) -> RequestTiming:
    """Return the seconds of requests whose prompts stop the batch."""
    # Prompts that start together: the mean group, and the mean that a prompt is part of.
    mean, own = prompts_together(load.running, load.rounds)
    mean_together, pieces = prompt_groups(load.new_len, mean, rules.chunk, rules.groups)
    own_together, _ = prompt_groups(load.new_len, own, rules.chunk, rules.groups)
    mean_pass = piece_pass(load.new_len, load.cached_len, pieces, mean_together)
    own_pass = piece_pass(load.new_len, load.cached_len, pieces, own_together)

    def times(
        served: Deployment, seconds: PassSeconds, round_s: Array, engine: EngineProfile
    ) -> RequestTimes:
        leaving_s = _leaving_s(served, own_pass)
        mean_s = seconds(served, mean_pass) - _leaving_s(served, mean_pass)
        own_s, request_s = seconds(served, own_pass) - leaving_s, engine.request_overhead_s
        # Groups pass one after another: n of them are through after (n + 1) / 2 on average.
        through_s = pieces * own_s * (own / own_together + 1) / 2
        return RequestTimes(
            token_s=np.asarray((load.rounds * round_s + leaving_s) / np.asarray(load.output_len)),
            wait_s=np.asarray(pieces * mean_s / mean_together + request_s),
            first_s=np.asarray(through_s + leaving_s + own * request_s),
        )

    return times


def _shared_timing(load: RequestLoad, rules: PrefillRules) -> RequestTiming:
    """Return the seconds of requests whose prompts share passes with decoding: a steady state.

    Of groups of devices each has its share of the requests, and all wait for the fullest pass.
    """
    positions = load.verify_len if rules.drafts_beside else 1.0
    groups = np.clip(load.running, 1.0, rules.groups)
    state = _together(
        groups,
        load.running / groups,
        load.rounds,
        rules.gathering_passes,
        new_len=load.new_len,
        budget=rules.chunk,
        positions=np.asarray(positions) + (load.input_slots if rules.drafts_beside else 0.0),
        slowed=1.0 if rules.drafts_beside else load.tokens_per_round,
    )
    # In a pass without prompts all decode that do not wait for other groups'; what is left of the
    # mean decode in those with one.
    mixed = state.mixed_frac
    decoding = state.started * (state.decoded + state.gathered)
    others = np.clip((decoding - (1 - mixed) * load.running) / mixed, _SMALLEST_BATCH, load.running)
    decode_pass = ForwardPass(load.running, load.verify_len, load.context_len)
    beside = ForwardPass(others, positions, load.context_len)
    mean_chunk = piece_pass(load.new_len, load.cached_len, state.pieces, state.prompts)
    own_chunk = piece_pass(load.new_len, load.cached_len, state.pieces, state.own_prompts)

    def times(
        served: Deployment, seconds: PassSeconds, round_s: Array, engine: EngineProfile
    ) -> RequestTimes:
        decode_s = seconds(served, decode_pass)
        mixed_s = seconds(served, beside, Work(served.model, mean_chunk, kind="prompts"))
        own_s = seconds(served, beside, Work(served.model, own_chunk, kind="prompts"))
        leaving_s = _leaving_s(served, own_chunk)
        # What a round takes besides its pass: drafting, and what the engine adds.
        extra_s = round_s - decode_s
        shared_s = extra_s if rules.drafts_beside else np.zeros_like(extra_s)
        mean_s = mixed * (mixed_s + shared_s) + (1 - mixed) * round_s
        wait_s = np.full_like(mean_s, engine.request_overhead_s)
        return RequestTimes(
            token_s=np.asarray((state.passes * mean_s + leaving_s) / np.asarray(load.output_len)),
            wait_s=wait_s,
            first_s=np.asarray(
                (state.waited - state.gathered) * (own_s + shared_s)
                + state.gathered * round_s
                + leaving_s
                + wait_s
            ),
        )

    return times


# --- A curve with its prefills counted ----------------------------------------------------------


def request_s(deployment: Deployment, prompts: ForwardPass, chunk: float, groups: int = 1) -> Array:
    """Return the seconds from the start of prompts that are prefilled alone to their first token.

    The passes over what of them is not cached, and what the engine loses with each request. Not
    what it loses alone, which others do not feel: see `EngineProfile.lost_s`.

    Parameters
    ----------
    deployment
        What is served, and where.
    prompts
        The pass over all of their tokens.
    chunk, groups
        Tokens of a pass in each group of devices, 0 for all; and the groups. Prompts that do not
        share a pass follow one another.

    Ignores
        decoding that shares a pass with the prompts.
    Source
        See `prompt_groups` and `piece_pass`.
    """
    together, pieces = prompt_groups(prompts.query_len, prompts.batch_size, chunk, groups)
    piece = piece_pass(prompts.query_len, prompts.context_len, pieces, together)
    count = np.asarray(prompts.batch_size, dtype=np.float64)
    leaving_s, passes = _leaving_s(deployment, piece), pieces * (count / together)
    pass_s = passes * (engine_pass_s(deployment, piece) - leaving_s) + leaving_s
    return np.asarray(pass_s + count * deployment.setup.engine.request_overhead_s)


def read_once_s(
    deployment: Deployment,
    drafter: Drafter,
    prompt: ForwardPass,
    rules: PrefillRules,
    seconds: PassSeconds = engine_pass_s,
) -> tuple[Array, Array]:
    """Return the seconds in which a drafter reads one prompt, for others and for the request.

    Where prompts share passes with rounds, so does what the drafter does first: its weights are
    read for these anyway.

    Parameters
    ----------
    deployment, drafter
        As of `specroof.speedup.curve.prompt_read_s`.
    prompt
        As of `request_s`.
    rules
        How the server takes prompts.
    seconds
        Of each pass that the drafter asks for.
    """
    _, pieces = prompt_groups(prompt.query_len, 1.0, rules.chunk)
    piece = piece_pass(prompt.query_len, prompt.context_len, pieces, 1.0)
    own_s = np.asarray(pieces * prompt_read_s(deployment, drafter, piece, seconds))
    if not (rules.shares_passes and rules.drafts_beside):
        return own_s, own_s
    least_s = prompt_read_s(deployment, drafter, prefill_pass(1.0), seconds)
    return np.asarray(np.maximum(own_s - pieces * least_s, 0.0)), own_s


def end_to_end_tokens_per_s(
    batch_size: npt.ArrayLike,
    token_s: npt.ArrayLike,
    *,
    wait_s: npt.ArrayLike,
    output_len: npt.ArrayLike,
    latency_s: npt.ArrayLike = 0.0,
) -> Array:
    r"""Return output tokens per second of the whole batch, prefill included.

    .. math:: \frac{B L}{L t + B w + l}

    Parameters
    ----------
    batch_size
        Requests in flight, B.
    token_s
        Seconds that each of them is in passes, per token of its answer, t.
    wait_s
        Seconds that each request keeps the batch waiting, w.
    output_len
        Tokens of the answer, L.
    latency_s
        Seconds that each request loses alone, l.

    Source
        Counting: while one request is answered, B of them are, and each is prefilled once.

    Examples
    --------
    >>> float(end_to_end_tokens_per_s(2, 0.01, wait_s=0.5, output_len=100))  # 200 / (1 + 1)
    100.0
    """
    batch, tokens = np.asarray(batch_size, dtype=np.float64), np.asarray(output_len)
    answer_s = tokens * np.asarray(token_s) + batch * np.asarray(wait_s) + np.asarray(latency_s)
    return np.asarray(batch * tokens / answer_s)


def end_to_end(
    curve: SpeedupCurve, deployment: Deployment, workload: Workload, drafter: Drafter
) -> EndToEnd:
    r"""Return a curve's throughput and speedup with prefills counted.

    Prompts stop the batch or share passes with decoding as the server of the setup has it, in a
    closed loop: each client with an answer asks again.

    Parameters
    ----------
    curve
        Of decoding alone, at the mean context of the workload.
    deployment
        What the curve is of.
    workload
        Input and output lengths, and what of a prompt is cached.
    drafter
        Whose curve it is: it reads each prompt behind the target.

    Raises
    ------
    OptionError
        For cached prompts on a server that was told to keep none.

    Source
        See `end_to_end_tokens_per_s` and `request_timing`.
    """
    setup = deployment.setup
    if workload.prefix_hit_rate and setup.user_settings.prefix_cache is False:
        refuse("prefix_hit_rate", workload.prefix_hit_rate, "0 with prefix-cache=off")
    batch, output_len = curve.running_batch, workload.output_len
    kind = curve.drafter.partition(",")[0]
    load = RequestLoad(
        new_len=workload.new_len,
        cached_len=workload.cached_len,
        output_len=output_len,
        running=np.nan_to_num(np.broadcast_to(batch, curve.round_s.shape), nan=1.0),
        context_len=curve.context_len[:, None, None],
        verify_len=np.asarray(curve.verify_len, dtype=np.float64),
        tokens_per_round=np.nan_to_num(curve.tokens_per_round, nan=1.0),
        input_slots=input_slots(setup.release, kind, curve.draft_len),
    )  # of one request where nothing runs
    plain, rules = (prefill_rules(deployment, drafting) for drafting in (None, kind))
    times, *drafting = (
        request_timing(load, rule)(deployment, engine_pass_s, curve.round_s, setup.engine)
        for rule in dict.fromkeys((plain, rules))
    )
    alone = prefill_pass(workload.new_len, context_len=workload.cached_len)
    others_s, own_s = read_once_s(deployment, drafter, alone, rules)
    for drafted in drafting or [times]:
        times = RequestTimes(
            # What others do not feel, the request itself does.
            token_s=np.where(
                curve.draft_len > 0,
                drafted.token_s + (own_s - others_s) / output_len,
                times.token_s,
            ),
            wait_s=np.where(curve.draft_len > 0, drafted.wait_s + others_s, times.wait_s),
            first_s=np.where(curve.draft_len > 0, drafted.first_s + own_s, times.first_s),
        )
    lost_s = float(setup.engine.lost_s(workload.input_len))
    rate = end_to_end_tokens_per_s(
        batch, times.token_s, wait_s=times.wait_s, output_len=output_len, latency_s=lost_s
    )
    decoded = load.rounds * curve.round_s
    service_s = batch * output_len / rate
    return EndToEnd(
        workload=workload,
        wait_s=float(request_s(deployment, alone, rules.chunk, rules.groups)),
        latency_s=lost_s,
        curve=replace(
            curve,
            round_s=curve.tokens_per_round * batch / rate,
            request_lengths=workload.requests,
            request_token_s=np.asarray(service_s - decoded)[..., 0] / output_len,
        ),
        decoding_round_s=np.asarray(curve.tokens_per_round * decoded / output_len),
        delay_s=np.asarray((service_s - decoded - lost_s) / batch),
        first_s=np.asarray(np.where(np.isfinite(rate), times.first_s + lost_s, np.nan)),
        rules=rules,
    )
