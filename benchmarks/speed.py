"""Time the speeds that users feel: a large grid in one call, played loads, and a cold start.

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
from specroof import Load, Workload
from specroof.serving.played import played_loads, played_server

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


def played() -> tuple[float, float, float, float]:
    """Return CPU seconds of 1 000 requests on a server, and of loads at 17 draft lengths.

    The middle of five runs each: 8 loads of one to 128 clients with ten requests each, asked for
    and only played; and four loads of 128 to 1 024 clients, for most of which memory is too small.
    """
    one, grid = list[float](), list[float]()
    small, large = list[float](), list[float]()
    for _ in range(5):
        start = time.process_time()
        found = specroof.predict(
            "Qwen/Qwen3-8B",
            "h100",
            engine="vllm",
            drafters="eagle3,accept=0.7",
            input_len=1024,
            output_len=1024,
            length_range=(0.8, 1.0),
            concurrency=[2.0**power for power in range(8)],
        )
        grid.append(time.process_time() - start)
        load = Load([64], [1536], Workload(1024, 1024), requests=[1000], length_range=(0.8, 1.0))
        (sent,) = load.played()
        server = played_server(found.deployment, found.drafters[0], load, "queue", 3)
        start = time.process_time()
        server.play(sent, 3)
        one.append(time.process_time() - start)
        for clients, times in (
            ([1, 2, 4, 8, 16, 32, 64, 128], small),
            ([128, 256, 512, 1024], large),
        ):
            loads = Load(
                clients, [1536], Workload(1024, 1024), requests=[10 * count for count in clients],
                length_range=(0.8, 1.0),
            )  # fmt: skip
            start = time.process_time()
            server = played_server(found.deployment, found.drafters[0], loads, "queue", 16)
            played_loads(server, loads, range(17))
            times.append(time.process_time() - start)
    middles = [statistics.median(times) for times in (one, grid, small, large)]
    return middles[0], middles[1], middles[2], middles[3]


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
    one_s, grid_s, small_s, large_s = played()
    print(f"1 000 requests through a server: {one_s * 1e3:.1f} ms of CPU")
    print(f"8 loads x 17 draft lengths of predict: {grid_s:.2f} s of CPU")
    print(f"8 loads x 17 draft lengths that are played: {small_s:.2f} s of CPU")
    print(f"4 loads of 128 to 1 024 clients x 17 draft lengths: {large_s:.2f} s of CPU")
    baseline = cold_start(sys.executable, "-c", BASELINE)
    print(f"{BASELINE}: {baseline:.3f} s of CPU")
    for words in COMMANDS:
        started_s = cold_start(sys.executable, "-m", "specroof", *words.split())
        print(f"specroof {words}: {started_s:.3f} s of CPU, {started_s / baseline:.2f} times that")
