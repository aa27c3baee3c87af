"""Time the two speeds that users feel: a large grid in one call, and a cold start.

Run with: python benchmarks/speed.py
"""

import os
import resource
import statistics
import subprocess
import sys
import time

import numpy as np

import specroof

BYTECODE_VARIABLE = "PYTHONDONTWRITEBYTECODE"
BASELINE = "import numpy, pydantic, yaml, typer"
COMMANDS = [
    "predict Qwen/Qwen3-8B -H b200 --drafter autoregressive,accept=0.75,cost=0.10",
    "capacity Qwen/Qwen3-8B -H b200 --context 4096",
    "models show Qwen/Qwen3-8B",
    "models",
    "--help",
]


def million_points() -> tuple[float, float, float]:
    """Return seconds, MiB at the peak above what was there before, and operating points."""
    model = specroof.load_model("Qwen/Qwen3.5-397B-A17B")
    hardware = specroof.load_hardware("b200")
    drafter = specroof.load_drafter("autoregressive,accept=0.75,cost=0.10")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.perf_counter()
    curve = specroof.speedup_curve(
        model,
        hardware,
        drafter=drafter,
        batch_size=np.unique(np.geomspace(1, 8192, 250).round()),
        context_len=np.linspace(1024, 1_048_576, 320).round(),
        max_draft_len=16,
        placement=specroof.Placement(tensor_parallel=8),
        engine="ideal",
    )
    best = curve.best_speedup.max()
    seconds = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(f"best speedup on the grid: {best:.2f}x")
    return seconds, (peak - before) / 1024, curve.speedup.size


def cold_start(*words: str) -> float:
    """Return the median CPU seconds of nine runs of a command."""
    # An installed package has its bytecode; so that a checkout has it too, the first run writes it.
    environment = {key: value for key, value in os.environ.items() if key != BYTECODE_VARIABLE}
    subprocess.run(words, check=True, capture_output=True, env=environment)
    times = []
    for _ in range(9):
        start = _children_s()
        subprocess.run(words, check=True, capture_output=True, env=environment)
        times.append(_children_s() - start)
    return statistics.median(times)


def _children_s() -> float:
    """Return the CPU seconds of all commands that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    seconds, mebibytes, points = million_points()
    print(f"{points} operating points: {seconds:.2f} s, {mebibytes:.0f} MiB above the start")
    baseline = cold_start(sys.executable, "-c", BASELINE)
    print(f"{BASELINE}: {baseline:.3f} s of CPU")
    for words in COMMANDS:
        started_s = cold_start(sys.executable, "-m", "specroof", *words.split())
        print(f"specroof {words}: {started_s:.3f} s of CPU, {started_s / baseline:.2f} times that")
