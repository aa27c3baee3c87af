"""`specroof mock`: the commands that measure a predicted point on a real engine."""

import shlex
from pathlib import Path
from typing import Annotated

import typer

from specroof import catalog, report
from specroof.cli.flags import (
    AsJson,
    Family,
    HardwareWord,
    KvDtype,
    ModelWord,
    TensorParallel,
    WeightDtype,
    options_of,
    say,
)
from specroof.errors import OptionError
from specroof.hardware import Placement
from specroof.latency import engine_setup
from specroof.serving.benchmark_commands import FRAMEWORKS, MockPoint, mock_commands
from specroof.serving.requests import EndToEnd, Workload, end_to_end
from specroof.speedup.curve import SpeedupCurve, speedup_curve

__all__ = ["mock"]


def mock(  # noqa: PLR0913, PLR0917 - one parameter per flag
    model: ModelWord,
    hardware: HardwareWord,
    drafter: Annotated[
        str,
        typer.Option(metavar="SPEC", help="What drafts and how much is accepted, as in predict."),
    ],
    draft_len: Annotated[int, typer.Option(min=1, help="Drafts per round.")],
    draft_model: Annotated[
        str | None,
        typer.Option(help="Hub name or folder with the drafter's config; mtp needs none."),
    ] = None,
    framework: Annotated[
        str, typer.Option(metavar="|".join(FRAMEWORKS), help="Whose commands.")
    ] = "sglang",
    concurrency: Annotated[int, typer.Option(min=1, help="Requests in flight.")] = 1,
    input_len: Annotated[int, typer.Option(min=1, help="Tokens of each prompt.")] = 1024,
    output_len: Annotated[int, typer.Option(min=1, help="Tokens of each answer.")] = 1024,
    tensor_parallel: TensorParallel = 1,
    engine: Annotated[
        str | None,
        typer.Option(
            help="An engine of the hardware profile: that of --framework, if left out, where the "
            "profile has one."
        ),
    ] = None,
    kv_dtype: KvDtype = None,
    weight_dtype: WeightDtype = None,
    family: Family = None,
    as_json: AsJson = False,
) -> None:
    """Print the commands that measure a predicted point without trained weights.

    The engine runs with random weights and accepts as many drafts as it is told. Compare the
    results with predictions by `specroof validate`, and fit them by `specroof calibrate`.

    Example: specroof mock Qwen/Qwen3.5-27B -H b200 --drafter mtp,accept=0.8 --draft-len 3
    """
    one = catalog.load_drafter(drafter)
    if one.acceptance is None:
        message = f"drafter {drafter!r} has no acceptance to force; give one, as in accept=0.8"
        raise OptionError(message)
    loaded, profile = catalog.load_model(model, family=family), catalog.load_hardware(hardware)
    workload, placement = Workload(input_len, output_len), Placement(tensor_parallel)
    options = options_of(kv_dtype=kv_dtype, weight_dtype=weight_dtype)
    predicting, notes = engine, list[str]()
    if engine is None:
        from specroof.report.calibration import engine_of_tool  # noqa: PLC0415 - no prediction needs it

        predicting, notes = engine_of_tool(framework, profile)
    curve = speedup_curve(
        loaded,
        profile,
        drafter=one,
        batch_size=concurrency,
        context_len=workload.mean_context_len,
        max_draft_len=draft_len,
        placement=placement,
        engine=predicting,
        options=options,
    )
    if curve.verify_len[-1] != draft_len + 1:
        message = (
            f"drafter {drafter!r} has {curve.verify_len[-1]:g} positions verified at {draft_len} "
            f"drafts; allowed: a chain or block, which is what engines are told to accept"
        )
        raise OptionError(message)
    whole = end_to_end(
        curve, loaded, engine_setup(profile, predicting, placement, options), workload
    )
    point = MockPoint(
        model=model,
        method=drafter.partition(",")[0],
        drafter=draft_model,
        draft_len=draft_len,
        tokens_per_round=round(float(curve.tokens_per_round[0, 0, -1]), 4),
        batch_size=concurrency,
        input_len=input_len,
        output_len=output_len,
        tensor_parallel=tensor_parallel,
        weights=weight_dtype,
        kv_cache=kv_dtype,
    )
    commands = mock_commands(point, framework)
    if as_json:
        rows = [{"title": title, "command": command} for title, command in commands]
        say(
            report.json_line(
                {"commands": rows, "predicted": _predicted(curve, whole), "notes": notes}
            )
        )
        return
    for title, command in commands:
        say(f"# {title}\n{command}\n")
    for note in notes:
        say(f"# note: {note}")
    words = ["-H", hardware, "--model", model, "--drafter", drafter]
    words += ["--draft-len", str(draft_len), "--tp", str(tensor_parallel)]
    given = {
        "--family": family,
        "--engine": engine,
        "--kv-cache": kv_dtype,
        "--weights": weight_dtype,
    }
    for word, value in given.items():
        words += [] if value is None else [word, value]
    bench, mine = shlex.join(["bench.jsonl", *words]), f"my-{Path(hardware).stem}.yaml"
    say(
        f"# predicted by engine {curve.engine}, prefills counted as the benchmark does: "
        f"{whole.tokens_per_s[0, 0, 0]:.0f} tok/s without drafts, "
        f"{whole.tokens_per_s[0, 0, -1]:.0f} with, {whole.speedup[0, 0, -1]:.2f}x "
        f"({curve.speedup[0, 0, -1]:.2f}x while decoding)\n"
        f"# then compare: specroof validate {bench}\n"
        f"# and fit, with results at several loads: specroof calibrate {bench} "
        f"-o {shlex.quote(mine)}"
    )


def _predicted(curve: SpeedupCurve, whole: EndToEnd) -> dict[str, object]:
    """Return what is predicted: the speedup while decoding, and all of it with prefills counted."""
    return {
        "speedup": float(curve.speedup[0, 0, -1]),
        "engine": curve.engine,
        "end_to_end": {
            "speedup": float(whole.speedup[0, 0, -1]),
            "baseline_tokens_per_s": float(whole.tokens_per_s[0, 0, 0]),
            "tokens_per_s": float(whole.tokens_per_s[0, 0, -1]),
        },
    }
