"""The question of capacity, from Python and from the shell."""

from typing import Any

import pytest

from commands import answered, run
from specroof import capacity, load_hardware
from specroof.errors import OptionError
from specroof.questions.capacity import Capacity


def test_the_lines_add_up() -> None:
    for engine in ("sglang", "vllm", "tensorrt-llm", "ideal"):
        found = capacity(
            "Qwen/Qwen3.5-9B", "l40s", engine=engine, drafters=["mtp", "eagle3,accept=0.7"]
        )
        assert len(found.rows) == 3
        for row in found.rows:
            weights = (row.weight_bytes, row.vision_weight_bytes, row.draft_weight_bytes)
            left = row.memory_bytes - row.reserved_bytes - sum(one or 0.0 for one in weights)
            pools = (row.state_pool_bytes or 0.0) + row.cache_pool_bytes
            assert pools == pytest.approx(left, rel=1e-9)
        assert found.rows[0].draft_weight_bytes is None


def test_a_chip_without_a_log_has_nearly_all_of_its_memory() -> None:
    chip = load_hardware("l40s")
    assert chip.usable_memory_bytes is None
    # The least that H100, H200 and B200 leave, 79.19 of 80, 139.7 of 141 and 178.0 of 180 GiB.
    assert chip.server_memory_bytes == 0.99 * chip.peak.memory_bytes
    for engine, share in (("vllm", 0.99), ("sglang", 0.99), ("tensorrt-llm", 0.99), ("ideal", 1.0)):
        (row,) = capacity("Qwen/Qwen3-8B", chip, engine=engine).rows
        assert row.memory_bytes == share * chip.peak.memory_bytes


def test_drafts_in_a_block_are_limited_by_the_tokens_of_a_pass() -> None:
    # vllm 0.33.0, config/vllm.py, _set_max_num_scheduled_tokens: 15 drafts and one more slot of
    # each request in the 8192 tokens of a pass.
    plain, drafting = capacity("Qwen/Qwen3-8B", "h100", framework="vllm", drafters="dflash").rows
    assert (plain.drafted_tokens_limit, drafting.drafted_tokens_limit) == (None, 8192 / 16)
    (_, tight) = capacity(
        "Qwen/Qwen3-8B", "h100", framework="vllm", drafters="dflash", server={"chunk": 160}
    ).rows
    assert (tight.largest_batch, tight.bound_by) == (10, "drafted tokens")


def test_drafts_are_those_of_the_block_or_the_usual_ones() -> None:
    found = capacity(
        "Qwen/Qwen3-8B",
        "h100",
        drafters=[
            "dflash",
            "dflash,block=8",
            "eagle3",
            "ngram",
            "medusa",
            "autoregressive,cost=0.1",
        ],
    )
    assert [row.draft_len for row in found.rows] == [0, 15, 7, 3, 3, 5, 3]
    tree = capacity("Qwen/Qwen3-8B", "h100", drafters="eagle3,tree=3/2/1,siblings=0.3/0.2")
    # 3 + 6 + 6 nodes and the root, which vLLM would look ahead for.
    assert tree.rows[1].draft_len == 3
    chain = capacity("Qwen/Qwen3-8B", "h100", drafters="eagle3", draft_len=15)
    assert tree.records[1] | {"drafter": "eagle3", "draft_len": 15} == chain.records[1]
    with pytest.raises(OptionError, match="draft_len is 6; allowed: a whole number from 1 to 5"):
        capacity("Qwen/Qwen3-8B", "h100", drafters="medusa", draft_len=6)
    with pytest.raises(OptionError, match=r"draft_len is 0; allowed: a whole number from 1$"):
        capacity("Qwen/Qwen3-8B", "h100", drafters="eagle3", draft_len=0)


def test_a_chip_without_a_fit_has_the_rules_of_the_server_asked_for() -> None:
    def framework(found: Capacity) -> str:
        return found.rows[0].served.server.framework

    assert framework(capacity("Qwen/Qwen3-8B", "l40s")) == "vllm"  # nobody fitted it
    assert framework(capacity("Qwen/Qwen3-8B", "l40s", engine="sglang")) == "sglang"
    assert framework(capacity("Qwen/Qwen3-8B", "h100")) == "sglang"  # its default
    assert framework(capacity("Qwen/Qwen3-8B", "h100", engine="ideal")) == "ideal"
    with pytest.raises(OptionError, match="engine is 'trt'"):
        capacity("Qwen/Qwen3-8B", "l40s", engine="trt")


def test_the_shell_prints_json_of_a_batch_that_fits_nowhere() -> None:
    found = answered("capacity Qwen/Qwen3-32B -H l40s --drafter autoregressive,cost=0.1")
    plain = found["rows"][0]
    assert (found["version"], found["choice"], plain["largest_batch"]) == (3, None, 0)
    assert plain["cache_pool_bytes"] < 0
    assert found["case"]["server"]["framework"] == "vllm"
    short = plain["short_bytes"]
    assert short == plain["cache_per_request_bytes"] - plain["cache_pool_bytes"]
    assert found["warnings"][0] == (
        f"not one request fits: at least {short / 2**30:.1f} GiB more would be needed on each device"
    )
    assert "with autoregressive,cost=0.1" in found["warnings"][1]
    assert any("its memory counted as 0" in note for note in found["notes"])
    assert "-21.0 GiB" in run("capacity Qwen/Qwen3-32B -H l40s")


def test_the_shell_is_told_that_states_are_replayed() -> None:
    words = "capacity Qwen/Qwen3.5-9B -H l40s --engine sglang --drafter mtp"
    copied, stated, replayed = (
        answered(words, more)["rows"][1]["largest_batch"]
        for more in ("", "--recurrent-state snapshot-copy", "--recurrent-state replay")
    )
    # 5 slots of a request, and 4 copies; or as many as plain decoding but for 16 tokens' inputs.
    assert copied == stated
    assert replayed == pytest.approx(copied * 9 / 5, rel=0.1)


def test_groups_of_devices_are_said_where_their_requests_are_added_up() -> None:
    asked: dict[str, Any] = {"tensor_parallel": 2, "engine": "vllm", "context_len": 2048}
    one = capacity("Qwen/Qwen3-30B-A3B", "h200", **asked)
    two = capacity("Qwen/Qwen3-30B-A3B", "h200", attention_data_parallel=2, **asked)
    said = "2 groups of devices serve separate requests: most requests counts all of them"
    assert (said in one.notes, two.notes[0]) == (False, said)
    # The limits are those of a group.
    (row,) = two.rows
    assert row.largest_batch == 2 * int(row.cache_limit)


def test_a_request_without_a_context_has_one_block_of_the_cache() -> None:
    # vLLM's blocks are of 16 tokens; Qwen3-8B keeps 36 layers of keys and values, 8 heads of 128
    # in bf16: 147 456 bytes a token.
    plain, drafting = capacity(
        "Qwen/Qwen3-8B", "h100", framework="vllm", drafters="ngram", context_len=0
    ).rows
    assert plain.cache_per_request_bytes == 16 * 147_456
    assert drafting.cache_per_request_bytes == 16 * 147_456
    assert (plain.largest_batch, plain.bound_by) == (1024, "running")


def test_workers_need_no_link_to_be_counted() -> None:
    # Of VR200 no source gives the bytes/s between workers; where known, they count no byte.
    for chip in ("vr200", "h100"):
        found = capacity("Qwen/Qwen3-8B", chip, prefill="1x1", decode="1x1").to_dict()
        split = found["case"]["split"]
        assert (split["devices"], split["link_bytes_per_s"]) == (2, None)
