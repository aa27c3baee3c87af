"""Requests instead of steps: input and output length and concurrency, prefill included."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from specroof.architecture import Architecture
from specroof.arrays import Array, number_within
from specroof.cost import ForwardPass
from specroof.errors import OptionError
from specroof.latency import Setup, model_latency
from specroof.serving.queue import latency_s
from specroof.speedup.curve import SpeedupCurve
from specroof.units import plain_number

__all__ = [
    "EndToEnd",
    "Load",
    "Workload",
    "decode_tokens_per_s",
    "end_to_end",
    "end_to_end_tokens_per_s",
    "prefill_frac",
    "prefill_pass",
    "request_s",
    "request_token_s",
    "time_to_first_token_s",
]

_Seconds = TypeVar("_Seconds", float, Array)


@dataclass(frozen=True, slots=True)
class Workload:
    """Requests as benchmarks state them.

    Parameters
    ----------
    input_len, output_len
        Tokens of the prompt and of the answer.

    Raises
    ------
    OptionError
        For a length out of bounds.

    Examples
    --------
    >>> Workload(input_len=8192, output_len=1024).mean_context_len
    8704.0
    """

    input_len: float
    output_len: float

    def __post_init__(self) -> None:
        for name in ("input_len", "output_len"):
            length = number_within(name, getattr(self, name), "request_len")
            object.__setattr__(self, name, length)  # a fraction has become a float

    @property
    def mean_context_len(self) -> float:
        """Cached tokens while a request is decoded, on average: the prompt and half the answer."""
        return self.input_len + self.output_len / 2

    @property
    def requests(self) -> str:
        """What a request is, in words: "8192 tokens in, 1024 out"."""
        return f"{plain_number(self.input_len)} tokens in, {plain_number(self.output_len)} out"


def prefill_pass(
    input_len: npt.ArrayLike, *, batch_size: float = 1.0, context_len: float = 0.0
) -> ForwardPass:
    """Return the pass over prompts that comes before the first token.

    Unlike a verification it keeps recurrent state behind the last position only, since nothing of
    a prompt is taken back, and only that position goes through the head.

    Parameters
    ----------
    input_len
        Tokens of each prompt that are not cached yet.
    batch_size
        Prompts in the pass.
    context_len
        Tokens before them that are cached already, such as a shared prefix.

    Raises
    ------
    ValueError
        As `ForwardPass` does.

    Source
        The serving loop of SGLang and vLLM, without chunks.

    Examples
    --------
    >>> float(prefill_pass(8192, batch_size=4).head_tokens)  # the last position of each
    4.0
    """
    return ForwardPass(batch_size, input_len, context_len, head_len=1.0, settled=True)


def time_to_first_token_s(
    prefill_s: _Seconds, *, batch_size: float, request_overhead_s: float
) -> _Seconds:
    r"""Return the seconds from the start of a prefill to the first token of its prompts.

    .. math:: t + B \, t_{request}

    Parameters
    ----------
    prefill_s
        Seconds of the pass, t.
    batch_size
        Prompts in the pass, B.
    request_overhead_s
        Seconds that the engine takes for each request.

    Ignores
        queues, and the transfer of text: what a client measures is longer.
    Source
        Counting.

    Examples
    --------
    >>> time_to_first_token_s(0.5, batch_size=2, request_overhead_s=0.125)
    0.75
    """
    return prefill_s + batch_size * request_overhead_s


def request_s(model: Architecture, setup: Setup, input_len: float) -> float:
    """Return the seconds that one request keeps the whole batch waiting before it is decoded.

    One pass over the prompt, and what the engine loses with each request: the time to the first
    token of a request that is prefilled alone. Not the engine's `request_latency_s`, which others
    do not feel.

    Parameters
    ----------
    model, setup
        What is served, and where.
    input_len
        Tokens of the prompt.

    Ignores
        prefix caches, and prefills that share a pass with decoding: those hide part of it.
    Source
        See `specroof.cost.forward_cost`; the serving loop is that of SGLang and vLLM with a
        prefill of its own for each request.
    """
    return time_to_first_token_s(
        float(model_latency(model, setup, prefill_pass(input_len)).total_s),
        batch_size=1.0,
        request_overhead_s=setup.engine.request_overhead_s,
    )


def request_token_s(
    batch_size: npt.ArrayLike,
    *,
    wait_s: npt.ArrayLike,
    output_len: npt.ArrayLike,
    latency_s: float = 0.0,
) -> Array:
    r"""Return the seconds that requests add to each token of an answer.

    .. math:: \frac{B w + l}{L}

    Parameters
    ----------
    batch_size
        Requests in flight, B.
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
    >>> float(request_token_s(2, wait_s=0.5, output_len=100, latency_s=1))  # 2 s over 100 tokens
    0.02
    """
    waited_s = np.asarray(batch_size, dtype=np.float64) * np.asarray(wait_s)
    return np.asarray((waited_s + latency_s) / np.asarray(output_len))


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
        Seconds per decoded token of each of them, t: a plain step, or a round over its tokens.
    wait_s
        Seconds that each request keeps the batch waiting, w.
    output_len
        Tokens of the answer, L.
    latency_s
        Seconds that each request loses alone, l.

    Source
        See `request_token_s`.

    Examples
    --------
    >>> float(end_to_end_tokens_per_s(2, 0.01, wait_s=0.5, output_len=100))  # 200 / (1 + 1)
    100.0
    """
    batch = np.asarray(batch_size, dtype=np.float64)
    added_s = request_token_s(batch, wait_s=wait_s, output_len=output_len, latency_s=latency_s)
    return np.asarray(batch / (np.asarray(token_s) + added_s))


def decode_tokens_per_s(
    batch_size: npt.ArrayLike,
    tokens_per_s: npt.ArrayLike,
    *,
    wait_s: float,
    output_len: float,
    latency_s: float = 0.0,
) -> Array:
    r"""Return what of a throughput "including prefill" was decoding: the inverse of the above.

    .. math:: \frac{B}{B / x - (B w + l) / L}

    Raises
    ------
    OptionError
        If the requests alone take as long as the throughput x leaves.

    Source
        See `end_to_end_tokens_per_s`.

    Examples
    --------
    >>> float(decode_tokens_per_s(2, 100.0, wait_s=0.5, output_len=100))  # 2 / 0.01
    200.0
    """
    batch = np.asarray(batch_size, dtype=np.float64)
    added_s = request_token_s(batch, wait_s=wait_s, output_len=output_len, latency_s=latency_s)
    token_s = batch / np.asarray(tokens_per_s, dtype=np.float64) - added_s
    if np.any(token_s <= 0):
        most = np.asarray(batch / added_s).tolist()
        message = (
            f"tokens_per_s is {np.asarray(tokens_per_s).tolist()}: requests that take {wait_s:.3g} s "
            f"of the batch and {latency_s:.3g} s of their own leave no time to decode; allowed: "
            f"below {most}"
        )
        raise OptionError(message)
    return np.asarray(batch / token_s)


def prefill_frac(
    batch_size: npt.ArrayLike,
    token_s: npt.ArrayLike,
    *,
    wait_s: float,
    output_len: float,
    latency_s: float = 0.0,
) -> Array:
    r"""Return the share of the time that goes into prefills.

    .. math:: \frac{B w}{L t + B w + l}

    Source
        See `request_token_s`.

    Examples
    --------
    >>> float(prefill_frac(2, 0.01, wait_s=0.5, output_len=100))  # 1 s of 2 s
    0.5
    """
    prefills_s = request_token_s(batch_size, wait_s=wait_s, output_len=output_len)
    latency_token_s = latency_s / output_len
    return np.asarray(prefills_s / (np.asarray(token_s) + prefills_s + latency_token_s))


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class EndToEnd:
    """What of a speedup is left where prefills are counted; axes as in the curve.

    Parameters
    ----------
    workload
        The requests.
    wait_s, latency_s
        Seconds that each request keeps the batch waiting, and that it loses alone.
    curve
        The same operating points with requests in their rounds: each round is longer by what these
        add to its tokens. Its speedup is over plain decoding with the same prefills.
    prefill_frac
        Share of the time that goes into prefills.
    effective_batch
        Requests that are being decoded at a time, on average; the others wait for their prompt,
        or are on their way.
    """

    workload: Workload
    wait_s: float
    latency_s: float
    curve: SpeedupCurve
    prefill_frac: Array
    effective_batch: Array

    def __repr__(self) -> str:
        """Return one line: arrays are looked at by name."""
        return f"<EndToEnd: {self.workload.requests}; {self.curve!r}>"

    @property
    def tokens_per_s(self) -> Array:
        """Output tokens per second of the whole batch, prefill included."""
        return self.curve.tokens_per_s

    @property
    def answer_s(self) -> Array:
        """Seconds from sending a request to its last token, waiting for the others included.

        Source
            `specroof.serving.queue.latency_s`.
        """
        service_s = self.workload.output_len / self.curve.tokens_per_s_per_user
        return latency_s(self.curve.batch_size[None, :, None], self.curve.running_batch, service_s)

    @property
    def speedup(self) -> Array:
        """Speedup over plain decoding with the same prefills; [..., 0] is 1."""
        return self.curve.speedup


def end_to_end(
    curve: SpeedupCurve, model: Architecture, setup: Setup, workload: Workload
) -> EndToEnd:
    r"""Return a curve's throughput and speedup with prefills counted.

    The effective batch is :math:`B (1 - (w + l) / (L t + B w + l))`: a request waits w, and loses
    l, of its own time.

    Parameters
    ----------
    curve
        Of decoding alone, at the mean context of the workload.
    model, setup
        What the curve is of.
    workload
        Input and output lengths.

    Source
        See `end_to_end_tokens_per_s`; Little 1961, Oper. Res. 9(3) for the effective batch.
    """
    batch = curve.running_batch
    wait_s = request_s(model, setup, workload.input_len)
    amounts = {
        "wait_s": wait_s,
        "output_len": workload.output_len,
        "latency_s": setup.engine.request_latency_s,
    }
    token_s = curve.round_s / curve.tokens_per_round
    rate = end_to_end_tokens_per_s(batch, token_s, **amounts)
    counted = replace(
        curve,
        round_s=curve.tokens_per_round * batch / rate,
        requests=workload.requests,
        request_token_s=request_token_s(batch, **amounts)[..., 0],
    )
    share = prefill_frac(batch, token_s, **amounts)
    # Little's law: on their way are as many as arrive in a second, times the seconds of each.
    on_their_way = counted.tokens_per_s * amounts["latency_s"] / workload.output_len
    return EndToEnd(
        workload=workload,
        wait_s=wait_s,
        latency_s=amounts["latency_s"],
        curve=counted,
        prefill_frac=share,
        effective_batch=np.asarray(batch - share - on_their_way),
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
