"""List predicted drafting time beside published figures, each with its error.

Run with: python benchmarks/drafting_time.py
"""

from specroof import Placement, SpeedupCurve, load_drafter, load_hardware, load_model, speedup_curve

# vLLM blog 2026-08-14, figure 2 (exact coordinates): DeepSeek-V4-Flash-0731 drafts a DSpark block
# of 5 on 4 x B300 at context 8192; milliseconds by requests in flight.
DSPARK_MS = {1: 0.88, 4: 1.0, 16: 1.32, 64: 2.27, 128: 3.14, 256: 5.38}

# js-lee-AI/CAST, Hugging Face eager mode, batch 1, prefix 1024: a DFlash pass in milliseconds. Each
# kernel is launched on its own there, so that launching is what was timed.
EAGER_MS = {
    ("a100-pcie", "Qwen/Qwen3-8B"): 4.83,
    ("rtx-pro-6000", "Qwen/Qwen3-4B"): 2.64,
    ("rtx-pro-6000", "Qwen/Qwen3-8B"): 2.75,
    ("h100-nvl", "Qwen/Qwen3-8B"): 2.35,
    ("h100-sxm", "Qwen/Qwen3-4B"): 3.59,
    ("h100-sxm", "Qwen/Qwen3-8B"): 3.80,
    ("h100-sxm", "Qwen/Qwen3-Coder-30B-A3B-Instruct"): 5.56,
}

# arXiv 2601.11580, figure 4 (digitised): shares of a step in drafting and in verification, vLLM on
# one H100, 3 drafts, by batch size. The draft model is not named; Qwen3-0.6B is presumed.
STEP_SHARES = {
    ("meta-llama/Llama-3.1-8B", "ngram"): {1: (0.002, 0.848), 64: (0.010, 0.878)},
    ("meta-llama/Llama-3.1-8B", "eagle"): {1: (0.247, 0.628), 64: (0.134, 0.775)},
    ("meta-llama/Llama-3.1-8B", "eagle3"): {1: (0.217, 0.652), 64: (0.111, 0.798)},
    ("Qwen/Qwen3-8B", "eagle3"): {1: (0.212, 0.658), 64: (0.121, 0.765), 512: (0.071, 0.838)},
    ("Qwen/Qwen3-8B", "model,config=Qwen/Qwen3-0.6B"): {1: (0.471, 0.419), 64: (0.249, 0.649)},
}


def curve(
    model: str, chip: str, spec: str, drafts: int, *, engine: str | None, **load: object
) -> SpeedupCurve:
    """Return a curve whose longest draft is the published one; acceptance moves no draft time."""
    return speedup_curve(
        load_model(model),
        load_hardware(chip),
        drafter=load_drafter(f"{spec},accept=0.7"),
        max_draft_len=drafts,
        engine=engine,
        **load,  # type: ignore[arg-type]  # batch_size, context_len, placement
    )


def main() -> None:
    """Print every comparison on the ideal engine and on the chip's default one."""
    flash = "deepseek-ai/DeepSeek-V4-Flash-0731"
    for engine in ("ideal", None):
        load = {"batch_size": list(DSPARK_MS), "context_len": 8192, "placement": Placement(4)}
        found = curve(flash, "b300", f"dspark,config={flash}", 5, engine=engine, **load)
        for ms, requests, seconds in zip(
            DSPARK_MS.values(), DSPARK_MS, found.draft_s[0, :, -1], strict=True
        ):
            tell(f"dspark, {requests} requests", found.engine, seconds * 1e3, ms, "ms")
        for (chip, model), ms in EAGER_MS.items():
            found = curve(model, chip, "dflash", 15, engine=engine, context_len=1024)
            name = f"dflash of {model} on {chip}, eager"
            tell(name, found.engine, float(found.draft_s[0, 0, -1]) * 1e3, ms, "ms")
    for engine in ("ideal", "vllm"):
        for (model, spec), shares in STEP_SHARES.items():
            load = {"batch_size": list(shares), "context_len": 1000}
            found = curve(model, "h100-sxm", spec, 3, engine=engine, **load)
            predicted = found.draft_s / (found.draft_s + found.verify_s)
            for (drafting, verifying), batch, share in zip(
                shares.values(), shares, predicted[0, :, -1], strict=True
            ):
                name = f"share of {spec} for {model}, batch {batch}"
                tell(name, found.engine, float(share), drafting / (drafting + verifying), "")


def tell(name: str, engine: str, predicted: float, measured: float, unit: str) -> None:
    """Print one comparison."""
    error = predicted / measured - 1
    print(
        f"{name:62s} {engine:7s} {predicted:7.3f} {unit:2s} against {measured:6.3f} ({error:+.0%})"
    )


if __name__ == "__main__":
    main()
