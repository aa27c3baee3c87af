"""One file a question: a request in, an answer with notes out; no printing, no files.

`QUESTIONS` is the table of questions that Python asks as ``specroof.NAME`` and the shell as
``specroof NAME``: the one is answered in `specroof.questions.NAME`, the other reads flags in
`specroof.cli.NAME`.
"""

from typing import Final

from specroof.questions.breakeven import breakeven
from specroof.questions.calibrate import calibrate
from specroof.questions.capacity import capacity
from specroof.questions.doctor import doctor
from specroof.questions.explain import explain
from specroof.questions.mock import mock
from specroof.questions.predict import predict
from specroof.questions.sweep import sweep
from specroof.questions.validate import validate

__all__ = [
    "QUESTIONS",
    "breakeven",
    "calibrate",
    "capacity",
    "doctor",
    "explain",
    "mock",
    "predict",
    "sweep",
    "validate",
]

#: In the order in which help lists them.
QUESTIONS: Final = (
    "predict",
    "sweep",
    "explain",
    "capacity",
    "breakeven",
    "doctor",
    "validate",
    "calibrate",
    "mock",
)
