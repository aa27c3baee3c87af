"""The register of parameters: a sentence is written once, and a question says what differs."""

import ast
from collections import Counter
from importlib import import_module
from pathlib import Path

import pytest

import specroof
from source_trees import nodes
from specroof.questions.parameters import parameters_of
from tables import rows

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


@pytest.mark.parametrize(("question", "name", "panel", "shown"), rows("values", "shown_parameters"))
def test_a_parameter_is_shown_where_and_as_its_question_lists_it(
    question: str, name: str, panel: str | None, shown: str | None
) -> None:
    asked = getattr(import_module(f"specroof.questions.{question}"), question)
    row = parameters_of(asked)[name]
    assert (row.panel, row.shown) == (panel, shown)
