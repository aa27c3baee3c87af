"""From parameters to a case: the loads, how requests come, and the room of the server."""

import math
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from specroof.arrays import array_within, number_within, whole_within
from specroof.catalog.files import read_text
from specroof.errors import MeasurementError, expect, refuse, reject
from specroof.outcomes.case import Case, served_case
from specroof.questions import parameters as p
from specroof.questions.objects import (
    ServerLike,
    Values,
    as_list,
    chips_of,
    server_of,
)
from specroof.questions.request import LoadsRequest
from specroof.questions.work import check_work
from specroof.serving.workload import REQUESTS_PER_CLIENT, Load, Requests, Workload, trace

#: Requests of a rate, as vLLM's client sends them by default.
_AT_A_RATE: Final = 1000
_PER_CLIENT: Final = re.compile(r"([0-9]{1,9}(?:\.[0-9]+)?)x")
#: What a load can be named by; one of them.
_LOADS: Final = ("batch_size", "concurrency", "rate", "trace", "lengths")
#: What says how each request comes, beside a trace or lengths that say it themselves.
_DRAWN: Final = ("requests", "length_range", "output_len")


# --- The load of a question ----------------------------------------------------------------------


def in_flight_of(request: Any, usual: Values) -> Values:
    """Return the requests in flight, or the batch sizes, that are asked about; else the usual ones.

    Raises
    ------
    OptionError
        For both.
    """
    if request.concurrency is None:
        return usual if request.batch_size is None else request.batch_size
    if request.batch_size is not None:
        reject("batch_size and concurrency are both given", "one of them")
    asked: Values = request.concurrency
    array_within("concurrency", asked, "batch_size")  # below it is a batch
    return asked


def load_of(request: p.LengthParameters, batch_size: Values, context_len: Values | None) -> Load:
    """Return the load that a request asks about; a context of 4096 where it names none.

    Parameters
    ----------
    request
        The requests, if any.
    batch_size, context_len
        Sequences in flight and cached tokens of each, a number or a list each.

    Raises
    ------
    OptionError
        For requests beside a context, or half of a request.
    """
    if any(getattr(request, name, None) is not None for name in ("trace", "lengths")):
        return Load(as_list(batch_size), [4096.0])  # which such a file replaces
    if context_len is not None and (request.input_len, request.output_len) != (None, None):
        reject("context_len is given with input_len or output_len", "one of them")
    workload = request.workload
    if workload is not None:
        return Load(as_list(batch_size), [workload.mean_context_len], workload)
    return Load(as_list(batch_size), as_list(4096.0 if context_len is None else context_len))


def played_load(request: p.PlayedParameters, load: Load, server: ServerLike | None = None) -> Load:
    """Return a load whose requests are played through one by one.

    Parameters
    ----------
    request
        What says how they come.
    load
        The same in its steady state; its batch sizes are the clients, if there are any.
    server
        Settings of the server: one without a prefix cache computes all prompts of a trace.

    Raises
    ------
    SpecroofError
        For parts that do not go together or are out of bounds, and for files that hold no trace.
    """
    given = [name for name in _LOADS if getattr(request, name, None) is not None]
    if len(given) > 1:
        reject(f"{given[0]} and {given[1]} are both given", "one of them")
    whole_within("seed", request.seed, "seed")
    if request.trace is not None or request.lengths is not None:
        # The load of requests that a trace or a file of lengths knows one by one.
        timed = request.trace is not None
        name, file = ("trace", request.trace) if timed else ("lengths", request.lengths)
        own = (*_DRAWN, *(("input_len", "prefix_hit_rate") if timed else ()))
        for other in ("context_len", *own):
            if getattr(request, other, None) is not None:
                refuse(other, getattr(request, other), f"without {name}, which says it")
        prompt, cached_share = (getattr(request, one) for one in ("input_len", "prefix_hit_rate"))
        if cached_share is None and server_of(server).prefix_cache is False:
            cached_share = 0.0
        return known_load(known_requests(name, file, prompt, cached_share))
    if load.workload is None:
        name = next(n for n in ("rate", *_DRAWN) if getattr(request, n) is not None)
        refuse(name, getattr(request, name), "with the lengths of a request")
    rates: list[float] = []
    if request.rate is not None:
        rates = array_within("rate", request.rate, "request_rate").ravel().tolist()
    else:
        for clients in load.batch_size:
            number_within((given or ["batch_size"])[0], clients, "server_requests")
    counts = request_counts(request.requests, [] if rates else load.batch_size, len(rates))
    check_work(2 * sum(counts), max(counts))  # without drafts, and with some
    return replace(
        load,
        batch_size=[1.0] * len(rates) if rates else load.batch_size,
        requests=counts,
        rate=rates,
        arrivals="even" if request.arrivals == "even" else "poisson",
        length_range=length_shares(request.length_range),
        seed=request.seed,
    )


def request_counts(
    requests: int | str | None, clients: Sequence[float], n_rates: int = 0
) -> list[int]:
    """Return how many requests each load has.

    Parameters
    ----------
    requests
        A number, or ``10x`` for so many of each client; the usual ones if None.
    clients, n_rates
        The clients of each load, or how many rates there are.

    Raises
    ------
    OptionError
        For anything else.

    Examples
    --------
    >>> request_counts("10x", [1, 8]), request_counts(None, [], n_rates=2)
    ([10, 80], [1000, 1000])
    """
    allowed = "a whole number of requests" + ("" if n_rates else ", or so many of each client: 10x")
    given: Any = requests
    if given is None:
        given = _AT_A_RATE if n_rates else f"{REQUESTS_PER_CLIENT}x"
    if isinstance(given, str):
        of_each = _PER_CLIENT.fullmatch(given.strip())
        if of_each and float(of_each[1]) and not n_rates:
            counts = [max(round(float(of_each[1]) * count), 1) for count in clients]
            return [whole_within("requests", count, "played_requests") for count in counts]
        if not given.strip().isdecimal() or math.isinf(float(given)):
            refuse("requests", given, allowed)
        given = int(given)
    return [whole_within("requests", given, "played_requests")] * (n_rates or len(clients))


def length_shares(given: str | Sequence[float] | None) -> tuple[float, float]:
    """Return the shares of a length from the shortest to the longest; all of it if None.

    Raises
    ------
    OptionError
        For anything but two numbers, or their text.

    Examples
    --------
    >>> length_shares("0.8..1.0")
    (0.8, 1.0)
    """
    if given is None:
        return 1.0, 1.0
    allowed = "two numbers from 0 to 2, as in 0.8..1.0"
    ends: Any = given.split("..") if isinstance(given, str) else given
    try:
        low, high = map(float, ends)
    except (TypeError, ValueError):
        refuse("length_range", given, allowed)
    if not 0 <= low <= high <= 2:
        refuse("length_range", given, allowed)
    return low, high


def known_requests(
    name: str, given: Any, input_len: float | None, prefix_hit_rate: float | None
) -> Requests:
    """Return requests that a file or a mapping of columns knows one by one.

    Parameters
    ----------
    name
        ``trace``, or ``lengths`` of requests that all come at once.
    given
        The file, or the columns.
    input_len, prefix_hit_rate
        Tokens of each prompt where they are not said there, and the cached share of them.

    Raises
    ------
    SpecroofError
        For files and columns that hold no requests, and numbers out of bounds.
    """
    timed = name == "trace"
    expect(name, given, str | os.PathLike | Mapping, "a file, or a mapping of columns")
    prompt = None if input_len is None else number_within("input_len", input_len, "request_len")
    if isinstance(given, Mapping):
        columns = {"arrival_s": 0.0, **({} if prompt is None else {"input_len": prompt}), **given}
        known = {"arrival_s", "input_len", "output_len", "cached_len", "concurrency"}
        if wrong := [key for key in columns if key not in known]:
            reject(f"{name} has {wrong[0]!r}", ", ".join(sorted(known)))
        if missing := [key for key in ("input_len", "output_len") if key not in columns]:
            reject(f"{name} has no {missing[0]}", "the lengths of requests")
    else:
        from specroof.reading.traces import (  # noqa: PLC0415 - pydantic is slow to import
            MAX_TRACE_BYTES,
            parse_trace,
        )

        text = read_text(Path(str(given)), MeasurementError, MAX_TRACE_BYTES)
        columns = parse_trace(text, source=str(given), timed=timed, input_len=prompt)
    if not timed:
        columns["arrival_s"] = 0.0
    if prefix_hit_rate is not None:
        share = number_within("prefix_hit_rate", prefix_hit_rate, "share")
        prompts = np.asarray(columns["input_len"], dtype=np.float64)
        columns["cached_len"] = np.minimum(share * prompts, prompts - 1)
    return trace(**columns)


def known_load(requests: Requests) -> Load:
    """Return the load of requests that are known one by one.

    Examples
    --------
    >>> known_load(trace([0, 0], 100, [20, 40])).workload
    Workload(input_len=100.0, output_len=30.0, prefix_hit_rate=0.0)
    """
    prompt_len, output_len = float(requests.input_len.mean()), float(requests.output_len.mean())
    cached = float(requests.cached_len.mean()) / prompt_len
    workload = Workload(prompt_len, output_len, cached)
    count = len(requests.arrival_s)
    check_work(2 * count, count)  # without drafts, and with some
    return Load([1.0], [workload.mean_context_len], workload, requests=[count], trace=requests)


def asked_load(request: LoadsRequest, usual: Values) -> Load:
    """Return the loads that a request asks about: its batches, or the requests that it plays.

    Parameters
    ----------
    request
        A question about loads.
    usual
        Batch sizes where it names none.

    Raises
    ------
    SpecroofError
        As `in_flight_of`, `load_of` and `played_load` do, and for what only requests have.
    """
    load = load_of(request, in_flight_of(request, usual), request.context_len)
    if request.is_played:
        return played_load(request, load, request.server)
    if request.steady and load.workload is None:
        refuse("steady", request.steady, "with the lengths of a request")
    if whole_within("seed", request.seed, "seed"):
        refuse("seed", request.seed, "where requests are simulated")
    return load


def asked_case(request: Any, load: Load, targets: tuple[float, ...] = (math.inf, math.inf)) -> Case:
    """Return what is asked about, with all names resolved.

    Requests beyond the room of the server wait; batches beyond it have none.

    Parameters
    ----------
    request
        A question about loads.
    load
        As `asked_load` returns it, or a part of it.
    targets
        Of the goodput of played requests.

    Raises
    ------
    SpecroofError
        For names and settings that are not allowed.
    """
    deployment, split = request.resolved_workers()
    in_flight = request.is_played or request.concurrency is not None
    return served_case(
        deployment, load, request.capacity, in_flight=in_flight, split=split, targets=targets
    )


def on_each_chip(request: Any) -> Iterator[tuple[Any, str]]:
    """Yield a question on each of its chips, and what messages about a chip begin with.

    Model and chip are resolved; of one chip alone messages need no name.

    Parameters
    ----------
    request
        A question about several chips.

    Raises
    ------
    SpecroofError
        For no chip, and names that are not allowed.
    """
    model, chips = request.architecture, chips_of(request.hardware)
    for chip in chips:
        here = replace(request, model=model, family=None, hardware=chip)
        yield here, f"{chip.name}: " if len(chips) > 1 else ""
