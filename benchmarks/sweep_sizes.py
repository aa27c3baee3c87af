"""How long sweeps take, what they hold in memory, and what they leave on disk.

    python benchmarks/sweep_sizes.py [POINTS]

runs 5 models x 6 chips x 3 drafters x 40 x 40 x 17 (2.4 million points), and then 20 models x 10
chips x 5 drafters over a grid of about POINTS points (100 million), as Parquet by one process.
Arithmetic is the CPU time of the same curves without any file. The folder is in TMPDIR, and goes
when all is told.
"""

import os
import resource
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

# One core is what is measured: before libraries that bring threads of their own are imported.
os.environ |= {"OMP_NUM_THREADS": "1", "ARROW_IO_THREADS": "1"}

import numpy as np

from specroof import write_sweep
from specroof.questions.sweep import study_of, study_slices

FEW = {
    "targets": [
        {
            "model": [
                "Qwen/Qwen3-8B",
                "Qwen/Qwen3-30B-A3B",
                "openai/gpt-oss-120b",
                "deepseek-ai/DeepSeek-V4-Pro",
                "Qwen/Qwen3.5-27B",
            ],
            "hardware": ["b200", "h200", "h100", "a100", "l40s", "mi300x"],
            "tensor_parallel": 8,
        }
    ],
    "drafters": ["ideal", "mtp,accept=0.7", "autoregressive,accept=0.75,cost=0.10"],
    "batch_size": np.linspace(1, 2000, 40).round().tolist(),
    "context_len": np.linspace(128, 131072, 40).round().tolist(),
}

MANY = {
    "targets": [
        {
            "model": [
                "MiniMaxAI/MiniMax-M2.7",
                "MiniMaxAI/MiniMax-M3",
                "Qwen/Qwen3-8B",
                "Qwen/Qwen3-30B-A3B",
                "Qwen/Qwen3-32B-FP8",
                "Qwen/Qwen3-235B-A22B",
                "Qwen/Qwen3-Next-80B-A3B-Instruct",
                "Qwen/Qwen3.5-27B",
                "Qwen/Qwen3.5-397B-A17B",
                "deepseek-ai/DeepSeek-R1",
                "deepseek-ai/DeepSeek-V3.2",
                "deepseek-ai/DeepSeek-V4-Flash",
                "deepseek-ai/DeepSeek-V4-Pro",
                "google/gemma-4-31B-it",
                "meta-llama/Llama-3.3-70B-Instruct",
                "meta-llama/Llama-4-Scout-17B-16E",
                "moonshotai/Kimi-K2.5",
                "nvidia/NVIDIA-Nemotron-3-Super-120B-A12B-BF16",
                "openai/gpt-oss-120b",
                "zai-org/GLM-5.2-FP8",
            ],
            "hardware": [
                *("b200", "b300", "gb200", "gb300", "h100", "h200", "h20", "a100", "l40s"),
                "mi300x",
            ],
            "tensor_parallel": 8,
        }
    ],
    "drafters": [
        "ideal",
        "mtp,accept=0.7",
        "eagle3,accept-length=2.8@3",
        "ngram,accept=0.6,match=0.5",
        "autoregressive,accept=0.75,cost=0.10",
    ],
}


def grid(points: float) -> dict[str, list[float]]:
    """Return batch sizes and contexts with which `MANY` has about so many points."""
    cells = points / (20 * 10 * 5 * 17)
    batches, contexts = round(1.6 * cells**0.5), round(cells**0.5 / 1.6)
    return {
        "batch_size": np.linspace(1, 512, batches).round(2).tolist(),
        "context_len": np.linspace(512, 65536, contexts).round().tolist(),
    }


@contextmanager
def cpu_s(spent: dict[str, float], name: str) -> Iterator[None]:
    """Note the CPU seconds of a block, its threads included."""
    begun = time.process_time()
    yield
    spent[name] = time.process_time() - begun


def main() -> None:
    """Run both studies, and print a line for each."""
    points = float(sys.argv[1]) if len(sys.argv) > 1 else 1e8
    print(
        f"{'points':>11}  {'wall s':>7}  {'CPU s':>6}  {'points/s':>9}  {'arithmetic':>10}  "
        f"{'files':>5}  {'MB':>6}  {'bytes/point':>11}  {'peak MiB':>8}"
    )
    for content in (FEW, MANY | grid(points)):
        whole: dict[str, Any] = {"format_version": 1} | content
        spent: dict[str, float] = {}
        with tempfile.TemporaryDirectory() as folder:
            begun = time.perf_counter()
            with cpu_s(spent, "sweep"):
                plan = write_sweep(whole, folder, form="parquet").plan
            wall_s = time.perf_counter() - begun
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            size = sum(file.stat().st_size for file in Path(folder).rglob("*") if file.is_file())
        study = study_of(whole)
        with cpu_s(spent, "arithmetic"):
            for one in plan.partitions:
                for part in study_slices(study, one.target, one.drafter):
                    _ = part.prediction.curves[0].best_speedup
        print(
            f"{plan.points:>11}  {wall_s:7.1f}  {spent['sweep']:6.1f}  "
            f"{plan.points / spent['sweep']:9.0f}  {spent['arithmetic'] / spent['sweep']:10.0%}  "
            f"{len(plan.partitions):>5}  {size / 1e6:6.0f}  {size / plan.points:11.1f}  "
            f"{peak / 1024:8.0f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
