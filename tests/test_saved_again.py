"""Configs that transformers 5.23 has read and saved again: other keys, the same model."""

import json
from typing import Any

import pytest

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
    refused,
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
    return {key: value for key, value in config.items() if key not in keys}


SAVED_GEMMA = without(GEMMA, "global_head_dim", "num_global_key_value_heads")


@pytest.mark.parametrize("more", [{}, CONFIGS["GEMMA4_MOE"], {"num_kv_shared_layers": 1}])
def test_gemma_4_says_by_layer_which_heads_are_wider(more: Config) -> None:
    again = parse(SAVED_GEMMA | more | {"per_layer_config": GEMMA_LAYERS})
    assert anonymous(again) == anonymous(parse(GEMMA | more))
    # that the old code read: heads of 512, as many as in other layers
    assert anonymous(again) != anonymous(parse(SAVED_GEMMA | more))
    # numbers of layers may have zeros in front
    padded = {f"0{index}": layer for index, layer in GEMMA_LAYERS.items()}
    assert parse(SAVED_GEMMA | more | {"per_layer_config": padded}) == again


def test_layers_of_gemma_4_have_the_heads_that_they_say() -> None:
    # Gemma4TextConfig reads global_head_dim only where there is no per_layer_config
    plain = parse(GEMMA | {"per_layer_config": {}})
    assert {(core.head_dim, core.n_kv_heads) for core in cores(plain)} == {(8, 2)}
    model = parse(GEMMA | {"per_layer_config": {"0": {"head_dim": 32}}})
    sliding = [core for core in cores(model) if core.window]
    assert sorted((core.head_dim, core.window) for core in sliding) == [(8, 512), (32, 512)]


@pytest.mark.parametrize(
    ("layers", "message"),
    [
        ({"7": {}}, ".7 is an object; allowed: numbers of layers below 7"),
        ({"x": {}}, ".x is an object; allowed: numbers of layers below 7"),
        ({"\u0663": {}}, "."),
        ({"5": {}, "05": {}}, ".05 is an object; allowed: numbers of layers"),
        ({"9" * 5000: {}}, "."),
        ({"5": {"sliding_window": 8}}, ".5.sliding_window is 8; allowed: in this family only head"),
        ({"5": {"num_key_value_heads": 3}}, ".5.num_key_value_heads is 3; allowed: a divisor of"),
        ({"5": 8}, ".5 is 8; allowed: an object"),
    ],
)
def test_what_layers_cannot_say_is_refused(layers: dict[str, Any], message: str) -> None:
    found = refused(GEMMA | {"per_layer_config": layers})
    assert found.startswith(f"per_layer_config{message}")


@pytest.mark.parametrize("model_type", ["qwen3_moe", "qwen3_vl_moe_text"])
def test_qwen_3_calls_its_experts_local(model_type: str) -> None:
    published = without(QWEN | {"model_type": model_type}, "num_local_experts")
    saved = without(QWEN | {"model_type": model_type}, "num_experts")
    assert anonymous(parse(saved)) == anonymous(parse(published))


def test_the_usual_name_goes_before_the_saved_one() -> None:
    assert anonymous(parse(QWEN | {"num_local_experts": 4})) == anonymous(parse(QWEN))
    bare = without(QWEN, "num_experts", "num_local_experts")
    assert refused(bare).startswith("num_experts is missing; allowed: ")


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


def test_rates_and_hashed_layers_of_deepseek_v4_are_read() -> None:
    model = parse(SAVED_V4 | {"compress_rates": {CSA: 8, HCA: 32}})
    indexers = {core.ratio: core.indexer is not None for core in cores(model)}
    assert indexers == {0: False, 8: True, 32: False}
    hashed = parse(SAVED_V4 | {"mlp_layer_types": ["moe", "moe", "moe", "hash_moe"]})
    # one more kind of layer: layers 1 and 3 do the same but for who picks the experts
    assert len(hashed.layers) == len(parse(SAVED_V4).layers) + 1
    # DeepseekV4HashRouter.tid2eid: the experts of each of the 1000 token ids, 2 of them
    tables = [parse(TINY_COMPRESSED | {"num_hash_layers": n}).lookup_params for n in range(3)]
    assert tables == [0, 2000, 4000]
    for keys, message in (
        ({"layer_types": [SLIDING]}, "layer_types is a list of 1; allowed: a list of at least 4"),
        ({"layer_types": [FULL] * 4}, 'layer_types[0] is "full_attention"; allowed: compressed'),
        ({"mlp_layer_types": ["dense"] * 4}, 'mlp_layer_types[0] is "dense"; allowed: hash_moe'),
        ({"compress_rates": {CSA: 0}}, "compress_rates.compressed_sparse_attention is 0; allowed"),
    ):
        assert refused(SAVED_V4 | keys).startswith(message)


def test_deepseek_v3_2_lists_its_dense_layers() -> None:
    published = {**TINY_LATENT, "model_type": "deepseek_v32", "first_k_dense_replace": 1}
    kinds = {"mlp_layer_types": ["dense", "sparse", "sparse", "sparse"]}
    saved = without(published, "first_k_dense_replace") | kinds
    assert anonymous(parse(saved)) == anonymous(parse(published))
    assert refused(saved | {"layer_types": ["full_attention"] * 4}).startswith(
        'layer_types[0] is "full_attention"; allowed: deepseek_sparse_attention, '
    )


def latent_of(model_type: str, *kinds: str) -> Config:
    listed = {"mlp_layer_types": list(kinds)} if kinds else {}
    return {**TINY_LATENT, "model_type": model_type, **listed}


@pytest.mark.parametrize(
    ("published", "saved"),
    [
        (TINY_COMPRESSED, SAVED_V4),
        (latent_of("deepseek_v32"), latent_of("deepseek_v32", *["dense"] * 3, "sparse")),
        (latent_of("glm4_moe_lite"), latent_of("glm4_moe_lite", "dense", *["sparse"] * 3)),
    ],
)
def test_the_draft_layer_is_none_of_those_that_are_listed(published: Config, saved: Config) -> None:
    one, other = (
        parse_drafter_config(
            json.dumps(config | {"num_nextn_predict_layers": 1}), source="c.json", kind="mtp"
        )
        for config in (published, saved)
    )
    assert one == other


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
    message = "num_attention_heads is 5; allowed: a multiple of the 2 heads of keys"
    layers = {"3": {"num_attention_heads": 5}}
    assert refused(saved | {"per_layer_config": layers}).startswith(message)
