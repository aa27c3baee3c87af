"""The command line: flags, a question, a report. One place catches refusals."""

from importlib import import_module
from typing import Annotated

import typer

from specroof.cli.acceptance import acceptance_app
from specroof.cli.groups import Command, OneLineGroup
from specroof.cli.hardware import hardware_app
from specroof.cli.models import models_app
from specroof.cli.simulate import simulate_app
from specroof.questions import QUESTIONS

__all__ = ["app", "main"]

app = typer.Typer(
    cls=OneLineGroup,
    name="specroof",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Predict what speculative decoding gains, by analysis, without a GPU.",
    epilog="Start with: specroof predict Qwen/Qwen3-8B -H b200 --batch 1,8,32 "
    "--drafter autoregressive,accept=0.75,cost=0.10",
)


def _show_version(asked: bool) -> None:
    if asked:
        from importlib.metadata import version  # noqa: PLC0415 - slow to import, seldom asked for

        typer.echo(f"specroof {version('specroof')}")
        raise typer.Exit


@app.callback()
def _specroof(
    *,
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version."),
    ] = False,
) -> None:
    pass


for _name in QUESTIONS:
    _command = getattr(import_module(f"specroof.cli.{_name}"), _name)
    app.command(_name, cls=Command)(_command)
app.add_typer(models_app, name="models")
app.add_typer(hardware_app, name="hardware")
app.add_typer(acceptance_app, name="acceptance")
app.add_typer(simulate_app, name="simulate")


def main() -> None:
    """Run the command line."""
    app()
