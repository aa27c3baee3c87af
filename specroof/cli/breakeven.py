"""`specroof breakeven`: what it takes for speculation to pay."""

from specroof.cli.flags import (
    OPTIONS,
    REQUESTS,
    SETUP,
    Flag,
    batch_flag,
    command,
    context_flag,
    drafter_flag,
    shared,
)
from specroof.questions.breakeven import breakeven as asked
from specroof.questions.breakeven import breakeven_text
from specroof.questions.words import SOLVED

breakeven = command(
    asked,
    {
        **shared("model", "hardware"),
        "drafter": drafter_flag(
            "KIND[,key=value…], as in predict. Needs no acceptance to solve for one."
        ),
        "solve": Flag(
            "What to find: accept, the least acceptance rate; accept-length, with --draft-len "
            "drafts; the largest cost of drafting, batch or context.",
            metavar="WORD",
            names=lambda: SOLVED,
        ),
        "speedup": Flag("Speedup that is wanted; 1 breaks even."),
        "batch_size": batch_flag("1,2,4,…,256"),
        "context_len": context_flag("4096"),
        "draft_len": Flag("Drafts per round.", shown="the best of 1 to 16"),
        "most": Flag("Largest batch or context to try.", shown="4096; 1048576"),
        **shared("capacity"),
    },
    REQUESTS,
    SETUP,
    OPTIONS,
    example="specroof breakeven Qwen/Qwen3-8B -H b200 --drafter eagle3 --batch 1,8,32,128 for the\n"
    "least acceptance; with --drafter eagle3,accept=0.7 --solve batch for the largest batch.",
    text=breakeven_text,
    charts="Draw the answer against the load.",
)
