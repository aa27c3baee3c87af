"""Configs that transformers 5.23 has read and saved again: other keys, the same model."""

import json
from typing import Any

import pytest

from specroof.architecture import CompressedAttention
from specroof.errors import ConfigError
from specroof.parsers.drafters import parse_drafter_config
from tiny_configs import (
    CONFIGS,
    TINY_COMPRESSED,
    TINY_EXPERTS,
    TINY_LATENT,
    Config,
    anonymous,
    cores,
    parse,
    windows,
)

GEMMA4, MIMO, STEP = (CONFIGS[name] for name in ("GEMMA4", "MIMO", "STEP"))
FULL, SLIDING = "full_attention", "sliding_attention"
CSA, HCA = "compressed_sparse_attention", "heavily_compressed_attention"

#: Layers 5 and 6 of seven attend fully: every sixth, and the last.
GEMMA: Config = {**GEMMA4, "attention_k_eq_v": True, "num_global_key_value_heads": 1}
GEMMA_LAYERS: Config = {
    "5": {"head_dim": 16, "num_key_value_heads": 1},
    "6": {"head_dim": 16, "num_key_value_heads": 1},
}
QWEN: Config = {**TINY_EXPERTS, "model_type": "qwen3_moe", "head_dim": 16}


def without(config: Config, *keys: str) -> Config:
    """Return `config` without `keys`."""
    return {key: value for key, value in config.items() if key not in keys}


def refused(config: Config) -> str:
    """Return the message with which a config is refused."""
    with pytest.raises(ConfigError) as caught:
        parse(config)
    return str(caught.value)


# --- Gemma 4 -------------------------------------------------------------------------------------


@pytest.mark.parametrize("more", [{}, CONFIGS["GEMMA4_MOE"], {"num_kv_shared_layers": 1}])
def test_gemma_4_says_by_layer_which_heads_are_wider(more: Config) -> None:
    saved = without(GEMMA, "global_head_dim", "num_global_key_value_heads")
    again = parse(saved | more | {"per_layer_config": GEMMA_LAYERS})
    assert anonymous(again) == anonymous(parse(GEMMA | more))
    # that the old code read: heads of 512, as many as in other layers
    assert anonymous(again) != anonymous(parse(saved | more))


def test_numbers_of_layers_may_have_zeros_in_front() -> None:
    saved = without(GEMMA, "global_head_dim", "num_global_key_value_heads")
    padded = {f"0{index}": layer for index, layer in GEMMA_LAYERS.items()}
    plain = parse(saved | {"per_layer_config": GEMMA_LAYERS})
    assert anonymous(parse(saved | {"per_layer_config": padded})) == anonymous(plain)


def test_where_layers_speak_the_keys_of_full_layers_are_without_meaning() -> None:
    # Gemma4TextConfig reads global_head_dim only where there is no per_layer_config
    plain = parse(GEMMA | {"per_layer_config": {}})
    assert {core.head_dim for core in cores(plain)} == {8}
    assert {core.n_kv_heads for core in cores(plain)} == {2}


def test_a_sliding_layer_may_differ_too() -> None:
    model = parse(GEMMA | {"per_layer_config": {"0": {"head_dim": 32}}})
    assert sorted((core.head_dim, core.window) for core in cores(model) if core.window) == [
        (8, 512),
        (32, 512),
    ]


@pytest.mark.parametrize(
    ("layers", "message"),
    [
        ({"7": {}}, "per_layer_config.7 is an object; allowed: numbers of layers below 7"),
        ({"x": {}}, "per_layer_config.x is an object; allowed: numbers of layers below 7"),
        ({"\u0663": {}}, "per_layer_config."),
        ({"5": {}, "05": {}}, "per_layer_config.05 is an object; allowed: numbers of layers"),
        ({"9" * 5000: {}}, "per_layer_config."),
        (
            {"5": {"sliding_window": 8}},
            "per_layer_config.5.sliding_window is 8; allowed: in this family only head_dim, num_key",
        ),
        (
            {"5": {"num_key_value_heads": 3}},
            "per_layer_config.5.num_key_value_heads is 3; allowed: a divisor of num_attention_heads",
        ),
        ({"5": 8}, "per_layer_config.5 is 8; allowed: an object"),
    ],
)
def test_what_layers_cannot_say_is_refused(layers: dict[str, Any], message: str) -> None:
    assert refused(GEMMA | {"per_layer_config": layers}).startswith(f"config.json: {message}")


# --- experts -------------------------------------------------------------------------------------


@pytest.mark.parametrize("model_type", ["qwen3_moe", "qwen3_vl_moe_text"])
def test_qwen_3_calls_its_experts_local(model_type: str) -> None:
    published = without(QWEN | {"model_type": model_type}, "num_local_experts")
    saved = without(QWEN | {"model_type": model_type}, "num_experts")
    assert anonymous(parse(saved)) == anonymous(parse(published))


def test_the_usual_name_goes_before_the_saved_one() -> None:
    assert anonymous(parse(QWEN | {"num_local_experts": 4})) == anonymous(parse(QWEN))
    assert refused(without(QWEN, "num_experts", "num_local_experts")).startswith(
        "config.json: num_experts is missing; allowed: "
    )


# --- DeepSeek-V4 ---------------------------------------------------------------------------------


SAVED_V4: Config = {
    **without(TINY_COMPRESSED, "compress_ratios"),
    "layer_types": [SLIDING, CSA, HCA, CSA],
    "compress_rates": {CSA: 4, HCA: 128},
    "mlp_layer_types": ["hash_moe", "moe", "moe", "moe"],
}


def test_deepseek_v4_names_what_its_layers_do() -> None:
    published = parse(TINY_COMPRESSED | {"num_hash_layers": 1})
    assert anonymous(parse(SAVED_V4)) == anonymous(published)
    assert anonymous(parse(without(SAVED_V4, "compress_rates"))) == anonymous(published)


def test_layers_of_deepseek_v4_may_hash_in_any_place() -> None:
    hashed = parse(SAVED_V4 | {"mlp_layer_types": ["moe", "moe", "moe", "hash_moe"]})
    # one more kind of layer: layers 1 and 3 do the same but for who picks the experts
    assert len(hashed.layers) == len(parse(SAVED_V4).layers) + 1


def test_rates_of_deepseek_v4_are_read() -> None:
    model = parse(SAVED_V4 | {"compress_rates": {CSA: 8, HCA: 32}})
    found = {core.ratio: core for core in cores(model)}
    assert set(found) == {0, 8, 32}
    assert isinstance(found[8], CompressedAttention)
    assert found[8].indexer is not None
    assert found[32].indexer is None


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"layer_types": [SLIDING]}, "layer_types is a list of 1; allowed: a list of at least 4"),
        ({"layer_types": [FULL] * 4}, 'layer_types[0] is "full_attention"; allowed: compressed'),
        ({"mlp_layer_types": ["dense"] * 4}, 'mlp_layer_types[0] is "dense"; allowed: hash_moe'),
        ({"compress_rates": {CSA: 0}}, "compress_rates.compressed_sparse_attention is 0; allowed"),
    ],
)
def test_what_no_deepseek_v4_does_is_refused(keys: Config, message: str) -> None:
    assert refused(SAVED_V4 | keys).startswith(f"config.json: {message}")


def test_the_tables_of_hashed_layers_are_counted() -> None:
    # DeepseekV4HashRouter.tid2eid: the experts of each of the 1000 token ids, 2 of them
    tables = {n: parse(TINY_COMPRESSED | {"num_hash_layers": n}).lookup_params for n in range(3)}
    assert tables == {0: 0, 1: 2000, 2: 4000}


# --- dense layers first --------------------------------------------------------------------------


def test_deepseek_v3_2_lists_its_dense_layers() -> None:
    published = {**TINY_LATENT, "model_type": "deepseek_v32", "first_k_dense_replace": 1}
    kinds = {"mlp_layer_types": ["dense", "sparse", "sparse", "sparse"]}
    saved = without(published, "first_k_dense_replace") | kinds
    assert anonymous(parse(saved)) == anonymous(parse(published))
    assert refused(saved | {"layer_types": ["full_attention"] * 4}).startswith(
        'config.json: layer_types[0] is "full_attention"; allowed: deepseek_sparse_attention, '
    )


@pytest.mark.parametrize(
    ("published", "saved"),
    [
        (TINY_COMPRESSED, SAVED_V4),
        (
            {**TINY_LATENT, "model_type": "deepseek_v32"},
            {
                **TINY_LATENT,
                "model_type": "deepseek_v32",
                "mlp_layer_types": ["dense", "dense", "dense", "sparse"],
            },
        ),
        (
            {**TINY_LATENT, "model_type": "glm4_moe_lite"},
            {
                **TINY_LATENT,
                "model_type": "glm4_moe_lite",
                "mlp_layer_types": ["dense", "sparse", "sparse", "sparse"],
            },
        ),
    ],
)
def test_the_draft_layer_is_none_of_those_that_are_listed(published: Config, saved: Config) -> None:
    drafters = [
        parse_drafter_config(
            json.dumps(config | {"num_nextn_predict_layers": 1}), source="c.json", kind="mtp"
        )
        for config in (published, saved)
    ]
    assert drafters[0] == drafters[1]


# --- MiMo and Step -------------------------------------------------------------------------------


def test_the_window_of_mimo_counts_the_query_itself_or_does_not() -> None:
    # MiMoV2FlashConfig: sliding_window_size counts other tokens, sliding_window all that are seen
    assert set(windows(parse(MIMO | {"sliding_window_size": 128}))) == {None, 129}
    assert set(windows(parse(MIMO | {"sliding_window": 129}))) == {None, 129}


def test_step_says_by_layer_which_have_more_heads() -> None:
    saved = without(STEP, "attention_other_setting") | {"num_sliding_attention_heads": 6}
    layers = {"1": {"num_attention_heads": 6}, "3": {"num_attention_heads": 6}}
    published = anonymous(parse(STEP))
    assert anonymous(parse(saved)) == published
    assert anonymous(parse(saved | {"per_layer_config": layers})) == published
    other = parse(saved | {"per_layer_config": {"3": {"num_attention_heads": 8}}})
    assert sorted(core.n_heads for core in cores(other)) == [4, 4, 4, 8]
    message = "config.json: num_attention_heads is 5; allowed: a multiple of the 2 heads of keys"
    layers = {"3": {"num_attention_heads": 5}}
    assert refused(saved | {"per_layer_config": layers}).startswith(message)
