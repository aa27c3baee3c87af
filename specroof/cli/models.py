"""`specroof models`: the bundled models, any model's sizes, and what two models differ in."""

import typer

from specroof import catalog, report
from specroof.cli.flags import AsJson, Family, ModelWord, say
from specroof.questions.models import diff_table, model_diff, model_row, model_text, models_table

__all__ = ["models_app"]

models_app = typer.Typer(help="List the bundled models, show one, or compare two.")


@models_app.callback(invoke_without_command=True)
def list_models(context: typer.Context, as_json: AsJson = False) -> None:
    """List the bundled models: parameters, active parameters, KV bytes per token, layers."""
    if context.invoked_subcommand is not None:
        return
    rows = [model_row(name, catalog.load_model(name)) for name in catalog.model_names()]
    say(report.json_line(rows) if as_json else models_table(rows))


@models_app.command("show")
def show_model(model: ModelWord, family: Family = None, as_json: AsJson = False) -> None:
    """Show one model, bundled or not: its sizes, its layers, its formats, what it caches."""
    row = model_row(model, catalog.load_model(model, family=family))
    say(report.json_line(row) if as_json else model_text(row))


@models_app.command("diff")
def diff_models(
    first: ModelWord,
    second: ModelWord,
    family: Family = None,
    as_json: AsJson = False,
) -> None:
    """Show in what two models differ: sizes, formats, cache, layers.

    Example: specroof models diff Qwen/Qwen3-30B-A3B path/to/Qwen3-30B-A3B-FP8/config.json
    """
    models = [catalog.load_model(word, family=family) for word in (first, second)]
    rows = model_diff(*models)
    names = [model.name for model in models]
    notes = [list(model.notes) for model in models]
    if as_json:
        say(report.json_line({"models": names, "differences": rows, "notes": notes}))
        return
    say(diff_table(names, rows))
    for letter, its_notes in zip("ab", notes, strict=True):
        for note in its_notes:
            say(f"note on {letter}: {note}")
