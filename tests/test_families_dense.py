"""Families of the table of dense decoders, and those that are built like them, counted by hand."""

import pytest

from specroof.architecture import Architecture, SharedCacheAttention, VisionTower
from specroof.errors import ConfigError
from specroof.parsers.families.dense import FAMILIES
from tiny_configs import (
    TINY,
    TINY_EXPERTS,
    Config,
    anonymous,
    cores,
    linears,
    parse,
    windows,
)

#: Elements of the small Llama: 64 wide, 2 layers, 4 heads and 2 KV heads of 16, width 128.
N_LLAMA = parse(TINY).n_params
TABLE = 64 * 1000
GATE = 64 * 128


def refused(config: Config) -> str:
    """Return the message with which a config is refused."""
    with pytest.raises(ConfigError) as caught:
        parse(config)
    return str(caught.value)


def gemma(**keys: object) -> Config:
    """Return a small Gemma 3n."""
    small = {"num_hidden_layers": 5, "head_dim": 16, "num_kv_shared_layers": 0}
    return TINY | small | {"model_type": "gemma3n_text", "vocab_size_per_layer_input": 900} | keys


# --- the table -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("keys", "difference"),
    [
        # no gate; the activation function of Apertus has four numbers; norms of a head
        ({"model_type": "apertus"}, 2 * (-GATE + 4 + 2 * 16)),
        ({"model_type": "arcee"}, 2 * -GATE),
        ({"model_type": "arcee", "mlp_bias": True}, 2 * (-GATE + 128 + 64)),
        ({"model_type": "arcee", "attention_bias": True}, 2 * (-GATE + 64 + 32 + 32 + 64)),
        # one norm a layer, and one table
        ({"model_type": "cohere"}, -TABLE - 2 * 64),
        ({"model_type": "cohere", "tie_word_embeddings": False}, -2 * 64),
        # norms as wide as all heads: 4 of queries, 2 of keys
        ({"model_type": "cohere", "use_qk_norm": True}, -TABLE - 2 * 64 + 2 * 6 * 16),
        ({"model_type": "cohere2"}, -TABLE - 2 * 64),
        ({"model_type": "exaone4"}, 2 * 2 * 16),
        ({"model_type": "gemma", "head_dim": 16}, -TABLE),
        ({"model_type": "granite"}, 0),
        ({"model_type": "granite", "mlp_bias": True}, 2 * (2 * 128 + 64)),
        # biases everywhere, of the five norms too
        ({"model_type": "jais2"}, 2 * (-GATE + 192 + 192) + 5 * 64),
        ({"model_type": "olmo2"}, 2 * 6 * 16),
        ({"model_type": "olmo3"}, 2 * 6 * 16),
        ({"model_type": "seed_oss", "head_dim": 16}, 2 * 128),
        ({"model_type": "seed_oss", "head_dim": 16, "attention_out_bias": True}, 2 * 192),
        ({"model_type": "seed_oss", "head_dim": 16, "attention_bias": False}, 0),
    ],
)
def test_a_family_differs_from_llama_by_a_few_elements(keys: Config, difference: int) -> None:
    assert parse(TINY | keys).n_params - N_LLAMA == difference


def test_granite_is_a_llama() -> None:
    granite = parse(TINY | {"model_type": "granite"})
    assert (granite.layers, granite.head) == (parse(TINY).layers, parse(TINY).head)


def test_a_feed_forward_without_a_gate_has_two_matrices() -> None:
    found = linears(parse(TINY | {"model_type": "apertus"}))
    assert found["up_proj"].matrix_params == found["down_proj"].matrix_params == GATE
    assert "gate_up_proj" not in found


def test_both_branches_of_a_cohere_layer_are_exchanged_at_once() -> None:
    (layer,) = parse(TINY | {"model_type": "cohere"}).layers
    assert [block.joins_next for block in layer.blocks] == [True, False]
    assert [block.vector_params for block in layer.blocks] == [64, 0]


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        # configuration classes: 4096, every fourth layer attends fully
        ({"model_type": "cohere2"}, {4096: 6, None: 2}),
        ({"model_type": "olmo3"}, {4096: 6, None: 2}),
        ({"model_type": "exaone4", "sliding_window": 9}, {9: 6, None: 2}),
        ({"model_type": "cohere2", "sliding_window_pattern": 2}, {4096: 4, None: 4}),
        ({"model_type": "exaone4", "sliding_window_pattern": "LLLG"}, {4096: 6, None: 2}),
        ({"model_type": "exaone4", "sliding_window_pattern": "LG"}, {4096: 4, None: 4}),
        # EXAONE 4.0 1.2B, as transformers saves it
        (
            {"model_type": "exaone4", "sliding_window": None, "sliding_window_pattern": 0},
            {None: 8},
        ),
        ({"model_type": "olmo3", "layer_types": ["full_attention"] * 8}, {None: 8}),
        ({"model_type": "olmo2"}, {None: 8}),
        ({"model_type": "cohere"}, {None: 8}),
    ],
)
def test_windows_are_those_of_the_configuration_class(
    keys: Config, expected: dict[int | None, int]
) -> None:
    assert windows(parse(TINY | {"num_hidden_layers": 8} | keys)) == expected


@pytest.mark.parametrize(
    ("model_type", "head_dim"), [("gemma", 256), ("seed_oss", 128), ("granite", 16), ("arcee", 16)]
)
def test_a_missing_head_dim_is_that_of_the_class(model_type: str, head_dim: int) -> None:
    assert cores(parse(TINY | {"model_type": model_type}))[0].head_dim == head_dim


@pytest.mark.parametrize("family", sorted(FAMILIES))
def test_without_a_number_of_kv_heads_there_are_as_many_as_query_heads(family: str) -> None:
    config = TINY | {"model_type": family, "num_key_value_heads": None}
    if FAMILIES[family].kv_as_heads:
        assert cores(parse(config))[0].n_kv_heads == 4
    else:
        assert refused(config).startswith("config.json: num_key_value_heads is null")


@pytest.mark.parametrize("family", sorted(FAMILIES))
def test_heads_of_the_share_and_no_windows_are_one_kind_of_layer(family: str) -> None:
    config = TINY | {"model_type": family, "head_dim": 16, "sliding_window": None}
    model = parse(config)
    assert [layer.count for layer in model.layers] == [2]
    assert cores(model)[0] == cores(parse(TINY))[0]


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"model_type": "gemma", "use_bidirectional_attention": True}, "use_bidirectional"),
        ({"model_type": "olmo2", "attention_bias": 1}, "attention_bias is 1"),
        ({"model_type": "seed_oss", "attention_out_bias": "no"}, "attention_out_bias is"),
        ({"model_type": "arcee", "mlp_bias": 0}, "mlp_bias is 0"),
        ({"model_type": "cohere", "use_qk_norm": 3}, "use_qk_norm is 3"),
        ({"model_type": "cohere2", "sliding_window": 0}, "sliding_window is 0"),
        ({"model_type": "cohere2", "sliding_window_pattern": 0}, "sliding_window_pattern is 0"),
        ({"model_type": "exaone4", "sliding_window_pattern": "GL"}, "sliding_window_pattern is"),
        ({"model_type": "exaone4", "sliding_window_pattern": ""}, "sliding_window_pattern is"),
        ({"model_type": "olmo3", "layer_types": ["linear"] * 2}, "layer_types[0] is"),
        ({"model_type": "granite", "intermediate_size": None}, "intermediate_size is null"),
        ({"model_type": "jais2", "num_key_value_heads": 3}, "num_key_value_heads is 3"),
    ],
)
def test_wrong_values_are_refused(keys: Config, message: str) -> None:
    assert refused(TINY | keys).startswith(f"config.json: {message}")


# --- Qwen2-VL and Qwen2.5-VL ---------------------------------------------------------------------


@pytest.mark.parametrize("model_type", ["qwen2_vl", "qwen2_5_vl"])
def test_a_qwen2_that_sees_is_a_qwen2(model_type: str) -> None:
    plain = parse(TINY | {"model_type": "qwen2"})
    flat = TINY | {"model_type": model_type, "vision_config": {"depth": 2, "hidden_size": 8}}
    nested = {
        "model_type": model_type,
        "text_config": TINY | {"model_type": f"{model_type}_text"},
        "vision_config": {"depth": 2, "hidden_size": 8},
    }
    for config in (flat, nested):
        assert (parse(config).layers, parse(config).n_params) == (plain.layers, plain.n_params)
        assert parse(config).notes == ("vision tower left out",)
    # Qwen2VLConfig.__post_init__: true at either level ties
    for config in (nested | {"tie_word_embeddings": True}, flat | {"tie_word_embeddings": True}):
        assert parse(config).tied_embeddings


def test_the_tower_of_qwen2_vl_is_as_wide_as_it_says_and_not_as_its_output() -> None:
    # Qwen2VLVisionConfig: embed_dim is the width, hidden_size that of the language model
    tower = {"depth": 32, "embed_dim": 1280, "hidden_size": 3584}
    model = parse(TINY | {"model_type": "qwen2_vl", "vision_config": tower})
    assert model.vision == VisionTower(hidden_size=3584, depth=32, width=1280)
    assert model.vision.weight_bytes == 12 * 32 * 1280**2 * 2


# --- Granite with experts ------------------------------------------------------------------------


def test_granite_3_has_experts_in_every_layer() -> None:
    config = TINY_EXPERTS | {"model_type": "granitemoe", "intermediate_size": 32}
    attention = 64 * (64 + 32 + 32 + 64)
    experts = 8 * (3 * 64 * 32 + 64)  # with a row of the router each
    plain = parse(config)
    assert plain.n_params == 2 * (attention + experts + 2 * 64) + 2 * TABLE + 64
    shared = parse(config | {"model_type": "granitemoeshared", "shared_intermediate_size": 48})
    assert shared.n_params - plain.n_params == 2 * 3 * 64 * 48
    none = parse(config | {"model_type": "granitemoeshared"})
    assert anonymous(none).layers == anonymous(plain).layers
    wide = parse(config | {"num_key_value_heads": None})
    assert cores(wide)[0].n_kv_heads == 4
    assert refused(config | {"shared_intermediate_size": -1}).startswith(
        "config.json: shared_intermediate_size is -1"
    )


# --- Gemma 3n ------------------------------------------------------------------------------------


def n_params(model: Architecture, name: str) -> int:
    """Return the elements of the matrices of a name in all layers."""
    return sum(
        layer.count * linear.n_params
        for layer in model.layers
        for block in layer.blocks
        for linear in block.linears
        if linear.name.startswith(name)
    )


def test_gemma_3n_is_described_to_the_last_element() -> None:
    model = parse(gemma(num_key_value_heads=2, hidden_size_per_layer_input=8, laurel_rank=4))
    attention = 64 * (64 + 32 + 32 + 64) + 2 * 16
    feed_forward = 3 * 64 * 128
    streams = 64 * 4 + 4 * 16 + 4 * 4  # router of streams, prediction, correction
    branch = 2 * 64 * 4
    own_embedding = 3 * 64 * 8
    norms = 8 * 64  # six norms, the norm of the router and the scale of the corrected stream
    layer = attention + feed_forward + streams + branch + own_embedding + norms
    outside = 1000 * 64 + 900 * 5 * 8 + 6 * 64 * 64 + 64 + 8
    assert model.n_params == 5 * layer + outside
    assert model.tied_embeddings
    kinds = [
        (core.window, layer.count) for core, layer in zip(cores(model), model.layers, strict=True)
    ]
    assert kinds == [(512, 1), (512, 3), (None, 1)]  # the first layer makes the streams


def test_the_last_layers_of_gemma_3n_read_a_cache_of_others() -> None:
    config = gemma(num_hidden_layers=10, num_kv_shared_layers=4)
    shared = [core for core in cores(parse(config)) if isinstance(core, SharedCacheAttention)]
    assert {core.attention.window for core in shared} == {512, None}
    saved = 4 * (64 * 2 * 32 + 16)  # projections of keys and values, and the norm of keys
    none = parse(gemma(num_hidden_layers=10))
    assert none.n_params - parse(config).n_params == saved


def test_layers_of_gemma_3n_slide_as_a_list_says() -> None:
    kinds = ["sliding_attention", *["full_attention"] * 4]
    model = parse(gemma(layer_types=kinds, sliding_window=9))
    assert [core.window for core in cores(model)] == [9, None, None]


def test_layers_of_gemma_3n_may_have_widths_of_their_own() -> None:
    widths = [128, 128, 96, 96, 96]
    model = parse(gemma(intermediate_size=widths))
    assert n_params(model, "down_proj") == 64 * sum(widths)
    assert parse(gemma(intermediate_size=[128] * 5)) == parse(gemma())


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"num_kv_shared_layers": 1}, "num_kv_shared_layers is 1"),
        ({"intermediate_size": [128] * 4}, "intermediate_size is a list of 4"),
        ({"intermediate_size": [0] * 5}, "intermediate_size[0] is 0"),
        ({"altup_num_inputs": 0}, "altup_num_inputs is 0"),
        ({"sliding_window": 0}, "sliding_window is 0"),
    ],
)
def test_wrong_values_of_gemma_3n_are_refused(keys: Config, message: str) -> None:
    assert refused(gemma(**keys)).startswith(f"config.json: {message}")
