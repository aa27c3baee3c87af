"""`specroof models`: the bundled models, any model's sizes, and what two models differ in."""

import typer

from specroof.cli import COMMANDS
from specroof.cli.flags import AsJson, Asked, flags, shared
from specroof.cli.groups import Command, CommandGroup
from specroof.cli.output import give
from specroof.questions import models as asked
from specroof.questions.models import diff_text, model_text, models_table

_MODEL = shared("model")["model"]

models_app = typer.Typer(add_completion=False, cls=CommandGroup, help=COMMANDS["models"])


@models_app.callback(invoke_without_command=True)
def list_models(context: typer.Context, as_json: AsJson = False) -> None:
    """List the bundled models: parameters, active parameters, KV bytes per token, layers."""
    if context.invoked_subcommand is not None:
        return
    found = asked.list_models()
    give(lambda: [one.to_dict() for one in found], lambda: models_table(found), as_json=as_json)


@models_app.command("show", cls=Command)
@flags(asked.show_model, shared("model", "family"))
def show_model(ask: Asked, as_json: AsJson = False) -> None:
    """Show one model, bundled or not: its sizes, its layers, its formats, its cache."""
    found = asked.show_model(**ask)
    give(found.to_dict, lambda: model_text(found), as_json=as_json)


@models_app.command("diff", cls=Command)
@flags(asked.diff_models, {"first": _MODEL, "second": _MODEL, **shared("family")})
def diff_models(ask: Asked, as_json: AsJson = False) -> None:
    """Show in what two models differ: sizes, formats, cache, layers.

    Example: specroof models diff Qwen/Qwen3-30B-A3B path/to/Qwen3-30B-A3B-FP8/config.json
    """
    found = asked.diff_models(**ask)
    give(found.to_dict, lambda: diff_text(found), as_json=as_json)
