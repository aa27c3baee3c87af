"""Quantised builds, refusals and mutations of configs with recurrent layers."""

import copy
import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conftest import _data_folder
from fuzzing import bounded
from recurrent_models import (
    BUNDLED,
    FALCON_7B,
    GRANITE_1B,
    GRANITE_TINY,
    K3,
    KIMI,
    M1,
    NANO,
    NANO_FP4,
    SUPER,
    ULTRA,
    Config,
    linears,
    load,
    parse,
    read,
)
from specroof.architecture import Architecture, Experts
from specroof.cost import ForwardPass, forward_cost, kv_bytes_per_token, state_bytes
from specroof.errors import ConfigError
from specroof.parsers import parse_config

FOLDER = _data_folder("model_configs")
CONFIGS = {name: load(FOLDER, name) for name in BUNDLED}


def experts_of(model: Architecture) -> list[Experts]:
    return [
        block.core
        for layer in model.layers
        for block in layer.blocks
        if isinstance(block.core, Experts)
    ]


# --- quantised builds ----------------------------------------------------------------------------


def test_weight_bytes_of_the_nvfp4_nemotron_by_hand(model_configs_folder: Path) -> None:
    model = read(model_configs_folder, NANO_FP4)
    # Experts and shared experts of 23 layers; Mamba projections but for those of six layers.
    experts = 23 * (128 * 2 * 2688 * 1856 + 2 * 2688 * 3712)
    mamba = (23 - 6) * (2688 * (4096 + 6144 + 64) + 4096 * 2688)
    narrow = experts + mamba
    assert model.weight_bytes == pytest.approx(
        narrow * (0.5 + 1 / 16) + (model.n_params - narrow) * 2
    )
    assert model.kv_dtype == "fp8"
    assert model.head.weight.name == "bf16"
    assert {
        name: linear.weight.name for name, linear in linears(model, "full_attention").items()
    } == (dict.fromkeys(("q_proj", "k_proj", "v_proj", "o_proj"), "bf16"))


def test_weight_bytes_of_kimi_k3_by_hand(model_configs_folder: Path) -> None:
    model = read(model_configs_folder, K3)
    # Weight-only: 4 bits and one scale byte per 32; the arithmetic is that of the activations.
    narrow = 92 * 896 * 3 * 3584 * 3072
    assert model.weight_bytes == pytest.approx(
        narrow * (0.5 + 1 / 32) + (model.n_params - narrow) * 2
    )
    (form,) = {experts.weight for experts in experts_of(model)}
    assert (form.name, form.compute_dtype) == ("mxfp4", "bf16")


@pytest.mark.slow
@pytest.mark.long
def test_a_sidecar_that_lists_every_expert_is_read() -> None:
    """A mixed build of Nemotron 3 Ultra names 49 152 matrices of experts one by one."""
    config = CONFIGS[ULTRA]
    listed: Config = {}
    for index, kind in enumerate(config["hybrid_override_pattern"]):
        mixer = f"backbone.layers.{index}.mixer"
        for matrix in ("up_proj", "down_proj") if kind == "E" else ():
            listed[f"{mixer}.shared_experts.{matrix}"] = {"quant_algo": "FP8"}
            for expert in range(config["n_routed_experts"]):
                entry = {"quant_algo": "NVFP4", "group_size": 16}
                listed[f"{mixer}.experts.{expert}.{matrix}"] = entry
        for matrix in ("in_proj", "out_proj") if kind == "M" else ():
            listed[f"{mixer}.{matrix}"] = {"quant_algo": "FP8"}
    quantization = {"quant_algo": "MIXED_PRECISION", "quantized_layers": listed}
    model = parse(config, {"quantization": quantization})
    assert [experts.weight.name for experts in experts_of(model)] == ["nvfp4"]
    assert {linear.weight.name for linear in linears(model, "mamba2").values()} == {"fp8"}
    assert linears(model, "moe")["shared_up_proj"].weight.name == "fp8"
    assert linears(model, "moe")["fc1_latent_proj"].weight.name == "bf16"
    assert linears(model, "full_attention")["q_proj"].weight.name == "bf16"
    assert len(model.layers) == 3


@pytest.mark.parametrize(
    ("name", "module", "label", "matrix"),
    [
        (SUPER, "backbone.layers.0.mixer.in_proj", "mamba2", "in_proj"),
        (SUPER, "backbone.layers.1.mixer.fc1_latent_proj", "moe", "fc1_latent_proj"),
        (SUPER, "backbone.layers.1.mixer.shared_experts", "moe", "shared_up_proj"),
        (SUPER, "backbone.layers.7.mixer.k_proj", "full_attention", "k_proj"),
        (KIMI, "model.layers.0.self_attn.f_b_proj", "delta_attention", "f_b_proj"),
        (KIMI, "model.layers.0.self_attn.q_proj", "delta_attention", "qkv_proj"),
        (KIMI, "model.layers.0.mlp.gate_proj", "mlp", "gate_up_proj"),
        (KIMI, "model.layers.1.block_sparse_moe.shared_experts", "moe", "shared_down_proj"),
        (FALCON_7B, "model.layers.0.mamba.out_proj", "mamba2", "out_proj"),
        (FALCON_7B, "model.layers.0.feed_forward.down_proj", "mlp", "down_proj"),
        (GRANITE_1B, "model.layers.0.shared_mlp.output_linear", "mlp", "down_proj"),
        (GRANITE_TINY, "model.layers.0.mamba", "mamba2", "in_proj"),
        (M1, "model.layers.0.self_attn.output_gate", "lightning_attention", "output_gate"),
    ],
)
def test_a_list_names_one_matrix_of_one_layer(
    name: str, module: str, label: str, matrix: str
) -> None:
    # Everything is FP8 but the listed matrix.
    quantization = {"quant_method": "fp8", "modules_to_not_convert": [module]}
    model = parse({**CONFIGS[name], "quantization_config": quantization})
    everywhere = parse({**CONFIGS[name], "quantization_config": {"quant_method": "fp8"}})
    found = linears(model, label)[matrix]
    assert found.weight.name == "bf16"
    assert linears(everywhere, label)[matrix].weight.name == "fp8"
    assert model.weight_bytes > everywhere.weight_bytes


def test_a_name_that_promises_narrow_weights_is_held_to_it() -> None:
    text = json.dumps(CONFIGS[NANO])
    told = parse_config(text, source="some--Model-NVFP4.json")
    assert told.notes[-1] == (
        "the name says NVFP4, but neither a quantization_config nor a hf_quant_config.json came "
        "with it: weights read as bf16"
    )
    assert parse_config(text, source="some--Model-BF16.json").notes == ()
    assert parse_config(text, source="some--FP8Model.json").notes == ()
    stated = json.dumps(CONFIGS[NANO_FP4])
    assert parse_config(stated, source="some--Model-NVFP4.json").notes == ()


# --- refusals ------------------------------------------------------------------------------------

LINEAR = CONFIGS[KIMI]["linear_attn_config"]
REFUSED = [
    (NANO, {"hybrid_override_pattern": None}, "hybrid_override_pattern is null"),
    (NANO, {"hybrid_override_pattern": "MEX"}, "allowed: the characters M \\* - E"),
    (NANO, {"hybrid_override_pattern": ""}, "allowed: 1 to 2000 layers"),
    (NANO, {"hybrid_override_pattern": "ME" * 1001}, "allowed: 1 to 2000 layers"),
    (NANO, {"layers_block_type": ["mamba", "conv"]}, r"layers_block_type\[1\]"),
    (NANO, {"num_hidden_layers": 51}, "num_hidden_layers is 51; allowed: the 52 layers of"),
    (NANO, {"n_groups": 3}, "n_groups is 3; allowed: a divisor of the 64 Mamba heads"),
    (NANO, {"n_shared_experts": 2}, "n_shared_experts is 2"),
    (NANO, {"num_experts_per_tok": 129}, "num_experts_per_tok is 129"),
    (NANO, {"mamba_ssm_cache_dtype": "int3"}, "mamba_ssm_cache_dtype"),
    (NANO, {"mamba_num_heads": None}, "mamba_num_heads"),
    (NANO, {"moe_shared_expert_intermediate_size": None}, "moe_shared_expert"),
    (NANO, {"moe_latent_size": 0}, "moe_latent_size is 0"),
    (KIMI, {"linear_attn_config": None}, "linear_attn_config is null"),
    (KIMI, {"linear_attn_config": {**LINEAR, "kda_layers": [1]}}, "layer 2 in one of"),
    (KIMI, {"linear_attn_config": {**LINEAR, "full_attn_layers": [1]}}, "layer 1 in one of"),
    (KIMI, {"linear_attn_config": {**LINEAR, "kda_layers": [0]}}, r"kda_layers\[0\] is 0"),
    (KIMI, {"linear_attn_config": {**LINEAR, "num_heads": True}}, "config.num_heads is true"),
    (KIMI, {"num_shared_experts": None}, "num_shared_experts or n_shared_experts"),
    (KIMI, {"first_k_dense_replace": None}, "first_k_dense_replace"),
    (KIMI, {"num_experts": 0}, "num_experts is 0"),
    (FALCON_7B, {"mamba_d_ssm": 4096}, r"mamba_d_ssm is 4096; allowed: mamba_n_heads times"),
    (FALCON_7B, {"mamba_d_head": "auto", "mamba_n_heads": 25}, "a divisor of the 3072 Mamba"),
    (FALCON_7B, {"mamba_d_head": [1]}, "mamba_d_head is a list of 1"),
    (GRANITE_1B, {"mamba_expand": 3}, "mamba_expand is 3"),
    (GRANITE_1B, {"num_local_experts": None}, "num_local_experts"),
    (GRANITE_TINY, {"layer_types": ["mamba"]}, "layer_types is a list of 1"),
    (M1, {"attn_type_list": None}, "attn_type_list is null"),
    (M1, {"attn_type_list": [0, 2] * 40}, r"attn_type_list\[1\] is 2; allowed: 0, 1"),
    (M1, {"attn_type_list": [0]}, "at least 80 entries"),
]


@pytest.mark.parametrize(("name", "change", "message"), REFUSED)
def test_what_describes_no_model_is_refused_in_one_line(
    name: str, change: Config, message: str
) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        parse({**CONFIGS[name], **change})
    text = str(caught.value)
    assert text.startswith("some/config.json: ")
    assert "\n" not in text


def test_flat_sizes_of_delta_attention_need_the_kind_of_each_layer() -> None:
    config = {key: value for key, value in CONFIGS[KIMI].items() if key != "linear_attn_config"}
    config |= {"linear_num_heads": LINEAR["num_heads"], "linear_head_dim": LINEAR["head_dim"]}
    with pytest.raises(
        ConfigError, match=r"linear_attn_config is missing; .*kda_layers .*full_attn_layers"
    ):
        parse(config)


def test_a_mixture_may_have_no_shared_expert() -> None:
    with_one = parse(CONFIGS[NANO])
    without = parse({**CONFIGS[NANO], "n_shared_experts": 0})
    layers = sum(
        layer.count
        for layer in with_one.layers
        for block in layer.blocks
        if isinstance(block.core, Experts)
    )
    width = CONFIGS[NANO]["moe_shared_expert_intermediate_size"]
    hidden_size = CONFIGS[NANO]["hidden_size"]
    assert with_one.n_params - without.n_params == layers * 2 * hidden_size * width


# --- mutations -----------------------------------------------------------------------------------

MISSING = object()
VALUES: list[Any] = [
    *(MISSING, None, True, False, 0, -1, 1, 2, 3, 7, 2**24, 2**24 + 1, 10**30, 1.5, -0.0, 1e308),
    *("", "4", "auto", "float32", "MEM*E-", [], [0], [1, 0], [None], ["mamba"], {}, {"a": 1}),
]


def paths(config: Config, *start: str) -> list[tuple[str, ...]]:
    """Return where each value of a config stands, those of nested objects included."""
    found = []
    for key, value in config.items():
        found.append((*start, key))
        if isinstance(value, dict):
            found += paths(value, *start, key)
    return found


def mutated(config: Config, path: tuple[str, ...], value: Any) -> Config:
    whole = copy.deepcopy(config)
    part = whole
    for key in path[:-1]:
        part = part[key]
    if value is MISSING:
        del part[path[-1]]
    else:
        part[path[-1]] = value
    return whole


PATHS = [(name, path) for name in BUNDLED for path in paths(CONFIGS[name])]


@pytest.mark.fuzz
@bounded(1500)
@given(st.sampled_from(PATHS), st.one_of(st.sampled_from(VALUES), st.integers(-5, 2**25)))
def test_a_mutated_config_gives_a_sound_result_or_a_line(
    where: tuple[str, tuple[str, ...]], value: Any
) -> None:
    name, path = where
    try:
        model = parse(mutated(CONFIGS[name], path, value))
    except ConfigError as error:
        message = str(error)
    else:
        check_soundness(model)
        return
    assert message.startswith("some/config.json: ")
    assert "\n" not in message


def check_soundness(model: Architecture) -> None:
    assert 0 < model.n_active_params <= model.n_params
    assert 0 < model.weight_bytes < math.inf
    assert 0 <= kv_bytes_per_token(model) < math.inf
    assert 0 <= state_bytes(model) < math.inf
    for op in forward_cost(model, ForwardPass(batch_size=2, query_len=3, context_len=100)):
        assert 0 < float(op.flops) < math.inf, op.name
        assert 0 < float(op.memory_bytes) < math.inf, op.name
