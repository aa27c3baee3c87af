"""The pages that get a chart of the first command that they show."""

from typing import Final

#: The end of the chart's name by page: a command may draw several.
CHARTED: Final = {
    **dict.fromkeys(("index", "guides/advise", "guides/breakeven", "guides/frontier"), ""),
    **dict.fromkeys(("guides/capacity", "guides/loads", "guides/split", "guides/explain"), ""),
    **dict.fromkeys(("guides/local-machines", "commands/rollout", "commands/train"), ""),
    "commands/worth": "",
    "guides/adaptive": "-policies",
    "guides/predict": "-by-batch",
}
