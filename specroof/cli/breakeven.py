"""`specroof breakeven`: what it takes for speculation to pay."""

from pathlib import Path
from typing import Annotated

import typer

from specroof.cli.flags import (
    AsJson,
    Batch,
    Context,
    CsvFile,
    HardwareWord,
    ModelWord,
    NoCapacity,
    OptionFlags,
    SetupFlags,
    completion,
)
from specroof.cli.grouping import flags
from specroof.cli.lists import numbers
from specroof.cli.output import figure_files, give, text_file
from specroof.questions.breakeven import breakeven as asked
from specroof.questions.words import KINDS, SOLVED
from specroof.report.breakeven import breakeven_csv, breakeven_text

__all__ = ["breakeven"]

DrafterSpec = Annotated[
    str,
    typer.Option(
        "--drafter",
        metavar="SPEC",
        help="KIND[,key=value…], as in predict. Needs no acceptance to solve for one.",
        autocompletion=completion(lambda: KINDS),
    ),
]
Solve = Annotated[
    str,
    typer.Option(
        metavar="WORD",
        help="What to find: accept, the least acceptance rate; accept-length, with --draft-len "
        "drafts; the largest cost of drafting, batch or context.",
        autocompletion=completion(lambda: SOLVED),
    ),
]
Speedup = Annotated[float, typer.Option(help="Speedup that is wanted; 1 breaks even.")]
DraftLen = Annotated[
    int | None,
    typer.Option("--draft-len", help="Drafts per round.", show_default="the best of 1 to 16"),
]
Most = Annotated[
    int | None,
    typer.Option(help="Largest batch or context to try.", show_default="4096; 1048576"),
]
PlotFile = Annotated[
    Path | None, typer.Option("--plot", metavar="FILE", help="Draw the answer against the load.")
]


@flags
def breakeven(  # noqa: PLR0913, PLR0917 - one parameter per flag of the contract
    model: ModelWord,
    hardware: HardwareWord,
    drafter: DrafterSpec,
    setup: SetupFlags,
    options: OptionFlags,
    solve: Solve = "accept",
    speedup: Speedup = 1.0,
    batch_size: Batch = None,
    context_len: Context = None,
    draft_len: DraftLen = None,
    most: Most = None,
    no_capacity: NoCapacity = False,
    as_json: AsJson = False,
    csv_file: CsvFile = None,
    plot_file: PlotFile = None,
) -> None:
    """Find the acceptance, cost, batch or context at which speculation starts or stops paying.

    Example: specroof breakeven Qwen/Qwen3-8B -H b200 --drafter eagle3 --batch 1,8,32,128 for the
    least acceptance; with --drafter eagle3,accept=0.7 --solve batch for the largest batch.
    """
    found = asked(
        model,
        hardware,
        **vars(setup),
        options=vars(options),
        drafter=drafter,
        solve=solve,
        speedup=speedup,
        batch_size=numbers("--batch", batch_size),
        context_len=numbers("--context", context_len),
        draft_len=draft_len,
        most=most,
        capacity=False if no_capacity else None,
    )
    give(
        found.to_dict,
        lambda: breakeven_text(found),
        text_file(csv_file, lambda: breakeven_csv(found)),
        figure_files(plot_file, lambda plot: plot.breakeven_figures(found)),
        as_json=as_json,
    )
