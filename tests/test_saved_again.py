"""Configs that transformers 5.23 has read and saved again: other keys, the same model.

Most are rows of data/family_layers.yaml (`same`), and refusals of data/refused_configs.yaml.
"""

import json

import pytest

from specroof.parsers.drafters import parse_drafter_config
from tiny_configs import TINY_LATENT, Config, cores, model_of, of, parse, refused

CSA, HCA = "compressed_sparse_attention", "heavily_compressed_attention"


def test_layers_of_gemma_4_have_the_heads_that_they_say() -> None:
    # Gemma4TextConfig reads global_head_dim only where there is no per_layer_config
    keys = {"attention_k_eq_v": True, "num_global_key_value_heads": 1}
    plain = model_of("GEMMA4", **keys, per_layer_config={})
    assert {(core.head_dim, core.n_kv_heads) for core in cores(plain)} == {(8, 2)}
    model = model_of("GEMMA4", **keys, per_layer_config={"0": {"head_dim": 32}})
    sliding = [core for core in cores(model) if core.window]
    assert sorted((core.head_dim, core.window) for core in sliding) == [(8, 512), (32, 512)]
    endless = refused(of("GEMMA4", per_layer_config={"9" * 5000: {}}))
    assert endless.startswith("per_layer_config.")
    # Step's heads of one layer
    saved = of("STEP", "attention_other_setting", num_sliding_attention_heads=6)
    step = parse(saved | {"per_layer_config": {"3": {"num_attention_heads": 8}}})
    assert sorted(core.n_heads for core in cores(step)) == [4, 4, 4, 8]


SAVED_V4 = of(
    "TINY_COMPRESSED",
    "compress_ratios",
    layer_types=["sliding_attention", CSA, HCA, CSA],
    mlp_layer_types=["hash_moe", "moe", "moe", "moe"],
)


def test_rates_and_hashed_layers_of_deepseek_v4_are_read() -> None:
    model = parse(SAVED_V4 | {"compress_rates": {CSA: 8, HCA: 32}})
    indexers = {core.ratio: core.indexer is not None for core in cores(model)}
    assert indexers == {0: False, 8: True, 32: False}
    hashed = parse(SAVED_V4 | {"mlp_layer_types": ["moe", "moe", "moe", "hash_moe"]})
    # one more kind of layer: layers 1 and 3 do the same but for who picks the experts
    assert len(hashed.layers) == len(parse(SAVED_V4).layers) + 1
    # DeepseekV4HashRouter.tid2eid: the experts of each of the 1000 token ids, 2 of them
    tables = [model_of("TINY_COMPRESSED", num_hash_layers=n).lookup_params for n in range(3)]
    assert tables == [0, 2000, 4000]


def latent_of(model_type: str, *kinds: str) -> Config:
    listed = {"mlp_layer_types": list(kinds)} if kinds else {}
    return {**TINY_LATENT, "model_type": model_type, **listed}


@pytest.mark.parametrize(
    ("published", "saved"),
    [
        (of("TINY_COMPRESSED"), SAVED_V4),
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
