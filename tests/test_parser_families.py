"""Each family's matrices, cores and vectors, counted by hand from its published code."""

import pytest

from specroof.architecture import (
    ATTENTION_REPLICATED,
    FEED_FORWARD_REPLICATED,
    FP32,
    HEADS,
    TENSOR,
    Architecture,
    Block,
    CompressedAttention,
    Compressor,
    Experts,
    GatedDeltaNet,
    GroupedQueryAttention,
    Indexer,
    LatentAttention,
    Layer,
    Linear,
    by_kv_heads,
)
from tiny_configs import (
    TINY,
    TINY_COMPRESSED,
    TINY_EXPERTS,
    TINY_HYBRID,
    TINY_LATENT,
    Config,
    cores,
    linears,
    parse,
    windows,
)


def test_a_llama_is_described_to_the_last_element() -> None:
    kv_shard = by_kv_heads(2)
    attention = Block(
        "attention",
        (
            Linear("q_proj", 64, 64, shard=HEADS),
            Linear("k_proj", 64, 32, shard=kv_shard),
            Linear("v_proj", 64, 32, shard=kv_shard),
            Linear("o_proj", 64, 64, shard=HEADS),
        ),
        GroupedQueryAttention(n_heads=4, n_kv_heads=2, head_dim=16, value_dim=16),
        vector_params=64,
    )
    feed_forward = Block(
        "feed_forward",
        (
            Linear("gate_up_proj", 64, 256, shard=TENSOR),
            Linear("down_proj", 128, 64, shard=TENSOR),
        ),
        vector_params=64,
    )
    assert parse(TINY) == Architecture(
        name="config",
        family="llama",
        hidden_size=64,
        vocab_size=1000,
        layers=(Layer((attention, feed_forward), count=2),),
        head=Linear("lm_head", 64, 1000, shard=TENSOR, kind="head"),
        vector_params=64,
    )


@pytest.mark.parametrize(
    ("keys", "bias_params"),
    [
        ({"attention_bias": True}, 64 + 32 + 32 + 64),
        ({"mlp_bias": True}, 2 * 128 + 64),
        ({"model_type": "qwen2"}, 64 + 32 + 32),
        # a norm of one head's width for queries and one for keys
        ({"model_type": "qwen3", "head_dim": 16}, 16 + 16),
        ({"model_type": "qwen3", "head_dim": 16, "attention_bias": True}, 32 + 192),
    ],
)
def test_biases_and_norms_are_counted(keys: Config, bias_params: int) -> None:
    assert parse(TINY | keys).n_params == parse(TINY).n_params + 2 * bias_params


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ({}, {None: 2}),
        ({"sliding_window": 9}, {None: 2}),  # Qwen2.5 carries one that is switched off
        ({"use_sliding_window": True, "max_window_layers": 1}, {None: 1, 4096: 1}),
        ({"use_sliding_window": True, "sliding_window": 9, "max_window_layers": 0}, {9: 2}),
        ({"use_sliding_window": True, "sliding_window": 9}, {None: 2}),  # from layer 28 on
        ({"use_sliding_window": True, "sliding_window": None}, {None: 2}),
        (
            {
                "use_sliding_window": True,
                "sliding_window": 9,
                # the last entry is one too many, as of a draft layer
                "layer_types": ["full_attention", "sliding_attention", "sliding_attention"],
            },
            {None: 1, 9: 1},
        ),
        ({"layer_types": ["sliding_attention"] * 2, "sliding_window": 9}, {None: 2}),
        ({"model_type": "mixtral", "sliding_window": 9}, {9: 2}),
        ({"model_type": "mixtral", "sliding_window": None}, {None: 2}),
        ({"model_type": "qwen3_moe", "sliding_window": 9}, {None: 2}),
        ({"model_type": "qwen3_moe", "use_sliding_window": True}, {4096: 2}),
        ({"model_type": "gpt_oss"}, {128: 1, None: 1}),
        ({"model_type": "gpt_oss", "num_hidden_layers": 3}, {128: 2, None: 1}),  # sliding first
        ({"model_type": "gpt_oss", "sliding_window": 9}, {9: 1, None: 1}),
        ({"model_type": "gpt_oss", "layer_types": ["full_attention"] * 2}, {None: 2}),
        ({"model_type": "gpt_oss", "layer_types": ["sliding_attention"] * 2}, {128: 2}),
    ],
)
def test_a_window_counts_where_it_is_switched_on(
    keys: Config, expected: dict[int | None, int]
) -> None:
    assert windows(parse(TINY_EXPERTS | {"model_type": "qwen3"} | keys)) == expected


@pytest.mark.parametrize(
    ("model_type", "head_dim"),
    [("llama", 16), ("qwen2", 16), ("qwen3", 128), ("mixtral", 16), ("gpt_oss", 64)],
)
def test_a_missing_head_dim_is_the_family_s(model_type: str, head_dim: int) -> None:
    without = parse(TINY_EXPERTS | {"model_type": model_type})
    assert cores(without)[0].head_dim == head_dim
    assert cores(parse(TINY_EXPERTS | {"model_type": model_type, "head_dim": 24}))[0].head_dim == 24


def test_llama_has_as_many_kv_heads_as_query_heads_where_nothing_is_said() -> None:
    assert cores(parse(TINY | {"num_key_value_heads": None}))[0].n_kv_heads == 4


def test_mixtral_experts_are_as_wide_as_intermediate_size() -> None:
    block = parse(TINY_EXPERTS | {"model_type": "mixtral"}).layers[0].blocks[1]
    assert block.core == Experts(n_experts=8, top_k=2, in_features=64, hidden_features=128)
    assert [linear.name for linear in block.linears] == ["router"]
    assert block.linears[0] == Linear("router", 64, 8, shard=FEED_FORWARD_REPLICATED, kind="router")


@pytest.mark.parametrize(
    ("keys", "n_sparse"),
    [
        ({}, 4),
        ({"mlp_only_layers": [0, 2, 9]}, 2),
        ({"mlp_only_layers": None}, 4),
        ({"decoder_sparse_step": 3}, 1),  # layers 2, 5, 8 ...
        ({"decoder_sparse_step": 5}, 0),
    ],
)
@pytest.mark.parametrize("model_type", ["qwen3_moe", "qwen3_next", "qwen3_5_moe"])
def test_dense_layers_among_experts_are_counted(
    keys: Config, n_sparse: int, model_type: str
) -> None:
    model = parse(TINY_HYBRID | {"model_type": model_type} | keys)
    counts = {True: 0, False: 0}
    for layer in model.layers:
        counts[isinstance(layer.blocks[1].core, Experts)] += layer.count
    assert counts == {True: n_sparse, False: 4 - n_sparse}


def test_gpt_oss_counts_every_bias() -> None:
    model = parse(TINY_EXPERTS | {"model_type": "gpt_oss", "head_dim": 16})
    attention, feed_forward = model.layers[0].blocks
    assert all(linear.bias for linear in (*attention.linears, *feed_forward.linears))
    assert attention.vector_params == 64 + 4  # a norm, a sink per head
    assert isinstance(feed_forward.core, Experts)
    assert feed_forward.core.bias_params == 2 * 128 + 64
    assert parse(TINY_EXPERTS | {"model_type": "gpt_oss", "attention_bias": False}).n_params < (
        parse(TINY_EXPERTS | {"model_type": "gpt_oss"}).n_params
    )


def test_gpt_oss_spells_its_top_k_in_two_ways() -> None:
    config = TINY_EXPERTS | {"model_type": "gpt_oss", "experts_per_token": 2}
    spelled = {key: value for key, value in config.items() if key != "num_experts_per_tok"}
    assert parse(spelled) == parse(config)


def test_a_gated_delta_net_has_its_projections_and_state() -> None:
    model = parse(TINY_HYBRID | {"model_type": "qwen3_5"})
    assert [layer.count for layer in model.layers] == [3, 1]
    assert cores(model)[0] == GatedDeltaNet(2, 4, 8, 16, conv_kernel=4, conv_columns=3)
    found = linears(model)
    # q and k of 2 x 8, v and z of 4 x 16; b and a per value head
    assert found["in_proj_qkvz"].out_features == 16 + 16 + 64 + 64
    assert found["in_proj_ba"].out_features == 2 * 4
    assert (found["out_proj"].in_features, found["out_proj"].out_features) == (64, 64)
    # norm, A_log and dt_bias, gated norm
    assert model.layers[0].blocks[0].vector_params == 64 + 4 + 4 + 16
    assert model.state_dtype == "fp32"


def test_full_attention_between_delta_nets_is_gated() -> None:
    gated = parse(TINY_HYBRID | {"model_type": "qwen3_5", "head_dim": 16})
    plain = parse(
        TINY_HYBRID | {"model_type": "qwen3_5", "head_dim": 16, "attn_output_gate": False}
    )
    assert linears(gated, 1)["q_proj"].out_features == 2 * 64
    assert linears(plain, 1)["q_proj"].out_features == 64
    assert linears(gated, 1)["o_proj"].in_features == 64
    assert cores(parse(TINY_HYBRID | {"model_type": "qwen3_5"}))[1].head_dim == 256


@pytest.mark.parametrize(
    ("keys", "n_full"),
    [
        ({"full_attention_interval": 2}, 2),
        ({"full_attention_interval": 1}, 4),
        ({"layer_types": ["full_attention", *["linear_attention"] * 3]}, 1),
        ({"layer_types": ["linear_attention"] * 4 + ["full_attention"]}, 0),
    ],
)
def test_hybrid_layers_follow_the_list_or_the_stride(keys: Config, n_full: int) -> None:
    model = parse(TINY_HYBRID | {"model_type": "qwen3_5"} | keys)
    assert sum(windows(model).values()) == n_full


def test_the_shared_expert_of_qwen_has_a_gate() -> None:
    found = linears(parse(TINY_HYBRID | {"model_type": "qwen3_5_moe"}))
    assert found["shared_gate_up_proj"].out_features == 2 * 48
    assert found["shared_down_proj"].in_features == 48
    assert found["shared_expert_gate"] == Linear(
        "shared_expert_gate", 64, 1, shard=FEED_FORWARD_REPLICATED, kind="router"
    )


def test_latent_attention_caches_one_latent_for_all_heads() -> None:
    model = parse(TINY_LATENT)
    assert cores(model) == [LatentAttention(4, latent_dim=16, rope_dim=4, head_dims=(12, 6))] * 2
    found = linears(model)
    shapes = {name: (found[name].out_features, found[name].in_features) for name in found}
    assert shapes == {
        "q_a_proj": (24, 64),
        "q_b_proj": (4 * 12, 24),
        "kv_a_proj_with_mqa": (20, 64),
        "kv_b_proj": (4 * 14, 16),
        "o_proj": (64, 4 * 6),
        "gate_up_proj": (256, 64),
        "down_proj": (64, 128),
    }
    assert found["q_a_proj"].shard == found["kv_a_proj_with_mqa"].shard == ATTENTION_REPLICATED
    assert found["q_b_proj"].shard == found["kv_b_proj"].shard == found["o_proj"].shard == HEADS
    assert model.layers[0].blocks[0].vector_params == 64 + 24 + 16


def test_queries_without_compression_are_projected_at_once() -> None:
    found = linears(parse(TINY_LATENT | {"q_lora_rank": None}))
    assert found["q_proj"].matrix_params == 64 * 4 * 12
    assert "q_a_proj" not in found


@pytest.mark.parametrize(
    ("keys", "counts"),
    [
        ({}, [3, 1]),  # configuration_deepseek_v3.py: first_k_dense_replace 3
        ({"first_k_dense_replace": 0}, [4]),
        ({"first_k_dense_replace": 9}, [4]),
        ({"first_k_dense_replace": 1, "moe_layer_freq": 2}, [3, 1]),  # experts in layer 2 only
    ],
)
def test_deepseek_begins_with_dense_layers(keys: Config, counts: list[int]) -> None:
    assert [layer.count for layer in parse(TINY_LATENT | keys).layers] == counts


def test_deepseek_experts_share_one_that_all_tokens_visit() -> None:
    model = parse(TINY_LATENT | {"n_shared_experts": 2, "attention_bias": True})
    block = model.layers[1].blocks[1]
    assert linears(model, 1)["shared_down_proj"].in_features == 2 * 32
    assert block.vector_params == 64 + 8  # norm, correction bias
    assert [linear.name for linear in model.layers[1].blocks[0].linears if linear.bias] == [
        "q_a_proj",
        "kv_a_proj_with_mqa",
        "o_proj",
    ]
    assert "shared_down_proj" not in linears(parse(TINY_LATENT | {"n_shared_experts": 0}), 1)


def test_deepseek_v32_adds_an_indexer_to_every_layer() -> None:
    model = parse(TINY_LATENT | {"model_type": "deepseek_v32"})
    indexer = Indexer(n_heads=3, head_dim=5, top_k=7)
    assert cores(model) == [LatentAttention(4, 16, 4, indexer=indexer, head_dims=(12, 6))] * 2
    found = linears(model)
    assert found["indexer_wq_b"].matrix_params == 24 * 15
    assert found["indexer_wk"].matrix_params == 64 * 5
    assert found["indexer_weights_proj"].matrix_params == 64 * 3
    extra = 24 * 15 + 64 * 5 + 64 * 3 + 2 * 5
    assert model.n_params == parse(TINY_LATENT).n_params + 4 * extra


def test_deepseek_v4_layers_follow_their_compression() -> None:
    model = parse(TINY_COMPRESSED | {"num_hash_layers": 0})
    indexer = Indexer(n_heads=3, head_dim=5, top_k=7)
    assert [layer.count for layer in model.layers] == [1, 2, 1]
    assert cores(model) == [
        CompressedAttention(4, 32, 4, window=128, ratio=0),
        CompressedAttention(
            4,
            32,
            4,
            window=128,
            ratio=4,
            indexer=indexer,
            # 8 tokens wait; each leaves key and gate for this entry and the overlapping next
            compressors=(Compressor(8, 4 * 32), Compressor(8, 4 * 5)),
        ),
        CompressedAttention(
            4, 32, 4, window=128, ratio=128, compressors=(Compressor(128, 2 * 32),)
        ),
    ]


def test_deepseek_v4_matrices_are_those_of_its_checkpoint() -> None:
    model = parse(TINY_COMPRESSED)
    sparse = linears(model, 1)
    assert sparse["wo_a"].matrix_params == 4 * 32 * 10  # each group of heads to its own rank
    assert sparse["wo_b"].in_features == 2 * 10
    assert sparse["compressor_wkv_wgate"].out_features == 2 * 2 * 32
    assert sparse["indexer_compressor_wkv_wgate"].out_features == 2 * 2 * 5
    dense = linears(model, 2)
    assert dense["compressor_wkv_wgate"].out_features == 2 * 32
    assert dense["compressor_wkv_wgate"].kind == "compressor"
    assert "indexer_wq_b" not in dense
    assert dense["hc_attn_fn"] == Linear(
        "hc_attn_fn", 4 * 64, 24, FP32, ATTENTION_REPLICATED, "residual"
    )
    assert dense["hc_ffn_fn"].shard == FEED_FORWARD_REPLICATED


def test_deepseek_v4_counts_what_is_no_matrix() -> None:
    model = parse(TINY_COMPRESSED | {"num_hash_layers": 1})
    plain, sparse, dense = (layer.blocks[0].vector_params for layer in model.layers)
    assert plain == 64 + 24 + 32 + 4 + 27  # norms, sinks, base and scales of the mixing
    assert sparse - plain == (4 * 2 * 32 + 32) + (4 * 2 * 5 + 5)  # position biases and norms
    assert dense - plain == 128 * 32 + 32
    # layers that hash the token id have no correction bias
    assert [layer.blocks[1].vector_params for layer in model.layers] == [91, 99, 99]
    # final norm; the head's mixing has 4 rows, 4 bases and one scale
    assert model.vector_params == 64 + 4 * 256 + 4 + 1
