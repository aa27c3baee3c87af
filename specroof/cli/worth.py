"""`specroof worth`: what a better drafter would bring."""

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
from specroof.questions.words import KINDS
from specroof.questions.worth import worth as asked
from specroof.report.worth import worth_csv, worth_text

__all__ = ["worth"]

DrafterSpec = Annotated[
    str,
    typer.Option(
        "--drafter",
        metavar="SPEC",
        help="KIND[,key=value…], as in predict; needs no acceptance.",
        autocompletion=completion(lambda: KINDS),
    ),
]
Lengths = Annotated[
    str | None,
    typer.Option(
        "--accept-length",
        help="Acceptance lengths to compare, bonus included, comma-separated.",
        show_default="3 to 9",
    ),
]
DraftLen = Annotated[
    int | None,
    typer.Option(
        "--draft-len",
        help="Drafts that lengths are measured with.",
        show_default="all that the drafter makes, up to 16",
    ),
]
BatchSize = Annotated[float, typer.Option("--batch", help="Sequences in flight.")]
Tpot = Annotated[
    float | None,
    typer.Option(
        "--tpot",
        metavar="MS",
        help="Milliseconds per token that users may wait.",
        show_default="the time of a plain step",
    ),
]
PlotFile = Annotated[
    Path | None,
    typer.Option("--plot", metavar="FILE", help="Draw speedup and users against the length."),
]


@flags
def worth(  # noqa: PLR0913, PLR0917 - one parameter per flag
    model: ModelWord,
    hardware: HardwareWord,
    drafter: DrafterSpec,
    setup: SetupFlags,
    options: OptionFlags,
    accept_length: Lengths = None,
    draft_len: DraftLen = None,
    batch_size: BatchSize = 1,
    context_len: OneContext = 4096,
    tpot: Tpot = None,
    price_per_hour: PricePerHour = None,
    no_capacity: NoCapacity = False,
    as_json: AsJson = False,
    csv_file: CsvFile = None,
    plot_file: PlotFile = None,
) -> None:
    """Show what a better drafter would bring: speedup, price and users by acceptance length.

    Example: specroof worth Qwen/Qwen3-32B -H h100 --tp 2 --drafter block,cost=0.1,block=16
    --batch 32
    """
    found = asked(
        model,
        hardware,
        **vars(setup),
        options=vars(options),
        drafter=drafter,
        accept_length=numbers("--accept-length", accept_length),
        draft_len=draft_len,
        batch_size=batch_size,
        context_len=context_len,
        tpot_s=tpot_seconds(tpot),
        price_per_hour=price_per_hour,
        capacity=False if no_capacity else None,
    )
    give(
        found.to_dict,
        lambda: worth_text(found),
        text_file(csv_file, lambda: worth_csv(found)),
        figure_files(plot_file, lambda plot: plot.worth_figures(found)),
        as_json=as_json,
    )
