"""Benchmark results as people have them: of servers' and other clients, or their own CSV."""

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from statistics import median, pstdev
from typing import Annotated, Any, Final, Self

from pydantic import AfterValidator, model_validator

from specroof import quantities as q
from specroof.errors import MeasurementError, reject
from specroof.evidence.clients import (
    BY_CLOCK,
    GUIDELLM,
    ClientResult,
    guidellm_results,
    guidellm_table,
)
from specroof.evidence.measurement import (
    NAMES,
    STEP,
    Measurement,
    answered,
    plausible,
    refuse_repeats,
)
from specroof.evidence.server_info import SglangServer
from specroof.reading.checked import (
    REQUIRED,
    Amount,
    Extract,
    WholeAmount,
    WholeAmountOrZero,
    accept,
    read_model,
    within,
)
from specroof.reading.json_text import json_values
from specroof.reading.table import parse_table, plain_value
from specroof.reading.yaml_text import shown
from specroof.units import MILLISECOND, NANOSECOND, Bounds

#: How devices may share the work of a result.
_ONE_GROUP: Final = "tensor parallelism alone, which is all that can be read"


class _TableRow(Extract):
    """A row of a user's own table: a result, or a timed pass."""

    batch_size: Amount = REQUIRED
    context_len: Amount | None = None
    draft_len: WholeAmountOrZero | None = None
    tokens_per_s: Amount | None = None
    tpot_ms: Amount | None = None
    acceptance_length: Amount | None = None
    input_len: Amount | None = None
    output_len: Amount | None = None
    positions: Annotated[WholeAmount, within(Bounds(0, 100_000_000), yaml=False)] | None = None
    pass_s: Annotated[Amount, within(Bounds(0, 86400), yaml=False)] | None = None


_NEEDED: Final = ("batch_size", "draft_len", q.TOKENS_PER_S.name)
#: Prompts that share passes with tokens slow them down: a TPOT is of a decoding batch alone.
_NOT_BESIDE_TPOT: Final = (q.TOKENS_PER_S.name, "input_len", "output_len")
#: What a row of a timed pass has, and nothing else.
_OF_PASSES: Final = ("batch_size", "context_len", "positions", "pass_s")


def read_benchmark(
    text: str, *, source: str, draft_len: int | None = None
) -> tuple[Measurement, ...]:
    r"""Return the points of a benchmark file.

    Parameters
    ----------
    text
        The whole file: a CSV with the columns batch_size, context_len, draft_len, tokens_per_s
        and, if known, acceptance_length, input_len and output_len; tpot_ms, the milliseconds of a
        token of each sequence, in the place of tokens_per_s; in rows of timed passes
        positions and pass_s instead of draft_len and tokens_per_s; or JSON, one result or one a
        line, of SGLang's ``bench_serving``, vLLM's ``bench serve --save-result``, InferenceX,
        aiperf, genai-perf, guidellm, ``llama-bench -o json``,
        ``llama-batched-bench --output-format jsonl`` or the script of ``specroof measure``; or
        guidellm's CSV; or what the clients of SGLang and vLLM print, one table or several.
    source
        How messages name it: a path, usually.
    draft_len
        Drafts per round of speculative results that do not say, and of results that do not say
        whether anything was drafted, unless others of the file do.

    Raises
    ------
    MeasurementError
        One line with the source, the line number, the key, the value and what is allowed.

    Examples
    --------
    >>> table = "batch_size,context_len,draft_len,tokens_per_s\n8,4096,0,900\n"
    >>> read_benchmark(table, source="mine.csv")[0].tokens_per_s
    900.0
    """
    if not text.strip():
        message = f"{source}: is empty; must hold benchmark results, as JSON or CSV"
        raise MeasurementError(message)
    results: Iterable[Measurement]
    if _HEADING.search(text):
        results = [*_printed_results(text, source)]
    elif text.lstrip()[0] in "{[":
        results = [
            result
            for place, value in json_values(text, source=source, error=MeasurementError)
            for result in _results(value, place)
        ]
    elif text.startswith(GUIDELLM):
        results = guidellm_table(text, source)
    else:
        for tool in NAMES["unreadable_texts"]:
            if tool["begins"] in text[:_BEGINNING]:
                reject(f"{source}: is {tool['is']}", tool["instead"], MeasurementError)
        results = _table_points(text, source)
    points = [replace(_with_drafts(point, draft_len), source=source) for point in results]
    if not points:
        message = f"{source}: is an empty list; must hold benchmark results"
        raise MeasurementError(message)
    refuse_repeats(points)
    return tuple(points)


def _table_points(text: str, source: str) -> Iterator[Measurement]:
    names = next((line for line in text.splitlines() if line.strip() and line[0] != "#"), "")
    given = {name.strip() for name in names.split(",")}
    needed = ("batch_size",) if given & {"pass_s", "tpot_ms"} else _NEEDED
    columns = tuple(_TableRow.model_fields)
    for place, cells in parse_table(text, source=source, columns=columns, needed=needed):
        row = read_model(cells, _TableRow, place=place, error=MeasurementError)
        if row.pass_s is not None or row.positions is not None:
            yield _pass(row, place)
            continue
        draft_len, tokens_per_s = row.draft_len, row.tokens_per_s
        if row.tpot_ms is not None:
            beside = next((name for name in _NOT_BESIDE_TPOT if getattr(row, name)), None)
            if beside is not None:
                message = f"{place}: tpot_ms stands beside {beside}; must have one of them"
                raise MeasurementError(message)
            tokens_per_s = row.batch_size / (row.tpot_ms * MILLISECOND)
        if draft_len is None or tokens_per_s is None:
            name = "draft_len" if draft_len is None else q.TOKENS_PER_S.name
            message = f"{place}: {name} is empty; needed, or pass_s and positions of a pass"
            raise MeasurementError(message)
        point = Measurement(place=place, context_len=row.context_len, tokens_per_s=tokens_per_s)
        if row.input_len is not None and row.output_len is not None:
            point = answered(place, row.input_len, row.output_len, tokens_per_s)
            point = replace(point, context_len=row.context_len or point.context_len)
        elif row.input_len is not None or row.output_len is not None:
            message = f"{place}: has one of input_len and output_len; must have both or neither"
            raise MeasurementError(message)
        elif row.context_len is None:
            message = f"{place}: context_len is empty; needed, or input_len and output_len"
            raise MeasurementError(message)
        yield replace(
            point,
            batch_size=row.batch_size,
            draft_len=draft_len,
            tokens_per_round=row.acceptance_length,
        )


def _pass(row: _TableRow, place: str) -> Measurement:
    """Return a row of a timed pass: so many new positions of each sequence, and its seconds."""
    if row.context_len is None or row.positions is None or row.pass_s is None:
        missing = next(name for name in _OF_PASSES if getattr(row, name) is None)
        message = f"{place}: {missing} is empty; a timed pass needs {', '.join(_OF_PASSES)}"
        raise MeasurementError(message)
    for name in _TableRow.model_fields:
        value = getattr(row, name)
        # A table of both has 0 drafts in rows of passes, or none.
        if value and name not in _OF_PASSES:
            message = (
                f"{place}: {name} is {value:g} beside pass_s; allowed in a row of a timed pass: "
                f"{', '.join(_OF_PASSES)}"
            )
            raise MeasurementError(message)
    return Measurement(
        place=place,
        method=STEP,
        batch_size=row.batch_size,
        context_len=row.context_len,
        verify_len=row.positions,
        tokens_per_s=row.batch_size / row.pass_s,
    )


def _results(content: Any, place: str) -> list[Measurement]:
    """Return what a JSON object holds, by the tool whose keys it has."""
    if not isinstance(content, dict):
        reject(f"{place}: is {shown(content)}", "a JSON object", MeasurementError)
    if "benchmarks" in content:
        return guidellm_results(content, place)
    for keys, kind in _TOOLS.items():
        if all(key in content for key in keys):
            return [read_model(content, kind, place=place, error=MeasurementError).point(place)]
    for tool in NAMES["unreadable"]:
        if all(key in content for key in tool["keys"]):
            reject(f"{place}: is {tool['is']}", tool["instead"], MeasurementError)
    known = "; ".join(" and ".join(keys) for keys in (*_TOOLS, ("benchmarks",)))
    return reject(
        f"{place}: has no keys of a tool that is known (SGLang, vLLM, InferenceX, aiperf, "
        f"genai-perf, guidellm, llama.cpp)",
        known,
        MeasurementError,
    )


def _with_drafts(point: Measurement, draft_len: int | None) -> Measurement:
    """Return a point whose drafts are as it says, or as the user states where it does not."""
    if not point.says_drafts:
        return plausible(replace(point, draft_len=draft_len or 0))
    if point.draft_len is None:
        if draft_len is None:
            message = f"{point.place}: drafts, and does not say how many; give --draft-len"
            raise MeasurementError(message)
        point = replace(point, draft_len=draft_len)
    return plausible(point)


# --- Clients of SGLang and vLLM ------------------------------------------------------------------


class _Served(Extract):
    """The keys that SGLang's and vLLM's clients share."""

    backend: str | None = None
    completed: WholeAmount = REQUIRED
    duration: Amount = REQUIRED
    output_throughput: Amount = REQUIRED
    total_input_tokens: Amount = REQUIRED
    total_output_tokens: Amount = REQUIRED
    max_running_requests: WholeAmount | None = None
    # Of requests that come by the clock, those in flight are not those that were asked for.
    request_rate: (
        Annotated[
            Any,
            accept(f"inf: {BY_CLOCK}", lambda rate: rate in {"inf", math.inf}, str, int, float),
        ]
        | None
    ) = None
    ramp_up_strategy: Annotated[str, accept(f"left out: {BY_CLOCK}", lambda _: False)] | None = None

    @model_validator(mode="after")
    def _rates_agree(self) -> Self:
        made = self.total_output_tokens / self.duration
        if not 0.98 <= self.output_throughput * self.duration / self.total_output_tokens <= 1.02:
            message = (
                f"output_throughput is {self.output_throughput:g}, and total_output_tokens / "
                f"duration {made:g}; must agree: tokens and seconds, not other units"
            )
            raise ValueError(message)
        return self

    def answered(self, place: str) -> Measurement:
        """Return a point with the mean request and the throughput."""
        prompt, answer = (
            tokens / self.completed
            for tokens in (self.total_input_tokens, self.total_output_tokens)
        )
        point = answered(place, prompt, answer, self.output_throughput)
        return replace(point, requests=int(self.completed))


def _not_in_groups(switch: Any) -> Any:
    """Refuse a switch that is on; releases differ in whether they spell it as text."""
    if str(switch).casefold() == "true":
        message = f"is {shown(switch)}; allowed: {_ONE_GROUP}"
        raise ValueError(message)
    return switch


#: Devices must all work on the same sequences and layers.
_OneGroup = Annotated[int, accept(_ONE_GROUP, lambda groups: groups == 1, int, yaml=False)]
#: What a router says of its workers for prompts, or for decoding: nothing where there are none.
_Workers = Annotated[list[Any], accept(f"none: {_ONE_GROUP}", lambda workers: not workers, list)]


class _SglangServer(SglangServer):
    """What SGLang's server was told, or resolved, where its devices are one group."""

    dp_size: _OneGroup | None = None
    attn_dp_size: _OneGroup | None = None
    pp_size: _OneGroup | None = None
    enable_dp_attention: Annotated[bool, AfterValidator(_not_in_groups)] | None = None
    prefill: _Workers | None = None
    decode: _Workers | None = None


class _SglangResult(_Served):
    """A line of SGLang's `bench_serving` (0.5.23): `concurrency` is the measured mean."""

    concurrency: Amount | None = None
    max_concurrency: Amount | None = None
    accept_length: Amount | None = None
    server_info: _SglangServer | None = None

    @model_validator(mode="after")
    def _load_is_said(self) -> Self:
        limit, busy = self.max_concurrency, self.concurrency
        if busy is None and limit is None:
            message = "max_concurrency is empty; allowed: a finite number above 0"
            raise ValueError(message)
        if busy is not None and limit is not None and busy > limit:
            message = f"concurrency is {busy:g}; allowed: at most max_concurrency, {limit:g}"
            raise ValueError(message)
        return self

    def point(self, place: str) -> Measurement:
        """Return the measured point."""
        server = self.server_info or _SglangServer()
        tokens, concurrency = self.accept_length, self.max_concurrency
        # A server that drafts makes no plain run, although the client did not ask for acceptance.
        speculative = tokens is not None or server.speculative_algorithm is not None
        # No more are in flight than there were, and than the server runs at a time; the others
        # wait. SGLang's arguments say 48 where it drafts and was told nothing; the state of its
        # scheduler says what its memory leaves of that.
        limits = (self.completed, self.max_running_requests, server.max_running_requests)
        most = min(limit for limit in (*limits, server.scheduled) if limit is not None)
        return replace(
            self.answered(place),
            batch_size=min(self.concurrency or concurrency or math.nan, most),  # one is there
            concurrency=None if concurrency is None else min(concurrency, self.completed),
            draft_len=(server.draft_len or None) if speculative else 0,
            # The client asks no other server for acceptance, so that a line without SGLang's
            # arguments is silent on drafts.
            says_drafts=speculative or server.model_path is not None,
            tokens_per_round=tokens,
            engine=_SERVERS.get(self.backend or "sglang"),
            model=server.model_path,
            tensor_parallel=server.tp_size,
            expert_parallel=server.ep_size,
            method=server.speculative_algorithm,
            top_k=server.speculative_eagle_topk if speculative else None,
            quantization=server.quantization,
            kv_cache=server.kv_cache_dtype,
            server=server.settings,
        )


#: From sending a request to its last token; 0 of one that failed.
_LatencySeconds = Annotated[float, within(Bounds(0, 86400), yaml=False)]


class _VllmResult(_Served):
    """A result of `vllm bench serve --save-result` (0.33.0)."""

    model_id: str | None = None
    max_concurrency: Amount = REQUIRED
    latencies: list[_LatencySeconds] | None = None
    mean_ttft_ms: Amount | None = None
    mean_tpot_ms: Amount | None = None
    spec_decode_acceptance_length: Amount | None = None
    spec_decode_num_drafts: WholeAmount | None = None
    spec_decode_draft_tokens: WholeAmount | None = None

    @property
    def in_flight(self) -> float:
        """Mean requests in flight, by Little's law; infinite where the file states no times."""
        if self.latencies:
            return sum(self.latencies) / self.duration
        if self.mean_ttft_ms is None or self.mean_tpot_ms is None:
            return math.inf
        later = self.total_output_tokens / self.completed - 1.0
        latency_s = (self.mean_ttft_ms + later * self.mean_tpot_ms) * MILLISECOND
        return self.completed * latency_s / self.duration

    def point(self, place: str) -> Measurement:
        """Read a result of `vllm bench serve --save-result` (0.33.0).

        Counts
            rounds without drafts too, such as those of look-ups that find no match: an answer has
            one token of its prompt's pass and one of every round, beside the accepted drafts.
        Ignores
            that the server counts accepted drafts beyond the end of an answer, too: fewer than
            those of a round for each request. Where that hides all rounds without drafts, its mean
            stands. Without latencies, which older releases do not save, that long answers may have
            another time per token than short ones.
        """
        tokens = self.spec_decode_acceptance_length
        rounds, drafted = self.spec_decode_num_drafts, self.spec_decode_draft_tokens
        drafts = round(drafted / rounds) if drafted and rounds else 0
        if tokens is not None and drafts:
            # The mean of drafts that vary may be below what the longest of them give.
            drafts = max(drafts, math.ceil(tokens - 1.0))
        clients = min(self.max_concurrency, self.completed)
        most = min(clients, self.max_running_requests or clients)
        if tokens is not None and rounds:
            decoded = self.total_output_tokens - self.completed
            # The server's mean is over rounds that drafted.
            every_round = decoded - (tokens - 1.0) * rounds
            if every_round > rounds:
                tokens = decoded / every_round
        return replace(
            self.answered(place),
            batch_size=min(self.in_flight, most),
            concurrency=clients,
            draft_len=drafts or None,
            # Without keys the server did not draft, or publishes no metrics, or is another server.
            says_drafts=tokens is not None,
            tokens_per_round=tokens,
            engine=_SERVERS.get(self.backend or "", "vllm"),
            model=self.model_id,
        )


# --- What the clients of SGLang and vLLM print ----------------------------------------------------

_HEADING: Final = re.compile(r"^=+ Serving Benchmark Result =+[ \t\r]*$", re.MULTILINE)
_END: Final = re.compile(r"^=+[ \t\r]*$", re.MULTILINE)
_ROW: Final = re.compile(r"^(\S[^:\n]*):[ \t]+(\S.*?)[ \t\r]*$", re.MULTILINE)
#: The arguments of a client, which both print before they begin.
_ARGUMENT: Final = re.compile(r"\b(model|backend)='([^'\n]+)'")
_RAMP_UP: Final = re.compile(r"^Traffic ramp-up strategy: (\w+)", re.MULTILINE)
#: Rows of the tables, by the keys of the same client's JSON.
_PRINTED: Final[Mapping[str, str]] = NAMES["printed"]
_UNSET: Final = "not set"


def _printed_results(text: str, source: str) -> Iterator[Measurement]:
    """Yield the result of each table, read as the JSON of the client that printed it.

    Ignores
        digits that a table drops: it has two behind the point.

    Raises
    ------
    MeasurementError
        For a table that ends early, and as the client's JSON does.
    """
    arguments: dict[str, str] = {}
    after = 0
    for heading in _HEADING.finditer(text):
        place = f"{source}, line {text.count(chr(10), 0, heading.start()) + 1}"
        end = _END.search(text, heading.end())
        if end is None:
            reject(f"{place}: the table has no end", "a line of = below it", MeasurementError)
        before = text[after : heading.start()]
        after = end.end()
        for line in before.splitlines():
            if "amespace(" in line:
                arguments = dict(_ARGUMENT.findall(line))
        rows = _ROW.findall(text, heading.end(), end.start())
        content: dict[str, Any] = {
            _PRINTED[row]: plain_value(value)
            for row, value in rows
            if row in _PRINTED and value != _UNSET
        }
        kind: Any = _SglangResult
        if "backend" not in content:
            kind, ramp_up = _VllmResult, _RAMP_UP.search(before)
            content |= {"backend": arguments.get("backend")}
            content |= {"ramp_up_strategy": ramp_up[1]} if ramp_up else {}
        result = read_model(content, kind, place=place, error=MeasurementError)
        yield replace(result.point(place), model=arguments.get("model"))


# --- InferenceX ----------------------------------------------------------------------------------


class _InferencexResult(Extract):
    """An aggregated InferenceX result: rates per GPU, and no acceptance length."""

    conc: Amount = REQUIRED
    tp: WholeAmount = REQUIRED
    ep: WholeAmount | None = None
    isl: Amount = REQUIRED
    osl: Amount = REQUIRED
    output_tput_per_gpu: Amount = REQUIRED
    dp_attention: Annotated[Any, AfterValidator(_not_in_groups)] = None
    spec_decoding: str | None = None
    framework: str | None = None
    model: str | None = None
    precision: str | None = None

    def point(self, place: str) -> Measurement:
        """Return the measured point."""
        algorithm = self.spec_decoding
        drafting = algorithm not in {None, "none", ""}
        return replace(
            answered(place, self.isl, self.osl, self.output_tput_per_gpu * self.tp),
            batch_size=self.conc,
            engine=_SERVERS.get(self.framework or ""),
            model=self.model,
            tensor_parallel=self.tp,
            expert_parallel=self.ep,
            method=algorithm if drafting else None,
            draft_len=None if drafting else 0,
            quantization=self.precision,
        )


#: Repetitions on a machine that does nothing else deviate by less, as a share of their median.
_UNSTEADY: Final = 0.2


#: Of a pass: up to a day.
_Nanoseconds = Annotated[float, within(Bounds(1, 86400e9), yaml=False)]


class _LlamaBench(Extract):
    """A test of llama.cpp's `llama-bench -o json`: a pass over so many tokens, or decoding."""

    n_prompt: WholeAmountOrZero = REQUIRED
    n_gen: WholeAmountOrZero = REQUIRED
    n_depth: WholeAmountOrZero = 0
    n_ubatch: WholeAmount = 512
    model_filename: str = ""
    model_n_params: WholeAmount | None = None
    model_size: WholeAmount | None = None
    type_k: str | None = None
    type_v: str | None = None
    gpu_info: str | None = None
    n_gpu_layers: int | None = None
    split_mode: str | None = None
    avg_ns: _Nanoseconds = REQUIRED
    samples_ns: list[_Nanoseconds] | None = None

    def point(self, place: str) -> Measurement:
        """Return the measured point."""
        tokens = self.n_prompt or self.n_gen
        if (self.n_prompt > 0) == (self.n_gen > 0) or self.n_prompt > self.n_ubatch:
            reject(
                f"{place}: n_prompt is {self.n_prompt} and n_gen {self.n_gen}",
                f"one of them, and a prompt of at most n_ubatch, {self.n_ubatch}: -p 1,2,4,8,16 -n 128",
                MeasurementError,
            )
        gpus = (self.gpu_info or "").split(", ")
        # A GPU of another kind beside is often that of a processor, which takes no layers.
        if len(set(gpus)) < len(gpus) and self.split_mode != "none":
            reject(
                f"{place}: gpu_info is {shown(self.gpu_info)}, which share the layers",
                "one of them: -sm none",
                MeasurementError,
            )
        layers: float | None = self.n_gpu_layers
        if layers is not None and layers < 0:  # all of them
            layers = math.inf
        is_pass = self.n_prompt > 0
        samples = self.samples_ns or [self.avg_ns]
        spread = pstdev(samples) / median(samples)
        caches = {name for name in (self.type_k, self.type_v) if name}
        return Measurement(
            place=place,
            file=self.model_filename,
            model_params=self.model_n_params,
            model_bytes=self.model_size,
            kv_cache=" and ".join(sorted(caches)) or None,
            gpus=self.gpu_info,
            gpu_layers=0 if self.gpu_info == "" else layers,
            method=STEP if is_pass else None,
            batch_size=1.0,
            # A bare pass has what is cached before it; decoding, on average, half of its own too.
            context_len=max(self.n_depth + (0.0 if is_pass else tokens / 2), 1.0),
            verify_len=tokens if is_pass else None,
            head_len=1 if is_pass else None,  # logits of the last token alone
            tokens_per_s=(1.0 if is_pass else tokens) / (median(samples) * NANOSECOND),
            engine="llama.cpp",
            note=f"its repetitions differ by {spread:.0%}" if spread > _UNSTEADY else "",
        )


class _LlamaBatchedBench(Extract):
    """A line of llama.cpp's `llama-batched-bench --output-format jsonl`: decoding in parallel."""

    pp: WholeAmountOrZero = REQUIRED
    tg: WholeAmount = REQUIRED
    pl: WholeAmount = REQUIRED
    speed_tg: Amount = REQUIRED

    def point(self, place: str) -> Measurement:
        """Return the measured point."""
        return Measurement(
            place=place,
            batch_size=self.pl,
            context_len=self.pp + self.tg / 2,
            tokens_per_s=self.speed_tg,
            engine="llama.cpp",
        )


class _TimedPass(_TableRow):
    """A line of `specroof.evidence.time_passes`: a row of a table, and the library."""

    tool: str = REQUIRED

    def point(self, place: str) -> Measurement:
        """Return the measured point."""
        if self.tool not in _TIMED:
            reject(f"{place}: tool is {shown(self.tool)}", ", ".join(_TIMED), MeasurementError)
        return replace(_pass(self, place), engine=_TIMED[self.tool])


#: Engines of hardware files, by what benchmarks call them: `--backend` of SGLang's, and `framework`
#: of InferenceX.
_SERVERS: Final[Mapping[str, str]] = NAMES["servers"]
#: Engines by what lines of timed passes call the software.
_TIMED: Final[Mapping[str, str]] = NAMES["timed"]

#: The keys that tell the tools apart, and the results that have them; each has a `point`.
_TOOLS: Final[Mapping[tuple[str, ...], Any]] = {
    ("output_throughput", "model_id"): _VllmResult,
    ("output_throughput", "total_output_tokens"): _SglangResult,
    ("output_tput_per_gpu", "conc"): _InferencexResult,
    ("output_token_throughput", "input_config"): ClientResult,
    ("n_prompt", "n_gen", "avg_ns"): _LlamaBench,
    ("pp", "tg", "pl", "speed_tg"): _LlamaBatchedBench,
    ("tool", "positions", "pass_s"): _TimedPass,
}
#: Characters of a text in which a tool is looked for.
_BEGINNING: Final = 4096
