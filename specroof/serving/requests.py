"""Requests instead of steps: input and output length and concurrency, prefill included."""

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from specroof.arrays import Array
from specroof.errors import refuse
from specroof.latency import Deployment, model_latency
from specroof.serving.capacity import PrefillRules, prefill_rules
from specroof.serving.end_to_end import EndToEnd
from specroof.serving.prefills import (
    RequestLoad,
    RequestTimes,
    request_timing,
)
from specroof.serving.workload import Workload, prefill_pass, time_to_first_token_s
from specroof.speedup.result import SpeedupCurve
from specroof.speedup.round import EnginePasses


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
    closed loop: each client with an answer asks again, or all do together where they come in waves.

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
        See `end_to_end_tokens_per_s` and `specroof.serving.prefills.request_timing`.
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
        idle_s=times.idle_s,
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
        waves=workload.waves,
    )


def _times(
    curve: SpeedupCurve,
    served: Deployment,
    load: RequestLoad,
    rules: tuple[PrefillRules, PrefillRules],
) -> RequestTimes:
    """Return the seconds of requests under the rules of plain decoding, and of drafting."""
    times, *others = (
        request_timing(load, rule)(served, EnginePasses(), curve.round_s, served.setup.engine)
        for rule in dict.fromkeys(rules)
    )
    if not others:
        return times
    (other,), drafts = others, curve.draft_len > 0
    return RequestTimes(
        token_s=np.where(drafts, other.token_s, times.token_s),
        wait_s=np.where(drafts, other.wait_s, times.wait_s),
        first_s=np.where(drafts, other.first_s, times.first_s),
        idle_s=np.where(drafts, other.idle_s, times.idle_s),
    )
