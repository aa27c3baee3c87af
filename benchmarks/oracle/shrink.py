"""Configs made small: the same kinds of layers, of a width that a laptop multiplies at once."""

from collections.abc import Mapping
from typing import Any

__all__ = ["shrunken"]

#: Sizes of the small models, by every name that a family has for them.
_SIZES = {
    "hidden_size": 64,
    "n_embd": 64,
    "d_model": 64,
    "n_head": 8,
    "n_heads": 8,
    "num_heads": 8,
    "attention_heads": 8,
    "num_kv_heads": 2,
    "n_layer": 4,
    "n_layers": 4,
    "intermediate_size": 96,
    "n_inner": 96,
    "prefix_dense_intermediate_size": 80,
    "ffn_dim": 96,
    "dense_intermediate_size": 80,
    "intermediate_size_mlp": 80,
    "moe_intermediate_size": 32,
    "moe_shared_expert_intermediate_size": 40,
    "shared_expert_intermediate_size": 40,
    "shared_intermediate_size": 40,
    "share_expert_dim": 40,
    "vocab_size": 160,
    "vocab_size_per_layer_input": 160,
    "word_embed_proj_dim": 64,
    "hidden_size_per_layer_input": 8,
    "num_attention_heads": 8,
    "head_dim": 16,
    "global_head_dim": 32,
    "num_experts": 8,
    "num_local_experts": 8,
    "n_routed_experts": 8,
    "moe_num_experts": 8,
    "num_experts_per_tok": 2,
    "num_experts_per_token": 2,
    "experts_per_token": 2,
    "top_k_experts": 2,
    "moe_top_k": 2,
    "q_lora_rank": 24,
    "kv_lora_rank": 16,
    "qk_nope_head_dim": 16,
    "qk_rope_head_dim": 8,
    "qk_head_dim": 24,
    "v_head_dim": 16,
    "index_n_heads": 4,
    "index_head_dim": 16,
    "index_topk": 8,
    "o_groups": 2,
    "o_lora_rank": 12,
    "sliding_window": 8,
    "sliding_window_size": 8,
    "attention_chunk_size": 8,
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 4,
    "linear_key_head_dim": 16,
    "linear_value_head_dim": 16,
    "linear_num_heads": 4,
    "linear_head_dim": 16,
    "mamba_num_heads": 8,
    "mamba_head_dim": 16,
    "mamba_n_heads": 8,
    "mamba_d_head": 16,
    "mamba_d_ssm": 128,
    "mamba_d_state": 16,
    "ssm_state_size": 16,
    "mamba_n_groups": 1,
    "n_groups": 1,
    "mamba_expand": 2,
    "expand": 2,
    "chunk_size": 8,
    "mamba_chunk_size": 8,
    "index_block_size": 4,
    "index_topk_blocks": 2,
    "index_kpool": 4,
    "swa_num_attention_heads": 8,
    "swa_num_key_value_heads": 4,
    "swa_head_dim": 16,
    "swa_v_head_dim": 16,
    "max_position_embeddings": 256,
    "rotary_dim": 8,
    "num_nextn_predict_layers": 0,
    "num_mtp_modules": 0,
    "mtp_num_hidden_layers": 0,
    "moe_latent_size": 24,
    "num_kv_shared_layers": 2,
    "laurel_rank": 8,
    "ffn_hidden_size": 96,
    "expert_ffn_hidden_size": 32,
    "num_layers": 4,
    "moe_topk": 2,
    "moe_k": 2,
    "conv_L_cache": 3,
    "d_rel": 4,
    "rel_extent": 8,
    "hc_lowrank": 12,
    "indexer_n_heads": 4,
    "indexer_head_dim": 16,
    "indexer_budget": 8,
    "indexer_compress_ratio": 4,
    "ngram_vocab_size_base": 100,
    "n_input_layers": 2,
    "n_recurrent_layers": 4,
    "n_output_layers": 2,
}
_N_LAYERS = 8
#: Keys that the small models do without: formats, tokens, parts beside the language model.
_DROPPED = ("quantization_config", "bos_token_id", "per_layer_config")
#: Types whose positions are three numbers.
_THREE_POSITIONS = (
    *("ernie4_5_vl", "glm4v_text", "glm_ocr", "hunyuan_vl", "paddleocr_vl"),
    *("qwen2_5_omni", "qwen2_5_vl", "qwen2_vl", "qwen3_omni"),
)
#: Groups of experts of which few are left, and tokens beyond the small vocabulary.
_ADDED = {
    "n_group": 1,
    "topk_group": 1,
    "num_expert_group": 1,
    "pad_token_id": None,
    "eos_token_id": 2,
}


def shrunken(text: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keys of a language model with its sizes made small, and its first layers."""
    n_layers = text.get("num_hidden_layers")
    small = {key: value for key, value in text.items() if key not in _DROPPED} | _ADDED
    for key, value in text.items():
        if key in _SIZES and isinstance(value, int) and value:
            small[key] = _SIZES[key]
        elif key == "moe_intermediate_size" and isinstance(value, list) and len(value) == 2:
            small[key] = [32, 24]  # of experts of text and of images
        elif isinstance(value, list) and n_layers and len(value) >= n_layers:
            small[key] = value[:_N_LAYERS]
        elif isinstance(value, dict) and key in {"linear_attn_config", "sparse_attention_config"}:
            small[key] = _small_section(value, n_layers)
    if n_layers:
        small["num_hidden_layers"] = min(n_layers, _N_LAYERS)
    # As many as query heads where it was so, or where the family has no such heads; else a few.
    heads = text.get("num_attention_heads")
    kv_heads = text.get("num_key_value_heads") or heads
    small["num_key_value_heads"] = {heads: 8, 1: 1}.get(kv_heads, 2)
    return small | _by_type(text, small)


def _by_type(text: Mapping[str, Any], small: Mapping[str, Any]) -> dict[str, Any]:
    """Return the small sizes of what few classes have, or have otherwise."""
    own: dict[str, Any] = {}
    kind = str(text.get("model_type"))
    if kind.startswith(_THREE_POSITIONS):
        # half a head's width, in thirds for time, height and width
        part = small.get("head_dim", 8) // 8
        parts = [part, part, 2 * part] if "moe_k" in text else [2 * part, part, part]
        usual = {"rope_type": "default", "mrope_section": parts}
        own |= {"rope_scaling": usual, "rope_parameters": None}
    if kind.startswith(("cosmos3_edge", "hy_v4_vl")):
        half = small.get("qk_rope_head_dim", small["head_dim"]) // 2
        sections = [half // 2, half // 4, half // 4]
        own["rope_parameters"] = {**text["rope_parameters"], "mrope_section": sections}
    if "expert_ffn_hidden_size" in text or kind in {"axk1", "youtu"}:
        # They rotate as much of a head as their classes have by default.
        own["head_dim"] = small["qk_rope_head_dim"]
    if kind == "zaya":
        own["num_experts_per_tok"] = 1  # its class has no other
    if kind == "helium":
        own["head_dim"] = 8  # its output is as wide as it takes
    if text.get("attn_layer_indices"):
        own["attn_layer_indices"] = [3]  # one of the first layers, in the place of later ones
    if text.get("num_global_key_value_heads"):
        own["num_global_key_value_heads"] = 1
    return own


def _small_section(section: Mapping[str, Any], n_layers: int) -> dict[str, Any]:
    """Return a section of Kimi Linear or MiniMax-M3, whose lists are by layer or of layers."""
    small = dict(section)
    for key, value in section.items():
        if isinstance(value, list):
            whole = len(value) >= n_layers
            small[key] = value[:_N_LAYERS] if whole else [n for n in value if n <= _N_LAYERS]
    sizes = {"num_heads": 4, "head_dim": 16, "sparse_num_index_heads": 4, "sparse_index_dim": 16}
    sizes |= {"sparse_topk_blocks": 2, "sparse_block_size": 4}
    return small | {key: size for key, size in sizes.items() if key in section}
