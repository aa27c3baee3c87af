"""Kimi Linear and Kimi K3: delta attention, latent attention every fourth layer, experts.

Source
    Kimi Linear report, arXiv:2510.26692; transformers 5, `models/kimi_linear/`; mlx-lm,
    `models/kimi_linear.py` and `models/kimi_k3.py`, with the names of the published tensors.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from specroof.architecture.base import (
    ATTENTION_REPLICATED,
    HEADS,
    Linear,
    Shard,
)
from specroof.architecture.model import Architecture, Block
from specroof.architecture.recurrent import KimiDeltaAttention
from specroof.parsers.decoder import (
    BlockBuilder,
    LayerPart,
    decoder,
    extended,
    feed_forward_of,
    listed_kinds,
    matrices,
)
from specroof.parsers.families.deepseek_v3 import latent_block, latent_shape
from specroof.parsers.formats import LayerWeights
from specroof.parsers.model_config import ModelConfig
from specroof.parsers.traits import BLOCK_SPARSE_NAMES, ExpertTraits, Traits
from specroof.reading.json_text import Reader

DELTA: Final = "linear_attention"
_FULL: Final = "full_attention"
#: Without a default of shared experts and of dense layers: 0 in mlx-lm, 1 in transformers.
_ROUTING: Final = ExpertTraits(
    "num_experts",
    top_k=("num_experts_per_token", "num_experts_per_tok"),
    shared=("num_shared_experts n_shared_experts", None),
    correction_bias=True,
    dense=("first_k_dense_replace", None),
    stride="moe_layer_freq",
    # kimi_k3.py of mlx-lm: experts of K3 work at another width, with a norm behind them.
    inner=("routed_expert_hidden_size", "routed_expert_down_proj", "routed_expert_up_proj"),
    inner_norms=(("latent_moe_use_norm", False),),
    names=BLOCK_SPARSE_NAMES,
)


def parse_kimi_linear(config: ModelConfig) -> Architecture:
    """Return a Kimi Linear, or the language model of a Kimi K3.

    Ignores
        the arithmetic of K3's block residuals: a dot product with each of up to eight earlier
        blocks, 0.3 MFLOP of a sublayer's 900; their weights are counted.
    """
    keys, hidden_size = config.keys, config.hidden_size
    keys.pass_over(
        "activation_situ_beta activation_situ_linear_beta linear_conv_kernel_dim "
        "linear_head_dim linear_num_heads mla_use_nope moe_renormalize moe_router_activation_func "
        "use_grouped_topk"
    )
    mixers = {_FULL: _latent_builder(keys), DELTA: delta_builder(keys)}
    sparse, feed_forward = feed_forward_of(config, Traits(routing=_ROUTING))
    # Per sublayer, and once behind the last: a projection to one number, and a norm.
    residual_params = 0
    if keys.has("attn_res_block_size"):  # Kimi K3, whose classes are not those of its text's type
        config, residual_params = replace(config, family="kimi_k3"), 2 * hidden_size

    def mixer(kind: str, weights: LayerWeights) -> Block:
        return extended(mixers[kind](weights), n_params=residual_params)

    def behind(is_sparse: bool, weights: LayerWeights) -> Block:
        return extended(feed_forward(is_sparse, weights), n_params=residual_params)

    return decoder(
        config,
        LayerPart(_layer_kinds(config), mixer),
        LayerPart(sparse, behind),
        vector_params=hidden_size + residual_params,
    )


def _latent_builder(keys: Reader) -> BlockBuilder:
    """Return what builds latent attention: no rotary positions, though their dimensions are cached.

    K3 has an output gate.
    """
    latent = latent_shape(keys)
    # modeling_kimi_linear.py: no gate unless a key says so.
    if not keys.flag("mla_use_output_gate", default=False):
        return lambda weights: latent_block(latent, weights)
    gate = ("g_proj", latent.hidden_size, latent.n_heads * latent.value_dim)
    return lambda weights: extended(
        latent_block(latent, weights), *matrices(weights, "self_attn.", HEADS, gate)
    )


def delta_builder(keys: Reader) -> BlockBuilder:
    """Return what builds delta attention; q, k and v are one matrix.

    Vectors: the norm before it, A_log per head, dt_bias per channel, the gated norm of one head.
    """
    section, hidden_size = keys.section("linear_attn_config"), keys.positive_int("hidden_size")
    delta = _delta(keys, section)
    # kimi_k3.py: the output gate is two matrices of one head's rank unless a key says so.
    full_rank = section is not None and section.flag("use_full_rank_gate", default=False)
    rows = tuple(_delta_matrices(hidden_size, delta, full_rank_gate=full_rank))
    vectors = hidden_size + delta.n_heads + delta.n_heads * delta.head_dim + delta.head_dim

    def build(weights: LayerWeights) -> Block:
        linears = tuple(
            Linear(name, in_features, out_features, weights(f"self_attn.{stored}"), shard)
            for name, stored, in_features, out_features, shard in rows
        )
        return Block("attention", linears, delta, vector_params=vectors)

    return build


def _delta(keys: Reader, section: Reader | None) -> KimiDeltaAttention:
    """Return the sizes of delta attention, nested as published or flat as transformers saves."""
    # configuration_kimi_linear.py: a kernel of 4
    if section is None:
        if not keys.has("linear_num_heads"):
            keys.refuse("linear_attn_config", "an object with num_heads and head_dim")
        n_heads = keys.positive_int("linear_num_heads")
        head_dim = keys.positive_int("linear_head_dim")
        conv_kernel = keys.positive_int("linear_conv_kernel_dim", default=4)
    else:
        section.pass_over("kda_layers full_attn_layers gate_lower_bound")
        n_heads = section.positive_int("num_heads")
        head_dim = section.positive_int("head_dim")
        conv_kernel = section.positive_int("short_conv_kernel_size", default=4)
    return KimiDeltaAttention(n_heads, head_dim, conv_kernel, conv_columns=conv_kernel - 1)


def _layer_kinds(config: ModelConfig) -> tuple[str, ...]:
    """Return each layer's kind of attention; the published lists count layers from 1."""
    keys, n_layers = config.keys, config.n_layers
    if kinds := listed_kinds(keys, "layer_types", (DELTA, _FULL), n_layers):
        return kinds
    section = keys.section("linear_attn_config")
    if section is None:
        keys.refuse("linear_attn_config", "an object with kda_layers and full_attn_layers")
    listed = {
        key: frozenset(section.ints(key, minimum=1)) for key in ("kda_layers", "full_attn_layers")
    }
    for number in range(1, n_layers + 1):
        if (number in listed["kda_layers"]) == (number in listed["full_attn_layers"]):
            allowed = f"layer {number} in one of kda_layers and full_attn_layers"
            section.refuse("kda_layers", allowed)
    return tuple(
        DELTA if number in listed["kda_layers"] else _FULL for number in range(1, n_layers + 1)
    )


def _delta_matrices(
    hidden_size: int, delta: KimiDeltaAttention, *, full_rank_gate: bool
) -> Iterator[tuple[str, str, int, int, Shard]]:
    """Yield name, name in the checkpoint, widths and shard of each projection."""
    head_dim, inner_dim = delta.head_dim, delta.n_heads * delta.head_dim
    yield "qkv_proj", "q_proj", hidden_size, 3 * inner_dim, HEADS
    # Decay of each channel through one head's width, write strength of each head.
    yield "f_a_proj", "f_a_proj", hidden_size, head_dim, ATTENTION_REPLICATED
    yield "f_b_proj", "f_b_proj", head_dim, inner_dim, HEADS
    yield "b_proj", "b_proj", hidden_size, delta.n_heads, HEADS
    if full_rank_gate:
        yield "g_proj", "g_proj", hidden_size, inner_dim, HEADS
    else:
        yield "g_a_proj", "g_a_proj", hidden_size, head_dim, ATTENTION_REPLICATED
        yield "g_b_proj", "g_b_proj", head_dim, inner_dim, HEADS
    yield "o_proj", "o_proj", inner_dim, hidden_size, HEADS
