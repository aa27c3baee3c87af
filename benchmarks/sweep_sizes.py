"""How long sweeps take, what they hold in memory, and what they leave on disk.

    python benchmarks/sweep_sizes.py [POINTS]

runs 5 models x 6 chips x 3 drafters x 40 x 40 x 17 (2.4 million points), and then the same models,
chips and drafters over a larger grid with about POINTS points, as Parquet on one core.
"""

import math
import resource
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from specroof import write_sweep

MODELS = [
    "Qwen/Qwen3-8B",
    "Qwen/Qwen3-30B-A3B",
    "openai/gpt-oss-120b",
    "deepseek-ai/DeepSeek-V4-Pro",
    "Qwen/Qwen3.5-27B",
]
CHIPS = ["b200", "h200", "h100", "a100", "l40s", "mi300x"]
DRAFTERS = ["ideal", "mtp,accept=0.7", "autoregressive,accept=0.75,cost=0.10"]


def study(side: int) -> dict[str, Any]:
    """Return a study of `side` batch sizes and as many contexts, drafts of 0 to 16."""
    return {
        "format_version": 1,
        "targets": [{"model": MODELS, "hardware": CHIPS, "tensor_parallel": 8}],
        "drafters": DRAFTERS,
        "batch_size": np.linspace(1, 2000, side).round().tolist(),
        "context_len": np.linspace(128, 131072, side).round().tolist(),
    }


def main() -> None:
    asked = float(sys.argv[1]) if len(sys.argv) > 1 else 1e8
    curves = len(MODELS) * len(CHIPS) * len(DRAFTERS)
    for side in (40, math.ceil(math.sqrt(asked / curves / 17))):
        with tempfile.TemporaryDirectory() as folder:
            wall, cpu = time.perf_counter(), time.process_time()
            points = write_sweep(study(side), folder, form="parquet").plan.points
            wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
            size = sum(file.stat().st_size for file in Path(folder).rglob("*") if file.is_file())
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        print(
            f"{points:>11} points  {wall:6.1f} s wall  {cpu:6.1f} s of one core  "
            f"{points / cpu:9.0f} points/s  {size / points:5.1f} bytes a point  "
            f"peak {peak / 1024:5.0f} MiB"
        )


if __name__ == "__main__":
    main()
