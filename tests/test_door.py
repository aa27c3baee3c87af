"""The Python door: names or objects ask the same question, and answer as the shell does."""

import inspect
import json
import re
from importlib import import_module
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.main import get_command

import specroof
import specroof.cli
from commands import answered, run
from gridded import gridded
from specroof import ForwardPass, OptionError, Placement
from specroof.cli import COMMANDS, GROUPS, app
from specroof.questions import QUESTIONS
from specroof.questions.answer import Answer
from specroof.questions.hardware import show_hardware
from specroof.questions.models import show_model
from tables import rows, table

PUBLIC_NAMES: list[str] = vars(specroof)["__all__"]  # which type checkers do not see
MODEL, CHIP, SPEC = "Qwen/Qwen3-8B", "b200", "eagle3,accept=0.7"


def said(answer: Any) -> Any:
    return json.loads(json.dumps(answer.to_dict(), allow_nan=False))


@pytest.mark.parametrize("name", QUESTIONS)
def test_a_question_is_in_python_and_in_the_shell(name: str) -> None:
    asked = getattr(specroof, name)
    assert name in PUBLIC_NAMES
    assert asked.__module__ == f"specroof.questions.{name}"
    assert run(name, "--help")


def test_completion_shows_the_names_of_the_door_and_none_of_its_own_imports() -> None:
    assert {name for name in dir(specroof) if not name.startswith("_")} == set(PUBLIC_NAMES)


@pytest.mark.parametrize("name", COMMANDS)
def test_help_lists_a_command_by_its_first_sentence(name: str) -> None:
    group: Any = get_command(app)
    _, command, _ = group.resolve_command(None, [name])
    assert " ".join(command.help.partition("\n\n")[0].split()) == COMMANDS[name]


def test_every_command_is_listed() -> None:
    files = {path.stem for path in Path(specroof.cli.__file__).parent.glob("*.py")}
    rows = {
        name
        for name in (*QUESTIONS, *GROUPS)
        if hasattr(import_module(f"specroof.questions.{name}"), "COMMAND")
    }
    assert set(QUESTIONS) < set(COMMANDS) < files | rows


def test_a_room_does_not_replace_the_question_of_its_name() -> None:
    from specroof.scoring.scores import errors_of  # noqa: PLC0415 - this import is the test

    assert callable(errors_of)
    assert inspect.isfunction(specroof.validate)
    assert inspect.ismodule(specroof.plot)
    door: Any = specroof
    assert door.__getattr__("plot") is specroof.plot  # whoever imported it first
    with pytest.raises(AttributeError, match="has no attribute 'plots'"):
        _ = specroof.plots  # type: ignore[attr-defined]


@pytest.mark.parametrize(("words", "named"), rows("calls", "alike"))
def test_the_shell_answers_as_python_does(words: str, named: dict[str, Any]) -> None:
    called = words.replace("QWEN", f"{MODEL} -H {CHIP}").replace("SPEC", SPEC)
    named = {name: SPEC if given == "SPEC" else given for name, given in named.items()}
    question = getattr(specroof, words.partition(" ")[0])
    assert answered(*called.split()) == said(question(MODEL, CHIP, **named))


def test_objects_are_answered_as_their_names() -> None:
    loads: dict[str, Any] = {"batch_size": np.array([1.0, 8.0]), "max_draft_len": 5}
    by_name = specroof.predict(MODEL, CHIP, drafters=[SPEC], **loads | {"batch_size": [1, 8]})
    model, chip = specroof.load_model(MODEL), specroof.load_hardware(CHIP)
    by_object = specroof.predict(
        model, chip, drafters=specroof.load_drafter(SPEC), options=specroof.Options(), **loads
    )
    assert said(by_object) | {"asked": None} == said(by_name) | {"asked": None}
    (row,), (named,) = show_model(model).records, show_model(MODEL).records
    assert row | {"name": MODEL} == named
    (row,), (named,) = show_hardware(chip).records, show_hardware(CHIP).records
    assert row | {"name": CHIP} == named


def test_calibrate_and_validate_answer_as_the_shell_does(tmp_path: Path) -> None:
    bench = tmp_path / "bench.csv"
    lines = ["1,2048,0,200", "8,2048,0,1500", "64,2048,0,8000", "8,2048,3,2500"]
    bench.write_text("\n".join(["batch_size,context_len,draft_len,tokens_per_s", *lines]))
    words = (str(bench), "-H", CHIP, "--model", MODEL, "--engine", "ideal", "--drafter", SPEC)
    given: dict[str, Any] = {"engine": "ideal", "drafter": SPEC}
    fitted = specroof.calibrate(bench, MODEL, CHIP, **given)
    assert said(fitted) == answered("calibrate", *words)
    assert fitted.found is fitted.calibration  # the name of old
    assert fitted.hardware.engine().name == "calibrated"
    checked = specroof.validate([bench], MODEL, CHIP, **given)
    by_object = specroof.validate([bench], specroof.load_model(MODEL), CHIP, **given)
    assert by_object.records == checked.records
    assert said(checked) == answered("validate", *words)


def test_a_study_is_a_mapping_too() -> None:
    content: dict[str, Any] = {
        "format_version": 1,
        "targets": [{"model": MODEL, "hardware": CHIP, "tensor_parallel": 2}],
        "drafters": [SPEC],
        "batch_size": [1, 8],
    }
    found = specroof.sweep(content).to_dict()
    words = ("-H", CHIP, "--drafter", SPEC, "--tp", "2", "--batch", "1,8")
    asked = answered("predict", MODEL, *words)
    of = {"target": 1, "workload": 1}
    for name in ("case", "choice"):
        assert json.loads(json.dumps(found[name]["outcomes"])) == [of | asked[name]]
    for name in ("notes", "warnings"):
        assert found[name] == asked[name]
    for row, expected in zip(found["rows"], asked["rows"], strict=True):
        assert json.loads(json.dumps(row)) == {"target": 1} | expected


def test_curves_and_passes_take_names_and_tensor_parallel() -> None:
    model, chip = specroof.load_model(MODEL), specroof.load_hardware(CHIP)
    forward = ForwardPass(1, 1, 4096)
    one = specroof.forward_latency(MODEL, CHIP, forward, tensor_parallel=2)
    other = specroof.forward_latency(model, chip, forward, placement=Placement(2))
    assert float(one.total_s) == float(other.total_s)
    by_name = specroof.speedup_curve(MODEL, CHIP, drafter=SPEC, tensor_parallel=2)
    by_object = specroof.speedup_curve(
        model, chip, drafter=specroof.load_drafter(SPEC), placement=Placement(2)
    )
    np.testing.assert_array_equal(by_name.speedup, by_object.speedup)
    both: dict[str, Any] = {"tensor_parallel": 2, "placement": Placement(2)}
    with pytest.raises(OptionError, match=r"placement .*tensor_parallel .*allowed: one"):
        specroof.forward_latency(MODEL, CHIP, forward, **both)


ABOUT_SERVERS = (
    *("predict", "explain", "capacity", "breakeven", "worth", "train", "frontier", "rollout"),
)


@pytest.mark.parametrize(
    ("name", "framework"), list(zip(ABOUT_SERVERS, cycle(["vllm", "SGLang"]), strict=False))
)
def test_a_framework_is_its_engine_in_every_question(name: str, framework: str) -> None:
    ask, asked = getattr(specroof, name), table("answers")[name]["asks"]
    same = [
        ask(MODEL, CHIP, **asked, **{word: framework}).to_dict() for word in ("framework", "engine")
    ]
    assert [one.pop("asked")[word] for one, word in zip(same, ("framework", "engine"), strict=True)]
    assert same[0] == same[1]
    assert framework.casefold() in json.dumps(same[0]["case"])


def test_a_framework_agrees_with_an_engine_beside_it() -> None:
    def engine(chip: str = "h100", **how: Any) -> str:
        return str(specroof.explain(MODEL, chip, **how).setup.engine.name)

    assert engine(framework="ollama") == engine(engine="llama.cpp")
    assert engine(framework="vllm", engine="vllm") == "vllm"
    assert engine(framework="vllm", engine="ideal") == "ideal"
    assert engine("mi300x", framework="vllm", engine_from="h100-sxm:vllm") == "h100-sxm:vllm"


def test_what_holds_arrays_is_shown_in_a_line() -> None:
    pass_s = specroof.explain(MODEL, CHIP).latency
    several = specroof.forward_latency(MODEL, CHIP, ForwardPass([1, 8], 1, 0))
    (requests,) = specroof.predict(MODEL, CHIP, drafters=SPEC, input_len=64, output_len=32).counted
    assert "2 points" in repr(several)
    assert max(len(repr(one)) for one in (pass_s, several, requests)) < 200


def test_a_shared_draft_length_caps_the_drafter_that_ends_before_it() -> None:
    measured = "autoregressive,cost=.1,survival=.9/.7/.5"
    words = ("--drafter", measured, "--drafter", "ideal", "--max-draft-len", "7")
    found = answered("predict", MODEL, "-H", CHIP, *words, "--grid")
    assert found["grid"]["coords"]["draft_len"] == list(range(8))
    assert np.isnan(gridded(found, "speedup")[0, 0]).tolist() == 4 * [False] + 4 * [True]
    assert not np.isnan(gridded(found, "speedup", 1)).any()
    assert any("drafts at most 3: " in one for one in found["notes"])
    # Where nobody asks for a length, nothing is said.
    assert "drafts at most" not in " ".join(specroof.predict(MODEL, CHIP, drafters=measured).notes)


def test_the_survey_looks_at_the_draft_lengths_that_were_asked_for() -> None:
    drafter = "autoregressive,cost=.001,accept=.9"
    none = specroof.predict(MODEL, CHIP, drafters=drafter, max_draft_len=0, engine="ideal")
    assert none.survey[0].best_draft_len.max() == 0
    some = specroof.predict(MODEL, CHIP, drafters=drafter, max_draft_len=4, engine="ideal")
    assert set(some.survey[0].draft_len) == set(range(5))
    assert some.survey[0].best_draft_len[0, 0] == 4


def test_a_table_of_facts_shows_values_and_escapes_them() -> None:
    class Toy(Answer):
        notes = ("a < b",)
        warnings = ()
        title = "x & y"

        def to_dict(self) -> dict[str, Any]:
            return {"model": "<m>", "many": [1, 2], "batch": 3}

    assert Toy()._repr_html_() == (
        "<table><caption>x &amp; y</caption><tr><th>model</th><td>&lt;m&gt;</td></tr>"
        "<tr><th>batch</th><td>3</td></tr></table><p>a &lt; b</p>"
    )


@pytest.mark.parametrize(("question", "given", "named", "says"), rows("refusals", "wrong_calls"))
def test_a_wrong_call_names_the_question_and_its_arguments(
    question: str, given: list[Any], named: dict[str, Any], says: str
) -> None:
    with pytest.raises(TypeError, match=rf"^{question}\(\): .*{re.escape(says)}"):
        getattr(specroof, question)(MODEL, *given, **named)
