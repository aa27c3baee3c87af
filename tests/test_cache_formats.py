"""What a server caches in by default: by family, chip and framework, for times and for capacity."""

from dataclasses import replace

import pytest

from specroof import ForwardPass, Options, Placement, capacity, load_hardware, load_model
from specroof.architecture import Architecture
from specroof.engines import ideal_rates, predicted_tokens_per_s
from specroof.evidence import Measurement
from specroof.hardware import EngineProfile
from specroof.latency import Deployment, Setup, model_work, served_options, setup_notes

V4, V32, GLM = "deepseek-ai/DeepSeek-V4-Flash", "deepseek-ai/DeepSeek-V3.2", "zai-org/GLM-5"
EIGHT = Placement(tensor_parallel=8)


def setup_of(chip: str, engine: str, options: Options | None = None) -> Setup:
    """Return eight chips with an engine that loses nothing."""
    profile = EngineProfile(name=engine)
    return Setup(load_hardware(chip), profile, EIGHT, options or Options())


# SGLang 0.5.23, arg_groups/overrides.py: _deepseek_v4_kv_cache_dtype, fp8_e4m3 whatever the chip;
# _dsa_kv_cache_dtype_default, fp8_e4m3 from compute capability 10 on, else bfloat16.
# vLLM 0.33.0: models/deepseek_v4/attention.py, auto is fp8_ds_mla in FlashMLA and on 12.x;
# model_executor/models/config.py, GlmMoeDsaForCausalLM on 10.x; on 12.x the one sparse backend
# makes auto fp8_ds_mla (mla_attention.py, _canonicalize_sparse_mla_kv_cache_dtype).
@pytest.mark.parametrize(
    ("model", "chip", "sglang", "vllm"),
    [
        (V4, "h200", "fp8", "fp8"),
        (V4, "b200", "fp8", "fp8"),
        (V4, "mi355x", "fp8", "fp8"),
        (V4, "rtx-pro-6000", "fp8", "fp8"),
        (V32, "h200", "bf16", "bf16"),
        (V32, "mi355x", "bf16", "bf16"),
        (V32, "b200", "fp8", "bf16"),
        (V32, "gb300", "fp8", "bf16"),
        (V32, "rtx-pro-6000", "fp8", "fp8"),
        (GLM, "h200", "bf16", "bf16"),
        (GLM, "b200", "fp8", "fp8"),
        (GLM, "rtx-pro-6000", "fp8", "fp8"),
        ("deepseek-ai/DeepSeek-R1", "b200", "bf16", "bf16"),
        ("Qwen/Qwen3-8B", "b200", "bf16", "bf16"),
        ("MiniMaxAI/MiniMax-M3", "b200", "bf16", "bf16"),
    ],
)
def test_the_default_cache_of_servers(model: str, chip: str, sglang: str, vllm: str) -> None:
    found = load_model(model)
    for engine, expected in (
        ("sglang", sglang),
        ("vllm", vllm),
        ("generic", vllm),
        ("ideal", "bf16"),
    ):
        setup = setup_of(chip, engine)
        assert Deployment(found, setup).kv_dtype == expected
        said = any("KV cache priced as fp8" in note for note in setup_notes(found, setup))
        assert said == (expected == "fp8")


def test_what_is_chosen_stays() -> None:
    for dtype in ("bf16", "fp8", "fp4"):
        chosen = setup_of("b200", "sglang", Options(kv_dtype=dtype, index_dtype="bf16"))
        options = served_options(load_model(V32), chosen)
        assert (options.kv_dtype, options.index_dtype) == (dtype, "bf16")
    # A checkpoint that names fp8 keeps it, and nothing is to be said.
    named = replace(load_model(V4), kv_dtype="fp8")
    assert served_options(named, setup_of("h200", "vllm")).kv_dtype is None
    assert list(setup_notes(named, setup_of("h200", "vllm"))) == []
    # TensorRT-LLM's rules are not at hand, and the textbook has none.
    for engine in ("tensorrt-llm", "ideal"):
        assert served_options(load_model(V4), setup_of("b200", engine)) == Options()


def test_a_cache_that_vllm_refuses_is_said() -> None:
    # _resolve_dsv4_kv_cache_dtype raises for anything but fp8; SGLang takes bfloat16 too.
    wide = Options(kv_dtype="bf16")
    for engine, expected in (("vllm", True), ("sglang", False)):
        notes = list(setup_notes(load_model(V4), setup_of("h200", engine, wide)))
        assert any("refused" in note for note in notes) == expected


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_capacity_counts_the_default_cache(engine: str) -> None:
    def most(**options: str) -> int:
        answer = capacity(
            V4, "h200", tensor_parallel=4, engine=engine, context_len=131072, options=options
        )
        return answer.sides[0].largest_batch

    assert most() == most(kv_dtype="fp8") > 1.5 * most(kv_dtype="bf16")


def indexer(model: Architecture, setup: Setup) -> tuple[float, str]:
    """Return the bytes that one layer's indexer moves, and what it computes in."""
    forward = ForwardPass(batch_size=32, query_len=1, context_len=65536)
    ops = [op for op in model_work(model, setup, forward).ops if op.op.kind == "indexer"]
    (found,) = {(float(op.op.cache_bytes), op.compute_dtype) for op in ops}
    return found


def test_times_read_the_index_keys_that_capacity_counts() -> None:
    # vLLM, models/deepseek_v32/attention.py: 128 bytes and a scale of 4; SGLang's pool likewise.
    model, tokens = load_model(V32), 32 * (65536 + 1)
    for engine in ("sglang", "vllm", "generic"):
        assert indexer(model, setup_of("h200", engine)) == (132 * tokens, "fp8")
    assert indexer(model, setup_of("h200", "ideal")) == (256 * tokens, "bf16")
    # In a cache of any dtype, also of one that the user chose.
    wide = setup_of("h200", "sglang", Options(kv_dtype="bf16"))
    assert indexer(model, wide) == (132 * tokens, "fp8")


def test_no_measurement_is_refused_for_the_servers_default_cache() -> None:
    # 512 requests of 131072 tokens: an engine that loses nothing is as fast as its cache is read,
    # and a bound that read V4's cache in bf16 would call it impossible.
    point = Measurement(
        place="bench.csv:1", batch_size=512.0, context_len=131072.0, draft_len=0, verify_len=1
    )
    served = Deployment(load_model(V4), setup_of("h200", "vllm"))
    (rate,) = predicted_tokens_per_s([replace(point, tokens_per_s=1.0)], served, None)
    measured = [replace(point, tokens_per_s=float(rate))]
    assert ideal_rates(measured, served, None)[0] == pytest.approx(rate, rel=0.05)
