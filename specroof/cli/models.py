"""`specroof models`: the bundled models, any model's sizes, and what two models differ in."""

import typer

from specroof import report
from specroof.cli.flags import AsJson, Family, ModelWord
from specroof.cli.output import say, say_json
from specroof.questions import models as asked

__all__ = ["models_app"]

models_app = typer.Typer(help="List the bundled models, show one, or compare two.")


@models_app.callback(invoke_without_command=True)
def list_models(context: typer.Context, as_json: AsJson = False) -> None:
    """List the bundled models: parameters, active parameters, KV bytes per token, layers."""
    if context.invoked_subcommand is not None:
        return
    found = asked.list_models()
    if as_json:
        say_json([one.to_dict() for one in found])
    else:
        say(report.models_table(found))


@models_app.command("show")
def show_model(model: ModelWord, family: Family = None, as_json: AsJson = False) -> None:
    """Show one model, bundled or not: its sizes, its layers, its formats, its cache."""
    found = asked.show_model(model, family=family)
    if as_json:
        say_json(found.to_dict())
    else:
        say(report.model_text(found))


@models_app.command("diff")
def diff_models(
    first: ModelWord, second: ModelWord, family: Family = None, as_json: AsJson = False
) -> None:
    """Show in what two models differ: sizes, formats, cache, layers.

    Example: specroof models diff Qwen/Qwen3-30B-A3B path/to/Qwen3-30B-A3B-FP8/config.json
    """
    found = asked.diff_models(first, second, family=family)
    if as_json:
        say_json(found.to_dict())
    else:
        say(report.diff_text(found))
