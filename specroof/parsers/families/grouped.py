"""Decoders of grouped queries whose shape keys choose, or whose sizes stand elsewhere.

Falcon, Molmo 2, DBRX and OPT.

Source
    transformers 5.24, `models/falcon/`, `models/molmo2/`, `models/dbrx/` and `models/opt/`
    (`modeling_*.py`, `configuration_*.py`); of OPT Zhang et al. 2022, arXiv:2205.01068, table 1.
"""

from dataclasses import replace
from typing import Final

from specroof.architecture.attention import GroupedQueryAttention
from specroof.architecture.base import HEADS, TENSOR
from specroof.architecture.model import Architecture, AttentionShape, Block
from specroof.parsers.decoder import ExpertsShape, LayerWeights, ModelConfig, decoder_of


def parse_falcon(config: ModelConfig) -> Architecture:
    """Return a Falcon: of both branches or one after the other, behind one norm or two."""
    # configuration_falcon.py: new_decoder_architecture False
    is_new = config.keys.flag("new_decoder_architecture", default=False)
    usual = 2 if is_new else 1
    norms = config.keys.positive_int("num_ln_in_parallel_attn", maximum=2, default=usual)
    traits = replace(config.traits, one_norm=norms == 1)
    if is_new:
        spelled = {**traits.spelled, "num_key_value_heads": "num_kv_heads"}
        traits = replace(traits, kv_heads="heads", spelled=spelled)
    return decoder_of(config.of_row(traits))


def parse_molmo2(config: ModelConfig) -> Architecture:
    """Return a Molmo 2, with norms of queries and keys as Qwen 3 or OLMo 2 has them.

    Its head has no rows for words of images, which stand beside the embedding.
    """
    kind = config.keys.text("qk_norm_type", allowed=("qwen3", "olmo"), default="qwen3")
    span = "head" if kind == "qwen3" else "heads"
    return decoder_of(config.of_row(replace(config.traits, norm_span=span)))


def parse_dbrx(config: ModelConfig) -> Architecture:
    """Return a DBRX, whose norms and matrices have no bias."""
    keys = config.keys
    attention, feed_forward = (
        keys.required_section(name, "an object with the sizes of that part")
        for name in ("attn_config", "ffn_config")
    )
    attention.pass_over("attn_pdrop clip_qkv rope_theta")
    feed_forward.pass_over(
        "ffn_act_fn hidden_size moe_jitter_eps moe_loss_weight moe_normalize_expert_weights"
    )
    n_heads = keys.divisor("n_heads", of=config.hidden_size, called="d_model")
    shape = AttentionShape(
        config.hidden_size,
        n_heads,
        attention.divisor("kv_n_heads", of=n_heads, called="n_heads"),
        config.hidden_size // n_heads,
    )
    n_experts = feed_forward.positive_int("moe_num_experts")
    experts = ExpertsShape(
        config.hidden_size,
        n_experts,
        feed_forward.positive_int("moe_top_k", maximum=n_experts),
        feed_forward.positive_int("ffn_hidden_size"),
    )
    return config.decoder(
        config.same_part(lambda weights: weights.attention(shape, module="norm_attn_norm.attn")),
        config.same_part(lambda weights: weights.experts(experts, config.routing.names)),
    )


#: `OPTLearnedPositionalEmbedding.offset`: rows before the one of the first position.
_POSITION_OFFSET: Final = 2


def parse_opt(config: ModelConfig) -> Architecture:
    """Return an OPT."""
    keys = config.keys
    hidden_size = config.hidden_size
    # configuration_opt.py: word_embed_proj_dim as hidden_size, max_position_embeddings 2048,
    # enable_bias, layer_norm_elementwise_affine, do_layer_norm_before and tie_word_embeddings
    # True, _remove_final_layer_norm False.
    n_heads = keys.divisor("num_attention_heads", of=hidden_size, called="hidden_size")
    if keys.positive_int("word_embed_proj_dim", default=hidden_size) != hidden_size:
        keys.refuse("word_embed_proj_dim", f"hidden_size ({hidden_size})")
    affine = keys.flag("layer_norm_elementwise_affine", default=True)
    norm_params = 2 * hidden_size if affine else 0
    width, bias = keys.positive_int("ffn_dim"), keys.flag("enable_bias", default=True)
    final_norm = keys.flag("do_layer_norm_before", default=True) and not keys.flag(
        "_remove_final_layer_norm", default=False
    )
    positions = keys.positive_int("max_position_embeddings", default=2048) + _POSITION_OFFSET
    head_dim = hidden_size // n_heads
    core = GroupedQueryAttention(n_heads, n_heads, head_dim, head_dim)

    def attention(weights: LayerWeights) -> Block:
        names = ("q_proj", "k_proj", "v_proj", "out_proj")
        rows = [(name, hidden_size, hidden_size) for name in names]
        linears = weights.matrices("self_attn.", HEADS, *rows, bias=bias)
        return Block("attention", linears, core, vector_params=norm_params)

    def feed_forward(weights: LayerWeights) -> Block:
        rows = ("fc1", hidden_size, width), ("fc2", width, hidden_size)
        linears = weights.matrices("", TENSOR, *rows, bias=bias)
        return Block("feed_forward", linears, vector_params=norm_params)

    return config.decoder(
        config.same_part(attention),
        config.same_part(feed_forward),
        vector_params=norm_params if final_norm else 0,
        lookup_params=positions * hidden_size,
    )
