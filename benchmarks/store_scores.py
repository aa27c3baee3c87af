"""Write the scores that `specroof validate` prints where nothing they depend on has changed.

    python benchmarks/store_scores.py

Takes a minute, or nothing where what is stored is of this code. ``specroof/scoring/stored.py`` says
what that is. Of the profiles that have totals alone, ``tests/stored_scores.json`` has what each
load is off, for the tests.
"""

import json
from pathlib import Path
from typing import Any, Final

from specroof.scoring import predictions
from specroof.scoring.local import local_scores
from specroof.scoring.served import QUANTITIES, served_scores
from specroof.scoring.splits import split_scores
from specroof.scoring.stored import FILE, columns_of, digest, stored_scores, to_store

TESTED: Final = Path(__file__).parents[1] / "tests" / "stored_scores.json"


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
