"""DeepSeek-V2, Kimi, GLM-5 and Mistral Large: latent attention by hand from published shapes."""

import pytest

from specroof.architecture import Architecture, Experts, Indexer, LatentAttention
from specroof.cost import ForwardPass, forward_cost, kv_bytes_per_token
from specroof.errors import ConfigError
from tiny_configs import TINY_LATENT, Config, anonymous, cores, left_out, linears, parse
from tiny_mixtures import DEEPSEEK_V2, GLM_5

# Sizes of GLM-5: hidden 6144, 64 heads with 192 + 64 wide keys and 256 wide values, latents of
# 2048 (queries) and 512, an indexer of 32 heads of 128; 3 dense layers of 12288, then 256 experts
# and a shared one of 2048.
GLM_5_SIZES: Config = {
    "model_type": "glm_moe_dsa",
    "hidden_size": 6144,
    "num_hidden_layers": 78,
    "vocab_size": 154880,
    "num_attention_heads": 64,
    "num_key_value_heads": 64,
    "head_dim": 64,
    "q_lora_rank": 2048,
    "kv_lora_rank": 512,
    "qk_nope_head_dim": 192,
    "qk_rope_head_dim": 64,
    "v_head_dim": 256,
    "index_n_heads": 32,
    "index_head_dim": 128,
    "index_topk": 2048,
    "intermediate_size": 12288,
    "moe_intermediate_size": 2048,
    "n_routed_experts": 256,
    "num_experts_per_tok": 8,
}
#: GLM-5.2: layers 0, 1, 2 and then every fourth run an indexer.
GLM_5_2_SIZES: Config = {**GLM_5_SIZES, "index_topk_freq": 4, "index_skip_topk_offset": 3}


def refusal(config: Config) -> str:
    """Return the one line that refuses a config."""
    with pytest.raises(ConfigError) as caught:
        parse(config)
    message = str(caught.value)
    assert "\n" not in message
    return message.removeprefix("config.json: ")


def indexing(model: Architecture) -> dict[str, int]:
    """Return how many layers of each kind of attention there are."""
    return {kind: count for kind, count in model.layer_kinds.items() if "attention" in kind}


# --- DeepSeek-V2 ---------------------------------------------------------------------------------


def test_deepseek_v2_has_experts_from_the_start_and_no_correction_bias() -> None:
    model = parse(DEEPSEEK_V2)
    # configuration_deepseek_v2.py: no dense layer, two shared experts
    assert model.layer_kinds == {"latent_attention": 4, "moe": 4}
    assert linears(model)["shared_down_proj"].in_features == 2 * 32
    v3 = parse({**DEEPSEEK_V2, "model_type": "deepseek_v3", "first_k_dense_replace": 0})
    norms = 64
    assert model.layers[0].blocks[1].vector_params == norms
    assert v3.layers[0].blocks[1].vector_params == norms + 8  # a bias per expert


def test_deepseek_v2_lite_to_the_last_element() -> None:
    model = parse(
        {
            "model_type": "deepseek_v2",
            "hidden_size": 2048,
            "num_hidden_layers": 27,
            "vocab_size": 102400,
            "num_attention_heads": 16,
            "q_lora_rank": None,
            "kv_lora_rank": 512,
            "qk_nope_head_dim": 128,
            "qk_rope_head_dim": 64,
            "v_head_dim": 128,
            "first_k_dense_replace": 1,
            "intermediate_size": 10944,
            "moe_intermediate_size": 1408,
            "n_routed_experts": 64,
            "num_experts_per_tok": 6,
            "n_shared_experts": 2,
        }
    )
    # [out, in] of the published tensors
    attention = (
        16 * 192 * 2048  # q_proj: nothing is compressed
        + 576 * 2048  # kv_a_proj_with_mqa
        + 16 * 256 * 512  # kv_b_proj
        + 2048 * 16 * 128  # o_proj
        + 512  # kv_a_layernorm
    )
    norms = 2 * 2048
    dense = 3 * 10944 * 2048
    experts = 64 * 2048 + (64 + 2) * 3 * 1408 * 2048
    tables = 2 * 102400 * 2048
    assert model.n_params == 27 * (attention + norms) + dense + 26 * experts + tables + 2048
    assert model.n_params == 15_706_484_224
    # 512 + 64 elements of 2 bytes in each of 27 layers, whatever num_key_value_heads says
    assert kv_bytes_per_token(model) == 27 * 576 * 2


# --- Kimi ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("model_type", ["kimi_k2", "kimi_k25"])
def test_kimi_is_a_deepseek_v3(model_type: str) -> None:
    model = parse({**TINY_LATENT, "model_type": model_type})
    reference = parse(TINY_LATENT)
    assert model.layers == reference.layers
    assert model.family == model_type


@pytest.mark.parametrize("inner", ["kimi_k2", "deepseek_v3"])
def test_kimi_k2_5_lies_in_its_text_config(inner: str) -> None:
    # Moonshot's file and NVIDIA's differ in the inner type.
    text = {**TINY_LATENT, "model_type": inner}
    nested = parse({"model_type": "kimi_k25", "text_config": text, "vision_config": {}})
    assert nested.family == inner
    assert left_out(nested) == ("vision tower left out",)
    assert anonymous(nested).layers == parse(TINY_LATENT).layers


def test_kimi_k2_5_has_narrow_experts_and_nothing_else() -> None:
    section = {
        "quant_method": "compressed-tensors",
        "config_groups": {
            "group_0": {
                "targets": ["Linear"],
                "weights": {"type": "int", "num_bits": 4, "group_size": 32, "strategy": "group"},
            }
        },
        "ignore": [
            "lm_head",
            "re:.*self_attn.*",
            "re:.*shared_experts.*",
            "re:.*mlp\\.(gate|up|gate_up|down)_proj.*",
        ],
    }
    text = {**TINY_LATENT, "first_k_dense_replace": 1, "quantization_config": section}
    model = parse({"model_type": "kimi_k25", "text_config": text})
    dense, sparse = model.layers
    assert {linear.weight.name for block in dense.blocks for linear in block.linears} == {"bf16"}
    assert {linear.weight.name for block in sparse.blocks for linear in block.linears} == {"bf16"}
    experts = sparse.blocks[1].core
    assert isinstance(experts, Experts)
    # half a byte, and a bf16 scale for 32 weights; only weights are narrow
    assert experts.weight.element_bytes == 0.5 + 2 / 32
    assert experts.weight.compute_dtype == "bf16"


# --- GLM-5 ---------------------------------------------------------------------------------------


def glm_5_params(n_indexers: int) -> int:
    """Count GLM-5's language model with so many indexers, from [out, in] of its tensors."""
    attention = (
        2048 * 6144 + 2048  # q_a_proj and its norm
        + 64 * 256 * 2048  # q_b_proj
        + 576 * 6144 + 512  # kv_a_proj_with_mqa and its norm
        + 64 * (192 + 256) * 512  # kv_b_proj
        + 6144 * 64 * 256  # o_proj
    )  # fmt: skip
    indexer = (
        32 * 128 * 2048  # wq_b
        + 128 * 6144  # wk
        + 32 * 6144  # weights_proj
        + 2 * 128  # k_norm, with a bias
    )
    dense = 3 * 12288 * 6144
    experts = 256 * 6144 + 256 + (256 + 1) * 3 * 2048 * 6144
    layers = 78 * (attention + 2 * 6144) + n_indexers * indexer + 3 * dense + 75 * experts
    return layers + 2 * 154880 * 6144 + 6144


def test_glm_5_to_the_last_element() -> None:
    model = parse(GLM_5_SIZES)
    assert model.n_params == glm_5_params(78) == 743_911_218_432
    assert model.layer_kinds == {"sparse_attention": 78, "mlp": 3, "moe": 75}
    # A latent of 576 and an index key of 128, in bf16; `head_dim` and KV heads say nothing.
    assert kv_bytes_per_token(model) == 78 * (576 + 128) * 2
    # In fp8: 512 + 4 scales of 4 + 64 in bf16, and a key of 128 with a scale of 4.
    assert kv_bytes_per_token(model, "fp8") == 78 * (656 + 132)


def test_glm_5_2_runs_21_indexers_for_78_layers() -> None:
    model = parse(GLM_5_2_SIZES)
    assert indexing(model) == {"sparse_attention": 21, "shared_index_attention": 57}
    assert model.n_params == glm_5_params(21)
    assert kv_bytes_per_token(model) == (78 * 576 + 21 * 128) * 2
    # Every layer attends to the 2048 tokens that the last indexer picked.
    picked = {
        core.top_k for core in cores(model) if isinstance(core, LatentAttention) and core.indexer
    }
    assert picked == {core.top_k for core in cores(model)} == {2048}
    ops = forward_cost(model, ForwardPass(batch_size=1, query_len=1, context_len=1e6))
    scans = {op.name: op.count for op in ops if op.kind == "indexer"}
    attentions: dict[str, int] = {}
    for op in ops:
        if op.kind == "latent_attention":
            attentions[op.name] = attentions.get(op.name, 0) + op.count
    # Dense and sparse layers with an indexer are 3 and 18.
    assert sum(op.count for op in ops if op.kind == "indexer") == 21
    assert set(scans) == {"sparse_attention.indexer"}
    assert attentions == {"sparse_attention.core": 21, "shared_index_attention.core": 57}


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ({}, "FFFF"),
        ({"index_topk_freq": 2}, "FFSF"),  # the stride begins behind two layers
        ({"index_topk_freq": 3, "index_skip_topk_offset": 1}, "FSSF"),
        ({"index_topk_freq": 3, "index_skip_topk_offset": 3}, "FFFS"),
        ({"index_topk_pattern": "FSFS", "index_topk_freq": 3}, "FSFS"),
        ({"indexer_types": ["full", "shared", "shared", "full"]}, "FSSF"),
        # entries of draft layers, and a list before a pattern
        ({"indexer_types": ["full"] * 4 + ["shared"], "index_topk_pattern": "FSSS"}, "FFFF"),
    ],
)
def test_a_list_a_pattern_or_a_stride_says_which_layers_search(keys: Config, expected: str) -> None:
    found = indexing(parse({**GLM_5, **keys}))
    assert found.get("sparse_attention", 0) == expected.count("F")
    assert found.get("shared_index_attention", 0) == expected.count("S")


def test_a_shared_selection_needs_no_indexer_matrices() -> None:
    model = parse({**GLM_5, "indexer_types": ["full", "shared"] * 2, "first_k_dense_replace": 4})
    full, shared = model.layers
    assert cores(model) == [
        LatentAttention(4, 16, 4, Indexer(3, 5, 7), head_dims=(12, 6)),
        LatentAttention(4, 16, 4, shared_top_k=7, head_dims=(12, 6)),
    ]
    extra = {linear.name for linear in full.blocks[0].linears} - {
        linear.name for linear in shared.blocks[0].linears
    }
    assert extra == {"indexer_wq_b", "indexer_wk", "indexer_weights_proj"}
    # k_norm has a weight and a bias of the index key's width
    assert full.blocks[0].vector_params - shared.blocks[0].vector_params == 2 * 5


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"q_lora_rank": None}, "q_lora_rank is null; allowed: a whole number from 1"),
        ({"index_topk": None}, "index_topk is null; allowed: a whole number from 1 to 16777216"),
        (
            {"indexer_types": ["shared", "full", "full", "full"]},
            "indexer_types is a list of 4; allowed: full first, before which ",
        ),
        ({"indexer_types": ["full"] * 3}, "indexer_types is a list of 3; allowed: a list of at "),
        ({"indexer_types": ["full", "half"] * 2}, 'indexer_types[1] is "half"; allowed: full, '),
        ({"index_topk_pattern": "FS"}, 'index_topk_pattern is "FS"; allowed: F and S, one a '),
        ({"index_topk_pattern": "SFFF"}, 'index_topk_pattern is "SFFF"; allowed: F and S, one a '),
        ({"index_topk_pattern": "FXFX"}, 'index_topk_pattern is "FXFX"; allowed: F and S, one a '),
        ({"mlp_layer_types": ["dense"]}, "mlp_layer_types is a list of 1; allowed: a list of at "),
    ],
)
def test_an_indexer_that_describes_no_model_is_refused(keys: Config, message: str) -> None:
    assert refusal({**GLM_5, **keys}).startswith(message)


@pytest.mark.parametrize(
    ("keys", "kinds"),
    [
        ({}, {"mlp": 3, "moe": 1}),  # configuration_glm_moe_dsa.py
        ({"first_k_dense_replace": 1}, {"mlp": 1, "moe": 3}),
        # the list counts, and goes on with draft layers
        ({"mlp_layer_types": ["dense", "sparse"] * 3}, {"mlp": 2, "moe": 2}),
        ({"mlp_layer_types": ["dense"] * 4, "n_routed_experts": None}, {"mlp": 4}),
        ({"model_type": "glm4_moe_lite"}, {"mlp": 1, "moe": 3}),
    ],
)
def test_glm_layers_are_dense_by_list_or_by_number(keys: Config, kinds: dict[str, int]) -> None:
    found = parse({**GLM_5, **keys}).layer_kinds
    assert {kind: count for kind, count in found.items() if "attention" not in kind} == kinds


def test_glm_4_7_flash_searches_nothing() -> None:
    assert indexing(parse({**GLM_5, "model_type": "glm4_moe_lite"})) == {"latent_attention": 4}


# --- Mistral -------------------------------------------------------------------------------------


@pytest.mark.parametrize("model_type", ["mistral_large3", "mistral4"])
def test_mistral_is_a_deepseek_with_one_shared_expert_and_no_correction_bias(
    model_type: str,
) -> None:
    model = parse({**TINY_LATENT, "model_type": model_type, "first_k_dense_replace": 1})
    reference = parse({**DEEPSEEK_V2, "first_k_dense_replace": 1, "n_shared_experts": 1})
    assert model.layers == reference.layers
    assert parse({**TINY_LATENT, "model_type": model_type}).layer_kinds["moe"] == 4
