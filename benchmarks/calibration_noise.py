"""List what calibration makes of noise, and whether it finds machines whose figures are known.

Needs SciPy: ``pip install scipy``, then
``python benchmarks/calibration_noise.py [SEEDS]``, a quarter of an hour: how far noise moves the
predictions of a calibrated profile, over designs and machines; or
``python benchmarks/calibration_noise.py truths [TRUTHS]``, two minutes: made-up machines whose
points are bound by memory for the profile, whether searches from anywhere end in what calibration
returns, how often its ± holds the truth, and what speedups it predicts from plain points alone.
"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product

import numpy as np

from specroof import Architecture, EngineProfile, load_drafter, load_hardware, load_model
from specroof.engines import Calibration, calibrate, predicted_tokens_per_s
from specroof.engines.calibration import (
    PARAMETERS,
    Problem,
    coordinate,
    estimate,
    noise_of,
    prior_width,
)
from specroof.evidence import Measurement
from specroof.hardware.profile import HardwareProfile
from specroof.latency.setup import Deployment, engine_setup
from specroof.report.layout import format_table

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
    rates = predicted_tokens_per_s(grid, Deployment(model, setup), DRAFTER).tolist()
    return [replace(one, tokens_per_s=rate) for one, rate in zip(grid, rates, strict=True)]


def moved(
    clean: Sequence[Measurement], model: Architecture, chip: HardwareProfile, seeds: int
) -> np.ndarray:
    """Return by what share noise moves each prediction, shape (seeds, points)."""
    rates = np.array([one.rate for one in clean])
    rows = []
    for seed in range(seeds):
        points = noisy(clean, np.random.default_rng(seed), NOISE)
        served = Deployment(model, engine_setup(chip, None, None, None))
        found = calibrate(points, served, DRAFTER)
        rows.append(np.abs([one.predicted for one in found.residuals] / rates - 1))
    return np.array(rows)


#: Standard deviation of the logarithm of every throughput, for machines that are made up.
TRUTH_NOISE = 0.03
TRUTHS = 20
#: Bound by memory for a profile that computes at 0.7 of its peak.
MEMORY_BOUND = ((1, 4, 16, 64), (512, 4096), (0, 3))
#: From which each search is repeated, drawn over all that a figure may be.
RANDOM_STARTS = 8
#: How far machines that are made up differ from the one that they are made from: standard
#: deviations of logarithms. Shares of the peaks are drawn evenly between those below instead.
SPREADS = {
    "layer_overhead_s": 0.2,
    "pass_overhead_s": 0.5,
    "sequence_overhead_s": 0.5,
    "round_overhead_s": 0.4,
}
SHARES = {"memory_frac": (0.6, 0.95), "compute_frac": (0.1, 0.9)}
#: The profile to start from, and the machine that others are made from.
STARTS = {
    "no profile": (replace(BARE, generic=None), replace(UNKNOWN, pass_overhead_s=3e-4)),
    "a profile": (CHIP, FITTED),
}


def made_up(like: EngineProfile, dice: np.random.Generator) -> EngineProfile:
    """Return a machine whose overheads and shares of the peaks differ from another's."""
    engine = like
    for one in PARAMETERS:
        value = one.start(like)
        if one.name in SHARES:
            value = float(np.exp(dice.uniform(*np.log(SHARES[one.name]))))
        elif one.name in SPREADS:
            value *= float(np.exp(dice.normal(0, SPREADS[one.name])))
        else:
            continue
        engine = one.apply(engine, value)
    return engine


def noisy(
    clean: Sequence[Measurement], dice: np.random.Generator, noise: float
) -> list[Measurement]:
    """Return points with normal noise on the logarithm of their throughput."""
    factors = np.exp(dice.normal(0, noise, len(clean))).tolist()
    return [
        replace(one, tokens_per_s=one.rate * factor)
        for one, factor in zip(clean, factors, strict=True)
    ]


@dataclass(frozen=True)
class Trial:
    """What calibration made of a made-up machine.

    Parameters
    ----------
    truth, found
        The machine, and the calibration.
    one_start, random
        Objectives, over the figures that calibration fitted, of a search from the profile alone,
        and of searches from random starts.
    best
        The objective of what calibration returned.
    plain_off, off
        Mean error of speedups as predicted by calibrations to the points without drafts alone, and
        to all: shares.
    """

    truth: EngineProfile
    found: Calibration
    one_start: float
    random: np.ndarray
    best: float
    plain_off: float
    off: float

    @property
    def inside(self) -> list[tuple[str, bool, bool]]:
        """Of each fitted figure its name, whether its ± holds the truth, whether it is a prior."""
        parameters = {one.name: one for one in PARAMETERS}
        return [
            (
                one.name,
                abs(one.value - parameters[one.name].start(self.truth)) <= (one.error or 0.0),
                one.is_prior,
            )
            for one in self.found.fitted
        ]


def speedups(engine: EngineProfile, model: Architecture) -> np.ndarray:
    """Return the speedups of a machine over the points of `MEMORY_BOUND`."""
    points = measured(MEMORY_BOUND, model, replace(engine, name="mine"))  # "ideal" is built in
    rates = np.array([one.rate for one in points]).reshape(-1, 2)
    return np.asarray(rates[:, 1] / rates[:, 0])


def trial(seed: int, chip: HardwareProfile, like: EngineProfile, model: Architecture) -> Trial:
    """Return what calibration makes of a made-up machine."""
    dice = np.random.default_rng(seed)
    truth = made_up(like, dice)
    points = noisy(measured(MEMORY_BOUND, model, truth), dice, TRUTH_NOISE)
    served = Deployment(model, engine_setup(chip, None, None, None))
    found = calibrate(points, served, DRAFTER)
    problem = Problem(points, served, DRAFTER)
    unknown = {name for name, reason in found.kept if not reason.startswith("the fit is no better")}
    every = [coordinate(one, problem.base) for one in PARAMETERS if one.name not in unknown]
    names = [one.name for one in found.fitted]
    chosen = sorted(
        (one for one in every if one.parameter.name in names),
        key=lambda one: names.index(one.parameter.name),
    )
    noise = noise_of(problem, every)
    how = {"noise": noise, "width": prior_width(problem, every, noise)}
    own = np.array([one.at(fit.value) for one, fit in zip(chosen, found.fitted, strict=True)])

    def ends(start: np.ndarray) -> float:
        return estimate(problem, chosen, first=[start], **how)[0].misfit

    bounds = [one.bounds for one in chosen]
    starts = [
        np.array([dice.uniform(least, min(most, 3.0)) for least, most in bounds])
        for _ in range(RANDOM_STARTS)
    ]
    first = np.array([one.first for one in chosen])
    plain = calibrate([one for one in points if not one.drafts], served)
    true = speedups(truth, model)
    errors = [
        float(np.mean(np.abs(speedups(fit.engine, model) / true - 1))) for fit in (plain, found)
    ]
    random = np.array([ends(x) for x in starts])
    return Trial(truth, found, ends(first), random, ends(own), *errors)


def truths(n: int) -> None:
    """Print what calibration makes of made-up machines."""
    model = load_model(MODELS[0])
    for name, (chip, like) in STARTS.items():
        trials = [trial(seed, chip, like, model) for seed in range(n)]
        header = [
            "truth",
            "compute",
            "fitted",
            "+-",
            "one start",
            "returned",
            "best of random",
            "mean error",
        ]
        rows = []
        for seed, one in enumerate(trials):
            compute = next((fit for fit in one.found.fitted if fit.name == "compute_frac"), None)
            rows.append(
                [
                    f"{name} {seed}",
                    f"{one.truth.compute_frac['bf16']:.2f}",
                    "kept" if compute is None else f"{compute.value:.2f}",
                    ""
                    if compute is None
                    else f"{compute.error:.2f}{' prior' if compute.is_prior else ''}",
                    f"{one.one_start:.3f}",
                    f"{one.best:.3f}",
                    f"{one.random.min():.3f}",
                    f"{one.found.mean_error:.1%}",
                ]
            )
        print(format_table(header, rows, left=(0,)))
        inside = [figure for one in trials for figure in one.inside]
        told = [figure for figure in inside if not figure[2]]
        lower = sum(one.random.min() < one.best - 0.01 for one in trials)
        worse = sum(one.one_start > one.best + 0.01 for one in trials)
        print(f"{worse} of {n}: a search from the profile alone ends higher")
        print(f"{lower} of {n}: a search from {RANDOM_STARTS} random starts ends lower")
        print(
            f"+- holds {np.mean([held for _, held, _ in told]):.0%} of {len(told)} figures, and "
            f"{np.mean([held for _, held, _ in inside]):.0%} of {len(inside)} with those that "
            f"are hardly more than the prior"
        )
        plain, both = (
            np.mean([getattr(one, key) for one in trials]) for key in ("plain_off", "off")
        )
        print(f"speedups: {plain:.1%} off from plain points alone, {both:.1%} with drafts")
        for figure in dict.fromkeys(figure for figure, _, _ in inside):
            own = [held for fig, held, prior in inside if fig == figure and not prior]
            print(f"  {figure}: {sum(own)} of {len(own)}")


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
    _, *words = sys.argv
    if words[:1] == ["truths"]:
        truths(int(words[1]) if len(words) > 1 else TRUTHS)
    else:
        main(int(words[0]) if words else SEEDS)
