"""What engines write about acceptance: vLLM's counters, histograms and log, SGLang's log."""

import math
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from specroof.acceptance import histogram_acceptance, survival_acceptance
from specroof.acceptance.published.profile import AcceptanceProfile
from specroof.errors import OptionError
from specroof.reading.numbers_in_range import MOST_DRAFTS, entries, number, refuse, whole

__all__ = [
    "BENCHMARK_RATES",
    "benchmark_profile",
    "counters_profiles",
    "histogram_profile",
    "sglang_profile",
    "vllm_log_profile",
]

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
#: More rounds or tokens than any server counts: a thousand years at a billion a second.
_MOST_EVENTS: Final = 1e20
_NUMBER: Final = r"([0-9]+(?:\.[0-9]+)?)"
_VLLM_LINE: Final = re.compile(
    r"(?:Accepted: (?P<accepted>[0-9]+) tokens, )?Drafted: (?P<drafted>[0-9]+) tokens"
    r".{0,80}?Per-position acceptance rate: (?P<rates>[0-9., ]+)"
)
_SGLANG_LINE: Final = re.compile(rf"accept len: {_NUMBER}")


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
            key = whole(f"{where}: position", labels.get("position"))
        model = totals.setdefault(labels.get("model_name", ""), {})
        model[key] = model.get(key, 0.0) + _float(where, match["value"], high=_MOST_EVENTS)
    if not totals:
        refuse(source, "without samples", "vllm:spec_decode_num_drafts and its fellows")
    return [_counted(model, counts, source) for model, counts in totals.items()]


def _counted(model: str, counts: dict[str | int, float], source: str) -> AcceptanceProfile:
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
        name=source,
        model=model,
        engine="vLLM",
        survival=checked_survival(where, [count / rounds for count in accepted]),
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
    >>> profile = histogram_profile([[1, 1, 2], {"0": 1, "2": 3}], "requests.json")
    >>> profile.n_rounds, profile.survival  # 2, 1, 5 rounds with 0, 1, 2 accepted
    (8, (0.75, 0.625))
    """
    # By key: a mapping may name one large number, and files hold many mappings.
    counts: dict[int, int] = {}
    for index, histogram in enumerate(histograms):
        where = f"{source}: acceptance_histogram {index}"
        for accepted, rounds in _bins(where, histogram):
            more = whole(f"{where}[{accepted}]", rounds, high=2**53)
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
    if not isinstance(histogram, dict):
        return enumerate(entries(where, histogram))
    if not histogram:
        refuse(where, histogram, "rounds for 0, 1, … accepted drafts")
    return [(whole(f"{where}: a key", key), rounds) for key, rounds in histogram.items()]


def benchmark_profile(document: Mapping[str, Any], source: str) -> AcceptanceProfile:
    """Return the profile of a result of ``vllm bench serve --save-result``.

    Counts
        ``spec_decode_per_position_acceptance_rates`` as the share of the rounds that drafted,
        ``spec_decode_num_drafts``; the bonus token is in neither.
    Source
        vLLM 0.33.0, vllm/benchmarks/serve.py.

    Raises
    ------
    OptionError
        For rates that no acceptance has.

    Examples
    --------
    >>> document = {"spec_decode_per_position_acceptance_rates": [0.8, 0.5]}
    >>> benchmark_profile(document, "result.json").survival
    (0.8, 0.5)
    """
    where = f"{source}: {BENCHMARK_RATES}"
    rates = [
        number(f"{where}[{index}]", rate, high=1.0)
        for index, rate in enumerate(entries(where, document[BENCHMARK_RATES]))
    ]
    rounds, drafted, model = (
        document.get(key)
        for key in ("spec_decode_num_drafts", "spec_decode_draft_tokens", "model_id")
    )
    n_rounds = None if rounds is None else whole(f"{source}: num_drafts", rounds, high=2**53)
    made = None if drafted is None else number(f"{source}: draft_tokens", drafted)
    return AcceptanceProfile(
        name=source,
        model=model if isinstance(model, str) else "",
        engine="vLLM",
        survival=checked_survival(where, rates),
        counted="rate by position of the rounds that drafted; the bonus token is no position",
        n_rounds=n_rounds,
        source=source,
        note=_varying(made, n_rounds, len(rates)),
    )


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
        drafted = whole(f"{source}: Drafted", line["drafted"], high=2**53)
        accepted = whole(f"{source}: Accepted", line["accepted"] or 0, high=2**53)
        windows.append((_window_rounds(drafted, accepted, rates), rates))
        drafts += drafted
    positions = sorted({len(rates) for _, rates in windows})
    if len(positions) != 1 or positions == [0]:
        refuse(f"{source}: positions of vLLM's log lines", positions, "one number of positions")
    rounds = sum(weight for weight, _ in windows)
    if rounds <= 0.0:
        refuse(f"{source}: Drafted", rounds, "more than 0 tokens")
    weighted = [sum(weight * rates[i] for weight, rates in windows) for i in range(positions[0])]
    varying = _varying(drafts, rounds, positions[0])
    return AcceptanceProfile(
        name=source,
        engine="vLLM",
        survival=checked_survival(source, [value / rounds for value in weighted]),
        counted="rate by position; its mean acceptance length has the bonus token in",
        n_rounds=round(rounds),
        source=source,
        note="; ".join([f"{len(windows)} log lines", *filter(None, [varying])]),
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


def sglang_profile(text: str, source: str, drafts: int | None) -> AcceptanceProfile:
    """Return the profile of SGLang's log lines ``… accept len: …``, each weighing the same.

    Parameters
    ----------
    text, source
        The log, and how messages name it.
    drafts
        Drafts per round, which the lines do not tell; see `draft_count`: an engine with
        ``--speculative-num-draft-tokens 8`` and no tree makes 7.

    Counts
        ``accept len``, with the bonus token in.
    Ignores
        how many sequences stand behind a line.
    Source
        SGLang, python/sglang/srt/managers (the decode log of its scheduler).

    Raises
    ------
    OptionError
        Without such a line, without `drafts`, or for a length that they cannot give.

    Examples
    --------
    >>> sglang_profile("accept len: 2.50, accept len: 3.50,", "server.log", 7).lengths
    ((7, 3.0),)
    """
    lengths = [_float(source, length) for length in _SGLANG_LINE.findall(text)]
    if drafts is None:
        message = f"{source}: SGLang's log does not tell the draft length; give it, as in num_draft_tokens=8"
        raise OptionError(message)
    if not lengths:
        refuse(f"{source}: accept len", "no number in any line", "lines such as: accept len: 2.50")
    mean = sum(lengths) / len(lengths)
    return AcceptanceProfile(
        name=source,
        engine="SGLang",
        lengths=((drafts, number(f"{source}: mean accept len", mean, low=1.0, high=drafts + 1.0)),),
        counted="acceptance length; the bonus token is counted",
        source=source,
        note=f"mean of {len(lengths)} log lines",
    )


def _float(where: str, text: str, *, high: float = math.inf) -> float:
    """Return the number that a text spells, from 0 to `high`."""
    try:
        value = float(text)
    except ValueError:
        refuse(where, text, "a number")
    return number(where, value, high=high)


def checked_survival(where: str, survival: list[float]) -> tuple[float, ...]:
    """Return survival that no value contradicts, every refusal with the place."""
    try:
        survival_acceptance(survival)
    except OptionError as refusal:
        message = f"{where}: {refusal}"
        raise OptionError(message) from None
    return tuple(survival)
