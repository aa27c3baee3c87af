"""What llama-bench and llama-batched-bench write, as measurements."""

import json

import pytest

from specroof.errors import MeasurementError
from specroof.evidence import read_benchmark

BENCH = [
    {"n_prompt": 1, "n_gen": 0, "n_depth": 0, "avg_ns": 8_000_000},
    {"n_prompt": 4, "n_gen": 0, "n_depth": 2048, "avg_ns": 10_000_000},
    {"n_prompt": 0, "n_gen": 128, "n_depth": 1000, "avg_ns": 1_280_000_000},
]


def test_llama_bench_times_passes_and_decoding() -> None:
    one, four, plain = read_benchmark(json.dumps(BENCH), source="bench.json")
    assert (one.method, one.verify_len) == ("step", 1)
    assert one.pass_s == pytest.approx(8e-3)
    assert (four.verify_len, four.context_len) == (4, 2048)
    assert four.pass_s == pytest.approx(10e-3)
    assert (plain.method, plain.draft_len, plain.engine) == (None, 0, "llama.cpp")
    assert plain.tokens_per_s == pytest.approx(100)
    assert plain.context_len == 1064


def test_llama_batched_bench_decodes_in_parallel() -> None:
    line = {"pp": 512, "tg": 128, "pl": 4, "speed_tg": 240.5, "t_tg": 2.13}
    (point,) = read_benchmark(json.dumps(line), source="bench.jsonl")
    assert (point.batch_size, point.context_len, point.tokens_per_s) == (4, 576, 240.5)


@pytest.mark.parametrize(("n_prompt", "n_gen"), [(512, 128), (0, 0), (1024, 0)])
def test_tests_of_llama_bench_that_say_nothing_of_a_pass_are_refused(
    n_prompt: int, n_gen: int
) -> None:
    test = {"n_prompt": n_prompt, "n_gen": n_gen, "avg_ns": 1}
    with pytest.raises(MeasurementError, match=rf"bench.json.*n_prompt is {n_prompt}.*n_ubatch"):
        read_benchmark(json.dumps(test), source="bench.json")
