"""Results of clients that serve any server: guidellm, aiperf and genai-perf.

They do not say what the server drafted, but for aiperf of a vLLM server with per-request metrics.
"""

import csv
import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any, Final, Self

from pydantic import AfterValidator, create_model, model_validator

from specroof.acceptance.published.formats import histogram_profile
from specroof.arrays import real_number
from specroof.errors import MeasurementError, OptionError, reject
from specroof.evidence.measurement import Measurement, answered
from specroof.reading.checked import (
    REQUIRED,
    Amount,
    Extract,
    WholeAmount,
    accept,
    read_model,
)
from specroof.reading.json_text import parse_json
from specroof.reading.table import plain_value
from specroof.reading.yaml_text import shown
from specroof.units import MILLISECOND

#: How guidellm's CSV begins.
GUIDELLM: Final = "Run Info,"
#: guidellm's ways to send requests that keep as many in flight as they say, or all of them.
_CLOSED: Final = ("concurrent", "synchronous", "throughput")
#: Why loads by the clock are refused.
BY_CLOCK: Final = "of requests that come by the clock, how many are in flight is unknown"
_HISTOGRAM: Final = "pooled_spec_decode_acceptance_histogram"


class _Mean(Extract):
    """A mean of completed requests."""

    mean: Amount = REQUIRED


class _Statistics(Extract):
    successful: _Mean = REQUIRED


class _Totals(Extract):
    successful: WholeAmount | None = None


class _GuidellmMetrics(Extract):
    request_totals: _Totals | None = None
    prompt_token_count: _Statistics = REQUIRED
    output_token_count: _Statistics = REQUIRED
    output_tokens_per_second: _Statistics = REQUIRED
    request_concurrency: _Statistics = REQUIRED


class _GuidellmStrategy(Extract):
    type_: Annotated[
        str, accept(f"{', '.join(_CLOSED)}: {BY_CLOCK}", _CLOSED.__contains__, str)
    ] = REQUIRED
    streams: Any = None


class _GuidellmBackend(Extract):
    model: str | None = None


class _GuidellmConfig(Extract):
    strategy: _GuidellmStrategy = REQUIRED
    backend: _GuidellmBackend | None = None


class _GuidellmBenchmark(Extract):
    config: _GuidellmConfig = REQUIRED
    metrics: _GuidellmMetrics = REQUIRED


class _GuidellmMetadata(Extract):
    version: Annotated[
        int, accept("2, of a report of guidellm from 0.6 on", lambda version: version == 2, int)
    ] = REQUIRED
    guidellm_version: Annotated[Any, accept("a release of guidellm", bool, object)] = REQUIRED


class _GuidellmReport(Extract):
    """A report of guidellm, one benchmark for each load."""

    metadata: _GuidellmMetadata = REQUIRED
    benchmarks: list[_GuidellmBenchmark] = REQUIRED


def guidellm_results(content: dict[str, Any], place: str) -> list[Measurement]:
    """Return the points of a report of guidellm, one for each load.

    Parameters
    ----------
    content
        The report.
    place
        How messages name the file, and the line.

    Counts
        completed requests; requests in flight as the client measured them.
    Source
        guidellm 0.8.1, ``benchmark/schemas/report.py`` and ``metrics.py``.

    Raises
    ------
    MeasurementError
        For another report, or loads that come by the clock.
    """
    report = read_model(content, _GuidellmReport, place=place, error=MeasurementError)
    points = list[Measurement]()
    for number, benchmark in enumerate(report.benchmarks, start=1):
        metrics, strategy = benchmark.metrics, benchmark.config.strategy
        streams = 1 if strategy.type_ == "synchronous" else strategy.streams
        backend = benchmark.config.backend
        point = replace(
            answered(
                f"{place}, benchmark {number}",
                metrics.prompt_token_count.successful.mean,
                metrics.output_token_count.successful.mean,
                metrics.output_tokens_per_second.successful.mean,
            ),
            model=None if backend is None else backend.model,
            requests=None if metrics.request_totals is None else metrics.request_totals.successful,
        )
        busy = metrics.request_concurrency.successful.mean
        points.append(_in_flight(point, busy, streams))
    return points


#: Columns of guidellm's CSV, all means of completed requests, by what messages call them.
_MEANS: Final[Mapping[str, tuple[str, str, str]]] = {
    "Input Tokens": ("Token Metrics", "Successful Input Tokens", "Mean"),
    "Output Tokens": ("Token Metrics", "Successful Output Tokens", "Mean"),
    "Output Tokens/Sec": ("Token Throughput", "Successful Output Tokens/Sec", "Mean"),
    "Concurrency": ("Server Throughput", "Successful Concurrency", "Mean"),
}
_FIELDS: Final[dict[str, Any]] = dict.fromkeys(_MEANS, (Amount, REQUIRED))
_GuidellmRow: Final = create_model("_GuidellmRow", __base__=Extract, **_FIELDS)


def guidellm_table(text: str, source: str) -> list[Measurement]:
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
    if twice := [name for name, times in Counter(names).items() if times > 1]:
        column = " ".join(filter(None, twice[0]))
        reject(f"{source}: has two columns of {column}", "one", MeasurementError)
    points = list[Measurement]()
    for number, row in enumerate(rows[3:], start=4):
        # A column of a later load is empty in the rows of others.
        cells = dict(zip(names, row, strict=False))
        place = f"{source}, line {number}"
        strategy = cells.get(("Benchmark", "Strategy", ""), "")
        way, _, streams = strategy.partition("@")
        if way not in _CLOSED:
            reject(
                f"{place}: Strategy is {strategy[:60]!r}",
                f"{', '.join(_CLOSED)}: {BY_CLOCK}",
                MeasurementError,
            )
        means = {
            name: plain_value(cells.get(column, "")) or None for name, column in _MEANS.items()
        }
        read = read_model(means, _GuidellmRow, place=place, error=MeasurementError).model_dump()
        busy = read.pop("Concurrency")
        backend = parse_json(
            cells.get(("Run Info", "Backend", ""), "") or "{}",
            source=place,
            error=MeasurementError,
            allowed="an object, as guidellm writes it",
        )
        model = read_model(
            backend, _GuidellmBackend, place=f"{place}, Backend", error=MeasurementError
        ).model
        concurrency = 1 if way == "synchronous" else plain_value(streams)
        point = replace(answered(place, *read.values()), model=model)
        points.append(_in_flight(point, busy, concurrency))
    return points


def _in_flight(point: Measurement, busy: float, concurrency: Any) -> Measurement:
    """Return a point with its mean requests in flight, and the stated concurrency.

    Nothing is said of drafts.
    """
    limit = real_number(concurrency)
    most = limit if 1 <= limit < math.inf else None
    batch_size = busy if most is None else min(busy, most)
    return replace(point, batch_size=batch_size, concurrency=most, says_drafts=False)


# --- aiperf and genai-perf -----------------------------------------------------------------------


class _Metric(Extract):
    unit: Any = None
    avg: Amount = REQUIRED


def _in_unit(unit: str) -> AfterValidator:
    """Return a validator of metrics that are in a unit."""

    def check(metric: _Metric) -> _Metric:
        if metric.unit != unit:
            message = f"unit is {shown(metric.unit)}; allowed: {unit}"
            raise ValueError(message)
        return metric

    return AfterValidator(check)


class _Stimulus(Extract):
    concurrency: WholeAmount | None = None


class _PerfAnalyzer(Extract):
    stimulus: _Stimulus | None = None


class _Phase(Extract):
    """A phase of aiperf, of which the profiling one counts."""

    kind: str | None = None
    type: str | None = None
    concurrency: WholeAmount | None = None
    concurrency_ramp: Any = None

    @model_validator(mode="after")
    def _load_is_constant(self) -> Self:
        if self.kind != "profiling":
            return self
        if self.type != "concurrency" or "concurrency_ramp" in self.model_fields_set:
            message = (
                f"type is {shown(self.type)}; allowed: concurrency, without a ramp: {BY_CLOCK}"
            )
            raise ValueError(message)
        if self.concurrency is None:
            message = "concurrency is empty; allowed: a whole number of at least 1"
            raise ValueError(message)
        return self


class _ModelName(Extract):
    name: str | None = None


class _Models(Extract):
    items: list[_ModelName] | None = None


class _InputConfig(Extract):
    model_names: list[Any] | None = None
    models: _Models | None = None
    perf_analyzer: _PerfAnalyzer | None = None
    phases: list[_Phase] | None = None

    @model_validator(mode="after")
    def _load_is_said(self) -> Self:
        if self.concurrency is None:
            message = (
                "phases has no load with a concurrency; allowed: phases of aiperf with type "
                "concurrency, or perf_analyzer.stimulus.concurrency of genai-perf"
            )
            raise ValueError(message)
        return self

    @property
    def model(self) -> str | None:
        """The one model that was asked for; None where there are several."""
        names = self.model_names
        if names is None:
            items = None if self.models is None else self.models.items
            names = [item.name for item in items or ()]
        return names[0] if len(names) == 1 and isinstance(names[0], str) else None

    @property
    def concurrency(self) -> int | None:
        """Requests that the client keeps in flight; None where nothing says it."""
        tool = self.perf_analyzer
        if tool is not None and tool.stimulus is not None and tool.stimulus.concurrency is not None:
            return tool.stimulus.concurrency
        profiling = (phase for phase in self.phases or () if phase.kind == "profiling")
        return next((phase.concurrency for phase in profiling), None)


class ClientResult(Extract):
    """A result of aiperf or genai-perf.

    Source
        aiperf 0.13.0, ``exporters/metrics_json_exporter.py``; genai-perf 0.0.16,
        ``export_data/json_exporter.py``.
    """

    input_config: _InputConfig = REQUIRED
    request_latency: Annotated[_Metric, _in_unit("ms")] = REQUIRED
    request_throughput: Annotated[_Metric, _in_unit("requests/sec")] = REQUIRED
    input_sequence_length: Annotated[_Metric, _in_unit("tokens")] = REQUIRED
    output_sequence_length: Annotated[_Metric, _in_unit("tokens")] = REQUIRED
    output_token_throughput: Annotated[_Metric, _in_unit("tokens/sec")] = REQUIRED
    request_count: _Metric | None = None
    pooled_spec_decode_acceptance_histogram: Any = None

    def point(self, place: str) -> Measurement:
        """Return the measured point.

        Parameters
        ----------
        place
            How messages name the file, and the line.

        Counts
            requests in flight as Little's law has them from the mean latency and the throughput,
            and no more than were asked for.

        Raises
        ------
        MeasurementError
            For a histogram of acceptance that is none.
        """
        concurrency = self.input_config.concurrency or math.inf  # never none: see `_InputConfig`
        lengths = self.input_sequence_length.avg, self.output_sequence_length.avg
        point = replace(
            answered(place, *lengths, self.output_token_throughput.avg),
            batch_size=min(
                self.request_latency.avg * MILLISECOND * self.request_throughput.avg, concurrency
            ),
            concurrency=concurrency,
            requests=None if self.request_count is None else round(self.request_count.avg),
            model=self.input_config.model,
        )
        if _HISTOGRAM not in self.model_fields_set:
            return replace(point, says_drafts=False)
        try:
            histogram = self.pooled_spec_decode_acceptance_histogram
            profile = histogram_profile([histogram], f"{place}: {_HISTOGRAM}")
        except OptionError as refusal:
            raise MeasurementError(str(refusal)) from None
        return replace(point, draft_len=None, tokens_per_round=profile.tokens_per_round)
