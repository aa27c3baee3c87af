"""`specroof worth`: what a better drafter would bring."""

from specroof.cli.flags import (
    OPTIONS,
    REQUESTS,
    SETUP,
    Flag,
    command,
    drafter_flag,
    numbers,
    shared,
    target_flag,
)
from specroof.questions.worth import worth as asked
from specroof.questions.worth import worth_text

worth = command(
    asked,
    {
        **shared("model", "hardware"),
        "drafter": drafter_flag("KIND[,key=value…], as in predict; needs no acceptance."),
        "accept_length": Flag(
            "Acceptance lengths to compare, bonus included, comma-separated.",
            read=numbers,
            shown="3 to 9",
        ),
        "draft_len": Flag(
            "Drafts that lengths are measured with.",
            shown="all that the drafter makes, up to 16",
        ),
        "batch_size": Flag("Sequences in flight.", "--batch"),
        **shared("context_len", shown="4096"),
        "tpot_s": target_flag(
            "Target: milliseconds per token.", "--tpot", "the time of plain decoding"
        ),
        **shared("price_per_hour", "capacity"),
    },
    REQUESTS,
    SETUP,
    OPTIONS,
    example="specroof worth Qwen/Qwen3-32B -H h100 --tp 2 --drafter block,cost=0.1,block=16\n"
    "--batch 32",
    text=worth_text,
    charts="Draw speedup and users against the length.",
)
