"""`specroof frontier`: what each user and each device can get."""

from pathlib import Path
from typing import Annotated

import typer

from specroof.cli.flags import (
    AsJson,
    CsvFile,
    HardwareWord,
    ModelWord,
    NoCapacity,
    OneContext,
    OptionFlags,
    PricePerHour,
    SetupFlags,
    completion,
    tpot_seconds,
)
from specroof.cli.grouping import flags
from specroof.cli.lists import numbers
from specroof.cli.output import figure_files, give, text_file
from specroof.questions.frontier import frontier as asked
from specroof.questions.words import KINDS
from specroof.report.frontier import frontier_csv, frontier_text

__all__ = ["frontier"]

Drafters = Annotated[
    list[str],
    typer.Option(
        "--drafter",
        metavar="SPEC",
        help="KIND[,key=value…] with its acceptance, repeatable, as in predict.",
        autocompletion=completion(lambda: KINDS),
    ),
]
BatchSizes = Annotated[
    str | None,
    typer.Option(
        "--batch", help="Sequences in flight, comma-separated.", show_default="1,2,3,4,6,8,…,4096"
    ),
]
Devices = Annotated[
    str | None,
    typer.Option(help="Numbers of devices to compare, comma-separated.", show_default="--tp"),
]
MaxDraftLen = Annotated[int | None, typer.Option(help="Longest draft tried.", show_default="16")]
Tpot = Annotated[
    float | None,
    typer.Option("--tpot", metavar="MS", help="Milliseconds per token that a user may wait."),
]
PlotFile = Annotated[
    Path | None,
    typer.Option("--plot", metavar="FILE", help="Draw tokens/s per device against per user."),
]


@flags
def frontier(  # noqa: PLR0913, PLR0917 - one parameter per flag of the contract
    model: ModelWord,
    hardware: HardwareWord,
    drafters: Drafters,
    setup: SetupFlags,
    options: OptionFlags,
    batch_size: BatchSizes = None,
    context_len: OneContext = 4096,
    devices: Devices = None,
    max_draft_len: MaxDraftLen = None,
    tpot: Tpot = None,
    price_per_hour: PricePerHour = None,
    no_capacity: NoCapacity = False,
    as_json: AsJson = False,
    csv_file: CsvFile = None,
    plot_file: PlotFile = None,
) -> None:
    """Find what each user and each device can get, with speculation and without.

    Example: specroof frontier Qwen/Qwen3-32B -H h100 --devices 1,2,4 --drafter eagle3,accept=0.7
    --tpot 20 --plot frontier.png
    """
    found = asked(
        model,
        hardware,
        **vars(setup),
        options=vars(options),
        drafters=drafters,
        batch_size=numbers("--batch", batch_size),
        context_len=context_len,
        devices=numbers("--devices", devices),
        max_draft_len=max_draft_len,
        tpot_s=tpot_seconds(tpot),
        price_per_hour=price_per_hour,
        capacity=False if no_capacity else None,
    )
    give(
        found.to_dict,
        lambda: frontier_text(found),
        text_file(csv_file, lambda: frontier_csv(found)),
        figure_files(plot_file, lambda plot: plot.frontier_figures(found)),
        as_json=as_json,
    )
