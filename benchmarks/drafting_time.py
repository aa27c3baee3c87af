"""List predicted drafting time, and the host's time per round, beside published figures.

The bundled measurements, predicted by fits without their source, and passes of eager code. Then
what waiting for the host takes: in pairs of runs that differ in nothing else, and at most, in
sources that do not say whether their rounds overlapped.
Run with: python benchmarks/drafting_time.py
"""

import numpy as np

from specroof import SpeedupCurve, load_drafter, load_hardware, load_model, speedup_curve
from specroof.evidence import kind_of, load_measurements, measured_of
from specroof.scoring import validation
from specroof.scoring.left_out import is_fitted, left_out_engine, left_out_rates

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


# Seconds of a round or plain step without overlap, and with it; SGLang, requests of one scheduler.
HOST_PAIRS = (
    ("sglang pull request 23000, round of DFlash", 1, 6.345 / 845.98, 6.352 / 1161.88),
    (
        "sglang pull request 23000, round of DFlash",
        32,
        32 * 6.487 / 11405.85,
        32 * 6.482 / 15326.81,
    ),
    # The acceptance of pull request 23000, which has the same drafter, task and chip.
    ("sglang pull request 20547, round of DFlash", 32, 32 * 6.48 / 9688.26, 32 * 6.48 / 12360.49),
    ("LMSYS 2025-07-17, plain step of DeepSeek-V3", 2, 2 / 51.0, 2 / 60.4),
)


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
    """Print every comparison on the ideal engine, and on fitted ones."""
    found = validation(one for one in load_measurements() if kind_of(one)[0] == "drafting")
    for engine, points in (("ideal", found.ideal), ("fitted", found.points)):
        for one in points:
            point = one.point
            unit = "" if point.draft_s is None else "s"
            name = f"{point.method} for {point.model}, batch {point.batch_size:g}"
            tell(name, engine, one.predicted, one.measured, unit)
    for asked in ("ideal", None):
        for (chip, model), ms in EAGER_MS.items():
            drafting = curve(model, chip, "dflash", 15, engine=asked, context_len=1024)
            name = f"dflash of {model} on {chip}, eager"
            tell(name, drafting.engine, float(drafting.draft_s[0, 0, -1]) * 1e3, ms, "ms")
    host_time()


def host_time() -> None:
    """Print the host's time per round beside what profiles charge without overlap."""
    engine = load_hardware("b200").engine("sglang")
    for name, batch, without_s, with_s in HOST_PAIRS:
        charged_s = engine.host_s + batch * engine.host_sequence_s
        tell(f"{name}, batch {batch}", "host", charged_s * 1e3, (without_s - with_s) * 1e3, "ms")
    points = [
        point
        for point in load_measurements()
        if kind_of(point)[0] == "speedup" and point.engine == "sglang" and point.tokens_per_round
        if is_fitted(point.hardware or "")
    ]
    rates = left_out_rates(points)
    groups: dict[tuple[str, float], list[float]] = {}
    for row, point in enumerate(points):
        # How much longer a round lasts than predicted, at the predicted plain throughput.
        requests, engine = float(point.batch_size or 1), left_out_engine(point)
        tokens_s = requests * (point.tokens_per_round or 1.0) / float(rates.plain[row])
        longer_s = tokens_s / measured_of(point)[1] - tokens_s / float(rates.speedup[row])
        added_s = engine.round_overhead_s + requests * engine.round_sequence_overhead_s
        groups.setdefault((point.source, requests), []).append(added_s + longer_s)
    print("\nengine's time per round that measured speedups leave, SGLang: quartiles in ms")
    for (source, requests), left_s in sorted(groups.items()):
        quartiles = np.percentile(left_s, [25, 50, 75]) * 1e3
        cells = "  ".join(f"{value:7.2f}" for value in quartiles)
        print(f"{source:20s} batch {requests:3g} {len(left_s):4d} points  {cells}")


def tell(name: str, engine: str, predicted: float, measured: float, unit: str) -> None:
    """Print one comparison."""
    error = predicted / measured - 1
    print(
        f"{name:62s} {engine:7s} {predicted:9.3g} {unit:2s} against {measured:8.3g} ({error:+.0%})"
    )


if __name__ == "__main__":
    main()
