"""Published checkpoints of Llama, Mistral, Phi, Gemma, OPT, MiMo and the dense Qwen.

Their real configs parse, with their sidecars; bundled ones say the same in fewer words; elements
are those that the checkpoints hold, cached bytes are counted by hand.
"""

import json
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from specroof.architecture import Architecture
from specroof.cost import ForwardPass, forward_cost
from specroof.cost.forward import kv_cache_bytes
from specroof.parsers import parse_config
from tiny_configs import Config

#: The real file of each bundled checkpoint, where it has another name.
OTHER_FILES = {
    "meta-llama--Llama-3.1-405B": "meta-llama--Meta-Llama-3.1-405B",
    # instruction-tuned, and of the same sizes
    "meta-llama--Llama-3.1-8B-Instruct": "meta-llama--Meta-Llama-3.1-8B",
    "meta-llama--Llama-3.3-70B-Instruct": "meta-llama--Llama-3.1-70B-Instruct",
    # restated by a simulator or a trainer
    "facebook--opt-66b": "reconstructed/facebook--opt-66b",
    "google--gemma-4-E2B": "reconstructed/google--gemma-4-E2B",
    "google--gemma-4-E4B": "reconstructed/google--gemma-4-E4B",
}

# --- what checkpoints hold beside the language model ---------------------------------------------


def nothing(_hidden: int) -> int:
    return 0


def second_table(hidden: int) -> int:
    """Count the head of a small Qwen3, which is the embedding stored once more."""
    return 151_936 * hidden


def vision_layer(width: int, mlp_width: int) -> int:
    """Count a layer of a picture encoder with biases: four projections, two matrices, two norms."""
    projections = 4 * (width * width + width)
    return projections + 2 * width * mlp_width + mlp_width + width + 2 * 2 * width


def siglip(hidden: int) -> int:
    """Count Gemma 3's tower: patches of 14 x 14 pixels, 64 x 64 of them, and the way out of it."""
    width = 1152
    embedding = 3 * 14 * 14 * width + width + 4096 * width
    layers = 27 * vision_layer(width, 4304) + 2 * width
    return embedding + layers + width * hidden + width


def pixtral(hidden: int) -> int:
    """Count Mistral Small 3.1's tower, which has no biases, and its projector of 2 x 2 patches."""
    width, mlp_width = 1024, 4096
    layer = 4 * width * width + 3 * width * mlp_width + 2 * width
    tower = 3 * 14 * 14 * width + width + 24 * layer
    return tower + width + 4 * width * width + width * hidden + hidden * hidden


def llama4_tower(hidden: int) -> int:
    """Count Llama 4's tower: 24 x 24 patches of 14 x 14 pixels and a class, no bias on patches."""
    width, mlp_width = 1408, 5632
    embedding = 3 * 14 * 14 * width + width + (24 * 24 + 1) * width + 2 * 2 * width
    layers = 34 * vision_layer(width, mlp_width)
    return embedding + layers + mlp_width * 4096 + 4096 * 4096 + 4096 * hidden


def mimo_draft_layer(hidden: int) -> int:
    """Count MiMo's `mtp_layers.0`: a layer as the others, five norms, and the joining matrix."""
    attention = 2 * hidden * hidden + hidden + 2 * (hidden * 1024 + 1024)
    return attention + 3 * hidden * 11008 + 2 * hidden * hidden + 5 * hidden


#: Elements of the safetensors files, as each checkpoint's page on the Hub has them, and what they
#: hold beside the language model.
ELEMENTS: dict[str, tuple[int, Callable[[int], int]]] = {
    "Qwen--Qwen2.5-1.5B-Instruct": (1_543_714_304, nothing),
    "Qwen--Qwen2.5-3B": (3_085_938_688, nothing),
    "Qwen--Qwen2.5-7B": (7_615_616_512, nothing),
    "Qwen--Qwen2.5-7B-Instruct": (7_615_616_512, nothing),
    "Qwen--Qwen2.5-32B": (32_763_876_352, nothing),
    "Qwen--Qwen3-0.6B": (751_632_384, second_table),
    "Qwen--Qwen3-1.7B": (2_031_739_904, second_table),
    "Qwen--Qwen3-14B": (14_768_307_200, nothing),
    "XiaomiMiMo--MiMo-7B-Base": (7_833_409_536, mimo_draft_layer),
    "google--gemma-2-27b-it": (27_227_128_320, nothing),
    "google--gemma-3-1b-it": (999_885_952, nothing),
    "google--gemma-3-4b-it": (4_300_079_472, siglip),
    "google--gemma-3-12b-it": (12_187_325_040, siglip),
    "google--gemma-3-27b-it": (27_432_406_640, siglip),
    "meta-llama--Llama-2-7b-hf": (6_738_415_616, nothing),
    "meta-llama--Llama-2-13b-hf": (13_015_864_320, nothing),
    "meta-llama--Llama-2-70b-hf": (68_976_648_192, nothing),
    "meta-llama--Llama-3.1-8B-Instruct": (8_030_261_248, nothing),
    "meta-llama--Llama-3.1-70B-Instruct": (70_553_706_496, nothing),
    "meta-llama--Llama-3.1-405B": (405_853_388_800, nothing),
    "meta-llama--Llama-3.2-1B-Instruct": (1_235_814_400, nothing),
    "meta-llama--Llama-3.3-70B-Instruct": (70_553_706_496, nothing),
    "meta-llama--Llama-4-Maverick-17B-128E": (401_583_781_376, llama4_tower),
    "meta-llama--Llama-4-Scout-17B-16E": (108_641_793_536, llama4_tower),
    "meta-llama--Llama-4-Scout-17B-16E-Instruct": (108_641_793_536, llama4_tower),
    "microsoft--phi-4": (14_659_507_200, nothing),
    "mistralai--Mistral-7B-Instruct-v0.3": (7_248_023_552, nothing),
    "mistralai--Mistral-7B-v0.1": (7_241_732_096, nothing),
    "mistralai--Mistral-Small-3.1-24B-Instruct-2503": (24_011_361_280, pixtral),
    "nvidia--Llama-3_3-Nemotron-Super-49B-v1": (49_867_145_216, nothing),
}
#: Quantised builds, and checkpoints of other training, by one of the same elements.
SAME_ELEMENTS = {
    "Qwen--Qwen3-32B-AWQ": "Qwen--Qwen3-32B",
    "Qwen--Qwen3-32B-FP8": "Qwen--Qwen3-32B",
    "Qwen--Qwen3-32B-FP8-Static-PerTensor": "Qwen--Qwen3-32B",
    "Qwen--Qwen3-VL-32B-Instruct": "Qwen--Qwen3-32B",
    "lmsys--vicuna-7b-v1.3": "meta-llama--Llama-2-7b-hf",
    "lmsys--vicuna-13b-v1.3": "meta-llama--Llama-2-13b-hf",
    "mistralai--Devstral-Small-2-24B-Instruct-2512": (
        "mistralai--Mistral-Small-3.1-24B-Instruct-2503"
    ),
    "nvidia--Gemma-4-26B-A4B-NVFP4": "google--gemma-4-26B-A4B",
    "nvidia--Gemma-4-31B-IT-NVFP4": "google--gemma-4-31B-it",
    "nvidia--Llama-3.1-70B-Instruct-FP8": "meta-llama--Llama-3.1-70B-Instruct",
}
#: Total and active billions, as far as their publisher gives digits. Gemma 4: the model card.
BILLIONS = {
    "google--gemma-4-12B": (12, 12, 1.0),
    "google--gemma-4-26B-A4B": (25.2, 3.8, 0.1),  # the name counts the vision tower of 0.55
    "google--gemma-4-31B-it": (30.7, 30.7, 0.1),
    "facebook--opt-66b": (66, 66, 1.0),  # arXiv:2205.01068, table 1
}
NAMES = sorted({*ELEMENTS, *SAME_ELEMENTS, *BILLIONS, "google--gemma-4-E2B", "google--gemma-4-E4B"})
#: Without a config of their own in the folder of real ones.
WITHOUT_A_FILE = {"lmsys--vicuna-7b-v1.3", "lmsys--vicuna-13b-v1.3"}


def read(file: Path) -> Architecture:
    """Return a config file with the sidecar beside it, if there is one."""
    sidecar = file.with_suffix(".hf_quant_config.json")
    return parse_config(
        file.read_text(encoding="utf-8"),
        source=file.name,
        quantization_text=sidecar.read_text(encoding="utf-8") if sidecar.exists() else None,
    )


@cache
def bundled(folder: Path, name: str) -> Architecture:
    return read(folder / f"{name}.json")


def real_file(folder: Path, name: str) -> Path:
    """Return the real config, or the one that somebody restated."""
    file = folder / f"{OTHER_FILES.get(name, name)}.json"
    return file if file.exists() else folder / "reconstructed" / file.name


def assert_sound(model: Architecture) -> None:
    """Price a few passes: every amount is a finite number, and there is work and traffic."""
    forward = ForwardPass(
        batch_size=np.array([1.0, 64.0])[:, None, None],
        query_len=np.array([1.0, 8.0])[:, None],
        context_len=np.array([0.0, 8192.0, 1e6]),
    )
    flops = moved = np.zeros(())
    for op in forward_cost(model, forward):
        for amount in (op.flops, op.weight_bytes, op.cache_bytes, op.activation_bytes):
            assert np.all(np.isfinite(amount))
            assert np.all(amount >= 0)
        flops = flops + op.count * op.flops
        moved = moved + op.count * op.memory_bytes
    assert np.all(flops > 0)
    assert np.all(moved > 0)


# --- real configs --------------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(set(NAMES) - WITHOUT_A_FILE))
def test_a_real_config_gives_a_sound_pass(name: str, real_configs: Path) -> None:
    assert_sound(read(real_file(real_configs, name)))


@pytest.mark.parametrize("name", sorted(set(NAMES) - WITHOUT_A_FILE))
def test_a_bundled_config_says_what_the_real_one_says(
    name: str, real_configs: Path, model_configs_folder: Path
) -> None:
    real, short = read(real_file(real_configs, name)), bundled(model_configs_folder, name)
    if name in {"google--gemma-3-4b-it", "google--gemma-3-12b-it"}:
        # Restated with the vocabulary of the text-only size; published files say none, which is
        # 262208, as their elements confirm.
        real = replace(real, vocab_size=short.vocab_size, head=short.head)
    assert replace(short, name="", notes=()) == replace(real, name="", notes=())


def test_every_real_config_of_these_families_is_bundled(real_configs: Path) -> None:
    families = ("gemma", "llama", "mistral", "ministral", "phi", "mimo", "nemotron-nas", "opt")
    dense_qwen = {"qwen2", "qwen3", "qwen3_vl_text"}
    known = {real_file(real_configs, name).stem for name in set(NAMES) - WITHOUT_A_FILE}
    known |= {"meta-llama--Meta-Llama-3.1-70B", *SAME_ELEMENTS.values()}
    known |= {f"Qwen--Qwen{name}" for name in ("2.5-72B-Instruct", "3-4B", "3-8B")}
    for file in real_configs.glob("*.json"):
        config: Config = json.loads(file.read_text(encoding="utf-8"))
        model_type = config.get("text_config", config).get("model_type", "")
        if model_type == "mimo_v2_flash" or not model_type.startswith((*families, "qwen")):
            continue
        if not model_type.startswith("qwen") or model_type in dense_qwen:
            assert file.stem in known


@pytest.mark.parametrize("size", ["7", "13"])
def test_a_vicuna_has_the_layer_that_its_draft_head_was_made_from(
    size: str, real_configs: Path, model_configs_folder: Path
) -> None:
    trained = f"SafeAILab--EAGLE-vicuna-{size}B.train_config.json"
    head = read(real_configs / "reconstructed" / "drafters" / trained)
    model = bundled(model_configs_folder, f"lmsys--vicuna-{size}b-v1.3")
    assert [layer.blocks for layer in model.layers] == [layer.blocks for layer in head.layers]
    assert (model.head, model.vocab_size) == (head.head, head.vocab_size)


# --- sizes ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(ELEMENTS))
def test_elements_are_those_of_the_checkpoint(name: str, model_configs_folder: Path) -> None:
    model = bundled(model_configs_folder, name)
    elements, beside = ELEMENTS[name]
    assert model.n_params + beside(model.hidden_size) == elements


@pytest.mark.parametrize("name", sorted(SAME_ELEMENTS))
def test_builds_of_one_model_have_its_elements(name: str, model_configs_folder: Path) -> None:
    model, other = (bundled(model_configs_folder, one) for one in (name, SAME_ELEMENTS[name]))
    assert (model.n_params, model.n_active_params) == (other.n_params, other.n_active_params)


@pytest.mark.parametrize("name", sorted(BILLIONS))
def test_sizes_are_what_the_publisher_says(name: str, model_configs_folder: Path) -> None:
    model = bundled(model_configs_folder, name)
    total, active, digit = BILLIONS[name]
    assert abs(model.n_params / 1e9 - total) <= digit / 2
    assert abs(model.n_active_params / 1e9 - active) <= digit / 2


@pytest.mark.parametrize(
    ("name", "millions"),
    [("1b", 698), ("4b", 3_209), ("12b", 10_759), ("27b", 25_600)],
)
def test_gemma_3_has_the_parameters_of_its_report(
    name: str, millions: int, model_configs_folder: Path
) -> None:
    # arXiv:2503.19786, table 1: "non-embedding parameters"
    model = bundled(model_configs_folder, f"google--gemma-3-{name}-it")
    assert round((model.n_params - model.embedding_params) / 1e6) == millions


@pytest.mark.parametrize(
    ("name", "effective", "total", "digit"), [("E2B", 2.3, 5.1, 0.1), ("E4B", 4.5, 8, 0.5)]
)
def test_the_names_of_small_gemma_4_count_no_embeddings_per_layer(
    name: str, effective: float, total: float, digit: float, model_configs_folder: Path
) -> None:
    # Model card: 2.3 (5.1 with embeddings) and 4.5 (8); towers for pictures of 0.15 and for sound
    # of 0.3 are in the second number. E4B is 4.64 here: its card says half billions.
    model = bundled(model_configs_folder, f"google--gemma-4-{name}")
    assert abs((model.n_params - model.lookup_params) / 1e9 - effective) <= digit / 2
    assert abs(model.n_params / 1e9 + 0.15 + 0.3 - total) <= digit / 2


def test_llama_4_uses_17_billion(model_configs_folder: Path) -> None:
    for name in ("Scout-17B-16E", "Maverick-17B-128E"):
        model = bundled(model_configs_folder, f"meta-llama--Llama-4-{name}")
        assert round(model.n_active_params / 1e9) == 17


# --- cached bytes --------------------------------------------------------------------------------

#: Per distinct kind of layer: layers, KV heads, width of a head, tokens kept at most.
CACHES: dict[str, list[tuple[int, int, int, float]]] = {
    "meta-llama--Llama-2-7b-hf": [(32, 32, 128, np.inf)],
    "mistralai--Mistral-7B-v0.1": [(32, 8, 128, 4096)],
    "microsoft--phi-4": [(40, 10, 128, np.inf)],
    "google--gemma-2-27b-it": [(23, 16, 128, 4096), (23, 16, 128, np.inf)],
    "google--gemma-3-27b-it": [(52, 16, 128, 1024), (10, 16, 128, np.inf)],
    # full layers have 4 heads of 512; keys are values, and both are cached
    "google--gemma-4-31B-it": [(50, 16, 256, 1024), (10, 4, 512, np.inf)],
    # 20 of 35 layers read what others keep
    "google--gemma-4-E2B": [(12, 1, 256, 512), (3, 1, 512, np.inf)],
    "meta-llama--Llama-4-Scout-17B-16E": [(36, 8, 128, 8192), (12, 8, 128, np.inf)],
    # 31 of 80 layers have no attention
    "nvidia--Llama-3_3-Nemotron-Super-49B-v1": [(49, 8, 128, np.inf)],
}


@pytest.mark.parametrize("name", sorted(CACHES))
def test_cached_bytes_are_counted_by_hand(name: str, model_configs_folder: Path) -> None:
    model = bundled(model_configs_folder, name)
    for context in (100, 20_000):
        expected = sum(
            n_layers * 2 * n_heads * head_dim * 2 * min(context, kept)
            for n_layers, n_heads, head_dim, kept in CACHES[name]
        )
        assert kv_cache_bytes(model, context) == expected


@pytest.mark.parametrize(
    ("name", "read"),
    [
        # 12 full layers read 12000 tokens, 36 the 12000 - 8192 of the begun chunk; and one more
        ("meta-llama--Llama-4-Scout-17B-16E", 8 * 128 * (12 * 12_001 + 36 * 3_809)),
        # 28 sliding layers read 511 tokens and one more, 7 full ones all: 256 and 512 wide
        ("google--gemma-4-E2B", 28 * 256 * 512 + 7 * 512 * 12_001),
        # 50 sliding, 10 full
        ("google--gemma-4-31B-it", 50 * 16 * 256 * 1024 + 10 * 4 * 512 * 12_001),
    ],
)
def test_a_step_moves_what_its_layers_see(name: str, read: int, model_configs_folder: Path) -> None:
    model = bundled(model_configs_folder, name)
    ops = forward_cost(model, ForwardPass(batch_size=1, query_len=1, context_len=12_000))
    moved = sum(op.count * float(op.cache_bytes) for op in ops)
    assert moved == read * 2 * 2  # keys and values, bf16


# --- stored bytes --------------------------------------------------------------------------------

FP8, FP8_BLOCK, NVFP4 = 1.0, 1 + 4 / 16384, 0.5 + 1 / 16

#: What a quantised build stores narrower than bf16: elements and bytes of each, by hand.
LLAMA_70B = 80 * (2 * 8192 * 8192 + 2 * 8192 * 1024 + 3 * 8192 * 28672)
MISTRAL_24B = 40 * (2 * 5120 * 4096 + 2 * 5120 * 1024 + 3 * 5120 * 32768)
QWEN_32B = 64 * (2 * 5120 * 8192 + 2 * 5120 * 1024 + 3 * 5120 * 25600)
NARROW = {
    "nvidia--Llama-3.1-70B-Instruct-FP8": (LLAMA_70B, FP8),
    "mistralai--Devstral-Small-2-24B-Instruct-2512": (MISTRAL_24B, FP8),
    "Qwen--Qwen3-32B-FP8": (QWEN_32B, FP8_BLOCK),
    "Qwen--Qwen3-32B-FP8-Static-PerTensor": (QWEN_32B, FP8),
    # feed-forward only
    "nvidia--Gemma-4-31B-IT-NVFP4": (60 * 3 * 5376 * 21504, NVFP4),
    # experts only
    "nvidia--Gemma-4-26B-A4B-NVFP4": (30 * 128 * 3 * 2816 * 704, NVFP4),
}


@pytest.mark.parametrize("name", sorted(NARROW))
def test_stored_bytes_are_the_matrices_at_their_width(
    name: str, model_configs_folder: Path
) -> None:
    model = bundled(model_configs_folder, name)
    elements, element_bytes = NARROW[name]
    rest = model.n_params - elements
    assert model.weight_bytes == pytest.approx(elements * element_bytes + 2 * rest, rel=1e-12)


@pytest.mark.parametrize("name", sorted(NARROW))
def test_builds_that_say_so_narrow_their_cache(name: str, model_configs_folder: Path) -> None:
    narrow = name.startswith("nvidia") or name.endswith("PerTensor")
    assert bundled(model_configs_folder, name).kv_dtype == ("fp8" if narrow else "bf16")
