"""`specroof explore`: a page on which models, chips, loads and drafters can be tried."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from specroof.catalog import hardware_names, model_names
from specroof.cli.flags import (
    OPTIONS,
    Asked,
    Flag,
    batch_flag,
    context_flag,
    flags,
    shared,
    whole_numbers,
    words,
)
from specroof.cli.output import STANDARD_OUTPUT, check_folder, write, write_folder
from specroof.questions.explore import Exploration
from specroof.questions.explore import explore as asked

Output = Annotated[
    Path,
    typer.Option(
        "--output",
        "-o",
        metavar="FILE.html|DIR",
        help="One file that holds everything, or a folder whose page loads grids as it needs them.",
    ),
]


_FLAGS = {
    "models": Flag(
        "Config files, bundled models or Hub names.",
        "[MODEL]…",
        kind=list[str],
        names=model_names,
        shown="all bundled models",
    ),
    "hardware": Flag(
        "YAML files, names or aliases, comma-separated.",
        "--hardware -H",
        metavar="NAME[,NAME]…",
        names=hardware_names,
        read=words,
        shown="twelve bundled chips",
    ),
    "engines": Flag(
        "Engines to choose from.",
        "--engine",
        metavar="NAME[,NAME]…",
        read=words,
        shown="each chip's default, generic and ideal",
    ),
    "tensor_parallel": Flag(
        "Numbers of devices to choose from.", "--tp", read=whole_numbers, shown="1,2,4,8"
    ),
    "batch_size": batch_flag("1,2,4,…,256"),
    "context_len": context_flag("1024,4096,16384,65536"),
    **shared("cost_of"),
}


@flags(asked, _FLAGS, OPTIONS)
def explore(output: Output, ask: Asked) -> None:
    """Make an interactive page of models, chips, loads and drafters.

    It needs no server and no network: open it from disk, send it, or put it on any web server.
    The address of the page holds its settings.

    Example: specroof explore Qwen/Qwen3-8B deepseek-ai/DeepSeek-V4-Pro -H b200,h100 -o page.html
    """
    found = asked(**ask)
    if output == STANDARD_OUTPUT or output.suffix.casefold() in {".html", ".htm"}:
        write({output: found.page.encode()}, as_json=False)
        return
    check_folder(output)
    write_folder(output, {output / name: data for name, data in _site(found).items()})


def _site(found: Exploration) -> dict[str, bytes]:
    """Return the files of a site; on a terminal, a bar shows how far it is."""
    from specroof.page import site_files  # noqa: PLC0415 - slow to import, seldom asked for

    if not sys.stderr.isatty():
        return dict(site_files(found))
    pairs = len(found.models) * len(found.hardware)
    with typer.progressbar(length=pairs, label="grids", file=sys.stderr) as bar:
        return dict(site_files(found, lambda: bar.update(1)))
