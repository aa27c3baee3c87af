"""Time per token with experts spread over devices, over that with experts sliced, and predictions.

    python benchmarks/expert_placement.py [--json]

Served loads that differ in placement alone: same model, chips, server, formats, lengths and
clients. Where a placement was measured several times, the median counts. Few pairs are of one
release: the others also hold what months of releases changed, and are listed apart. Each load is
predicted by a profile that has not seen its model.
"""

import argparse
import json
import math
from collections import defaultdict
from collections.abc import Sequence
from operator import attrgetter
from statistics import median
from typing import Any, Final

from specroof.scoring.served import ServedScore, served_validation

#: What is equal in a pair, and what makes a placement.
SETUP: Final = (
    *("model", "quantization", "hardware", "engine", "tensor_parallel", "kv_cache"),
    *("input_len", "output_len", "shortest", "concurrency"),
)
PLACEMENT: Final = attrgetter("expert_parallel", "attention_data_parallel")


def pairs() -> list[dict[str, Any]]:
    """Return measured and predicted ratios, spread over sliced."""
    loads: dict[object, dict[tuple[int, int], list[ServedScore]]] = defaultdict(
        lambda: defaultdict(list)
    )
    for score in served_validation().scores:
        if "tpot_s" in score.off:
            experts, groups = (ways or 1 for ways in PLACEMENT(score.point))
            loads[attrgetter(*SETUP)(score.point)][experts, groups].append(score)
    found = []
    for places in loads.values():
        sliced = places.pop((1, 1), [])
        for place, spread in places.items() if sliced else ():
            versions = [{score.point.engine_version for score in side} for side in (sliced, spread)]
            same = (versions[0] & versions[1]) - {""}
            sides = [
                [score for score in side if not same or score.point.engine_version in same]
                for side in (spread, sliced)
            ]
            over, under = map(_seconds, sides)
            first = sides[0][0].point
            found.append(
                {name: getattr(first, name) for name in SETUP}
                | {
                    "placement": f"ep {place[0]}, dp {place[1]}",
                    "release": ", ".join(sorted(same)),
                    "measured": over[0] / under[0],
                    "predicted": over[1] / under[1],
                }
            )
    return found


def _seconds(side: Sequence[ServedScore]) -> tuple[float, float]:
    """Return the measured and the predicted time per token of one placement."""
    measured = [score.point.tpot_s or math.nan for score in side]
    predicted = [
        seconds * math.exp(score.off["tpot_s"])
        for score, seconds in zip(side, measured, strict=True)
    ]
    return median(measured), median(predicted)


def main() -> None:
    """Print the ratios, pairs of one release first."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--json", action="store_true")
    words = parser.parse_args()
    found = pairs()
    if words.json:
        print(json.dumps(found))
        return
    names = ("release", "model", "hardware", "engine", "placement", "input_len", "output_len")
    groups: dict[tuple[str, ...], list[dict[str, Any]]] = defaultdict(list)
    for pair in found:
        groups[tuple(str(pair[name]) for name in names)].append(pair)
    print("time per token, spread over sliced: clients measured/predicted")
    for key, members in sorted(groups.items(), key=lambda item: (item[0][0] == "", item[0])):
        release, *setup = key
        print(" ".join(setup), f"({release or 'different or unknown releases'})")
        cells = [
            f"{pair['concurrency']:g} {pair['measured']:.2f}/{pair['predicted']:.2f}"
            for pair in sorted(members, key=lambda pair: float(pair["concurrency"]))
        ]
        print("    " + "   ".join(cells))
    for title, chosen in (
        ("one release", [pair for pair in found if pair["release"]]),
        ("all", found),
    ):
        errors = [abs(pair["predicted"] / pair["measured"] - 1) for pair in chosen]
        print(f"{title}: {len(errors)} pairs, {median(errors):.1%} off at the median")


if __name__ == "__main__":
    main()
