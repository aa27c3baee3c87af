"""The commands that measure a predicted point: flags of named releases, counts of drafts."""

import json
import shlex
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from specroof import OptionError, load_drafter, mock
from specroof.cli import app
from specroof.serving.benchmark_commands import MockPoint, mock_commands
from specroof.serving.launch import Speculation

POINT: dict[str, Any] = {
    "model": "Qwen/Qwen3-8B",
    "tokens_per_round": 3.25,
    "batch_size": 8,
    "input_len": 1000,
    "output_len": 200,
    "tensor_parallel": 2,
}


def point(
    kind: str = "eagle3",
    draft_model: str | None = "org/eagle 3",
    draft_len: int = 5,
    block: int | None = None,
    **more: Any,
) -> MockPoint:
    plan = Speculation(
        kind=kind, schedule=((1, 8, draft_len),), draft_model=draft_model, block=block
    )
    return MockPoint(speculation=plan, **{**POINT, **more})


def flags(command: str) -> dict[str, str]:
    """Return the words behind each flag of a command."""
    words = shlex.split(command)
    pairs = zip(words, [*words[1:], "--"], strict=True)
    return {
        word: "" if after.startswith("--") else after for word, after in pairs if word[0] == "-"
    }


def test_sglang_counts_the_root_among_the_draft_tokens() -> None:
    (_, plain), (_, bench), (title, command), again = mock_commands(point())
    assert again[1] == bench
    assert "SGLang 0.5.23" in title
    assert "--speculative" not in plain
    assert "SIMULATE" not in plain
    words = flags(command)
    assert words["--speculative-num-draft-tokens"] == "6"
    assert words["--speculative-num-steps"] == "5"
    assert words["--speculative-algorithm"] == "EAGLE3"
    assert words["--speculative-draft-model-path"] == "org/eagle 3"
    assert words["--speculative-draft-load-format"] == words["--load-format"] == "dummy"
    assert words["--tp-size"] == "2"
    assert command.startswith(
        "SGLANG_SIMULATE_ACC_LEN=3.25 SGLANG_SIMULATE_ACC_METHOD=match-expected python "
    )
    sent = flags(bench)
    assert (sent["--random-input-len"], sent["--random-output-len"]) == ("1000", "200")
    assert (sent["--max-concurrency"], sent["--random-range-ratio"]) == ("8", "1")


def test_a_block_has_no_steps_and_an_mtp_no_drafter() -> None:
    block = flags(mock_commands(point("dflash"))[2][1])
    assert "--speculative-num-steps" not in block
    assert block["--speculative-algorithm"] == "DFLASH"
    mtp = flags(mock_commands(point("mtp", None))[2][1])
    assert "--speculative-draft-model-path" not in mtp
    assert mtp["--speculative-algorithm"] == "EAGLE"


@pytest.mark.parametrize(("batch_size", "requests"), [(1, "48"), (48, "48"), (256, "256")])
def test_a_drafting_sglang_is_told_to_run_all_requests(batch_size: int, requests: str) -> None:
    # SGLang 0.5.23, `_handle_eagle_family` and its like: "Max running requests is reset to 48 for
    # speculative decoding. You can override this by explicitly setting --max-running-requests."
    plain, _, fast, _ = mock_commands(point(batch_size=batch_size))
    assert flags(fast[1])["--max-running-requests"] == requests
    assert "--max-running-requests" not in plain[1]


@pytest.mark.parametrize(
    ("framework", "caches"),
    [("sglang", {"fp8": "fp8_e4m3", "bf16": "bf16"}), ("vllm", {"fp8": "fp8", "bf16": "bfloat16"})],
)
def test_formats_are_made_by_both_servers(framework: str, caches: dict[str, str]) -> None:
    for cache, called in caches.items():
        for _, server in mock_commands(point(weights="fp8", kv_cache=cache), framework)[::2]:
            words = flags(server)
            assert (words["--quantization"], words["--kv-cache-dtype"]) == ("fp8", called)
    for _, server in mock_commands(point(), framework)[::2]:
        assert not {"--quantization", "--kv-cache-dtype"} & set(flags(server))


def test_vllm_is_told_by_its_speculative_config() -> None:
    commands = mock_commands(point(), "vllm")
    assert "vLLM 0.33.0" in commands[0][0]
    config = json.loads(flags(commands[2][1])["--speculative-config"])
    assert config == {
        "method": "eagle3",
        "model": "org/eagle 3",
        "num_speculative_tokens": 5,
        "rejection_sample_method": "synthetic",
        "synthetic_acceptance_length": 3.25,
    }
    assert "--speculative-config" not in commands[0][1]
    assert "--ignore-eos" in flags(commands[1][1])
    mtp = mock_commands(point("mtp", None), "vllm")
    assert "model" not in json.loads(flags(mtp[2][1])["--speculative-config"])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kind": "block"}, "drafter is 'block'; allowed: mtp, eagle, eagle3, model, ngram"),
        (
            {"draft_model": None},
            "draft_model is missing; eagle3 needs the drafter's config; allowed: a Hub",
        ),
        ({"weights": "fp4"}, "--weights is 'fp4'; allowed, as engines make it: fp8"),
        ({"kv_cache": "int8"}, "--kv-cache is 'int8'; allowed, as engines make it: bf16, fp8"),
        ({"input_len": 0}, "input_len is 0"),
        ({"tokens_per_round": 6.5}, "tokens_per_round is 6.5; allowed: from 1 to 6"),
    ],
)
def test_what_cannot_be_measured_is_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError) as refusal:
        point(**change)
    assert message in str(refusal.value)


@pytest.mark.parametrize(
    ("kind", "algorithm", "method"),
    [
        ("model", "STANDALONE", "draft_model"),
        ("dspark", "DSPARK", "dspark"),
        ("ngram", "NGRAM", "ngram"),
        ("prompt_lookup", "NGRAM", "ngram"),
    ],
)
def test_both_engines_force_all_kinds_that_both_have(
    kind: str, algorithm: str, method: str
) -> None:
    sglang = mock_commands(point(kind))[2][1]
    assert flags(sglang)["--speculative-algorithm"] == algorithm
    assert sglang.startswith("SGLANG_SIMULATE_ACC_LEN=3.25 ")
    config = json.loads(flags(mock_commands(point(kind), "vllm")[2][1])["--speculative-config"])
    assert config["method"] == method
    assert config["synthetic_acceptance_length"] == 3.25
    looked_up = algorithm == "NGRAM"
    assert ("model" in config) is not looked_up
    assert ("--speculative-draft-model-path" in flags(sglang)) is not looked_up


def test_a_block_is_drafted_whole_and_verified_in_part() -> None:
    command = mock_commands(point("dspark", draft_len=3, block=7), "vllm")[2][1]
    config = json.loads(flags(command)["--speculative-config"])
    assert config["num_speculative_tokens"] == 7
    assert config["num_speculative_tokens_per_batch_size"] == [[1, 8, 3]]


def test_an_engine_without_forced_acceptance_is_refused() -> None:
    with pytest.raises(OptionError, match="framework is 'trtllm'; allowed: sglang, vllm"):
        mock_commands(point(), "trtllm")


# --- the command ---------------------------------------------------------------------------------


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
    done = CliRunner().invoke(app, ["predict", "Qwen/Qwen3-8B", *words, "--json"])
    predicted = done.stdout.splitlines()[-1]
    (drafter,) = json.loads(predicted)["drafters"]
    assert rates == pytest.approx(
        [drafter["end_to_end"]["tokens_per_s"][0][0][drafts] for drafts in (0, 3)]
    )


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
    grid = ["--engine", engine, "--max-draft-len", "3", "--context", "1536", "--json"]
    asked = CliRunner().invoke(app, ["predict", "Qwen/Qwen3-8B", *fixed, *grid])
    (drafter,) = json.loads(asked.stdout.splitlines()[-1])["drafters"]
    assert found["predicted"]["speedup"] == pytest.approx(drafter["speedup"][0][0][3])


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
    asked = CliRunner().invoke(app, ["predict", "Qwen/Qwen3-8B", *words, *grid])
    (drafter,) = json.loads(asked.stdout.splitlines()[-1])["drafters"]
    rates = [drafter["end_to_end"]["tokens_per_s"][0][0][drafts] for drafts in (0, 3)]
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
