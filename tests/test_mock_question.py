"""The question about a mock: what its benchmark would show, and what to do with the results."""

import json
import shlex
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from gridded import gridded
from specroof import load_drafter, mock
from specroof.cli import app


def told(*words: object) -> Any:
    fixed = ["mock", "Qwen/Qwen3-8B", "--draft-model", "org/eagle3", "--draft-len", "3"]
    return CliRunner().invoke(app, [*fixed, *map(str, words)])


def hints(output: str) -> list[list[str]]:
    """Return the words of the commands that are proposed at the end."""
    lines = [line.partition("specroof ")[2] for line in output.splitlines() if "specroof " in line]
    return [shlex.split(line) for line in lines]


def test_what_to_do_with_the_results_repeats_what_was_asked(
    hardware_folder: Path, tmp_path: Path
) -> None:
    chip = tmp_path / "my chips" / "b200.yaml"
    chip.parent.mkdir()
    chip.write_text((hardware_folder / "b200.yaml").read_text(encoding="utf-8"), encoding="utf-8")
    done = told(
        *("-H", chip, "--drafter", "eagle3,accept=0.7", "--tp", 2, "--engine", "vllm"),
        *("--family", "qwen3", "--weights", "fp8", "--kv-cache", "fp8"),
    )
    assert done.exit_code == 0, done.output
    validate, calibrate = hints(done.stdout)
    words = ["bench.jsonl", "-H", str(chip), "--model", "Qwen/Qwen3-8B"]
    words += ["--drafter", "eagle3,accept=0.7", "--draft-len", "3", "--tp", "2"]
    words += ["--family", "qwen3", "--engine", "vllm", "--kv-cache", "fp8", "--weights", "fp8"]
    assert validate == ["validate", *words]
    assert calibrate == ["calibrate", *words, "-o", "my-b200.yaml"]


def test_prefills_are_counted_as_the_benchmark_counts_them() -> None:
    words = ["-H", "b200", "--drafter", "eagle3,accept=0.7", "--concurrency", "8"]
    words += ["--input-len", "4000", "--output-len", "200"]
    found = json.loads(told(*words, "--json").stdout.splitlines()[-1])["predicted"]
    counted = found["end_to_end"]
    rates = [counted["baseline_tokens_per_s"], counted["tokens_per_s"]]
    assert counted["speedup"] == pytest.approx(rates[1] / rates[0])
    assert 1 < counted["speedup"] < found["speedup"]
    done = CliRunner().invoke(app, ["predict", "Qwen/Qwen3-8B", *words, "--steady", "--grid"])
    predicted = json.loads(done.stdout.splitlines()[-1])
    assert rates == pytest.approx(gridded(predicted, "tokens_per_s")[0, 0, [0, 3]].tolist())


@pytest.mark.parametrize(
    ("chip", "words", "engine"),
    [
        ("b200", ["--framework", "vllm"], "vllm"),
        ("b300", [], "sglang"),  # whose default is vllm
        ("b300", ["--framework", "vllm", "--engine", "sglang"], "sglang"),
        ("b200", ["--engine", "ideal"], "ideal"),
    ],
)
def test_the_framework_whose_commands_are_printed_is_predicted(
    chip: str, words: list[str], engine: str
) -> None:
    fixed = ["-H", chip, "--drafter", "eagle3,accept=0.7"]
    found = json.loads(told(*fixed, *words, "--json").stdout.splitlines()[-1])
    assert (found["predicted"]["engine"], found["notes"]) == (engine, [])
    grid = ["--engine", engine, "--max-draft-len", "3", "--context", "1536", "--grid"]
    asked = CliRunner().invoke(app, ["predict", "Qwen/Qwen3-8B", *fixed, *grid])
    predicted = json.loads(asked.stdout.splitlines()[-1])
    assert found["predicted"]["speedup"] == pytest.approx(gridded(predicted, "speedup")[0, 0, 3])


def test_a_chip_without_the_framework_says_so(hardware_folder: Path, tmp_path: Path) -> None:
    text = (hardware_folder / "b200.yaml").read_text(encoding="utf-8")
    chip = tmp_path / "b200.yaml"
    chip.write_text(
        text.replace("engines.vllm:", "engines.other:").replace("\n  vllm:", "\n  other:")
    )
    done = told("-H", chip, "--drafter", "eagle3,accept=0.7", "--framework", "vllm")
    note = "# note: NVIDIA B200 SXM has no engine vllm: engine sglang predicts instead"
    assert note in done.stdout.splitlines()
    assert "note:" not in told("-H", chip, "--drafter", "eagle3,accept=0.7").stdout


def test_formats_that_are_asked_for_are_predicted() -> None:
    words = ["-H", "b200", "--drafter", "eagle3,accept=0.7", "--json"]
    wide, thin = (
        json.loads(told(*words, *more).stdout.splitlines()[-1])["predicted"]["end_to_end"]
        for more in ([], ["--weights", "fp8", "--kv-cache", "fp8"])
    )
    # Half of the bytes that a step reads; overheads stay.
    assert 1 < thin["baseline_tokens_per_s"] / wide["baseline_tokens_per_s"] < 2
    grid = ["--input-len", "1024", "--output-len", "1024", "--weights", "fp8", "--kv-cache", "fp8"]
    asked = CliRunner().invoke(app, ["predict", "Qwen/Qwen3-8B", *words, *grid, "--grid"])
    predicted = json.loads(asked.stdout.splitlines()[-1])
    rates = gridded(predicted, "tokens_per_s")[0, 0, [0, 3]].tolist()
    assert [thin["baseline_tokens_per_s"], thin["tokens_per_s"]] == pytest.approx(rates)


def test_look_ups_say_what_they_need() -> None:
    done = told("-H", "b200", "--drafter", "ngram,accept=0.5")
    assert (done.exit_code, done.stderr) == (0, "")
    assert "# note: random prompts" in done.stdout


def test_trees_cannot_be_forced() -> None:
    done = told("-H", "b200", "--drafter", "eagle3,accept=0.7,tree=3/1/1,siblings=.1/.05")
    assert done.exit_code == 2
    (line,) = done.stderr.splitlines()
    assert "3 drafts; allowed: a chain" in line


def test_printing_a_mock_shows_what_the_command_prints() -> None:
    words = "mock Qwen/Qwen3.5-27B -H b200 --drafter mtp,accept=0.8 --draft-len 3"
    done = CliRunner().invoke(app, words.split())
    drafter = load_drafter("mtp,accept=0.8")
    answer = mock("Qwen/Qwen3.5-27B", "b200", drafter=drafter, draft_len=3)
    assert done.stdout == f"{answer}\n"
    assert answer.counted is answer.end_to_end  # a name of old
