"""`specroof breakeven`: what it takes for speculation to pay."""

from dataclasses import dataclass
from typing import Annotated

import typer

from specroof.cli.flags import (
    NoCapacity,
    OneChip,
    OptionFlags,
    Read,
    RequestFlags,
    SetupFlags,
    batch_option,
    completion,
    context_option,
    spec_option,
)
from specroof.cli.grouping import command
from specroof.cli.lists import numbers
from specroof.questions.breakeven import breakeven as asked
from specroof.questions.words import SOLVED
from specroof.report.breakeven import breakeven_csv, breakeven_text


@dataclass(frozen=True, kw_only=True)
class Flags(OneChip):
    """Fields of `specroof.questions.breakeven.BreakevenRequest`."""

    drafter: Annotated[
        str,
        spec_option("KIND[,key=value…], as in predict. Needs no acceptance to solve for one."),
    ]
    solve: Annotated[
        str,
        typer.Option(
            metavar="WORD",
            help="What to find: accept, the least acceptance rate; accept-length, with --draft-len "
            "drafts; the largest cost of drafting, batch or context.",
            autocompletion=completion(lambda: SOLVED),
        ),
    ] = "accept"
    speedup: Annotated[float, typer.Option(help="Speedup that is wanted; 1 breaks even.")] = 1.0
    batch_size: Annotated[str | None, batch_option("1,2,4,…,256"), Read(numbers)] = None
    context_len: Annotated[str | None, context_option("4096"), Read(numbers)] = None
    draft_len: Annotated[
        int | None,
        typer.Option("--draft-len", help="Drafts per round.", show_default="the best of 1 to 16"),
    ] = None
    most: Annotated[
        int | None,
        typer.Option(help="Largest batch or context to try.", show_default="4096; 1048576"),
    ] = None
    no_capacity: NoCapacity = False


breakeven = command(
    asked,
    Flags,
    RequestFlags,
    SetupFlags,
    OptionFlags,
    example="specroof breakeven Qwen/Qwen3-8B -H b200 --drafter eagle3 --batch 1,8,32,128 for the\n"
    "least acceptance; with --drafter eagle3,accept=0.7 --solve batch for the largest batch.",
    text=breakeven_text,
    csv=breakeven_csv,
    charts=("Draw the answer against the load.", "plot_breakeven"),
)
