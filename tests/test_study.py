"""Study files: what they load, and the one line that a bad one is answered with."""

import json
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

import specroof
from specroof import Options, Placement, errors, load_drafter, load_hardware, load_model
from specroof.cost import CHOICES
from specroof.errors import ConfigError, OptionError, SpecroofError
from specroof.hardware.engine import ServerSettings
from specroof.latency.setup import engine_setup
from specroof.parsers import PARSERS
from specroof.questions.study import Study, load_study, study_schema
from specroof.questions.sweep import sweep
from specroof.serving.capacity import in_server
from specroof.serving.workload import Load, Workload
from tables import refusal as of_call
from tables import rows

BUNDLED = sorted((Path(specroof.__file__).parent / "studies").glob("*.yaml"))

GOOD: str = rows("values", "good_study")

Write = Callable[[str], str]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def written(text: str) -> str:
        path = tmp_path / "study.yaml"
        path.write_text(text, encoding="utf-8")
        return str(path)

    return written


def changed(old: str, new: str) -> str:
    assert GOOD.count(old) == 1, f"{old!r} does not stand exactly once in the good study"
    return GOOD.replace(old, new)


def test_every_model_meets_every_kind_of_hardware_of_its_target(write: Write) -> None:
    study = load_study(write(GOOD))
    two = Placement(tensor_parallel=2, nodes=1)
    assert [(one.model, one.setup.hardware, one.setup.placement) for one in study.targets] == [
        (load_model("Qwen/Qwen3-8B"), load_hardware("b200"), two),
        (load_model("Qwen/Qwen3-8B"), load_hardware("h200"), two),
        (load_model("Qwen/Qwen3-30B-A3B"), load_hardware("b200"), two),
        (load_model("Qwen/Qwen3-30B-A3B"), load_hardware("h200"), two),
        (load_model("Qwen/Qwen3-8B"), load_hardware("l4"), Placement(nodes=1)),
    ]
    assert [drafter.name for drafter in study.drafters] == [
        load_drafter("ideal").name,
        "autoregressive,accept=0.75,cost=0.10",
    ]
    assert study.loads == (Load((1.0, 8.0), (2048.0,)),)
    assert study.max_draft_len == 4
    options = Options(granularity="pass", kv_dtype="fp8")
    assert {(one.setup.engine.name, one.setup.options) for one in study.targets} == {
        ("ideal", options)
    }


def test_what_a_study_leaves_out_is_what_a_prediction_leaves_out(write: Write) -> None:
    least = GOOD[: GOOD.index("batch_size")]
    study = load_study(write(least))
    assert study.loads == (Load((1.0,), (4096.0,)),)
    assert study.max_draft_len is None
    bare = engine_setup(load_hardware("b200"), None, Placement(2), None)
    expected = in_server(load_model("Qwen/Qwen3-8B"), bare, ServerSettings())
    assert study.targets[0].setup == expected
    assert study.capacity is None


def test_a_study_tells_its_servers(write: Write) -> None:
    off, plain = (ServerSettings(running=3, overlap=way) for way in (False, "plain"))
    for told, settings in (
        ("{running: 3, overlap: off}", off),
        ("running=3,overlap=off", off),
        ("{running: 3, overlap: plain}", plain),
        ("running=3,overlap=plain", plain),
    ):
        study = load_study(write(f"{GOOD}server: {told}\ncapacity: false\n"))
        assert study.capacity is False
        for target in study.targets:
            assert target.setup.server is not None
            assert target.setup.server.stated == settings


@pytest.mark.parametrize("path", BUNDLED, ids=lambda path: path.stem)
def test_a_bundled_study_is_found_by_name_and_fits_the_schema(path: Path) -> None:
    assert isinstance(load_study(path.stem), Study)
    jsonschema.validate(yaml.safe_load(path.read_text(encoding="utf-8")), study_schema())


def test_a_config_of_an_unknown_type_is_read_as_the_family_of_its_target(
    tmp_path: Path, write: Write, model_configs_folder: Path
) -> None:
    bundled = model_configs_folder / "Qwen--Qwen3-8B.json"
    config = json.loads(bundled.read_text(encoding="utf-8"))
    config |= {"model_type": "unheard", "hidden_act": "silu"}
    mine = tmp_path / "mine.json"
    mine.write_text(json.dumps(config))
    text = changed("  - model: Qwen/Qwen3-8B\n", f"  - model: {mine}\n    family: qwen3\n")
    known, *_, model = (target.model for target in load_study(write(text)).targets)
    assert model.name == f"{mine} (as qwen3)"
    assert model.layers == known.layers  # the other target has the same model under its own type
    without = write(changed("  - model: Qwen/Qwen3-8B\n", f"  - model: {mine}\n"))
    assert 'model_type is "unheard"' in refusal(without, ConfigError)


WORKLOADS = "workload: [{input_len: 4000, output_len: 1000}, {input_len: 64, output_len: 32}]"


def test_a_workload_is_decoded_at_its_mean_context(write: Write) -> None:
    study = load_study(write(changed("context_len: 2048", WORKLOADS)))
    assert study.loads == (
        Load([1.0, 8.0], [4500.0], Workload(4000, 1000)),
        Load([1.0, 8.0], [80.0], Workload(64, 32)),
    )
    told = "workload: {input_len: 64, output_len: 32, prefix_hit_rate: 0.5}\nserver: {prefix-cache: true}"
    (cached,) = load_study(write(changed("context_len: 2048", told))).loads
    assert cached.workload == Workload(64, 32, 0.5)
    one = write(changed("context_len: 2048", "workload: {input_len: 64, output_len: 32}"))
    assert load_study(one).loads == study.loads[1:]


def test_every_target_meets_every_workload(write: Write) -> None:
    text = changed("context_len: 2048", WORKLOADS)
    outcomes = sweep(write(text)).outcomes
    assert [(one.target, one.workload) for one in outcomes] == [
        (target, workload) for target in range(1, 6) for workload in (1, 2)
    ]


def test_the_schema_takes_a_workload_or_a_context_and_refuses_what_is_refused() -> None:
    content: dict[str, Any] = yaml.safe_load(changed("context_len: 2048", WORKLOADS))
    jsonschema.validate(content, study_schema())
    jsonschema.validate(content | {"workload": content["workload"][0]}, study_schema())
    for wrong in rows("values", "unfit_for_the_schema"):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(content | wrong, study_schema())


def test_the_schema_lists_every_choice() -> None:
    schema = study_schema()
    families = schema["$defs"]["_TargetBlock"]["properties"]["family"]["anyOf"]
    assert [one.get("enum", one) for one in families] == [sorted(PARSERS), {"type": "null"}]
    choices = schema["properties"]["options"]["properties"]
    assert set(choices) == {field.name for field in fields(Options)}
    for name, allowed in CHOICES.items():
        assert [value for value in choices[name]["enum"] if value is not None] == list(allowed)


@pytest.mark.parametrize("field", fields(Options), ids=lambda field: field.name)
def test_the_schema_takes_every_default(field: Any, write: Write) -> None:
    options = {field.name: field.default}
    content = yaml.safe_load(GOOD) | {"options": options}
    jsonschema.validate(content, study_schema())
    assert load_study(write(yaml.safe_dump(content))).targets[0].setup.options == Options()


def refusal(path: str, error: type[SpecroofError] = OptionError) -> str:
    message = of_call(error, load_study, path)
    assert message.startswith(path)
    return message.removeprefix(f"{path}: ")


@pytest.mark.parametrize(
    ("old", "new", "message", "error"),
    [(*row, "OptionError") for row in rows("refusals", "studies")]
    + rows("refusals", "loaded_studies"),
)
def test_a_bad_study_is_refused_with_key_value_and_what_is_allowed(
    write: Write, old: str, new: str, message: str, error: str
) -> None:
    assert message in refusal(write(changed(old, new)), getattr(errors, error))


@pytest.mark.parametrize(("workload", "message"), rows("refusals", "study_workloads"))
def test_a_bad_workload_is_refused(write: Write, workload: str, message: str) -> None:
    path = write(changed("context_len: 2048", f"workload: {workload}"))
    assert refusal(path).startswith(message)


def test_a_study_of_any_size_is_taken_but_not_held_at_once(write: Write) -> None:
    text = changed("[1, 8]", str([1] * 1000)).replace("2048", str([1] * 500))
    study = load_study(write(text))
    # 5 targets x 2 drafters x draft lengths 0 to 4 x 1000 batch sizes x 500 contexts
    assert study.n_points == 25_000_000
    with pytest.raises(OptionError, match=r"25000000 points; allowed.* 10000000"):
        _ = sweep(study).outcomes
    # Slices hold at most 2**18 points: 52 contexts of 1000 batch sizes and 5 draft lengths.
    first = next(iter(sweep(study).slices())).prediction.curves[0]
    assert first.speedup.shape == (52, 1000, 5)
