"""One file a question: a request in, an answer with notes out; no printing, no files.

A row of this table is a question that Python asks as ``specroof.NAME`` and the shell as
``specroof NAME``, by `specroof.cli` in the file of that name.
"""

from specroof.questions.calibrate import calibrate
from specroof.questions.capacity import capacity
from specroof.questions.explain import explain
from specroof.questions.mock import mock
from specroof.questions.predict import predict
from specroof.questions.sweep import sweep
from specroof.questions.validate import validate

__all__ = ["calibrate", "capacity", "explain", "mock", "predict", "sweep", "validate"]
