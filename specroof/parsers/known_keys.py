"""Keys of configs that change no cost, and the note about keys that were not read.

A config comes from strangers, and a key that this library does not know may change what the model
costs. So each object remembers what it was asked for (`AskedObject` of `specroof.reading`), and
what is left is named in a note, unless it stands in a table here. A key that is null, false, zero
or empty is switched off, and never named.
"""

import re
from collections.abc import Iterator, Sequence
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


def unread_keys(values: object, prefix: str = "") -> Iterator[str]:
    """Yield the unread keys of an object, and of objects in it, that may change a cost.

    Examples
    --------
    >>> values = AskedObject([("hidden_size", 64), ("n_streams", 4), ("rms_norm_eps", 1e-6)])
    >>> values.get("hidden_size"), list(unread_keys(values))
    (64, ['n_streams'])
    """
    if not isinstance(values, AskedObject):
        return
    for key, value in values.items():
        if key in values.asked:
            if key not in _READ_ELSEWHERE:
                yield from unread_keys(value, f"{prefix}{key}.")
        elif value and not (
            key in _IRRELEVANT or key in values.passed or _IRRELEVANT_NAMES.fullmatch(key)
        ):
            yield f"{prefix}{key}"


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
