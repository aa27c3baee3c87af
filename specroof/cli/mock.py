"""`specroof mock`: the commands that measure a predicted point on a real engine."""

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from specroof.cli.flags import AsJson, Family, FormatFlags, OneChip, TensorParallel, spec_option
from specroof.cli.grouping import flags, given
from specroof.cli.output import give
from specroof.questions.mock import mock as asked
from specroof.questions.to_measure import FRAMEWORKS
from specroof.report.mock import mock_text


@dataclass(frozen=True, kw_only=True)
class Flags(OneChip):
    """Fields of `specroof.questions.mock.MockRequest`."""

    drafter: Annotated[str, spec_option("Drafter and its acceptance, as in predict.")]
    draft_len: Annotated[int, typer.Option(help="Drafts per round.")]
    draft_model: Annotated[
        str | None,
        typer.Option(help="Hub name or folder with the drafter's config; mtp needs none."),
    ] = None
    framework: Annotated[
        str, typer.Option(metavar="|".join(FRAMEWORKS), help="Print the commands of this server.")
    ] = "sglang"
    concurrency: Annotated[int, typer.Option(help="Requests in flight.")] = 1
    input_len: Annotated[int, typer.Option(help="Tokens of each prompt.")] = 1024
    output_len: Annotated[int, typer.Option(help="Tokens of each answer.")] = 1024
    tensor_parallel: TensorParallel = 1
    engine: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Engine of the hardware profile.",
            show_default="named like --framework, else the profile's default",
        ),
    ] = None
    family: Family = None


@flags
def mock(ask: Flags, formats: FormatFlags, as_json: AsJson = False) -> None:
    """Print the commands that measure a predicted point without trained weights.

    The server runs with random weights and a forced acceptance length. Compare its results with
    predictions by `specroof validate`, and fit a profile to them by `specroof calibrate`.

    Example: specroof mock Qwen/Qwen3.5-27B -H b200 --drafter mtp,accept=0.8 --draft-len 3
    """
    found = asked(**given(ask, formats))
    words = {
        "-H": ask.hardware,
        "--model": ask.model,
        "--drafter": ask.drafter,
        "--draft-len": ask.draft_len,
        "--tp": ask.tensor_parallel,
        "--family": ask.family,
        "--engine": ask.engine,
        "--kv-cache": formats.kv_dtype,
        "--weights": formats.weight_dtype,
    }
    give(
        found.to_dict,
        lambda: f"{mock_text(found)}\n{_next_commands(words)}",
        as_json=as_json,
        to_paste=True,
    )


def _next_commands(given: Mapping[str, object]) -> str:
    """Return the commands for the results, as comments of a shell script."""
    words = [str(one) for pair in given.items() if pair[1] is not None for one in pair]
    bench, mine = shlex.join(["bench.jsonl", *words]), f"my-{Path(str(given['-H'])).stem}.yaml"
    return (
        f"# then compare: specroof validate {bench}\n"
        f"# and fit, with results at several loads: specroof calibrate {bench} "
        f"-o {shlex.quote(mine)}"
    )
