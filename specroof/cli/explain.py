"""`specroof explain`: where one pass spends its time, and why a round pays or loses."""

from pathlib import Path
from typing import Annotated

import typer

from specroof.cli.flags import (
    AsJson,
    CsvFile,
    HardwareWord,
    ModelWord,
    OptionFlags,
    SetupFlags,
    completion,
)
from specroof.cli.grouping import flags
from specroof.cli.output import figure_files, give, text_file
from specroof.questions.explain import explain as asked
from specroof.questions.words import KINDS
from specroof.report.operations import explanation_csv, explanation_text

__all__ = ["explain"]

BatchSize = Annotated[float, typer.Option("--batch", help="Sequences in the pass.")]
ContextLen = Annotated[
    float | None,
    typer.Option(
        "--context",
        help="Cached tokens of each sequence.",
        show_default="4096; 0 with --prefill",
    ),
]
QueryLen = Annotated[
    int | None,
    typer.Option(
        help="New positions of each sequence: 1 decodes, γ + 1 verifies. With --prefill, the "
        "tokens of the prompt.",
        show_default="1",
    ),
]
Prefill = Annotated[
    bool,
    typer.Option(
        "--prefill",
        help="Time a prompt of --query-len tokens: logits and recurrent state of its last "
        "position only. Shows the time to the first token.",
    ),
]
DrafterSpec = Annotated[
    str | None,
    typer.Option(
        "--drafter",
        metavar="SPEC",
        help="Set a round of this drafter, acceptance included, against a plain step.",
        autocompletion=completion(lambda: KINDS),
    ),
]
DraftLen = Annotated[
    int | None,
    typer.Option("--draft-len", help="Drafts of that round.", show_default="the best"),
]
PlotFile = Annotated[
    Path | None,
    typer.Option(
        "--plot",
        metavar="FILE",
        help="Draw the roofline, and time per operation (NAME-time); "
        "with --drafter first the waterfall of the round, then NAME-roofline and NAME-time.",
    ),
]


@flags
def explain(  # noqa: PLR0913, PLR0917 - one parameter per flag of the contract
    model: ModelWord,
    hardware: HardwareWord,
    setup: SetupFlags,
    options: OptionFlags,
    batch_size: BatchSize = 1,
    context_len: ContextLen = None,
    query_len: QueryLen = None,
    prefill: Prefill = False,
    drafter: DrafterSpec = None,
    draft_len: DraftLen = None,
    as_json: AsJson = False,
    csv_file: CsvFile = None,
    plot_file: PlotFile = None,
) -> None:
    """Show where one pass spends its time: FLOP, bytes, bound and seconds per operation.

    Example: specroof explain Qwen/Qwen3-8B -H b200 --batch 32 for a plain step, with
    --query-len 4 for the verification of 3 drafts; with --prefill --query-len 8192 for a prompt;
    with --drafter eagle3,accept=0.7 --draft-len 3 for a round against a plain step.
    """
    found = asked(
        model,
        hardware,
        **vars(setup),
        options=vars(options),
        batch_size=batch_size,
        context_len=context_len,
        query_len=query_len,
        prefill=prefill,
        drafter=drafter,
        draft_len=draft_len,
    )
    give(
        found.to_dict,
        lambda: explanation_text(found),
        text_file(csv_file, lambda: explanation_csv(found)),
        figure_files(plot_file, lambda plot: plot.pass_figures(found)),
        as_json=as_json,
    )
