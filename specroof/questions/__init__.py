"""One file a question: a request in, an answer with notes out; no printing, no files.

`QUESTIONS` is the table of questions that Python asks as ``specroof.NAME`` and the shell as
``specroof NAME``: the one is answered in `specroof.questions.NAME`, the other reads flags in
`specroof.cli.NAME`.
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
