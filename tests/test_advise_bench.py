"""The benchmark of `advise --bench`: what it would show, and what to do with its results."""

import json
import shlex
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from commands import answered, run
from gridded import gridded
from specroof import OptionError, advise, load_drafter
from specroof.cli import app
from tables import rows

LOAD = ("--input-len", 1024, "--output-len", 1024, "--concurrency", 1)
EAGLE = ("--drafter", "eagle3,accept=0.7")


def told(*words: object) -> Any:
    fixed = ["advise", "Qwen/Qwen3-8B", "--draft-model", "org/eagle3", "--choose-draft-len", "3"]
    return CliRunner().invoke(app, [*fixed, *map(str, words), "--bench"])


def to_measure(*words: object) -> Any:
    done = told(*words, "--json")
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout.splitlines()[-1])["choice"]["to_measure"]


def test_what_to_do_with_the_results_repeats_what_was_asked(
    hardware_folder: Path, tmp_path: Path
) -> None:
    chip = tmp_path / "my chips" / "b200.yaml"
    chip.parent.mkdir()
    chip.write_text((hardware_folder / "b200.yaml").read_text(encoding="utf-8"), encoding="utf-8")
    done = told(
        *("-H", chip, *EAGLE, *LOAD, "--tp", 2, "--engine", "vllm"),
        *("--family", "qwen3", "--weights", "fp8", "--kv-cache", "fp8"),
    )
    assert done.exit_code == 0, done.output
    lines = [line for line in done.stdout.splitlines() if line.startswith("specroof ")]
    validate, calibrate = map(shlex.split, lines)
    words = ["bench.jsonl", "-H", str(chip), "--model", "Qwen/Qwen3-8B"]
    words += ["--drafter", "eagle3,accept=0.7", "--draft-len", "3", "--tp", "2"]
    words += ["--family", "qwen3", "--engine", "vllm", "--kv-cache", "fp8", "--weights", "fp8"]
    assert validate == ["specroof", "validate", *words]
    assert calibrate == ["specroof", "calibrate", *words, "-o", "my-b200.yaml"]


def test_it_shows_what_predict_says_of_the_same_requests() -> None:
    words = ["-H", "b200", *EAGLE, "--concurrency", 8, "--input-len", 4000, "--output-len", 200]
    words += ["--weights", "fp8", "--kv-cache", "fp8"]
    found = to_measure(*words)
    grid = answered("predict Qwen/Qwen3-8B", *words, "--max-draft-len 3 --grid")
    rates = gridded(grid, "tokens_per_s")[0, 0, [0, 3]].tolist()
    assert [found["plain_tokens_per_s"], found["tokens_per_s"]] == pytest.approx(rates)
    assert len(found["commands"]) == 6
    assert "--random-input-len 4000 --random-output-len 200" in found["commands"][1]["command"]


@pytest.mark.parametrize(("chip", "words", "server"), rows("values", "bench_commands"))
def test_the_commands_are_those_of_the_server_that_predicts(
    chip: str, words: list[str], server: str
) -> None:
    found = to_measure("-H", chip, *EAGLE, *LOAD, *words)
    assert found["commands"][0]["title"].startswith(server)


def test_look_ups_say_what_they_need() -> None:
    done = told("-H", "b200", "--drafter", "ngram,accept=0.5", *LOAD)
    assert (done.exit_code, done.stderr) == (0, "")
    assert "# note: random prompts" in done.stdout


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--drafter", "eagle3,accept=0.7,tree=3/1/1,siblings=.1/.05"], "allowed: a chain"),
        (["--drafter", "autoregressive,accept=0.7,cost=0.1"], "allowed: mtp, eagle"),
        ([*EAGLE, "--tp", 2, "--dp-attention", 2], "allowed: devices of one node"),
        ([*EAGLE, "--kv-cache", "int8"], "--kv-cache is 'int8'"),
        ([*EAGLE, "--prefill", "1x1", "--decode", "1x1", "--steady"], "no draft can be tried"),
        (["--drafter", "ngram,accept=0.5", "--framework", "llama.cpp"], "sglang or vllm"),
        ([*EAGLE, "--prefix-hit-rate", 0.5], "--prefix-hit-rate is 0.5; allowed: prompts that"),
    ],
)
def test_what_cannot_be_measured_is_refused_when_it_is_asked_for(
    words: list[object], said: str
) -> None:
    done = told("-H", "h100", *LOAD, *words)
    assert (done.exit_code, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert said in line
    assert "--bench" not in run("advise Qwen/Qwen3-8B -H h100", *LOAD, *words)


def test_python_and_the_former_name_print_the_same() -> None:
    words = "Qwen/Qwen3.5-27B -H b200 --drafter mtp,accept=0.8 --draft-len 3"
    printed = run("mock", words)
    answer = advise(
        *("Qwen/Qwen3.5-27B", "b200"), drafters=load_drafter("mtp,accept=0.8"), draft_len=3,
        input_len=1024, output_len=1024, concurrency=1, tensor_parallel=1, bench=True,
    )  # fmt: skip
    assert printed == f"{answer}\n"
    with pytest.raises(OptionError, match=r"^bench is True, and no draft"):
        advise(
            *("Qwen/Qwen3-8B", "b200"), drafters="mtp,rates=.9/.8", draft_len=5,
            input_len=9, output_len=9, concurrency=1, bench=True,
        )  # fmt: skip


@pytest.mark.parametrize(
    ("framework", "flags"),
    [
        ("vllm", ["--gpu-memory-utilization", "0.7", "--max-num-seqs", "24"]),
        ("sglang", ["--mem-fraction-static", "0.7", "--max-running-requests", "24"]),
    ],
)
def test_servers_are_started_with_the_settings_that_were_predicted(
    framework: str, flags: list[str]
) -> None:
    asked = ["-H", "h100", *EAGLE, *LOAD, "--framework", framework]
    found = to_measure(*asked, "--server", "memory=0.7,running=24,prefix-cache=on")
    commands = [shlex.split(one["command"]) for one in found["commands"]]
    servers, reads = [commands[0], commands[2]], commands[-2:]
    for words in servers:
        assert [words[words.index(flag) + 1] for flag in flags[::2]] == flags[1::2]
        assert all(words.count(flag) == 1 for flag in flags[::2])
    for words in reads:
        assert words[words.index("--server") + 1] == "memory=0.7,running=24"
