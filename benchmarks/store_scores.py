"""Write the scores that `specroof validate` prints where nothing they depend on has changed.

    python benchmarks/store_scores.py

Takes a minute, or nothing where what is stored is of this code. ``specroof/scoring/stored.py`` says
what that is. Of the profiles that have totals alone, ``tests/stored_scores.json`` has what each
load is off, for the tests.
"""

import json
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from specroof import scoring
from specroof.evidence import load_local, load_served, load_splits
from specroof.scoring import predictions
from specroof.scoring.local import local_scores
from specroof.scoring.scores import Scored
from specroof.scoring.served import QUANTITIES, ServedScore, ServedValidation, served_scores
from specroof.scoring.splits import SplitScore, split_scores
from specroof.scoring.stored import FILE, digest, stored_scores

TESTED: Final = Path(__file__).parents[1] / "tests" / "stored_scores.json"


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
    places = {id(load): place for place, load in enumerate((*load_served(), *load_splits()))}
    local_places = {id(point): place for place, point in enumerate(load_local())}
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
        "splits": [
            [places[id(score.point)] - len(load_served()), score.tpot_s, score.ttft_s]
            for score in of_splits
        ],
        "local": [
            [local_places[id(one.point)], one.kind, one.predicted, one.measured] for one in of_local
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


def rounded(columns: dict[str, list[Any]]) -> dict[str, list[Any]]:
    """Return what figures are off to five decimals."""
    figures = {
        name: [off if off is None else round(off, 5) for off in columns[name]]
        for name in QUANTITIES
    }
    return columns | figures


def write(path: Path, what: object) -> None:
    """Write a file as JSON without spaces, and say its size."""
    path.write_text(json.dumps(what, separators=(",", ":")) + "\n")
    print(f"{path.name}: {path.stat().st_size / 1e3:.0f} kB")


def main() -> None:
    """Compute and write, unless both files are of this code."""
    if FILE.exists() and TESTED.exists() and stored_scores()["digest"] == digest():
        print(f"{FILE.name}: of this code")
        return
    loads, others = served_scores(played=True)
    write(FILE, to_store(predictions(), loads, split_scores(), local_scores()))
    write(TESTED, {name: rounded(columns_of(by)) for name, by in others.items()})


if __name__ == "__main__":
    main()
