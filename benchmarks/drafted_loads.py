"""Speedups of drafts that no fit counts, beside predictions, source by source.

    python benchmarks/drafted_loads.py [--rows]

Of each source: how many loads, the mean error without signs, the median error with them (above 0:
the gain is predicted too large), that of 64 and more in flight, the share inside of the 80 % band,
and how many were predicted on the wrong side of 1. ``drafted_loads.csv`` says what each source is
worth; requests are simulated. With `--rows`, every load.
"""

import argparse
import csv
from collections import defaultdict
from itertools import chain
from pathlib import Path

import numpy as np

from specroof import predict

HERE = Path(__file__).parent


def beside(row: dict[str, str]) -> tuple[float, float, float]:
    """Return the speedup that is predicted for a load, and the ends of its band."""
    local = HERE / row["model"]
    answer = predict(
        local if local.suffix == ".json" else row["model"],
        row["hardware"],
        engine=row["engine"],
        tensor_parallel=int(row["tensor_parallel"]),
        expert_parallel=int(row["expert_parallel"]),
        options={"kv_dtype": row["kv_dtype"]} if row["kv_dtype"] else None,
        concurrency=int(row["concurrency"]),
        input_len=float(row["input_len"]),
        output_len=float(row["output_len"]),
        drafters=f"{row['drafter']},accept-length={row['tokens_per_round']}@{row['draft_len']}",
        max_draft_len=int(row["draft_len"]),
        draft_len=int(row["draft_len"]),
    )
    point = answer.to_frame("points").iloc[-1]
    return point["speedup"], point["speedup_low"], point["speedup_high"]


def main() -> None:
    """Print the errors of each source, and of all."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", action="store_true", help="print every load")
    words = parser.parse_args()
    text = (HERE / "drafted_loads.csv").read_text(encoding="utf-8")
    groups: dict[str, list[tuple[float, ...]]] = defaultdict(list)
    for row in csv.DictReader(line for line in text.splitlines() if not line.startswith("#")):
        predicted, low, high = beside(row)
        measured, clients = float(row["speedup"]), int(row["concurrency"])
        sides = (predicted > 1) != (measured > 1)
        scored = clients, predicted / measured - 1, low <= measured <= high, sides
        groups[f"{row['source']} {row['engine']} {row['hardware']}"].append(scored)
        if words.rows:
            where = f"{row['source']} {row['drafter']} x{row['draft_len']}, {clients} in flight"
            print(f"{where}: {predicted:.2f} ({low:.2f} to {high:.2f}), measured {measured:.2f}")
    print(f"{'source':44}loads   mean   bias  from 64  in band  wrong side")
    for name, scores in [*groups.items(), ("all", [*chain.from_iterable(groups.values())])]:
        flying, off, held, wrong = np.array(scores).T
        many = f"{np.median(off[flying >= 64]):+.1%}" if (flying >= 64).any() else ""
        print(
            f"{name:44}{len(off):>5}{np.abs(off).mean():>7.1%}{np.median(off):>+7.1%}{many:>9}"
            f"{held.mean():>9.0%}{wrong.sum():>12.0f}"
        )


if __name__ == "__main__":
    main()
