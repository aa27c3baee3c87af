"""Gemma 2, 3 and 4: windows, norms, shared caches, embeddings per layer, experts beside."""

from typing import Any

import pytest

from specroof.architecture import (
    FEED_FORWARD_REPLICATED,
    HEADS,
    TENSOR,
    Architecture,
    Block,
    Experts,
    GroupedQueryAttention,
    Linear,
    SharedCacheAttention,
    by_kv_heads,
)
from specroof.architecture.base import ForwardPass
from specroof.cost import forward_cost
from specroof.cost.forward import kv_cache_bytes
from specroof.errors import ConfigError
from tiny_configs import TINY, Config, linears, parse, windows

GEMMA2: Config = {**TINY, "model_type": "gemma2", "num_hidden_layers": 5, "head_dim": 8}
GEMMA3: Config = {**GEMMA2, "model_type": "gemma3_text", "num_hidden_layers": 8}
GEMMA4: Config = {
    **GEMMA3,
    "model_type": "gemma4_text",
    "num_hidden_layers": 7,
    "global_head_dim": 16,
    "hidden_size_per_layer_input": 0,
}
EXPERTS: Config = {
    "enable_moe_block": True,
    "num_experts": 8,
    "top_k_experts": 2,
    "moe_intermediate_size": 32,
}
SLIDING, FULL = "sliding_attention", "full_attention"


def refused(config: Config) -> str:
    """Return the message with which a config is refused."""
    with pytest.raises(ConfigError) as caught:
        parse(config)
    return str(caught.value)


def mixers(model: Architecture) -> list[tuple[Block, int]]:
    """Return the attention of each distinct layer, and how many layers there are of it."""
    return [(layer.blocks[0], layer.count) for layer in model.layers]


# --- Gemma 2 and 3 -------------------------------------------------------------------------------


def test_gemma_2_alternates_windows_beginning_with_one() -> None:
    model = parse(GEMMA2)
    assert windows(model) == {4096: 3, None: 2}  # configuration_gemma2.py: sliding_window 4096
    core = model.layers[0].blocks[0].core
    assert core == GroupedQueryAttention(4, 2, head_dim=8, value_dim=8, window=4096)
    assert windows(parse(GEMMA2 | {"sliding_window": 100})) == {100: 3, None: 2}
    assert windows(parse(GEMMA2 | {"sliding_window": None})) == {None: 5}


@pytest.mark.parametrize("config", [GEMMA2, GEMMA3, GEMMA4])
def test_a_list_of_layer_kinds_counts_before_the_stride(config: Config) -> None:
    n_layers = config["num_hidden_layers"]
    kinds = [SLIDING] * (n_layers - 2) + [FULL] * 2
    model = parse(config | {"layer_types": [*kinds, SLIDING], "sliding_window": 9})
    assert windows(model) == {9: n_layers - 2, None: 2}


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ({}, {4096: 7, None: 1}),  # every sixth of eight
        ({"sliding_window_pattern": 4}, {4096: 6, None: 2}),
        ({"_sliding_window_pattern": 2}, {4096: 4, None: 4}),
        ({"sliding_window": 512}, {512: 7, None: 1}),
        ({"sliding_window": None}, {None: 8}),
    ],
)
def test_gemma_3_attends_fully_every_few_layers(
    keys: Config, expected: dict[int | None, int]
) -> None:
    assert windows(parse(GEMMA3 | keys)) == expected


def test_gemmas_have_four_norms_a_layer_and_tied_embeddings() -> None:
    for config, head_norms in ((GEMMA2, 0), (GEMMA3, 2 * 8)):
        model = parse(config)
        attention, feed_forward = model.layers[0].blocks
        # before and after each block; of queries and keys
        assert attention.vector_params == 2 * 64 + head_norms
        assert feed_forward.vector_params == 2 * 64
        matrices = 64 * (4 + 2 + 2) * 8 + 4 * 8 * 64 + 3 * 64 * 128
        layer = matrices + 4 * 64 + head_norms
        assert model.tied_embeddings
        assert model.n_params == config["num_hidden_layers"] * layer + 1000 * 64 + 64
        untied = parse(config | {"tie_word_embeddings": False})
        assert untied.n_params == model.n_params + 1000 * 64


def test_a_gemma_3_file_may_leave_out_what_its_class_says() -> None:
    # The text_config of google/gemma-3-4b-it has five keys.
    text = {
        "model_type": "gemma3_text",
        "hidden_size": 2560,
        "intermediate_size": 10240,
        "num_hidden_layers": 34,
        "sliding_window": 1024,
    }
    model = parse({"model_type": "gemma3", "text_config": text, "vision_config": {}})
    core = model.layers[0].blocks[0].core
    assert core == GroupedQueryAttention(8, 4, head_dim=256, value_dim=256, window=1024)
    assert (model.vocab_size, model.tied_embeddings) == (262_208, True)
    assert model.notes == ("vision tower left out",)
    assert windows(model) == {1024: 29, None: 5}
    # and a text_config may lack its model_type
    del text["model_type"]
    assert parse({"model_type": "gemma3", "text_config": text}).layers == model.layers


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (
            GEMMA3 | {"use_bidirectional_attention": True},
            "use_bidirectional_attention is true; allowed: false; others are not decoders",
        ),
        (GEMMA3 | {"layer_types": [FULL]}, "layer_types is a list of 1; allowed: a list of at "),
        (GEMMA3 | {"layer_types": ["chunked_attention"] * 8}, 'layer_types[0] is "chunked_att'),
        (GEMMA3 | {"num_attention_heads": 3}, "num_key_value_heads is 2; allowed: a divisor of "),
        (GEMMA3 | {"sliding_window_pattern": 0}, "sliding_window_pattern is 0; allowed: "),
        ({**GEMMA3, "intermediate_size": None}, "intermediate_size is null; allowed: "),
        (
            GEMMA4 | {"use_bidirectional_attention": "all"},
            'use_bidirectional_attention is "all"; allowed: vision',
        ),
        (
            GEMMA4 | {"num_kv_shared_layers": 7},
            "num_kv_shared_layers is 7; allowed: a number that leaves a layer of each kind with ",
        ),
        # the one full layer of those with a cache of their own is missing
        (GEMMA4 | {"num_kv_shared_layers": 2}, "num_kv_shared_layers is 2; allowed: a number "),
        (
            GEMMA4 | {"attention_k_eq_v": True, "num_global_key_value_heads": 3},
            "num_global_key_value_heads is 3; allowed: a divisor of num_attention_heads (4)",
        ),
        (GEMMA4 | {"enable_moe_block": True}, "num_experts is missing; allowed: "),
        (
            GEMMA4 | EXPERTS | {"top_k_experts": None},
            "top_k_experts is null; allowed: a whole number from 1 to 8",
        ),
        (
            GEMMA4 | EXPERTS | {"moe_intermediate_size": None},
            "moe_intermediate_size is null; allowed: ",
        ),
    ],
)
def test_what_describes_no_gemma_is_refused(config: Config, message: str) -> None:
    assert refused(config).startswith(f"config.json: {message}")


# --- Gemma 4: attention --------------------------------------------------------------------------


def test_full_layers_of_gemma_4_have_heads_of_their_own_width() -> None:
    sliding, full = (block for block, _ in mixers(parse(GEMMA4)))
    assert sliding.core == GroupedQueryAttention(4, 2, head_dim=8, value_dim=8, window=512)
    assert full.core == GroupedQueryAttention(4, 2, head_dim=16, value_dim=16)
    assert [count for _, count in mixers(parse(GEMMA4))] == [5, 2]
    widths = {linear.name: (linear.in_features, linear.out_features) for linear in full.linears}
    assert widths == {
        "q_proj": (64, 4 * 16),
        "k_proj": (64, 2 * 16),
        "v_proj": (64, 2 * 16),
        "o_proj": (4 * 16, 64),
    }
    assert sliding.vector_params == 2 * 64 + 2 * 8
    assert full.vector_params == 2 * 64 + 2 * 16


def test_gemma_4_takes_the_defaults_of_its_class() -> None:
    plain = {key: GEMMA4[key] for key in (*TINY, "hidden_size_per_layer_input")}
    sliding, full = (block.core for block, _ in mixers(parse(plain)))
    assert sliding == GroupedQueryAttention(4, 2, head_dim=256, value_dim=256, window=512)
    assert full == GroupedQueryAttention(4, 2, head_dim=512, value_dim=512)
    unified = parse(plain | {"model_type": "gemma4_unified_text"})
    assert windows(unified) == {1024: 5, None: 2}
    # null means no width of its own
    narrow = parse(plain | {"global_head_dim": None})
    assert mixers(narrow)[1][0].core == GroupedQueryAttention(4, 2, head_dim=256, value_dim=256)


def test_the_last_layer_of_gemma_4_attends_fully_whatever_the_list_says() -> None:
    assert windows(parse(GEMMA4 | {"layer_types": [SLIDING] * 7})) == {512: 6, None: 1}


def test_keys_that_are_values_save_a_matrix_and_no_cache() -> None:
    keys: Config = {"attention_k_eq_v": True, "num_global_key_value_heads": 1}
    model = parse(GEMMA4 | keys)
    sliding, full = (block for block, _ in mixers(model))
    assert [linear.name for linear in sliding.linears] == ["q_proj", "k_proj", "v_proj", "o_proj"]
    assert [linear.name for linear in full.linears] == ["q_proj", "k_proj", "o_proj"]
    assert full.linears[1].out_features == 16
    assert full.linears[1].shard == by_kv_heads(1)
    assert full.core == GroupedQueryAttention(4, 1, head_dim=16, value_dim=16)
    # 5 sliding layers of 2 heads of 8, 2 full ones of a head of 16; keys and values, 2 bytes
    assert kv_cache_bytes(model, 100) == (5 * 2 * 8 + 2 * 16) * 2 * 2 * 100


def test_heads_of_full_layers_count_only_where_keys_are_values() -> None:
    # Gemma4TextConfig.__post_init__
    ignored = parse(GEMMA4 | {"num_global_key_value_heads": 1})
    assert ignored == parse(GEMMA4)
    fallen_back = parse(GEMMA4 | {"attention_k_eq_v": True, "num_global_key_value_heads": None})
    assert mixers(fallen_back)[1][0].core == mixers(parse(GEMMA4))[1][0].core


def test_shared_layers_have_no_keys_no_values_and_no_cache() -> None:
    # s s s s s f s | s s s s f : the last five of twelve
    model = parse(GEMMA4 | {"num_hidden_layers": 12, "num_kv_shared_layers": 5})
    kinds = [(block.label, count) for block, count in mixers(model)]
    assert kinds == [
        (SLIDING, 6),
        (FULL, 1),
        (f"shared_{SLIDING}", 4),
        (f"shared_{FULL}", 1),
    ]
    shared = mixers(model)[2][0]
    assert shared.core == SharedCacheAttention(
        GroupedQueryAttention(4, 2, head_dim=8, value_dim=8, window=512)
    )
    assert [linear.name for linear in shared.linears] == ["q_proj", "o_proj"]
    assert shared.vector_params == 2 * 64 + 8  # no norm of keys
    assert kv_cache_bytes(model, 100) == (6 * 2 * 8 + 2 * 16) * 2 * 2 * 100
    ops = forward_cost(model, ForwardPass(batch_size=1, query_len=1, context_len=99))
    moved = sum(float(op.count * op.cache_bytes) for op in ops)
    assert moved == (10 * 2 * 8 + 2 * 2 * 16) * 2 * 2 * 100  # every layer reads


# --- Gemma 4: feed-forward -----------------------------------------------------------------------


def test_shared_layers_may_be_twice_as_wide() -> None:
    keys: Config = {"num_hidden_layers": 12, "num_kv_shared_layers": 5}
    wide = parse(GEMMA4 | keys | {"use_double_wide_mlp": True})
    widths = [layer.blocks[1].linears[1].in_features for layer in wide.layers]
    assert widths == [128, 128, 256, 256]
    # and none is where none shares
    unshared = parse(GEMMA4 | {"use_double_wide_mlp": True})
    assert unshared == parse(GEMMA4)


def test_a_dense_feed_forward_of_gemma_4_is_described_to_the_last_element() -> None:
    feed_forward = parse(GEMMA4).layers[0].blocks[1]
    assert feed_forward == Block(
        "feed_forward",
        (
            Linear("gate_up_proj", 64, 256, shard=TENSOR),
            Linear("down_proj", 128, 64, shard=TENSOR),
        ),
        vector_params=2 * 64 + 1,  # norms before and after, layer_scalar
    )


def test_experts_run_beside_the_dense_feed_forward() -> None:
    model = parse(GEMMA4 | EXPERTS)
    assert model.layers[0].blocks[1] == Block(
        "feed_forward",
        (
            Linear("gate_up_proj", 64, 256, shard=TENSOR),
            Linear("down_proj", 128, 64, shard=TENSOR),
            Linear("router", 64, 8, shard=FEED_FORWARD_REPLICATED, kind="router"),
        ),
        Experts(n_experts=8, top_k=2, in_features=64, hidden_features=32),
        # five norms, the router's scale, layer_scalar, a scale of each expert
        vector_params=5 * 64 + 64 + 1 + 8,
    )
    assert model.n_params - model.n_active_params == 7 * (8 - 2) * 3 * 64 * 32


def test_embeddings_per_layer_are_a_table_and_three_small_matrices() -> None:
    keys: Config = {"hidden_size_per_layer_input": 6, "vocab_size_per_layer_input": 500}
    model, without = parse(GEMMA4 | keys), parse(GEMMA4)
    feed_forward = linears(model)
    for name, in_features, out_features in (
        ("per_layer_model_projection", 64, 6),  # this layer's part of [7 * 6, 64]
        ("per_layer_input_gate", 64, 6),
        ("per_layer_projection", 6, 64),
    ):
        assert feed_forward[name] == Linear(
            name, in_features, out_features, shard=FEED_FORWARD_REPLICATED
        )
    assert model.lookup_params == 500 * 7 * 6
    assert model.embedding_params == 1000 * 64 + 500 * 7 * 6
    # three matrices and a norm a layer, the table, and one norm of all embeddings
    assert model.n_params - without.n_params == 7 * (3 * 64 * 6 + 64) + 500 * 7 * 6 + 6
    assert model.weight_bytes - without.weight_bytes == 2 * (model.n_params - without.n_params)
    # looked up, not multiplied: what a pass reads has the matrices only
    read, read_without = (
        sum(op.count * float(op.weight_bytes) for op in forward_cost(toy, ForwardPass(1, 1, 0)))
        for toy in (model, without)
    )
    assert read - read_without == 2 * 7 * 3 * 64 * 6


def test_embeddings_per_layer_are_there_unless_the_file_says_no() -> None:
    # configuration_gemma4.py: 256 wide, for 262144 tokens; the unified model knows none
    plain = {key: value for key, value in GEMMA4.items() if "per_layer" not in key}
    assert parse(plain).lookup_params == 262_144 * 7 * 256
    assert parse(plain | {"model_type": "gemma4_unified_text"}).lookup_params == 0


def test_biases_are_on_all_projections() -> None:
    for config in (GEMMA2, GEMMA3, GEMMA4):
        model = parse(config | {"attention_bias": True})
        plain = parse(config)
        assert all(linear.bias for linear in model.layers[0].blocks[0].linears)
        assert not any(linear.bias for linear in plain.layers[0].blocks[0].linears)


# --- quantised -----------------------------------------------------------------------------------


def test_nvfp4_lists_of_gemma_4_name_its_modules() -> None:
    layers = "model.language_model.layers"
    section: dict[str, Any] = {"quant_method": "modelopt", "quant_algo": "NVFP4"}

    def formats(*ignored: str) -> dict[str, str]:
        config = GEMMA4 | EXPERTS | {"quantization_config": section | {"ignore": [*ignored]}}
        model = parse(config)
        experts = model.layers[0].blocks[1].core
        assert isinstance(experts, Experts)
        names = {name: linear.weight.name for name, linear in linears(model).items()}
        return names | {"experts": experts.weight.name}

    all_but_router = dict.fromkeys(
        ("q_proj", "k_proj", "v_proj", "o_proj", "gate_up_proj", "down_proj", "experts"), "nvfp4"
    )
    assert formats("lm_head") == {"router": "bf16"} | all_but_router
    kept = formats(f"{layers}.*.self_attn*", f"{layers}.*.mlp*", f"{layers}.*.router*")
    assert {name for name, form in kept.items() if form == "nvfp4"} == {"experts"}
    assert formats(f"{layers}.0.experts*")["experts"] == "bf16"


def test_heads_divide_and_small_matrices_repeat() -> None:
    model = parse(GEMMA4 | {"hidden_size_per_layer_input": 6})
    matrices = linears(model)
    assert {matrices[name].shard for name in ("q_proj", "o_proj")} == {HEADS}
    assert {matrices[name].shard for name in ("k_proj", "v_proj")} == {by_kv_heads(2)}
