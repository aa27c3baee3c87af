"""`specroof doctor`: a running server, read, and what it should change."""

from dataclasses import dataclass
from typing import Annotated

import typer

from specroof.cli.flags import FormatFlags, Group, HardwareWord, SetupFlags, completion, spec_option
from specroof.cli.grouping import command
from specroof.questions.doctor import doctor as asked
from specroof.questions.words import KINDS, model_names
from specroof.report.doctor import doctor_text


@dataclass(frozen=True, kw_only=True)
class Flags(Group):
    """Fields of `specroof.questions.doctor.DoctorRequest`."""

    pages: Annotated[
        list[str],
        typer.Argument(
            metavar="URL|PAGE…",
            help="A server, as in http://localhost:8000; or one or two saved metrics pages, the "
            "older first.",
        ),
    ]
    model: Annotated[
        str,
        typer.Option(
            help="A config.json, a bundled model or a Hub name (ORG/NAME).",
            autocompletion=completion(model_names),
        ),
    ]
    hardware: HardwareWord
    drafter: Annotated[
        str | None,
        spec_option(
            f"What drafts: KIND[,key=value…]. Kinds: {', '.join(KINDS)}. The prediction uses the "
            f"acceptance that the server counts; one given here is compared with it."
        ),
    ] = None
    wait_s: Annotated[
        float | None,
        typer.Option(
            "--wait",
            metavar="SECONDS",
            help="Seconds between the two reads, 0 for one read; or between two saved pages.",
            show_default="10 for a server",
        ),
    ] = None
    served_name: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="The model's name on the server, if it serves several."),
    ] = None
    context_len: Annotated[
        float | None,
        typer.Option(
            "--context",
            help="Cached tokens of each request.",
            show_default="the mean of the finished requests, else 4096",
        ),
    ] = None
    draft_model: Annotated[
        str | None, typer.Option(metavar="NAME", help="The drafter's weights, for the flags.")
    ] = None


doctor = command(
    asked,
    Flags,
    SetupFlags,
    FormatFlags,
    example="specroof doctor http://localhost:8000 --model Qwen/Qwen3-8B -H h100 --drafter eagle3",
    text=doctor_text,
)
