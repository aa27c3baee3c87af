"""The rules of servers against the engines' own functions, whose answers are stored.

`benchmarks/engine_rules.py` asks them; where the environment variable SPECROOF_ENGINE_SOURCES names
a folder with the unpacked packages, the stored answers are compared with theirs.
"""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from specroof import Placement, load_hardware, load_model
from specroof.architecture.model import VisionTower
from specroof.frameworks import release
from specroof.hardware.engine import Server, ServerSettings
from specroof.latency.setup import engine_setup
from specroof.serving import blocks, pools
from specroof.serving.capacity import in_server
from tables import present
from test_capacity import GIB, chip_of, room

TESTS = Path(__file__).parent
STORED = TESTS / "golden" / "serving-rules.json"
RULES: dict[str, Any] = json.loads(STORED.read_text(encoding="utf-8"))
SOURCES = os.environ.get("SPECROOF_ENGINE_SOURCES")
VLLM: Any = release("vllm")
SGLANG: Any = release("sglang")
OLDER_SGLANG: Any = release("sglang@0.5.9")


@pytest.mark.skipif(SOURCES is None, reason="SPECROOF_ENGINE_SOURCES names no unpacked engines")
def test_the_stored_answers_are_those_of_the_engines() -> None:
    script = TESTS.parent / "benchmarks" / "engine_rules.py"
    run = subprocess.run(
        [sys.executable, script, str(SOURCES)], capture_output=True, text=True, check=True
    )
    assert json.loads(run.stdout) == RULES


@pytest.mark.golden
@pytest.mark.parametrize(
    ("facts", "row"),
    [
        *((SGLANG, row) for row in RULES["sglang_memory"]),
        *((release("sglang@0.5.18"), row) for row in RULES["sglang_older_memory"]),
    ],
)
def test_sglang_hands_out_this_share_of_the_memory(facts: Any, row: dict[str, Any]) -> None:
    chunk, capture = pools.memory_defaults(row["memory_mib"], row["tp"], facts)
    if facts.memory.running_graphs:
        capture = min(capture, row["running"] or capture)
    assert (chunk, capture) == (row["chunk"], row["capture"])
    assert len(facts.captured.prefill.up_to(chunk)) == row["prefill_sizes"] or row["latent"]
    reserve = pools.reserve_mib(
        facts,
        memory_mib=row["memory_mib"],
        chunk=chunk,
        capture=capture,
        tensor_parallel=row["tp"],
        prefill_graphs_mib=1536 if row["latent"] else 8 * row["prefill_sizes"],
        ranks=row["ranks"],
    )
    share = round((row["memory_mib"] - reserve) / row["memory_mib"], 3)
    if row["vision"] is not None:
        share *= pools.vision_factor(VisionTower(*row["vision"]), facts)
    assert share == pytest.approx(row["memory_frac"], abs=1e-12)


@pytest.mark.parametrize(
    ("gib", "chunk", "capture", "spread"),
    [(19.9, 2048, 8, 8), (20, 4096, 48, 160), (35, 4096, 32, 160), (60, 8192, 256, 512),
     (159.9, 8192, 256, 512), (160, 16384, 512, 512)],
)  # fmt: skip
def test_thresholds_of_sglang_are_those_of_its_source(
    gib: float, chunk: int, capture: int, spread: int
) -> None:
    # memory_hook.py, handle_gpu_memory_settings; from four devices on more are captured.
    for devices, most in ((1, capture), (3, capture), (4, spread)):
        assert pools.memory_defaults(gib * 1024, devices, SGLANG) == (chunk, most)
    # reserve_for_graph_mb: 10 GiB at least above 60; of two groups 3 MiB a batch, above 300 4.5.
    least = pools.reserve_mib(SGLANG, memory_mib=gib * 1024, chunk=2048, capture=8)
    assert least == (10240 if gib > 60 else 512 + 1.5 * 2048 + 128 + 16)
    for batch, mib in ((300, 3), (301, 4.5)):
        two: Any = {"memory_mib": gib * 1024, "chunk": 8192, "capture": batch, "ranks": 2}
        assert pools.reserve_mib(SGLANG, **two) == 512 + 1.5 * 8192 + 128 + batch * (2 + 2 * mib)


@pytest.mark.golden
@pytest.mark.parametrize("row", RULES["sglang_sizes"])
def test_sglang_captures_these_batches(row: dict[str, Any]) -> None:
    assert pools.captured_sizes(row["most"], SGLANG, drafting=row["drafting"]) == row["sizes"]


def server(**settings: Any) -> Server:
    """Return a resolved server of SGLang, all but these settings as on a large chip."""
    usual = {
        "framework": "sglang", "version": "0.5.23", "memory_frac": 0.9, "running": None,
        "capture": 256, "overlap": True, "chunk": 8192, "mixed": False, "state_dtype": "fp32",
        "prefix_cache": True,
    }  # fmt: skip
    return Server(**{**usual, **settings})


@pytest.mark.golden
@pytest.mark.parametrize("row", RULES["sglang_states"])
def test_sglang_has_this_room_for_recurrent_state(row: dict[str, Any]) -> None:
    told = {key: row[key] for key in ("running", "overlap", "prefix_cache")}
    taken, slots, requests = pools.state_pool(
        server(**told),
        SGLANG,
        rest_bytes=row["rest_bytes"],
        state_bytes=row["state_bytes"],
        draft_tokens=np.array([float(row["draft_tokens"])]),
    )
    if row["slots"] is None:  # SGLang refuses to start
        assert slots[0] <= 0
        return
    assert slots[0] == row["slots"]
    assert row["rest_bytes"] - taken[0] == pytest.approx(row["cache_bytes"], rel=1e-9)
    most = 2048 if row["running"] is None else row["running"]
    assert max(min(requests[0], most), 0) == row["requests"]


def test_older_sglang_sets_aside_what_drafts_need_before_the_pools() -> None:
    # Of 1000 bytes, for 4 requests and one of padding: states of 10 for each of 3 positions, and
    # 50 to replay them; 9/19 of what is left are states, one of them of padding.
    taken, slots, requests = pools.state_pool(
        server(version="0.5.9", running=4),
        OLDER_SGLANG,
        rest_bytes=1000.0,
        state_bytes=10.0,
        draft_tokens=np.array([0.0, 3.0]),
        fixed_bytes=50.0,
    )
    assert slots.tolist() == [950 * 9 // 190 - 1, 800 * 9 // 190 - 1] == [44, 36]
    assert taken.tolist() == [50 + 45 * 10, 200 + 37 * 10]
    assert requests.tolist() == [44 // 3, 36 // 3]  # three states a request, without tracking


@pytest.mark.golden
@pytest.mark.parametrize("row", RULES["vllm_batches"])
def test_vllm_runs_so_many_requests(row: dict[str, Any]) -> None:
    names = {"NVIDIA A100-SXM4-80GB": "a100", "NVIDIA GB10": "dgx-spark"}
    names |= {name: f"tpu-{name.lower()}" for name in ("V5E", "V5P", "V6E")}
    chip = load_hardware(names.get(row["name"], row["name"].split()[-1].lower()))
    assert blocks.batch_defaults(chip, VLLM) == (row["running"], row["tokens"])
    # The thresholds read the total of NVML (platforms/cuda.py), not what CUDA leaves of it.
    less = replace(chip, usable_memory_bytes=0.4 * chip.peak.memory_bytes)
    assert blocks.batch_defaults(less, VLLM) == (row["running"], row["tokens"])


@pytest.mark.parametrize(
    ("gib", "running", "tokens"),  # `get_batch_defaults`
    [(160, 1024, 16384), (159.9, 1024, 8192), (70, 1024, 8192), (69.9, 256, 2048)],
)
def test_thresholds_of_vllm_are_those_of_its_source(gib: float, running: int, tokens: int) -> None:
    h100 = load_hardware("h100")
    chip = replace(h100, peak=replace(h100.peak, memory_bytes=gib * 2**30))
    assert blocks.batch_defaults(chip, VLLM) == (running, tokens)


@pytest.mark.golden
@pytest.mark.parametrize("row", RULES["vllm_graphs"])
def test_vllm_captures_these_passes(row: dict[str, Any]) -> None:
    chip = load_hardware("b200" if row["blackwell"] else "h100")
    asked = {key: row[key] for key in ("running", "tokens", "verify_len")}
    assert blocks.captured_sizes(chip, VLLM, row["stated"], **asked) == row["sizes"]


@pytest.mark.parametrize(
    ("version", "whole", "uniform"),
    [("0.33", 1, 1), ("0.28", 1, 0), ("0.24", 1, 0), ("0.19", 0, 0)],
)
def test_releases_of_vllm_capture_whole_passes_and_uniform_rounds(
    version: str, whole: int, uniform: int
) -> None:
    # Of passes of 100 tokens those of 100, and of 5 requests of 3 positions those of 15.
    chip, facts = load_hardware("h100"), release(f"vllm@{version}")
    largest = blocks.captured_sizes(chip, facts, None, tokens=100, running=64)[-1]  # type: ignore[arg-type]
    assert largest == (100 if whole else 96)
    rounds = blocks.captured_sizes(chip, facts, None, tokens=999, running=5, verify_len=3)  # type: ignore[arg-type]
    assert (15 in rounds) == uniform


@pytest.mark.parametrize("version", ["0.33", "0.28", "0.24", "0.19"])
@pytest.mark.parametrize(
    ("name", "chip", "running", "largest"),
    # config.py, GptOssForCausalLMConfig: 1024, whatever _set_cudagraph_sizes would take
    [("gpt-oss-20b", "h100", None, 1024), ("gpt-oss-20b", "a100-80gb", 4, 1024),
     ("Qwen3-8B", "h100", None, 512)],
)  # fmt: skip
def test_vllm_captures_passes_of_1024_tokens_of_gpt_oss(
    name: str, chip: str, running: int | None, largest: int, version: str
) -> None:
    model = load_model(f"{'openai' if 'oss' in name else 'Qwen'}/{name}")
    setup = engine_setup(load_hardware(chip), "vllm", None, None)
    served = in_server(model, setup, ServerSettings(running=running), version)
    assert present(served.engine.graphs).sizes[-1] == largest
    few = in_server(model, setup, ServerSettings(running=running, capture=24), version)
    assert present(few.engine.graphs).sizes[-1] == 24


@pytest.mark.golden
@pytest.mark.parametrize("row", RULES["vllm_states"])
def test_vllm_holds_these_copies_of_a_state(row: dict[str, Any]) -> None:
    copies = blocks.state_blocks(np.array(float(row["drafts"])))
    assert copies == pytest.approx(row["mean_copies"], rel=0.01)


#: Of 2 TB.
LARGE = chip_of(2e12 / GIB)


@pytest.mark.golden
@pytest.mark.parametrize("row", RULES["sglang_cells"])
def test_sglang_takes_these_bytes_for_a_token(row: dict[str, Any]) -> None:
    drafter, verify = ("eagle3,accept=0.8", 4) if row["drafting"] else (None, 1)
    place = Placement(tensor_parallel=row["tp"])
    found = room(row["model"], "sglang", drafter, verify=verify, chip=LARGE, placement=place)
    # Tokens of the pool: what is left over a token's bytes, windows with 0.8 of the tokens.
    held = 4096 + (8 if row["drafting"] else 1)
    tokens = found.room.cache_pool_bytes // row["cell"]
    assert found.room.limits["cache"] == pytest.approx(tokens / held, rel=1e-9)


@pytest.mark.golden
@pytest.mark.parametrize("row", RULES["vllm_groups"])
def test_vllm_holds_blocks_for_whole_groups_of_layers(row: dict[str, Any]) -> None:
    assert list(blocks.padded_layers(*row["layers"], alike=VLLM.memory.alike)) == row["held"]


@pytest.mark.golden
@pytest.mark.parametrize("row", RULES["vllm_drafted"])
def test_vllm_runs_as_many_as_a_block_drafter_has_tokens_for(row: dict[str, Any]) -> None:
    told = {"verify": 1 + row["drafts"], "chunk": row["tokens"], "running": 1024, "chip": LARGE}
    limits = room("Qwen/Qwen3-8B", "vllm", f"{row['kind']},accept=0.8", **told).room.limits
    # And as a pass has tokens for, which schedules the drafts with one more (scheduler.py).
    most = min(row["running"], row["tokens"] // (1 + row["drafts"]))
    assert min(limits["drafted tokens"], limits["running"]) == most


@pytest.mark.parametrize(
    ("kind", "requests"),
    # config/speculative.py, max_num_new_slots_for_drafting: its table, for K = 7.
    [("eagle3", 2048 // 8), ("p_eagle", 2048 // (8 + 6)), ("mtp", 2048 // 8), ("ngram", 2048 // 8),
     ("model,config=Qwen/Qwen3-0.6B", 2048 // (8 + 1)),
     ("pard,config=Qwen/Qwen3-0.6B", 2048 // (8 + 7))],
)  # fmt: skip
def test_vllm_schedules_what_a_drafter_takes_of_a_pass(kind: str, requests: int) -> None:
    told: dict[str, Any] = {"verify": 8, "chunk": 2048, "running": 1024, "chip": LARGE}
    found = room("Qwen/Qwen3-8B", "vllm", f"{kind},accept=0.8", **told).room
    assert found.limits["drafted tokens"] == requests
    told["running"] = requests  # a pass has tokens for all of them
    kept = room("Qwen/Qwen3-8B", "vllm", f"{kind},accept=0.8", **told).room
    assert kept.limits.keys() == {"cache", "running"}


@given(st.integers(0, 1100), st.booleans())
def test_captured_batches_rise_up_to_the_largest(most: int, drafting: bool) -> None:
    sizes = pools.captured_sizes(most, SGLANG, drafting=drafting)
    assert sizes == sorted(set(sizes))
    assert sizes[-1:] == ([most] if most else [])
