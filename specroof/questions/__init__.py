"""One file a question: a request in, an answer with notes out; no printing, no files.

`QUESTIONS` is the table of questions that Python asks as ``specroof.NAME`` and the shell as
``specroof NAME``. Both are in `specroof.questions.NAME`: the function, and `COMMAND`, the row that
`specroof.cli` turns into a command.
"""

from typing import Final

__all__ = ["QUESTIONS"]

#: In the order in which help lists them.
QUESTIONS: Final = (
    "predict",
    "advise",
    "sweep",
    "explain",
    "capacity",
    "breakeven",
    "doctor",
    "explore",
    "frontier",
    "worth",
    "adaptive",
    "validate",
    "calibrate",
    "mock",
)
