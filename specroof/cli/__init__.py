"""The command line: flags, a question, a report. One place catches refusals."""

import gc
from importlib import import_module
from typing import Annotated, Any, Final

import typer

from specroof.cli.groups import Command, OneLineGroup
from specroof.questions import QUESTIONS

__all__ = ["app", "main"]

#: Commands with commands below them, each in the file of its name.
_GROUPS: Final = ("models", "hardware", "acceptance", "simulate")


class _Commands(OneLineGroup):
    """All commands; the file of one is imported when it is called, since a cold start is felt."""

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002 - Typer's signature
        """Return the names, in the order in which help lists them."""
        return [*QUESTIONS, *_GROUPS]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a command by its name; None if there is none."""
        if cmd_name in QUESTIONS:
            alone = typer.Typer(add_completion=False)
            function = getattr(import_module(f"specroof.cli.{cmd_name}"), cmd_name)
            alone.command(cmd_name, cls=Command)(function)
            return typer.main.get_command(alone)
        if cmd_name in _GROUPS:
            module = import_module(f"specroof.cli.{cmd_name}")
            group = typer.main.get_command(getattr(module, f"{cmd_name}_app"))
            group.name = cmd_name
            return group
        return super().get_command(ctx, cmd_name)


app = typer.Typer(
    cls=_Commands,
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


def main() -> None:
    """Run the command line."""
    # What is imported stays to the end, and need not be searched for what could be freed.
    gc.freeze()
    app()
