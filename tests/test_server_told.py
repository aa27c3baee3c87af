"""What results say their server was told, beside what the user says."""

import json
from typing import Any

import pytest

from specroof.errors import MeasurementError
from specroof.evidence import Measurement, read_benchmark, server_told
from specroof.hardware.engine import ServerSettings


def line(**server: Any) -> str:
    figures = {
        "backend": "sglang", "max_concurrency": 4, "completed": 16, "duration": 10.0,
        "total_input_tokens": 1600, "total_output_tokens": 1600, "output_throughput": 160.0,
        "server_info": {"tp_size": 1, **server},
    }  # fmt: skip
    return json.dumps(figures)


def result(**server: Any) -> Measurement:
    (point,) = read_benchmark(line(**server), source="bench.jsonl")
    return point


def test_results_say_what_their_server_was_told() -> None:
    told = {
        "mem_fraction_static": 0.83, "max_running_requests": 48, "disable_overlap_schedule": True,
        "chunked_prefill_size": -1, "enable_mixed_chunk": False, "disable_radix_cache": True,
    }  # fmt: skip
    first, second = result(**told), result(**told | {"chunked_prefill_size": 2048})
    assert first.server == ServerSettings(
        memory_frac=0.83, running=48, overlap=False, chunk=0, mixed=False, prefix_cache=False
    )
    assert second.server is not None
    assert second.server.chunk == 2048
    silent = result()
    assert silent.server is None
    # What all say that say anything, and what was asked for where they say nothing.
    asked = ServerSettings(capture=64, overlap=False)
    agreed = server_told([first, second, silent], asked)
    assert agreed == ServerSettings(
        memory_frac=0.83, running=48, overlap=False, mixed=False, prefix_cache=False, capture=64
    )
    # SGLang's first speculation: a plain result and one with drafts say what each server did.
    plain = result(disable_overlap_schedule=False)
    drafting = result(
        disable_overlap_schedule=True, speculative_algorithm="EAGLE3",
        speculative_num_draft_tokens=4, speculative_num_steps=3, speculative_eagle_topk=1,
    )  # fmt: skip
    assert drafting.draft_len == 3
    for asked in (ServerSettings(), ServerSettings(overlap="plain")):
        assert server_told([plain, drafting], asked) == ServerSettings(overlap="plain")
        assert server_told([drafting], asked).overlap == (asked.overlap or False)
    with pytest.raises(MeasurementError, match="server states overlap plain"):
        server_told([first], ServerSettings(overlap="plain"))
    said = "overlap False, and server states overlap True; allowed: the same, or to leave overlap"
    with pytest.raises(MeasurementError, match=said):
        server_told([silent, first], ServerSettings(overlap=True))
