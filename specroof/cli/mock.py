"""`specroof mock`: the commands that measure a predicted point on a real engine."""

import shlex
from collections.abc import Mapping
from pathlib import Path

from specroof.cli.flags import FORMATS, AsJson, Asked, Flag, drafter_flag, flags, shared
from specroof.cli.output import give
from specroof.questions.mock import mock as asked
from specroof.questions.mock import mock_text
from specroof.serving.benchmark_commands import FRAMEWORKS

_FLAGS = {
    **shared("model", "hardware"),
    "drafter": drafter_flag("Drafter and its acceptance, as in predict."),
    "draft_len": Flag("Drafts per round."),
    "draft_model": Flag("Hub name or folder with the drafter's config; mtp needs none."),
    "framework": Flag("Print the commands of this server.", metavar="|".join(FRAMEWORKS)),
    "concurrency": Flag("Requests in flight."),
    "input_len": Flag("Tokens of each prompt."),
    "output_len": Flag("Tokens of each answer."),
    **shared("tensor_parallel"),
    "engine": Flag(
        "Engine of the hardware profile.",
        metavar="NAME",
        shown="named like --framework, else the profile's default",
    ),
    **shared("family"),
}


@flags(asked, _FLAGS, FORMATS)
def mock(ask: Asked, as_json: AsJson = False) -> None:
    """Print the commands that measure a predicted point without trained weights.

    The server runs with random weights and a forced acceptance length. Compare its results with
    predictions by `specroof validate`, and fit a profile to them by `specroof calibrate`.

    Example: specroof mock Qwen/Qwen3.5-27B -H b200 --drafter mtp,accept=0.8 --draft-len 3
    """
    found, formats = asked(**ask), ask.get("options", {})
    words = {
        "-H": ask["hardware"],
        "--model": ask["model"],
        "--drafter": ask["drafter"],
        "--draft-len": ask["draft_len"],
        "--tp": ask["tensor_parallel"],
        "--family": ask.get("family"),
        "--engine": ask.get("engine"),
        "--kv-cache": formats.get("kv_dtype"),
        "--weights": formats.get("weight_dtype"),
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
