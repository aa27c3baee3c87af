"""`specroof capacity`: how many requests a server runs at once."""

from dataclasses import dataclass
from typing import Annotated

import typer

from specroof.cli.flags import FormatFlags, OneChip, SetupFlags, spec_option
from specroof.cli.grouping import command
from specroof.questions.capacity import capacity as asked
from specroof.questions.words import KINDS
from specroof.report.capacity import capacity_csv, capacity_text


@dataclass(frozen=True, kw_only=True)
class Flags(OneChip):
    """Fields of `specroof.questions.capacity.CapacityRequest`."""

    context_len: Annotated[
        float, typer.Option("--context", help="Cached tokens of each request.")
    ] = 4096
    drafters: Annotated[
        list[str] | None,
        spec_option(f"KIND[,key=value…], repeatable. Kinds: {', '.join(KINDS)}."),
    ] = None
    draft_len: Annotated[
        int | None,
        typer.Option(
            "--draft-len", help="Drafts per round.", show_default="the drafter's block, or 3"
        ),
    ] = None


capacity = command(
    asked,
    Flags,
    SetupFlags,
    FormatFlags,
    example="specroof capacity Qwen/Qwen3.5-9B -H l40s --engine sglang --context 8192\n"
    "--drafter mtp --server prefix-cache=off",
    text=capacity_text,
    csv=capacity_csv,
    charts=("Draw the memory of a device, line by line.", "plot_capacity"),
)
