"""What servers say of how they were launched: /server_info, /v1/models, /version, cache labels."""

import json
from typing import Any

import pytest

from server_pages import server_info
from specroof.errors import MeasurementError
from specroof.evidence.server_info import ServerFacts, all_facts, cache_facts, server_facts
from specroof.hardware.engine import ServerSettings
from tables import rows


def facts(**changes: Any) -> ServerFacts:
    return server_facts(server_info(**changes), source="page")


def settings(**changes: Any) -> ServerSettings:
    found = facts(**changes).settings
    assert found is not None
    return found


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


def test_the_room_of_a_scheduler_is_of_its_group() -> None:
    state = [{"effective_max_running_requests_per_dp": 30}]
    groups = {"tp_size": 4, "attn_dp_size": 4, "internal_states": state}
    assert settings(**groups, max_running_requests=128).running == 120
    assert settings(**groups, max_running_requests=100).running == 100
    assert settings(**groups, max_running_requests=None).running == 120
    assert facts(**groups).attention_data_parallel == 4
    former = facts(attn_dp_size=None, dp_size=2, enable_dp_attention=True)
    assert former.attention_data_parallel == 2
    replicas = facts(attn_dp_size=None, dp_size=2, enable_dp_attention=False)
    assert replicas.attention_data_parallel is None


def test_a_server_without_drafts_says_nothing_of_its_room_with_them() -> None:
    plain = {"speculative_algorithm": None, "max_running_requests": None}
    found = facts(**plain)
    assert (found.steps, found.verified, settings(**plain).running) == (None, None, None)
    asked = plain | {"max_running_requests": 64}
    assert settings(**asked).running == 64
    assert settings(internal_states=[], max_running_requests=48).running == 48


@pytest.mark.parametrize(
    ("name", "dtype"), [("fp8_e5m2", "fp8"), ("auto", None), (None, None), ("BF16", "bf16")]
)
def test_the_dtype_of_a_cache_is_known_where_it_was_asked_for(
    name: str | None, dtype: str | None
) -> None:
    assert facts(kv_cache_dtype=name).kv_dtype == dtype
    labels = {} if name is None else {"cache_dtype": name}
    assert cache_facts(labels, source="page").kv_dtype == dtype


def test_what_vllm_says() -> None:
    models = {"object": "list", "data": [{"id": "prod", "root": "/models/a"}, {"id": "lora"}]}
    assert server_facts(json.dumps(models), source="page") == ServerFacts(
        roots={"prod": "/models/a"}
    )
    assert server_facts('{"version": "0.33.0"}', source="page") == ServerFacts(version="0.33.0")
    labels = {
        *{("block_size", "16"), ("cache_dtype", "auto"), ("enable_prefix_caching", "False")},
        ("gpu_memory_utilization", "0.92"),
    }
    assert cache_facts(dict(labels), source="page") == ServerFacts(
        settings=ServerSettings(memory_frac=0.92, prefix_cache=False)
    )
    assert cache_facts({"block_size": "16"}, source="page") == ServerFacts()


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
