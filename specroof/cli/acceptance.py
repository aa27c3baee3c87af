"""`specroof acceptance`: published profiles, files of your own, and laws fitted to them."""

from pathlib import Path
from typing import Annotated

import typer

from specroof.acceptance.law_fits import FITTED_LAWS
from specroof.acceptance.published.profile import DRAFT_COUNTS, profile_names
from specroof.cli import COMMANDS
from specroof.cli.flags import AsJson, Asked, Flag, flags, plot_option
from specroof.cli.groups import Command, CommandGroup
from specroof.cli.output import figure_files, give
from specroof.questions import acceptance as asked
from specroof.questions.acceptance import fits_text, profiles_table, profiles_text

acceptance_app = typer.Typer(add_completion=False, cls=CommandGroup, help=COMMANDS["acceptance"])

Contains = Annotated[
    str, typer.Option("--find", metavar="TEXT", help="Only names that hold this text.")
]
PlotFile = Annotated[Path | None, plot_option("Draw survival and tokens per round.")]
_SHOWN = {
    "names": Flag(
        "Profiles by name, or files: vLLM's counters, histograms and log, SGLang's log, "
        "speculation_profile.json, golden acceptance lengths, a trace bank.",
        "NAME|FILE…",
        kind=list[str],
        names=profile_names,
    ),
    "drafts": Flag(
        f"Drafts per round, where a file does not say. COUNT: {', '.join(DRAFT_COUNTS)}; the last "
        "two count the token before the drafts.",
        metavar="[COUNT=]N",
    ),
}
_FITTED = {
    "names": _SHOWN["names"],
    "law": Flag("Law to fit.", metavar="|".join((*FITTED_LAWS, "all"))),
    "drafts": _SHOWN["drafts"],
}


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
@flags(asked.show_profiles, _SHOWN)
def show_profiles(ask: Asked, as_json: AsJson = False, plot_file: PlotFile = None) -> None:
    """Show profiles: the survival curve, the counts, the source."""
    found = asked.show_profiles(**ask)
    give(
        lambda: found.records,
        lambda: profiles_text(found),
        figure_files(plot_file, found.figures),
        as_json=as_json,
    )


@acceptance_app.command("fit", cls=Command)
@flags(asked.fit_profiles, _FITTED)
def fit_profiles(ask: Asked, as_json: AsJson = False, plot_file: PlotFile = None) -> None:
    """Fit laws with few numbers to measured acceptance, and show their residuals."""
    found = asked.fit_profiles(**ask)
    give(
        lambda: found.records,
        lambda: fits_text(found),
        figure_files(plot_file, found.figures),
        as_json=as_json,
    )
