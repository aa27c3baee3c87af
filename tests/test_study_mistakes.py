"""A study with many mistakes: all of them are told before anything is computed or written."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from commands import Terminal
from specroof import StudyError
from specroof.cli import app
from specroof.errors import CatalogError, OptionError
from specroof.questions import study as studies
from specroof.questions.predict import predicted
from specroof.questions.study import Study, parse_study, study_refusals
from specroof.serving.workload import Load
from tables import rows
from tiny_configs import changed

GOOD: dict[str, Any] = rows("values", "small_studies")["mistakes"]


def mistakes(content: dict[str, Any]) -> tuple[str, ...]:
    with pytest.raises(StudyError) as caught:
        parse_study(json.dumps(content), "s.yaml")
    said = str(caught.value)
    found = caught.value.mistakes
    assert "\n" not in said
    assert said.startswith(f"s.yaml: {len(found)} mistakes (")
    assert said.endswith(f"; the first: {found[0]}")
    assert len(set(found)) == len(found) > 1
    return found


def told(found: tuple[str, ...], *wanted: str) -> None:
    """Check that each wanted beginning is that of one mistake, and that there are no others."""
    for one in wanted:
        assert sum(mistake.startswith(one) for mistake in found) == 1, (one, found)
    assert len(found) == len(wanted), found


@pytest.mark.parametrize("kind", rows("refusals", "study_mistakes"))
def test_mistakes_are_told_together(kind: str) -> None:
    other, wanted = rows("refusals", "study_mistakes")[kind]
    told(mistakes(changed(GOOD, other)), *wanted)


N = 1_000


@pytest.mark.slow
@pytest.mark.long
def test_thousands_of_bad_values_are_each_told_and_then_how_many(tmp_path: Path) -> None:
    content = GOOD | {
        "targets": [{"model": "Qwen/Qwen3-8B", "hardware": [f"b{n}00x" for n in range(N)]}],
        "batch_size": [-1 - n for n in range(N)],
        "context_len": [f"{n}k" for n in range(N)],
        "drafters": [f"eagle3,accept={n + 2}" for n in range(N)],
    }
    bad = tmp_path / "study.yaml"
    bad.write_text(json.dumps(content))
    out = tmp_path / "out"
    done = CliRunner().invoke(app, ["sweep", str(bad), "-o", str(out)])
    assert (done.exit_code, done.stdout) == (2, "")
    *lines, last = done.stderr.splitlines()
    assert [line.partition(" ")[0] for line in lines] == [
        *(f"batch_size.{n}" for n in range(N)),
        *(f"context_len.{n}" for n in range(N)),
        *(f"targets.0.hardware.{n}:" for n in range(N)),
        *(f"drafters.{n}:" for n in range(N)),
    ]
    assert lines[7] == "batch_size.7 is -8; allowed: a number from 1 to 10000000"
    counts = f"{N} in batch_size, {N} in context_len, {N} in targets.hardware, {N} in drafters"
    assert last.startswith(f"specroof: {bad}: {4 * N} mistakes ({counts}); the first: {lines[0]}")
    assert not out.exists()


def test_a_person_is_shown_a_screen_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for n, rest in ((30, []), (31, ["and 1 more; 2> FILE keeps all of them"])):
        path = tmp_path / "study.yaml"
        path.write_text(json.dumps(GOOD | {"batch_size": [-1 - one for one in range(n)]}))
        terminal = Terminal()
        monkeypatch.setattr(sys, "stderr", terminal)
        with pytest.raises(SystemExit) as ended:
            app(["sweep", str(path)])
        assert ended.value.code == 2
        *lines, last = terminal.getvalue().splitlines()
        assert [line.partition(" ")[0] for line in lines[:30]] == [
            f"batch_size.{one}" for one in range(30)
        ]
        assert lines[30:] == rest
        assert last.startswith(f"specroof: {path}: {n} mistakes ({n} in batch_size)")


def test_a_name_is_looked_up_once_wherever_it_stands(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def load(name: str) -> Any:
        asked.append(name)
        raise CatalogError(f"no {name}")

    monkeypatch.setattr(studies, "load_hardware", load)
    chips = ["b1", "b2", "b1"]
    found = mistakes(GOOD | {"targets": [{"model": "Qwen/Qwen3-8B", "hardware": chips}] * 2})
    assert asked == ["b1", "b2"]
    told(
        found,
        *(
            f"targets.{target}.hardware.{entry}: no {chip}"
            for target in (0, 1)
            for entry, chip in enumerate(chips)
        ),
    )


def test_the_hub_is_asked_for_twenty_names_that_it_does_not_have(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[str] = []

    def fetch(repository: str, _file_name: str) -> None:
        asked.append(repository)
        raise CatalogError(f"{repository}: no such repository")

    monkeypatch.setattr(studies, "fetch_from_hub", fetch)
    models = [f"nobody/model-{n}" for n in range(18)]
    drafters = [f"eagle3,accept=0.7,config=nobody/drafter-{n}" for n in range(5)]
    found = mistakes(
        GOOD | {"targets": [{"model": models, "hardware": "b200"}], "drafters": drafters}
    )
    assert asked == [*models, "nobody/drafter-0", "nobody/drafter-1"]
    assert len(found) == 23
    assert all("no such repository" in one for one in found[:20])
    for n, one in enumerate(found[20:], start=2):
        assert one.startswith(f"drafters.{n}: ")
        assert f"nobody/drafter-{n}: not looked up, after 20 names" in one


def test_a_model_of_a_family_that_there_is_not_is_not_read(tmp_path: Path) -> None:
    # Neither by its own family, which may be unknown, nor by one of another kind of value.
    (tmp_path / "config.json").write_text('{"model_type": "strange"}')
    served = {"model": str(tmp_path), "hardware": "b200"}
    targets = [served | {"family": "unheard"}, served | {"family": 3}, served | {"family": " "}]
    told(mistakes(GOOD | {"targets": targets}), *(f"targets.{n}.family is" for n in range(3)))


def test_a_study_says_all_that_keeps_it_from_being_computed() -> None:
    good = parse_study(json.dumps(GOOD), "s.yaml")
    assert list(study_refusals(good)) == []
    endless = Study(good.targets, good.drafters, (Load((-1.0,), (5.0,)), Load((1.0,), (-5.0,))))
    # Three targets x two drafters and the first load, and then each load.
    said = [str(one) for one in study_refusals(endless)]
    assert len(said) == 6 + 2
    assert all(one.startswith("batch_size is -1.0") for one in said[:7])
    assert said[7].startswith("context_len is -5.0")
    (deep,) = study_refusals(Study(good.targets, good.drafters, good.loads, max_draft_len=5000))
    assert str(deep).startswith("max_draft_len is 5000")


def test_a_target_that_is_given_a_thousand_times_is_priced_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Each was set up and priced before it was refused: 7.5 s.
    priced = []

    def counted(*words: Any, **more: Any) -> Any:
        priced.append(words)
        return predicted(*words, **more)

    monkeypatch.setattr(studies, "predicted", counted)
    content = GOOD | {"targets": [{"model": "Qwen/Qwen3-8B", "hardware": ["b200"] * 1000}]}
    with pytest.raises(OptionError, match=r"^s.yaml: targets: 'Qwen/Qwen3-8B on 1 .*once"):
        parse_study(json.dumps(content), "s.yaml")
    assert len(priced) == len(GOOD["drafters"]) + 1  # the target with each, and the grid of loads
