"""`specroof frontier`: what each user and each device can get."""

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
    batch_option,
    in_seconds,
    spec_option,
)
from specroof.cli.grouping import command
from specroof.cli.lists import numbers
from specroof.questions.frontier import frontier as asked
from specroof.report.frontier import frontier_csv, frontier_text


@dataclass(frozen=True, kw_only=True)
class Flags(OneChip):
    """Fields of `specroof.questions.frontier.FrontierRequest`."""

    drafters: Annotated[
        list[str],
        spec_option("KIND[,key=value…] with its acceptance, repeatable, as in predict."),
    ]
    batch_size: Annotated[str | None, batch_option("1,2,3,4,6,8,…,4096"), Read(numbers)] = None
    context_len: ContextOrRequests = None
    devices: Annotated[
        str | None,
        typer.Option(help="Numbers of devices to compare, comma-separated.", show_default="--tp"),
        Read(numbers),
    ] = None
    max_draft_len: Annotated[
        int | None, typer.Option(help="Longest draft tried.", show_default="16")
    ] = None
    tpot: Annotated[
        float | None,
        typer.Option("--tpot", metavar="MS", help="Target: milliseconds per token."),
        Read(in_seconds, into="tpot_s"),
    ] = None
    ttft: Annotated[
        float | None,
        typer.Option(
            "--ttft", metavar="MS", help="Target: milliseconds to the first token of a request."
        ),
        Read(in_seconds, into="ttft_s"),
    ] = None
    price_per_hour: PricePerHour = None
    no_capacity: NoCapacity = False


frontier = command(
    asked,
    Flags,
    RequestFlags,
    SetupFlags,
    OptionFlags,
    example="specroof frontier Qwen/Qwen3-32B -H h100 --devices 1,2,4 --drafter eagle3,accept=0.7\n"
    "--tpot 20 --plot frontier.png",
    text=frontier_text,
    csv=frontier_csv,
    charts=("Draw tokens/s per device against per user.", "plot_frontier"),
)
