"""`specroof capacity`: how many requests a server runs at once."""

from specroof.cli.flags import FORMATS, SETUP, Flag, Panel, command, drafter_flag, shared
from specroof.drafters.kinds import KINDS
from specroof.questions.capacity import capacity as asked
from specroof.questions.capacity import capacity_text

capacity = command(
    asked,
    {
        **shared("model", "hardware"),
        "context_len": Flag("Cached tokens of each request: its prompt and answer.", "--context"),
        "drafters": drafter_flag(
            f"KIND[,key=value…], repeatable. Kinds: {', '.join(KINDS)}.", list[str]
        ),
        "draft_len": Flag("Drafts per round.", shown="the drafter's block, or 3"),
    },
    SETUP,
    Panel(FORMATS.title, FORMATS.flags | shared("recurrent_state")),
    example="specroof capacity Qwen/Qwen3.5-9B -H l40s --engine sglang --context 8192\n"
    "--drafter mtp --server prefix-cache=off",
    text=capacity_text,
    charts="Draw the memory of a device, line by line.",
)
