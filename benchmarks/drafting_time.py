"""List predicted drafting time beside published figures, each with its error.

The bundled measurements, predicted by fits without their source, and passes of eager code.
Run with: python benchmarks/drafting_time.py
"""

from specroof import SpeedupCurve, load_drafter, load_hardware, load_model, speedup_curve
from specroof.evidence import kind_of, load_measurements
from specroof.scoring import validation

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


def tell(name: str, engine: str, predicted: float, measured: float, unit: str) -> None:
    """Print one comparison."""
    error = predicted / measured - 1
    print(
        f"{name:62s} {engine:7s} {predicted:9.3g} {unit:2s} against {measured:8.3g} ({error:+.0%})"
    )


if __name__ == "__main__":
    main()
