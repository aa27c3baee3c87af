"""`specroof hardware`: the profiles, and a check of your own file."""

from typing import Annotated

import typer

from specroof.catalog import hardware_names
from specroof.cli import COMMANDS
from specroof.cli.flags import AsJson, Asked, Flag, flags
from specroof.cli.groups import Command, CommandGroup
from specroof.cli.output import give, say
from specroof.questions import hardware as asked
from specroof.questions.hardware import hardware_table, hardware_text
from specroof.report.layout import note_lines

hardware_app = typer.Typer(add_completion=False, cls=CommandGroup, help=COMMANDS["hardware"])

_NAME = Flag("A YAML file, a name or an alias.", "NAME", names=hardware_names)
HardwareFile = Annotated[str, typer.Argument(metavar="FILE", help="Your own YAML file.")]


@hardware_app.callback(invoke_without_command=True)
def list_hardware(context: typer.Context, as_json: AsJson = False) -> None:
    """List the hardware profiles: peaks, memory, engines."""
    if context.invoked_subcommand is not None:
        return
    found = asked.list_hardware()
    give(lambda: [one.to_dict() for one in found], lambda: hardware_table(found), as_json=as_json)


@hardware_app.command("show", cls=Command)
@flags(asked.show_hardware, {"hardware": _NAME})
def show_hardware(ask: Asked, as_json: AsJson = False) -> None:
    """Show one profile with the source of each figure."""
    found = asked.show_hardware(**ask)
    give(found.to_dict, lambda: hardware_text(found), as_json=as_json)


@hardware_app.command("check", cls=Command)
def check_hardware(file: HardwareFile) -> None:
    """Check a hardware file: every key, every figure, every source."""
    found = asked.check_hardware(file)
    told = [f"{file}: {found.profile.name}, every figure is valid and names a source"]
    say("\n".join([*told, note_lines(found.warnings)]).rstrip())
