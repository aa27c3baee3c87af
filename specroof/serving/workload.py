"""What a server is asked for: so many sequences, or requests as benchmarks state them."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Final, Literal

import numpy as np
import numpy.typing as npt

from specroof.arrays import Array, array_within, fields_of, number_within, whole_within
from specroof.cost import ForwardPass
from specroof.errors import not_modelled, refuse, reject
from specroof.hardware.engine import SETTINGS, ServerSettings
from specroof.reading.yaml_text import shown
from specroof.units import Bounds, plain_number

#: Shares of a length between which those of requests are drawn: vLLM's client goes up to 2.
LENGTH_SHARE: Final = Bounds(0, 2)
#: Requests of a benchmark for each of its clients, as InferenceX has it.
REQUESTS_PER_CLIENT: Final = 10
#: Seconds from an answer to its client's next request, below a step of decoding: clients send it in
#: the loop that reads answers (vLLM 0.33.0 ``benchmarks/serve.py``, SGLang 0.5.23
#: ``benchmark/serving.py``, aiperf 0.13.0 ``timing/strategies/request_rate.py``).
TURNAROUND_S: Final = 0.003
#: The 99th percentile of a standard normal distribution.
_NORMAL_P99: Final = 2.3263478740408408


@dataclass(frozen=True, slots=True)
class Workload:
    """Requests as benchmarks state them.

    Parameters
    ----------
    input_len, output_len
        Tokens of the prompt and of the answer.
    prefix_hit_rate
        Share of a prompt's tokens that the server has cached already; the last token of a prompt
        is computed whatever is cached.

    Raises
    ------
    OptionError
        For a length or a share out of bounds.

    Examples
    --------
    >>> Workload(input_len=8192, output_len=1024).mean_context_len
    8704.0
    >>> Workload(input_len=8192, output_len=1024, prefix_hit_rate=0.75).new_len
    2048.0
    """

    input_len: float
    output_len: float
    prefix_hit_rate: float = 0.0

    def __post_init__(self) -> None:
        for name in ("input_len", "output_len", "prefix_hit_rate"):
            quantity = "share" if name == "prefix_hit_rate" else "request_len"
            number = number_within(name, getattr(self, name), quantity)
            object.__setattr__(self, name, number)  # a fraction has become a float

    @property
    def mean_context_len(self) -> float:
        """Cached tokens while a request is decoded, on average: the prompt and half the answer."""
        return self.input_len + self.output_len / 2

    @property
    def new_len(self) -> float:
        """Tokens of a prompt that a prefill computes."""
        return max(self.input_len * (1 - self.prefix_hit_rate), 1.0)

    @property
    def cached_len(self) -> float:
        """Tokens of a prompt before them."""
        return self.input_len - self.new_len

    @property
    def requests(self) -> str:
        """What a request is, in words: "8192 tokens in, 1024 out"."""
        # Of a trace they are means, whose decimals say nothing.
        tokens_in, tokens_out = map(plain_number, np.round([self.input_len, self.output_len]))
        lengths = f"{tokens_in} tokens in, {tokens_out} out"
        cached = f", {self.prefix_hit_rate:.0%} of a prompt cached" if self.prefix_hit_rate else ""
        return lengths + cached


def refuse_one_token(workload: Workload | None) -> None:
    """Refuse answers of one token, where others decode or wait for the tokens after the first.

    Raises
    ------
    OptionError
        For such requests.
    """
    if workload is not None and workload.output_len <= 1:
        refuse("output_len", workload.output_len, "more than 1 token of an answer")


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
    most_len
        Tokens that each answer may have at most, where it ends by itself; None where answers of
        these lengths are asked for, as benchmarks do.
    turnaround_s
        Seconds from an answer to its client's next request at the server, where the answer is long
        enough; None for all that a request takes besides passes.
    seed
        Of the dice that say how many drafts of a round are accepted.
    """

    arrival_s: Array
    input_len: Array
    output_len: Array
    cached_len: Array
    concurrency: int | None = None
    most_len: Array | None = None
    turnaround_s: float | None = None
    seed: int = 0

    @property
    def longest(self) -> float:
        """Tokens of the longest request, prompt and answer."""
        return float((self.input_len + self.output_len).max())


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
    length_range: tuple[float, float] = (1.0, 1.0),
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
    length_range
        Shares of the lengths between which those of a request are drawn, evenly.
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
    >>> load = closed_loop(Workload(1000, 100), 4, length_range=(0.8, 1.0))
    >>> load.arrival_s[-3:], load.input_len.shape, bool(load.input_len.min() >= 800)
    (array([0., 0., 0.]), (40,), True)
    """
    clients = whole_within("concurrency", concurrency, "server_requests")
    count = clients * REQUESTS_PER_CLIENT if count is None else count
    starts = np.zeros(whole_within("requests", count, "played_requests"))
    drawn = _drawn_requests(workload, starts, length_range, seed, clients)
    return replace(drawn, turnaround_s=TURNAROUND_S)


def open_loop(
    workload: Workload,
    rate: float,
    count: int,
    *,
    length_range: tuple[float, float] = (1.0, 1.0),
    even: bool = False,
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
    length_range
        See `closed_loop`.
    even
        Whether all gaps are the same; otherwise they are those of Poisson arrivals.
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
    >>> open_loop(Workload(1000, 100), 2.0, 3, even=True).arrival_s
    array([0.5, 1. , 1.5])
    """
    per_s = number_within("rate", rate, "request_rate")
    gaps = np.ones(whole_within("requests", count, "played_requests"))
    if not even:
        gaps = np.random.default_rng((seed, 1)).exponential(size=len(gaps))
    return _drawn_requests(workload, np.cumsum(gaps) / per_s, length_range, seed)


def _drawn_requests(
    workload: Workload,
    starts: Array,
    length_range: tuple[float, float],
    seed: int,
    concurrency: int | None = None,
) -> Requests:
    """Return requests whose lengths are drawn evenly between two shares of those stated."""
    least, most = (number_within("length_range", share, LENGTH_SHARE) for share in length_range)
    if least > most:
        refuse("length_range", length_range, "the shortest share first")
    rng = np.random.default_rng((whole_within("seed", seed, "seed"), 0))
    lengths = []
    for length in (workload.input_len, workload.output_len):
        shares = least + (most - least) * rng.random(len(starts))
        lengths.append(np.maximum(length * shares, 1.0))
        if least < most:  # of a range, whole numbers of tokens
            lengths[-1] = np.maximum(np.rint(lengths[-1]), 1.0)
    new = np.maximum(lengths[0] * (1 - workload.prefix_hit_rate), 1.0)
    return Requests(starts, lengths[0], lengths[1], lengths[0] - new, concurrency, seed=seed)


def lognormal_lengths(rng: np.random.Generator, n: int, mean: float, p99: float) -> Array:
    r"""Return draws from the lognormal law with this mean and 99th percentile.

    .. math:: \sigma = z - \sqrt{z^2 - 2 \ln(p_{99} / m)}, \quad \mu = \ln m - \sigma^2 / 2

    with z the 99th percentile of the normal law.

    Raises
    ------
    OptionError
        For a 99th percentile that no such law has.
    """
    ratio = p99 / mean
    if not 1 <= ratio <= math.exp(_NORMAL_P99**2 / 2):
        refuse("lengths: P99 / MEAN", round(ratio, 3), "from 1 to 14.9 in a lognormal law")
    sigma = _NORMAL_P99 - math.sqrt(_NORMAL_P99**2 - 2 * math.log(ratio))
    return rng.lognormal(math.log(mean) - sigma**2 / 2, sigma, n)


def pareto_lengths(rng: np.random.Generator, n: int, mean: float, index: float) -> Array:
    r"""Return draws from the Pareto law of this mean and tail.

    .. math:: P(L > x) = (m \, (a - 1) / (a \, x))^a

    Raises
    ------
    OptionError
        For an index of 1 or less, at which there is no mean.
    """
    if not index > 1:
        refuse("lengths: INDEX", index, "above 1 in a Pareto law, so that there is a mean")
    return mean * (index - 1) / index * (1 + rng.pareto(index, n))


#: Laws of the lengths of answers by their names: from a mean, and what says how long the tail is.
LENGTH_LAWS: Final[Mapping[str, Callable[[np.random.Generator, int, float, float], Array]]] = {
    "lognormal": lognormal_lengths,
    "pareto": pareto_lengths,
}


@dataclass(frozen=True, slots=True)
class Load:
    """What is asked of a server: a grid in its steady state, or requests that are played through.

    Parameters
    ----------
    batch_size, context_len
        The axes of the grid: sequences in flight, and cached tokens of each. Of played requests,
        one batch size for each load: its clients, or how many requests run on average.
    workload
        Requests, where they are asked for in the place of a context.
    requests
        How many of them are played through at each load; empty for the steady state.
    rate
        Requests that arrive in a second, of each load; empty where clients send the next request
        when they have an answer.
    arrivals
        Whether gaps between arrivals are drawn, or all the same.
    length_range
        Shares of the lengths between which those of requests are drawn, evenly.
    trace
        Requests that are known one by one: one load.
    seed
        Of gaps and lengths.
    longest
        Of a steady state, the tokens of the longest request at its end; contexts are means.
    """

    batch_size: Sequence[float]
    context_len: Sequence[float]
    workload: Workload | None = None
    requests: Sequence[int] = ()
    rate: Sequence[float] = ()
    arrivals: Literal["poisson", "even"] = "poisson"
    length_range: tuple[float, float] = (1.0, 1.0)
    trace: Requests | None = None
    seed: int = 0
    longest: float = 0.0

    @property
    def kind(self) -> Literal["concurrency", "rate", "trace", "job"]:
        """How requests come: from clients, at a rate, at known times, or all at once."""
        if self.trace is not None:
            return "trace" if self.trace.arrival_s[-1] > 0 else "job"
        return "rate" if self.rate else "concurrency"

    @property
    def arrival_rates(self) -> Sequence[float]:
        """The requests that arrive in a second of each load; none of clients and of jobs."""
        if self.kind != "trace" or self.trace is None or self.trace.concurrency is not None:
            return self.rate
        return [(len(self.trace.arrival_s) - 1) / float(self.trace.arrival_s[-1])]

    @property
    def steady(self) -> "Load":
        """The grid of requests of the mean lengths, in its steady state."""
        workload, longest = self.workload, self.longest
        if workload is not None:
            longest = self.length_range[1] * (workload.input_len + workload.output_len)
        if self.trace is not None:
            longest = self.trace.longest
        if workload is not None and self.length_range != (1.0, 1.0):
            mean = sum(self.length_range) / 2
            workload = replace(
                workload,
                input_len=max(mean * workload.input_len, 1.0),
                output_len=max(mean * workload.output_len, 1.0),
            )
        contexts = self.context_len if workload is None else [workload.mean_context_len]
        return Load(self.batch_size, contexts, workload, longest=longest)

    def part(self, place: int, count: int = 1) -> "Load":
        """Return so many loads of these, from one on.

        Examples
        --------
        >>> Load([1.0, 1.0], [4096.0], requests=[9, 9], rate=[2.0, 4.0]).part(1).rate
        [4.0]
        """
        each = fields_of(self, "batch_size", "requests", "rate")
        return replace(self, **{name: one[place : place + count] for name, one in each.items()})

    def played(self) -> Iterator[Requests]:
        """Yield the requests of each load.

        Raises
        ------
        OptionError
            For values out of bounds.

        Examples
        --------
        >>> job = Load([2, 4], [1050], Workload(1000, 100), requests=[20, 40])
        >>> [(len(load.arrival_s), load.concurrency) for load in job.played()]
        [(20, 2), (40, 4)]
        """
        if self.trace is not None:
            yield replace(self.trace, seed=self.seed)
        elif self.workload is not None:
            drawn: dict[str, Any] = {"length_range": self.length_range, "seed": self.seed}
            even = self.arrivals == "even"
            for place, count in enumerate(self.requests):
                if self.rate:
                    yield open_loop(self.workload, self.rate[place], count, even=even, **drawn)
                else:
                    size = self.batch_size[place]
                    clients = number_within("concurrency", size, "server_requests")
                    yield closed_loop(self.workload, int(clients), count, **drawn)


def workload_json(workload: Workload | None) -> dict[str, Any]:
    """Return requests as JSON has them; nothing without any.

    Examples
    --------
    >>> workload_json(Workload(input_len=3000, output_len=500, prefix_hit_rate=0.5))
    {'input_len': 3000, 'output_len': 500, 'prefix_hit_rate': 0.5}
    """
    known: dict[str, float] = {} if workload is None else asdict(workload)
    return {name: int(one) if one.is_integer() else one for name, one in known.items()}


# --- Settings of a server as text: `--server KEY=VALUE[,…]`, and a mapping in studies ------------


def parse_server(text: str) -> ServerSettings:
    """Return the settings that the words of `--server` state.

    Parameters
    ----------
    text
        ``KEY=VALUE[,KEY=VALUE…]`` with the keys of `specroof.hardware.engine.SERVER_KEYS`.

    Raises
    ------
    OptionError
        For an unknown or doubled key, and a value out of range.

    Examples
    --------
    >>> parse_server("memory=0.85,overlap=off").stated
    {'memory': 0.85, 'overlap': False}
    """
    values: dict[str, str] = {}
    for pair in text.split(","):
        key, equals, value = (part.strip() for part in pair.partition("="))
        if not equals or not value:
            reject(f"server: {pair.strip()!r} is not understood", "KEY=VALUE[,…]")
        if key in values:
            reject(f"server: {key} is given twice", "once")
        values[key] = value
    return server_settings(values)


def server_settings(values: Mapping[str, Any]) -> ServerSettings:
    """Return the settings that a mapping states, as studies and Python have it.

    Parameters
    ----------
    values
        By the keys of `specroof.hardware.engine.SERVER_KEYS`; text, or values of the right type.

    Raises
    ------
    OptionError
        For an unknown key, and a value out of range.

    Examples
    --------
    >>> server_settings({"prefix-cache": False, "running": 64}).running
    64
    """
    read: dict[str, Any] = {}
    for key, value in values.items():
        if key not in SETTINGS:
            left_out = not_modelled(str(key))
            why = f" ({left_out})" if left_out else ""
            reject(f"server: unknown key {shown(key)}{why}", ", ".join(SETTINGS))
        setting = SETTINGS[key]
        is_text = isinstance(value, str)
        read[setting.field] = setting.parsed(f"server: {key}", value) if is_text else value
    return ServerSettings(**read)


# --- The prefill of a prompt ----------------------------------------------------------------------


def prefill_pass(
    input_len: npt.ArrayLike, *, batch_size: npt.ArrayLike = 1.0, context_len: npt.ArrayLike = 0.0
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
        The serving loop of SGLang and vLLM.

    Examples
    --------
    >>> prompts = prefill_pass(8192, batch_size=4)
    >>> float(prompts.batch_size * prompts.head_len)  # the last position of each
    4.0
    """
    return ForwardPass(batch_size, input_len, context_len, head_len=1.0, settled=True)
