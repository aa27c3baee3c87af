"""What a server caches in by default: by family, chip and framework, for times and for capacity."""

from dataclasses import replace

import pytest

from specroof import ForwardPass, Options, Placement, load_hardware, load_model
from specroof.hardware.engine import EngineProfile
from specroof.latency.model import model_work, setup_notes
from specroof.latency.setup import Deployment, Setup, served_options
from tables import rows

V4, V32, GLM = "deepseek-ai/DeepSeek-V4-Flash", "deepseek-ai/DeepSeek-V3.2", "zai-org/GLM-5"
EIGHT = Placement(tensor_parallel=8)


def setup_of(chip: str, engine: str, options: Options | None = None) -> Setup:
    """Return eight chips with an engine that loses nothing."""
    profile = EngineProfile(name=engine)
    return Setup(load_hardware(chip), profile, EIGHT, options or Options())


@pytest.mark.parametrize(("model", "chips", "sglang", "vllm"), rows("values", "server_caches"))
def test_the_default_cache_of_servers(model: str, chips: str, sglang: str, vllm: str) -> None:
    found = load_model(model)
    expected = {"sglang": sglang, "vllm": vllm, "generic": vllm, "ideal": "bf16"}
    for chip in chips.split():
        setups = {engine: setup_of(chip, engine) for engine in expected}
        caches = {engine: Deployment(found, setup).kv_dtype for engine, setup in setups.items()}
        assert caches == expected
        for engine, setup in setups.items():
            said = any("KV cache priced as fp8" in note for note in setup_notes(found, setup))
            assert said == (expected[engine] == "fp8")


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


def test_times_read_the_index_keys_that_capacity_counts() -> None:
    # vLLM, models/deepseek_v32/attention.py: 128 bytes and a scale of 4; SGLang's pool likewise,
    # in a cache of any dtype, also of one that the user chose.
    model, forward = load_model(V32), ForwardPass(batch_size=32, query_len=1, context_len=65536)
    fp8, wide = (132 * 32 * 65537, "fp8"), Options(kv_dtype="bf16")
    for engine, options, expected in (
        ("sglang", None, fp8), ("vllm", None, fp8), ("generic", None, fp8), ("sglang", wide, fp8),
        ("ideal", None, (256 * 32 * 65537, "bf16")),
    ):  # fmt: skip
        work = model_work(model, setup_of("h200", engine, options), forward)
        ops = [op for op in work.ops if op.op.kind == "indexer"]
        assert {(float(op.op.cache_bytes), op.compute_dtype) for op in ops} == {expected}


@pytest.mark.parametrize(("weights", "bits"), rows("values", "weight_bits"))
def test_bits_of_weights_by_format(weights: str | None, bits: dict[str, int]) -> None:
    model = "openai/gpt-oss-20b" if weights is None else "Qwen/Qwen3-8B"
    setup = setup_of("h200", "vllm", Options(weight_dtype=weights))
    assert Deployment(load_model(model), setup).weight_bits == bits
