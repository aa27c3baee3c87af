"""MiMo-V2 and Step: sliding layers whose heads differ from those of full layers."""

import numpy as np
import pytest

from specroof.architecture import Experts, GroupedQueryAttention
from specroof.cost import ForwardPass, forward_cost, kv_bytes_per_token
from specroof.cost.forward import kv_cache_bytes
from specroof.errors import ConfigError
from tiny_configs import FP8_BLOCKS, Config, cores, formats, left_out, linears, parse
from tiny_mixtures import MIMO, STEP


def refusal(config: Config) -> str:
    """Return the one line that refuses a config."""
    with pytest.raises(ConfigError) as caught:
        parse(config)
    message = str(caught.value)
    assert "\n" not in message
    return message.removeprefix("config.json: ")


def without(config: Config, *keys: str) -> Config:
    return {key: value for key, value in config.items() if key not in keys}


# --- MiMo-V2 -------------------------------------------------------------------------------------


def test_mimo_keys_are_wider_than_values() -> None:
    model = parse(MIMO)
    full, sliding = model.layers
    assert (full.count, sliding.count) == (1, 2)
    assert cores(model) == [
        GroupedQueryAttention(4, 2, 24, 16),
        GroupedQueryAttention(8, 4, 24, 16, window=128),
    ]
    sizes = {
        name: (linear.in_features, linear.out_features)
        for name, linear in linears(model, 1).items()
        if name in {"q_proj", "k_proj", "v_proj", "o_proj"}
    }
    assert sizes == {
        "q_proj": (64, 8 * 24),
        "k_proj": (64, 4 * 24),
        "v_proj": (64, 4 * 16),
        "o_proj": (8 * 16, 64),
    }
    # a sink per query head where the layer slides
    assert full.blocks[0].vector_params == 64
    assert sliding.blocks[0].vector_params == 64 + 8


def test_mimo_without_sliding_layers_needs_no_sizes_of_them() -> None:
    config = without(MIMO, "sliding_window", "sliding_window_size")
    config["hybrid_layer_pattern"] = [0] * config["num_hidden_layers"]
    assert set(cores(parse(config))) == {GroupedQueryAttention(4, 2, 24, 16)}


def test_mimo_caches_keys_and_values_of_their_own_widths() -> None:
    # Full: 2 heads of 24 + 16; sliding: 4 heads, of the last 128 tokens only; 2 such layers.
    full, sliding = 2 * 40 * 2, 4 * 40 * 2
    assert kv_bytes_per_token(parse(MIMO)) == full
    assert kv_cache_bytes(parse(MIMO), 1000.0) == 1000 * full + 2 * 128 * sliding


def test_mimo_attention_flops_count_both_widths() -> None:
    ops = forward_cost(parse(MIMO), ForwardPass(batch_size=1, query_len=1, context_len=999))
    flops = {op.name: float(op.flops) for op in ops if op.kind == "attention"}
    assert flops == {
        "full_attention.core": 2 * 4 * (24 + 16) * 1000,
        "sliding_attention.core": 2 * 8 * (24 + 16) * 128,
    }


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        # SGLang: as wide as keys; transformers: twice the KV heads, else as full layers
        (("v_head_dim", "swa_v_head_dim"), GroupedQueryAttention(8, 4, 24, 24, window=128)),
        (("swa_num_key_value_heads",), GroupedQueryAttention(8, 4, 24, 16, window=128)),
        (("swa_num_attention_heads",), GroupedQueryAttention(4, 4, 24, 16, window=128)),
        (("swa_head_dim", "swa_v_head_dim"), GroupedQueryAttention(8, 4, 24, 16, window=128)),
    ],
)
def test_missing_sizes_of_sliding_layers_are_the_family_s(
    keys: tuple[str, ...], expected: GroupedQueryAttention
) -> None:
    assert cores(parse(without(MIMO, *keys)))[1] == expected


def test_mimo_layers_follow_lists_or_the_class() -> None:
    flagged = parse(MIMO)
    listed = parse(
        without(MIMO, "hybrid_layer_pattern", "moe_layer_freq")
        | {
            "layer_types": ["full_attention", "sliding_attention", "sliding_attention"],
            "mlp_layer_types": ["dense", "sparse", "sparse"],
        }
    )
    assert listed.layers == flagged.layers
    unsaid = parse(
        without(MIMO, "hybrid_layer_pattern", "moe_layer_freq") | {"num_hidden_layers": 12}
    )
    # layers 0, 5 and 11 attend fully, all but layer 0 have experts
    assert unsaid.layer_kinds == {
        "full_attention": 3,
        "mlp": 1,
        "sliding_attention": 9,
        "moe": 11,
    }


def test_mimo_has_sinks_and_biases_where_flags_say_so() -> None:
    base = parse(MIMO).n_params
    assert parse(MIMO | {"add_full_attention_sink_bias": True}).n_params - base == 4
    assert parse(MIMO | {"add_swa_attention_sink_bias": False}).n_params - base == -2 * 8
    # on queries, keys and values, not on the output
    biases = (4 * 24 + 2 * 40) + 2 * (8 * 24 + 4 * 40)
    assert parse(MIMO | {"attention_bias": True}).n_params - base == biases


def test_draft_layers_of_mimo_are_left_out_whether_named_or_not() -> None:
    note = ("multi-token-prediction layer not counted among the model's weights",)
    assert left_out(parse(MIMO)) == note
    assert left_out(parse(MIMO | {"num_nextn_predict_layers": 3})) == note


def test_mimo_experts_may_be_narrower_than_the_method_says() -> None:
    section = FP8_BLOCKS | {"ignored_layers": ["model.layers.0.self_attn.o_proj"]}
    model = parse(MIMO | {"quantization_config": section})
    assert formats(model) == {"fp8-block", "bf16"}
    assert linears(model, 0)["o_proj"].weight.name == "bf16"
    assert linears(model, 1)["o_proj"].weight.name == "fp8-block"
    narrow = parse(MIMO | {"quantization_config": section | {"store_dtype": "mxfp4"}})
    experts = narrow.layers[1].blocks[1].core
    assert isinstance(experts, Experts)
    assert experts.weight.name == "mxfp4"
    assert linears(narrow, 1)["q_proj"].weight.name == "fp8-block"


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"swa_num_key_value_heads": 3}, "swa_num_key_value_heads is 3; allowed: a divisor of "),
        ({"num_key_value_heads": 3}, "num_key_value_heads is 3; allowed: a divisor of num_atten"),
        ({"hybrid_layer_pattern": [0, 1]}, "hybrid_layer_pattern is a list of 2; allowed: a list"),
        ({"sliding_window": None}, "sliding_window is null; allowed: a whole number from 1 to "),
        ({"n_shared_experts": 1}, "n_shared_experts is 1; allowed: a whole number from 0 to 0"),
        ({"head_dim": None}, "head_dim is null; allowed: a whole number from 1 to "),
    ],
)
def test_what_mimo_does_not_say_is_refused(keys: Config, message: str) -> None:
    assert refusal(MIMO | keys).startswith(message)


# --- Step ----------------------------------------------------------------------------------------


def test_step_has_more_query_heads_where_the_window_is_short() -> None:
    model = parse(STEP)
    assert model.layer_kinds == {
        "full_attention": 2,
        "mlp": 2,
        "sliding_attention": 2,
        "moe": 2,
    }
    found = {core.window: core for core in cores(model)}
    assert found == {
        None: GroupedQueryAttention(4, 2, 16, 16),
        512: GroupedQueryAttention(6, 2, 16, 16, window=512),
    }
    gates = {linears(model, index)["g_proj"].out_features for index in range(4)}
    assert gates == {4, 6}
    # a norm of one head's width for queries and one for keys
    assert {layer.blocks[0].vector_params for layer in model.layers} == {64 + 2 * 16}


def test_step_experts_are_listed_in_a_text() -> None:
    model = parse(STEP)
    sparse = [layer for layer in model.layers if layer.blocks[1].core is not None]
    assert {layer.blocks[1].core for layer in sparse} == {Experts(8, 3, 64, 32)}
    assert linears(model, 2)["shared_down_proj"].in_features == 40
    assert linears(model, 0)["down_proj"].in_features == 128


@pytest.mark.parametrize(
    ("keys", "n_sparse"),
    [
        ({"moe_layers_enum": "1, 2,3"}, 3),
        ({"moe_layers_enum": [0, 1, 2, 3]}, 4),
        ({"moe_layers_enum": ""}, 0),
        ({"moe_layers_enum": None}, 1),  # all but the first three
        ({"mlp_layer_types": ["sparse"] * 2 + ["dense"] * 2}, 2),
    ],
)
def test_step_spells_its_expert_layers_in_several_ways(keys: Config, n_sparse: int) -> None:
    assert parse(STEP | keys).layer_kinds.get("moe", 0) == n_sparse


@pytest.mark.parametrize(
    "keys",
    [
        {"num_attention_groups": None, "num_key_value_heads": 2},
        {"moe_num_experts": None, "n_routed_experts": 8},
        {"moe_top_k": None, "num_experts_per_tok": 3},
        {"share_expert_dim": None, "share_expert_dims": 40},
        {"attention_other_setting": None, "num_sliding_attention_heads": 6},
        {"model_type": "step3p7"},
    ],
)
def test_step_keys_have_second_names(keys: Config) -> None:
    assert parse(STEP | keys).layers == parse(STEP).layers


def test_step_gates_and_biases_are_counted() -> None:
    base = parse(STEP).n_params
    gates = 64 * (2 * 4 + 2 * 6)
    assert base - parse(STEP | {"use_head_wise_attn_gate": False}).n_params == gates
    # on all four projections: query, key, value, output
    biases = 2 * (4 * 16 + 32 + 32 + 64) + 2 * (6 * 16 + 32 + 32 + 64)
    assert parse(STEP | {"attention_bias": True}).n_params - base == biases
    assert base - parse(STEP | {"use_moe_router_bias": False}).n_params == 2 * 8


def test_step_without_sliding_layers_needs_no_second_setting() -> None:
    bare = without(STEP, "layer_types", "attention_other_setting", "sliding_window")
    assert parse(bare).layer_kinds["full_attention"] == 4


def test_the_cache_of_sliding_layers_stops_at_the_window() -> None:
    # 2 heads of 16 + 16 in 2 layers that keep all and 2 that keep 512 tokens
    token_bytes = 2 * 32 * 2
    stored = kv_cache_bytes(parse(STEP), np.array([100.0, 10_000.0]))
    assert stored.tolist() == [4 * 100 * token_bytes, 2 * (10_000 + 512) * token_bytes]


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        (
            {"attention_other_setting": None},
            "attention_other_setting is null; allowed: an object with the heads of sliding layers",
        ),
        (
            {"attention_other_setting": {}},
            "attention_other_setting.num_attention_heads is missing; allowed: a whole number ",
        ),
        (
            {"attention_other_setting": {"num_attention_heads": 7}},
            "attention_other_setting.num_attention_heads is 7; allowed: a multiple of the 2 heads ",
        ),
        ({"moe_layers_enum": "3,x"}, 'moe_layers_enum is "3,x"; allowed: whole numbers from 0 '),
        ({"moe_layers_enum": "3,-4"}, 'moe_layers_enum is "3,-4"; allowed: whole numbers from 0 '),
        ({"moe_layers_enum": 3}, "moe_layers_enum is 3; allowed: text"),
        ({"moe_top_k": 9}, "moe_top_k is 9; allowed: a whole number from 1 to 8"),
        ({"sliding_window": None}, "sliding_window is null; allowed: a whole number from 1 to "),
        ({"share_expert_dim": None}, "share_expert_dim or share_expert_dims is missing; allowed:"),
    ],
)
def test_what_step_does_not_say_is_refused(keys: Config, message: str) -> None:
    assert refusal(STEP | keys).startswith(message)
