"""`specroof schema`: what ``--json`` prints, as JSON Schemas that tests/schemas.py makes."""

import json
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from specroof.cli.output import say
from specroof.errors import refuse

#: The published schemas by the name of the command, such as ``predict`` and ``models-show``.
SCHEMAS: Final = {
    path.stem: path for path in sorted((Path(__file__).parent / "schemas").glob("*.json"))
}


def load_schema(name: str) -> dict[str, Any]:
    """Return the JSON Schema of what a command's ``--json`` prints.

    Raises
    ------
    OptionError
        For a command that has none.

    Examples
    --------
    >>> load_schema("predict")["$id"]
    'urn:specroof:predict:3'
    """
    if name not in SCHEMAS:
        refuse("COMMAND", name, ", ".join(SCHEMAS))
    return dict(json.loads(SCHEMAS[name].read_text(encoding="utf-8")))


def schema(
    command: Annotated[
        str | None, typer.Argument(metavar="COMMAND", help="Such as predict or models-show.")
    ] = None,
) -> None:
    """Print the JSON Schema of what a command's --json prints.

    Without COMMAND, it lists the commands that have one. Within a version (the end of its $id) keys
    are added, and none goes away or changes its meaning.
    """
    if command is None:
        say("\n".join(SCHEMAS))
    else:
        say(json.dumps(load_schema(command), indent=1))
