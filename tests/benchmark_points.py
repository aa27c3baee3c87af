"""Benchmarks as a known engine would measure them, to be calibrated from and compared with."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import product

from specroof import Architecture, load_drafter, load_hardware, load_model
from specroof.engines.forward import predicted_tokens_per_s
from specroof.evidence import BenchmarkPoint
from specroof.hardware import EngineProfile
from specroof.latency.model import engine_setup

MODEL = load_model("Qwen/Qwen3-8B")
CHIP = replace(load_hardware("b200"), engines={}, default_engine=None)
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
) -> list[BenchmarkPoint]:
    """Return what an engine would measure over a grid, prompts counted where `prefills` says so."""
    setup = engine_setup(replace(CHIP, engines={engine.name: engine}), engine.name, None, None)
    grid = [
        BenchmarkPoint(
            place=f"bench.csv, line {number}",
            batch_size=batch,
            context_len=context,
            tokens_per_s=1.0,
            draft_len=draft_len,
            tokens_per_round=1 + draft_len / 2,
            input_len=0.8 * context if prefills else None,
            output_len=0.4 * context if prefills else None,
        )
        for number, (batch, context, draft_len) in enumerate(product(batches, contexts, drafts))
    ]
    rates = predicted_tokens_per_s(grid, model, setup, DRAFTER).tolist()
    return [replace(one, tokens_per_s=rate) for one, rate in zip(grid, rates, strict=True)]
