"""The register of parameters: a sentence is written once, and a question says what differs."""

import ast
from collections import Counter
from importlib import import_module
from pathlib import Path

import pytest

import specroof
from source_trees import nodes
from specroof.questions.parameters import parameters_of

QUESTIONS = sorted((Path(specroof.__file__).parent / "questions").glob("*.py"))


def test_no_sentence_of_a_parameter_is_written_twice() -> None:
    told = Counter(
        ast.unparse(call.args[0])
        for file in QUESTIONS
        for call in nodes(file)
        if isinstance(call, ast.Call) and ast.unparse(call.func).removeprefix("p.") == "Parameter"
    )
    assert len(told) > 90
    assert [sentence for sentence, count in told.items() if count > 1] == []


@pytest.mark.parametrize(
    ("question", "name", "panel", "shown"),
    [
        ("predict", "seed", "Requests", None),  # of the group that lists it, as its default says
        ("rollout", "seed", None, None),
        ("predict", "family", "Placement and server", None),
        ("measure", "family", None, None),
        ("calibrate", "server", "How the results came about", "the framework's defaults"),
        ("measure", "engine_name", None, "measured"),  # which the shell does not hand on
        ("predict", "context_len", None, "4096"),
        ("capacity", "context_len", None, None),
        ("explain", "context_len", None, "4096; 0 with --prefill"),
    ],
)
def test_a_parameter_is_shown_where_and_as_its_question_lists_it(
    question: str, name: str, panel: str | None, shown: str | None
) -> None:
    asked = getattr(import_module(f"specroof.questions.{question}"), question)
    row = parameters_of(asked)[name]
    assert (row.panel, row.shown) == (panel, shown)
