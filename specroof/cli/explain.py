"""`specroof explain`: where one pass spends its time, and why a round pays or loses."""

from dataclasses import dataclass
from typing import Annotated

import typer

from specroof.cli.flags import OneChip, OptionFlags, SetupFlags, spec_option
from specroof.cli.grouping import command
from specroof.questions.explain import explain as asked
from specroof.report.operations import explanation_csv, explanation_text


@dataclass(frozen=True, kw_only=True)
class Flags(OneChip):
    """Fields of `specroof.questions.explain.ExplainRequest`."""

    batch_size: Annotated[float, typer.Option("--batch", help="Sequences in the pass.")] = 1
    context_len: Annotated[
        float | None,
        typer.Option(
            "--context",
            help="Cached tokens of each sequence.",
            show_default="4096; 0 with --prefill",
        ),
    ] = None
    query_len: Annotated[
        int | None,
        typer.Option(
            help="New positions of each sequence: 1 decodes, γ + 1 verifies. With --prefill, the "
            "tokens of the prompt.",
            show_default="1",
        ),
    ] = None
    prefill: Annotated[
        bool,
        typer.Option(
            "--prefill",
            help="Time a prompt of --query-len tokens: logits and recurrent state of its last "
            "position only. Shows the time to the first token.",
        ),
    ] = False
    drafter: Annotated[
        str | None,
        spec_option(
            "Compare a round of this drafter, given with its acceptance, with a plain step."
        ),
    ] = None
    draft_len: Annotated[
        int | None,
        typer.Option("--draft-len", help="Drafts of that round.", show_default="the best"),
    ] = None


explain = command(
    asked,
    Flags,
    SetupFlags,
    OptionFlags,
    example="specroof explain Qwen/Qwen3-8B -H b200 --batch 32 for a plain step, with\n"
    "--query-len 4 for the verification of 3 drafts; with --prefill --query-len 8192 for a prompt;\n"
    "with --drafter eagle3,accept=0.7 --draft-len 3 for a round against a plain step.",
    text=explanation_text,
    csv=explanation_csv,
    charts=(
        "Draw the roofline, and time per operation (NAME-time); with --drafter first the waterfall "
        "of the round, then NAME-roofline and NAME-time.",
        "pass_figures",
    ),
)
