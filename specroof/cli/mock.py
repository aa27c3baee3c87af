"""`specroof mock`: the commands that measure a predicted point on a real engine."""

from typing import Annotated

import typer

from specroof import catalog, report
from specroof.cli.words import (
    AsJson,
    Engine,
    Family,
    HardwareWord,
    ModelWord,
    TensorParallel,
    say,
)
from specroof.errors import OptionError
from specroof.hardware import Placement
from specroof.mock import FRAMEWORKS, MockPoint, mock_commands
from specroof.solver import speedup_curve
from specroof.workload import Workload

__all__ = ["mock"]


def mock(  # noqa: PLR0913, PLR0917 - one parameter per flag
    model: ModelWord,
    hardware: HardwareWord,
    drafter: Annotated[
        str,
        typer.Option(metavar="SPEC", help="What drafts and how much is accepted, as in predict."),
    ],
    draft_len: Annotated[int, typer.Option(min=1, help="Drafts per round.")],
    draft_model: Annotated[
        str | None,
        typer.Option(help="Hub name or folder with the drafter's config; mtp needs none."),
    ] = None,
    framework: Annotated[
        str, typer.Option(metavar="|".join(FRAMEWORKS), help="Whose commands.")
    ] = "sglang",
    concurrency: Annotated[int, typer.Option(min=1, help="Requests in flight.")] = 1,
    input_len: Annotated[int, typer.Option(min=1, help="Tokens of each prompt.")] = 1024,
    output_len: Annotated[int, typer.Option(min=1, help="Tokens of each answer.")] = 1024,
    tensor_parallel: TensorParallel = 1,
    engine: Engine = None,
    family: Family = None,
    as_json: AsJson = False,
) -> None:
    """Print the commands that measure a predicted point without trained weights.

    The engine runs with random weights and accepts as many drafts as it is told. Feed the
    results to `specroof calibrate`.

    Example: specroof mock Qwen/Qwen3.5-27B -H b200 --drafter mtp,accept=0.8 --draft-len 3
    """
    one = catalog.load_drafter(drafter)
    if one.acceptance is None:
        message = f"drafter {drafter!r} has no acceptance to force; give one, as in accept=0.8"
        raise OptionError(message)
    curve = speedup_curve(
        catalog.load_model(model, family=family),
        catalog.load_hardware(hardware),
        drafter=one,
        batch_size=concurrency,
        context_len=Workload(input_len, output_len).mean_context_len,
        max_draft_len=draft_len,
        placement=Placement(tensor_parallel),
        engine=engine,
    )
    point = MockPoint(
        model=model,
        method=drafter.partition(",")[0],
        drafter=draft_model,
        draft_len=draft_len,
        tokens_per_round=round(float(curve.tokens_per_round[0, 0, -1]), 4),
        batch_size=concurrency,
        input_len=input_len,
        output_len=output_len,
        tensor_parallel=tensor_parallel,
    )
    commands = mock_commands(point, framework)
    if as_json:
        rows = [{"title": title, "command": command} for title, command in commands]
        expected = {"speedup": float(curve.speedup[0, 0, -1]), "engine": curve.engine}
        say(report.json_line({"commands": rows, "predicted": expected}))
        return
    for title, command in commands:
        say(f"# {title}\n{command}\n")
    say(
        f"# predicted by engine {curve.engine}, prefill apart: "
        f"{curve.tokens_per_s[0, 0, 0]:.0f} tok/s without drafts, "
        f"{curve.tokens_per_s[0, 0, -1]:.0f} with, {curve.speedup[0, 0, -1]:.2f}x\n"
        f"# then: specroof calibrate bench.jsonl -H {hardware} --model {model} "
        f"--drafter {drafter} --draft-len {draft_len} -o my-{hardware}.yaml"
    )
