"""Numbers of files from outside: finite, in range, or one line that says where."""

import csv
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from dataclasses import replace
from functools import partial
from itertools import accumulate, zip_longest
from operator import mul
from typing import Annotated, Any, Final

from specroof import errors
from specroof.acceptance import histogram_acceptance, survival_acceptance
from specroof.acceptance.published.profile import AcceptanceProfile
from specroof.arrays import number_within
from specroof.errors import OptionError, reject
from specroof.reading.checked import (
    REQUIRED,
    Extract,
    WholeAmountOrZero,
    accept,
    read_model,
    within,
)
from specroof.reading.json_text import json_values, parse_json
from specroof.reading.yaml_text import MAX_NESTING, MAX_TEXT_BYTES, bundled_yaml, parse_yaml, shown
from specroof.units import Bounds

#: The longest draft that a file may hold; published ones stop at some dozens.
MOST_DRAFTS: Final = 10_000
#: More rounds or tokens than any server counts: a thousand years at a billion a second.
_MOST_EVENTS: Final = 1e20

#: The refusal of a value in a file, spelt as a file spells it.
refuse = partial(errors.refuse, show=shown)


def _number(where: str, value: object, *, low: float = 0.0, high: float = _MOST_EVENTS) -> float:
    """Return a value as a float from `low` to `high`.

    Examples
    --------
    >>> _number("x.json: mean", 2)
    2.0
    """
    return number_within(where, value, Bounds(low, high), show=shown)


def _whole(where: str, value: object, *, low: int = 0, high: int = MOST_DRAFTS) -> int:
    """Return a value, or a text of digits, as a whole number from `low` to `high`."""
    if isinstance(value, str) and value.isascii() and value.isdigit():
        value = int(value[:20])
    return int(number_within(where, value, Bounds(low, high, whole=True), show=shown))


# Values of JSON documents, as `_number` and `_whole` have them.
_Events = Annotated[float, within(Bounds(0, _MOST_EVENTS), yaml=False)]
_Rates = Annotated[
    list[Annotated[float, within("share", yaml=False)]],
    accept(
        f"a list of 1 to {MOST_DRAFTS} numbers", lambda rates: 0 < len(rates) <= MOST_DRAFTS, list
    ),
]


# --- What engines write about acceptance: vLLM's counters, histograms and log, SGLang's log ------

#: A sample of the Prometheus text format: name, labels, value.
_SAMPLE: Final = re.compile(
    r"vllm:spec_decode_num_(?P<what>drafts|draft_tokens|accepted_tokens|accepted_tokens_per_pos)"
    r"(?:_total)?(?:\{(?P<labels>[^{}\n]*)\})?[ \t]+(?P<value>\S+)"
)
# From the beginning of a word only: from each of its letters, a long one took minutes.
_LABEL: Final = re.compile(r'\b(\w+)="([^"\n]*)"')
_ROUNDING: Final = 1e-9
#: The key of vLLM's benchmark client for shares by position.
BENCHMARK_RATES: Final = "spec_decode_per_position_acceptance_rates"
#: A mean draft shorter than the longest by more than this share is of drafts that vary.
_VARIES: Final = 0.01
#: Half of the last digit of a printed rate.
_HALF_DIGIT: Final = 0.0005
_NUMBER: Final = r"([0-9]+(?:\.[0-9]+)?)"
_VLLM_LINE: Final = re.compile(
    r"(?:Accepted: (?P<accepted>[0-9]+) tokens, )?Drafted: (?P<drafted>[0-9]+) tokens"
    r".{0,80}?Per-position acceptance rate: (?P<rates>[0-9., ]+)"
)
# DSpark's "block accept len" is of drafts that were not verified, too.
_SGLANG_LINE: Final = re.compile(
    rf"(?:#running-req: (?P<running>[0-9]{{1,9}}),.{{0,400}}?)?"
    rf"(?<!block )accept len: (?P<length>{_NUMBER})"
)


def counters_profiles(text: str, source: str) -> list[AcceptanceProfile]:
    r"""Return a profile for each model of vLLM's counters ``vllm:spec_decode_num_*``.

    .. math:: s_d = \text{accepted at position } d - 1 \,/\, \text{drafts}

    Counts
        rounds (``num_drafts``) and accepted drafts by position, position 0 being the first draft;
        the bonus token is in none of the counters. Engines of one model are added up.
    Ignores
        ``_created`` samples and everything else in the text.
    Source
        vLLM, vllm/v1/spec_decode/metrics.py, whose mean acceptance length is
        1 + num_accepted_tokens / num_drafts.

    Raises
    ------
    OptionError
        For counters that are missing or contradict each other.

    Examples
    --------
    >>> text = '''vllm:spec_decode_num_drafts_total{model_name="m"} 10
    ... vllm:spec_decode_num_accepted_tokens_per_pos_total{model_name="m",position="0"} 8
    ... vllm:spec_decode_num_accepted_tokens_per_pos_total{model_name="m",position="1"} 5'''
    >>> counters_profiles(text, "metrics")[0].survival
    (0.8, 0.5)
    """
    totals: dict[str, dict[str | int, float]] = {}
    for line in text.splitlines():
        match = _SAMPLE.fullmatch(line.strip())
        if match is None:
            continue
        labels = dict(_LABEL.findall(match["labels"] or ""))
        where = f"{source}: {match['what']}"
        key: str | int = match["what"]
        if key == "accepted_tokens_per_pos":
            key = _whole(f"{where}: position", labels.get("position"))
        model = totals.setdefault(labels.get("model_name", ""), {})
        model[key] = model.get(key, 0.0) + _float(where, match["value"], high=_MOST_EVENTS)
    if not totals:
        refuse(source, "without samples", "vllm:spec_decode_num_drafts and its fellows")
    return [
        _counted(f"{source}/{model}" if len(totals) > 1 else source, model, counts, source)
        for model, counts in totals.items()
    ]


def _counted(
    name: str, model: str, counts: dict[str | int, float], source: str
) -> AcceptanceProfile:
    """Return the profile of one model's counters, checked against each other."""
    where = f"{source}: model {model!r}"
    rounds = counts.get("drafts", 0.0)
    positions = sorted(key for key in counts if isinstance(key, int))
    if rounds <= 0.0:
        refuse(f"{where}: num_drafts", rounds, "a number of rounds above 0")
    if positions != list(range(len(positions))) or not positions:
        refuse(f"{where}: accepted_tokens_per_pos", positions, "every position from 0 on")
    accepted = [counts[position] for position in positions]
    total = counts.get("accepted_tokens", sum(accepted))
    # Floats above 2^53 round; a scrape is otherwise exact.
    if not math.isclose(total, sum(accepted), rel_tol=_ROUNDING):
        refuse(f"{where}: num_accepted_tokens", total, f"{sum(accepted):g}, its sum over positions")
    return AcceptanceProfile(
        name=name,
        model=model,
        engine="vLLM",
        survival=_checked_survival(where, [count / rounds for count in accepted]),
        counted="counters by position; the bonus token is in none",
        n_rounds=int(rounds),
        source=source,
        note=_varying(counts.get("draft_tokens"), rounds, len(positions)),
    )


def histogram_profile(histograms: Iterable[Any], source: str) -> AcceptanceProfile:
    r"""Return the profile of vLLM's per-request ``acceptance_histogram``\ s, added up.

    Parameters
    ----------
    histograms
        Each a list (index = accepted drafts) or a mapping of accepted drafts to rounds. Shorter
        ones stand for rounds in which no more were accepted.
    source
        How messages name the file.

    Counts
        rounds by accepted drafts from 0 to the draft length; the bonus token is not counted, so
        tokens per round are one more than the mean.
    Ignores
        which request a round is of: requests with more rounds weigh more, as they do in
        throughput.
    Source
        the key that vLLM writes per request; index as in its counters.

    Raises
    ------
    OptionError
        For counts that are not whole numbers, or add up to nothing.

    Examples
    --------
    >>> profile = histogram_profile([[2], {"2": 5}, {"2": 1}], "requests.json")
    >>> profile.n_rounds, profile.survival  # 2, 0, 6 rounds with 0, 1, 2 accepted
    (8, (0.75, 0.75))
    """
    # By key: a mapping may name one large number, and files hold many mappings.
    counts: dict[int, int] = {}
    for index, histogram in enumerate(histograms):
        where = f"{source}: acceptance_histogram {index}"
        for accepted, rounds in _bins(where, histogram):
            more = _whole(f"{where}[{accepted}]", rounds, high=2**53)
            counts[accepted] = counts.get(accepted, 0) + more
    totals = [counts.get(accepted, 0) for accepted in range(max(counts, default=0) + 1)]
    if len(totals) < 2 or not any(totals):
        refuse(f"{source}: acceptance_histogram", totals, "rounds for 0, 1, … accepted drafts")
    curve = histogram_acceptance(totals)
    return AcceptanceProfile(
        name=source,
        engine="vLLM",
        survival=tuple(curve.survival(range(1, len(totals))).tolist()),
        counted="rounds by accepted drafts; the bonus token is not counted",
        n_rounds=sum(totals),
        source=source,
    )


def _bins(where: str, histogram: object) -> Iterable[tuple[int, Any]]:
    """Return accepted drafts and rounds of a histogram."""
    if isinstance(histogram, list) and 0 < len(histogram) <= MOST_DRAFTS:
        return enumerate(histogram)
    if not isinstance(histogram, dict):
        refuse(where, histogram, f"a list of 1 to {MOST_DRAFTS} numbers")
    if not histogram:
        refuse(where, histogram, "rounds for 0, 1, … accepted drafts")
    return [(_whole(f"{where}: a key", key), rounds) for key, rounds in histogram.items()]


class _VllmRates(Extract):
    """The keys about acceptance of a result of vLLM's client."""

    spec_decode_per_position_acceptance_rates: _Rates = REQUIRED
    spec_decode_num_drafts: WholeAmountOrZero | None = None
    spec_decode_draft_tokens: _Events | None = None
    model_id: Any = None


def benchmark_profile(documents: Sequence[Mapping[str, Any]], source: str) -> AcceptanceProfile:
    """Return the profile of results of ``vllm bench serve --save-result``, weighted by rounds.

    Counts
        ``spec_decode_per_position_acceptance_rates`` as the share of the rounds that drafted,
        ``spec_decode_num_drafts``; the bonus token is in neither.
    Source
        vLLM 0.33.0, vllm/benchmarks/serve.py.

    Raises
    ------
    OptionError
        For rates that no acceptance has, and several results of several models, or without rounds.

    Examples
    --------
    >>> document = {"spec_decode_per_position_acceptance_rates": [0.8, 0.5]}
    >>> benchmark_profile([document], "result.json").survival
    (0.8, 0.5)
    """
    results = [
        read_model(document, _VllmRates, place=source, error=OptionError) for document in documents
    ]
    models = {one.model_id if isinstance(one.model_id, str) else "" for one in results}
    if len(models) > 1:
        refuse(f"{source}: model_id", ", ".join(sorted(models)), "results of one model")
    rounds = [one.spec_decode_num_drafts for one in results]
    if len(results) > 1 and not (all(each is not None for each in rounds) and any(rounds)):
        refuse(f"{source}: spec_decode_num_drafts", rounds, "the rounds of each of several results")
    weights = [each or 0.0 for each in rounds] if len(results) > 1 else [1.0]
    rates = [one.spec_decode_per_position_acceptance_rates for one in results]
    survival = _pooled([*zip(weights, rates, strict=True)])
    n_rounds = None if rounds == [None] else sum(filter(None, rounds))
    drafted = [one.spec_decode_draft_tokens for one in results]
    return AcceptanceProfile(
        name=source,
        model=models.pop(),
        engine="vLLM",
        survival=_checked_survival(f"{source}: {BENCHMARK_RATES}", survival),
        counted="rate by position of the rounds that drafted; the bonus token is no position",
        n_rounds=n_rounds,
        source=source,
        note=_varying(
            None if None in drafted else sum(filter(None, drafted)),
            n_rounds,
            len(survival),
        ),
    )


def _pooled(runs: Sequence[tuple[float, Sequence[float]]]) -> list[float]:
    """Return shares by position of runs with their rounds: of all rounds, 0 beyond a run's end."""
    rounds = sum(weight for weight, _ in runs)
    positions = zip_longest(*(rates for _, rates in runs), fillvalue=0.0)
    return [
        sum(weight * rate for (weight, _), rate in zip(runs, column, strict=True)) / rounds
        for column in positions
    ]


def _varying(drafted: float | None, rounds: float | None, positions: int) -> str:
    """Return what to say of drafts that are not all of one length."""
    if not drafted or not rounds or drafted >= (1.0 - _VARIES) * rounds * positions:
        return ""
    return (
        f"drafts vary (mean {drafted / rounds:.2f} of {positions}): shares by position count a "
        f"shorter draft as refused beyond its end"
    )


def vllm_log_profile(text: str, source: str) -> AcceptanceProfile:
    """Return the profile of vLLM's log lines ``SpecDecoding metrics: …``, weighted by rounds.

    Counts
        ``Per-position acceptance rate`` as the share of the rounds that drafted. Rounds are
        ``Accepted`` tokens by the sum of the rates, or, where that agrees with drafts of one
        length, ``Drafted`` tokens by the number of positions. The line's mean acceptance length has
        the bonus token in, and is one more than the sum of the rates.
    Ignores
        that the rates are printed with three digits.
    Source
        vLLM, vllm/v1/spec_decode/metrics.py (SpecDecodingLogging).

    Raises
    ------
    OptionError
        If the line is missing, or lines differ in the number of positions.

    Examples
    --------
    >>> line = "Drafted: 20 tokens, Per-position acceptance rate: 0.800, 0.500, Avg Draft …"
    >>> profile = vllm_log_profile(line, "server.log")
    >>> profile.survival, profile.n_rounds
    ((0.8, 0.5), 10)
    >>> line = "Accepted: 13 tokens, Drafted: 15 tokens, Per-position acceptance rate: 0.800, 0.500"
    >>> vllm_log_profile(line, "server.log").n_rounds  # half of the drafts were of one token
    10
    """
    windows, drafts = [], 0
    for line in _VLLM_LINE.finditer(text):
        where = f"{source}: per-position acceptance rate"
        rates = [_float(where, rate, high=1.0) for rate in line["rates"].split(",") if rate.strip()]
        if len(rates) > MOST_DRAFTS:
            refuse(f"{source}: positions", len(rates), f"at most {MOST_DRAFTS}")
        drafted = _whole(f"{source}: Drafted", line["drafted"], high=2**53)
        accepted = _whole(f"{source}: Accepted", line["accepted"] or 0, high=2**53)
        windows.append((_window_rounds(drafted, accepted, rates), rates))
        drafts += drafted
    positions = sorted({len(rates) for _, rates in windows})
    if len(positions) != 1 or positions == [0]:
        refuse(f"{source}: positions of vLLM's log lines", positions, "one number of positions")
    rounds = sum(weight for weight, _ in windows)
    if rounds <= 0.0:
        refuse(f"{source}: Drafted", rounds, "more than 0 tokens")
    varying = _varying(drafts, rounds, positions[0])
    return AcceptanceProfile(
        name=source,
        engine="vLLM",
        survival=_checked_survival(source, _pooled(windows)),
        counted="rate by position; its mean acceptance length has the bonus token in",
        n_rounds=round(rounds),
        source=source,
        note="; ".join([_log_lines(windows), *filter(None, [varying])]),
    )


def _window_rounds(drafted: int, accepted: int, rates: list[float]) -> float:
    """Return the rounds behind a log line, which prints drafted and accepted tokens, and rates."""
    alike = drafted / max(len(rates), 1)  # the fewest: all drafts as long as the longest
    share = sum(rates)
    # Drafts of one length are counted to the token; others only as the rates are printed.
    unsure = alike * len(rates) * _HALF_DIGIT + 0.5
    if not accepted or not share or abs(alike * share - accepted) <= unsure:
        return alike
    return max(alike, accepted / share)


def _log_lines(lines: Sized) -> str:
    return f"{len(lines)} log line{'s' * (len(lines) != 1)}"


def sglang_profile(text: str, source: str, drafts: int | None) -> AcceptanceProfile:
    r"""Return the profile of SGLang's log lines ``… accept len: …``, by their running requests.

    .. math:: N = \sum_i R_i N_i \,/\, \sum_i R_i

    Parameters
    ----------
    text, source
        The log, and how messages name it.
    drafts
        Drafts per round, which the lines do not tell; see `draft_count`: an engine with
        ``--speculative-num-draft-tokens 8`` and no tree makes 7.

    Counts
        ``accept len`` N, with the bonus token in, and ``#running-req`` R: every line closes the
        same number of steps, in each of which every running request has a round. Where a line does
        not tell its requests, all lines weigh the same.
    Ignores
        that the requests are those of the line's last step alone.
    Source
        SGLang 0.5.23, srt/managers/scheduler_components/metrics_reporter.py:553,963-1005:
        accepted tokens over rounds, which grow by the batch in each step.

    Raises
    ------
    OptionError
        Without such a line, without `drafts`, or for a length that they cannot give.

    Examples
    --------
    >>> sglang_profile("accept len: 2.50, accept len: 3.50,", "server.log", 7).lengths
    ((7, 3.0),)
    >>> sglang_profile("accept len: 3.00, block accept len: 4.00,", "server.log", 5).lengths
    ((5, 3.0),)
    """
    lines = [*_SGLANG_LINE.finditer(text)]
    if not lines:
        refuse(f"{source}: accept len", "no number in any line", "lines such as: accept len: 2.50")
    told = all(int(line["running"] or 0) for line in lines)
    weights = [int(line["running"]) if told else 1 for line in lines]
    lengths = [[_float(source, line["length"])] for line in lines]
    (mean,) = _pooled([*zip(weights, lengths, strict=True)])
    if drafts is None:
        message = (
            f"{source}: SGLang's log does not tell the draft length; give it, as in "
            f"num_draft_tokens=8, or accept-length={mean:.4g}@DRAFTS in a SPEC"
        )
        raise OptionError(message)
    return AcceptanceProfile(
        name=source,
        engine="SGLang",
        lengths=(
            (drafts, _number(f"{source}: mean accept len", mean, low=1.0, high=drafts + 1.0)),
        ),
        counted="acceptance length; the bonus token is counted",
        source=source,
        note=f"mean of {_log_lines(lines)}{', by running requests' * told}",
    )


def _float(where: str, text: str, *, high: float = math.inf) -> float:
    """Return the number that a text spells, from 0 to `high`."""
    try:
        value = float(text)
    except ValueError:
        refuse(where, text, "a number")
    return _number(where, value, high=high)


def _checked_survival(where: str, survival: list[float]) -> tuple[float, ...]:
    """Return survival that no value contradicts, every refusal with the place."""
    try:
        survival_acceptance(survival)
    except OptionError as refusal:
        message = f"{where}: {refusal}"
        raise OptionError(message) from None
    return tuple(survival)


# --- What labs publish about acceptance: ModelOpt, InferenceX, inference-lab ---------------------

#: Keys that YAML takes for numbers or for yes and no, where the reader takes text only.
_BARE_KEY: Final = re.compile(
    r"(^[ \t]*|[{,][ \t]*)([0-9]+|on|off|yes|no|true|false)([ \t]*:)", re.MULTILINE
)
#: How far printed rates may be off from each other: three digits, several products.
_TABLE_ROUNDING: Final = 0.02

#: The rates of a speculation profile as survival; the later one is taken where both are given.
_SURVIVAL_OF: Final[dict[str, Callable[[list[float]], list[float]]]] = {
    "conditional_accept_rates": lambda rates: list(accumulate(rates, mul)),
    "marginal_accept_rates": lambda rates: rates,
}


class _SpeculationProfile(Extract):
    """The figures of ModelOpt's ``speculation_profile.json``."""

    num_speculative_tokens: Annotated[
        int, within(Bounds(1, MOST_DRAFTS, whole=True), yaml=False)
    ] = REQUIRED
    conditional_accept_rates: _Rates | None = None
    marginal_accept_rates: _Rates | None = None
    mean_accept_length: _Events | None = None
    acceptance_length_histogram: Any = None


def speculation_profile(document: Mapping[str, Any], source: str) -> AcceptanceProfile:
    """Return the profile of ModelOpt's ``speculation_profile.json``.

    Parameters
    ----------
    document
        ``num_speculative_tokens`` (drafts), and ``marginal_accept_rates`` (share of all rounds)
        or ``conditional_accept_rates`` (given the drafts before); beside them
        ``mean_accept_length``, ``acceptance_length_histogram`` and ``measurement_conditions``.
    source
        How messages name the file.

    Counts
        drafts. ``mean_accept_length`` is held against the rates: with the bonus token it is one
        more than their sum, without it their sum, and the profile says which the file means.
    Ignores
        the histogram of lengths, which holds the same as the rates, save for its rounds.
    Source
        NVIDIA Model-Optimizer, pull requests 2247 and 2313.

    Raises
    ------
    OptionError
        For a missing key, or values that contradict each other.

    Examples
    --------
    >>> document = {"num_speculative_tokens": 2, "conditional_accept_rates": [0.8, 0.5]}
    >>> speculation_profile(document, "speculation_profile.json").survival
    (0.8, 0.4)
    """
    profile = read_model(document, _SpeculationProfile, place=source, error=OptionError)
    drafts = profile.num_speculative_tokens
    curves: dict[str, list[float]] = {}
    for key, survival_of in _SURVIVAL_OF.items():
        rates = getattr(profile, key)
        if rates is not None:
            if len(rates) != drafts:
                allowed = f"{drafts} rates, as num_speculative_tokens says"
                refuse(f"{source}: {key}", f"of {len(rates)}", allowed)
            curves[key] = survival_of(rates)
    if not curves:
        refuse(source, sorted(document), " or ".join(_SURVIVAL_OF))
    survival = _agreeing(curves, source)
    return AcceptanceProfile(
        name=source,
        model=_stated(document, "model"),
        drafter=_stated(document, "drafter"),
        task=_stated(document, "task", "dataset"),
        survival=survival,
        counted=_lab_counts(profile.mean_accept_length, sum(survival), source),
        n_rounds=_rounds(profile.acceptance_length_histogram, drafts, source),
        source=source,
    )


def _agreeing(curves: dict[str, list[float]], source: str) -> tuple[float, ...]:
    """Return the survival that all keys mean, the marginal one where there are two."""
    *others, survival = curves.values()
    for other in others:
        worst = max(abs(a - b) for a, b in zip(other, survival, strict=True))
        if worst > _TABLE_ROUNDING:
            refuse(f"{source}: marginal_accept_rates", survival, f"the products {other}")
    return _checked_survival(f"{source}: marginal_accept_rates", survival)


def _lab_counts(length: float | None, accepted: float, source: str) -> str:
    """Return whether a mean length has the bonus token in, found out from the rates."""
    if length is None:
        return "rates by position; the bonus token is no position"
    for bonus, words in ((1.0, "the bonus token is in"), (0.0, "the bonus token is not in")):
        if abs(length - accepted - bonus) <= _TABLE_ROUNDING * (1.0 + accepted):
            return f"rates by position; {words} mean_accept_length"
    allowed = (
        f"{accepted:.3f} or {accepted + 1:.3f}, as the rates add up without and with bonus token"
    )
    return refuse(f"{source}: mean_accept_length", length, allowed)


def _rounds(histogram: object, drafts: int, source: str) -> int | None:
    """Return the rounds of a histogram of lengths; None where it holds shares."""
    values = list(histogram.values()) if isinstance(histogram, dict) else histogram
    if not isinstance(values, list):
        return None
    if len(values) > drafts + 2:
        allowed = f"at most {drafts + 2} lengths"
        refuse(f"{source}: acceptance_length_histogram", f"of {len(values)}", allowed)
    where = f"{source}: acceptance_length_histogram"
    total = sum(_number(where, value) for value in values)
    return int(total) if total > 1.0 and total == int(total) else None


def _stated(document: Mapping[str, Any], *keys: str) -> str:
    """Return the first text under one of the keys, there or among the conditions."""
    conditions = document.get("measurement_conditions")
    places = [document, conditions if isinstance(conditions, dict) else {}]
    texts = (place.get(key) for place in places for key in keys)
    return next((text[:200] for text in texts if isinstance(text, str)), "")


def golden_profiles(text: str, source: str) -> list[AcceptanceProfile]:
    """Return the profiles of InferenceX's golden acceptance lengths, ``model → mode → K: AL``.

    Counts
        K as drafts (``num_speculative_tokens``), and the bonus token in AL, which is
        1 + accepted drafts / verifications.
    Ignores
        nothing: every number has to stand under a whole number of drafts.
    Source
        SemiAnalysisAI/InferenceX, golden_al_distribution.

    Raises
    ------
    OptionError
        For another layout, or a length that its drafts cannot give.

    Examples
    --------
    >>> text = "GLM-5.2: {thinking_on: {1: 1.84, 2: 2.5}}"
    >>> [(table.model, table.task, table.lengths) for table in golden_profiles(text, "golden.yaml")]
    [('GLM-5.2', 'thinking_on', ((1, 1.84), (2, 2.5)))]
    """
    # Text that is too long to read stays too long with quotes.
    quoted = _BARE_KEY.sub(r'\1"\2"\3', text) if len(text) <= MAX_TEXT_BYTES else text
    document = parse_yaml(quoted, source=source, error=OptionError)
    return [
        AcceptanceProfile(
            name="/".join((source, *names)),
            model=names[0] if names else "",
            task=" ".join(names[1:]),
            lengths=lengths,
            counted="acceptance length; the bonus token is counted",
            source=source,
        )
        for names, lengths in _leaves(document, (), source)
    ]


def _leaves(
    node: object, names: tuple[str, ...], source: str
) -> Iterator[tuple[tuple[str, ...], tuple[tuple[int, float], ...]]]:
    """Yield the names that lead to each table of lengths, and the table."""
    where = " → ".join((source, *names))
    if not isinstance(node, dict) or not node:
        refuse(where, node, "model → mode → K: AL")
    if not all(key.isascii() and key.isdigit() for key in node):
        for key, below in node.items():
            yield from _leaves(below, (*names, key), source)
        return
    lengths = {}
    for key, length in node.items():
        drafts = _whole(f"{where}: a number of drafts", key, low=1)
        lengths[drafts] = _number(f"{where} → {drafts}", length, low=1.0, high=drafts + 1.0)
    yield names, tuple(sorted(lengths.items()))


def trace_profiles(text: str, source: str) -> list[AcceptanceProfile]:
    r"""Return a profile for each category of inference-lab's trace bank.

    Its table has the columns ``commits,category,a0,a1,…``, one row a round.

    Counts
        ``commits`` as accepted drafts, the bonus token not in: no row may have more than there
        are columns a0 ….
    Ignores
        the columns a0 … themselves, what the drafter thought of each draft: `commits`
        has the outcome.
    Source
        doublewordai/inference-lab; that `commits` leaves the bonus token out follows from the
        histograms that its authors print, which begin at 0.

    Raises
    ------
    OptionError
        For other columns, or more commits than drafts.

    Examples
    --------
    >>> text = "commits,category,a0,a1\n2,chat,.9,.8\n0,chat,.3,.2\n1,code,.9,.1"
    >>> [(bank.task, bank.survival) for bank in trace_profiles(text, "bank.csv")]
    [('chat', (0.5, 0.5)), ('code', (1.0, 0.0))]
    """
    try:
        header, *rows = csv.reader(text.splitlines())
    except csv.Error as problem:
        refuse(source, str(problem), "plain CSV")
    drafts = len(header) - 2
    if header != ["commits", "category", *(f"a{index}" for index in range(drafts))] or drafts < 1:
        refuse(f"{source}: header", ",".join(header[:8]), "commits,category,a0,a1,…")
    _whole(f"{source}: columns a0 …", drafts, low=1, high=MOST_DRAFTS)
    counts: dict[str, Counter[int]] = {}
    for index, row in enumerate(rows, start=2):
        if len(row) != len(header):
            refuse(f"{source}: line {index}", f"of {len(row)} fields", f"{len(header)} fields")
        commits = _whole(f"{source}: line {index}: commits", row[0], high=drafts)
        counts.setdefault(row[1], Counter())[commits] += 1
    if not counts:
        refuse(source, "without rows", "one row a round")
    profiles = []
    for name, counter in sorted(counts.items()):
        histogram = [counter[accepted] for accepted in range(drafts + 1)]
        profile = histogram_profile([histogram], source)
        profiles.append(replace(profile, name=f"{source}/{name}", task=name, engine=""))
    return profiles


# --- A file of measured acceptance to profiles, whichever format it is in ------------------------

_HISTOGRAM: Final = "acceptance_histogram"
_FORMATS: Final = (
    "vLLM's counters vllm:spec_decode_num_*, acceptance_histogram, SpecDecoding log lines or "
    "bench results (spec_decode_per_position_acceptance_rates), aiperf's JSON, "
    "SGLang's log lines (accept len), ModelOpt's speculation_profile.json, InferenceX's golden "
    "acceptance lengths (YAML), inference-lab's trace bank (CSV)"
)


def _refuse_without(source: str, kind: str, is_one: Callable[[str], object]) -> None:
    """Refuse a file of a known tool that holds no acceptance: of a `kind` of `without.yaml`."""
    for row in bundled_yaml(__file__, "without.yaml")[kind]:
        if is_one(row["tells"]):
            reject(f"{source}: {row['is']}", row["instead"])


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
    _refuse_without(source, "texts", lambda expression: re.search(expression, text))
    if ":" not in text:
        reject(f"{source}: holds no acceptance that is understood", _FORMATS)
    return golden_profiles(text, source)


def _from_json(document: list[Any], source: str) -> AcceptanceProfile:
    """Return the profile of JSON: of ModelOpt, of vLLM's client, or all histograms in it."""
    listed = (part if isinstance(part, list) else [part] for part in document)
    results = [result for part in listed for result in part if isinstance(result, dict)]
    first = results[0] if results else {}
    if "num_speculative_tokens" in first and _HISTOGRAM not in first:
        return speculation_profile(first, source)
    drafted = [result for result in results if isinstance(result.get(BENCHMARK_RATES), list)]
    if drafted:
        return benchmark_profile(drafted, source)
    histograms = list(_histograms(document, 0))
    if not histograms:
        _refuse_without(source, "results", lambda key: any(key in result for result in results))
        reject(f"{source}: holds no {_HISTOGRAM} or num_speculative_tokens", _FORMATS)
    return histogram_profile(histograms, source)


def _histograms(node: object, depth: int) -> Iterator[Any]:
    """Yield every acceptance histogram of a document, at any level."""
    if depth > MAX_NESTING:
        return
    if isinstance(node, dict):
        for key, below in node.items():
            if key in {_HISTOGRAM, "pooled_spec_decode_acceptance_histogram"}:
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
