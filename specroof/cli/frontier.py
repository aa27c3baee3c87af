"""`specroof frontier`: what each user and each device can get."""

from specroof.cli.flags import (
    CAPACITY,
    CONTEXT_OR_REQUESTS,
    ONE_CHIP,
    OPTIONS,
    PRICE_PER_HOUR,
    REQUESTS,
    SETUP,
    Flag,
    batch_flag,
    drafter_flag,
    in_seconds,
)
from specroof.cli.grouping import command
from specroof.cli.lists import numbers
from specroof.questions.frontier import frontier as asked
from specroof.report.frontier import frontier_text

frontier = command(
    asked,
    {
        **ONE_CHIP,
        "drafters": drafter_flag(
            "KIND[,key=value…] with its acceptance, repeatable, as in predict.", list[str]
        ),
        "batch_size": batch_flag("1,2,3,4,6,8,…,4096"),
        "context_len": CONTEXT_OR_REQUESTS,
        "devices": Flag(
            "Numbers of devices to compare, comma-separated.", read=numbers, shown="--tp"
        ),
        "max_draft_len": Flag("Longest draft tried.", shown="16"),
        "tpot_s": Flag("Target: milliseconds per token.", "--tpot", metavar="MS", read=in_seconds),
        "ttft_s": Flag(
            "Target: milliseconds to the first token of a request.",
            "--ttft",
            metavar="MS",
            read=in_seconds,
        ),
        "price_per_hour": PRICE_PER_HOUR,
        "capacity": CAPACITY,
    },
    REQUESTS,
    SETUP,
    OPTIONS,
    example="specroof frontier Qwen/Qwen3-32B -H h100 --devices 1,2,4 --drafter eagle3,accept=0.7\n"
    "--tpot 20 --plot frontier.png",
    text=frontier_text,
    charts="Draw tokens/s per device against per user.",
)
