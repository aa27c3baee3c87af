"""`specroof doctor`: a running server, read, and what it should change."""

from typing import Annotated

import typer

from specroof.cli.flags import AsJson, FormatFlags, HardwareWord, SetupFlags, completion
from specroof.cli.grouping import flags
from specroof.cli.output import give
from specroof.questions.doctor import doctor as asked
from specroof.questions.words import KINDS, model_names
from specroof.report.doctor import doctor_text

__all__ = ["doctor"]

Pages = Annotated[
    list[str],
    typer.Argument(
        metavar="URL|PAGE…",
        help="A server, as in http://localhost:8000; or one or two saved metrics pages, the older "
        "first.",
    ),
]
Model = Annotated[
    str,
    typer.Option(
        help="A config.json, a bundled model or a Hub name (ORG/NAME).",
        autocompletion=completion(model_names),
    ),
]
DrafterWord = Annotated[
    str | None,
    typer.Option(
        "--drafter",
        metavar="SPEC",
        help=f"What drafts: KIND[,key=value…]. Kinds: {', '.join(KINDS)}. The prediction "
        f"uses the acceptance that the server counts; one given here is compared with it.",
    ),
]
Wait = Annotated[
    float | None,
    typer.Option(
        "--wait",
        metavar="SECONDS",
        help="Seconds between the two reads, 0 for one read; or between two saved pages.",
        show_default="10 for a server",
    ),
]
ServedName = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="The model's name on the server, where it serves several."),
]
ContextLen = Annotated[
    float | None,
    typer.Option(
        "--context",
        help="Cached tokens of each request.",
        show_default="the mean of the finished requests, else 4096",
    ),
]
DraftModel = Annotated[
    str | None, typer.Option(metavar="NAME", help="The drafter's weights, for the flags.")
]


@flags
def doctor(  # noqa: PLR0913, PLR0917 - one parameter per flag of the contract
    pages: Pages,
    model: Model,
    hardware: HardwareWord,
    setup: SetupFlags,
    formats: FormatFlags,
    drafter: DrafterWord = None,
    wait_s: Wait = None,
    served_name: ServedName = None,
    context_len: ContextLen = None,
    draft_model: DraftModel = None,
    as_json: AsJson = False,
) -> None:
    """Read a server's metrics, compare them with a prediction, and say what to change.

    Example: specroof doctor http://localhost:8000 --model Qwen/Qwen3-8B -H h100 --drafter eagle3
    """
    found = asked(
        model,
        hardware,
        **vars(setup),
        options=vars(formats),
        pages=pages,
        drafter=drafter,
        wait_s=wait_s,
        served_name=served_name,
        context_len=context_len,
        draft_model=draft_model,
    )
    give(found.to_dict, lambda: doctor_text(found), as_json=as_json)
