"""`specroof capacity`: how many requests a server runs at once."""

from typing import Annotated

import typer

from specroof.cli.flags import AsJson, FormatFlags, HardwareWord, ModelWord, SetupFlags
from specroof.cli.grouping import flags
from specroof.cli.output import give
from specroof.questions.capacity import capacity as asked
from specroof.questions.words import KINDS
from specroof.report.capacity import capacity_text

__all__ = ["capacity"]

ContextLen = Annotated[float, typer.Option("--context", help="Cached tokens of each request.")]
Drafters = Annotated[
    list[str] | None,
    typer.Option(
        "--drafter",
        metavar="SPEC",
        help=f"KIND[,key=value…], repeatable. Kinds: {', '.join(KINDS)}.",
    ),
]
DraftLen = Annotated[
    int | None,
    typer.Option("--draft-len", help="Drafts per round.", show_default="the drafter's block, or 3"),
]


@flags
def capacity(  # noqa: PLR0913, PLR0917 - one parameter per flag of the contract
    model: ModelWord,
    hardware: HardwareWord,
    setup: SetupFlags,
    formats: FormatFlags,
    context_len: ContextLen = 4096,
    drafters: Drafters = None,
    draft_len: DraftLen = None,
    as_json: AsJson = False,
) -> None:
    """Show the memory of a server line by line, and the largest batch that it runs.

    Example: specroof capacity Qwen/Qwen3.5-9B -H l40s --engine sglang --context 8192
    --drafter mtp --server prefix-cache=off
    """
    found = asked(
        model,
        hardware,
        **vars(setup),
        options=vars(formats),
        context_len=context_len,
        drafters=drafters or (),
        draft_len=draft_len,
    )
    give(found.to_dict, lambda: capacity_text(found), as_json=as_json)
