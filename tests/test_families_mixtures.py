"""GLM-4.5 and MiniMax: attention and experts by hand from published shapes."""

import pytest

from specroof.architecture import (
    ATTENTION_REPLICATED,
    BlockSparseAttention,
    Experts,
    GroupedQueryAttention,
    Indexer,
    by_kv_heads,
)
from specroof.cost import kv_bytes_per_token
from specroof.errors import ConfigError
from tiny_configs import (
    FP8_BLOCKS,
    TINY_COMPRESSED,
    Config,
    cores,
    formats,
    left_out,
    linears,
    parse,
)
from tiny_mixtures import GLM_4_5, MINIMAX_M2, MINIMAX_M3


def refusal(config: Config) -> str:
    """Return the one line that refuses a config."""
    with pytest.raises(ConfigError) as caught:
        parse(config)
    message = str(caught.value)
    assert "\n" not in message
    return message.removeprefix("config.json: ")


# --- GLM-4.5 -------------------------------------------------------------------------------------


def test_glm_4_5_to_the_last_element() -> None:
    model = parse(
        {
            "model_type": "glm4_moe",
            "hidden_size": 5120,
            "num_hidden_layers": 92,
            "vocab_size": 151552,
            "num_attention_heads": 96,
            "num_key_value_heads": 8,
            "head_dim": 128,
            "attention_bias": True,
            "use_qk_norm": True,
            "first_k_dense_replace": 3,
            "intermediate_size": 12288,
            "moe_intermediate_size": 1536,
            "n_routed_experts": 160,
            "num_experts_per_tok": 8,
        }
    )
    query, key = 96 * 128, 8 * 128
    attention = 5120 * (query + 2 * key) + query * 5120 + query + 2 * key + 2 * 128
    dense = 3 * 12288 * 5120
    experts = 160 * 5120 + 160 + (160 + 1) * 3 * 1536 * 5120
    layers = 92 * (attention + 2 * 5120) + 3 * dense + 89 * experts
    assert model.n_params == layers + 2 * 151552 * 5120 + 5120
    # 8 heads of 128 + 128 in each of 92 layers
    assert kv_bytes_per_token(model) == 92 * 8 * 256 * 2


@pytest.mark.parametrize(
    ("keys", "extra"),
    [
        ({}, 0),  # GLM-4.5-Air: neither bias nor head norms where no key says so
        ({"attention_bias": True}, 64 + 32 + 32),  # not on the output
        ({"use_qk_norm": True}, 16 + 16),
        ({"model_type": "glm4v_moe_text"}, 64 + 32 + 32),
        ({"model_type": "glm4v_moe", "attention_bias": False}, 0),
    ],
)
def test_glm_biases_and_norms_are_counted(keys: Config, extra: int) -> None:
    assert parse(GLM_4_5 | keys).n_params - parse(GLM_4_5).n_params == 4 * extra


def test_glm_begins_with_one_dense_layer_where_no_key_says_so() -> None:
    assert parse(GLM_4_5).layer_kinds == {"full_attention": 4, "mlp": 1, "moe": 3}
    every = parse({**GLM_4_5, "first_k_dense_replace": 0, "intermediate_size": None})
    assert every.layer_kinds == {"full_attention": 4, "moe": 4}
    none = parse({**GLM_4_5, "first_k_dense_replace": 4, "n_routed_experts": None})
    assert none.layer_kinds == {"full_attention": 4, "mlp": 4}


# --- MiniMax-M2 ----------------------------------------------------------------------------------


def test_minimax_m2_norms_span_all_heads_of_a_layer() -> None:
    model = parse(MINIMAX_M2)
    # input norm, q_norm over 4 heads of 16, k_norm over 2
    assert model.layers[0].blocks[0].vector_params == 64 + 4 * 16 + 2 * 16
    per_head = parse(MINIMAX_M2 | {"qk_norm_type": "per_head"})
    assert per_head.layers[0].blocks[0].vector_params == 64 + 16 + 16
    without = parse(MINIMAX_M2 | {"use_qk_norm": False})
    assert without.layers[0].blocks[0].vector_params == 64


def test_minimax_m2_to_the_last_element() -> None:
    model = parse(
        {
            "model_type": "minimax_m2",
            "hidden_size": 3072,
            "num_hidden_layers": 62,
            "vocab_size": 200064,
            "num_attention_heads": 48,
            "num_key_value_heads": 8,
            "head_dim": 128,
            "intermediate_size": 1536,
            "mlp_intermediate_size": 8192,  # used by nothing
            "num_local_experts": 256,
            "num_experts_per_tok": 8,
        }
    )
    query, key = 48 * 128, 8 * 128
    attention = 3072 * (query + 2 * key) + query * 3072 + query + key
    experts = 256 * 3072 + 256 + 256 * 3 * 1536 * 3072
    assert model.n_params == 62 * (attention + experts + 2 * 3072) + (2 * 200064 + 1) * 3072
    assert kv_bytes_per_token(model) == 62 * 8 * 256 * 2


def test_minimax_m2_experts_are_as_wide_as_intermediate_size() -> None:
    model = parse(MINIMAX_M2)
    (layer,) = model.layers
    assert layer.blocks[1].core == Experts(8, 2, 64, 32)
    assert linears(model)["router"].out_features == 8
    # a bias per expert that only the selection sees
    assert layer.blocks[1].vector_params == 64 + 8
    assert parse(MINIMAX_M2 | {"use_routing_bias": False}).layers[0].blocks[1].vector_params == 64


def test_minimax_m2_lists_its_modules_by_its_own_names() -> None:
    section = {
        "quant_method": "fp8",
        "weight_block_size": [128, 128],
        "modules_to_not_convert": ["gate", "e_score_correction_bias", "lm_head"],
    }
    # "gate" is the router and not the gate of an expert.
    assert formats(parse(MINIMAX_M2 | {"quantization_config": section})) == {"fp8-block", "bf16"}
    ignored = section | {"modules_to_not_convert": ["model.layers.*.block_sparse_moe.experts"]}
    model = parse(MINIMAX_M2 | {"quantization_config": ignored})
    experts = model.layers[0].blocks[1].core
    assert isinstance(experts, Experts)
    assert experts.weight.name == "bf16"


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"attn_type_list": [1, 0]}, "attn_type_list is a list of 2; allowed: 1 for every layer"),
        ({"attn_type_list": [1, 2]}, "attn_type_list[1] is 2; allowed: 0, 1"),
        ({"shared_intermediate_size": 64}, "shared_intermediate_size is 64; allowed: "),
        ({"qk_norm_type": "none"}, 'qk_norm_type is "none"; allowed: per_head, per_layer'),
        ({"num_local_experts": None}, "num_local_experts is null; allowed: "),
    ],
)
def test_what_no_minimax_m2_has_is_refused(keys: Config, message: str) -> None:
    assert refusal(MINIMAX_M2 | keys).startswith(message)


def test_draft_modules_of_minimax_are_left_out() -> None:
    assert left_out(parse(MINIMAX_M2 | {"num_mtp_modules": 3})) == (
        "multi-token-prediction layer not counted among the model's weights",
    )
    assert left_out(parse(MINIMAX_M2 | {"num_mtp_modules": 0})) == ()


# --- MiniMax-M3 ----------------------------------------------------------------------------------


def test_minimax_m3_searches_blocks_in_the_layers_that_say_so() -> None:
    model = parse(MINIMAX_M3)
    assert model.layer_kinds == {
        "full_attention": 2,
        "block_sparse_attention": 2,
        "mlp": 1,
        "moe": 3,
    }
    assert cores(model)[0] == GroupedQueryAttention(4, 2, 32, 32)
    # 3 blocks of 16, the local one among them
    assert cores(model)[-1] == BlockSparseAttention(4, 2, 32, 32, Indexer(2, 8, 3), 16)
    index_q, index_k = (linears(model, 2)[name] for name in ("index_q_proj", "index_k_proj"))
    assert (index_q.in_features, index_q.out_features) == (64, 2 * 8)
    assert (index_k.in_features, index_k.out_features) == (64, 8)
    assert (index_q.shard, index_k.shard) == (by_kv_heads(2), ATTENTION_REPLICATED)
    full, searching = model.layers[1], model.layers[2]
    # norms of index queries and keys
    assert searching.blocks[0].vector_params - full.blocks[0].vector_params == 2 * 8


def test_minimax_m3_to_the_last_element() -> None:
    flags = [0] * 3 + [1] * 57
    model = parse(
        {
            "model_type": "minimax_m3_vl",
            "hidden_size": 6144,
            "num_hidden_layers": 60,
            "vocab_size": 200064,
            "num_attention_heads": 64,
            "num_key_value_heads": 4,
            "head_dim": 128,
            "dense_intermediate_size": 12288,
            "intermediate_size": 3072,
            "shared_intermediate_size": 3072,
            "num_local_experts": 128,
            "num_experts_per_tok": 4,
            "moe_layer_freq": flags,
            "sparse_attention_config": {
                "sparse_attention_freq": flags,
                "sparse_num_index_heads": 4,
                "sparse_index_dim": 128,
                "sparse_topk_blocks": 16,
                "sparse_block_size": 128,
            },
        }
    )
    query, key = 64 * 128, 4 * 128
    attention = 6144 * (query + 2 * key) + query * 6144 + 2 * 128
    indexer = (4 + 1) * 128 * 6144 + 2 * 128
    dense = 3 * 12288 * 6144
    experts = 128 * 6144 + 128 + (128 + 1) * 3 * 3072 * 6144
    layers = 60 * (attention + 2 * 6144) + 57 * (indexer + experts) + 3 * dense
    assert model.n_params == layers + (2 * 200064 + 1) * 6144
    idle = 57 * (128 - 4) * 3 * 3072 * 6144
    assert model.n_active_params == model.n_params - idle
    # 4 heads of 256 in all layers, an index key of 128 in those that search
    assert kv_bytes_per_token(model) == (60 * 4 * 256 + 57 * 128) * 2


def test_minimax_m3_widths_have_keys_of_their_own() -> None:
    model = parse(MINIMAX_M3)
    assert linears(model, 0)["down_proj"].in_features == 96
    assert linears(model, 1)["shared_down_proj"].in_features == 40
    assert model.layers[1].blocks[1].core == Experts(8, 2, 64, 24)
    two = parse(MINIMAX_M3 | {"n_shared_experts": 2})
    assert linears(two, 1)["shared_down_proj"].in_features == 80
    none = parse(MINIMAX_M3 | {"n_shared_experts": 0, "shared_intermediate_size": None})
    assert "shared_down_proj" not in linears(none, 1)


def test_minimax_m3_caches_an_index_key_where_it_searches() -> None:
    # 2 heads of 32 + 32 in 4 layers, and 8 more in 2 of them
    assert kv_bytes_per_token(parse(MINIMAX_M3)) == (4 * 2 * 64 + 2 * 8) * 2


def test_minimax_m3_as_transformers_writes_it() -> None:
    flat = {key: value for key, value in MINIMAX_M3.items() if key != "sparse_attention_config"} | {
        "moe_layer_freq": None,
        "mlp_layer_types": ["dense", "sparse", "sparse", "sparse"],
        "layer_types": ["full_attention"] * 2 + ["minimax_m3_sparse"] * 2,
        "index_n_heads": 2,
        "index_head_dim": 8,
        "index_topk_blocks": 3,
        "index_block_size": 16,
    }
    assert parse(flat).layers == parse(MINIMAX_M3).layers
    text = {key: value for key, value in MINIMAX_M3.items() if key != "model_type"}
    nested = parse({"model_type": "minimax_m3_vl", "text_config": text, "vision_config": {}})
    assert nested.layers == parse(MINIMAX_M3).layers
    assert left_out(nested) == ("vision tower left out",)


def test_minimax_m3_without_a_section_attends_fully() -> None:
    assert parse(MINIMAX_M3 | {"sparse_attention_config": None}).layer_kinds["full_attention"] == 4
    off = MINIMAX_M3["sparse_attention_config"] | {"use_sparse_attention": False}
    assert parse(MINIMAX_M3 | {"sparse_attention_config": off}).layer_kinds["full_attention"] == 4
    assert parse(MINIMAX_M3 | {"moe_layer_freq": None}).layer_kinds["moe"] == 4


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"attention_output_gate": True}, "attention_output_gate is true; allowed: false, as in "),
        ({"moe_layer_freq": 1}, "moe_layer_freq is 1; allowed: a list"),
        ({"dense_intermediate_size": None}, "dense_intermediate_size is null; allowed: "),
    ],
)
def test_what_minimax_m3_does_not_say_is_refused(keys: Config, message: str) -> None:
    assert refusal(MINIMAX_M3 | keys).startswith(message)


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"sparse_attention_freq": None}, "sparse_attention_freq is null; allowed: a list of 0 "),
        ({"sparse_attention_freq": [0, 1]}, "sparse_attention_freq is a list of 2; allowed: a "),
        ({"sparse_block_size": 0}, "sparse_block_size is 0; allowed: a whole number from 1 to "),
        # index values would need matrices that no published checkpoint has
        (
            {"sparse_disable_index_value": [0, 0, 1, 0]},
            "sparse_disable_index_value is a list of 4; allowed: 1 wherever sparse_attention_freq ",
        ),
    ],
)
def test_what_its_indexer_does_not_say_is_refused(keys: Config, message: str) -> None:
    section = MINIMAX_M3["sparse_attention_config"] | keys
    found = refusal(MINIMAX_M3 | {"sparse_attention_config": section})
    assert found.startswith(f"sparse_attention_config.{message}")


# --- DeepSeek-V4 with converted experts ----------------------------------------------------------


@pytest.mark.parametrize(
    ("keys", "expected", "n_notes"),
    [
        ({}, "fp8-block", 1),
        ({"expert_dtype": "fp8"}, "fp8-block", 0),
        ({"expert_dtype": "fp4"}, "mxfp4", 0),
    ],
)
def test_experts_of_converted_builds_are_fp8_unless_the_config_says_more(
    keys: Config, expected: str, n_notes: int
) -> None:
    config = TINY_COMPRESSED | {"quantization_config": FP8_BLOCKS}
    model = parse(config | {"model_type": "deepseek_ref"} | keys)
    experts = model.layers[0].blocks[1].core
    assert isinstance(experts, Experts)
    assert experts.weight.name == expected
    assert len(left_out(model)) == n_notes
    stated = parse(config | {"expert_dtype": "fp4" if expected == "mxfp4" else "fp8"})
    assert model.layers == stated.layers
