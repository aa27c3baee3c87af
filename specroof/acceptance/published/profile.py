"""One measured acceptance: what was drafted for what, how often it was accepted, who says so."""

import csv
import difflib
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from importlib.resources import files
from itertools import accumulate
from operator import mul
from typing import Final

from specroof.acceptance import Acceptance, lengths_acceptance, survival_acceptance
from specroof.acceptance.curve import LOSSY
from specroof.acceptance.law_fits import extrapolated_acceptance
from specroof.acceptance.typical import SHAPES, acceptance_from_length
from specroof.errors import CatalogError, reject
from specroof.reading.yaml_text import shown

#: What engines call the length of a draft, and how many more drafts there are than they say.
DRAFT_COUNTS: Final = {
    "drafts": 0,
    "num_speculative_tokens": 0,
    "num_draft_tokens": -1,
    "block_size": -1,
}


@dataclass(frozen=True, slots=True)
class AcceptanceProfile:
    """A published or measured acceptance of one drafter for one model on one task.

    Parameters
    ----------
    name
        What `profile=` calls it.
    model, drafter, task, engine
        What was measured; empty where the source does not say.
    drafter_family
        The family of drafters whose typical shape stands in where one length is known: a key of
        `specroof.acceptance.typical.SHAPES`; empty for none.
    temperature
        Of sampling; None where the source does not say.
    rule
        How drafts were accepted, of `specroof.acceptance.curve.RULES`; empty where the source does
        not say.
    accuracy
        Of the answers, where the source has it.
    survival
        s_1 … s_γ, where acceptance by position was measured; else empty.
    lengths
        Pairs of a number of drafts and the tokens per round measured with it, **bonus token
        included** whatever the source prints; else empty.
    counted
        What the source prints, and whether the bonus token is in.
    n_rounds
        Rounds that were counted; None where the source does not say.
    source, note
        Where it stands, and what to know about it.
    """

    name: str
    model: str = ""
    drafter: str = ""
    drafter_family: str = ""
    task: str = ""
    temperature: float | None = None
    rule: str = ""
    engine: str = ""
    survival: tuple[float, ...] = ()
    lengths: tuple[tuple[int, float], ...] = ()
    counted: str = ""
    n_rounds: int | None = None
    accuracy: str = ""
    source: str = ""
    note: str = ""

    @property
    def kind(self) -> str:
        """The kind of drafter that was measured: the second part of a bundled profile's name."""
        return self.name.split("/")[1].split("-")[0]

    @property
    def draft_len(self) -> int:
        """Drafts per round of the measurement, the longest where there were several."""
        return len(self.survival) or max(drafts for drafts, _ in self.lengths)

    @property
    def tokens_per_round(self) -> float:
        """Measured tokens per round at `draft_len` drafts, bonus token included."""
        if self.survival:
            return 1.0 + sum(self.survival)
        return dict(self.lengths)[self.draft_len]

    def acceptance(self, extrapolate: str | None = None) -> Acceptance:
        """Return the survival curve, which ends at the measured depth.

        Parameters
        ----------
        extrapolate
            A name of `specroof.acceptance.law_fits.EXTRAPOLATIONS`, to go on past that depth.

        Counts
            acceptance by position as it stands; several lengths by their differences
            (`lengths_acceptance`); one length by the typical shape of such drafters
            (`acceptance_from_length`).
        Ignores
            that per-request means of acceptance length, which model cards print, lie up to 15 %
            above the pooled ratio that throughput follows.
        Source
            the profile's own.

        Raises
        ------
        OptionError
            For values that no drafter can have, or an unknown extrapolation.

        Examples
        --------
        >>> profile = AcceptanceProfile("mine", model="Qwen3-8B", lengths=((2, 1.75),))
        >>> profile.acceptance().tokens_per_round([2, 3])  # known to 2 drafts
        array([1.75,  nan])
        >>> profile.acceptance("zero").tokens_per_round(3)
        array(1.75)
        """
        curve = self._curve()
        described = replace(
            curve,
            description=f"profile {self.name} ({self._words()}): {curve.description}",
            measured_on=self.model or None,
            measured_depth=curve.max_draft_len,
            spread=(curve.spread[0], SHAPES[self.drafter_family].spread_beyond),
            temperature=self.temperature,
            rule=self.rule or None,
            accuracy=self.accuracy or None,
            n_rounds=self.n_rounds,
        )
        return extrapolated_acceptance(described, extrapolate) if extrapolate else described

    def _curve(self) -> Acceptance:
        if self.survival:
            return survival_acceptance(self.survival)
        if len(self.lengths) > 1:
            return lengths_acceptance(dict(self.lengths))
        ((drafts, length),) = self.lengths
        curve = acceptance_from_length(length, drafts, kind=self.drafter_family)
        return replace(curve, max_draft_len=drafts)

    def _words(self) -> str:
        words = (self.drafter, self.model and f"for {self.model}", self.task and f"on {self.task}")
        return " ".join(word for word in words if word) or "nothing said about it"


def draft_count(text: str) -> int:
    """Return how many tokens are drafted, from a count as an engine names it.

    Parameters
    ----------
    text
        A number, or NAME=NUMBER: vLLM's ``num_speculative_tokens`` counts drafts; SGLang's
        ``num_draft_tokens`` and DFlash's ``block_size`` count the token before them too. For
        chains only: a tree has more drafted tokens than depths.

    Source
        vLLM and SGLang's arguments of these names; Chen et al. 2026, DFlash, arXiv:2602.06036,
        whose block of 16 holds one anchor and 15 drafts.

    Raises
    ------
    OptionError
        For another name, or a count that leaves no draft.

    Examples
    --------
    >>> draft_count("7"), draft_count("num_speculative_tokens=7"), draft_count("block_size=16")
    (7, 7, 15)
    """
    name, equals, number = (part.strip() for part in text.rpartition("="))
    name = name if equals else "drafts"
    if name not in DRAFT_COUNTS:
        reject(f"drafts is {text!r}", f"a number after {', '.join(DRAFT_COUNTS)}")
    smallest = 1 - DRAFT_COUNTS[name]
    if not (number.isascii() and number.isdigit()) or not smallest <= int(number[:9]) <= 1_000_000:
        reject(f"{name} is {number[:40]!r}", f"a whole number from {smallest} to 1000000")
    return int(number) + DRAFT_COUNTS[name]


# --- The bundled profiles: two tables of published figures, with where each stands ---------------

_ROWS: Final = "published.csv"
_SOURCES: Final = "sources.csv"


def load_profiles() -> tuple[AcceptanceProfile, ...]:
    """Return every bundled profile, in the order of the table.

    Examples
    --------
    >>> {profile.model for profile in load_profiles()} >= {"Qwen3.6-35B-A3B", "Kimi-K3"}
    True
    """
    return tuple(_library().values())


def published_with(model: str | None) -> dict[str, list[AcceptanceProfile]]:
    """Return the bundled profiles of a model, in whatever format its weights are, by drafter kind.

    So are those of other dates and other tunings of it; a distillation is another model.

    Parameters
    ----------
    model
        A name of the target: ``NAME`` or ``ORG/NAME``; None for all targets.

    Source
        The profiles' own.

    Examples
    --------
    >>> found = published_with("Qwen/Qwen3-32B-FP8")
    >>> {kind: [profile.name for profile in profiles] for kind, profiles in found.items()}
    {'eagle3': ['qwen3-32b/eagle3/log-line'], 'dflash': ['qwen3-32b/dflash/sharegpt']}
    """
    found = dict[str, list[AcceptanceProfile]]()
    own = (model or "").rpartition("/")[2].lower()
    for profile in load_profiles():
        short, long = sorted((own, profile.model.lower()), key=len)
        is_own = f"{long}-".startswith(f"{short}-") and "distill" not in long.removeprefix(short)
        if model is None or is_own:
            found.setdefault(profile.kind, []).append(profile)
    return found


def typical_profiles(
    kind: str, known: Mapping[str, Sequence[AcceptanceProfile]]
) -> tuple[AcceptanceProfile, AcceptanceProfile, AcceptanceProfile]:
    """Return a low, the middle and a high one of profiles of one kind of drafter, by their length.

    Of those that were measured alike: with the rule, drafts and temperature that most of the other
    kinds have, too; then as most were; then with greedy acceptance, which every server has, or with
    the most drafts. Low and high are the 10th and the 90th percentile: what another text may do.

    Parameters
    ----------
    kind
        Of drafters.
    known
        The profiles of a model by kind, as of `published_with`.

    Source
        The profiles' own.

    Examples
    --------
    >>> found = typical_profiles("dspark", published_with("Kimi-K3"))
    >>> [profile.name.rpartition("/")[2] for profile in found]
    ['qa', 'mt-bench', 'low-entropy-16k']
    """

    def measured(one: AcceptanceProfile) -> tuple[str, int, float | None]:
        return one.rule, one.draft_len, one.temperature

    profiles = known[kind]
    beside = (others for other, others in known.items() if other != kind)
    shared = Counter(setting for others in beside for setting in {*map(measured, others)})
    counts = Counter(map(measured, profiles))

    def preference(setting: tuple[str, int, float | None]) -> tuple[float, ...]:
        rule, drafts, _ = setting
        # A profile that states no rule is read as greedy.
        return shared[setting], counts[setting], rule in {"", "greedy"}, drafts

    most = max(counts, key=preference)
    alike = sorted(
        (one for one in profiles if measured(one) == most), key=lambda one: one.tokens_per_round
    )
    return _typical(alike)


def borrowed_profiles(
    profiles: Iterable[AcceptanceProfile], kin: Collection[str] = ()
) -> tuple[AcceptanceProfile, AcceptanceProfile, AcceptanceProfile]:
    """Return a low, the middle and a high one of profiles of one kind of drafter with any models.

    By their tokens of `_COMMON_DRAFTS`: what a model may do with which the kind was never measured.
    Low and high are the 10th and the 90th percentile. Lossy ones, of other outputs, are left out.

    Parameters
    ----------
    profiles
        Of one kind, at least one of them exact.
    kin
        Models that stand nearer than the others: the middle one is of these, where they have any.

    Source
        The profiles' own.

    Examples
    --------
    >>> found = borrowed_profiles(published_with(None)["mtp"])
    >>> [round(float(one.acceptance().tokens_per_round(3)), 2) for one in found]
    [2.61, 3.01, 3.33]
    >>> found = borrowed_profiles(published_with(None)["mtp"], ["DeepSeek-V3"])
    >>> [round(float(one.acceptance().tokens_per_round(3)), 2) for one in found]
    [2.44, 2.61, 3.33]
    """
    known = [profile for profile in profiles if profile.rule not in LOSSY]
    depth = min(_COMMON_DRAFTS, max(profile.draft_len for profile in known))

    tokens = partial(_tokens_of, depth)
    deep = sorted((one for one in known if one.draft_len >= depth), key=tokens)
    low, middle, high = _typical(deep)
    near = [one for one in deep if one.model in kin]
    if near:
        first, middle, last = _typical(near)
        low, high = min(first, low, key=tokens), max(last, high, key=tokens)
    return low, middle, high


@lru_cache(maxsize=1024)
def _tokens_of(drafts: int, profile: AcceptanceProfile) -> float:
    return float(profile.acceptance().tokens_per_round(drafts))


#: Drafts that servers and labs report most.
_COMMON_DRAFTS: Final = 3


def _typical(
    ordered: Sequence[AcceptanceProfile],
) -> tuple[AcceptanceProfile, AcceptanceProfile, AcceptanceProfile]:
    """Return the 10th percentile, the middle and the 90th percentile."""
    last = len(ordered) - 1
    return ordered[round(0.1 * last)], ordered[(last + 1) // 2], ordered[round(0.9 * last)]


def profile_names() -> list[str]:
    """Return the names of the bundled profiles."""
    return list(_library())


def bundled_profile(name: str) -> AcceptanceProfile:
    """Return a bundled profile by its name, capitals apart.

    Raises
    ------
    CatalogError
        If there is none of that name.

    Examples
    --------
    >>> bundled_profile("qwen3.6-35b-a3b/mtp/speed-bench").survival[:3]
    (0.779, 0.583, 0.444)
    """
    profiles = _library()
    wanted = name.strip().casefold()
    if wanted not in profiles:
        close = difflib.get_close_matches(wanted, list(profiles), n=3)
        hint = f"; did you mean {' or '.join(close)}?" if close else ""
        message = f"profile {shown(name)} is neither a file nor a bundled profile{hint}"
        msg = f"{message}; see: specroof acceptance"
        raise CatalogError(msg)
    return profiles[wanted]


def _table(name: str) -> list[dict[str, str]]:
    text = (files("specroof.acceptance.published") / name).read_text(encoding="utf-8")
    return list(csv.DictReader(text.splitlines()))


@lru_cache(maxsize=1)
def _library() -> dict[str, AcceptanceProfile]:
    sources = {row["id"]: row for row in _table(_SOURCES)}
    return {row["name"]: _profile(row, sources[row["source"]]) for row in _table(_ROWS)}


#: Columns that are texts of a profile.
_TEXTS: Final = "name model drafter drafter_family task rule engine accuracy"


def _profile(row: dict[str, str], source: dict[str, str]) -> AcceptanceProfile:
    values = row["values"].split("/")
    survival, lengths = _READ[row["kind"]](values)
    notes = (source["note"], row["note"])
    return AcceptanceProfile(
        **{column: row[column] for column in _TEXTS.split()},
        temperature=float(row["temperature"]) if row["temperature"] else None,
        survival=survival,
        lengths=lengths,
        counted=_COUNTED[row["kind"]],
        n_rounds=int(row["n_rounds"]) if row["n_rounds"] else None,
        source=f"{source['title']}, {source['url']}",
        note="; ".join(note for note in notes if note),
    )


_Known = tuple[tuple[float, ...], tuple[tuple[int, float], ...]]


def _numbers(values: list[str]) -> list[float]:
    return [float(value) for value in values]


def _read_histogram(values: list[str]) -> _Known:
    at_least = list(accumulate(reversed(_numbers(values))))[::-1]
    return tuple(count / at_least[0] for count in at_least[1:]), ()


def _read_lengths(values: list[str]) -> _Known:
    pairs = (value.split(":") for value in values)
    return (), tuple((int(drafts), float(length)) for drafts, length in pairs)


_READ: Final[dict[str, Callable[[list[str]], _Known]]] = {
    "survival": lambda values: (tuple(_numbers(values)), ()),
    "conditional": lambda values: (tuple(accumulate(_numbers(values), mul)), ()),
    "histogram": _read_histogram,
    "lengths": _read_lengths,
}
_COUNTED: Final = {
    "survival": "share of rounds by position; the bonus token is no position",
    "conditional": "rate by position, given the drafts before; the bonus token is no position",
    "histogram": "rounds by accepted drafts; the bonus token is not counted",
    "lengths": "acceptance length; the bonus token is counted",
}
