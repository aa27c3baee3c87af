"""What noise does to a calibration, and what it recovers where there is none."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from benchmark_points import CHIP, DRAFTER, MODEL, TRUE, calibrate, points
from specroof import Architecture, load_hardware, load_model
from specroof.engines import Calibration, predicted_tokens_per_s
from specroof.engines.calibration import (
    PARAMETERS,
    Problem,
    ProfileParameter,
    coordinate,
    noise_of,
    prior_width,
)
from specroof.evidence import Measurement
from specroof.hardware.engine import EngineProfile
from specroof.hardware.profile import HardwareProfile
from specroof.latency.setup import Deployment, engine_setup

pytestmark = pytest.mark.slow  # every test fits, some many times

B200 = load_hardware("b200")
FITTED = B200.engine("sglang")
MIXTURE = load_model("Qwen/Qwen3-30B-A3B")

#: A machine that is as far from the bundled profile as machines are from one another.
FASTER = replace(
    FITTED,
    layer_overhead_s=0.8 * FITTED.layer_overhead_s,
    sequence_overhead_s=0.7 * FITTED.sequence_overhead_s,
    round_overhead_s=0.7 * FITTED.round_overhead_s,
    memory_frac=1.03 * FITTED.memory_frac,
    kind_memory_frac={kind: 1.03 * share for kind, share in FITTED.kind_memory_frac.items()},
)

PLAIN_12: dict[str, Any] = {"batches": (1, 4, 16, 64), "contexts": (512, 4096, 16384)}
BOTH_16: dict[str, Any] = {"batches": (1, 4, 16, 64), "contexts": (512, 4096), "drafts": (0, 3)}
THREE: dict[str, Any] = {"batches": (1, 8, 64), "contexts": (2048,)}


def moved(
    clean: Sequence[Measurement],
    seeds: int,
    chip: HardwareProfile = B200,
    model: Architecture = MODEL,
) -> npt.NDArray[np.float64]:
    """Return how far 5% of normal noise moves the prediction of each point, shape (seeds, n)."""
    rates = np.array([one.rate for one in clean])
    rows = []
    for seed in range(seeds):
        factors = np.exp(np.random.default_rng(seed).normal(0, 0.05, len(clean)))
        noisy = [
            replace(one, tokens_per_s=float(rate))
            for one, rate in zip(clean, rates * factors, strict=True)
        ]
        found = calibrate(noisy, model, chip, drafter=DRAFTER)
        rows.append(np.abs([one.predicted for one in found.residuals] / rates - 1))
    return np.array(rows)


# --- with noise ----------------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.parametrize(
    ("model", "chip", "engine", "grid", "draws", "mean", "share", "most"),
    [
        # Where the profile holds, noise hardly moves any prediction.
        (MODEL, B200, FITTED, PLAIN_12, 4, 0.01, 1, 0.05),
        (MODEL, B200, FITTED, BOTH_16, 4, 0.01, 1, 0.05),
        (MIXTURE, B200, FITTED, PLAIN_12, 4, 0.01, 1, 0.05),
        # On another machine it seldom moves more: four to six figures from so many points.
        (MODEL, B200, FASTER, PLAIN_12, 6, 0.02, 0.95, 0.05),
        (MODEL, B200, FASTER, BOTH_16, 4, 0.02, 0.95, 0.05),
        # Three noisy points can hardly show that the machine is not that of the profile, which is
        # 10% off here: what they leave is no worse than their noise.
        (MODEL, B200, FASTER, THREE, 20, 0.05, 0.95, 0.1),
        # A chip without a profile has nothing to hold a fit.
        (MODEL, CHIP, TRUE, PLAIN_12, 10, 0.025, 0.95, 0.06),
    ],
)
def test_noise_of_five_percent_moves_predictions_by_less(
    model: Architecture, chip: HardwareProfile, engine: EngineProfile, grid: dict[str, Any],
    draws: int, mean: float, share: float, most: float,
) -> None:  # fmt: skip
    off = moved(points(**grid, engine=engine, model=model), draws, chip, model)
    assert off.mean() <= mean
    assert np.quantile(off, share) <= most


# --- without -------------------------------------------------------------------------------------


def predictions(found: Calibration, others: Sequence[Measurement]) -> list[float]:
    chip = replace(B200, engines={found.engine.name: found.engine})
    setup = engine_setup(chip, found.engine.name, None, None)
    return list(predicted_tokens_per_s(others, Deployment(MODEL, setup), DRAFTER))


GRID_24: dict[str, Any] = {"batches": (1, 8, 64, 256), "contexts": (512, 8192), "drafts": (0, 3, 7)}
ELSEWHERE: dict[str, Any] = {"batches": (2, 32), "contexts": (2048,), "drafts": (0, 5)}
OVERHEADS = (
    "round_overhead_s",
    "round_sequence_overhead_s",
    "draft_pass_overhead_s",
    "request_overhead_s",
)


WITHOUT: dict[str, Any] = dict.fromkeys(
    ("round_overhead_s", "round_sequence_overhead_s", "request_overhead_s"), 0.0
)
MORE: dict[str, Any] = {name: 2.5 * getattr(FITTED, name) for name in OVERHEADS}
STATED: dict[str, Any] = dict(zip(OVERHEADS, (2e-3, 5e-5, 3e-4, 0.02), strict=True))


@pytest.mark.long
@pytest.mark.parametrize(
    ("known", "true"),
    [(FITTED, replace(FITTED, **MORE)), (replace(FITTED, **WITHOUT), replace(FITTED, **STATED))],
    ids=["two and a half times", "from a profile without them"],
)
def test_the_overheads_of_a_round_and_request_are_recovered_together(
    known: EngineProfile, true: EngineProfile
) -> None:
    bench = points(**GRID_24, engine=true, prefills=True)
    found = calibrate(bench, MODEL, replace(B200, engines={"sglang": known}), drafter=DRAFTER)
    fitted = {one.name: one.value for one in found.fitted}
    assert {name: fitted[name] for name in OVERHEADS} == pytest.approx(
        {name: getattr(true, name) for name in OVERHEADS}, rel=0.05
    )
    assert max(abs(one.off) for one in found.residuals) <= 0.01
    others = points(**ELSEWHERE, engine=true, prefills=True)
    expected = [one.rate for one in others]
    assert predictions(found, others) == pytest.approx(expected, rel=0.01)


def test_one_wild_point_moves_the_others_little() -> None:
    bench = points(**PLAIN_12, engine=FASTER)
    wild = [replace(bench[0], tokens_per_s=bench[0].rate / 3), *bench[1:]]
    found = calibrate(wild, MODEL, B200)
    off = [
        abs(residual.predicted / one.rate - 1)
        for residual, one in zip(found.residuals, bench, strict=True)
    ]
    assert max(off) <= 0.1


# --- the pieces ----------------------------------------------------------------------------------


@pytest.mark.parametrize("engine", [FITTED, TRUE, EngineProfile(name="ideal")])
@pytest.mark.parametrize("parameter", PARAMETERS, ids=[one.name for one in PARAMETERS])
def test_a_coordinate_goes_through_the_profile(
    parameter: ProfileParameter, engine: EngineProfile
) -> None:
    one = coordinate(parameter, engine)
    least, most = one.bounds
    assert least <= one.first <= most
    start = one.parameter.start(engine)
    if parameter.is_share:  # of a peak, which boost clocks pass by a little
        assert [one.value(least), one.value(most)] == pytest.approx([0.05, 1.2])
    elif start:
        assert [one.value(least), one.value(most)] == pytest.approx([start / 1e4, start * 1e4])
    else:
        assert (least, most) == (0, np.inf)
    if one.is_known:
        assert one.value(0) == start > 0
        assert one.value(1) / start == pytest.approx(np.exp(one.parameter.spread))
    elif not one.parameter.is_share:
        assert start == one.value(0) == 0
        assert one.value(one.first) == pytest.approx(one.parameter.typical)
    for x in (0.3, 1.7):
        rise = (one.value(x + 1e-6) - one.value(x - 1e-6)) / 2e-6
        assert one.slope(x) == pytest.approx(rise, rel=1e-4)


def problem(bench: Sequence[Measurement]) -> Problem:
    return Problem(bench, Deployment(MODEL, engine_setup(B200, "sglang", None, None)), DRAFTER)


def test_noise_is_learned_and_no_spare_point_says_nothing_of_it() -> None:
    two = [coordinate(parameter, FITTED) for parameter in PARAMETERS[:3:2]]
    clean = points((1, 8, 64), (2048,), engine=FASTER)
    assert noise_of(problem(clean), two) < 0.005
    assert noise_of(problem(clean[:2]), two) == 0.001
    zigzag = [
        replace(one, tokens_per_s=one.rate * (1.05 if n % 2 else 0.95))
        for n, one in enumerate(clean)
    ]
    assert noise_of(problem(zigzag), two) == 0.05


def test_the_prior_is_wide_where_the_profile_does_not_hold() -> None:
    two = [coordinate(parameter, FITTED) for parameter in PARAMETERS[:3:2]]
    holds = points(**PLAIN_12, engine=FITTED)
    slower = points(
        **PLAIN_12, engine=replace(FITTED, layer_overhead_s=2 * FITTED.layer_overhead_s)
    )
    assert prior_width(problem(holds), two, 0.05) == pytest.approx(0.05)
    assert prior_width(problem(slower), two, 0.05) == pytest.approx(1)
