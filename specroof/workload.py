"""Requests instead of steps: input and output length and concurrency, prefill included."""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from specroof.architecture import Architecture
from specroof.cost import ForwardPass
from specroof.errors import OptionError
from specroof.latency import Setup
from specroof.pricing import model_latency
from specroof.solver import SpeedupCurve

__all__ = [
    "EndToEnd",
    "Workload",
    "decode_tokens_per_s",
    "end_to_end",
    "end_to_end_tokens_per_s",
    "prefill_frac",
    "request_s",
]

Array = npt.NDArray[np.float64]


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
        For a length that is not finite or below 1.

    Examples
    --------
    >>> Workload(input_len=8192, output_len=1024).mean_context_len
    8704.0
    """

    input_len: float
    output_len: float

    def __post_init__(self) -> None:
        for name in ("input_len", "output_len"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value >= 1):
                message = f"{name} is {value:g}; allowed: a finite number of tokens, at least 1"
                raise OptionError(message)

    @property
    def mean_context_len(self) -> float:
        """Cached tokens while a request is decoded, on average: the prompt and half the answer."""
        return self.input_len + self.output_len / 2


def request_s(model: Architecture, setup: Setup, input_len: float) -> float:
    """Return the seconds that one request keeps the whole batch waiting before it is decoded.

    One pass over the prompt, of which only the last position goes through the head, and what the
    engine loses with each request; not the engine's `request_latency_s`, which others do not feel.

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
    prefill = ForwardPass(1.0, input_len, 0.0, head_len=1.0, settled=True)
    return float(model_latency(model, setup, prefill).total_s) + setup.engine.request_overhead_s


def end_to_end_tokens_per_s(
    batch_size: npt.ArrayLike,
    token_s: npt.ArrayLike,
    *,
    wait_s: float,
    output_len: float,
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
        Counting: while one request is answered, B of them are, and each is prefilled once.

    Examples
    --------
    >>> float(end_to_end_tokens_per_s(2, 0.01, wait_s=0.5, output_len=100))  # 200 / (1 + 1)
    100.0
    """
    batch = np.asarray(batch_size, dtype=np.float64)
    return np.asarray(batch / (np.asarray(token_s) + (batch * wait_s + latency_s) / output_len))


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
        If the prefills alone take longer than the throughput x leaves.

    Source
        See `end_to_end_tokens_per_s`.

    Examples
    --------
    >>> float(decode_tokens_per_s(2, 100.0, wait_s=0.5, output_len=100))  # 2 / 0.01
    200.0
    """
    batch = np.asarray(batch_size, dtype=np.float64)
    waited_s = (batch * wait_s + latency_s) / output_len
    token_s = batch / np.asarray(tokens_per_s, dtype=np.float64) - waited_s
    if np.any(token_s <= 0):
        message = (
            f"tokens_per_s is {np.asarray(tokens_per_s).tolist()}: prefills of {wait_s:.3g} s a "
            f"request leave no time to decode; allowed: below {output_len / wait_s:.4g}"
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
        See `end_to_end_tokens_per_s`.

    Examples
    --------
    >>> float(prefill_frac(2, 0.01, wait_s=0.5, output_len=100))  # 1 s of 2 s
    0.5
    """
    waiting_s = np.asarray(batch_size, dtype=np.float64) * wait_s
    return np.asarray(waiting_s / (output_len * np.asarray(token_s) + waiting_s + latency_s))


@dataclass(frozen=True, slots=True, eq=False)
class EndToEnd:
    """What of a speedup is left where prefills are counted; axes as in the curve.

    Parameters
    ----------
    wait_s, latency_s
        Seconds that each request keeps the batch waiting, and that it loses alone.
    tokens_per_s, speedup
        Prefill included; the speedup is over plain decoding with the same prefills.
    prefill_frac
        Share of the time that goes into prefills.
    effective_batch
        Requests that are being decoded at a time, on average; the others wait for their prompt,
        or are on their way.
    """

    wait_s: float
    latency_s: float
    tokens_per_s: Array
    speedup: Array
    prefill_frac: Array
    effective_batch: Array


def end_to_end(
    curve: SpeedupCurve, model: Architecture, setup: Setup, workload: Workload
) -> EndToEnd:
    r"""Return a curve's throughput and speedup with prefills counted.

    The effective batch is :math:`B (1 - (w + l) / (L t + B w + l))`: a request waits w, and loses
    l, of its own time.

    Parameters
    ----------
    curve
        At the mean context of the workload.
    model, setup
        What the curve is of.
    workload
        Input and output lengths.

    Source
        See `end_to_end_tokens_per_s`; Little 1961, Oper. Res. 9(3) for the effective batch.
    """
    batch = curve.batch_size[:, None]
    wait_s = request_s(model, setup, workload.input_len)
    token_s = curve.round_s / curve.tokens_per_round
    latency_s = setup.engine.request_latency_s
    amounts = {"wait_s": wait_s, "output_len": workload.output_len, "latency_s": latency_s}
    rate = end_to_end_tokens_per_s(batch, token_s, **amounts)
    share = prefill_frac(batch, token_s, **amounts)
    return EndToEnd(
        wait_s=wait_s,
        latency_s=latency_s,
        tokens_per_s=rate,
        speedup=np.asarray(rate / rate[..., :1]),
        prefill_frac=share,
        # Little's law: as many are on their way as there are tokens, by the time of each.
        effective_batch=np.asarray(batch - share - rate * latency_s / workload.output_len),
    )
