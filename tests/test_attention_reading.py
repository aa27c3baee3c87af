"""How servers read caches, what they keep in them, and contexts spread over devices: by hand."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, reject
from hypothesis import strategies as st

from specroof import ForwardPass, Options, Placement, capacity, load_hardware, load_model
from specroof.architecture.attention import GroupedQueryAttention, Indexer
from specroof.architecture.base import READINGS, CacheReading, Core, OpCost
from specroof.architecture.chunked import ChunkedAttention
from specroof.architecture.compressed import CompressedAttention
from specroof.architecture.latent import LatentAttention
from specroof.architecture.recurrent import GatedDeltaNet
from specroof.cost import forward_cost, storage
from specroof.errors import OptionError
from specroof.hardware.engine import Collective, EngineProfile, ServerSettings
from specroof.hardware.profile import HardwareProfile, Interconnect, Peak
from specroof.latency.model import model_latency, model_work, setup_notes, stacked
from specroof.latency.pass_seconds import UNSPLIT, PassWork, pass_time
from specroof.latency.setup import (
    Deployment,
    Setup,
    attention_reading,
    check_placement,
    device_bytes,
    draft_placement,
    drafting_setup,
    engine_setup,
    served_options,
)
from specroof.serving.capacity import in_server
from strategies import device, of_cores
from tables import present, rows

LLAMA = GroupedQueryAttention(32, n_kv_heads=8, head_dim=128, value_dim=128)
GEMMA = GroupedQueryAttention(32, n_kv_heads=4, head_dim=512, value_dim=512)
WINDOW = replace(LLAMA, window=128)
CHUNKED = ChunkedAttention(32, n_kv_heads=8, head_dim=128, value_dim=128, chunk=8192)
LATENT = LatentAttention(16, latent_dim=512, rope_dim=64, head_dims=(192, 128))
SPARSE = replace(LATENT, indexer=Indexer(n_heads=64, head_dim=128, top_k=2048))
V4 = CompressedAttention(128, entry_dim=512, rope_dim=64, window=128, ratio=128)
RECURRENT = GatedDeltaNet(16, 32, key_dim=128, value_dim=128, conv_kernel=4, conv_columns=3)


def setup_of(chip: str, engine: str, **options: Any) -> Setup:
    return engine_setup(load_hardware(chip), engine, Placement(), Options(**options))


CORES = {
    "llama": LLAMA, "gemma": GEMMA, "block": replace(LLAMA, causal=False), "window": WINDOW, "chunked": CHUNKED, "v4": V4,
    "shared": replace(LLAMA, shares_cache=True), "latent": LATENT, "sparse": SPARSE,
    "latent block": replace(LATENT, causal=False), "recurrent": RECURRENT,
}  # fmt: skip
READ = rows("values", "cache_readings")


@pytest.mark.parametrize("expected", READ)
def test_a_server_reads_the_cache_as_its_sources_say(expected: str) -> None:
    for engine, chip, name in READ[expected]:
        core = CORES[name]
        server, _, version = engine.partition("@")
        setup = setup_of(chip, server)
        if version:
            setup = in_server(of_cores(core), setup, ServerSettings(), version)
        assert attention_reading(of_cores(core), setup)(core).kind == expected, (engine, chip, name)
    # vllm: FLASH_ATTN 2 has no fp8 cache, FLASHINFER has, and splits it.
    narrow = setup_of("a100-80gb", "vllm", kv_dtype="fp8")
    assert attention_reading(of_cores(LLAMA), narrow)(LLAMA).kind == "once"


@pytest.mark.parametrize(
    ("chip", "core", "read_once"),
    [
        # v1/attention/ops/triton_unified_attention.py, MAX_3D_QUERY_LEN, and causal only
        ("a100-80gb", GEMMA, {1, 2, 3, 4, 5, 6, 7, 8}),
        ("a100-80gb", replace(GEMMA, causal=False), {1}),
        # utils/deep_gemm.py, native_next_n_supported; indexer.py, _supports_native_decode
        ("h200", SPARSE, {1, 2, 4}),
        ("mi300x", SPARSE, {1, 2}),
    ],
)
def test_some_numbers_of_positions_are_read_once(
    chip: str, core: Core, read_once: set[int]
) -> None:
    reading = attention_reading(of_cores(core), setup_of(chip, "vllm"))(core)
    assert reading.kind in {"unsplit", "per-position"}
    assert set(reading.once_at) == read_once


@pytest.mark.parametrize(
    ("version", "chip", "split"),
    # Backends that attend to images both ways (supports_mm_prefix, supports_combination): Triton's
    # alone, FlashAttention 4 from 0.24 on, and from 0.33 on composites for heads of 256, not for
    # those of gemma-3-27b.
    [("0.33", "a100-80gb", False), ("0.33", "h100", False), ("0.33", "b200", True),
     ("0.33", "mi300x", False), ("0.28", "h100", False), ("0.28", "b200", True),
     ("0.19", "b200", False)],
)  # fmt: skip
def test_models_that_read_images_both_ways_have_kernels_for_it(
    version: str, chip: str, *, split: bool
) -> None:
    setup = setup_of(chip, "vllm")
    kinds = {}
    for name in ("gemma-3-27b-it", "gemma-3-1b-it"):  # the second reads text alone
        model = load_model(f"google/{name}")
        server = in_server(model, setup, ServerSettings(), version)
        _, core = next(iter(model.counted_cores))
        kinds[name] = attention_reading(model, server)(core)
    assert kinds["gemma-3-27b-it"].kind == ("once" if split else "unsplit")
    assert kinds["gemma-3-27b-it"].tile == (CacheReading().tile if split else 16)
    ordinary = "unsplit" if chip in {"a100-80gb", "mi300x"} else "once"
    assert kinds["gemma-3-1b-it"].kind == ordinary


#: Positions of a verification that Triton splits a cache for (MAX_3D_QUERY_LEN, from 0.33 on).
SPLIT = tuple(range(1, 9))


@pytest.mark.parametrize(
    ("name", "chip", "version", "tile", "once_at"),
    [
        # supports_sink and supports_combination of the backends in their order: heads with sinks
        # have Triton's kernels below 9 and on AMD, and on 12 FLASHINFER's from 0.28 on.
        ("openai/gpt-oss-20b", "a100-80gb", "0.33", 16, SPLIT),
        ("openai/gpt-oss-20b", "mi300x", "0.33", 16, SPLIT),
        ("openai/gpt-oss-20b", "mi300x", "0.28", 16, (1,)),
        ("openai/gpt-oss-20b", "rtx-pro-6000", "0.33", 1, (1,)),
        ("openai/gpt-oss-20b", "rtx-pro-6000", "0.28", 1, (1,)),
        ("openai/gpt-oss-20b", "rtx-pro-6000", "0.24", 16, (1,)),
        ("openai/gpt-oss-20b", "h100", "0.33", 1, (1,)),
        # Gemma4Config: Triton where FlashAttention 4 is not; in 0.19 anywhere
        ("google/gemma-4-31B-it", "mi300x", "0.33", 16, SPLIT),
        ("google/gemma-4-31B-it", "mi300x", "0.24", 16, (1,)),
        ("google/gemma-4-31B-it", "h100", "0.33", 1, (1,)),
        ("google/gemma-4-31B-it", "h100", "0.19", 16, (1,)),
        # triton_flash_attn.py, head_sizes: heads of 256 are those of gemma-3-12b
        ("google/gemma-3-12b-it", "h100", "0.33", 1, (1,)),
        # supports_compute_capability: FLASH_ATTN and FLASHINFER from 8.0 on, in 0.19 from 7.5
        ("Qwen/Qwen3-8B", "t4", "0.33", 16, SPLIT),
        ("Qwen/Qwen3-8B", "t4", "0.28", 16, (1,)),
        ("Qwen/Qwen3-8B", "t4", "0.19", 1, (1,)),
    ],
)
def test_heads_have_the_first_backend_that_takes_them(
    name: str, chip: str, version: str, tile: int, once_at: tuple[int, ...]
) -> None:
    model = load_model(name)
    setup = setup_of(chip, "vllm")
    server = in_server(model, setup, ServerSettings(), version)
    core = next(core for _, core in model.counted_cores if core.kernel == "heads")
    reading = attention_reading(model, server)(core)
    assert (reading.tile, reading.once_at) == (tile, once_at)


def test_heads_with_values_of_another_width_have_kernels_of_their_own() -> None:
    # models/mimo_v2.py: FLASH_ATTN_DIFFKV in versions 3 and 4, else TRITON_ATTN_DIFFKV, which takes
    # up to 16 positions in split kernels from 0.33 on (_SPEC_3D_MAX_Q).
    model = replace(load_model("openai/gpt-oss-20b"), family="mimo_v2_flash")
    for chip, version, once_at in (
        ("h100", "0.33", (1,)), ("mi300x", "0.33", tuple(range(1, 17))),
        ("rtx-pro-6000", "0.33", tuple(range(1, 17))), ("rtx-pro-6000", "0.28", (1,)),
    ):  # fmt: skip
        server = in_server(model, setup_of(chip, "vllm"), ServerSettings(), version)
        reading = attention_reading(model, server)(LLAMA)
        assert reading.once_at == once_at
        assert reading.kind == ("once" if chip == "h100" else "unsplit")


@pytest.mark.parametrize("kind", READINGS)
def test_what_a_user_states_comes_first_but_on_the_ideal_engine(kind: str) -> None:
    setup = setup_of("a100-80gb", "vllm", verify_attention=kind)
    assert attention_reading(of_cores(LLAMA), setup)(LLAMA).kind == kind
    assert attention_reading(of_cores(SPARSE), setup)(SPARSE).kind == "per-position"
    ideal = setup_of("a100-80gb", "ideal", verify_attention=kind)
    assert attention_reading(of_cores(LLAMA), ideal)(LLAMA).kind == "once"
    # A drafter has kernels of its own.
    drafts = drafting_setup(of_cores(LLAMA), setup)
    assert attention_reading(of_cores(LLAMA), drafts)(LLAMA).kind == "unsplit"


def core_op(core: Core, reading: CacheReading, **pass_: Any) -> OpCost:
    *_, op, _ = forward_cost(of_cores(core), ForwardPass(**pass_), reading=lambda _: reading)
    return op


@pytest.mark.parametrize(
    ("core", "token_bytes", "read_tokens"),
    [
        (LLAMA, 2 * 8 * 128 * 2, 1000),
        (WINDOW, 2 * 8 * 128 * 2, 127),  # of a window of 128 the query itself is one
        (LATENT, (512 + 64) * 2, 1000),
    ],
    ids=["heads", "window", "latent"],
)
def test_bytes_of_each_reading(core: Core, token_bytes: int, read_tokens: int) -> None:
    of_pass = {"batch_size": 2, "query_len": 4, "context_len": 1000}

    def moved(kind: str, **changed: float) -> float:
        return float(core_op(core, CacheReading(kind), **(of_pass | changed)).cache_bytes)

    # Two sequences, each with the cache and its four new entries.
    assert moved("once") == 2 * token_bytes * (read_tokens + 4)
    assert moved("per-position") == 2 * token_bytes * (4 * read_tokens + 4)
    # Unsplit is a matter of who reads, not of how much.
    assert moved("unsplit") == moved("once")
    for kind in READINGS:  # a plain step has one position
        assert moved(kind, query_len=1) == 2 * token_bytes * (read_tokens + 1)


def test_index_keys_of_each_reading() -> None:
    def scanned(reading: CacheReading) -> tuple[float, float]:
        verify = ForwardPass(batch_size=1, query_len=4, context_len=10_000)
        scan, attention, _ = forward_cost(
            of_cores(SPARSE), verify, Options(index_dtype="fp8"), reading=lambda _: reading
        )
        return float(scan.cache_bytes), float(attention.cache_bytes)

    # 132 bytes a key; attention takes its 2048 tokens as ever.
    once, attended = scanned(CacheReading())
    assert once == 132 * 10_004
    assert scanned(CacheReading("per-position")) == (132 * 40_004, attended)
    assert scanned(CacheReading("per-position", once_at=(1, 2, 4))) == (once, attended)


@pytest.mark.parametrize(
    ("core", "reading", "blocks", "filled"),
    [
        # A block for each query head, 5 of its 64 rows used.
        (LLAMA, CacheReading("unsplit", tile=64), 32, 5 / 64),
        (WINDOW, CacheReading("unsplit", tile=64), 32, 5 / 64),
        (LATENT, CacheReading("unsplit", tile=64), 16, 5 / 64),
        # Triton: 4 query heads share a KV head, 5 positions are 20 rows, two tiles of 16.
        (LLAMA, CacheReading("unsplit", tile=16, packed=True), 8 * 2, 20 / 32),
    ],
    ids=["heads", "window", "latent", "packed"],
)
def test_thread_blocks_of_an_unsplit_kernel(
    core: Core, reading: CacheReading, blocks: int, filled: float
) -> None:
    of_pass = {"batch_size": 3, "query_len": 5, "context_len": 1000}
    unsplit, once = core_op(core, reading, **of_pass), core_op(core, CacheReading(), **of_pass)
    assert float(present(unsplit.blocks)) == 3 * blocks
    assert float(unsplit.flops) == pytest.approx(float(once.flops) / filled)
    step = core_op(core, reading, **(of_pass | {"query_len": 1}))
    assert np.isinf(present(step.blocks))


#: Kernels that a longer verification may take less with, by framework: a kernel of vectors takes
#: few rows of a matrix, one of tiles more; Triton splits a cache up to 8 positions
#: (MAX_3D_QUERY_LEN), beyond, blocks have full tiles.
FASTER = {"llama.cpp": "matrix", "mlx": "matrix", "vllm": "split attention"}


@given(
    st.sampled_from(["gemma-4-E2B", "gemma-4-31B-it", "gemma-3-27b-it"]).map("google/{}".format)
    | st.sampled_from(
        [
            *["Qwen/Qwen3-8B", "Qwen/Qwen3.5-35B-A3B", "deepseek-ai/DeepSeek-V4-Flash"],
            *["deepseek-ai/DeepSeek-R1", "openai/gpt-oss-120b", "Qwen/Qwen3-32B-FP8"],
        ]
    ),
    st.tuples(
        st.sampled_from(["a10", "t4", "a100-80gb", "h100", "b200", "rtx-5090", "mi300x"]),
        st.sampled_from(["vllm", "sglang", "tensorrt-llm", "llama.cpp", "generic"]),
        st.sampled_from([1, 2, 4]),
    )
    | st.just(("m2-max", "mlx", 1)),
    st.sampled_from([1, 2, 5, 17, 48, 100, 256]),
    st.sampled_from([100, 4096, 32768, 131072]),
)
@example("google/gemma-4-E2B", ("a10", "vllm", 4), 17, 131072)
@example("google/gemma-4-31B-it", ("h100", "sglang", 1), 5, 100)
def test_a_longer_verification_is_no_faster_but_for_kernels_by_name(
    name: str, place: tuple[str, str, int], batch: int, context: int
) -> None:
    chip, engine, devices = place
    model = load_model(name)
    setup = engine_setup(load_hardware(chip), engine, Placement(devices), None)
    try:
        setup = in_server(model, setup, ServerSettings())
    except OptionError:  # that its server does not run
        reject()
    latency = model_latency(model, setup, ForwardPass(batch, np.arange(1, 18), context))
    by_name: dict[str, Any] = {"": latency.communication_s}
    named: set[str] = set()
    splits = any(
        len(attention_reading(model, setup)(core).once_at) > 1 for _, core in model.counted_cores
    )
    for op in latency.ops:
        seconds = op.seconds if op.sequences is None else op.seconds * op.sequences
        by_name[op.op.name] = by_name.get(op.op.name, 0.0) + seconds
        kind = "matrix" if op.op.rows is not None else "split attention"
        if FASTER.get(setup.engine.rules) == kind and (op.op.rows is not None or splits):
            named.add(op.op.name)
    if not named:
        by_name["whole"] = latency.total_s
    for part, seconds in by_name.items():
        each = np.broadcast_to(seconds, 17)
        if part in named:  # from 9 positions on no cache is split
            each = each[8 if part.endswith("core") else 17 :]
        assert (np.diff(each) >= -1e-9 * each[:-1]).all(), part


def test_a_verification_as_a_prefill() -> None:
    # DeepSeek's sizes on one of eight devices: 4.2 MFLOP a cached token to expand its latent
    # (2 * 512 * 16 * 256), and keys of 192 and values of 128 in 16 heads, written and read.
    verify = ForwardPass(batch_size=1, query_len=4, context_len=16_384)
    reading = CacheReading("prefill", tile=128)
    expansion, attention, _ = forward_cost(of_cores(LATENT), verify, reading=lambda _: reading)
    assert float(expansion.flops) / 16_384 == 2 * 512 * 16 * 256
    assert float(expansion.cache_bytes) / 16_384 == 2 * 16 * (192 + 128) * 2
    pairs = 4 * 16_384 + 4 * 5 / 2
    assert float(attention.flops) == pytest.approx(2 * 16 * (192 + 128) * pairs * 128 / 4)
    assert float(present(attention.blocks)) == 16
    # A plain step expands nothing, nor does a prompt, whose kernel is priced as ever.
    for other in (ForwardPass(1, 1, 16_384), ForwardPass(1, 512, 16_384, settled=True)):
        none, core, _ = forward_cost(of_cores(LATENT), other, reading=lambda _: reading)
        once, _ = forward_cost(of_cores(LATENT), other)
        assert float(none.flops) == float(none.cache_bytes) == 0
        assert float(core.flops) == float(once.flops)


def test_a_drafter_that_reads_a_few_accepted_positions_again_runs_no_prompt() -> None:
    def moved(query_len: int) -> float:
        again = ForwardPass(1, query_len, 1000, settled=True)
        op, _ = forward_cost(of_cores(LLAMA), again, reading=lambda _: CacheReading("per-position"))
        return float(op.cache_bytes)

    assert moved(3) == 4096 * 3003
    assert moved(65) == 4096 * 1065


POSITIONS = np.array([1, 2, 5, 16])


def chip_of(multiprocessors: int | None) -> HardwareProfile:
    peak = Peak(
        flops_per_s={"bf16": 1e12},
        memory_bytes_per_s=1e12,
        memory_bytes=1e9,
        multiprocessors=multiprocessors,
    )
    return HardwareProfile(
        format_version=1, name="chip", compute_capability=8.0, sources={}, peak=peak
    )


def test_idle_multiprocessors_take_their_share_with_them() -> None:
    def found(
        multiprocessors: int | None,
        placement: Placement | None = None,
        core: Core = LLAMA,
        query_len: int = 4,
    ) -> tuple[float, float, str]:
        verify = ForwardPass(batch_size=1, query_len=query_len, context_len=1000)
        engine = EngineProfile(name="vllm")
        setup = Setup(chip_of(multiprocessors), engine, placement or Placement(), Options())
        op = pass_time(model_work(of_cores(core), setup, verify), engine).ops[0]
        return float(op.compute_s), float(op.memory_s), op.op.kind

    busy = found(32)
    assert busy[1] == 4096 * 1004 / 1e12  # a block for each multiprocessor
    assert busy[2] == UNSPLIT
    assert found(128)[:2] == pytest.approx((4 * busy[0], 4 * busy[1]))
    assert found(16)[:2] == busy[:2]
    assert found(None)[:2] == busy[:2]  # not known: none is idle
    # Of two devices each has half of the blocks, half of the work, and all of its units; of more
    # devices than the 8 KV heads, each block has as long a cache to read.
    for devices in (2, 8, 16):
        assert found(128, Placement(devices))[:2] == pytest.approx((4 * busy[0], 4 * busy[1]))
    # Two groups for one sequence: one has it, with 32 blocks.
    groups = Placement(2, attention_data_parallel=2)
    assert found(128, groups)[:2] == pytest.approx((4 * busy[0], 4 * busy[1]))
    # Two heads with two tiles of 64 rows each: of four blocks two read the same.
    few = replace(LLAMA, n_heads=2, n_kv_heads=1)
    assert found(128, groups, few, 128)[1] == pytest.approx(128 / 2 * 512 * 1128 / 1e12)


@pytest.mark.parametrize(
    ("heads", "context_len", "measured_s"), rows("values", "flash_attention_2")
)
def test_flash_attention_2_as_measured(
    heads: list[Any], context_len: int, measured_s: float
) -> None:
    # Nothing is fitted to these: tiles and blocks are the kernel's, the shares those of Ampere.
    setup = setup_of("rtx-3090", "vllm")
    verify = ForwardPass(batch_size=1, query_len=8, context_len=context_len)
    model = of_cores(GroupedQueryAttention(*heads))
    op = pass_time(model_work(model, setup, verify), setup.engine).ops[0]
    assert float(op.seconds) == pytest.approx(measured_s, rel=0.2)


def test_collectives_are_counted_once_where_a_grid_runs_two_kernels() -> None:
    setup = Setup(chip_of(64), EngineProfile(name="vllm"), Placement(2), Options())
    grids = ForwardPass(1, POSITIONS, 1000), ForwardPass(1, 4, 1000), ForwardPass(1, 1, 1000)
    work = [model_work(of_cores(LLAMA), setup, grid) for grid in grids]
    assert [len(one.exchanges) for one in work] == [1, 1, 1]
    kinds = [[(op.op.kind, op.unsplit is not None) for op in one.ops[:-1]] for one in work]
    assert kinds == [[("attention", True)], [(UNSPLIT, False)], [("attention", False)]]


def test_a_grid_that_runs_two_kernels_takes_as_long_as_its_points() -> None:
    engine = EngineProfile(
        name="vllm", overlap_norm=2, memory_frac=0.8,
        kind_compute_frac={UNSPLIT: 0.5}, kind_memory_frac={UNSPLIT: 0.3},
    )  # fmt: skip
    setup = Setup(chip_of(64), engine, Placement(1), Options())
    work = model_work(of_cores(LLAMA), setup, ForwardPass(1, POSITIONS, 1000))
    alone = [model_work(of_cores(LLAMA), setup, ForwardPass(1, n, 1000)) for n in POSITIONS]
    each = [float(pass_time(one, engine).total_s) for one in alone]
    assert pass_time(work, engine).total_s == pytest.approx(each, rel=1e-12)
    assert pass_time(stacked([work], [len(each)]), engine).total_s == pytest.approx(each, rel=1e-12)


# --- what a server caches in by default, for times and for capacity ------------------------------

V4_FLASH, V32 = "deepseek-ai/DeepSeek-V4-Flash", "deepseek-ai/DeepSeek-V3.2"


def eight_chips(chip: str, engine: str, options: Options | None = None) -> Setup:
    """Return eight chips with an engine that loses nothing."""
    profile = EngineProfile(name=engine)
    return Setup(load_hardware(chip), profile, Placement(8), options or Options())


@pytest.mark.parametrize(("model", "chips", "sglang", "vllm"), rows("values", "server_caches"))
def test_the_default_cache_of_servers(model: str, chips: str, sglang: str, vllm: str) -> None:
    found = load_model(model)
    expected = {"sglang": sglang, "vllm": vllm, "generic": vllm, "ideal": "bf16"}
    for chip in chips.split():
        setups = {engine: eight_chips(chip, engine) for engine in expected}
        caches = {engine: Deployment(found, setup).kv_dtype for engine, setup in setups.items()}
        assert caches == expected
        for engine, setup in setups.items():
            said = any("KV cache priced as fp8" in note for note in setup_notes(found, setup))
            assert said == (expected[engine] == "fp8")


def test_what_is_chosen_stays() -> None:
    for dtype in ("bf16", "fp8", "fp4"):
        chosen = eight_chips("b200", "sglang", Options(kv_dtype=dtype, index_dtype="bf16"))
        options = served_options(load_model(V32), chosen)
        assert (options.kv_dtype, options.index_dtype) == (dtype, "bf16")
    # A checkpoint that names fp8 keeps it, and nothing is to be said.
    named = replace(load_model(V4_FLASH), kv_dtype="fp8")
    assert served_options(named, eight_chips("h200", "vllm")).kv_dtype is None
    assert list(setup_notes(named, eight_chips("h200", "vllm"))) == []
    # TensorRT-LLM's rules are not at hand, and the textbook has none.
    for engine in ("tensorrt-llm", "ideal"):
        assert served_options(load_model(V4_FLASH), eight_chips("b200", engine)) == Options()


def test_times_read_the_index_keys_that_capacity_counts() -> None:
    # vLLM, models/deepseek_v32/attention.py: 128 bytes and a scale of 4; SGLang's pool likewise,
    # in a cache of any dtype, also of one that the user chose.
    model, forward = load_model(V32), ForwardPass(batch_size=32, query_len=1, context_len=65536)
    fp8, wide = (132 * 32 * 65537, "fp8"), Options(kv_dtype="bf16")
    for engine, options, expected in (
        ("sglang", None, fp8), ("vllm", None, fp8), ("generic", None, fp8), ("sglang", wide, fp8),
        ("ideal", None, (256 * 32 * 65537, "bf16")),
    ):  # fmt: skip
        work = model_work(model, eight_chips("h200", engine, options), forward)
        ops = [op for op in work.ops if op.op.kind == "indexer"]
        assert {(float(op.op.cache_bytes), op.compute_dtype) for op in ops} == {expected}


@pytest.mark.parametrize(("weights", "bits"), rows("values", "weight_bits"))
def test_bits_of_weights_by_format(weights: str | None, bits: dict[str, int]) -> None:
    model = "openai/gpt-oss-20b" if weights is None else "Qwen/Qwen3-8B"
    setup = eight_chips("h200", "vllm", Options(weight_dtype=weights))
    assert Deployment(load_model(model), setup).weight_bits == bits


# --- a context that is spread over devices: cache, exchanges, drafters and refusals --------------

HEADS = GroupedQueryAttention(16, n_kv_heads=2, head_dim=128, value_dim=128)
SPARSE_256 = replace(LATENT, indexer=Indexer(n_heads=64, head_dim=128, top_k=256))

#: Bytes/s of a link, seconds of the shortest collective, and what each further device adds.
LINK, SHORTEST, FURTHER = 1e9, 2e-6, 1e-6


def linked_setup(framework: str, placement: Placement, chip: str = "b200", **options: Any) -> Setup:
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
    return model_work(of_cores(core), setup, forward)


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


SPREAD_CORES = {"heads": HEADS, "latent": LATENT, "sparse": SPARSE_256, "state": RECURRENT}


@pytest.mark.parametrize(
    ("core", "kind", "spread", "batch", "by_hand"), rows("values", "parts_of_a_context")
)
def test_a_device_reads_its_part_of_the_context(
    core: str, kind: str, spread: dict[str, int], batch: float, by_hand: float
) -> None:
    setup = linked_setup("vllm", Placement(8, **spread), index_dtype="bf16")
    step = ForwardPass(np.array(batch), query_len=1, context_len=999)
    assert read_bytes(work_of(SPREAD_CORES[core], setup, step), kind) == by_hand


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
    setup = linked_setup(framework, placement)
    found = exchanged_s(SPREAD_CORES[core], setup, ForwardPass(**step))
    assert found == pytest.approx(collectives * latency_s + sent_bytes / LINK, rel=1e-9)
    model, forward = of_cores(SPREAD_CORES[core]), ForwardPass(**step)
    works = [model_work(model, setup, forward, by_sequence=alone) for alone in (False, True)]
    whole_s, by_one_s = (float(pass_time(work, setup.engine).communication_s) for work in works)
    assert by_one_s == pytest.approx(whole_s)


def test_a_verification_that_is_a_prefill_gathers_all_latents() -> None:
    # As on one device alone with its two heads: every device reads all of the context.
    verify = ForwardPass(batch_size=2, query_len=5, context_len=1000)
    spread = linked_setup(
        "vllm", Placement(8, decode_context_parallel=8), verify_attention="prefill"
    )
    whole = replace(spread, placement=Placement(8))
    for kind in ("latent_attention", "unsplit_attention", "dense"):
        assert read_bytes(work_of(LATENT, spread, verify), kind) == pytest.approx(
            read_bytes(work_of(LATENT, whole, verify), kind), rel=0.01
        )
    peak = replace(spread.hardware.peak, multiprocessors=256)  # of which most have no block
    busy_s = [
        [float(op.compute_s) for op in work_of(LATENT, setup, verify).ops]
        for setup in (
            replace(one, hardware=replace(one.hardware, peak=peak)) for one in (spread, whole)
        )
    ]
    assert busy_s[0] == pytest.approx(busy_s[1])
    expected_s = SHORTEST + 7 * FURTHER + 7 / 8 * 2 * 1000 * 1152 / LINK
    assert exchanged_s(LATENT, spread, verify) == pytest.approx(expected_s, rel=1e-9)
    # Recurrent state is what it is.
    states = (read_bytes(work_of(RECURRENT, setup, verify), "state") for setup in (spread, whole))
    assert len(set(states)) == 1


def test_thread_blocks_of_all_heads_that_share_a_context_run_on_each_device() -> None:
    # FlashAttention 2 has a block for each head: 2 of 16 on each of 8 devices, 8 where four share.
    verify = ForwardPass(batch_size=1, query_len=4, context_len=1_000_000)
    moved = []
    for spread in (1, 4):
        setup = linked_setup("vllm", Placement(8, decode_context_parallel=spread), chip="a100-80gb")
        peak = replace(setup.hardware.peak, multiprocessors=16)
        setup = replace(setup, hardware=replace(setup.hardware, peak=peak))
        work = work_of(HEADS, setup, verify)
        computed_s = sum(op.compute_s for op in work.ops if op.op.kind == "unsplit_attention")
        moved.append((read_bytes(work, "unsplit_attention"), float(computed_s)))
    # Each block has a unit of its own, and where four share reads a fourth of the bytes; as much
    # is computed either way, by four times as many of the units.
    assert moved[0] == pytest.approx([4 * less for less in moved[1]])


def test_memory_of_a_token_divides_and_state_does_not() -> None:
    model = of_cores(LATENT, RECURRENT)
    one, many = (
        float(device_bytes(storage(model, 1000), Placement(8, decode_context_parallel=n), 1))
        for n in (1, 8)
    )
    assert one - many == 1000 * 1152 * 7 / 8


def test_a_drafter_of_its_own_heads_caches_the_whole_context_on_each_device() -> None:
    def setup(framework: str, chip: str = "b200") -> Setup:
        return linked_setup(framework, Placement(8, decode_context_parallel=4), chip)

    # vllm v1/worker/gpu/spec_decode/dflash/speculator.py, use_mla
    assert draft_placement(of_cores(LATENT), setup("vllm")).decode_context_parallel == 4
    assert draft_placement(of_cores(HEADS), setup("vllm")).decode_context_parallel == 1
    # sglang configs/model_config.py: drafts never join the group
    assert draft_placement(of_cores(LATENT), setup("sglang")).decode_context_parallel == 1
    # vllm v1/attention/backend.py, supports_non_causal_dcp: FLASHINFER_MLA on Blackwell
    block = of_cores(replace(LATENT, causal=False))
    assert draft_placement(block, setup("vllm")).decode_context_parallel == 4
    with pytest.raises(OptionError, match=r"decode_context_parallel is 4.*; allowed: 1, or"):
        draft_placement(block, setup("vllm", "h200"))
    assert drafting_setup(of_cores(HEADS), setup("vllm")).placement == Placement(8)


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
    reading = attention_reading(of_cores(LATENT), setup)(LATENT)
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
    check_placement(of_cores(HEADS, RECURRENT, LATENT), Placement(8, decode_context_parallel=4))
    with pytest.raises(OptionError, match=rf"decode_context_parallel is .*; allowed: {allowed}$"):
        check_placement(of_cores(core), placement)
