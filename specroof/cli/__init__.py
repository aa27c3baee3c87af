"""The command line: flags, a question, a report. One place catches refusals."""

import atexit
import gc
from importlib import import_module
from typing import Annotated, Any, Final

import typer

from specroof.cli.groups import Command, OneLineGroup
from specroof.questions import QUESTIONS

__all__ = ["COMMANDS", "app", "main"]

#: What help lists: commands, each in the file of its name, and the first sentence of their help.
COMMANDS: Final = {
    "predict": "Predict the speedup of speculative decoding and the best draft length.",
    "advise": "Say whether speculative decoding pays, with which drafter and which server flags.",
    "sweep": "Run a study: several models x hardware x drafters.",
    "explain": "Show where one pass spends its time: FLOP, bytes, bound and seconds per operation.",
    "capacity": "Show the memory of a server line by line, and the largest batch that it runs.",
    "breakeven": "Find the acceptance, cost, batch or context at which speculation starts or stops "
    "paying.",
    "doctor": "Read a server's metrics, compare them with a prediction, and say what to change.",
    "explore": "Make an interactive page of models, chips, loads and drafters.",
    "frontier": "Find the best speeds per user and per device, with speculation and without.",
    "worth": "Show the speedup, price and users of better drafters, by acceptance length.",
    "adaptive": "Compare draft lengths that follow load or confidence with one length for all "
    "loads.",
    "validate": "Compare predictions with your own results, or with every bundled measurement.",
    "calibrate": "Fit an engine profile to your own benchmark, and write a hardware file with it.",
    "mock": "Print the commands that measure a predicted point without trained weights.",
    "models": "List the bundled models, show one, or compare two.",
    "hardware": "List the hardware profiles, show one, or check your own file.",
    "acceptance": "List published acceptance profiles, show and plot them or your own files, fit "
    "laws.",
    "simulate": "Check by simulation that speculative sampling is exact, and how latency varies.",
}


class _Commands(OneLineGroup):
    """All commands; the file of one is imported when it is called, since a cold start is felt."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands = {
            name: typer.core.TyperCommand(name, help=sentence)
            for name, sentence in COMMANDS.items()
        }

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command that is called, imported, and the words after its name."""
        name, listed, rest = super().resolve_command(ctx, args)
        return name, listed if name is None else _imported(name), rest


def _imported(name: str) -> Any:
    if name in QUESTIONS:
        row = getattr(import_module(f"specroof.questions.{name}"), "COMMAND", None)
        if row is not None:
            from specroof.cli.commands import command  # noqa: PLC0415 - help needs no question

            alone = typer.Typer(add_completion=False)
            alone.command(name, cls=Command)(command(row))
            return typer.main.get_command(alone)
    module = import_module(f"specroof.cli.{name}")
    if name in QUESTIONS:
        alone = typer.Typer(add_completion=False)
        alone.command(name, cls=Command)(getattr(module, name))
        return typer.main.get_command(alone)
    group = typer.main.get_command(getattr(module, f"{name}_app"))
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


#: Objects that are made between two searches for what could be freed: a prediction makes fewer.
_UNSEARCHED: Final = 200_000


def main() -> None:
    """Run the command line."""
    # What is imported stays to the end: it need not be searched for what could be freed, neither
    # often nor as Python leaves.
    gc.set_threshold(_UNSEARCHED)
    atexit.register(gc.freeze)
    app()
