"""`specroof hardware`: the profiles, and what a file of your own must hold."""

from dataclasses import asdict
from typing import Annotated, Any

import typer

from specroof import catalog, report
from specroof.cli.flags import AsJson, completion, say
from specroof.hardware import HardwareProfile

__all__ = ["hardware_app"]

hardware_app = typer.Typer(help="List the hardware profiles, show one, or check your own file.")


@hardware_app.callback(invoke_without_command=True)
def list_hardware(context: typer.Context, as_json: AsJson = False) -> None:
    """List the hardware profiles: peaks, memory, engines."""
    if context.invoked_subcommand is not None:
        return
    rows = [_hardware_row(name, catalog.load_hardware(name)) for name in catalog.hardware_names()]
    say(report.json_line(rows) if as_json else report.hardware_table(rows))


HardwareName = Annotated[
    str,
    typer.Argument(
        metavar="NAME",
        help="A YAML file, a name or an alias.",
        autocompletion=completion(catalog.hardware_names),
    ),
]


@hardware_app.command("show")
def show_hardware(name: HardwareName, as_json: AsJson = False) -> None:
    """Show one profile with the source of each figure."""
    profile = catalog.load_hardware(name)
    row = _hardware_row(name, profile)
    say(report.json_line(row) if as_json else report.hardware_text(row))


@hardware_app.command("check")
def check_hardware(
    file: Annotated[str, typer.Argument(metavar="FILE", help="Your own YAML file.")],
) -> None:
    """Check a hardware file: every key, every figure, every source."""
    profile = catalog.load_hardware(file, check=True)
    say(f"{file}: {profile.name}, all figures valid and sourced")


def _hardware_row(name: str, profile: HardwareProfile) -> dict[str, Any]:
    return asdict(profile) | {"name": name, "title": profile.name}
