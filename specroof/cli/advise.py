"""`specroof advise`: on or off, which drafter, how many drafts, at what price, by which flags."""

from dataclasses import dataclass
from typing import Annotated

import typer

from specroof.cli.flags import (
    AsJson,
    Drafters,
    Group,
    ModelWord,
    OptionFlags,
    PlaceFlags,
    PrefixHitRate,
    PricePerHour,
    Read,
    SeveralChips,
    Waves,
)
from specroof.cli.grouping import flags, given
from specroof.cli.lists import numbers, whole_numbers, words
from specroof.cli.output import give
from specroof.questions.advise import advise as asked
from specroof.questions.advise_request import LAUNCHERS, USUAL_LOADS
from specroof.report.advice import advice_text


@dataclass(frozen=True, kw_only=True)
class Flags(Group):
    """Fields of `specroof.questions.advise_request.AdviseRequest`."""

    model: ModelWord
    hardware: Annotated[SeveralChips, Read(words)]
    drafters: Drafters
    input_len: Annotated[
        float | None, typer.Option("--input-len", "--isl", help="Tokens of a prompt.")
    ] = None
    output_len: Annotated[
        float | None, typer.Option("--output-len", "--osl", help="Tokens of an answer.")
    ] = None
    prefix_hit_rate: PrefixHitRate = None
    waves: Waves = False
    concurrency: Annotated[
        str | None,
        typer.Option(
            help="Requests in flight, comma-separated; 1..128 doubles.",
            show_default=",".join(map(str, USUAL_LOADS)),
        ),
        Read(numbers),
    ] = None
    draft_len: Annotated[
        str | None,
        typer.Option(help="Drafts per round to choose from, as in 1,2,3.", show_default="any"),
        Read(whole_numbers),
    ] = None
    framework: Annotated[
        str | None,
        typer.Option(
            metavar="|".join(LAUNCHERS),
            help="The server: its engine predicts, its flags are printed.",
            show_default="the profile's default engine; flags of vllm and sglang",
        ),
    ] = None
    draft_model: Annotated[
        str | None,
        typer.Option(help="Hub name or folder with the drafter's weights, for the flags."),
    ] = None
    ttft_ms: Annotated[
        float | None, typer.Option("--ttft", metavar="MS", help="Target: time to the first token.")
    ] = None
    tpot_ms: Annotated[
        float | None, typer.Option("--tpot", metavar="MS", help="Target: time per later token.")
    ] = None
    min_speedup: Annotated[
        float | None, typer.Option(help="Target: the smallest speedup that is worth it.")
    ] = None
    price_per_hour: PricePerHour = None
    traffic: Annotated[
        str | None,
        typer.Option(
            "--traffic",
            metavar="FILE",
            help="Load over the day: CSV with hour and concurrency or requests_per_s, or YAML with "
            "hours and a mix of input_len, output_len and weight.",
        ),
    ] = None
    tensor_parallel: Annotated[
        int | None,
        typer.Option(
            "--tp",
            "--tensor-parallel-size",
            help="Devices (tensor parallelism).",
            show_default="as few as the model fits on",
        ),
    ] = None


@flags
def advise(ask: Flags, place: PlaceFlags, options: OptionFlags, as_json: AsJson = False) -> None:
    """Say whether speculative decoding pays, with which drafter and which server flags.

    Example: specroof advise Qwen/Qwen3-32B-FP8 -H h100 --tp 2 --framework vllm --input-len 3000
    --output-len 500 --concurrency 1,8,32,64,128 --drafter eagle3,accept-length=2.8@3
    """
    found = asked(**given(ask, place, options))
    give(found.to_dict, lambda: advice_text(found, ask.model), as_json=as_json, to_paste=True)
