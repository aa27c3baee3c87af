"""Configs become the architectures that they describe: sizes, kinds, formats and notes."""

import json
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

from specroof.architecture import (
    ATTENTION_REPLICATED,
    FEED_FORWARD_REPLICATED,
    FP32,
    HEADS,
    TENSOR,
    WEIGHT_FORMATS,
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
    WeightFormat,
    by_kv_heads,
)
from specroof.errors import OptionError
from specroof.parsers import PARSERS, parse_config

Config = dict[str, Any]

TINY: Config = {
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 1000,
}
TINY_EXPERTS: Config = {
    **TINY,
    "num_experts": 8,
    "num_local_experts": 8,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 32,
    "shared_expert_intermediate_size": 48,
}
TINY_HYBRID: Config = {
    **TINY_EXPERTS,
    "num_hidden_layers": 4,
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 4,
    "linear_key_head_dim": 8,
    "linear_value_head_dim": 16,
    "linear_conv_kernel_dim": 4,
}
TINY_LATENT: Config = {
    **TINY,
    "model_type": "deepseek_v3",
    "num_hidden_layers": 4,
    "q_lora_rank": 24,
    "kv_lora_rank": 16,
    "qk_nope_head_dim": 8,
    "qk_rope_head_dim": 4,
    "v_head_dim": 6,
    "n_routed_experts": 8,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 32,
    "index_n_heads": 3,
    "index_head_dim": 5,
    "index_topk": 7,
}
TINY_COMPRESSED: Config = {
    **TINY_LATENT,
    "model_type": "deepseek_v4",
    "num_key_value_heads": 1,
    "head_dim": 32,
    "o_groups": 2,
    "o_lora_rank": 10,
    "sliding_window": 128,
    "compress_ratios": [0, 4, 128, 4, 0],
}


def parse(config: Config, sidecar: Config | None = None, **options: str) -> Architecture:
    """Return what the text of a config becomes."""
    quantization_text = None if sidecar is None else json.dumps(sidecar)
    return parse_config(
        json.dumps(config),
        source=options.pop("source", "config.json"),
        quantization_text=quantization_text,
        **options,
    )


def linears(model: Architecture, layer: int = 0) -> dict[str, Linear]:
    """Return the matrices of one of the distinct layers by name."""
    blocks = model.layers[layer].blocks
    return {linear.name: linear for linear in chain(*(block.linears for block in blocks))}


def cores(model: Architecture) -> list[Any]:
    """Return the core of each distinct layer's mixer."""
    return [layer.blocks[0].core for layer in model.layers]


def windows(model: Architecture) -> dict[int | None, int]:
    """Return how many layers have each window."""
    return {
        layer.blocks[0].core.window: layer.count
        for layer in model.layers
        if isinstance(layer.blocks[0].core, GroupedQueryAttention)
    }


# --- real files --------------------------------------------------------------------------------

RENAMED = {
    "meta-llama--Llama-3.1-8B": "meta-llama--Meta-Llama-3.1-8B",
    "meta-llama--Llama-3.1-70B": "meta-llama--Meta-Llama-3.1-70B",
}


def anonymous(model: Architecture) -> Architecture:
    """Return a model without what depends on where its config came from."""
    return replace(model, name="", notes=(), family=model.family.removesuffix("_text"))


def read(file: Path) -> Architecture:
    """Return a config file with the sidecar beside it, if there is one."""
    sidecar = file.with_suffix(".hf_quant_config.json")
    return parse_config(
        file.read_text(encoding="utf-8"),
        source=file.name,
        quantization_text=sidecar.read_text(encoding="utf-8") if sidecar.exists() else None,
    )


def test_bundled_configs_say_what_the_real_ones_say(
    model_configs_folder: Path, real_configs: Path
) -> None:
    for file in sorted(model_configs_folder.glob("*.json")):
        real = real_configs / f"{RENAMED.get(file.stem, file.stem)}.json"
        assert anonymous(read(file)) == anonymous(read(real)), file.name


def test_real_configs_of_the_known_families_are_read(real_configs: Path) -> None:
    models = {}
    for file in sorted(real_configs.glob("*.json")):
        config = json.loads(file.read_text(encoding="utf-8"))
        model_type = config.get("text_config", config).get("model_type")
        if not file.name.endswith(".hf_quant_config.json") and model_type in PARSERS:
            models[file.stem] = read(file)
    assert len(models) >= 50
    assert all(0 < model.n_active_params <= model.n_params for model in models.values())
    # a list of ignored modules, a sidecar only, and a list of modules with their own algorithms
    assert "fp8-block" in formats(models["Qwen--Qwen3.5-122B-A10B-FP8"])
    assert "nvfp4" in formats(models["nvidia--DeepSeek-V3.2-NVFP4"])
    assert formats(models["nvidia--Qwen3.6-27B-NVFP4"]) == {"bf16", "fp8", "nvfp4"}
    assert models["nvidia--Llama-3.1-70B-Instruct-FP8"].kv_dtype == "fp8"


def formats(model: Architecture) -> set[str]:
    """Return the names of all formats inside layers."""
    blocks = [block for layer in model.layers for block in layer.blocks]
    cored = {block.core.weight.name for block in blocks if isinstance(block.core, Experts)}
    return cored | {linear.weight.name for block in blocks for linear in block.linears}


def test_awq_bytes_are_those_of_the_published_checkpoint(real_configs: Path) -> None:
    # 18.00 GiB of safetensors: https://huggingface.co/Qwen/Qwen3-32B-AWQ
    model = read(real_configs / "Qwen--Qwen3-32B-AWQ.json")
    assert model.weight_bytes / 2**30 == pytest.approx(18.00, rel=1e-3)


def test_bundled_configs_are_small_and_say_where_they_are_from(model_configs_folder: Path) -> None:
    for file in model_configs_folder.glob("*.json"):
        text = file.read_text(encoding="utf-8")
        assert len(text) < 2000, file.name
        assert json.loads(text)["_source"].startswith("https://"), file.name


# --- families ----------------------------------------------------------------------------------


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
    plain = parse(TINY_HYBRID | {"model_type": "qwen3_5", "head_dim": 16, "attn_output_gate": False})
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
    assert cores(model) == [LatentAttention(n_heads=4, latent_dim=16, rope_dim=4)] * 2
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
    assert cores(model) == [LatentAttention(4, 16, 4, indexer=indexer)] * 2
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


# --- formats -----------------------------------------------------------------------------------

FP8_BLOCKS: Config = {"quant_method": "fp8", "weight_block_size": [128, 128]}


def compressed(weights: Config, activations: Config | None = None) -> Config:
    """Return a compressed-tensors config of one group."""
    group = {"targets": ["Linear"], "weights": weights, "input_activations": activations}
    return {"quant_method": "compressed-tensors", "config_groups": {"group_0": group}}


@pytest.mark.parametrize(
    ("section", "expected"),
    [
        ({"quant_method": "fp8"}, WEIGHT_FORMATS["fp8"]),
        ({"quant_method": "fp8", "weight_block_size": None}, WEIGHT_FORMATS["fp8"]),
        (FP8_BLOCKS, WEIGHT_FORMATS["fp8-block"]),
        (
            {"quant_method": "fp8", "weight_block_size": [64, 32]},
            WeightFormat("fp8-block", 1 + 4 / 2048, "fp8"),
        ),
        # scales of 2 bytes and zeros of 4 bits per 128 weights
        (
            {"quant_method": "awq", "bits": 4, "group_size": 128, "zero_point": True},
            WeightFormat("int4", 0.5 + 2.5 / 128, "bf16"),
        ),
        (
            {"quant_method": "awq", "w_bit": 4, "q_group_size": 64, "zero_point": False},
            WeightFormat("int4", 0.5 + 2 / 64, "bf16"),
        ),
        (
            {"quant_method": "gptq", "bits": 8, "group_size": 32},
            WeightFormat("int8", 1 + 3 / 32, "bf16"),
        ),
        (
            {"quant_method": "gptq", "bits": 4, "group_size": -1},
            WeightFormat("int4", 0.5, "bf16"),
        ),
        (
            compressed({"type": "int", "num_bits": 4, "group_size": 128}),
            WEIGHT_FORMATS["int4"],
        ),
        (
            compressed({"type": "float", "num_bits": 8}, {"type": "float", "num_bits": 8}),
            WEIGHT_FORMATS["fp8"],
        ),
        (
            compressed(
                {"type": "float", "num_bits": 8, "block_structure": [128, 128]},
                {"type": "float", "num_bits": 8},
            ),
            WEIGHT_FORMATS["fp8-block"],
        ),
        (
            compressed({"type": "int", "num_bits": 8}, {"type": "int", "num_bits": 8}),
            WEIGHT_FORMATS["int8"],
        ),
        (
            compressed(
                {"type": "int", "num_bits": 4, "group_size": 128}, {"type": "float", "num_bits": 8}
            ),
            WeightFormat("int4", 0.5 + 2 / 128, "fp8"),
        ),
        (
            compressed(
                {"type": "float", "num_bits": 4, "group_size": 16}, {"type": "float", "num_bits": 4}
            ),
            WEIGHT_FORMATS["nvfp4"],
        ),
        (
            compressed({"type": "float", "num_bits": 4, "group_size": 32}),
            WeightFormat("mxfp4", 0.5 + 1 / 32, "bf16"),
        ),
        ({"quant_method": "modelopt", "quant_algo": "FP8"}, WEIGHT_FORMATS["fp8"]),
        ({"quant_algo": "FP8", "producer": {"name": "modelopt"}}, WEIGHT_FORMATS["fp8"]),
        ({"quant_algo": "NVFP4", "group_size": 16}, WEIGHT_FORMATS["nvfp4"]),
        ({"quant_algo": "W4A16_NVFP4"}, WeightFormat("nvfp4", 0.5 + 1 / 16, "bf16")),
        ({"quant_algo": "MXFP8"}, WEIGHT_FORMATS["mxfp8"]),
        ({"quant_algo": None}, WEIGHT_FORMATS["bf16"]),
    ],
    ids=str,
)
def test_a_form_of_quantisation_has_its_bytes_and_arithmetic(
    section: Config, expected: WeightFormat
) -> None:
    model = parse(TINY | {"quantization_config": section})
    found = {linear.weight for linear in linears(model).values()}
    assert {form.name for form in found} == {expected.name}
    assert {form.compute_dtype for form in found} == {expected.compute_dtype}
    assert [form.element_bytes for form in found] == pytest.approx([expected.element_bytes])
    assert model.head.weight == WEIGHT_FORMATS["bf16"]


def test_quantised_bytes_are_the_matrices_at_the_stated_width() -> None:
    # one layer: q and o 64 x 64, k and v 64 x 32, gate and up 64 x 256, down 128 x 64
    matrices = 2 * (2 * 4096 + 2 * 2048 + 16384 + 8192)
    saved = parse(TINY).weight_bytes - parse(TINY | {"quantization_config": FP8_BLOCKS}).weight_bytes
    assert saved == pytest.approx(matrices * (2 - 1 - 4 / 16384))


@pytest.mark.parametrize(
    ("entry", "plain"),
    [
        ("model.layers.1.self_attn.q_proj", [set(), {"q_proj"}]),
        ("model.language_model.layers.1.self_attn.q_proj", [set(), {"q_proj"}]),
        ("layers.1.self_attn", [set(), {"q_proj", "k_proj", "v_proj", "o_proj"}]),
        ("self_attn.q_proj", [{"q_proj"}, {"q_proj"}]),
        ("q_proj", [{"q_proj"}, {"q_proj"}]),
        ("model.layers.*.mlp.down_proj", [{"down_proj"}, {"down_proj"}]),
        ("*.mlp.*", [{"gate_up_proj", "down_proj"}, {"gate_up_proj", "down_proj"}]),
        ("model.layers.1.mlp*", [set(), {"gate_up_proj", "down_proj"}]),
        ("mlp.gate_up_proj", [{"gate_up_proj"}, {"gate_up_proj"}]),
        ("re:.*layers\\.1\\..*down.*", [set(), {"down_proj"}]),
        ("re:.*(q|k)_proj$", [{"q_proj", "k_proj"}, {"q_proj", "k_proj"}]),
        ("re:model\\.layers\\.0\\.mlp\\.down_proj", [{"down_proj"}, set()]),
        # what names nothing inside the language model
        ("lm_head", [set(), set()]),
        ("mtp.layers.1*", [set(), set()]),
        ("mtp.layers.1.self_attn.q_proj", [set(), set()]),
        ("model.visual.blocks.1.attn.proj", [set(), set()]),
        ("proj", [set(), set()]),
        ("layers.99999999999.mlp", [set(), set()]),
    ],
)
def test_an_ignored_module_stays_plain(entry: str, plain: list[set[str]]) -> None:
    section = FP8_BLOCKS | {"modules_to_not_convert": [entry]}
    # A layer alone, then both: were the two merged wrongly, their counts would tell.
    model = parse(TINY | {"quantization_config": section})
    layers = [index for index, layer in enumerate(model.layers) for _ in range(layer.count)]
    assert [
        {name for name, linear in linears(model, layer).items() if linear.weight.name == "bf16"}
        for layer in layers
    ] == plain


def test_a_glob_by_digits_covers_whole_layers() -> None:
    section = FP8_BLOCKS | {"modules_to_not_convert": ["model.layers.1*"]}
    model = parse(TINY | {"num_hidden_layers": 12, "quantization_config": section})
    assert [layer.count for layer in model.layers] == [9, 3]  # 1, 10 and 11
    assert linears(model, 1)["q_proj"].weight.name == "bf16"


def test_mxfp4_is_for_experts_only() -> None:
    section = {"quant_method": "mxfp4", "modules_to_not_convert": ["model.layers.*.self_attn"]}
    model = parse(TINY_EXPERTS | {"model_type": "gpt_oss", "quantization_config": section})
    assert {linear.weight.name for linear in linears(model).values()} == {"bf16"}
    core = model.layers[0].blocks[1].core
    assert isinstance(core, Experts)
    assert core.weight == WEIGHT_FORMATS["mxfp4"]


def test_routers_and_index_weights_are_never_quantised() -> None:
    model = parse(TINY_LATENT | {"model_type": "deepseek_v32", "quantization_config": FP8_BLOCKS})
    found = linears(model, 1)
    plain = {name for name, linear in found.items() if linear.weight.name == "bf16"}
    assert plain == {"router", "indexer_weights_proj"}


def test_modules_with_their_own_algorithms_have_them() -> None:
    section = {
        "quant_method": "modelopt",
        "quant_algo": "MIXED_PRECISION",
        "quantized_layers": {
            "model.layers.0.mlp.gate_proj": {"quant_algo": "NVFP4", "group_size": 16},
            "model.layers.0.self_attn.q_proj": {"quant_algo": "FP8"},
            "lm_head": {"quant_algo": "W4A16_NVFP4", "group_size": 16},
        },
    }
    model = parse(TINY | {"quantization_config": section})
    found = {name: linear.weight.name for name, linear in linears(model).items()}
    assert found["gate_up_proj"] == "nvfp4"
    assert found["q_proj"] == "fp8"
    assert {found["k_proj"], found["down_proj"]} == {"bf16"}
    assert model.head.weight == WeightFormat("nvfp4", 0.5625, "bf16")
    assert {linear.weight.name for linear in linears(model, 1).values()} == {"bf16"}


def test_compressed_groups_can_name_their_modules() -> None:
    section = {
        "quant_method": "compressed-tensors",
        "ignore": ["re:.*layers.0.*"],
        "config_groups": {
            "a": {
                "targets": ["re:.*down_proj"],
                "weights": {"type": "float", "num_bits": 8},
                "input_activations": {"type": "float", "num_bits": 8},
            },
            "b": {"targets": ["Linear"], "weights": {"type": "int", "num_bits": 4}},
            "c": {"targets": ["Linear"], "weights": None},
        },
    }
    model = parse(TINY | {"quantization_config": section})
    assert {linear.weight.name for linear in linears(model, 0).values()} == {"bf16"}
    found = {name: linear.weight.name for name, linear in linears(model, 1).items()}
    assert found["down_proj"] == "fp8"
    assert found["q_proj"] == "int4"


def test_gptq_can_include_the_head() -> None:
    section = {"quant_method": "gptq", "bits": 4, "group_size": 128, "lm_head": True}
    assert parse(TINY | {"quantization_config": section}).head.weight.name == "int4"


@pytest.mark.parametrize(
    ("keys", "experts", "others"),
    [
        # one byte of scale per block, unlike the float32 scales of DeepSeek-V3
        ({"quantization_config": FP8_BLOCKS, "expert_dtype": "fp4"}, "mxfp4", 1 + 1 / 16384),
        ({"quantization_config": FP8_BLOCKS}, "mxfp4", 1 + 1 / 16384),
        ({"quantization_config": FP8_BLOCKS, "expert_dtype": "fp8"}, "fp8-block", 1 + 1 / 16384),
        ({"quantization_config": FP8_BLOCKS | {"expert_dtype": "fp8"}}, "fp8-block", 1 + 1 / 16384),
        ({}, "bf16", 2.0),
        (
            {
                "expert_dtype": "fp4",
                "quantization_config": FP8_BLOCKS
                | {"quantized_layers": {"layers.1.ffn.experts": {"quant_algo": "NVFP4"}}},
            },
            "nvfp4",
            1 + 1 / 16384,
        ),
    ],
)
def test_deepseek_v4_experts_are_narrower_than_the_config_says(
    keys: Config, experts: str, others: float
) -> None:
    model = parse(TINY_COMPRESSED | keys)
    sparse = model.layers[1].blocks
    assert isinstance(sparse[1].core, Experts)
    assert sparse[1].core.weight.name == experts
    found = linears(model, 1)
    wide = {"wq_a", "wq_b", "wkv", "wo_a", "wo_b", "indexer_wq_b", "shared_down_proj"}
    assert {found[name].weight.element_bytes for name in wide} == {others}
    plain = {"router", "indexer_weights_proj", "compressor_wkv_wgate"}
    assert {found[name].weight.name for name in plain} == {"bf16"}
    assert model.head.weight.name == "bf16"


# --- dtypes, nesting, sidecars, names ----------------------------------------------------------


@pytest.mark.parametrize(
    ("keys", "activation", "weight"),
    [
        ({}, "bf16", "bf16"),  # gpt-oss has no such key
        ({"torch_dtype": "float16"}, "fp16", "fp16"),
        ({"dtype": "float32"}, "fp32", "fp32"),
        ({"dtype": "torch.bfloat16", "torch_dtype": "float16"}, "bf16", "bf16"),
    ],
)
def test_activations_have_the_stated_dtype(keys: Config, activation: str, weight: str) -> None:
    model = parse(TINY | keys)
    assert (model.activation_dtype, model.kv_dtype) == (activation, activation)
    assert linears(model)["q_proj"].weight.name == model.head.weight.name == weight


@pytest.mark.parametrize(
    ("section", "kv_dtype"),
    [
        ({"kv_cache_scheme": "FP8"}, "fp8"),
        ({"kv_cache_scheme": {"num_bits": 8, "type": "float"}}, "fp8"),
        ({"kv_cache_scheme": {"num_bits": 8, "type": "int"}}, "int8"),
        ({"kv_cache_quant_algo": "NVFP4"}, "fp4"),
        ({"kv_cache_quant_algo": None}, "bf16"),
    ],
)
def test_a_kv_scheme_narrows_the_cache(section: Config, kv_dtype: str) -> None:
    stated = section | {"quant_method": "modelopt", "quant_algo": "FP8"}
    assert parse(TINY | {"quantization_config": stated}).kv_dtype == kv_dtype


def test_the_sidecar_counts_where_the_config_says_nothing() -> None:
    sidecar = {
        "producer": {"name": "modelopt"},
        "quantization": {
            "quant_algo": "NVFP4",
            "kv_cache_quant_algo": "FP8",
            "group_size": 16,
            "exclude_modules": ["lm_head", "model.layers.0.self_attn*"],
        },
    }
    model = parse(TINY, sidecar)
    assert linears(model, 0)["q_proj"].weight.name == "bf16"
    assert linears(model, 0)["down_proj"].weight.name == "nvfp4"
    assert linears(model, 1)["q_proj"].weight.name == "nvfp4"
    assert model.kv_dtype == "fp8"
    bare = parse(TINY, {"quant_algo": "FP8"})  # without the outer object
    assert linears(bare)["q_proj"].weight.name == "fp8"


def test_the_config_counts_before_the_sidecar() -> None:
    sidecar = {"quantization": {"quant_algo": "NVFP4", "kv_cache_quant_algo": "FP8"}}
    model = parse(TINY | {"quantization_config": FP8_BLOCKS}, sidecar)
    assert linears(model)["q_proj"].weight.name == "fp8-block"
    assert model.kv_dtype == "fp8"  # which only the sidecar states


def test_a_multimodal_file_is_its_language_model() -> None:
    inner = TINY | {"model_type": "qwen3", "head_dim": 16}
    outer = {"model_type": "some_vl", "vision_config": {"depth": 2}, "text_config": inner}
    model = parse(outer)
    assert anonymous(model) == anonymous(parse(inner))
    assert model.family == "qwen3"
    assert model.notes == ("vision tower left out",)
    untyped = {key: value for key, value in inner.items() if key != "model_type"}
    assert parse({"model_type": "qwen3", "text_config": untyped}).family == "qwen3"


def test_keys_of_either_level_are_found() -> None:
    inner = {key: value for key, value in TINY.items() if key != "model_type"}
    outer: Config = {"model_type": "llama", "text_config": inner}
    assert parse(outer | {"dtype": "float16"}).activation_dtype == "fp16"
    assert parse(outer | {"tie_word_embeddings": True}).tied_embeddings
    untied = {"text_config": inner | {"tie_word_embeddings": False}, "tie_word_embeddings": True}
    assert not parse(outer | untied).tied_embeddings
    for place in (outer, inner):
        place["quantization_config"] = FP8_BLOCKS
        assert "fp8-block" in formats(parse(outer))
        del place["quantization_config"]


def test_tied_embeddings_are_stored_once() -> None:
    tied = parse(TINY | {"tie_word_embeddings": True})
    assert parse(TINY).n_params - tied.n_params == 64 * 1000


def test_the_state_has_the_stated_dtype() -> None:
    config = TINY_HYBRID | {"model_type": "qwen3_5", "mamba_ssm_dtype": "bfloat16"}
    assert parse(config).state_dtype == "bf16"


@pytest.mark.parametrize(
    ("config", "notes"),
    [
        (TINY, ()),
        (TINY | {"num_nextn_predict_layers": 1}, ("multi-token-prediction layer left out",)),
        (TINY | {"mtp_num_hidden_layers": 0}, ()),
        (
            TINY_HYBRID | {"model_type": "qwen3_next"},
            ("multi-token-prediction layer left out",),
        ),
        (
            TINY_COMPRESSED | {"dspark_block_size": 5, "num_nextn_predict_layers": 1},
            ("DSpark drafter left out",),
        ),
        (TINY | {"audio_config": {}}, ("audio tower left out",)),
    ],
)
def test_what_is_left_out_is_said(config: Config, notes: tuple[str, ...]) -> None:
    assert parse(config).notes == notes


def test_a_model_is_called_what_the_caller_or_the_file_calls_it() -> None:
    assert parse(TINY, name="mine").name == "mine"
    assert parse(TINY, source="folder/Org--Model-1.5B.json").name == "Org/Model-1.5B"


def test_a_config_can_be_read_as_another_family() -> None:
    unknown = TINY | {"model_type": "brand_new"}
    model = parse(unknown, family="llama")
    assert anonymous(model) == anonymous(parse(TINY))
    assert model.notes == ("read as family llama: the config says model_type brand_new",)
    assert parse(TINY, family="llama").notes == ()
    untyped = {key: value for key, value in TINY.items() if key != "model_type"}
    assert parse(untyped, family="llama").notes == (
        "read as family llama: the config says model_type (missing)",
    )
    with pytest.raises(OptionError, match="family is 'brand_new'; allowed: deepseek_v3, "):
        parse(TINY, family="brand_new")


def test_a_family_is_known_by_its_type_and_not_by_its_name() -> None:
    model = parse(TINY, name="Qwen/Qwen3-Mixtral-DeepSeek", source="gpt-oss.json")
    assert anonymous(model) == anonymous(parse(TINY))
