"""`specroof explain`: where one pass spends its time, and why a round pays or loses."""

from specroof.cli.flags import OPTIONS, SETUP, Flag, command, drafter_flag, shared
from specroof.questions.explain import explain as asked
from specroof.questions.explain import explanation_text

explain = command(
    asked,
    {
        **shared("model", "hardware"),
        "batch_size": Flag("Sequences in the pass.", "--batch"),
        "context_len": Flag(
            "Cached tokens of each sequence.", "--context", shown="4096; 0 with --prefill"
        ),
        "query_len": Flag(
            "New positions of each sequence: 1 decodes, γ + 1 verifies. With --prefill, the tokens "
            "of the prompt.",
            shown="1",
        ),
        "prefill": Flag(
            "Time a prompt of --query-len tokens: logits and recurrent state of its last position "
            "only. Shows the time to the first token.",
        ),
        "drafter": drafter_flag(
            "Compare a round of this drafter, given with its acceptance, with a plain step."
        ),
        "draft_len": Flag("Drafts of that round.", shown="the best"),
    },
    SETUP,
    OPTIONS,
    example="specroof explain Qwen/Qwen3-8B -H b200 --batch 32 for a plain step, with\n"
    "--query-len 4 for the verification of 3 drafts; with --prefill --query-len 8192 for a prompt;\n"
    "with --drafter eagle3,accept=0.7 --draft-len 3 for a round against a plain step.",
    text=explanation_text,
    charts="Draw the roofline, and time per operation (NAME-time); with --drafter first the waterfall "
    "of the round, then NAME-roofline and NAME-time.",
)
