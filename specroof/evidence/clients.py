"""Results of clients that serve any server: guidellm, aiperf and genai-perf.

They do not say what the server drafted, but for aiperf of a vLLM server with per-request metrics.
"""

import csv
import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from specroof.acceptance.published.formats import histogram_profile
from specroof.errors import MeasurementError, OptionError, reject
from specroof.evidence.measurement import Measurement, answered
from specroof.reading.json_text import Fields, parse_json
from specroof.units import MILLISECOND

#: Whether anything was drafted, None where a result does not say, and the point.
Result = tuple[bool | None, Measurement]
#: How guidellm's CSV begins.
GUIDELLM: Final = "Run Info,"
#: guidellm's ways to send requests that keep as many in flight as they say, or all of them.
_CLOSED: Final = ("concurrent", "synchronous", "throughput")
_BY_CLOCK: Final = "of requests that come by the clock, how many are in flight is unknown"
_HISTOGRAM: Final = "pooled_spec_decode_acceptance_histogram"


def guidellm_results(fields: Fields) -> list[Result]:
    """Return the points of a report of guidellm, one for each load.

    Counts
        completed requests; requests in flight as the client measured them.
    Source
        guidellm 0.8.1, ``benchmark/schemas/report.py`` and ``metrics.py``.

    Raises
    ------
    MeasurementError
        For another report, or loads that come by the clock.
    """
    metadata = fields.inner("metadata")
    if metadata.value("version") != 2 or not metadata.has("guidellm_version"):
        metadata.refuse("version", "2, of a report of guidellm from 0.6 on")
    reports = fields.value("benchmarks")
    if not isinstance(reports, list):
        fields.refuse("benchmarks", "a list")
    points: list[Result] = []
    for number, report in enumerate(reports, start=1):
        one = Fields(report, f"{fields.place}, benchmark {number}")
        config, metrics = one.inner("config"), one.inner("metrics")
        strategy = config.inner("strategy")

        def mean(key: str, of: Fields = metrics) -> float:
            return of.inner(key).inner("successful").amount("mean")

        if strategy.value("type_") not in _CLOSED:
            strategy.refuse("type_", f"{', '.join(_CLOSED)}: {_BY_CLOCK}")
        streams = 1 if strategy.value("type_") == "synchronous" else strategy.value("streams")
        point = answered(
            one.place,
            mean("prompt_token_count"),
            mean("output_token_count"),
            mean("output_tokens_per_second"),
        )
        point = replace(point, model=config.inner("backend").text_or_none("model"))
        points.append((None, _in_flight(point, mean("request_concurrency"), streams)))
    return points


def guidellm_table(text: str, source: str) -> list[Result]:
    """Return the points of guidellm's CSV, whose columns have names of three lines.

    Source
        guidellm 0.8.1, ``benchmark/outputs/csv.py``.

    Raises
    ------
    MeasurementError
        As `guidellm_results` does, and for a table that lacks a column.
    """
    try:
        rows = list(csv.reader(text.splitlines()))
    except csv.Error as problem:
        reject(f"{source}: {problem}", "plain CSV", MeasurementError)
    names = list(zip(*rows[:3], strict=False))
    points: list[Result] = []
    for number, row in enumerate(rows[3:], start=4):
        # A column of a later load is empty in the rows of others.
        cells = dict(zip(names, row, strict=False))
        place = f"{source}, line {number}"
        told = cells.get(("Benchmark", "Strategy", ""), "")
        way, _, streams = told.partition("@")
        if way not in _CLOSED:
            reject(
                f"{place}: Strategy is {told[:60]!r}",
                f"{', '.join(_CLOSED)}: {_BY_CLOCK}",
                MeasurementError,
            )
        numbers = Fields(
            {key: _number(cells.get((*name, "Mean"))) for key, name in _MEANS.items()}, place
        )
        point = answered(place, *(numbers.amount(key) for key in _MEANS if key != "Concurrency"))
        model = _json_cell(cells.get(("Run Info", "Backend", ""), ""), place).text_or_none("model")
        asked = 1 if way == "synchronous" else _number(streams)
        busy = numbers.amount("Concurrency")
        points.append((None, _in_flight(replace(point, model=model), busy, asked)))
    return points


#: Names of columns of guidellm's CSV, all of completed requests.
_MEANS: Final[Mapping[str, tuple[str, str]]] = {
    "Input Tokens": ("Token Metrics", "Successful Input Tokens"),
    "Output Tokens": ("Token Metrics", "Successful Output Tokens"),
    "Output Tokens/Sec": ("Token Throughput", "Successful Output Tokens/Sec"),
    "Concurrency": ("Server Throughput", "Successful Concurrency"),
}


def _json_cell(text: str, place: str) -> Fields:
    allowed = "an object, as guidellm writes it"
    content = parse_json(text or "{}", source=place, error=MeasurementError, allowed=allowed)
    return Fields(content, f"{place}, Backend")


def _number(text: str | None) -> Any:
    """Return the number of a cell; what is none stays text, which is refused by its column."""
    try:
        return json.loads(text or "null")
    except (RecursionError, ValueError):
        return text


def _in_flight(point: Measurement, busy: float, asked: Any) -> Measurement:
    """Return a point with its mean requests in flight, and those that were asked for."""
    stated = isinstance(asked, int) and not isinstance(asked, bool)
    most = float(asked) if stated and asked >= 1 else None
    batch_size = busy if most is None else min(busy, most)
    return replace(point, batch_size=batch_size, concurrency=most)


def client_result(fields: Fields) -> Result:
    """Return the point of a result of aiperf or genai-perf.

    Counts
        requests in flight as Little's law has them from the mean latency and the throughput, and no
        more than were asked for.
    Source
        aiperf 0.13.0, ``exporters/metrics_json_exporter.py``; genai-perf 0.0.16,
        ``export_data/json_exporter.py``.

    Raises
    ------
    MeasurementError
        For other units, a load by the clock, or one that is not said.
    """
    config = fields.inner("input_config")
    asked = _concurrency(config)
    latency_ms = _mean(fields, "request_latency", "ms")
    busy = latency_ms * MILLISECOND * _mean(fields, "request_throughput", "requests/sec")
    point = replace(
        answered(
            fields.place,
            _mean(fields, "input_sequence_length", "tokens"),
            _mean(fields, "output_sequence_length", "tokens"),
            _mean(fields, "output_token_throughput", "tokens/sec"),
        ),
        batch_size=min(busy, asked),
        concurrency=asked,
        model=_model(config),
    )
    if not fields.has(_HISTOGRAM):
        return None, point
    try:
        profile = histogram_profile([fields.value(_HISTOGRAM)], f"{fields.place}: {_HISTOGRAM}")
    except OptionError as refusal:
        raise MeasurementError(str(refusal)) from None
    return True, replace(point, tokens_per_round=profile.tokens_per_round)


def _mean(fields: Fields, key: str, unit: str) -> float:
    metric = fields.inner(key)
    if metric.value("unit") != unit:
        metric.refuse("unit", unit)
    return metric.amount("avg")


def _model(config: Fields) -> str | None:
    """Return the one model that was asked for; None where there are several."""
    names = config.value("model_names")
    if isinstance(names, list):
        return names[0] if len(names) == 1 and isinstance(names[0], str) else None
    models = config.inner("models")
    items = models.value("items")
    several = isinstance(items, list) and len(items) > 1
    return None if several else models.first("items").text_or_none("name")


def _concurrency(config: Fields) -> int:
    """Return the requests that a client keeps in flight.

    Raises
    ------
    MeasurementError
        Where they come by the clock, or it does not say.
    """
    stimulus = config.inner("perf_analyzer").inner("stimulus")
    if stimulus.has("concurrency"):
        return stimulus.count("concurrency")
    phases = config.value("phases")
    for phase in phases if isinstance(phases, list) else []:
        one = Fields(phase, f"{config.place}, phases")
        if one.value("kind") == "profiling":
            if one.value("type") != "concurrency" or one.has("concurrency_ramp"):
                one.refuse("type", f"concurrency, without a ramp: {_BY_CLOCK}")
            return one.count("concurrency")
    return reject(
        f"{config.place}: has no load with a concurrency",
        "phases of aiperf with type concurrency, or perf_analyzer, stimulus, concurrency of "
        "genai-perf",
        MeasurementError,
    )
