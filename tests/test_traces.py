"""Traces: what each tool writes is read as the same requests, and every mistake names its line."""

import json
from typing import Any

import pytest

from specroof import MeasurementError
from specroof.reading.traces import parse_trace
from tables import refusal, rows

TRACES = rows("results", "traces")
OWN, AZURE, MOONCAKE = (TRACES[name][0] for name in ("own", "azure", "mooncake"))
VLLM: dict[str, Any] = {
    "request_rate": 4.0,
    "max_concurrency": None,
    "input_lens": [100, 50, 80],
    "output_lens": [20, 0, 30],  # the second failed
    "start_times": [7.5, 7.25, 7.0],
}
SGLANG: dict[str, Any] = {
    "max_concurrency": 4,
    "input_lens": [100, 50],
    "output_lens": [20, 30],
    "cached_tokens": [100, 16],
}


def listed(text: str, **settings: Any) -> dict[str, Any]:
    found = parse_trace(text, source="t", **settings)
    return {
        name: values.tolist() if hasattr(values, "tolist") else values
        for name, values in found.items()
    }


@pytest.mark.parametrize("name", TRACES)
def test_a_trace_is_its_requests(name: str) -> None:
    text, expected = TRACES[name]
    found = listed(text)
    for key, values in expected.items():
        assert found[key] == pytest.approx(values, abs=1e-6), key
    assert found.keys() == expected.keys()


def test_a_clients_result_is_sent_again_as_it_was() -> None:
    lengths = {"input_len": [80, 100], "output_len": [30, 20]}
    assert listed(json.dumps(VLLM)) == lengths | {"arrival_s": [0, 0.5]}
    # Clients that wait sent the next request when they had an answer: in their order.
    waited = listed(json.dumps(VLLM | {"max_concurrency": 2}, indent=1))
    assert waited == lengths | {"arrival_s": [0, 0], "concurrency": 2}
    assert listed(json.dumps(SGLANG)) == {
        "input_len": [100, 50],
        "output_len": [20, 30],
        "cached_len": [99, 16],
        "arrival_s": [0, 0],
        "concurrency": 4,
    }
    burst = VLLM | {"start_times": None, "request_rate": "inf"}
    assert listed(json.dumps(burst))["arrival_s"] == [0, 0]


@pytest.mark.parametrize(("text", "prompts", "answers"), rows("values", "lengths_at_once"))
def test_lengths_come_at_once(text: str, prompts: list[float], answers: list[float]) -> None:
    found = parse_trace(text, source="t", timed=False, input_len=64)
    assert (found["input_len"].tolist(), found["output_len"].tolist()) == (prompts, answers)
    assert not found["arrival_s"].any()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        *(
            (TRACES[of][0].replace(old, new), says)
            for of, old, new, says in rows("refusals", "changed_traces")
        ),
        ("", "t: holds no request; allowed: one or more"),
        (OWN.partition("\n")[0], "t: holds no request; allowed: one or more"),
        ("1,2,3,4\n", "t, line 1: names no column of lengths"),
        ("a" * 140_000 + "\n", "t, line 1: field larger than field limit"),
        ("[1]", "t, line 1, result 1 is 1; allowed: an object for each request"),
        (f"{json.dumps(VLLM)}\n{json.dumps(VLLM)}", "t: holds several results; allowed: one"),
        (json.dumps(VLLM | {"input_lens": [1]}), "t, line 1: has lists of 1 of input_len, 3 of"),
        (json.dumps(VLLM | {"output_lens": [0] * 3}), "t, line 1: no request has an answer"),
        *(
            (json.dumps(VLLM | {key: value}), f"t, line 1: {key}{'.0' * (type(value) is list)} is ")
            for key, value in (
                ("output_lens", [-1]),
                ("input_lens", [2e300]),
                ("start_times", [1e308]),
                ("cached_tokens", [10**400]),
                ("max_concurrency", 1e300),
            )
        ),
        (MOONCAKE.replace("3000", "1" * 400), "t, line 1: arrival_s is 1111"),
        (AZURE.replace("2023-11-16 18:17:03.9799600", "1" * 400), "t, line 2: arrival_s is "),
        (
            json.dumps(VLLM | {"start_times": None}),
            "t, line 1: request_rate is 4.0 and start_times are missing; allowed: start_times of",
        ),
    ],
)
def test_a_mistake_is_named_in_one_line(text: str, says: str) -> None:
    line = refusal(MeasurementError, parse_trace, text, source="t")
    assert line.startswith(says)
    assert "allowed: " in line or "limit" in line
