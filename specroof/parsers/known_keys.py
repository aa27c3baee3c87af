"""Keys of configs that change no cost, and the note about keys that were not read.

A config comes from strangers, and a key that this library does not know may change what the model
costs. So each object remembers what it was asked for (`AskedObject` of `specroof.reading`), and
what is left is named in a note, unless it stands in a table here. A key that is null, false, zero
or empty is switched off, and never named.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from specroof.reading.json_object import AskedObject, printable

#: Keys that say nothing of cost in any family: names and versions, tokens, positions, numerics,
#: training, generation, files of other tools.
_IRRELEVANT_WORDS: Final = """
    architectures auto_map model_type transformers_version dtype torch_dtype use_cache
    name_or_path id2label label2id return_dict is_decoder task_specific_params problem_type
    tokenizer_class unsloth_fixed unsloth_version max_position_embeddings
    original_max_position_embeddings model_max_length max_sequence_length
    initial_context_length seq_length max_seq_len context_window_size prefill_chunk_size
    rotary_dim partial_rotary_factor partial_rotary_factors position_embedding_type ntk_alpha
    hidden_act hidden_activation initializer_range initializer_factor init_std init_method
    query_pre_attn_scalar attention_value_scale scale_attn_weights embedding_multiplier
    logits_scaling logit_scale scale_emb scale_depth dim_model_base mup_enabled
    final_logit_softcapping attn_logit_softcapping n_group topk_group num_expert_group
    norm_topk_prob scoring_func topk_method routed_scaling_factor moe_router_scaling_factor
    seq_aux aux_loss_alpha output_router_logits router_jitter_noise pretraining_tp ep_size
    cache_implementation attn_implementation layer_norm_type length_penalty max_length
    min_length max_new_tokens num_beams num_beam_groups do_sample num_return_sequences
    repetition_penalty temperature top_k top_p typical_p diversity_penalty num_logits_to_keep
    chunk_size_feed_forward output_attentions output_hidden_states bad_words_ids
    suppress_tokens language_model_only swiglu_alpha swiglu_limit swiglu_limits
    swiglu_limits_shared use_mtp num_nextn_predict_layers
"""
_IRRELEVANT: Final = frozenset(_IRRELEVANT_WORDS.split())

#: The same by how a name begins or ends.
_IRRELEVANT_NAMES: Final = re.compile(
    r"_.*|rope_.*|.*_rope|.*_rope_theta|.*_token|.*_token_ids?|.*_token_index|.*_eps|.*_epsilon"
    r"|.*dropout|.*_loss_coef|.*_loss_weight|.*_hidden_act|time_step_.*"
    # of draft layers, which the model's sizes are without
    r"|mtp_.*|num_mtp_.*|dspark_.*"
)

#: Objects that others read, or that hold what is not the language model.
_READ_ELSEWHERE: Final = frozenset(
    ("text_config", "quantization_config", "vision_config", "audio_config")
)
#: What a note shows at most.
_MAX_KEYS: Final = 6

#: Attention over a latent, whose cache has no heads.
_LATENT: Final = "head_dim num_key_value_heads qk_head_dim"
#: Windows that are switched off, and the width of a dense layer where none is dense.
_QWEN: Final = "max_window_layers sliding_window intermediate_size use_qk_norm"
_V4: Final = "hc_sinkhorn_iters expert_dtype compress_ratios num_hash_layers"
_KIMI: Final = f"""
    {_LATENT} activation_situ_beta activation_situ_linear_beta first_k_dense_replace moe_layer_freq
    linear_attn_config.kda_layers linear_attn_config.full_attn_layers linear_conv_kernel_dim
    linear_attn_config.gate_lower_bound linear_head_dim linear_num_heads mla_use_nope
    moe_renormalize moe_router_activation_func use_grouped_topk
"""
_MINIMAX: Final = """
    layernorm_full_attention_alpha layernorm_full_attention_beta layernorm_linear_attention_alpha
    layernorm_linear_attention_beta layernorm_mlp_alpha layernorm_mlp_beta postnorm shared_moe_mode
    mlp_intermediate_size
"""
_MINIMAX_M3: Final = """
    first_k_dense_replace moe_intermediate_size moe_layer_freq qk_norm_type use_gemma_norm
    sparse_attention_config.sparse_local_block sparse_attention_config.sparse_score_type
    dense_intermediate_size index_n_heads index_head_dim index_block_size index_topk_blocks
    index_local_blocks
"""

#: Keys that a family knows and does not need: parts that draft, its numerics, and what
#: another key of the same file says already. By `model_type` without ``_text``.
_KNOWN: Final[Mapping[str, frozenset[str]]] = {
    family: frozenset(keys.split())
    for family, keys in {
        "deepseek_ref": _V4,
        "deepseek_v2": _LATENT,
        "deepseek_v3": _LATENT,
        "deepseek_v32": f"{_LATENT} first_k_dense_replace moe_layer_freq",
        "deepseek_v4": _V4,
        "falcon_h1": """
            attention_in_multiplier attention_out_multiplier key_multiplier lm_head_multiplier
            mlp_multipliers ssm_in_multiplier ssm_multipliers ssm_out_multiplier mamba_chunk_size
            mamba_expand mamba_norm_before_gate mamba_use_mlp
        """,
        "gemma2": "sliding_window_size",
        "gemma4": "global_head_dim num_global_key_value_heads",
        "gemma4_unified": "vocab_size_per_layer_input global_head_dim num_global_key_value_heads",
        "glm4_moe_lite": f"{_LATENT} first_k_dense_replace moe_layer_freq",
        "glm_moe_dsa": f"""
            {_LATENT} index_share_for_mtp_iteration index_skip_topk_offset index_topk_freq
            indexer_rope_interleave first_k_dense_replace moe_layer_freq moe_router_dtype num_experts
        """,
        "gpt_oss": "experts_per_token",
        "granitemoehybrid": """
            attention_multiplier residual_multiplier mamba_chunk_size intermediate_size
        """,
        "kimi_k2": _LATENT,
        "kimi_k25": _LATENT,
        "kimi_k3": _KIMI,
        "kimi_linear": _KIMI,
        "llama4": """
            attn_scale attn_temperature_tuning floor_scale no_rope_layers no_rope_layer_interval
            interleave_moe_layer_step intermediate_size_mlp use_qk_norm
        """,
        "mimo": f"{_QWEN} attention_bias",
        "minimax": _MINIMAX,
        "minimax_m1": _MINIMAX,
        "minimax_m2": _MINIMAX,
        "minimax_m3": _MINIMAX_M3,
        "minimax_m3_vl": _MINIMAX_M3,
        "minimax_text_01": _MINIMAX,
        "mistral_large3": _LATENT,
        "mistral4": _LATENT,
        "nemotron_h": """
            attention_head_dim chunk_size expand intermediate_size moe_intermediate_size
            moe_shared_expert_intermediate_size moe_shared_expert_overlap n_routed_experts
            n_shared_experts num_experts_per_tok rescale_prenorm_residual use_mamba_kernels
        """,
        "opt": "activation_function",
        "qwen2": _QWEN,
        "qwen2_moe": _QWEN,
        "qwen3": _QWEN,
        "qwen3_5": "full_attention_interval output_gate_type",
        "qwen3_5_moe": "full_attention_interval output_gate_type intermediate_size",
        "qwen3_moe": _QWEN,
        "qwen3_next": "full_attention_interval intermediate_size",
        "qwen3_vl": _QWEN,
        "qwen3_vl_moe": _QWEN,
        "step3p5": "num_sliding_attention_heads attention_other_setting",
        "step3p7": "num_sliding_attention_heads attention_other_setting",
    }.items()
}


def unread_keys(values: object, family: str) -> list[str]:
    """Return the unread keys of an object, and of objects in it, that no table lists.

    Examples
    --------
    >>> values = AskedObject([("hidden_size", 64), ("n_streams", 4), ("rms_norm_eps", 1e-6)])
    >>> values.get("hidden_size"), unread_keys(values, "llama")
    (64, ['n_streams'])
    """
    known = _KNOWN.get(family.removesuffix("_text"), frozenset())
    return list(_unread(values, known, ""))


def unread_notes(keys: Sequence[str]) -> list[str]:
    """Return the note that names unread keys, if there are any.

    Examples
    --------
    >>> unread_notes(["n_streams"])
    ['not understood, and may change what the model costs: n_streams']
    """
    if not keys:
        return []
    shown = ", ".join(printable(key) for key in keys[:_MAX_KEYS])
    more = f" and {len(keys) - _MAX_KEYS} more" if len(keys) > _MAX_KEYS else ""
    return [f"not understood, and may change what the model costs: {shown}{more}"]


def _unread(values: object, known: frozenset[str], prefix: str) -> Iterator[str]:
    if not isinstance(values, AskedObject):
        return
    for key, value in values.items():
        name = f"{prefix}{key}"
        if key in values.asked:
            if key not in _READ_ELSEWHERE:
                yield from _unread(value, known, f"{name}.")
        elif value and not (
            key in _IRRELEVANT or name in known or _IRRELEVANT_NAMES.fullmatch(key)
        ):
            yield name
