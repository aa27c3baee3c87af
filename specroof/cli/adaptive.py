"""`specroof adaptive`: what draft lengths gain that follow load or confidence."""

from dataclasses import dataclass
from typing import Annotated

import typer

from specroof.cli.flags import (
    OneChip,
    OneContext,
    OptionFlags,
    Read,
    Seed,
    SetupFlags,
    spec_option,
)
from specroof.cli.grouping import command
from specroof.cli.lists import numbers
from specroof.questions.adaptive import USUAL_CONFIDENCE
from specroof.questions.adaptive import adaptive as asked
from specroof.report.adaptive import adaptive_csv, adaptive_text


@dataclass(frozen=True, kw_only=True)
class Flags(OneChip):
    """Fields of `specroof.questions.adaptive.AdaptiveRequest`."""

    drafter: Annotated[str, spec_option("KIND[,key=value…], as in predict.")]
    batch_size: Annotated[
        str,
        typer.Option(
            "--batch",
            help="Sequences decoded at a time, comma-separated. Name one twice to give it twice "
            "the weight.",
        ),
        Read(numbers),
    ] = "1,8,32,128"
    context_len: OneContext = 4096
    max_draft_len: Annotated[
        int | None,
        typer.Option(help="The longest draft.", show_default="the drafter's depth, up to 16"),
    ] = None
    confidence: Annotated[
        float,
        typer.Option(
            help="Share of the variance of acceptance that the drafter's confidence explains, "
            "0 to 1."
        ),
    ] = USUAL_CONFIDENCE
    n_rounds: Annotated[
        int, typer.Option("--rounds", help="Simulated rounds of single sequences.")
    ] = 20_000
    seed: Seed = 0


adaptive = command(
    asked,
    Flags,
    SetupFlags,
    OptionFlags,
    example="specroof adaptive Qwen/Qwen3-8B -H h100 --drafter eagle3,accept-length=2.8@3",
    text=adaptive_text,
    csv=adaptive_csv,
    charts=("Draw the gain of each policy by load.", "plot_adaptive"),
)
