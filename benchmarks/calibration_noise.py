"""List how far noise moves the predictions of a calibrated profile, over designs and machines.

Needs SciPy: ``pip install scipy``, then
``python benchmarks/calibration_noise.py [SEEDS]``. A quarter of an hour.
"""

import sys
from collections.abc import Sequence
from dataclasses import replace
from itertools import product

import numpy as np

from specroof import Architecture, EngineProfile, load_drafter, load_hardware, load_model
from specroof.engines import calibrate, predicted_tokens_per_s
from specroof.evidence import Measurement
from specroof.hardware import HardwareProfile
from specroof.latency import engine_setup
from specroof.report.layout import format_table
from specroof.speedup.served import Served

#: Standard deviation of the logarithm of every throughput.
NOISE = 0.05
SEEDS = 30

MODELS = ("Qwen/Qwen3-8B", "Qwen/Qwen3-30B-A3B")
DRAFTER = load_drafter("eagle3")
CHIP = load_hardware("b200")
BARE = replace(CHIP, engines={}, default_engine=None)
FITTED = CHIP.engine("sglang")

#: A machine that is faster by about as much as the bundled profile was off on unseen sources.
FASTER = replace(
    FITTED,
    layer_overhead_s=0.8 * FITTED.layer_overhead_s,
    sequence_overhead_s=0.7 * FITTED.sequence_overhead_s,
    round_overhead_s=0.7 * FITTED.round_overhead_s,
    memory_frac=1.03 * FITTED.memory_frac,
    kind_memory_frac={kind: 1.03 * share for kind, share in FITTED.kind_memory_frac.items()},
    compute_frac={dtype: 1.1 * share for dtype, share in FITTED.compute_frac.items()},
    kind_compute_frac={kind: 1.1 * share for kind, share in FITTED.kind_compute_frac.items()},
)
UNKNOWN = EngineProfile(
    name="unknown",
    compute_frac={"bf16": 0.6},
    memory_frac=0.8,
    pass_overhead_s=1.2e-3,
    sequence_overhead_s=40e-6,
    round_overhead_s=9e-4,
)

#: The profile to start from, and the machine that was measured.
MACHINES = {
    "as the profile": (CHIP, FITTED),
    "another": (CHIP, FASTER),
    "no profile": (BARE, UNKNOWN),
}
#: Batch sizes, contexts and drafts.
DESIGNS = {
    "3": ((1, 8, 64), (2048,), (0,)),
    "6": ((1, 8, 64), (512, 8192), (0,)),
    "6 with drafts": ((1, 8, 64), (2048,), (0, 3)),
    "12": ((1, 4, 16, 64), (512, 4096, 16384), (0,)),
    "12 with drafts": ((1, 8, 64), (512, 8192), (0, 3)),
    "16 with drafts": ((1, 4, 16, 64), (512, 4096), (0, 3)),
    "36 with drafts": ((1, 4, 16, 64, 128, 256), (512, 4096, 16384), (0, 3)),
}


def measured(
    design: tuple[Sequence[float], Sequence[float], Sequence[int]],
    model: Architecture,
    engine: EngineProfile,
) -> list[Measurement]:
    """Return what a machine measures over a design, without noise."""
    setup = engine_setup(replace(CHIP, engines={engine.name: engine}), engine.name, None, None)
    grid = [
        Measurement(
            place=f"point {number}",
            batch_size=batch,
            context_len=context,
            tokens_per_s=1.0,
            draft_len=drafts,
            tokens_per_round=1 + drafts / 2,
        )
        for number, (batch, context, drafts) in enumerate(product(*design))
    ]
    rates = predicted_tokens_per_s(grid, Served(model, setup), DRAFTER).tolist()
    return [replace(one, tokens_per_s=rate) for one, rate in zip(grid, rates, strict=True)]


def moved(
    clean: Sequence[Measurement], model: Architecture, chip: HardwareProfile, seeds: int
) -> np.ndarray:
    """Return by what share noise moves each prediction, shape (seeds, points)."""
    rates = np.array([one.rate for one in clean])
    rows = []
    for seed in range(seeds):
        factors = np.exp(np.random.default_rng(seed).normal(0, NOISE, len(clean)))
        noisy = [
            replace(one, tokens_per_s=rate)
            for one, rate in zip(clean, (rates * factors).tolist(), strict=True)
        ]
        served = Served(model, engine_setup(chip, None, None, None))
        found = calibrate(noisy, served, DRAFTER)
        rows.append(np.abs([one.predicted for one in found.residuals] / rates - 1))
    return np.array(rows)


def main(seeds: int) -> None:
    """Print the table."""
    header = ["model", "machine", "points", "mean", "95 %", "max", "seeds with any above 5%"]
    rows = []
    for name, (machine, (chip, engine)), (design, axes) in product(
        MODELS, MACHINES.items(), DESIGNS.items()
    ):
        model = load_model(name)
        off = moved(measured(axes, model, engine), model, chip, seeds)
        shares = [off.mean(), np.quantile(off, 0.95), off.max(), np.mean(off.max(axis=1) > NOISE)]
        rows.append([name, machine, design, *(f"{share:.1%}" for share in shares)])
    print(format_table(header, rows, left=(0, 1, 2)))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else SEEDS)
