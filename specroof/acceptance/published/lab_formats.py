"""What labs publish about acceptance: ModelOpt, InferenceX, inference-lab."""

import csv
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import accumulate
from operator import mul
from typing import Any, Final

from specroof.acceptance.published.engine_formats import checked_survival, histogram_profile
from specroof.acceptance.published.profile import AcceptanceProfile
from specroof.errors import OptionError
from specroof.reading.numbers_in_range import MOST_DRAFTS, entries, number, refuse, whole
from specroof.reading.yaml_text import MAX_TEXT_BYTES, parse_yaml

#: Keys that YAML takes for numbers or for yes and no, where the reader takes text only.
_BARE_KEY: Final = re.compile(
    r"(^[ \t]*|[{,][ \t]*)([0-9]+|on|off|yes|no|true|false)([ \t]*:)", re.MULTILINE
)
#: How far printed rates may be off from each other: three digits, several products.
_ROUNDING: Final = 0.02

#: The rates of a speculation profile as survival; the later one is taken where both are given.
_SURVIVAL_OF: Final[dict[str, Callable[[list[float]], list[float]]]] = {
    "conditional_accept_rates": lambda rates: list(accumulate(rates, mul)),
    "marginal_accept_rates": lambda rates: rates,
}


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
    drafts = whole(
        f"{source}: num_speculative_tokens", document.get("num_speculative_tokens"), low=1
    )
    curves: dict[str, list[float]] = {}
    for key, survival_of in _SURVIVAL_OF.items():
        if document.get(key) is not None:
            where = f"{source}: {key}"
            rates = [
                number(f"{where}[{index}]", rate, high=1.0)
                for index, rate in enumerate(entries(where, document[key]))
            ]
            if len(rates) != drafts:
                refuse(where, f"of {len(rates)}", f"{drafts} rates, as num_speculative_tokens says")
            curves[key] = survival_of(rates)
    if not curves:
        refuse(source, sorted(document), " or ".join(_SURVIVAL_OF))
    survival = _agreeing(curves, source)
    return AcceptanceProfile(
        name=source,
        model=_said(document, "model"),
        drafter=_said(document, "drafter"),
        task=_said(document, "task", "dataset"),
        survival=survival,
        counted=_counted(document.get("mean_accept_length"), sum(survival), source),
        n_rounds=_rounds(document.get("acceptance_length_histogram"), drafts, source),
        source=source,
    )


def _agreeing(curves: dict[str, list[float]], source: str) -> tuple[float, ...]:
    """Return the survival that all keys mean, the marginal one where there are two."""
    *others, survival = curves.values()
    for other in others:
        worst = max(abs(a - b) for a, b in zip(other, survival, strict=True))
        if worst > _ROUNDING:
            refuse(f"{source}: marginal_accept_rates", survival, f"the products {other}")
    return checked_survival(f"{source}: marginal_accept_rates", survival)


def _counted(mean: object, accepted: float, source: str) -> str:
    """Return whether a mean length has the bonus token in, found out from the rates."""
    if mean is None:
        return "rates by position; the bonus token is no position"
    length = number(f"{source}: mean_accept_length", mean)
    for bonus, words in ((1.0, "the bonus token is in"), (0.0, "the bonus token is not in")):
        if abs(length - accepted - bonus) <= _ROUNDING * (1.0 + accepted):
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
    total = sum(number(where, value) for value in values)
    return int(total) if total > 1.0 and total == int(total) else None


def _said(document: Mapping[str, Any], *keys: str) -> str:
    """Return the first text under one of the keys, there or among the conditions."""
    conditions = document.get("measurement_conditions")
    places = [document, conditions if isinstance(conditions, dict) else {}]
    found = [place[key] for place in places for key in keys if isinstance(place.get(key), str)]
    return found[0][:200] if found else ""


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
    >>> [(one.model, one.task, one.lengths) for one in golden_profiles(text, "golden.yaml")]
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
        drafts = whole(f"{where}: a number of drafts", key, low=1)
        lengths[drafts] = number(f"{where} → {drafts}", length, low=1.0, high=drafts + 1.0)
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
    >>> [(one.task, one.survival) for one in trace_profiles(text, "bank.csv")]
    [('chat', (0.5, 0.5)), ('code', (1.0, 0.0))]
    """
    try:
        header, *rows = csv.reader(text.splitlines())
    except csv.Error as problem:
        refuse(source, str(problem), "plain CSV")
    drafts = len(header) - 2
    if header != ["commits", "category", *(f"a{index}" for index in range(drafts))] or drafts < 1:
        refuse(f"{source}: header", ",".join(header[:8]), "commits,category,a0,a1,…")
    whole(f"{source}: columns a0 …", drafts, low=1, high=MOST_DRAFTS)
    counts: dict[str, Counter[int]] = {}
    for index, row in enumerate(rows, start=2):
        if len(row) != len(header):
            refuse(f"{source}: line {index}", f"of {len(row)} fields", f"{len(header)} fields")
        commits = whole(f"{source}: line {index}: commits", row[0], high=drafts)
        counts.setdefault(row[1], Counter())[commits] += 1
    if not counts:
        refuse(source, "without rows", "one row a round")
    return [_category(source, name, counter, drafts) for name, counter in sorted(counts.items())]


def _category(source: str, name: str, counter: Counter[int], drafts: int) -> AcceptanceProfile:
    histogram = [counter[accepted] for accepted in range(drafts + 1)]
    profile = histogram_profile([histogram], source)
    return replace(profile, name=f"{source}/{name}", task=name, engine="")
