"""Benchmark results as people have them: of servers' and other clients, or their own CSV."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from specroof.errors import MeasurementError, reject
from specroof.evidence.clients import (
    GUIDELLM,
    Result,
    client_result,
    guidellm_results,
    guidellm_table,
)
from specroof.evidence.measurement import STEP, Measurement, answered, checked, refuse_repeats
from specroof.hardware import ServerSettings
from specroof.reading.json_text import Fields, json_values
from specroof.reading.table import amount, count, parse_table


def _drafts(text: str) -> int:
    """Return a whole number of at least 0."""
    if text == "0":
        return 0
    try:
        return count(text)
    except ValueError:
        message = "a whole number of at least 0"
        raise ValueError(message) from None


_COLUMNS: Final = {
    "batch_size": amount,
    "context_len": amount,
    "draft_len": _drafts,
    "tokens_per_s": amount,
    "acceptance_length": amount,
    "input_len": amount,
    "output_len": amount,
    "positions": count,
    "pass_s": amount,
}
_NEEDED: Final = ("batch_size", "draft_len", "tokens_per_s")
#: What a row of a timed pass has, and nothing else.
_OF_PASSES: Final = ("batch_size", "context_len", "positions", "pass_s")


#: How devices may share the work of a result.
_ONE_GROUP: Final = "tensor parallelism alone, which is all that can be read"


def read_benchmark(
    text: str, *, source: str, draft_len: int | None = None
) -> tuple[Measurement, ...]:
    r"""Return the points of a benchmark file.

    Parameters
    ----------
    text
        The whole file: a CSV with the columns batch_size, context_len, draft_len, tokens_per_s
        and, if known, acceptance_length, input_len and output_len; in rows of timed passes
        positions and pass_s instead of draft_len and tokens_per_s; or JSON, one result or one a
        line, of SGLang's ``bench_serving``, vLLM's ``bench serve --save-result``, InferenceX,
        aiperf, genai-perf or guidellm; or guidellm's CSV.
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
    if text.lstrip()[0] in "{[":
        results = [
            result
            for place, value in json_values(text, source=source, error=MeasurementError)
            for result in _results(Fields(value, place))
        ]
    elif text.startswith(GUIDELLM):
        results = guidellm_table(text, source)
    else:
        _refuse_unreadable(text, source)
        results = [(point.draft_len != 0, point) for point in _table_points(text, source)]
    if not results:
        message = f"{source}: is an empty list; must hold benchmark results"
        raise MeasurementError(message)
    points = [
        replace(_with_drafts(drafts, point, draft_len), source=source) for drafts, point in results
    ]
    refuse_repeats(points)
    return tuple(points)


def stated_drafts(points: Sequence[Measurement]) -> tuple[tuple[Measurement, ...], list[str]]:
    """Return points of several files once those that say nothing of drafts are settled.

    Beside results that say that they drafted, those that do not say did not: vLLM's client writes
    of drafts what a server that drafts counts.

    Returns
    -------
    tuple
        The points, and a note where nobody says whether anything was drafted.
    """
    silent = [point for point in points if not point.says_drafts]
    if any(point.says_drafts and point.drafts for point in points):
        return tuple(
            point if point.says_drafts else replace(point, draft_len=0) for point in points
        ), []
    plain = [point.place for point in silent if not point.drafts]
    if not plain:
        return tuple(points), []
    more = f" and {len(plain) - 1} more" if len(plain) > 1 else ""
    return tuple(points), [
        f"{plain[0]}{more}: does not say whether anything was drafted, and is taken for plain "
        f"decoding; if it drafted, state the draft length"
    ]


def _table_points(text: str, source: str) -> Iterator[Measurement]:
    names = next((line for line in text.splitlines() if line.strip() and line[0] != "#"), "")
    has_passes = "pass_s" in [name.strip() for name in names.split(",")]
    needed = ("batch_size",) if has_passes else _NEEDED
    for number, row in parse_table(text, source=source, readers=_COLUMNS, needed=needed):
        place = f"{source}, line {number}"
        if row.get("pass_s") is not None or row.get("positions") is not None:
            yield _pass(row, place, source)
            continue
        for name in _NEEDED:
            if row.get(name) is None:
                message = f"{place}: {name} is empty; needed, or pass_s and positions of a pass"
                raise MeasurementError(message)
        prompt, answer = row.get("input_len"), row.get("output_len")
        if (prompt is None) != (answer is None):
            message = f"{place}: has one of input_len and output_len; must have both or neither"
            raise MeasurementError(message)
        context = row.get("context_len")
        if context is None:
            if prompt is None or answer is None:
                message = f"{place}: context_len is empty; needed, or input_len and output_len"
                raise MeasurementError(message)
            context = prompt + answer / 2
        yield checked(
            Measurement(
                place=place,
                source=source,
                batch_size=row["batch_size"],
                context_len=context,
                tokens_per_s=row["tokens_per_s"],
                draft_len=row["draft_len"],
                tokens_per_round=row.get("acceptance_length"),
                input_len=prompt,
                output_len=answer,
                includes_prefill=prompt is not None,
            )
        )


def _pass(row: Mapping[str, Any], place: str, source: str) -> Measurement:
    """Return a row of a timed pass: so many new positions of each sequence, and its seconds."""
    for name in _OF_PASSES:
        if row.get(name) is None:
            message = f"{place}: {name} is empty; a timed pass needs {', '.join(_OF_PASSES)}"
            raise MeasurementError(message)
    for name, value in row.items():
        # A table of both has 0 drafts in rows of passes, or none.
        if value and name not in _OF_PASSES:
            message = (
                f"{place}: {name} is {value:g} beside pass_s; allowed in a row of a timed pass: "
                f"{', '.join(_OF_PASSES)}"
            )
            raise MeasurementError(message)
    return checked(
        Measurement(
            place=place,
            source=source,
            method=STEP,
            batch_size=row["batch_size"],
            context_len=row["context_len"],
            verify_len=row["positions"],
            tokens_per_s=row["batch_size"] / row["pass_s"],
        )
    )


def _results(fields: Fields) -> list[Result]:
    """Return what a JSON object holds, by the tool whose keys it has."""
    if fields.has("benchmarks"):
        return guidellm_results(fields)
    for keys, read in _TOOLS.items():
        if all(fields.has(key) for key in keys):
            return [read(fields)]
    for keys, (tool, lacks) in _UNREADABLE.items():
        if all(fields.has(key) for key in keys):
            reject(f"{fields.place}: is {tool}", lacks, MeasurementError)
    known = "; ".join(" and ".join(keys) for keys in (*_TOOLS, ("benchmarks",)))
    return reject(
        f"{fields.place}: has no keys of a tool that is known (SGLang, vLLM, InferenceX, aiperf, "
        f"genai-perf, guidellm)",
        known,
        MeasurementError,
    )


def _refuse_unreadable(text: str, source: str) -> None:
    """Refuse tables and other texts of clients that lack what a measurement needs."""
    for told, (tool, lacks) in _UNREADABLE_TEXTS.items():
        if told in text[:_BEGINNING]:
            reject(f"{source}: is {tool}", lacks, MeasurementError)


def _with_drafts(drafts: bool | None, point: Measurement, draft_len: int | None) -> Measurement:
    """Return a point whose drafts are as it says, or as the user states where it does not."""
    if drafts is None:
        return checked(replace(point, says_drafts=False, draft_len=draft_len or 0))
    if drafts and not point.draft_len:
        if draft_len is None:
            message = f"{point.place}: drafts, and does not say how many; give --draft-len"
            raise MeasurementError(message)
        point = replace(point, draft_len=draft_len)
    return checked(point)


def _sglang(fields: Fields) -> Result:
    """Read a line of SGLang's `bench_serving` (0.5.23): `concurrency` is the measured mean."""
    tokens = fields.amount_or_none("accept_length")
    server = fields.inner("server_info")
    _refuse_groups(server)
    # The root of the tree is counted among SGLang's draft tokens; of a tree, its depth is meant.
    nodes = server.count_or_none("speculative_num_draft_tokens")
    drafts = nodes - 1 if nodes else 0
    top_k = server.count_or_none("speculative_eagle_topk")
    if (top_k or 1) > 1:
        drafts = server.count("speculative_num_steps")
    algorithm = server.text_or_none("speculative_algorithm")
    # A server that drafts makes no plain run, although the client did not ask for acceptance.
    speculative = tokens is not None or algorithm is not None
    prompt, answer, rate = _totals(fields)
    most = _most_requests(fields, server)
    asked = fields.amount_or_none("max_concurrency")
    busy = _busy(fields, asked)
    point = replace(
        answered(fields.place, prompt, answer, rate),
        batch_size=min(busy if busy is not None else fields.amount("max_concurrency"), most),
        concurrency=None if asked is None else min(asked, most),
        draft_len=drafts if speculative else 0,
        tokens_per_round=tokens,
        engine=_SERVERS.get(fields.text_or_none("backend") or "sglang"),
        model=server.text_or_none("model_path"),
        tensor_parallel=server.count_or_none("tp_size"),
        expert_parallel=server.count_or_none("ep_size"),
        method=algorithm,
        top_k=top_k if speculative else None,
        quantization=server.text_or_none("quantization"),
        kv_cache=server.text_or_none("kv_cache_dtype"),
        server=_told(server),
    )
    return speculative, point


def _busy(fields: Fields, asked: float | None) -> float | None:
    """Return the mean requests in flight that a client measured, at most those that it sent."""
    busy = fields.amount_or_none("concurrency")
    if busy is not None and asked is not None and busy > asked:
        fields.refuse("concurrency", f"at most max_concurrency, {asked:g}")
    return busy


def _told(server: Fields) -> ServerSettings | None:
    """Return what SGLang was told, or resolved, of the settings that this project knows.

    Ignores
        captured sizes and the dtype of recurrent state, whose spelling changed between releases.
    Source
        SGLang 0.5.23, ``srt/arg_groups/fields/schedule.py``.
    """

    def turned(key: str) -> bool | None:
        switch = server.flag_or_none(key)
        return None if switch is None else not switch

    chunk = server.value("chunked_prefill_size")
    told = ServerSettings(
        memory_frac=server.amount_or_none("mem_fraction_static"),
        running=server.count_or_none("max_running_requests"),
        overlap=turned("disable_overlap_schedule"),
        # -1 takes prompts whole.
        chunk=0 if chunk == -1 else server.count_or_none("chunked_prefill_size"),
        mixed=server.flag_or_none("enable_mixed_chunk"),
        prefix_cache=turned("disable_radix_cache"),
    )
    return told if told.stated else None


def _refuse_groups(server: Fields) -> None:
    """Refuse servers whose devices do not all work on the same sequences and layers."""
    for key in ("dp_size", "attn_dp_size", "pp_size"):
        if (server.count_or_none(key) or 1) > 1:
            server.refuse(key, _ONE_GROUP)
    if server.flag_or_none("enable_dp_attention"):
        server.refuse("enable_dp_attention", _ONE_GROUP)


def _most_requests(fields: Fields, server: Fields) -> float:
    """Return the most requests that can have been in flight.

    No more than there were; and no more than the server runs at a time, the others wait. What
    SGLang (0.5.23) was told, 48 where it drafts and was told nothing, stands in its arguments;
    what its memory leaves of that, in the state of its scheduler.
    """
    _refuse_arrivals(fields)
    limits = [
        fields.count("completed"),
        fields.count_or_none("max_running_requests"),
        server.count_or_none("max_running_requests"),
        server.first("internal_states").count_or_none("effective_max_running_requests_per_dp"),
    ]
    return min(limit for limit in limits if limit is not None)


def _refuse_arrivals(fields: Fields) -> None:
    """Refuse requests that come by the clock: what they keep in flight is not what was asked."""
    for key, allowed in (("request_rate", (None, "inf", math.inf)), ("ramp_up_strategy", (None,))):
        if fields.value(key) not in allowed:
            only = "inf" if len(allowed) > 1 else "left out"
            fields.refuse(
                key,
                f"{only}: of requests that come by the clock, how many are in flight is unknown",
            )


def _vllm(fields: Fields) -> Result:
    """Read a result of `vllm bench serve --save-result` (0.33.0).

    Counts
        rounds without drafts too, such as those of look-ups that find no match: an answer has one
        token of its prompt's pass and one of every round, beside the accepted drafts.
    Ignores
        that the server counts accepted drafts beyond the end of an answer, too: fewer than those
        of a round for each request. Where that hides all rounds without drafts, its mean stands.
    """
    tokens = fields.amount_or_none("spec_decode_acceptance_length")
    rounds = fields.count_or_none("spec_decode_num_drafts")
    drafted = fields.count_or_none("spec_decode_draft_tokens")
    prompt, answer, rate = _totals(fields)
    most = _most_requests(fields, Fields({}, fields.place))
    drafts = round(drafted / rounds) if drafted and rounds else 0
    if tokens is not None and drafts:
        # The mean of drafts that vary may be below what the longest of them give.
        drafts = max(drafts, math.ceil(tokens - 1.0))
    if tokens is not None and rounds:
        decoded = fields.count("total_output_tokens") - fields.count("completed")
        # The server's mean is over rounds that drafted.
        every_round = decoded - (tokens - 1.0) * rounds
        if every_round > rounds:
            tokens = decoded / every_round
    point = replace(
        answered(fields.place, prompt, answer, rate),
        batch_size=min(fields.amount("max_concurrency"), most),
        draft_len=drafts,
        tokens_per_round=tokens,
        engine=_SERVERS.get(fields.text_or_none("backend") or "", "vllm"),
        model=fields.text_or_none("model_id"),
    )
    # Without keys the server did not draft, or it publishes no metrics, or is another server.
    return (None if tokens is None else True), point


def _inferencex(fields: Fields) -> Result:
    """Read an aggregated InferenceX result: rates per GPU, and no acceptance length."""
    devices = fields.count("tp")
    prompt, answer = fields.amount("isl"), fields.amount("osl")
    if str(fields.value("dp_attention")).casefold() == "true":
        fields.refuse("dp_attention", _ONE_GROUP)
    algorithm = fields.text_or_none("spec_decoding")
    drafting = algorithm not in {None, "none", ""}
    point = replace(
        answered(fields.place, prompt, answer, fields.amount("output_tput_per_gpu") * devices),
        batch_size=fields.amount("conc"),
        engine=_SERVERS.get(fields.text_or_none("framework") or ""),
        model=fields.text_or_none("model"),
        tensor_parallel=devices,
        expert_parallel=fields.count_or_none("ep"),
        method=algorithm if drafting else None,
        quantization=fields.text_or_none("precision"),
    )
    return drafting, point


#: Engines of hardware files, by what benchmarks call them: `--backend` of SGLang's, and `framework`
#: of InferenceX.
_SERVERS: Final = {
    "sglang": "sglang",
    "sglang-native": "sglang",
    "sglang-oai": "sglang",
    "sglang-oai-chat": "sglang",
    "vllm": "vllm",
    "vllm-chat": "vllm",
    "trt": "tensorrt-llm",
}

#: The keys that tell the tools apart, and who reads them.
_TOOLS: Final[Mapping[tuple[str, ...], Callable[[Fields], Result]]] = {
    ("output_throughput", "model_id"): _vllm,
    ("output_throughput", "total_output_tokens"): _sglang,
    ("output_tput_per_gpu", "conc"): _inferencex,
    ("output_token_throughput", "input_config"): client_result,
}
#: Files of known tools that lack what a measurement needs: what they are, and what has it.
_UNREADABLE: Final[Mapping[tuple[str, ...], tuple[str, str]]] = {
    ("total_num_tokens", "tokens_per_second"): (
        "of `vllm bench throughput`, which lacks the requests in flight",
        "a result of `vllm bench serve --save-result`",
    ),
    ("avg_latency", "latencies"): (
        "of `vllm bench latency`, which lacks lengths and batch size",
        "a result of `vllm bench serve --save-result`",
    ),
    ("experiments", "service_kind"): (
        "perf_analyzer's list of requests (profile_export.json), which lacks their tokens",
        "genai-perf's profile_export_genai_perf.json",
    ),
    ("metadata", "metrics"): (
        "a request of aiperf's profile_export.jsonl, which lacks the load",
        "aiperf's profile_export_aiperf.json",
    ),
}
#: Characters of a text in which a tool is looked for.
_BEGINNING: Final = 4096
_UNREADABLE_TEXTS: Final[Mapping[str, tuple[str, str]]] = {
    "Metric,avg,min,max,sum": (
        "aiperf's CSV, which lacks the requests in flight",
        "aiperf's JSON (profile_export_aiperf.json)",
    ),
    "Metric,avg,min,max,p99": (
        "genai-perf's CSV, which lacks the requests in flight",
        "genai-perf's JSON (profile_export_genai_perf.json)",
    ),
    "generative_benchmark": ("guidellm's YAML", "guidellm's JSON or CSV"),
}


def _totals(fields: Fields) -> tuple[float, float, float]:
    """Return mean prompt, mean answer and output tokens/s, once they agree with one another."""
    done = fields.count("completed")
    duration_s, rate = fields.amount("duration"), fields.amount("output_throughput")
    made = fields.amount("total_output_tokens")
    if not 0.98 <= rate * duration_s / made <= 1.02:
        message = (
            f"{fields.place}: output_throughput is {rate:g}, and total_output_tokens / duration "
            f"{made / duration_s:g}; must agree: tokens and seconds, not other units"
        )
        raise MeasurementError(message)
    return fields.amount("total_input_tokens") / done, made / done, rate
