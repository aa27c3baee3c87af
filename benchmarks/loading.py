"""Time what the first load of a model takes after import; the target is 5 ms for bundled ones.

Run with: python benchmarks/loading.py [FOLDER of further config.json files]
"""

import multiprocessing
import statistics
import sys
import time
from pathlib import Path

import specroof
from specroof.catalog import model_names

TARGET_S = 0.005
REPEATS = 5


def first_load(name: str) -> float:
    """Return seconds of loading a model in a process that has loaded none."""
    start = time.perf_counter()
    specroof.load_model(name)
    return time.perf_counter() - start


def loading(names: list[str]) -> dict[str, float]:
    """Return the median seconds of a first load per model, each in a process of its own."""
    # Forked, so that specroof is imported and nothing else has happened.
    with multiprocessing.get_context("fork").Pool(1, maxtasksperchild=1) as pool:
        runs = [pool.map(first_load, names, chunksize=1) for _ in range(REPEATS)]
    return {name: statistics.median(times) for name, *times in zip(names, *runs, strict=True)}


def show(title: str, times: dict[str, float]) -> None:
    """Print the slowest models, and how many miss the target."""
    ranked = sorted(times.items(), key=lambda item: -item[1])
    late = sum(seconds >= TARGET_S for seconds in times.values())
    print(f"{len(times)} {title}: {late} take {TARGET_S * 1e3:g} ms or more; the slowest")
    for name, seconds in ranked[:5]:
        print(f"  {seconds * 1e3:6.2f} ms  {name}")


if __name__ == "__main__":
    show("bundled models", loading(model_names()))
    for folder in sys.argv[1:]:
        configs = [
            str(path)
            for path in sorted(Path(folder).glob("*.json"))
            if not path.name.endswith("hf_quant_config.json")
        ]
        show(f"configs of {folder}", loading(configs))
