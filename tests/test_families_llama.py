"""Families built like Llama: Mistral, Phi, MiMo, relatives of Qwen, and OPT."""

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
    Layer,
    Linear,
)
from specroof.errors import ConfigError
from tiny_configs import (
    FP8_BLOCKS,
    TINY,
    TINY_EXPERTS,
    Config,
    anonymous,
    linears,
    parse,
    windows,
)

LLAMA_PARAMS = 2 * (64 * (4 + 2 + 2) * 16 + 64 * 64 + 3 * 64 * 128 + 2 * 64) + 2 * 1000 * 64 + 64


def family(model_type: str, **keys: Any) -> Config:
    """Return the tiny config as another family."""
    return TINY | {"model_type": model_type} | keys


def refused(config: Config) -> str:
    """Return the message with which a config is refused."""
    with pytest.raises(ConfigError) as caught:
        parse(config)
    return str(caught.value)


# --- dense relatives of Llama --------------------------------------------------------------------


@pytest.mark.parametrize(
    "config",
    [
        family("mistral", sliding_window=None),
        family("mistral3", sliding_window=None),
        family("ministral", sliding_window=None),
        family("ministral3", head_dim=16),
        family("phi3"),
    ],
    ids=lambda config: config["model_type"],
)
def test_relatives_have_the_layers_of_a_llama(config: Config) -> None:
    model = parse(config)
    assert model.layers == parse(TINY).layers
    assert model.n_params == LLAMA_PARAMS


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        # configuration_mistral.py: 4096 where the key is missing, none where it is null
        (family("mistral"), {4096: 2}),
        (family("mistral", sliding_window=7), {7: 2}),
        (family("mistral", sliding_window=None), {None: 2}),
        (family("ministral3"), {None: 2}),
        (family("ministral3", sliding_window=7), {7: 2}),
        (family("ministral"), {4096: 2}),
        (
            family("ministral", layer_types=["sliding_attention", "full_attention"]),
            {4096: 1, None: 1},
        ),
        (family("phi3"), {None: 2}),
        (family("phi3", sliding_window=2047), {2047: 2}),
        # switched off
        (family("mimo", sliding_window=7, use_sliding_window=False), {None: 2}),
        (family("qwen3_vl_text", sliding_window=7), {None: 2}),
    ],
)
def test_windows_are_those_of_the_family(config: Config, expected: dict[int | None, int]) -> None:
    assert windows(parse(config)) == expected


@pytest.mark.parametrize(
    ("config", "head_dim"),
    [
        (family("mistral"), 16),
        (family("mistral", head_dim=32), 32),  # Mistral-Nemo and Small: not hidden_size / heads
        (family("ministral3"), 128),
        (family("ministral3", head_dim=8), 8),
        (family("phi3"), 16),
        (family("qwen3_vl_text"), 128),
        (family("mimo"), 16),
    ],
)
def test_head_widths_are_those_of_the_family(config: Config, head_dim: int) -> None:
    core = parse(config).layers[0].blocks[0].core
    assert isinstance(core, GroupedQueryAttention)
    assert core.head_dim == core.value_dim == head_dim


def test_phi_has_as_many_kv_heads_as_heads_unless_told() -> None:
    config = family("phi3", num_key_value_heads=None)
    core = parse(config).layers[0].blocks[0].core
    assert core == GroupedQueryAttention(4, 4, head_dim=16, value_dim=16)
    assert refused(family("mistral", num_key_value_heads=None)).startswith(
        "config.json: num_key_value_heads is null; "
    )


def test_phi_has_no_biases_whatever_its_file_says() -> None:
    assert parse(family("phi3", attention_bias=True)).n_params == LLAMA_PARAMS


def test_a_list_may_name_phis_fused_matrices() -> None:
    ignored = ["model.layers.0.self_attn.qkv_proj", "model.layers.1.mlp.gate_up_proj"]
    section = FP8_BLOCKS | {"modules_to_not_convert": ignored}
    model = parse(family("phi3", quantization_config=section))
    kept = [
        {name for name, linear in linears(model, layer).items() if linear.weight.name == "bf16"}
        for layer in (0, 1)
    ]
    assert kept == [{"q_proj", "k_proj", "v_proj"}, {"gate_up_proj"}]


def test_mimo_is_a_qwen2_with_a_draft_layer() -> None:
    model = parse(family("mimo", num_nextn_predict_layers=1, attention_bias=True))
    assert model.layers == parse(family("qwen2")).layers
    assert model.notes == ("multi-token-prediction layer not counted among the model's weights",)
    assert [linear.bias for linear in model.layers[0].blocks[0].linears] == [
        True,
        True,
        True,
        False,
    ]


def test_qwen3_vl_is_a_qwen3_with_a_tower() -> None:
    text = family("qwen3_vl_text", head_dim=16)
    model = parse({"model_type": "qwen3_vl", "text_config": text, "vision_config": {}})
    assert model.layers == parse(family("qwen3", head_dim=16)).layers
    assert model.notes == ("vision tower left out",)
    experts = TINY_EXPERTS | {"model_type": "qwen3_vl_moe_text"}
    assert parse(experts).layers == parse(experts | {"model_type": "qwen3_moe"}).layers


@pytest.mark.parametrize("inner", ["mistral", "ministral3"])
def test_a_multimodal_mistral_is_the_one_inside(inner: str) -> None:
    text = family(inner, sliding_window=None, head_dim=16)
    outer = {"model_type": "mistral3", "text_config": text, "vision_config": {"hidden_size": 9}}
    assert anonymous(parse(outer)) == anonymous(parse(text))
    assert parse(outer).notes == ("vision tower left out",)


# --- OPT -----------------------------------------------------------------------------------------

OPT: Config = {
    "model_type": "opt",
    "hidden_size": 64,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "ffn_dim": 256,
    "vocab_size": 1000,
    "max_position_embeddings": 100,
}


def test_an_opt_is_described_to_the_last_element() -> None:
    model = parse(OPT)
    attention = Block(
        "attention",
        tuple(
            Linear(name, 64, 64, shard=HEADS, bias=True)
            for name in ("q_proj", "k_proj", "v_proj", "out_proj")
        ),
        GroupedQueryAttention(4, 4, head_dim=16, value_dim=16),
        vector_params=2 * 64,  # weight and bias of a norm
    )
    feed_forward = Block(
        "feed_forward",
        (
            Linear("fc1", 64, 256, shard=TENSOR, bias=True),
            Linear("fc2", 256, 64, shard=TENSOR, bias=True),
        ),
        vector_params=2 * 64,
    )
    assert model == Architecture(
        name="config",
        family="opt",
        hidden_size=64,
        vocab_size=1000,
        layers=(Layer((attention, feed_forward), 3),),
        head=Linear("lm_head", 64, 1000, shard=TENSOR, kind="head"),
        tied_embeddings=True,
        vector_params=2 * 64,
        lookup_params=(100 + 2) * 64,
    )
    assert model.n_params == (
        3 * (4 * 64 * 65 + 2 * 64 * 256 + 256 + 64 + 4 * 64) + (1000 + 102) * 64 + 2 * 64
    )


def test_an_opt_without_biases_norms_or_its_last_norm() -> None:
    bare = parse(OPT | {"enable_bias": False, "layer_norm_elementwise_affine": False})
    assert bare.n_params == 3 * (4 * 64 * 64 + 2 * 64 * 256) + (1000 + 102) * 64
    for keys in ({"do_layer_norm_before": False}, {"_remove_final_layer_norm": True}):
        assert parse(OPT | keys).n_params == parse(OPT).n_params - 2 * 64
    # configuration_opt.py: 2048 positions
    assert parse(OPT | {"max_position_embeddings": None}).lookup_params == 2050 * 64


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"word_embed_proj_dim": 32}, "word_embed_proj_dim is 32; allowed: hidden_size (64)"),
        ({"num_attention_heads": 5}, "num_attention_heads is 5; allowed: a divisor of hidden_size"),
        ({"ffn_dim": None}, "ffn_dim is null; allowed: "),
    ],
)
def test_what_describes_no_opt_is_refused(keys: Config, message: str) -> None:
    assert refused(OPT | keys).startswith(f"config.json: {message}")


# --- Qwen2 with experts --------------------------------------------------------------------------


def test_a_qwen2_with_experts_has_a_gated_shared_one_and_biases() -> None:
    model = parse(TINY_EXPERTS | {"model_type": "qwen2_moe"})
    attention, feed_forward = model.layers[0].blocks
    assert [linear.bias for linear in attention.linears] == [True, True, True, False]
    assert attention.vector_params == 64  # no norms of queries and keys
    assert feed_forward == Block(
        "feed_forward",
        (
            Linear("router", 64, 8, shard=FEED_FORWARD_REPLICATED, kind="router"),
            Linear("shared_gate_up_proj", 64, 96, shard=TENSOR),
            Linear("shared_down_proj", 48, 64, shard=TENSOR),
            Linear("shared_expert_gate", 64, 1, shard=FEED_FORWARD_REPLICATED, kind="router"),
        ),
        Experts(n_experts=8, top_k=2, in_features=64, hidden_features=32),
        vector_params=64,
    )
    unbiased = parse(TINY_EXPERTS | {"model_type": "qwen2_moe", "qkv_bias": False})
    assert model.n_params - unbiased.n_params == 2 * (64 + 32 + 32)
    dense = parse(TINY_EXPERTS | {"model_type": "qwen2_moe", "mlp_only_layers": [1]})
    assert dense.layer_kinds == {"full_attention": 2, "moe": 1, "mlp": 1}


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ({"sliding_window": 9}, {None: 6}),
        ({"use_sliding_window": True}, {4096: 3, None: 3}),
        (
            {"use_sliding_window": True, "sliding_window": 9, "max_window_layers": 3},
            {9: 2, None: 4},
        ),
        (
            {"use_sliding_window": True, "layer_types": ["sliding_attention"] * 6},
            {4096: 6},
        ),
    ],
)
def test_a_qwen2_with_experts_uses_windows_only_when_told(
    keys: Config, expected: dict[int | None, int]
) -> None:
    config = TINY_EXPERTS | {"model_type": "qwen2_moe", "num_hidden_layers": 6}
    assert windows(parse(config | keys)) == expected
