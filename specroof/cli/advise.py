"""`specroof advise`: on or off, which drafter, how many drafts, at what price, by which flags."""

from typing import Annotated

import typer

from specroof.cli.flags import (
    AsJson,
    Drafters,
    ModelWord,
    OptionFlags,
    PlaceFlags,
    PrefixHitRate,
    PricePerHour,
    SeveralChips,
)
from specroof.cli.grouping import flags
from specroof.cli.lists import numbers, whole_numbers, words
from specroof.cli.output import give
from specroof.questions.advise import advise as asked
from specroof.questions.advise_request import USUAL_LOADS
from specroof.questions.words import LAUNCHERS
from specroof.report.advice import advice_text

__all__ = ["advise"]

InputLen = Annotated[float | None, typer.Option("--input-len", "--isl", help="Tokens of a prompt.")]
OutputLen = Annotated[
    float | None, typer.Option("--output-len", "--osl", help="Tokens of an answer.")
]
TrafficFile = Annotated[
    str | None,
    typer.Option(
        "--traffic",
        metavar="FILE",
        help="Load over the day: CSV with hour and concurrency or requests_per_s, or YAML with "
        "hours and a mix of input_len, output_len and weight.",
    ),
]
Concurrency = Annotated[
    str | None,
    typer.Option(
        help="Requests in flight, comma-separated; 1..128 doubles.",
        show_default=",".join(map(str, USUAL_LOADS)),
    ),
]
DraftLen = Annotated[
    str | None,
    typer.Option(help="Drafts per round to choose from, as in 1,2,3.", show_default="any"),
]
Framework = Annotated[
    str | None,
    typer.Option(
        metavar="|".join(LAUNCHERS),
        help="The server: its engine predicts, its flags are printed.",
        show_default="the profile's default engine; flags of vllm and sglang",
    ),
]
DraftModel = Annotated[
    str | None, typer.Option(help="Hub name or folder with the drafter's weights, for the flags.")
]
Ttft = Annotated[
    float | None, typer.Option("--ttft", metavar="MS", help="Target: wait for the first token.")
]
Tpot = Annotated[
    float | None, typer.Option("--tpot", metavar="MS", help="Target: time of each later token.")
]
MinSpeedup = Annotated[float | None, typer.Option(help="Target: the least speedup that pays.")]
Devices = Annotated[
    int | None,
    typer.Option(
        "--tp",
        "--tensor-parallel-size",
        help="Devices (tensor parallelism).",
        show_default="as few as the model fits on",
    ),
]


@flags
def advise(  # noqa: PLR0913, PLR0917 - one parameter per flag of the contract
    model: ModelWord,
    hardware: SeveralChips,
    drafters: Drafters,
    place: PlaceFlags,
    options: OptionFlags,
    input_len: InputLen = None,
    output_len: OutputLen = None,
    prefix_hit_rate: PrefixHitRate = None,
    concurrency: Concurrency = None,
    draft_len: DraftLen = None,
    framework: Framework = None,
    draft_model: DraftModel = None,
    ttft_ms: Ttft = None,
    tpot_ms: Tpot = None,
    min_speedup: MinSpeedup = None,
    price_per_hour: PricePerHour = None,
    traffic: TrafficFile = None,
    tensor_parallel: Devices = None,
    as_json: AsJson = False,
) -> None:
    """Say whether speculative decoding pays, with which drafter, and what to type.

    Example: specroof advise Qwen/Qwen3-32B-FP8 -H h100 --tp 2 --framework vllm --input-len 3000
    --output-len 500 --concurrency 1,8,32,64,128 --drafter eagle3,accept-length=2.8@3
    """
    found = asked(
        model,
        words("--hardware", hardware),
        **vars(place),
        options=vars(options),
        drafters=drafters,
        input_len=input_len,
        output_len=output_len,
        prefix_hit_rate=prefix_hit_rate,
        concurrency=numbers("--concurrency", concurrency),
        draft_len=whole_numbers("--draft-len", draft_len),
        framework=framework,
        draft_model=draft_model,
        ttft_ms=ttft_ms,
        tpot_ms=tpot_ms,
        min_speedup=min_speedup,
        price_per_hour=price_per_hour,
        traffic=traffic,
        tensor_parallel=tensor_parallel,
    )
    give(found.to_dict, lambda: advice_text(found, model), as_json=as_json, to_paste=True)
