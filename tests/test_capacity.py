"""How many requests a server runs, counted by hand for each kind of model and server."""

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import specroof
from commands import answered
from specroof import (
    Architecture,
    Options,
    Placement,
    capacity,
    load_drafter,
    load_hardware,
    load_model,
)
from specroof.architecture.attention import GroupedQueryAttention
from specroof.architecture.model import Block
from specroof.errors import OptionError
from specroof.frameworks import FRAMEWORKS as MANY
from specroof.frameworks import LOCAL_FRAMEWORKS, release
from specroof.hardware.engine import EngineProfile, ServerSettings
from specroof.hardware.profile import HardwareProfile
from specroof.latency.setup import Deployment, Setup, engine_setup
from specroof.parsers import parse_config
from specroof.serving.blocks import _lookahead, padded_layers
from specroof.serving.capacity import ServedRoom, in_server, prefill_rules, served_room
from specroof.serving.pools import vision_factor
from specroof.serving.room import draft_footprint
from specroof.serving.served import reserved_len
from specroof.serving.workload import Load, Workload, trace
from tables import present, refusal, rows

FRAMEWORKS = (*MANY, *LOCAL_FRAMEWORKS, "ideal")

MIB, GIB = 2.0**20, 2.0**30
#: A chip of 80 GiB that no rule knows by name.
CHIP = replace(
    load_hardware("h100"), name="a chip", usable_memory_bytes=80 * GIB,
    peak=replace(load_hardware("h100").peak, memory_bytes=80 * GIB),
)  # fmt: skip


def room(
    model: str | Architecture,
    framework: str,
    drafter: str | None = None,
    *,
    context: Any = 4096,
    verify: Any = 1,
    chip: HardwareProfile = CHIP,
    placement: Placement | None = None,
    options: Options | None = None,
    version: str | None = None,
    **told: Any,
) -> ServedRoom:
    setup = Setup(
        chip, EngineProfile(name=framework), placement or Placement(), options or Options()
    )
    served = load_model(model) if isinstance(model, str) else model
    return served_room(
        Deployment(served, in_server(served, setup, ServerSettings(**told), version)),
        context_len=context,
        drafter=None if drafter is None else load_drafter(drafter),
        verify_len=verify,
    )


def largest(*words: Any, **told: Any) -> int:
    return int(room(*words, **told).largest_batch)


# Memory of a server of 80 GiB. SGLang (memory_hook.py, handle_gpu_memory_settings): chunk 8192,
# 256 sequences captured; 512 + 1.5 * 8192 + 1024 / 8 + 2 * 256 = 13440 MiB, and 8 MiB for each of
# the 58 captured prefills (1536 MiB in all with latent attention). The share is of what a CUDA
# context leaves (kv_cache_configurator.py, _profile_available_bytes): 0.4 GiB less, as H100 logs.
FREE = 79.6 * GIB
SGLANG = round((80 * 1024 - 13440 - 8 * 58) / (80 * 1024), 3) * FREE
SGLANG_LATENT = round((80 * 1024 - 13440 - 1536) / (80 * 1024), 3) * FREE
# vLLM (config/cache.py): 0.92. Graphs up to 512 tokens: 1, 2, 4, 31 by eight, 17 by sixteen.
VLLM = 0.92 * 80 * GIB - 51 * 8 * MIB


def peak(hidden: int, inner: float, vocab: int) -> float:
    return 2 * 8192 * (4 * hidden + 2 * inner) + 8 * 1024 * vocab


@pytest.mark.parametrize(
    ("model", "devices", "weight_bytes", "context", "cell", "sglang", "busy"),
    [
        # 36 layers of 8 heads * 128 * 2 * 2 bytes; nothing is for images.
        ("Qwen/Qwen3-8B", 1, 2 * 8.19e9, 4096, 36 * 8 * 128 * 4, SGLANG, (4096, 12288, 151936)),
        # 27 layers of 512 + 64 elements, which one device does not repeat. Experts: six of 1408
        # for each token, and the first layer's 10944 are more.
        ("deepseek-ai/DeepSeek-V2-Lite", 1, 2 * 15.7e9, 65536, 27 * 576 * 2, SGLANG_LATENT,
         (2048, 10944, 102400)),
        # 48 layers of 4 heads * 128 * 2 * 2 bytes, and eight experts of 768 for each token, over
        # two devices, of which the peer of each takes 0.2 GiB.
        ("Qwen/Qwen3-30B-A3B", 2, 30.5e9, 4096, 48 * 4 * 128 * 4 / 2,
         round((80 * 1024 - 13440 - 128 - 8 * 58) / (80 * 1024), 3) * (FREE - 0.2 * GIB),
         (2048, 8 * 768 / 2, 151936)),
    ],
)  # fmt: skip
def test_a_pool_of_tokens_is_what_weights_and_passes_leave(
    model: str, devices: int, weight_bytes: float, context: int, cell: float, sglang: float,
    busy: tuple[int, float, int],
) -> None:  # fmt: skip
    placed: dict[str, Any] = {"context": context, "placement": Placement(tensor_parallel=devices)}
    found = room(model, "sglang", **placed)
    weights = found.need.target.weight_bytes
    assert weights == pytest.approx(weight_bytes, rel=0.01)
    assert found.room.reserved_bytes == pytest.approx(80 * GIB - sglang, rel=1e-12)
    assert found.room.state_bytes == 0
    # pool_configurator.py, DefaultPoolConfigurator; a token more is allocated for each request.
    assert found.largest_batch == (sglang - weights) // cell // (context + 1)
    # kv_cache_utils.py: blocks of 16 tokens.
    found = room(model, "vllm", **placed)
    pool = VLLM - weights - peak(*busy)
    assert found.room.cache_pool_bytes == pytest.approx(pool, rel=1e-12)
    assert found.largest_batch == pool // (context * cell)


def test_hybrid() -> None:
    # Qwen3-Next-like sizes of Qwen3.5-4B: 24 layers with 32 states of 128 x 128 in float32 and
    # three columns of 8192 channels; 8 layers of 4 heads * 256.
    state, cell = 24 * (32 * 128 * 128 * 4 + 3 * 8192 * 2), 8 * 4 * 256 * 2 * 2
    need = room("Qwen/Qwen3.5-4B", "sglang").need
    assert need.target.state_bytes == state
    weights = need.weight_bytes
    # A tower of the size that is taken for granted: 0.95, and 100 MiB of images
    # (memory_hook.py, adjust_mem_fraction_for_vlm; kv_cache_configurator.py).
    rest = 0.95 * SGLANG - 100 * MIB - weights
    pool = rest * 0.9 / 1.9
    slots = (pool - state) // state
    assert largest("Qwen/Qwen3.5-4B", "sglang") == slots // 5
    # With 4 positions (kv_cache_configurator.py, _handle_max_mamba_cache), the head's own weights.
    spec = room("Qwen/Qwen3.5-4B", "sglang", "mtp,accept=0.8", verify=4, running=400)
    head = present(spec.need.draft).weight_bytes
    frac = 0.95 * SGLANG  # 256 sequences are captured whatever runs
    pool = (frac - 100 * MIB - weights - head) * 0.9 / 1.9
    slots = (pool - state * 5) // (state * (1 + 4 / 5))
    assert spec.largest_batch == slots // 5
    assert spec.room.state_bytes == (5 + 4) * state
    # vLLM (interface.py, _align_hybrid_block_size): a block of one attention layer (4096 bytes a
    # token) holds the state of one layer, 2146304 bytes: 576 tokens, steps of the 64 at which
    # FlashInfer's prompts export states (get_mamba_prefill_checkpoint_alignment).
    block = 576
    assert block - 64 < state / 24 / (cell / 8) <= block
    one = -(-4096 // block) * block * cell + 24 * block * cell / 8
    pool = VLLM - weights - peak(2560, 9216, 248320)
    assert largest("Qwen/Qwen3.5-4B", "vllm") == pool // one
    # compilation.py: max_num_seqs exceeds available Mamba cache blocks, each of 8 layers.
    assert room("Qwen/Qwen3.5-4B", "vllm").room.most_started == pool // (block * cell)


@pytest.mark.parametrize(
    ("model", "tokens", "told"),
    # One layer of Qwen3.5-4B in 525 tokens (2146304 / 4096), in steps of 64 where FlashInfer's
    # prompts export states and prefixes are cached, else of 16.
    [("Qwen/Qwen3.5-4B", 576, {}), ("Qwen/Qwen3.5-4B", 576, {"chip": load_hardware("rtx-pro-6000")}),
     ("Qwen/Qwen3.5-4B", 528, {"chip": load_hardware("l40s")}),
     ("Qwen/Qwen3.5-4B", 528, {"prefix_cache": False}), ("Qwen/Qwen3.5-4B", 528, {"version": "0.28"})],
)  # fmt: skip
def test_blocks_of_states_are_multiples_of_where_prompts_export_them(
    model: str, tokens: int, told: dict[str, Any]
) -> None:
    # 24 layers with a state each, padded to the bytes of a block of one attention layer.
    assert room(model, "vllm", **told).room.state_bytes == 24 * tokens * 4096


def test_vllm_is_told_no_more_requests_than_its_cache_has_blocks_for_states() -> None:
    # Qwen3.5-27B: 16 layers of 4 heads * 256 and 48 with 48 states of 128 x 128 in float32 and
    # three columns of 10240 channels: 832 tokens of 4096 bytes hold one, in steps of 64.
    state, cell = 48 * 128 * 128 * 4 + 3 * 10240 * 2, 4 * 256 * 2 * 2
    assert 768 * cell < state <= 832 * cell
    found = room("Qwen/Qwen3.5-27B", "vllm", chip=chip_of(80))
    pool = float(found.room.cache_pool_bytes)
    assert found.room.most_started == pool // (16 * 832 * cell) < found.server.running  # type: ignore[operator]
    assert found.lowered_running == 256
    assert "--server running=256" in found.notes[-1]
    told: dict[str, Any]
    usual: dict[str, Any] = {"chip": chip_of(80)}
    for told in ({"running": 1024}, {"capture": 0}, {"version": "0.19"}, {"chip": chip_of(400)}):
        assert room("Qwen/Qwen3.5-27B", "vllm", **usual | told).lowered_running is None


def test_windows() -> None:
    # gpt-oss-20b: 12 layers of all tokens and 12 of 128; 8 heads * 64 * 2 * 2 bytes.
    need = room("openai/gpt-oss-20b", "sglang").need
    weights, cell = need.target.weight_bytes, 12 * 8 * 64 * 2 * 2
    # pool_configurator.py, HybridSWAPoolConfigurator: 0.8 tokens of a window for each other one.
    tokens = (SGLANG - weights) // (cell * 1.8)
    assert largest("openai/gpt-oss-20b", "sglang", context=32768) == tokens // 32769
    # A request keeps its window, 128 tokens until they are dropped, a page and what is ahead.
    limits = room("openai/gpt-oss-20b", "sglang", context=32768).room.limits
    assert limits["windows"] == np.floor(0.8 * tokens) / (128 + 128 + 1 + 1)
    # kv_cache_interface.py, SlidingWindowSpec: 127 tokens back, anywhere in a block: 9 blocks.
    one = (2048 + 9) * 16 * cell
    # Four experts of 2880 for each token. GptOssForCausalLMConfig: 83 graphs, not 51.
    pool = VLLM - (83 - 51) * 8 * MIB - weights - peak(2880, 4 * 2880, 201088)
    # Of a prompt that starts, two passes of 8192 and the window: 1032 blocks, anywhere in one more.
    more = (1033 - 9) * 16 * cell
    found = room("openai/gpt-oss-20b", "vllm", context=32768).room
    assert found.cache_bytes == one
    assert found.limits["prompts"] == pytest.approx((pool - more) / one)
    # Without overlap one pass and the window, 520 blocks; of three stages four passes.
    stages: dict[str, Any] = {"placement": Placement(1, pipeline_parallel=3)}
    older: dict[str, Any] = {"version": "0.24"}  # of which one pass is held in any case
    for passes, layers, told in ((1, 12, {"overlap": False}), (4, 12 / 3, stages), (1, 12, older)):
        found = room("openai/gpt-oss-20b", "vllm", context=65536, **told).room
        held = (512 * passes + 8 + 1 - 9) * 16 * layers * 8 * 64 * 2 * 2
        left = (found.cache_pool_bytes - held) / found.cache_bytes
        assert found.limits["prompts"] == pytest.approx(left)


@pytest.mark.parametrize(
    ("model", "windows", "blocks", "lengths", "held"), rows("values", "window_blocks")
)
def test_windows_hold_the_whole_of_a_prompt_that_starts(
    model: str, windows: int | None, blocks: int, lengths: tuple[int, int], held: int
) -> None:
    # What vLLM 0.33.0's ``AsyncScheduler`` held with so many blocks, 32 or 64 waiting, driven on a
    # CPU in passes of 8192 tokens: most at a time; 16 of (1024, 1024) are the mean, as answers that
    # outgrow the blocks are preempted there.
    served = load_model(model)
    if windows is not None:
        served = windowed(served, windows)
    request = Workload(*lengths)

    def found(gib: float) -> ServedRoom:
        setup = engine_setup(chip_of(gib), "vllm", None, None)
        told = ServerSettings(running=256, chunk=8192, prefix_cache=False)
        return served_room(
            Deployment(served, in_server(served, setup, told)),
            context_len=request.mean_context_len,
            prompt_len=request.new_len,
        )

    # A block is of one group's layers: what memory is left makes so many.
    target = found(200).need.target
    layers = target.n_cached or target.n_windowed // 2
    token = (target.token_bytes + target.window_token_bytes) / (target.n_cached + target.n_windowed)
    short = blocks * 16 * layers * token - float(found(200).room.cache_pool_bytes)
    assert found(200 + short / 0.92 / GIB + 1e-6).largest_batch == held


def windowed(model: Architecture, window: int) -> Architecture:
    def block_of(block: Block) -> Block:
        if isinstance(block.core, GroupedQueryAttention) and not block.core.window:
            return replace(block, core=replace(block.core, window=window))
        return block

    layers = [replace(layer, blocks=tuple(map(block_of, layer.blocks))) for layer in model.layers]
    return replace(model, layers=tuple(layers))


def test_windows_of_two_lengths_are_held_each() -> None:
    # 18 layers of 128 and 18 of 8194, 9 and 514 blocks: 8 heads * 64 * 2 * 2 bytes a token.
    two = room(windowed(load_model("openai/gpt-oss-120b"), 8194), "vllm", context=32768)
    assert two.need.target.windows == dict.fromkeys((128, 8194), (18, 18 * 8 * 64 * 2 * 2))
    assert two.room.cache_bytes == (9 + 514) * 16 * 18 * 8 * 64 * 2 * 2
    # SGLang keeps all windows as the longest: 128 tokens more, a page and what is ahead.
    pools = room(two.need.model, "sglang", context=32768, chip=chip_of(200)).room
    assert pools.cache_bytes == (8194 + 128 + 1 + 1) * 36 * 8 * 64 * 2 * 2
    tokens = float(pools.cache_pool_bytes) // (36 * 8 * 64 * 2 * 2)  # all layers have windows
    assert pools.limits["cache"] == tokens / 32769
    assert "windows" not in pools.limits
    # Where other workers compute prompts, none of one is held.
    decodes = replace(engine_setup(chip_of(200), "vllm", None, None), decodes_only=True)
    assert served_room(Deployment(two.need.model, decodes), context_len=32768).need.prompt_len == 0


def test_a_pool_of_decode_workers_is_for_rounds() -> None:
    # 100 GiB, 256 sequences in graphs: 512 + 1.5 * 2048 + 128 + 512 MiB are less than the 10 GiB
    # that stay free; with 64 positions of a round 512 + 1.5 * 256 * 64 + 128 + 512. No tower.
    model, chip = load_model("Qwen/Qwen3.5-4B"), chip_of(100)
    setup = replace(engine_setup(chip, "sglang", None, None), decodes_only=True)
    found = served_room(Deployment(model, setup), context_len=4096)
    assert (found.server.memory_frac, found.server.prefix_cache) == (0.9, False)
    # A request has one state, not five.
    assert found.room.state_bytes == found.need.target.state_bytes
    long = served_room(
        Deployment(model, setup), context_len=4096, verify_len=64,
        drafter=load_drafter("mtp,accept=0.8"),
    )  # fmt: skip
    assert long.server.memory_frac == round(1 - (512 + 24576 + 128 + 512) / 102400, 3)
    # Each length keeps what it needs: 8 positions of 256 requests are 2048 tokens.
    both = served_room(
        Deployment(model, setup), context_len=4096, verify_len=[8, 64],
        drafter=load_drafter("mtp,accept=0.8"),
    ).room  # fmt: skip
    (more,) = np.diff(both.reserved_bytes) / 2**20
    assert more == pytest.approx((0.9 - long.server.memory_frac) * (102400 - 0.4 * 1024))
    # The block of DFlash is told otherwise: its positions are not known yet (memory_hook.py:287).
    block = served_room(
        Deployment(load_model("Qwen/Qwen3-8B"), setup), context_len=4096, verify_len=64,
        drafter=load_drafter("dflash,accept=0.8"),
    )  # fmt: skip
    assert block.server.memory_frac == 0.9
    # 0.5.14 knows no workers, and captures no prefills on one: 1.5 * 8192, and a share for images.
    older = in_server(model, setup, ServerSettings(), "0.5.14")
    before = served_room(Deployment(model, older), context_len=4096).server
    whole = round(1 - (512 + 12288 + 128 + 512) / 102400, 3)
    assert before.memory_frac == whole * vision_factor(present(model.vision), older.release)  # type: ignore[arg-type]
    assert not before.prefix_cache


def test_windows_of_a_decode_worker_hold_no_chunk() -> None:
    # 12 layers of all tokens and 12 of windows of 128, 128 tokens more, a page and one ahead.
    model, chip = load_model("openai/gpt-oss-20b"), chip_of(100)
    setup = replace(engine_setup(chip, "sglang", None, None), decodes_only=True)
    inside = in_server(model, setup, ServerSettings(running=20))
    found = served_room(Deployment(model, inside), context_len=4096).room
    layer = 8 * 64 * 2 * 2
    left = float(found.cache_pool_bytes) - 20 * (128 + 128 + 1 + 1) * 12 * layer
    assert found.limits["cache"] == left // (12 * layer) / 4097


def test_llama_cpp_leaves_a_gibibyte_free() -> None:
    # Besides the logits of what four slots verify: 1 token of each, then 4.
    for drafter, positions in ((None, 1), ("ngram,accept=0.8", 4)):
        found = room("Qwen/Qwen3-8B", "llama.cpp", drafter, verify=positions)
        kept = GIB + 4 * 4 * positions * 151936
        assert found.room.cache_pool_bytes == 80 * GIB - found.need.weight_bytes - kept
    mlx = room("Qwen/Qwen3-8B", "mlx").room
    assert float(np.asarray(mlx.reserved_bytes)) == 4 * 32 * 151936


def test_a_cache_of_prefixes_without_a_buffer_schedules_no_step_ahead() -> None:
    chip = load_hardware("h100")
    for name, prefixes, overlaps, slots in (
        ("Zyphra/ZAYA1-8B", None, False, 3),
        ("Zyphra/ZAYA1-8B", False, True, 1),
        ("Qwen/Qwen3.5-4B", None, True, 5),
    ):
        told = ServerSettings(prefix_cache=prefixes)
        setup = in_server(load_model(name), engine_setup(chip, "sglang", None, None), told)
        assert setup.engine.overlap is overlaps
        found = room(name, "sglang", prefix_cache=prefixes)
        assert found.server.overlap is overlaps
        assert found.room.state_bytes == slots * found.need.target.state_bytes


def test_sglang_caches_muse_spark_in_fp8() -> None:
    model = load_model("meta-models/Muse-Spark-Open-816B-A42B")
    for framework, options, width in (
        ("sglang", None, 1), ("sglang", Options(kv_dtype="bf16"), 2), ("vllm", None, 2),
    ):  # fmt: skip
        target = room(model, framework, options=options, chip=chip_of(2000)).need.target
        # 62 layers of 16 KV heads of 64.
        every = target.token_bytes + target.window_token_bytes
        assert every == 62 * 2 * 16 * 64 * width


def test_chunks_of_attention_are_windows_where_a_server_drops_them() -> None:
    # Llama 4 Scout: 36 layers of chunks of 8192, 12 of all; 8 heads * 128 * 2 * 2 bytes.
    need = room("meta-llama/Llama-4-Scout-17B-16E", "sglang", chip=chip_of(400)).need
    cell = 8 * 128 * 2 * 2
    assert (need.target.token_bytes, [*need.target.windows]) == (12 * cell, [8192])
    assert need.target.window_token_bytes == 36 * cell
    # vLLM manages them as layers of all tokens (config/vllm.py, attention_chunk_size).
    four = Placement(tensor_parallel=4)
    found = room("meta-llama/Llama-4-Scout-17B-16E", "vllm", context=65536, placement=four)
    assert found.room.cache_bytes == 65536 * 48 * cell / 4
    # Its images are not read unless asked for: nothing is kept for them (model_config.py).
    server = room("meta-llama/Llama-4-Scout-17B-16E", "sglang", chip=chip_of(150)).server
    assert server.memory_frac == round((150 * 1024 - 13440 - 8 * 58) / (150 * 1024), 3)


def test_compressed_entries() -> None:
    model = load_model("deepseek-ai/DeepSeek-V4-Flash")
    eight = Placement(tensor_parallel=8)
    # vLLM's own planner, 0.33.0, with the caches of both models (kv_cache_planning.py,
    # get_kv_cache_groups): the widest group has all entries, two groups have the windows, one each
    # the rings of layers that merge 4 and 128. Behind a window lie 3 blocks of 64 or of 4 tokens,
    # and 17 of 8; beside two passes of 8192 tokens 259, 4099 and 2065.
    for name, width in (("Flash", 1002240), ("Pro", 1435968)):
        other = load_model(f"deepseek-ai/DeepSeek-V4-{name}")
        found = room(other, "vllm", placement=eight, context=32768).room
        assert found.cache_bytes == (128 + 2 * 3 + 3 + 17) * width
        assert found.state_bytes == 0
        more = 2 * (259 - 3) + 4099 - 3 + 2065 - 17
        assert found.limits["prompts"] == pytest.approx(found.limits["cache"] - more / 154)
    half = room(model, "vllm", placement=Placement(pipeline_parallel=2), context=32768).room
    assert half.cache_bytes == pytest.approx(154 * 1002240 * 22 / 43)  # layers of a stage
    # SGLang: of 43 layers 21 have an entry of 584 bytes and a key of 132 for four tokens, and 20 an
    # entry for 128. A tenth of the tokens has one of 584 bytes in all layers, and 8 rows of four
    # vectors of 512 and of 128 for a page of 256 in the 21; 128 rows of two of 512 in the 20 layers
    # for 256 requests, one and a pad. With drafts there are 44 layers, and rings are twice as long.
    for spec, verify, longer, grown, held in (
        (None, 1, 1, 1.0, 4097), ("mtp,accept=0.8", 4, 2, 44 / 43, 4096 + 2 * 4),
    ):  # fmt: skip
        pools = room(model, "sglang", spec, placement=eight, verify=verify).room
        whole = grown * (21 * (584 + 132) / 4 + 20 * 584 / 128)
        part = grown * (43 * 584 + longer * 21 * 8 * 4 * (4 * 512 + 4 * 128) / 256)
        left = float(pools.cache_pool_bytes) - 258 * longer * 20 * 128 * 2 * 512 * 4
        tokens = left // (whole + 0.1 * part)
        assert pools.limits["cache"] == pytest.approx(tokens / held, rel=1e-6)
        behind = 128 + 128 * verify + 256 + held - 4096
        assert pools.limits["windows"] == pytest.approx(tokens // 10 / behind, rel=1e-6)


def test_the_cache_of_a_drafter() -> None:
    # 36 layers of 4096 bytes. SGLang prices EAGLE's one layer as the target's, and DFlash's five
    # as they are (pool_configurator.py, DefaultPoolConfigurator): 8 positions ahead, twice.
    cell = 8 * 128 * 2 * 2
    eagle = room("Qwen/Qwen3-8B", "sglang", "eagle3,accept=0.8", verify=8)
    assert eagle.room.cache_bytes == (4096 + 16) * 37 * cell
    flash = room("Qwen/Qwen3-8B", "sglang", "dflash,accept=0.8", verify=8)
    assert flash.room.cache_bytes == (4096 + 16) * 41 * cell
    small = room("Qwen/Qwen3-8B", "sglang", "model,config=Qwen/Qwen3-0.6B,accept=0.8", verify=8)
    assert small.room.cache_bytes == (4096 + 16) * (36 + 28) * cell
    # vLLM: 7 drafts ahead, one more with DFlash (config/vllm.py, num_lookahead_tokens).
    for spec, layers, blocks in (("eagle3", 37, 257), ("dflash", 41, 258), ("ngram", 36, 257)):
        # 4098 tokens, 7 drafts of a verification and 7 ahead fill 257 blocks.
        found = room("Qwen/Qwen3-8B", "vllm", f"{spec},accept=0.8", verify=8, context=4098)
        assert found.room.cache_bytes == blocks * 16 * layers * cell


def test_the_weights_of_a_drafter() -> None:
    target = load_model("Qwen/Qwen3-8B")
    for spec in ("mtp", "eagle3", "dflash", "dspark", "medusa"):
        head = present(load_drafter(f"{spec},accept=0.8").held(target).head)
        draft = draft_footprint(head, Placement())
        # Layers, merging matrices, tables and heads of its own, in bf16; norms are not stored.
        assert draft.weight_bytes == pytest.approx(2 * head.n_params, rel=1e-4)
        twice = draft_footprint(replace(head, modules=2), Placement())
        assert twice.token_bytes == 2 * draft.token_bytes
        both = 2 * replace(head, modules=2).n_params
        assert twice.weight_bytes == pytest.approx(both, rel=1e-4)


def test_tensorrt_llm_takes_a_share_of_what_is_free() -> None:
    spec = room("Qwen/Qwen3-8B", "tensorrt-llm", "eagle3,accept=0.8", verify=4).room
    assert spec.cache_bytes == (4096 + 4) * 37 * 4096
    # 0.9 of what weights and a pass with 2048 requests leave; prompts taken whole are as long as
    # passes are by default.
    for chunk, tokens in ((None, 8192), (0, 8192), (512, 512)):
        busy = 2 * tokens * (4 * 4096 + 2 * 12288) + 8 * min(2048, tokens) * 151936
        found = room("Qwen/Qwen3-8B", "tensorrt-llm", chunk=chunk)
        pool = 0.9 * (80 * GIB - found.need.weight_bytes - busy)
        assert found.room.cache_pool_bytes == pytest.approx(pool, rel=1e-12)
        assert found.largest_batch == pool // (4097 * 36 * 4096)
    server = room("Qwen/Qwen3-8B", "tensorrt-llm").server
    assert (server.running, server.chunk, server.capture, server.overlap) == (2048, 8192, 128, True)


@pytest.mark.long
@pytest.mark.parametrize("framework", FRAMEWORKS)
@pytest.mark.parametrize(
    "model", ["Qwen/Qwen3-8B", "Qwen/Qwen3.5-4B", "openai/gpt-oss-20b", "google/gemma-3-4b-it"]
)
@settings(max_examples=20, deadline=None)
@given(context=st.integers(16, 100_000), more=st.integers(1, 50_000), drafts=st.integers(1, 14))
def test_longer_contexts_and_drafts_leave_room_for_fewer(
    framework: str, model: str, context: int, more: int, drafts: int
) -> None:
    contexts = np.array([[context], [context + more]])
    verify = np.array([drafts + 1.0, drafts + 2.0])
    served = room(model, framework, "mtp,accept=0.8", context=contexts, verify=verify)
    found, limits = served.largest_batch, served.room.limits
    assert np.all(found[0] >= found[1])
    if "state" in limits:
        # SGLang's whole slots leave a remainder, which goes to the cache: with more drafts there
        # may be room for the tokens of one more request, never for its states.
        states = limits["state"]
        assert np.all(states[..., 0] >= states[..., 1])
    elif framework != "vllm":  # sizes of other passes are captured, and graphs take memory
        assert np.all(found[:, 0] >= found[:, 1])


def chip_of(gib: float) -> HardwareProfile:
    peak = replace(CHIP.peak, memory_bytes=gib * GIB)
    return replace(CHIP, peak=peak, usable_memory_bytes=gib * GIB)


def test_defaults_limit_what_runs_while_drafting() -> None:
    short: dict[str, Any] = {"context": 64, "verify": 4}
    assert largest("Qwen/Qwen3-0.6B", "sglang", "mtp,accept=0.8", **short) == 48
    assert largest("Qwen/Qwen3-0.6B", "sglang", context=64) == 2048
    assert largest("Qwen/Qwen3-0.6B", "vllm", "mtp,accept=0.8", **short) == 1024
    told: dict[str, int] = {"tensor_parallel": 8, "attention_data_parallel": 8}
    v4 = "deepseek-ai/DeepSeek-V4-Flash"
    assert largest(v4, "sglang", placement=Placement(**told), context=64) == 256
    assert largest(v4, "sglang", "dspark,accept=0.8", placement=Placement(**told), **short) == 256
    deep = room("Qwen/Qwen3-0.6B", "vllm", "dflash,accept=0.8", context=64, verify=16)
    assert deep.room.bound_by == "drafted tokens"
    one = room("Qwen/Qwen3-0.6B", "vllm", "dspark,accept=0.8", context=64, verify=2).room
    assert one.limits["drafted tokens"] == 8192 // 2


def test_a_state_has_one_dtype() -> None:
    full, half = (
        room("Qwen/Qwen3.5-4B", "sglang", state_dtype=dtype).need.target.state_bytes
        for dtype in (None, "bf16")
    )
    assert half == full - 24 * 32 * 128 * 128 * 2  # columns of the convolution stay
    with pytest.raises(OptionError, match="state-dtype is 'bf16' and --state-dtype 'fp32'"):
        room("Qwen/Qwen3.5-4B", "sglang", state_dtype="bf16", options=Options(state_dtype="fp32"))


def test_a_state_that_no_config_states_is_in_the_format_of_the_server() -> None:
    # mamba_utils.py of both: vLLM takes the dtype of the model, SGLang float32.
    full, half = (
        room("Qwen/Qwen3-Next-80B-A3B-Instruct", name).need.target.state_bytes
        for name in ("sglang", "vllm")
    )
    assert (full, half) == tuple(36 * (32 * 128 * 128 * size + 3 * 8192 * 2) for size in (4, 2))
    stated = room("Qwen/Qwen3.5-4B", "vllm").need.target.state_bytes
    assert stated == room("Qwen/Qwen3.5-4B", "sglang").need.target.state_bytes


@pytest.mark.parametrize(
    ("model", "server", "chip", "placement", "allowed"), rows("values", "whole_blocks")
)
def test_devices_do_not_cut_blocks_of_fp8_weights(
    model: Any, server: str, chip: str, placement: dict[str, int], allowed: str | None,
    model_configs_folder: Path,
) -> None:  # fmt: skip
    asked: dict[str, Any] = {"framework": server, "context_len": 64, **placement}
    if "with" in model:
        name, _, width = model.split()
        path = model_configs_folder / f"{name.replace('/', '--')}.json"
        config = json.loads(path.read_text()) | {"moe_intermediate_size": int(width)}
        model = parse_config(json.dumps(config), source="a config")
    if allowed is None:
        assert specroof.capacity(model, chip, **asked).rows
    else:
        assert refusal(OptionError, specroof.capacity, model, chip, **asked).endswith(allowed)


def test_windows_without_a_pool_of_their_own_take_all_tokens() -> None:
    # SGLang keeps Gemma 3's windows as long as the context (model_overrides/gemma2_gemma3.py).
    need = room("google/gemma-3-4b-it", "sglang").need
    whole = need.target.token_bytes + need.target.window_token_bytes
    assert room("google/gemma-3-4b-it", "sglang").room.cache_bytes == 4097 * whole


def test_a_pool_of_windows_is_as_large_as_its_requests_need() -> None:
    # pool_configurator.py, compute_swa_request_cap: a window of 128, 128 tokens for each position
    # of a verification, one of a page, and what is allocated ahead: two verifications with
    # overlap, one without; besides two chunks of 8192 or one, and a page.
    layer = 8 * 64 * 2 * 2
    told: dict[str, Any] = {"prefix_cache": False, "running": 20}
    for drafter, verify, overlap, each, once in (
        (None, 1, True, 128 + 128 + 1 + 1, 2 * 8192 + 1),
        ("mtp,accept=0.8", 4, True, 128 + 4 * 128 + 1 + 8, 2 * 8192 + 1),
        ("mtp,accept=0.8", 4, False, 128 + 4 * 128 + 1 + 4, 8192 + 1),
    ):
        words = ("openai/gpt-oss-20b", "sglang", drafter)
        found = room(*words, verify=verify, overlap=overlap, **told).room
        ahead = verify * (2 if drafter and overlap else 1)
        # 12 layers of all tokens, and that of the drafter; 12 of a window.
        cell = layer * (13 if drafter else 12)
        tokens = (found.cache_pool_bytes - (20 * each + once) * 12 * layer) // cell
        assert found.limits["cache"] == pytest.approx(tokens / (4096 + ahead), rel=1e-12)
        assert found.cache_bytes == (4096 + ahead) * cell + each * 12 * layer
        assert "windows" not in found.limits


@pytest.mark.parametrize(
    ("drafter", "verify", "runs"),
    [(None, 1, (1024, "running")), ("ngram,accept=0.5", 16, (8192 // 16, "drafted tokens"))],
)
def test_a_request_without_a_context_has_one_block_of_the_cache(
    drafter: str | None, verify: int, runs: tuple[int, str]
) -> None:
    # 16 tokens (vllm) of 36 layers of keys and values, 8 heads of 128 in bf16.
    found = room("Qwen/Qwen3-8B", "vllm", drafter, context=0, verify=verify)
    assert found.room.cache_bytes == 16 * 147_456
    assert (int(found.largest_batch), str(found.room.bound_by)) == runs


def test_a_verification_of_part_of_a_position_is_captured_whole() -> None:
    # 16 requests of 2.25 positions, as 3: 2 * 16 * 3 tokens at most (_set_cudagraph_sizes).
    words = ("Qwen/Qwen3-8B", "vllm", "mtp,accept=0.8")
    part, whole = (room(*words, verify=positions, running=16) for positions in (2.25, 3))
    assert part.server.capture == 96
    assert part.room.reserved_bytes == whole.room.reserved_bytes


@pytest.mark.parametrize("framework", ["vllm", "tensorrt-llm", "llama.cpp"])
@pytest.mark.parametrize(("chunk", "shares"), [(0, False), (1, True), (512, True)])
def test_prompts_in_one_piece_share_no_pass(framework: str, chunk: int, shares: bool) -> None:
    found = room("Qwen/Qwen3-8B", framework, chunk=chunk, mixed=True)
    assert prefill_rules(Deployment(found.need.model, found.setup)).shares_passes == shares


def test_layers_of_vllm_are_held_in_groups_of_one_size() -> None:
    # Gemma 3: 5 of 34 layers see all, 29 a window of 1024 in groups of 5, so 30 are held.
    found = room("google/gemma-3-4b-it", "vllm")
    target = found.need.target
    assert (target.n_cached, target.n_windowed) == (5, 29)
    one = target.token_bytes * 256 + target.window_token_bytes / 29 * 30 * 65
    assert found.room.cache_bytes == pytest.approx(16 * one, rel=1e-12)
    # A drafter's 16 layers of 8 heads * 64 * 2 * 2 bytes are not alike, and join no group: 4096
    # tokens, 3 drafts and 3 ahead fill 257 blocks.
    unlike = "model,config=meta-llama/Llama-3.2-1B-Instruct,accept=0.8"
    spec = room("google/gemma-3-4b-it", "vllm", unlike, verify=4).room.cache_bytes
    assert spec == 16 * (4096 * (5 * 257 + 30 * 65) + 2048 * 16 * 257)
    # gpt-oss: 12 layers and 12 windows of 9 blocks, of 2048 bytes. 16 layers of a drafter that are
    # alike make 28, held as 36; 28 of 4096 join no group.
    for name, frac, bytes_drafted in (("meta-llama/Llama-3.2-1B-Instruct", 36 / 28, 16 * 2048),
                                      ("Qwen/Qwen3-0.6B", 1, 28 * 4096)):  # fmt: skip
        words = ("openai/gpt-oss-20b", "vllm", f"model,config={name},accept=0.8")
        cache = room(*words, verify=4).room.cache_bytes
        blocks = 12 * 2048 * (257 * frac + 9) + bytes_drafted * 257
        assert cache == pytest.approx(16 * blocks, rel=1e-12)
    # Qwen3.5-4B: 8 layers with a cache, one of MTP alike: groups of 9, and 24 states become 27.
    plain, drafting = (
        room("Qwen/Qwen3.5-4B", "vllm", drafter, verify=verify).room.state_bytes
        for drafter, verify in ((None, 1), ("mtp,accept=0.8", 2))
    )
    assert drafting == pytest.approx(plain * 2 * 27 / 24)
    # Alike below one and a half times as many (v1/core/kv_cache_planning.py,
    # _get_kv_cache_groups_uniform_page_size).
    assert padded_layers(12, 17, alike=1.5) == (17, 17)
    assert padded_layers(12, 18, alike=1.5) == (12, 24)


def test_the_keys_of_an_indexer_are_fp8_in_a_cache_of_any_dtype() -> None:
    # DeepSeek-V3.2: 61 latents of 576 in bf16, or 656 bytes in fp8; keys of 128 and a scale.
    eight = Placement(tensor_parallel=8)
    for framework in ("sglang", "vllm"):
        found = room("deepseek-ai/DeepSeek-V3.2", framework, "mtp,accept=0.8", placement=eight)
        assert found.need.target.token_bytes == 61 * (1152 + 132)
        assert present(found.need.draft).token_bytes == 1152 + 132
        both = 62 * 4096 * (1152 + 132)
        assert found.room.cache_bytes == pytest.approx(both, rel=5e-3)
    narrow = Options(kv_dtype="fp8")
    found = room("deepseek-ai/DeepSeek-V3.2", "vllm", placement=eight, options=narrow)
    assert found.need.target.token_bytes == 61 * (656 + 132)
    textbook = room("deepseek-ai/DeepSeek-V3.2", "ideal", placement=eight)
    assert textbook.need.target.token_bytes == 61 * (1152 + 256)


@pytest.mark.parametrize(("model", "devices", "share"), rows("values", "attention_of_amd"))
def test_the_attention_of_amd_keeps_a_share_of_sglangs_memory(
    model: str, devices: int, share: float
) -> None:
    for vendor, left in (("nvidia", 1.0), ("amd", share)):
        chip = replace(CHIP, vendor=vendor)
        found = room(model, "sglang", chip=chip, placement=Placement(devices), memory_frac=0.9)
        assert found.server.memory_frac == 0.9 * left


def test_no_more_requests_than_tokens_of_a_pass_run_by_default() -> None:
    # vLLM, engine/arg_utils.py: max_num_seqs is at most max_num_batched_tokens; config/scheduler.py
    # refuses more.
    assert room("Qwen/Qwen3-8B", "vllm", chunk=512).server.running == 512
    few = room("Qwen/Qwen3-8B", "vllm", chunk=64, running=64).server
    assert (few.running, few.capture) == (64, 64)  # nor are more captured
    with pytest.raises(OptionError, match="running is 600; allowed: at most the 512"):
        room("Qwen/Qwen3-8B", "vllm", chunk=512, running=600)
    load: dict[str, int] = {"input_len": 100, "output_len": 50, "concurrency": 300}
    asked: dict[str, Any] = {"drafters": "eagle3,accept=0.7", "server": {"chunk": 256}, **load}
    assert specroof.advise("Qwen/Qwen3-8B", "h100", engine="vllm", **asked).chips[0].raised == {}


def test_groups_of_devices_run_requests_of_their_own() -> None:
    split: dict[str, int] = {"tensor_parallel": 8, "attention_data_parallel": 8}
    one = room("Qwen/Qwen3-30B-A3B", "vllm", placement=Placement(tensor_parallel=8))
    eight = room("Qwen/Qwen3-30B-A3B", "vllm", placement=Placement(**split))
    # Every group has its own attention weights and room for sequences. Over all devices, four KV
    # heads lie there twice.
    assert eight.need.target.token_bytes == 4 * one.need.target.token_bytes
    # In vLLM it has all else whole, too, but experts: an embedding and a head of 151936 * 2048; in
    # 48 layers queries, keys and values, outputs, the router; and an eighth of 128 experts.
    layer = 2048 * (4096 + 2 * 512) + 4096 * 2048 + 2048 * 128
    held = 2 * 151936 * 2048 + 48 * (layer + 128 * 3 * 2048 * 768 / 8)
    assert eight.need.target.weight_bytes == 2 * held
    assert eight.largest_batch == 8 * int(min(eight.room.limits.values()))
    # No device shares the inner width of the eight experts of a token.
    left = 80 * GIB - np.asarray(eight.room.reserved_bytes)
    assert left == pytest.approx(VLLM - peak(2048, 8 * 768, 151936))
    told = room("Qwen/Qwen3-8B", "sglang", placement=Placement(**split), running=20, context=64)
    assert told.largest_batch == 16  # 20 // 8 of each
    few = room("Qwen/Qwen3-8B", "sglang", placement=Placement(**split), running=4, context=64)
    assert few.room.limits["running"] == 1


def test_a_batch_that_fits_nowhere_says_by_how_much() -> None:
    # Of a cache, with states, and with windows that hold the whole of a prompt.
    for model, gib in (
        ("Qwen/Qwen3-32B", 48),
        ("Qwen/Qwen3.5-27B", 48),
        ("openai/gpt-oss-20b", 13),
    ):
        found = room(model, "vllm", chip=chip_of(gib))
        assert found.largest_batch == 0
        short = float(found.room.short_bytes)
        for more, runs in ((-1e-6, 0), (1e-6, 1)):
            chip = chip_of(gib + short / GIB / 0.92 + more)  # vLLM's share
            assert largest(model, "vllm", chip=chip) == runs
    for framework in FRAMEWORKS:
        fits = room("Qwen/Qwen3-8B", framework)
        assert fits.largest_batch > 0
        assert float(fits.room.short_bytes) == 0


@pytest.mark.parametrize(
    ("groups", "prefix_cache", "each", "mode", "context"),
    [(1, True, 9, None, 4096), (1, False, 9, None, 4096), (2, False, 9, None, 4096),
     (2, False, 1, None, 4096), (1, True, 9, "replay", 4096), (1, False, 9, "replay", 4096),
     (1, True, 9, None, 200_000)],
)  # fmt: skip
def test_slots_and_copies_are_what_one_request_lacks(
    groups: int, prefix_cache: bool, each: int, mode: Any, context: int
) -> None:
    words = ("Qwen/Qwen3.5-27B", "sglang", "mtp,accept=0.8")
    told: dict[str, Any] = {"verify": 4, "memory_frac": 0.9, "prefix_cache": prefix_cache}
    if not prefix_cache:
        told |= {"running": (each + 1) * groups - 1}
    told |= {"placement": Placement(groups, attention_data_parallel=groups)}
    told |= {"options": Options(recurrent_state=mode)} if mode else {"context": context}
    need = room(*words, **told).need
    # A context, and the peers of a device, take what SGLang does not find free.
    gib = (need.weight_bytes + need.target.state_bytes) / 0.9 / GIB + 0.4 + 0.2 * (groups - 1)
    found = room(*words, chip=chip_of(gib), **told)
    assert found.largest_batch == 0
    short = float(found.room.short_bytes)
    if not prefix_cache:
        # SGLang holds the states of all requests that a group runs and of one of padding, with a
        # copy for each of 4 positions or what replays it (_handle_max_mamba_cache); 100 MiB are for
        # images.
        pool, cache = float(found.room.state_bytes) * (each + 1), float(found.room.cache_bytes)
        assert mode or pool == need.target.state_bytes * (each + 1) * (1 + 4)
        assert short == pytest.approx(pool + cache + 100 * MIB - need.target.state_bytes)
    elif context > 4096:  # 5 slots, one of padding and a copy for each position, beside the cache
        pool, cache = need.target.state_bytes * (5 + 4 + 1 + 4), float(found.room.cache_bytes)
        assert short == pytest.approx(pool + cache + 100 * MIB - need.target.state_bytes)
        return  # at least: what is left for states is a share of what there is
    for more, runs in ((-0.01, False), (0.01, True)):
        chip = chip_of(gib + short / 0.9 / GIB + more)
        assert (largest(*words, chip=chip, **told) > 0) == runs


def test_memory_limits_a_server_that_has_none_left() -> None:
    # SGLang runs half as many requests as its pool has tokens: of none it is the cache that lacks.
    found = room("Qwen/Qwen3-32B", "sglang", chip=chip_of(48))
    assert (int(found.largest_batch), str(found.room.bound_by)) == (0, "cache")
    cell = 36 * 8 * 128 * 2 * 2
    for frac in (0.9, 0.9 + cell / FREE):  # a token more: one of both pools is odd
        many = room("Qwen/Qwen3-8B", "sglang", context=0, running=10**6, memory_frac=frac)
        pool = float(many.room.cache_pool_bytes) // cell
        assert (int(many.largest_batch), str(many.room.bound_by)) == (pool // 2, "cache")


def test_a_drafter_of_unknown_size_is_said() -> None:
    kinds = ("eagle3", "autoregressive,cost=0.1", "ngram", "suffix")
    known, share, look_up, tree = (
        room("Qwen/Qwen3-8B", "vllm", f"{kind},accept=0.8", verify=4) for kind in kinds
    )
    said = [any("unknown" in note for note in found.notes) for found in (known, share, look_up)]
    assert said == [False, True, False]
    assert share.need.draft is look_up.need.draft is None
    assert known.largest_batch < share.largest_batch
    assert [found.server.overlap for found in (look_up, tree)] == [True, False]


def test_a_drafter_elsewhere_takes_no_memory_here() -> None:
    own = "eagle3,accept=0.8,device=l40s,link=1e9,link-latency=0"
    assert room("Qwen/Qwen3-8B", "vllm", own, verify=4).need.draft is None
    two = Placement(tensor_parallel=2)
    split, single = (
        present(room("Qwen/Qwen3-8B", "vllm", spec, verify=4, placement=two).need.draft)
        for spec in ("eagle3,accept=0.8", "eagle3,accept=0.8,tp=1")
    )
    assert single.token_bytes == 2 * split.token_bytes


def test_whose_rules_an_engine_has() -> None:
    rules = {name: EngineProfile(name=name).rules for name in ("sglang", "generic", "mine")}
    assert rules == {"sglang": "sglang", "generic": "vllm", "mine": "vllm"}
    assert "engine mine is not a server" in " ".join(room("Qwen/Qwen3-8B", "mine").notes)
    assert room("Qwen/Qwen3-8B", "ideal").notes == ()
    stated: dict[str, Any] = {
        "memory_frac": 0.5, "running": 3, "capture": 4, "overlap": False, "chunk": 512,
        "mixed": False, "state_dtype": "bf16", "prefix_cache": False,
    }  # fmt: skip
    for framework in FRAMEWORKS:
        server = room("Qwen/Qwen3-8B", framework, **stated).server
        assert {key: getattr(server, key) for key in stated} == stated
    assert not any("default" in note for note in room("Qwen/Qwen3-8B", "vllm", **stated).notes)


def test_vllm_captures_more_of_gpt_oss() -> None:
    # model_executor/models/config.py, GptOssForCausalLMConfig: 1024, unless the user says else.
    for model, told, most in (
        ("openai/gpt-oss-20b", None, 1024),
        ("openai/gpt-oss-20b", 64, 64),
        ("Qwen/Qwen3-8B", None, 512),
    ):
        plain = engine_setup(load_hardware("h100"), "vllm", None, None)
        setup = in_server(load_model(model), plain, ServerSettings(capture=told))
        assert present(setup.engine.graphs).sizes[-1] == most
        assert present(setup.server).capture == most


def test_prompts_taken_whole_are_profiled_with_all_positions() -> None:
    # arg_utils.py: max_num_batched_tokens is max_model_len then, 40960 for Qwen3-8B.
    whole, chunks = (room("Qwen/Qwen3-8B", "vllm", chunk=n).room for n in (0, 40960))
    assert whole.reserved_bytes == chunks.reserved_bytes


def test_prompts_taken_whole() -> None:
    # memory_hook.py: 16384 tokens stand in for chunks, and no prefill is captured.
    found = room("Qwen/Qwen3-8B", "sglang", chunk=0).server
    reserve = 512 + 1.5 * 16384 + 128 + 512
    assert found.memory_frac == round((80 * 1024 - reserve) / (80 * 1024), 3)
    assert room("Qwen/Qwen3-8B", "vllm", chunk=0).server.mixed is False
    assert room("Qwen/Qwen3-8B", "sglang", "ngram,accept=0.5", mixed=True).server.mixed is False
    assert room("Qwen/Qwen3-8B", "sglang", "eagle,accept=0.5", mixed=True).server.mixed is True


def test_older_sglang_keeps_memory_for_drafters_and_runs_them_synchronously() -> None:
    # 0.5.9, server_args.py:1050 and 2381: no prefill is captured.
    kinds = (
        (None, 0),
        ("eagle3,accept=0.8", 2048),
        ("model,config=Qwen/Qwen3-0.6B,accept=0.8", 6144),
    )
    for drafter, mib in kinds:
        asked: dict[str, Any] = {"drafter": drafter, "version": "0.5.9"}
        found = room("Qwen/Qwen3-8B", "sglang", **asked).server
        assert found.memory_frac == round((80 * 1024 - 13440 - mib) / (80 * 1024), 3)
        assert found.overlap == (drafter is None)
        told = room("Qwen/Qwen3-8B", "sglang", overlap=True, **asked).server
        assert (told.overlap, told.synchronous) == (True, ())
    # Nor does any release run a step ahead in a pipeline (overrides.py).
    stages = Placement(1, pipeline_parallel=2)
    assert not room("Qwen/Qwen3-8B", "sglang", placement=stages).server.overlap


def test_what_cannot_be_captured_is_not_reserved() -> None:
    # Kimi Delta Attention, and towers that are not on SGLang's list (cuda_graph_hook.py).
    linear = load_model("moonshotai/Kimi-Linear-48B-A3B-Instruct")
    share = room(linear, "sglang", chip=chip_of(162_910 / 1024)).server.memory_frac
    assert share == round((162_910 - 13440) / 162_910, 3) == 0.918  # 1 MiB less is 0.917
    gemma = room("google/gemma-4-31B-it", "sglang").server.memory_frac
    plain = round((80 * 1024 - 13440) / (80 * 1024), 3)
    size = 27 * 1152**2 / (24 * 1024**2)
    assert gemma == pytest.approx(plain * 0.95 * (1 - 0.1 * (size - 1)))
    # Kimi-K2.5's tower is as large (configs/kimi_k25.py); MiniMax-M3's is a dict without sizes.
    kimi = room("moonshotai/Kimi-K2.5", "sglang", chip=chip_of(150)).server.memory_frac
    left = round((150 * 1024 - 13440 - 1536) / (150 * 1024), 3)
    assert kimi == pytest.approx(left * 0.95 * (1 - 0.1 * (size - 1)))
    whole = round((150 * 1024 - 13440 - 8 * 58) / (150 * 1024), 3)
    minimax = room("MiniMaxAI/MiniMax-M3", "sglang", chip=chip_of(150)).server.memory_frac
    assert minimax == pytest.approx(whole * 0.95)


@pytest.mark.parametrize(
    ("release", "placement", "vendor", "captured"), rows("values", "captured_prefills")
)
def test_prefills_are_captured_on_one_stage_of_nvidia(
    release: str, placement: dict[str, int], vendor: str, captured: bool
) -> None:
    spread, chip = Placement(**placement), replace(CHIP, vendor=vendor)
    found = room("Qwen/Qwen3-8B", "sglang", version=release, placement=spread, chip=chip).server
    graphs = 3 * 256 * spread.attention_data_parallel * (spread.attention_data_parallel > 1)
    reserve = 512 + 12288 + 128 * spread.devices + 512 + graphs + 8 * 58 * captured
    left = round((80 * 1024 - reserve) / (80 * 1024), 3)
    assert found.memory_frac == left * (0.85 if vendor == "amd" else 1.0)


MAMBA = "nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16"


def replayed(
    model: str | Architecture, framework: str, **told: Any
) -> tuple[ServedRoom, ServedRoom]:
    """Return the room with copies of the state for 4 positions, and with what replays it."""
    copies, replay = (
        room(model, framework, "eagle3,accept=0.8", verify=4, options=Options(recurrent_state=mode), **told)
        for mode in ("snapshot", "replay")
    )  # fmt: skip
    return copies, replay


def test_sglang_replays_a_state_from_sixteen_tokens() -> None:
    # _handle_max_mamba_cache with enable_linear_replayssm_spec: slots as of plain decoding, and
    # inputs for 48 requests and one of padding (configs/mamba_utils.py,
    # replayssm_ring_bytes_per_req): 24 layers of 16 keys and 32 updates of 128 in bf16, in two
    # parts, and 32 decays in float32.
    copies, replay = replayed("Qwen/Qwen3.5-4B", "sglang")
    state, request = copies.need.target.state_bytes, 24 * 16 * (2 * 48 * 128 * 2 + 32 * 4)
    rest = 0.95 * SGLANG - 100 * MIB - replay.need.weight_bytes
    slots = (rest * 0.9 / 1.9 - 49 * request - state) // state
    assert replay.room.limits["state"] == slots // 5
    assert replay.room.state_pool_bytes == pytest.approx((slots + 1) * state + 49 * request)
    assert replay.room.state_bytes == 5 * state + request
    assert replay.room.limits["state"] > 1.7 * copies.room.limits["state"]
    # Without the cache of prefixes 48 states, where copies take (48 + 1) * 4 more.
    copies, replay = replayed("Qwen/Qwen3.5-4B", "sglang", prefix_cache=False, running=48)
    freed = float(copies.room.state_pool_bytes - replay.room.state_pool_bytes)
    assert freed == pytest.approx(49 * 4 * state - 49 * request)
    # Two devices halve both.
    _, split = replayed("Qwen/Qwen3.5-4B", "sglang", placement=Placement(tensor_parallel=2))
    assert split.room.state_bytes == (5 * state + request) / 2
    # What is computed in float32 has one part, as wide as both.
    full = replace(load_model("Qwen/Qwen3.5-4B"), activation_dtype="fp32")
    _, wide = replayed(full, "sglang")
    assert wide.room.state_bytes == 5 * wide.need.target.state_bytes + request


def test_sglang_replays_kimis_states_slot_by_slot() -> None:
    # 20 layers of 32 heads of 128: keys and values twice in bf16, a decay of each channel and beta.
    kimi = "moonshotai/Kimi-Linear-48B-A3B-Instruct"
    _, replay = replayed(kimi, "sglang", chip=chip_of(159))
    slot = 20 * 16 * (4 * 4096 * 2 + (4096 + 32) * 4)
    assert replay.room.state_bytes == 5 * (replay.need.target.state_bytes + slot)
    two = Placement(tensor_parallel=2)
    _, split = replayed(kimi, "sglang", chip=chip_of(159), placement=two)
    assert split.room.state_bytes == replay.room.state_bytes / 2


def test_sglang_copies_the_states_that_it_cannot_replay() -> None:
    # enable_linear_replayssm_spec is for Gated DeltaNet and Kimi's states alone.
    copies, replay = replayed(MAMBA, "sglang")
    assert replay.largest_batch == copies.largest_batch
    assert replay.room.state_bytes == copies.room.state_bytes


def test_vllm_replays_a_state_without_blocks_for_drafts() -> None:
    # layers/mamba/abstract.py: no speculative blocks; 3 drafts had as many. Inputs of 4 positions
    # in 24 layers: 16 keys and 32 values of 128 in bf16, decay and beta of 32 heads in float32.
    copies, replay = replayed("Qwen/Qwen3.5-4B", "vllm")
    inputs = 24 * 4 * ((16 + 32) * 128 * 2 + 2 * 32 * 4)
    assert float(replay.room.state_bytes) == pytest.approx(
        float(copies.room.state_bytes) / 4 + inputs
    )
    copies, replay = replayed("Qwen/Qwen3.5-4B", "vllm", version="0.24")  # knows no replay
    assert replay.room.state_bytes == copies.room.state_bytes
    # Mamba2 has those of 16 tokens besides (mamba_utils.py, append_replayssm_ring).
    copies, replay = replayed(MAMBA, "vllm", prefix_cache=False)
    rows = (float(replay.room.state_bytes) - float(copies.room.state_bytes) / 4) / 20
    # 23 layers of 64 heads of 64 and 8 groups of 128 in bf16, and a step of each head in float32.
    assert rows == pytest.approx(23 * ((64 * 64 + 8 * 128) * 2 + 64 * 4))


def test_the_textbook_replays_from_the_positions_of_a_verification() -> None:
    copies, replay = replayed("Qwen/Qwen3.5-4B", "ideal")
    state = copies.need.target.state_bytes
    assert copies.room.state_bytes == 4 * state
    assert replay.room.state_bytes == state + 24 * 4 * ((16 + 32) * 128 * 2 + 2 * 32 * 4)
    plain = room("Qwen/Qwen3.5-4B", "ideal", options=Options(recurrent_state="replay"))
    assert plain.room.state_bytes == state


def test_recurrent_layers_alone_cache_no_token() -> None:
    # The first three layers of Qwen3-Next have no attention: the limit is the states', and no
    # figure is divided by nothing (warnings are errors here).
    model = load_model("Qwen/Qwen3-Next-80B-A3B-Instruct")
    linear = next(
        layer for layer in model.layers
        if all(not (block.core and block.core.cache_kind == "tokens") for block in layer.blocks)
    )  # fmt: skip
    bare = replace(model, layers=(replace(linear, count=3),))
    found, tight = room(bare, "sglang"), room(bare, "sglang", memory_frac=0.01)
    assert str(found.room.bound_by) == "state"
    assert found.room.limits["cache"] == np.inf
    assert tight.largest_batch == tight.room.limits["cache"] == 0


# --- The question -------------------------------------------------------------------------------


def test_the_lines_add_up() -> None:
    drafters = ["mtp", "eagle3,accept=0.7"]
    for engine in ("sglang", "vllm", "tensorrt-llm", "ideal"):
        found = capacity("Qwen/Qwen3.5-9B", "l40s", engine=engine, drafters=drafters)
        assert len(found.rows) == 3
        for row in found.rows:
            weights = (row.weight_bytes, row.vision_weight_bytes, row.draft_weight_bytes)
            left = row.memory_bytes - row.reserved_bytes - sum(one or 0.0 for one in weights)
            pools = (row.state_pool_bytes or 0.0) + row.cache_pool_bytes
            assert pools == pytest.approx(left, rel=1e-9)
            if row.state_pool_bytes:  # tokens have theirs to themselves, in pages
                most = row.cache_pool_bytes / row.cache_per_request_bytes
                assert row.cache_limit == pytest.approx(most, rel=1e-3)
        assert found.rows[0].draft_weight_bytes is None


def test_a_chip_without_a_log_has_nearly_all_of_its_memory() -> None:
    chip = load_hardware("l40s")
    assert chip.usable_memory_bytes is None
    # The least that H100, H200 and B200 leave, 79.19 of 80, 139.7 of 141 and 178.0 of 180 GiB.
    assert chip.server_memory_bytes == 0.99 * chip.peak.memory_bytes
    for engine, share in (("vllm", 0.99), ("sglang", 0.99), ("tensorrt-llm", 0.99), ("ideal", 1.0)):
        (row,) = capacity("Qwen/Qwen3-8B", chip, engine=engine).rows
        assert row.memory_bytes == share * chip.peak.memory_bytes


def test_drafts_are_those_of_the_block_or_the_usual_ones() -> None:
    kinds = ["dflash", "dflash,block=8", "eagle3", "ngram", "medusa", "autoregressive,cost=0.1"]
    found = capacity("Qwen/Qwen3-8B", "h100", drafters=kinds)
    assert [row.draft_len for row in found.rows] == [0, 15, 7, 3, 3, 5, 3]
    tree = capacity("Qwen/Qwen3-8B", "h100", drafters="eagle3,tree=3/2/1,siblings=0.3/0.2")
    # 3 + 6 + 6 nodes and the root, which vLLM would look ahead for.
    assert tree.rows[1].draft_len == 3
    chain = capacity("Qwen/Qwen3-8B", "h100", drafters="eagle3", draft_len=15)
    assert tree.records[1] | {"drafter": "eagle3", "draft_len": 15} == chain.records[1]
    for asked in (None, 2):
        two = capacity("Qwen/Qwen3-8B", "h100", drafters="eagle3,tree=2/2", draft_len=asked)
        assert two.rows[1].draft_len == 2  # as deep as it is
    # Drafts that may end early keep the states of all.
    whole, early = (
        capacity(
            "Qwen/Qwen3.5-9B", "l40s", framework="llama.cpp", drafters=f"mtp{ends}", draft_len=4
        ).records[1]
        for ends in ("", ",p-min=0.9")
    )
    assert whole == early | {"drafter": "mtp"}


def test_a_chip_without_a_fit_has_the_rules_of_the_server_asked_for() -> None:
    for chip, engine, framework in (
        ("l40s", None, "vllm"),  # nobody fitted it
        ("l40s", "sglang", "sglang"),
        ("h100", None, "sglang"),  # its default
        ("h100", "ideal", "ideal"),
    ):
        (row,) = capacity("Qwen/Qwen3-8B", chip, engine=engine).rows
        assert row.served.server.framework == framework


def test_the_shell_prints_json_of_a_batch_that_fits_nowhere() -> None:
    found = answered("capacity Qwen/Qwen3-32B -H l40s --drafter autoregressive,cost=0.1")
    plain = found["rows"][0]
    assert (found["version"], found["choice"], plain["largest_batch"]) == (3, None, 0)
    assert plain["cache_pool_bytes"] < 0
    assert found["case"]["server"]["framework"] == "vllm"
    short = plain["short_bytes"]
    assert short == plain["cache_per_request_bytes"] - plain["cache_pool_bytes"]
    assert f"at least {short / 2**30:.1f} GiB more would be needed" in found["warnings"][0]
    assert "with autoregressive,cost=0.1" in found["warnings"][1]


def test_limits_are_those_of_a_group_of_devices() -> None:
    placed: dict[str, Any] = {"tensor_parallel": 2, "attention_data_parallel": 2}
    (row,) = capacity("Qwen/Qwen3-30B-A3B", "h100", framework="vllm", **placed).rows
    assert row.largest_batch == 2 * int(row.cache_limit)


def test_workers_need_no_link_to_be_counted() -> None:
    # Of VR200 no source gives the bytes/s between workers; where known, they count no byte.
    for chip in ("vr200", "h100"):
        found = capacity("Qwen/Qwen3-8B", chip, prefill="1x1", decode="1x2").to_dict()
        split = found["case"]["split"]
        assert (split["devices"], split["link_bytes_per_s"]) == (3, None)
        places = (split[side]["placement"] for side in ("prefill", "decode"))
        assert [place["tensor_parallel"] for place in places] == [1, 2]


@pytest.mark.parametrize(("kind", "ahead"), [(None, 0), ("ngram", 0), ("eagle3", 3), ("dflash", 4)])
def test_slots_ahead_are_those_of_vllm(kind: str | None, ahead: int) -> None:
    # vLLM 0.33.0, config/vllm.py:626, num_lookahead_tokens
    need: Any = SimpleNamespace(kind=kind, facts=release("vllm@0.33"))
    assert _lookahead(need, np.array([0.0, 3.0]))[1] == ahead


def test_nothing_is_reserved_for_answers_whose_end_is_guessed() -> None:
    setup = engine_setup(specroof.load_hardware("h100"), "sglang", None, None)
    asked, answers = Load([8], [1500], Workload(1000, 1000)), trace([0.0], [1000], [1000])
    for most_len, kept in ((None, 500), (np.array([2000.0]), 0)):
        load = replace(asked, trace=replace(answers, most_len=most_len))
        assert reserved_len(setup, load) == kept
