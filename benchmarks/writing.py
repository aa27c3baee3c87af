"""Time what writes a grid: CSV, JSON and the table for people, over growing grids.

Run with: python benchmarks/writing.py [BATCHES …]

Each grid has that many batch sizes, 17 draft lengths and one context; left out: 500, 2 000, and as
many as make a million points. Seconds are of the processor, so that a busy machine does not count.
"""

import resource
import sys
import time
from collections.abc import Callable

import numpy as np

import specroof
from specroof.questions.curve_tables import curve_columns, curves_json, curves_table
from specroof.report.columns import listed_columns
from specroof.report.layout import columns_csv, json_line
from specroof.speedup.result import SpeedupCurve

# The last is a million points: 17 draft lengths each.
BATCHES = [500, 2000, 58824]


def grid(batches: int) -> SpeedupCurve:
    """Return a curve over that many batch sizes."""
    return specroof.speedup_curve(
        specroof.load_model("Qwen/Qwen3-8B"),
        specroof.load_hardware("b200"),
        drafter=specroof.load_drafter("autoregressive,accept=0.75,cost=0.10"),
        batch_size=np.arange(1, batches + 1),
        max_draft_len=16,
    )


def seconds(write: Callable[[], str]) -> str:
    """Return how long a text takes, and how long it is, in words."""
    start = time.process_time()
    text = write()
    return f"{time.process_time() - start:.2f} s ({len(text) / 2**20:.1f} MiB)"


if __name__ == "__main__":
    for batches in [int(word) for word in sys.argv[1:]] or BATCHES:
        curve = grid(batches)
        print(
            f"{curve.round_s.size} points: "
            f"CSV {seconds(lambda: columns_csv(map(listed_columns, curve_columns([curve]))))}, "  # noqa: B023 - called at once
            f"JSON {seconds(lambda: json_line(curves_json([curve])))}, "  # noqa: B023
            f"table {seconds(lambda: curves_table([curve]))}",  # noqa: B023
            flush=True,
        )
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(f"peak {peak / 1024:.0f} MiB")
