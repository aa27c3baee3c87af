"""Kimi Linear, Nemotron-H, Falcon-H1, Granite 4 and MiniMax-M1: shapes, spellings and lists.

Their elements, caches and states are in test_published_sizes.py.
"""

import json
from typing import Any, Final

import pytest

from conftest import _data_folder
from specroof.architecture.experts import Experts
from specroof.architecture.latent import LatentAttention
from specroof.architecture.model import Architecture
from specroof.architecture.recurrent import KimiDeltaAttention, LightningAttention, Mamba2
from specroof.cost import ForwardPass, forward_cost
from specroof.parsers import parse_config
from tables import rows, table
from tiny_configs import Config, experts, labelled, parse, quantized, read_config, shapes

FOLDER: Final = _data_folder("model_configs")
KIMI, K3 = "moonshotai--Kimi-Linear-48B-A3B-Instruct", "moonshotai--Kimi-K3"
H56: Final = "nvidia--Nemotron-H-56B-Base-8K"
NANO: Final = "nvidia--NVIDIA-Nemotron-3-Nano-30B-A3B-BF16"
SUPER: Final = "nvidia--NVIDIA-Nemotron-3-Super-120B-A12B-BF16"
M1: Final = "MiniMaxAI--MiniMax-M1-80k"
GRANITE_1B, GRANITE_TINY = "ibm-granite--granite-4.0-h-1b", "ibm-granite--granite-4.0-h-tiny"
FALCON: Final = "tiiuae--Falcon-H1-7B"


def load(name: str) -> Config:
    config: Config = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    return config


def read(name: str) -> Architecture:
    return read_config(FOLDER / f"{name}.json")


MATRICES: Final = table("family_layers")


@pytest.mark.parametrize(("name", "label", "expected"), MATRICES["recurrent_matrices"])
def test_matrices_of_published_layers(
    name: str, label: str, expected: dict[str, list[int] | None]
) -> None:
    found = shapes(labelled(read(name), label))
    assert {key: [*found[key]] if key in found else None for key in expected} == expected


@pytest.mark.parametrize(
    ("name", "core"),
    [
        (SUPER, Experts(512, 22, 1024, 2688, n_matrices=2)),
        (NANO, Experts(128, 6, 2688, 1856, n_matrices=2)),
        (GRANITE_TINY, Experts(64, 6, 1536, 512)),
        (KIMI, KimiDeltaAttention(32, 128, 4, 3)),
        # the rotary dimensions that it does not rotate are cached
        (KIMI, LatentAttention(32, latent_dim=512, rope_dim=64, head_dims=(192, 128))),
        (M1, LightningAttention(64, 128)),
    ],
)
def test_cores_of_published_layers(name: str, core: object) -> None:
    assert core in [found for _, found in read(name).counted_cores]


@pytest.mark.parametrize(("name", "kinds", "exchanges"), rows("values", "recurrent_layers"))
def test_kinds_of_published_layers(name: str, kinds: dict[str, int], exchanges: int) -> None:
    model = read(name)
    assert model.layer_kinds == kinds
    ops = forward_cost(model, ForwardPass(batch_size=1, query_len=1, context_len=1))
    assert sum(op.count for op in ops if op.collective is not None) == exchanges


@pytest.mark.parametrize(("name", "gone", "words", "changes"), rows("values", "spellings"))
def test_two_spellings_are_one_model(
    name: str, gone: list[str], words: dict[str, Any], changes: Config
) -> None:
    config = load(name)
    for key, into in words.items():  # a list of layers in other words, perhaps under another key
        listed = [*config[key], *into.get("more", [])]
        config[into["key"]] = [into["words"].get(kind, kind) for kind in listed]
    model, own = (
        parse({key: config[key] for key in config if key not in gone} | changes),
        read(name),
    )
    assert (model.layers, model.n_params, model.state_dtype) == (
        *(own.layers, own.n_params, own.state_dtype),
    )


def test_layers_of_kimi_are_counted_from_one() -> None:
    # Layers 1 to 3 are delta attention, layer 4 is not; the lists go on.
    model = parse(load(KIMI) | {"num_hidden_layers": 4})
    assert model.layer_kinds["delta_attention"] == 3
    assert model.layers[-1].blocks[0].label == "latent_attention"
    assert model.layers[0].blocks[1].label == "mlp"  # first_k_dense_replace 1 counts from 0


def test_defaults_of_published_classes() -> None:
    assert "mamba_ssm_cache_dtype" not in load(H56)
    assert read(H56).state_dtype == "fp32"
    assert parse(load(SUPER) | {"mamba_ssm_cache_dtype": "bfloat16"}).state_dtype == "bf16"
    # without mamba_d_ssm twice the hidden size, over 24 heads
    wide = parse(load(FALCON) | {"mamba_d_head": "auto", "mamba_d_ssm": None})
    (mamba,) = (core for _, core in wide.counted_cores if isinstance(core, Mamba2))
    assert mamba.inner_dim == 2 * 3072
    # configuration_granitemoehybrid.py: without a list all layers are Mamba
    bare = parse(load(GRANITE_TINY) | {"layer_types": None})
    assert bare.layer_kinds == {"mamba2": 40, "moe": 40}
    # 23 layers of two matrices for the one shared expert
    config = load(NANO)
    one, none = parse(config), parse(config | {"n_shared_experts": 0})
    assert one.n_params - none.n_params == 23 * 2 * 2688 * 3712
    assert any("MiniMax-Text-01" in note for note in read(M1).notes)
    assert parse(load(M1) | {"model_type": "minimax"}).notes == ()


@pytest.mark.parametrize(
    ("name", "module", "label", "matrix"), rows("values", "quantised_matrices")
)
def test_a_list_names_one_matrix_of_one_layer(
    name: str, module: str, label: str, matrix: str
) -> None:
    # Everything is FP8 but the listed matrix.
    for listed, expected in (([], "fp8"), ([module], "bf16")):
        section = {"quant_method": "fp8", "modules_to_not_convert": listed}
        found = labelled(quantized(load(name), section), label)[matrix]
        assert found.weight.name == expected


def test_experts_of_kimi_k3_are_narrow_and_their_arithmetic_is_not() -> None:
    (form,) = {core.weight for core in experts(read(K3))}
    assert (form.name, form.compute_dtype) == ("mxfp4", "bf16")


def test_a_name_that_promises_narrow_weights_is_held_to_it() -> None:
    text, stated = json.dumps(load(NANO)), json.dumps(load(NANO.replace("BF16", "NVFP4")))
    told = parse_config(text, source="some--Model-NVFP4.json")
    assert told.notes[-1].startswith("the name says NVFP4, but neither ")
    for said, name in ((text, "Model-BF16"), (text, "FP8Model"), (stated, "Model-NVFP4")):
        assert parse_config(said, source=f"some--{name}.json").notes == ()
