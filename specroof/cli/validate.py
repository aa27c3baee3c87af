"""`specroof validate`: predictions against published measurements, or against your own."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from specroof.cli.flags import (
    BENCH_HELP,
    AsJson,
    FormatFlags,
    Group,
    ResultFlags,
    completion,
    plot_option,
)
from specroof.cli.grouping import flags, given
from specroof.cli.output import figure_files, give
from specroof.questions.validate import validate as asked
from specroof.questions.words import hardware_names


@dataclass(frozen=True, kw_only=True)
class Flags(Group):
    """Fields of `specroof.questions.validate.ValidateRequest`."""

    results: Annotated[
        list[Path] | None,
        typer.Argument(metavar="[BENCH…]", help=BENCH_HELP, show_default=False),
    ] = None
    hardware: Annotated[
        str | None,
        typer.Option(
            "--hardware",
            "-H",
            help="Hardware that BENCH ran on: a YAML file, or a name or alias that `specroof "
            "hardware` lists.",
            autocompletion=completion(hardware_names),
        ),
    ] = None
    model: Annotated[
        str | None,
        typer.Option(
            "--model",
            help="Model that BENCH served: a config.json, a bundled model or a Hub name.",
        ),
    ] = None
    tensor_parallel: Annotated[
        int | None, typer.Option("--tp", help="Devices (tensor parallelism).", show_default="1")
    ] = None
    expert_parallel: Annotated[
        int | None,
        typer.Option(
            "--ep", help="Expert parallelism: devices that share the experts.", show_default="1"
        ),
    ] = None


PlotFile = Annotated[
    Path | None,
    plot_option("Draw predicted against measured: speedup by source, or throughput of BENCH."),
]


@flags
def validate(
    results: ResultFlags,
    formats: FormatFlags,
    ask: Flags,
    as_json: AsJson = False,
    plot_file: PlotFile = None,
) -> None:
    """Compare predictions with your own results, or with every bundled measurement.

    With BENCH, the command predicts each result by the engine profile and by the ideal roofline.
    Where one load was measured with drafts and without, it compares speedups too.

    Without BENCH, it predicts each bundled source by engine profiles that were fitted without
    that source. Speedups count where a source states the acceptance length; other tables of
    speedups are compared by shape.

    Example: specroof validate bench.jsonl -H b200 --model Qwen/Qwen3-8B --drafter eagle3
    """
    found = asked(**given(ask, results, formats))
    from specroof.report.validation import validated_text  # noqa: PLC0415 - reads fits

    give(
        found.to_dict,
        lambda: validated_text(found),
        figure_files(plot_file, lambda _: found.plot()),
        as_json=as_json,
    )
