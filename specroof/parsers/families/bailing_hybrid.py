"""Ling and Ring 2.5 and 3: linear attention, latent attention in the last layer of each group.

Source
    transformers 5.23, `models/bailing_hybrid/` (`modeling_*.py`, `configuration_*.py`), which is
    Ling 3; vLLM 0.33.0, `models/bailing_moe_v3.py`, `models/bailing_moe_linear.py` and
    `layers/mamba/linear/bailing_linear_attn.py`; SGLang 0.5.23, `configs/bailing_hybrid.py`.
"""

from typing import Final

from specroof.architecture.base import HEADS
from specroof.architecture.model import Architecture, Block
from specroof.architecture.recurrent import KimiDeltaAttention, LightningAttention
from specroof.parsers.decoder import (
    BlockBuilder,
    LayerPart,
    decoder,
    extended,
    feed_forward_of,
    listed_kinds,
    matrices,
)
from specroof.parsers.families.deepseek_v3 import LatentShape, latent_block
from specroof.parsers.formats import LayerWeights
from specroof.parsers.model_config import ModelConfig
from specroof.parsers.traits import LING_SHARED, ExpertTraits, Traits
from specroof.reading.json_text import Reader

_LINEAR: Final = "linear_attention"
_FULL: Final = "full_attention"
#: What the output gate of latent attention is as wide as.
_GATES: Final = ("head_wise", "element_wise")


def parse_bailing_hybrid(config: ModelConfig) -> Architecture:
    """Return a Ling or Ring: of version 3 where it has short convolutions, else of version 2.5."""
    keys, n_layers = config.keys, config.n_layers
    keys.pass_over(
        "group_norm_size linear_rope linear_silu use_linear_silu kda_safe_gate kda_lower_bound "
        "norm_head norm_softmax num_key_value_heads num_kv_heads_for_linear_attn rope_interleave "
        "router_dtype router_type score_function use_mla_nope use_rmsnorm moe_renormalize "
        "head_dim qk_head_dim max_window_layers layer_group_size "
        "linear_conv_kernel_dim mtp_loss_scaling_factor"
    )
    for key in ("use_bias", "use_qkv_bias", "multi_gate"):
        if keys.flag(key, default=False):
            keys.refuse(key, "false")
    has_delta = keys.has("short_conv_kernel_size")
    linear = _delta_builder(keys) if has_delta else _lightning_builder(keys)
    full = _latent_builder(keys, gate_default="head_wise" if has_delta else "")
    routing = ExpertTraits(
        "num_experts",
        top_k=("num_experts_per_tok", "num_experts_per_token"),
        # configuration_bailing_hybrid.py: n_shared_experts 1, as wide as the others
        shared=("num_shared_experts n_shared_experts", 1),
        each_shared=LING_SHARED,
        correction_bias=("moe_router_enable_expert_bias", has_delta),
        # configuration_bailing_hybrid.py: first_k_dense_replace 2; bailing_moe_linear.py: 0
        dense=("first_k_dense_replace", 2 if has_delta else 0),
        stride="moe_layer_freq",
    )

    def mixer(kind: str, weights: LayerWeights) -> Block:
        return (full if kind == _FULL else linear)(weights)

    return decoder(
        config,
        LayerPart(_kinds(keys, n_layers), mixer),
        LayerPart(*feed_forward_of(config, Traits(routing=routing))),
    )


def _kinds(keys: Reader, n_layers: int) -> tuple[str, ...]:
    """Return each layer's kind: by a list, or full attention in every last one of a group."""
    if listed := listed_kinds(keys, "layer_types", (_LINEAR, _FULL), n_layers):
        return listed
    # SGLang: a list of 1 for linear attention and 0, or the number of layers of a group
    if isinstance(keys.values.get("layer_group_size"), list):
        flags = keys.ints("layer_group_size", allowed=(0, 1), at_least=n_layers)
        return tuple(_LINEAR if flag else _FULL for flag in flags[:n_layers])
    size = keys.positive_int("layer_group_size")
    if n_layers % size:
        keys.refuse("layer_group_size", f"a divisor of the {n_layers} layers")
    return tuple(_LINEAR if (index + 1) % size else _FULL for index in range(n_layers))


def _latent_builder(keys: Reader, *, gate_default: str) -> BlockBuilder:
    """Return what builds latent attention, whose gate is as wide as its heads, or their values."""
    hidden_size = keys.positive_int("hidden_size")
    shape = LatentShape(
        hidden_size,
        keys.positive_int("num_attention_heads"),
        keys.optional_int("q_lora_rank"),
        keys.positive_int("kv_lora_rank"),
        keys.positive_int("qk_nope_head_dim"),
        keys.positive_int("qk_rope_head_dim"),
        keys.positive_int("v_head_dim"),
        bias=keys.flag("attention_bias", default=False),
    )
    gate = keys.text("gated_attention_proj_granularity_type", allowed=_GATES, default=gate_default)
    width = shape.n_heads * (shape.value_dim if gate == "element_wise" else 1)
    gates = (("g_proj", hidden_size, width),) if gate else ()
    return lambda weights: extended(
        latent_block(shape, weights), *matrices(weights, "self_attn.", HEADS, *gates)
    )


def _delta_builder(keys: Reader) -> BlockBuilder:
    """Return what builds Kimi delta attention whose decay and gate are whole matrices.

    Vectors: the norm before it, A_log per head, dt_bias per channel, the gated norm of one head.
    """
    if not keys.flag("no_kda_lora", default=True):
        keys.refuse("no_kda_lora", "true, as vLLM expects")
    hidden_size = keys.positive_int("hidden_size")
    # A file that transformers saves has the rotary width as head_dim.
    head_dim = keys.positive_int("linear_head_dim", "head_dim", default=128)
    n_heads = keys.positive_int("linear_num_heads", "num_attention_heads")
    kernel = keys.positive_int("short_conv_kernel_size")
    core = KimiDeltaAttention(n_heads, head_dim, kernel, conv_columns=kernel - 1)
    inner = n_heads * head_dim
    rows = (
        ("q_proj", hidden_size, inner),
        ("k_proj", hidden_size, inner),
        ("v_proj", hidden_size, inner),
        ("f_proj", hidden_size, inner),
        ("b_proj", hidden_size, n_heads),
        ("g_proj", hidden_size, inner),
        ("o_proj", inner, hidden_size),
    )
    vectors = hidden_size + n_heads + inner + head_dim
    return lambda weights: Block(
        "attention", matrices(weights, "self_attn.", HEADS, *rows), core, vector_params=vectors
    )


def _lightning_builder(keys: Reader) -> BlockBuilder:
    """Return what builds lightning attention; its group norm spans all heads."""
    hidden_size, n_heads = (
        keys.positive_int("hidden_size"),
        keys.positive_int("num_attention_heads"),
    )
    core = LightningAttention(n_heads, keys.positive_int("head_dim"))
    inner = n_heads * core.head_dim
    rows = (
        ("query_key_value", hidden_size, 3 * inner),
        ("g_proj", hidden_size, inner),
        ("dense", inner, hidden_size),
    )
    head_norms = 2 * core.head_dim if keys.flag("use_qk_norm", default=False) else 0
    vectors = hidden_size + inner + head_norms
    return lambda weights: Block(
        "attention", matrices(weights, "attention.", HEADS, *rows), core, vector_params=vectors
    )
