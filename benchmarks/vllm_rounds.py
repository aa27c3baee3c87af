"""Time rounds of vLLM on one GPU: random weights, drafts of a stated acceptance, no network.

The engine serves a model whose weights are drawn (`--load-format dummy`) and accepts drafts by dice
(`rejection_sample_method: synthetic`), so that configs alone are enough, and what is measured is
what a round costs at a known yield. Experts are drawn uniformly
(`VLLM_MOE_ROUTING_SIMULATION_STRATEGY`).

Each line of the CSV is a batch at a context, in a steady state: the prompts lie in the cache
already, and the clock runs while all requests decode. `round_s` is the time of one step of the
engine, `tokens` what a request gains in it. Needs vLLM 0.24 or later; run it once a model and
drafter:

    python benchmarks/vllm_rounds.py MODEL_DIR OUT.csv
    python benchmarks/vllm_rounds.py MODEL_DIR OUT.csv --drafter DIR --drafts 3 --rates 0.7 0.5 0.4
"""

import argparse
import csv
import os
import time
from pathlib import Path
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("VLLM_MOE_ROUTING_SIMULATION_STRATEGY", "uniform_random")

import numpy as np
from vllm import EngineArgs, LLMEngine, SamplingParams

COLUMNS = ("model", "method", "drafts", "batch", "context", "rounds", "round_s", "tokens")
#: Sizes of the graphs that are captured: those of the batches that are timed.
CAPTURED = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)


def arguments() -> argparse.Namespace:
    """Return what the command line says."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--drafter", type=Path)
    parser.add_argument("--method", default="eagle3")
    parser.add_argument("--drafts", type=int, default=0)
    parser.add_argument("--rates", type=float, nargs="+", default=())
    parser.add_argument("--loads", nargs="+", default=["1024:256,128,64,16,4,1", "8192:16,1"])
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--memory", type=float, default=0.92)
    return parser.parse_args()


def engine_of(asked: argparse.Namespace) -> LLMEngine:
    """Start the engine with drawn weights."""
    drafting: dict[str, Any] = {}
    if asked.drafts:
        drafting["speculative_config"] = {
            "method": asked.method,
            "num_speculative_tokens": asked.drafts,
            "rejection_sample_method": "synthetic",
            "synthetic_acceptance_rates": list(asked.rates),
        } | ({"model": str(asked.drafter)} if asked.drafter else {})
    return LLMEngine.from_engine_args(
        EngineArgs(
            model=str(asked.model),
            skip_tokenizer_init=True,
            load_format="dummy",
            max_model_len=12288,
            max_num_seqs=256,
            max_num_batched_tokens=8192,
            gpu_memory_utilization=asked.memory,
            cudagraph_capture_sizes=list(CAPTURED),
            disable_log_stats=True,
            **drafting,
        )
    )


def run(engine: LLMEngine, prompts: list[list[int]], tokens: int, name: str) -> list[np.ndarray]:
    """Return when each step ended and how many tokens each request had by then, step by step."""
    params = SamplingParams(temperature=0.0, max_tokens=tokens, ignore_eos=True, detokenize=False)
    for i, prompt in enumerate(prompts):
        engine.add_request(f"{name}-{i}", {"prompt_token_ids": prompt}, params)
    have = np.zeros(len(prompts), int)
    times, had = [], []
    while engine.has_unfinished_requests():
        outputs = engine.step()
        for output in outputs:
            have[int(output.request_id.split("-")[1])] = len(output.outputs[0].token_ids)
        if outputs:
            times.append(time.perf_counter())
            had.append(have.copy())
    return [np.array(times), np.array(had)]


def measured(times: np.ndarray, had: np.ndarray) -> tuple[int, float, float]:
    """Return rounds, seconds a round and tokens a request and round, while all decode."""
    first = int(np.argmax((had > 0).all(axis=1))) + 4
    last = int(np.argmax((had == had[-1]).any(axis=1))) - 1  # the first request ends in the next
    rounds = last - first
    grown = (had[last] - had[first]).mean()
    return rounds, float(times[last] - times[first]) / rounds, float(grown) / rounds


def main() -> None:
    """Time every load and write a line for each."""
    asked = arguments()
    start = time.perf_counter()
    engine = engine_of(asked)
    print(f"engine started in {time.perf_counter() - start:.0f} s", flush=True)
    rng = np.random.default_rng(1)
    mean = 1 + sum(asked.rates)
    asked.out.parent.mkdir(parents=True, exist_ok=True)
    new = not asked.out.exists()
    with asked.out.open("a", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        if new:
            rows.writerow(COLUMNS)
        for load in asked.loads:
            context, batches = load.split(":")
            prompts = rng.integers(1000, 30000, (256, int(context))).tolist()
            for index, batch in enumerate(map(int, batches.split(","))):
                begun = time.perf_counter()
                if index == 0:
                    run(engine, prompts[:batch], 1, "warm")
                    warm = time.perf_counter() - begun
                    print(f"{batch} prompts of {context}: {warm:.2f} s", flush=True)
                tokens = int(asked.rounds * mean)
                found = measured(*run(engine, prompts[:batch], tokens, "timed"))
                rows.writerow(
                    (
                        asked.model.name,
                        asked.method if asked.drafts else "none",
                        asked.drafts,
                        batch,
                        int(context) + tokens // 2,
                        found[0],
                        f"{found[1]:.6f}",
                        f"{found[2]:.4f}",
                    )
                )
                file.flush()
                print(batch, context, found, f"{time.perf_counter() - begun:.1f} s", flush=True)


if __name__ == "__main__":
    main()
