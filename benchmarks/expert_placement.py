"""Time per token with experts spread over devices, over that with experts sliced, beside `predict`.

    python benchmarks/expert_placement.py [--json]

Rows of `served_loads.csv` that differ in placement alone: same model, chips, framework, formats,
lengths and clients. Where a placement was measured several times, the median counts. Few pairs are
of one release: the others also hold what months of releases changed, and are listed apart.
"""

import argparse
import json
from collections import defaultdict
from statistics import median
from typing import Any, Final

from served_loads import SETUP, Row, predicted, read_rows
from specroof import SpecroofError

#: What makes a placement; the rest of a set-up is equal in a pair.
PLACEMENT: Final = ("expert_parallel", "attention_data_parallel")
ALONE: Final = ("1", "1")
Placed = dict[tuple[str, ...], list[Row]]


def placed_rows() -> dict[tuple[str, ...], Placed]:
    """Return the rows of each load by placement, where there are several."""
    loads: dict[tuple[str, ...], Placed] = defaultdict(lambda: defaultdict(list))
    for row in read_rows():
        rest = (row[name] for name in (*SETUP, "concurrency") if name not in PLACEMENT)
        loads[tuple(rest)][tuple(row[name] for name in PLACEMENT)].append(row)
    return {load: places for load, places in loads.items() if ALONE in places and len(places) > 1}


def predicted_s(row: Row) -> float:
    """Return the predicted time per token of a row."""
    figures = predicted({name: row[name] for name in SETUP}, [int(row["concurrency"])])
    return float(figures["tpot_s"][0])


def pairs() -> list[dict[str, Any]]:
    """Return measured and predicted ratios, spread over sliced; without those that are refused."""
    found = []
    for places in placed_rows().values():
        sliced = places.pop(ALONE)
        for place, spread in places.items():
            releases = {row["version"] for row in sliced} & {row["version"] for row in spread}
            same = releases - {""}
            rows = [
                [row for row in side if not same or row["version"] in same]
                for side in (spread, sliced)
            ]
            measured_s = [median(float(row["tpot_s"]) for row in side) for side in rows]
            try:
                expected_s = [predicted_s(side[0]) for side in rows]
            except SpecroofError:
                continue
            first = rows[0][0]
            found.append(
                {name: first[name] for name in (*SETUP, "concurrency")}
                | {
                    "placement": f"ep {place[0]}, dp {place[1]}",
                    "release": ", ".join(sorted(same)),
                    "measured": measured_s[0] / measured_s[1],
                    "predicted": expected_s[0] / expected_s[1],
                }
            )
    return found


def main() -> None:
    """Print the ratios, pairs of one release first."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--json", action="store_true")
    words = parser.parse_args()
    found = pairs()
    if words.json:
        print(json.dumps(found))
        return
    groups: dict[tuple[str, ...], list[dict[str, Any]]] = defaultdict(list)
    for pair in found:
        names = (
            "release",
            "model",
            "hardware",
            "framework",
            "placement",
            "input_len",
            "output_len",
        )
        groups[tuple(pair[name] for name in names)].append(pair)
    print("time per token, spread over sliced: clients measured/predicted")
    for key, members in sorted(groups.items(), key=lambda item: (item[0][0] == "", item[0])):
        release, *setup = key
        print(" ".join(setup), f"({release or 'different or unknown releases'})")
        cells = [
            f"{pair['concurrency']} {pair['measured']:.2f}/{pair['predicted']:.2f}"
            for pair in sorted(members, key=lambda pair: int(pair["concurrency"]))
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
