"""`specroof frontier`: what each user and each device can get."""

from specroof.cli.flags import (
    OPTIONS,
    REQUESTS,
    SETUP,
    Flag,
    batch_flag,
    command,
    drafter_flag,
    numbers,
    shared,
    target_flag,
)
from specroof.questions.frontier import frontier as asked
from specroof.questions.frontier import frontier_text

frontier = command(
    asked,
    {
        **shared("model", "hardware"),
        "drafters": drafter_flag(
            "KIND[,key=value…] with its acceptance, repeatable, as in predict.", list[str]
        ),
        "batch_size": batch_flag("1,2,3,4,6,8,…,4096"),
        **shared("context_len", shown="4096"),
        "devices": Flag(
            "Numbers of devices to compare, comma-separated.", read=numbers, shown="--tp"
        ),
        "max_draft_len": Flag("Longest draft tried.", shown="16"),
        "tpot_s": target_flag("Target: milliseconds per token.", "--tpot"),
        "ttft_s": target_flag("Target: milliseconds to the first token of a request.", "--ttft"),
        **shared("price_per_hour", "capacity"),
    },
    REQUESTS,
    SETUP,
    OPTIONS,
    example="specroof frontier Qwen/Qwen3-32B -H h100 --devices 1,2,4 --drafter eagle3,accept=0.7\n"
    "--tpot 20 --plot frontier.png",
    text=frontier_text,
    charts="Draw tokens/s per device against per user.",
)
