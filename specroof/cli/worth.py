"""`specroof worth`: what a better drafter would bring."""

from dataclasses import dataclass
from typing import Annotated

import typer

from specroof.cli.flags import (
    ContextOrRequests,
    NoCapacity,
    OneChip,
    OptionFlags,
    PricePerHour,
    Read,
    RequestFlags,
    SetupFlags,
    in_seconds,
    spec_option,
)
from specroof.cli.grouping import command
from specroof.cli.lists import numbers
from specroof.questions.worth import worth as asked
from specroof.report.worth import worth_csv, worth_text


@dataclass(frozen=True, kw_only=True)
class Flags(OneChip):
    """Fields of `specroof.questions.worth.WorthRequest`."""

    drafter: Annotated[str, spec_option("KIND[,key=value…], as in predict; needs no acceptance.")]
    accept_length: Annotated[
        str | None,
        typer.Option(
            "--accept-length",
            help="Acceptance lengths to compare, bonus included, comma-separated.",
            show_default="3 to 9",
        ),
        Read(numbers),
    ] = None
    draft_len: Annotated[
        int | None,
        typer.Option(
            "--draft-len",
            help="Drafts that lengths are measured with.",
            show_default="all that the drafter makes, up to 16",
        ),
    ] = None
    batch_size: Annotated[float, typer.Option("--batch", help="Sequences in flight.")] = 1
    context_len: ContextOrRequests = None
    tpot: Annotated[
        float | None,
        typer.Option(
            "--tpot",
            metavar="MS",
            help="Target: milliseconds per token.",
            show_default="the time of plain decoding",
        ),
        Read(in_seconds, into="tpot_s"),
    ] = None
    price_per_hour: PricePerHour = None
    no_capacity: NoCapacity = False


worth = command(
    asked,
    Flags,
    RequestFlags,
    SetupFlags,
    OptionFlags,
    example="specroof worth Qwen/Qwen3-32B -H h100 --tp 2 --drafter block,cost=0.1,block=16\n"
    "--batch 32",
    text=worth_text,
    csv=worth_csv,
    charts=("Draw speedup and users against the length.", "plot_worth"),
)
