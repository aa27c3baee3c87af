"""What ``--json`` prints is what the published schemas say."""

import json
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from commands import invoked, run
from schemas import answers, mistake, published, schema_of, union, written
from specroof.cli import GROUPS
from specroof.cli.mcp import questions
from specroof.cli.schema import SCHEMAS, load_schema
from specroof.questions import QUESTIONS
from tables import rows


def test_every_command_that_prints_json_has_a_schema() -> None:
    named = {name.replace("_", "-") for name in questions(can_read=True)}
    assert named | {"acceptance-list", "measure"} == set(SCHEMAS)
    assert {name.partition("-")[0] for name in SCHEMAS} == {*QUESTIONS, *GROUPS} - {
        *("sweep", "explore")
    }


@pytest.mark.parametrize("name", SCHEMAS)
def test_a_schema_is_one_and_names_its_version(name: str) -> None:
    schema = load_schema(name)
    Draft202012Validator.check_schema(schema)
    assert schema["$id"] == f"urn:specroof:{name}:3"


@pytest.mark.slow
def test_other_answers_fit_the_schemas() -> None:
    calls = rows("calls", "others")
    found = [
        mistake(call.split(), one) for call, (_, one) in zip(calls, answers(calls), strict=True)
    ]
    assert found == [None] * len(calls)


@pytest.mark.slow
def test_an_answer_without_a_key_or_with_another_kind_is_found() -> None:
    ((_, answer),) = answers(["predict Qwen/Qwen3-8B -H h100 --drafter ideal"])
    (row,) = answer["rows"]
    for wrong in (
        {key: value for key, value in answer.items() if key != "case"},
        answer | {"rows": row},
        answer | {"rows": [row | {"speedup": [1.0]}]},
        answer | {"rows": [{key: value for key, value in row.items() if key != "speedup"}]},
    ):
        assert mistake(["predict"], wrong) is not None
    assert mistake(["predict"], answer | {"added_later": 1}) is None


def test_schemas_unite_fields_and_tell_things_by_their_names() -> None:
    one: dict[str, Any] = {"step_s": 1.0, "by": {"eagle-3": {"z": 1}}, "rows": [], "of": None}
    other = {"step_s": None, "by": {"mtp": {"z": 2}}, "rows": [{"a": "x"}], "of": [True]}
    assert written(union(map(schema_of, (one, other)))) == rows("values", "united_schema")
    two = [{"version": 3, "a": 1}, {"version": 3, "b": 1}]
    assert published("models", two)["required"] == ["version"]


@pytest.mark.parametrize(("words", "name"), rows("values", "printed_schemas"))
def test_a_command_prints_its_own_schema(words: str, name: str) -> None:
    assert json.loads(run(words)) == load_schema(name)


def test_schemas_are_listed() -> None:
    assert run("schema").split() == [*SCHEMAS]
    unknown = invoked("schema nowhere")
    assert (unknown.exit_code, unknown.stdout) == (2, "")
    assert "models-show" in unknown.stderr
