"""Llama 4, and the Llama-Nemotrons whose layers a search has chosen one by one."""

from typing import Any

import pytest

from specroof.architecture import (
    FEED_FORWARD_REPLICATED,
    HEADS,
    TENSOR,
    Architecture,
    Block,
    ChunkedAttention,
    Experts,
    GroupedQueryAttention,
    Linear,
)
from specroof.cost.forward import kv_cache_bytes
from specroof.errors import ConfigError
from tiny_configs import FP8_BLOCKS, TINY, Config, formats, linears, parse


def refused(config: Config) -> str:
    """Return the message with which a config is refused."""
    with pytest.raises(ConfigError) as caught:
        parse(config)
    return str(caught.value)


def kinds(model: Architecture) -> list[tuple[tuple[str, ...], int]]:
    """Return what the blocks of each distinct layer are called, and the number of such layers."""
    return [(tuple(block.label for block in layer.blocks), layer.count) for layer in model.layers]


# --- Llama 4 -------------------------------------------------------------------------------------

LLAMA4: Config = {
    **TINY,
    "model_type": "llama4_text",
    "num_hidden_layers": 8,
    "head_dim": 16,
    "num_local_experts": 8,
    "num_experts_per_tok": 1,
    "intermediate_size": 32,
    "intermediate_size_mlp": 128,
    "attention_chunk_size": 10,
}


def test_a_sparse_llama_4_is_described_to_the_last_element() -> None:
    model = parse(LLAMA4)
    chunked, full = model.layers
    assert (chunked.count, full.count) == (6, 2)
    assert chunked.blocks[0].core == ChunkedAttention(4, 2, 16, 16, chunk=10)
    assert full.blocks[0].core == GroupedQueryAttention(4, 2, 16, 16)
    assert chunked.blocks[0].vector_params == 64  # the norm of queries and keys has no weights
    assert chunked.blocks[1] == full.blocks[1]
    assert full.blocks[1] == Block(
        "feed_forward",
        (
            Linear("router", 64, 8, shard=FEED_FORWARD_REPLICATED, kind="router"),
            Linear("shared_gate_up_proj", 64, 64, shard=TENSOR),
            Linear("shared_down_proj", 32, 64, shard=TENSOR),
        ),
        Experts(n_experts=8, top_k=1, in_features=64, hidden_features=32),
        vector_params=64,
    )
    assert "10 tokens" in model.notes[0]


def test_llama_4_interleaves_dense_layers_of_a_width_of_their_own() -> None:
    model = parse(LLAMA4 | {"interleave_moe_layer_step": 2})
    assert kinds(model) == [
        (("chunked_attention", "mlp"), 4),
        (("chunked_attention", "moe"), 2),
        (("full_attention", "moe"), 2),
    ]
    assert model.layers[0].blocks[1].linears[1].in_features == 128  # intermediate_size_mlp
    listed = parse(LLAMA4 | {"interleave_moe_layer_step": 2, "moe_layers": [0, 99]})
    assert kinds(listed) == [
        (("chunked_attention", "moe"), 1),
        (("chunked_attention", "mlp"), 5),
        (("full_attention", "mlp"), 2),
    ]
    # an empty list is a list
    dense = parse(LLAMA4 | {"moe_layers": [], "num_local_experts": None})
    assert dense.n_active_params == dense.n_params


@pytest.mark.parametrize(
    ("keys", "chunked"),
    [
        ({}, 6),
        ({"no_rope_layers": []}, 6),  # the file of the pretrained Scout has it: the default
        ({"no_rope_layers": None}, 6),
        ({"no_rope_layers": [1] * 5 + [0] * 3}, 5),  # 1 means: has rotary positions
        ({"no_rope_layer_interval": 2}, 4),
        ({"layer_types": ["chunked_attention"] * 3 + ["full_attention"] * 5}, 3),
        ({"attention_chunk_size": None}, 0),
    ],
)
def test_layers_with_rotary_positions_are_chunked(keys: Config, chunked: int) -> None:
    model = parse(LLAMA4 | keys)
    assert model.layer_kinds.get("chunked_attention", 0) == chunked
    assert model.layer_kinds.get("full_attention", 0) == 8 - chunked
    assert bool(model.notes) == bool(chunked)


def test_llama_4_takes_the_defaults_of_its_class() -> None:
    left_out = {"head_dim", "attention_chunk_size", "intermediate_size_mlp"}
    model = parse({key: value for key, value in LLAMA4.items() if key not in left_out})
    assert model.layers[0].blocks[0].core == ChunkedAttention(4, 2, 128, 128, chunk=8192)
    split = parse(LLAMA4 | {"head_dim": None})
    assert split.layers[0].blocks[0].core == ChunkedAttention(4, 2, 16, 16, chunk=10)


def test_a_chunk_is_what_llama_4_caches() -> None:
    # 2 heads, keys and values of 16, 2 bytes; 6 layers keep a chunk of 10, 2 keep everything
    assert kv_cache_bytes(parse(LLAMA4), [7, 1000]).tolist() == [
        8 * 7 * 128,
        (6 * 10 + 2 * 1000) * 128,
    ]


def test_lists_name_the_modules_of_llama_4() -> None:
    weights = {"num_bits": 8, "type": "float"}
    section = {
        "quant_method": "compressed-tensors",
        "config_groups": {"group_0": {"targets": ["Linear"], "weights": weights}},
        "ignore": ["re:.*lm_head", "re:.*self_attn", "re:.*router", "re:.*vision_model"],
    }
    model = parse(LLAMA4 | {"interleave_moe_layer_step": 2, "quantization_config": section})
    assert formats(model) == {"bf16", "fp8"}
    dense, sparse = linears(model, 0), linears(model, 1)
    assert {name for name, linear in dense.items() if linear.weight.name == "fp8"} == {
        "gate_up_proj",
        "down_proj",
    }
    assert {name for name, linear in sparse.items() if linear.weight.name == "fp8"} == {
        "shared_gate_up_proj",
        "shared_down_proj",
    }
    experts = model.layers[1].blocks[1].core
    assert isinstance(experts, Experts)
    assert experts.weight.name == "fp8"


@pytest.mark.parametrize(
    ("entry", "layer", "kept"),
    [
        ("model.layers.0.feed_forward.gate_proj", 0, {"gate_up_proj"}),
        ("re:.*feed_forward.down_proj$", 0, {"down_proj"}),
        ("re:.*feed_forward.shared_expert.*", 1, {"shared_gate_up_proj", "shared_down_proj"}),
    ],
)
def test_a_list_may_name_one_module_of_llama_4(entry: str, layer: int, kept: set[str]) -> None:
    section = FP8_BLOCKS | {"modules_to_not_convert": [entry]}
    config = LLAMA4 | {"interleave_moe_layer_step": 2, "quantization_config": section}
    matrices = linears(parse(config), layer)
    plain = {name for name, linear in matrices.items() if linear.weight.name == "bf16"}
    assert plain - {"router"} == kept


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"no_rope_layers": [1]}, "no_rope_layers is a list of 1; allowed: a list of at least 8"),
        ({"no_rope_layers": [2] * 8}, "no_rope_layers[0] is 2; allowed: 0, 1"),
        ({"no_rope_layers": "all"}, 'no_rope_layers is "all"; allowed: a list'),
        ({"layer_types": ["sliding_attention"] * 8}, 'layer_types[0] is "sliding_attention"; '),
        ({"interleave_moe_layer_step": 2, "intermediate_size_mlp": None}, "intermediate_size_mlp "),
        ({"interleave_moe_layer_step": 0}, "interleave_moe_layer_step is 0; allowed: "),
        ({"attention_chunk_size": 0}, "attention_chunk_size is 0; allowed: "),
        ({"num_experts_per_tok": 9}, "num_experts_per_tok is 9; allowed: a whole number from 1 "),
        ({"num_local_experts": None}, "num_local_experts is null; allowed: "),
    ],
)
def test_what_describes_no_llama_4_is_refused(keys: Config, message: str) -> None:
    assert refused(LLAMA4 | keys).startswith(f"config.json: {message}")


# --- Nemotron NAS --------------------------------------------------------------------------------


def nas(*blocks: tuple[Config, Config], **keys: Any) -> Config:
    """Return a config with a layer for each pair of attention and feed-forward."""
    configs = [{"attention": attention, "ffn": ffn} for attention, ffn in blocks]
    sizes: Config = {"num_key_value_heads": None, "intermediate_size": None}
    sizes |= {"num_hidden_layers": len(blocks), "block_configs": configs}
    return TINY | {"model_type": "nemotron-nas"} | sizes | keys


GROUP: Config = {"n_heads_in_group": 2, "no_op": False, "replace_with_linear": False}
WIDE: Config = {"ffn_mult": 3.0, "no_op": False, "replace_with_linear": False}
NOTHING: Config = {"no_op": True, "n_heads_in_group": None, "ffn_mult": None}
SQUARE: Config = {"replace_with_linear": True}


def test_every_layer_of_a_nas_model_is_its_own() -> None:
    model = parse(
        nas(
            (GROUP, WIDE),
            (NOTHING, WIDE),
            (GROUP | {"n_heads_in_group": 4}, NOTHING),
            (SQUARE, SQUARE),
            (NOTHING, NOTHING),
            (GROUP, WIDE),
        )
    )
    assert kinds(model) == [
        (("full_attention", "mlp"), 2),
        (("mlp",), 1),
        (("full_attention",), 1),
        (("linear", "mlp"), 1),
        ((), 1),
    ]
    assert model.n_layers == 6
    assert model.layers[0].blocks[0].core == GroupedQueryAttention(4, 2, 16, 16)
    assert model.layers[2].blocks[0].core == GroupedQueryAttention(4, 1, 16, 16)
    assert model.layers[3].blocks == (
        Block("attention", (Linear("linear", 64, 64, shard=HEADS),), vector_params=64),
        Block("feed_forward", (Linear("linear", 64, 64, shard=TENSOR),), vector_params=64),
    )
    # a layer without attention has no norm before it and caches nothing
    assert kv_cache_bytes(model, 10) == (2 * 2 + 1) * 2 * 16 * 2 * 10


@pytest.mark.parametrize(
    ("multiplier", "width"),
    [
        # int(2 m h / 3) rounded up to a multiple of 256; h = 64
        (3, 256),
        (6.0, 256),
        (6.1, 512),  # 260
        (0.1, 256),  # 4
        (12, 512),
    ],
)
def test_a_multiplier_is_a_width(multiplier: float, width: int) -> None:
    model = parse(nas((GROUP, {"ffn_mult": multiplier})))
    assert linears(model)["down_proj"].in_features == width


def test_biases_of_a_nas_model_are_where_its_keys_say() -> None:
    blocks = ((GROUP, WIDE), (SQUARE, SQUARE))
    plain = parse(nas(*blocks)).n_params
    attention = parse(nas(*blocks, attention_bias=True)).n_params - plain
    feed_forward = parse(nas(*blocks, mlp_bias=True)).n_params - plain
    assert attention == (64 + 32 + 32 + 64) + 64
    assert feed_forward == (2 * 256 + 64) + 64


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (nas((GROUP, WIDE), block_configs=None), "block_configs is null; allowed: a list of obj"),
        (nas((GROUP, WIDE), block_configs=[]), "block_configs is a list of 0; allowed: a list of "),
        (nas((GROUP, WIDE), num_hidden_layers=2), "block_configs is a list of 1; allowed: a list "),
        (nas((GROUP, WIDE), block_configs=[3]), "block_configs[0] is 3; allowed: an object"),
        (nas((GROUP, WIDE), block_configs=[{}]), "block_configs[0].attention is missing; allowed"),
        (
            nas((GROUP | {"n_heads_in_group": 3}, WIDE)),
            "block_configs[0].attention.n_heads_in_group is 3; allowed: a divisor of num_attent",
        ),
        (
            nas((GROUP, WIDE), ({}, WIDE)),
            "block_configs[1].attention.n_heads_in_group is missing; allowed: a whole number ",
        ),
        (
            nas((GROUP | {"window_length": 8}, WIDE)),
            "block_configs[0].attention.window_length is 8; allowed: null",
        ),
        (
            nas((GROUP, WIDE | {"sparsify": ["a"]})),
            "block_configs[0].ffn.sparsify is a list of 1; allowed: null",
        ),
        (
            nas((GROUP, WIDE | {"ffn_mult": 0})),
            "block_configs[0].ffn.ffn_mult is 0; allowed: a number above 0, up to ",
        ),
        (nas((GROUP, WIDE | {"ffn_mult": True})), "block_configs[0].ffn.ffn_mult is true; "),
        (nas((GROUP, WIDE | {"ffn_mult": "2"})), 'block_configs[0].ffn.ffn_mult is "2"; '),
        (nas((GROUP, WIDE | {"ffn_mult": float("nan")})), "block_configs[0].ffn.ffn_mult is NaN; "),
        (nas((GROUP, WIDE | {"ffn_mult": 1e-9})), "block_configs[0].ffn.ffn_mult is 1e-09; "),
        (nas((GROUP, WIDE | {"ffn_mult": 1e6})), "block_configs[0].ffn.ffn_mult is 1000000.0; "),
    ],
)
def test_what_describes_no_nas_model_is_refused(config: Config, message: str) -> None:
    assert refused(config).startswith(f"config.json: {message}")
