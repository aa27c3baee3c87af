"""`specroof calibrate`: your own benchmark results to an engine profile of your own machine."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from specroof.cli.flags import (
    BENCH_HELP,
    AsJson,
    ExpertParallel,
    FormatFlags,
    Group,
    HardwareWord,
    ResultFlags,
    TensorParallel,
)
from specroof.cli.grouping import flags, given
from specroof.cli.output import give, text_file
from specroof.errors import OptionError
from specroof.questions.calibrate import DEFAULT_ENGINE_NAME
from specroof.questions.calibrate import calibrate as asked

Output = Annotated[
    Path | None,
    typer.Option("--output", "-o", metavar="FILE", help="Write the hardware YAML here."),
]


@dataclass(frozen=True, kw_only=True)
class Flags(Group):
    """Fields of `specroof.questions.calibrate.CalibrateRequest`."""

    results: Annotated[list[Path], typer.Argument(metavar="BENCH…", help=BENCH_HELP)]
    hardware: HardwareWord
    model: Annotated[
        str,
        typer.Option(
            "--model", help="The served model: a config.json, a bundled model or a Hub name."
        ),
    ]
    tensor_parallel: TensorParallel = 1
    expert_parallel: ExpertParallel = 1
    engine_name: Annotated[
        str | None,
        typer.Option(
            "--engine-name",
            metavar="NAME",
            help="Name of the engine in the written file.",
            show_default=DEFAULT_ENGINE_NAME,
        ),
    ] = None


@flags
def calibrate(
    results: ResultFlags,
    formats: FormatFlags,
    output: Output = None,
    *,
    ask: Flags,
    as_json: AsJson = False,
) -> None:
    """Fit an engine profile to your own benchmark, and write a hardware file with it.

    Three points fit the overheads; more points fit the shares of the peaks too. Figures
    that the points cannot determine keep the profile's values and are listed with the reason.
    Vary batch size and context: equal points determine little.

    Example: specroof calibrate bench.jsonl -H b200 --model Qwen/Qwen3-8B -o my-b200.yaml
    """
    if ask.engine_name is not None and output is None:
        message = (
            f"engine_name is {ask.engine_name!r} without --output; allowed: with --output FILE"
        )
        raise OptionError(message)
    found = asked(**given(ask, results, formats))
    from specroof.report.calibration import calibrated_text  # noqa: PLC0415 - needs fits

    give(
        found.to_dict,
        lambda: calibrated_text(found),
        text_file(output, lambda: found.yaml),
        as_json=as_json,
    )
