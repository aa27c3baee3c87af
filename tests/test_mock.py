"""The commands that measure a predicted point: flags of named releases, counts of drafts."""

import json
import shlex
from itertools import pairwise
from typing import Any

import pytest

from specroof import OptionError
from specroof.serving.benchmark_commands import MockPoint, mock_commands
from specroof.serving.launch import Speculation
from tables import refusal, rows

POINT: dict[str, Any] = {
    "model": "Qwen/Qwen3-8B",
    "tokens_per_round": 3.25,
    "batch_size": 8,
    "input_len": 1000,
    "output_len": 200,
    "tensor_parallel": 2,
}


def point(kind: str = "eagle3", **more: Any) -> MockPoint:
    plan = Speculation(kind=kind, schedule=((1, 8, 5),), draft_model="org/eagle 3", block=None)
    return MockPoint(speculation=plan, **POINT | more)


def flags(command: str) -> dict[str, str]:
    pairs = pairwise([*shlex.split(command), "--"])
    return {
        word: "" if after.startswith("--") else after for word, after in pairs if word[0] == "-"
    }


def test_sglang_counts_the_root_among_the_draft_tokens() -> None:
    (_, plain), (_, bench), (title, command), again = mock_commands(point(), "sglang")
    assert again[1] == bench
    assert "SGLang 0.5.23" in title
    assert "--speculative" not in plain
    assert "SIMULATE" not in plain
    words = flags(command)
    assert words["--speculative-num-draft-tokens"] == "6"
    assert words["--speculative-num-steps"] == "5"
    assert words["--speculative-draft-load-format"] == words["--load-format"] == "dummy"
    assert words["--tp-size"] == "2"
    assert command.startswith(
        "SGLANG_SIMULATE_ACC_LEN=3.25 SGLANG_SIMULATE_ACC_METHOD=match-expected python "
    )
    sent = flags(bench)
    assert (sent["--random-input-len"], sent["--random-output-len"]) == ("1000", "200")
    assert (sent["--max-concurrency"], sent["--random-range-ratio"]) == ("8", "1")
    assert sent["--num-prompts"] == "32"  # four of each client


@pytest.mark.parametrize(("batch_size", "requests"), [(1, "48"), (48, "48"), (256, "256")])
def test_a_drafting_sglang_is_told_to_run_all_requests(batch_size: int, requests: str) -> None:
    # SGLang 0.5.23, `_handle_eagle_family` and its like: "Max running requests is reset to 48 for
    # speculative decoding. You can override this by explicitly setting --max-running-requests."
    plain, _, fast, _ = mock_commands(point(batch_size=batch_size), "sglang")
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


@pytest.mark.parametrize(("change", "message"), rows("refusals", "mocks"))
def test_what_cannot_be_measured_is_refused(change: dict[str, Any], message: str) -> None:
    assert message in refusal(OptionError, point, **change)


@pytest.mark.parametrize(("kind", "algorithm", "method"), rows("values", "mock_kinds"))
def test_both_engines_force_all_kinds_that_both_have(
    kind: str, algorithm: str, method: str
) -> None:
    sglang = mock_commands(point(kind), "sglang")[2][1]
    assert flags(sglang)["--speculative-algorithm"] == algorithm
    assert sglang.startswith("SGLANG_SIMULATE_ACC_LEN=3.25 ")
    config = json.loads(flags(mock_commands(point(kind), "vllm")[2][1])["--speculative-config"])
    assert config["method"] == method
    assert config["synthetic_acceptance_length"] == 3.25
    looked_up = algorithm == "NGRAM"
    assert ("model" in config) is not looked_up
    assert ("--speculative-draft-model-path" in flags(sglang)) is not looked_up


def test_an_engine_without_forced_acceptance_is_refused() -> None:
    with pytest.raises(OptionError, match="framework is 'trtllm'; allowed: sglang, vllm"):
        mock_commands(point(), "trtllm")
