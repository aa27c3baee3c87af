"""Requests and mocks on the command line."""

import json
import shlex
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from specroof.cli import app

PREDICT = "predict Qwen/Qwen3-8B -H b200 --engine ideal --drafter autoregressive,accept=.8,cost=.05"
MOCK = "mock Qwen/Qwen3.5-27B -H b200 --engine ideal --drafter mtp,accept=0.5 --draft-len 3"


def run(words: str) -> str:
    """Return what a command prints; it must succeed."""
    done = CliRunner().invoke(app, shlex.split(words))
    assert done.exit_code == 0, done.output
    return done.stdout


def refused(words: str) -> str:
    """Return the one line that a refused command leaves on standard error."""
    done = CliRunner().invoke(app, shlex.split(words))
    assert done.exit_code == 2, done.output
    (line,) = done.stderr.splitlines()
    return line


def result(words: str) -> dict[str, Any]:
    value = json.loads(run(f"{words} --json").splitlines()[-1], parse_constant=pytest.fail)
    assert isinstance(value, dict)
    return value


def test_requests_stand_for_a_context_and_a_batch() -> None:
    found = result(f"{PREDICT} --input-len 4000 --output-len 1000 --concurrency 1,8")
    plain = result(f"{PREDICT} --context 4500 --batch 1,8")
    assert found["context_len"] == [4500]
    assert found["batch_size"] == [1, 8]
    assert found["workload"] == {"input_len": 4000, "output_len": 1000}
    whole = found["drafters"][0].pop("end_to_end")
    assert found["drafters"] == plain["drafters"]
    # By hand: 1000 steps and a prefill at batch 1 without drafts.
    seconds = 1000 * found["baseline"]["step_s"][0][0] + whole["wait_s"]
    assert whole["tokens_per_s"][0][0][0] == pytest.approx(1000 / seconds)
    assert whole["speedup"][0][1][0] == 1


def test_depths_without_a_value_are_null_with_prefills_too() -> None:
    words = PREDICT.replace("accept=.8", "survival=.9/.7")
    found = result(f"{words} --input-len 64 --output-len 64")
    assert found["drafters"][0]["end_to_end"]["speedup"][0][0][3] is None


def test_the_table_shows_what_prefills_leave() -> None:
    text = run(f"{PREDICT} --input-len 4000 --output-len 100 --concurrency 1,8")
    assert "prefills counted, " in text
    assert "a request:" in text


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--batch 1 --concurrency 2", "--batch and --concurrency are both given"),
        ("--context 9 --input-len 8 --output-len 8", "--context is given with --input-len"),
        ("--input-len 8", "--output-len is missing; allowed: both lengths"),
        ("--output-len 8", "--input-len is missing; allowed: both lengths"),
        ("--input-len 0 --output-len 8", "input_len is 0; allowed: a finite number of tokens"),
        ("--concurrency x", "--concurrency is 'x'; allowed: numbers"),
    ],
)
def test_both_spellings_of_a_load_and_halves_of_one_are_refused(words: str, message: str) -> None:
    assert message in refused(f"{PREDICT} {words}")


def test_mock_prints_commands_and_what_to_expect() -> None:
    text = run(f"{MOCK} --concurrency 2")
    # 1 + .5 + .25 + .125 tokens per round
    assert "SGLANG_SIMULATE_ACC_LEN=1.875 " in text
    assert "# predicted by engine ideal" in text
    assert "specroof calibrate bench.jsonl -H b200 --model Qwen/Qwen3.5-27B" in text


def test_mock_tells_machines_the_same() -> None:
    found = result(f"{MOCK} --framework vllm")
    assert len(found["commands"]) == 4
    assert found["predicted"]["engine"] == "ideal"
    assert found["predicted"]["speedup"] > 1


def test_mock_needs_an_acceptance_to_force() -> None:
    assert "has no acceptance to force" in refused(MOCK.replace(",accept=0.5", ""))


def test_results_of_a_mock_calibrate(tmp_path: Path) -> None:
    # What vLLM would save, drafts said in the file, lengths from its totals.
    rows = [
        {
            "model_id": "Qwen/Qwen3-8B",
            "max_concurrency": batch,
            "duration": 10.0,
            "completed": 10,
            "total_input_tokens": 1000,
            "total_output_tokens": 10 * rate,
            "output_throughput": float(rate),
        }
        for batch, rate in ((1, 100), (8, 700), (64, 3000))
    ]
    bench = tmp_path / "bench.jsonl"
    bench.write_text("\n".join(map(json.dumps, rows)))
    words = f"calibrate {bench} -H b200 --engine ideal --model"
    found = result(f"{words} Qwen/Qwen3-8B")
    assert [one["name"] for one in found["fitted"]] == ["pass_overhead_s", "sequence_overhead_s"]
    assert found["points"][2]["place"].endswith("bench.jsonl, line 3")
    assert "is of model 'Qwen/Qwen3-8B'; --model is" in refused(f"{words} Qwen/Qwen3-4B")
