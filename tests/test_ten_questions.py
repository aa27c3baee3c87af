"""The questions of a new user: each is answered by the one command that stands beside it."""

import json
import re
import shlex
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest
from typer.testing import CliRunner

import specroof
from screens import on_a_terminal
from server_pages import Life, server_info, sglang_page, without_steps
from specroof import OptionError
from specroof.cli import app
from specroof.policies.schedule import drafts_at
from specroof.reading.words import numbers
from specroof.report.layout import on_screen

PAGE = (Path(__file__).parents[1] / "notebooks" / "README.md").read_text(encoding="utf-8")
QUESTIONS = re.findall(r"^\d+\. \*\*(.+?\?)\*\*\n +`specroof (.+)`$", PAGE, re.MULTILINE)


def test_there_are_ten() -> None:
    assert len(QUESTIONS) == 10


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize(("question", "command"), QUESTIONS)
def test_one_command_answers(question: str, command: str) -> None:
    done = CliRunner().invoke(app, shlex.split(command))
    assert (done.exit_code, done.stderr) == (0, ""), question
    assert len(done.stdout.splitlines()) >= 3


# --- Fourteen tasks, each with what must not contradict -------------------------------------------

Found = dict[str, Any]
LOAD: Final = "--input-len 1024 --output-len 512"


def advised(found: Found) -> list[Found]:
    """Return the rows of what is advised: of one drafter on one chip."""
    names = ("hardware", "drafter")
    chosen = [found["choice"][name] for name in names]
    return [row for row in found["rows"] if [row[name] for name in names] == chosen]


def one_length(found: Found) -> None:
    for row in advised(found):
        assert row["draft_len"] == drafts_at(found["choice"]["schedule"], row["concurrency"])
    assert found["choice"]["decision"] != "off" or not any(
        found["choice"]["engine_config"].values()
    )


def a_raised_limit(found: Found) -> None:
    one_length(found)
    most = found["choice"]["raised"]["running"]["to"]
    assert f"--max-running-requests {most}" in found["choice"]["engine_config"]["sglang"]
    assert all(row["ttft_s"] < 10 * row["plain_ttft_s"] for row in advised(found))


def targets_at_the_ranked_load(found: Found) -> None:
    cases, choices = ([part, *part["other_chips"]] for part in (found["case"], found["choice"]))
    for case, choice in zip(cases, choices, strict=True):
        chip = found | {"choice": choice}
        one_length(chip)
        met = [row["tpot_s"] <= 0.020 for row in advised(chip)]
        assert (choice["best"] is not None) >= any(met)
        assert choice["best"]["tpot_s"] <= 0.020
        assert case["usd_per_hour"] > 0


def a_raised_frontier(found: Found) -> None:
    (chip,) = found["choice"]["chips"]
    assert chip["cheapest"]["running_limit"] >= chip["cheapest"]["concurrency"] > 48
    assert chip["cheapest"]["drafter"].startswith("eagle3")
    prices = [chip[name]["usd_per_million_tokens"] for name in ("cheapest", "by_default")]
    assert prices[0] < prices[1]


def a_remedy(found: Found) -> None:
    told = [note for note in found["notes"] if note.startswith("raised limit")]
    assert len(told) == 1
    assert "--server running=128" in told[0]
    assert found["rows"][0]["answer"] == "at"


def no_flags_without_layers(found: Found) -> None:
    assert not any(found["choice"]["engine_config"].values())
    assert any("mtp" in warning and "allowed" in warning for warning in found["warnings"])


def a_tree(found: Found) -> None:
    one_length(found)
    words = shlex.split(found["choice"]["engine_config"]["sglang"])
    assert words[words.index("--speculative-eagle-topk") + 1] == "2"
    assert words[words.index("--speculative-num-draft-tokens") + 1] == "9"


def one_rate_is_taken_at_every_depth(found: Found) -> None:
    one_length(found)
    assert any("accept=0.8 is taken at every depth" in note for note in found["notes"])


def settings_are_told(found: Found) -> None:
    one_length(found)
    words = {"--chunked-prefill-size", "--disable-radix-cache", "--cuda-graph-max-bs-decode"}
    assert words <= {*shlex.split(found["choice"]["engine_config"]["sglang"])}


def weights_are_told(found: Found) -> None:
    one_length(found)
    assert "me/assistant" in found["choice"]["engine_config"]["vllm"]


def a_yaml_file(found: Found) -> None:
    one_length(found)
    assert "speculation.yaml" in found["choice"]["engine_files"]


def off_has_no_flags(found: Found) -> None:
    one_length(found)
    assert found["choice"]["decision"] == "off"
    assert not any(found["choice"]["engine_files"])


def a_block(found: Found) -> None:
    one_length(found)
    config = json.loads(shlex.split(found["choice"]["engine_config"]["vllm"])[1])
    assert config["num_speculative_tokens"] == 5  # what dspark_block_size of its config says


TASKS: Final[dict[str, tuple[str, Callable[[Found], None]]]] = {
    "at a load": (
        f"advise Qwen/Qwen3-32B-FP8 -H h100 --tp 2 {LOAD} --concurrency 64 "
        "--drafter eagle3,accept-length=2.4@3",
        a_raised_limit,
    ),
    "up to a load": (
        f"advise openai/gpt-oss-120b -H b200 {LOAD} --concurrency 1..128 "
        "--drafter eagle3,accept-length=2.4@3",
        a_raised_limit,
    ),
    "which chip": (
        f"advise openai/gpt-oss-120b -H h100,b200,mi300x {LOAD} --tpot 20 --concurrency 1,64 "
        "--drafter eagle3,accept-length=2.4@3",
        targets_at_the_ranked_load,
    ),
    "within a first token": (
        f"advise deepseek-ai/DeepSeek-V3.1 -H h200 {LOAD} --ttft 1000 --concurrency 1,8,64 "
        "--drafter mtp,accept-length=2.4@3",
        a_raised_limit,
    ),
    "the cheapest": (
        f"frontier openai/gpt-oss-120b -H b200 --tpot 20 {LOAD} --concurrency 8,64,160 "
        "--drafter eagle3,accept-length=2.4@3",
        a_raised_frontier,
    ),
    "room": (
        "breakeven meta-llama/Llama-3.3-70B-Instruct -H b200 --tp 2 --batch 128 --drafter eagle3",
        a_remedy,
    ),
    "one rate": (
        f"advise Qwen/Qwen3.5-27B -H h100 --tp 2 {LOAD} --concurrency 1,8 --drafter mtp,accept=0.8",
        one_rate_is_taken_at_every_depth,
    ),
    "a drafter that loses": (
        f"advise Qwen/Qwen3-8B -H h100 {LOAD} --concurrency 1,32 --drafter eagle3,accept=0.01",
        off_has_no_flags,
    ),
    "a block": (
        f"advise deepseek-ai/DeepSeek-V4-Flash-0731 -H b200 --tp 4 {LOAD} --framework vllm "
        "--concurrency 1,8 --drafter dspark,accept=0.6,block=5",
        a_block,
    ),
    "a tree": (
        f"advise Qwen/Qwen3-8B -H h100 {LOAD} --concurrency 1 --framework sglang "
        "--choose-draft-len 3 --drafter eagle3,accept=0.5,tree=eagle2,nodes=8,top-k=2,siblings=.2",
        a_tree,
    ),
    "weights of mtp": (
        f"advise google/gemma-4-31B-it -H b200 {LOAD} --draft-model me/assistant "
        "--concurrency 1,16 --drafter mtp,accept-length=2.4@3",
        weights_are_told,
    ),
    "no layers for mtp": (
        f"advise MiniMaxAI/MiniMax-M2 -H b200 --tp 4 {LOAD} --concurrency 4 --drafter mtp,accept=.7",
        no_flags_without_layers,
    ),
    "settings": (
        f"advise Qwen/Qwen3.5-9B -H h100 {LOAD} --framework sglang --drafter mtp,accept=0.7 "
        "--concurrency 1,8,64 --server chunk=4096,prefix-cache=off,capture=64",
        settings_are_told,
    ),
    "TensorRT-LLM": (
        f"advise Qwen/Qwen3-8B -H b200 --tp 1 {LOAD} --concurrency 4 --framework tensorrt-llm "
        "--drafter eagle3,accept-length=2.4@3",
        a_yaml_file,
    ),
}


def keyword(word: str) -> Any:
    """Return the value of a flag as Python has it: a number, a list of numbers, else its text."""
    try:
        values = numbers("", word)
    except OptionError:
        return word
    return values if len(values) > 1 else int(values[0]) if values[0].is_integer() else values[0]


def in_python(words: list[str]) -> Any:
    """Return the answer of a question by its name, with the flags of the shell as keywords."""
    name, model, _, chips, *rest = words
    pairs = zip(rest[::2], rest[1::2], strict=True)
    asked = {flag[2:].replace("-", "_"): keyword(word) for flag, word in pairs}
    hardware = chips.split(",") if "," in chips else chips
    return getattr(specroof, name)(model, hardware, **asked)


def printed(words: list[str], columns: int | None) -> str:
    """Return what a command prints into a pipe, for a width that is stated or for none."""
    stated = None if columns is None else str(columns)
    done = CliRunner().invoke(app, words, env={"COLUMNS": stated})
    assert (done.exit_code, done.stderr) == (0, "")
    return done.stdout


def same_decision(found: Found, page: list[str]) -> None:
    """Hold the table and the decision of advice against the object of it."""
    (start,) = (n for n, line in enumerate(page) if re.match(r"load +γ +speedup", line))
    assert len({len(line) for line in page[start : start + 2]}) <= 2
    rows = [line.split() for line in page[start + 1 : start + 1 + len(advised(found))]]
    shown = [(float(row[0]), int(row[1])) for row in rows]
    assert shown == [(row["concurrency"], row["draft_len"]) for row in advised(found)]
    said = {row["decision"] for row in advised(found)}
    # Lines that are too long go on in the next, indented.
    title, decision, *_ = re.sub(r"\n  +", " ", "\n".join(page[:start])).split("\n")
    assert not title.startswith("decision: ")
    assert decision.startswith("decision: ")
    assert all(word in decision for word in said)
    assert (found["choice"]["decision"] in said) == (
        len(said) == 1 or found["choice"]["decision"] == "unclear"
    )


@pytest.mark.slow
@pytest.mark.parametrize("task", TASKS)
def test_no_task_contradicts_itself(task: str) -> None:
    """In JSON, in Python and as text: of 80 and of 120 columns, and whole."""
    command, holds = TASKS[task]
    words = shlex.split(command)
    found = json.loads(printed([*words, "--json"], None).splitlines()[-1])
    holds(found)
    answer = in_python(words)
    assert json.loads(json.dumps(answer.to_dict())) == found
    texts = {}
    for columns in (None, 80, 120):
        with on_screen(columns):
            texts[columns] = answer.text()
    whole = texts.pop(None)
    for columns, text in texts.items():
        page = [line for line in text.splitlines() if "://" not in line]
        assert max(map(len, page)) <= (columns or 0)
        assert whole.count("\n") <= text.count("\n")
        if words[0] == "advise":
            same_decision(found, page)
            assert len(advised(found)) > 1 or columns == 80 or len(page) <= 25


@pytest.mark.slow
def test_a_terminal_shows_what_a_pipe_of_its_width_gets() -> None:
    words = shlex.split(TASKS["a drafter that loses"][0])
    assert on_a_terminal(80, *words) == printed(words, 80)


@pytest.mark.slow
def test_what_a_server_says_overrules_what_is_assumed(tmp_path: Path) -> None:
    life = Life(1000.0)
    page, info = tmp_path / "metrics.txt", tmp_path / "info.json"
    page.write_text(without_steps(sglang_page(replace(life, running=58.0))))
    info.write_text(server_info(max_running_requests=128))
    words = ["doctor", str(page), str(info), "--model", "Qwen/Qwen3-8B", "-H", "h100"]
    done = CliRunner().invoke(app, [*words, "--drafter", "eagle3", "--json"])
    assert (done.exit_code, done.stderr) == (0, "")
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["case"]["observed"]["speculates"]
    assert found["case"]["server"]["running"] >= 58
    change = found["choice"]["change"]
    assert drafts_at(found["choice"]["schedule"], change["running"]) in {
        change["best"]["draft_len"],
        change["now"] and change["now"]["draft_len"],
    }
