"""Requests instead of steps: input and output length and concurrency, prefill included."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from specroof.architecture import Architecture
from specroof.arrays import Array
from specroof.errors import refuse
from specroof.latency import Setup, model_latency
from specroof.serving.capacity import prefill_rules
from specroof.serving.prompts import Prompt, prefill_pass, time_to_first_token_s
from specroof.serving.queue import queue_s
from specroof.serving.request_times import PrefillRules, RequestLoad, RequestTimes, prefill_plan
from specroof.serving.workload import Workload
from specroof.speedup.curve import SpeedupCurve
from specroof.speedup.round import EnginePasses
from specroof.speedup.served import Served

__all__ = ["EndToEnd", "Load", "Workload", "end_to_end", "end_to_end_tokens_per_s", "request_s"]


def request_s(model: Architecture, setup: Setup, workload: Workload) -> float:
    """Return the seconds from the start of a prompt that is prefilled alone to its first token.

    One pass over what of the prompt is not cached, and what the engine loses with each request.
    Not the engine's `request_latency_s`, which others do not feel.

    Parameters
    ----------
    model, setup
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
        float(model_latency(model, setup, alone).total_s),
        batch_size=1.0,
        request_overhead_s=setup.engine.request_overhead_s,
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


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class EndToEnd:
    """What of a speedup is left where prefills are counted; axes as in the curve.

    Parameters
    ----------
    workload
        The requests.
    wait_s, latency_s
        Seconds from the start of a prompt that is prefilled alone to its first token, and those
        that each request loses alone.
    curve
        The same operating points with requests in their rounds: each round is longer by what these
        add to its tokens. Its speedup is over plain decoding with the same prefills.
    delay_s
        Seconds by which each request delays all that run, wherever its prompt is computed.
    first_s
        Seconds from a request's start to its first token, waiting for room not counted.
    rules
        How the server takes prompts where requests draft.
    idle_s
        Seconds from a request's last token to the end of its wave; 0 out of step.
    """

    workload: Workload
    wait_s: float
    latency_s: float
    curve: SpeedupCurve
    delay_s: Array
    first_s: Array
    rules: PrefillRules
    idle_s: Array | float = 0.0

    def __repr__(self) -> str:
        """Return one line: arrays are looked at by name."""
        return f"<EndToEnd: {self.workload.requests}; {self.curve!r}>"

    @property
    def tokens_per_s(self) -> Array:
        """Output tokens per second of the whole batch, prefill included."""
        return self.curve.tokens_per_s

    @property
    def requests_per_s(self) -> Array:
        """Requests that end in a second."""
        return np.asarray(self.curve.tokens_per_s / self.workload.output_len)

    @property
    def service_s(self) -> Array:
        """Seconds of a request that runs, from its start to its last token."""
        return np.asarray(self.workload.output_len / self.curve.tokens_per_s_per_user)

    @property
    def _queued_s(self) -> Array:
        """Seconds that a request waits for room; in waves, of the first and the last on average."""
        asked = self.curve.batch_size[None, :, None]
        waits_s = queue_s(asked, self.curve.running_batch, self.service_s)
        return waits_s / 2 if self.workload.waves else waits_s

    @property
    def answer_s(self) -> Array:
        """Seconds from sending a request to its last token, waiting for the others included.

        Source
            Little 1961, Oper. Res. 9(3): `specroof.serving.queue.queue_s`, unless in waves.
        """
        return np.asarray(self._queued_s + self.service_s - self.idle_s)

    @property
    def ttft_s(self) -> Array:
        """Seconds from sending a request to its first token, waiting for room included.

        Ignores
            the transfer of text, unless the engine's `request_latency_s` holds it.
        Source
            `specroof.serving.queue.queue_s`.
        """
        return np.asarray(self._queued_s + self.first_s)

    @property
    def tpot_s(self) -> Array:
        """Mean seconds of a token after the first; NaN for answers of one token.

        Source
            Counting: the first token and the others of these make an answer.
        """
        later = self.workload.output_len - 1
        decoding_s = self.service_s - self.first_s - self.idle_s
        return np.asarray(decoding_s / (later if later > 0 else np.nan))

    @property
    def prefill_frac(self) -> Array:
        """Share of the time that goes into prefills."""
        return np.asarray(self.curve.running_batch * self.delay_s / self.service_s)

    @property
    def effective_batch(self) -> Array:
        """Requests that are being decoded at a time, on average.

        The others wait for their prompt, or are on their way.

        Source
            Little 1961, Oper. Res. 9(3).
        """
        others_s = self.first_s + self.idle_s
        return np.asarray(self.curve.running_batch * (1 - others_s / self.service_s))

    @property
    def speedup(self) -> Array:
        """Speedup over plain decoding with the same prefills; [..., 0] is 1."""
        return self.curve.speedup


def end_to_end(
    curve: SpeedupCurve, model: Architecture, setup: Setup, workload: Workload
) -> EndToEnd:
    r"""Return a curve's throughput and speedup with prefills counted.

    Prompts stop the batch or share passes with decoding as the server of the setup has it, in a
    closed loop: each client with an answer asks again, or all do together where they come in waves.

    Parameters
    ----------
    curve
        Of decoding alone, at the mean context of the workload.
    model, setup
        What the curve is of.
    workload
        Input and output lengths, and what of a prompt is cached.

    Raises
    ------
    OptionError
        For cached prompts on a server that was told to keep none.

    Source
        See `end_to_end_tokens_per_s` and `specroof.serving.request_times.prefill_plan`.
    """
    told = setup.server
    if workload.prefix_hit_rate and told is not None and told.stated.prefix_cache is False:
        refuse("prefix_hit_rate", workload.prefix_hit_rate, "0 with prefix-cache=off")
    load = _load(curve, workload)
    kind = curve.drafter.partition(",")[0]
    plain, rules = (prefill_rules(model, setup, drafting) for drafting in (None, kind))
    times = _times(curve, Served(model, setup), load, (plain, rules))
    batch, output_len = curve.running_batch, workload.output_len
    lost_s = setup.engine.request_latency_s
    rate = end_to_end_tokens_per_s(
        batch, times.token_s, wait_s=times.wait_s, output_len=output_len, latency_s=lost_s
    )
    decoded = load.rounds * curve.round_s
    service_s = batch * output_len / rate
    return EndToEnd(
        workload=workload,
        wait_s=request_s(model, setup, workload),
        latency_s=lost_s,
        curve=replace(
            curve,
            round_s=curve.tokens_per_round * batch / rate,
            requests=workload.requests,
            request_token_s=np.asarray(service_s - decoded)[..., 0] / output_len,
        ),
        delay_s=np.asarray((service_s - decoded - lost_s) / batch),
        first_s=np.asarray(np.where(np.isfinite(rate), times.first_s + lost_s, np.nan)),
        rules=rules,
        idle_s=times.idle_s,
    )


def _load(curve: SpeedupCurve, workload: Workload) -> RequestLoad:
    """Return the requests of a curve, one alone where nothing runs."""
    shape = curve.round_s.shape
    return RequestLoad(
        prompt=Prompt(workload.new_len, workload.cached_len),
        output_len=workload.output_len,
        running=np.nan_to_num(np.broadcast_to(curve.running_batch, shape), nan=1.0),
        context_len=curve.context_len[:, None, None],
        verify_len=np.asarray(curve.verify_len, dtype=np.float64),
        tokens_per_round=np.nan_to_num(curve.tokens_per_round, nan=1.0),
        waves=workload.waves,
    )


def _times(
    curve: SpeedupCurve,
    served: Served,
    load: RequestLoad,
    rules: tuple[PrefillRules, PrefillRules],
) -> RequestTimes:
    """Return the seconds of requests under the rules of plain decoding, and of drafting."""
    times, *others = (
        prefill_plan(load, one)
        .priced(served, EnginePasses())
        .times(curve.round_s, served.setup.engine)
        for one in dict.fromkeys(rules)
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


@dataclass(frozen=True, slots=True)
class Load:
    """What a prediction is for.

    Parameters
    ----------
    batch_size, context_len
        The axes of the grid: sequences in flight, and cached tokens of each.
    workload
        Requests, where they are asked for in the place of a context.
    """

    batch_size: Sequence[float]
    context_len: Sequence[float]
    workload: Workload | None = None

    def counted(
        self, curves: Sequence[SpeedupCurve], model: Architecture, setup: Setup
    ) -> list[EndToEnd]:
        """Return the curves with prefills counted; none where no workload was asked for."""
        if self.workload is None:
            return []
        return [end_to_end(curve, model, setup, self.workload) for curve in curves]
