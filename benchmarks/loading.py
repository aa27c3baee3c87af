"""Time loading models after import; the target is 5 ms for each bundled one.

A family's file is imported when the first model of it is loaded; that import is shown beside.

Run with: python benchmarks/loading.py [FOLDER of further config.json files]
"""

import sys
import time
from pathlib import Path

import specroof
from specroof.catalog import model_names

TARGET_S = 0.005
REPEATS = 5


def _load(name: str) -> float:
    start = time.perf_counter()
    specroof.load_model(name)
    return time.perf_counter() - start


def loading(names: list[str]) -> dict[str, tuple[float, float]]:
    """Return the seconds of each model's first load in this process, and the least of later ones.

    The first of a family pays for the import of its file.
    """
    return {name: (_load(name), min(_load(name) for _ in range(REPEATS))) for name in names}


def show(title: str, times: dict[str, tuple[float, float]]) -> None:
    """Print the slowest models, and how many miss the target."""
    for index, which in enumerate(("first", "again")):
        ranked = sorted(times.items(), key=lambda item: -item[1][index])
        late = sum(pair[index] >= TARGET_S for _, pair in ranked)
        print(f"{title}, {which}: {late} of {len(times)} take {TARGET_S * 1e3:g} ms or more")
        for name, pair in ranked[:5]:
            print(f"  {pair[index] * 1e3:6.2f} ms  {name}")


if __name__ == "__main__":
    show("bundled models", loading(model_names()))
    for folder in sys.argv[1:]:
        configs = [
            str(path)
            for path in sorted(Path(folder).glob("*.json"))
            if not path.name.endswith("hf_quant_config.json")
        ]
        show(folder, loading(configs))
