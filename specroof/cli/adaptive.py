"""`specroof adaptive`: what draft lengths gain that follow load or confidence."""

from pathlib import Path
from typing import Annotated

import typer

from specroof.cli.flags import (
    AsJson,
    CsvFile,
    HardwareWord,
    ModelWord,
    OneContext,
    OptionFlags,
    Seed,
    SetupFlags,
)
from specroof.cli.grouping import flags
from specroof.cli.lists import numbers
from specroof.cli.output import figure_files, give, text_file
from specroof.questions.adaptive import USUAL_CONFIDENCE
from specroof.questions.adaptive import adaptive as asked
from specroof.report.adaptive import adaptive_csv, adaptive_text

__all__ = ["adaptive"]

DrafterSpec = Annotated[
    str, typer.Option("--drafter", metavar="SPEC", help="KIND[,key=value…], as in predict.")
]
Loads = Annotated[
    str,
    typer.Option(
        "--batch",
        help="Sequences decoded at a time, comma-separated; one that is named twice lasts twice "
        "as long.",
    ),
]
MaxDraftLen = Annotated[
    int | None,
    typer.Option(help="The longest draft.", show_default="the drafter's depth, up to 16"),
]
Confidence = Annotated[
    float,
    typer.Option(
        help="Share of the variance of acceptance that the drafter's confidence knows: 0 is "
        "nothing, 1 all."
    ),
]
Rounds = Annotated[
    int, typer.Option("--rounds", help="Rounds of single sequences that dice are thrown for.")
]
PlotFile = Annotated[
    Path | None,
    typer.Option("--plot", metavar="FILE", help="Draw the gain of each policy by load."),
]


@flags
def adaptive(  # noqa: PLR0913, PLR0917 - one parameter per flag
    model: ModelWord,
    hardware: HardwareWord,
    drafter: DrafterSpec,
    setup: SetupFlags,
    options: OptionFlags,
    batch_size: Loads = "1,8,32,128",
    context_len: OneContext = 4096,
    max_draft_len: MaxDraftLen = None,
    confidence: Confidence = USUAL_CONFIDENCE,
    n_rounds: Rounds = 20_000,
    seed: Seed = 0,
    as_json: AsJson = False,
    csv_file: CsvFile = None,
    plot_file: PlotFile = None,
) -> None:
    """Compare draft lengths that follow load or confidence with one length for all loads.

    Example: specroof adaptive Qwen/Qwen3-8B -H h100 --drafter eagle3,accept-length=2.8@3
    """
    found = asked(
        model,
        hardware,
        **vars(setup),
        options=vars(options),
        drafter=drafter,
        batch_size=numbers("--batch", batch_size) or [],
        context_len=context_len,
        max_draft_len=max_draft_len,
        confidence=confidence,
        n_rounds=n_rounds,
        seed=seed,
    )
    give(
        found.to_dict,
        lambda: adaptive_text(found),
        text_file(csv_file, lambda: adaptive_csv(found)),
        figure_files(plot_file, lambda plot: plot.adaptive_figures(found)),
        as_json=as_json,
    )
