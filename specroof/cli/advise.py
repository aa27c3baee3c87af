"""`specroof advise`: on or off, which drafter, how many drafts, at what price, by which flags."""

from specroof.cli.flags import (
    CHIPS,
    OPTIONS,
    PLACE,
    AsJson,
    Asked,
    Flag,
    flags,
    numbers,
    shared,
    whole_numbers,
)
from specroof.cli.output import give
from specroof.questions.advise import advice_text
from specroof.questions.advise import advise as asked
from specroof.questions.advised_loads import USUAL_LOADS
from specroof.serving.launch import LAUNCHERS

_FLAGS = {
    **shared("model"),
    "hardware": CHIPS,
    **shared("drafters"),
    "input_len": Flag("Tokens of a prompt.", "--input-len --isl"),
    "output_len": Flag("Tokens of an answer.", "--output-len --osl"),
    **shared("prefix_hit_rate", "waves"),
    "concurrency": Flag(
        "Requests in flight, comma-separated; 1..128 doubles.",
        read=numbers,
        shown=",".join(map(str, USUAL_LOADS)),
    ),
    "draft_len": Flag(
        "Drafts per round to choose from, as in 1,2,3.", read=whole_numbers, shown="any"
    ),
    "framework": Flag(
        "The server: its engine predicts, its flags are printed.",
        metavar="|".join(LAUNCHERS),
        shown="the profile's default engine; flags of vllm and sglang",
    ),
    "draft_model": Flag("Hub name or folder with the drafter's weights, for the flags."),
    "ttft_ms": Flag("Target: time to the first token.", "--ttft", metavar="MS"),
    "tpot_ms": Flag("Target: time per later token.", "--tpot", metavar="MS"),
    "min_speedup": Flag("Target: the smallest speedup that is worth it."),
    **shared("price_per_hour"),
    "traffic": Flag(
        "Load over the day: CSV with hour and concurrency or requests_per_s, or YAML with hours "
        "and a mix of input_len, output_len and weight.",
        metavar="FILE",
    ),
    "tensor_parallel": Flag(
        "Devices (tensor parallelism).",
        "--tp --tensor-parallel-size",
        shown="as few as the model fits on",
    ),
}


@flags(asked, _FLAGS, PLACE, OPTIONS)
def advise(ask: Asked, as_json: AsJson = False) -> None:
    """Say whether speculative decoding pays, with which drafter and which server flags.

    Example: specroof advise Qwen/Qwen3-32B-FP8 -H h100 --tp 2 --framework vllm --input-len 3000
    --output-len 500 --concurrency 1,8,32,64,128 --drafter eagle3,accept-length=2.8@3
    """
    found = asked(**ask)
    give(found.to_dict, lambda: advice_text(found, ask["model"]), as_json=as_json, to_paste=True)
