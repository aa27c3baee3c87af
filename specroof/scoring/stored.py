"""Scores of what ships, computed once: the same figures without their two minutes.

``stored.json`` holds them with a digest of all that they depend on: the code of this room and of
those below, engine profiles, model configs and measurements. Where any of it differs, or where a
user's own hardware files may take the place of bundled ones, they are computed anew.
``benchmarks/store_scores.py`` writes the file.
"""

import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from specroof import scoring
from specroof.catalog.files import bundled
from specroof.evidence import load_local, load_served, load_splits
from specroof.scoring import Validation, local, served, splits
from specroof.scoring.scores import Scored
from specroof.scoring.served import (
    QUANTITIES,
    ServedErrors,
    ServedScore,
    ServedValidation,
    disagreeing_sources,
)
from specroof.scoring.splits import SplitScore

FILE: Final = Path(__file__).with_name("stored.json")
_PACKAGE: Final = Path(__file__).parents[1]
#: What no score depends on: rooms that scores know nothing of, and data that is named below.
_ABOVE: Final = {"cli", "data", "outcomes", "page", "plot", "questions", "sweeps"}


def digest(package: Path = _PACKAGE) -> str:
    """Return the digest of all that scores depend on.

    Parameters
    ----------
    package
        The folder of the package.
    """
    files = {
        path.relative_to(package).as_posix(): path
        for path in package.rglob("*")
        if path.suffix in {".csv", ".json", ".py", ".yaml"} and path.name != FILE.name
    }
    files = {name: path for name, path in files.items() if name.split("/")[0] not in _ABOVE}
    files |= {**bundled("hardware", ".yaml"), **bundled("model_configs", ".json")}
    found = hashlib.sha256()
    for name in sorted(files):
        found.update(f"{name}\n".encode() + hashlib.sha256(files[name].read_bytes()).digest())
    return found.hexdigest()


def to_store(
    predicted: scoring.Predicted,
    loads: ServedValidation,
    of_splits: Iterable[SplitScore],
    of_local: Iterable[Scored],
) -> dict[str, Any]:
    """Return what `published` reads again.

    Parameters
    ----------
    predicted, loads, of_splits, of_local
        What is predicted of all that ships, with all totals.
    """
    places = {
        id(point): place
        for table in (load_served(), load_splits(), load_local())
        for place, point in enumerate(table)
    }
    return {
        "digest": digest(),
        "published": predicted,
        "served": columns_of(loads.scores),
        "played": columns_of(loads.played),
        "left_out": [[places[id(load)], why] for load, why in loads.left_out],
        "totals": {
            name: {figure: found and asdict(found) for figure, found in totals.items()}
            for name, totals in loads.other_totals.items()
        },
        "splits": [[places[id(one.point)], one.tpot_s, one.ttft_s] for one in of_splits],
        "local": [
            [places[id(one.point)], one.kind, one.predicted, one.measured] for one in of_local
        ],
    }


def columns_of(scores: Iterable[ServedScore]) -> dict[str, list[Any]]:
    """Return scores as columns: place of the load, whether unseen, what each figure is off."""
    places = {id(load): place for place, load in enumerate(load_served())}
    scores = list(scores)
    columns: dict[str, list[Any]] = {
        "load": [places[id(score.point)] for score in scores],
        "unseen": [int(score.unseen) for score in scores],
    }
    return columns | {name: [score.off.get(name) for score in scores] for name in QUANTITIES}


def scores_of(columns: Mapping[str, list[Any]]) -> tuple[ServedScore, ...]:
    """Return the scores of such columns."""
    loads = load_served()
    figures = zip(*(columns[name] for name in QUANTITIES), strict=True)
    return tuple(
        ServedScore(
            loads[place],
            {name: off for name, off in zip(QUANTITIES, of, strict=True) if off is not None},
            bool(unseen),
        )
        for place, unseen, of in zip(columns["load"], columns["unseen"], figures, strict=True)
    )


def stored_served(stored: Mapping[str, Any]) -> ServedValidation:
    """Return served loads beside predictions from what is stored."""
    loads, scores = load_served(), scores_of(stored["served"])
    return ServedValidation(
        scores,
        tuple((loads[place], why) for place, why in stored["left_out"]),
        disagreeing_sources(scores),
        {
            name: {figure: found and ServedErrors(**found) for figure, found in totals.items()}
            for name, totals in stored["totals"].items()
        },
        scores_of(stored["played"]),
    )


def stored_splits(stored: Mapping[str, Any]) -> tuple[SplitScore, ...]:
    """Return scores of prefill and decode workers from what is stored."""
    loads = load_splits()
    return tuple(SplitScore(loads[place], *seconds) for place, *seconds in stored["splits"])


def stored_local(stored: Mapping[str, Any]) -> tuple[Scored, ...]:
    """Return scores of local machines from what is stored."""
    points = load_local()
    return tuple(Scored(points[place], *score) for place, *score in stored["local"])


def stored_scores() -> dict[str, Any]:
    """Return what is stored, of whatever code."""
    stored: dict[str, Any] = json.loads(FILE.read_text())
    return stored


def published(
    *, played: bool = False
) -> tuple[Validation, ServedValidation, tuple[SplitScore, ...], tuple[Scored, ...]]:
    """Return all that ships beside predictions: measurements, served loads, splits, local machines.

    Parameters
    ----------
    played
        Whether loads without drafts are played through besides, request by request, where that is
        not stored.
    """
    own_hardware = os.environ.get("SPECROOF_HARDWARE_PATH")
    stored = None if own_hardware else stored_scores()
    if stored is None or stored["digest"] != digest():
        loads = served.served_validation(played=played)
        return scoring.validation(), loads, splits.split_scores(), local.local_scores()
    return (
        scoring.validation(predicted=stored["published"]),
        stored_served(stored),
        stored_splits(stored),
        stored_local(stored),
    )
