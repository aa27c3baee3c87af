"""The command line: flags, a question, a report. One place catches refusals."""

import atexit
import contextlib
import gc
import sys
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, Final, get_args, get_type_hints

import typer

from specroof.cli.output import drop, ready_streams, say_aside, screen_width
from specroof.errors import OptionError, SpecroofError, not_modelled, one_line, refuse, reject
from specroof.questions import QUESTIONS
from specroof.report.layout import on_screen

# --- Commands whose refusals are one line, and whose words are read without pydantic -------------

# What is wrong with the words of a command: an unknown flag, a missing argument.
_UsageError: Final = typer.BadParameter.__bases__[0]

#: Types that make their value of a word themselves.
_PLAIN: Final = (str, int, float, Path)


def _read_plainly(command: Any, context: Any) -> None:
    """Let the parameters of a command read their words without Typer, where that is easy.

    Typer may read every value with an adapter of pydantic's, text and defaults included, and
    pydantic is slow to import. The quickest of 15 predictions took 0.80 s with this and 0.96 s
    without, medians 1.24 s and 1.47 s, on two busy cores.
    """
    hints = {} if command.callback is None else get_type_hints(command.callback)
    for parameter in command.get_params(context):
        hint = hints.get(parameter.name)
        # `str | None` and `list[str]` hold their type first.
        kind = (*get_args(hint), hint)[0]
        parameter.process_value = partial(_processed, parameter, kind)


def _processed(parameter: Any, kind: Any, context: Any, value: Any) -> Any:
    """Return a parameter's value: a word read as `kind`, a default or flag as it stands."""
    words = [value] if isinstance(value, str) else value
    if words and isinstance(words, list | tuple) and kind in _PLAIN:
        if kind is Path and "" in words:  # else the folder that one stands in
            refuse(parameter.opts[0], "", "a file or a folder")
        try:
            read = [kind(word) for word in words]
        except ValueError:
            allowed = "a whole number" if kind is int else "a number"
            refuse(parameter.opts[0], value, allowed)
        value = read[0] if isinstance(value, str) else read
    elif not (isinstance(value, bool | int | float) or (value is None and not parameter.required)):
        return type(parameter).process_value(parameter, context, value)
    return value if parameter.callback is None else parameter.callback(context, parameter, value)


#: Parameters that may be given once: of two chips, drafters or loads the last would win without a
#: word, where the user meant to compare them. Other options may repeat, and the last one counts:
#: `concurrency` too, which `mock` begins with.
_ONCE: Final = {"hardware", "drafter", "batch_size", "context_len", "rate"}


class PlainCommand(typer.core.TyperCommand):
    """A command that starts without pydantic."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the words of a call."""
        _read_plainly(self, ctx)
        given = self.make_parser(ctx).parse_args(args=list(args))[2]  # once for each time
        for option in given:
            if option.name in _ONCE and given.count(option) > 1:
                reject(f"{option.opts[0]} is given twice", "once")
        return super().parse_args(ctx, args)


class CommandGroup(typer.core.TyperGroup):
    """A group of commands that starts without pydantic."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the words before the command."""
        _read_plainly(self, ctx)
        return super().parse_args(ctx, args)


class OneLineGroup(CommandGroup):
    """A group of commands whose refusals are one line on standard error and exit code 2."""

    def main(self, *args: Any, **kwargs: Any) -> Any:
        """Run a command; every `SpecroofError` and every misspelt call ends here."""
        kwargs["standalone_mode"] = False
        try:
            ready_streams()
            with (
                contextlib.redirect_stdout(sys.stdout),  # puts back what a command has moved
                on_screen(screen_width()),
            ):
                code = super().main(*args, **kwargs)
        except SpecroofError as refusal:
            _refuse(str(refusal))
        except OSError as failure:
            drop(sys.stdout)
            # Files that are written have refusals of their own: a file that is named was read.
            place, allowed = failure.filename, "a readable file"
            if place is None:
                place, allowed = "standard output", "a place that can be written to"
            _refuse(f"{place}: {failure.strerror}; allowed: {allowed}")
        except SystemExit:  # Typer's, of a pipe whose reader has gone
            drop(sys.stdout)
            raise
        except typer.Abort:
            _refuse("aborted")
        except Exception as failure:
            if not isinstance(failure, _UsageError):
                raise
            left_out = not_modelled(getattr(failure, "option_name", None) or "")
            said = failure.format_message()  # type: ignore[attr-defined]  # a usage error has it
            _refuse(f"{said}; {left_out}" if left_out else said)
        sys.exit(code if isinstance(code, int) else 0)


def _refuse(message: str) -> None:
    if message:  # a call without words has had its help
        say_aside(f"specroof: {one_line(message)}")
    sys.exit(2)


# --- All commands --------------------------------------------------------------------------------

#: What help says of commands that have commands below them.
GROUPS: Final = {
    "models": "List the bundled models, show one, or compare two.",
    "hardware": "List the hardware profiles, show one, or check your own file.",
    "acceptance": "List published acceptance profiles, show and plot them or your own files, fit "
    "laws.",
}
#: Commands for programs, each in the file of its name beside this one.
_FOR_PROGRAMS: Final = {
    "mcp": "Answer questions of coding agents, as an MCP server on standard input and output.",
}
#: What help lists, by the first sentence of its help: questions, groups and commands for programs.
#: Each of the first two is in the file of its name in `specroof.questions`.
COMMANDS: Final = {**QUESTIONS, **GROUPS, **_FOR_PROGRAMS}
#: What former commands are called now. Each goes on for one release, unlisted: in its file, or as
#: the words of `_CALLED`, which have its defaults of old.
FORMER: Final = {
    "simulate": "acceptance simulate",
    "schema": "COMMAND --json-schema",
    "mock": "advise --bench",
    "adaptive": "advise --policies",
}
_CALLED: Final = {
    "simulate": FORMER["simulate"],
    "mock": f"{FORMER['mock']} --concurrency 1 --input-len 1024 --output-len 1024 --tp 1",
}


class _Commands(OneLineGroup):
    """All commands; the file of one is imported when it is called, since a cold start is felt."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands: dict[str, Any] = dict.fromkeys((*COMMANDS, *FORMER))

    def get_command(self, _ctx: Any, cmd_name: str) -> Any:
        """Return a command as help lists it: its name and its first sentence."""
        if cmd_name not in self.commands:
            return None
        return typer.core.TyperCommand(cmd_name, help=COMMANDS.get(cmd_name))

    def list_commands(self, _ctx: Any) -> list[str]:
        """Return the names in the order of help."""
        return [*COMMANDS]

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command that is called, imported, and the words after its name."""
        if args[0] in FORMER and not ctx.resilient_parsing:  # which completion does
            say_aside(f"note: specroof {args[0]} is specroof {FORMER[args[0]]} now")
        if args[0] in _CALLED:
            args = [*_CALLED[args[0]].split(), *args[1:]]
        name, listed, rest = super().resolve_command(ctx, args)
        if name is None:
            return name, listed, rest
        row = None
        if name not in {*_FOR_PROGRAMS, "schema"}:
            row = getattr(import_module(f"specroof.questions.{name}"), "COMMAND", None)
        if row is not None:
            return name, _asked(name, row), rest
        alone = typer.Typer(add_completion=False, cls=CommandGroup)
        alone.command(name, cls=PlainCommand)(getattr(import_module(f"specroof.cli.{name}"), name))
        return name, typer.main.get_command(alone), rest


def _asked(name: str, row: Any) -> Any:
    """Return the command that asks a question, with those below it."""
    from specroof.cli.commands import command  # noqa: PLC0415 - help needs no question

    asks = command(row)
    about = GROUPS.get(name, asks.__doc__)
    alone = typer.Typer(add_completion=False, cls=CommandGroup, help=about)
    if not row.commands:
        alone.command(name, cls=PlainCommand)(asks)
        return typer.main.get_command(alone)
    alone.callback(invoke_without_command=True)(asks)
    group: Any = typer.main.get_command(alone)
    group.name = name
    for below, its_row in row.commands.items():
        group.add_command(_asked(below, its_row), below)
    return group


app = typer.Typer(
    cls=_Commands,
    name="specroof",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Predict what speculative decoding gains, by analysis, without a GPU.",
    epilog="Start with: specroof advise Qwen/Qwen3-8B -H h100 --input-len 1000 --output-len 300",
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
