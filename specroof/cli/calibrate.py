"""`specroof calibrate`: your own benchmark results to an engine profile of your own machine."""

from pathlib import Path
from typing import Annotated, Any

import typer

from specroof import catalog, report
from specroof.cli.words import (
    AsJson,
    Engine,
    ExpertParallel,
    Family,
    HardwareWord,
    TensorParallel,
    say,
    say_written,
)
from specroof.errors import MeasurementError
from specroof.hardware import Placement

__all__ = ["calibrate"]


def calibrate(  # noqa: PLR0913, PLR0917 - one parameter per flag
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="BENCH…",
            help="JSON of SGLang's bench_serving, of vllm bench serve --save-result or of "
            "InferenceX; or a CSV with batch_size, context_len, draft_len, tokens_per_s and, "
            "if known, acceptance_length, input_len, output_len.",
        ),
    ],
    hardware: HardwareWord,
    model: Annotated[
        str, typer.Option("--model", help="What was served: as MODEL of `specroof predict`.")
    ],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="Write the hardware YAML here."),
    ] = None,
    family: Family = None,
    tensor_parallel: TensorParallel = 1,
    expert_parallel: ExpertParallel = 1,
    engine: Engine = None,
    drafter: Annotated[
        str | None,
        typer.Option(metavar="SPEC", help="What drafted, where results have drafts."),
    ] = None,
    draft_len: Annotated[
        int | None,
        typer.Option(min=1, help="Drafts per round of results that do not say."),
    ] = None,
    engine_name: Annotated[
        str, typer.Option("--engine-name", help="What to call the engine in the file.")
    ] = "calibrated",
    as_json: AsJson = False,
) -> None:
    """Fit an engine profile to your own benchmark, and write a hardware file with it.

    Three points fit the overheads, more fit the shares of the peaks too; what the points cannot
    determine stays as the profile has it, and is listed with the reason. Vary batch size and
    context: points that are all alike determine little.

    Example: specroof calibrate bench.jsonl -H b200 --model Qwen/Qwen3-8B -o my-b200.yaml
    """
    from specroof import calibrate as room  # noqa: PLC0415 - only this command fits

    loaded = catalog.load_model(model, family=family)
    profile = catalog.load_hardware(hardware)
    points = [
        point
        for file in files
        for point in room.read_benchmark(
            catalog.read_text(file, MeasurementError), source=str(file), draft_len=draft_len
        )
    ]
    room.refuse_others(points, model)
    found = room.calibrate(
        points,
        loaded,
        profile,
        placement=Placement(tensor_parallel, expert_parallel),
        engine=engine,
        drafter=None if drafter is None else catalog.load_drafter(drafter),
    )
    source = room.described(found, loaded.name, [file.name for file in files], tensor_parallel)
    text = room.calibrated_yaml(profile, found.engine, name=engine_name, source=source)
    if output is not None:
        written = {output: text.encode()}
        catalog.write_files(written)
        say_written(written)
    rows: dict[str, Any] = room.calibration_json(found)
    say(report.json_line(rows) if as_json else room.calibration_text(found))
