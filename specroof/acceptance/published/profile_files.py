"""A file of measured acceptance to profiles, whichever format it is in."""

import re
from collections.abc import Iterator
from typing import Any, Final

from specroof.acceptance.published.engine_formats import (
    BENCHMARK_RATES,
    benchmark_profile,
    counters_profiles,
    histogram_profile,
    sglang_profile,
    vllm_log_profile,
)
from specroof.acceptance.published.lab_formats import (
    golden_profiles,
    speculation_profile,
    trace_profiles,
)
from specroof.acceptance.published.profile import AcceptanceProfile
from specroof.errors import OptionError, reject
from specroof.reading.json_text import json_values, parse_json
from specroof.reading.yaml_text import MAX_NESTING

_HISTOGRAM: Final = "acceptance_histogram"
_POOLED: Final = "pooled_spec_decode_acceptance_histogram"
_FORMATS: Final = (
    "vLLM's counters vllm:spec_decode_num_*, acceptance_histogram, SpecDecoding log lines or "
    "bench results (spec_decode_per_position_acceptance_rates), aiperf's JSON, "
    "SGLang's log lines (accept len), ModelOpt's speculation_profile.json, InferenceX's golden "
    "acceptance lengths (YAML), inference-lab's trace bank (CSV)"
)


_OF_SERVER: Final = "the acceptance of its server: `specroof doctor`, or the server's log"
#: Texts of known tools that hold no acceptance: how they are told, what they are and lack, and
#: what has it.
_WITHOUT: Final = (
    (
        re.compile(r"^sglang:\w", re.MULTILINE),
        "is SGLang's metrics page, which has no acceptance by position",
        "`specroof doctor` with the page, or SGLang's log (accept len)",
    ),
    (
        re.compile(r"^vllm:\w", re.MULTILINE),
        "is the metrics page of a vLLM server that drafts nothing",
        "counters vllm:spec_decode_num_*, of a server with --speculative-config",
    ),
    (
        re.compile(r"Avg generation throughput: [0-9]"),
        "is vLLM's log, in which nothing was drafted",
        "SpecDecoding metrics lines, of a server with --speculative-config",
    ),
    (
        re.compile(r"gen throughput \(token/s\): [0-9]"),
        "is SGLang's log, in which nothing was drafted",
        "decode lines with accept len, of a server with --speculative-algorithm",
    ),
    (
        re.compile(r"^Run Info,|guidellm_version"),
        "is a report of guidellm, which counts no drafts",
        _OF_SERVER,
    ),
    (
        re.compile(r"^Metric,avg,"),
        "is the CSV of aiperf or genai-perf, which has no acceptance by position",
        f"aiperf's JSON with {_POOLED}, or {_OF_SERVER}",
    ),
)
#: The same of results in JSON, by a key.
_RESULTS_WITHOUT: Final = {
    "benchmarks": ("is a report of guidellm, which counts no drafts", _OF_SERVER),
    "output_token_throughput": (
        "is a result of genai-perf, or of aiperf without an acceptance histogram",
        f"{_POOLED}, which aiperf writes of a vLLM server with per-request metrics",
    ),
    "output_throughput": (
        "is a benchmark result without acceptance by position",
        f"{BENCHMARK_RATES}, which vLLM's client writes of a vLLM server that drafts",
    ),
}


def parse_profiles(text: str, source: str, drafts: int | None = None) -> list[AcceptanceProfile]:
    """Return the profiles that a text holds, whose format is told by its content.

    Parameters
    ----------
    text
        The whole file.
    source
        How messages and names of profiles call it: a path, usually.
    drafts
        Drafts per round, for formats that do not say (SGLang's log); see `draft_count`.

    Source
        The formats, each with its source: `counters_profiles`, `histogram_profile`,
        `vllm_log_profile`, `sglang_profile`, `speculation_profile`, `golden_profiles`,
        `trace_profiles`.

    Raises
    ------
    OptionError
        For a text in none of the formats, or one that contradicts itself.

    Examples
    --------
    >>> parse_profiles('{"acceptance_histogram": [1, 1, 2]}', "request.json")[0].tokens_per_round
    2.25
    """
    stripped = text.lstrip("\ufeff \t\r\n")
    if "vllm:spec_decode_num_" in text:
        return counters_profiles(text, source)
    if "Per-position acceptance rate:" in text:
        return [vllm_log_profile(text, source)]
    if "accept len: " in text:
        return [sglang_profile(text, source, drafts)]
    if stripped.startswith("commits,"):
        return trace_profiles(stripped, source)
    if stripped.startswith(("{", "[")):
        document = _json(stripped, source)
        if document is not None:
            return [_from_json(document, source)]
    return _from_yaml(text, source)


def _from_yaml(text: str, source: str) -> list[AcceptanceProfile]:
    """Return the profiles of a table of lengths; other tools' texts are refused by name."""
    for pattern, what, allowed in _WITHOUT:
        if pattern.search(text):
            reject(f"{source}: {what}", allowed)
    if ":" not in text:
        reject(f"{source}: holds no acceptance that is understood", _FORMATS)
    return golden_profiles(text, source)


def _from_json(document: list[Any], source: str) -> AcceptanceProfile:
    """Return the profile of JSON: of ModelOpt, of vLLM's client, or all histograms in it."""
    first = document[0]
    if isinstance(first, dict) and "num_speculative_tokens" in first and _HISTOGRAM not in first:
        return speculation_profile(first, source)
    if isinstance(first, dict) and isinstance(first.get(BENCHMARK_RATES), list):
        return benchmark_profile(first, source)
    histograms = list(_histograms(document, 0))
    if not histograms:
        for key, (what, allowed) in _RESULTS_WITHOUT.items():
            if isinstance(first, dict) and key in first:
                reject(f"{source}: {what}", allowed)
        reject(f"{source}: holds no {_HISTOGRAM} or num_speculative_tokens", _FORMATS)
    return histogram_profile(histograms, source)


def _histograms(node: object, depth: int) -> Iterator[Any]:
    """Yield every acceptance histogram of a document, at any level."""
    if depth > MAX_NESTING:
        return
    if isinstance(node, dict):
        for key, below in node.items():
            if key in {_HISTOGRAM, _POOLED}:
                yield below
            else:
                yield from _histograms(below, depth + 1)
    elif isinstance(node, list):
        for below in node:
            yield from _histograms(below, depth + 1)


def _json(text: str, source: str) -> list[Any] | None:
    """Return what JSON holds, or every line of JSON Lines; None if it is neither."""
    try:
        return [parse_json(text, source=source, error=OptionError, allowed=_FORMATS)]
    except OptionError:
        pass
    try:
        return [value for _, value in json_values(text, source=source, error=OptionError)]
    except OptionError:
        return None
