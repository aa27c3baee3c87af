"""`specroof adaptive`: what draft lengths gain that follow load or confidence."""

from specroof.cli.flags import OPTIONS, SETUP, Flag, command, drafter_flag, numbers, shared
from specroof.questions.adaptive import adaptive as asked
from specroof.questions.adaptive import adaptive_text

adaptive = command(
    asked,
    {
        **shared("model", "hardware"),
        "drafter": drafter_flag("KIND[,key=value…], as in predict."),
        "batch_size": Flag(
            "Sequences decoded at a time, comma-separated. Name one twice to give it twice the "
            "weight.",
            "--batch",
            read=numbers,
            default="1,8,32,128",
        ),
        **shared("context_len"),
        "max_draft_len": Flag("The longest draft.", shown="the drafter's depth, up to 16"),
        "confidence": Flag(
            "Share of the variance of acceptance that the drafter's confidence explains, 0 to 1."
        ),
        "n_rounds": Flag("Simulated rounds of single sequences.", "--rounds"),
        **shared("seed"),
    },
    SETUP,
    OPTIONS,
    example="specroof adaptive Qwen/Qwen3-8B -H h100 --drafter eagle3,accept-length=2.8@3",
    text=adaptive_text,
    charts="Draw the gain of each policy by load.",
)
