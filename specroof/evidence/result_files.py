"""Benchmark results as people have them: SGLang, vLLM, InferenceX, or their own CSV."""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from specroof.errors import MeasurementError
from specroof.evidence.measurement import STEP, Measurement, checked, refuse_repeats
from specroof.hardware import ServerSettings
from specroof.reading.json_fields import Fields
from specroof.reading.json_text import json_values
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
        line, of SGLang's ``bench_serving``, vLLM's ``bench serve --save-result`` or InferenceX.
    source
        How messages name it: a path, usually.
    draft_len
        Drafts per round of speculative results that do not say.

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
        points = [
            replace(_result(Fields(value, place), place, draft_len), source=source)
            for place, value in json_values(text, source=source, error=MeasurementError)
        ]
    else:
        points = list(_table_points(text, source))
    if not points:
        message = f"{source}: is an empty list; must hold benchmark results"
        raise MeasurementError(message)
    refuse_repeats(points)
    return tuple(points)


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


def _result(fields: Fields, place: str, draft_len: int | None) -> Measurement:
    """Return the point of one result, by the tool whose keys it has."""
    for keys, read in _TOOLS.items():
        if all(fields.has(key) for key in keys):
            found = read(fields)
            break
    else:
        known = "; ".join(" and ".join(keys) for keys in _TOOLS)
        message = f"{place}: is of no known tool; must have {known}"
        raise MeasurementError(message)
    speculative, point = found
    if speculative and not point.draft_len:
        if draft_len is None:
            message = f"{place}: drafts, and does not say how many; give --draft-len"
            raise MeasurementError(message)
        point = replace(point, draft_len=draft_len)
    return checked(point)


def _sglang(fields: Fields) -> tuple[bool, Measurement]:
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
        _answered(fields.place, prompt, answer, rate),
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


def _answered(place: str, prompt: float, answer: float, tokens_per_s: float) -> Measurement:
    """Return a point of requests, whose mean context is the prompt and half of the answer."""
    return Measurement(
        place=place,
        context_len=prompt + answer / 2,
        tokens_per_s=tokens_per_s,
        input_len=prompt,
        output_len=answer,
        includes_prefill=True,
    )


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


def _vllm(fields: Fields) -> tuple[bool, Measurement]:
    """Read a result of `vllm bench serve --save-result` (0.33.0)."""
    tokens = fields.amount_or_none("spec_decode_acceptance_length")
    rounds = fields.count_or_none("spec_decode_num_drafts")
    drafted = fields.count_or_none("spec_decode_draft_tokens")
    prompt, answer, rate = _totals(fields)
    most = _most_requests(fields, Fields({}, fields.place))
    point = replace(
        _answered(fields.place, prompt, answer, rate),
        batch_size=min(fields.amount("max_concurrency"), most),
        draft_len=round(drafted / rounds) if drafted and rounds else 0,
        tokens_per_round=tokens,
        engine="vllm",
        model=fields.text_or_none("model_id"),
    )
    return tokens is not None, point


def _inferencex(fields: Fields) -> tuple[bool, Measurement]:
    """Read an aggregated InferenceX result: rates per GPU, and no acceptance length."""
    devices = fields.count("tp")
    prompt, answer = fields.amount("isl"), fields.amount("osl")
    if str(fields.value("dp_attention")).casefold() == "true":
        fields.refuse("dp_attention", _ONE_GROUP)
    algorithm = fields.text_or_none("spec_decoding")
    drafting = algorithm not in {None, "none", ""}
    point = replace(
        _answered(fields.place, prompt, answer, fields.amount("output_tput_per_gpu") * devices),
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
_TOOLS: Final[Mapping[tuple[str, ...], Callable[[Fields], tuple[bool, Measurement]]]] = {
    ("output_throughput", "model_id"): _vllm,
    ("output_throughput", "total_output_tokens"): _sglang,
    ("output_tput_per_gpu", "conc"): _inferencex,
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
