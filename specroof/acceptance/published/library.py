"""The bundled profiles: two tables of published figures, with where each stands."""

import csv
import difflib
from collections.abc import Callable
from functools import lru_cache
from importlib.resources import files
from itertools import accumulate
from operator import mul
from typing import Final

from specroof.acceptance.published.profile import AcceptanceProfile
from specroof.errors import CatalogError
from specroof.reading.yaml_text import shown

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


def _profile(row: dict[str, str], source: dict[str, str]) -> AcceptanceProfile:
    values = row["values"].split("/")
    survival, lengths = _READ[row["kind"]](values)
    notes = (source["note"], row["note"])
    return AcceptanceProfile(
        name=row["name"],
        model=row["model"],
        drafter=row["drafter"],
        drafter_family=row["drafter_family"],
        task=row["task"],
        temperature=float(row["temperature"]) if row["temperature"] else None,
        engine=row["engine"],
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
