"""`specroof explain`: where one pass spends its time."""

from pathlib import Path
from typing import Annotated

import typer

from specroof import report
from specroof.cli.flags import (
    AsJson,
    CsvFile,
    HardwareWord,
    ModelWord,
    OptionFlags,
    SetupFlags,
    flags,
)
from specroof.cli.output import figure_files, say, say_json, write
from specroof.questions.explain import explain as asked

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
PlotFile = Annotated[
    Path | None,
    typer.Option(
        "--plot", metavar="FILE", help="Draw the roofline, and time per operation (NAME-time)."
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
    as_json: AsJson = False,
    csv_file: CsvFile = None,
    plot_file: PlotFile = None,
) -> None:
    """Show where one pass spends its time: FLOP, bytes, bound and seconds per operation.

    Example: specroof explain Qwen/Qwen3-8B -H b200 --batch 32 for a plain step, with
    --query-len 4 for the verification of 3 drafts; with --prefill --query-len 8192 for a prompt.
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
    )
    table = {} if csv_file is None else {csv_file: report.explanation_csv(found).encode()}
    write(table, figure_files(plot_file, lambda plot: plot.pass_figures(found)), as_json=as_json)
    if as_json:
        say_json(found.to_dict())
    else:
        say(report.explanation_text(found))
