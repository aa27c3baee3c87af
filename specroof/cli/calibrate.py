"""`specroof calibrate`: your own benchmark results to an engine profile of your own machine."""

from pathlib import Path
from typing import Annotated, Any

import typer

from specroof import catalog, report
from specroof.cli.benchmarks import (
    BENCH_HELP,
    BenchEngine,
    DrafterWord,
    DraftLen,
    load_benchmark,
)
from specroof.cli.flags import (
    AsJson,
    ExpertParallel,
    Family,
    HardwareWord,
    KvDtype,
    TensorParallel,
    WeightDtype,
    options_of,
    say,
    say_notes,
    say_written,
)
from specroof.errors import OptionError
from specroof.hardware import Placement
from specroof.latency import engine_setup, option_notes
from specroof.speedup.served import Served

__all__ = ["calibrate"]

_ENGINE_NAME = "calibrated"


def calibrate(  # noqa: PLR0913, PLR0917 - one parameter per flag
    files: Annotated[list[Path], typer.Argument(metavar="BENCH…", help=BENCH_HELP)],
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
    engine: BenchEngine = None,
    kv_dtype: KvDtype = None,
    weight_dtype: WeightDtype = None,
    drafter: DrafterWord = None,
    draft_len: DraftLen = None,
    engine_name: Annotated[
        str | None,
        typer.Option(
            "--engine-name", help="What to call the engine in the file.", show_default=_ENGINE_NAME
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Fit an engine profile to your own benchmark, and write a hardware file with it.

    Three points fit the overheads, more fit the shares of the peaks too; what the points cannot
    determine stays as the profile has it, and is listed with the reason. Vary batch size and
    context: points that are all alike determine little.

    Example: specroof calibrate bench.jsonl -H b200 --model Qwen/Qwen3-8B -o my-b200.yaml
    """
    from specroof import engines  # noqa: PLC0415 - only this command fits
    from specroof.report import calibration as words_of  # noqa: PLC0415

    if engine_name is not None and output is None:
        message = f"--engine-name is {engine_name!r} without --output; allowed: with --output FILE"
        raise OptionError(message)
    options = options_of(kv_dtype=kv_dtype, weight_dtype=weight_dtype)
    bench = load_benchmark(
        files,
        model=model,
        hardware=hardware,
        family=family,
        engine=engine,
        drafter=drafter,
        draft_len=draft_len,
    )
    placement = Placement(tensor_parallel, expert_parallel)
    setup = engine_setup(bench.hardware, bench.engine, placement, options)
    found = engines.calibrate(bench.points, Served(bench.model, setup), bench.drafter)
    source = words_of.described(found, bench.model.name, bench.labels, tensor_parallel)
    text = engines.calibrated_yaml(
        bench.hardware, found.engine, name=engine_name or _ENGINE_NAME, source=source
    )
    if output is not None:
        written = {output: text.encode()}
        catalog.write_files(written)
        say_written(written)
    notes = [*bench.notes, *option_notes(bench.model, options)]
    if as_json:
        rows: dict[str, Any] = {**words_of.calibration_json(found), "notes": notes}
        say(report.json_line(rows))
        return
    say(words_of.calibration_text(found))
    say_notes(notes)
