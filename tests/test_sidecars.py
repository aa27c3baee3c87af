"""`hf_quant_config.json`: found wherever it lies, and never overlooked in silence."""

import json
from pathlib import Path

import pytest

from specroof.architecture.model import Architecture
from specroof.catalog import load_model
from specroof.errors import ConfigError
from tiny_configs import TINY, Config, formats, parse

BUT_HEAD: Config = {"exclude_modules": ["lm_head"]}
FP8: Config = {"quantization": {"quant_algo": "FP8", "kv_cache_quant_algo": "FP8", **BUT_HEAD}}
NVFP4: Config = {"quant_algo": "NVFP4", "quant_method": "modelopt", **BUT_HEAD}


def loaded(form: str, config: Config, sidecar: object, folder: Path) -> Architecture:
    """Return a model whose config and sidecar lie in one of four ways."""
    names = {
        "folder": ("config.json", "hf_quant_config.json"),
        "config.json": ("config.json", "hf_quant_config.json"),
        "file": ("Mine-1.5B.json", "Mine-1.5B.hf_quant_config.json"),
        "hub": ("blob-1", "blob-2"),
    }[form]
    for name, value in zip(names, (config, sidecar), strict=True):
        (folder / name).write_text(value if isinstance(value, str) else json.dumps(value))
    if form == "folder":
        return load_model(folder)
    if form != "hub":
        return load_model(folder / names[0])
    files = dict(zip(("config.json", "hf_quant_config.json"), names, strict=True))
    return load_model("org/name", fetch=lambda _repository, name: folder / files[name])


FORMS = pytest.mark.parametrize("form", ["folder", "config.json", "file", "hub"])


@FORMS
def test_a_sidecar_alone_counts(form: str, tmp_path: Path) -> None:
    model = loaded(form, TINY, FP8, tmp_path)
    assert (formats(model), model.kv_dtype, model.notes) == ({"fp8"}, "fp8", ())


@FORMS
def test_a_sidecar_that_cannot_be_read_is_refused(form: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"hf_quant_config\.json of .*: no readable JSON"):
        loaded(form, TINY, "{", tmp_path)
    with pytest.raises(ConfigError, match="quant_algo"):
        loaded(form, TINY, {"quantization": {"quant_algo": "FP3"}}, tmp_path)


@FORMS
def test_a_sidecar_that_differs_from_the_config_is_said(form: str, tmp_path: Path) -> None:
    config = TINY | {"quantization_config": NVFP4 | {"kv_cache_scheme": "NVFP4"}}
    model = loaded(form, config, FP8, tmp_path)
    assert (formats(model), model.kv_dtype) == ({"nvfp4"}, "fp4")
    weights, cache = model.notes
    # 2 layers of 2 x 64 x 64, 2 x 64 x 32, 64 x 256, 128 x 64; embedding and head of 64 000 and
    # five norms of 64 in two bytes: 256 640; and 73 728 elements of 9/16 of a byte, or of one
    assert "weights of 291 KiB by the first, which counts, 323 KiB by the second" in weights
    assert "KV cache of fp4, which counts" in cache


def test_two_files_that_say_the_same_in_other_words_are_no_news() -> None:
    section: Config = {"quant_method": "modelopt", "quant_algo": "FP8"}
    section["ignore"] = ["lm_head", "model.layers.1.mlp*"]
    excluded = ["lm_head", "model.layers.1.mlp.gate_proj", "layers.1.mlp.down_proj"]
    sidecar = {"quantization": FP8["quantization"] | {"exclude_modules": excluded}}
    model = parse(TINY | {"quantization_config": section}, sidecar)
    assert (model.kv_dtype, model.notes) == ("fp8", ())  # the cache is in one of the two only


def test_a_sidecar_that_is_not_understood_is_said_where_the_config_is_clear() -> None:
    sidecar = {"quantization": {"quant_algo": "FP3"}}
    model = parse(TINY | {"quantization_config": NVFP4}, sidecar)
    assert formats(model) == {"nvfp4"}
    (note,) = model.notes
    assert note.startswith("quantization_config counts; the file beside it is not understood: ")
    assert 'quant_algo is "FP3"' in note


def test_the_published_files_that_differ_are_known(real_configs: Path) -> None:
    beside = [file.name for file in real_configs.glob("*.hf_quant_config.json")]
    names = [name.removesuffix(".hf_quant_config.json") for name in beside]
    models = {name: load_model(real_configs / f"{name}.json") for name in names}
    differing = {name for name, model in models.items() if "beside it" in "".join(model.notes)}
    # Its sidecar lists the experts only; the config adds that attention is in fp8 blocks.
    assert differing == {"nvidia--DeepSeek-V4-Flash-NVFP4"}
