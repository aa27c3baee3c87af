"""Benchmarks as a known engine would measure them, to be calibrated from and compared with."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import product

from specroof import Architecture, load_drafter, load_hardware, load_model
from specroof.cost import Options
from specroof.drafters import Drafter
from specroof.engines import Calibration, predicted_tokens_per_s
from specroof.engines import calibrate as calibrate_from
from specroof.evidence import Measurement
from specroof.hardware.engine import EngineProfile
from specroof.hardware.profile import HardwareProfile, Placement
from specroof.latency.setup import Deployment, engine_setup

MODEL = load_model("Qwen/Qwen3-8B")
CHIP = replace(load_hardware("b200"), engines={}, default_engine=None, generic=None)
DRAFTER = load_drafter("eagle3")
TRUE = EngineProfile(
    name="true",
    compute_frac={"bf16": 0.6},
    memory_frac=0.8,
    pass_overhead_s=1.2e-3,
    sequence_overhead_s=40e-6,
    round_overhead_s=9e-4,
)


def points(
    batches: Sequence[float] = (1, 8, 64),
    contexts: Sequence[float] = (512, 8192),
    drafts: Sequence[int] = (0,),
    engine: EngineProfile = TRUE,
    model: Architecture = MODEL,
    *,
    prefills: bool = False,
) -> list[Measurement]:
    """Return what an engine would measure over a grid, prompts counted where `prefills` says so."""
    setup = engine_setup(replace(CHIP, engines={engine.name: engine}), engine.name, None, None)
    grid = [
        Measurement(
            place=f"bench.csv, line {number}",
            batch_size=batch,
            context_len=context,
            tokens_per_s=1.0,
            draft_len=draft_len,
            tokens_per_round=1 + draft_len / 2,
            input_len=0.8 * context if prefills else None,
            output_len=0.4 * context if prefills else None,
            includes_prefill=prefills,
        )
        for number, (batch, context, draft_len) in enumerate(product(batches, contexts, drafts))
    ]
    rates = predicted_tokens_per_s(grid, Deployment(model, setup), DRAFTER).tolist()
    return [replace(one, tokens_per_s=rate) for one, rate in zip(grid, rates, strict=True)]


def served(
    hardware: HardwareProfile,
    engine: str | None = None,
    placement: Placement | None = None,
    options: Options | None = None,
    *,
    model: Architecture = MODEL,
) -> Deployment:
    """Return a model where it is served."""
    return Deployment(model, engine_setup(hardware, engine, placement, options))


def calibrate(
    bench: Sequence[Measurement],
    model: Architecture,
    hardware: HardwareProfile,
    *,
    drafter: Drafter | None = None,
    engine: str | None = None,
    placement: Placement | None = None,
    options: Options | None = None,
) -> Calibration:
    """Return the fit of a profile to what was measured on it."""
    where = served(hardware, engine, placement, options, model=model)
    return calibrate_from(bench, where, drafter)
