"""A file of measured acceptance to profiles, whichever format it is in."""

from collections.abc import Iterator
from typing import Any, Final

from specroof.acceptance.published.engine_formats import (
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
_FORMATS: Final = (
    "vLLM's counters vllm:spec_decode_num_*, acceptance_histogram or SpecDecoding log lines, "
    "SGLang's log lines (accept len), ModelOpt's speculation_profile.json, InferenceX's golden "
    "acceptance lengths (YAML), inference-lab's trace bank (CSV)"
)


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
    if ":" not in text:
        reject(f"{source}: holds no acceptance that is understood", _FORMATS)
    return golden_profiles(text, source)


def _from_json(document: list[Any], source: str) -> AcceptanceProfile:
    """Return the profile of JSON: one of ModelOpt, or all of vLLM's histograms in it."""
    first = document[0]
    if isinstance(first, dict) and "num_speculative_tokens" in first and _HISTOGRAM not in first:
        return speculation_profile(first, source)
    histograms = list(_histograms(document, 0))
    if not histograms:
        reject(f"{source}: holds no {_HISTOGRAM} or num_speculative_tokens", _FORMATS)
    return histogram_profile(histograms, source)


def _histograms(node: object, depth: int) -> Iterator[Any]:
    """Yield every acceptance histogram of a document, at any level."""
    if depth > MAX_NESTING:
        return
    if isinstance(node, dict):
        if _HISTOGRAM in node:
            yield node[_HISTOGRAM]
        for key, below in node.items():
            if key != _HISTOGRAM:
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
