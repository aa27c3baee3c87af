"""Time per token, throughput and time to first token of published servers, beside predictions.

    python benchmarks/served_loads.py [--by engine,hardware] [--played] [--json]

The loads and the scores are those of `specroof validate`, by any fields of a measurement: `model`,
`source`, `input_len`, `concurrency`, `engine_version`, `date` and so on. A source that disagrees
with the others is in the table here.

With `--played`, a second line of each group has its loads without drafts played through, request
by request: all clients start together, ten requests each, lengths drawn as the source draws them.
Chunks are those that NVIDIA gives its servers, and else the defaults of each one's last release.
"""

import argparse
import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields

from specroof.evidence import Measurement
from specroof.scoring.served import (
    ServedErrors,
    ServedScore,
    plain_scores,
    served_errors,
    served_validation,
)

HEADINGS = {
    "tpot_s": "TPOT",
    "tokens_per_s": "tokens/s",
    "ttft_s": "TTFT",
    "tpot_ratio": "drafted / plain",
}


def grouped(
    scores: Sequence[ServedScore], names: Sequence[str]
) -> dict[str, Mapping[str, ServedErrors | None]]:
    """Return the errors of loads by fields of their measurements, and of all."""
    groups: dict[str, list[ServedScore]] = defaultdict(list)
    for score in scores:
        groups[" ".join(str(getattr(score.point, name)) for name in names)].append(score)
    named = [*sorted(groups.items()), ("all", [*scores])]
    return {name: served_errors(members) for name, members in named}


def cell(errors: ServedErrors | None) -> str:
    """Return the errors of a quantity as text."""
    if errors is None:
        return " " * 26
    return f"{errors.n:>6}{errors.median:>7.0%}{errors.p90:>6.0%}{errors.bias:>+7.0%}"


def main() -> None:
    """Print the errors by group, and of all loads."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--by", default="engine,hardware")
    parser.add_argument("--played", action="store_true")
    parser.add_argument("--json", action="store_true")
    words = parser.parse_args()
    names = words.by.split(",")
    known = [field.name for field in fields(Measurement)]
    for name in names:
        if name not in known:
            parser.error(
                f"--by: {name!r} is no field of a measurement; allowed: {', '.join(known)}"
            )
    scores = served_validation().scores
    tables = {"": grouped(scores, names)}
    if words.played:
        tables[" played"] = grouped(
            plain_scores((score.point for score in scores), played=True), names
        )
    table = {
        group + label: groups[group]
        for group in tables[""]
        for label, groups in tables.items()
        if group in groups
    }
    if words.json:
        plain = {
            group: {name: errors and asdict(errors) for name, errors in cells.items()}
            for group, cells in table.items()
        }
        print(json.dumps(plain))
        return
    print(f"{'':<32}" + "".join(f"{title:>26}" for title in HEADINGS.values()))
    print(f"{'':<32}" + f"{'rows':>6}{'median':>7}{'p90':>6}{'bias':>7}" * len(HEADINGS))
    for group, cells in table.items():
        print(f"{group:<32}" + "".join(cell(cells[name]) for name in HEADINGS))


if __name__ == "__main__":
    main()
