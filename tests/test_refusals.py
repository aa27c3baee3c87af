"""Refusals in the words of the command line: the flag, its value and what is allowed."""

from pathlib import Path
from pkgutil import resolve_name
from typing import Any

import pytest

import specroof
from commands import invoked, refused, run
from effort import cpu_bound
from specroof import OptionError, StudyError, errors
from tables import reads, refusal, rows, table
from tiny_configs import changed

MODEL = "Qwen/Qwen3-8B"
ONCE = "allowed: once"
CALLS = [
    (f"{begin} {words}", says)
    for begin, calls in table("refused_commands").items()
    for words, says in calls
]
BATCH = f"acceptance simulate batch {MODEL} -H h100 --drafter ideal"
#: A number beyond floats.
CALLS.append((f"{BATCH} --draft-len {'9' * 310}", "--draft-len is 9999…"))


@pytest.mark.parametrize(("words", "says"), CALLS, ids=lambda text: text[-40:])
def test_a_command_is_refused_in_its_own_words(
    words: str, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with cpu_bound(60):
        line = refused(words)
    assert reads(line, says), line
    assert list(tmp_path.iterdir()) == []  # nothing is written before


def test_a_day_of_single_tokens_is_refused(tmp_path: Path) -> None:
    day = tmp_path / "day.yaml"
    hours = "".join(f"  - {{hour: {hour}, concurrency: 8}}\n" for hour in range(24))
    day.write_text(f"hours:\n{hours}mix:\n  - {{input_len: 64, output_len: 1, weight: 1}}\n")
    words = f"advise {MODEL} -H b200 --concurrency 8 --drafter eagle3,accept=0.7"
    assert "output-len is 1.0" in refused(words, "--traffic", day)
    simulated = refused(words, "--isl 9 --osl 9 --requests 5x --traffic", day)
    assert simulated.endswith("allowed: where no requests are simulated")


def test_chips_of_one_name_with_other_figures_are_compared(
    hardware_folder: Path, tmp_path: Path
) -> None:
    # A calibrated file keeps the name of its chip.
    text = (hardware_folder / "l4.yaml").read_text(encoding="utf-8")
    mine = tmp_path / "mine.yaml"
    mine.write_text(text.replace("300.0e+9", "310.0e+9"), encoding="utf-8")
    words = f"predict {MODEL} --drafter ideal -H l4,{mine}"
    assert invoked(words).exit_code == 0
    mine.write_text(text, encoding="utf-8")
    assert refused(words) == f"--hardware: '{mine}' is 'l4' by another name; {ONCE}"


def test_objects_are_given_once_too_and_have_their_family() -> None:
    chip, drafter = specroof.load_hardware("h100"), specroof.load_drafter("ngram,accept=.5")
    with pytest.raises(OptionError, match=r"^drafters: 'ngram,accept=\.5' .*once"):
        specroof.predict(MODEL, chip, drafters=[drafter, drafter])
    with pytest.raises(OptionError, match=r"^hardware: 'NVIDIA H100 SXM 80GB' .*'h100'"):
        specroof.explore(MODEL, ["h100", chip])
    with pytest.raises(OptionError, match=r"^family is 'llama' "):
        specroof.explain(specroof.load_model(MODEL), chip, family="llama")
    explain: Any = specroof.explain
    options = specroof.Options(granularity="pass")
    with pytest.raises(
        OptionError, match=r"^granularity is 'op'; allowed: left out, since options"
    ):
        explain(MODEL, chip, options=options, granularity="op")
    both = explain(MODEL, chip, options=options, kv_dtype="fp8").setup.options
    assert (both.granularity, both.kv_dtype) == ("pass", "fp8")


def test_a_study_names_targets_and_drafters_once() -> None:
    one, two = ({"model": MODEL, "hardware": chips} for chips in (["h100-sxm"], ["h100", "b200"]))
    study = {"format_version": 1, "drafters": ["ideal"], "batch_size": [1], "context_len": [128]}
    drafters = ["ngram,accept=.5", "ideal", "ngram,accept=.5"]
    with pytest.raises(StudyError) as caught:
        specroof.sweep(study | {"targets": [two, one], "drafters": drafters})
    assert list(caught.value.mistakes) == [
        f"targets: '{MODEL} on 1 x NVIDIA H100 SXM 80GB' is given twice; {ONCE}",
        f"drafters: 'ngram,accept=.5' is given twice; {ONCE}",
    ]
    # On other numbers of devices a chip is another target, of one list of chips too.
    spread = study | {"targets": [one, one | {"tensor_parallel": 2}]}
    assert len(specroof.sweep(spread).study.targets) == 2
    endless: list[Any] = []
    endless.append(endless)
    with pytest.raises(OptionError, match="holds itself; allowed: "):
        specroof.sweep(study | {"targets": endless})


@pytest.mark.parametrize(("command", "load", "most", "beyond"), rows("values", "batches_that_wait"))
def test_batches_that_a_server_does_not_run_are_said(
    command: str, load: str, most: int, beyond: str
) -> None:
    words = f"{command} {MODEL} -H h100 --drafter eagle3,accept=.7 --notes"
    said = f"{most} with 16 drafts of eagle3,accept=.7 (running); {beyond}"
    assert said in run(f"{words} {load} {most + 1}")
    assert said not in run(f"{words} {load} {most}")
    # The memory of the ideal engine has no end.
    assert beyond not in run(f"{words} --batch {most + 1} --engine ideal")


#: Calls by the first word of a part, with their error and what is asked.
ASKED = [
    (
        name.split()[0],
        part.get("error", "OptionError"),
        changed(part.get("asked", {}), changes),
        says,
    )
    for file in ("refused_questions", "refused_calls")
    for name, part in table(file).items()
    for changes, says in part["refused"]
]
PLAYED = table("refused_questions")["predict a load"]["asked"] | {"concurrency": 2}
ASKED += [
    ("predict", "OptionError", PLAYED | {"requests": digits}, "requests is '999…")
    for digits in ("9" * 400 + "x", "9" * 5000)
]


@pytest.mark.parametrize(("name", "error", "asked", "says"), ASKED, ids=lambda one: str(one)[-40:])
def test_a_call_is_refused_in_words_of_python(
    name: str, error: str, asked: dict[str, Any], says: str
) -> None:
    room, _, function = name.rpartition(":")
    call = resolve_name(f"specroof{room and '.'}{room}:{function}")
    line = refusal(getattr(errors, error), call, **asked)
    assert reads(line, says), line
    if function == "load_drafter" and not says.startswith("profile "):
        assert line.startswith(f"drafter {asked['spec']!r}")
