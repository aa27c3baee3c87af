"""Families of 2025 and 2026 beside the large series, from Hunyuan to Qwen4-Exp.

Each family is held against a simpler one that it becomes in a limit, and what it adds to that is
counted by hand from its published code.
"""

from typing import Final

import pytest

from specroof.architecture import (
    Architecture,
    BlockSparseAttention,
    Experts,
    GroupedQueryAttention,
    Indexer,
    KimiDeltaAttention,
    LightningAttention,
    ShortConvolution,
)
from specroof.cost import kv_bytes_per_token, state_bytes
from specroof.errors import ConfigError
from tiny_configs import (
    TINY,
    TINY_EXPERTS,
    TINY_HYBRID,
    TINY_LATENT,
    Config,
    left_out,
    linears,
    parse,
    windows,
)

#: Small configs: hidden size 64, four heads of 16 on two KV heads, eight experts of width 32.
DENSE: Final[Config] = {**TINY, "head_dim": 16}
EXPERTS: Final[Config] = {
    **TINY_EXPERTS,
    "head_dim": 16,
    "n_routed_experts": 8,
    "moe_num_experts": 8,
    "moe_k": 2,
    "moe_topk": 2,
}
QWEN3_MOE: Final[Config] = {**EXPERTS, "model_type": "qwen3_moe"}
#: Elements by hand: queries, keys, values and output; an expert; router; the norms of two heads.
EXPERT: Final = 3 * 64 * 32
DENSE_FEED_FORWARD: Final = 3 * 64 * 128
HEAD_NORMS: Final = 2 * 16


def of(model_type: str, base: Config = EXPERTS, **keys: object) -> Architecture:
    return parse({**base, "model_type": model_type, **keys})


def attention_dims(model: Architecture) -> list[object]:
    return [core for _, core in model.counted_cores if isinstance(core, GroupedQueryAttention)]


# --- rows of data --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model_type", "keys", "per_layer"),
    [
        # what a layer has beside those of a Qwen3-MoE, whose heads pass norms
        ("solar_open", {"n_shared_experts": 0}, 8 - HEAD_NORMS),
        ("solar_open", {}, EXPERT + 8 - HEAD_NORMS),
        ("solar_open", {"attention_bias": True}, EXPERT + 8 - HEAD_NORMS + 64 + 32 + 32),
        ("hy_v3", {"first_k_dense_replace": 0}, EXPERT + 8),
        ("hy_v3", {"mlp_layer_types": ["sparse"] * 2, "num_shared_experts": 2}, 2 * EXPERT + 8),
        ("hy_v3", {"first_k_dense_replace": 0, "qk_norm": False}, EXPERT + 8 - HEAD_NORMS),
        ("dots1", {"n_shared_experts": 2, "first_k_dense_replace": 0}, 2 * EXPERT + 8),
        ("ernie4_5_moe", {"moe_layer_start_index": 0}, 2 * EXPERT + 8 - HEAD_NORMS),
        (
            "ernie4_5_moe",
            {"moe_layer_start_index": 0, "moe_num_shared_experts": 0, "moe_layer_end_index": 1},
            8 - HEAD_NORMS,
        ),
        # a gate as wide as all heads, two more norms
        ("afmoe", {"num_dense_layers": 0}, 2 * EXPERT + 8 + 64 * 64 + 2 * 64),
        ("bailing_moe", {}, -HEAD_NORMS),
        ("bailing_moe", {"use_qk_norm": True, "num_shared_experts": 1}, EXPERT),
        (
            "bailing_moe_v2",
            {
                "use_qk_norm": True,
                "num_shared_experts": 1,
                "moe_shared_expert_intermediate_size": 16,
                "moe_router_enable_expert_bias": True,
            },
            EXPERT // 2 + 8,
        ),
        ("hunyuan_v1_moe", {}, EXPERT),
        ("hunyuan_v1_moe", {"num_shared_expert": [0, 0]}, 0),
    ],
)
def test_a_mixture_is_a_qwen3_moe_and_a_little_more(
    model_type: str, keys: Config, per_layer: int
) -> None:
    model, simple = of(model_type, **keys, tie_word_embeddings=False), parse(QWEN3_MOE)
    assert model.n_params - simple.n_params == 2 * per_layer
    assert set(attention_dims(model)) <= {
        GroupedQueryAttention(4, 2, 16, 16, window) for window in (None, 1024, 4096)
    }
    assert [core for _, core in model.counted_cores if isinstance(core, Experts)] == [
        Experts(8, 2, 64, 32)
    ]


@pytest.mark.parametrize("model_type", ["ernie4_5", "hunyuan_v1_dense"])
def test_a_dense_row_is_a_llama_or_a_qwen3(model_type: str) -> None:
    twin = parse({**DENSE, "model_type": {"ernie4_5": "llama"}.get(model_type, "qwen3")})
    model = of(model_type, DENSE, tie_word_embeddings=False)
    assert (model.layers, model.n_params) == (twin.layers, twin.n_params)


def test_a_phi_mixture_is_a_mixtral_whose_norms_have_biases() -> None:
    base = {**DENSE, "num_local_experts": 8, "num_experts_per_tok": 2}
    model, simple = of("phimoe", base), parse({**base, "model_type": "mixtral"})
    # two norms in each of two layers, and the last one
    assert model.n_params - simple.n_params == 5 * 64
    biased = of("phimoe", base, attention_bias=True, lm_head_bias=True, sliding_window=9)
    assert biased.n_params - model.n_params == 2 * (64 + 32 + 32 + 64) + 1000
    assert windows(biased) == {9: 2}


@pytest.mark.parametrize(
    ("model_type", "keys", "n_sparse"),
    [
        ("afmoe", {}, 5),
        ("afmoe", {"num_dense_layers": 2}, 4),
        ("dots1", {"n_shared_experts": 1, "first_k_dense_replace": 3}, 3),
        ("hy_v3", {}, 5),
        ("ernie4_5_moe", {}, 5),
        ("ernie4_5_moe", {"moe_layer_interval": 2}, 3),  # layers 1, 3 and 5
        ("ernie4_5_moe", {"moe_layer_start_index": 2, "moe_layer_end_index": 3}, 2),
        ("ernie4_5_moe", {"moe_layer_start_index": 6}, 0),
        ("bailing_moe", {"first_k_dense_replace": 1}, 5),
    ],
)
def test_first_layers_are_dense(model_type: str, keys: Config, n_sparse: int) -> None:
    model = of(model_type, num_hidden_layers=6, **keys)
    counts = {"moe": n_sparse, "mlp": 6 - n_sparse}
    kinds = model.layer_kinds
    assert {kind: kinds.get(kind, 0) for kind in counts} == counts


@pytest.mark.parametrize(
    ("model_type", "keys", "expected"),
    [
        ("afmoe", {}, {1024: 3, None: 1}),
        ("afmoe", {"global_attn_every_n_layers": 2, "sliding_window": 9}, {9: 2, None: 2}),
        ("afmoe", {"layer_types": ["full_attention"] * 4}, {None: 4}),
        ("dots1", {"n_shared_experts": 1}, {None: 4}),
        ("dots1", {"n_shared_experts": 1, "max_window_layers": 3}, {None: 3, 4096: 1}),
        ("phimoe", {}, {None: 4}),
    ],
)
def test_windows_are_where_the_class_has_them(
    model_type: str, keys: Config, expected: dict[int | None, int]
) -> None:
    model = of(model_type, num_hidden_layers=4, num_dense_layers=0, **keys)
    assert windows(model) == expected


@pytest.mark.parametrize(
    ("model_type", "head_dim"),
    [("afmoe", 128), ("ernie4_5", 128), ("hy_v3", 128), ("solar_open", 128), ("phimoe", 16)],
)
def test_a_missing_head_dim_is_the_class_s(model_type: str, head_dim: int) -> None:
    config = {key: value for key, value in EXPERTS.items() if key != "head_dim"}
    dims = attention_dims(parse({**config, "model_type": model_type}))
    assert {core.head_dim for core in dims if isinstance(core, GroupedQueryAttention)} == {head_dim}


def test_hunyuan_states_numbers_by_layer_or_once() -> None:
    once = of("hunyuan_v1_moe", moe_topk=2, num_shared_expert=1)
    listed = of("hunyuan_v1_moe", moe_topk=[2, 2, 9], num_shared_expert=[1, 1])
    assert (listed.layers, listed.n_params) == (once.layers, once.n_params)
    wide = of("hunyuan_v1_moe", moe_intermediate_size=None)
    assert wide.n_params - once.n_params == 2 * 9 * 3 * 64 * (128 - 32)
    named = {key: value for key, value in EXPERTS.items() if key != "head_dim"}
    assert of("hunyuan_v1_moe", named, attention_head_dim=16).layers == once.layers


def test_ernie_ties_its_head_where_nothing_is_said() -> None:
    assert of("ernie4_5", DENSE).tied_embeddings
    assert of("ernie4_5_moe").tied_embeddings
    assert not of("hy_v3").tied_embeddings


# --- latent attention ----------------------------------------------------------------------------

LATENT: Final[Config] = {**TINY_LATENT, "first_k_dense_replace": 4}


def test_minicpm3_is_a_dense_deepseek_with_a_tied_head() -> None:
    twin, model = parse(LATENT), of("minicpm3", LATENT)
    assert model.layers == twin.layers
    assert twin.n_params - model.n_params == 64 * 1000
    assert any("vLLM" in note for note in model.notes)
    # 64 / 4 heads where no key says how wide a value is
    share = of("minicpm3", {key: value for key, value in LATENT.items() if key != "v_head_dim"})
    assert share.layers == of("minicpm3", LATENT, v_head_dim=16).layers


LONGCAT: Final[Config] = {
    **TINY_LATENT,
    "model_type": "longcat_flash",
    "num_layers": 2,
    "ffn_hidden_size": 128,
    "expert_ffn_hidden_size": 32,
    "moe_topk": 3,
    "zero_expert_num": 4,
}


def test_a_longcat_layer_is_two_dense_ones_with_experts_beside_the_first() -> None:
    model, dense = parse(LONGCAT), parse(LATENT)
    first, second = model.layers
    assert (first.count, second.count) == (2, 2)
    assert first.blocks[0] == second.blocks[0] == dense.layers[0].blocks[0]
    assert first.blocks[2] == second.blocks[1] == dense.layers[0].blocks[1]
    experts = first.blocks[1]
    # of three of twelve two have weights; the router has a row and a bias for each of twelve
    assert experts.core == Experts(8, 2, 64, 32)
    assert experts.joins_next
    assert model.n_params - dense.n_params == 2 * (8 * EXPERT + 12 * 64 + 12)
    assert kv_bytes_per_token(model) == 4 * (16 + 4) * 2
    assert any("4 of 12" in note for note in model.notes)


def test_a_longcat_names_its_width_in_two_ways_the_usual_first() -> None:
    assert linears(parse({**LONGCAT, "intermediate_size": 96}), 1)["down_proj"].in_features == 96
    own = {key: value for key, value in LONGCAT.items() if key != "intermediate_size"}
    assert parse(own).layers == parse(LONGCAT).layers


def test_a_longcat_without_empty_experts_visits_what_it_picks() -> None:
    model = parse({**LONGCAT, "zero_expert_num": 0, "router_bias": True})
    (experts,) = [core for _, core in model.counted_cores if isinstance(core, Experts)]
    assert experts.top_k == 3
    assert left_out(model) == ()
    assert linears(model, 0)["router"].bias


HY4: Final[Config] = {**TINY_LATENT, "model_type": "hy_v4", "hc_mult": 2, "n_shared_experts": 1}


def test_hy4_is_a_glm5_with_gates_sinks_and_streams() -> None:
    model = parse(HY4)
    kinds = ["full", "full", "shared", "shared"]
    twin_keys = {"model_type": "glm_moe_dsa", "indexer_types": kinds, "first_k_dense_replace": 1}
    twin = parse({**TINY_LATENT, **twin_keys})
    assert [core for _, core in model.counted_cores] == [core for _, core in twin.counted_cores]
    gate, sinks = 64 * 4 * 6, 4
    # a sublayer: 2 x 2 rows over two streams, a base for each, two scales
    mixing = 2 * 2 * 2 * 64 + 4 + 2
    head = 2 * 2 * 64 + 2 + 1
    assert model.n_params - twin.n_params == 4 * (gate + sinks + 2 * mixing) + head
    assert model.layers[0].blocks[0].linears[-1].weight.name == "fp32"


def test_hy4_says_how_wide_its_gate_is_and_which_layers_search() -> None:
    model = parse(HY4)
    plain = parse({**HY4, "gated_mla": False, "learnable_sink": False})
    assert model.n_params - plain.n_params == 4 * (64 * 4 * 6 + 4)
    headwise = parse({**HY4, "gating_type": "headwise"})
    assert headwise.n_params - plain.n_params == 4 * (64 * 4 + 4)
    all_full = parse({**HY4, "indexer_types": ["full"] * 4, "mlp_layer_types": ["dense"] * 4})
    assert all_full.layer_kinds == {"sparse_attention": 4, "mlp": 4}


# --- recurrent layers ----------------------------------------------------------------------------

LING: Final[Config] = {
    **TINY_LATENT,
    "model_type": "bailing_hybrid",
    "head_dim": 16,
    "num_experts": 8,
    "first_k_dense_replace": 1,
    "layer_group_size": 2,
    "short_conv_kernel_size": 4,
}
LING_25: Final[Config] = {
    key: value for key, value in LING.items() if key != "short_conv_kernel_size"
}


def test_a_ling_without_linear_layers_is_a_deepseek_with_gates() -> None:
    twin = parse({**TINY_LATENT, "first_k_dense_replace": 1, "n_shared_experts": 1})
    model = parse({**LING, "layer_group_size": 1})
    assert model.n_params - twin.n_params == 4 * 64 * 4
    element = parse(
        {**LING, "layer_group_size": 1, "gated_attention_proj_granularity_type": "element_wise"}
    )
    assert element.n_params - twin.n_params == 4 * 64 * 4 * 6
    assert parse({**LING_25, "layer_group_size": 1}).n_params == twin.n_params - 3 * 8
    corrected = parse({**LING_25, "layer_group_size": 1, "moe_router_enable_expert_bias": True})
    assert corrected.layers == twin.layers


def test_ling_3_has_delta_attention_between_latent_layers() -> None:
    model = parse(LING)
    assert model.layer_kinds == {
        "delta_attention": 2,
        "latent_attention": 2,
        "mlp": 1,
        "moe": 3,
    }
    block = model.layers[0].blocks[0]
    assert block.core == KimiDeltaAttention(4, 16, conv_kernel=4, conv_columns=3)
    # q, k, v, decay, gate and output; write strength; filters; norm, A_log, dt_bias, gated norm
    assert block.n_params == 6 * 64 * 64 + 64 * 4 + 3 * 64 * 4 + 64 + 4 + 64 + 16


def test_ling_2_5_has_lightning_attention_instead() -> None:
    block = parse(LING_25).layers[0].blocks[0]
    assert block.core == LightningAttention(4, 16)
    # q, k, v, gate and output; the norm before it, and the group norm
    assert block.n_params == 5 * 64 * 64 + 64 + 64
    normed = parse({**LING_25, "use_qk_norm": True}).layers[0].blocks[0]
    assert normed.n_params - block.n_params == 2 * 16


def test_ling_lists_its_layers_in_three_ways() -> None:
    kinds = ["linear_attention", "full_attention"] * 2
    models = [
        parse({**LING, **keys})
        for keys in (
            {"layer_group_size": 2},
            {"layer_group_size": [1, 0, 1, 0]},
            {"layer_types": kinds},
            {"layer_types": kinds, "mlp_layer_types": ["dense", "sparse", "sparse", "sparse"]},
        )
    ]
    assert all(model.layers == models[0].layers for model in models)
    dense = parse({**LING, "mlp_layer_types": ["dense"] * 4, "layer_types": kinds})
    assert dense.layer_kinds["mlp"] == 4


LFM2: Final[Config] = {**TINY, "model_type": "lfm2", "block_auto_adjust_ff_dim": False}
#: Of a short convolution: two projections, the filter, the norm before it.
SHORT: Final = 4 * 64 * 64 + 64 * 3 + 64


def test_an_lfm2_that_attends_everywhere_is_a_tied_qwen3() -> None:
    twin = parse({**DENSE, "model_type": "qwen3", "tie_word_embeddings": True})
    model = parse(LFM2)
    assert (model.layers, model.n_params) == (twin.layers, twin.n_params)
    assert not parse({**LFM2, "tie_embedding": False}).tied_embeddings


@pytest.mark.parametrize(
    "keys", [{"full_attn_idxs": [1]}, {"layer_types": ["conv", "full_attention"]}]
)
def test_an_lfm2_has_short_convolutions_elsewhere(keys: Config) -> None:
    model = parse({**LFM2, **keys})
    block = model.layers[0].blocks[0]
    assert block.core == ShortConvolution(64, conv_kernel=3, conv_columns=2)
    assert block.n_params == SHORT
    assert model.layer_kinds == {"short_convolution": 1, "full_attention": 1, "mlp": 2}
    # two columns of 64 channels in bf16, of the one convolution
    assert state_bytes(model, "fp32") == 2 * 64 * 2
    biased = parse({**LFM2, **keys, "conv_bias": True}).layers[0].blocks[0]
    assert biased.n_params - block.n_params == 64 + 3 * 64 + 64


@pytest.mark.parametrize(
    ("keys", "width"),
    [
        # two thirds of 128, rounded up to a multiple
        ({}, 256),
        ({"block_multiple_of": 8}, 88),
        ({"block_multiple_of": 8, "block_ffn_dim_multiplier": 2.0}, 176),
        ({"block_ffn_dim_multiplier": None}, 85),
        ({"block_ff_dim": 1536}, 1024),
    ],
)
def test_an_lfm2_adjusts_the_width_of_its_feed_forward(keys: Config, width: int) -> None:
    model = parse({**TINY, "model_type": "lfm2", **keys})
    assert linears(model, 0)["down_proj"].in_features == width


def test_an_lfm2_with_experts_counts_them_behind_the_first_layers() -> None:
    base = {**TINY_EXPERTS, "model_type": "lfm2_moe", "num_hidden_layers": 4}
    kinds = ["conv", "conv", "full_attention", "conv"]
    model = parse({**base, "layer_types": kinds})
    assert model.layer_kinds == {"short_convolution": 3, "full_attention": 1, "mlp": 2, "moe": 2}
    attention = 2 * 64 * 64 + 2 * 64 * 32 + 64 + HEAD_NORMS
    experts = 8 * EXPERT + 8 * 64 + 8 + 64
    dense = DENSE_FEED_FORWARD + 64
    expected = 3 * SHORT + attention + 2 * dense + 2 * experts + 64 * 1000 + 64
    assert model.n_params == expected
    plain = parse({**base, "layer_types": kinds, "use_expert_bias": False})
    assert model.n_params - plain.n_params == 2 * 8


def test_an_lfm3_has_gates_windows_and_two_norms_a_sublayer() -> None:
    base = {**DENSE, "model_type": "lfm3", "num_hidden_layers": 5, "conv_L_cache": 3}
    model = parse(base)
    assert model.layer_kinds == {
        "short_convolution": 3,
        "full_attention": 1,
        "sliding_attention": 1,
        "mlp": 5,
    }
    assert windows(model) == {None: 1, 256: 1}
    plain = parse({**base, "use_sandwich_norm": False, "use_attention_gate": False})
    assert model.n_params - plain.n_params == 5 * 2 * 64 + 2 * 64 * 4
    kinds = ["conv", "conv", "full_attention", "conv", "full_attention"]
    twin = parse({**LFM2, "num_hidden_layers": 5, "layer_types": kinds, "model_type": "lfm2"})
    assert plain.n_params == twin.n_params
    assert parse({**base, "layer_types": kinds}).layer_kinds["full_attention"] == 2
    wide = {key: value for key, value in base.items() if key not in {"head_dim", "conv_L_cache"}}
    assert {core.head_dim for core in attention_dims(parse(wide))} == {128}  # type: ignore[attr-defined]


INKLING: Final[Config] = {
    **TINY_EXPERTS,
    "model_type": "inkling_text",
    "num_hidden_layers": 6,
    "head_dim": 16,
    "n_routed_experts": 8,
    "n_shared_experts": 2,
    "swa_num_attention_heads": 8,
    "swa_num_key_value_heads": 4,
    "swa_head_dim": 16,
}


def inkling_layer(n_heads: int, n_kv_heads: int, extent: int) -> int:
    """Count a layer with experts: projections, relative positions, filters, experts, norms."""
    attention = 64 * 16 * (2 * n_heads + 2 * n_kv_heads) + HEAD_NORMS
    relative = 64 * n_heads * 16 + 16 * extent
    filters = 4 * (2 * n_kv_heads * 16 + 2 * 64)
    experts = 10 * EXPERT + 10 * 64 + 8 + 1
    return attention + relative + filters + experts + 2 * 64


def test_an_inkling_is_counted_to_the_last_element() -> None:
    model = parse(INKLING)
    assert model.layer_kinds == {
        "short_convolution": 6,
        "sliding_attention": 5,
        "full_attention": 1,
        "moe": 6,
    }
    layers = 5 * inkling_layer(8, 4, 512) + inkling_layer(4, 2, 1024)
    assert model.n_params == layers + 2 * 64 * 1000 + 2 * 64
    # three columns of what is convolved, in bf16
    channels = 5 * (2 * 4 * 16 + 128) + (2 * 2 * 16 + 128)
    assert state_bytes(model, "fp32") == 3 * channels * 2


def test_an_inkling_as_published_is_the_one_that_transformers_saves() -> None:
    published = {
        **{key: value for key, value in INKLING.items() if key != "moe_intermediate_size"},
        "intermediate_size": 32,
        "dense_intermediate_size": 128,
        "dense_mlp_idx": 1,
        "local_layer_ids": [1, 3],
        "sconv_kernel_size": 4,
    }
    saved = {
        **INKLING,
        "mlp_layer_types": ["dense"] + ["sparse"] * 5,
        "layer_types": ["hybrid_sliding" if index in {1, 3} else "hybrid" for index in range(6)],
    }
    assert parse(published).layers == parse(saved).layers
    # a dense layer, its scale
    assert parse(saved).n_params - parse({**saved, "intermediate_size": 127}).n_params == 3 * 64
    dense = parse({**INKLING, "mlp_layer_types": ["dense"] * 6})
    assert dense.layers[0].blocks[2].n_params == DENSE_FEED_FORWARD + 64 + 1
    cut = parse({**INKLING, "unpadded_vocab_size": 900})
    assert parse(INKLING).n_params - cut.n_params == 100 * 64


QWEN4: Final[Config] = {
    **TINY_HYBRID,
    "model_type": "qwen4_exp_text",
    "head_dim": 16,
    "hc_count": 2,
    "hc_lowrank": 10,
    "indexer_n_heads": 3,
    "indexer_kv_heads": 1,
    "indexer_head_dim": 8,
    "indexer_budget": 12,
    "indexer_compress_ratio": 4,
}
#: Around a sublayer: down, up and back of two streams, a norm of both in the place of one.
MIXING: Final = 128 * 10 + 10 * 128 + 128 * 2 + 128 - 64


def test_a_qwen4_is_a_qwen3_next_over_streams_that_searches() -> None:
    model, twin = parse(QWEN4), parse({**QWEN4, "model_type": "qwen3_next"})
    assert model.layer_kinds == {"linear_attention": 3, "block_sparse_attention": 1, "moe": 4}
    index = 64 * (3 + 1) * 8 + 2 * 8
    # behind the last layer down, up and the norm of both streams
    last = 2 * 1280 + 128 - 64
    assert model.n_params - twin.n_params == 4 * 2 * MIXING + index + last
    (sparse,) = [core for _, core in model.counted_cores if isinstance(core, BlockSparseAttention)]
    # 12 tokens are three finished blocks, and there is the unfinished one
    assert sparse == BlockSparseAttention(4, 2, 16, 16, Indexer(3, 8, 4), block_len=4, key_tokens=4)
    # keys and values of two heads, and a quarter of an index key of 8
    assert kv_bytes_per_token(model) == (2 * 2 * 16 + 8 / 4) * 2


def test_a_qwen4_without_an_indexer_attends_to_all() -> None:
    plain = {key: value for key, value in QWEN4.items() if not key.startswith("indexer")}
    model = parse(plain)
    assert model.layer_kinds == {"linear_attention": 3, "full_attention": 1, "moe": 4}
    kinds = ["linear_attention", "indexed_attention", "qwen_sparse_attention", "full_attention"]
    assert parse({**plain, "layer_types": kinds}).layer_kinds["full_attention"] == 3


def test_a_qwen4_looks_up_n_grams_in_tables_of_primes() -> None:
    keys = {
        "ngram_size": 2,
        "heads_per_ngram": 2,
        "ngram_vocab_size_base": 20,
        "make_ngram_vocab_size_divisible_by": 8,
        "ple_conv_kernel_size": 3,
        "ple_embed_dim": 12,
    }
    model, plain = parse({**QWEN4, **keys, "ple_layer_ids": [3, 1]}), parse(QWEN4)
    # 23 + 29 rows padded to 56, 31 + 37 to 72, of width 6; multipliers, sizes and offsets
    tables = (56 + 72) * 6 + 2 * (2 + 2 + 2)
    assert model.lookup_params == tables
    # keys of both streams and values; three norms of both streams; three taps
    layer = 12 * 128 + 12 * 64 + 3 * 128 + 3 * 128
    assert model.n_params - plain.n_params == tables + 2 * layer
    assert model.layer_kinds["short_convolution"] == 2
    # two taps before the last, each two tokens apart, of both streams in bf16
    assert state_bytes(model, "fp32") - state_bytes(plain, "fp32") == 2 * 4 * 128 * 2


# --- refusals ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("config", "key", "value"),
    [
        ({**EXPERTS, "model_type": "ernie4_5_moe"}, "use_bias", True),
        ({**EXPERTS, "model_type": "hy_v3"}, "mlp_bias", True),
        ({**EXPERTS, "model_type": "hy_v3"}, "num_experts_per_tok", 9),
        ({**EXPERTS, "model_type": "dots1"}, "n_shared_experts", None),
        ({**EXPERTS, "model_type": "hunyuan_v1_moe"}, "moe_topk", [2, 3]),
        ({**EXPERTS, "model_type": "hunyuan_v1_moe"}, "moe_topk", [2]),
        ({**EXPERTS, "model_type": "hunyuan_v1_moe"}, "use_cla", True),
        ({**EXPERTS, "model_type": "hunyuan_v1_dense"}, "head_dim", None),
        ({**LATENT, "model_type": "minicpm3"}, "mlp_bias", True),
        (LONGCAT, "num_layers", None),
        (LONGCAT, "moe_topk", 13),
        (HY4, "enable_ihc", False),
        (HY4, "gating_type", "none"),
        (HY4, "indexer_types", ["shared"] * 4),
        (LING, "layer_group_size", 3),
        (LING, "layer_group_size", [1, 2, 0, 0]),
        (LING, "no_kda_lora", False),
        (LING, "use_bias", True),
        (LING, "gated_attention_proj_granularity_type", "row_wise"),
        ({**TINY_EXPERTS, "model_type": "lfm2_moe"}, "layer_types", None),
        (LFM2, "layer_types", ["conv", "mamba"]),
        (INKLING, "use_sconv", False),
        (QWEN4, "indexer_kv_heads", 2),
        (QWEN4, "indexer_budget", 13),
        (QWEN4, "layer_types", ["sliding_attention"] * 4),
        (QWEN4, "ple_layer_ids", [4]),
        (QWEN4, "ple_layer_ids", [9]),
        ({**QWEN4, "ple_layer_ids": [1]}, "ple_embed_dim", 63),
        ({**QWEN4, "ple_layer_ids": [1, 2, 3]}, "heads_per_ngram", 64),
        (QWEN4, "hc_count", 1),
        (INKLING, "layer_types", ["full_attention"] * 6),
    ],
)
def test_wrong_values_are_refused_in_one_line(config: Config, key: str, value: object) -> None:
    with pytest.raises(ConfigError) as caught:
        parse({**config, key: value})
    assert key in str(caught.value)
    assert "allowed: " in str(caught.value)
    assert "\n" not in str(caught.value)
