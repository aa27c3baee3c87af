"""`specroof acceptance`: published profiles, files of your own, and laws fitted to them."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from specroof import catalog, report
from specroof.acceptance import FITTED_LAWS, Acceptance, AcceptanceFit, fit_acceptance
from specroof.acceptance.published import (
    DRAFT_COUNTS,
    AcceptanceProfile,
    load_profiles,
    profile_names,
)
from specroof.catalog.files import is_file
from specroof.cli.flags import AsJson, completion, figure_files, say, say_written

__all__ = ["acceptance_app"]

acceptance_app = typer.Typer(
    help="List published acceptance profiles, show and plot them or a file of yours, fit laws."
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
PlotFile = Annotated[
    Path | None, typer.Option("--plot", help="Draw survival and tokens per round.")
]


@acceptance_app.callback(invoke_without_command=True)
def acceptance(context: typer.Context, find: Contains = "", as_json: AsJson = False) -> None:
    """List the bundled profiles: model, drafter, task, drafts, tokens per round."""
    if context.invoked_subcommand is None:
        list_profiles(find, as_json)


@acceptance_app.command("list")
def list_profiles(find: Contains = "", as_json: AsJson = False) -> None:
    """List the bundled profiles."""
    found = [one for one in load_profiles() if find.casefold() in one.name]
    if as_json:
        say(report.json_line([_row(one) for one in found]))
        return
    header = ["profile", "drafts", "tokens/round", "temperature", "measured"]
    say(report.format_table(header, [_cells(one) for one in found], left=[0, 4]))
    say(
        f"\n{len(found)} profiles; tokens per round with the bonus token. Use: profile=NAME in a SPEC."
    )


@acceptance_app.command("show")
def show_profiles(
    names: NamesOrFiles,
    drafts: Drafts = None,
    as_json: AsJson = False,
    plot_file: PlotFile = None,
) -> None:
    """Show profiles: the survival curve, what was counted, the source."""
    found = _found(names, drafts)
    _plot(plot_file, found, [])
    if as_json:
        say(report.json_line([_row(one) for one in found]))
        return
    say("\n\n".join(_text(one) for one in found))


@acceptance_app.command("fit")
def fit_profiles(
    names: NamesOrFiles,
    law: Annotated[
        str, typer.Option(metavar="|".join((*FITTED_LAWS, "all")), help="What is fitted.")
    ] = "all",
    drafts: Drafts = None,
    as_json: AsJson = False,
    plot_file: PlotFile = None,
) -> None:
    """Fit laws with few numbers to measured acceptance, and say what they miss."""
    found = _found(names, drafts)
    fits = [(one, fit) for one in found for fit in _fits(one, law)]
    _plot(plot_file, found, fits)
    if as_json:
        say(report.json_line([{"profile": one.name} | _fit_row(fit) for one, fit in fits]))
        return
    header = ["profile", "law", "rms", "worst", "tokens/round off", "SPEC"]
    rows = [
        [
            one.name,
            fit.law,
            f"{fit.rms_residual:.4f}",
            f"{fit.worst_residual:.4f}",
            f"{fit.length_residual:+.3f}",
            _spec(fit),
        ]
        for one, fit in fits
    ]
    say(report.format_table(header, rows, left=[0, 1, 5]))
    say("\nrms and worst: fitted less measured share of rounds, over the depths measured")


def _found(names: Sequence[str], drafts: str | None) -> list[AcceptanceProfile]:
    """Return the profiles of names and files, several of one file included."""
    found: list[AcceptanceProfile] = []
    for name in names:
        if is_file(Path(name)):
            found += catalog.load_profiles_file(name, drafts=drafts)
        else:
            found.append(catalog.load_profile(name))
    return found


def _fits(profile: AcceptanceProfile, law: str) -> list[AcceptanceFit]:
    """Return the fits that were asked for; of all laws those with few enough numbers."""
    curve = profile.acceptance()
    survival = curve.survival(np.arange(1, profile.draft_len + 1))
    if law != "all":
        return [fit_acceptance(survival, law)]
    fitting = [name for name, one in FITTED_LAWS.items() if len(one.bounds) <= profile.n_measured]
    return [fit_acceptance(survival, name) for name in fitting]


def _plot(
    path: Path | None,
    profiles: Sequence[AcceptanceProfile],
    fits: Sequence[tuple[AcceptanceProfile, AcceptanceFit]],
) -> None:
    if path is None:
        return
    from specroof import plot  # noqa: PLC0415 - matplotlib is slow to import

    measured = [(one.name, one.acceptance()) for one in profiles]
    fitted = [(f"{fit.law} fitted to {one.name}", fit.acceptance) for one, fit in fits]
    files = figure_files(path, {"": plot.plot_acceptance(measured, fits=fitted)})
    catalog.write_files(files)
    say_written(files)


def _row(profile: AcceptanceProfile) -> dict[str, Any]:
    return {
        "name": profile.name,
        "model": profile.model,
        "drafter": profile.drafter,
        "task": profile.task,
        "temperature": profile.temperature,
        "engine": profile.engine,
        "draft_len": profile.draft_len,
        "tokens_per_round": profile.tokens_per_round,
        "survival": _survival(profile.acceptance(), profile.draft_len),
        "lengths": dict(profile.lengths),
        "counted": profile.counted,
        "n_rounds": profile.n_rounds,
        "source": profile.source,
        "note": profile.note,
    }


def _survival(curve: Acceptance, depth: int) -> list[float]:
    return [float(share) for share in curve.survival(np.arange(1, depth + 1))]


def _cells(profile: AcceptanceProfile) -> list[str]:
    temperature = "" if profile.temperature is None else f"{profile.temperature:g}"
    measured = "by position" if profile.survival else f"{len(profile.lengths)} length(s)"
    return [
        profile.name,
        str(profile.draft_len),
        f"{profile.tokens_per_round:.2f}",
        temperature,
        measured,
    ]


def _text(profile: AcceptanceProfile) -> str:
    """Return a profile over a few lines."""
    row = _row(profile)
    survival = " ".join(f"{share:.3f}" for share in row.pop("survival"))
    lengths = ", ".join(f"{length:g} at {drafts}" for drafts, length in profile.lengths)
    row |= {"lengths": lengths, "tokens_per_round": f"{profile.tokens_per_round:.4g} (bonus in)"}
    lines = [f"{key:17}{value}" for key, value in row.items() if value not in ("", None)]
    return "\n".join([*lines, f"{'survival':17}{survival}"])


def _fit_row(fit: AcceptanceFit) -> dict[str, Any]:
    return {
        "law": fit.law,
        "parameters": list(fit.parameters),
        "draft_len": fit.depth,
        "rms_residual": fit.rms_residual,
        "worst_residual": fit.worst_residual,
        "length_residual": fit.length_residual,
        "spec": _spec(fit),
    }


def _spec(fit: AcceptanceFit) -> str:
    key = {"constant": "accept"}.get(fit.law, fit.law)
    return f"{key}={'/'.join(f'{value:.5g}' for value in fit.parameters)}"
