"""Kimi Linear, Nemotron-H, Falcon-H1, Granite 4 and MiniMax-M1: sizes, shapes and pitfalls."""

import json
from pathlib import Path

import numpy as np
import pytest

from recurrent_models import (
    BUNDLED,
    FALCON_7B,
    FAMILIES,
    GRANITE_1B,
    GRANITE_TINY,
    H56,
    K3,
    KIMI,
    M1,
    NANO,
    REAL_NAMES,
    SUPER,
    linears,
    load,
    parse,
    read,
    shapes,
    without_name,
)
from specroof.architecture import (
    Architecture,
    Experts,
    KimiDeltaAttention,
    LatentAttention,
    LightningAttention,
    Mamba2,
)
from specroof.cost import ForwardPass, forward_cost, kv_bytes_per_token


def core(model: Architecture, kind: type) -> object:
    """Return the first core of a kind."""
    return next(
        block.core
        for layer in model.layers
        for block in layer.blocks
        if isinstance(block.core, kind)
    )


# --- real files ----------------------------------------------------------------------------------


def real_names(folder: Path) -> list[str]:
    """Return the real and reconstructed files of these families."""
    return [
        str(file.relative_to(folder).with_suffix(""))
        for file in sorted([*folder.glob("*.json"), *(folder / "reconstructed").glob("*.json")])
        if json.loads(file.read_text(encoding="utf-8")).get("model_type") in {*FAMILIES, "kimi_k3"}
    ]


def test_every_real_file_gives_a_sound_pass(real_configs: Path) -> None:
    names = real_names(real_configs)
    assert len(names) >= 15
    verify = ForwardPass(batch_size=[[1], [32]], query_len=4, context_len=[0, 4096])
    for name in names:
        for op in forward_cost(read(real_configs, name), verify):
            assert np.all(np.isfinite(op.flops)), (name, op.name)
            assert np.all(op.flops > 0), (name, op.name)
            assert np.all(np.isfinite(op.memory_bytes)), (name, op.name)
            assert np.all(op.memory_bytes > 0), (name, op.name)


@pytest.mark.parametrize("name", BUNDLED)
def test_a_bundled_file_says_what_the_whole_one_says(
    model_configs_folder: Path, real_configs: Path, name: str
) -> None:
    whole = read(real_configs, REAL_NAMES.get(name, name), with_sidecar=name != NANO)
    assert without_name(read(model_configs_folder, name)) == without_name(whole)


def test_builds_of_one_model_differ_in_storage_only(real_configs: Path) -> None:
    start = "nvidia--NVIDIA-Nemotron-3-"
    for size, kinds in (
        ("Super-120B-A12B", ("FP8", "NVFP4")),
        ("Ultra-550B-A55B", ("BF16", "FP8", "NVFP4")),
    ):
        models = [read(real_configs, f"{start}{size}-{kind}") for kind in kinds]
        assert len({without_name(model).n_params for model in models}) == 1
        for kind, model in zip(kinds, models, strict=True):
            # The sidecars are not in the folder, which must not pass in silence.
            told = [note for note in model.notes if note.startswith(f"the name says {kind}")]
            assert len(told) == (kind != "BF16")


# --- Nemotron-H ----------------------------------------------------------------------------------


def test_a_nemotron_layer_is_one_block(model_configs_folder: Path) -> None:
    model = read(model_configs_folder, SUPER)
    assert model.n_layers == 88
    assert all(len(layer.blocks) == 1 for layer in model.layers)
    assert model.layer_kinds == {"mamba2": 40, "moe": 40, "full_attention": 8}
    collectives = [
        op.count * (op.collective is not None)
        for op in forward_cost(model, ForwardPass(batch_size=1, query_len=1, context_len=1))
    ]
    assert sum(collectives) == 88  # one a layer, none behind the head


def test_nothing_of_a_nemotron_is_gated(model_configs_folder: Path) -> None:
    model = read(model_configs_folder, H56)
    assert shapes(model, "mlp") == {"up_proj": (32_768, 8192), "down_proj": (8192, 32_768)}
    experts = core(read(model_configs_folder, NANO), Experts)
    assert isinstance(experts, Experts)
    assert experts.n_matrices == 2


def test_latent_experts_work_on_the_latent_and_all_else_on_the_hidden_state(
    model_configs_folder: Path,
) -> None:
    model = read(model_configs_folder, SUPER)
    assert shapes(model, "moe") == {
        "router": (512, 4096),
        "shared_up_proj": (5376, 4096),
        "shared_down_proj": (4096, 5376),
        "fc1_latent_proj": (1024, 4096),
        "fc2_latent_proj": (4096, 1024),
    }
    assert core(model, Experts) == Experts(512, 22, 1024, 2688, n_matrices=2)
    assert "fc1_latent_proj" not in shapes(read(model_configs_folder, NANO), "moe")


def test_the_inner_width_of_mamba_is_that_of_its_heads(model_configs_folder: Path) -> None:
    # 64 * 64 = 4096 and not expand * hidden_size = 5376
    nano = read(model_configs_folder, NANO)
    assert shapes(nano, "mamba2") == {"in_proj": (4096 + 6144 + 64, 2688), "out_proj": (2688, 4096)}
    # mamba_d_ssm 3072 and not mamba_expand * hidden_size = 6144
    falcon = read(model_configs_folder, FALCON_7B)
    assert shapes(falcon, "mamba2")["out_proj"] == (3072, 3072)


def test_the_number_of_layers_may_be_missing_and_the_list_take_any_form(
    model_configs_folder: Path,
) -> None:
    config = load(model_configs_folder, NANO)
    pattern = config.pop("hybrid_override_pattern")
    model = read(model_configs_folder, NANO)
    for key, spelled in (
        ("layers_block_type", {"M": "mamba", "*": "attention", "E": "moe"}),
        ("layer_types", {"M": "linear_attention", "*": "full_attention", "E": "moe"}),
    ):
        listed = {**config, key: [spelled[character] for character in pattern]}
        del listed["num_hidden_layers"]
        assert without_name(parse(listed)) == without_name(model)


def test_bare_infinity_is_read(model_configs_folder: Path) -> None:
    config = load(model_configs_folder, SUPER)
    text = json.dumps({**config, "time_step_limit": [0.0, float("inf")]})
    assert "Infinity" in text
    assert without_name(parse(json.loads(text))) == without_name(parse(config))


def test_state_is_float32_unless_the_config_says_otherwise(model_configs_folder: Path) -> None:
    assert "mamba_ssm_cache_dtype" not in load(model_configs_folder, H56)
    assert read(model_configs_folder, H56).state_dtype == "fp32"
    config = {**load(model_configs_folder, SUPER), "mamba_ssm_cache_dtype": "bfloat16"}
    assert parse(config).state_dtype == "bf16"


# --- Kimi ----------------------------------------------------------------------------------------


def test_layers_of_kimi_are_counted_from_one(model_configs_folder: Path) -> None:
    config = load(model_configs_folder, KIMI)
    config["num_hidden_layers"] = 4
    # Layers 1 to 3 are delta attention, layer 4 is not; the lists go on.
    model = parse(config)
    assert model.layer_kinds["delta_attention"] == 3
    assert model.layers[-1].blocks[0].label == "latent_attention"
    assert model.layers[0].blocks[1].label == "mlp"  # first_k_dense_replace 1 counts from 0


def test_latent_attention_of_kimi_caches_the_rotary_dimensions_that_it_does_not_rotate(
    model_configs_folder: Path,
) -> None:
    # Neither head_dim 72 nor 32 KV heads have anything to do with it.
    config = {**load(model_configs_folder, KIMI), "head_dim": 72, "num_key_value_heads": 32}
    model = parse({**config, "mla_use_nope": True})
    expected = LatentAttention(32, latent_dim=512, rope_dim=64, head_dims=(192, 128))
    assert core(model, LatentAttention) == expected
    assert kv_bytes_per_token(model) == 7 * 576 * 2


def test_kimi_delta_attention_by_hand(model_configs_folder: Path) -> None:
    model = read(model_configs_folder, KIMI)
    assert core(model, KimiDeltaAttention) == KimiDeltaAttention(32, 128, 4, 3)
    assert shapes(model, "delta_attention") == {
        "qkv_proj": (3 * 4096, 2304),
        "f_a_proj": (128, 2304),
        "f_b_proj": (4096, 128),
        "b_proj": (32, 2304),
        "g_a_proj": (128, 2304),
        "g_b_proj": (4096, 128),
        "o_proj": (2304, 4096),
    }


def test_what_kimi_k3_adds(model_configs_folder: Path) -> None:
    model = read(model_configs_folder, K3)
    # One full-rank gate instead of two matrices, and one behind latent attention.
    delta, latent = shapes(model, "delta_attention"), shapes(model, "latent_attention")
    assert delta["g_proj"] == latent["g_proj"] == (96 * 128, 7168)
    assert "g_a_proj" not in delta
    assert latent["q_a_proj"] == (1536, 7168)
    # Experts on a latent, two shared ones at full width.
    experts = core(model, Experts)
    assert isinstance(experts, Experts)
    assert (experts.in_features, experts.hidden_features) == (3584, 3072)
    assert (experts.n_experts, experts.top_k) == (896, 16)
    moe = shapes(model, "moe")
    assert moe["routed_expert_down_proj"] == (3584, 7168)
    assert moe["routed_expert_up_proj"] == (7168, 3584)
    assert moe["shared_gate_up_proj"] == (2 * 6144, 7168)


def test_kimi_as_transformers_saves_it_is_the_same_model(model_configs_folder: Path) -> None:
    config = load(model_configs_folder, KIMI)
    delta_layers = config.pop("linear_attn_config")["kda_layers"]
    n_layers = config["num_hidden_layers"]
    del config["first_k_dense_replace"], config["moe_layer_freq"]
    config["num_local_experts"] = config.pop("num_experts")
    config["num_experts_per_tok"] = config.pop("num_experts_per_token")
    config["n_shared_experts"] = config.pop("num_shared_experts")
    config |= {
        "linear_num_heads": 32,
        "linear_head_dim": 128,
        "layer_types": [
            "linear_attention" if number in delta_layers else "full_attention"
            for number in range(1, n_layers + 1)
        ],
        "mlp_layer_types": ["dense"] + ["sparse"] * (n_layers - 1),
    }
    assert without_name(parse(config)) == without_name(read(model_configs_folder, KIMI))
    config["layer_types"].append("full_attention")  # of draft layers, which are cut
    config["mlp_layer_types"].append("dense")
    assert without_name(parse(config)) == without_name(read(model_configs_folder, KIMI))


# --- Falcon-H1, Granite 4, MiniMax-M1 ------------------------------------------------------------


def test_a_falcon_layer_has_two_mixers_and_two_collectives(model_configs_folder: Path) -> None:
    model = read(model_configs_folder, FALCON_7B)
    (layer,) = model.layers
    assert [block.label for block in layer.blocks] == ["mamba2", "full_attention", "mlp"]
    ops = forward_cost(model, ForwardPass(batch_size=1, query_len=1, context_len=1))
    behind = [op.name for op in ops if op.collective is not None]
    assert behind == ["full_attention.core", "mlp.down_proj"]
    # Two norms of the residual stream, A_log, D and dt_bias of 24 heads, no norm behind Mamba.
    assert sum(block.vector_params for block in layer.blocks) == 2 * 3072 + 3 * 24


def test_the_head_width_of_mamba_may_be_left_to_the_model(model_configs_folder: Path) -> None:
    config = load(model_configs_folder, FALCON_7B)
    model = parse(config)
    for change in ({"mamba_d_head": "auto"}, {"mamba_d_head": None}):
        assert parse({**config, **change}) == model
    # Without mamba_d_ssm, as in the published code: twice the hidden size, over 24 heads.
    wide = parse({**config, "mamba_d_head": "auto", "mamba_d_ssm": None})
    mamba = core(wide, Mamba2)
    assert isinstance(mamba, Mamba2)
    assert mamba.inner_dim == 2 * 3072


def test_granite_has_experts_beside_its_feed_forward_or_that_alone(
    model_configs_folder: Path,
) -> None:
    dense, sparse = (read(model_configs_folder, name) for name in (GRANITE_1B, GRANITE_TINY))
    assert dense.layer_kinds == {"mamba2": 36, "full_attention": 4, "mlp": 40}
    assert shapes(dense, "mlp") == {"gate_up_proj": (2 * 4096, 1536), "down_proj": (1536, 4096)}
    assert sparse.layer_kinds == {"mamba2": 36, "full_attention": 4, "moe": 40}
    assert shapes(sparse, "moe") == {
        "router": (64, 1536),
        "shared_gate_up_proj": (2 * 1024, 1536),
        "shared_down_proj": (1536, 1024),
    }
    assert core(sparse, Experts) == Experts(64, 6, 1536, 512)


def test_granite_spells_its_mixers_in_two_ways(model_configs_folder: Path) -> None:
    config = load(model_configs_folder, GRANITE_TINY)
    renamed = {"mamba": "linear_attention", "attention": "full_attention"}
    types = [renamed[kind] for kind in config["layer_types"]]
    assert parse({**config, "layer_types": types}) == parse(config)
    # configuration_granitemoehybrid.py: without a list all layers are Mamba
    assert parse({**config, "layer_types": None}).layer_kinds == {"mamba2": 40, "moe": 40}


def test_minimax_m1_by_hand(model_configs_folder: Path) -> None:
    model = read(model_configs_folder, M1)
    assert model.layer_kinds == {"lightning_attention": 70, "full_attention": 10, "moe": 80}
    assert core(model, LightningAttention) == LightningAttention(64, 128)
    assert shapes(model, "lightning_attention") == {
        "qkv_proj": (3 * 8192, 6144),
        "output_gate": (8192, 6144),
        "out_proj": (6144, 8192),
    }
    assert set(linears(model, "moe")) == {"router"}  # shared_intermediate_size 0
    assert any("MiniMax-Text-01" in note for note in model.notes)


def test_minimax_as_transformers_saves_it_is_the_same_model(model_configs_folder: Path) -> None:
    config = load(model_configs_folder, M1)
    kinds = ["full_attention" if kind else "linear_attention" for kind in config["attn_type_list"]]
    del config["attn_type_list"]
    saved = parse({**config, "model_type": "minimax", "layer_types": kinds})
    assert saved.layers == read(model_configs_folder, M1).layers
    assert saved.notes == ()


@pytest.mark.parametrize(
    ("name", "key", "entry"),
    [(M1, "attn_type_list", 1), (GRANITE_TINY, "layer_types", "attention")],
)
def test_lists_longer_than_the_model_are_cut(
    model_configs_folder: Path, name: str, key: str, entry: object
) -> None:
    config = load(model_configs_folder, name)
    longer = {**config, key: [*config[key], entry]}
    assert parse(longer) == parse(config)
