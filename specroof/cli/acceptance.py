"""`specroof acceptance`: published profiles, files of your own, and laws fitted to them."""

from pathlib import Path
from typing import Annotated

import typer

from specroof.cli.flags import AsJson, completion
from specroof.cli.groups import Command, CommandGroup
from specroof.cli.output import figure_files, give
from specroof.questions import acceptance as asked
from specroof.questions.acceptance import DRAFT_COUNTS, FITTED_LAWS, profile_names
from specroof.report.acceptance import fits_text, profiles_table, profiles_text

acceptance_app = typer.Typer(
    add_completion=False,
    cls=CommandGroup,
    help="List published acceptance profiles, show and plot them or your own files, fit laws.",
)

Contains = Annotated[
    str, typer.Option("--find", metavar="TEXT", help="Only names that hold this text.")
]
NamesOrFiles = Annotated[
    list[str],
    typer.Argument(
        metavar="NAME|FILE…",
        help="Profiles by name, or files: vLLM's counters, histograms and log, SGLang's log, "
        "speculation_profile.json, golden acceptance lengths, a trace bank.",
        autocompletion=completion(profile_names),
    ),
]
Drafts = Annotated[
    str | None,
    typer.Option(
        metavar="[COUNT=]N",
        help="Drafts per round, where a file does not say. COUNT: "
        f"{', '.join(DRAFT_COUNTS)}; the last two count the token before the drafts.",
    ),
]
Law = Annotated[
    str, typer.Option("--law", metavar="|".join((*FITTED_LAWS, "all")), help="Law to fit.")
]
PlotFile = Annotated[
    Path | None,
    typer.Option("--plot", metavar="FILE", help="Draw survival and tokens per round."),
]


@acceptance_app.callback(invoke_without_command=True)
def acceptance(context: typer.Context, find: Contains = "", as_json: AsJson = False) -> None:
    """List the bundled profiles: model, drafter, task, drafts, tokens per round."""
    if context.invoked_subcommand is None:
        list_profiles(find, as_json)


@acceptance_app.command("list", cls=Command)
def list_profiles(find: Contains = "", as_json: AsJson = False) -> None:
    """List the bundled profiles."""
    found = asked.find_profiles(find)
    give(lambda: found.records, lambda: profiles_table(found), as_json=as_json)


@acceptance_app.command("show", cls=Command)
def show_profiles(
    names: NamesOrFiles, drafts: Drafts = None, as_json: AsJson = False, plot_file: PlotFile = None
) -> None:
    """Show profiles: the survival curve, the counts, the source."""
    found = asked.show_profiles(names, drafts=drafts)
    give(
        lambda: found.records,
        lambda: profiles_text(found),
        figure_files(plot_file, lambda plot: plot.acceptance_figures(found)),
        as_json=as_json,
    )


@acceptance_app.command("fit", cls=Command)
def fit_profiles(
    names: NamesOrFiles,
    law: Law = "all",
    drafts: Drafts = None,
    as_json: AsJson = False,
    plot_file: PlotFile = None,
) -> None:
    """Fit laws with few numbers to measured acceptance, and show their residuals."""
    found = asked.fit_profiles(names, drafts=drafts, law=law)
    give(
        lambda: found.records,
        lambda: fits_text(found),
        figure_files(plot_file, lambda plot: plot.acceptance_figures(found)),
        as_json=as_json,
    )
