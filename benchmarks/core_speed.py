"""Points a second of every bundled model with a priced drafter on a fitted engine, step by step.

    python benchmarks/core_speed.py [BEFORE] [--side 100] [--only WORD]

BEFORE is the folder of another checkout, whose figures stand beside those of this one. A grid has
SIDE batch sizes x SIDE contexts x 17 draft lengths; CPU seconds of one core, the least of some
runs. Steps are of the slowest model: counting operations, their amounts at the peaks of a device,
the engine's seconds of them, all of the curve, its best drafts, and its columns as Parquet.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

HERE: Final = Path(__file__).resolve().parents[1]

#: Runs in the folder of a checkout: models and what they take, as JSON, a line each.
RUNNER: Final = '''
import importlib, io, json, sys, time
import numpy as np
import specroof
from specroof.outcomes.outcomes import Outcomes
from specroof.outcomes.rows import point_columns
from specroof.sweeps.places import FORMATS

side, models = int(sys.argv[1]), json.loads(sys.argv[2])
STEPS = {
    "count operations": "forward_cost",
    "work at the peaks": "pass_work",
    "engine's seconds": "pass_time",
}
spent = dict.fromkeys(STEPS, 0.0)

def timed(step, function):
    def call(*given, **named):
        begun = time.process_time()
        found = function(*given, **named)
        spent[step] += time.process_time() - begun
        return found
    return call

for name in ("specroof.latency.model", "specroof.speedup.curve"):
    module = importlib.import_module(name)
    for step, function in STEPS.items():
        if hasattr(module, function):
            setattr(module, function, timed(step, getattr(module, function)))

chip = specroof.load_hardware("h200")
batches = np.unique(np.geomspace(1, 2000, side).round())
contexts = np.linspace(128, 131072, side).round()

def curve_of(model, drafter, devices, batches, contexts):
    return specroof.speedup_curve(
        model, chip, drafter=drafter, batch_size=batches, context_len=contexts,
        placement=specroof.Placement(tensor_parallel=devices),
    )

def priced(model):
    """A drafter that fits the model, and devices that divide its heads."""
    for spec in ("mtp,accept=0.7", "eagle3,accept=0.7"):
        drafter = specroof.load_drafter(spec)
        for devices in (8, 4, 2, 1):
            try:
                curve_of(model, drafter, devices, [1], [1])
            except specroof.SpecroofError:
                continue
            return drafter, devices
    raise SystemExit(f"{model.name}: no drafter fits")

for name in models:
    model = specroof.load_model(name)
    drafter, devices = priced(model)
    best = {}
    for _ in range(4):
        spent.update(dict.fromkeys(STEPS, 0.0))
        begun = time.process_time()
        curve = curve_of(model, drafter, devices, batches, contexts)
        took = {**spent, "all of the curve": time.process_time() - begun}
        begun = time.process_time()
        curve.best_speedup
        took["best drafts"] = time.process_time() - begun
        begun = time.process_time()
        with FORMATS["parquet"](io.BytesIO(), {}) as write:
            for columns in point_columns(Outcomes(curve, None, None)):
                write(columns)
        took["columns, Parquet"] = time.process_time() - begun
        best = {step: min(best.get(step, 1e9), seconds) for step, seconds in took.items()}
    per_point = {step: seconds / curve.round_s.size for step, seconds in best.items()}
    print(json.dumps([name, drafter.name, curve.engine, per_point]), flush=True)
'''

ALL: Final = "all of the curve"


def measured(checkout: Path, side: int, models: list[str]) -> dict[str, Any]:
    """Return drafter, engine and seconds a point by step, for each model, in one checkout."""
    run = subprocess.run(
        [sys.executable, "-c", RUNNER, str(side), json.dumps(models)],
        cwd=checkout,
        env=os.environ | {"PYTHONPATH": str(checkout), "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    rows = (json.loads(line) for line in run.stdout.splitlines())
    return {name: (drafter, engine, steps) for name, drafter, engine, steps in rows}


def main() -> None:
    """Measure, and print both tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("before", type=Path, nargs="?")
    parser.add_argument("--side", type=int, default=100)
    parser.add_argument("--only", default="", help="models whose names hold this")
    asked = parser.parse_args()
    names = sorted(file.stem.replace("--", "/", 1) for file in HERE.glob("model_configs/*.json"))
    models = [name for name in names if asked.only in name]
    checkouts = [HERE] if asked.before is None else [asked.before.resolve(), HERE]
    found = [measured(checkout, asked.side, models) for checkout in checkouts]
    titles = ["now"] if asked.before is None else ["before", "now"]
    print(f"{'million points a second':44}", *(f"{title:>8}" for title in titles))
    for name in models:
        drafter, engine, _ = found[-1][name]
        rates = [1e-6 / one[name][2][ALL] for one in found]
        print(f"{name:44}", *(f"{rate:8.1f}" for rate in rates), f"  {drafter}, {engine}")
    for word, statistic in (("slowest", min), ("median", statistics.median)):
        rates = [statistic(1e-6 / one[name][2][ALL] for name in models) for one in found]
        print(f"{word:44}", *(f"{rate:8.1f}" for rate in rates))
    slowest = max(models, key=lambda name: float(found[-1][name][2][ALL]))
    print(f"\n{'nanoseconds a point, ' + slowest:44}", *(f"{title:>8}" for title in titles))
    for step in found[-1][slowest][2]:
        print(f"{step:44}", *(f"{1e9 * one[slowest][2][step]:8.1f}" for one in found))


if __name__ == "__main__":
    main()
