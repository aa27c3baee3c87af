"""What servers and results say of how servers were launched, beside what the user says."""

import json
from operator import attrgetter
from typing import Any

import pytest

from server_pages import server_info
from specroof.errors import MeasurementError
from specroof.evidence import Measurement, read_benchmark, server_told
from specroof.evidence.server_info import ServerFacts, all_facts, cache_facts, server_facts
from specroof.hardware.engine import ServerSettings
from tables import rows


def facts(**changes: Any) -> ServerFacts:
    return server_facts(server_info(**changes), source="page")


def test_sglang_says_how_it_was_launched() -> None:
    found = facts()
    assert found == ServerFacts(
        version="0.5.23",
        model_path="Qwen/Qwen3-8B",
        # 48 in its arguments, and room for 4 by its scheduler.
        settings=ServerSettings(
            memory_frac=0.85, running=4, overlap=True, chunk=8192, mixed=False, prefix_cache=True
        ),
        steps=3,
        verified=4,
        tensor_parallel=1,
        expert_parallel=1,
        attention_data_parallel=1,
        pipeline_parallel=1,
    )


@pytest.mark.parametrize(("changes", "says"), rows("results", "server_infos"))
def test_what_sglang_says_is_read_by_key(changes: dict[str, Any], says: dict[str, Any]) -> None:
    found = facts(**changes)
    assert {field: attrgetter(field)(found) for field in says} == says


def test_what_vllm_says() -> None:
    models = {"object": "list", "data": [{"id": "prod", "root": "/models/a"}, {"id": "lora"}]}
    assert server_facts(json.dumps(models), source="page") == ServerFacts(
        roots={"prod": "/models/a"}
    )
    assert server_facts('{"version": "0.33.0"}', source="page") == ServerFacts(version="0.33.0")
    labels = {
        "block_size": "16", "cache_dtype": "fp8_e5m2", "enable_prefix_caching": "False",
        "gpu_memory_utilization": "0.92",
    }  # fmt: skip
    settings = ServerSettings(memory_frac=0.92, prefix_cache=False)
    assert cache_facts(labels, source="page") == ServerFacts(settings=settings, kv_dtype="fp8")
    for nothing in ({"block_size": "16"}, {"cache_dtype": "auto"}):
        assert cache_facts(nothing, source="page") == ServerFacts()


def test_of_two_pages_that_say_the_same_the_first_counts() -> None:
    pages = [ServerFacts(version="1"), ServerFacts(version="2", steps=3), ServerFacts(steps=4)]
    assert all_facts(pages) == ServerFacts(version="1", steps=3)
    assert all_facts([]) == ServerFacts()


@pytest.mark.parametrize(("text", "says"), rows("refusals", "server_infos"))
def test_what_a_server_would_not_say_is_refused(text: str, says: str) -> None:
    with pytest.raises(MeasurementError, match=says) as refusal:
        server_facts(text, source="page")
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("share", ["fast", "7", "None"])
def test_a_label_that_is_no_share_is_refused(share: str) -> None:
    with pytest.raises(MeasurementError, match=r"^page, vllm:cache_config_info: gpu_memory_"):
        cache_facts({"gpu_memory_utilization": share}, source="page")


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
