"""The command line: flags, a question, a report. One place catches refusals."""

import atexit
import gc
from importlib import import_module
from typing import Annotated, Any, Final

import typer

from specroof.cli.groups import CommandGroup, OneLineGroup, PlainCommand
from specroof.questions import QUESTIONS

__all__ = ["COMMANDS", "app", "main"]

#: What help says of commands that have commands below them.
_GROUPS: Final = {
    "models": "List the bundled models, show one, or compare two.",
    "hardware": "List the hardware profiles, show one, or check your own file.",
    "acceptance": "List published acceptance profiles, show and plot them or your own files, fit "
    "laws.",
    "simulate": "Check by simulation that speculative sampling is exact, and how latency varies.",
}
#: What help lists, by the first sentence of its help: questions, then groups. Each is in the file
#: of its name in `specroof.questions`.
COMMANDS: Final = {**QUESTIONS, **_GROUPS}


class _Commands(OneLineGroup):
    """All commands; the file of one is imported when it is called, since a cold start is felt."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands: dict[str, Any] = dict.fromkeys(COMMANDS)

    def get_command(self, _ctx: Any, cmd_name: str) -> Any:
        """Return a command as help lists it: its name and its first sentence."""
        if cmd_name not in self.commands:
            return None
        return typer.core.TyperCommand(cmd_name, help=COMMANDS[cmd_name])

    def list_commands(self, _ctx: Any) -> list[str]:
        """Return the names in the order of help."""
        return [*COMMANDS]

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command that is called, imported, and the words after its name."""
        name, listed, rest = super().resolve_command(ctx, args)
        return name, listed if name is None else _imported(name), rest


def _imported(name: str) -> Any:
    row = getattr(import_module(f"specroof.questions.{name}"), "COMMAND", None)
    alone = typer.Typer(add_completion=False, cls=CommandGroup, help=_GROUPS.get(name))
    if row is None:
        module = import_module(f"specroof.cli.{name}")
        alone.command(name, cls=PlainCommand)(getattr(module, name))
        return typer.main.get_command(alone)
    from specroof.cli.commands import command  # noqa: PLC0415 - help needs no question

    if not row.commands:
        alone.command(name, cls=PlainCommand)(command(row))
        return typer.main.get_command(alone)
    alone.callback(invoke_without_command=True)(command(row))
    for below, its_row in row.commands.items():
        alone.command(below, cls=PlainCommand)(command(its_row))
    group = typer.main.get_command(alone)
    group.name = name
    return group


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


def _show_version(is_wanted: bool) -> None:
    if is_wanted:
        from importlib.metadata import version  # noqa: PLC0415 - slow to import, seldom needed

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


#: Objects that are made between two searches for what could be freed: a prediction makes fewer.
_UNSEARCHED: Final = 200_000


def main() -> None:
    """Run the command line."""
    # What is imported stays to the end: it need not be searched for what could be freed, neither
    # often nor as Python leaves.
    gc.set_threshold(_UNSEARCHED)
    atexit.register(gc.freeze)
    app()
