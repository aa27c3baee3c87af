"""GGUF files: their headers, the models that they describe, and what is wrong with bad ones."""

import json
import struct
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from fuzzing import bounded
from gguf_files import TYPES, Tensors, gguf_bytes, text, value_bytes
from specroof import load_drafter, load_model
from specroof.architecture import Architecture, DraftHead
from specroof.architecture.mixes import GGUF_BLOCKS, mixed
from specroof.catalog.names import load_draft_config
from specroof.errors import CatalogError, ConfigError, OptionError, SpecroofError
from specroof.parsers import gguf
from specroof.parsers.drafters import parse_drafter_config
from specroof.parsers.gguf import GgufHeader, parse_gguf, parse_gguf_mtp, read_gguf
from tiny_configs import Config, parse

# --- Families: sizes as a GGUF file and as a config.json have them, and the tensors --------------

#: Sizes that all have: two layers or four, rows of whole blocks.
H, F, HEADS, KV, D, V, E, W = 256, 512, 8, 2, 32, 1000, 16, 64


def common(arch: str, n_layers: int, **more: Any) -> dict[str, Any]:
    sizes = {
        "block_count": n_layers,
        "context_length": 4096,
        "embedding_length": H,
        "feed_forward_length": F,
        "attention.head_count": HEADS,
        "attention.head_count_kv": KV,
        "attention.key_length": D,
        **{key.replace("__", "."): value for key, value in more.items()},
    }
    return {
        "general.architecture": arch,
        "general.name": "x" * 2000,
        "tokenizer.ggml.tokens": ["<s>", "a", "b"],
        "tokenizer.ggml.scores": [0.5] * 1200,
        "general.nested": [[1, 2], [3]],
        **{f"{arch}.{key}": value for key, value in sizes.items()},
    }


def attention(layer: int, form: str, *, query: int = HEADS * D) -> list[Any]:
    at = f"blk.{layer}."
    return [
        (f"{at}attn_norm.weight", [H], "f32"),
        (f"{at}attn_q.weight", [H, query], form),
        (f"{at}attn_k.weight", [H, KV * D], form),
        (f"{at}attn_v.weight", [H, KV * D], form),
        (f"{at}attn_output.weight", [HEADS * D, H], form),
    ]


def head_norms(layer: int) -> list[Any]:
    return [(f"blk.{layer}.attn_{part}_norm.weight", [D], "f32") for part in "qk"]


def biases(layer: int, *rows: tuple[str, int]) -> list[Any]:
    return [(f"blk.{layer}.{name}.bias", [length], "f32") for name, length in rows]


def gated(layer: int, form: str, suffix: str = "", width: int = F) -> list[Any]:
    at = f"blk.{layer}.ffn_"
    return [
        (f"{at}gate{suffix}.weight", [H, width], form),
        (f"{at}up{suffix}.weight", [H, width], form),
        (f"{at}down{suffix}.weight", [width, H], form),
    ]


def norm(layer: int, name: str = "ffn_norm") -> tuple[str, list[int], str]:
    return (f"blk.{layer}.{name}.weight", [H], "f32")


def experts(layer: int, form: str) -> list[Any]:
    at = f"blk.{layer}.ffn_"
    return [
        norm(layer),
        (f"{at}gate_inp.weight", [H, E], "f32"),
        (f"{at}gate_exps.weight", [H, W, E], form),
        (f"{at}up_exps.weight", [H, W, E], form),
        (f"{at}down_exps.weight", [W, H, E], form),
    ]


def delta_net(layer: int, form: str, *, fused: bool = False) -> list[Any]:
    # 2 heads of keys and 4 of values, 32 wide, so 2 * 64 + 128 channels
    at = f"blk.{layer}."
    parts = [("attn_qkv", 256), ("attn_gate", 128), ("ssm_beta", 4), ("ssm_alpha", 4)]
    if fused:
        parts = [("ssm_in", 384), ("ssm_ba", 8)]
    return [
        (f"{at}attn_norm.weight", [H], "f32"),
        *((f"{at}{name}.weight", [H, rows], form) for name, rows in parts),
        (f"{at}ssm_conv1d.weight", [4, 256], "f32"),
        (f"{at}ssm_dt.bias", [4], "f32"),
        (f"{at}ssm_a", [4], "f32"),
        (f"{at}ssm_norm.weight", [32], "f32"),
        (f"{at}ssm_out.weight", [128, H], form),
    ]


def ends(form: str, *, tied: bool) -> list[Any]:
    head = [] if tied else [("output.weight", [H, V], form)]
    return [("token_embd.weight", [H, V], form), ("output_norm.weight", [H], "f32"), *head]


DENSE: Config = {
    "hidden_size": H,
    "intermediate_size": F,
    "num_hidden_layers": 2,
    "num_attention_heads": HEADS,
    "num_key_value_heads": KV,
    "head_dim": D,
    "vocab_size": V,
    "tie_word_embeddings": False,
}
SPARSE: Config = DENSE | {
    "num_experts": E,
    "num_local_experts": E,
    "num_experts_per_tok": 4,
    "moe_intermediate_size": W,
}
HYBRID: Config = SPARSE | {
    "num_hidden_layers": 4,
    "shared_expert_intermediate_size": 128,
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 4,
    "linear_key_head_dim": 32,
    "linear_value_head_dim": 32,
    "linear_conv_kernel_dim": 4,
    "full_attention_interval": 4,
}
OF_EXPERTS = {"expert_count": E, "expert_used_count": 4, "expert_feed_forward_length": W}
OF_STATES = {
    "full_attention_interval": 4,
    "ssm__conv_kernel": 4,
    "ssm__state_size": 32,
    "ssm__group_count": 2,
    "ssm__time_step_rank": 4,
    "ssm__inner_size": 128,
}


def llama(form: str) -> tuple[dict[str, Any], Tensors, Config]:
    tensors = ends(form, tied=False)
    for layer in range(2):
        tensors += [*attention(layer, form), norm(layer), *gated(layer, form)]
    return common("llama", 2), tensors, DENSE | {"model_type": "llama"}


def biased_llama(form: str) -> tuple[dict[str, Any], Tensors, Config]:
    metadata, tensors, config = llama(form)
    rows = (("attn_q", 256), ("attn_k", 64), ("attn_v", 64), ("attn_output", 256))
    more = [one for layer in range(2) for one in biases(layer, *rows)]
    return metadata, [*tensors, *more], config | {"attention_bias": True}


def mixtral(form: str) -> tuple[dict[str, Any], Tensors, Config]:
    tensors = ends(form, tied=False)
    for layer in range(2):
        tensors += [*attention(layer, form), *experts(layer, form)]
    sizes = {"expert_count": E, "expert_used_count": 4, "feed_forward_length": W}
    config = SPARSE | {"model_type": "mixtral", "intermediate_size": W}
    return common("llama", 2, **sizes), tensors, config


def qwen2(form: str) -> tuple[dict[str, Any], Tensors, Config]:
    tensors = ends(form, tied=True)
    for layer in range(2):
        rows = biases(layer, ("attn_q", 256), ("attn_k", 64), ("attn_v", 64))
        tensors += [*attention(layer, form), *rows, norm(layer), *gated(layer, form)]
    return common("qwen2", 2), tensors, DENSE | {"model_type": "qwen2", "tie_word_embeddings": True}


def qwen3(form: str) -> tuple[dict[str, Any], Tensors, Config]:
    _, tensors, _ = llama(form)
    more = [one for layer in range(2) for one in head_norms(layer)]
    return common("qwen3", 2), [*tensors, *more], DENSE | {"model_type": "qwen3"}


def qwen3_moe(form: str) -> tuple[dict[str, Any], Tensors, Config]:
    _, tensors, _ = mixtral(form)
    more = [one for layer in range(2) for one in head_norms(layer)]
    metadata = common("qwen3moe", 2, **OF_EXPERTS)
    return metadata, [*tensors, *more], SPARSE | {"model_type": "qwen3_moe"}


def gemma3(form: str) -> tuple[dict[str, Any], Tensors, Config]:
    tensors = ends(form, tied=True)
    for layer in range(2):
        norms = [norm(layer, name) for name in ("post_attention_norm", "post_ffw_norm")]
        tensors += [*attention(layer, form), *head_norms(layer), *norms]
        tensors += [norm(layer), *gated(layer, form)]
    config = DENSE | {
        "model_type": "gemma3_text",
        "sliding_window": 64,
        "tie_word_embeddings": True,
    }
    return common("gemma3", 2, attention__sliding_window=64), tensors, config


def gpt_oss(form: str) -> tuple[dict[str, Any], Tensors, Config]:
    tensors = ends(form, tied=False)
    for layer in range(2):
        tensors += [*attention(layer, form), *experts(layer, form)]
        tensors += biases(
            layer, ("attn_q", 256), ("attn_k", 64), ("attn_v", 64), ("attn_output", H),
            ("ffn_gate_inp", E), ("ffn_gate_exps", W * E), ("ffn_up_exps", W * E),
            ("ffn_down_exps", H * E),
        )  # fmt: skip
        tensors.append((f"blk.{layer}.attn_sinks.weight", [HEADS], "f32"))
    metadata = common("gpt-oss", 2, attention__sliding_window=128, **OF_EXPERTS)
    config = SPARSE | {"model_type": "gpt_oss", "intermediate_size": W, "sliding_window": 128}
    return metadata, tensors, config


def qwen35(form: str) -> tuple[dict[str, Any], Tensors, Config]:
    tensors = ends(form, tied=False)
    for layer in range(4):
        if layer == 3:
            tensors += [*attention(layer, form, query=2 * HEADS * D), *head_norms(layer)]
        else:
            tensors += delta_net(layer, form)
        tensors += [norm(layer, "post_attention_norm"), *gated(layer, form)]
    return common("qwen35", 4, **OF_STATES), tensors, HYBRID | {"model_type": "qwen3_5_text"}


def qwen35_moe(
    form: str, arch: str = "qwen35moe", *, fused: bool = False
) -> tuple[dict[str, Any], Tensors, Config]:
    tensors = ends(form, tied=False)
    for layer in range(4):
        if layer == 3:
            tensors += [*attention(layer, form, query=2 * HEADS * D), *head_norms(layer)]
        else:
            tensors += delta_net(layer, form, fused=fused)
        tensors += [*experts(layer, form), *gated(layer, form, "_shexp", 128)]
        tensors.append((f"blk.{layer}.ffn_gate_inp_shexp.weight", [H], "f32"))
    metadata = common(arch, 4, expert_shared_feed_forward_length=128, **OF_EXPERTS, **OF_STATES)
    return metadata, tensors, HYBRID | {"model_type": "qwen3_5_moe_text"}


def qwen3_next(form: str) -> tuple[dict[str, Any], Tensors, Config]:
    metadata, tensors, config = qwen35_moe(form, "qwen3next", fused=True)
    return metadata, tensors, config | {"model_type": "qwen3_next"}


def mistral3(form: str) -> tuple[dict[str, Any], Tensors, Config]:
    _, tensors, config = llama(form)
    return common("mistral3", 2), tensors, config | {"model_type": "ministral3"}


def glm4_moe(form: str) -> tuple[dict[str, Any], Tensors, Config]:
    tensors = ends(form, tied=False)
    for layer in range(2):
        rows = biases(layer, ("attn_q", 256), ("attn_k", 64), ("attn_v", 64))
        tensors += [*attention(layer, form), *rows, *head_norms(layer)]
    tensors += [norm(0), *gated(0, form), *experts(1, form), *gated(1, form, "_shexp", W)]
    tensors.append(("blk.1.exp_probs_b.bias", [E], "f32"))
    more = {"expert_shared_count": 1, "leading_dense_block_count": 1}
    config = DENSE | {
        "model_type": "glm4_moe",
        "attention_bias": True,
        "use_qk_norm": True,
        "n_routed_experts": E,
        "n_shared_experts": 1,
        "num_experts_per_tok": 4,
        "moe_intermediate_size": W,
        "first_k_dense_replace": 1,
    }
    return common("glm4moe", 2, **OF_EXPERTS, **more), tensors, config


def qwen2_moe(form: str) -> tuple[dict[str, Any], Tensors, Config]:
    tensors = ends(form, tied=False)
    for layer in range(2):
        rows = biases(layer, ("attn_q", 256), ("attn_k", 64), ("attn_v", 64))
        tensors += [*attention(layer, form), *rows, *experts(layer, form)]
        tensors += gated(layer, form, "_shexp", 128)
        tensors.append((f"blk.{layer}.ffn_gate_inp_shexp.weight", [H], "f32"))
    metadata = common("qwen2moe", 2, expert_shared_feed_forward_length=128, **OF_EXPERTS)
    config = SPARSE | {"model_type": "qwen2_moe", "shared_expert_intermediate_size": 128}
    return metadata, tensors, config


def gemma2(form: str) -> tuple[dict[str, Any], Tensors, Config]:
    metadata, tensors, config = gemma3(form)
    tensors = [
        one for one in tensors if "attn_q_norm" not in one[0] and "attn_k_norm" not in one[0]
    ]
    metadata = {key.replace("gemma3", "gemma2"): value for key, value in metadata.items()}
    return metadata | {"general.architecture": "gemma2"}, tensors, config | {"model_type": "gemma2"}


def gemma4(
    form: str, *, sparse: bool = True, heads: Any = (KV, 1)
) -> tuple[dict[str, Any], Tensors, Config]:
    # The first layer slides; the second attends fully, with wider heads whose keys are values.
    tensors = ends(form, tied=True)
    for layer in range(2):
        parts = attention(layer, form)
        if layer:
            at = f"blk.{layer}.attn_"
            parts = [parts[0], (f"{at}q.weight", [H, HEADS * 64], form)]
            parts += [
                (f"{at}k.weight", [H, 64], form),
                (f"{at}output.weight", [HEADS * 64, H], form),
            ]
        width = 64 if layer else D
        norms = [(f"blk.{layer}.attn_{part}_norm.weight", [width], "f32") for part in "qk"]
        names = ["post_attention_norm", "post_ffw_norm"]
        tensors += [*parts, *norms, norm(layer), *gated(layer, form)]
        tensors.append((f"blk.{layer}.layer_output_scale.weight", [1], "f32"))
        if sparse:
            names += ["pre_ffw_norm_2", "post_ffw_norm_1", "post_ffw_norm_2"]
            at = f"blk.{layer}.ffn_"
            tensors += [
                (f"{at}gate_inp.weight", [H, E], "f32"),
                (f"{at}gate_inp.scale", [H], "f32"),
                (f"{at}gate_up_exps.weight", [H, 2 * W, E], form),
                (f"{at}down_exps.weight", [W, H, E], form),
                (f"{at}down_exps.scale", [E], "f32"),
            ]
        tensors += [norm(layer, name) for name in names]
    metadata = common("gemma4", 2, **(OF_EXPERTS if sparse else {})) | {
        "gemma4.attention.head_count_kv": heads,
        "gemma4.attention.key_length": 64,
        "gemma4.attention.key_length_swa": D,
        "gemma4.attention.sliding_window": 64,
        "gemma4.attention.sliding_window_pattern": [True, False],
        "gemma4.attention.shared_kv_layers": 0,
        "gemma4.embedding_length_per_layer_input": 0,
    }
    config = DENSE | {
        "model_type": "gemma4_text",
        "sliding_window": 64,
        "layer_types": ["sliding_attention", "full_attention"],
        "num_global_key_value_heads": 1,
        "global_head_dim": 64,
        "attention_k_eq_v": True,
        "hidden_size_per_layer_input": 0,
        "tie_word_embeddings": True,
    }
    if sparse:
        more = {"num_experts": E, "top_k_experts": 4, "moe_intermediate_size": W}
        config |= more | {"enable_moe_block": True}
    return metadata, tensors, config


def dense_gemma4(form: str) -> tuple[dict[str, Any], Tensors, Config]:
    return gemma4(form, sparse=False)


def fused_llama(form: str) -> tuple[dict[str, Any], Tensors, Config]:
    metadata, tensors, config = llama(form)
    apart = ("attn_q.weight", "attn_k.weight", "attn_v.weight")
    tensors = [one for one in tensors if not one[0].endswith(apart)]
    rows = (HEADS + 2 * KV) * D
    tensors += [(f"blk.{layer}.attn_qkv.weight", [H, rows], form) for layer in range(2)]
    return metadata, tensors, config


def phi3(form: str) -> tuple[dict[str, Any], Tensors, Config]:
    _, tensors, config = fused_llama(form)
    tensors = [one for one in tensors if "ffn_gate" not in one[0] and "ffn_up" not in one[0]]
    tensors += [(f"blk.{layer}.ffn_up.weight", [H, 2 * F], form) for layer in range(2)]
    # The window that a file states is one that llama.cpp does not heed.
    metadata = common("phi3", 2, attention__sliding_window=64)
    del metadata["phi3.attention.key_length"]
    return metadata, tensors, config | {"model_type": "phi3"}


# Heads of latent attention: 32 without positions, 16 with; values 24; latents of 96 and 64.
OF_LATENTS = {
    "attention__q_lora_rank": 96,
    "attention__kv_lora_rank": 64,
    "attention__key_length": 64 + 16,
    "attention__value_length": 64,
    "attention__key_length_mla": 32 + 16,
    "attention__value_length_mla": 24,
    "rope__dimension_count": 16,
    "leading_dense_block_count": 1,
    "expert_shared_count": 2,
}


def deepseek_v3(form: str) -> tuple[dict[str, Any], Tensors, Config]:
    tensors = ends(form, tied=False)
    for layer in range(2):
        at = f"blk.{layer}.attn_"
        tensors += [
            (f"{at}norm.weight", [H], "f32"),
            (f"{at}q_a.weight", [H, 96], form),
            (f"{at}q_a_norm.weight", [96], "f32"),
            (f"{at}q_b.weight", [96, HEADS * 48], form),
            (f"{at}kv_a_mqa.weight", [H, 64 + 16], form),
            (f"{at}kv_a_norm.weight", [64], "f32"),
            (f"{at}k_b.weight", [32, 64, HEADS], form),
            (f"{at}v_b.weight", [64, 24, HEADS], form),
            (f"{at}output.weight", [HEADS * 24, H], form),
        ]
    tensors += [norm(0), *gated(0, form), *experts(1, form), *gated(1, form, "_shexp", 2 * W)]
    tensors.append(("blk.1.exp_probs_b.bias", [E], "f32"))
    config = DENSE | {
        "model_type": "deepseek_v3",
        "q_lora_rank": 96,
        "kv_lora_rank": 64,
        "qk_nope_head_dim": 32,
        "qk_rope_head_dim": 16,
        "v_head_dim": 24,
        "n_routed_experts": E,
        "n_shared_experts": 2,
        "num_experts_per_tok": 4,
        "moe_intermediate_size": W,
        "first_k_dense_replace": 1,
    }
    return common("deepseek2", 2, **OF_EXPERTS, **OF_LATENTS), tensors, config


def deepseek_v2_lite(form: str) -> tuple[dict[str, Any], Tensors, Config]:
    # Queries at once, no bias that picks experts, and the keys and matrices of old files.
    metadata, tensors, config = deepseek_v3(form)
    gone = ("q_a.weight", "q_a_norm.weight", "q_b.weight", "k_b.weight", "v_b.weight", "b.bias")
    tensors = [one for one in tensors if not one[0].endswith(gone)]
    for layer in range(2):
        at = f"blk.{layer}.attn_"
        tensors += [
            (f"{at}q.weight", [H, HEADS * 48], form),
            (f"{at}kv_b.weight", [64, HEADS * (32 + 24)], form),
        ]
    lengths = {"key_length": 48, "value_length": 24}
    metadata |= {f"deepseek2.attention.{key}": value for key, value in lengths.items()}
    for key in ("q_lora_rank", "key_length_mla", "value_length_mla"):
        del metadata[f"deepseek2.attention.{key}"]
    return metadata, tensors, config | {"model_type": "deepseek_v2", "q_lora_rank": None}


def qwen3_vl(form: str) -> tuple[dict[str, Any], Tensors, Config]:
    _, tensors, config = qwen3(form)
    return common("qwen3vl", 2), tensors, config | {"model_type": "qwen3_vl_text"}


def qwen3_vl_moe(form: str) -> tuple[dict[str, Any], Tensors, Config]:
    _, tensors, config = qwen3_moe(form)
    metadata = common("qwen3vlmoe", 2, **OF_EXPERTS)
    return metadata, tensors, config | {"model_type": "qwen3_vl_moe_text"}


FAMILIES = {
    one.__name__: one
    for one in (
        *(llama, biased_llama, mixtral, qwen2, qwen3, qwen3_moe, gemma3, gpt_oss, qwen35),
        *(
            qwen35_moe,
            qwen3_next,
            mistral3,
            glm4_moe,
            qwen2_moe,
            gemma2,
            qwen3_vl,
            qwen3_vl_moe,
            gemma4,
            dense_gemma4,
            fused_llama,
            phi3,
            deepseek_v3,
            deepseek_v2_lite,
        ),
    )
}


def header(metadata: dict[str, Any], tensors: Tensors) -> GgufHeader:
    data = gguf_bytes(metadata, tensors, weights=False)
    found = read_gguf(data, source="m.gguf", file_bytes=10**12)
    assert found is not None
    return found


def n_bytes(tensors: Tensors) -> int:
    """The bytes of tensors by their blocks."""
    total = 0
    for _, shape, form in tensors:
        _, block, block_bytes = TYPES[form]
        rows = 1
        for length in shape[1:]:
            rows *= length
        total += rows * shape[0] // block * block_bytes
    return total


def sizes_of(model: Architecture) -> Architecture:
    return replace(model, name="", notes=())


@pytest.mark.parametrize("family", FAMILIES)
def test_a_file_is_the_model_of_its_config(family: str) -> None:
    metadata, tensors, config = FAMILIES[family]("q8_0")
    model = parse_gguf([header(metadata, tensors)], name="m")
    expected = mixed(parse(config), "q8_0")
    assert sizes_of(model) == sizes_of(expected)
    assert model.weight_bytes == n_bytes(tensors)
    assert not [note for note in model.notes if "multi-token" not in note]


def test_every_architecture_has_a_file_above() -> None:
    known = {family("q8_0")[0]["general.architecture"] for family in FAMILIES.values()}
    assert known == {*gguf._FAMILIES}


def test_each_matrix_has_the_format_of_its_tensors() -> None:
    metadata, tensors, config = llama("q4_k")
    wide = {"blk.1.attn_v.weight": "q6_k", "blk.1.ffn_up.weight": "q5_k", "output.weight": "q6_k"}
    tensors = [(name, shape, wide.get(name, form)) for name, shape, form in tensors]
    model = parse_gguf([header(metadata, tensors)], name="m")
    assert model.layer_order == (0, 1)
    second = {
        one.name: one.weight.name for block in model.layers[1].blocks for one in block.linears
    }
    assert second == {
        **dict.fromkeys(("q_proj", "k_proj", "o_proj", "down_proj"), "q4_k"),
        "v_proj": "q6_k",
        "gate_up_proj": "q4_k+q5_k",
    }
    assert (model.head.weight.name, model.embedding and model.embedding.name) == ("q6_k", "q4_k")
    assert model.weight_bytes == n_bytes(tensors)
    assert model.n_params == parse(config).n_params


def test_draft_layers_are_left_out_and_said() -> None:
    metadata, tensors, _ = llama("q8_0")
    metadata |= {"llama.block_count": 3, "llama.nextn_predict_layers": 1}
    drafted = [*attention(2, "q8_0"), norm(2), *gated(2, "q8_0")]
    model = parse_gguf([header(metadata, [*tensors, *drafted])], name="m")
    assert model.n_layers == 2
    assert model.weight_bytes == n_bytes(tensors)
    assert len(model.notes) == 1


# --- Draft layers in a file -----------------------------------------------------------------------


def nextn(layer: int, form: str) -> list[Any]:
    at = f"blk.{layer}.nextn."
    norms = [(f"{at}{name}.weight", [H], "f32") for name in ("enorm", "hnorm", "shared_head_norm")]
    return [(f"{at}eh_proj.weight", [2 * H, H], form), *norms]


def drafting_qwen35(form: str) -> tuple[dict[str, Any], Tensors, Tensors, Config]:
    """The model, the tensors of its one draft layer, and its config."""
    metadata, tensors, config = qwen35(form)
    metadata |= {"qwen35.block_count": 5, "qwen35.nextn_predict_layers": 1}
    drafted = [
        *attention(4, form, query=2 * HEADS * D), *head_norms(4),
        norm(4, "post_attention_norm"), *gated(4, form), *nextn(4, form),
    ]  # fmt: skip
    return metadata, tensors, drafted, config | {"mtp_num_hidden_layers": 1}


def drafting_glm(form: str) -> tuple[dict[str, Any], Tensors, Tensors, Config]:
    metadata, tensors, config = glm4_moe(form)
    metadata |= {"glm4moe.block_count": 3, "glm4moe.nextn_predict_layers": 1}
    rows = biases(2, ("attn_q", 256), ("attn_k", 64), ("attn_v", 64))
    drafted = [
        *attention(2, form), *rows, *head_norms(2), *experts(2, form),
        *gated(2, form, "_shexp", W), ("blk.2.exp_probs_b.bias", [E], "f32"), *nextn(2, form),
    ]  # fmt: skip
    return metadata, tensors, drafted, config | {"num_nextn_predict_layers": 1}


@pytest.mark.parametrize("file", [drafting_qwen35, drafting_glm])
def test_a_draft_layer_is_that_of_the_config_with_the_bytes_of_the_file(file: Any) -> None:
    metadata, tensors, drafted, config = file("q4_0")
    wide = [(name, shape, "q8_0" if "eh_proj" in name else form) for name, shape, form in drafted]
    head = parse_gguf_mtp([header(metadata, [*tensors, *wide])], name="m")
    usual = parse_drafter_config(json.dumps(config), source="m.json", kind="mtp")
    assert isinstance(usual, DraftHead)
    assert (head.kind, head.name, head.modules) == ("mtp", "m MTP", 1)
    assert head.shares_head
    assert (head.n_params, head.target_size) == (usual.n_params, usual.target_size)
    assert head.model.layer_kinds == usual.model.layer_kinds
    assert head.model.weight_bytes == n_bytes(wide)


def test_a_file_of_draft_layers_alone_is_one(tmp_path: Path) -> None:
    metadata, tensors, drafted, _ = drafting_qwen35("q8_0")
    path = tmp_path / "mtp-Tiny-Q8_0.gguf"
    path.write_bytes(gguf_bytes(metadata, [*tensors[:2], *drafted]))
    head = load_draft_config(path, "mtp")
    assert isinstance(head, DraftHead)
    assert head.model.weight_bytes == n_bytes(drafted)
    assert load_drafter(f"mtp,accept=0.7,config={path}").kind == "mtp"
    with pytest.raises(ConfigError, match=r"a GGUF file; allowed: a config.json"):
        load_draft_config(path, "eagle3")


def test_a_draft_layer_may_have_a_table_and_a_head_of_its_own() -> None:
    metadata, tensors, drafted, _ = drafting_glm("q8_0")
    own = [
        ("blk.2.nextn.embed_tokens.weight", [H, V], "q4_0"),
        ("blk.2.nextn.shared_head_head.weight", [H, V], "q6_k"),
    ]
    head = parse_gguf_mtp([header(metadata, [*tensors, *drafted, *own])], name="m")
    assert not head.shares_head
    assert head.model.head.weight.name == "q6_k"
    assert head.model.weight_bytes == n_bytes([*drafted, *own])


@pytest.mark.parametrize(
    ("family", "says"),
    [
        (qwen35, "qwen35.nextn_predict_layers is missing; allowed: draft layers"),
        (llama, "model_type is llama"),
    ],
)
def test_a_file_without_draft_layers_drafts_nothing(family: Any, says: str) -> None:
    metadata, tensors, _ = family("q8_0")
    if family is llama:
        metadata |= {"llama.block_count": 3, "llama.nextn_predict_layers": 1}
    with pytest.raises(ConfigError) as caught:
        parse_gguf_mtp([header(metadata, tensors)], name="m")
    assert str(caught.value).startswith("m.gguf: ")
    assert says in str(caught.value).replace('"', "")


def test_tensors_that_the_model_does_not_have_are_said() -> None:
    metadata, tensors, _ = llama("q8_0")
    strange = [*tensors, ("strange.weight", [H, H], "q8_0")]
    (note,) = parse_gguf([header(metadata, strange)], name="m").notes
    assert "MiB" in note


def test_a_size_may_stand_once_for_each_layer() -> None:
    metadata, tensors, _ = llama("q8_0")
    model = parse_gguf(
        [header(metadata | {"llama.feed_forward_length": [F, F]}, tensors)], name="m"
    )
    assert model.n_layers == 2


# --- Refusals of models ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"general.architecture": "mamba"}, "general.architecture is mamba; allowed: deepseek2"),
        ({"general.architecture": 7}, "general.architecture is 7; allowed: deepseek2"),
        ({"llama.feed_forward_length": [F, 2 * F]}, "feed_forward_length is (512, 1024); allowed"),
        ({"llama.block_count": 3000}, "llama.block_count is 3000; allowed: 1 to 2000"),
        ({"llama.block_count": 0}, "llama.block_count is 0; allowed: 1 to 2000"),
        ({"llama.nextn_predict_layers": 2}, "llama.block_count is 2; allowed: 3 to 2000"),
        ({"llama.attention.head_count": True}, "head_count is True; allowed: a whole number"),
        ({"llama.attention.head_count": 7}, "num_key_value_heads is 2"),
        (
            {"llama.embedding_length": 2 * H},
            "blk.0.attn_q.weight is 65536 weights; allowed: 131072",
        ),
        ({"llama.block_count": 3}, "blk.2.attn_q.weight is missing; allowed: a tensor for q_proj"),
    ],
)
def test_a_model_that_does_not_fit_its_file_is_one_line(change: dict[str, Any], says: str) -> None:
    metadata, tensors, _ = llama("q8_0")
    with pytest.raises(ConfigError) as caught:
        parse_gguf([header(metadata | change, tensors)], name="m")
    assert str(caught.value).startswith("m.gguf: ")
    assert says in str(caught.value)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (
            {"attention.sliding_window_pattern": [True, True]},
            "sliding_window_pattern is (True, True)",
        ),
        ({"attention.sliding_window_pattern": [3, 4]}, "sliding_window_pattern is (3, 4)"),
        ({"attention.sliding_window_pattern": 6}, "sliding_window_pattern is 6"),
        ({"embedding_length_per_layer_input": 64}, "embedding_length_per_layer_input is not 0"),
        ({"attention.head_count_kv": [1, 2, 2]}, "head_count_kv is a list of 3; allowed: one of 2"),
        ({"attention.head_count_kv": 3}, "num_key_value_heads is 3"),
    ],
)
def test_a_gemma4_that_is_none_is_one_line(change: dict[str, Any], says: str) -> None:
    metadata, tensors, _ = gemma4("q8_0")
    changed = metadata | {f"gemma4.{key}": value for key, value in change.items()}
    with pytest.raises(ConfigError) as caught:
        parse_gguf([header(changed, tensors)], name="m")
    assert says in str(caught.value)


@pytest.mark.parametrize("shape", [None, [H]])
def test_a_file_without_a_table_is_refused(shape: list[int] | None) -> None:
    metadata, tensors, _ = llama("q8_0")
    tensors = [] if shape is None else [("token_embd.weight", shape, "q8_0")]
    with pytest.raises(ConfigError, match=r"token_embd.weight is (missing|\(256,\)); allowed"):
        parse_gguf([header(metadata, tensors)], name="m")


# --- Refusals of headers --------------------------------------------------------------------------


def raw(
    *, counts: tuple[int, int] = (0, 0), rest: bytes = b"", begin: bytes = b"GGUF\3\0\0\0"
) -> bytes:
    return begin + struct.pack("<QQ", *counts) + rest


def tensor(name: str = "t", dims: tuple[int, ...] = (32,), kind: int = 0, offset: int = 0) -> bytes:
    return text(name) + struct.pack(f"<I{len(dims)}QIQ", len(dims), *dims, kind, offset)


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"PK\3\4" + bytes(40), "its beginning is b'PK"),
        (raw(begin=b"GGUF\1\0\0\0"), "its version is 1; allowed: 2 or 3"),
        (raw(begin=b"GGUF\0\0\0\3"), "big-endian"),
        (raw(counts=(10**18, 0)), "the number of tensors is 1000000000000000000; allowed"),
        (raw(counts=(0, 10**18)), "the number of keys is"),
        (raw(counts=(0, 1), rest=struct.pack("<Q", 2**63)), "the length of a key is"),
        (raw(counts=(0, 1), rest=struct.pack("<Q", 1) + b"\xff"), "a key is no UTF-8"),
        (raw(counts=(0, 2), rest=2 * (text("k") + value_bytes(1))), "a key is k, twice"),
        (raw(counts=(0, 1), rest=text("k") + struct.pack("<I", 13)), "the type of k is 13"),
        (
            raw(counts=(0, 1), rest=text("k") + struct.pack("<IQ", 8, 2**40)),
            "the length of k is 1099511627776; allowed: at most",
        ),
        (
            raw(counts=(0, 1), rest=text("k") + struct.pack("<IIQ", 9, 4, 2**40)),
            "the length of k is 1099511627776; allowed: at most",
        ),
        (
            raw(counts=(0, 1), rest=text("k") + struct.pack("<IIQQ", 9, 8, 5, 2**50)),
            "the length of a text of k is 1125899906842624; allowed: at most",
        ),
        (
            raw(
                counts=(0, 1), rest=text("k") + struct.pack("<I", 9) + 9 * struct.pack("<IQ", 9, 1)
            ),
            "the type of k is 9",
        ),
        (
            raw(counts=(0, 1), rest=text("general.alignment") + value_bytes(12)),
            "general.alignment is 12; allowed: a multiple of 8",
        ),
        (raw(counts=(1, 0), rest=text("t") + struct.pack("<I", 9)), "dimensions of t is 9"),
        (raw(counts=(1, 0), rest=tensor(dims=(0,))), "the shape of t is (0,)"),
        (raw(counts=(1, 0), rest=tensor(dims=(2**40, 2**40))), "the shape of t is (1099"),
        (raw(counts=(1, 0), rest=tensor(kind=4)), "the type of t is 4; allowed: 0 (f32)"),
        (raw(counts=(1, 0), rest=tensor(dims=(33,), kind=2)), "the row of t is 33 weights"),
        (raw(counts=(1, 0), rest=tensor(offset=5)), "the offset of t is 5; allowed: a multiple of"),
        (raw(counts=(2, 0), rest=2 * tensor()), "a tensor is t, twice"),
        (
            raw(counts=(1, 0), rest=tensor(dims=(2**20,))),
            "its size is 57 bytes; allowed: the 4194368",
        ),
        (raw(counts=(1, 0)), "the header is cut off after 24 bytes"),
    ],
)
def test_a_bad_header_is_one_line(data: bytes, says: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read_gguf(data, source="bad.gguf", file_bytes=len(data))
    message = str(caught.value)
    assert message.startswith("bad.gguf: ")
    assert says in message
    assert "; allowed: " in message
    assert len(message) < 800


def test_a_header_that_goes_on_is_none_up_to_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    data = gguf_bytes(common("llama", 2), [], weights=False)
    for length in range(0, len(data) - 32, 37):
        assert read_gguf(data[:length], source="m.gguf", file_bytes=10**9) is None
    monkeypatch.setattr(gguf, "MAX_HEADER_BYTES", 100)
    with pytest.raises(ConfigError, match="the header is longer than 100 bytes"):
        read_gguf(data[:100], source="m.gguf", file_bytes=10**9)


def test_blocks_of_types_are_those_of_ggml() -> None:
    # ``ggml/include/ggml.h`` and what each block holds, typed by hand beside the writer.
    for name, (_, block, block_bytes) in TYPES.items():
        assert GGUF_BLOCKS.get(name, (1, block_bytes)) == (block, block_bytes)


WHOLE = gguf_bytes(*llama("q4_0")[:2], weights=False)
GLM, GLM_LAYERS, GLM_DRAFT_LAYER, _ = drafting_glm("q8_0")
DAMAGED = [
    gguf_bytes(metadata, tensors, weights=False)
    for metadata, tensors in (
        *(family("q8_0")[:2] for family in (llama, gemma4, qwen35_moe, gpt_oss, deepseek_v3)),
        (GLM, [*GLM_LAYERS, *GLM_DRAFT_LAYER]),
    )
]


@pytest.mark.fuzz
@given(st.data())
@bounded(300, HealthCheck.too_slow)
def test_a_damaged_header_is_read_or_refused(data: st.DataObject) -> None:
    damaged = bytearray(data.draw(st.sampled_from(DAMAGED)))
    for _ in range(data.draw(st.integers(1, 8))):
        at = data.draw(st.integers(0, len(damaged) - 1))
        damaged[at : at + 1] = data.draw(st.binary(max_size=9))
    cut = data.draw(st.integers(0, len(damaged)))
    part = bytes(damaged[:cut]) if data.draw(st.booleans()) else bytes(damaged)
    with suppress(SpecroofError):
        found = read_gguf(part, source="f.gguf", file_bytes=max(len(part), 10**8))
        if found is not None:
            for parse_whole in (parse_gguf, parse_gguf_mtp):
                with suppress(SpecroofError):
                    parse_whole([found], name="f")


@pytest.mark.fuzz
@given(st.binary(max_size=4096))
@bounded(200)
def test_bytes_of_any_kind_are_refused(data: bytes) -> None:
    for begin in (b"", b"GGUF\3\0\0\0"):
        with suppress(ConfigError):
            read_gguf(begin + data, source="f.gguf", file_bytes=len(begin + data))


# --- Files ----------------------------------------------------------------------------------------


def test_a_file_on_this_disk(tmp_path: Path) -> None:
    metadata, tensors, config = llama("q8_0")
    path = tmp_path / "Tiny-Q8_0.GGUF"
    path.write_bytes(gguf_bytes(metadata, tensors))
    model = load_model(path)
    assert (model.name, model.n_params) == ("Tiny-Q8_0", parse(config).n_params)
    path.write_bytes(gguf_bytes(metadata, tensors, weights=False))
    with pytest.raises(ConfigError, match="its size is"):
        load_model(path)
    with pytest.raises(OptionError, match="family is 'llama'"):
        load_model(path, family="llama")
    path.write_bytes(b"")
    with pytest.raises(ConfigError, match="cut off after 0 bytes"):
        load_model(path)


def test_a_long_header_is_read_in_steps(tmp_path: Path) -> None:
    metadata, tensors, _ = llama("q8_0")
    words = metadata | {"tokenizer.ggml.tokens": ["word"] * 100_000}
    path = tmp_path / "m.gguf"
    path.write_bytes(gguf_bytes(words, tensors))
    assert load_model(path).n_layers == 2


def test_a_file_in_parts(tmp_path: Path) -> None:
    metadata, tensors, _ = llama("q8_0")
    first, second = list(tensors)[:9], list(tensors)[9:]
    names = [tmp_path / f"m-Q8_0-0000{index}-of-00002.gguf" for index in (1, 2)]
    names[0].write_bytes(gguf_bytes(metadata, first))
    names[1].write_bytes(gguf_bytes({"split.no": 1}, second))
    model = load_model(names[0])
    assert (model.name, model.weight_bytes) == ("m-Q8_0", n_bytes(tensors))
    names[1].unlink()
    with pytest.raises(CatalogError, match=r"00002-of-00002\.gguf is neither"):
        load_model(names[0])
    with pytest.raises(CatalogError, match="99999 parts; allowed: 1 to 1000"):
        load_model(tmp_path / "m-00001-of-99999.gguf")


def test_a_file_that_is_nowhere_is_one_line() -> None:
    with pytest.raises(CatalogError, match=r"neither a file nor a file of the Hub"):
        load_model("nowhere.gguf")


def test_a_file_that_may_not_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "m.gguf"
    path.write_bytes(WHOLE)

    def refuse(*_: object) -> None:
        raise OSError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(ConfigError, match="Permission denied; allowed: a readable file"):
        load_model(path)


def test_a_header_as_json_is_what_the_config_says() -> None:
    metadata, tensors, config = qwen3("q8_0")
    made, _ = gguf._config(header(metadata, tensors))
    assert json.loads(json.dumps(made)) == config
