"""Requests instead of steps: the passes of prompts, and what is left of a speedup beside them."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from specroof.arrays import Array
from specroof.cost import ForwardPass
from specroof.errors import refuse
from specroof.hardware import EngineProfile
from specroof.latency import Deployment, Work, model_latency
from specroof.serving.capacity import PrefillRules, prefill_rules
from specroof.serving.closed_loop import (
    answer_rounds,
    prompts_together,
    shared_passes,
)
from specroof.serving.end_to_end import EndToEnd
from specroof.serving.workload import Workload, prefill_pass, time_to_first_token_s
from specroof.speedup.curve import PassSeconds, engine_pass_s
from specroof.speedup.result import SpeedupCurve


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
    new_len: npt.ArrayLike, count: npt.ArrayLike, chunk: float
) -> tuple[Array, Array]:
    """Return the prompts that share a pass, and the passes that each group of them takes.

    Short prompts share a pass; long ones take several passes each.

    Parameters
    ----------
    new_len
        Tokens of each prompt.
    count
        Prompts that wait.
    chunk
        Tokens of a pass; 0 takes all prompts in one.

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
    """
    new = np.asarray(new_len, dtype=np.float64)
    waiting = np.asarray(count, dtype=np.float64)
    if not chunk:
        return waiting, np.ones_like(new)
    return np.minimum(waiting, np.maximum(chunk / new, 1.0)), np.ceil(new / chunk)


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
    """

    new_len: npt.ArrayLike
    output_len: npt.ArrayLike
    running: Array
    context_len: npt.ArrayLike
    verify_len: npt.ArrayLike
    tokens_per_round: Array
    cached_len: npt.ArrayLike = 0.0

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
        From its start to its first token, its own `latency_s` not counted.
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
        a drafter's own passes over prompts: a layer or a few, beside those of the model.
    """
    return _shared_timing(load, rules) if rules.shares_passes else _stopped_timing(load, rules)


def _stopped_timing(load: RequestLoad, rules: PrefillRules) -> RequestTiming:
    """Return the seconds of requests whose prompts stop the batch."""
    # Prompts that start together: the mean group, and the mean that a prompt is part of.
    mean, own = prompts_together(load.running, load.rounds)
    mean_together, pieces = prompt_groups(load.new_len, mean, rules.chunk)
    own_together, _ = prompt_groups(load.new_len, own, rules.chunk)
    mean_pass = piece_pass(load.new_len, load.cached_len, pieces, mean_together)
    own_pass = piece_pass(load.new_len, load.cached_len, pieces, own_together)

    def times(
        served: Deployment, seconds: PassSeconds, round_s: Array, engine: EngineProfile
    ) -> RequestTimes:
        mean_s, own_s = seconds(served, mean_pass), seconds(served, own_pass)
        request_s = engine.request_overhead_s
        # Groups pass one after another: n of them are through after (n + 1) / 2 on average.
        through_s = pieces * own_s * (own / own_together + 1) / 2
        return RequestTimes(
            token_s=np.asarray(load.rounds * round_s / np.asarray(load.output_len)),
            wait_s=time_to_first_token_s(
                np.asarray(pieces * mean_s / mean_together),
                batch_size=1.0,
                request_overhead_s=request_s,
            ),
            first_s=time_to_first_token_s(
                np.asarray(through_s), batch_size=own, request_overhead_s=request_s
            ),
        )

    return times


def _shared_timing(load: RequestLoad, rules: PrefillRules) -> RequestTiming:
    """Return the seconds of requests whose prompts share passes with decoding: a steady state."""
    positions = load.verify_len if rules.drafts_beside else 1.0
    state = shared_passes(
        load.running,
        load.rounds,
        new_len=load.new_len,
        budget=rules.chunk,
        positions=positions,
        slowed=1.0 if rules.drafts_beside else load.tokens_per_round,
    )
    # In a pass without prompts all decode; what is left of the mean decode in those with one.
    mixed = state.mixed_frac
    decoding = state.started * state.decoded
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
        # What a round takes besides its pass: drafting, and what the engine adds.
        extra_s = round_s - decode_s
        shared_s = extra_s if rules.drafts_beside else 0.0 * extra_s
        mean_s = mixed * (mixed_s + shared_s) + (1 - mixed) * round_s
        wait_s = np.full_like(mean_s, engine.request_overhead_s)
        return RequestTimes(
            token_s=np.asarray(state.passes * mean_s / np.asarray(load.output_len)),
            wait_s=wait_s,
            first_s=np.asarray(state.waited * (own_s + shared_s) + wait_s),
        )

    return times


# --- A curve with its prefills counted ----------------------------------------------------------


def request_s(deployment: Deployment, workload: Workload) -> float:
    """Return the seconds from the start of a prompt that is prefilled alone to its first token.

    One pass over what of the prompt is not cached, and what the engine loses with each request.
    Not the engine's `request_latency_s`, which others do not feel.

    Parameters
    ----------
    deployment
        What is served, and where.
    workload
        The requests.

    Ignores
        chunks, and decoding that shares a pass with the prompt.
    Source
        See `specroof.cost.forward_cost`.
    """
    alone = prefill_pass(workload.new_len, context_len=workload.cached_len)
    return time_to_first_token_s(
        float(model_latency(deployment.model, deployment.setup, alone).total_s),
        batch_size=1.0,
        request_overhead_s=deployment.setup.engine.request_overhead_s,
    )


def end_to_end_tokens_per_s(
    batch_size: npt.ArrayLike,
    token_s: npt.ArrayLike,
    *,
    wait_s: npt.ArrayLike,
    output_len: npt.ArrayLike,
    latency_s: float = 0.0,
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
    answer_s = tokens * np.asarray(token_s) + batch * np.asarray(wait_s) + latency_s
    return np.asarray(batch * tokens / answer_s)


def end_to_end(curve: SpeedupCurve, deployment: Deployment, workload: Workload) -> EndToEnd:
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
    load = _load(curve, workload)
    kind = curve.drafter.partition(",")[0]
    plain, rules = (prefill_rules(deployment, drafting) for drafting in (None, kind))
    times = _times(curve, deployment, load, (plain, rules))
    batch, output_len = curve.running_batch, workload.output_len
    lost_s = setup.engine.request_latency_s
    rate = end_to_end_tokens_per_s(
        batch, times.token_s, wait_s=times.wait_s, output_len=output_len, latency_s=lost_s
    )
    decoded = load.rounds * curve.round_s
    service_s = batch * output_len / rate
    return EndToEnd(
        workload=workload,
        wait_s=request_s(deployment, workload),
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


def _load(curve: SpeedupCurve, workload: Workload) -> RequestLoad:
    """Return the requests of a curve, one alone where nothing runs."""
    shape = curve.round_s.shape
    return RequestLoad(
        new_len=workload.new_len,
        cached_len=workload.cached_len,
        output_len=workload.output_len,
        running=np.nan_to_num(np.broadcast_to(curve.running_batch, shape), nan=1.0),
        context_len=curve.context_len[:, None, None],
        verify_len=np.asarray(curve.verify_len, dtype=np.float64),
        tokens_per_round=np.nan_to_num(curve.tokens_per_round, nan=1.0),
    )


def _times(
    curve: SpeedupCurve,
    served: Deployment,
    load: RequestLoad,
    rules: tuple[PrefillRules, PrefillRules],
) -> RequestTimes:
    """Return the seconds of requests under the rules of plain decoding, and of drafting."""
    times, *others = (
        request_timing(load, rule)(served, engine_pass_s, curve.round_s, served.setup.engine)
        for rule in dict.fromkeys(rules)
    )
    if not others:
        return times
    (other,), drafts = others, curve.draft_len > 0
    return RequestTimes(
        token_s=np.where(drafts, other.token_s, times.token_s),
        wait_s=np.where(drafts, other.wait_s, times.wait_s),
        first_s=np.where(drafts, other.first_s, times.first_s),
    )
