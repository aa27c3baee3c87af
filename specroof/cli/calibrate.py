"""`specroof calibrate`: your own benchmark results to an engine profile of your own machine."""

from pathlib import Path
from typing import Annotated

import typer

from specroof.cli.flags import BENCH_HELP, FORMATS, RESULTS, AsJson, Asked, Flag, flags, shared
from specroof.cli.output import give, text_file
from specroof.errors import OptionError
from specroof.questions.calibrate import DEFAULT_ENGINE_NAME
from specroof.questions.calibrate import calibrate as asked

Output = Annotated[
    Path | None,
    typer.Option("--output", "-o", metavar="FILE", help="Write the hardware YAML here."),
]
_FLAGS = {
    "results": Flag(BENCH_HELP, "BENCH…", kind=list[Path]),
    **shared("hardware"),
    "model": Flag("The served model: a config.json, a bundled model or a Hub name.", "--model"),
    **shared("tensor_parallel", "expert_parallel"),
    "engine_name": Flag(
        "Name of the engine in the written file.",
        metavar="NAME",
        default=None,
        shown=DEFAULT_ENGINE_NAME,
    ),
}


@flags(asked, _FLAGS, RESULTS, FORMATS)
def calibrate(output: Output = None, *, ask: Asked, as_json: AsJson = False) -> None:
    """Fit an engine profile to your own benchmark, and write a hardware file with it.

    Three points fit the overheads; more points fit the shares of the peaks too. Figures
    that the points cannot determine keep the profile's values and are listed with the reason.
    Vary batch size and context, and include drafts: plain points calibrate step times, not
    the speedup.

    Example: specroof calibrate bench.jsonl -H b200 --model Qwen/Qwen3-8B -o my-b200.yaml
    """
    if "engine_name" in ask and output is None:
        message = (
            f"engine_name is {ask['engine_name']!r} without --output; allowed: with --output FILE"
        )
        raise OptionError(message)
    found = asked(**ask)
    from specroof.questions.calibrate import calibrated_text  # noqa: PLC0415 - needs fits

    give(
        found.to_dict,
        lambda: calibrated_text(found),
        text_file(output, lambda: found.yaml),
        as_json=as_json,
    )
