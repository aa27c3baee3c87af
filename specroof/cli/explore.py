"""`specroof explore`: a page on which models, chips, loads and drafters can be tried."""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from specroof.cli.flags import (
    CostOf,
    Group,
    OptionFlags,
    Read,
    batch_option,
    completion,
    context_option,
)
from specroof.cli.grouping import flags, given
from specroof.cli.lists import numbers, whole_numbers, words
from specroof.cli.output import check_folder, write, write_folder
from specroof.cli.streams import STANDARD_OUTPUT
from specroof.questions.explore import Exploration
from specroof.questions.explore import explore as asked
from specroof.questions.words import hardware_names, model_names

Output = Annotated[
    Path,
    typer.Option(
        "--output",
        "-o",
        metavar="FILE.html|DIR",
        help="One file that holds everything, or a folder whose page loads grids as it needs them.",
    ),
]


@dataclass(frozen=True, kw_only=True)
class Flags(Group):
    """Fields of `specroof.questions.explore.ExploreRequest`."""

    models: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[MODEL]…",
            help="Config files, bundled models or Hub names.",
            autocompletion=completion(model_names),
            show_default="all bundled models",
        ),
    ] = None
    hardware: Annotated[
        str | None,
        typer.Option(
            "--hardware",
            "-H",
            metavar="NAME[,NAME]…",
            help="YAML files, names or aliases, comma-separated.",
            autocompletion=completion(hardware_names),
            show_default="twelve bundled chips",
        ),
        Read(words),
    ] = None
    engines: Annotated[
        str | None,
        typer.Option(
            "--engine",
            metavar="NAME[,NAME]…",
            help="Engines to choose from.",
            show_default="each chip's default, generic and ideal",
        ),
        Read(words),
    ] = None
    devices: Annotated[
        str | None,
        typer.Option("--tp", help="Numbers of devices to choose from.", show_default="1,2,4,8"),
        Read(whole_numbers, into="tensor_parallel"),
    ] = None
    batch_size: Annotated[str | None, batch_option("1,2,4,…,256"), Read(numbers)] = None
    context_len: Annotated[str | None, context_option("1024,4096,16384,65536"), Read(numbers)] = (
        None
    )
    cost_of: CostOf = "decode"


@flags
def explore(output: Output, options: OptionFlags, ask: Flags) -> None:
    """Make an interactive page of models, chips, loads and drafters.

    It needs no server and no network: open it from disk, send it, or put it on any web server.
    The address of the page holds its settings.

    Example: specroof explore Qwen/Qwen3-8B deepseek-ai/DeepSeek-V4-Pro -H b200,h100 -o page.html
    """
    found = asked(**given(ask, options))
    if output == STANDARD_OUTPUT or output.suffix.casefold() in {".html", ".htm"}:
        write({output: found.page.encode()}, as_json=False)
        return
    check_folder(output)
    write_folder(output, {output / name: data for name, data in _site(found).items()})


def _site(found: Exploration) -> dict[str, bytes]:
    """Return the files of a site; on a terminal, a bar shows how far it is."""
    from specroof.explore import site_files  # noqa: PLC0415 - slow to import, seldom asked for

    if not sys.stderr.isatty():
        return dict(site_files(found))
    pairs = len(found.models) * len(found.hardware)
    with typer.progressbar(length=pairs, label="grids", file=sys.stderr) as bar:
        return dict(site_files(found, lambda: bar.update(1)))
