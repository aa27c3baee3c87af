"""Traces: the requests that a server gets, one by one, as text of several tools.

pydantic is slow to import, so only a question that has such a file imports this one.
"""

import math
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from itertools import chain
from typing import Annotated, Any, Final, Self

import numpy as np
from pydantic import model_validator

from specroof.arrays import real_number
from specroof.errors import MeasurementError, refuse, reject
from specroof.reading.checked import (
    REQUIRED,
    Extract,
    RequestLen,
    WholeAmount,
    read_model,
    within,
)
from specroof.reading.json_text import json_values
from specroof.reading.table import csv_cells, plain_value
from specroof.reading.yaml_text import shown
from specroof.units import BOUNDS, MILLISECOND, Bounds

#: Bytes of a trace; a million requests take a tenth of it.
MAX_TRACE_BYTES: Final = 2**29
#: What a request has, by our own names and, in small letters, by those of other tools. Time stamps
#: of tables are seconds or dates, those of records milliseconds.
_NAMES: Final = {
    "arrival_s": "arrival_s",
    "timestamp": "timestamp",
    "created_time": "timestamp",
    "input_len": "input_len",
    "input_length": "input_len",
    "input_tokens": "input_len",
    "contexttokens": "input_len",
    "request tokens": "input_len",
    "output_len": "output_len",
    "output_length": "output_len",
    "output_tokens": "output_len",
    "generatedtokens": "output_len",
    "response tokens": "output_len",
    "cached_len": "cached_len",
    "hash_ids": "hash_ids",
}
#: Columns of a file without names, by how many there are.
_UNNAMED: Final = {1: ["output_len"], 2: ["input_len", "output_len"]}


class _Request(Extract):
    """A request of a trace."""

    arrival_s: Annotated[float, within("arrival_s", yaml=False)] = REQUIRED
    input_len: RequestLen = REQUIRED
    output_len: RequestLen = REQUIRED
    cached_len: Annotated[float, within("context_len")] = 0.0

    @model_validator(mode="after")
    def _computes_the_last_token(self) -> Self:
        most = self.input_len - 1
        if self.cached_len > most:
            allowed = f"at most {most:g}: the last token of a prompt is computed"
            message = f"cached_len is {self.cached_len:g}; allowed: {allowed}"
            raise ValueError(message)
        return self


_Place = tuple[str, dict[str, Any]]


def parse_trace(
    text: str, *, source: str, timed: bool = True, input_len: float | None = None
) -> dict[str, Any]:
    r"""Return the requests of a trace, as the arguments of `specroof.serving.workload.trace`.

    Parameters
    ----------
    text
        A CSV with the columns ``arrival_s``, ``input_len``, ``output_len`` and, where it is known,
        ``cached_len``, or as Azure and BurstGPT publish them; JSON Lines as Mooncake publishes
        them; the result of a benchmark's client with the lengths of its requests; or, where it is
        not timed, the length of an answer on each line, or a JSON list of them.
    source
        How messages name the file.
    timed
        Whether each request must have a time; else all of them come at once.
    input_len
        Tokens of each prompt, where the file does not say them.

    Raises
    ------
    MeasurementError
        In one line: for a file without requests, a time that is missing or goes back, a length
        that is missing or out of bounds, and more cached tokens than a prompt has.
    OptionError
        For prompts whose length is said nowhere.

    Counts
        times from the first one; of ``hash_ids`` as cached what begins as an earlier prompt does,
        in a cache without end.
    Source
        Azure/AzurePublicDataset, LLM inference traces of 2023 and 2024; HPMLL/BurstGPT;
        kvcache-ai/Mooncake, FAST25-release; vLLM 0.33.0 ``benchmarks/serve.py``
        (``--save-detailed``), SGLang 0.5.23 ``benchmark/serving.py`` (``--output-details``), and
        InferenceX ``utils/bench_serving``, which writes what vLLM does.

    Examples
    --------
    >>> found = parse_trace("arrival_s,input_len,output_len\n3,100,20\n3.5,90,8", source="a.csv")
    >>> found["arrival_s"].tolist(), found["output_len"].tolist()
    ([0.0, 0.5], [20.0, 8.0])
    >>> parse_trace("20\n8", source="a.txt", timed=False, input_len=100)["output_len"].tolist()
    [20.0, 8.0]
    """
    if text.lstrip()[:1] in {"{", "["}:
        values = json_values(text, source=source, error=MeasurementError)
        place, first = next(values, (source, None))
        if isinstance(first, dict) and "output_lens" in first:
            if next(values, None) is not None:
                reject(f"{source}: holds several results", "one", MeasurementError)
            return _of_client(first, place)
        rows = _records(chain([(place, first)], values), timed=timed)
    else:
        rows = _table(text, source, ["arrival_s", "input_len"] if timed else [])
    columns = {name: array("d") for name in _Request.model_fields}
    begins_s = before_s = 0.0
    for place, row in rows if timed else _with_prompts(rows, input_len):
        arrival_s = real_number(row.get("arrival_s"))
        if not columns["arrival_s"]:
            begins_s = before_s = arrival_s if math.isfinite(arrival_s) else 0.0
        if math.isfinite(arrival_s):
            if arrival_s < before_s:
                later = f"{before_s:.15g} or later, the time before it"
                refuse(f"{place}: arrival_s", arrival_s, later, error=MeasurementError)
            before_s = arrival_s
            row["arrival_s"] = arrival_s - begins_s
        elif not timed:
            row.setdefault("arrival_s", 0.0)
        request = read_model(row, _Request, place=place, error=MeasurementError)
        for name, values_of in columns.items():
            values_of.append(getattr(request, name))
    if not columns["arrival_s"]:
        reject(f"{source}: holds no request", "one or more", MeasurementError)
    return {name: np.frombuffer(values_of) for name, values_of in columns.items()}


def _with_prompts(rows: Iterator[_Place], input_len: float | None) -> Iterator[_Place]:
    """Yield requests with so many tokens of a prompt, where these are not said of each."""
    for number, (place, row) in enumerate(rows):
        if input_len is not None:
            row.setdefault("input_len", input_len)
        elif not number and "input_len" not in row:
            reject("input_len is missing", "tokens of a prompt, or a column of them")
        yield place, row


def _records(values: Iterator[tuple[str, Any]], *, timed: bool) -> Iterator[_Place]:
    """Yield the place and the content of each record of JSON Lines, by our own names."""
    seen: set[Any] = set()
    block = 1.0
    for place, value in values:
        if isinstance(value, int | float) and not timed:
            yield place, {"output_len": value}
            continue
        if not isinstance(value, dict):
            refuse(place, value, "an object for each request", error=MeasurementError, show=shown)
        row = {_NAMES[key]: cell for key, cell in value.items() if key in _NAMES}
        if "timestamp" in row:
            stamp = row.pop("timestamp")
            stamp_ms = real_number(stamp)
            row["arrival_s"] = stamp_ms * MILLISECOND if math.isfinite(stamp_ms) else stamp
        ids, length = row.pop("hash_ids", None), real_number(row.get("input_len"))
        if isinstance(ids, list) and ids and 1 <= length <= BOUNDS["request_len"].most:
            try:
                known = next((n for n, one in enumerate(ids) if one not in seen), len(ids))
                seen.update(ids)
            except TypeError:  # a list or a mapping in it
                reject(f"{place}: hash_ids holds a list", "numbers", MeasurementError)
            # Blocks are a power of two; the last one of a prompt is filled in part.
            block = max(block, 2.0 ** math.ceil(math.log2(length / len(ids))))
            row["cached_len"] = min(known * block, length - 1)
        yield place, row


def _table(text: str, source: str, needed: Sequence[str]) -> Iterator[_Place]:
    """Yield the place and the cells of each row of a CSV, by our own names."""
    names: list[str | None] = []
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip() or line.startswith("#"):
            continue
        place = f"{source}, line {number}"
        cells = csv_cells(line, place)
        values = [plain_value(cell.strip()) for cell in cells]
        if not names:
            unnamed = not isinstance(values[0], str)
            names = [*_UNNAMED.get(len(cells), [])] if unnamed else []
            names = names or [_NAMES.get(cell.strip().casefold()) for cell in cells]
            names = ["output_len"] if names == [None] else names  # the only one there is
            allowed = ", ".join(_Request.model_fields)
            if "output_len" not in names:
                reject(f"{place}: names no column of lengths", allowed, MeasurementError)
            known = ["arrival_s" if name == "timestamp" else name for name in names if name]
            if lacking := [name for name in needed if name not in known]:
                reject(f"{place}: names no column {lacking[0]}", allowed, MeasurementError)
            if twice := [name for name in known if known.count(name) > 1]:
                reject(f"{place}: has two columns of {twice[0]}", "one", MeasurementError)
            if not unnamed:
                continue
        if len(values) != len(names):
            message = f"{place}: has {len(values)} values"
            reject(message, f"{len(names)}, one a column", MeasurementError)
        row = {
            name: value
            for name, value in zip(names, values, strict=True)
            if name is not None and value != ""
        }
        if "timestamp" in row:
            row["arrival_s"] = _seconds(row.pop("timestamp"))
        yield place, row


def _seconds(stamp: float | str) -> float | str:
    """Return a time stamp in seconds: a number, or a date; other text as it is, to be refused."""
    if not isinstance(stamp, str) or stamp.isdecimal():  # that is too large for a number
        return stamp
    try:
        date = datetime.fromisoformat(stamp)
    except ValueError:
        return stamp
    return (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp()


_Tokens = Annotated[float, within("context_len", yaml=False)]


#: Seconds of a clock, which may count from 1970; and clients, which JSON may write as 32.0.
_CLOCK: Final = Bounds(0, 1e10)
_CLIENTS: Final = replace(BOUNDS["server_requests"], whole=False)


class _DetailedResult(Extract):
    """What a benchmark's client writes of each request; those that failed have no answer."""

    input_lens: list[_Tokens] = REQUIRED
    output_lens: list[_Tokens] = REQUIRED
    start_times: list[Annotated[float, within(_CLOCK, yaml=False)]] | None = None
    cached_tokens: list[_Tokens] | None = None
    max_concurrency: Annotated[WholeAmount, within(_CLIENTS)] | None = None
    request_rate: Any = None


def _of_client(content: dict[str, Any], place: str) -> dict[str, Any]:
    """Return the requests of a benchmark's client as they were sent: by clients, or at times."""
    result = read_model(content, _DetailedResult, place=place, error=MeasurementError)
    lengths = np.array(result.input_lens, dtype=np.float64)
    columns = {"input_len": lengths, "output_len": np.array(result.output_lens, dtype=np.float64)}
    if result.cached_tokens is not None:
        columns["cached_len"] = np.array(result.cached_tokens, dtype=np.float64)
    if result.start_times is not None:
        columns["arrival_s"] = np.array(result.start_times, dtype=np.float64)
    elif result.max_concurrency is None and real_number(result.request_rate) < math.inf:
        rate = f"{place}: request_rate is {shown(result.request_rate)} and start_times are missing"
        reject(rate, "start_times of --save-detailed, or a limit of concurrency", MeasurementError)
    if len({len(column) for column in columns.values()}) > 1:
        counts = ", ".join(f"{len(column)} of {name}" for name, column in columns.items())
        reject(f"{place}: has lists of {counts}", "as many of each", MeasurementError)
    answered = (columns["output_len"] >= 1) & (lengths >= 1)
    if not answered.any():
        reject(f"{place}: no request has an answer", "one or more", MeasurementError)
    columns = {name: column[answered] for name, column in columns.items()}
    times = columns.pop("arrival_s", np.zeros(int(answered.sum())))
    order = np.argsort(times, kind="stable")
    columns = {name: column[order] for name, column in columns.items()}
    if "cached_len" in columns:
        columns["cached_len"] = np.minimum(columns["cached_len"], columns["input_len"] - 1)
    if result.max_concurrency is not None:  # clients that wait: their times are an answer's
        return {
            **columns,
            "arrival_s": np.zeros(len(order)),
            "concurrency": int(result.max_concurrency),
        }
    return {**columns, "arrival_s": times[order] - times.min()}
