"""Whole config files: real ones, nested ones, sidecars, dtypes, names and notes."""

import json
import re
from pathlib import Path

import pytest

from specroof.architecture import Architecture, VisionTower
from specroof.errors import OptionError
from specroof.parsers import PARSERS, parse_config
from tiny_configs import (
    FP8_BLOCKS,
    STATED,
    TINY,
    TINY_COMPRESSED,
    TINY_HYBRID,
    Config,
    anonymous,
    formats,
    left_out,
    linears,
    parse,
)

RENAMED = {
    "meta-llama--Llama-3.1-8B": "meta-llama--Meta-Llama-3.1-8B",
    "meta-llama--Llama-3.1-70B": "meta-llama--Meta-Llama-3.1-70B",
}


def read(file: Path) -> Architecture:
    """Return a config file with the sidecar beside it, if there is one."""
    sidecar = file.with_suffix(".hf_quant_config.json")
    return parse_config(
        file.read_text(encoding="utf-8"),
        source=file.name,
        quantization_text=sidecar.read_text(encoding="utf-8") if sidecar.exists() else None,
    )


def test_bundled_configs_say_what_the_real_ones_say(
    model_configs_folder: Path, real_configs: Path
) -> None:
    compared = 0
    for file in sorted(model_configs_folder.glob("*.json")):
        real = real_configs / f"{RENAMED.get(file.stem, file.stem)}.json"
        if real.exists():  # the others have a file of another name, in the tests of their family
            assert anonymous(read(file)) == anonymous(read(real)), file.name
            compared += 1
    assert compared >= 90


def test_real_configs_of_the_known_families_are_read(real_configs: Path) -> None:
    models = {}
    for file in sorted(real_configs.glob("*.json")):
        config = json.loads(file.read_text(encoding="utf-8"))
        model_type = config.get("text_config", config).get("model_type")
        if not file.name.endswith(".hf_quant_config.json") and model_type in PARSERS:
            models[file.stem] = read(file)
    assert len(models) >= 50
    assert all(0 < model.n_active_params <= model.n_params for model in models.values())
    # a list of ignored modules, a sidecar only, and a list of modules with their own algorithms
    assert "fp8-block" in formats(models["Qwen--Qwen3.5-122B-A10B-FP8"])
    assert "nvfp4" in formats(models["nvidia--DeepSeek-V3.2-NVFP4"])
    assert formats(models["nvidia--Qwen3.6-27B-NVFP4"]) == {"bf16", "fp8", "nvfp4"}
    assert models["nvidia--Llama-3.1-70B-Instruct-FP8"].kv_dtype == "fp8"


def test_awq_bytes_are_those_of_the_published_checkpoint(real_configs: Path) -> None:
    # 18.00 GiB of safetensors: https://huggingface.co/Qwen/Qwen3-32B-AWQ
    model = read(real_configs / "Qwen--Qwen3-32B-AWQ.json")
    assert model.weight_bytes / 2**30 == pytest.approx(18.00, rel=1e-3)


def test_bundled_configs_are_small_and_say_where_they_are_from(model_configs_folder: Path) -> None:
    for file in model_configs_folder.glob("*.json"):
        text = file.read_text(encoding="utf-8")
        # 80 layers of Nemotron-Super differ one by one
        assert len(text) < (6000 if "block_configs" in text else 2000), file.name
        assert json.loads(text)["_source"].startswith("https://"), file.name


@pytest.mark.parametrize(
    ("keys", "activation", "weight"),
    [
        ({}, "bf16", "bf16"),  # gpt-oss has no such key
        ({"torch_dtype": "float16"}, "fp16", "fp16"),
        ({"dtype": "float32"}, "fp32", "fp32"),
        ({"dtype": "torch.bfloat16", "torch_dtype": "float16"}, "bf16", "bf16"),
    ],
)
def test_activations_have_the_stated_dtype(keys: Config, activation: str, weight: str) -> None:
    model = parse(TINY | keys)
    assert (model.activation_dtype, model.kv_dtype) == (activation, activation)
    assert linears(model)["q_proj"].weight.name == model.head.weight.name == weight


@pytest.mark.parametrize(
    ("section", "kv_dtype"),
    [
        ({"kv_cache_scheme": "FP8"}, "fp8"),
        ({"kv_cache_scheme": {"num_bits": 8, "type": "float"}}, "fp8"),
        ({"kv_cache_scheme": {"num_bits": 8, "type": "int"}}, "int8"),
        ({"kv_cache_quant_algo": "NVFP4"}, "fp4"),
        ({"kv_cache_quant_algo": None}, "bf16"),
    ],
)
def test_a_kv_scheme_narrows_the_cache(section: Config, kv_dtype: str) -> None:
    stated = section | {"quant_method": "modelopt", "quant_algo": "FP8"}
    assert parse(TINY | {"quantization_config": stated}).kv_dtype == kv_dtype


def test_the_sidecar_counts_where_the_config_says_nothing() -> None:
    sidecar = {
        "producer": {"name": "modelopt"},
        "quantization": {
            "quant_algo": "NVFP4",
            "kv_cache_quant_algo": "FP8",
            "group_size": 16,
            "exclude_modules": ["lm_head", "model.layers.0.self_attn*"],
        },
    }
    model = parse(TINY, sidecar)
    assert linears(model, 0)["q_proj"].weight.name == "bf16"
    assert linears(model, 0)["down_proj"].weight.name == "nvfp4"
    assert linears(model, 1)["q_proj"].weight.name == "nvfp4"
    assert model.kv_dtype == "fp8"
    bare = parse(TINY, {"quant_algo": "FP8"})  # without the outer object
    assert linears(bare)["q_proj"].weight.name == "fp8"


def test_the_config_counts_before_the_sidecar() -> None:
    sidecar = {"quantization": {"quant_algo": "NVFP4", "kv_cache_quant_algo": "FP8"}}
    model = parse(TINY | {"quantization_config": FP8_BLOCKS}, sidecar)
    assert linears(model)["q_proj"].weight.name == "fp8-block"
    assert model.kv_dtype == "fp8"  # which only the sidecar states


def test_a_multimodal_file_is_its_language_model() -> None:
    inner = TINY | {"model_type": "qwen3", "head_dim": 16}
    outer = {"model_type": "some_vl", "vision_config": {"depth": 2}, "text_config": inner}
    model = parse(outer)
    assert anonymous(model) == anonymous(parse(inner))
    assert model.family == "qwen3"
    assert model.notes == ("vision tower left out",)
    assert model.vision == VisionTower(depth=2)
    assert parse(inner).vision is None
    untyped = {key: value for key, value in inner.items() if key != "model_type"}
    assert parse({"model_type": "qwen3", "text_config": untyped}).family == "qwen3"


def test_keys_of_either_level_are_found() -> None:
    inner = {key: value for key, value in TINY.items() if key != "model_type"}
    outer: Config = {"model_type": "llama", "text_config": inner}
    assert parse(outer | {"dtype": "float16"}).activation_dtype == "fp16"
    assert parse(outer | {"tie_word_embeddings": True}).tied_embeddings
    untied = {"text_config": inner | {"tie_word_embeddings": False}, "tie_word_embeddings": True}
    assert not parse(outer | untied).tied_embeddings
    for place in (outer, inner):
        place["quantization_config"] = FP8_BLOCKS
        assert "fp8-block" in formats(parse(outer))
        del place["quantization_config"]


def test_tied_embeddings_are_stored_once() -> None:
    tied = parse(TINY | {"tie_word_embeddings": True})
    assert parse(TINY).n_params - tied.n_params == 64 * 1000


def test_the_state_has_the_stated_dtype() -> None:
    config = TINY_HYBRID | {"model_type": "qwen3_5", "mamba_ssm_dtype": "bfloat16"}
    assert parse(config).state_dtype == "bf16"


@pytest.mark.parametrize(
    ("config", "notes"),
    [
        (TINY, ()),
        (
            TINY | {"num_nextn_predict_layers": 1},
            ("multi-token-prediction layer not counted among the model's weights",),
        ),
        (TINY | {"mtp_num_hidden_layers": 0}, ()),
        (
            TINY_HYBRID | {"model_type": "qwen3_next"},
            ("multi-token-prediction layer not counted among the model's weights",),
        ),
        (
            TINY_COMPRESSED | {"dspark_block_size": 5, "num_nextn_predict_layers": 1},
            ("DSpark drafter not counted among the model's weights",),
        ),
        (TINY | {"audio_config": {}}, ("audio tower left out",)),
    ],
)
def test_what_is_left_out_is_said(config: Config, notes: tuple[str, ...]) -> None:
    assert left_out(parse(config)) == notes


def test_a_model_is_called_what_the_caller_or_the_file_calls_it() -> None:
    assert parse(TINY, name="mine").name == "mine"
    assert parse(TINY, source="folder/Org--Model-1.5B.json").name == "Org/Model-1.5B"


def test_a_config_can_be_read_as_another_family() -> None:
    unknown = TINY | STATED | {"model_type": "brand_new"}
    model = parse(unknown, family="llama")
    assert anonymous(model) == anonymous(parse(TINY))
    (note,) = model.notes
    assert re.search("llama.* model_type brand_new$", note)
    assert parse(TINY, family="llama").notes == ()
    untyped = {key: value for key, value in unknown.items() if key != "model_type"}
    (note,) = parse(untyped, family="llama").notes
    assert re.search(r"llama.* model_type \(missing\)$", note)
    with pytest.raises(OptionError, match=r"family is 'brand_new'; allowed: .*\bllama,"):
        parse(TINY, family="brand_new")


def test_a_family_is_known_by_its_type_and_not_by_its_name() -> None:
    model = parse(TINY, name="Qwen/Qwen3-Mixtral-DeepSeek", source="gpt-oss.json")
    assert anonymous(model) == anonymous(parse(TINY))
