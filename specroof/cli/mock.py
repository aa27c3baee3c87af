"""`specroof mock`: the commands that measure a predicted point on a real engine."""

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from specroof.cli.flags import AsJson, Family, FormatFlags, HardwareWord, ModelWord, TensorParallel
from specroof.cli.grouping import flags
from specroof.cli.output import give
from specroof.questions.mock import mock as asked
from specroof.questions.words import FRAMEWORKS
from specroof.report.mock import mock_text

__all__ = ["mock"]

Drafter = Annotated[
    str, typer.Option(metavar="SPEC", help="Drafter and its acceptance, as in predict.")
]
DraftLen = Annotated[int, typer.Option(min=1, help="Drafts per round.")]
DraftModel = Annotated[
    str | None,
    typer.Option(help="Hub name or folder with the drafter's config; mtp needs none."),
]
Framework = Annotated[
    str, typer.Option(metavar="|".join(FRAMEWORKS), help="Print the commands of this server.")
]
Concurrency = Annotated[int, typer.Option(min=1, help="Requests in flight.")]
InputLen = Annotated[int, typer.Option(min=1, help="Tokens of each prompt.")]
OutputLen = Annotated[int, typer.Option(min=1, help="Tokens of each answer.")]
Engine = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="Engine of the hardware profile.",
        show_default="named like --framework, else the profile's default",
    ),
]


@flags
def mock(  # noqa: PLR0913, PLR0917 - one parameter per flag
    model: ModelWord,
    hardware: HardwareWord,
    drafter: Drafter,
    draft_len: DraftLen,
    formats: FormatFlags,
    draft_model: DraftModel = None,
    framework: Framework = "sglang",
    concurrency: Concurrency = 1,
    input_len: InputLen = 1024,
    output_len: OutputLen = 1024,
    tensor_parallel: TensorParallel = 1,
    engine: Engine = None,
    family: Family = None,
    as_json: AsJson = False,
) -> None:
    """Print the commands that measure a predicted point without trained weights.

    The engine runs with random weights and accepts as many drafts as it is told. Compare the
    results with predictions by `specroof validate`, and fit them by `specroof calibrate`.

    Example: specroof mock Qwen/Qwen3.5-27B -H b200 --drafter mtp,accept=0.8 --draft-len 3
    """
    found = asked(
        model,
        hardware,
        drafter=drafter,
        draft_len=draft_len,
        draft_model=draft_model,
        framework=framework,
        concurrency=concurrency,
        input_len=input_len,
        output_len=output_len,
        tensor_parallel=tensor_parallel,
        engine=engine,
        options=vars(formats),
        family=family,
    )
    given = {
        "-H": hardware,
        "--model": model,
        "--drafter": drafter,
        "--draft-len": draft_len,
        "--tp": tensor_parallel,
        "--family": family,
        "--engine": engine,
        "--kv-cache": formats.kv_dtype,
        "--weights": formats.weight_dtype,
    }
    give(
        found.to_dict,
        lambda: f"{mock_text(found)}\n{_next_commands(given)}",
        as_json=as_json,
        to_paste=True,
    )


def _next_commands(given: Mapping[str, object]) -> str:
    """Return what to do with the results, as comments of a shell script."""
    words = [str(one) for pair in given.items() if pair[1] is not None for one in pair]
    bench, mine = shlex.join(["bench.jsonl", *words]), f"my-{Path(str(given['-H'])).stem}.yaml"
    return (
        f"# then compare: specroof validate {bench}\n"
        f"# and fit, with results at several loads: specroof calibrate {bench} "
        f"-o {shlex.quote(mine)}"
    )
