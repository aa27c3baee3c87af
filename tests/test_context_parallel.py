"""A context that is spread over devices: cache, exchanges, drafters and refusals, by hand."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from specroof import ForwardPass, Options, Placement, capacity, load_hardware
from specroof.architecture.attention import GroupedQueryAttention, Indexer
from specroof.architecture.base import Core, Linear
from specroof.architecture.compressed import CompressedAttention
from specroof.architecture.latent import LatentAttention
from specroof.architecture.model import Architecture, Block, Layer
from specroof.architecture.recurrent import GatedDeltaNet
from specroof.cost import storage
from specroof.errors import OptionError
from specroof.hardware.engine import Collective, EngineProfile
from specroof.hardware.profile import Interconnect
from specroof.latency.model import model_work
from specroof.latency.pass_seconds import PassWork, pass_time
from specroof.latency.setup import (
    Setup,
    attention_reading,
    check_placement,
    device_bytes,
    draft_placement,
    drafting_setup,
    engine_setup,
)
from strategies import device
from tables import rows

HEADS = GroupedQueryAttention(16, n_kv_heads=2, head_dim=128, value_dim=128)
LATENT = LatentAttention(16, latent_dim=512, rope_dim=64, head_dims=(192, 128))
SPARSE = replace(LATENT, indexer=Indexer(n_heads=64, head_dim=128, top_k=256))
STATE = GatedDeltaNet(16, 32, key_dim=128, value_dim=128, conv_kernel=4, conv_columns=3)

#: Bytes/s of a link, seconds of the shortest collective, and what each further device adds.
LINK, SHORTEST, FURTHER = 1e9, 2e-6, 1e-6


def model_of(*cores: Core) -> Architecture:
    layers = tuple(Layer((Block("attention", (), core),)) for core in cores)
    return Architecture("cores", "llama", 8, 9, layers, Linear("lm_head", 8, 0))


def setup_of(framework: str, placement: Placement, chip: str = "b200", **options: Any) -> Setup:
    """Return a chip with arithmetic of no length, one byte a second, and round links."""
    links = Interconnect(link_bytes_per_s=LINK, max_devices=8)
    known = load_hardware(chip)
    profile = replace(
        device({"bf16": 1e21}, 1.0, interconnect=links),
        **{key: getattr(known, key) for key in ("name", "vendor", "compute_capability")},
    )
    use = Collective(latency_s=SHORTEST, device_latency_s=FURTHER)
    engine = EngineProfile(name="e", framework=framework, collective=use)
    return Setup(profile, engine, placement, Options(kv_dtype="bf16", **options))


def work_of(core: Core, setup: Setup, forward: ForwardPass) -> PassWork:
    return model_work(model_of(core), setup, forward)


def read_bytes(work: PassWork, kind: str) -> float:
    """Return the bytes that would take as long at the bandwidth of `CHIP`."""
    return float(sum(op.memory_s for op in work.ops if op.op.kind == kind))


def exchanged_s(core: Core, setup: Setup, forward: ForwardPass) -> float:
    """Return the seconds of what devices exchange for spreading the context alone."""
    whole = replace(setup, placement=replace(setup.placement, decode_context_parallel=1))
    with_it, without = (
        pass_time(work_of(core, where, forward), where.engine).communication_s
        for where in (setup, whole)
    )
    return float(with_it - without)


STEP = ForwardPass(batch_size=1, query_len=1, context_len=999)


CORES = {"heads": HEADS, "latent": LATENT, "sparse": SPARSE, "state": STATE}


@pytest.mark.parametrize(
    ("core", "kind", "spread", "batch", "by_hand"), rows("values", "parts_of_a_context")
)
def test_a_device_reads_its_part_of_the_context(
    core: str, kind: str, spread: dict[str, int], batch: float, by_hand: float
) -> None:
    setup = setup_of("vllm", Placement(8, **spread), index_dtype="bf16")
    step = replace(STEP, batch_size=np.array(batch))
    assert read_bytes(work_of(CORES[core], setup, step), kind) == by_hand


@pytest.mark.parametrize(
    ("framework", "core", "spread", "step", "collectives", "sent_bytes"),
    rows("values", "exchanged_contexts"),
)
def test_devices_that_share_a_context_exchange_queries_and_outputs(
    framework: str, core: str, spread: dict[str, int], step: dict[str, Any], collectives: int,
    sent_bytes: float,
) -> None:  # fmt: skip
    placement = Placement(8, **spread)
    latency_s = SHORTEST + (placement.decode_context_parallel - 1) * FURTHER
    setup = setup_of(framework, placement)
    found = exchanged_s(CORES[core], setup, ForwardPass(**step))
    assert found == pytest.approx(collectives * latency_s + sent_bytes / LINK, rel=1e-9)


def test_a_verification_that_is_a_prefill_gathers_all_latents() -> None:
    # As on one device alone with its two heads: every device reads all of the context.
    verify = ForwardPass(batch_size=2, query_len=5, context_len=1000)
    spread = setup_of("vllm", Placement(8, decode_context_parallel=8), verify_attention="prefill")
    whole = replace(spread, placement=Placement(8))
    for kind in ("latent_attention", "unsplit_attention", "dense"):
        assert read_bytes(work_of(LATENT, spread, verify), kind) == pytest.approx(
            read_bytes(work_of(LATENT, whole, verify), kind), rel=0.01
        )
    expected_s = SHORTEST + 7 * FURTHER + 7 / 8 * 2 * 1000 * 1152 / LINK
    assert exchanged_s(LATENT, spread, verify) == pytest.approx(expected_s, rel=1e-9)
    # Recurrent state is what it is.
    states = (read_bytes(work_of(STATE, setup, verify), "state") for setup in (spread, whole))
    assert len(set(states)) == 1


def test_thread_blocks_of_all_heads_that_share_a_context_run_on_each_device() -> None:
    # FlashAttention 2 has a block for each head: 2 of 16 on each of 8 devices, 8 where four share.
    verify = ForwardPass(batch_size=1, query_len=4, context_len=1_000_000)
    ones = np.ones(())
    moved = []
    for spread in (1, 4):
        setup = setup_of("vllm", Placement(8, decode_context_parallel=spread), chip="a100-80gb")
        peak = replace(setup.hardware.peak, multiprocessors=16)
        setup = replace(setup, hardware=replace(setup.hardware, peak=peak))
        moved.append(read_bytes(work_of(HEADS, setup, verify), "unsplit_attention") * ones)
    # Four times the blocks, a fourth of the bytes.
    assert moved[0] == pytest.approx(16 * moved[1])


def test_memory_of_a_token_divides_and_state_does_not() -> None:
    model = model_of(LATENT, STATE)
    one, many = (
        float(device_bytes(storage(model, 1000), Placement(8, decode_context_parallel=n), 1))
        for n in (1, 8)
    )
    assert one - many == 1000 * 1152 * 7 / 8


def test_a_drafter_of_its_own_heads_caches_the_whole_context_on_each_device() -> None:
    def setup(framework: str, chip: str = "b200") -> Setup:
        return setup_of(framework, Placement(8, decode_context_parallel=4), chip)

    # vllm v1/worker/gpu/spec_decode/dflash/speculator.py, use_mla
    assert draft_placement(model_of(LATENT), setup("vllm")).decode_context_parallel == 4
    assert draft_placement(model_of(HEADS), setup("vllm")).decode_context_parallel == 1
    # sglang configs/model_config.py: drafts never join the group
    assert draft_placement(model_of(LATENT), setup("sglang")).decode_context_parallel == 1
    # vllm v1/attention/backend.py, supports_non_causal_dcp: FLASHINFER_MLA on Blackwell
    block = model_of(replace(LATENT, causal=False))
    assert draft_placement(block, setup("vllm")).decode_context_parallel == 4
    with pytest.raises(OptionError, match=r"decode_context_parallel is 4.*; allowed: 1, or"):
        draft_placement(block, setup("vllm", "h200"))
    assert drafting_setup(model_of(HEADS), setup("vllm")).placement == Placement(8)


def test_layers_of_a_drafter_in_sglang_are_as_wide_and_whole() -> None:
    def tokens(spread: int) -> Any:
        found = capacity(
            "deepseek-ai/DeepSeek-V3", "h200", tensor_parallel=8, context_len=65536,
            engine="sglang", drafters=["mtp"], decode_context_parallel=spread,
        )  # fmt: skip
        return found.rows[1].served.room.cache_bytes.item()

    # 61 layers over eight devices and one that is whole.
    assert tokens(8) / tokens(1) == pytest.approx((61 / 8 + 1) / 62, rel=1e-6)


@pytest.mark.parametrize(("chip", "expected"), rows("values", "backends_of_one_position"))
def test_backends_that_take_one_position_of_a_spread_context(chip: str, expected: str) -> None:
    placement = Placement(8, decode_context_parallel=8)
    setup = engine_setup(load_hardware(chip), "vllm", placement, None)
    reading = attention_reading(model_of(LATENT), setup)(LATENT)
    assert reading.spread
    assert reading.kind == expected


@pytest.mark.parametrize(
    ("core", "placement", "allowed"),
    [
        # vllm config/model.py: at most tensor parallelism over KV heads, a divisor of the query
        # heads of each
        (HEADS, Placement(8, decode_context_parallel=8), "1, 2, 4"),
        (HEADS, Placement(2, decode_context_parallel=2), "1"),
        (replace(HEADS, n_heads=12, n_kv_heads=1), Placement(24, decode_context_parallel=8),
         "1, 2, 3, 4, 6, 12"),
        # vllm v1/kv_cache_interface.py, SlidingWindowSpec
        (replace(HEADS, window=128), Placement(8, decode_context_parallel=2), "1"),
        (CompressedAttention(128, entry_dim=512, rope_dim=64, window=128, ratio=128),
         Placement(8, decode_context_parallel=2), "1"),
    ],
)  # fmt: skip
def test_attention_whose_cache_cannot_be_spread_is_refused(
    core: Core, placement: Placement, allowed: str
) -> None:
    # Several kinds of attention are spread as each can be.
    check_placement(model_of(HEADS, STATE, LATENT), Placement(8, decode_context_parallel=4))
    with pytest.raises(OptionError, match=rf"decode_context_parallel is .*; allowed: {allowed}$"):
        check_placement(model_of(core), placement)
