"""Colors of what a terminal shows: the decision stands out, notes stand back."""

import sys
from typing import Final

from rich.console import Console
from rich.highlighter import RegexHighlighter
from rich.theme import Theme


class Answers(RegexHighlighter):
    """Marks what is looked for first: titles, decisions, notes."""

    base_style = "answer."
    highlights: Final = [  # type: ignore[misc]  # ours does not change either
        r"\A(?P<title>.+(?:\n  .+)*)",
        # Whole cells, that is, between two blanks: in a sentence the words are plain.
        r"(?<=  )(?P<pays>on)(?=  |$|\n)",
        r"(?<=  )(?P<loses>off)(?=  |$|\n)",
        r"(?<=  )(?P<unclear>unclear)(?=  |$|\n)",
        r"(?m)^decision: (?:(?P<pays>on)|(?P<loses>off)|(?P<unclear>unclear))\b",
        r"(?m)^(?P<note>(?:note|more): .*(?:\n  .*)*)",
    ]


_THEME: Final = Theme(
    {
        "answer.title": "bold",
        "answer.pays": "bold green",
        "answer.loses": "bold red",
        "answer.unclear": "bold yellow",
        "answer.note": "dim",
    }
)


def show(text: str) -> None:
    """Print text to a terminal, in the colors that it has."""
    console = Console(file=sys.stdout, theme=_THEME, highlighter=Answers())
    console.print(text, markup=False, emoji=False, soft_wrap=True)
